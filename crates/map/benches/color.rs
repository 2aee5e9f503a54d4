//! How long does the color of a frame take? `cargo bench -p memtint-map`, optionally `-- --seed N`.
//!
//! Each row is one platform at 4 KiB: nanoseconds a frame for the palette's tables, for a compiled matcher, and for the
//! baseline, all on the same random frames in interleaved rounds. Baseline `naive`: region search, then each XOR function and
//! each coset functional bit by bit. The checksums must agree, so that no variant is fast because it is wrong.

use memtint_map::{Granule, Palette, Platform, Selection, gf2};
use memtint_units::{IndexSet, Pfn, PhysAddr};
use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

const FRAMES: usize = 1 << 16;
const ROUNDS: usize = 31;
const MACHINES: [&str; 6] = [
    "nehalem-w3530",
    "haswell-e3-1230",
    "skl-e3-1220v5-4x4g",
    "zen4-ddr5-1r-full",
    "orin-agx",
    "opteron-6128-tintmalloc",
];

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

fn main() {
    let seed = seed();
    println!("machine: {}", machine());
    println!("seed: {seed}, frames a round: {FRAMES}, rounds: {ROUNDS} (variants interleaved), granule: 4 KiB");
    println!("unit: ns/frame, median [lowest..highest]; ratio: naive median / table median, same run");
    println!("{:<26} {:>22} {:>22} {:>24} {:>7}", "platform", "table", "matcher", "naive", "ratio");
    for name in MACHINES {
        println!("{}", row(name, seed));
    }
    println!("{}", walk_row("skl-e3-1220v5-4x4g"));
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
    format!("{}, kernel {}", model.unwrap_or("unknown processor"), kernel.trim())
}

fn row(name: &str, seed: u64) -> String {
    let platform = Platform::load(name).expect("a catalogue name");
    let palette = Palette::new(&platform, Granule::PAGE).expect("a page granule");
    let half = IndexSet::from_indices(0..palette.bank_classes().div_ceil(2), palette.bank_classes()).expect("in range");
    let matcher = Selection { banks: Some(half), ..Selection::default() }.compile(&palette).expect("not empty");
    let naive = Naive::new(&palette);
    let frames = frames(&platform, seed);
    let table_sum =
        |pfn| palette.color_of_frame(pfn).map_or(0, |color| u64::from(color.bank_class ^ color.set_color << 16));
    let naive_sum = |pfn| naive.color(pfn).map_or(0, |(class, color)| u64::from(class ^ color << 16));
    let (mut table, mut matching, mut slow) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let first = time(&frames, &mut table, table_sum);
        time(&frames, &mut matching, |pfn| u64::from(matcher.matches(pfn)));
        let second = time(&frames, &mut slow, naive_sum);
        assert_eq!(first, second, "{name}: the table disagrees with the baseline");
    }
    let ratio = median(&mut slow) / median(&mut table);
    let (table, matching, slow) = (spread(&mut table), spread(&mut matching), spread(&mut slow));
    format!("{name:<26} {table:>22} {matching:>22} {slow:>24} {ratio:>6.1}x")
}

/// One pair of colors on the whole machine: walking it against looking at each frame.
fn walk_row(name: &str) -> String {
    let platform = Platform::load(name).expect("a catalogue name");
    let palette = Palette::new(&platform, Granule::PAGE).expect("a page granule");
    let pair = palette.pairs()[0];
    let one = |index| Some(IndexSet::from_indices([index], u32::MAX).expect("in range"));
    let selection = Selection { banks: one(pair.bank_class), sets: one(pair.set_color), node: None };
    let matcher = selection.compile(&palette).expect("the pair exists");
    let (mut walks, mut scans) = (Vec::new(), Vec::new());
    let frames = platform.size_bytes() >> 12;
    for _ in 0..7 {
        let start = Instant::now();
        let walked = black_box(matcher.enumerate(PhysAddr(0)..PhysAddr(u64::MAX)).count() as u64);
        walks.push(start.elapsed().as_nanos() as f64 / walked as f64);
        let start = Instant::now();
        let scanned = black_box((0..frames).filter(|&pfn| matcher.matches(Pfn(pfn))).count() as u64);
        scans.push(start.elapsed().as_nanos() as f64 / scanned as f64);
        assert_eq!(walked, scanned);
    }
    let mut text = format!("walk of {} frames of one pair among {frames} ({name}), ns/frame found: ", pair.granules);
    let ratio = median(&mut scans) / median(&mut walks);
    write!(text, "walk {}, scan {}, ratio {ratio:.0}x", spread(&mut walks), spread(&mut scans)).expect("a string");
    text
}

fn frames(platform: &Platform, seed: u64) -> Vec<Pfn> {
    let mut random = Random(seed.max(1));
    let regions = platform.regions();
    let mut draw = || {
        let region = &regions[(random.next() % regions.len() as u64) as usize];
        Pfn(region.base.pfn().0 + random.next() % (region.size_bytes >> 12))
    };
    (0..FRAMES).map(|_| draw()).collect()
}

fn time(frames: &[Pfn], into: &mut Vec<f64>, color: impl Fn(Pfn) -> u64) -> u64 {
    let start = Instant::now();
    let sum = frames.iter().fold(0u64, |sum, &pfn| sum.wrapping_mul(3).wrapping_add(color(pfn)));
    into.push(start.elapsed().as_nanos() as f64 / frames.len() as f64);
    black_box(sum)
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn spread(samples: &mut [f64]) -> String {
    let middle = median(samples);
    format!("{middle:.2} [{:.2}..{:.2}]", samples[0], samples[samples.len() - 1])
}

/// The color of a frame without any preparation but the list of bits of each class bit and color bit.
struct Naive<'a> {
    palette: &'a Palette,
    class_bits: Vec<Vec<u32>>,
    color_bits: Vec<Vec<u32>>,
}

impl<'a> Naive<'a> {
    fn new(palette: &'a Palette) -> Naive<'a> {
        let platform = palette.platform();
        let functionals = |functions: &[u64]| -> Vec<Vec<u32>> {
            let quotient =
                gf2::Quotient::new(functions.len() as u32, gf2::columns(functions, palette.granule().shift()));
            let columns = gf2::columns(functions, memtint_map::ADDRESS_BITS_MAX);
            let uses = |bit: u32, row: u32| quotient.index(columns[bit as usize]) >> row & 1 == 1;
            let row = |row| (0..memtint_map::ADDRESS_BITS_MAX).filter(|&bit| uses(bit, row)).collect();
            (0..quotient.index_bits()).map(row).collect()
        };
        let (class_bits, color_bits) = (functionals(platform.function_masks()), functionals(platform.set_masks()));
        Naive { palette, class_bits, color_bits }
    }

    fn color(&self, pfn: Pfn) -> Option<(u32, u32)> {
        let location = self.palette.platform().locate(pfn.addr())?;
        let bits = |lists: &[Vec<u32>], addr: u64| {
            lists.iter().enumerate().fold(0u32, |index, (row, bits)| {
                index | (bits.iter().fold(0, |sum, &bit| sum ^ (addr >> bit & 1)) as u32) << row
            })
        };
        let class = location.domain << self.class_bits.len() | bits(&self.class_bits, location.dram_addr);
        Some((class, bits(&self.color_bits, pfn.addr().0)))
    }
}
