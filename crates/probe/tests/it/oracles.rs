//! Is the simulated machine what it says, and is a log the machine that it recorded?

use memtint_map::Platform;
use memtint_probe::{Log, LogPart, Noise, Oracle, OracleError, Pool, Recorder, SimulatedMachine, View, begin_log};
use memtint_units::PhysAddr;
use memtint_units::Random;

fn machine(name: &str, noise: Noise, seed: u64) -> SimulatedMachine {
    let platform = Platform::load(name).expect(name);
    let pieces = platform.regions().iter().map(|region| region.base..region.end());
    let pool = Pool::new(pieces, 64).expect("regions lie apart");
    SimulatedMachine::new(platform, pool, noise, seed).expect("the pool is its memory")
}

/// The median reading of a pair.
fn median(machine: &mut SimulatedMachine, pair: [PhysAddr; 2], rounds: u32) -> u32 {
    let mut readings = machine.time(&pair, rounds).expect("the pair is of the pool");
    readings.sort_unstable();
    readings[readings.len() / 2]
}

#[test]
fn without_noise_only_conflicts_are_slow() {
    for name in ["skl-e3-1220v5-4x4g", "zen3-ddr4-2r-full", "skx-open-3ch1r", "ramses-sandy-2ch2d2r"] {
        let mut machine = machine(name, Noise::NONE, 3);
        let mut random = Random::new(11);
        let mut slow = 0;
        for _ in 0..3000 {
            let pair = [0, 1].map(|_| machine.pool().any(&mut random));
            let conflict = machine.conflicts(pair[0], pair[1]);
            // Beside the quantum, in which the clock may be.
            assert_eq!(median(&mut machine, pair, 4) > 245, conflict, "{name}: {pair:?}");
            slow += u32::from(conflict);
        }
        let expected = 3000 / machine.platform().banks();
        assert!(slow > expected / 2 && slow < expected * 2, "{name}: {slow} of 3000, {expected} expected");
    }
}

#[test]
fn under_the_right_view_the_difference_decides() {
    // Two pieces that are moved, and three channels.
    for name in ["zen2-3900x-amdre", "skx-open-3ch1r", "zcu102-reva"] {
        let machine = machine(name, Noise::NONE, 1);
        let view = View::of_platform(machine.platform());
        let mut random = Random::new(23);
        for _ in 0..300 {
            let one = machine.pool().any(&mut random);
            let difference = random.below(1 << machine.platform().address_bits()) & !63;
            let answers: Vec<bool> = (0..8)
                .filter_map(|_| view.pair(machine.pool(), machine.pool(), difference, &mut random))
                .map(|[a, b]| machine.conflicts(a, b))
                .collect();
            assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{name}: {one:?} {difference:#x} {answers:?}");
        }
    }
}

#[test]
fn shares_of_what_disturbs_come_out() {
    let mut quiet = machine("rpi4-2g", Noise { refresh: 0.05, leak: 0.02, burst: 0.2, ..Noise::NONE }, 9);
    let mut random = Random::new(1);
    let mut counts = [0; 3];
    for _ in 0..2000 {
        let addr = quiet.pool().any(&mut random);
        for reading in quiet.time(&[addr], 100).unwrap() {
            counts[0] += u32::from(reading < 100);
            counts[1] += u32::from(reading > 660);
            counts[2] += u32::from((201..660).contains(&reading));
        }
    }
    let shares = counts.map(|count| f64::from(count) / 200_000.0);
    assert!((0.018..0.022).contains(&shares[0]), "{shares:?}");
    assert!((0.045..0.075).contains(&shares[1]), "{shares:?}");
    assert!((0.12..0.25).contains(&shares[2]), "{shares:?}");
}

#[test]
fn a_pairs_bias_stays() {
    let mut machine = machine("rpi4-2g", Noise { bias: 10.0, ..Noise::NONE }, 2);
    let mut random = Random::new(4);
    let mut spread = Vec::new();
    for _ in 0..50 {
        let pair = [0, 1].map(|_| machine.pool().any(&mut random));
        let first = median(&mut machine, pair, 51);
        assert!(median(&mut machine, pair, 51).abs_diff(first) <= 1, "{pair:?}");
        spread.push(first);
    }
    spread.sort_unstable();
    assert!(spread[40] - spread[10] > 5, "{spread:?}");
}

#[test]
fn a_log_answers_as_the_machine_did() {
    let asked = |oracle: &mut dyn Oracle| {
        let mut random = Random::new(8);
        let mut answers = Vec::new();
        for rounds in 1..20 {
            let pair = [0, 1].map(|_| oracle.pool().any(&mut random));
            answers.push(oracle.time(&pair, rounds)?);
            answers.extend(oracle.time_beside(&pair, &[pair[0]], 3)?);
        }
        Ok::<_, OracleError>(answers)
    };
    let mut log = Vec::new();
    begin_log(&mut log, &[("seed", "8".to_owned()), ("empty", String::new())]).unwrap();
    let mut recorder = Recorder::of_dram(machine("rpi4-2g", Noise::EXTREME, 5), &mut log).unwrap();
    let first = asked(&mut recorder).unwrap();
    recorder.finish().unwrap();
    let mut read = Log::new("a log", &log[..]).unwrap();
    assert_eq!(read.notes(), [("seed", "8"), ("empty", "")].map(|(key, text)| (key.to_owned(), text.to_owned())));
    let mut replay = read.part(LogPart::Dram).unwrap();
    assert_eq!(asked(&mut replay).unwrap(), first);
    let error = replay.time(&[PhysAddr(0)], 1).unwrap_err().to_string();
    assert!(error.ends_with("it ends here; the probe asked for time 1 0x0"), "{error}");
    read.end().unwrap();
    let mut read = Log::new("a log", &log[..]).unwrap();
    let mut replay = read.part(LogPart::Dram).unwrap();
    let error = replay.time(&[PhysAddr(0x40)], 1).unwrap_err().to_string();
    assert!(error.starts_with("a log: line 7: time 1 0x") && error.ends_with("asked for time 1 0x40"), "{error}");
    let left = read.end().unwrap_err().to_string();
    assert!(left.starts_with("a log: line 8: \"beside 3 0x") && left.ends_with("accepted is the end"), "{left}");
    for (text, message) in [
        ("hello\n", "a log: line 1: \"hello\" found; accepted is a log that begins with"),
        ("memtint probe log 2\npart dram\nknown_bits x\n", "a log: line 3: \"known_bits x\" found"),
        ("memtint probe log 2\npart dram\nknown_bits 64\npiece 0x1 5\n", "a log: line 4: \"piece 0x1 5\" found"),
        ("memtint probe log 2\npart llc\n", "a log: line 2: \"part llc\" found; accepted is part dram"),
        ("memtint probe log 2\nnote a\n", "a log: line 2: \"the end\" found; accepted is part dram"),
        ("memtint probe log 2\npart dram\nknown_bits 64\n", "a log: line 3: \"pool: 0 bytes found"),
    ] {
        let read = Log::new("a log", text.as_bytes());
        let error = read.and_then(|mut log| log.part(LogPart::Dram).map(drop)).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn what_is_not_there_is_not_timed() {
    let mut machine = machine("rpi4-2g", Noise::NONE, 5);
    let end = PhysAddr(machine.pool().pieces().last().unwrap().end.0);
    let error = machine.time(&[end], 1).unwrap_err().to_string();
    assert_eq!(error, format!("address {:#x} was to be timed; accepted are addresses of the pool", end.0));
    let pool = Pool::new([PhysAddr(0)..PhysAddr(end.0 + 64)], 64).unwrap();
    let platform = Platform::load("rpi4-2g").unwrap();
    assert!(SimulatedMachine::new(platform, pool, Noise::NONE, 1).is_err());
}

#[test]
fn scrambled_frames_show_no_mapping() {
    let machine = machine("rpi4-2g", Noise::NONE, 5).scrambled();
    let view = View::plain();
    let mut random = Random::new(1);
    // Bits of a frame's number decide nothing any more.
    let answers: Vec<bool> = (0..400)
        .filter_map(|_| view.pair(machine.pool(), machine.pool(), 1 << 20, &mut random))
        .map(|[a, b]| machine.conflicts(a, b))
        .collect();
    let conflicts = answers.iter().filter(|&&conflict| conflict).count();
    assert!(conflicts > 20 && conflicts < 200, "{conflicts} of {}", answers.len());
}

#[test]
fn cores_wait_for_each_other_in_one_bank() {
    let mut machine = machine("rpi4-2g", Noise::NONE, 5);
    // Rows of one bank in turn, so that each access conflicts with the one before on its own core.
    let rows = |offset: u64| [0, 1, 2, 3].map(|row| PhysAddr(offset + (row << 24)));
    let mut least = |others: &[PhysAddr]| {
        let readings = machine.time_beside(&rows(0), others, 4).unwrap().expect("there is another core");
        *readings[4..].iter().min().unwrap()
    };
    let (same, other) = (least(&rows(1 << 23)), least(&rows(1 << 12)));
    assert_eq!((same, other), (380, 290));
}
