//! Is what timing tells of roles true behind controllers that send every command, and is nothing told where nothing shows?

use memtint_dram::{ControllerConfig, Device, DeviceChoice, Standard};
use memtint_map::gf2::{self, Basis};
use memtint_map::{Platform, Role};
use memtint_probe::{
    Answer, Area, ControllerMachine, Log, LogPart, Oracle, OracleError, Pool, Recorder, Roles, Settings, Surroundings,
    begin_log, probe,
};
use memtint_units::PhysAddr;

/// Another program, a coarse clock, and caches that answer.
const DISTURBED: [Surroundings; 3] = [
    Surroundings { other_each: 400, other_lines: 8, leak: 0.01, sigma: 8.0, quantum: 1 },
    Surroundings { sigma: 8.0, quantum: 24, ..Surroundings::IDLE },
    Surroundings { leak: 0.1, sigma: 5.0, ..Surroundings::IDLE },
];

fn device(standard: &str, bits: Option<u32>) -> Device {
    Standard::load(standard).unwrap().device(DeviceChoice { device_bits: bits, ..DeviceChoice::default() }).unwrap()
}

fn machine(platform: &Platform, device: &Device, around: Surroundings, seed: u64) -> ControllerMachine {
    let pool = Pool::new(platform.regions().iter().map(|region| region.base..region.end()), 64).unwrap();
    ControllerMachine::of_device(platform, device, ControllerConfig::default(), pool, around, seed).unwrap()
}

fn area(oracle: &mut dyn Oracle, seed: u64) -> Area {
    let report = probe(oracle, &Settings { seed, ..Settings::default() }, &mut |_| {}).unwrap();
    let Answer::Mapping(mut mapping) = report.answer else { panic!("{report:?}") };
    mapping.areas.remove(0)
}

/// What changes keep: the channel, and the rank too, and the bank group too.
fn truth(machine: &ControllerMachine, area: &Area) -> [Vec<u64>; 3] {
    let changes = area.solution.changes();
    let base = machine.pool().pieces().next().unwrap().start;
    let apart = |value: u64| machine.apart(base, PhysAddr(base.0 ^ gf2::sum(&changes, value)));
    let all = 0..1_u64 << changes.len();
    [Role::Rank, Role::BankGroup, Role::Bank]
        .map(|role| all.clone().filter(|&value| apart(value).is_none_or(|apart| apart >= role)).collect())
}

/// Panics unless what is told is so: the functions of the told roles up to each are exactly those that are 0 on what keeps them.
fn assert_true(machine: &ControllerMachine, area: &Area, what: &str) -> [usize; 4] {
    let roles = area.roles.as_ref().expect("the machine has readers");
    let kinds = [Role::Channel, Role::Rank, Role::BankGroup, Role::Bank];
    let counts = kinds.map(|role| roles.functions.iter().filter(|(_, own)| *own == role).count());
    let masks = |masks: &[(u64, Role)]| Basis::spanning(masks.iter().map(|&(mask, _)| mask));
    let found = area.solution.functions.iter().copied();
    assert_eq!(masks(&roles.functions), Basis::spanning(found), "{what}: {roles:?}");
    let changes = area.solution.changes();
    for (at, kept) in truth(machine, area).iter().enumerate() {
        // Where an inner role is told, so are all outside it.
        if counts[at..].iter().all(|&count| count == 0) {
            continue;
        }
        let outer = roles.functions.iter().filter(|(_, role)| kinds[..=at].contains(role));
        let outer: Vec<u64> = outer.map(|&(mask, _)| mask).collect();
        let own = (0..1_u64 << changes.len()).filter(|&value| gf2::evaluate(&outer, gf2::sum(&changes, value)) == 0);
        assert_eq!(&own.collect::<Vec<_>>(), kept, "{what}, {:?}: {roles:?}", kinds[at]);
    }
    counts
}

/// A machine with a role for each bit from 13 on, but for a function that has two.
fn plain(channels: u32, ranks: u32, groups: u32) -> Platform {
    let roles = [("channel", channels), ("rank", ranks), ("bank_group", groups), ("bank", 2)];
    let mut functions = String::new();
    let mut bit = 13;
    for (role, count) in roles {
        for _ in 0..count {
            functions += &format!("[[dram.functions]]\nrole = \"{role}\"\nbits = [{bit}, {}]\n", bit + 9);
            bit += 1;
        }
    }
    let text = format!(
        "schema = 1\nid = \"plain\"\nname = \"plain\"\n[dram]\nstandard = \"DDR4\"\naddress_bits = 33\ncomplete = false\nsource = \"a test\"\n\
         {functions}[[region]]\nbase = 0\nsize = \"8GiB\"\nsource = \"a test\"\n"
    );
    Platform::parse(&text, "plain.toml").unwrap()
}

#[test]
fn roles_are_told_behind_controllers() {
    let of = |id: &str| Platform::load(id).unwrap();
    // Functions of channel, rank, bank group and bank that are told; the rest is not.
    for (platform, standard, told) in [
        (of("ramses-ivyhaswell-1ch1d1r"), "ddr3-1600", [0, 0, 0, 0]),
        (of("ramses-ivyhaswell-1ch1d2r"), "ddr3-1600", [0, 1, 0, 0]),
        (of("ramses-sandy-2ch1d1r"), "ddr3-1066", [1, 0, 0, 0]),
        (of("imx8mm-evk"), "lpddr4-3200", [0, 0, 0, 0]),
        (of("zen2-ddr4-1r"), "ddr4-2400", [0, 0, 2, 2]),
        // A read of another rank is as late as one of the same bank group, and not.
        (of("zen3-ddr4-2r"), "ddr4-2400", [0, 1, 2, 2]),
        (of("zen3-ddr4-2r"), "ddr4-3200", [0, 1, 2, 2]),
        (of("skl-client-2ch2r-drama"), "ddr4-2133", [1, 1, 2, 2]),
        (of("rpl-ddr5-1r"), "ddr5-4800", [1, 0, 3, 2]),
        (plain(2, 1, 2), "ddr4-3200", [2, 1, 2, 2]),
    ] {
        let mut machine = machine(&platform, &device(standard, None), Surroundings::IDLE, 1);
        let what = format!("{}, {standard}", platform.id());
        let area = area(&mut machine, 1);
        assert_eq!(assert_true(&machine, &area, &what), told, "{what}: {:?}", area.roles);
    }
}

/// Two bank groups that each take twice as long as the bus are like two channels as long as rows stay open.
#[test]
fn two_bank_groups_are_not_taken_for_channels() {
    for (standard, tied) in [("ddr4-2400", false), ("ddr4-3200", true)] {
        let mut machine = machine(&plain(0, 0, 1), &device(standard, Some(16)), Surroundings::IDLE, 1);
        let area = area(&mut machine, 1);
        let told = assert_true(&machine, &area, standard);
        assert!(!tied || told == [0; 4], "{standard}: {told:?}");
    }
}

#[test]
fn what_disturbs_makes_nothing_wrong() {
    let mut told = [0; 4];
    for (id, standard) in [("zen3-ddr4-2r", "ddr4-3200"), ("ramses-sandy-2ch1d1r", "ddr3-1066")] {
        for (number, around) in DISTURBED.into_iter().enumerate() {
            let platform = Platform::load(id).unwrap();
            let mut machine = machine(&platform, &device(standard, None), around, 7);
            let area = area(&mut machine, 3);
            let counts = assert_true(&machine, &area, &format!("{id}, {number}"));
            println!("{id}, {number}: {counts:?} {:?}", area.roles.map(|roles| roles.untold));
            told.iter_mut().zip(counts).for_each(|(all, own)| *all += own);
        }
    }
    assert!(told.iter().all(|&told| told > 0), "of each role something is told: {told:?}");
}

/// A machine whose readers say something else.
struct Hostile {
    machine: ControllerMachine,
    says: fn(u64, &[PhysAddr], u32) -> u32,
    asked: u64,
}

impl Oracle for Hostile {
    fn pool(&self) -> &Pool {
        self.machine.pool()
    }

    fn time(&mut self, addresses: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError> {
        self.machine.time(addresses, rounds)
    }

    fn time_beside(&mut self, _: &[PhysAddr], _: &[PhysAddr], _: u32) -> Result<Option<Vec<u32>>, OracleError> {
        Ok(None)
    }

    fn readers(&self) -> u32 {
        self.machine.readers()
    }

    fn together(&mut self, lines: &[PhysAddr], readers: u32, rounds: u32) -> Result<Option<Vec<u32>>, OracleError> {
        let mut readings = self.machine.together(lines, readers, rounds)?;
        for reading in readings.iter_mut().flatten() {
            self.asked += 1;
            *reading = (self.says)(self.asked, lines, *reading);
        }
        Ok(readings)
    }
}

/// A number that looks drawn.
fn drawn(asked: u64) -> u32 {
    (asked.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as u32
}

#[test]
fn hostile_readers_are_not_believed() {
    let platform = Platform::load("zen2-ddr4-1r").unwrap();
    type Says = fn(u64, &[PhysAddr], u32) -> u32;
    let all: [(&str, Says, bool); 8] = [
        ("constant", |_, _, _| 200, false),
        ("random", |asked, _, _| drawn(asked) % 1000, false),
        ("as many ticks as lines", |_, lines, _| 100 * lines.len() as u32, false),
        ("slower and slower", |asked, _, truth| truth + (asked / 64) as u32, true),
        (
            "lying once in ten",
            |asked, _, truth| if drawn(asked).is_multiple_of(10) { drawn(!asked) % 2000 } else { truth },
            true,
        ),
        // Bank groups are as they are, and a multitude takes no time or always the same.
        ("no time", |_, lines, truth| if lines.len() > 4 { 1 } else { truth }, false),
        ("one time", |_, lines, truth| if lines.len() > 4 { 5000 } else { truth }, false),
        ("nothing", |_, _, _| 0, false),
    ];
    for (what, says, may_tell) in all {
        let machine = machine(&platform, &device("ddr4-3200", None), Surroundings::IDLE, 5);
        let mut hostile = Hostile { machine, says, asked: 0 };
        let area = area(&mut hostile, 2);
        let counts = assert_true(&hostile.machine, &area, what);
        println!("{what}: {counts:?} {:?}", area.roles.map(|roles| roles.untold));
        assert!(may_tell || counts == [0; 4], "{what}: {counts:?}");
    }
}

#[test]
fn a_recording_tells_the_same() {
    let platform = Platform::load("ramses-ivyhaswell-1ch1d2r").unwrap();
    let mut log = Vec::new();
    begin_log(&mut log, &[]).unwrap();
    let machine = machine(&platform, &device("ddr3-1600", None), DISTURBED[0], 2);
    let mut recorder = Recorder::of_dram(machine, &mut log).unwrap();
    let recorded = area(&mut recorder, 4);
    recorder.finish().unwrap();
    let mut read = Log::new("a log", &log[..]).unwrap();
    let replayed = area(&mut read.part(LogPart::Dram).unwrap(), 4);
    read.end().unwrap();
    assert!(recorded.roles.is_some());
    assert_eq!(replayed.roles, recorded.roles);
    // Of a machine without readers there are no questions to them, and none before there were any.
    let text = String::from_utf8(log).unwrap();
    let before = text.lines().filter(|line| !line.starts_with("readers ") && !line.starts_with("together "));
    let before = before.fold(String::new(), |text, line| text + line + "\n");
    let mut read = Log::new("an older log", before.as_bytes()).unwrap();
    let older = area(&mut read.part(LogPart::Dram).unwrap(), 4);
    read.end().unwrap();
    assert_eq!((older.roles, older.solution), (None, replayed.solution));
}

#[test]
fn what_is_told_is_written_down() {
    let platform = Platform::load("zen3-ddr4-2r").unwrap();
    let mut machine = machine(&platform, &device("ddr4-3200", None), Surroundings::IDLE, 1);
    let report = probe(&mut machine, &Settings::default(), &mut |_| {}).unwrap();
    let Answer::Mapping(mapping) = report.answer else { panic!("{report:?}") };
    let file = mapping.platform_files("probed", "a test", &[]).remove(0);
    let written = Platform::parse(&file.to_toml(), "probed.toml").unwrap();
    let of = |platform: &Platform, roles: &[Role]| {
        let own = platform.functions().iter().filter(|function| roles.contains(&function.role));
        Basis::spanning(own.map(|function| function.mask))
    };
    for roles in [&[Role::Rank][..], &[Role::Rank, Role::BankGroup], &[Role::Rank, Role::BankGroup, Role::Bank]] {
        assert_eq!(of(&written, roles), of(&platform, roles), "{roles:?}");
    }
    assert!(matches!(mapping.areas[0].roles, Some(Roles { untold: None, .. })));
}

/// The search does not depend on it.
#[test]
fn readers_change_nothing_before() {
    let platform = Platform::load("haswell-e3-1230").unwrap();
    let standard = device("ddr3-1600", None);
    let with = area(&mut machine(&platform, &standard, DISTURBED[0], 9), 6);
    let truth = machine(&platform, &standard, DISTURBED[0], 9);
    let mut without = Hostile { machine: truth, says: |_, _, _| 0, asked: 0 };
    let without = area(&mut without, 6);
    assert_eq!(
        (with.solution, with.verification, with.levels),
        (without.solution, without.verification, without.levels)
    );
}
