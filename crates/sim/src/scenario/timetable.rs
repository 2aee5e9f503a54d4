//! When software refreshes the ranks of a scenario.

use super::{Check, SECOND, Scenario, Time, microsecond, yes};
use crate::error::SimError;
use crate::refresh::{LockWindow, SoftRefresh, whole_cycles};
use memtint_dram::{RankTimetable, RefreshWindow, Timetable};
use memtint_units::{IndexSet, Picoseconds};
use serde::{Deserialize, Serialize};

/// Refresh by software, as Colored Refresh and CRS do it: ranks are locked, refreshed in a burst, and unlocked.
///
/// ```toml
/// controller = { refresh = "timetable" }
/// timetable = { period = "64 ms", window = [
///     { ranks = "4-7", start = "0 ms", length = "3 ms" },
///     { ranks = "0-3", start = "32 ms", length = "3 ms" },
/// ] }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimetableSection {
    /// After so long all windows come again: whole cycles of the device's clock, and at most tRET.
    pub period: Time,
    /// The windows of a period.
    pub window: Vec<WindowSection>,
    /// How much later in its window a burst may begin, at random; default 0.
    #[serde(default)]
    pub jitter: Time,
    /// What a lock task takes of each of its cores, at least: time for requests to end and dirty lines to be written back. The burst
    /// begins so long after its release. Default 20 us.
    #[serde(default = "lock")]
    pub lock: Time,
    /// What an unlock task takes of each of its cores; default 1 us.
    #[serde(default = "microsecond")]
    pub unlock: Time,
    /// The cores that run lock and unlock tasks, each of them all, at the same time; default `0`. Others see a lock when they
    /// look, and it takes none of their time.
    #[serde(default = "first_core")]
    pub cores: String,
    /// Whether the lock task writes back the dirty lines of the ranks that it locks, the first of several cores all of them; default
    /// true.
    #[serde(default = "yes")]
    pub clean: bool,
}

/// Time in which ranks are locked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowSection {
    /// The ranks, of every channel.
    pub ranks: String,
    /// When their lock task is released, from the start of the period.
    pub start: Time,
    /// From then to the unlock task; default: until the burst is over.
    #[serde(default)]
    pub length: Option<Time>,
    /// REF commands to each; default: all that the device needs within tRET.
    #[serde(default)]
    pub commands: Option<u32>,
    /// How many bursts there are, one after the other: the first rank is refreshed in the first of them, the next in the second, and
    /// so on, beginning again with the first. Default 1: all ranks together.
    #[serde(default = "together")]
    pub turns: u32,
}

fn lock() -> Time {
    Time(Picoseconds(20_000_000))
}
fn together() -> u32 {
    1
}
fn first_core() -> String {
    "0".to_owned()
}

impl Scenario {
    /// The locks of a timetable, for channels of so many ranks.
    pub(super) fn soft_refresh(&self, ranks: u32) -> Result<Option<SoftRefresh>, SimError> {
        let check = Check { origin: &self.origin };
        let chosen = self.file.controller.refresh.as_deref() == Some("timetable");
        let section = match (&self.file.timetable, chosen) {
            (Some(section), true) => section,
            (None, false) => return Ok(None),
            (Some(_), false) => {
                return Err(check.refuse("timetable", "given", "nothing, unless controller.refresh is \"timetable\""));
            }
            (None, true) => {
                return Err(check.refuse("timetable", "absent", "a table, as controller.refresh is \"timetable\""));
            }
        };
        let device = &self.device;
        let (clock, period) = (device.clock, section.period.0);
        let cycles = whole_cycles(clock, period).filter(|&cycles| cycles > 0);
        let Some(cycles) = cycles else {
            return Err(check.refuse("timetable.period", period, "one or more whole cycles of the device's clock"));
        };
        for (field, time) in [("lock", section.lock), ("unlock", section.unlock), ("jitter", section.jitter)] {
            check.that(&format!("timetable.{field}"), time.0 <= SECOND, time.0, "at most 1 s")?;
        }
        let cores = IndexSet::parse(&section.cores, self.cores())
            .map_err(|error| check.refuse("timetable.cores", &section.cores, error))?;
        check.that("timetable.cores", !cores.is_empty(), "none", "one or more")?;
        let jitter = clock.cycles_covering(section.jitter.0);
        let mut entries = vec![RankTimetable { period: cycles, phase: 0, jitter, windows: Vec::new() }; ranks as usize];
        let mut windows = Vec::new();
        for (index, window) in section.window.iter().enumerate() {
            let of = |field: &str| format!("timetable.window {index}: {field}");
            let set = IndexSet::parse(&window.ranks, ranks)
                .map_err(|error| check.refuse(&of("ranks"), &window.ranks, error))?;
            let commands = window.commands.unwrap_or(device.refresh.commands);
            let start = window.start.0;
            let opens = clock.cycles_covering(start + section.lock.0);
            let turns = u64::from(window.turns);
            check.that(
                &of("turns"),
                (1..=u64::from(set.len())).contains(&turns),
                turns,
                format!("1 to {}", set.len()),
            )?;
            let burst = Timetable::burst_cycles(device, ranks, commands, jitter);
            let bursts = burst.saturating_mul(turns);
            let end = window.length.map_or(clock.start(opens.saturating_add(bursts)), |length| start + length.0);
            let room = format!("within the period, {period}, after {} of the lock task", section.lock.0);
            let covering = clock.cycles_covering(end);
            let closes = if clock.start(covering) == end { covering } else { covering - 1 };
            check.that(&of("length"), opens < closes && end <= period, format!("from {start} to {end}"), room)?;
            for (place, rank) in (0..).zip(set.iter()) {
                // The last in turn has what is left of the window.
                let turn = place % turns;
                let start = opens + turn * burst;
                let end = if turn + 1 == turns { closes } else { start + burst };
                let accepted = format!("long enough for {turns} bursts of {burst} cycles");
                check.that(&of("length"), start < end, format!("{} cycles", closes - opens), accepted)?;
                entries[rank as usize].windows.push(RefreshWindow { start, end, commands });
            }
            let ranks = set.iter().fold(0, |mask, rank| mask | 1 << rank);
            windows.push(LockWindow { ranks, start, end });
        }
        windows.sort_by_key(|window| window.start);
        Ok(Some(SoftRefresh {
            period,
            windows,
            lock: section.lock.0,
            unlock: section.unlock.0,
            cores: cores.iter().map(|core| core as usize).collect(),
            clean: section.clean,
            timetable: Timetable::new(&entries, device, self.seed)?,
        }))
    }
}
