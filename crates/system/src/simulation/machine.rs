//! Cores, caches, memory controllers, interconnect and operating system of a simulated machine.

use memtint_units::{ByteSize, Picoseconds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::Time;

/// The cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoreSection {
    /// How many; default: the platform's.
    #[serde(default)]
    pub count: Option<u32>,
    /// Clock in megahertz.
    pub mhz: u32,
    /// Instructions issued in a cycle, 1 to 16; default 4.
    #[serde(default = "four")]
    pub width: u32,
    /// Instructions that may follow an unfinished load (entries of the reorder buffer); 0 waits for every load; default
    /// 128.
    #[serde(default = "window")]
    pub window: u32,
    /// Misses under way, 1 to 64; default 10.
    #[serde(default = "ten")]
    pub mshrs: u32,
}

/// The caches, where they differ from the platform's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheSection {
    /// Which line makes room, in all caches; default `lru`.
    #[serde(default)]
    pub replacement: Replacement,
    /// Prefetch the next line; default false.
    #[serde(default)]
    pub next_line: bool,
    /// Prefetch along strides; default false.
    #[serde(default)]
    pub stride: bool,
    /// Cycles of a hit in the first level, the second, the last, another core's cache, and on the way to memory and back;
    /// default: those of the processor.
    #[serde(default)]
    pub latency_cycles: Option<[u32; 5]>,
    /// Bytes of a line of all caches, where `l1` and `llc` are given; default: the platform's. A line is as many
    /// bursts of memory as it takes.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub line: Option<ByteSize>,
    /// First-level data cache of each core; default: the platform's. Needed, with `latency_cycles`, where the platform file
    /// does not describe private caches.
    #[serde(default)]
    pub l1: Option<CacheSize>,
    /// Second-level cache of each core; default: the platform's. None where `l1` is given without it.
    #[serde(default)]
    pub l2: Option<CacheSize>,
    /// Last-level cache, without slice hash; default: the platform's.
    #[serde(default)]
    pub llc: Option<LastLevelSize>,
}

/// A last-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LastLevelSize {
    /// Bytes of each.
    #[schemars(with = "String")]
    pub size: ByteSize,
    /// Associativity.
    pub ways: u32,
    /// How many there are, each for as many neighbouring cores; default 1.
    #[serde(default = "one_cache")]
    pub instances: u32,
    /// `inclusive`, `non_inclusive` or `exclusive`; default `non_inclusive`.
    #[serde(default = "non_inclusive")]
    pub inclusion: Inclusion,
}

/// A cache.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheSize {
    /// Bytes.
    #[schemars(with = "String")]
    pub size: ByteSize,
    /// Associativity.
    pub ways: u32,
}

/// The memory controllers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ControllerSection {
    /// Entries for reads; default 32.
    pub read_queue: Option<u32>,
    /// Entries for writes; default 32.
    pub write_queue: Option<u32>,
    /// Whether each bank has its share of the entries for itself; default false.
    #[serde(default)]
    pub queue_per_bank: bool,
    /// Waiting writes at which they are drained; default four fifths of the entries.
    pub drain_at: Option<u32>,
    /// Waiting writes down to which they are drained; default a fifth of the entries.
    pub drain_to: Option<u32>,
    /// `fcfs`, `fr-fcfs` or `par-bs`; default `fr-fcfs`.
    pub scheduler: Option<SchedulerName>,
    /// Row hits in a row over an older request (`fr-fcfs`), or requests of a batch for each bank (`par-bs`); default 16,
    /// and 5.
    pub cap: Option<u32>,
    /// `open`, `closed` or `timeout`; default `open`.
    pub page: Option<PageName>,
    /// Cycles until an unused row is closed, for `timeout`; default 100.
    pub timeout_cycles: Option<u32>,
    /// `all-bank`, `staggered`, `fgr2`, `fgr4`, `per-bank`, `same-bank`, `burst`, `elastic`, `timetable` or `none`; default
    /// `staggered`.
    pub refresh: Option<String>,
}

/// Order of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulerName {
    /// First come, first served.
    Fcfs,
    /// Row hits first.
    FrFcfs,
    /// Batches.
    ParBs,
}

/// When rows are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PageName {
    /// When another is wanted.
    Open,
    /// At once.
    Closed,
    /// After a while.
    Timeout,
}

/// The interconnect between nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NumaSection {
    /// One way to another node, on top of a local access; default 50 ns.
    pub hop: Option<Time>,
    /// Hops from each node (a list) to each; default: one to every other. A node is none away from itself.
    #[serde(default)]
    pub hops: Option<Vec<Vec<u32>>>,
    /// Bandwidth of a link in megabytes a second, each direction; default 12 800.
    pub link_mb_per_s: Option<u32>,
    /// Node of each core; default: the cores divided evenly among the nodes.
    #[serde(default)]
    pub core_nodes: Option<Vec<u32>>,
}

/// The operating system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SystemSection {
    /// Page allocator of the tasks that name none: `buddy`, `palloc`, `bpm`, `camc`,
    /// `tintmalloc`, `hybrid` or `tinted`; default `tinted`, memtint's own.
    #[serde(default)]
    pub allocator: AllocatorName,
    /// How many of 1024 frames are taken at random from this allocator before the tasks begin; default 0.
    #[serde(default)]
    pub taken_per_1024: u32,
    /// Time that a first touch takes in the kernel; default 1 us.
    #[serde(default = "microsecond")]
    pub fault: Time,
    /// `fixed-priority`, `edf`, `round-robin` or `table`; default `round-robin`. Core by core for tasks that are pinned,
    /// global for those that may run on several cores.
    #[serde(default)]
    pub scheduling: SchedulingName,
    /// Whether jobs give way to more urgent ones once they have begun, for `fixed-priority` and `edf`; default true. If not, a
    /// job has its core until it is complete; only a lock of its ranks suspends it, and others run meanwhile. A task without
    /// jobs is one without end.
    #[serde(default = "yes")]
    pub preemption: bool,
    /// Time of a context switch; default 0 ns: a switch then costs only the content that the caches lose.
    #[serde(default)]
    pub switch: Time,
    /// Quantum of `round-robin`; default 4 ms.
    #[serde(default = "quantum")]
    pub quantum: Time,
}

/// Allocators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AllocatorName {
    /// Linux, no colors.
    Buddy,
    /// PALLOC.
    Palloc,
    /// BPM.
    Bpm,
    /// CAMC.
    Camc,
    /// TintMalloc.
    Tintmalloc,
    /// Cache, bank and controller coloring.
    Hybrid,
    /// memtint's own.
    #[default]
    Tinted,
}

/// Order of a core's tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulingName {
    /// By priority.
    FixedPriority,
    /// By deadline.
    Edf,
    /// In turn.
    #[default]
    RoundRobin,
    /// In the slots of a cyclic executive.
    Table,
}

impl Default for SystemSection {
    fn default() -> SystemSection {
        SystemSection {
            allocator: AllocatorName::default(),
            taken_per_1024: 0,
            fault: microsecond(),
            scheduling: SchedulingName::default(),
            preemption: true,
            switch: Time::default(),
            quantum: quantum(),
        }
    }
}

impl ControllerSection {
    /// Whether software refreshes the ranks.
    #[must_use]
    pub fn is_by_timetable(&self) -> bool {
        self.refresh.as_deref() == Some("timetable")
    }
}

impl AllocatorName {
    /// All of them.
    pub const ALL: [AllocatorName; 7] = [
        AllocatorName::Buddy,
        AllocatorName::Palloc,
        AllocatorName::Bpm,
        AllocatorName::Camc,
        AllocatorName::Tintmalloc,
        AllocatorName::Hybrid,
        AllocatorName::Tinted,
    ];

    /// The name, as in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            AllocatorName::Buddy => "buddy",
            AllocatorName::Palloc => "palloc",
            AllocatorName::Bpm => "bpm",
            AllocatorName::Camc => "camc",
            AllocatorName::Tintmalloc => "tintmalloc",
            AllocatorName::Hybrid => "hybrid",
            AllocatorName::Tinted => "tinted",
        }
    }
}

/// Which line of a set makes room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Replacement {
    /// The least recently used.
    #[default]
    Lru,
    /// The one that a binary tree of bits points to; the number of ways is a power of two.
    TreePlru,
    /// Any, evenly, from the seed.
    Random,
}

/// What the last level does when private caches and it hold the same line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Inclusion {
    /// A line that leaves it is taken from the private caches, too.
    Inclusive,
    /// It is filled on a miss, and what leaves it stays in private caches.
    NonInclusive,
    /// It holds what leaves the private caches, and a hit moves the line back to them.
    Exclusive,
}

fn one_cache() -> u32 {
    1
}
fn non_inclusive() -> Inclusion {
    Inclusion::NonInclusive
}
fn four() -> u32 {
    4
}
fn ten() -> u32 {
    10
}
fn window() -> u32 {
    128
}
fn microsecond() -> Time {
    Time(Picoseconds(1_000_000))
}
fn yes() -> bool {
    true
}
fn quantum() -> Time {
    Time(Picoseconds(4_000_000_000))
}
