//! A simulated machine: caches with replacement, nodes, and disturbances of the readings.

use crate::cache::oracle::{CacheFacts, CacheOracle, NodeLayout, NodeOracle, PrivateCache};
use crate::noise::Noise;
use crate::oracle::{Oracle, OracleError};
use crate::pool::Pool;
use memtint_cache::{
    AccessKind, CacheConfig, CacheError, Hierarchy, HierarchyConfig, Inclusion, Level, LlcConfig, PrefetchConfig,
    Replacement, TaskClass,
};
use memtint_map::Platform;
use memtint_units::Random;
use memtint_units::random::mix;
use memtint_units::{ByteSize, PhysAddr};

/// Ticks of an access to memory, without any noise.
const MEMORY: f64 = 200.0;
/// Accesses of a burst of another program, on average.
const BURST: f64 = 200.0;
/// Period of the drift, in accesses.
const DRIFT_PERIOD: u64 = 200_000;
/// Ticks of a hop between nodes, assumed; see [`CacheMachine::distances`].
const HOP: f64 = 60.0;
/// A last level above this size has a second level in front of it, assumed.
const LARGE: u64 = 1 << 20;

/// A machine with real tags: private caches, a last level, and another core that evicts.
///
/// Simplifications: an access to memory takes the same time everywhere, except for the row conflict of every second
/// one; the other program touches random lines; nothing overlaps.
pub struct CacheMachine {
    caches: Hierarchy,
    hash: Option<Hash>,
    pool: Pool,
    facts: CacheFacts,
    layout: NodeLayout,
    /// Ticks from a group to a node, in addition to those to memory.
    distances: Vec<Vec<f64>>,
    noise: Noise,
    seed: u64,
    random: Random,
    end: u64,
    accesses: u64,
    bursting: bool,
}

/// A slice hash outside the cache model. The model receives addresses with the slice number inserted above the set
/// bits; this mapping is one to one.
struct Hash {
    of: Box<dyn Fn(u64) -> u32>,
    /// Position of the inserted number, and its number of bits.
    shift: u32,
    bits: u32,
}

impl CacheMachine {
    /// Makes a machine with the given caches; all of its memory below `config.address_end` belongs to one node.
    ///
    /// # Errors
    /// [`CacheError`] for invalid caches, and for a pool that does not end below `config.address_end`.
    pub fn new(config: HierarchyConfig, pool: Pool, noise: Noise, seed: u64) -> Result<CacheMachine, CacheError> {
        CacheMachine::with(config, None, pool, noise, seed)
    }

    /// Makes a machine with a last level as given for each of some slices. An arbitrary function selects the slice; it
    /// returns numbers below `slices`.
    ///
    /// # Errors
    /// [`CacheError`] for invalid caches.
    pub fn hashed(
        mut config: HierarchyConfig,
        slices: u32,
        of: impl Fn(u64) -> u32 + 'static,
        pool: Pool,
        noise: Noise,
        seed: u64,
    ) -> Result<CacheMachine, CacheError> {
        let shift = config.llc.cache.set_bits.iter().max().map_or(0, |top| top + 1);
        let bits = slices.next_power_of_two().trailing_zeros();
        config.llc.slice_functions = (shift..shift + bits).map(|bit| vec![bit]).collect();
        config.llc.cache.size = ByteSize(config.llc.cache.size.bytes() << bits);
        config.address_end <<= bits;
        CacheMachine::with(config, Some(Hash { of: Box::new(of), shift, bits }), pool, noise, seed)
    }

    fn with(
        config: HierarchyConfig,
        hash: Option<Hash>,
        pool: Pool,
        noise: Noise,
        seed: u64,
    ) -> Result<CacheMachine, CacheError> {
        let line = config.line.bytes();
        let private = |cache: &CacheConfig| PrivateCache {
            sets: (cache.size.bytes() / line / u64::from(cache.ways)) as u32,
            ways: cache.ways,
        };
        let facts = CacheFacts {
            line,
            private: [Some(&config.l1_data), config.l2.as_ref()].into_iter().flatten().map(private).collect(),
        };
        let end = config.address_end >> hash.as_ref().map_or(0, |hash| hash.bits);
        if let Some(last) = pool.pieces().map(|piece| piece.end.0).find(|&last| last > end) {
            return Err(CacheError::Config {
                field: "address_end".to_owned(),
                found: PhysAddr(end).to_string(),
                accepted: format!("at least {}, where the pool ends", PhysAddr(last)),
            });
        }
        let layout = NodeLayout { groups: 1, memory: vec![(0, PhysAddr(0)..PhysAddr(end))] };
        Ok(CacheMachine {
            caches: Hierarchy::new(&config)?,
            hash,
            pool,
            facts,
            layout,
            distances: vec![vec![0.0]],
            noise,
            seed,
            random: Random::new(seed),
            end,
            accesses: 0,
            bursting: false,
        })
    }

    /// Makes a machine with the last level of a platform file, and the nodes of its regions, with a group of cores for each.
    ///
    /// Private caches do not come from the file, because most files lack some of them: a first level of 32 KiB with 8
    /// ways and, for last levels of more than 1 MiB, a second level of 256 KiB with 8 ways.
    ///
    /// # Errors
    /// [`CacheError`] when the platform's last level is unknown or invalid.
    pub fn of_platform(platform: &Platform, pool: Pool, noise: Noise, seed: u64) -> Result<CacheMachine, CacheError> {
        let end = platform.regions().iter().map(|region| region.end().0).max().unwrap_or_default();
        let line = platform.llc().map_or(ByteSize(64), |llc| llc.line);
        let config = CacheMachine::caches_of(LlcConfig::from_platform(platform)?, line, end);
        Ok(CacheMachine::new(config, pool, noise, seed)?.with_nodes_of(platform))
    }

    /// Makes a machine with the nodes of a platform file, and a last level of 16 ways and 2048 sets, regardless of the
    /// file.
    ///
    /// # Errors
    /// [`CacheError`] for a pool that is not within the platform's regions.
    pub fn nodes_of_platform(
        platform: &Platform,
        pool: Pool,
        noise: Noise,
        seed: u64,
    ) -> Result<CacheMachine, CacheError> {
        let end = platform.regions().iter().map(|region| region.end().0).max().unwrap_or_default();
        let llc = CacheMachine::last_level((6..17).collect(), 16, Inclusion::Inclusive);
        let config = CacheMachine::caches_of(llc, ByteSize(64), end);
        Ok(CacheMachine::new(config, pool, noise, seed)?.with_nodes_of(platform))
    }

    /// Gives memory to the nodes of a platform's regions, with a group of cores each.
    fn with_nodes_of(mut self, platform: &Platform) -> CacheMachine {
        let memory = platform.regions().iter().map(|region| (region.node, region.base..region.end()));
        self.layout.memory = memory.collect();
        let nodes = platform.regions().iter().map(|region| region.node).max().unwrap_or(0) + 1;
        self.layout.groups = nodes;
        // Nodes form a square, ring or pair: each differing bit of the number is a hop.
        let hops = |group: u32| (0..nodes).map(|node| HOP * f64::from((group ^ node).count_ones())).collect();
        self.distances = (0..nodes).map(hops).collect();
        self
    }

    /// Gives caches with a last level as given, and the private ones of [`CacheMachine::of_platform`].
    #[must_use]
    pub fn caches_of(llc: LlcConfig, line: ByteSize, address_end: u64) -> HierarchyConfig {
        let private = |kib: u64, ways: u32| CacheConfig {
            size: ByteSize(kib << 10),
            ways,
            set_bits: Vec::new(),
            replacement: Replacement::Lru,
            mshrs: 10,
        };
        let latencies = memtint_cache::Latencies {
            l1_cycles: 4,
            l2_cycles: 12,
            llc_cycles: 40,
            peer_cycles: 60,
            memory_cycles: 40,
            source: "assumed".to_owned(),
        };
        HierarchyConfig {
            line,
            // Two for each last level: one for the probe, one for the other program.
            cores: 2 * llc.instances,
            classes: 1,
            l1_data: private(32, 8),
            l1_instruction: None,
            l2: (llc.cache.size.bytes() > LARGE).then(|| private(256, 8)),
            llc,
            coherent: false,
            prefetch: PrefetchConfig::default(),
            latencies,
            address_end,
            seed: 1,
        }
    }

    /// Gives a last level of one slice with set bits and ways, for lines of 64 bytes.
    #[must_use]
    pub fn last_level(set_bits: Vec<u32>, ways: u32, inclusion: Inclusion) -> LlcConfig {
        LlcConfig {
            cache: CacheConfig {
                size: ByteSize((64 * u64::from(ways)) << set_bits.len()),
                ways,
                set_bits,
                replacement: Replacement::Lru,
                mshrs: 64,
            },
            slice_functions: Vec::new(),
            instances: 1,
            inclusion,
            inclusion_source: "given".to_owned(),
            way_masks: Vec::new(),
        }
    }

    /// Makes a machine report wrong private caches.
    #[must_use]
    pub fn that_claims(mut self, facts: CacheFacts) -> CacheMachine {
        self.facts = facts;
        self
    }

    /// Fills the last level with lines of other programs.
    #[must_use]
    pub fn filled(mut self) -> CacheMachine {
        let lines = 2 * self.caches.config().llc.cache.size.bytes() / self.facts.line;
        for _ in 0..lines {
            self.disturb();
        }
        self
    }

    /// Sets the distance of each group of cores from each node in ticks, by group and node.
    #[must_use]
    pub fn distances(mut self, ticks: Vec<Vec<f64>>) -> CacheMachine {
        self.distances = ticks;
        self
    }

    /// The address in the cache model.
    fn inner(&self, addr: PhysAddr) -> PhysAddr {
        let Some(Hash { of, shift, bits }) = &self.hash else { return addr };
        PhysAddr((addr.0 >> shift << bits | u64::from(of(addr.0))) << shift | addr.0 & ((1 << shift) - 1))
    }

    /// The physical address of a line in the cache model.
    fn outer(&self, inner: PhysAddr) -> PhysAddr {
        let Some(Hash { shift, bits, .. }) = &self.hash else { return inner };
        PhysAddr(inner.0 >> (shift + bits) << shift | inner.0 & ((1 << shift) - 1))
    }

    /// Performs an access of another program, to any line of memory.
    fn disturb(&mut self) {
        let addr = PhysAddr(self.random.below(self.end / 64) * 64);
        let addr = self.inner(addr);
        let _ = self.caches.access(1, TaskClass(0), addr, AccessKind::Read);
    }

    fn access(&mut self, addr: PhysAddr) -> Level {
        self.accesses += 1;
        let noise = self.noise;
        let change = if self.bursting { 1.0 / BURST } else { noise.burst / (1.0 - noise.burst) / BURST };
        self.bursting ^= self.random.unit() < change;
        if self.bursting {
            self.disturb();
        }
        let addr = self.inner(addr);
        let outcome = self.caches.access(0, TaskClass(0), addr, AccessKind::Read);
        for &line in outcome.prefetches.as_slice() {
            // A neighbour may be in another slice.
            let line = self.inner(self.outer(line));
            let _ = self.caches.prefetch(0, TaskClass(0), line);
        }
        outcome.level
    }

    /// The clock's reading of an access served by a level.
    fn reading(&mut self, addr: PhysAddr, level: Level, distance: f64) -> u32 {
        let noise = self.noise;
        let from_memory = level == Level::Memory;
        let mut ticks = if from_memory { MEMORY + distance } else { f64::from(self.caches.latencies().cycles(level)) };
        ticks += self.random.normal() * noise.sigma * if from_memory { 1.0 } else { 0.2 };
        if from_memory {
            ticks += Random::new(mix(addr.0 ^ self.seed)).normal() * noise.bias;
            ticks += if self.random.unit() < 0.5 { noise.gap } else { 0.0 };
            if self.random.unit() < noise.refresh {
                ticks += 500.0 + 600.0 * self.random.unit();
            }
        }
        if self.bursting {
            ticks += self.random.normal().abs() * MEMORY / 2.0;
        }
        let at = (self.accesses % DRIFT_PERIOD) as f64 / DRIFT_PERIOD as f64;
        ticks += noise.drift * (1.0 - 4.0 * (at - 0.5).abs());
        let quantum = f64::from(noise.quantum.max(1));
        ((ticks / quantum + self.random.unit()).floor().max(1.0) * quantum) as u32
    }

    fn inside(&self, addr: PhysAddr) -> Result<(), OracleError> {
        if self.pool.contains(addr) { Ok(()) } else { Err(OracleError::Outside { found: addr.0 }) }
    }

    fn flush(&mut self, addr: PhysAddr) {
        let addr = self.inner(addr);
        self.caches.flush(addr);
    }

    fn node(&self, addr: PhysAddr) -> u32 {
        let piece = self.layout.memory.iter().find(|(_, piece)| piece.contains(&addr));
        piece.map_or(0, |&(node, _)| node)
    }
}

impl Oracle for CacheMachine {
    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn time(&mut self, addresses: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError> {
        let mut readings = Vec::new();
        for _ in 0..rounds {
            for &addr in addresses {
                readings.extend(self.load(0, addr, 1)?);
            }
        }
        Ok(readings)
    }

    fn time_beside(&mut self, _: &[PhysAddr], _: &[PhysAddr], _: u32) -> Result<Option<Vec<u32>>, OracleError> {
        Ok(None)
    }
}

impl CacheOracle for CacheMachine {
    fn caches(&self) -> &CacheFacts {
        &self.facts
    }

    fn reload(&mut self, target: PhysAddr, others: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError> {
        self.inside(target)?;
        others.iter().try_for_each(|&addr| self.inside(addr))?;
        let mut readings = Vec::new();
        // One round first, after which these lines are in place.
        for round in 0..=rounds {
            self.access(target);
            for &addr in others {
                self.access(addr);
            }
            let level = self.access(target);
            if round > 0 {
                readings.push(self.reading(target, level, 0.0));
            }
            self.flush(target);
            others.iter().for_each(|&addr| self.flush(addr));
        }
        Ok(readings)
    }
}

impl NodeOracle for CacheMachine {
    fn layout(&self) -> &NodeLayout {
        &self.layout
    }

    fn load(&mut self, group: u32, addr: PhysAddr, rounds: u32) -> Result<Vec<u32>, OracleError> {
        self.inside(addr)?;
        let distance = self.distances[group as usize][self.node(addr) as usize];
        let mut readings = Vec::new();
        for _ in 0..rounds {
            self.flush(addr);
            let level = self.access(addr);
            readings.push(self.reading(addr, level, distance));
            self.flush(addr);
        }
        Ok(readings)
    }
}
