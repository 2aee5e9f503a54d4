//! Configuration of a controller.

use std::fmt;
use std::str::FromStr;

use super::BANKS_MAX;
use crate::error::DramError;
use crate::refresh::RefreshKind;
use crate::timing::Geometry;

/// Selection of the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// First come, first served: a bank serves its requests in the order of arrival; banks work side by side, and of
    /// two commands that are ready together the one of the older request goes first.
    Fcfs,
    /// First ready (Rixner et al., ISCA 2000): row hits first, then the oldest. With a cap, a bank serves at most that
    /// many row hits while an older request waits for another row.
    FrFcfs {
        /// Row hits in a row over an older request; `None` for no limit.
        cap: Option<u32>,
    },
    /// Parallelism-aware batch scheduling (Mutlu and Moscibroda, ISCA 2008): the oldest requests of every requester and
    /// bank form a batch that is served before all others; inside it row hits first, then the requester with the least
    /// waiting for any bank, then the oldest.
    ParBs {
        /// Requests of one requester to one bank that a batch takes; the paper's Marking-Cap is 5.
        marking_cap: u32,
    },
}

impl fmt::Display for Scheduler {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scheduler::Fcfs => write!(out, "fcfs"),
            Scheduler::FrFcfs { cap: Some(cap) } => write!(out, "fr-fcfs, cap {cap}"),
            Scheduler::FrFcfs { cap: None } => write!(out, "fr-fcfs, no cap"),
            Scheduler::ParBs { marking_cap } => write!(out, "par-bs, marking cap {marking_cap}"),
        }
    }
}

/// When to close an idle row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagePolicy {
    /// When a request for another row of the bank arrives.
    Open,
    /// With the last waiting request for it (auto-precharge).
    Closed,
    /// When it has been idle for this many cycles.
    Timeout(u32),
}

impl fmt::Display for PagePolicy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PagePolicy::Open => write!(out, "open"),
            PagePolicy::Closed => write!(out, "closed"),
            PagePolicy::Timeout(cycles) => write!(out, "timeout:{cycles}"),
        }
    }
}

impl FromStr for PagePolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<PagePolicy, String> {
        match text {
            "open" => Ok(PagePolicy::Open),
            "closed" => Ok(PagePolicy::Closed),
            _ => {
                let cycles = text.strip_prefix("timeout:").and_then(|cycles| cycles.parse().ok());
                cycles.map(PagePolicy::Timeout).ok_or_else(|| "accepted are open, closed and timeout:CYCLES".to_owned())
            }
        }
    }
}

/// Assignment of queue entries to banks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueSharing {
    /// One read and one write queue, whose entries any bank may take: one busy bank can fill them.
    Shared,
    /// The entries are divided evenly among the banks.
    PerBank,
}

/// Parameters of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerConfig {
    /// Entries for reads.
    pub read_queue: u32,
    /// Entries for writes.
    pub write_queue: u32,
    /// Assignment of entries to banks.
    pub sharing: QueueSharing,
    /// Waiting writes at which writes are drained although reads wait.
    pub drain_at: u32,
    /// Waiting writes down to which they are drained then.
    pub drain_to: u32,
    /// Order of service.
    pub scheduler: Scheduler,
    /// When rows are closed.
    pub page_policy: PagePolicy,
    /// When rows are refreshed.
    pub refresh: RefreshKind,
}

impl Default for ControllerConfig {
    /// A controller as in today's simulators: 32 + 32 entries, writes drained from four fifths to one fifth, row hits
    /// first with a cap of 16, open rows, all-bank refresh.
    fn default() -> ControllerConfig {
        ControllerConfig {
            read_queue: 32,
            write_queue: 32,
            sharing: QueueSharing::Shared,
            drain_at: 26,
            drain_to: 6,
            scheduler: Scheduler::FrFcfs { cap: Some(16) },
            page_policy: PagePolicy::Open,
            refresh: RefreshKind::AllBank { staggered: true },
        }
    }
}

impl ControllerConfig {
    /// Gives the usual [`drain_at`](Self::drain_at) and [`drain_to`](Self::drain_to) of a write queue: four fifths (rounded up, at
    /// least 1) and one fifth of its entries.
    #[must_use]
    pub fn usual_watermarks(write_queue: u32) -> (u32, u32) {
        let drain_at = ((u64::from(write_queue) * 4).div_ceil(5).max(1)) as u32;
        (drain_at, (write_queue / 5).min(drain_at - 1))
    }

    pub(super) fn check(&self, geometry: &Geometry) -> Result<(), DramError> {
        let between = |field: &'static str, found: u32, least: u32, most: u32| {
            let fits = (least..=most).contains(&found);
            fits.then_some(()).ok_or(DramError::Config { field, found, least, most })
        };
        const MOST: u32 = 30_000;
        between("banks on the channel", geometry.banks(), 1, BANKS_MAX)?;
        let least = if self.sharing == QueueSharing::PerBank { geometry.banks() } else { 1 };
        between("read_queue", self.read_queue, least, MOST)?;
        between("write_queue", self.write_queue, least, MOST)?;
        between("drain_at", self.drain_at, 1, self.write_queue)?;
        between("drain_to", self.drain_to, 0, self.drain_at - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_watermarks_are_those_of_the_default() {
        let default = ControllerConfig::default();
        assert_eq!(ControllerConfig::usual_watermarks(default.write_queue), (default.drain_at, default.drain_to));
        assert_eq!([0, 1, 5].map(ControllerConfig::usual_watermarks), [(1, 0), (1, 0), (4, 1)]);
    }

    #[test]
    fn page_policies_are_read_as_they_are_written() {
        for policy in [PagePolicy::Open, PagePolicy::Closed, PagePolicy::Timeout(77)] {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        for text in ["", "Open", "timeout", "timeout:", "timeout:-1"] {
            assert!(text.parse::<PagePolicy>().is_err(), "{text}");
        }
    }
}
