//! Refresh by a timetable: software decides when each rank is refreshed ([Pan18, chapters 4 and 5]).
//!
//! A rank is *locked* for a window of time, in which software must not use it. Meanwhile its refreshes are sent in a
//! burst, one each tRFC. Windows repeat with a period; ranks with overlapping windows are refreshed in parallel.
//!
//! ```text
//! start           + jitter   + closing                                             end
//! |  locked       |  PREA    |  REF  | tRFC |  REF  | tRFC | ...  |  REF  | tRFC |  |
//! ```
//!
//! A burst begins at a fixed distance after its window's start (except for jitter), however long the rows took to
//! close: so two bursts are exactly a period apart, and a period of exactly tRET is enough.

use crate::error::DramError;
use crate::index::{Cycle, RankIndex};
use crate::refresh::{NEVER, Refresh, RefreshEngine, Scope, Traffic};
use crate::standard::Device;
use crate::timing::Timing;
use memtint_units::random::at;

/// Longest period in cycles: a quarter of an hour at 1.2 GHz.
const PERIOD_MAX: u64 = 1 << 40;
/// Most REF commands of a rank in a period.
const COMMANDS_MAX: u64 = 1 << 20;

/// A window in which a rank is locked and its refreshes are sent one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshWindow {
    /// First cycle, counted from the start of the period.
    pub start: u64,
    /// First cycle after it.
    pub end: u64,
    /// REF commands sent in it.
    pub commands: u32,
}

/// Windows of one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankTimetable {
    /// Cycles after which the windows repeat.
    pub period: u64,
    /// Delay of all windows in cycles, modulo the period.
    pub phase: u64,
    /// Largest random delay of a burst within its window, in cycles; 0 for none.
    pub jitter: u64,
    /// The windows of a period.
    pub windows: Vec<RefreshWindow>,
}

/// The refresh times of each rank of a channel: verified to refresh every row within tRET, whatever the jitter.
///
/// ```
/// use memtint_dram::{Cycle, DeviceChoice, RankIndex, RankTimetable, RefreshWindow, Standard, Timetable};
///
/// let device = Standard::load("ddr3-1600")?.device(DeviceChoice { ranks: 2, ..DeviceChoice::default() })?;
/// let (period, length) = (device.refresh.window_cycles, Timetable::burst_cycles(&device, 2, device.refresh.commands, 0));
/// let window = RefreshWindow { start: 0, end: length, commands: device.refresh.commands };
/// let rank = |phase| RankTimetable { period, phase, jitter: 0, windows: vec![window] };
/// // The two servers of CRS: half of tRET apart.
/// let timetable = Timetable::new(&[rank(period / 2), rank(0)], &device, 1)?;
/// assert!(timetable.is_locked(RankIndex(1), Cycle(100)) && !timetable.is_locked(RankIndex(0), Cycle(100)));
/// let half = RefreshWindow { commands: device.refresh.commands / 2, ..window };
/// let short = RankTimetable { windows: vec![half], ..rank(0) };
/// assert!(Timetable::new(&[rank(0), short], &device, 1).is_err(), "half of the rows are refreshed too late");
/// # Ok::<(), memtint_dram::DramError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timetable {
    /// The windows' starts include the phases, and ascend.
    ranks: Vec<RankTimetable>,
    seed: u64,
    rfc: u64,
    closing: u64,
}

impl Timetable {
    /// Verifies a timetable for a channel with such devices: an entry for each of its ranks, in order. `seed` seeds the jitter.
    ///
    /// Uses the device's tRFC and number of REF commands (8192 in 64 ms for DDR3 of every density; tRFC grows with it).
    ///
    /// # Errors
    /// [`DramError::Timetable`] with the rank, the window, the value found and the value required: windows outside the period or
    /// overlapping, bursts that do not fit, rows that are not refreshed within tRET.
    pub fn new(ranks: &[RankTimetable], device: &Device, seed: u64) -> Result<Timetable, DramError> {
        let count = ranks.len() as u32;
        let closing = closing_cycles(&device.timing, count);
        let rfc = u64::from(device.timing.rfc);
        let mut timetable = Timetable { ranks: Vec::new(), seed, rfc, closing };
        for (rank, entry) in (0..).map(RankIndex).zip(ranks) {
            timetable.ranks.push(folded(rank, entry)?);
        }
        // Bursts that repeat exactly are delayed on the command bus by exactly as much each time.
        let first = timetable.ranks.first();
        let exact =
            timetable.ranks.iter().all(|rank| rank.jitter == 0 && Some(rank.period) == first.map(|rank| rank.period));
        let late = if exact { 0 } else { bus_cycles(count) };
        for (rank, entry) in (0..).map(RankIndex).zip(&timetable.ranks) {
            for (window, bounds) in entry.windows.iter().enumerate() {
                let needed = Timetable::burst_cycles(device, count, bounds.commands, entry.jitter);
                let found = bounds.end - bounds.start;
                if found < needed {
                    let needed = format!("{needed} for {} REF", bounds.commands);
                    return Err(fault(rank, Some(window), "its length in cycles", found, needed));
                }
            }
            timetable.judge_retention(rank, entry, late, device)?;
        }
        Ok(timetable)
    }

    /// Gives the length of a window for a number of REF commands, on a channel with a number of ranks: closing of rows,
    /// a REF each tRFC, and the jitter.
    #[must_use]
    pub fn burst_cycles(device: &Device, ranks: u32, commands: u32, jitter: u64) -> u64 {
        let refreshing = u64::from(commands) * u64::from(device.timing.rfc);
        jitter.saturating_add(closing_cycles(&device.timing, ranks) + bus_cycles(ranks) + refreshing)
    }

    /// Makes the engine that follows the timetable.
    #[must_use]
    pub fn engine(&self) -> Box<dyn RefreshEngine> {
        Box::new(Scheduled::new(self.clone()))
    }

    /// Whether a rank is locked in a cycle.
    #[must_use]
    pub fn is_locked(&self, rank: RankIndex, cycle: Cycle) -> bool {
        let rank = &self.ranks[rank.index()];
        let at = cycle.0 % rank.period;
        rank.windows.iter().any(|window| (window.start..window.end).contains(&at))
    }

    /// The windows of each rank; the starts include the phases.
    #[must_use]
    pub fn ranks(&self) -> &[RankTimetable] {
        &self.ranks
    }

    /// Verifies that every row is refreshed again within tRET. A REF refreshes the same rows as the REF that precedes
    /// it by the number of commands that reach all rows.
    fn judge_retention(
        &self,
        rank: RankIndex,
        entry: &RankTimetable,
        late: u64,
        device: &Device,
    ) -> Result<(), DramError> {
        let (all, allowed) = (u64::from(device.refresh.commands), device.refresh.window_cycles);
        let needed = || format!("at most {allowed} (tRET)");
        // First cycle of each command of a period, and its window.
        let starts = entry.windows.iter().enumerate().flat_map(|(window, bounds)| {
            let first = bounds.start + self.closing;
            (0..u64::from(bounds.commands)).map(move |index| (first + index * self.rfc, window))
        });
        let starts: Vec<(u64, usize)> = starts.collect();
        let count = starts.len() as u64;
        if count == 0 {
            return Err(fault(rank, None, "the number of REF commands in a period", 0, "1 or more".to_owned()));
        }
        let at = |index: u64| starts[(index % count) as usize].0 + index / count * entry.period + entry.jitter + late;
        // The last rows are as fresh as at power-up until then.
        let last = at(all - 1);
        if last > allowed {
            let window = Some(starts[((all - 1) % count) as usize].1);
            return Err(fault(
                rank,
                window,
                "the first cycle by which all rows have been refreshed once",
                last,
                needed(),
            ));
        }
        let longest = (0..count).map(|index| (at(index + all) - starts[index as usize].0, starts[index as usize].1));
        // Of several longest ones, the first.
        let longest = longest.max_by_key(|&(cycles, window)| (cycles, std::cmp::Reverse(window)));
        match longest {
            Some((found, window)) if found > allowed => Err(fault(
                rank,
                Some(window),
                "the longest time between two refreshes of its rows in cycles",
                found,
                needed(),
            )),
            _ => Ok(()),
        }
    }
}

/// Cycles that suffice to close a rank's rows in any state, with time for the commands of other ranks.
fn closing_cycles(timing: &Timing, ranks: u32) -> u64 {
    let open = timing.ras.max(timing.write_to_precharge()).max(timing.rtp).max(timing.ppd);
    u64::from((open + timing.rp_ab.max(timing.rp)).max(timing.rc)) + bus_cycles(ranks)
}

/// Most cycles by which refresh commands of other ranks can delay one.
fn bus_cycles(ranks: u32) -> u64 {
    u64::from(ranks) * u64::from(ranks)
}

/// Verifies the entry of one rank, and adds the phase to the windows.
fn folded(rank: RankIndex, entry: &RankTimetable) -> Result<RankTimetable, DramError> {
    let RankTimetable { period, phase, jitter, .. } = *entry;
    if !(1..=PERIOD_MAX).contains(&period) {
        return Err(fault(rank, None, "the period in cycles", period, format!("1 to {PERIOD_MAX}")));
    }
    let commands = entry.windows.iter().map(|window| u64::from(window.commands)).sum::<u64>();
    if commands > COMMANDS_MAX {
        let needed = format!("at most {COMMANDS_MAX}");
        return Err(fault(rank, None, "the number of REF commands in a period", commands, needed));
    }
    if jitter > period {
        return Err(fault(rank, None, "the jitter in cycles", jitter, format!("at most the period, {period}")));
    }
    let mut windows = Vec::new();
    for (index, window) in entry.windows.iter().enumerate() {
        let RefreshWindow { start, end, commands } = *window;
        if start >= end || end > period {
            let needed = format!("start before end, end at most the period, {period}");
            return Err(fault(rank, Some(index), "its place in cycles", format!("{start} to {end}"), needed));
        }
        let from = (start + phase % period) % period;
        let to = from + (end - start);
        if to > period {
            let needed = format!("one that ends within the period of {period} cycles, with its phase of {phase}");
            return Err(fault(rank, Some(index), "its place in cycles", format!("{from} to {to}"), needed));
        }
        windows.push(RefreshWindow { start: from, end: to, commands });
    }
    windows.sort_by_key(|window| window.start);
    for (index, pair) in (1..).zip(windows.windows(2)) {
        if pair[1].start < pair[0].end {
            let needed = format!("{} or later, where the one before it ends", pair[0].end);
            return Err(fault(rank, Some(index), "its start in cycles", pair[1].start, needed));
        }
    }
    Ok(RankTimetable { period, phase: 0, jitter, windows })
}

fn fault(
    rank: RankIndex,
    window: Option<usize>,
    what: &'static str,
    found: impl ToString,
    needed: String,
) -> DramError {
    DramError::Timetable { rank, window, what, found: found.to_string(), needed }
}

/// State of an engine for one rank.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// Period, window in it, and command in that.
    period: u64,
    window: usize,
    command: u32,
    /// First cycle of the burst: from here on its rows are closed.
    opens: Cycle,
    /// When the next command is due.
    due: Cycle,
}

/// Follows a timetable.
#[derive(Debug)]
struct Scheduled {
    timetable: Timetable,
    progress: Vec<Progress>,
}

impl Scheduled {
    fn new(timetable: Timetable) -> Scheduled {
        let none = Progress { period: 0, window: 0, command: 0, opens: NEVER, due: NEVER };
        let mut engine = Scheduled { progress: vec![none; timetable.ranks.len()], timetable };
        for rank in 0..engine.progress.len() {
            engine.open(rank);
        }
        engine
    }

    /// Begins the burst of the present window, or of the next window with commands.
    fn open(&mut self, rank: usize) {
        let Timetable { ranks, seed, .. } = &self.timetable;
        let (entry, progress) = (&ranks[rank], &mut self.progress[rank]);
        loop {
            if progress.window == entry.windows.len() {
                (progress.period, progress.window) = (progress.period + 1, 0);
            }
            // A verified timetable has a window with commands.
            let window = entry.windows[progress.window];
            if window.commands > 0 {
                let late =
                    at(at(*seed, rank as u64), progress.period * entry.windows.len() as u64 + progress.window as u64);
                progress.opens = Cycle(progress.period * entry.period + window.start + late % (entry.jitter + 1));
                (progress.command, progress.due) = (0, progress.opens);
                return;
            }
            progress.window += 1;
        }
    }
}

impl RefreshEngine for Scheduled {
    fn name(&self) -> &'static str {
        "timetable"
    }

    fn wakeup(&self) -> Cycle {
        self.progress.iter().map(|progress| progress.due).min().unwrap_or(NEVER)
    }

    fn poll(&mut self, now: Cycle, _: Traffic<'_>) -> Option<Refresh> {
        let rank = self.progress.iter().position(|progress| progress.due <= now)?;
        let Timetable { rfc, closing, .. } = self.timetable;
        let progress = &mut self.progress[rank];
        let start = |command: u32| progress.opens + closing + u64::from(command) * rfc;
        let earliest = start(progress.command);
        let entry = &self.timetable.ranks[rank];
        debug_assert!(
            earliest + rfc <= Cycle(progress.period * entry.period + entry.windows[progress.window].end),
            "a refresh of rank {rank} at {earliest} is not over by the end of its window"
        );
        let refresh = Refresh { rank: RankIndex(rank as u32), scope: Scope::AllBanks, duration: rfc as u32, earliest };
        progress.command += 1;
        if progress.command < self.timetable.ranks[rank].windows[progress.window].commands {
            progress.due = start(progress.command);
        } else {
            progress.window += 1;
            self.open(rank);
        }
        Some(refresh)
    }

    fn locks(&self) -> Option<&Timetable> {
        Some(&self.timetable)
    }
}
