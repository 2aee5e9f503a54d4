//! How long does an access take? `cargo bench -p memtint-cache`, optionally `-- --seed N`.
//!
//! Each row is one stream of references on one machine, in interleaved rounds, in nanoseconds an access: the hierarchy
//! as its configuration says, the same with tree-PLRU and with random replacement where the ways allow it, and the
//! baseline `naive`: sets that are vectors of lines in order of use, searched one by one, without statistics, classes or
//! inclusion, coherence or write-backs. The hashes of the answers are printed; on the row `l1 hits`, where nothing is ever replaced, the baseline
//! must agree with the hierarchy.

use memtint_cache::{
    AccessKind, CacheConfig, Hierarchy, HierarchyConfig, Inclusion, Latencies, Level, LlcConfig, PrefetchConfig,
    Replacement, StrideConfig, TaskClass,
};
use memtint_map::Platform;
use memtint_units::{ByteSize, PhysAddr};
use std::hint::black_box;
use std::time::Instant;

const ACCESSES: usize = 1 << 18;
const ROUNDS: usize = 15;

fn main() {
    let seed = seed();
    println!("machine: {}", machine());
    println!("seed: {seed}, accesses a round: {ACCESSES}, rounds: {ROUNDS} (variants interleaved)");
    println!(
        "unit: ns/access, median [lowest..highest]; Maccess/s: of the LRU median; ratio: naive median / LRU median"
    );
    println!(
        "{:<34} {:>22} {:>22} {:>22} {:>22} {:>9} {:>6}  hash",
        "stream", "lru", "tree-plru", "random", "naive", "Macc/s", "ratio"
    );
    let inclusive = config("skl-e3-1220v5-4x4g", Inclusion::Inclusive, 4);
    println!("{}", row("l1 hits, reads", &inclusive, &l1_hits(seed, false)));
    println!("{}", row("l1 hits, 1 of 4 writes", &inclusive, &l1_hits(seed, true)));
    println!("{}", row("l2 hits", &inclusive, &within(seed, 1 << 17, false)));
    println!("{}", row("llc hits", &inclusive, &within(seed, 1 << 22, false)));
    for (inclusion, name) in [
        (Inclusion::Inclusive, "inclusive"),
        (Inclusion::NonInclusive, "non-inclusive"),
        (Inclusion::Exclusive, "exclusive"),
    ] {
        let config = config("skl-e3-1220v5-4x4g", inclusion, 4);
        println!("{}", row(&format!("llc misses, {name}, reads"), &config, &within(seed, 1 << 33, false)));
        println!("{}", row(&format!("llc misses, {name}, writes"), &config, &within(seed, 1 << 33, true)));
    }
    let mut alone = config("skl-e3-1220v5-4x4g", Inclusion::Exclusive, 4);
    alone.coherent = false;
    println!("{}", row("llc misses, exclusive, not shared", &alone, &within(seed, 1 << 33, false)));
    println!("{}", row("llc misses, stream of lines", &inclusive, &stream()));
    let mut prefetching = inclusive.clone();
    prefetching.prefetch =
        PrefetchConfig { next_line: true, stride: Some(StrideConfig { streams: 16, confidence: 2, degree: 2 }) };
    println!("{}", row("the same with prefetchers", &prefetching, &stream()));
    println!("{}", row("llc misses, 4 cores, random", &inclusive, &four_cores(seed)));
}

/// The last level of a platform of the catalogue, with private caches of 32 KiB and 256 KiB.
fn config(platform: &str, inclusion: Inclusion, cores: u32) -> HierarchyConfig {
    let platform = Platform::load(platform).expect("a catalogue name");
    let llc = LlcConfig { inclusion, ..LlcConfig::from_platform(&platform).expect("a linear hash") };
    let cache = |size, ways| CacheConfig {
        size: ByteSize(size),
        ways,
        set_bits: Vec::new(),
        replacement: Replacement::Lru,
        mshrs: 10,
    };
    HierarchyConfig {
        line: ByteSize(64),
        cores,
        classes: 4,
        l1_data: cache(32 << 10, 8),
        l1_instruction: Some(cache(32 << 10, 8)),
        l2: Some(cache(256 << 10, 8)),
        llc,
        coherent: true,
        prefetch: PrefetchConfig::default(),
        latencies: Latencies {
            l1_cycles: 4,
            l2_cycles: 11,
            llc_cycles: 44,
            peer_cycles: 44,
            memory_cycles: 44,
            source: "assumed".to_owned(),
        },
        address_end: 16 << 30,
        seed: 1,
    }
}

#[derive(Clone, Copy)]
struct Reference {
    core: u8,
    write: bool,
    addr: u64,
}

/// xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators", 2016.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

fn l1_hits(seed: u64, writes: bool) -> Vec<Reference> {
    let mut random = Random(seed.max(1));
    let mut draw = || {
        let value = random.next();
        Reference { core: 0, write: writes && value >> 62 == 0, addr: value & 0x7fff }
    };
    (0..ACCESSES).map(|_| draw()).collect()
}

fn within(seed: u64, bytes: u64, write: bool) -> Vec<Reference> {
    let mut random = Random(seed.max(1));
    (0..ACCESSES).map(|_| Reference { core: 0, write, addr: random.next() & (bytes - 1) }).collect()
}

fn stream() -> Vec<Reference> {
    (0..ACCESSES as u64).map(|step| Reference { core: 0, write: false, addr: (1 << 30) + step * 64 }).collect()
}

fn four_cores(seed: u64) -> Vec<Reference> {
    let mut random = Random(seed.max(1));
    let mut draw = |step| {
        let value = random.next();
        let core = (step % 4) as u8;
        Reference { core, write: value >> 62 == 0, addr: (value & ((1 << 31) - 1)) + (u64::from(core) << 31) }
    };
    (0..ACCESSES).map(&mut draw).collect()
}

fn row(name: &str, config: &HierarchyConfig, references: &[Reference]) -> String {
    let variant = |replacement| {
        let mut config = config.clone();
        for cache in [Some(&mut config.l1_data), config.l1_instruction.as_mut(), config.l2.as_mut()] {
            cache.expect("configured above").replacement = replacement;
        }
        config.llc.cache.replacement = replacement;
        Hierarchy::new(&config).expect("a configuration that is accepted")
    };
    let mut hierarchies = [Replacement::Lru, Replacement::TreePlru, Replacement::Random].map(variant);
    let mut naive = Naive::new(config.cores);
    let mut samples: [Vec<f64>; 4] = Default::default();
    let mut hash = 0;
    for round in 0..=ROUNDS {
        for (index, caches) in hierarchies.iter_mut().enumerate() {
            let (ns, answers) = time(references, |reference| drive(caches, reference));
            hash = if index == 0 { answers } else { hash };
            keep(&mut samples[index], round, ns);
        }
        let (ns, answers) = time(references, |reference| naive.access(reference));
        keep(&mut samples[3], round, ns);
        assert!(round == 0 || !name.starts_with("l1 hits") || answers == hash, "the baseline disagrees");
    }
    let ratio = median(&mut samples[3]) / median(&mut samples[0]);
    let speed = 1e3 / median(&mut samples[0]);
    let [lru, plru, random, naive] = samples.map(|mut samples| spread(&mut samples));
    format!("{name:<34} {lru:>22} {plru:>22} {random:>22} {naive:>22} {speed:>9.1} {ratio:>5.1}x  {hash:016x}")
}

/// The first round fills the caches and is not counted.
fn keep(samples: &mut Vec<f64>, round: usize, ns: f64) {
    if round > 0 {
        samples.push(ns);
    }
}

#[inline(always)]
fn drive(caches: &mut Hierarchy, reference: &Reference) -> u64 {
    let kind = if reference.write { AccessKind::Write } else { AccessKind::Read };
    let (core, class) = (usize::from(reference.core), TaskClass(reference.core));
    let outcome = caches.access(core, class, PhysAddr(reference.addr), kind);
    if outcome.level == Level::L1 {
        return 0;
    }
    for &addr in outcome.prefetches.as_slice() {
        let _ = black_box(caches.prefetch(core, class, addr));
    }
    outcome.writebacks.as_slice().iter().fold(outcome.level as u64, |hash, addr| hash.rotate_left(7) ^ addr.0)
}

fn time(references: &[Reference], mut access: impl FnMut(&Reference) -> u64) -> (f64, u64) {
    let start = Instant::now();
    let hash = references.iter().fold(0u64, |hash, reference| hash.wrapping_mul(3).wrapping_add(access(reference)));
    let ns = start.elapsed().as_nanos() as f64 / references.len() as f64;
    (ns, black_box(hash))
}

/// Three levels of vectors in order of use: what one writes first.
struct Naive {
    l1: Vec<Vec<Vec<u64>>>,
    l2: Vec<Vec<Vec<u64>>>,
    llc: Vec<Vec<u64>>,
}

impl Naive {
    fn new(cores: u32) -> Naive {
        let cores = cores as usize;
        Naive {
            l1: vec![vec![Vec::new(); 64]; cores],
            l2: vec![vec![Vec::new(); 512]; cores],
            llc: vec![Vec::new(); 8192],
        }
    }

    fn access(&mut self, reference: &Reference) -> u64 {
        let line = reference.addr >> 6;
        let core = usize::from(reference.core);
        let levels = [
            (&mut self.l1[core][line as usize % 64], 8),
            (&mut self.l2[core][line as usize % 512], 8),
            (&mut self.llc[line as usize % 8192], 16),
        ];
        for (level, (set, ways)) in levels.into_iter().enumerate() {
            if let Some(at) = set.iter().position(|&other| other == line) {
                set[..=at].rotate_right(1);
                return level as u64;
            }
            set.truncate(ways - 1);
            set.insert(0, line);
        }
        Level::Memory as u64
    }
}

fn seed() -> u64 {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--seed").skip(1);
    arguments.next().map_or(1, |text| text.parse().expect("--seed takes a whole number"))
}

fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let model = cpus.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split(": ").nth(1));
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or("unknown");
    format!("{}, kernel {}, load {load}", model.unwrap_or("unknown processor"), kernel.trim())
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn spread(samples: &mut [f64]) -> String {
    let middle = median(samples);
    format!("{middle:.1} [{:.1}..{:.1}]", samples[0], samples[samples.len() - 1])
}
