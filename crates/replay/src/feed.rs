//! Requests of one channel, one at a time.

use memtint_dram::{Cycle, Geometry, Request};

use crate::error::ReplayError;
use crate::mapping::{Found, Mapping};
use crate::requests::{Access, Shape, Synthetic, TraceFile};

/// Where accesses come from.
#[derive(Debug)]
pub enum Trace {
    /// Calculated, from an address on.
    Synthetic {
        /// The accesses.
        trace: Synthetic,
        /// The first address.
        base: u64,
    },
    /// Read from a file.
    File(Box<TraceFile>),
}

impl Trace {
    /// Gives a synthetic trace through the memory of a mapping; `write_percent` counts for [`Shape::Mixed`].
    #[must_use]
    pub fn synthetic(shape: Shape, seed: u64, write_percent: u64, mapping: &Mapping, geometry: &Geometry) -> Trace {
        let (base, bytes) = mapping.extent();
        let burst_bytes = u64::from(geometry.burst_bytes());
        let trace = Synthetic { shape, seed, write_percent, bursts: bytes / burst_bytes, burst_bytes };
        Trace::Synthetic { trace, base }
    }
}

/// How many requests there are, and when they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Requests; `None` for all there are.
    pub requests: Option<u64>,
    /// Cycles between offers; `None` for the times of the trace.
    pub period: Option<u64>,
}

/// Turns accesses into requests of the channel, one at a time.
#[derive(Debug)]
pub struct Feed<'a> {
    trace: Trace,
    mapping: &'a Mapping,
    /// Of a synthetic trace.
    next: u64,
    left: Option<u64>,
    period: Option<u64>,
    requests: u64,
    other_channels: u64,
    timed: bool,
    /// Ends the trace.
    failure: Option<ReplayError>,
}

impl<'a> Feed<'a> {
    /// Makes a feed.
    #[must_use]
    pub fn new(trace: Trace, mapping: &'a Mapping, pace: Pace) -> Feed<'a> {
        let Pace { requests: left, period } = pace;
        Feed { trace, mapping, next: 0, left, period, requests: 0, other_channels: 0, timed: false, failure: None }
    }

    /// Gives the requests so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Gives the accesses so far that belong to another channel.
    #[must_use]
    pub fn other_channels(&self) -> u64 {
        self.other_channels
    }

    /// Returns whether the trace has times.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        self.timed
    }

    /// Gives the error that ended the trace early, after its end.
    #[must_use]
    pub fn failure(&self) -> Option<&ReplayError> {
        self.failure.as_ref()
    }

    /// Takes that error out of the feed.
    pub fn take_failure(&mut self) -> Option<ReplayError> {
        self.failure.take()
    }

    fn access(&mut self) -> Result<Option<Access>, ReplayError> {
        match &mut self.trace {
            Trace::File(file) => file.next(),
            Trace::Synthetic { trace, base } => {
                let access = trace.access(self.next);
                self.next += 1;
                Ok(Some(Access { addr: access.addr + *base, ..access }))
            }
        }
    }

    fn request(&mut self) -> Result<Option<(Cycle, Request)>, ReplayError> {
        loop {
            let Some(access) = self.access()? else { return Ok(None) };
            match self.mapping.find(access.addr) {
                Found::OtherChannel => self.other_channels += 1,
                Found::Outside => {
                    let problem = format!("address {:#x} is outside the memory of the channel's mapping", access.addr);
                    return Err(match &self.trace {
                        Trace::File(file) => file.refuse(&problem),
                        Trace::Synthetic { .. } => ReplayError::Outside(problem),
                    });
                }
                Found::Here(spot) => {
                    self.timed |= access.cycle.is_some();
                    let id = self.requests;
                    self.requests += 1;
                    let from = match (self.period, access.cycle) {
                        (Some(period), _) => Cycle(id * period),
                        (None, cycle) => Cycle(cycle.unwrap_or(0)),
                    };
                    let request = Request {
                        id,
                        source: 0,
                        write: access.write,
                        bank: spot.bank,
                        row: spot.row,
                        column: spot.column,
                    };
                    return Ok(Some((from, request)));
                }
            }
        }
    }
}

impl Iterator for Feed<'_> {
    /// The first cycle in which it is offered, and the request.
    type Item = (Cycle, Request);

    fn next(&mut self) -> Option<(Cycle, Request)> {
        if self.left == Some(0) || self.failure.is_some() {
            return None;
        }
        match self.request() {
            Ok(request) => {
                self.left = self.left.map(|left| left - 1);
                request
            }
            Err(failure) => {
                self.failure = Some(failure);
                None
            }
        }
    }
}
