//! A simulated machine with command-level controllers: a test of the probe with a model that was not made for it.

use crate::oracle::{Oracle, OracleError};
use crate::pool::Pool;
use memtint_dram::{
    Completion, Controller, ControllerConfig, Cycle, Decoder, Device, DeviceChoice, DramError, Geometry, NEVER, Offer,
    Place, Request, Standard, Step,
};
use memtint_map::{Platform, Role};
use memtint_units::PhysAddr;
use memtint_units::Random;

/// Ticks of the clock in a cycle of a channel: a clock of about 3 GHz with DDR4-2400.
const TICKS_PER_CYCLE: f64 = 2.5;
/// Cycles for a flush, fences and the next address between two accesses.
const BETWEEN: u64 = 60;
/// Cycles that an access spends outside its channel.
const OUTSIDE: u64 = 40;
/// Cycles of a hit in a cache.
const CACHED: u64 = 16;
/// The id of the probe's request; requests of the other program have higher ids.
const OWN: u64 = 0;
/// Requesters: the probe and the other program.
const PROBE: u16 = 0;
const OTHER: u16 = 1;
/// The most cores that read together, and the most reads in flight of each.
const READERS: u32 = 8;
const UNDER_WAY: u32 = 16;

/// The environment of the controllers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Surroundings {
    /// Cycles of a channel between reads of another program; 0: no other program.
    pub other_each: u64,
    /// Consecutive lines that it reads before it moves to another place; at least 1.
    pub other_lines: u32,
    /// Share of accesses that hit a cache although their line was flushed.
    pub leak: f64,
    /// Standard deviation of the noise of clock and core in each access; unit: ticks.
    pub sigma: f64,
    /// Ticks by which the clock advances, 1 or more.
    pub quantum: u32,
}

impl Surroundings {
    /// No other program, no leaks, a precise clock.
    pub const IDLE: Surroundings = Surroundings { other_each: 0, other_lines: 1, leak: 0.0, sigma: 3.0, quantum: 1 };
}

/// A machine with the mapping of a platform file whose channels are simulated command by command: row buffers under a page
/// policy, every constraint of a standard, refresh, and another program's requests in the same queues.
///
/// Simplifications: all lines are flushed before each access, so caches only appear as leaks; no other core is
/// available to run concurrently. Accesses in turn are serialized. Readers that read together begin a read each cycle,
/// in the order of their addresses, while they have fewer than 16 in flight. A read that finds a full queue waits for
/// room and holds up later reads; the longest-waiting reader goes first.
pub struct ControllerMachine {
    decoder: Decoder,
    geometry: Geometry,
    channels: Vec<Controller>,
    pool: Pool,
    around: Surroundings,
    random: Random,
    /// Cycle of all channels.
    now: Cycle,
    /// Time and address of the other program's next read, and the rest of its stream.
    other_at: Cycle,
    other: u64,
    other_left: u32,
    others: u64,
}

impl ControllerMachine {
    /// Makes a machine with devices of a standard (see [`Standard::load`]) and controllers of one kind.
    ///
    /// # Errors
    /// [`DramError`] for an unknown standard, or a platform that cannot be decoded for it.
    pub fn new(
        platform: &Platform,
        standard: &str,
        config: ControllerConfig,
        pool: Pool,
        around: Surroundings,
        seed: u64,
    ) -> Result<ControllerMachine, DramError> {
        let device = Standard::load(standard)?.device(DeviceChoice::default())?;
        ControllerMachine::of_device(platform, &device, config, pool, around, seed)
    }

    /// Makes a machine with these devices.
    ///
    /// # Errors
    /// [`DramError`] for a platform that cannot be decoded for them.
    pub fn of_device(
        platform: &Platform,
        device: &Device,
        config: ControllerConfig,
        pool: Pool,
        around: Surroundings,
        seed: u64,
    ) -> Result<ControllerMachine, DramError> {
        let decoder = Decoder::new(platform, &device.geometry)?;
        let geometry = decoder.geometry(&device.geometry);
        let channels = (0..decoder.channels()).map(|_| Controller::new(geometry, device.timing, config));
        Ok(ControllerMachine {
            channels: channels.collect::<Result<_, _>>()?,
            decoder,
            geometry,
            pool,
            around,
            random: Random::new(seed),
            now: Cycle::ZERO,
            other_at: if around.other_each == 0 { NEVER } else { Cycle(around.other_each) },
            other: 0,
            other_left: 0,
            others: 0,
        })
    }

    /// Returns whether two addresses are in one bank and in different rows.
    #[must_use]
    pub fn conflicts(&self, a: PhysAddr, b: PhysAddr) -> bool {
        let [a, b] = [a, b].map(|addr| self.decoder.place(addr));
        a.zip(b).is_some_and(|(a, b)| (a.channel, a.bank) == (b.channel, b.bank) && a.row != b.row)
    }

    /// Returns the outermost level in which two addresses differ: channel, rank, bank group or bank; `None` for
    /// addresses of one bank, and outside memory.
    #[must_use]
    pub fn apart(&self, a: PhysAddr, b: PhysAddr) -> Option<Role> {
        let [a, b] = [self.decoder.place(a)?, self.decoder.place(b)?];
        let differ = |banks: u32| a.bank.0 / banks != b.bank.0 / banks;
        let Geometry { bank_groups, banks_per_group, .. } = self.geometry;
        match () {
            () if a.channel != b.channel => Some(Role::Channel),
            () if differ(bank_groups * banks_per_group) => Some(Role::Rank),
            () if differ(banks_per_group) => Some(Role::BankGroup),
            () => differ(1).then_some(Role::Bank),
        }
    }

    /// Handles the other program's next request.
    fn other_arrives(&mut self) {
        if self.other_left == 0 {
            self.other = self.pool.any(&mut self.random).0;
            self.other_left = self.around.other_lines.max(1);
        }
        let cycle = self.other_at;
        // At random intervals, so as not to run in step with the probe.
        self.other_at += 1 + self.random.below(2 * self.around.other_each);
        self.others += 1;
        let place = self.decoder.place(PhysAddr(self.other));
        self.other_left -= 1;
        self.other += 64;
        if let Some(place) = place {
            let channel = &mut self.channels[place.channel as usize];
            while channel.step(cycle) != Step::Quiet {}
            // A request that finds no room is dropped: the other program slows down.
            let _ = channel.offer(cycle, request(OWN + self.others, OTHER, place));
        }
    }

    /// Runs the channels and the other program until the request is done.
    fn serve(&mut self, place: Place) -> Completion {
        while self.other_at <= self.now {
            self.other_arrives();
        }
        let at = place.channel as usize;
        while self.channels[at].step(self.now) != Step::Quiet {}
        let mut cycle = self.now;
        while self.channels[at].offer(cycle, request(OWN, PROBE, place)) == Offer::Full {
            cycle += 1;
            while self.other_at <= cycle {
                self.other_arrives();
            }
            while self.channels[at].step(cycle) != Step::Quiet {}
        }
        loop {
            match self.channels[at].step(self.other_at) {
                Step::Done(done) if done.id == OWN => return done,
                Step::Quiet => self.other_arrives(),
                _ => {}
            }
        }
    }

    fn access(&mut self, addr: PhysAddr) -> Result<u32, OracleError> {
        let place = self.decoder.place(addr).filter(|_| self.pool.contains(addr));
        let place = place.ok_or(OracleError::Outside { found: addr.0 })?;
        let cycles = if self.random.unit() < self.around.leak {
            CACHED
        } else {
            let begun = self.now;
            let done = self.serve(place).done;
            done - begun + OUTSIDE
        };
        self.now += cycles + BETWEEN;
        Ok(self.reading(cycles))
    }

    /// The clock's reading of some cycles.
    fn reading(&mut self, cycles: u64) -> u32 {
        let ticks = cycles as f64 * TICKS_PER_CYCLE + self.random.normal() * self.around.sigma;
        let quantum = f64::from(self.around.quantum.max(1));
        ((ticks / quantum + self.random.unit()).floor().max(1.0) * quantum) as u32
    }

    /// Runs everything before a cycle. Data arrives at its reader some time after the last transfer, which also frees
    /// an entry in a queue.
    fn work_until(&mut self, cycle: Cycle, readers: &mut [Reader]) {
        let mut room = false;
        for channel in &mut self.channels {
            loop {
                match channel.step(cycle) {
                    Step::Done(done) => {
                        room = true;
                        if done.source == PROBE {
                            readers[done.id as usize].back.push(done.done + OUTSIDE);
                        }
                    }
                    Step::Working => {}
                    Step::Quiet => break,
                }
            }
        }
        if room {
            readers.iter_mut().for_each(|reader| reader.is_held_up = false);
        }
    }

    /// Begins the next read of a reader, if a queue has room for it.
    fn begin(&mut self, cycle: Cycle, number: usize, reader: &mut Reader) {
        let place = reader.share[reader.next];
        if self.random.unit() < self.around.leak {
            reader.back.push(cycle + CACHED);
        } else {
            let asked = request(number as u64, PROBE, place);
            if self.channels[place.channel as usize].offer(cycle, asked) == Offer::Full {
                reader.is_held_up = true;
                return;
            }
        }
        reader.next += 1;
        reader.under_way += 1;
        reader.turn = cycle;
    }

    /// Runs the readers until the first has read its share `rounds` times, and all reads in flight are done.
    fn read_together(&mut self, mut readers: Vec<Reader>, rounds: u32) -> Vec<u32> {
        let mut readings = Vec::with_capacity(rounds as usize);
        let mut order: Vec<usize> = (0..readers.len()).collect();
        let mut cycle = self.now;
        while self.other_at <= cycle {
            self.other_arrives();
        }
        loop {
            self.work_until(cycle, &mut readers);
            while self.other_at <= cycle {
                self.other_arrives();
            }
            let ending = readings.len() == rounds as usize;
            let mut wake = self.other_at;
            // The reader that has waited longest for a queue goes first.
            order.sort_by_key(|&number| readers[number].turn);
            for &number in &order {
                let reader = &mut readers[number];
                reader.take(cycle);
                if reader.next == reader.share.len() && reader.under_way == 0 {
                    if number == 0 && !ending {
                        readings.push(self.reading(reader.last - reader.begun));
                    }
                    let (share, turn) = (std::mem::take(&mut reader.share), reader.turn);
                    *reader = Reader { share, turn, ..Reader::starting(cycle + BETWEEN) };
                }
                let stops = ending || (number == 0 && readings.len() == rounds as usize);
                if reader.begun <= cycle && reader.may_begin() && !stops {
                    self.begin(cycle, number, reader);
                }
                wake = wake.min(reader.wakes_after(cycle));
            }
            if ending && readers.iter().all(|reader| reader.under_way == 0) {
                self.now = cycle + BETWEEN;
                return readings;
            }
            let busy = self.channels.iter_mut().map(Controller::next_cycle).min().unwrap_or(NEVER);
            cycle = (cycle + 1).max(wake.min(busy));
        }
    }
}

/// A core that repeatedly reads its share of some addresses.
struct Reader {
    share: Vec<Place>,
    /// Index of the next address.
    next: usize,
    under_way: u32,
    /// Beginning of the round, past or future.
    begun: Cycle,
    /// Beginning of its latest read.
    turn: Cycle,
    /// Known arrival times of reads in flight.
    back: Vec<Cycle>,
    /// The queue of its next read is full, and no request has left any queue since.
    is_held_up: bool,
    /// Arrival time of the last read.
    last: Cycle,
}

impl Reader {
    fn starting(begun: Cycle) -> Reader {
        Reader {
            share: Vec::new(),
            next: 0,
            under_way: 0,
            begun,
            turn: Cycle::ZERO,
            back: Vec::new(),
            is_held_up: false,
            last: begun,
        }
    }

    /// Completes the reads that have arrived.
    fn take(&mut self, cycle: Cycle) {
        let before = self.back.len();
        let last = &mut self.last;
        self.back.retain(|&back| {
            if back <= cycle {
                *last = back.max(*last);
            }
            back > cycle
        });
        self.under_way -= (before - self.back.len()) as u32;
    }

    fn may_begin(&self) -> bool {
        self.next < self.share.len() && self.under_way < UNDER_WAY && !self.is_held_up
    }

    /// The next cycle in which it may act, besides events of channels.
    fn wakes_after(&self, cycle: Cycle) -> Cycle {
        let own = if self.may_begin() { self.begun.max(cycle + 1) } else { NEVER };
        self.back.iter().fold(own, |least, &back| least.min(back))
    }
}

fn request(id: u64, source: u16, place: Place) -> Request {
    Request { id, source, write: false, bank: place.bank, row: place.row, column: place.column }
}

impl Oracle for ControllerMachine {
    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn time(&mut self, addresses: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError> {
        let mut readings = Vec::with_capacity(addresses.len() * rounds as usize);
        // One round first, which closes rows left open by others.
        for round in 0..=rounds {
            for &addr in addresses {
                let reading = self.access(addr)?;
                if round > 0 {
                    readings.push(reading);
                }
            }
        }
        Ok(readings)
    }

    fn time_beside(&mut self, _: &[PhysAddr], _: &[PhysAddr], _: u32) -> Result<Option<Vec<u32>>, OracleError> {
        Ok(None)
    }

    fn readers(&self) -> u32 {
        READERS
    }

    fn together(&mut self, addresses: &[PhysAddr], readers: u32, rounds: u32) -> Result<Option<Vec<u32>>, OracleError> {
        if readers == 0 || readers > READERS || addresses.len() < readers as usize {
            return Ok(None);
        }
        let place = |&addr: &PhysAddr| {
            let place = self.decoder.place(addr).filter(|_| self.pool.contains(addr));
            place.ok_or(OracleError::Outside { found: addr.0 })
        };
        let places = addresses.iter().map(place).collect::<Result<Vec<Place>, _>>()?;
        let share = |first: usize| places.iter().copied().skip(first).step_by(readers as usize).collect();
        let start = |first: u32| Reader { share: share(first as usize), ..Reader::starting(self.now) };
        let all = (0..readers).map(start).collect();
        // One round first, as for accesses in turn.
        Ok(Some(self.read_together(all, rounds + 1).split_off(1)))
    }
}
