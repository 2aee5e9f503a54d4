//! A machine that is not there, with controllers that send every command: a judge for the probe that was not made for it.

use crate::oracle::{Oracle, OracleError};
use crate::pool::Pool;
use crate::random::Random;
use memtint_dram::{
    Completion, Controller, ControllerConfig, Decoder, DeviceChoice, DramError, NEVER, Offer, Place, Request, Standard,
    Step,
};
use memtint_map::Platform;
use memtint_units::PhysAddr;

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
/// What is simplified: one access of the probe is under way at a time; all lines are flushed before they are accessed, so that caches
/// only show as leaks; no core can be spared to run beside.
pub struct ControllerMachine {
    decoder: Decoder,
    channels: Vec<Controller>,
    pool: Pool,
    around: Surroundings,
    random: Random,
    /// Cycle of all channels.
    now: u64,
    /// When the other program reads next, what, and how much of its stream is left.
    other_at: u64,
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
        let decoder = Decoder::new(platform, &device.geometry)?;
        let geometry = decoder.geometry(&device.geometry);
        let channels = (0..decoder.channels()).map(|_| Controller::new(geometry, device.timing, config));
        Ok(ControllerMachine {
            channels: channels.collect::<Result<_, _>>()?,
            decoder,
            pool,
            around,
            random: Random::new(seed),
            now: 0,
            other_at: if around.other_each == 0 { NEVER } else { around.other_each },
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
            let _ = channel.offer(cycle, request(OWN + self.others, 1, place));
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
        while self.channels[at].offer(cycle, request(OWN, 0, place)) == Offer::Full {
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
        let ticks = cycles as f64 * TICKS_PER_CYCLE + self.random.normal() * self.around.sigma;
        let quantum = f64::from(self.around.quantum.max(1));
        Ok(((ticks / quantum + self.random.unit()).floor().max(1.0) * quantum) as u32)
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
}
