//! Is the function found that shifts the time of pairs that do not conflict, and none where there is none?

use memtint_map::Platform;
use memtint_probe::{Answer, Noise, Oracle, OracleError, Pool, Settings, Shift, SimulatedMachine, probe};
use memtint_units::PhysAddr;

/// What is found, and the function that has the level.
fn found(id: &str, level: f64, seed: u64) -> (Option<Shift>, u64) {
    let platform = Platform::load(id).unwrap();
    // The machine's level is on the lowest bit of its bank number.
    let truth = platform.function_masks()[0];
    let pool = Pool::new(platform.regions().iter().map(|region| region.base..region.end()), 64).unwrap();
    let noise = Noise { level, ..Noise::QUIET };
    let mut machine = SimulatedMachine::new(platform, pool, noise, !seed).unwrap();
    let settings = Settings { seed, shift: true, ..Settings::default() };
    let report = probe(&mut machine, &settings, &mut |_| {}).unwrap();
    let Answer::Mapping(mapping) = report.answer else { panic!("{id} {level} {seed}: {:?}", report.attempts) };
    (mapping.areas[0].shift, truth)
}

#[test]
fn a_level_is_found_and_none_is_invented() {
    for id in ["haswell-e3-1230", "zen2-ddr4-1r", "skl-e3-1220v5-4x4g", "rpi4-2g"] {
        for seed in 1..=4 {
            for level in [10.0, 4.0, -4.0] {
                let (shift, truth) = found(id, level, seed);
                let shift = shift.unwrap_or_else(|| panic!("{id} {level} {seed}"));
                assert_eq!(shift.function, truth, "{id} {level} {seed}: {shift:?}");
                assert!((shift.ticks - level).abs() < shift.error && shift.error < 2.0, "{id} {level}: {shift:?}");
            }
            assert_eq!(found(id, 0.0, seed).0, None, "{id} {seed}");
        }
    }
}

/// A machine with another level on a function of its own.
struct Second(SimulatedMachine, u64);

impl Oracle for Second {
    fn pool(&self) -> &Pool {
        self.0.pool()
    }

    fn time(&mut self, addresses: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError> {
        let change = addresses.iter().fold(0, |sum, addr| sum ^ addr.0);
        let more = if addresses.len() == 2 { 10 * ((change & self.1).count_ones() % 2) } else { 0 };
        Ok(self.0.time(addresses, rounds)?.into_iter().map(|reading| reading + more).collect())
    }

    fn time_beside(
        &mut self,
        addresses: &[PhysAddr],
        others: &[PhysAddr],
        rounds: u32,
    ) -> Result<Option<Vec<u32>>, OracleError> {
        self.0.time_beside(addresses, others, rounds)
    }
}

#[test]
fn two_levels_are_not_taken_for_one() {
    let platform = Platform::load("haswell-e3-1230").unwrap();
    let second = platform.function_masks()[1];
    let pool = Pool::new(platform.regions().iter().map(|region| region.base..region.end()), 64).unwrap();
    for (level, expected) in [(0.0, Some(second)), (10.0, None), (6.0, None)] {
        let noise = Noise { level, ..Noise::QUIET };
        let mut machine = Second(SimulatedMachine::new(platform.clone(), pool.clone(), noise, 3).unwrap(), second);
        let settings = Settings { shift: true, ..Settings::default() };
        let Answer::Mapping(mapping) = probe(&mut machine, &settings, &mut |_| {}).unwrap().answer else { panic!() };
        assert_eq!(mapping.areas[0].shift.map(|shift| shift.function), expected, "{level}");
    }
}
