//! What a whole probe says of machines: right, partial or refused, and never wrong.

use memtint_map::{Platform, catalogue};
use memtint_probe::{
    Answer, Missing, Noise, Oracle, OracleError, Pool, Report, Settings, SimulatedMachine, Verdict, judge, probe,
};
use memtint_units::Random;
use memtint_units::{ByteSize, PhysAddr};

fn whole(platform: &Platform) -> Pool {
    Pool::new(platform.regions().iter().map(|region| region.base..region.end()), 64).unwrap()
}

fn machine(id: &str, noise: Noise, seed: u64) -> SimulatedMachine {
    let platform = Platform::load(id).unwrap();
    let pool = whole(&platform);
    SimulatedMachine::new(platform, pool, noise, seed).unwrap()
}

fn report(oracle: &mut dyn Oracle, seed: u64) -> Report {
    probe(oracle, &Settings { seed, ..Settings::default() }, &mut |_| {}).unwrap()
}

#[test]
fn mappings_are_found_and_never_others() {
    for (noise, name) in [(Noise::NONE, "none"), (Noise::QUIET, "quiet"), (Noise::TYPICAL, "typical")] {
        let (mut right, mut others, mut accesses) = (0, Vec::new(), Vec::new());
        for id in catalogue::names() {
            let mut machine = machine(id, noise, 3);
            let report = report(&mut machine, 5);
            let verdict = judge(&machine, &report.answer);
            assert_ne!(verdict, Verdict::Wrong, "{id}, {name}");
            accesses.push(report.effort.accesses);
            if verdict == Verdict::Right {
                right += 1;
            } else {
                let last = report.attempts.last().and_then(|attempt| attempt.failed);
                others.push(format!("{id}: {verdict:?}, {last:?}"));
            }
        }
        accesses.sort_unstable();
        println!("{name}: {right} right, median {}, others {others:#?}", accesses[accesses.len() / 2]);
        // Files with fewer than four banks are none of a whole memory; what else is refused is said.
        others.retain(|other| !other.contains("fewer than four banks"));
        assert!(others.len() <= 3, "{name}: {others:?}");
        assert!(right >= 55, "{name}: {right} right, {others:?}");
        assert!(accesses[accesses.len() / 2] < 60_000, "{name}: {accesses:?}");
    }
}

#[test]
fn what_is_found_can_be_written_down() {
    for id in ["skl-e3-1220v5-4x4g", "zen2-ddr4-2r", "jetson-nano"] {
        let mut machine = machine(id, Noise::QUIET, 3);
        let Answer::Mapping(mapping) = report(&mut machine, 1).answer else { panic!("{id}") };
        assert!(mapping.confidence > 0.99, "{id}: {}", mapping.confidence);
        let area = &mapping.areas[0];
        assert_eq!(area.verification.all().tried, area.verification.all().hits);
        let file = mapping.platform_files("probed", "a test", &[]).remove(0);
        let written = Platform::parse(&file.to_toml(), "probed.toml").unwrap();
        let truth = machine.platform();
        assert_eq!(written.banks(), truth.banks(), "{id}");
        let mut random = Random::new(1);
        for _ in 0..2000 {
            let [a, b] = [0, 1].map(|_| machine.pool().any(&mut random));
            let same = |platform: &Platform| platform.raw_bank(a).unwrap() == platform.raw_bank(b).unwrap();
            assert_eq!(same(&written), same(truth), "{id}: {a:?} {b:?}");
        }
    }
}

#[test]
fn coarse_clocks_and_answers_of_caches_are_no_obstacle() {
    for id in ["haswell-e3-1230", "zen2-ddr4-1r", "skl-client-2ch2r-drama"] {
        for quantum in [2, 8, 20, 26, 40] {
            let mut machine = machine(id, Noise { quantum, ..Noise::TYPICAL }, 1);
            let report = report(&mut machine, 1);
            assert_eq!(judge(&machine, &report.answer), Verdict::Right, "{id} {quantum} {:?}", report.attempts);
        }
        for leak in [0.01, 0.05, 0.2] {
            let mut machine = machine(id, Noise { leak, ..Noise::TYPICAL }, 1);
            let report = report(&mut machine, 1);
            assert_eq!(judge(&machine, &report.answer), Verdict::Right, "{id} {leak} {:?}", report.attempts);
        }
    }
}

#[test]
fn conflicts_smaller_than_the_noise_are_found() {
    // A function of eleven bits, and one of upper bits alone.
    for id in ["zen2-ddr4-1r", "opteron-6128-camc"] {
        let mut machine = machine(id, Noise::EXTREME, 1);
        let report = report(&mut machine, 1);
        assert_eq!(judge(&machine, &report.answer), Verdict::Right, "{id} {:?}", report.attempts);
        assert!(report.effort.accesses < 3_000_000, "{id}: {}", report.effort.accesses);
    }
}

/// A function holds in most blocks of 4 GiB, and not in all: single pairs show nothing there, and no part of it is given.
#[test]
fn what_holds_in_most_blocks_is_refused() {
    let mut machine = machine("zen4-ddr5-1r-full", Noise::EXTREME, !18);
    let report = report(&mut machine, 18);
    assert!(report.attempts.iter().any(|attempt| attempt.assumption.contains("blocks") && attempt.failed.is_none()));
    assert_eq!(judge(&machine, &report.answer), Verdict::Refused, "{:?}", report.attempts);
}

#[test]
fn what_drifts_is_followed() {
    for id in ["skl-e3-1220v5-4x4g", "zen2-ddr4-1r", "rpi4-2g"] {
        let mut machine = machine(id, Noise::DRIFTING, 1);
        let report = report(&mut machine, 1);
        assert_eq!(judge(&machine, &report.answer), Verdict::Right, "{id} {:?}", report.attempts);
        assert!(report.effort.accesses < 300_000, "{id}: {}", report.effort.accesses);
    }
}

#[test]
fn where_nothing_conflicts_nothing_is_found() {
    let closed = Noise { gap: 0.0, ..Noise::QUIET };
    let level = Noise { gap: 0.0, level: 60.0, ..Noise::QUIET };
    for id in ["skl-e3-1220v5-4x4g", "zen3-ddr4-2r", "rpi4-2g", "haswell-e3-1230"] {
        for noise in [closed, level] {
            for seed in 0..3 {
                let answer = report(&mut machine(id, noise, seed), seed).answer;
                assert!(matches!(answer, Answer::NoBankSignal(_)), "{id}, {noise:?}: {answer:?}");
            }
        }
    }
}

#[test]
fn frames_that_are_elsewhere_show_no_mapping() {
    for id in ["skl-e3-1220v5-4x4g", "rpi4-2g", "zen3-ddr4-2r"] {
        let answer = report(&mut machine(id, Noise::QUIET, 1).scrambled(), 2).answer;
        assert!(matches!(answer, Answer::NoBankSignal(_)), "{id}: {answer:?}");
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
        _others: &[PhysAddr],
        rounds: u32,
    ) -> Result<Option<Vec<u32>>, OracleError> {
        self.time(addresses, rounds).map(Some)
    }
}

#[test]
fn readings_of_nothing_are_a_mapping_of_nothing() {
    for (least, spread, rise) in
        [(200, 1, u64::MAX), (100, 900, u64::MAX), (1, 2, u64::MAX), (200, 20, 10), (0, 1, u64::MAX)]
    {
        for seed in 0..3 {
            let pool = Pool::new([PhysAddr(0)..PhysAddr(1 << 30)], 64).unwrap();
            let mut oracle = Arbitrary { pool, random: Random::new(seed), least, spread, rise, asked: 0 };
            let answer = report(&mut oracle, seed).answer;
            assert!(matches!(answer, Answer::NoBankSignal(_)), "{least} {spread} {rise}: {answer:?}");
        }
    }
}

/// Base, bytes, base inside, channels in turn and the logarithm of their block.
type MadeRegion = (u64, u64, u64, Option<(u32, u32)>);

/// A platform with these functions and regions.
fn made(functions: &[u64], regions: &[MadeRegion]) -> Platform {
    let end = regions.iter().map(|&(_, size, inside, _)| inside + size).max().unwrap();
    let mut file = memtint_map::mapfile::to_platform_file("made", functions, end, "a test");
    file.region = regions
        .iter()
        .map(|&(base, size, inside, turn)| memtint_map::file::RegionSection {
            base: ByteSize(base),
            size: ByteSize(size),
            node: 0,
            dram_base: Some(ByteSize(inside)),
            interleave: turn
                .map(|(ways, shift)| memtint_map::file::InterleaveSection { ways, granularity: ByteSize(1 << shift) }),
            assumed: true,
            source: "a test".to_owned(),
        })
        .collect();
    Platform::from_file(file, "made").unwrap()
}

const GIB: u64 = 1 << 30;
/// Four functions as DDR4 has them.
const FUNCTIONS: [u64; 4] = [1 << 14 | 1 << 18, 1 << 15 | 1 << 19, 1 << 16 | 1 << 20, 1 << 17 | 1 << 21];

#[test]
fn channels_in_turn_are_found() {
    for (ways, shift, gib) in [(3, 8, 12), (3, 12, 24), (5, 6, 10), (6, 8, 24), (7, 12, 14), (10, 7, 20), (12, 8, 48)] {
        for noise in [Noise::NONE, Noise::QUIET, Noise::TYPICAL] {
            let platform = made(&FUNCTIONS, &[(0, gib * GIB, 0, Some((ways, shift)))]);
            let pool = whole(&platform);
            let mut machine = SimulatedMachine::new(platform, pool, noise, 2).unwrap();
            let report = report(&mut machine, 3);
            assert_eq!(
                judge(&machine, &report.answer),
                Verdict::Right,
                "{ways} {shift} {noise:?} {:?}",
                report.attempts
            );
        }
    }
}

#[test]
fn a_hole_is_found_with_and_without_channels_in_turn() {
    // Up to 3 GiB or less below, the rest from 4 GiB up.
    for hole in [1 << 28, 0x3000_0000, GIB, 0x6000_0000] {
        for turn in [None, Some((3, 8))] {
            let low = 4 * GIB - hole;
            let platform = made(&FUNCTIONS, &[(0, low, 0, turn), (4 * GIB, 12 * GIB - low, low, turn)]);
            let pool = whole(&platform);
            let mut machine = SimulatedMachine::new(platform, pool, Noise::QUIET, 2).unwrap();
            let report = report(&mut machine, 3);
            assert_eq!(judge(&machine, &report.answer), Verdict::Right, "{hole:#x} {turn:?} {:?}", report.attempts);
        }
    }
}

#[test]
fn blocks_in_no_order_show_what_is_within_them() {
    // Blocks of 256 MiB whose banks are permuted by their number, in no linear way.
    let wide: Vec<u64> = FUNCTIONS.iter().map(|mask| mask | mask << 14).collect();
    let order = [0_u64, 5, 11, 3, 14, 9, 2, 12, 7, 1, 15, 4, 10, 6, 13, 8];
    let block = |at: usize| (at as u64 * (GIB / 4), GIB / 4, order[at] * (GIB / 4), None);
    let platform = made(&wide, &(0..16).map(block).collect::<Vec<MadeRegion>>());
    let pool = whole(&platform);
    let mut machine = SimulatedMachine::new(platform, pool, Noise::QUIET, 2).unwrap();
    let report = report(&mut machine, 3);
    assert_eq!(judge(&machine, &report.answer), Verdict::Partial, "{:?}", report.attempts);
    let Answer::Partial(mapping, missing) = &report.answer else { unreachable!() };
    assert_eq!(missing, &[Missing::BetweenBlocks(28)]);
    let file = mapping.platform_files("probed", "a test", &[]).remove(0);
    let written = Platform::parse(&file.to_toml(), "probed.toml").unwrap();
    assert_eq!((written.banks(), written.size_bytes()), (16, GIB / 4));
}

#[test]
fn memory_that_is_moved_into_the_hole_is_found() {
    let hole = 0x5000_0000;
    let wide: Vec<u64> = FUNCTIONS.iter().map(|mask| mask | mask << 11).collect();
    let platform = made(
        &wide,
        &[(0, 4 * GIB - hole, 0, None), (4 * GIB, 4 * GIB, 4 * GIB, None), (8 * GIB, hole, 4 * GIB - hole, None)],
    );
    let pool = whole(&platform);
    let mut machine = SimulatedMachine::new(platform, pool, Noise::QUIET, 2).unwrap();
    let report = report(&mut machine, 3);
    assert_eq!(judge(&machine, &report.answer), Verdict::Right, "{:?}", report.attempts);
}

#[test]
fn modules_of_two_sizes_are_two_areas() {
    // Both channels as far as both modules go, and one beyond.
    let both: Vec<u64> = [1 << 6 | 1 << 13].into_iter().chain(FUNCTIONS.iter().map(|mask| mask << 1)).collect();
    for (border, end) in [(8 * GIB, 12 * GIB), (4 * GIB, 12 * GIB), (6 * GIB, 7 * GIB)] {
        for noise in [Noise::QUIET, Noise::TYPICAL] {
            let (first, second) =
                (made(&both, &[(0, border, 0, None)]), made(&FUNCTIONS, &[(border, end - border, border, None)]));
            let (pool, other) = (whole(&first), whole(&second));
            let machine = SimulatedMachine::new(first, pool, noise, 2).unwrap();
            let mut machine = machine.beside(second, other).unwrap();
            let report = report(&mut machine, 3);
            assert_eq!(
                judge(&machine, &report.answer),
                Verdict::Partial,
                "{border:#x} {noise:?} {:?}",
                report.attempts
            );
            let Answer::Partial(mapping, missing) = &report.answer else { unreachable!() };
            assert_eq!((mapping.areas.len(), &missing[..]), (2, &[Missing::BetweenAreas][..]), "{border:#x}");
            let mut counts = mapping.areas.iter().map(|area| area.solution.functions.len()).collect::<Vec<_>>();
            counts.sort_unstable();
            assert_eq!(counts, [4, 5]);
        }
    }
}

#[test]
fn huge_pages_show_the_lower_bits() {
    for id in ["skl-e3-1220v5-4x4g", "zen2-ddr4-2r", "haswell-e3-1230"] {
        for noise in [Noise::QUIET, Noise::TYPICAL] {
            let platform = Platform::load(id).unwrap();
            let pieces = platform.regions().iter().map(|region| region.base..region.end());
            let pool = Pool::new(pieces, 21).unwrap();
            let mut machine = SimulatedMachine::new(platform, pool, noise, 2).unwrap();
            let report = report(&mut machine, 3);
            assert_eq!(judge(&machine, &report.answer), Verdict::Partial, "{id} {:?}", report.attempts);
            let Answer::Partial(mapping, missing) = &report.answer else { unreachable!() };
            assert_eq!(missing, &[Missing::UnknownAddresses(21)]);
            let file = mapping.platform_files("probed", "a test", &[]).remove(0);
            let written = Platform::parse(&file.to_toml(), "probed.toml").unwrap();
            assert_eq!((written.address_bits(), written.size_bytes()), (21, 2 << 20));
        }
    }
}

/// A machine that says something else than what is so.
struct Hostile {
    machine: SimulatedMachine,
    random: Random,
    how: Lie,
    asked: u64,
}

#[derive(Clone, Copy, Debug)]
enum Lie {
    /// One call in ten is answered with the readings of another pair.
    OtherPair,
    /// One call in ten says the contrary.
    Contrary,
    /// One reading in ten is any number.
    Reading,
    /// Each access is slower than the one before.
    Drift,
    /// Only pairs that are more than 2 MiB apart conflict.
    OnlyAbove,
    /// Pairs that are more than 2 MiB apart are slow, and nothing else.
    SlowAbove,
}

impl Oracle for Hostile {
    fn pool(&self) -> &Pool {
        self.machine.pool()
    }

    fn time(&mut self, addresses: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError> {
        self.asked += 1;
        let far = addresses.len() == 2 && (addresses[0].0 ^ addresses[1].0) >> 21 != 0;
        let lie = self.random.below(10) == 0;
        let other = addresses.iter().map(|_| self.machine.pool().any(&mut self.random)).collect::<Vec<_>>();
        Ok(match self.how {
            Lie::OtherPair if lie => self.machine.time(&other, rounds)?,
            Lie::Contrary if lie => {
                let readings = self.machine.time(addresses, rounds)?;
                readings.into_iter().map(|reading| 490_u32.saturating_sub(reading)).collect()
            }
            Lie::Reading => {
                let readings = self.machine.time(addresses, rounds)?;
                let mut lied =
                    |reading| if self.random.below(10) == 0 { self.random.below(600) as u32 } else { reading };
                readings.into_iter().map(&mut lied).collect()
            }
            Lie::Drift => {
                let readings = self.machine.time(addresses, rounds)?;
                readings.into_iter().map(|reading| reading + (self.asked / 20) as u32).collect()
            }
            Lie::OnlyAbove if !far => self.machine.time(&addresses[..1], rounds * addresses.len() as u32)?,
            Lie::SlowAbove => {
                let readings = self.machine.time(&addresses[..1], rounds * addresses.len() as u32)?;
                readings.into_iter().map(|reading| reading + if far { 80 } else { 0 }).collect()
            }
            _ => self.machine.time(addresses, rounds)?,
        })
    }

    fn time_beside(
        &mut self,
        addresses: &[PhysAddr],
        _others: &[PhysAddr],
        rounds: u32,
    ) -> Result<Option<Vec<u32>>, OracleError> {
        self.time(addresses, rounds).map(Some)
    }
}

#[test]
fn what_lies_is_not_believed() {
    let mut verdicts = Vec::new();
    for how in [Lie::OtherPair, Lie::Contrary, Lie::Reading, Lie::Drift, Lie::OnlyAbove, Lie::SlowAbove] {
        let mut counts = [0; 4];
        for id in ["skl-e3-1220v5-4x4g", "zen2-ddr4-2r"] {
            for (noise, seed) in [(Noise::NONE, 1), (Noise::TYPICAL, 3)] {
                let mut hostile =
                    Hostile { machine: machine(id, noise, seed), random: Random::new(seed), how, asked: 0 };
                let report = report(&mut hostile, seed);
                let verdict = judge(&hostile.machine, &report.answer);
                assert_ne!(verdict, Verdict::Wrong, "{how:?} {id} {noise:?} {:?}", report.attempts);
                counts[verdict as usize] += 1;
            }
        }
        verdicts.push((how, counts));
    }
    println!("{verdicts:?}");
}
