//! A complete probe: tries assumptions, the simplest first, until one predicts the behavior of memory.

use crate::blocks::{Assumption, assumptions};
use crate::channels;
use crate::levels::{RANDOM_MAX, survey, survey_pairs};
use crate::oracle::{Oracle, OracleError};
use crate::pool::Pool;
use crate::report::{Answer, Area, Attempt, Mapping, Missing, Refusal, Report, Settings, Step};
use crate::roles::roles;
use crate::shift::shift;
use crate::solve::{BLOCK_BITS_MIN, Unsolved, solve};
use crate::tester::{CLEAR, Decision, Target, Tester};
use crate::verify::{Verification, verify};
use crate::view::{Part, View};
use memtint_map::gf2::{self, Basis};
use memtint_units::{ByteSize, PhysAddr};

/// Number of tests of a probe over which the error probability is divided.
const TESTS: f64 = 4000.0;
/// The most pairs of blocks that are examined, and the number of consecutive correct predictions required.
const RELATIONS_MAX: u32 = 64;
const PREDICTED: u32 = 6;
/// The most assumptions that are tested completely.
const ASSUMPTIONS_MAX: usize = 4;
/// Borders between modules are multiples of this.
const BORDER: u64 = 64 << 20;
/// Number of parts of memory in the search for separate functions, and approximate number of pieces of a part that
/// contains a border.
const AREA_PARTS: u64 = 16;
/// Conflicting pairs: number sought, number sufficient, and the most draws for them.
const CONFLICTING: usize = 24;
const CONFLICTING_MIN: usize = 12;
const CONFLICTING_DRAWS: u32 = 20_000;
/// Number of further searches for interleaved channels before the probe gives up.
const AT_LENGTH: usize = 4;
/// Number of pairs drawn to determine which address bits differ.
const PAIRS: u32 = 1000;
/// The most thresholds between conflicts and the rest that are tried after one survey.
const SPLITS_MAX: usize = 4;

/// Finds the mapping of the memory behind an oracle, or the reason why it cannot be found; `progress` receives the
/// current step.
///
/// # Errors
/// Those of the oracle.
pub fn probe(
    oracle: &mut dyn Oracle,
    settings: &Settings,
    progress: &mut dyn FnMut(&str),
) -> Result<Report, OracleError> {
    let pool = oracle.pool().clone();
    let error = (1.0 - settings.confidence) / TESTS;
    let mut tester = Tester::new(oracle, settings.seed, error)?;
    tester.leave_out(settings.without);
    let mut search =
        Search { tester, settings, pool, progress, attempts: Vec::new(), within: None, random_max: RANDOM_MAX };
    let mut answer = search.answer()?;
    if let (Answer::Mapping(mapping) | Answer::Partial(mapping, _), true) = (&mut answer, settings.shift) {
        for area in &mut mapping.areas {
            area.shift = shift(&mut search.tester, area)?;
        }
    }
    // After all tests that the mapping depends on.
    if let Answer::Mapping(Mapping { areas, .. }) = &mut answer
        && let [area] = &mut areas[..]
        && search.tester.readers() > 0
    {
        (search.progress)("what bank functions select");
        area.roles = roles(&mut search.tester, area, 1.0 - settings.confidence)?;
    }
    let Search { mut tester, attempts, .. } = search;
    let tests = tester.take_tests();
    Ok(Report { answer, attempts, tests, effort: tester.effort(), baseline: tester.baseline() })
}

struct Search<'s, 'a> {
    tester: Tester<'a>,
    settings: &'s Settings,
    pool: Pool,
    progress: &'s mut dyn FnMut(&str),
    attempts: Vec<Attempt>,
    /// Functions that hold within aligned blocks of this many address bits, in case nothing better is found.
    within: Option<(Area, u32)>,
    /// The most random differences in a survey.
    random_max: usize,
}

impl Search<'_, '_> {
    fn answer(&mut self) -> Result<Answer, OracleError> {
        let (pool, bits) = (self.pool.clone(), self.pool.bits());
        if let Some(area) = self.area("addresses as they are", &pool, &View::plain(), bits)? {
            return Ok(self.found(vec![area], Vec::new()));
        }
        if let Some(area) = self.moved(&pool)? {
            return Ok(self.found(vec![area], Vec::new()));
        }
        if let Some(area) = self.in_turn(&pool)? {
            return Ok(self.found(vec![area], Vec::new()));
        }
        // A search in each part repeats all steps many times, so it is only done where conflicts are clear.
        let clear = |attempt: &Attempt| attempt.separation.is_some_and(|separation| separation >= CLEAR);
        let areas = if self.attempts.iter().any(clear) { self.areas(&pool)? } else { Vec::new() };
        if areas.is_empty() {
            // Where single pairs show nothing, functions that hold within most blocks appear to hold within all.
            let clear = |(area, _): &(Area, u32)| area.levels.separation() >= CLEAR;
            let Some((area, bits)) = self.within.take().filter(clear) else {
                return Ok(match self.at_length(&pool, bits)? {
                    Some(area) => self.found(vec![area], Vec::new()),
                    None => self.refused(),
                });
            };
            let area = Area { pool: pool.in_blocks(bits), ..area };
            return Ok(self.found(vec![area], vec![Missing::BetweenBlocks(bits)]));
        }
        let known: u64 = areas.iter().map(|area| area.pool.bytes()).sum();
        let mut missing = Vec::new();
        if areas.len() > 1 {
            missing.push(Missing::BetweenAreas);
        }
        if known < pool.bytes() {
            missing.push(Missing::Bytes(pool.bytes() - known));
        }
        Ok(self.found(areas, missing))
    }

    /// Repeats the search with more samples: with many banks, few differences conflict, and noise hides some.
    fn at_length(&mut self, pool: &Pool, bits: u32) -> Result<Option<Area>, OracleError> {
        if self.tester.is_without(Step::Retry) {
            return Ok(None);
        }
        self.random_max = 4 * RANDOM_MAX;
        if let Some(area) = self.once("addresses as they are", pool, &View::plain(), bits)? {
            return Ok(Some(area));
        }
        for _ in 0..AT_LENGTH {
            if let Some(area) = self.in_turn(pool)? {
                return Ok(Some(area));
            }
        }
        Ok(None)
    }

    /// Searches for parts of memory with separate functions, the largest first.
    fn areas(&mut self, pool: &Pool) -> Result<Vec<Area>, OracleError> {
        let mut parts = pool.parts(AREA_PARTS);
        // If four sampled parts show nothing, the others will not either.
        let mut kinds = vec![None; parts.len()];
        for at in [0, 1, 2, 3].map(|quarter| quarter * (parts.len() - 1) / 3) {
            kinds[at] = self.kind(&parts[at])?;
        }
        if kinds.iter().all(Option::is_none) {
            return Ok(Vec::new());
        }
        for at in 0..parts.len() {
            if kinds[at].is_none() {
                kinds[at] = self.kind(&parts[at])?;
            }
        }
        // Parts that contain a border are examined in smaller pieces.
        for at in (0..parts.len()).rev().filter(|&at| kinds[at].is_none()).collect::<Vec<_>>() {
            let pieces = parts[at].aligned_parts((parts[at].bytes() / AREA_PARTS).next_power_of_two().max(BORDER));
            let known = pieces.iter().map(|piece| self.kind(piece)).collect::<Result<Vec<_>, _>>()?;
            parts.splice(at..=at, pieces);
            kinds.splice(at..=at, known);
        }
        let mut areas = Vec::new();
        let mut at = 0;
        while at < parts.len() {
            let run = kinds[at..].iter().take_while(|kind| **kind == kinds[at]).count();
            if kinds[at].is_some() {
                let range = parts[at].envelope().start..parts[at + run - 1].envelope().end;
                let part = Part {
                    base: range.start.0,
                    size: range.end.0 - range.start.0,
                    inside: range.start.0,
                    interleave: None,
                };
                let (words, view) =
                    (format!("memory from {:#x} to {:#x}", range.start.0, range.end.0), View::of_parts(vec![part]));
                if let Some(within) = pool.within(&range) {
                    areas.extend(self.area(&words, &within, &view, view.bits(&within))?);
                }
            }
            at += run;
        }
        areas.sort_by_key(|area| std::cmp::Reverse(area.pool.bytes()));
        Ok(areas)
    }

    /// The span of functions within small blocks of a part.
    fn kind(&mut self, part: &Pool) -> Result<Option<Basis>, OracleError> {
        let words = format!("functions from {:#x}", part.envelope().start.0);
        let area = self.once(&words, part, &View::plain(), BLOCK_BITS_MIN)?;
        Ok(area.map(|area| Basis::spanning(area.solution.functions.iter().copied())))
    }

    /// Searches for interleaved channels whose number is not a power of two.
    fn in_turn(&mut self, pool: &Pool) -> Result<Option<Area>, OracleError> {
        if self.tester.is_without(Step::Turns) {
            return Ok(None);
        }
        // A survey of single pairs contains few conflicts, which noise may hide.
        for _ in 0..if self.tester.is_without(Step::Retry) { 1 } else { self.settings.attempts } {
            let conflicting = self.conflicting(pool)?;
            if conflicting.len() < CONFLICTING_MIN {
                continue;
            }
            for (words, view) in channels::assumptions(pool, &conflicting).into_iter().take(ASSUMPTIONS_MAX) {
                if let Some(area) = self.area(&words, pool, &view, view.bits(pool))? {
                    return Ok(Some(area));
                }
            }
        }
        Ok(None)
    }

    /// Conflicting pairs at fixed addresses.
    fn conflicting(&mut self, pool: &Pool) -> Result<Vec<[PhysAddr; 2]>, OracleError> {
        (self.progress)("looking for single pairs that conflict");
        self.tester.draw_from(Some(pool.clone()));
        let land = survey_pairs(&mut self.tester)?;
        let Some(&levels) = land.splits.first() else { return Ok(Vec::new()) };
        let pair = |target| if let Target::Pair(pair) = target { Some(pair) } else { None };
        let mut found: Vec<[PhysAddr; 2]> = land.above(&levels).filter_map(pair).collect();
        for _ in 0..CONFLICTING_DRAWS {
            if found.len() >= CONFLICTING {
                break;
            }
            let Some(pair) = self.tester.any_pair() else { break };
            if self.tester.decide(&View::plain(), Target::Pair(pair), &levels, 1)? == Decision::Conflict {
                found.push(pair);
            }
        }
        Ok(found)
    }

    /// Searches for remapped memory: first functions within blocks, then relations between blocks.
    fn moved(&mut self, pool: &Pool) -> Result<Option<Area>, OracleError> {
        if self.tester.is_without(Step::Blocks) {
            return Ok(None);
        }
        // Where small blocks are not contiguous, large ones are not either.
        let (mut least, mut most, mut within) = (BLOCK_BITS_MIN, pool.bits() - 1, None);
        while least <= most {
            let bits = if within.is_none() { least } else { least.midpoint(most) };
            match self.once(
                &format!("functions within blocks of {}", ByteSize(1 << bits)),
                pool,
                &View::plain(),
                bits,
            )? {
                Some(area) => (least, within) = (bits + 1, Some((area, bits))),
                None if within.is_none() => return Ok(None),
                None => most = bits - 1,
            }
        }
        let Some((area, bits)) = within else { return Ok(None) };
        self.within = Some((area.clone(), bits));
        for Assumption { words, view, .. } in self.assumptions(pool, &area, bits)? {
            if let Some(area) = self.area(&words, pool, &view, view.bits(pool))? {
                return Ok(Some(area));
            }
        }
        Ok(None)
    }

    /// The assumptions on remapping that agree with the relations between blocks.
    fn assumptions(&mut self, pool: &Pool, area: &Area, bits: u32) -> Result<Vec<Assumption>, OracleError> {
        let mut possible = assumptions(pool, bits);
        (self.progress)(&format!("{} assumptions on what is moved where", possible.len()));
        let mut predicted = 0;
        for _ in 0..RELATIONS_MAX {
            // Two blocks for which the assumptions predict different values.
            let random = self.tester.random();
            let draws: Vec<[u64; 2]> = (0..PAIRS).map(|_| [0, 1].map(|_| pool.any(random).0 >> bits)).collect();
            let opinions = |&blocks: &[u64; 2]| {
                let mut all: Vec<_> = possible.iter().take(PAIRS as usize).map(|one| one.value(blocks, bits)).collect();
                all.sort_unstable();
                all.dedup();
                all.len()
            };
            let Some(&blocks) =
                draws.iter().filter(|blocks| blocks[0] != blocks[1]).max_by_key(|blocks| opinions(blocks))
            else {
                break;
            };
            if possible.is_empty() || (predicted >= PREDICTED && opinions(&blocks) == 1) {
                break;
            }
            let guess = possible[0].value(blocks, bits);
            let Some(value) = self.relation(pool, area, bits, blocks, guess)? else { continue };
            predicted = if guess == Some(value) { predicted + 1 } else { 0 };
            possible.retain_mut(|one| one.learn(blocks, bits, value));
        }
        possible.truncate(ASSUMPTIONS_MAX);
        Ok(possible)
    }

    /// Finds the value by which the functions of two blocks differ; tries `guess` first. `None` when pairs never
    /// conflict.
    fn relation(
        &mut self,
        pool: &Pool,
        area: &Area,
        bits: u32,
        blocks: [u64; 2],
        guess: Option<u64>,
    ) -> Result<Option<u64>, OracleError> {
        let from = PhysAddr(blocks[0] << bits)..PhysAddr((blocks[0] + 1) << bits);
        self.tester.draw_from(pool.within(&from));
        // A function that shifts pairs within blocks also does so between them, but its values there are unknown.
        let (plain, changes, levels) = (View::plain(), area.solution.changes(), area.levels.anywhere());
        let mut values: Vec<u64> = guess.into_iter().chain(0..1 << changes.len()).collect();
        values[usize::from(guess.is_some())..].sort_by_key(|value| value.count_ones());
        for value in values {
            let upper = (blocks[0] ^ blocks[1]) << bits;
            let change = upper ^ gf2::sum(&changes, value);
            let drawn = self.tester.drawn(&plain, change, &area.solution.same_bank, |_| true);
            let Some(difference) = drawn else { continue };
            if self.tester.decide(&plain, difference, &levels, 1)? == Decision::Conflict {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// Tries one assumption, repeatedly if noise may have caused the failure.
    fn area(&mut self, assumption: &str, pool: &Pool, view: &View, bits: u32) -> Result<Option<Area>, OracleError> {
        for _ in 0..self.settings.attempts {
            let area = self.once(assumption, pool, view, bits)?;
            let last = self.attempts.last().expect("it was just made");
            // On a noisy machine any failure may be noise; elsewhere only contradictions and undecided tests.
            let clear = last.separation.is_some_and(|separation| separation >= CLEAR);
            let again = match last.failed {
                Some(Unsolved::TooLong) => false,
                Some(Unsolved::Contradicted(_) | Unsolved::Undecided(_)) => true,
                _ => !clear,
            };
            if area.is_some() || !again || self.tester.is_without(Step::Retry) {
                return Ok(area);
            }
        }
        Ok(None)
    }

    /// Tries one assumption.
    fn once(&mut self, assumption: &str, pool: &Pool, view: &View, bits: u32) -> Result<Option<Area>, OracleError> {
        if self.tester.effort().accesses > self.settings.accesses_max {
            let failed = Some(Unsolved::TooLong);
            self.attempts.push(Attempt { assumption: assumption.to_owned(), failed, separation: None, accesses: 0 });
            return Ok(None);
        }
        (self.progress)(&format!("trying {assumption}"));
        let before = self.tester.effort().accesses;
        let mut attempt = Attempt { assumption: assumption.to_owned(), failed: None, separation: None, accesses: 0 };
        let area = self.attempt(pool, view, bits, &mut attempt)?;
        attempt.accesses = self.tester.effort().accesses - before;
        self.attempts.push(attempt);
        Ok(area)
    }

    fn attempt(
        &mut self,
        pool: &Pool,
        view: &View,
        bits: u32,
        attempt: &mut Attempt,
    ) -> Result<Option<Area>, OracleError> {
        let (tester, lowest) = (&mut self.tester, self.settings.lowest);
        tester.draw_from(Some(pool.clone()));
        let land = survey(tester, view, bits, lowest, self.random_max)?;
        attempt.failed = Some(Unsolved::NoConflict);
        let splits = if tester.is_without(Step::Splits) { 1 } else { SPLITS_MAX };
        for levels in land.splits.iter().take(splits) {
            let separation = levels.separation();
            attempt.separation = Some(attempt.separation.map_or(separation, |most| most.max(separation)));
            let slow: Vec<u64> = land.above(levels).map(|target| target.difference()).collect();
            let solution = match solve(tester, view, *levels, &slow, lowest, bits)? {
                Ok(solution) => solution,
                Err(unsolved) => {
                    attempt.failed = Some(unsolved);
                    continue;
                }
            };
            let verified = if tester.is_without(Step::Predictions) || tester.is_without(Step::Everywhere) {
                Ok(Verification::default())
            } else {
                verify(tester, pool, view, levels, &solution)?
            };
            match verified {
                Ok(verification) => {
                    attempt.failed = None;
                    let (pool, view) = (pool.clone(), view.clone());
                    return Ok(Some(Area {
                        pool,
                        view,
                        solution,
                        levels: *levels,
                        verification,
                        shift: None,
                        roles: None,
                    }));
                }
                Err(unsolved) => attempt.failed = Some(unsolved),
            }
        }
        Ok(None)
    }

    /// The answer with the areas found.
    fn found(&mut self, areas: Vec<Area>, mut missing: Vec<Missing>) -> Answer {
        if self.pool.known_bits() < 64 {
            missing.push(Missing::UnknownAddresses(self.pool.known_bits()));
        }
        let hidden = areas.iter().map(|area| self.hidden(area)).fold(0, |all, bits| all | bits);
        if hidden != 0 {
            missing.push(Missing::Bits(hidden));
        }
        // Each test errs with at most this probability.
        let wrong = self.tester.effort().decisions as f64 * (1.0 - self.settings.confidence) / TESTS;
        let mapping = Mapping { areas, confidence: (1.0 - wrong).max(0.0) };
        if missing.is_empty() { Answer::Mapping(mapping) } else { Answer::Partial(mapping, missing) }
    }

    /// Address bits in which pairs of an area differ, and whose effect is unknown.
    fn hidden(&mut self, area: &Area) -> u64 {
        let tried = Basis::spanning(area.solution.tried.iter().copied());
        let random = self.tester.random();
        let mut hidden = 0;
        for _ in 0..PAIRS {
            let [one, other] = [0, 1].map(|_| area.pool.any(random));
            let inside = [one, other].map(|addr| area.view.inward(addr).expect("the pool is in the view"));
            if area.pool.comparable(one, other) && inside[0].channel == inside[1].channel {
                hidden |= tried.reduce(inside[0].address ^ inside[1].address);
            }
        }
        hidden & !((1 << self.settings.lowest) - 1)
    }

    fn refused(&self) -> Answer {
        let seen = self.attempts.iter().filter_map(|attempt| attempt.separation);
        Answer::NoBankSignal(Refusal {
            conflicts: self.attempts.iter().any(|attempt| attempt.failed != Some(Unsolved::NoConflict)),
            separation: seen.fold(0.0, f64::max),
        })
    }
}
