//! What a probe found, for people and for programs.

use std::fmt::{self, Write as _};

use memtint_detect::Processor;
use memtint_map::{Role, gf2};
use memtint_probe::{
    Answer, Area, Attempt, Compared, Level, Mapping, Pool, Rate, Report, Roles, Shift, SimulatedMachine,
};
use memtint_units::ByteSize;
use schemars::JsonSchema;
use serde::Serialize;

use super::advice::advice;
use super::asked::{Asked, Described};
use super::caches::{Caches, CachesJson};
use super::nodes::{Nodes, NodesJson};
use super::wanted::Wanted;
use super::watched::{Quartiles, Seen};
use crate::output::table;

/// Version of the form of JSON output.
const SCHEMA: u32 = 1;

/// Differences that were timed less often are not called slow.
const SLOWEST_OFTEN: usize = 12;

/// A probe that has come to its end; what was not looked for is absent.
pub(super) struct Outcome {
    pub(super) asked: Asked,
    pub(super) wanted: Wanted,
    pub(super) described: Described,
    pub(super) banks: Option<Banks>,
    pub(super) caches: Option<Caches>,
    pub(super) nodes: Option<Nodes>,
}

/// What came of looking for banks.
pub(super) struct Banks {
    pub(super) report: Report,
    pub(super) seen: Seen,
    pool: PoolJson,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Json<'a> {
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
struct BanksJson<'a> {
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
struct PoolJson {
    bytes: u64,
    pieces: usize,
    /// Of addresses, so many low bits are known.
    known_bits: u32,
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
pub(super) enum OracleJson<'a> {
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
pub(super) struct MemoryJson {
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
    /// Tells whether the first of what was looked for was found, or a part of it.
    pub(super) fn is_found(&self) -> bool {
        match (&self.banks, &self.caches, &self.nodes) {
            (Some(banks), ..) => banks.mapping().is_some(),
            (None, Some(caches), _) => caches.found().is_some(),
            (None, None, Some(nodes)) => nodes.is_measured(),
            (None, None, None) => false,
        }
    }

    fn advice(&self) -> Vec<String> {
        advice(&self.asked, self.banks.as_ref().map(|banks| &banks.report), self.caches.as_ref())
    }

    pub(super) fn to_json(&self) -> Json<'_> {
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

    pub(super) fn to_text(&self) -> String {
        let mut out = String::new();
        // Writing to a String does not fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        if let Some(banks) = &self.banks {
            banks.write(out)?;
            writeln!(out)?;
        }
        if let Some(caches) = &self.caches {
            caches.write(out)?;
            writeln!(out)?;
        }
        if let Some(nodes) = &self.nodes {
            nodes.write(out)?;
            writeln!(out)?;
        }
        writeln!(out, "asked       {}", self.asked)?;
        self.asked.write_details(out)?;
        self.advice().iter().try_for_each(|advice| writeln!(out, "advice      {advice}"))
    }
}

impl Banks {
    pub(super) fn new(report: Report, seen: Seen, pool: &Pool) -> Banks {
        Banks { report, seen, pool: PoolJson::of(pool) }
    }

    pub(super) fn mapping(&self) -> Option<&Mapping> {
        match &self.report.answer {
            Answer::Mapping(mapping) | Answer::Partial(mapping, _) => Some(mapping),
            Answer::NoBankSignal(_) => None,
        }
    }

    pub(super) fn missing(&self) -> Vec<String> {
        match &self.report.answer {
            Answer::Partial(_, missing) => missing.iter().map(ToString::to_string).collect(),
            Answer::Mapping(_) | Answer::NoBankSignal(_) => Vec::new(),
        }
    }

    /// The largest distance of two levels, in deviations of one sample.
    fn separation(&self) -> Option<f64> {
        self.report.attempts.iter().filter_map(|attempt| attempt.separation).reduce(f64::max)
    }

    /// In a word, and in a sentence.
    pub(super) fn answer(&self) -> (&'static str, String) {
        match &self.report.answer {
            Answer::Mapping(mapping) => ("mapping", format!("a mapping, {}", sure(mapping))),
            Answer::Partial(mapping, _) => ("partial", format!("a partial mapping, {}", sure(mapping))),
            Answer::NoBankSignal(refusal) if refusal.conflicts => (
                "no_bank_signal",
                "no mapping: some pairs are slow, and no mapping of a memory explains which".to_owned(),
            ),
            Answer::NoBankSignal(_) => {
                ("no_bank_signal", "no bank signal here: no two addresses in turn stand out as slow".to_owned())
            }
        }
    }

    fn to_json(&self) -> BanksJson<'_> {
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

    fn write(&self, out: &mut String) -> fmt::Result {
        writeln!(out, "answer      {}", self.answer().1)?;
        for missing in self.missing() {
            writeln!(out, "not known   {missing}")?;
        }
        let areas = self.mapping().map_or(&[][..], |mapping| &mapping.areas);
        for area in areas {
            self.write_area(out, area, areas.len() > 1)?;
        }
        writeln!(out, "\ntried")?;
        let rows: Vec<Vec<String>> = self.report.attempts.iter().map(attempt_row).collect();
        out.push_str(&table(&["  assumption", "separation", "accesses", "what came of it"], &[1, 2], &rows));
        let effort = self.report.effort;
        writeln!(
            out,
            "\naccesses    {} timed, in {} questions, for {} decisions",
            effort.accesses, effort.calls, effort.decisions
        )?;
        if let Some((bits, pairs)) = self.report.least() {
            writeln!(
                out,
                "at least    {bits:.0} bits, which no method can do without; random pairs give them in {pairs:.0}"
            )?;
        }
        self.write_readings(out)?;
        let PoolJson { bytes, pieces, known_bits } = self.pool;
        let known =
            if known_bits < 64 { format!(", of whose addresses {known_bits} bits are known") } else { String::new() };
        writeln!(out, "pool        {} in {}{known}", ByteSize(bytes), count(pieces, "piece"))
    }

    fn write_readings(&self, out: &mut String) -> fmt::Result {
        for (what, times) in [("pairs", &self.seen.pairs), ("alone", &self.seen.alone)] {
            if let Some(Quartiles { lower_ticks, median_ticks, upper_ticks, .. }) = Quartiles::of(times) {
                writeln!(
                    out,
                    "{what:<12}{median_ticks} ticks in the middle, half of them {lower_ticks} to {upper_ticks}"
                )?;
            }
        }
        if let Some((difference, ticks)) = self.seen.slowest(SLOWEST_OFTEN) {
            writeln!(out, "slowest     pairs that differ in bits {}: {ticks} ticks in the middle", list(difference))?;
        }
        Ok(())
    }

    fn write_area(&self, out: &mut String, area: &Area, several: bool) -> fmt::Result {
        if several {
            let range = area.pool.envelope();
            writeln!(out, "\narea        {} in {}-{}", ByteSize(area.pool.bytes()), range.start, range.end)?;
        }
        writeln!(out, "\nbank functions (XOR of address bits)")?;
        let rows: Vec<Vec<String>> = area
            .solution
            .functions
            .iter()
            .zip(&area.verification.near_misses)
            .map(|(&mask, rate)| vec![format!("  {}", list(mask)), role(area, mask).to_owned(), hits(rate)])
            .collect();
        out.push_str(&table(&["  address bits", "selects", "differences in it alone are fast"], &[], &rows));
        let rows: Vec<String> = area.solution.rows().iter().map(|&mask| function(mask)).collect();
        writeln!(out, "rows        {}", rows.join(" "))?;
        writeln!(out, "covers      address bits {}", list(area.solution.covered))?;
        for part in area.view.cut(&area.pool.envelope()) {
            let interleave = part.interleave.map_or_else(String::new, |interleave| {
                format!(", dealt out over {} channels each {}", interleave.ways, ByteSize(1 << interleave.shift))
            });
            let inside =
                if part.base == part.inside { String::new() } else { format!(", counted from {:#x}", part.inside) };
            writeln!(out, "addresses   {:#x}-{:#x}{inside}{interleave}", part.base, part.base + part.size)?;
        }
        let levels = area.levels;
        writeln!(
            out,
            "levels      conflicts {:.0} ticks, others {:.0} at most, beyond the {:.0} of one address alone; deviation of a sample {:.1}",
            levels.conflict, levels.hit, self.report.baseline, levels.sigma
        )?;
        let (verification, all) = (&area.verification, area.verification.all());
        let least = all.at_least().map_or_else(String::new, |share| format!(", so {:.1} % at least", share * 100.0));
        writeln!(
            out,
            "predicted   {} conflicts, {} at random: came true; of all {} predictions {}{least} (95 %)",
            hits(&verification.conflicts),
            hits(&verification.random),
            all.tried,
            all.hits
        )?;
        if let Some(roles) = &area.roles {
            write_roles(out, roles)?;
        }
        if let Some(shift) = area.shift {
            let (bits, Shift { ticks, error, .. }) = (function(shift.function), shift);
            writeln!(
                out,
                "shift       {bits} shifts the time of other pairs by {ticks:.1} +- {error:.1} ticks (99.9 %): a {SHIFTING}"
            )?;
        }
        Ok(())
    }
}

/// What functions select, and what that rests on.
fn write_roles(out: &mut String, roles: &Roles) -> fmt::Result {
    if is_told(roles) {
        writeln!(out, "\nwhat they select, each up to sums with those above its kind")?;
        let row = |&(mask, role): &(u64, Role)| vec![format!("  {}", list(mask)), selected(role).to_owned()];
        let rows: Vec<Vec<String>> = roles.functions.iter().map(row).collect();
        out.push_str(&table(&["  address bits", "selects"], &[], &rows));
        // Up, but not by what 1 - 0.999 is off in binary.
        let share = (roles.error * 1e6 - 1e-6).ceil().max(1.0) / 1e4;
        writeln!(
            out,
            "roles       wrong with a probability of {share} % at most, as far as readings err independently"
        )?;
    }
    if let Some(why) = roles.untold {
        writeln!(out, "roles       not told: {why}")?;
    }
    for Level { ticks, error, changes, role } in &roles.levels {
        let (what, changes) = (apart(*role), count(changes.len(), "change"));
        writeln!(
            out,
            "together    four lines of two banks: {ticks:.1} +- {error:.1} ticks more than one line, {changes} of the bank: {what}"
        )?;
    }
    for Compared { function: mask, shares: [open, changing], channel } in &roles.compared {
        let is = match channel {
            Some(true) => "a channel",
            Some(false) => "no channel",
            None => "not clear",
        };
        writeln!(
            out,
            "half        banks of one value of {}: a read takes {open:.2} times as long as from all, {changing:.2} times where rows change: {is}",
            function(*mask)
        )?;
    }
    Ok(())
}

fn is_told(roles: &Roles) -> bool {
    roles.functions.iter().any(|&(_, role)| role != Role::Unknown)
}

fn selected(role: Role) -> &'static str {
    match role {
        Role::Channel => "channel",
        Role::Rank => "rank",
        Role::BankGroup => "bank group",
        Role::Bank => "bank",
        _ => "not told",
    }
}

/// What two banks have apart.
fn apart(role: Role) -> &'static str {
    match role {
        Role::Channel => "another channel",
        Role::Rank => "another rank",
        Role::BankGroup => "another bank group",
        Role::Bank => "the same bank group",
        _ => "not told",
    }
}

/// What a function may select whose value shifts the time of pairs that do not conflict. Which of these, the time between two accesses
/// does not say: of all of them some make it longer, and some shorter, on one machine or another.
pub(super) const SHIFTING: &str = "bank group, rank or channel";

/// What timing says that a bank function selects. All functions of a basis are equal in conflicts; only a shift tells one from others,
/// and only if it is one of the basis, which is not the hardware's.
fn role(area: &Area, mask: u64) -> &'static str {
    match area.shift {
        Some(shift) if shift.function == mask => SHIFTING,
        _ => "unknown",
    }
}

/// What is known of roles, in sentences, for a platform file.
pub(super) fn roles(area: &Area) -> String {
    let told = area.roles.as_ref().is_some_and(is_told);
    let shift = match area.shift {
        None => String::new(),
        Some(shift) => {
            let (bits, which) = (function(shift.function), if told { "" } else { ", and timing does not say which" });
            format!(" {bits} shifts the time of pairs that do not conflict: a {SHIFTING}{which}.")
        }
    };
    let ways = area.view.cut(&area.pool.envelope()).into_iter().find_map(|part| part.interleave);
    let turns = match ways {
        None => String::new(),
        Some(interleave) => {
            format!(" That {} channels take turns is found too: they are channels, or nodes.", interleave.ways)
        }
    };
    let selects = if told {
        "what it selects too, as far as it has a role: up to sums with functions of channel, rank and bank group, in this order"
    } else {
        "what it selects (channel, rank, bank group, bank) is not"
    };
    format!(
        "Found by timing: which bank a function selects is known up to the names of banks, and {selects}.{shift}{turns}"
    )
}

fn sure(mapping: &Mapping) -> String {
    // Never more than what was computed.
    let share = (mapping.confidence * 1e6).floor() / 1e4;
    format!("right with a probability of {share:.4} % at least, as far as readings err independently")
}

fn hits(rate: &Rate) -> String {
    format!("{} of {}", rate.hits, rate.tried)
}

pub(super) fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// Bits as a list, runs shortened.
pub(super) fn list(mask: u64) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for bit in gf2::bits(mask) {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == bit => *last = bit,
            _ => runs.push((bit, bit)),
        }
    }
    let run = |&(first, last): &(u32, u32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first} {last}"),
        _ => format!("{first}-{last}"),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(" ")
}

/// Bits that are XORed, as one word.
pub(super) fn function(mask: u64) -> String {
    gf2::bits(mask).map(|bit| bit.to_string()).collect::<Vec<_>>().join("^")
}

fn attempt_row(attempt: &Attempt) -> Vec<String> {
    vec![
        format!("  {}", attempt.assumption),
        attempt.separation.map_or("-".to_owned(), |separation| format!("{separation:.2}")),
        attempt.accesses.to_string(),
        attempt.failed.map_or("predicts what memory does".to_owned(), |failed| failed.to_string()),
    ]
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
    fn of(pool: &Pool) -> PoolJson {
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

impl Asked {
    pub(super) fn to_json(&self, advice: Vec<String>) -> OracleJson<'_> {
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

    /// A hypervisor, if the processor says that there is one.
    pub(super) fn hypervisor(&self) -> Option<&str> {
        match self {
            Asked::Machine { processor, .. } => processor.as_ref()?.hypervisor.as_deref(),
            Asked::Simulated { .. } | Asked::Log { .. } => None,
        }
    }

    pub(super) fn write_details(&self, out: &mut String) -> fmt::Result {
        let about = match self {
            Asked::Machine { about: Some(about), .. } => about,
            Asked::Log { of, .. } => return writeln!(out, "recorded    of {of}"),
            Asked::Machine { about: None, .. } | Asked::Simulated { .. } => return Ok(()),
        };
        writeln!(out, "pages       all of {}", ByteSize(about.page_bytes))?;
        writeln!(
            out,
            "clock       in steps of {}; a cached line takes {}, a flushed one {}",
            count(about.quantum_ticks as usize, "tick"),
            about.cached_ticks,
            about.flushed_ticks
        )
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Asked::Machine { processor, .. } => write_machine(f, processor.as_ref()),
            Asked::Simulated { machine, noise } => write_simulated(f, machine, noise),
            Asked::Log { path, .. } => write!(f, "the recording {path}"),
        }
    }
}

pub(super) fn write_machine(f: &mut fmt::Formatter<'_>, processor: Option<&Processor>) -> fmt::Result {
    let brand = processor.map(|processor| processor.brand.as_str()).filter(|brand| !brand.is_empty());
    write!(f, "this machine ({}", brand.unwrap_or("unknown processor"))?;
    match processor.and_then(|processor| processor.hypervisor.as_deref()) {
        Some(hypervisor) => write!(f, ", a virtual machine of {hypervisor})"),
        None => write!(f, ")"),
    }
}

pub(super) fn write_simulated(f: &mut fmt::Formatter<'_>, machine: &SimulatedMachine, noise: &str) -> fmt::Result {
    write!(f, "a simulated machine with the mapping of {}, noise: {noise}", machine.platform().id())
}

#[cfg(test)]
mod tests {
    use memtint_probe::{Solution, Untold, Verification, View};
    use memtint_units::PhysAddr;
    use serde_json::{Value, json};

    use super::*;

    const CHANNEL: u64 = 1 << 8 | 1 << 13;
    const RANK: u64 = 1 << 14 | 1 << 18;
    const GROUP: u64 = 1 << 15 | 1 << 19 | 1 << 20;
    const BANK: u64 = 1 << 16 | 1 << 22;

    /// What 999 in 1000 leaves, without what is measured.
    fn told(functions: [Role; 4], untold: Option<Untold>) -> Roles {
        Roles {
            functions: [CHANNEL, RANK, GROUP, BANK].into_iter().zip(functions).collect(),
            levels: Vec::new(),
            compared: Vec::new(),
            saturated: None,
            error: 1.0 - 0.999,
            untold,
        }
    }

    fn area(roles: Option<Roles>) -> Area {
        let functions = vec![BANK, GROUP, RANK, CHANNEL];
        let near_misses = vec![Rate { tried: 4, hits: 4 }; functions.len()];
        Area {
            pool: Pool::new([PhysAddr(0)..PhysAddr(1 << 23)], 64).unwrap(),
            view: View::plain(),
            solution: Solution {
                covered: (1 << 23) - (1 << 6),
                tried: Vec::new(),
                functions,
                same_bank: Vec::new(),
                same_row: Vec::new(),
            },
            levels: memtint_probe::Levels { hit: 200.0, conflict: 280.0, sigma: 8.0, shifted: None },
            verification: Verification { near_misses, ..Verification::default() },
            shift: None,
            roles,
        }
    }

    /// What is said of an answer with one area, for people and for programs.
    fn said(roles: Option<Roles>) -> (String, Value) {
        let area = area(roles);
        let pool = area.pool.clone();
        let report = Report {
            answer: Answer::Mapping(Mapping { areas: vec![area], confidence: 0.999 }),
            attempts: Vec::new(),
            tests: Vec::new(),
            effort: memtint_probe::Effort::default(),
            baseline: 190.0,
        };
        let banks = Banks::new(report, Seen::default(), &pool);
        let mut text = String::new();
        banks.write(&mut text).unwrap();
        (text, serde_json::to_value(banks.to_json()).unwrap()["areas"][0]["roles"].clone())
    }

    /// Words of the lines that begin so.
    fn lines(text: &str, begin: &str) -> Vec<String> {
        let own = text.lines().filter(|line| line.starts_with(begin));
        own.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    /// Rows of what functions select.
    fn table(text: &str) -> Vec<String> {
        let (_, behind) = text.split_once("what they select").expect("a table of roles");
        lines(behind.split_once("\nroles ").expect("what it rests on").0, "  ").split_off(1)
    }

    #[test]
    fn each_role_that_is_told_has_its_bits() {
        let roles = [Role::Channel, Role::Rank, Role::BankGroup, Role::Bank];
        let (text, json) = said(Some(told(roles, None)));
        let rows = ["8 13 channel", "14 18 rank", "15 19 20 bank group", "16 22 bank"];
        assert_eq!(table(&text), rows, "{text}");
        assert_eq!(
            lines(&text, "roles "),
            ["roles wrong with a probability of 0.1 % at most, as far as readings err independently"]
        );
        let functions = json!([
            { "bits": [8, 13], "role": "channel" },
            { "bits": [14, 18], "role": "rank" },
            { "bits": [15, 19, 20], "role": "bank_group" },
            { "bits": [16, 22], "role": "bank" },
        ]);
        assert_eq!(json["functions"], functions);
        assert!(json.get("untold").is_none() && json.get("saturated").is_none(), "{json}");
    }

    #[test]
    fn a_role_that_is_absent_is_said_to_be_not_told() {
        let unknown = Role::Unknown;
        let (text, json) = said(Some(told([Role::Channel, Role::Rank, unknown, unknown], Some(Untold::NoGroups))));
        let rows = ["8 13 channel", "14 18 rank", "15 19 20 not told", "16 22 not told"];
        assert_eq!(table(&text), rows, "{text}");
        let why = Untold::NoGroups.to_string();
        assert_eq!(lines(&text, "roles ")[1], format!("roles not told: {why}"));
        assert_eq!((&json["functions"][3]["role"], &json["untold"]), (&json!("unknown"), &json!(why)));
        // Of none: no table, and no probability that it is wrong.
        let (text, json) = said(Some(told([unknown; 4], Some(Untold::Noisy))));
        assert!(!text.contains("what they select"), "{text}");
        assert_eq!(lines(&text, "roles "), [format!("roles not told: {}", Untold::Noisy)]);
        assert_eq!(json["functions"].as_array().map(Vec::len), Some(4));
        // Nobody could be asked.
        let (text, json) = said(None);
        assert!(lines(&text, "roles ").is_empty() && json.is_null(), "{text}{json}");
    }

    #[test]
    fn what_roles_rest_on_is_said() {
        let unknown = Role::Unknown;
        let level = |ticks, changes: &[u64], role| Level { ticks, error: 0.5, changes: changes.to_vec(), role };
        let roles = Roles {
            levels: vec![level(12.0, &[8], Role::Channel), level(40.25, &[0, 1, 2], unknown)],
            compared: vec![
                Compared { function: CHANNEL, shares: [2.0, 1.96], channel: Some(true) },
                Compared { function: RANK, shares: [1.7, 1.4], channel: None },
            ],
            saturated: Some([true, false]),
            ..told([Role::Channel, unknown, unknown, unknown], Some(Untold::NoSpaces))
        };
        let (text, json) = said(Some(roles));
        let together = lines(&text, "together ");
        assert!(
            together[0].contains("12.0 +- 0.5 ticks") && together[0].ends_with("1 change of the bank: another channel")
        );
        assert!(together[1].contains("40.2 +- 0.5 ticks") && together[1].ends_with("3 changes of the bank: not told"));
        let half = lines(&text, "half ");
        assert!(
            half[0].contains("of 8^13: ")
                && half[0].contains("2.00 times")
                && half[0].ends_with("1.96 times where rows change: a channel")
        );
        assert!(half[1].contains("of 14^18: ") && half[1].ends_with(": not clear"), "{half:?}");
        assert_eq!((&json["levels"][1]["ticks"], &json["levels"][1]["changes"]), (&json!(40.25), &json!(3)));
        assert_eq!(
            json["compared"][0],
            json!({ "function": [8, 13], "open_rows_share": 2.0, "changing_rows_share": 1.96, "channel": true })
        );
        assert!(json["compared"][1].get("channel").is_none());
        assert_eq!(json["saturated"], json!([true, false]));
    }

    #[test]
    fn notes_do_not_deny_what_is_told() {
        let shift = Some(Shift { function: RANK, ticks: 9.0, error: 1.0 });
        let of = |roles| super::roles(&Area { shift, ..area(roles) });
        let (denied, unknown) = ("timing does not say which", Role::Unknown);
        assert!(of(None).contains(denied) && of(Some(told([unknown; 4], Some(Untold::Noisy)))).contains(denied));
        let notes = of(Some(told([Role::Channel, Role::Rank, unknown, unknown], None)));
        assert!(!notes.contains(denied) && notes.contains("14^18 shifts") && notes.contains("up to sums"), "{notes}");
    }
}
