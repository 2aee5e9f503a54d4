//! A machine that is not there, with controllers that send every command: a judge for the probe that was not made for it.

use crate::oracle::{Oracle, OracleError};
use crate::pool::Pool;
use memtint_dram::{
    Completion, Controller, ControllerConfig, Cycle, Decoder, Device, DeviceChoice, DramError, Geometry, NEVER, Offer,
    Place, Request, Standard, Step,
};
use memtint_map::{Platform, Role};
use memtint_units::PhysAddr;
use memtint_units::Random;

/// Ticks of the clock in a cycle of a channel: a clock of about 3 GHz beside DDR4-2400.
const TICKS_PER_CYCLE: f64 = 2.5;
/// Cycles that a flush, fences and the next address take between two accesses.
const BETWEEN: u64 = 60;
/// Cycles that an access spends outside its channel.
const OUTSIDE: u64 = 40;
/// Cycles of a hit in a cache.
const CACHED: u64 = 16;
/// The id of the probe's own request; the other program has higher ones.
const OWN: u64 = 0;
/// Who requests: the probe, or the other program.
const PROBE: u16 = 0;
const OTHER: u16 = 1;
/// Cores that the probe can have read together, and reads that one of them has under way at most.
const READERS: u32 = 8;
const UNDER_WAY: u32 = 16;

/// What is around the controllers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Surroundings {
    /// Another program reads a line of its own every so many cycles of a channel; 0: there is none.
    pub other_each: u64,
    /// Neighbouring lines that it reads before it goes somewhere else; at least 1.
    pub other_lines: u32,
    /// Share of accesses that a cache answers although their line was flushed.
    pub leak: f64,
    /// Standard deviation of what the clock and the core add to each access; unit: ticks.
    pub sigma: f64,
    /// Ticks by which the clock moves on, 1 or more.
    pub quantum: u32,
}

impl Surroundings {
    /// Nobody else, no leaks, a good clock.
    pub const IDLE: Surroundings = Surroundings { other_each: 0, other_lines: 1, leak: 0.0, sigma: 3.0, quantum: 1 };
}

/// A machine with the mapping of a platform file whose channels are simulated command by command: row buffers under a page
/// policy, every constraint of a standard, refresh, and another program's requests in the same queues.
///
/// What is simplified: all lines are flushed before they are accessed, so that caches only show as leaks; no core can be spared to run
/// beside. Of accesses in turn one is under way at a time. Readers that read together begin a read each cycle, in the order of their
/// addresses, while they have fewer than 16 under way; what finds a full queue waits until one has room, those that have waited longest
/// go first, and holds up what is behind it.
pub struct ControllerMachine {
    decoder: Decoder,
    geometry: Geometry,
    channels: Vec<Controller>,
    pool: Pool,
    around: Surroundings,
    random: Random,
    /// Cycle of all channels.
    now: Cycle,
    /// When the other program reads next, what, and how much of its stream is left.
    other_at: Cycle,
    other: u64,
    other_left: u32,
    others: u64,
}

impl ControllerMachine {
    /// Makes a machine with devices of a standard (see [`Standard::load`]) behind controllers of one kind.
    ///
    /// # Errors
    /// [`DramError`] for a standard that is not known, or a platform that cannot be decoded for it.
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

    /// Makes one with these devices.
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

    /// Tells whether two addresses are in one bank and in different rows.
    #[must_use]
    pub fn conflicts(&self, a: PhysAddr, b: PhysAddr) -> bool {
        let [a, b] = [a, b].map(|addr| self.decoder.place(addr));
        a.zip(b).is_some_and(|(a, b)| (a.channel, a.bank) == (b.channel, b.bank) && a.row != b.row)
    }

    /// Gives the outermost that two addresses have apart, of channel, rank, bank group and bank; `None` for addresses of one bank, and
    /// where no memory is.
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

    /// The other program's next request comes in.
    fn other_arrives(&mut self) {
        if self.other_left == 0 {
            self.other = self.pool.any(&mut self.random).0;
            self.other_left = self.around.other_lines.max(1);
        }
        let cycle = self.other_at;
        // Not in step with the probe.
        self.other_at += 1 + self.random.below(2 * self.around.other_each);
        self.others += 1;
        let place = self.decoder.place(PhysAddr(self.other));
        self.other_left -= 1;
        self.other += 64;
        if let Some(place) = place {
            let channel = &mut self.channels[place.channel as usize];
            while channel.step(cycle) != Step::Quiet {}
            // What finds no room is not asked for again: the other program is slower then.
            let _ = channel.offer(cycle, request(OWN + self.others, OTHER, place));
        }
    }

    /// Lets the channels work, and the other program with them, until the request is done.
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

    /// What the clock says of some cycles.
    fn reading(&mut self, cycles: u64) -> u32 {
        let ticks = cycles as f64 * TICKS_PER_CYCLE + self.random.normal() * self.around.sigma;
        let quantum = f64::from(self.around.quantum.max(1));
        ((ticks / quantum + self.random.unit()).floor().max(1.0) * quantum) as u32
    }

    /// Carries out all that comes before a cycle. What was read is back at its reader some time after its last transfer, and then
    /// there is room in a queue.
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

    /// Lets readers read until the first has gone over its share so often, and the others have what they asked for.
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
            // Whoever has waited longest for a queue goes first.
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

/// A core that reads its share of some addresses over and over.
struct Reader {
    share: Vec<Place>,
    /// The next of them.
    next: usize,
    under_way: u32,
    /// When the round begins, or has begun.
    begun: Cycle,
    /// When it began its latest read.
    turn: Cycle,
    /// When what was read is back, as far as it is known.
    back: Vec<Cycle>,
    /// The queue that its next read goes to is full, and nothing has left any queue since.
    is_held_up: bool,
    /// When the last was.
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

    /// Takes what is back.
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

    /// The next cycle in which it may have something to do, beside what channels do for it.
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
        // One round before, so that the rows that others left open are closed.
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
        // One round before, as for accesses in turn.
        Ok(Some(self.read_together(all, rounds + 1).split_off(1)))
    }
}
