//! Is what a file says what comes out, and is each mistake named?

use memtint_analysis::{Inside, TaskSystem};
use memtint_hiding::crs::{Density, Kind, RankOrder};
use memtint_hiding::cyclic::{Sharing, Slicing};
use memtint_sched::{HitCap, Interference};
use memtint_units::Picoseconds;

const FILE: &str = r#"
[[task]]
name = "cnt"
period = "20 ms"
wcet = "3 ms"
deadline = "19.5 ms"
jitter = "10 us"
priority = 2
lines = 100
ranks = 2
copy = "1.6 us"
program = "refresh/cnt"
server = "S1"

[[task]]
name = "matmult"
period = "40 ms"
wcet = "10 ms"
server = "S2"

[refresh]
mode = "fgr2"
interval = "7.8 us"
duration = "350 ns"
reopen = "28 ns"

[memory]
ranks = 8
density = 16
bursts = "serial"
lock = "20 us"

[cyclic]
frame = "8 ms"
slicing = "whole-frames"
copies_max = 3

[[color]]
name = "c1"
ranks = "0-3"
phase = "32 ms"

[[color]]
name = "c2"
ranks = "!0-3"

[[server]]
name = "S1"
color = "c1"
period = "4 ms"
budget = "2.4 ms"
scheduling = "rm"

[[server]]
name = "S2"
color = "c2"
core = 1
period = "4 ms"
budget = "1.6 ms"
kind = "idle-consuming"
"#;

fn ms(value: u64) -> Picoseconds {
    Picoseconds::from_ns(value * 1_000_000)
}

#[test]
fn everything_in_a_file_comes_out() {
    let file = TaskSystem::parse("file", FILE).unwrap();
    let cnt = &file.set.tasks()[0];
    assert_eq!((cnt.name(), cnt.period(), cnt.deadline().0), ("cnt", ms(20), 19_500_000_000));
    let [first, second] = &file.tasks[..] else { panic!("two tasks") };
    assert_eq!((first.priority, first.ranks, first.copy.0, first.server), (Some(2), 2, 1_600_000, Some(0)));
    assert_eq!((first.program.as_deref(), cnt.lines()), (Some("refresh/cnt"), 100));
    assert_eq!((second.priority, second.ranks, second.copy.0, second.server), (None, 1, 0, Some(1)));
    let memory = file.memory.unwrap();
    assert_eq!((memory.ranks, memory.density, memory.t_rfc.0), (8, Some(Density::Gb16), 550_000));
    assert_eq!((memory.retention, memory.bursts, memory.lock.0), (ms(64), RankOrder::Serial, 20_000_000));
    let cyclic = file.cyclic;
    assert_eq!((cyclic.frame, cyclic.color_frame, cyclic.copies_max), (Some(ms(8)), None, Some(3)));
    assert_eq!((cyclic.sharing, cyclic.slicing), (Sharing::Private, Slicing::WholeFrames));
    assert_eq!((file.colors[0].phase, &file.colors[1].ranks), (ms(32), &vec![4, 5, 6, 7]));
    let kinds: Vec<(Kind, Inside, u32)> =
        file.servers.iter().map(|server| (server.kind, server.inside, server.core)).collect();
    assert_eq!(kinds, [(Kind::Deferrable, Inside::RateMonotonic, 0), (Kind::IdleConsuming, Inside::Edf, 1)]);
    assert_eq!((file.terms.len(), file.refresh.is_some()), (1, true));
}

#[test]
fn every_mistake_is_named() {
    let table = [
        ("name = \"cnt\"", "name = \"\"", "file: task \"\": name is \"\"; accepted is a text that is not empty"),
        ("name = \"cnt\"\n", "", "file: task 0 (counted from 0): missing: name (1 to 64 letters"),
        ("\"20 ms\"", "20", "file: task \"cnt\": period is 20; accepted is a text with a number and its unit"),
        ("\"3 ms\"", "\"3\"", "file: task \"cnt\": wcet is \"3\"; accepted is a text with a number and its unit"),
        ("\"3 ms\"", "\"0.4 ps\"", "file: task \"cnt\": wcet is \"0.4 ps\""),
        ("lines = 100", "lines = 0", "file: task \"cnt\": lines is 0; accepted is a whole number from 1 on"),
        ("ranks = 2", "ranks = 65", "file: task \"cnt\": ranks is 65; accepted is a whole number, 1 to 64"),
        ("server = \"S1\"", "server = \"S3\"", "server is \"S3\"; accepted is the name of a server of this file"),
        ("priority", "prio", "file: task \"cnt\": \"prio\" is no field; the nearest is \"priority\""),
        ("\"fgr2\"", "\"fgr3\"", "file: refresh: mode is \"fgr3\"; accepted is one of \"auto\", \"fgr2\", \"fgr4\""),
        ("density = 16", "density = 12", "file: memory: density is 12; accepted is gigabits of a chip: 1, 2,"),
        ("density = 16", "", "file: memory: missing: t_rfc (a time, or density in gigabits of a chip)"),
        ("density = 16", "density = 16\nt_rfc = \"1 ns\"", "t_rfc is \"1 ns\"; accepted is either t_rfc or density"),
        ("ranks = 8", "ranks = 0", "file: memory: ranks is 0; accepted is a whole number, 1 to 64"),
        ("ranks = 8", "", "file: memory: missing: ranks (a whole number, 1 to 64)"),
        ("\"serial\"", "\"some\"", "file: memory: bursts is \"some\"; accepted is \"parallel\" or \"serial\""),
        ("\"whole-frames\"", "1", "file: cyclic: slicing is 1; accepted is \"free\" or \"whole-frames\""),
        ("\"0-3\"", "\"0-8\"", "file: color \"c1\": ranks is \"0-8\"; accepted is a list of ranks below 8"),
        ("name = \"c2\"", "name = \"c1\"", "file: color \"c1\": name is \"c1\"; accepted is a name that no other"),
        ("color = \"c2\"", "color = \"c3\"", "file: server \"S2\": color is \"c3\"; accepted is the name of a color"),
        ("name = \"S2\"\nc", "name = \"S1\"\nc", "file: server \"S1\": name is \"S1\"; accepted is a name that no"),
        ("core = 1", "core = 1024", "file: server \"S2\": core is 1024; accepted is a whole number, 0 to 1023"),
        (
            "\"rm\"",
            "\"rr\"",
            "file: server \"S1\": scheduling is \"rr\"; accepted is one of \"edf\", \"rm\", \"dm\", \"fp\"",
        ),
    ];
    for (from, to, message) in table {
        assert!(FILE.contains(from), "{from}");
        let error = TaskSystem::parse("file", &FILE.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error.contains(message), "{to:?}: {error}");
    }
    let colors = "[[task]]\nname = \"a\"\nperiod = \"1 ms\"\nwcet = \"1 ms\"\n[[color]]\nname = \"c\"\nranks = \"0\"\n";
    let error = TaskSystem::parse("file", colors).unwrap_err().to_string();
    assert!(
        error.contains("color \"c\": ranks is \"0\"; accepted is [memory] with the number of ranks first"),
        "{error}"
    );
}

const SHARED: &str = "[shared_banks]\nrequest_delay = \"40 ns\"\nhit = \"10 ns\"\nconflict = \"60 ns\"\n\
    overtaking_each_request = 16\nrequests_at_once_max = 1\nsharer = [{ regulator = { period = \"1 ms\", lines = 10 } }]\n";
const PARALLEL: &str = "[parallel_banks]\nread_delay = \"40 ns\"\nwrite_delay = \"30 ns\"\nturn = \"20 ns\"\n\
    write_entries = 32\ndrain_at = 26\ndrain_to = 6\nrequests_at_once_max = 10\nprivate_banks = true\n\
    write_back = true\ncore = [{ requests_at_once_max = 8 }]\n";

#[test]
fn other_cores_are_terms_of_three_kinds() {
    let task = "[[task]]\nname = \"a\"\nperiod = \"1 ms\"\nwcet = \"1 us\"\nlines = 5\n";
    let read = |tables: &str| TaskSystem::parse("file", &format!("{task}{tables}"));
    let shared = read(SHARED).unwrap();
    let [Interference::SharedBanks(banks)] = &shared.terms[..] else { panic!("{:?}", shared.terms) };
    assert_eq!(
        (banks.rows.conflict.0, banks.overtaking, banks.sharers.len()),
        (60_000, Some(HitCap::EachRequest(16)), 1)
    );
    let parallel = read(PARALLEL).unwrap();
    let [Interference::ParallelBanks(banks)] = &parallel.terms[..] else { panic!("{:?}", parallel.terms) };
    assert_eq!((banks.turn.0, banks.neighbours[0].requests_at_once_max, banks.write_back), (20_000, 8, true));
    for file in [shared, parallel] {
        let again = TaskSystem::parse("file", &file.to_string()).unwrap();
        assert_eq!(again.terms, file.terms);
    }
    let refused = [
        (format!("{SHARED}{PARALLEL}"), "banks, shared_banks or parallel_banks is \"with another of these tables\""),
        (SHARED.replace("hit =", "overtaking_each_row = 4\nhit ="), "overtaking_each_row is 4; accepted is it or"),
        (SHARED.replace("{ regulator", "{ requests_at_once_max = 1, regulator"), "accepted is none: it is that of"),
        (PARALLEL.replace("write_back = true", "write_back = 1"), "write_back is 1; accepted is true or false"),
        (PARALLEL.replace("drain_to = 6", "drain_to = 26"), "write buffer: drain_to is 26; accepted is 0 to 25"),
        (
            PARALLEL.replace("{ requests_at_once_max = 8 }", "{}"),
            "parallel_banks.core 0 (counted from 0): missing: requests_at_once_max",
        ),
    ];
    for (tables, message) in refused {
        let error = read(&tables).unwrap_err().to_string();
        assert!(error.contains(message), "{message}: {error}");
    }
}

const REGULATED: &str = "[[task]]\nname = \"a\"\nperiod = \"10 ms\"\nwcet = \"1 us\"\nlines = 5\n\
    [regulator]\nperiod = \"1 ms\"\nlines = 1000\nquantum = 64\nskid_events = 16\noverhead = \"2 us\"\nkind = \"soft\"\n\
    guaranteed = 2160\n\
    [banks]\nrequest_delay = \"40 ns\"\nprivate_banks = true\nrequests_at_once_max = 1\n\
    [[banks.core]]\nregulator = { period = \"1 ms\", lines = 1000, quantum = 64, skid_events = 16, kind = \"soft\" }\n";

#[test]
fn reservations_are_summed_and_equality_is_enough() {
    let file = TaskSystem::parse("file", REGULATED).unwrap();
    assert_eq!(file.guaranteed, Some(2160));
    let [Interference::Banks(banks), Interference::Regulator(own)] = &file.terms[..] else {
        panic!("{:?}", file.terms)
    };
    assert_eq!((own.most(), own.reclaims(), own.zeros()), (1080, true, vec![]));
    assert_eq!(banks.neighbours[0].regulator.unwrap().zeros(), ["overhead"]);
    assert_eq!(banks.neighbours[0].donated, 1000, "the core's own budget is what the other can have of it");
    let hard = TaskSystem::parse("file", &REGULATED.replacen("kind = \"soft\"\n", "", 1)).unwrap();
    let Interference::Banks(banks) = &hard.terms[0] else { panic!("{:?}", hard.terms) };
    assert_eq!(banks.neighbours[0].donated, 0, "a hard core donates nothing");
    let again = TaskSystem::parse("file", &file.to_string()).unwrap();
    assert_eq!((again.terms, again.guaranteed), (file.terms, file.guaranteed));
    let neighbour = "regulator = { period = \"1 ms\", lines = 1000, quantum = 64, skid_events = 16, kind = \"soft\" }";
    let refused = [
        (
            "guaranteed = 2160",
            "guaranteed = 2159",
            "guaranteed is 2159; accepted is 2160 or more: lines, quanta and skid_events of 2 cores",
        ),
        (
            neighbour,
            "",
            "guaranteed is 2160; accepted is none, where a core has no regulator: nothing is guaranteed then",
        ),
        (
            "lines = 1000, quantum",
            "lines = 1000, guaranteed = 5, quantum",
            "regulator.guaranteed is 5; accepted is none: it is that of [regulator]",
        ),
        (
            "lines = 1000, quantum",
            "lines = 1000, sharing = \"spare\", quantum",
            "sharing is \"different for regulators of this file\"; accepted is the same for all cores",
        ),
        ("{ period = \"1 ms\"", "{ period = \"2 ms\"", "accepted is the same for all cores, when one of them is soft"),
        ("kind = \"soft\"\n", "kind = \"weak\"\n", "regulator: kind is \"weak\"; accepted is \"hard\" or \"soft\""),
        ("overhead = \"2 us\"", "overhead = \"2 ms\"", "regulator: overhead is 2 ms; accepted is 0 ps to 1 ms"),
    ];
    let hard = REGULATED.replace("kind = \"soft\"\n", "").replace(", kind = \"soft\"", "");
    let unknown = &hard[..hard.find("[banks]").unwrap()];
    let apart = hard.replace("{ period = \"1 ms\"", "{ period = \"2 ms\"");
    for (text, message) in
        [(unknown, "none, without a table of the other cores"), (&apart, "none, unless the period is the same")]
    {
        let error = TaskSystem::parse("file", text).expect_err(message).to_string();
        assert!(error.contains(message), "{error}");
    }
    assert!(
        TaskSystem::parse("file", &apart.replace("guaranteed = 2160\n", "")).is_ok(),
        "bounds need no common period"
    );
    for (from, to, message) in refused {
        assert!(REGULATED.contains(from), "{from}");
        let error = TaskSystem::parse("file", &REGULATED.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error.contains(message), "{to:?}: {error}");
    }
}
