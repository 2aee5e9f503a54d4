//! A simulated machine: the row buffers of a known mapping, and noise in their timing.

use crate::noise::{Noise, NoiseLevel};
use crate::oracle::{Oracle, OracleError};
use crate::pool::Pool;
use memtint_map::{Platform, gf2};
use memtint_units::PhysAddr;
use memtint_units::Random;
use memtint_units::random::mix;
use std::collections::HashMap;

/// Ticks of an access to a closed row or a row hit, without noise.
const BASE: f64 = 200.0;
/// Ticks of a hit in a cache.
const CACHED: f64 = 40.0;
/// Accesses of a burst, on average.
const BURST: f64 = 200.0;
/// Period of the drift, in accesses.
const DRIFT_PERIOD: u64 = 200_000;

/// The lowest assumed row bit where a platform file gives none.
pub const ASSUMED_ROW_BIT: u32 = 13;

/// A machine with the mapping of a platform file.
///
/// Each bank keeps its last used row open. If the file does not give the row bits, two addresses are in one row when
/// they differ only in their lowest 13 bits. When two cores access different rows of one bank concurrently, one waits
/// as long as for a conflict. Simplifications: accesses do not delay each other otherwise, refresh does not close rows,
/// and bursts are the only other program.
#[derive(Clone, Debug)]
pub struct SimulatedMachine {
    platform: Platform,
    /// Additional memory of another size or kind, if any.
    beside: Option<Box<SimulatedMachine>>,
    pool: Pool,
    noise: Noise,
    seed: u64,
    random: Random,
    /// Row functions of address bits; `None`: everything above the lowest bits.
    rows: Option<Vec<u64>>,
    open: HashMap<u32, u64>,
    accesses: u64,
    bursting: bool,
    last: Option<PhysAddr>,
    /// The concurrent access of another core.
    other_core: Option<PhysAddr>,
    /// Frames are not at the addresses of the pool, as in a virtual machine.
    scrambled: bool,
}

impl SimulatedMachine {
    /// Makes a machine whose probe may access all memory of a platform. `seed` is that of the probe; the machine uses
    /// different random numbers.
    ///
    /// # Errors
    /// [`OracleError::Pool`] for memory that does not form a pool.
    pub fn of_platform(platform: Platform, noise: NoiseLevel, seed: u64) -> Result<SimulatedMachine, OracleError> {
        let pool = Pool::of_platform(&platform)?;
        SimulatedMachine::new(platform, pool, noise.noise(), !seed)
    }

    /// Makes a machine whose probe may access all of a pool.
    ///
    /// # Errors
    /// [`OracleError::Outside`] with the first or last byte of a piece, if the platform has no memory there.
    pub fn new(platform: Platform, pool: Pool, noise: Noise, seed: u64) -> Result<SimulatedMachine, OracleError> {
        for piece in pool.pieces() {
            for end in [piece.start, PhysAddr(piece.end.0 - 1)] {
                platform.locate(end).ok_or(OracleError::Outside { found: end.0 })?;
            }
        }
        let dram = platform.dram();
        let plain = |bits: &Vec<u32>| bits.iter().map(|&bit| 1 << bit).collect();
        let functions = |functions: &Vec<Vec<u32>>| {
            functions.iter().map(|bits| bits.iter().map(|&bit| 1u64 << bit).sum()).collect()
        };
        let rows = dram.row_functions.as_ref().map(functions).or_else(|| dram.row_bits.as_ref().map(plain));
        Ok(SimulatedMachine {
            platform,
            beside: None,
            pool,
            noise,
            seed,
            random: Random::new(seed),
            rows,
            open: HashMap::new(),
            accesses: 0,
            bursting: false,
            last: None,
            other_core: None,
            scrambled: false,
        })
    }

    /// Adds memory with a separate mapping and separate banks, such as a second module of another size.
    ///
    /// # Errors
    /// [`OracleError::Outside`] as for the first, and [`OracleError::Pool`] when the two overlap.
    pub fn beside(mut self, platform: Platform, pool: Pool) -> Result<SimulatedMachine, OracleError> {
        let pieces = self.pool.pieces().chain(pool.pieces()).collect::<Vec<_>>();
        self.beside = Some(Box::new(SimulatedMachine::new(platform, pool, self.noise, self.seed)?));
        self.pool = Pool::new(pieces, self.pool.known_bits())?;
        Ok(self)
    }

    /// Moves each frame of the pool to another address, as in a virtual machine.
    #[must_use]
    pub fn scrambled(mut self) -> SimulatedMachine {
        self.scrambled = true;
        self
    }

    /// Returns the platform of the machine: the right answer.
    #[must_use]
    pub fn platform(&self) -> &Platform {
        &self.platform
    }

    /// Returns whether the platform gives no row bits, so that address bits from [`ASSUMED_ROW_BIT`] on count as row
    /// bits. These may contradict the bank functions; then no mapping explains the machine's behavior.
    #[must_use]
    pub fn rows_are_assumed(&self) -> bool {
        self.rows.is_none()
    }

    /// Returns whether two addresses are in one bank and in different rows.
    #[must_use]
    pub fn conflicts(&self, a: PhysAddr, b: PhysAddr) -> bool {
        let place = |addr| self.place(self.actual(addr));
        let ((bank_a, row_a), (bank_b, row_b)) = (place(a), place(b));
        bank_a == bank_b && row_a != row_b
    }

    /// Returns whether two addresses are in one bank.
    #[must_use]
    pub fn same_bank(&self, a: PhysAddr, b: PhysAddr) -> bool {
        self.place(self.actual(a)).0 == self.place(self.actual(b)).0
    }

    /// Bank and row.
    fn place(&self, addr: PhysAddr) -> (u32, u64) {
        if let Some(beside) = self.beside.as_ref().filter(|beside| beside.pool.contains(addr)) {
            let (bank, row) = beside.place(addr);
            return (bank + self.platform.banks(), row);
        }
        let bank = self.platform.raw_bank(addr).expect("the pool is where the platform has memory");
        let inside = self.platform.locate(addr).expect("the same").dram_addr;
        let row = match &self.rows {
            Some(functions) => gf2::evaluate(functions, inside),
            None => inside >> ASSUMED_ROW_BIT,
        };
        (bank, row)
    }

    fn actual(&self, addr: PhysAddr) -> PhysAddr {
        if !self.scrambled {
            return addr;
        }
        // Another frame of the pool, determined by the frame. The map is not one to one, which is not observable.
        let mut random = Random::new(mix(self.seed ^ addr.pfn().0));
        let frame = self.pool.any(&mut random).0 & !0xfff;
        let within = PhysAddr(frame | addr.0 & 0xfff);
        if self.pool.contains(within) { within } else { addr }
    }

    fn access(&mut self, addr: PhysAddr) -> u32 {
        let noise = self.noise;
        self.accesses += 1;
        // Bursts begin and end at rates that give their share of all accesses.
        let change = if self.bursting { 1.0 / BURST } else { noise.burst / (1.0 - noise.burst) / BURST };
        self.bursting ^= self.random.unit() < change;
        let cached = self.random.unit() < noise.leak;
        let mut ticks = if cached { CACHED } else { self.memory(addr) };
        ticks += self.random.normal() * noise.sigma * if cached { 0.2 } else { 1.0 };
        ticks += self.drift();
        let quantum = f64::from(noise.quantum.max(1));
        // The clock is read twice, at random points between two of its ticks.
        ((ticks / quantum + self.random.unit()).floor().max(1.0) * quantum) as u32
    }

    /// Time of an access to memory, without noise that affects all accesses.
    fn memory(&mut self, addr: PhysAddr) -> f64 {
        let noise = self.noise;
        let actual = self.actual(addr);
        let (bank, row) = self.place(actual);
        let open = self.open.insert(bank, row);
        let mut ticks = BASE;
        if open.is_some_and(|open| open != row) {
            ticks += noise.gap;
        }
        if self.other_core.is_some_and(|other| self.conflicts(other, addr)) {
            ticks += noise.gap;
        }
        if let Some(last) = self.last.replace(addr) {
            let [low, high] = [last.0.min(addr.0), last.0.max(addr.0)];
            let mut pair = Random::new(mix(low ^ self.seed) ^ mix(high.rotate_left(32)));
            ticks += pair.normal() * noise.bias;
            let other = self.place(self.actual(last)).0;
            // One bank bit represents a bank group or a channel, which affects the time between two accesses.
            ticks += f64::from((bank ^ other) & 1) * noise.level;
        }
        if self.random.unit() < noise.refresh {
            ticks += 500.0 + 600.0 * self.random.unit();
        }
        if self.bursting {
            ticks += self.random.normal().abs() * BASE / 2.0;
            if self.random.unit() < 0.5 {
                ticks += noise.gap;
            }
        }
        ticks
    }

    /// The drift at present.
    fn drift(&self) -> f64 {
        let at = (self.accesses % DRIFT_PERIOD) as f64 / DRIFT_PERIOD as f64;
        self.noise.drift * (1.0 - 4.0 * (at - 0.5).abs())
    }

    fn inside(&self, addresses: &[PhysAddr]) -> Result<(), OracleError> {
        let outside = addresses.iter().find(|&&addr| !self.pool.contains(addr));
        outside.map_or(Ok(()), |addr| Err(OracleError::Outside { found: addr.0 }))
    }
}

impl Oracle for SimulatedMachine {
    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn time(&mut self, addresses: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError> {
        self.inside(addresses)?;
        let mut readings = Vec::with_capacity(addresses.len() * rounds as usize);
        // One round first, which closes rows left open by others.
        for _ in 0..=rounds {
            readings.extend(addresses.iter().map(|&addr| self.access(addr)));
        }
        Ok(readings.split_off(addresses.len()))
    }

    fn time_beside(
        &mut self,
        addresses: &[PhysAddr],
        others: &[PhysAddr],
        rounds: u32,
    ) -> Result<Option<Vec<u32>>, OracleError> {
        self.inside(addresses)?;
        self.inside(others)?;
        let mut readings = Vec::with_capacity(addresses.len() * rounds as usize);
        let mut other = others.iter().cycle();
        for _ in 0..rounds {
            for &addr in addresses {
                let other = other.next().copied();
                if let Some(other) = other {
                    self.access(other);
                }
                self.other_core = other;
                readings.push(self.access(addr));
                self.other_core = None;
            }
        }
        Ok(Some(readings))
    }
}
