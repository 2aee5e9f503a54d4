//! When software refreshes the ranks of a scenario.

use super::{Check, SECOND, Scenario};
use crate::error::SimError;
use crate::refresh::{LockWindow, SoftRefresh, whole_cycles};
use memtint_dram::{RankTimetable, RefreshWindow, Timetable};
use memtint_units::IndexSet;

impl Scenario {
    /// The locks of a timetable, for channels with `ranks` ranks.
    pub(super) fn soft_refresh(&self, ranks: u32) -> Result<Option<SoftRefresh>, SimError> {
        let check = Check { origin: &self.origin };
        let chosen = self.spec.controller.refresh.as_deref() == Some("timetable");
        let section = match (&self.spec.timetable, chosen) {
            (Some(section), true) => section,
            (None, false) => return Ok(None),
            (Some(_), false) => {
                return Err(check.refuse(
                    "simulation.timetable",
                    "given",
                    "nothing, unless simulation.controller.refresh is \"timetable\"",
                ));
            }
            (None, true) => {
                return Err(check.refuse(
                    "simulation.timetable",
                    "absent",
                    "a table, as simulation.controller.refresh is \"timetable\"",
                ));
            }
        };
        let device = &self.device;
        let (clock, period) = (device.clock, section.period.0);
        let cycles = whole_cycles(clock, period).filter(|&cycles| cycles > 0);
        let Some(cycles) = cycles else {
            return Err(check.refuse(
                "simulation.timetable.period",
                period,
                "one or more whole cycles of the device's clock",
            ));
        };
        for (field, time) in [("lock", section.lock), ("unlock", section.unlock), ("jitter", section.jitter)] {
            check.that(&format!("simulation.timetable.{field}"), time.0 <= SECOND, time.0, "at most 1 s")?;
        }
        let cores = IndexSet::parse(&section.cores, self.cores())
            .map_err(|error| check.refuse("simulation.timetable.cores", &section.cores, error))?;
        check.that("simulation.timetable.cores", !cores.is_empty(), "none", "one or more")?;
        let jitter = clock.cycles_covering(section.jitter.0);
        let mut entries = vec![RankTimetable { period: cycles, phase: 0, jitter, windows: Vec::new() }; ranks as usize];
        let mut windows = Vec::new();
        for (index, window) in section.window.iter().enumerate() {
            let of = |field: &str| format!("simulation.timetable.window {index}: {field}");
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
                // The last in turn has the rest of the window.
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
