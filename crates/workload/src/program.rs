//! References with given statistics.

use memtint_units::ByteSize;

use crate::{Kind, LINE_BYTES, Reference, Region, Source, WorkloadError};
use memtint_units::Random;
use memtint_units::random::mix;

/// Bytes of a DRAM row as a program sees it: 8 KiB, the row of eight x8 chips, 128 lines.
pub const ROW_BYTES: u64 = 8192;
const ROW_LINES: u64 = ROW_BYTES / LINE_BYTES;
const MILLION: u64 = 1_000_000;
/// Instructions between the misses of one group, if there are enough: a group fits any out-of-order window.
const SPACING: u64 = 3;
/// Lines of the near references: they stay in any first-level cache.
const NEAR_LINES: u64 = 128;

/// The statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramParameters {
    /// The memory that is used; whole rows of 8 KiB.
    pub region: Region,
    /// References that miss the last-level cache, of a million instructions: 1 to 500,000.
    pub misses_per_million_instructions: u32,
    /// Of a million misses, those to the same 8 KiB as their stream's previous miss: 0 to 992,187, which is 127 of 128.
    pub row_hits_per_million: u32,
    /// Rows that are walked through at once, a line of each in turn: 1 to 64.
    pub streams: u32,
    /// Of a million misses, those that are stores: 0 to 1,000,000.
    pub writes_per_million: u32,
    /// Independent misses in a group: 1 to 64.
    pub parallelism: u32,
    /// References that hit the first-level cache, of a million instructions, 0 to 400,000. They cost simulation time
    /// and never reach memory; 0 leaves them out.
    pub near_per_million_instructions: u32,
    /// Seed of order, kinds and distances.
    pub seed: u64,
}

/// A statistical model of a program. Never ends.
///
/// Misses come in runs through neighbouring lines of one row, the rows in a random order that is the same each round, so that each row is
/// visited once a round; runs in later rounds begin elsewhere in the row. A line is not touched again before a whole round is over, so a
/// cache that is small beside the memory holds none of them; a memory no larger than the cache cannot miss as often as requested. Runs have
/// the lengths that give the row hits, `1/(1 - share)` lines on average, and vary around that. Each stream has a run under way, and misses
/// take turns among the streams. Misses come in groups of [`ProgramParameters::parallelism`]; the first of a group needs the value of the
/// previous load.
///
/// Counts are exact in the long run: only the rate of stores is approached by chance.
///
/// Simplified: one program phase, no reuse at middle distances, rows in virtual addresses. The references that reach
/// memory also depend on the allocator (the frames of neighbouring pages), and written lines come back when caches
/// evict them.
#[derive(Clone, Debug)]
pub struct Program {
    parameters: ProgramParameters,
    random: Random,
    order: Permutation,
    /// Instructions accounted for so far by the references.
    accounted: u64,
    /// Instructions between two misses of a group.
    spacing: u64,
    /// Instructions from group to group, and where the share of the next one begins.
    group_steps: Steps,
    share_begin: u64,
    /// The next miss of the group, and how many are left.
    miss_at: u64,
    left_in_group: u32,
    /// The next near reference, and the instructions from one to the next; none when there are none.
    near_at: u64,
    near_steps: Option<Steps>,
    /// One of each stream, and that of the next miss.
    runs: Vec<Run>,
    stream: usize,
    run_steps: Steps,
    /// Number of the next run: its round, and its place in the round.
    round: u64,
    in_round: u64,
    varied_by: Option<u64>,
}

/// The rest of a run.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    row: u64,
    line: u64,
    left: u64,
}

impl Program {
    /// Begins a program. Refuses values outside the ranges of [`ProgramParameters`], and more references than
    /// instructions.
    pub fn new(parameters: &ProgramParameters) -> Result<Program, WorkloadError> {
        let p = parameters;
        let rows = p.region.steps("program", ROW_BYTES)?;
        for (field, value, from, to) in [
            ("misses_per_million_instructions", p.misses_per_million_instructions, 1, 500_000),
            ("row_hits_per_million", p.row_hits_per_million, 0, 992_187),
            ("streams", p.streams, 1, 64),
            ("writes_per_million", p.writes_per_million, 0, 1_000_000),
            ("parallelism", p.parallelism, 1, 64),
            ("near_per_million_instructions", p.near_per_million_instructions, 0, 400_000),
        ] {
            if !(from..=to).contains(&value) {
                return Err(WorkloadError::parameter("program", field, value, format!("{from} to {to}")));
            }
        }
        let (rate, near) = (u64::from(p.misses_per_million_instructions), u64::from(p.near_per_million_instructions));
        let mut program = Program {
            parameters: parameters.clone(),
            random: Random::new(p.seed),
            order: Permutation::new(rows, p.seed),
            accounted: 0,
            // At most half of the available instructions, so that groups can move.
            spacing: (MILLION / rate / 2).saturating_sub(1).min(SPACING),
            group_steps: Steps::new(u64::from(p.parallelism) * MILLION, rate),
            share_begin: 0,
            miss_at: 0,
            left_in_group: 0,
            near_at: if near == 0 { u64::MAX } else { 0 },
            near_steps: (near > 0).then(|| Steps::new(MILLION, near)),
            runs: vec![Run::default(); p.streams as usize],
            stream: 0,
            // Lines and runs in this ratio: the mean is exact.
            run_steps: Steps::new(MILLION, MILLION - u64::from(p.row_hits_per_million)),
            round: 0,
            in_round: 0,
            varied_by: None,
        };
        program.begin_group();
        Ok(program)
    }

    #[inline]
    fn step(&mut self) -> Reference {
        if self.near_at < self.miss_at {
            return self.near();
        }
        let gap = self.advance(self.miss_at);
        let depends = self.left_in_group == self.parameters.parallelism;
        self.left_in_group -= 1;
        self.miss_at += self.spacing + 1;
        if self.left_in_group == 0 {
            self.begin_group();
        }
        let addr = self.miss();
        // Computed without a branch, which would be unpredictable.
        let store = self.random.below(MILLION) < u64::from(self.parameters.writes_per_million);
        let kind = if store { Kind::Write } else { Kind::Read };
        Reference { addr, gap, bytes: 8, kind, depends, shares: false }
    }

    fn near(&mut self) -> Reference {
        let gap = self.advance(self.near_at);
        self.near_at += self.near_steps.as_mut().map_or(u64::MAX, Steps::next);
        let line = self.random.below(NEAR_LINES);
        // Below the memory of the misses, and so not part of it.
        let begin = self.parameters.region.base.wrapping_sub(NEAR_LINES * LINE_BYTES);
        Reference::read(begin.wrapping_add(line * LINE_BYTES), 8, gap)
    }

    /// Advances to the instruction with this number, or to the next if that has passed; returns the gap.
    #[inline]
    fn advance(&mut self, to: u64) -> u32 {
        let gap = to.saturating_sub(self.accounted);
        self.accounted += gap + 1;
        // A group of 64 misses, one in a million instructions, is far below 2^32.
        gap as u32
    }

    /// Places the next group somewhere in its share of the instructions.
    fn begin_group(&mut self) {
        let parallelism = self.parameters.parallelism;
        let share = self.group_steps.next();
        let free = share.saturating_sub(u64::from(parallelism) * (self.spacing + 1));
        self.miss_at = self.share_begin + self.random.below(free + 1);
        self.share_begin += share;
        self.left_in_group = parallelism;
    }

    #[inline]
    fn miss(&mut self) -> u64 {
        if self.runs[self.stream].left == 0 {
            self.runs[self.stream] = self.begin_run();
        }
        let run = &mut self.runs[self.stream];
        let addr = self.parameters.region.base + run.row * ROW_BYTES + run.line % ROW_LINES * LINE_BYTES;
        run.line += 1;
        run.left -= 1;
        self.stream += 1;
        if self.stream == self.runs.len() {
            self.stream = 0;
        }
        addr
    }

    fn begin_run(&mut self) -> Run {
        let mean = self.run_steps.next();
        // Of two runs, one is longer by as much as the other is shorter.
        let length = match self.varied_by.take() {
            None => {
                // The other may be a line shorter from the start, and both fit a row.
                let room = mean.saturating_sub(2).min(ROW_LINES.saturating_sub(mean + 1));
                let longer = if room == 0 { 0 } else { self.random.below(room + 1) };
                self.varied_by = Some(longer);
                mean + longer
            }
            Some(longer) => mean - longer.min(mean - 1),
        };
        let row = self.order.at(self.in_round);
        // Runs of later rounds start beside those of earlier ones: twice the mean is more than the longest.
        let step = (2 * (mean + 1)).min(ROW_LINES);
        let begin = if self.round == 0 { 0 } else { self.round * step + self.round / (ROW_LINES / step) };
        self.in_round += 1;
        if self.in_round == self.order.count {
            self.in_round = 0;
            self.round += 1;
        }
        Run { row, line: (mix(row) % ROW_LINES + begin) % ROW_LINES, left: length }
    }
}

crate::endless!(Program);

/// A random order of numbers below a count, without a table: a bijection of the next power of two, walked until it is
/// in range. Multiplication by an odd number, addition and a shifted exclusive or are bijections each.
#[derive(Clone, Debug)]
struct Permutation {
    count: u64,
    mask: u64,
    shift: u32,
    factors: [u64; 3],
    offset: u64,
}

impl Permutation {
    fn new(count: u64, seed: u64) -> Permutation {
        let bits = (u64::BITS - (count - 1).leading_zeros()).max(1);
        let factors = [1, 2, 3].map(|number| mix(seed ^ number) | 1);
        Permutation { count, mask: (1 << bits) - 1, shift: bits.div_ceil(2), factors, offset: mix(seed ^ 4) }
    }

    #[inline]
    fn at(&self, index: u64) -> u64 {
        let mut value = index;
        loop {
            value = value.wrapping_add(self.offset) & self.mask;
            for factor in self.factors {
                value = value.wrapping_mul(factor) & self.mask;
                value ^= value >> self.shift;
            }
            if value < self.count {
                return value;
            }
        }
    }
}

/// Numbers that grow by an exact ratio on average: the `k`-th sum of its steps is `k` times the ratio, rounded down.
#[derive(Clone, Copy, Debug)]
struct Steps {
    whole: u64,
    part: u64,
    of: u64,
    rest: u64,
}

impl Steps {
    const fn new(numerator: u64, denominator: u64) -> Steps {
        Steps { whole: numerator / denominator, part: numerator % denominator, of: denominator, rest: 0 }
    }

    #[inline]
    fn next(&mut self) -> u64 {
        self.rest += self.part;
        let carry = self.rest >= self.of;
        if carry {
            self.rest -= self.of;
        }
        self.whole + u64::from(carry)
    }
}

/// A size for a footprint in MiB.
pub(crate) const fn footprint(mib: u64) -> ByteSize {
    ByteSize(mib << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_names_each_number_once() {
        for count in [1, 2, 3, 5, 64, 1000, 4097] {
            let order = Permutation::new(count, 9);
            let mut seen: Vec<u64> = (0..count).map(|index| order.at(index)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..count), "{count}");
        }
    }
}
