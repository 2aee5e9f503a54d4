//! The result of a probe, and its evidence.

use crate::pool::{LINE, Pool};
use crate::roles::Roles;
use crate::shift::Shift;
use crate::solve::{Solution, Unsolved};
use crate::tester::{Effort, Levels, Tested};
use crate::verify::Verification;
use crate::view::{Part, View};
use memtint_map::file::{InterleaveSection, RegionSection};
use memtint_map::{Interleave, PlatformFile, Role, gf2, mapfile};
use memtint_units::{ByteSize, PAGE_SHIFT, PhysAddr};
use std::fmt;
use std::ops::Range;

/// Settings of a probe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Seed of all random numbers.
    pub seed: u64,
    /// Required confidence in a mapping, below 1, assuming independent measurement errors.
    pub confidence: f64,
    /// The lowest address bit examined; lower bits are within a line.
    pub lowest: u32,
    /// Number of attempts for one assumption; a contradiction may be noise.
    pub attempts: u32,
    /// Number of timed accesses after which the probe ends.
    pub accesses_max: u64,
    /// A step that is omitted, to measure its value; the result is then only as good as the remaining steps.
    pub without: Option<Step>,
    /// Whether to search for a function that shifts the time of non-conflicting pairs, after a mapping is found.
    pub shift: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            seed: 1,
            confidence: 0.999,
            lowest: 6,
            attempts: 3,
            accesses_max: 20_000_000,
            without: None,
            shift: false,
        }
    }
}

/// A step of the search that can be omitted, and the effect of omitting it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Each sample of a difference uses a different pair. Without: always the same pair.
    Translations,
    /// The baseline follows the machine. Without: it is measured once, at the beginning.
    Baseline,
    /// A slow pair is doubted while a single address is slow too. Without: another program's accesses count as the
    /// pair's.
    Doubt,
    /// Pairs that contradict the decision on their difference are measured again. Without: they are dropped.
    Contrary,
    /// Where conflicts hardly stand out, each sample has a control, and other shifts of pairs are found first. Without:
    /// only levels that stand out are used.
    Controls,
    /// A contradiction is tried again. Without: the first one refutes an assumption.
    Retry,
    /// All thresholds between conflicts and the rest are tried. Without: only the one that just the slowest pairs pass.
    Splits,
    /// Mappings that no memory has are refused. Without: any consistent result is a mapping.
    Sanity,
    /// The mapping must predict fresh pairs. Without: nothing is predicted, not even by [`Step::Everywhere`].
    Predictions,
    /// It must do so in every part of the pool. Without: predictions are those of the solver.
    Everywhere,
    /// Memory may be relocated. Without: addresses are taken as they are, or interleaved over channels.
    Blocks,
    /// Channels may be interleaved by a modulus. Without: only powers of two are tried.
    Turns,
}

impl Step {
    /// All of them.
    pub const ALL: [Step; 12] = [
        Step::Translations,
        Step::Baseline,
        Step::Doubt,
        Step::Contrary,
        Step::Controls,
        Step::Retry,
        Step::Splits,
        Step::Sanity,
        Step::Predictions,
        Step::Everywhere,
        Step::Blocks,
        Step::Turns,
    ];
}

/// The result of a probe.
#[derive(Clone, Debug)]
pub struct Report {
    /// The answer.
    pub answer: Answer,
    /// All attempts, in order, with their results.
    pub attempts: Vec<Attempt>,
    /// All tests of differences, in order.
    pub tests: Vec<Tested>,
    /// Cost of the measurements.
    pub effort: Effort,
    /// Ticks of an undisturbed access.
    pub baseline: f64,
}

/// One attempt to find a mapping.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// The assumption of the attempt.
    pub assumption: String,
    /// Why it failed; `None` if it did not.
    pub failed: Option<Unsolved>,
    /// Separation of conflicts, in deviations of one sample; `None` if nothing stood out.
    pub separation: Option<f64>,
    /// Timed accesses of the attempt.
    pub accesses: u64,
}

/// The answer of a probe.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The mapping of the whole pool.
    Mapping(Mapping),
    /// An incomplete mapping, and the missing parts.
    Partial(Mapping, Vec<Missing>),
    /// No mapping is visible in the timing.
    NoBankSignal(Refusal),
}

/// A mapping that was found.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// Parts of memory with different functions, the largest first; nearly always one.
    pub areas: Vec<Area>,
    /// Confidence in the whole mapping (a lower bound, assuming independent measurement errors).
    pub confidence: f64,
}

/// A part of memory with its functions.
#[derive(Clone, Debug)]
pub struct Area {
    /// The memory of the measurements.
    pub pool: Pool,
    /// The translation of addresses before the functions apply.
    pub view: View,
    /// The functions.
    pub solution: Solution,
    /// The levels that identified conflicts.
    pub levels: Levels,
    /// Results of predictions.
    pub verification: Verification,
    /// The function that shifts the time of non-conflicting pairs, if requested and found.
    pub shift: Option<Shift>,
    /// Roles of functions, if the machine supports reads by several cores.
    pub roles: Option<Roles>,
}

/// A missing part of a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Only address bits below this one are known in the pool.
    UnknownAddresses(u32),
    /// The pool has no pairs that show the effect of these address bits.
    Bits(u64),
    /// Functions are known only within aligned blocks of this many bits, without the relations between blocks.
    BetweenBlocks(u32),
    /// The relation between the banks of the areas is unknown.
    BetweenAreas,
    /// Nothing is known about this many bytes of the pool.
    Bytes(u64),
}

/// The reason why there is no mapping.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// Some pairs conflict, but no mapping explains them.
    pub conflicts: bool,
    /// The largest separation seen, in deviations of one sample.
    pub separation: f64,
}

impl Report {
    /// Returns lower bounds for any method to find this mapping, from the number of possible spans: the information in
    /// bits, and the number of tests of random pairs; `None` without a mapping.
    ///
    /// There are about 3.46 * 2^(k (n-k)) spans of k functions of n bits; a random pair conflicts with probability
    /// 2^-k, so its test gives H(2^-k) bits.
    #[must_use]
    pub fn least(&self) -> Option<(f64, f64)> {
        let (Answer::Mapping(mapping) | Answer::Partial(mapping, _)) = &self.answer else { return None };
        let solution = &mapping.areas.first()?.solution;
        let (k, n) = (solution.functions.len() as f64, f64::from(solution.covered.count_ones()));
        let bits = k * (n - k) + 1.8;
        let p = (-k).exp2();
        Some((bits, bits / -(p * p.log2() + (1.0 - p) * (1.0 - p).log2())))
    }
}

impl Mapping {
    /// Returns one platform file for each area, the largest first, because a file has one set of functions. `source`
    /// describes the probe and its date; `memory` is the machine's memory (empty: from the lowest to the highest
    /// address of the pool).
    #[must_use]
    pub fn platform_files(&self, id: &str, source: &str, memory: &[Range<PhysAddr>]) -> Vec<PlatformFile> {
        self.areas.iter().map(|area| area.platform_file(id, source, memory)).collect()
    }
}

impl Area {
    fn platform_file(&self, id: &str, source: &str, memory: &[Range<PhysAddr>]) -> PlatformFile {
        let Area { pool, view, solution, .. } = self;
        let told = self.roles.as_ref().map(|roles| &roles.functions);
        let (masks, roles): (Vec<u64>, Vec<Role>) = match told {
            Some(told) => told.iter().copied().unzip(),
            None => solution.functions.iter().map(|&mask| (mask, Role::Unknown)).unzip(),
        };
        let mut file = mapfile::to_platform_file(id, &masks, LINE, source);
        file.dram.functions.iter_mut().zip(roles).for_each(|(function, role)| function.role = role);
        file.dram.row_functions = Some(solution.rows().iter().map(|&mask| gf2::bits(mask).collect()).collect());
        file.dram.source_kind = Some("timing".to_owned());
        let envelope = pool.envelope();
        if pool.known_bits() < 64 {
            let source = format!("{source}: one aligned block, within the known address bits");
            let block = Part { base: 0, size: 1 << pool.bits(), inside: 0, interleave: None };
            file.region = vec![region(&block, source)];
        } else {
            let memory = if memory.is_empty() { std::slice::from_ref(&envelope) } else { memory };
            // Nothing is known outside the probed range.
            let known = memory.iter().map(|range| range.start.max(envelope.start)..range.end.min(envelope.end));
            let parts = known.flat_map(|range| view.cut(&range));
            file.region = parts.map(|part| region(&part, source.to_owned())).collect();
        }
        let ends = file.region.iter().map(|part| part.dram_base.unwrap_or(part.base).0 + part.size.0 - 1);
        let last = ends.fold(solution.covered, |all, last| all | last);
        file.dram.address_bits = (64 - last.leading_zeros()).max(PAGE_SHIFT + 1);
        file
    }
}

fn region(part: &Part, source: String) -> RegionSection {
    let interleave =
        part.interleave.map(|Interleave { ways, shift }| InterleaveSection { ways, granularity: ByteSize(1 << shift) });
    RegionSection {
        base: ByteSize(part.base),
        size: ByteSize(part.size),
        node: 0,
        dram_base: Some(part.inside).filter(|&inside| inside != part.base).map(ByteSize),
        interleave,
        assumed: true,
        source,
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missing::UnknownAddresses(bits) => write!(f, "of addresses only bits 0 to {} are known", bits - 1),
            Missing::Bits(mask) => {
                write!(
                    f,
                    "the pool has no pairs that show what address bits {:?} do",
                    gf2::bits(*mask).collect::<Vec<_>>()
                )
            }
            Missing::BetweenBlocks(bits) => {
                write!(
                    f,
                    "functions hold within aligned blocks of {}; how blocks belong together is not linear",
                    ByteSize(1 << bits)
                )
            }
            Missing::BetweenAreas => write!(f, "how the banks of the areas belong together"),
            Missing::Bytes(bytes) => write!(f, "nothing is known of {} of the pool", ByteSize(*bytes)),
        }
    }
}
