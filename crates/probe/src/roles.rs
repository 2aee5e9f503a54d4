//! Determines the role of bank functions: channel, rank, bank group or bank.
//!
//! Conflicts only show which addresses share a bank; all other pairs look alike. Concurrent reads show the resources
//! that two banks share. Reads of open rows are limited by shared wires:
//!
//! ```text
//! two banks of       read alternately, at a pace of
//! channels           independent: nothing is shared
//! bank groups        tCCD_S: the limit of the data bus
//! ranks              tCCD_S plus tRTRS
//! one bank group     tCCD_L: the pace of one bank alone; tCCD_S where there are no groups
//! ```
//!
//! For every change of the bank functions' values, four lines, two of each bank, are repeatedly read together, and the
//! times are grouped into *levels*. A level is a set of changes. Its role follows from structure: changes that keep the
//! channel form a space, those of them that keep the rank form one, and those of them that keep the bank group form one
//! too. If levels do not form such spaces, roles stay unknown.
//!
//! Another channel and another bank group are both faster than one bank. Reads by all readers together distinguish the
//! two: half of the channels are half as fast, whether rows stay open (limited by the bus) or each read opens another
//! row (limited by tFAW, tRRD and tRC); half of the bank groups are not.
//!
//! Assumptions, besides the mapping: tRTRS is at least one cycle; tCCD_L is less than three times tCCD_S, or equal to
//! it where there are no groups; a rank has at least eight banks (so that half of them are more than half as fast);
//! refresh and other programs disturb all changes alike; one node has the memory; memory limits all readers together.
//! Stacked dies (3DS) are not recognized: their logical ranks behave like bank groups.

use crate::oracle::OracleError;
use crate::report::Area;
use crate::tester::{Tester, center, median};
use memtint_map::Role;
use memtint_map::gf2::{self, Basis};
use memtint_units::PhysAddr;

/// The most functions: 1024 changes.
const FUNCTIONS_MAX: usize = 10;
/// Number of reads of four lines for one sample.
const ROUNDS: u32 = 8;
/// Initial and largest number of samples of each change; the number doubles each time, which gives this many
/// evaluations.
const SAMPLES: usize = 128;
const SAMPLES_MAX: usize = 16_384;
const LOOKS: u32 = (SAMPLES_MAX / SAMPLES).ilog2() + 1;
/// The search ends early when ranges would have to shrink by more than this factor beyond the effect of the remaining
/// samples.
const HOPE: f64 = 1.5;
/// The time of three further reads of a bank, in units of the smallest relevant difference between two levels. With a
/// pace of L = tCCD_L the time is 3 L cycles, L is at most 22 (DDR5-8800), and where there are bank groups tRTRS costs
/// one cycle in each of the three.
const FINENESS: f64 = 24.0;
/// Number of comparisons of half of the banks with all.
const COMPARED: usize = 32;
/// Lines of all banks in one comparison, if a row or the pool has that many; fewest and most lines of one bank; number
/// of reads.
const COMPARED_LINES: usize = 2048;
const BANK_LINES: [usize; 2] = [2, 128];
const COMPARED_ROUNDS: u32 = 3;
/// Thresholds for the time of lines from half of the banks, relative to as many lines from all: it is 2 for half of the
/// channels, and at most 1.6 otherwise when rows change.
const DOUBLED: f64 = 1.75;
const LESS: f64 = 1.7;
/// The smallest relative time of twice as many lines, if reads dominate the time.
const LONGER: f64 = 1.6;
/// The largest relative time of half of the readers, if the readers are not the limit.
const SATURATED: f64 = 1.15;
/// The most channel functions considered.
const CHANNELS_MAX: u32 = 4;
/// The most draws for addresses in the pool.
const DRAWS: u32 = 200;

/// The known roles of bank functions.
#[derive(Clone, Debug, PartialEq)]
pub struct Roles {
    /// A basis of the bank functions with their roles, from the outside of the memory system inwards; [`Role::Unknown`]
    /// where undetermined. A channel may be a subchannel (DDR5) or a node's, a rank may be a module's. Each function is
    /// known up to sums with functions of earlier roles.
    pub functions: Vec<(u64, Role)>,
    /// Changes of the bank, grouped by the speed of concurrent reads of two banks, the fastest first; empty when that
    /// could not be measured.
    pub levels: Vec<Level>,
    /// Comparisons that distinguish channels from bank groups.
    pub compared: Vec<Compared>,
    /// Whether memory is the limit, with rows open and rows changing: half of the readers read as fast as all, and
    /// twice as many lines take longer. `None` when not measured.
    pub saturated: Option<[bool; 2]>,
    /// Upper bound of the error probability, assuming independent measurement errors.
    pub error: f64,
    /// The reason why some roles are unknown.
    pub untold: Option<Untold>,
}

/// Changes of the bank whose pairs are equally fast.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Additional ticks of four lines of two banks over one line.
    pub ticks: f64,
    /// Error bound of the ticks.
    pub error: f64,
    /// The changes, as values of the bank functions of the mapping; 0 is the same bank.
    pub changes: Vec<u64>,
    /// The outermost role in which the two banks of a pair differ; [`Role::Unknown`] where undetermined, [`Role::Bank`]
    /// within one bank or one bank group.
    pub role: Role,
}

/// Slowdown of half of the banks compared with all.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// The function that is constant on the half.
    pub function: u64,
    /// Median time of lines from half of the banks, relative to as many lines from all: rows open, and rows changing.
    pub shares: [f64; 2],
    /// Whether the half contains half of the channels; `None` when unclear.
    pub channel: Option<bool>,
}

/// The reason why roles are unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Untold {
    /// Too many functions.
    #[error("there are more than {FUNCTIONS_MAX} bank functions")]
    TooMany,
    /// The pool lacks lines for some change.
    #[error("the pool has no lines to read together for some change of the bank")]
    NoLines,
    /// Further reads take no time, or the readings are too noisy.
    #[error("readings are too noisy to tell how fast two banks are read together")]
    Noisy,
    /// All pairs of banks are as fast as one bank, so no role can be determined.
    #[error("all pairs of banks are as fast as one bank")]
    Alike,
    /// Reads by all readers do not distinguish the two, or are not possible.
    #[error("pairs that are faster than one bank are of two channels, or of two bank groups")]
    ChannelOrGroup,
    /// The levels are not those of a memory.
    #[error("pairs of banks are fast and slow in a way that no memory is")]
    NoSpaces,
    /// Bank groups are not visible.
    #[error("all other pairs of banks are as fast as one bank")]
    NoGroups,
}

/// Determines the roles of an area's bank functions; `None` when the machine has no readers. The error probability is
/// at most `error`.
///
/// # Errors
/// Those of the oracle.
pub fn roles(tester: &mut Tester<'_>, area: &Area, error: f64) -> Result<Option<Roles>, OracleError> {
    if tester.readers() == 0 {
        return Ok(None);
    }
    tester.draw_from(Some(area.pool.clone()));
    let untold = |untold| Roles {
        functions: area.solution.functions.iter().map(|&mask| (mask, Role::Unknown)).collect(),
        levels: Vec::new(),
        compared: Vec::new(),
        saturated: None,
        error: 0.0,
        untold: Some(untold),
    };
    if area.solution.functions.len() > FUNCTIONS_MAX {
        return Ok(Some(untold(Untold::TooMany)));
    }
    let mut reader = Reader { tester, area, changes: area.solution.changes() };
    let levels = match reader.levels(error / 2.0)? {
        Ok(levels) => levels,
        Err(why) => return Ok(Some(untold(why))),
    };
    let mut roles = Roles { levels, error, ..untold(Untold::Alike) };
    let spaces = match reader.channels(&mut roles, error / 2.0)? {
        Ok(kept) => inside(&roles.levels, &kept),
        Err(why) => Err(why),
    };
    match spaces {
        Ok(spaces) => spaces.tell(&mut roles, &area.solution.functions),
        Err(why) => roles.untold = Some(why),
    }
    Ok(Some(roles))
}

struct Reader<'t, 'a> {
    tester: &'t mut Tester<'a>,
    area: &'t Area,
    /// Differences of addresses that change one function each.
    changes: Vec<u64>,
}

/// Spaces of changes that keep a coordinate, as bases; each is within the one before it.
#[derive(Default)]
struct Spaces {
    channel: Option<Basis>,
    rank: Option<Basis>,
    group: Option<Basis>,
    untold: Option<Untold>,
}

impl Reader<'_, '_> {
    fn count(&self) -> usize {
        1 << self.changes.len()
    }

    /// Measures the levels of all changes, with an error probability of at most `error`.
    fn levels(&mut self, error: f64) -> Result<Result<Vec<Level>, Untold>, OracleError> {
        // Samples of each change, and of a single line.
        let mut samples: Vec<Vec<f64>> = vec![Vec::new(); self.count() + 1];
        let risk = error / f64::from(LOOKS) / samples.len() as f64;
        let mut wanted = SAMPLES;
        loop {
            while samples[0].len() < wanted {
                if !self.pass(&mut samples)? {
                    return Ok(Err(Untold::NoLines));
                }
            }
            let ranges: Vec<Range> = samples.iter().map(|own| Range::of(own, risk)).collect();
            let (alone, further) = (ranges[self.count()], ranges[0]);
            let fine = (further.middle - alone.middle) / FINENESS;
            let changes = &ranges[..self.count()];
            if further.low > alone.high && changes.iter().all(|range| range.high - range.low <= fine / 2.0) {
                return Ok(levels(changes, alone.middle, fine));
            }
            // Ranges shrink by the square root of two each time. If some would stay too wide to the end, the search
            // ends.
            let most = fine / 2.0 * (SAMPLES_MAX as f64 / wanted as f64).sqrt() * HOPE;
            if wanted == SAMPLES_MAX || changes.iter().any(|range| range.high - range.low > most) {
                return Ok(Err(Untold::Noisy));
            }
            wanted *= 2;
        }
    }

    /// Takes a sample of each change, relative to the median of all, which follows the machine's drift; false when the
    /// pool lacks lines.
    fn pass(&mut self, samples: &mut [Vec<f64>]) -> Result<bool, OracleError> {
        let mut order: Vec<usize> = (0..samples.len()).collect();
        shuffle(&mut order, self.tester);
        let mut found = vec![0.0; samples.len()];
        for at in order {
            let Some(lines) = self.lines(at) else { return Ok(false) };
            let Some(readings) = self.tester.together(&lines, 1, ROUNDS)? else { return Ok(false) };
            // Uses the faster readings, because every disturbance makes readings slower.
            found[at] = center(readings, 0.0);
        }
        let middle = median(&mut found.clone());
        samples.iter_mut().zip(found).for_each(|(own, found)| own.push(found - middle));
        Ok(true)
    }

    /// Draws four lines: two of one row of any bank, and two of a row of the bank at this change from it (for change 0,
    /// of the same row). A single line for the number after the last change.
    fn lines(&mut self, change: usize) -> Option<Vec<PhysAddr>> {
        let (same_bank, same_row) = (&self.area.solution.same_bank, &self.area.solution.same_row);
        for _ in 0..DRAWS {
            let random = self.tester.random();
            let [other, column] = [0, 1].map(|_| gf2::sum(same_row, random.bits()));
            let other = match change {
                0 => other,
                _ => gf2::sum(&self.changes, change as u64) ^ gf2::sum(same_bank, random.bits()),
            };
            let differences = [0, other, column, other ^ column];
            if change == self.count() {
                return Some(vec![self.tester.any()]);
            }
            if column == 0 || other == 0 || other == column {
                continue;
            }
            if let Some(lines) = self.partners(differences.into_iter()) {
                return Some(lines);
            }
        }
        None
    }

    /// Addresses with these differences from a random address, if all are in the pool.
    fn partners(&mut self, differences: impl Iterator<Item = u64>) -> Option<Vec<PhysAddr>> {
        let one = self.tester.any();
        let Area { view, pool, .. } = self.area;
        differences.map(|difference| view.partner(pool, one, difference)).collect()
    }

    /// Determines the changes that keep the channel: whether pairs that are faster than one bank are of two channels.
    fn channels(&mut self, roles: &mut Roles, error: f64) -> Result<Result<Basis, Untold>, OracleError> {
        let everything = Basis::spanning((0..self.changes.len()).map(|at| 1 << at));
        let [fastest, _, ..] = &roles.levels[..] else { return Ok(Err(Untold::Alike)) };
        // Pairs of two channels share nothing and would be faster than one bank; here none is.
        if fastest.changes.contains(&0) {
            return Ok(Ok(everything));
        }
        let kept = Basis::spanning(roles.levels[1..].iter().flat_map(|level| level.changes.iter().copied()));
        let candidates: Vec<u64> = annihilator(&kept, self.changes.len() as u32).span().skip(1).collect();
        if candidates.is_empty() {
            return Ok(Ok(everything));
        }
        if candidates.len() >= 1 << CHANNELS_MAX {
            return Ok(Err(Untold::ChannelOrGroup));
        }
        let all = fastest.changes.len() as u64 == (1 << self.changes.len()) - (1 << kept.rank());
        let Some(compared) = self.compare(&candidates, error)? else { return Ok(Err(Untold::ChannelOrGroup)) };
        (roles.compared, roles.saturated) = (compared.0, Some(compared.1));
        let is = |channel| roles.compared.iter().all(|compared| compared.channel == Some(channel));
        Ok(match (is(true), is(false)) {
            (true, _) if all => Ok(kept),
            (true, _) => Err(Untold::NoSpaces),
            (_, true) => Ok(everything),
            _ => Err(Untold::ChannelOrGroup),
        })
    }

    /// Compares half of all banks with all, for functions that are constant on the half.
    #[allow(clippy::type_complexity, reason = "the two parts of the answer, which only `channels` takes apart")]
    fn compare(&mut self, functions: &[u64], error: f64) -> Result<Option<(Vec<Compared>, [bool; 2])>, OracleError> {
        let readers = self.tester.readers();
        // For rows open and rows changing: half of the readers, half of the lines, and each function.
        let mut shares = vec![vec![Vec::new(); functions.len() + 2]; 2];
        for _ in 0..COMPARED {
            for (changing, shares) in [false, true].into_iter().zip(&mut shares) {
                let Some(lines) = self.all_banks(changing) else { return Ok(None) };
                let [Some(all), Some(fewer), Some(shorter)] = [
                    self.ticks(&lines, readers)?,
                    self.ticks(&lines, readers / 2)?,
                    self.ticks(&lines[..lines.len() / 2], readers)?,
                ] else {
                    return Ok(None);
                };
                shares[0].push(fewer / all);
                shares[1].push(all / shorter);
                for (&function, shares) in functions.iter().zip(&mut shares[2..]) {
                    let side = self.tester.random().below(2);
                    let half = lines.iter().filter(|(change, _)| gf2::parity(*change, function) == side);
                    let half: Vec<(u64, PhysAddr)> = half.copied().collect();
                    let Some(half) = self.ticks(&half, readers)? else { return Ok(None) };
                    shares.push(half / shorter);
                }
            }
        }
        // At most two tests of each list.
        let risk = error / (4 * (functions.len() + 2)) as f64;
        let longer = shares.iter().all(|shares| mostly(&shares[1], risk, |share| share >= LONGER));
        let saturated = [0, 1].map(|kind: usize| longer && mostly(&shares[kind][0], risk, |share| share <= SATURATED));
        let of = |(at, &function): (usize, &u64)| {
            let own = [0, 1].map(|kind: usize| &shares[kind][at + 2]);
            let all = |is: &dyn Fn(f64) -> bool| own.iter().all(|own| mostly(own, risk, is));
            let channel = match () {
                () if longer && all(&|share| share >= DOUBLED) => Some(true),
                () if saturated == [true; 2] && all(&|share| share < LESS) => Some(false),
                () => None,
            };
            let function = gf2::sum(&self.area.solution.functions, function);
            Compared { function, shares: own.map(|own| median(&mut own.clone())), channel }
        };
        Ok(Some((functions.iter().enumerate().map(of).collect(), saturated)))
    }

    /// Lines of all banks with the change that leads to each bank: of one row of each, or of many.
    fn all_banks(&mut self, changing: bool) -> Option<Vec<(u64, PhysAddr)>> {
        let wanted = (COMPARED_LINES >> self.changes.len()).clamp(BANK_LINES[0], BANK_LINES[1]);
        let columns = 1 << self.area.solution.same_row.len().min(wanted.ilog2() as usize);
        let mut order: Vec<usize> = (0..self.count()).collect();
        shuffle(&mut order, self.tester);
        let base = self.tester.any();
        let mut banks = Vec::with_capacity(order.len());
        for &change in &order {
            let mut lines = Vec::with_capacity(wanted);
            while changing && lines.len() < wanted {
                lines.extend(self.of_bank(base, change, 1)?);
            }
            banks.push(if changing { lines } else { self.of_bank(base, change, columns)? });
        }
        // Each line begins at a different bank, so that each reader visits all banks.
        let banks_count = order.len();
        let turned = |line: usize| (0..banks_count).map(move |at| (line, (at + line) % banks_count));
        let all = (0..banks[0].len()).flat_map(turned);
        Some(all.map(|(line, at)| (order[at] as u64, banks[at][line])).collect())
    }

    /// Lines of a random row of the bank at this change from an address.
    fn of_bank(&mut self, base: PhysAddr, change: usize, columns: u64) -> Option<Vec<PhysAddr>> {
        let Area { view, pool, solution, .. } = self.area;
        (0..DRAWS).find_map(|_| {
            let row =
                gf2::sum(&self.changes, change as u64) ^ gf2::sum(&solution.same_bank, self.tester.random().bits());
            let line = |column| view.partner(pool, base, row ^ gf2::sum(&solution.same_row, column));
            (0..columns).map(line).collect()
        })
    }

    /// Time of some lines with this number of readers; `None` when not supported.
    fn ticks(&mut self, lines: &[(u64, PhysAddr)], readers: u32) -> Result<Option<f64>, OracleError> {
        let lines: Vec<PhysAddr> = lines.iter().map(|&(_, line)| line).collect();
        let Some(mut readings) = self.tester.together(&lines, readers, COMPARED_ROUNDS)? else { return Ok(None) };
        readings.sort_unstable();
        Ok(readings.get(readings.len() / 2).map(|&middle| f64::from(middle.max(1))))
    }
}

/// A confidence interval of a median.
#[derive(Clone, Copy)]
struct Range {
    low: f64,
    middle: f64,
    high: f64,
}

impl Range {
    /// The true median is outside with a probability of at most `risk`, for any distribution of independent samples: of
    /// `n` samples, fewer than n/2 - t are below it with a probability of at most exp(-2 t^2 / n) (Hoeffding 1963,
    /// theorem 1).
    fn of(samples: &[f64], risk: f64) -> Range {
        let mut sorted = samples.to_vec();
        let middle = median(&mut sorted);
        let n = sorted.len() as f64;
        let below = n / 2.0 - (n * (2.0 / risk).ln() / 2.0).sqrt();
        if below < 0.0 {
            return Range { low: f64::NEG_INFINITY, middle, high: f64::INFINITY };
        }
        let at = below as usize;
        Range { low: sorted[at], middle, high: sorted[sorted.len() - 1 - at] }
    }
}

/// Returns whether `is` holds for more than half of the distribution of the values; a wrong yes has a probability of at
/// most `risk` (Hoeffding).
fn mostly(values: &[f64], risk: f64, is: impl Fn(f64) -> bool) -> bool {
    let (n, found) = (values.len() as f64, values.iter().filter(|&&value| is(value)).count() as f64);
    found >= n / 2.0 + (n * (1.0 / risk).ln() / 2.0).sqrt()
}

/// Groups changes that differ by at most `fine`; the confidence intervals of a group must all lie within this distance.
fn levels(changes: &[Range], alone: f64, fine: f64) -> Result<Vec<Level>, Untold> {
    let mut order: Vec<usize> = (0..changes.len()).collect();
    order.sort_by(|&a, &b| changes[a].middle.total_cmp(&changes[b].middle));
    let mut found = Vec::new();
    for level in order.chunk_by(|&a, &b| changes[b].middle - changes[a].middle <= fine) {
        let low = level.iter().map(|&at| changes[at].low).fold(f64::INFINITY, f64::min);
        let high = level.iter().map(|&at| changes[at].high).fold(f64::NEG_INFINITY, f64::max);
        if high - low > fine {
            return Err(Untold::Noisy);
        }
        let ticks = f64::midpoint(low, high) - alone;
        let mut changes: Vec<u64> = level.iter().map(|&at| at as u64).collect();
        changes.sort_unstable();
        found.push(Level { ticks, error: (high - low) / 2.0, changes, role: Role::Unknown });
    }
    Ok(found)
}

/// Determines rank and bank group among the changes that keep the channel.
fn inside(levels: &[Level], kept: &Basis) -> Result<Spaces, Untold> {
    let own =
        levels.iter().map(|level| level.changes.iter().copied().filter(|&change| kept.contains(change)).collect());
    let own: Vec<Vec<u64>> = own.filter(|own: &Vec<u64>| !own.is_empty()).collect();
    let spaces = Spaces { channel: Some(kept.clone()), ..Spaces::default() };
    let (fastest, others) = own.split_first().expect("0 is among them");
    if others.is_empty() {
        return Ok(Spaces { untold: Some(Untold::NoGroups), ..spaces });
    }
    let space = Basis::spanning(fastest.iter().copied());
    if fastest.contains(&0) {
        // Slower than one bank: another rank.
        if !is_space(fastest) {
            return Err(Untold::NoSpaces);
        }
        return Ok(Spaces { rank: Some(space), untold: Some(Untold::NoGroups), ..spaces });
    }
    // Faster: another group of the same rank. Sums of such changes are all changes that keep the rank.
    let group: Vec<u64> = space.span().filter(|change| !fastest.contains(change)).collect();
    let one_bank = others.iter().find(|level| level.contains(&0)).expect("0 is among them");
    if !is_space(&group) || group.iter().any(|change| !one_bank.contains(change)) {
        return Err(Untold::NoSpaces);
    }
    Ok(Spaces { rank: Some(space), group: Some(Basis::spanning(group)), ..spaces })
}

fn is_space(changes: &[u64]) -> bool {
    changes.len() as u64 == 1 << Basis::spanning(changes.iter().copied()).rank()
}

impl Spaces {
    fn tell(self, roles: &mut Roles, functions: &[u64]) {
        let Spaces { channel, rank, group, untold } = &self;
        let mut told = Basis::default();
        let mut found: Vec<(u64, Role)> = Vec::new();
        let mut add = |space: &Basis, role: Role| {
            let all = annihilator(space, functions.len() as u32);
            let mut masks: Vec<u64> = all.span().map(|function| gf2::sum(functions, function)).collect();
            masks.sort_by_key(|mask| (mask.count_ones(), *mask));
            found.extend(masks.into_iter().filter(|&mask| told.insert(mask)).map(|mask| (mask, role)));
        };
        for (space, role) in [(channel, Role::Channel), (rank, Role::Rank), (group, Role::BankGroup)] {
            if let Some(space) = space {
                add(space, role);
            }
        }
        if group.is_some() {
            add(&Basis::default(), Role::Bank);
        }
        found.extend(functions.iter().filter(|&&mask| told.insert(mask)).map(|&mask| (mask, Role::Unknown)));
        roles.functions = found;
        roles.untold = *untold;
        let of = |level: &Level| {
            let own = |role| {
                let changes = level.changes.iter().copied().filter(|&change| self.role(change) == role).collect();
                Level { changes, role, ..level.clone() }
            };
            [Role::Channel, Role::Rank, Role::BankGroup, Role::Bank, Role::Unknown].map(own)
        };
        roles.levels = roles.levels.iter().flat_map(of).filter(|level| !level.changes.is_empty()).collect();
    }

    /// The outermost role in which two banks with this change differ.
    fn role(&self, change: u64) -> Role {
        let leaves = |space: &Option<Basis>| space.as_ref().is_some_and(|space| !space.contains(change));
        match self {
            _ if leaves(&self.channel) => Role::Channel,
            _ if leaves(&self.rank) => Role::Rank,
            _ if leaves(&self.group) => Role::BankGroup,
            Spaces { group: Some(_), .. } => Role::Bank,
            _ => Role::Unknown,
        }
    }
}

/// Functions of vectors with this many coordinates that are 0 on a space.
fn annihilator(space: &Basis, coordinates: u32) -> Basis {
    let vanishes = |&function: &u64| space.vectors().iter().all(|&vector| gf2::parity(vector, function) == 0);
    Basis::spanning((0..1 << coordinates).filter(vanishes))
}

/// Fisher and Yates (1938).
fn shuffle(order: &mut [usize], tester: &mut Tester<'_>) {
    for end in (1..order.len()).rev() {
        order.swap(end, tester.random().below(end as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memtint_units::Random;

    fn level(changes: &[u64]) -> Level {
        Level { ticks: 0.0, error: 0.0, changes: changes.to_vec(), role: Role::Unknown }
    }

    #[test]
    fn what_is_no_space_is_not_told() {
        let spaces = |levels: &[&[u64]]| {
            let levels: Vec<Level> = levels.iter().map(|changes| level(changes)).collect();
            let spaces = inside(&levels, &Basis::spanning([1, 2, 4]));
            spaces.map(|Spaces { rank, group, .. }| [rank, group].map(|space| space.map(|space| space.rank())))
        };
        // Two groups in each of two ranks; pairs of ranks are slower than others, or as slow as pairs of one group.
        assert_eq!(spaces(&[&[1, 2], &[0, 3], &[4, 5, 6, 7]]), Ok([Some(2), Some(1)]));
        assert_eq!(spaces(&[&[1, 2], &[0, 3, 4, 5, 6, 7]]), Ok([Some(2), Some(1)]));
        assert_eq!(spaces(&[&[0, 1, 2, 3], &[4, 5, 6, 7]]), Ok([Some(2), None]));
        assert_eq!(spaces(&[&[0, 1, 2, 3, 4, 5, 6, 7]]), Ok([None, None]));
        // Three fast changes with slow sums; one bank not as fast as another of its group; three of four changes.
        for levels in [
            &[&[1, 2, 4][..], &[0, 3, 5, 6, 7]][..],
            &[&[1, 2], &[0, 4, 5, 6, 7], &[3]],
            &[&[0, 1, 2], &[3, 4, 5, 6, 7]],
        ] {
            assert_eq!(spaces(levels), Err(Untold::NoSpaces), "{levels:?}");
        }
    }

    #[test]
    fn middles_are_where_they_are_said_to_be() {
        let mut random = Random::new(4);
        let mut missed = 0;
        for _ in 0..2000 {
            // A distribution with median 0 and without a mean.
            let samples: Vec<f64> = (0..128).map(|_| random.normal() / random.normal()).collect();
            let range = Range::of(&samples, 0.05);
            assert!(range.low <= range.middle && range.middle <= range.high);
            missed += u32::from(!(range.low..=range.high).contains(&0.0));
        }
        assert!(missed < 100, "{missed} of 2000");
        assert_eq!(Range::of(&[1.0; 8], 1e-6).low, f64::NEG_INFINITY);
    }

    #[test]
    fn most_is_more_than_half() {
        let values = |yes: usize| (0..32).map(|at| f64::from(u8::from(at < yes))).collect::<Vec<_>>();
        let yes = |count| mostly(&values(count), 1e-4, |value| value > 0.5);
        // 16 + sqrt(16 ln 10^4) is 28.1.
        assert!(yes(29) && !yes(28) && !yes(16));
    }

    #[test]
    fn levels_are_apart() {
        let near = |middle: f64, error: f64| Range { low: middle - error, middle, high: middle + error };
        let found = levels(&[near(9.0, 0.1), near(3.1, 0.1), near(3.0, 0.1), near(9.2, 0.1)], 1.0, 1.0).unwrap();
        assert_eq!(found.iter().map(|level| level.changes.clone()).collect::<Vec<_>>(), [vec![1, 2], vec![0, 3]]);
        assert!((found[0].ticks - 2.05).abs() < 1e-9 && (found[0].error - 0.15).abs() < 1e-9, "{found:?}");
        // A chain of close values with a large total width.
        assert_eq!(levels(&[near(0.0, 0.1), near(0.8, 0.1), near(1.6, 0.1)], 0.0, 1.0), Err(Untold::Noisy));
    }
}
