//! The report of an area of a mapping.

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
    /// Memory in which the functions were found.
    pub pool: PoolReport,
    /// Examined address bits.
    pub covered: Vec<u32>,
    /// Parts of memory, with the offsets applied to their addresses before the functions.
    pub parts: Vec<PartReport>,
    /// The bank functions.
    pub functions: Vec<FunctionReport>,
    /// Functions that distinguish the rows of a bank, up to sums with bank functions.
    pub rows: Vec<Vec<u32>>,
    /// Additional time of the slowest pairs without a conflict over a single address.
    pub hit_ticks: f64,
    /// Additional time of a pair with a conflict over a single address.
    pub conflict_ticks: f64,
    /// Standard deviation of one sample.
    pub sigma_ticks: f64,
    /// Predicted conflicts.
    pub predicted_conflicts: Rate,
    /// Predictions for random pairs.
    pub predicted_at_random: Rate,
    /// Predictions that could not be decided.
    pub predictions_undecided: u32,
    /// Lower bound of Clopper and Pearson, at 95 %, for the share of correct predictions.
    pub predictions_true_least: Option<f64>,
    /// The function that shifts the time of non-conflicting pairs, if requested and found.
    pub shift: Option<ShiftReport>,
    /// Roles of bank functions; absent where the machine does not support reads by several cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roles: Option<RolesReport>,
}

/// A part of memory, and the translation of its addresses.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PartReport {
    /// Its first address.
    pub base: u64,
    /// Its size.
    pub size_bytes: u64,
    /// The address of its first byte for the functions.
    pub inside: u64,
    /// Number of interleaved channels; absent without an interleave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ways: Option<u32>,
    /// Granularity of the interleave; absent without an interleave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub granularity_bytes: Option<u64>,
}

/// A bank function.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FunctionReport {
    /// Its address bits.
    pub bits: Vec<u32>,
    /// Possible roles of the function: `unknown`, or the roles that its shift allows.
    pub role: &'static str,
    /// Predictions for differences that change only this function: no conflict.
    pub near_misses: Rate,
}

/// A function that shifts the time of pairs that do not conflict.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ShiftReport {
    /// Its address bits.
    pub function: Vec<u32>,
    /// Additional time of a pair that differs in the function; negative when it is faster.
    pub ticks: f64,
    /// Error bound of `ticks` at 99.9 % confidence.
    pub error_ticks: f64,
}

/// Roles of bank functions.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RolesReport {
    /// A basis of the bank functions, each known up to sums with functions of earlier roles.
    pub functions: Vec<RoleReport>,
    /// Changes of the bank, grouped by the speed of concurrent reads of two banks.
    pub levels: Vec<LevelReport>,
    /// Times of reads from half of the banks, relative to reads from all.
    pub compared: Vec<ComparedReport>,
    /// Whether half of the cores read as fast as all, with rows open and rows changing; absent when not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saturated: Option<[bool; 2]>,
    /// Upper bound of the error probability of a role.
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
    /// Its role.
    pub role: Role,
}

/// Changes of the bank whose pairs are equally fast.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LevelReport {
    /// Additional time of four lines of two banks over one line.
    pub ticks: f64,
    /// Error bound of `ticks`.
    pub error_ticks: f64,
    /// Number of these changes.
    pub changes: usize,
    /// The outermost role in which the two banks differ; also `bank` for the same bank.
    pub role: Role,
}

/// Slowdown of half of the banks compared with all.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ComparedReport {
    /// Address bits of the function that is constant on the half.
    pub function: Vec<u32>,
    /// With open rows.
    pub open_rows_share: f64,
    /// With changing rows.
    pub changing_rows_share: f64,
    /// Whether the half contains half of the channels; absent when unclear.
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
