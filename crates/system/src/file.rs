//! The system file as written.
//!
//! Each field of the file is a field of one of these structs. Its documentation becomes its description in the JSON
//! Schema; `considered` names the verbs that use it.

use memtint_map::Granule;
use memtint_units::{ByteSize, IndexList};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::delays::{BanksEntry, ParallelBanksEntry, RefreshEntry, RegulatorEntry, SharedBanksEntry};
use crate::quantity::{Count, Ranks, Text, Time};
use crate::servers::{ColorEntry, CyclicEntry, MemoryEntry, ServerEntry};
use crate::simulation::{AllocatorName, SimulationEntry};
use crate::workload::WorkloadEntry;

/// The version of the format that this crate reads and writes.
pub const SYSTEM_SCHEMA: u64 = 1;

/// A system: tasks, their machine, and delays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SystemFile {
    /// Version of the format; default 1, the only one.
    pub schema: Option<Count<SYSTEM_SCHEMA, SYSTEM_SCHEMA>>,
    /// Description of the system, for people.
    pub description: Option<String>,
    /// Machine: a name of the catalogue (memtint platform list), or a platform file (a path with a slash or ending in .toml),
    /// relative to this file. Verbs that color memory need it.
    pub platform: Option<Text>,
    /// Block that is colored as a unit; bank classes and set colors are numbered at this granule. Default 4 KiB.
    #[schemars(with = "Option<String>")]
    pub granule: Option<Granule>,
    /// The tasks.
    #[serde(default, rename = "task", skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskEntry>,
    /// Groups of cores, or of tasks, that share a bandwidth budget in a simulation.
    #[serde(default, rename = "group", skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupEntry>,
    /// Simulated machine, duration and seed.
    pub simulation: Option<SimulationEntry>,
    /// Refresh by the memory controller.
    pub refresh: Option<RefreshEntry>,
    /// Bandwidth budget of the analyzed core.
    pub regulator: Option<RegulatorEntry>,
    /// Other cores: one request at a time, banks private or not. One of the three tables of banks at most.
    pub banks: Option<BanksEntry>,
    /// Other cores, some of which use the same banks.
    pub shared_banks: Option<SharedBanksEntry>,
    /// Other cores: several requests at a time, writes in batches.
    pub parallel_banks: Option<ParallelBanksEntry>,
    /// Memory whose refresh software schedules (Colored Refresh, CRS), or from which refresh by the controller is derived.
    pub memory: Option<MemoryEntry>,
    /// Cyclic executive; the analysis searches for all that is not given.
    pub cyclic: Option<CyclicEntry>,
    /// Colors of Colored Refresh Servers: ranks that are locked and refreshed together.
    #[serde(default, rename = "color", skip_serializing_if = "Vec::is_empty")]
    pub colors: Vec<ColorEntry>,
    /// Colored Refresh Servers; the first of a core has the highest priority.
    #[serde(default, rename = "server", skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerEntry>,
}

/// A task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskEntry {
    /// Unique name: 1 to 64 letters, digits, dots, dashes or underscores.
    pub name: Option<Text>,
    /// Program with its arguments, which memtint run starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Model in the catalogue of programs that a job executes in a simulation.
    pub program: Option<Text>,
    /// What it executes in a simulation, instead of `program`: a kernel or a trace, such as { kind = "latency", size = "32 MiB" }.
    pub workload: Option<WorkloadEntry>,
    /// Memory references of a job in a simulation, or of the task when it has no period.
    pub references: Option<Count<1>>,
    /// Jobs at the beginning that a simulation leaves out of all counts, for caches to fill; default 0.
    pub uncounted: Option<Count<0>>,
    /// Where the task waits for others in a simulation; default: nowhere.
    pub barrier: Option<BarrierEntry>,
    /// What happens in a simulation to a job that is late; default finish.
    pub late: Option<LateJobs>,
    /// Shortest time between two releases.
    pub period: Option<Time>,
    /// Longest execution time of a job on an idle machine.
    pub wcet: Option<Time>,
    /// Time from a release by which its job must be complete; default: the period.
    pub deadline: Option<Time>,
    /// Time of the first release; default 0.
    pub phase: Option<Time>,
    /// Longest delay of a release; default 0.
    pub jitter: Option<Time>,
    /// Longest time for which lower priorities block a job; default 0.
    pub blocking: Option<Time>,
    /// Fixed priority: 1 is the highest.
    pub priority: Option<Count<1>>,
    /// Cache lines that a job moves between last-level cache and memory.
    pub lines: Option<Count<1>>,
    /// Linux CPU numbers that the task may run on, as a plain list such as 0-3,8; default: any.
    #[schemars(with = "Option<String>")]
    pub cores: Option<IndexList>,
    /// Bank classes of its memory, such as 0-3,8 or !0-1; default: any.
    #[schemars(with = "Option<String>")]
    pub banks: Option<IndexList>,
    /// Set colors of its memory; default: any.
    #[schemars(with = "Option<String>")]
    pub sets: Option<IndexList>,
    /// NUMA nodes of its memory; default: any.
    #[schemars(with = "Option<String>")]
    pub node: Option<IndexList>,
    /// Ways of the last-level cache that it may fill; default: all.
    #[schemars(with = "Option<String>")]
    pub ways: Option<IndexList>,
    /// Page allocator of its memory in a simulation; default: that of `[simulation]`.
    pub allocator: Option<AllocatorName>,
    /// Whether a simulation gives it pages of 2 MiB; default false.
    pub huge_pages: Option<bool>,
    /// What happens to an allocation that cannot be honored; default strict.
    pub mode: Option<Mode>,
    /// Whether the task may have colors in common with other tasks that allow it, too; default false.
    pub shared: Option<bool>,
    /// Memory bandwidth budget.
    pub bandwidth: Option<BandwidthEntry>,
    /// Refresh partitions. Reserved: checked, and enforced by no verb of this version.
    #[schemars(with = "Option<String>")]
    pub refresh: Option<IndexList>,
    /// Ranks that hold its data: how many, or a list such as "0-3" of those of each channel. Default: 1 in an analysis, any in a
    /// simulation, which narrows `banks` to the bank classes that lie in these ranks alone.
    pub ranks: Option<Ranks>,
    /// Time to copy its globals to its other instance; default 0.
    pub copy: Option<Time>,
    /// Size of the globals that are copied in a simulation. Default: in refresh simulate, what certainly fits into the time `copy`;
    /// in sim none, so that a copy takes its time and causes no traffic.
    #[schemars(with = "Option<String>")]
    pub globals: Option<ByteSize>,
    /// Name of a task before it that this is another instance of in a simulation (a copy task): it has the same jobs, cores and
    /// workload, and other memory; each job is of the instance that meets no lock.
    pub copy_of: Option<Text>,
    /// Name of its server.
    pub server: Option<Text>,
    /// Name of the server of its other instance (a copy task).
    pub copy_server: Option<Text>,
}

/// Tasks without jobs that wait for each other in a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BarrierEntry {
    /// Number of the barrier: tasks with the same number wait for each other.
    pub group: u32,
    /// Memory references between two waits.
    pub every: Count<1>,
}

/// Cores, or tasks, that share a bandwidth budget in a simulation.
///
/// Its size is one of `mb_per_s`, `budget` and `weight`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupEntry {
    /// Unique name.
    pub name: Text,
    /// Cores, as a list such as 0-3: each stops when the budget is used. Either this or `tasks`.
    #[schemars(with = "Option<String>")]
    pub cores: Option<IndexList>,
    /// Names of tasks: when the budget is used, these stop, and others may run on their cores.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<Text>,
    /// Budget in megabytes (10^6 bytes) per second. In a simulation with bank classes or with separate counters for reads and
    /// writes: of each class, and of reads.
    pub mb_per_s: Option<Count<1, { u32::MAX as u64 }>>,
    /// Budget of writes in megabytes per second, where a simulation counts reads and writes separately.
    pub write_mb_per_s: Option<Count<1, { u32::MAX as u64 }>>,
    /// Budget in each period, for instance "1 MiB".
    #[schemars(with = "Option<String>")]
    pub budget: Option<ByteSize>,
    /// Share of what the memory guarantees, without quanta and skids: the ratio of this number to the sum of those of all groups.
    pub weight: Option<Count<1, { u32::MAX as u64 }>>,
    /// Length of the period of `budget`; default: that of `[simulation.bandwidth]`.
    pub period: Option<Time>,
    /// What happens to unused budget. Default hard.
    #[serde(default, skip_serializing_if = "BudgetKind::is_hard")]
    pub kind: BudgetKind,
}

/// What happens to a job that is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LateJobs {
    /// It is finished, and the next begins after it.
    Finish,
    /// It is given up at its deadline.
    GiveUp,
}

/// Bytes that a task may move between last-level cache and memory in each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BandwidthEntry {
    /// Budget in each period, above 0, for instance "1 MiB".
    #[schemars(with = "String")]
    pub budget: ByteSize,
    /// Length of the period, above 0.
    pub period: Time,
    /// What happens to unused budget. Default hard.
    #[serde(default, skip_serializing_if = "BudgetKind::is_hard")]
    pub kind: BudgetKind,
}

/// What happens to unused budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BudgetKind {
    /// It stays the task's.
    #[default]
    Hard,
    /// The task donates what it is not expected to use, and may use what other soft tasks donate.
    Soft,
}

impl BudgetKind {
    fn is_hard(&self) -> bool {
        *self == BudgetKind::Hard
    }
}

/// What happens to an allocation that cannot be honored in its colors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// It fails.
    #[default]
    Strict,
    /// It gets any frame, and counts as a violation.
    Soft,
}
