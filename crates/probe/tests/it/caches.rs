//! Is the last level of every machine found, and never another?

use memtint_cache::{CacheConfig, HierarchyConfig, Inclusion, LlcConfig, PrefetchConfig, Replacement, StrideConfig};
use memtint_map::gf2::Basis;
use memtint_map::{Granule, Palette, Platform, SliceHash, catalogue};
use memtint_probe::cache::{
    CacheAnswer, CacheFacts, CacheMachine, CacheOracle, CacheRefusal, KnownHash, LastLevel, Nearer, Slice, probe_cache,
    probe_nodes,
};
use memtint_probe::{Log, LogPart, Noise, Oracle, OracleError, Pool, Recorder, begin_log};
use memtint_units::Random;
use memtint_units::{ByteSize, PhysAddr};

/// Published last levels with linear hashes that no platform file has: `llc.toml` of the facts.
const H: [&[u32]; 4] = [
    &[6, 10, 12, 14, 16, 17, 18, 20, 22, 24, 25, 26, 27, 28, 30, 32, 33, 35, 36],
    &[7, 11, 13, 15, 17, 19, 20, 21, 22, 23, 24, 26, 28, 29, 31, 33, 34, 35, 37],
    &[8, 12, 13, 16, 19, 22, 23, 26, 27, 30, 31, 34, 35, 36, 37],
    &[9, 12, 16, 17, 19, 21, 22, 23, 25, 26, 27, 29, 31, 32, 36, 37],
];
const OLD: &[u32] = &[17, 18, 20, 22, 24, 25, 26, 27, 28, 30, 32];

/// A machine, and what is true of its last level.
struct Case {
    name: String,
    machine: CacheMachine,
    /// Set bits and slice functions.
    masks: Vec<u64>,
    ways: u32,
}

fn mask(bits: &[u32]) -> u64 {
    bits.iter().fold(0, |mask, bit| mask | 1 << bit)
}

fn whole(end: u64) -> Pool {
    Pool::new([PhysAddr(0)..PhysAddr(end)], 64).unwrap()
}

/// Caches with `slices` functions of `H`, set bits from 6 up, private second levels of Intel's.
fn sliced(functions: &[&[u32]], sets: u32, ways: u32, inclusion: Inclusion, end: u64) -> HierarchyConfig {
    let mut llc = CacheMachine::last_level((6..6 + sets).collect(), ways, inclusion);
    llc.slice_functions = functions.iter().map(|bits| bits.to_vec()).collect();
    llc.cache.size = ByteSize(llc.cache.size.bytes() << functions.len());
    CacheMachine::caches_of(llc, ByteSize(64), end)
}

/// All machines with linear hashes.
fn linear(noise: Noise, seed: u64) -> Vec<Case> {
    let mut cases = Vec::new();
    for id in catalogue::names() {
        let platform = Platform::load(id).unwrap();
        let pool = Pool::new(platform.regions().iter().map(|region| region.base..region.end()), 64).unwrap();
        if let Ok(llc) = LlcConfig::from_platform(&platform) {
            let machine = CacheMachine::of_platform(&platform, pool, noise, seed).unwrap();
            cases.push(Case {
                name: id.to_owned(),
                machine,
                masks: platform.set_masks().to_vec(),
                ways: llc.cache.ways,
            });
        }
    }
    assert!(cases.len() >= 16, "machines of the catalogue whose last level is known");
    let inclusive = Inclusion::Inclusive;
    for (name, functions, sets, ways, inclusion) in [
        ("intel-2s", &H[..1], 11, 16, inclusive),
        ("intel-4s", &H[..2], 11, 16, inclusive),
        ("intel-8s-xeon", &H[..3], 11, 20, inclusive),
        ("intel-8s-skl", &H[..3], 10, 16, inclusive),
        ("intel-16s-skx", &H[..], 11, 11, Inclusion::NonInclusive),
        ("intel-snb-2core-old", &[OLD][..], 11, 16, inclusive),
    ] {
        let mut config = sliced(functions, sets, ways, inclusion, 1 << 38);
        if inclusion == Inclusion::NonInclusive {
            // Skylake-SP's second level: 1 MiB, more ways than the last has.
            let l2 = config.l2.as_mut().unwrap();
            (l2.size, l2.ways) = (ByteSize(1 << 20), 16);
        }
        let masks = (6..6 + sets).map(|bit| 1 << bit).chain(functions.iter().map(|bits| mask(bits))).collect();
        let machine = CacheMachine::new(config, whole(1 << 38), noise, seed).unwrap();
        cases.push(Case { name: name.to_owned(), machine, masks, ways });
    }
    cases
}

/// The span that a found last level says.
fn span(last: &LastLevel) -> Basis {
    let Slice::Functions(functions) = &last.slice else { panic!("{last:?}") };
    Basis::spanning(last.set_bits.iter().map(|bit| 1 << bit).chain(functions.iter().copied()))
}

/// Asserts that an answer is right, or none; tells whether it is right and complete.
fn judge(case: &mut Case, noise: &str, seed: u64) -> bool {
    let report = probe_cache(&mut case.machine, seed ^ 0x5eed).unwrap();
    let name = format!("{}, {noise}, seed {seed}: {report:?}", case.name);
    match &report.answer {
        CacheAnswer::Found(last) => {
            // Bits that no line of the pool has another value of select nothing there.
            let congruence = report.congruence.as_ref().unwrap().as_ref().unwrap();
            let truth = Basis::spanning(case.masks.iter().map(|mask| mask & congruence.covered));
            assert_eq!(span(last), truth, "{name}");
            assert_eq!(last.ways, case.ways, "{name}");
            assert!(congruence.verified.iter().all(|&count| count == 40), "{name}");
            true
        }
        CacheAnswer::Partial(last, _) => panic!("{name}: {last:?}"),
        CacheAnswer::Nothing(_) => false,
    }
}

fn linear_are_found(noise: Noise, name: &str, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let mut refused = Vec::new();
        for mut case in linear(noise, seed) {
            if !judge(&mut case, name, seed) {
                refused.push(case.name);
            }
        }
        assert_eq!(refused, [""; 0], "{name}, seed {seed}");
    }
}

#[test]
fn linear_last_levels_are_found_without_noise() {
    linear_are_found(Noise::NONE, "none", 0..1);
}

#[test]
fn linear_last_levels_are_found_on_quiet_machines() {
    linear_are_found(Noise::QUIET, "quiet", 1..3);
}

#[test]
fn linear_last_levels_are_found_on_typical_machines() {
    linear_are_found(Noise::TYPICAL, "typical", 3..5);
}

fn known(id: &str) -> KnownHash {
    KnownHash::all().into_iter().find(|hash| hash.id == id).expect(id)
}

/// A machine with 2048 sets and 11 ways in each slice, of which a function selects one.
fn hashed(slices: u32, of: impl Fn(u64) -> u32 + 'static, known_bits: u32, noise: Noise) -> CacheMachine {
    let llc = CacheMachine::last_level((6..17).collect(), 11, Inclusion::Inclusive);
    let end = (1 << 38) - (1 << 30);
    let config = CacheMachine::caches_of(llc, ByteSize(64), end);
    let pool = Pool::new([PhysAddr(0)..PhysAddr(end)], known_bits).unwrap();
    CacheMachine::hashed(config, slices, of, pool, noise, 7).unwrap()
}

#[test]
fn published_hashes_that_are_not_linear_are_recognised() {
    for (seed, hash) in KnownHash::all().into_iter().enumerate() {
        let own = hash.clone();
        let mut machine = hashed(hash.slices, move |address| own.slice(address), 64, Noise::TYPICAL);
        let report = probe_cache(&mut machine, seed as u64).unwrap();
        let CacheAnswer::Found(last) = &report.answer else { panic!("{}: {report:?}", hash.id) };
        let Slice::Known(found) = &last.slice else { panic!("{}: {report:?}", hash.id) };
        // Two sources of one hash fit both.
        assert!(found.iter().any(|found| found.id == hash.id), "{report:?}");
        assert!(found.iter().all(|found| found.slices == hash.slices), "{report:?}");
        assert_eq!((last.ways, last.set_bits.clone()), (11, (6..17).collect()), "{}", hash.id);
        for score in &report.scores {
            let fits = found.iter().any(|found| found.id == score.id);
            assert!(!fits || score.agreeing == score.compared && score.sets == hash.slices, "{}: {score:?}", hash.id);
            assert!(score.compared >= 100, "{}: {score:?}", hash.id);
        }
        let section = last.section("measured");
        assert_eq!((section.slices, section.set_bits.len()), (Some(hash.slices), 11));
        assert!(matches!(section.hash, SliceHash::Mixer | SliceHash::BaseSequence));
    }
}

#[test]
fn hashes_that_nobody_published_are_said_to_be_unknown() {
    let known = known("intel-6s");
    let like = move |address: u64| known.slice(address ^ (address >> 21 & address >> 9 & 1) << 20);
    let three = |address: u64| ((address >> 6) % 3) as u32;
    let machines = [hashed(6, like, 64, Noise::QUIET), hashed(3, three, 64, Noise::QUIET)];
    for (at, mut machine) in machines.into_iter().enumerate() {
        let report = probe_cache(&mut machine, 5).unwrap();
        let CacheAnswer::Partial(last, why) = &report.answer else { panic!("{at}: {report:?}") };
        assert!(matches!(last.slice, Slice::Unknown), "{report:?}");
        assert_eq!((last.ways, &last.set_bits[..]), (11, &[6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16][..]), "{at}");
        assert!(why.starts_with("the slice hash does not look linear, and none of 11 published hashes"), "{why}");
        assert_eq!(last.section("measured").hash, SliceHash::Unknown);
    }
}

#[test]
fn huge_pages_show_their_bits_and_no_more() {
    for (id, noise) in
        [("haswell-e3-1230", Noise::TYPICAL), ("skl-e3-1220v5-4x4g", Noise::QUIET), ("rpi4-2g", Noise::NONE)]
    {
        let platform = Platform::load(id).unwrap();
        let pool = Pool::new(platform.regions().iter().map(|region| region.base..region.end()), 21).unwrap();
        let mut machine = CacheMachine::of_platform(&platform, pool, noise, 3).unwrap();
        let report = probe_cache(&mut machine, 4).unwrap();
        let CacheAnswer::Partial(last, why) = &report.answer else { panic!("{id}: {report:?}") };
        let congruence = report.congruence.as_ref().unwrap().as_ref().unwrap();
        assert_eq!(congruence.covered, (1 << 21) - 64, "{id}");
        let truth = Basis::spanning(platform.set_masks().iter().map(|mask| mask & congruence.covered));
        assert_eq!(congruence.functions, truth, "{id}");
        assert!(why.starts_with("addresses are known below bit 21 only"), "{why}");
        let llc = platform.llc().unwrap();
        assert_eq!((last.ways, &last.set_bits), (16, &llc.set_bits), "{id}");
    }
    let known = known("intel-20s");
    let mut machine = hashed(20, move |address| known.slice(address), 21, Noise::QUIET);
    let report = probe_cache(&mut machine, 4).unwrap();
    let CacheAnswer::Partial(last, why) = &report.answer else { panic!("{report:?}") };
    assert_eq!((last.ways, last.set_bits.len()), (11, 11), "{report:?}");
    assert_eq!(why, "the slice hash does not look linear, and addresses are known below bit 21 only");
}

/// A hypervisor has put huge pages anywhere: above them, addresses mean nothing, and the kernel does not know.
#[test]
fn within_huge_pages_that_are_anywhere_the_index_is_found() {
    let functions = [mask(&[6, 10, 12, 14, 16, 17, 18, 20]), mask(&[7, 11, 13, 15, 17, 19, 20])];
    let anywhere = |page: u64| Random::new(page ^ 0x1234).below(4);
    let slice = move |address: u64| {
        let within = functions
            .iter()
            .enumerate()
            .fold(0, |slice, (bit, &function)| slice | u64::from((address & function).count_ones() % 2) << bit);
        (within ^ anywhere(address >> 21)) as u32
    };
    let mut machine = hashed(4, slice, 64, Noise::QUIET);
    let report = probe_cache(&mut machine, 3).unwrap();
    let CacheAnswer::Partial(last, why) = &report.answer else { panic!("{report:?}") };
    assert!(why.starts_with("the index is linear only within blocks of 2 MiB: "), "{why}");
    assert_eq!((last.ways, &last.set_bits), (11, &(6..17).collect()), "{report:?}");
    let congruence = report.congruence.as_ref().unwrap().as_ref().unwrap();
    let truth = Basis::spanning((6..17).map(|bit| 1 << bit).chain(functions));
    assert_eq!((congruence.covered, &congruence.functions), ((1 << 21) - 64, &truth));
}

/// A machine with four slices whose caches are changed before it is made.
fn changed(change: impl Fn(&mut HierarchyConfig), noise: Noise) -> Case {
    let mut config = sliced(&H[..2], 11, 16, Inclusion::Inclusive, 1 << 36);
    change(&mut config);
    let masks = (6..17).map(|bit| 1 << bit).chain(H[..2].iter().map(|bits| mask(bits))).collect();
    let ways = config.llc.cache.ways;
    let machine = CacheMachine::new(config, whole(1 << 36), noise, 2).unwrap();
    Case { name: "changed".to_owned(), machine, masks, ways }
}

#[test]
fn replacement_inclusion_and_other_programs_lines_change_nothing() {
    for inclusion in [Inclusion::Inclusive, Inclusion::NonInclusive, Inclusion::Exclusive] {
        for replacement in [Replacement::Lru, Replacement::TreePlru, Replacement::Random] {
            for full in [false, true] {
                let random = replacement == Replacement::Random;
                if random && full && inclusion != Inclusion::Inclusive {
                    continue;
                }
                let change = |config: &mut HierarchyConfig| {
                    (config.llc.inclusion, config.llc.cache.replacement) = (inclusion, replacement);
                };
                let mut case = changed(change, Noise::QUIET);
                case.name = format!("{inclusion:?}, {replacement:?}, full {full}");
                if full {
                    case.machine = case.machine.filled();
                }
                // Where a target leaves by chance, nothing may be found, but nothing wrong.
                assert!(judge(&mut case, "quiet", 1) || random, "{}", case.name);
            }
        }
    }
}

#[test]
fn lines_of_one_set_need_not_be_of_one_private_set() {
    // The last level has no set bits 6 and 7: two of its hashes have them, together with bits that the second level ignores.
    let functions: [&[u32]; 2] = [&[6, 17, 20, 23], &[7, 18, 21, 22]];
    for inclusion in [Inclusion::Inclusive, Inclusion::NonInclusive, Inclusion::Exclusive] {
        for seed in 0..2 {
            let mut llc = CacheMachine::last_level((8..17).collect(), 16, inclusion);
            llc.slice_functions = functions.iter().map(|bits| bits.to_vec()).collect();
            llc.cache.size = ByteSize(llc.cache.size.bytes() << 2);
            let config = CacheMachine::caches_of(llc, ByteSize(64), 1 << 34);
            let machine = CacheMachine::new(config, whole(1 << 34), Noise::QUIET, seed).unwrap();
            let masks = (8..17).map(|bit| 1 << bit).chain(functions.iter().map(|bits| mask(bits))).collect();
            let mut case = Case { name: format!("{inclusion:?}"), machine, masks, ways: 16 };
            assert!(judge(&mut case, "quiet", seed), "{inclusion:?}");
        }
    }
}

#[test]
fn prefetchers_make_nothing_wrong() {
    for seed in 0..3 {
        for stride in [None, Some(StrideConfig { streams: 16, confidence: 2, degree: 2 })] {
            let mut case = changed(|config| config.prefetch = PrefetchConfig { next_line: true, stride }, Noise::QUIET);
            let report = probe_cache(&mut case.machine, seed).unwrap();
            // A line whose neighbour is in the set looks as if it were itself, half of the time.
            let CacheAnswer::Partial(last, why) = &report.answer else { panic!("{seed}: {report:?}") };
            let congruence = report.congruence.as_ref().unwrap().as_ref().unwrap();
            assert_eq!((&congruence.undecided[..], &why[..]), (&[6][..], "bits [6] could not be decided"));
            let truth =
                Basis::spanning(case.masks.iter().map(|mask| mask & congruence.covered).filter(|&mask| mask != 0));
            assert_eq!(congruence.functions, truth, "{seed}");
            assert!(last.ways == 16 && last.set_bits.iter().all(|bit| (6..17).contains(bit)), "{last:?}");
        }
    }
}

#[test]
fn private_caches_that_are_not_named_are_noticed() {
    // A second level with more ways than the last one has: lines of its set alone help to evict.
    let l2 = CacheConfig {
        size: ByteSize(1 << 20),
        ways: 16,
        ..CacheMachine::last_level(Vec::new(), 16, Inclusion::NonInclusive).cache
    };
    for seed in 0..4 {
        let mut case = changed(
            |config| {
                config.llc.inclusion = Inclusion::NonInclusive;
                config.llc.cache.ways = 8;
                config.llc.cache.size = ByteSize(config.llc.cache.size.bytes() / 2);
                config.l2 = Some(l2.clone());
            },
            Noise::QUIET,
        );
        let claims = case.machine.caches().clone();
        let known = probe_cache(&mut case.machine, seed).unwrap();
        assert!(matches!(known.answer, CacheAnswer::Found(_)), "{seed}: {known:?}");
        assert_eq!(claims.private.len(), 2);
        let facts = CacheFacts { line: 64, private: Vec::new() };
        let report = probe_cache(&mut case.machine.that_claims(facts), seed).unwrap();
        assert!(matches!(report.answer, CacheAnswer::Nothing(CacheRefusal::Impure)), "{seed}: {report:?}");
    }
}

/// Readings that have nothing to do with addresses.
struct Arbitrary {
    pool: Pool,
    facts: CacheFacts,
    random: Random,
    least: u64,
    spread: u64,
    /// Readings rise by one each so many.
    rise: u64,
    asked: u64,
}

impl Arbitrary {
    fn one(&mut self) -> u32 {
        self.asked += 1;
        (self.least + self.random.below(self.spread) + self.asked / self.rise) as u32
    }
}

impl Oracle for Arbitrary {
    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn time(&mut self, addresses: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError> {
        Ok((0..addresses.len() * rounds as usize).map(|_| self.one()).collect())
    }

    fn time_beside(&mut self, _: &[PhysAddr], _: &[PhysAddr], _: u32) -> Result<Option<Vec<u32>>, OracleError> {
        Ok(None)
    }
}

impl CacheOracle for Arbitrary {
    fn caches(&self) -> &CacheFacts {
        &self.facts
    }

    fn reload(&mut self, _: PhysAddr, _: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError> {
        Ok((0..rounds).map(|_| self.one()).collect())
    }
}

#[test]
fn arbitrary_readings_come_to_an_end_and_to_no_cache() {
    for (least, spread, rise) in
        [(200, 1, u64::MAX), (100, 900, u64::MAX), (1, 2, u64::MAX), (200, 20, 10), (0, 1, u64::MAX)]
    {
        for seed in 0..20 {
            let facts = CacheFacts { line: 64, private: vec![] };
            let random = Random::new(seed);
            let mut oracle = Arbitrary { pool: whole(1 << 30), facts, random, least, spread, rise, asked: 0 };
            let report = probe_cache(&mut oracle, seed).unwrap();
            assert!(matches!(report.answer, CacheAnswer::Nothing(_)), "{least} {spread} {rise}: {report:?}");
        }
    }
}

/// A machine that lies once in ten.
struct Liar(CacheMachine, Random);

impl Oracle for Liar {
    fn pool(&self) -> &Pool {
        self.0.pool()
    }

    fn time(&mut self, addresses: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError> {
        self.0.time(addresses, rounds)
    }

    fn time_beside(&mut self, _: &[PhysAddr], _: &[PhysAddr], _: u32) -> Result<Option<Vec<u32>>, OracleError> {
        Ok(None)
    }
}

impl CacheOracle for Liar {
    fn caches(&self) -> &CacheFacts {
        self.0.caches()
    }

    fn reload(&mut self, target: PhysAddr, others: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError> {
        let mut readings = self.0.reload(target, others, rounds)?;
        for reading in &mut readings {
            if self.1.below(10) == 0 {
                *reading = if *reading > 120 { 40 } else { 250 };
            }
        }
        Ok(readings)
    }
}

#[test]
fn a_machine_that_lies_once_in_ten_is_seen_through_or_given_up() {
    for seed in 0..4 {
        let case = changed(|_| (), Noise::QUIET);
        let report = probe_cache(&mut Liar(case.machine, Random::new(seed)), seed).unwrap();
        match &report.answer {
            CacheAnswer::Found(last) => {
                let covered = report.congruence.as_ref().unwrap().as_ref().unwrap().covered;
                assert_eq!(span(last), Basis::spanning(case.masks.iter().map(|mask| mask & covered)), "{seed}");
                assert_eq!(last.ways, 16, "{seed}");
            }
            CacheAnswer::Partial(last, _) => assert_eq!(last.ways, 16, "{seed}: {report:?}"),
            CacheAnswer::Nothing(_) => {}
        }
    }
}

#[test]
fn what_is_found_is_a_section_of_a_platform_file_with_the_same_colors() {
    for id in ["haswell-e3-1230", "skl-e3-1220v5-4x4g", "nehalem-w3530", "p4080", "opteron-6128-camc"] {
        let platform = Platform::load(id).unwrap();
        let pool = Pool::new(platform.regions().iter().map(|region| region.base..region.end()), 64).unwrap();
        let mut machine = CacheMachine::of_platform(&platform, pool, Noise::QUIET, 6).unwrap();
        let report = probe_cache(&mut machine, 6).unwrap();
        let CacheAnswer::Found(last) = &report.answer else { panic!("{id}: {report:?}") };
        let mut file = platform.file().clone();
        file.llc = Some(last.section("measured"));
        let found = Platform::parse(&file.to_toml(), "found.toml").unwrap();
        assert_eq!(found.llc().unwrap().size, platform.llc().unwrap().size, "{id}");
        let [own, other] = [&platform, &found].map(|platform| Palette::new(platform, Granule::PAGE).unwrap());
        assert_eq!((u64::from(own.set_colors()), own.set_colors()), (last.page_colors(), other.set_colors()), "{id}");
        assert!(last.color_bits().eq(last.set_bits.iter().copied().filter(|&bit| bit >= 12)), "{id}");
        // Pages have one color here exactly if they have one there.
        let mut random = Random::new(1);
        let mut names = std::collections::HashMap::new();
        for _ in 0..2000 {
            let addr = machine.pool().any(&mut random);
            let (a, b) = (own.set_color(addr).unwrap(), other.set_color(addr).unwrap());
            assert_eq!(*names.entry(a).or_insert(b), b, "{id}");
        }
        let mut values: Vec<u32> = names.values().copied().collect();
        values.sort_unstable();
        values.dedup();
        assert_eq!(values.len(), names.len(), "{id}");
    }
}

#[test]
fn a_recorded_probe_of_caches_and_nodes_is_repeated_bit_for_bit() {
    let machine = || {
        let platform = Platform::load("rpi4-2g").unwrap();
        let pool = Pool::new(platform.regions().iter().map(|region| region.base..region.end()), 64).unwrap();
        CacheMachine::of_platform(&platform, pool, Noise::TYPICAL, 8).unwrap()
    };
    let mut log = Vec::new();
    begin_log(&mut log, &[]).unwrap();
    let mut recorder = Recorder::of_caches(machine(), &mut log).unwrap();
    let caches = probe_cache(&mut recorder, 2).unwrap();
    recorder.finish().unwrap();
    let mut recorder = Recorder::of_nodes(machine(), &mut log).unwrap();
    let nodes = probe_nodes(&mut recorder, 2).unwrap();
    recorder.finish().unwrap();
    assert!(matches!(caches.answer, CacheAnswer::Found(_)));

    let mut read = Log::new("a log", &log[..]).unwrap();
    let again = probe_cache(&mut read.part(LogPart::Caches).unwrap(), 2).unwrap();
    assert_eq!(format!("{again:?}"), format!("{caches:?}"));
    assert_eq!(probe_nodes(&mut read.part(LogPart::Nodes).unwrap(), 2).unwrap(), nodes);
    read.end().unwrap();

    let mut read = Log::new("a log", &log[..]).unwrap();
    let error = probe_cache(&mut read.part(LogPart::Caches).unwrap(), 3).unwrap_err().to_string();
    assert!(error.contains("the probe asked for reload 1 0x"), "{error}");
    // Many lines are told from others by their hash.
    let text = String::from_utf8(log).unwrap();
    let (question, _) = text.lines().find(|line| line.contains(" lines 0x")).unwrap().split_once(" =").unwrap();
    let other = text.replacen(question, &format!("{question}0"), 1);
    let mut read = Log::new("a log", other.as_bytes()).unwrap();
    let error = probe_cache(&mut read.part(LogPart::Caches).unwrap(), 2).unwrap_err().to_string();
    assert!(error.contains(&format!("{question}0; the probe asked for {question}")), "{error}");

    let begin = "memtint probe log 2\npart llc\nknown_bits 64\npiece 0x0 0x1000\n";
    for wrong in ["line 65", "private 3 8", "private 64", "groups 0", "node 0 0x0"] {
        let text = format!("{begin}{wrong}\n");
        let mut read = Log::new("a log", text.as_bytes()).unwrap();
        let error = read.part(LogPart::Caches).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!(
                "a log: line 5: {wrong:?} found; accepted is readers and a number; line and a power"
            )),
            "{error}"
        );
    }
}

/// The machine of four nodes in the catalogue, at distances.
fn nodes(distances: Vec<Vec<f64>>, noise: Noise) -> CacheMachine {
    let platform = Platform::load("opteron-6128-camc").unwrap();
    let pool = Pool::new(platform.regions().iter().map(|region| region.base..region.end()), 64).unwrap();
    CacheMachine::of_platform(&platform, pool, noise, 1).unwrap().distances(distances)
}

#[test]
fn the_order_of_nodes_is_found_or_said_to_be_unknown() {
    let square: Vec<Vec<f64>> =
        (0..4u32).map(|a| (0..4u32).map(|b| 40.0 * f64::from((a ^ b).count_ones())).collect()).collect();
    for noise in [Noise::NONE, Noise::QUIET, Noise::TYPICAL] {
        for seed in 0..5 {
            let report = probe_nodes(&mut nodes(square.clone(), noise), seed).unwrap();
            assert_eq!(report.nodes, [0, 1, 2, 3]);
            for (group, distance) in square.iter().enumerate() {
                assert_eq!(report.nearest(group), Some(group), "{noise:?}: {report:?}");
                for &(a, b, nearer) in &report.order[group] {
                    let (near, far) = (distance[a], distance[b]);
                    let right = if near < far { Nearer::First } else { Nearer::Second };
                    assert!(
                        nearer == right || near == far && nearer == Nearer::Neither,
                        "{a} {b} {nearer:?}: {report:?}"
                    );
                }
                for (place, latency) in report.latencies[group].iter().enumerate() {
                    let (local, own) = (&report.latencies[group][group], distance[place]);
                    assert!(latency.between[0] <= latency.median && latency.median <= latency.between[1]);
                    assert!((latency.median - local.median - own).abs() < 30.0, "{group} {place}: {report:?}");
                    assert!(latency.samples >= 32 && latency.spread < 60.0, "{report:?}");
                }
            }
        }
    }
    let flat = vec![vec![0.0; 4]; 4];
    for seed in 0..5 {
        let report = probe_nodes(&mut nodes(flat.clone(), Noise::TYPICAL), seed).unwrap();
        assert!(report.order.iter().flatten().all(|&(_, _, nearer)| nearer == Nearer::Neither), "{report:?}");
        assert_eq!(report.nearest(0), None);
    }
}
