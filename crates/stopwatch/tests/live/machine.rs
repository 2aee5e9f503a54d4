//! Is what this machine says of its own memory true, and does it time what it should?
//!
//! Nothing here asserts how long anything takes, only what takes longer than what. Where the kernel hides physical addresses and
//! gives no huge pages, there is nothing to test; that is said.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use memtint_probe::cache::{CacheFacts, CacheOracle, NodeOracle, PrivateCache, probe_nodes};
use memtint_probe::{Log, LogPart, Oracle, OracleError, Recorder, begin_log};
use memtint_stopwatch::{NodeMachine, Stopwatch, StopwatchError};
use memtint_units::Random;
use memtint_units::{ByteSize, PhysAddr};

/// `None` where nothing can be timed.
fn machine(mib: u64) -> Option<Stopwatch> {
    match Stopwatch::open(Some(ByteSize::mib(mib))) {
        Ok(machine) => Some(machine),
        Err(StopwatchError::Hidden) => {
            memtint_testing::skip("physical addresses, or huge pages");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn median(mut readings: Vec<u32>) -> u32 {
    readings.sort_unstable();
    readings[readings.len() / 2]
}

#[test]
fn no_cache_answers() {
    let _alone = memtint_testing::alone();
    let Some(mut machine) = machine(16) else { return };
    let mut random = Random::new(1);
    let mut readings = Vec::new();
    // Lines far from each other, which no prefetcher brings in.
    for count in 0..300 {
        let addresses: Vec<PhysAddr> = (0..count % 4).map(|_| machine.pool().any(&mut random)).collect();
        let found = machine.time(&addresses, 3).unwrap();
        assert_eq!(found.len(), 3 * addresses.len());
        readings.extend(found);
    }
    let about = machine.about();
    assert!(about.flushed_ticks > about.cached_ticks, "{about:?}");
    assert!(median(readings.clone()) > about.cached_ticks, "{about:?}");
    let cached = readings.iter().filter(|&&reading| reading <= about.cached_ticks).count();
    assert!(cached * 20 < readings.len(), "{cached} of {} readings are of a cache: {about:?}", readings.len());
    assert!(readings.iter().all(|&reading| reading > 0), "{about:?}");
}

/// Bytes of a page.
fn page_bytes() -> u64 {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let kib = smaps.lines().find_map(|line| line.strip_prefix("KernelPageSize:")?.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap() << 10
}

/// Frames of this process, found without the crate under test.
fn resident_frames() -> Vec<u64> {
    let page_bytes = page_bytes();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let pagemap = File::open("/proc/self/pagemap").unwrap();
    let mut frames = Vec::new();
    for range in maps.lines().filter_map(|line| line.split(' ').next()?.split_once('-')) {
        let [from, to] = [range.0, range.1].map(|text| u64::from_str_radix(text, 16).unwrap() / page_bytes);
        for page in from..to {
            let mut entry = [0; 8];
            if pagemap.read_exact_at(&mut entry, page * 8).is_ok() && u64::from_ne_bytes(entry) >> 63 == 1 {
                frames.push(u64::from_ne_bytes(entry) & ((1 << 55) - 1));
            }
        }
    }
    frames.sort_unstable();
    frames
}

#[test]
fn the_pool_is_memory_of_this_process() {
    let _alone = memtint_testing::alone();
    let Some(machine) = machine(16) else { return };
    assert!(machine.pool().bytes() <= 16 << 20 && machine.pool().bytes() > 8 << 20, "{:?}", machine.pool());
    assert!(machine.about().page_bytes.is_power_of_two());
    if !machine.about().addresses_known {
        assert_eq!(1 << machine.pool().known_bits(), machine.about().page_bytes);
        memtint_testing::skip("physical addresses");
        return;
    }
    let (frames, page_bytes) = (resident_frames(), page_bytes());
    let mut pages = 0;
    for piece in machine.pool().pieces() {
        for addr in (piece.start.0..piece.end.0).step_by(page_bytes as usize) {
            assert!(frames.binary_search(&(addr / page_bytes)).is_ok(), "{addr:#x} of {piece:?}");
            pages += 1;
        }
    }
    assert_eq!(pages * page_bytes, machine.pool().bytes());
    machine.check_places().expect("nothing has moved");
}

#[test]
fn what_is_not_of_the_pool_is_not_timed() {
    let _alone = memtint_testing::alone();
    let Some(mut machine) = machine(4) else { return };
    let pieces: Vec<_> = machine.pool().pieces().collect();
    let (inside, end) = (pieces[0].start, pieces[pieces.len() - 1].end);
    let message = format!("address {:#x} was to be timed; accepted are addresses of the pool", end.0);
    assert_eq!(machine.time(&[inside, end], 1).unwrap_err().to_string(), message);
    let error = machine.time_beside(&[inside], &[end], 1).unwrap_err();
    assert!(matches!(error, OracleError::Outside { found } if found == end.0), "{error}");
    assert!(machine.time(&[PhysAddr(u64::MAX)], 1).is_err());
    assert_eq!(machine.time(&[], 5).unwrap(), [0; 0]);
}

#[test]
fn another_core_accesses_memory_beside() {
    let _alone = memtint_testing::alone();
    let Some(mut machine) = machine(16) else { return };
    let mut random = Random::new(2);
    let [one, other, third] = [(); 3].map(|()| machine.pool().any(&mut random));
    let beside = machine.time_beside(&[one, other], &[third], 50).unwrap();
    assert_eq!(beside.is_some(), machine.about().other_cpu.is_some());
    let Some(beside) = beside else { return };
    assert_eq!(beside.len(), 100);
    // The line that the other core reads and flushes all the time is not in a cache for long either.
    let shared = machine.time_beside(&[third], &[third], 200).unwrap().expect("it could a moment ago");
    assert_eq!(shared.len(), 200);
    assert!(machine.time_beside(&[one], &[], 3).unwrap().is_some_and(|readings| readings.len() == 3));
    machine.check_places().expect("nothing has moved");
}

#[test]
fn reads_together_overlap() {
    let _alone = memtint_testing::alone();
    let Some(mut machine) = machine(16) else { return };
    let mut random = Random::new(3);
    let (mut together, mut alone) = (Vec::new(), Vec::new());
    for _ in 0..200 {
        let lines = [(); 8].map(|()| machine.pool().any(&mut random));
        together.extend(machine.together(&lines, 1, 3).unwrap().expect("there is one reader at least"));
        alone.extend(machine.time(&lines, 3).unwrap().chunks(8).map(|round| round.iter().sum::<u32>()));
    }
    assert_eq!((together.len(), alone.len()), (600, 600));
    let cached = machine.about().cached_ticks;
    let (together, alone) = (median(together), median(alone));
    assert!(cached < together && together < alone, "{together} together, {alone} one by one, {cached} of a cache");
    // As many as there are cores, and no more; none without a line.
    let lines = [(); 64].map(|()| machine.pool().any(&mut random));
    let readers = machine.readers();
    let found = machine.together(&lines, readers, 5).unwrap();
    assert_eq!(found.map(|readings| readings.len()), Some(5));
    for (lines, readers) in [(&lines[..], 0), (&lines, readers + 1), (&[], 1)] {
        assert_eq!(machine.together(lines, readers, 5).unwrap(), None);
    }
    let end = machine.pool().pieces().last().unwrap().end;
    assert!(matches!(machine.together(&[end], 1, 1), Err(OracleError::Outside { found }) if found == end.0));
}

#[test]
fn a_recording_repeats_what_was_read() {
    let _alone = memtint_testing::alone();
    let Some(machine) = machine(4) else { return };
    let asked = |oracle: &mut dyn Oracle| {
        let mut random = Random::new(3);
        let pair = [0, 1].map(|_| oracle.pool().any(&mut random));
        (oracle.time(&pair, 20).unwrap(), oracle.time_beside(&pair, &pair[..1], 5).unwrap())
    };
    let mut log = Vec::new();
    begin_log(&mut log, &[]).unwrap();
    let mut recorder = Recorder::of_dram(machine, &mut log).unwrap();
    let first = asked(&mut recorder);
    recorder.finish().unwrap().check_places().expect("nothing has moved");
    let mut log = Log::new("a log", &log[..]).unwrap();
    assert_eq!(asked(&mut log.part(LogPart::Dram).unwrap()), first);
}

#[test]
fn pools_that_are_too_small_or_too_large_are_refused() {
    let _alone = memtint_testing::alone();
    let error = Stopwatch::open(Some(ByteSize::mib(1))).err().expect("too small").to_string();
    assert_eq!(error, "a pool of 1048576 bytes was asked for; accepted is 2097152 or more");
    let error = Stopwatch::open(Some(ByteSize(u64::MAX / 2))).err().expect("there is not so much").to_string();
    assert!(error.starts_with("9223372036854775807 bytes of memory cannot be had: "), "{error}");
    assert!(error.ends_with(" bytes are free"), "{error}");
}

#[test]
fn the_thread_is_let_go() {
    let _alone = memtint_testing::alone();
    let allowed = || {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        status.lines().find(|line| line.starts_with("Cpus_allowed_list:")).unwrap().to_owned()
    };
    let before = allowed();
    let Some(machine) = machine(4) else { return };
    assert_eq!(allowed(), format!("Cpus_allowed_list:\t{}", machine.about().cpu));
    drop(machine);
    assert_eq!(allowed(), before);
}

#[test]
fn a_line_is_in_a_cache_until_it_is_pushed_out_of_all() {
    let _alone = memtint_testing::alone();
    let Some(machine) = machine(64) else { return };
    let facts = CacheFacts { line: 64, private: vec![PrivateCache { sets: 64, ways: 8 }] };
    let mut machine = machine.with_caches(facts.clone());
    assert_eq!(machine.caches(), &facts);
    let mut random = Random::new(4);
    let (mut kept, mut pushed, mut fresh) = (Vec::new(), Vec::new(), Vec::new());
    let all: Vec<PhysAddr> =
        machine.pool().pieces().flat_map(|piece| (piece.start.0..piece.end.0).step_by(64)).map(PhysAddr).collect();
    for _ in 0..100 {
        let target = machine.pool().any(&mut random);
        kept.extend(machine.reload(target, &[], 2).unwrap());
        fresh.extend(machine.time(&[target], 2).unwrap());
    }
    // All of the pool: more than any cache of a core.
    for _ in 0..3 {
        let target = machine.pool().any(&mut random);
        let others: Vec<PhysAddr> = all.iter().copied().filter(|&line| line.0 / 64 != target.0 / 64).collect();
        pushed.extend(machine.reload(target, &others, 1).unwrap());
    }
    let [kept, pushed, fresh] = [kept, pushed, fresh].map(median);
    assert!(kept < fresh && kept < pushed, "{kept} {pushed} {fresh}");
    let outside = machine.pool().pieces().last().unwrap().end;
    assert!(matches!(machine.reload(all[0], &[outside], 1), Err(OracleError::Outside { .. })));
    assert!(matches!(machine.reload(outside, &[], 1), Err(OracleError::Outside { .. })));
}

#[test]
fn every_node_is_timed_from_every_group() {
    let _alone = memtint_testing::alone();
    let mut nodes = NodeMachine::open().expect("node 0 has memory");
    assert_eq!(nodes.layout().groups as usize, nodes.groups().len());
    assert!(!nodes.groups().is_empty());
    let report = probe_nodes(&mut nodes, 1).unwrap();
    assert_eq!(report.latencies.len(), nodes.groups().len());
    for latencies in &report.latencies {
        assert_eq!(latencies.len(), report.nodes.len());
        assert!(latencies.iter().all(|latency| latency.median > 0.0), "{report:?}");
    }
    let end = nodes.pool().pieces().last().unwrap().end;
    assert!(matches!(nodes.load(0, end, 1), Err(OracleError::Outside { .. })));
}
