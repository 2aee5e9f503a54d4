//! An area of a mapping, in a report.

use super::banks::PoolReport;
use super::roles::selects;
use crate::report::Area;
use crate::roles::{Compared, Level, Roles};
use crate::shift::Shift;
use crate::verify::Rate;
use crate::view::Part;
use memtint_map::{Role, gf2};
use schemars::JsonSchema;
use serde::Serialize;

/// A part of memory with its functions.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AreaReport {
    /// Memory that the functions were found on.
    pub pool: PoolReport,
    /// Address bits that were looked at.
    pub covered: Vec<u32>,
    /// Parts of memory, and what is subtracted from or added to their addresses before the functions.
    pub parts: Vec<PartReport>,
    /// The bank functions.
    pub functions: Vec<FunctionReport>,
    /// Functions that tell the rows of a bank apart, up to sums with bank functions.
    pub rows: Vec<Vec<u32>>,
    /// Most that a pair without a conflict takes beyond one address alone.
    pub hit_ticks: f64,
    /// What a pair with a conflict takes beyond one address alone.
    pub conflict_ticks: f64,
    /// Standard deviation of one sample.
    pub sigma_ticks: f64,
    /// Conflicts that the mapping predicted.
    pub predicted_conflicts: Rate,
    /// Predictions for random pairs.
    pub predicted_at_random: Rate,
    /// Predictions that could not be decided.
    pub predictions_undecided: u32,
    /// Lower bound of Clopper and Pearson, at 95 %, of the share of predictions that come true.
    pub predictions_true_least: Option<f64>,
    /// What shifts the time of pairs that do not conflict, if it was looked for and found.
    pub shift: Option<ShiftReport>,
    /// What bank functions select; absent where cores could not be asked to read together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roles: Option<RolesReport>,
}

/// A part of memory, and how its addresses are counted.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PartReport {
    /// Its first address.
    pub base: u64,
    /// Its size.
    pub size_bytes: u64,
    /// The address that the functions take for the first.
    pub inside: u64,
    /// Channels that take turns; absent where none do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ways: Option<u32>,
    /// What a channel has at a time; absent where none take turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub granularity_bytes: Option<u64>,
}

/// A bank function.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FunctionReport {
    /// Its address bits.
    pub bits: Vec<u32>,
    /// What the function may select: `unknown`, or what its shift leaves open.
    pub role: &'static str,
    /// Differences that change this function alone, and were predicted not to conflict.
    pub near_misses: Rate,
}

/// A function that shifts the time of pairs that do not conflict.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ShiftReport {
    /// Its address bits.
    pub function: Vec<u32>,
    /// By how much a pair is slower when it differs in the function; below 0 when it is faster.
    pub ticks: f64,
    /// At 99.9 %.
    pub error_ticks: f64,
}

/// What bank functions select.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RolesReport {
    /// A basis of the bank functions, each known up to sums with those of roles before it.
    pub functions: Vec<RoleReport>,
    /// Changes of the bank by how fast two banks are read together.
    pub levels: Vec<LevelReport>,
    /// Time of a read from half of the banks as a share of one from all.
    pub compared: Vec<ComparedReport>,
    /// Half of the cores read as fast as all, rows open and rows changing; absent when it was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saturated: Option<[bool; 2]>,
    /// Probability at most with which a role is wrong.
    pub wrong_probability_max: f64,
    /// Why some roles are unknown; absent when all are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub untold: Option<String>,
}

/// A bank function and its role.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RoleReport {
    /// Its address bits.
    pub bits: Vec<u32>,
    /// What it selects.
    pub role: Role,
}

/// Changes of the bank whose pairs are equally fast.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LevelReport {
    /// Beyond one line, of four lines of two banks.
    pub ticks: f64,
    /// How far that is off at most.
    pub error_ticks: f64,
    /// Number of these changes.
    pub changes: usize,
    /// What the two banks have apart; `bank` for one bank too.
    pub role: Role,
}

/// How much slower half of the banks are than all.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ComparedReport {
    /// Address bits of the function that is the same for one half.
    pub function: Vec<u32>,
    /// With open rows.
    pub open_rows_share: f64,
    /// With changing rows.
    pub changing_rows_share: f64,
    /// Whether half of the channels are in one half; absent when it is not clear.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<bool>,
}

fn bits(mask: u64) -> Vec<u32> {
    gf2::bits(mask).collect()
}

impl AreaReport {
    pub(super) fn of(area: &Area) -> AreaReport {
        let (solution, verification) = (&area.solution, &area.verification);
        let functions = solution.functions.iter().zip(&verification.near_misses);
        let part = |part: Part| PartReport {
            base: part.base,
            size_bytes: part.size,
            inside: part.inside,
            ways: part.interleave.map(|interleave| interleave.ways),
            granularity_bytes: part.interleave.map(|interleave| 1 << interleave.shift),
        };
        AreaReport {
            pool: PoolReport::of(&area.pool),
            covered: bits(solution.covered),
            parts: area.view.cut(&area.pool.envelope()).into_iter().map(part).collect(),
            functions: functions
                .map(|(&mask, &near_misses)| FunctionReport {
                    bits: bits(mask),
                    role: selects(area, mask),
                    near_misses,
                })
                .collect(),
            rows: solution.rows().iter().map(|&mask| bits(mask)).collect(),
            hit_ticks: area.levels.hit,
            conflict_ticks: area.levels.conflict,
            sigma_ticks: area.levels.sigma,
            predicted_conflicts: verification.conflicts,
            predicted_at_random: verification.random,
            predictions_undecided: verification.undecided,
            predictions_true_least: verification.all().at_least(),
            shift: area.shift.map(|Shift { function, ticks, error }| ShiftReport {
                function: bits(function),
                ticks,
                error_ticks: error,
            }),
            roles: area.roles.as_ref().map(RolesReport::of),
        }
    }
}

impl RolesReport {
    fn of(roles: &Roles) -> RolesReport {
        let level = |level: &Level| LevelReport {
            ticks: level.ticks,
            error_ticks: level.error,
            changes: level.changes.len(),
            role: level.role,
        };
        let compared = |compared: &Compared| ComparedReport {
            function: bits(compared.function),
            open_rows_share: compared.shares[0],
            changing_rows_share: compared.shares[1],
            channel: compared.channel,
        };
        let function = |&(mask, role): &(u64, Role)| RoleReport { bits: bits(mask), role };
        RolesReport {
            functions: roles.functions.iter().map(function).collect(),
            levels: roles.levels.iter().map(level).collect(),
            compared: roles.compared.iter().map(compared).collect(),
            saturated: roles.saturated,
            wrong_probability_max: roles.error,
            untold: roles.untold.map(|why| why.to_string()),
        }
    }
}
