//! What a probe says, and what that rests on.

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

/// What a probe is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Seed of all that is drawn.
    pub seed: u64,
    /// Probability, below 1, with which a mapping that is given has to be right, as far as readings err independently.
    pub confidence: f64,
    /// The lowest address bit that is looked at; those below are within a line.
    pub lowest: u32,
    /// How often one assumption is tried anew after a contradiction, which may have been noise.
    pub attempts: u32,
    /// Timed accesses after which nothing more is tried.
    pub accesses_max: u64,
    /// A step that is left out, to see what it is worth; answers are then as good as what is left.
    pub without: Option<Step>,
    /// Look for a function that shifts the time of pairs that do not conflict, when a mapping has been found.
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

/// A step of the search that can be left out, and what happens then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Each sample of a difference is taken somewhere else. Without: always of the same pair.
    Translations,
    /// The baseline follows the machine. Without: it is measured once, to begin with.
    Baseline,
    /// What looks slow is doubted while an address alone is slow too. Without: another program's accesses count as the pair's.
    Doubt,
    /// Pairs that look otherwise than their difference was decided are looked at again. Without: they are forgotten.
    Contrary,
    /// Where conflicts hardly stand out, each sample has a control of its own, and what else shifts pairs is found first. Without:
    /// levels are those that stand out.
    Controls,
    /// A contradiction is tried again. Without: the first one refutes an assumption.
    Retry,
    /// All ways to tell conflicts from the rest are tried. Without: the one that only the slowest pairs pass.
    Splits,
    /// What no memory looks like is refused. Without: whatever is consistent is a mapping.
    Sanity,
    /// What is found has to predict fresh pairs. Without: nothing is predicted, by [`Step::Everywhere`] neither.
    Predictions,
    /// It has to do so in every part of the pool. Without: predictions are those of the solver.
    Everywhere,
    /// Memory may be moved. Without: addresses are taken as they are, or dealt out over channels.
    Blocks,
    /// Channels may take turns. Without: no number of them but powers of two is tried.
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

/// The end of a probe.
#[derive(Clone, Debug)]
pub struct Report {
    /// What it says.
    pub answer: Answer,
    /// What was tried, in order, with what came of it.
    pub attempts: Vec<Attempt>,
    /// All tests of differences, in order.
    pub tests: Vec<Tested>,
    /// What was asked of the machine.
    pub effort: Effort,
    /// Ticks of an access that waits for nothing.
    pub baseline: f64,
}

/// One try to find a mapping.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// The assumption that it was made under.
    pub assumption: String,
    /// Why it failed; `None` if it did not.
    pub failed: Option<Unsolved>,
    /// How far conflicts stood out, in deviations of one sample; `None` if nothing did.
    pub separation: Option<f64>,
    /// Accesses that it took.
    pub accesses: u64,
}

/// What a probe says.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The mapping of the whole pool.
    Mapping(Mapping),
    /// A mapping that leaves something open.
    Partial(Mapping, Vec<Missing>),
    /// No mapping: nothing that the timing shows is one.
    NoBankSignal(Refusal),
}

/// A mapping that was found.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// Parts of memory that have different functions, the largest first; nearly always one.
    pub areas: Vec<Area>,
    /// The probability that all of it is right is at least this, as far as readings err independently.
    pub confidence: f64,
}

/// A part of memory with its functions.
#[derive(Clone, Debug)]
pub struct Area {
    /// The memory that it was found on.
    pub pool: Pool,
    /// What happens to addresses before the functions.
    pub view: View,
    /// The functions.
    pub solution: Solution,
    /// What conflicts were told by.
    pub levels: Levels,
    /// What came of predictions.
    pub verification: Verification,
    /// The function that shifts the time of other pairs, if it was looked for and there is one.
    pub shift: Option<Shift>,
    /// What functions select, if the machine could be asked.
    pub roles: Option<Roles>,
}

/// What a partial mapping leaves open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The addresses of the pool are known up to this bit only.
    UnknownAddresses(u32),
    /// The pool has no pairs that would show what these address bits do.
    Bits(u64),
    /// Functions are known within aligned blocks of so many bits, and not how blocks belong together.
    BetweenBlocks(u32),
    /// How the banks of the areas belong together.
    BetweenAreas,
    /// Nothing was found out on these bytes of the pool.
    Bytes(u64),
}

/// Why there is no mapping.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// Conflicts of some pairs were seen, and no mapping explains them.
    pub conflicts: bool,
    /// The largest separation seen, in deviations of one sample.
    pub separation: f64,
}

impl Report {
    /// Gives the bits that any method needs at least for what was found, and the tests of random pairs at least, from the
    /// number of possible spans; `None` without a mapping.
    ///
    /// There are about 3.46 * 2^(k (n-k)) spans of k functions of n bits; a random pair conflicts with probability 2^-k, which tells
    /// H(2^-k) bits.
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
    /// Gives a platform file of each area, the largest first, for files have one set of functions; `source` says what was probed and
    /// when, `memory` where memory is (empty: from the lowest to the highest address of the pool).
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
            let source = format!("{source}: one aligned block, as far as address bits are known");
            let block = Part { base: 0, size: 1 << pool.bits(), inside: 0, interleave: None };
            file.region = vec![region(&block, source)];
        } else {
            let memory = if memory.is_empty() { std::slice::from_ref(&envelope) } else { memory };
            // Nothing is known beyond what was probed.
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
