//! Cyclic executives: a repeating table assigns cores to tasks ([Pan18, §4.3.2 and 4.3.4]).
//!
//! A task runs in its slots only. A job that is incomplete at the end of a slot continues in the task's next slot; if
//! that follows at once, nothing is interrupted. At the end of a slot, the core finishes the current reference and
//! waits for its loads: this excess is counted as an overrun.

use super::Machine;
use memtint_dram::CommandSink;
use memtint_units::Picoseconds;

/// A stretch of each cycle in which a core is a task's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The task, by its index.
    pub task: usize,
    /// The core, which is the only one that the task may run on.
    pub core: usize,
    /// When it begins, from the beginning of a cycle.
    pub start: Picoseconds,
    /// When it ends, excluded; within the cycle.
    pub end: Picoseconds,
}

/// Slots that repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Time after which all slots repeat; 1 ps or more.
    pub cycle: Picoseconds,
    /// By core and start; those of a core do not overlap.
    pub slots: Vec<Slot>,
}

/// Statistics of the slots of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableCounts {
    /// Of each slot, the longest time that its task had the core in one of its turns, in picoseconds, overruns included.
    pub longest_use_ps: Vec<u64>,
    /// The longest time that a task had the core after the end of its slot, in picoseconds.
    pub longest_overrun_ps: u64,
}

/// A slot of one cycle, on some core.
#[derive(Clone, Copy, Debug)]
struct Turn {
    slot: usize,
    start: Picoseconds,
    end: Picoseconds,
    used: u64,
    /// Its task has the core, and has been accounted for up to this time.
    since: Option<Picoseconds>,
}

/// A table at work.
#[derive(Clone, Debug)]
pub(super) struct Executive {
    table: Table,
    /// The latest of each core.
    turns: Vec<Option<Turn>>,
    counts: TableCounts,
}

impl Table {
    /// The slot that a core is in, with its beginning and end.
    fn turn(&self, core: usize, now: Picoseconds) -> Option<(usize, Picoseconds, Picoseconds)> {
        let within = now.0 % self.cycle.0;
        let after = self.slots.partition_point(|slot| (slot.core, slot.start.0) <= (core, within));
        let index = after.checked_sub(1)?;
        let slot = &self.slots[index];
        let cycle = Picoseconds(now.0 - within);
        (slot.core == core && within < slot.end.0).then(|| (index, cycle + slot.start, cycle + slot.end))
    }

    /// When a slot of a core next begins or ends, after a time.
    fn next_boundary(&self, core: usize, now: Picoseconds) -> Option<Picoseconds> {
        if let Some((.., end)) = self.turn(core, now) {
            return Some(end);
        }
        let within = now.0 % self.cycle.0;
        let cycle = Picoseconds(now.0 - within);
        let after = self.slots.partition_point(|slot| (slot.core, slot.start.0) <= (core, within));
        let later = self.slots.get(after).filter(|slot| slot.core == core).map(|slot| cycle + slot.start);
        let first = || self.slots.iter().find(|slot| slot.core == core).map(|slot| cycle + self.cycle + slot.start);
        later.or_else(first)
    }

    /// The first time from `from` on that is in a slot of a task.
    fn next_of(&self, task: usize, from: Picoseconds) -> Picoseconds {
        let within = from.0 % self.cycle.0;
        let cycle = Picoseconds(from.0 - within);
        let own = self.slots.iter().filter(|slot| slot.task == task);
        let times = own.map(|slot| match slot {
            slot if within < slot.end.0 => from.max(cycle + slot.start),
            slot => cycle + self.cycle + slot.start,
        });
        times.min().expect("every task has a slot")
    }

    /// When the last slot of a task ends that begins before a time.
    fn last_end(&self, task: usize, before: Picoseconds) -> Picoseconds {
        let within = before.0 % self.cycle.0;
        let cycle = before.0 - within;
        let own = self.slots.iter().filter(|slot| slot.task == task);
        // Of this cycle or, where that is not before, of the one before; there is none before time 0.
        let ends = own.filter_map(|slot| {
            let cycle = if slot.start.0 < within { Some(cycle) } else { cycle.checked_sub(self.cycle.0) };
            cycle.map(|cycle| Picoseconds(cycle) + slot.end)
        });
        ends.max().unwrap_or(Picoseconds(0))
    }
}

impl Executive {
    pub(super) fn new(table: Table, cores: usize) -> Executive {
        let counts = TableCounts { longest_use_ps: vec![0; table.slots.len()], longest_overrun_ps: 0 };
        Executive { table, turns: vec![None; cores], counts }
    }

    /// Accounts for the use of a core's latest slot; its task goes on in another, or not.
    fn account(&mut self, core: usize, now: Picoseconds, goes_on: bool) {
        let Some(turn) = &mut self.turns[core] else { return };
        let Some(since) = turn.since else { return };
        let until = if goes_on { now.min(turn.end) } else { now };
        turn.used += until.saturating_sub(since).0;
        turn.since = Some(until.max(since));
        let longest = &mut self.counts.longest_use_ps[turn.slot];
        *longest = (*longest).max(turn.used);
        self.counts.longest_overrun_ps = self.counts.longest_overrun_ps.max(until.saturating_sub(turn.end).0);
    }
}

impl<S: CommandSink> Machine<S> {
    /// The task of a core's current slot, if there is a table: `Some(None)` for an unassigned slot.
    pub(super) fn owner(&self, at: usize) -> Option<Option<usize>> {
        let table = &self.executive.as_ref()?.table;
        let core = &self.cores[at];
        Some(table.turn(at, core.time_of(core.slot)).map(|(slot, ..)| table.slots[slot].task))
    }

    /// When the owner of a core next changes.
    pub(super) fn next_change_of_slots(&self, at: usize) -> Option<Picoseconds> {
        let core = &self.cores[at];
        self.executive.as_ref()?.table.next_boundary(at, core.time_of(core.slot))
    }

    /// Of several instances of a task the one whose slot comes first, from a time on.
    pub(super) fn next_in_table(&self, instances: &[usize], from: Picoseconds) -> Option<usize> {
        let table = &self.executive.as_ref()?.table;
        instances.iter().copied().min_by_key(|&task| table.next_of(task, from))
    }

    /// When the slots end that a job with a deadline can be complete in; never without a table.
    pub(super) fn last_slot_end(&self, task: usize, deadline: Picoseconds) -> Picoseconds {
        let end = self.executive.as_ref().map(|executive| executive.table.last_end(task, deadline));
        end.unwrap_or(Picoseconds(u64::MAX))
    }

    /// Accounts for the slot of a core that goes over to lock and unlock tasks.
    pub(super) fn suspend_slot(&mut self, at: usize) {
        let Some(executive) = &mut self.executive else { return };
        let core = &self.cores[at];
        executive.account(at, core.time_of(core.slot), false);
        if let Some(turn) = &mut executive.turns[at] {
            turn.since = None;
        }
    }

    /// Lets a task have its slot from now on, or leaves it unused.
    pub(super) fn use_slot(&mut self, at: usize, chosen: Option<usize>) {
        let Some(executive) = &mut self.executive else { return };
        let core = &self.cores[at];
        let (now, goes_on) = (core.time_of(core.slot), core.task == chosen);
        executive.account(at, now, goes_on);
        let before = executive.turns[at];
        let Some((slot, start, end)) = executive.table.turn(at, now) else { return };
        let same = before.filter(|turn| (turn.slot, turn.start) == (slot, start));
        // One that goes on from the slot before has had this one from its beginning.
        let had = before.filter(|turn| goes_on && turn.since.is_some() && turn.end == start);
        let since = if same.is_none() && had.is_some() { start } else { now };
        let used = same.map_or(0, |turn| turn.used);
        executive.turns[at] = Some(Turn { slot, start, end, used, since: chosen.map(|_| since) });
    }

    /// Statistics of the slots so far.
    pub(super) fn table_counts(&self) -> Option<TableCounts> {
        let mut executive = self.executive.clone()?;
        for core in 0..self.cores.len() {
            executive.account(core, self.now, true);
        }
        Some(executive.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten long: task 0 in [1, 3) and [6, 8), task 1 in [3, 6), on core 0; task 2 in [0, 10) on core 1.
    fn table() -> Table {
        let slot = |task, core, start, end| Slot { task, core, start: Picoseconds(start), end: Picoseconds(end) };
        let slots = vec![slot(0, 0, 1, 3), slot(1, 0, 3, 6), slot(0, 0, 6, 8), slot(2, 1, 0, 10)];
        Table { cycle: Picoseconds(10), slots }
    }

    #[test]
    fn slots_hold_their_start_and_not_their_end_in_every_cycle() {
        let table = table();
        let owner = |core, at| table.turn(core, Picoseconds(at)).map(|(slot, ..)| table.slots[slot].task);
        let expected = [None, Some(0), Some(0), Some(1), Some(1), Some(1), Some(0), Some(0), None, None];
        for at in 0..40 {
            assert_eq!((owner(0, at), owner(1, at), owner(2, at)), (expected[at as usize % 10], Some(2), None), "{at}");
        }
        let next = |core, at| table.next_boundary(core, Picoseconds(at)).map(|at| at.0);
        assert_eq!([0, 1, 5, 8, 18].map(|at| next(0, at)), [1, 3, 6, 11, 21].map(Some));
        assert_eq!((next(1, 0), next(1, 19), next(2, 0)), (Some(10), Some(20), None));
    }

    #[test]
    fn slots_are_found_from_and_before_a_time() {
        let table = table();
        let next = |at| table.next_of(0, Picoseconds(at)).0;
        assert_eq!([0, 1, 2, 3, 7, 8, 13].map(next), [1, 1, 2, 6, 7, 11, 16]);
        let last = |at| table.last_end(0, Picoseconds(at)).0;
        assert_eq!([0, 1, 2, 6, 7, 11, 12, 30].map(last), [0, 0, 3, 3, 8, 8, 13, 28]);
    }
}
