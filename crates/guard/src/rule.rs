//! Reservations and the rule that makes them a guarantee.

use std::cell::Cell;

use memtint_units::Picoseconds;
use thiserror::Error;

use crate::word::{Promise, Roll};

/// Whether a group donates what it is not expected to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Donates nothing and reclaims nothing: its whole budget is available in every period.
    Hard,
    /// Donates and reclaims. A wrong prediction may cost it part of its budget in a period: an underrun.
    Soft,
}

/// What a group may use in each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reservation {
    /// Budget B, in events; at least 1.
    pub budget: u32,
    /// Hard or soft.
    pub kind: Kind,
}

/// One or more cores with a budget in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Indices of its cores; not empty.
    pub cores: Vec<usize>,
    /// Its budget.
    pub reservation: Reservation,
    /// Quantum q: most events granted to one of its cores at a time; at least 1.
    pub quantum: u32,
    /// Skid s: most events that one of its cores uses after its grant is consumed, until it stands still.
    pub skid: u32,
}

/// What happens when every active core has used its guarantee before the period is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// All stand still until the period is over.
    Off,
    /// All run unregulated until the period is over, or until a core with budget left becomes busy: best-effort sharing.
    Spare,
    /// The next period begins at once, so that the cores share the rest in proportion to their budgets.
    Proportional,
}

/// A regulated system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Cores of the system. A core that belongs to no group is not regulated.
    pub cores: usize,
    /// Groups of regulated cores; no core is in two.
    pub groups: Vec<Group>,
    /// Guaranteed bandwidth r_min, in events per period: the worst-case service of the memory.
    pub guaranteed: u32,
    /// Events that a core takes from the pool at a time; at least 1, at most the smallest quantum.
    pub reclaim_step: u32,
    /// Best-effort sharing.
    pub sharing: Sharing,
}

/// Why a system is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GuardError {
    /// A group without cores.
    #[error("group {group} has no cores; accepted is at least one")]
    NoCores {
        /// Index of the group.
        group: usize,
    },
    /// Too many cores.
    #[error("the system has {cores} cores; accepted are up to {most}")]
    TooManyCores {
        /// Cores found.
        cores: usize,
        /// Most that are accepted.
        most: usize,
    },
    /// An unknown core.
    #[error("group {group} has core {core}; accepted are 0 to {last}")]
    UnknownCore {
        /// Index of the group.
        group: usize,
        /// The core found.
        core: usize,
        /// The last core there is.
        last: usize,
    },
    /// A core with two budgets.
    #[error("core {core} is in groups {first} and {second}; accepted is one group per core")]
    CoreInTwoGroups {
        /// The core.
        core: usize,
        /// Index of one group.
        first: usize,
        /// Index of the other.
        second: usize,
    },
    /// A budget or quantum of no events.
    #[error("{field} of group {group} is 0; accepted is 1 or more")]
    Zero {
        /// Index of the group.
        group: usize,
        /// Its field.
        field: &'static str,
    },
    /// A guarantee outside its range.
    #[error("the guaranteed events per period are {found}; accepted are up to {most}")]
    Guaranteed {
        /// The value found.
        found: u32,
        /// Largest value accepted.
        most: u32,
    },
    /// A reclaim step outside its range.
    #[error("the reclaim step is {found}; accepted is 1 to {most}, the smallest quantum")]
    ReclaimStep {
        /// The value found.
        found: u32,
        /// Largest value accepted.
        most: u32,
    },
    /// More is reserved than the memory guarantees.
    #[error(
        "budgets ({budgets}), quanta ({quanta}) and skids ({skids}) of all cores add up to {sum} events per period; accepted is up to the guaranteed {guaranteed}"
    )]
    OverReserved {
        /// Sum of the budgets.
        budgets: u64,
        /// Sum of the quanta of all cores.
        quanta: u64,
        /// Sum of the skids of all cores.
        skids: u64,
        /// Sum of the three.
        sum: u64,
        /// Guaranteed events per period.
        guaranteed: u64,
    },
    /// No such group.
    #[error("there is no group {group}; accepted are indices below {groups}")]
    NoGroup {
        /// The index found.
        group: usize,
        /// Number of groups.
        groups: usize,
    },
}

impl Config {
    /// Checks ranges, membership, and the reservation rule: the sum of B + q + s over all cores is at most `guaranteed`. Equality
    /// is accepted. A group of k cores counts with B + k (q + s).
    ///
    /// # Errors
    /// The first fault found, with its numbers.
    pub fn check(&self) -> Result<(), GuardError> {
        if self.cores > Roll::<std::cell::Cell<u64>>::CORES_MAX {
            return Err(GuardError::TooManyCores { cores: self.cores, most: Roll::<std::cell::Cell<u64>>::CORES_MAX });
        }
        let most = Promise::<Cell<u64>>::BUDGET_MAX;
        if self.guaranteed > most {
            return Err(GuardError::Guaranteed { found: self.guaranteed, most });
        }
        let mut group_of = vec![None; self.cores];
        for (index, group) in self.groups.iter().enumerate() {
            self.check_group(index, group)?;
            for &core in &group.cores {
                if let Some(first) = group_of[core].replace(index) {
                    return Err(GuardError::CoreInTwoGroups { core, first, second: index });
                }
            }
        }
        let most = self.groups.iter().map(|group| group.quantum).min().unwrap_or(u32::MAX);
        if !(1..=most).contains(&self.reclaim_step) {
            return Err(GuardError::ReclaimStep { found: self.reclaim_step, most });
        }
        let sum = |part: &dyn Fn(&Group) -> u64| self.groups.iter().map(part).sum::<u64>();
        let cores = |group: &Group| group.cores.len() as u64;
        let budgets = sum(&|group| u64::from(group.reservation.budget));
        let quanta = sum(&|group| cores(group) * u64::from(group.quantum));
        let skids = sum(&|group| cores(group) * u64::from(group.skid));
        let (sum, guaranteed) = (budgets + quanta + skids, u64::from(self.guaranteed));
        if sum > guaranteed {
            return Err(GuardError::OverReserved { budgets, quanta, skids, sum, guaranteed });
        }
        Ok(())
    }

    fn check_group(&self, index: usize, group: &Group) -> Result<(), GuardError> {
        if group.cores.is_empty() {
            return Err(GuardError::NoCores { group: index });
        }
        if let Some(&core) = group.cores.iter().find(|&&core| core >= self.cores) {
            return Err(GuardError::UnknownCore { group: index, core, last: self.cores.saturating_sub(1) });
        }
        for (field, events) in [("budget", group.reservation.budget), ("quantum", group.quantum)] {
            if events == 0 {
                return Err(GuardError::Zero { group: index, field });
            }
        }
        Ok(())
    }
}

/// Divides events in proportion to weights. The parts add up to `total`; none is off its share by an event or more.
///
/// Largest remainders get the odd events, the first core first among equals. Empty when there are no weights; all zero when every
/// weight is.
pub fn by_weight(total: u64, weights: &[u32]) -> Vec<u64> {
    let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    if sum == 0 {
        return vec![0; weights.len()];
    }
    let exact = |weight: u32| u128::from(total) * u128::from(weight);
    let mut parts: Vec<u64> = weights.iter().map(|&weight| (exact(weight) / sum) as u64).collect();
    let mut by_remainder: Vec<usize> = (0..weights.len()).collect();
    by_remainder.sort_by_key(|&index| std::cmp::Reverse(exact(weights[index]) % sum));
    let odd = total - parts.iter().sum::<u64>();
    by_remainder.into_iter().take(odd as usize).for_each(|index| parts[index] += 1);
    parts
}

const PICOSECONDS_PER_SECOND: u128 = 1_000_000_000_000;

/// Events in a period at a bandwidth, rounded down, when each event moves `bytes_per_event` bytes.
///
/// # Panics
/// When `bytes_per_event` is 0.
pub fn events_per_period(bytes_per_second: u64, bytes_per_event: u64, period: Picoseconds) -> u64 {
    let bytes_times_ps = u128::from(bytes_per_second) * u128::from(period.0);
    saturated(bytes_times_ps / (u128::from(bytes_per_event) * PICOSECONDS_PER_SECOND))
}

/// Bandwidth in bytes per second of a number of events per period, rounded down.
///
/// # Panics
/// When `period` is 0.
pub fn bandwidth(events: u64, bytes_per_event: u64, period: Picoseconds) -> u64 {
    let bytes = u128::from(events) * u128::from(bytes_per_event);
    saturated(bytes.saturating_mul(PICOSECONDS_PER_SECOND) / u128::from(period.0))
}

fn saturated(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_divide_everything() {
        assert_eq!(by_weight(1500, &[1, 2, 4, 8]), [100, 200, 400, 800]);
        assert_eq!(by_weight(10, &[1, 1, 1]), [4, 3, 3]);
        assert_eq!(by_weight(7, &[]), [0; 0]);
        assert_eq!(by_weight(7, &[0, 0]), [0, 0]);
        assert_eq!(by_weight(u64::MAX, &[u32::MAX, 0]), [u64::MAX, 0]);
    }

    #[test]
    fn bandwidth_and_events_are_inverse_for_any_period() {
        // 1 GB/s in lines of 64 bytes, periods of 1 ms, 10 ms and 1 s.
        for (period_ns, events) in [(1_000_000, 15_625), (10_000_000, 156_250), (1_000_000_000, 15_625_000)] {
            let period = Picoseconds::from_ns(period_ns);
            assert_eq!(events_per_period(1_000_000_000, 64, period), events);
            assert_eq!(bandwidth(events, 64, period), 1_000_000_000);
        }
    }
}
