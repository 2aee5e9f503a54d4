//! Memory, refresh, servers and cores.

use crate::crs::copies::Copied;
use crate::error::HidingError;
use memtint_sched::{Density, Form, Policy, Preemption, REF_COMMANDS, RankOrder, TIME_MAX, TaskSet};
use memtint_units::Picoseconds;

/// Gives the length of the burst that refreshes a group of `group_ranks` ranks.
///
/// Corrected: 8192 commands of tRFC each for a rank, once for all ranks in parallel or once for each. As printed (5.3.4: "less
/// than 0.2 ms" for 2 Gb and 8 ranks) the 8192 commands are shared by all ranks of the memory, `memory_ranks`, which
/// refreshes an eighth of each; the order then makes no difference.
#[must_use]
pub fn burst(density: Density, group_ranks: u32, memory_ranks: u32, order: RankOrder, form: Form) -> Picoseconds {
    let commands = match form {
        Form::AsPrinted => REF_COMMANDS.div_ceil(u64::from(memory_ranks.max(1))),
        Form::Corrected => order.commands(group_ranks),
    };
    Picoseconds(commands * density.t_rfc().0)
}

/// A group of ranks that is refreshed, and locked, as one: a color.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankGroup {
    /// Its ranks, from 0.
    pub ranks: Vec<u32>,
    /// When it is locked first; it is unlocked again before the retention time is over.
    pub phase: Picoseconds,
    /// How long its refresh takes, 1 ps or more; see [`burst`].
    pub burst: Picoseconds,
}

/// Refresh of the whole memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refresh {
    /// Retention time tRET, in which each rank is refreshed in full once, 1 ps to [`TIME_MAX`].
    pub retention: Picoseconds,
    /// Execution time of a refresh lock task on each core `e_rl`, 0 or more.
    pub lock: Picoseconds,
    /// Execution time of a refresh unlock task on each core `e_ru`, 0 or more.
    pub unlock: Picoseconds,
    /// The groups; each rank of the memory is in one.
    pub groups: Vec<RankGroup>,
}

impl Refresh {
    /// Describes the two colors of 5.3.4: ranks in halves, the second refreshed at 0, the first half a retention time later.
    #[must_use]
    pub fn two_colors(ranks: u32, retention: Picoseconds, burst: Picoseconds) -> Refresh {
        let half = ranks / 2;
        let first = RankGroup { ranks: (0..half).collect(), phase: Picoseconds(retention.0 / 2), burst };
        let second = RankGroup { ranks: (half..ranks).collect(), phase: Picoseconds(0), burst };
        Refresh { retention, lock: Picoseconds(0), unlock: Picoseconds(0), groups: vec![first, second] }
    }

    /// Gives the time for which a group is locked: lock, burst and unlock.
    ///
    /// # Panics
    ///
    /// When there is no such group.
    #[must_use]
    pub fn locked(&self, group: usize) -> Picoseconds {
        let burst = self.groups[group].burst.0;
        Picoseconds(self.lock.0.saturating_add(burst).saturating_add(self.unlock.0))
    }

    /// Gives the time from the end of the locked window of one of two groups to the next of the other, the shorter of the two ways.
    ///
    /// Instances of a copied task in these groups need a period and a deadline of that: then a job whose instance has to change comes
    /// when neither group is locked from the arrival of the job before on.
    ///
    /// # Panics
    ///
    /// When there is no such group.
    #[must_use]
    pub fn apart_for_copies(&self, groups: [usize; 2]) -> Picoseconds {
        let [first, second] = groups;
        let apart = |from: usize, to: usize| {
            let end = self.groups[from].phase.0 + self.locked(from).0;
            (self.groups[to].phase.0 + 2 * self.retention.0 - end) % self.retention.0
        };
        Picoseconds(apart(first, second).min(apart(second, first)))
    }

    pub(super) fn accepted(&self, ranks: u32) -> Result<(), HidingError> {
        range("retention", self.retention, 1, TIME_MAX.0)?;
        range("refresh lock", self.lock, 0, self.retention.0)?;
        range("refresh unlock", self.unlock, 0, self.retention.0)?;
        let mut owner = vec![false; ranks as usize];
        for (index, group) in self.groups.iter().enumerate() {
            range("phase of a rank group", group.phase, 0, self.retention.0 - 1)?;
            range("burst of a rank group", group.burst, 1, self.retention.0)?;
            for &rank in &group.ranks {
                match owner.get_mut(rank as usize) {
                    Some(owned) if !*owned => *owned = true,
                    _ => {
                        let accepted = format!("each rank from 0 to {} in one group", ranks.saturating_sub(1));
                        return refuse(format!("rank group {index}"), "ranks", format!("rank {rank}"), accepted);
                    }
                }
            }
            if group.ranks.is_empty() {
                return refuse(format!("rank group {index}"), "ranks", "none".into(), "one or more".into());
            }
        }
        if let Some(rank) = owner.iter().position(|owned| !owned) {
            return refuse(
                "memory".into(),
                "ranks",
                format!("rank {rank} in no group"),
                "each rank in one group".into(),
            );
        }
        if self.groups.is_empty() {
            return refuse("memory".into(), "ranks", "0".into(), "1 or more".into());
        }
        self.apart()
    }

    /// Locked windows of different groups do not meet, and none is cut by the beginning of time.
    fn apart(&self) -> Result<(), HidingError> {
        let mut order: Vec<usize> = (0..self.groups.len()).collect();
        order.sort_by_key(|&group| self.groups[group].phase);
        for (place, &group) in order.iter().enumerate() {
            let from = self.groups[group].phase.0;
            let (to, then) = match order.get(place + 1) {
                Some(&next) => (self.groups[next].phase.0, format!("group {next} is locked")),
                None => (self.retention.0, "the retention time ends".into()),
            };
            let locked = self.locked(group);
            if locked.0 > to - from {
                let accepted = format!("at most {}, when {then}", Picoseconds(to - from));
                return refuse(format!("rank group {group}"), "locked time", locked.to_string(), accepted);
            }
        }
        Ok(())
    }
}

/// The treatment of a budget while there is no task to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// It stays until the end of the period (deferrable, as described in 5.3.5).
    Deferrable,
    /// The server occupies the processor and consumes it (as analysed in 5.3.8). No other server uses that time.
    IdleConsuming,
}

/// A server: a budget in each period for tasks of one rank group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Index of the rank group, from 0.
    pub group: usize,
    /// Period, 1 ps to [`TIME_MAX`]; the first begins at 0.
    pub period: Picoseconds,
    /// Budget in each period, 1 ps to the period.
    pub budget: Picoseconds,
    /// Treatment of an unused budget.
    pub kind: Kind,
    /// Its tasks.
    pub tasks: TaskSet,
    /// How they are scheduled; preemptive.
    pub policy: Policy,
}

/// A processor core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core {
    /// Its servers, the highest priority first; refresh tasks go before all of them.
    pub servers: Vec<Server>,
}

/// Memory, cores and servers, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    ranks: u32,
    refresh: Refresh,
    cores: Vec<Core>,
    copied: Vec<Copied>,
}

impl System {
    /// Checks a description.
    ///
    /// # Errors
    ///
    /// [`HidingError::Server`] for a field out of its range, a rank in no group or two, locked windows that meet, and a server of a
    /// group that does not exist.
    pub fn new(ranks: u32, refresh: Refresh, cores: Vec<Core>) -> Result<System, HidingError> {
        refresh.accepted(ranks)?;
        if cores.is_empty() {
            return refuse("system".into(), "cores", "0".into(), "1 or more".into());
        }
        for (index, core) in cores.iter().enumerate() {
            if core.servers.is_empty() {
                return refuse(format!("core {index}"), "servers", "0".into(), "1 or more".into());
            }
            for server in &core.servers {
                range("period of a server", server.period, 1, TIME_MAX.0)?;
                range("budget of a server", server.budget, 1, server.period.0)?;
                if server.group >= refresh.groups.len() {
                    let accepted = format!("0 to {}", refresh.groups.len() - 1);
                    return refuse(format!("core {index}"), "group of a server", server.group.to_string(), accepted);
                }
                if server.policy.preemption() == Preemption::None {
                    let accepted = "a preemptive one".into();
                    return refuse(format!("core {index}"), "policy of a server", "not preemptive".into(), accepted);
                }
                if let Policy::FixedPriority(priorities, _) = &server.policy
                    && priorities.order().len() != server.tasks.tasks().len()
                {
                    let (found, accepted) = (priorities.order().len(), server.tasks.tasks().len());
                    return refuse(
                        format!("core {index}"),
                        "priorities of a server",
                        found.to_string(),
                        accepted.to_string(),
                    );
                }
            }
        }
        Ok(System { ranks, refresh, cores, copied: Vec::new() })
    }

    /// Makes pairs of its tasks instances of one (copy tasks), in place of those that were.
    ///
    /// # Errors
    ///
    /// [`HidingError::Server`] for a server or task that does not exist or is an instance of two, instances that differ or are of one group, a
    /// deadline beyond the period, and locks of the two groups that are nearer to each other than a period and a deadline of the task:
    /// then a job may have to copy while one of them is locked.
    pub fn with_copies(self, copied: Vec<Copied>) -> Result<System, HidingError> {
        for (place, one) in copied.iter().enumerate() {
            one.accepted(&self)?;
            let twice = |other: &Copied| one.instances.iter().any(|&own| other.other(one.core, own).is_some());
            if copied[..place].iter().any(twice) {
                let found = format!("{:?}", one.instances);
                return refuse(
                    format!("copied task of core {}", one.core),
                    "instances",
                    found,
                    "tasks of no other".into(),
                );
            }
        }
        Ok(System { copied, ..self })
    }

    /// Gives the tasks with two instances.
    #[must_use]
    pub fn copied(&self) -> &[Copied] {
        &self.copied
    }

    /// Returns for each task of a server whether it is an instance of a copied task.
    ///
    /// # Panics
    ///
    /// When there is no such server.
    #[must_use]
    pub fn is_copied(&self, core: usize, server: usize) -> Vec<bool> {
        let is = |task| self.copied.iter().any(|one| one.other(core, (server, task)).is_some());
        self.cores[core].servers[server].tasks.indices().map(is).collect()
    }

    /// Gives the number of ranks.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Gives the refresh of the memory.
    #[must_use]
    pub fn refresh(&self) -> &Refresh {
        &self.refresh
    }

    /// Gives the cores.
    #[must_use]
    pub fn cores(&self) -> &[Core] {
        &self.cores
    }
}

fn range(field: &'static str, found: Picoseconds, least: u64, most: u64) -> Result<(), HidingError> {
    if (least..=most).contains(&found.0) {
        return Ok(());
    }
    refuse(
        "refresh server".into(),
        field,
        found.to_string(),
        format!("{} to {}", Picoseconds(least), Picoseconds(most)),
    )
}

pub(super) fn refuse<T>(what: String, field: &'static str, found: String, accepted: String) -> Result<T, HidingError> {
    Err(HidingError::Server { what, field, found, accepted })
}
