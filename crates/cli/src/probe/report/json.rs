//! What a probe found, as JSON.

use memtint_map::{Role, gf2};
use memtint_probe::{Area, Attempt, Compared, Level, Pool, Rate, Roles, Shift};
use schemars::JsonSchema;
use serde::Serialize;

use super::words::role;
use super::{Banks, Outcome};
use crate::probe::asked::Asked;
use crate::probe::caches::{Caches, CachesJson};
use crate::probe::nodes::{Nodes, NodesJson};
use crate::probe::watched::Quartiles;

/// Version of the form of JSON output.
const SCHEMA: u32 = 1;

#[derive(Serialize, JsonSchema)]
pub(crate) struct Json<'a> {
    schema: u32,
    report: &'static str,
    /// What was looked for.
    parts: Vec<&'static str>,
    /// About banks; absent when they were not looked for.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    banks: Option<BanksJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    llc: Option<CachesJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<NodesJson>,
    seed: u64,
    confidence_wanted: f64,
    oracle: OracleJson<'a>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct BanksJson<'a> {
    answer: &'static str,
    /// Probability with which the mapping is right at least, as far as readings err independently; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence: Option<f64>,
    /// Parts of memory with functions of their own, the largest first.
    areas: Vec<AreaJson>,
    /// What a partial mapping leaves open.
    missing: Vec<String>,
    /// Largest distance of two levels that was seen, in deviations of one sample; absent when nothing stood out.
    #[serde(skip_serializing_if = "Option::is_none")]
    separation: Option<f64>,
    attempts: Vec<AttemptJson<'a>>,
    pool: &'a PoolJson,
    effort: EffortJson,
    /// What any method needs at least for this mapping; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    least: Option<LeastJson>,
    /// Of an access that waits for nothing.
    baseline_ticks: f64,
    readings: ReadingsJson,
}

#[derive(Serialize, JsonSchema)]
struct AreaJson {
    pool: PoolJson,
    /// Address bits that were looked at.
    covered: Vec<u32>,
    /// Parts of memory, and what is subtracted from or added to their addresses before the functions.
    parts: Vec<PartJson>,
    functions: Vec<FunctionJson>,
    /// Functions that tell the rows of a bank apart, up to sums with bank functions.
    rows: Vec<Vec<u32>>,
    hit_ticks: f64,
    conflict_ticks: f64,
    sigma_ticks: f64,
    predicted_conflicts: RateJson,
    predicted_at_random: RateJson,
    predictions_undecided: u32,
    /// Lower bound of Clopper and Pearson, at 95 %, of the share of predictions that come true.
    predictions_true_least: Option<f64>,
    /// What shifts the time of pairs that do not conflict, if it was looked for and found.
    shift: Option<ShiftJson>,
    /// What bank functions select; absent where cores could not be asked to read together.
    #[serde(skip_serializing_if = "Option::is_none")]
    roles: Option<RolesJson>,
}

#[derive(Serialize, JsonSchema)]
struct RolesJson {
    /// A basis of the bank functions, each known up to sums with those of roles before it.
    functions: Vec<RoleJson>,
    /// Changes of the bank by how fast two banks are read together.
    levels: Vec<LevelJson>,
    /// Time of a read from half of the banks as a share of one from all.
    compared: Vec<ComparedJson>,
    /// Half of the cores read as fast as all, rows open and rows changing; absent when it was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    saturated: Option<[bool; 2]>,
    wrong_probability_max: f64,
    /// Why not all is told; absent when it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    untold: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct RoleJson {
    bits: Vec<u32>,
    role: Role,
}

#[derive(Serialize, JsonSchema)]
struct LevelJson {
    /// Beyond one line, of four lines of two banks.
    ticks: f64,
    error_ticks: f64,
    /// Changes of the bank that are so.
    changes: usize,
    /// What the two banks have apart; `bank` for one bank too.
    role: Role,
}

#[derive(Serialize, JsonSchema)]
struct ComparedJson {
    function: Vec<u32>,
    open_rows_share: f64,
    changing_rows_share: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<bool>,
}

#[derive(Serialize, JsonSchema)]
struct ShiftJson {
    function: Vec<u32>,
    ticks: f64,
    /// At 99.9 %.
    error_ticks: f64,
}

#[derive(Serialize, JsonSchema)]
struct PartJson {
    base: u64,
    size_bytes: u64,
    inside: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ways: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    granularity_bytes: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
struct FunctionJson {
    bits: Vec<u32>,
    /// What the function may select: `unknown`, or what its shift leaves open.
    role: &'static str,
    /// Differences that change this function alone, and were predicted not to conflict.
    near_misses: RateJson,
}

#[derive(Clone, Copy, Serialize, JsonSchema)]
struct RateJson {
    tried: u32,
    hits: u32,
}

#[derive(Serialize, JsonSchema)]
struct AttemptJson<'a> {
    assumption: &'a str,
    /// Absent when it succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
    /// In deviations of one sample; absent when nothing stood out.
    #[serde(skip_serializing_if = "Option::is_none")]
    separation: Option<f64>,
    accesses: u64,
}

/// Memory that was probed.
#[derive(Serialize, JsonSchema)]
pub(super) struct PoolJson {
    pub(super) bytes: u64,
    pub(super) pieces: usize,
    /// Of addresses, so many low bits are known.
    pub(super) known_bits: u32,
}

#[derive(Serialize, JsonSchema)]
struct EffortJson {
    accesses: u64,
    calls: u64,
    decisions: u64,
    /// Of all timed accesses.
    ticks: u64,
}

/// Questions, by the middle of their readings.
#[derive(Serialize, JsonSchema)]
struct ReadingsJson {
    /// Two addresses in turn.
    pairs: Option<Quartiles>,
    /// One address alone, which no conflict can slow.
    alone: Option<Quartiles>,
}

#[derive(Serialize, JsonSchema)]
struct LeastJson {
    bits: f64,
    random_pairs: f64,
}

#[derive(Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum OracleJson<'a> {
    Machine {
        processor: Option<&'a str>,
        hypervisor: Option<&'a str>,
        /// Absent when neither banks nor the last-level cache were looked for.
        #[serde(flatten, skip_serializing_if = "Option::is_none")]
        memory: Option<MemoryJson>,
        /// What would make the answer better.
        advice: Vec<String>,
    },
    Simulated {
        platform: &'a str,
        noise: &'a str,
        /// What the platform file leaves open, and was assumed.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        advice: Vec<String>,
    },
    Log {
        path: &'a str,
        /// The machine that was recorded.
        of: &'a str,
    },
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct MemoryJson {
    page_bytes: u64,
    addresses_known: bool,
    locked: bool,
    cpu: u32,
    other_cpu: Option<u32>,
    clock_quantum_ticks: u64,
    cached_ticks: u32,
    flushed_ticks: u32,
}

impl Outcome {
    pub(crate) fn to_json(&self) -> Json<'_> {
        Json {
            schema: SCHEMA,
            report: "probe",
            parts: self.wanted.parts.iter().map(|part| part.name()).collect(),
            banks: self.banks.as_ref().map(Banks::to_json),
            llc: self.caches.as_ref().map(Caches::to_json),
            nodes: self.nodes.as_ref().map(Nodes::to_json),
            seed: self.wanted.seed,
            confidence_wanted: self.wanted.confidence,
            oracle: self.asked.to_json(self.advice()),
        }
    }
}

impl Banks {
    pub(super) fn to_json(&self) -> BanksJson<'_> {
        let effort = self.report.effort;
        BanksJson {
            answer: self.answer().0,
            confidence: self.mapping().map(|mapping| mapping.confidence),
            areas: self.mapping().map_or_else(Vec::new, |mapping| mapping.areas.iter().map(AreaJson::of).collect()),
            missing: self.missing(),
            separation: self.separation(),
            attempts: self.report.attempts.iter().map(AttemptJson::of).collect(),
            pool: &self.pool,
            effort: EffortJson {
                accesses: effort.accesses,
                calls: effort.calls,
                decisions: effort.decisions,
                ticks: self.seen.ticks,
            },
            least: self.report.least().map(|(bits, random_pairs)| LeastJson { bits, random_pairs }),
            baseline_ticks: self.report.baseline,
            readings: ReadingsJson { pairs: Quartiles::of(&self.seen.pairs), alone: Quartiles::of(&self.seen.alone) },
        }
    }
}

impl Asked {
    pub(crate) fn to_json(&self, advice: Vec<String>) -> OracleJson<'_> {
        match self {
            Asked::Machine { about, processor } => OracleJson::Machine {
                processor: processor.as_ref().map(|processor| processor.brand.as_str()),
                hypervisor: self.hypervisor(),
                memory: about.as_ref().map(|about| MemoryJson {
                    page_bytes: about.page_bytes,
                    addresses_known: about.addresses_known,
                    locked: about.locked,
                    cpu: about.cpu,
                    other_cpu: about.other_cpu,
                    clock_quantum_ticks: about.quantum_ticks,
                    cached_ticks: about.cached_ticks,
                    flushed_ticks: about.flushed_ticks,
                }),
                advice,
            },
            Asked::Simulated { machine, noise } => {
                OracleJson::Simulated { platform: machine.platform().id(), noise, advice }
            }
            Asked::Log { path, of } => OracleJson::Log { path, of },
        }
    }
}

impl AreaJson {
    fn of(area: &Area) -> AreaJson {
        let (solution, verification) = (&area.solution, &area.verification);
        let functions = solution.functions.iter().zip(&verification.near_misses);
        let part = |part: memtint_probe::Part| PartJson {
            base: part.base,
            size_bytes: part.size,
            inside: part.inside,
            ways: part.interleave.map(|interleave| interleave.ways),
            granularity_bytes: part.interleave.map(|interleave| 1 << interleave.shift),
        };
        AreaJson {
            pool: PoolJson::of(&area.pool),
            covered: gf2::bits(solution.covered).collect(),
            parts: area.view.cut(&area.pool.envelope()).into_iter().map(part).collect(),
            functions: functions
                .map(|(&mask, rate)| FunctionJson {
                    bits: gf2::bits(mask).collect(),
                    role: role(area, mask),
                    near_misses: RateJson::of(rate),
                })
                .collect(),
            rows: solution.rows().iter().map(|&mask| gf2::bits(mask).collect()).collect(),
            hit_ticks: area.levels.hit,
            conflict_ticks: area.levels.conflict,
            sigma_ticks: area.levels.sigma,
            predicted_conflicts: RateJson::of(&verification.conflicts),
            predicted_at_random: RateJson::of(&verification.random),
            predictions_undecided: verification.undecided,
            predictions_true_least: verification.all().at_least(),
            shift: area.shift.map(|Shift { function, ticks, error }| ShiftJson {
                function: gf2::bits(function).collect(),
                ticks,
                error_ticks: error,
            }),
            roles: area.roles.as_ref().map(RolesJson::of),
        }
    }
}

impl RolesJson {
    fn of(roles: &Roles) -> RolesJson {
        let level = |level: &Level| LevelJson {
            ticks: level.ticks,
            error_ticks: level.error,
            changes: level.changes.len(),
            role: level.role,
        };
        let compared = |compared: &Compared| ComparedJson {
            function: gf2::bits(compared.function).collect(),
            open_rows_share: compared.shares[0],
            changing_rows_share: compared.shares[1],
            channel: compared.channel,
        };
        let function = |&(mask, role): &(u64, Role)| RoleJson { bits: gf2::bits(mask).collect(), role };
        RolesJson {
            functions: roles.functions.iter().map(function).collect(),
            levels: roles.levels.iter().map(level).collect(),
            compared: roles.compared.iter().map(compared).collect(),
            saturated: roles.saturated,
            wrong_probability_max: roles.error,
            untold: roles.untold.map(|why| why.to_string()),
        }
    }
}

impl RateJson {
    fn of(rate: &Rate) -> RateJson {
        RateJson { tried: rate.tried, hits: rate.hits }
    }
}

impl PoolJson {
    pub(super) fn of(pool: &Pool) -> PoolJson {
        PoolJson { bytes: pool.bytes(), pieces: pool.pieces().len(), known_bits: pool.known_bits() }
    }
}

impl AttemptJson<'_> {
    fn of(attempt: &Attempt) -> AttemptJson<'_> {
        AttemptJson {
            assumption: &attempt.assumption,
            failed: attempt.failed.map(|failed| failed.to_string()),
            separation: attempt.separation,
            accesses: attempt.accesses,
        }
    }
}
