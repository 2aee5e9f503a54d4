//! A trace of independent requests against one channel, by the rule used in comparisons of DRAM simulators.
//!
//! Memory clock t = 0, 1, 2, ... In each cycle the next request is offered if its time has come (`t >= index * period`)
//! and the one before it was accepted; a request that finds the queue full is offered again in the next cycle. Then the
//! controller sends at most one command. The replay ends when every request was accepted and every read has returned.
//! The latency of a read is the cycle in which its last data arrive minus the cycle in which it was accepted.

use crate::controller::{CommandSink, Completion, Controller, Offer, Request, RowOutcome, Step};
use crate::index::Cycle;
use crate::refresh::NEVER;

/// The result of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayStats {
    /// Requests accepted.
    pub requests: u64,
    /// Reads among them.
    pub reads: u64,
    /// Cycles until the last read had returned, counted from 0.
    pub cycles: u64,
    /// Read latencies in cycles.
    pub latency: Latencies,
    /// Requests that found their row open.
    pub hits: u64,
    /// Requests that found their bank closed.
    pub misses: u64,
    /// Requests that found another row open.
    pub conflicts: u64,
    /// Requests served by a waiting write.
    pub forwarded: u64,
}

/// Exact counts of latencies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    counts: Vec<u64>,
    total: u64,
    sum: u128,
}

impl Latencies {
    /// Counts one latency.
    #[inline]
    pub fn add(&mut self, cycles: u64) {
        let at = cycles as usize;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += 1;
        self.total += 1;
        self.sum += u128::from(cycles);
    }

    /// Gives their number.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.total
    }

    /// Their mean; 0 of none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.sum as f64 / self.total as f64 }
    }

    /// Gives the least latency that at least `share` (0 to 1) of all do not exceed; 0 of none.
    #[must_use]
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = ((share * self.total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (cycles, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return cycles as u64;
            }
        }
        0
    }

    /// The least; 0 of none.
    #[must_use]
    pub fn min(&self) -> u64 {
        self.quantile(0.0)
    }

    /// The greatest; 0 of none.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.counts.iter().rposition(|&count| count > 0).unwrap_or(0) as u64
    }
}

/// Replays requests against a channel.
///
/// Request `i` is offered from cycle `i * period` on; 0 keeps the queues as full as they get.
pub fn replay<S: CommandSink>(
    controller: &mut Controller<S>,
    requests: impl IntoIterator<Item = Request>,
    period: u64,
) -> ReplayStats {
    replay_timed(controller, requests.into_iter().zip(0u64..).map(|(request, index)| (Cycle(index * period), request)))
}

/// Replays requests against a channel, each offered from a given cycle on.
pub fn replay_timed<S: CommandSink>(
    controller: &mut Controller<S>,
    requests: impl IntoIterator<Item = (Cycle, Request)>,
) -> ReplayStats {
    let mut stats = ReplayStats::default();
    let mut earliest = Cycle::ZERO;
    let waited = u64::from(controller.waiting()[0]);
    for (from, request) in requests {
        let mut cycle = earliest.max(from);
        loop {
            // All events before this cycle have happened when the request is offered.
            while let Step::Done(completion) = controller.step(cycle) {
                stats.note(&completion);
            }
            if controller.next_cycle() < cycle {
                continue;
            }
            match controller.offer(cycle, request) {
                Offer::Full => cycle = stats.wait_for_room(controller, request, cycle),
                accepted => {
                    stats.note_accepted(&request, cycle, accepted);
                    break;
                }
            }
        }
        earliest = cycle + 1;
    }
    // Refreshes never end; the reads do.
    while controller.waiting()[0] > 0 {
        if let Step::Done(completion) = controller.step(NEVER) {
            stats.note(&completion);
        }
    }
    assert_eq!(stats.latency.count(), stats.reads + waited, "reads that have returned, and reads that were accepted");
    stats
}

impl ReplayStats {
    /// Gives a hash of everything (FNV-1a): equal runs have equal ones.
    #[must_use]
    pub fn hash(&self) -> u64 {
        let totals = [self.requests, self.reads, self.cycles, self.hits, self.misses, self.conflicts, self.forwarded];
        let numbers = totals.iter().chain(&self.latency.counts);
        numbers
            .flat_map(|number| number.to_le_bytes())
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }

    #[inline]
    pub(crate) fn note_accepted(&mut self, request: &Request, cycle: Cycle, offer: Offer) {
        self.requests += 1;
        self.reads += u64::from(!request.write);
        self.cycles = self.cycles.max(cycle.0 + 1);
        if offer == Offer::Forwarded {
            self.forwarded += 1;
            if !request.write {
                self.latency.add(1);
                self.cycles = self.cycles.max(cycle.0 + 2);
            }
        }
    }

    #[inline]
    pub(crate) fn note(&mut self, completion: &Completion) {
        match completion.outcome {
            RowOutcome::Hit => self.hits += 1,
            RowOutcome::Miss => self.misses += 1,
            RowOutcome::Conflict => self.conflicts += 1,
        }
        if !completion.write {
            self.latency.add(completion.done - completion.arrival);
            self.cycles = self.cycles.max(completion.done.0 + 1);
        }
    }

    /// Runs the channel until there is room; returns the cycle in which the request can be offered again.
    fn wait_for_room<S: CommandSink>(
        &mut self,
        controller: &mut Controller<S>,
        request: Request,
        cycle: Cycle,
    ) -> Cycle {
        loop {
            if let Step::Done(completion) = controller.step(NEVER) {
                self.note(&completion);
                if controller.has_room(request.write, request.bank) {
                    return cycle.max(completion.issued + 1);
                }
            }
        }
    }
}
