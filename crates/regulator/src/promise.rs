//! The findings of each period, and causes of a broken promise.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bpf::SumWords;

/// Why a period does not show that its bound was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The counter was in the error state and counted nothing.
    CounterError,
    /// The counter has counted part of the time only: others use the hardware's counters as well.
    Multiplexed,
    /// The kernel has suspended overflows (`perf_event_max_sample_rate`).
    OverflowsSuspended,
    /// The group was not frozen before the period ended.
    FreezerLate,
    /// `cgroup.freeze` could not be written.
    FreezeFailed,
    /// Something else ran while the regulator occupied the CPU: the fair server, real-time throttling, or a task of higher
    /// priority.
    Preempted,
    /// The group used memory while it was throttled.
    InKernel,
    /// A process was moved to another cgroup: no budget binds it any more.
    TaskLeft,
    /// The cgroup was removed.
    GroupGone,
    /// Other CPUs are online than at the start.
    CpusChanged,
    /// The regulator thread runs on another CPU: its own was taken offline.
    CpuOffline,
    /// The regulator has begun a period late by a period or more.
    Late,
    /// The machine was suspended.
    ClockStep,
    /// None of these: the skid is larger than assumed, or a task was in a system call that the kernel does not preempt.
    Skid,
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Cause::CounterError => "the counter is in the error state and counts nothing",
            Cause::Multiplexed => "the counter was multiplexed with others",
            Cause::OverflowsSuspended => "the kernel has suspended overflows; raise kernel.perf_event_max_sample_rate",
            Cause::FreezerLate => "the group was not frozen before the period ended",
            Cause::FreezeFailed => "cgroup.freeze could not be written",
            Cause::Preempted => "something ran while the regulator occupied the CPU (fair server, real-time throttling, or a higher priority)",
            Cause::InKernel => "a task was in a system call when the group was frozen, or something else has thawed the group",
            Cause::TaskLeft => "a process was moved out of the group: no budget binds it any more",
            Cause::GroupGone => "the cgroup was removed",
            Cause::CpusChanged => "other CPUs are online than at the start",
            Cause::CpuOffline => "the CPU is offline",
            Cause::Late => "the regulator was late by a period or more: a system call was not preempted, or the host stopped the CPU",
            Cause::ClockStep => "the machine was suspended",
            Cause::Skid => "the skid is larger than assumed, or a task was in a system call that the kernel does not preempt",
        })
    }
}

/// A period that does not show that its bound was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Incident {
    /// Number of the period.
    pub period: u32,
    /// Index of the group.
    pub group: usize,
    /// The CPU.
    pub cpu: usize,
    /// Counted events of the group on this CPU.
    pub used: u64,
    /// The most events that it may use: its grants, a quantum and a skid.
    pub allowed: u64,
    /// Why.
    pub cause: Cause,
    /// The process concerned, where it is one.
    pub process: Option<u32>,
}

impl Incident {
    /// A period that proves nothing, whatever was counted.
    pub(crate) fn without_count(period: u32, (group, cpu): (usize, usize), cause: Cause) -> Incident {
        Incident { period, group, cpu, used: 0, allowed: 0, cause, process: None }
    }
}

impl fmt::Display for Incident {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Incident { period, cpu, used, allowed, cause, process, .. } = self;
        write!(formatter, "on CPU {cpu}, period {period}: ")?;
        if *allowed > 0 {
            write!(formatter, "{used} events, and {allowed} are allowed: ")?;
        }
        if let Some(process) = process {
            write!(formatter, "process {process}: ")?;
        }
        cause.fmt(formatter)
    }
}

/// Sums of a group on a CPU since the start, written by its regulator thread.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    pub(crate) periods: AtomicU64,
    pub(crate) used: AtomicU64,
    pub(crate) used_max: AtomicU64,
    /// Most events beyond its grants in a period in which the group was throttled here.
    pub(crate) beyond_max: AtomicU64,
    pub(crate) granted: AtomicU64,
    pub(crate) donated: AtomicU64,
    pub(crate) returned: AtomicU64,
    pub(crate) reclaimed: AtomicU64,
    pub(crate) throttled: AtomicU64,
    pub(crate) throttled_ns: AtomicU64,
    pub(crate) underruns: AtomicU64,
    pub(crate) shortfall: AtomicU64,
    pub(crate) broken: AtomicU64,
    pub(crate) reclaims: AtomicU64,
    pub(crate) reclaims_woken: AtomicU64,
}

impl Sums {
    pub(crate) fn add(sum: &AtomicU64, number: u64) {
        // One thread writes.
        sum.store(sum.load(Ordering::Relaxed) + number, Ordering::Relaxed);
    }

    /// Takes over the kernel's counts. Broken periods are counted where they are reported.
    pub(crate) fn copy(&self, words: &SumWords) {
        for (sum, word) in [
            (&self.periods, &words.periods),
            (&self.used, &words.used),
            (&self.used_max, &words.used_max),
            (&self.beyond_max, &words.beyond_max),
            (&self.granted, &words.granted),
            (&self.donated, &words.donated),
            (&self.returned, &words.returned),
            (&self.reclaimed, &words.reclaimed),
            (&self.throttled, &words.throttled),
            (&self.throttled_ns, &words.throttled_ns),
            (&self.underruns, &words.underruns),
            (&self.shortfall, &words.shortfall),
            (&self.reclaims, &words.reclaims),
            (&self.reclaims_woken, &words.reclaims_woken),
        ] {
            sum.store(word.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Forgets the greatest values.
    pub(crate) fn reset_maxima(&self) {
        self.used_max.store(0, Ordering::Relaxed);
        self.beyond_max.store(0, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self, group: usize, cpu: usize) -> Snapshot {
        let of = |sum: &AtomicU64| sum.load(Ordering::Relaxed);
        Snapshot {
            group,
            cpu,
            periods: of(&self.periods),
            used: of(&self.used),
            used_max: of(&self.used_max),
            beyond_max: of(&self.beyond_max),
            granted: of(&self.granted),
            donated: of(&self.donated),
            returned: of(&self.returned),
            reclaimed: of(&self.reclaimed),
            throttled_periods: of(&self.throttled),
            throttled_ns: of(&self.throttled_ns),
            underruns: of(&self.underruns),
            shortfall: of(&self.shortfall),
            broken: of(&self.broken),
            reclaims: of(&self.reclaims),
            reclaims_woken: of(&self.reclaims_woken),
        }
    }
}

/// Statistics of a group on a CPU since the start. Numbers without a unit in their names are events, or periods if so
/// named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// Index of the group.
    pub group: usize,
    /// The CPU.
    pub cpu: usize,
    /// Periods that have ended.
    pub periods: u64,
    /// Events used in them.
    pub used: u64,
    /// Most events used in one.
    pub used_max: u64,
    /// Most events used beyond grants in a period in which the group was throttled here.
    pub beyond_max: u64,
    /// Events granted: from the budget, from reclaimed donations, and from the pool.
    pub granted: u64,
    /// Events donated to the pool.
    pub donated: u64,
    /// Events granted out of the group's own donation.
    pub returned: u64,
    /// Events granted out of donations of other groups.
    pub reclaimed: u64,
    /// Periods in which it was throttled.
    pub throttled_periods: u64,
    /// How long it was throttled.
    pub throttled_ns: u64,
    /// Periods in which it could not take back all that it had donated.
    pub underruns: u64,
    /// Events that were missing in them.
    pub shortfall: u64,
    /// Periods that do not show that the bound was kept.
    pub broken: u64,
    /// Grants out of events that were donated, by this group or by others.
    pub reclaims: u64,
    /// Those at which the regulator thread woke up; without BPF all of them.
    pub reclaims_woken: u64,
}

impl Snapshot {
    /// The difference to an earlier snapshot. The greatest values of a period are those since the start.
    #[must_use]
    pub fn since(&self, earlier: &Snapshot) -> Snapshot {
        Snapshot {
            periods: self.periods - earlier.periods,
            used: self.used - earlier.used,
            granted: self.granted - earlier.granted,
            donated: self.donated - earlier.donated,
            returned: self.returned - earlier.returned,
            reclaimed: self.reclaimed - earlier.reclaimed,
            throttled_periods: self.throttled_periods - earlier.throttled_periods,
            throttled_ns: self.throttled_ns - earlier.throttled_ns,
            underruns: self.underruns - earlier.underruns,
            shortfall: self.shortfall - earlier.shortfall,
            broken: self.broken - earlier.broken,
            reclaims: self.reclaims - earlier.reclaims,
            reclaims_woken: self.reclaims_woken - earlier.reclaims_woken,
            ..*self
        }
    }
}
