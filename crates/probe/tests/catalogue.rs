//! Is the mapping of every machine of the catalogue found, and never another?

use memtint_map::gf2::Basis;
use memtint_map::{Platform, catalogue};
use memtint_probe::{
    Noise, Oracle, OracleError, Pool, Random, SimulatedMachine, Solution, Tester, Unsolved, View, solve, survey,
};
use memtint_units::PhysAddr;

/// The lowest address bit that is looked at: those below are within a line.
const LOWEST: u32 = 6;

/// What came out, and how many accesses it took.
struct Found {
    solved: Result<Solution, Unsolved>,
    accesses: u64,
}

/// Bits that addresses of a platform have inside the memory system.
fn bits(platform: &Platform) -> u32 {
    let ways = |region: &memtint_map::Region| region.interleave.map_or(1, |interleave| u64::from(interleave.ways));
    let ends = platform.regions().iter().map(|region| region.dram_base + region.size_bytes / ways(region) - 1);
    platform.address_bits().min(64 - ends.max().expect("a platform has a region").leading_zeros())
}

fn probe(platform: &Platform, noise: Noise, seed: u64) -> Found {
    let pool = Pool::new(platform.regions().iter().map(|region| region.base..region.end()), 64).unwrap();
    let (view, bits) = (View::of_platform(platform), bits(platform));
    let mut machine = SimulatedMachine::new(platform.clone(), pool, noise, seed).unwrap();
    let mut tester = Tester::new(&mut machine, seed ^ 0x5eed, 1e-5).unwrap();
    let land = survey(&mut tester, &view, bits, LOWEST).unwrap();
    let mut solved = Err(Unsolved::NoConflict);
    for levels in &land.splits {
        let slow: Vec<u64> = land.above(levels).collect();
        solved = solve(&mut tester, &view, *levels, &slow, LOWEST, bits).unwrap();
        if solved.is_ok() {
            break;
        }
    }
    Found { solved, accesses: tester.effort().accesses }
}

/// The functions that decide conflicts: those of the file, and which of its nodes a region is of.
fn truth(platform: &Platform, covered: u64) -> Basis {
    let masks = platform.function_masks().iter().map(|mask| mask & covered).filter(|&mask| mask != 0);
    let mut truth = Basis::spanning(masks);
    if platform.domains().len() > 1 && platform.regions().iter().all(|region| region.interleave.is_none()) {
        // Nodes of equal size, one after the other.
        let size = platform.regions()[0].size_bytes.trailing_zeros();
        for bit in size..size + platform.domains().len().trailing_zeros() {
            truth.insert(1 << bit);
        }
    }
    truth
}

#[test]
fn mappings_are_found_and_never_others() {
    for (noise, name) in [(Noise::NONE, "none"), (Noise::QUIET, "quiet"), (Noise::TYPICAL, "typical")] {
        let (mut right, mut refused, mut accesses) = (0, Vec::new(), Vec::new());
        for id in catalogue::names() {
            let platform = Platform::load(id).unwrap();
            let found = probe(&platform, noise, 3);
            match found.solved {
                Ok(solution) => {
                    let mine = Basis::spanning(solution.functions.iter().copied());
                    assert_eq!(mine, truth(&platform, solution.covered), "{id}, {name}");
                    right += 1;
                    accesses.push(found.accesses);
                }
                Err(why) => refused.push(format!("{id}: {why:?}")),
            }
        }
        accesses.sort_unstable();
        // Files with fewer than four banks are none of a whole memory; what else is refused is said.
        let few = refused.iter().filter(|why| why.contains("fewer than four banks")).count();
        assert!(refused.len() - few <= 2, "{name}: {refused:?}");
        assert!(right >= 55, "{name}: {right} right, {refused:?}");
        // DRAMA's clusters take millions.
        assert!(accesses[accesses.len() / 2] < 40_000, "{name}: {accesses:?}");
    }
}

#[test]
fn where_nothing_conflicts_nothing_is_found() {
    let closed = Noise { gap: 0.0, ..Noise::QUIET };
    let level = Noise { gap: 0.0, level: 60.0, ..Noise::QUIET };
    for id in ["skl-e3-1220v5-4x4g", "zen3-ddr4-2r", "rpi4-2g", "haswell-e3-1230"] {
        let platform = Platform::load(id).unwrap();
        for noise in [closed, level] {
            for seed in 0..3 {
                let found = probe(&platform, noise, seed);
                assert!(found.solved.is_err(), "{id}, {noise:?}: {:?}", found.solved);
            }
        }
    }
}

#[test]
fn frames_that_are_elsewhere_show_no_mapping() {
    for id in ["skl-e3-1220v5-4x4g", "rpi4-2g", "zen3-ddr4-2r"] {
        let platform = Platform::load(id).unwrap();
        let pool = Pool::new(platform.regions().iter().map(|region| region.base..region.end()), 64).unwrap();
        let (view, bits) = (View::plain(), bits(&platform));
        let mut machine = SimulatedMachine::new(platform, pool, Noise::QUIET, 1).unwrap().scrambled();
        let mut tester = Tester::new(&mut machine, 2, 1e-5).unwrap();
        let land = survey(&mut tester, &view, bits, LOWEST).unwrap();
        for levels in &land.splits {
            let slow: Vec<u64> = land.above(levels).collect();
            let solved = solve(&mut tester, &view, *levels, &slow, LOWEST, bits).unwrap();
            assert!(solved.is_err(), "{id}: {solved:?}");
        }
    }
}

/// Readings that have nothing to do with addresses.
struct Arbitrary {
    pool: Pool,
    random: Random,
    least: u64,
    spread: u64,
    /// Readings rise by one each so many.
    rise: u64,
    asked: u64,
}

impl Oracle for Arbitrary {
    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn time(&mut self, addresses: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError> {
        let mut one = || {
            self.asked += 1;
            (self.least + self.random.below(self.spread) + self.asked / self.rise) as u32
        };
        Ok((0..addresses.len() * rounds as usize).map(|_| one()).collect())
    }

    fn time_beside(
        &mut self,
        addresses: &[PhysAddr],
        _: &[PhysAddr],
        rounds: u32,
    ) -> Result<Option<Vec<u32>>, OracleError> {
        self.time(addresses, rounds).map(Some)
    }
}

#[test]
fn arbitrary_readings_come_to_an_end_and_to_no_mapping() {
    for (least, spread, rise) in
        [(200, 1, u64::MAX), (100, 900, u64::MAX), (1, 2, u64::MAX), (200, 20, 10), (0, 1, u64::MAX)]
    {
        for seed in 0..3 {
            let pool = Pool::new([PhysAddr(0)..PhysAddr(1 << 30)], 64).unwrap();
            let mut oracle = Arbitrary { pool, random: Random::new(seed), least, spread, rise, asked: 0 };
            let mut tester = Tester::new(&mut oracle, seed, 1e-5).unwrap();
            let land = survey(&mut tester, &View::plain(), 30, LOWEST).unwrap();
            for levels in &land.splits {
                let slow: Vec<u64> = land.above(levels).collect();
                let solved = solve(&mut tester, &View::plain(), *levels, &slow, LOWEST, 30).unwrap();
                assert!(solved.is_err(), "{least} {spread} {rise}: {solved:?}");
            }
        }
    }
}
