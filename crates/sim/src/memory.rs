//! Memory as cores see it: channels behind an interconnect.
//!
//! A request leaves a core's last-level cache, travels to the channel's node, waits in front of the controller while
//! its queue is full, and is served. Reads of one node's cores to another node's memory share that link's bandwidth. A
//! line longer than one burst is split into several requests and completes with the last.

use crate::error::SimError;
use crate::histogram::Histogram;
use memtint_dram::{
    BankCounts, BankIndex, CommandSink, Completion, Controller, ControllerConfig, Cycle, Decoder, Device, Geometry,
    NEVER, Offer, RankCounts, RankIndex, RefreshMet, Request, RowIndex, Step, Timetable,
};
use memtint_units::{Clock, PhysAddr, Picoseconds};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The waiter of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket {
    pub(crate) core: u16,
    /// Miss register of the core.
    pub(crate) register: u16,
    /// Task on whose behalf.
    pub(crate) task: u16,
}

/// An event of a core's request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Notice {
    /// The data of a read arrive at this time.
    Read { ticket: Ticket, at: Picoseconds, completion: Option<Completion> },
    /// A write was taken in.
    Written { ticket: Ticket, at: Picoseconds },
}

/// A line of several bursts on its way.
#[derive(Clone, Copy, Debug, Default)]
struct Parted {
    /// Bursts that have not been heard of.
    left: u64,
    /// Latest arrival so far.
    at: Picoseconds,
    /// The completion of the first one.
    first: Option<Completion>,
}

/// Place of a line that is one burst.
const WHOLE: u32 = u32::MAX;

/// The interconnect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumaConfig {
    /// Time of a hop, one way, on top of a local access.
    pub hop: Picoseconds,
    /// Hops from one node to another, by `from * nodes + to`.
    pub hops: Vec<u32>,
    /// Time that a burst occupies the link between two nodes, each direction of each pair having one.
    pub burst_time: Picoseconds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    at: Picoseconds,
    order: u64,
    ticket: Ticket,
    write: bool,
    bank: BankIndex,
    row: RowIndex,
    column: u32,
    /// Way back.
    hop: Picoseconds,
    /// The line it is a part of, or [`WHOLE`].
    parted: u32,
}

/// One channel with the requests on their way to it.
struct Channel<S> {
    controller: Controller<S>,
    node: u32,
    arrivals: BinaryHeap<Reverse<Arrival>>,
    /// Reads and writes that have arrived and wait for an entry.
    waiting: [VecDeque<Arrival>; 2],
    /// Requests in the controller, by their id.
    inside: Vec<Arrival>,
    free: Vec<u32>,
    /// From the arrival of a read to its data, bank by bank.
    latency_ps: Vec<Histogram>,
    /// Time of the next event.
    next: Picoseconds,
}

/// All channels of the machine, each with a sink for its commands.
pub(crate) struct MemorySystem<S> {
    decoder: Decoder,
    channels: Vec<Channel<S>>,
    clock: Clock,
    numa: NumaConfig,
    /// When the link from one node to another is free, by `from * nodes + to`.
    links: Vec<Picoseconds>,
    nodes: usize,
    order: u64,
    earliest: (Picoseconds, usize),
    burst_bytes: u64,
    burst_cycles: u32,
    /// Of each channel.
    geometry: Geometry,
    bursts_per_line: u64,
    parted: Vec<Parted>,
    parted_free: Vec<u32>,
    /// Notices of a channel about bursts, with the lines that they are parts of.
    heard: Vec<(u32, Notice)>,
}

const LONG_AFTER: Picoseconds = Picoseconds(u64::MAX);

impl<S: CommandSink> MemorySystem<S> {
    /// There must be a sink for each channel; lines have a power of two of bytes.
    pub(crate) fn new(
        decoder: Decoder,
        device: &Device,
        config: ControllerConfig,
        timetable: Option<&Timetable>,
        numa: NumaConfig,
        line_bytes: u64,
        sinks: Vec<S>,
    ) -> Result<MemorySystem<S>, SimError> {
        let geometry = decoder.geometry(&device.geometry);
        let nodes = decoder.node_of_channel().iter().max().map_or(1, |&last| last as usize + 1);
        assert_eq!(sinks.len(), decoder.node_of_channel().len(), "a sink for each channel");
        let channels = decoder.node_of_channel().iter().zip(sinks).map(|(&node, sink)| {
            let engine = match timetable {
                Some(timetable) => timetable.engine(),
                None => config.refresh.engine(&geometry, &device.timing),
            };
            Ok(Channel {
                controller: Controller::with_engine(geometry, device.timing, config, engine, sink)?,
                node,
                arrivals: BinaryHeap::new(),
                waiting: [VecDeque::new(), VecDeque::new()],
                inside: Vec::new(),
                free: Vec::new(),
                latency_ps: vec![Histogram::default(); (geometry.ranks * geometry.banks_per_rank()) as usize],
                next: Picoseconds(0),
            })
        });
        let mut memory = MemorySystem {
            channels: channels.collect::<Result<_, SimError>>()?,
            clock: device.clock,
            decoder,
            numa,
            links: vec![Picoseconds(0); nodes * nodes],
            nodes,
            order: 0,
            earliest: (LONG_AFTER, 0),
            burst_bytes: u64::from(geometry.burst_bytes()),
            burst_cycles: device.timing.burst,
            geometry,
            bursts_per_line: (line_bytes / u64::from(geometry.burst_bytes())).max(1),
            parted: Vec::new(),
            parted_free: Vec::new(),
            heard: Vec::new(),
        };
        for index in 0..memory.channels.len() {
            memory.renew(index);
        }
        Ok(memory)
    }

    /// Sends a line's request on its way; `at` is when it leaves the core's node.
    pub(crate) fn send(&mut self, at: Picoseconds, node: u32, ticket: Ticket, addr: PhysAddr, write: bool) {
        if self.bursts_per_line == 1 {
            return self.send_burst(at, node, ticket, addr, write, WHOLE);
        }
        let line = self.parted_free.pop().unwrap_or_else(|| {
            self.parted.push(Parted::default());
            self.parted.len() as u32 - 1
        });
        self.parted[line as usize] = Parted { left: self.bursts_per_line, ..Parted::default() };
        for burst in 0..self.bursts_per_line {
            self.send_burst(at, node, ticket, PhysAddr(addr.0 + burst * self.burst_bytes), write, line);
        }
    }

    fn send_burst(&mut self, at: Picoseconds, node: u32, ticket: Ticket, addr: PhysAddr, write: bool, parted: u32) {
        let place = self.decoder.place(addr).expect("frames come from the platform's regions");
        let channel = &self.channels[place.channel as usize];
        let home = channel.node;
        let hops = self.numa.hops[node as usize * self.nodes + home as usize];
        let hop = Picoseconds(self.numa.hop.0 * u64::from(hops));
        let mut arrives = at + hop;
        if home != node {
            // It crosses with a write, or on the way back of a read: one of the two directions.
            let (from, to) = if write { (node, home) } else { (home, node) };
            let link = &mut self.links[from as usize * self.nodes + to as usize];
            arrives = arrives.max(*link);
            *link = arrives + self.numa.burst_time;
        }
        self.order += 1;
        let index = place.channel as usize;
        let arrival = Arrival {
            at: arrives,
            order: self.order,
            ticket,
            write,
            bank: place.bank,
            row: place.row,
            column: place.column,
            hop,
            parted,
        };
        self.channels[index].arrivals.push(Reverse(arrival));
        if arrives < self.channels[index].next {
            self.channels[index].next = arrives;
            if arrives < self.earliest.0 {
                self.earliest = (arrives, index);
            }
        }
    }

    /// Time of the next event of any channel.
    #[inline]
    pub(crate) fn next(&self) -> Picoseconds {
        self.earliest.0
    }

    /// Lets the channel that is next work up to a time (excluded), or until an event that a core must receive.
    ///
    /// The next action of another channel may wake a core, whose request takes `reach` to get here.
    pub(crate) fn advance(&mut self, until: Picoseconds, reach: Picoseconds, tell: &mut Vec<Notice>) {
        let index = self.earliest.1;
        let others = self.channels.iter().enumerate().filter(|&(at, _)| at != index).map(|(_, channel)| channel.next.0);
        let until = others.min().map_or(until, |next| until.min(Picoseconds(next.saturating_add(reach.0))));
        let clock = self.clock;
        let mut heard = std::mem::take(&mut self.heard);
        self.channels[index].work(until, clock, &mut heard);
        tell.extend(heard.drain(..).filter_map(|(line, notice)| self.whole(line, notice)));
        self.heard = heard;
        self.renew(index);
    }

    /// Turns the notices of bursts into one for their line, after the last burst.
    #[inline]
    fn whole(&mut self, line: u32, notice: Notice) -> Option<Notice> {
        if line == WHOLE {
            return Some(notice);
        }
        let parted = &mut self.parted[line as usize];
        let (at, completion) = match notice {
            Notice::Read { at, completion, .. } => (at, completion),
            Notice::Written { at, .. } => (at, None),
        };
        parted.at = parted.at.max(at);
        parted.first = parted.first.or(completion);
        parted.left -= 1;
        if parted.left > 0 {
            return None;
        }
        self.parted_free.push(line);
        let Parted { at, first, .. } = *parted;
        Some(match notice {
            Notice::Read { ticket, .. } => Notice::Read { ticket, at, completion: first },
            Notice::Written { ticket, .. } => Notice::Written { ticket, at },
        })
    }

    fn renew(&mut self, index: usize) {
        let clock = self.clock;
        let channel = &mut self.channels[index];
        let command = channel.controller.next_cycle();
        let command = if command == NEVER { LONG_AFTER } else { clock.start(command.0) };
        let arrival = channel.arrivals.peek().map_or(LONG_AFTER, |Reverse(arrival)| arrival.at);
        channel.next = command.min(arrival);
        let first = self.channels.iter().enumerate().map(|(at, channel)| (channel.next, at)).min();
        self.earliest = first.unwrap_or((LONG_AFTER, 0));
    }

    pub(crate) fn bank_counts(&self) -> impl Iterator<Item = &[BankCounts]> {
        self.channels.iter().map(|channel| channel.controller.bank_counts())
    }

    pub(crate) fn bank_latencies(&self) -> impl Iterator<Item = &[Histogram]> {
        self.channels.iter().map(|channel| channel.latency_ps.as_slice())
    }

    pub(crate) fn rank_counts(&self, at: Picoseconds) -> impl Iterator<Item = Vec<RankCounts>> {
        let cycle = Cycle(self.clock.cycles_covering(at));
        self.channels.iter().map(move |channel| channel.controller.rank_counts(cycle))
    }

    pub(crate) fn refresh_met(&self) -> impl Iterator<Item = &[RefreshMet]> {
        self.channels.iter().map(|channel| channel.controller.refresh_met())
    }

    /// Requests of a task that met a refresh, on all channels.
    pub(crate) fn refresh_met_by_task(&self, task: usize) -> u64 {
        let of_channel =
            |channel: &Channel<S>| channel.controller.refresh_met_by_source().get(task).copied().unwrap_or_default();
        self.channels.iter().map(of_channel).sum()
    }

    /// The rank of an address on its channel.
    pub(crate) fn rank(&self, addr: PhysAddr) -> Option<RankIndex> {
        Some(self.geometry.rank_of(self.decoder.place(addr)?.bank))
    }

    /// Time that the data of a line take on the bus of a channel.
    pub(crate) fn line_time(&self) -> Picoseconds {
        Picoseconds(self.clock.start(u64::from(self.burst_cycles) * self.bursts_per_line).0)
    }

    pub(crate) fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    pub(crate) fn into_sinks(self) -> Vec<S> {
        self.channels.into_iter().map(|channel| channel.controller.into_sink()).collect()
    }
}

impl<S: CommandSink> Channel<S> {
    fn work(&mut self, until: Picoseconds, clock: Clock, tell: &mut Vec<(u32, Notice)>) {
        while tell.is_empty() {
            let arrival = self.arrivals.peek().map(|Reverse(arrival)| arrival.at).filter(|&at| at < until);
            let arrival_cycle = arrival.map_or(NEVER, |at| Cycle(clock.cycles_covering(at)));
            let limit = arrival_cycle.min(Cycle(clock.cycles_covering(until)));
            if self.controller.next_cycle() < limit {
                if let Step::Done(completion) = self.controller.step(limit) {
                    self.done(completion, clock, tell);
                }
            } else if arrival.is_some() {
                let Reverse(arrival) = self.arrivals.pop().expect("peeked");
                let queue = &mut self.waiting[usize::from(arrival.write)];
                queue.push_back(arrival);
                if queue.len() == 1 {
                    self.enter(arrival_cycle, arrival.write, clock, tell);
                }
            } else {
                return;
            }
        }
    }

    fn done(&mut self, completion: Completion, clock: Clock, tell: &mut Vec<(u32, Notice)>) {
        let id = completion.id as usize;
        let request = self.inside[id];
        self.free.push(id as u32);
        if !completion.write {
            let done = clock.start(completion.done.0);
            self.latency_ps[completion.bank.index()].add((done - request.at).0);
            let at = done + request.hop;
            tell.push((request.parted, Notice::Read { ticket: request.ticket, at, completion: Some(completion) }));
        }
        self.enter(completion.issued + 1, completion.write, clock, tell);
    }

    /// Offers waiting requests while there is room.
    fn enter(&mut self, cycle: Cycle, write: bool, clock: Clock, tell: &mut Vec<(u32, Notice)>) {
        while let Some(&arrival) = self.waiting[usize::from(write)].front() {
            let id = self.free.pop().unwrap_or_else(|| {
                self.inside.push(arrival);
                self.inside.len() as u32 - 1
            });
            let Arrival { bank, row, column, ticket, .. } = arrival;
            let request = Request { id: u64::from(id), source: ticket.task, write, bank, row, column };
            let at = clock.start(cycle.0) + arrival.hop;
            match self.controller.offer(cycle, request) {
                Offer::Queued => self.inside[id as usize] = arrival,
                Offer::Forwarded => {
                    self.free.push(id);
                    if !write {
                        let at = clock.start(cycle.0 + 1) + arrival.hop;
                        tell.push((arrival.parted, Notice::Read { ticket, at, completion: None }));
                    }
                }
                Offer::Full => {
                    self.free.push(id);
                    return;
                }
            }
            self.waiting[usize::from(write)].pop_front();
            if write {
                tell.push((arrival.parted, Notice::Written { ticket, at }));
            }
        }
    }
}
