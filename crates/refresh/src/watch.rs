//! Observation of a channel's commands: retention, and times of refreshes.

use memtint_dram::{Command, CommandSink, Cycle, Kind, RankIndex, Retention, RetentionMonitor};
use memtint_sim::Channels;
use memtint_units::{Clock, Picoseconds};

/// A stretch in which a rank is refreshed: one REF, or several without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Refreshed {
    /// The rank.
    pub rank: RankIndex,
    /// When it begins.
    pub start: Picoseconds,
    /// When it ends, excluded.
    pub end: Picoseconds,
}

/// Observer of all commands of a channel.
pub(crate) struct CommandWatch {
    monitor: Option<RetentionMonitor>,
    clock: Clock,
    rfc: u64,
    /// First and last cycle of each rank's current refresh.
    open: Vec<Option<(Cycle, Cycle)>>,
    found: Vec<Refreshed>,
    refreshed_max: usize,
    /// The first that was not kept.
    dropped: Option<Cycle>,
}

impl CommandWatch {
    /// Ranks from `ranks` on hold no memory, and their refreshes are not kept.
    pub(crate) fn new(channels: &Channels, ranks: u32, clock: Clock, refreshed_max: usize) -> CommandWatch {
        CommandWatch {
            // Without refresh there is no retention to monitor.
            monitor: channels.duty.map(|duty| RetentionMonitor::new(&channels.geometry, &duty)),
            clock,
            rfc: u64::from(channels.timing.rfc),
            open: vec![None; ranks as usize],
            found: Vec::new(),
            refreshed_max,
            dropped: None,
        }
    }

    fn keep(&mut self, rank: RankIndex, (from, to): (Cycle, Cycle)) {
        if self.found.len() < self.refreshed_max {
            self.found.push(Refreshed { rank, start: self.clock.start(from.0), end: self.clock.start(to.0) });
        } else {
            self.dropped = Some(self.dropped.map_or(from, |dropped| dropped.min(from)));
        }
    }

    /// Ends with the simulation: retention, the refreshes in the order of time, and up to when all of these are kept.
    pub(crate) fn finish(mut self, end: Picoseconds) -> (Option<Retention>, Vec<Refreshed>, Picoseconds) {
        for rank in 0..self.open.len() {
            if let Some(open) = self.open[rank].take() {
                self.keep(RankIndex(rank as u32), open);
            }
        }
        self.found.sort_by_key(|found| (found.start, found.rank));
        let last = Cycle(self.clock.cycles_covering(end));
        let until = self.dropped.map_or(end, |dropped| self.clock.start(dropped.0).min(end));
        (self.monitor.map(|monitor| monitor.finish(last)), self.found, until)
    }
}

impl CommandSink for CommandWatch {
    fn see(&mut self, command: Command) {
        if let Some(monitor) = &mut self.monitor {
            monitor.watch(command);
        }
        if command.kind != Kind::Refresh {
            return;
        }
        let end = command.cycle + self.rfc;
        let Some(open) = self.open.get_mut(command.rank.index()) else { return };
        match open {
            Some((_, last)) if command.cycle <= *last => *last = end,
            open => {
                if let Some(before) = open.replace((command.cycle, end)) {
                    self.keep(command.rank, before);
                }
            }
        }
    }
}
