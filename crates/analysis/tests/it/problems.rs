//! Does a file become the problem or the system that it describes, is what is missing named, and is it the same as text again?

use memtint_analysis::{Cyclic, Inside, TaskSystem};
use memtint_hiding::crs::{Copied, Kind};
use memtint_hiding::cyclic::{Answer, Frames, Limits, color};
use memtint_sched::{Policy, Preemption, Priorities, TaskIndex};
use memtint_units::{ByteSize, Picoseconds};

const FILE: &str = r#"
[[task]]
name = "cnt"
period = "20 ms"
wcet = "3 ms"
deadline = "19.5 ms"
phase = "1 ms"
jitter = "10.000001 us"
blocking = "7 ps"
priority = 2
lines = 100
ranks = 2
copy = "1.6 us"
globals = "16 KiB"
program = "refresh/cnt"
server = "S\"1"

[[task]]
name = "matmult"
period = "40 ms"
wcet = "2 ms"
server = "S2"

[[task]]
name = "st"
period = "8 ms"
wcet = "100 us"
priority = 1
server = "S\"1"

[refresh]
mode = "fgr2"
interval = "7.8 us"
duration = "350 ns"
reopen = "28 ns"

[banks]
request_delay = "40 ns"
private_banks = true
requests_at_once_max = 1

[[banks.core]]
[banks.core.regulator]
period = "10 us"
lines = 60

[memory]
ranks = 8
t_rfc = "351 ns"
bursts = "serial"
lock = "20 us"
unlock = "1 us"

[cyclic]
frame = "8 ms"
color_frame = "16 ms"
sharing = "shared"
slicing = "whole-frames"
slice_cost = "2.789 us"
copies_max = 3

[[color]]
name = "c1"
ranks = "0-1,5-7"
phase = "32 ms"

[[color]]
name = "c2"
ranks = "!0-1,5-7"

[[server]]
name = "S2"
color = "c2"
core = 7
period = "4 ms"
budget = "1.6 ms"
kind = "idle-consuming"

[[server]]
name = "S\"1"
color = "c1"
core = 3
period = "4 ms"
budget = "2.4 ms"
scheduling = "fp"
"#;

fn ms(value: u64) -> Picoseconds {
    Picoseconds::from_ns(value * 1_000_000)
}

#[test]
fn a_file_is_the_same_as_text_again() {
    let file = TaskSystem::parse("file", FILE).unwrap();
    let text = file.to_string();
    let again = TaskSystem::parse("file", &text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(again.set, file.set);
    assert_eq!((&again.tasks, &again.servers, &again.colors), (&file.tasks, &file.servers, &file.colors));
    assert_eq!((again.memory, again.cyclic), (file.memory, file.cyclic));
    assert_eq!((format!("{:?}", again.terms), again.refresh), (format!("{:?}", file.terms), file.refresh));
    assert_eq!(again.to_string(), text);
    let plain = "[[task]]\nname = \"a\"\nperiod = \"1 ms\"\nwcet = \"1 us\"\n";
    assert_eq!(TaskSystem::parse("plain", plain).unwrap().to_string().trim_start(), plain);
}

#[test]
fn what_was_found_can_be_written() {
    let mut file = TaskSystem::parse("file", FILE).unwrap();
    file.cyclic = Cyclic { frame: Some(ms(4)), ..Cyclic::default() };
    file.servers[1].inside = Inside::RateMonotonic;
    file.servers[1].budget = Picoseconds(2_000_000_001);
    file.tasks[1].server = Some(1);
    let again = TaskSystem::parse("again", &file.to_string()).unwrap();
    assert_eq!((again.cyclic, &again.servers, &again.tasks), (file.cyclic, &file.servers, &file.tasks));
}

/// A task in both servers of a core: both instances are tasks of the system, a copy longer, and nobody takes them for two tasks.
#[test]
fn a_copy_task_is_in_two_servers() {
    // A period and a deadline are to fit between the locks.
    let text = FILE
        .replace("core = 3", "core = 7")
        .replace("period = \"40 ms\"", "period = \"8 ms\"")
        .replace("server = \"S2\"", "server = \"S2\"\npriority = 3\ncopy = \"50 us\"\ncopy_server = \"S\\\"1\"");
    let file = TaskSystem::parse("file", &text).unwrap();
    let again = TaskSystem::parse("again", &file.to_string()).unwrap();
    assert_eq!((&again.tasks, again.tasks[0].globals), (&file.tasks, Some(ByteSize(16 << 10))));
    let system = file.system().unwrap();
    assert_eq!(system.copied(), [Copied { core: 0, instances: [(0, TaskIndex(0)), (1, TaskIndex(1))] }]);
    assert_eq!((file.tasks_of(0), file.tasks_of(1)), (vec![TaskIndex(1)], [0, 1, 2].map(TaskIndex).to_vec()));
    let servers = &system.cores()[0].servers;
    for (server, task) in system.copied()[0].instances {
        let task = &servers[server].tasks.tasks()[task.index()];
        assert_eq!((task.name(), task.wcet()), ("matmult", ms(2) + Picoseconds(50_000_000)));
    }
    assert_eq!(servers[1].tasks.tasks()[0].wcet(), ms(3), "what has one instance copies nothing");
    let apart = FILE.replace("server = \"S2\"", "server = \"S2\"\npriority = 3\ncopy_server = \"S\\\"1\"");
    let same = text.replace("copy_server = \"S\\\"1\"", "copy_server = \"S2\"");
    for text in [apart, same] {
        let error = TaskSystem::parse("file", &text).unwrap().system().unwrap_err().to_string();
        assert!(
            error.contains("task \"matmult\": copy_server") && error.contains("another server of the core"),
            "{error}"
        );
    }
}

#[test]
fn times_are_written_exactly() {
    for ps in [0, 1, 999, 1000, 7_800_000, 20_000_000_001, 3_000_000_000_000, u64::MAX] {
        assert_eq!(Picoseconds(ps).to_string().parse(), Ok(Picoseconds(ps)));
    }
}

#[test]
fn a_system_has_cores_servers_and_tasks_in_their_order() {
    let file = TaskSystem::parse("file", FILE).unwrap();
    let system = file.system().unwrap();
    // Core 3 comes before core 7.
    assert_eq!(file.servers_of_cores(), [[1], [0]]);
    assert_eq!((file.tasks_of(0), file.tasks_of(1)), (vec![TaskIndex(1)], [0, 2].map(TaskIndex).to_vec()));
    let first = &system.cores()[0].servers[0];
    assert_eq!((first.group, first.kind, first.budget), (0, Kind::Deferrable, ms(12) - Picoseconds(9_600_000_000)));
    let names: Vec<&str> = first.tasks.tasks().iter().map(|task| task.name()).collect();
    assert_eq!(names, ["cnt", "st"]);
    let order = Priorities::given(&first.tasks, vec![TaskIndex(1), TaskIndex(0)]).unwrap();
    assert_eq!(first.policy, Policy::FixedPriority(order, Preemption::Full));
    let second = &system.cores()[1].servers[0];
    assert_eq!((second.group, second.kind, &second.policy), (1, Kind::IdleConsuming, &Policy::Edf));
    let refresh = system.refresh();
    assert_eq!((refresh.lock.0, refresh.unlock.0, refresh.retention), (20_000_000, 1_000_000, ms(64)));
    // One rank after another: five and three times 8192 commands.
    let bursts: Vec<u64> = refresh.groups.iter().map(|group| group.burst.0).collect();
    assert_eq!(bursts, [5 * 8192 * 351_000, 3 * 8192 * 351_000]);
    assert_eq!((refresh.groups[0].phase, &refresh.groups[1].ranks), (ms(32), &vec![2, 3, 4]));
}

#[test]
fn what_a_system_lacks_is_named() {
    let servers = FILE.find("[[server]]").unwrap();
    let colors = FILE.find("[[color]]").unwrap();
    let bare = |text: &str| text.replace("server = \"S\\\"1\"\n", "").replace("server = \"S2\"\n", "");
    let memory = FILE.find("[memory]").unwrap();
    let table = [
        (bare(&FILE[..memory]), "file: memory is missing; accepted is a table [memory]"),
        (bare(&FILE[..colors]), "file: color is missing; accepted is tables [[color]]"),
        (bare(&FILE[..servers]), "file: server is missing; accepted is tables [[server]]"),
        (bare(FILE), "file: task \"cnt\": server is missing; accepted is the name of a server of this file"),
        (
            FILE.replace("server = \"S2\"", "priority = 3\nserver = \"S\\\"1\""),
            "file: server \"S2\": tasks is missing; accepted is one or more tasks that name this server",
        ),
        (
            FILE.replace("priority = 1", ""),
            "file: task \"st\": priority is missing; accepted is a unique whole number, 1 for the highest",
        ),
        (FILE.replace("priority = 1", "priority = 2"), "priority is 2, which is that of task \"cnt\" too"),
        (FILE.replace("ranks = 2", "ranks = 6"), "task \"cnt\": ranks is 6; accepted is at most the 5 ranks of color"),
        (FILE.replace("\"!0-1,5-7\"", "\"2-3\""), "file: memory: ranks is rank 4 in no group"),
        (FILE.replace("phase = \"32 ms\"", "phase = \"3 ms\""), "locked time is"),
    ];
    for (text, message) in table {
        let file = TaskSystem::parse("file", &text).unwrap_or_else(|error| panic!("{message}: {error}"));
        let error = file.system().expect_err(message).to_string();
        assert!(error.contains(message), "{message:?}: {error}");
    }
}

fn tasks(rows: &[(&str, u64, u64)]) -> String {
    let one = |&(name, period, wcet): &(&str, u64, u64)| {
        format!("[[task]]\nname = \"{name}\"\nperiod = \"{period} ms\"\nwcet = \"{wcet} ms\"\n")
    };
    rows.iter().map(one).collect()
}

const MEMORY: &str = "[memory]\nranks = 8\ndensity = 8\n";

#[test]
fn frames_are_listed_the_longest_first() {
    // Table 4.4: rule (3) refuses 16 ms for lms, 4 ms divides everything.
    let rows = [("lms", 20, 4), ("compress", 32, 6), ("cnt", 32, 8), ("st", 40, 8), ("matmult", 80, 10)];
    let file = TaskSystem::parse("file", &(tasks(&rows) + MEMORY)).unwrap();
    let found: Vec<(u64, u64)> =
        file.frame_choices().unwrap().iter().map(|own| (own.size.0 / ms(1).0, own.color.0 / ms(1).0)).collect();
    assert_eq!(found, [(8, 8), (8, 16), (8, 32), (4, 8), (4, 16), (4, 32)]);
    // 64 Gb: 8192 commands of 2 us are 16.384 ms, for which 8 and 16 ms are too short.
    let text = tasks(&rows) + "[memory]\nranks = 8\ndensity = 64\n";
    let found = TaskSystem::parse("file", &text).unwrap().frame_choices().unwrap();
    assert_eq!(found.iter().map(|own| own.color).collect::<Vec<_>>(), [ms(32), ms(32)]);
    // Given is given, good or not.
    let text = tasks(&rows) + MEMORY + "[cyclic]\nframe = \"10 ms\"\n";
    let file = TaskSystem::parse("file", &text).unwrap();
    assert_eq!(file.frame_choices().unwrap(), [Frames::plain(ms(10))]);
    let error = file.problem(Frames::plain(ms(10))).unwrap_err().to_string();
    assert!(error.starts_with("file: cyclic: frames of 10 ms"), "{error}");
    let error = TaskSystem::parse("file", &tasks(&rows)).unwrap().frame_choices().unwrap_err().to_string();
    assert!(error.starts_with("file: memory is missing"), "{error}");
}

#[test]
fn a_problem_can_be_solved() {
    // Example 2 of 4.3.5.
    let text = tasks(&[("A", 20, 8), ("B", 40, 15)]) + MEMORY + "[cyclic]\nslice_cost = \"500 us\"\n";
    let file = TaskSystem::parse("file", &text).unwrap();
    let frames = file.frame_choices().unwrap()[0];
    assert_eq!(frames, Frames::plain(ms(8)));
    let answer = color(&file.problem(frames).unwrap(), Limits::default());
    let Answer::Schedulable(solution) = answer else { panic!("8 ms frames will do: {answer:?}") };
    assert_eq!(solution.executive.copies(), 0);
}
