//! What a whole probe says of machines: right, partial or refused, and never wrong.

use memtint_map::{Platform, catalogue};
use memtint_probe::{
    Answer, Noise, Oracle, OracleError, Pool, Random, Report, Settings, SimulatedMachine, Verdict, judge, probe,
};
use memtint_units::PhysAddr;

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
        let file = mapping.platform_file("probed", "a test", &[]);
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
