//! Does the state machine in C, for use in the kernel, decide as this crate does? `kernel/modules/memguard/guard.h` is built for user
//! space with sanitizers, and replays logs of random events. So is `request.h`, which reads what is written to the module.
//!
//! `cargo test -p memtint-guard --test it in_c::`. Needs make and gcc.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::log::{EVENTS, Log, SYSTEMS};

/// Builds the C programs, once, and gives the folder they are in.
fn programs() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("memguard-unit");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel/modules/memguard/unit");
        let build = format!("BUILD={}", folder.display());
        let make = Command::new("make").arg("-C").arg(source).args(["--no-print-directory", &build]).output();
        let output = make.expect("make is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        folder
    })
}

/// Runs a program with this input, which is written while its answer is read.
fn answer(name: &str, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut command = Command::new(programs().join(name));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it has been built");
    let mut stdin = child.stdin.take().expect("it is piped");
    let output = std::thread::scope(|scope| {
        // It may end without reading.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().expect("it was started")
    });
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn it_decides_as_this_crate_does_on_random_events() {
    let mut kinds = std::collections::BTreeSet::new();
    for seed in 0..SYSTEMS {
        let log = Log::of_seed(seed);
        let told: Vec<u8> = log.told.iter().flat_map(|number| number.to_ne_bytes()).collect();
        let found = answer("replay", &[], &told);
        let found: Vec<u32> = found.chunks_exact(4).map(|four| u32::from_ne_bytes(four.try_into().unwrap())).collect();
        let mut rest = found.as_slice();
        for (event, expected) in log.answers.iter().enumerate() {
            let first = log.told.len() - 4 * (EVENTS - event);
            let (found, after) = rest.split_at(rest.len().min(expected.len()));
            assert_eq!(found, expected, "seed {seed}, event {event}: {:?}", &log.told[first..first + 4]);
            rest = after;
            let actions = expected[3..3 + 4 * expected[2] as usize].chunks(4);
            kinds.extend(actions.map(|action| (action[0], action[1])));
            kinds.insert((3, expected[0]));
        }
        assert!(rest.is_empty(), "seed {seed}: {} numbers more", rest.len());
    }
    // All kinds of actions and signals have occurred.
    let all = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 2), (2, 3), (2, 4), (2, 5), (3, 0), (3, 1), (3, 2)];
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), all);
}

#[test]
fn cores_that_run_at_the_same_time_get_no_more_than_all_budgets() {
    let text = String::from_utf8(answer("race", &["20000", "1"], &[])).expect("text");
    // However the threads are scheduled, one of them uses all of the least budget once.
    let most = text.split(" at most ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
    assert!(most.is_some_and(|most: u32| (30..=130).contains(&most)), "{text}");
}

const REQUEST: &str = "memtint-guard 1\nperiod 1000000\nevent user 4 1c2 0 ff\nskid 200\nstep 25\nsharing spare\n\
                       group 100 hard 25 2\ngroup 2000000 soft 500 0 3 8191\nend\n";

fn read_request(text: &str) -> String {
    String::from_utf8(answer("request", &[], text.as_bytes())).expect("text")
}

#[test]
fn a_request_is_read_as_it_is_written() {
    let expected = "period 1000000 event user 4 1c2 0 ff skid 200 step 25 sharing spare\n\
                    group 100 hard 25 2\ngroup 2000000 soft 500 0 3 8191\n";
    assert_eq!(read_request(REQUEST), expected);
}

#[test]
fn a_request_that_is_not_right_is_refused_with_its_line() {
    for (right, wrong, refusal) in [
        ("memtint-guard 1", "memtint-guard 2", "line 1: the first line is not"),
        ("period 1000000\n", "period 1000000 \n", "line 2: more on this line"),
        ("period 1000000", "period 99999999999999999999", "line 2: the period is not"),
        ("event user", "event kernel", "line 3: the event is not"),
        ("ff\n", "10000000000000000\n", "line 3: the event is not"),
        ("skid 200", "skid -1", "line 4: the skid is not"),
        ("step 25", "step 0", "line 5: the step is not"),
        ("hard", "harder", "line 7: the kind is not"),
        ("hard 25 2", "hard 25", "line 7: a number or word is missing"),
        ("8191", "8192", "line 8: a CPU is not"),
        ("0 3 8191", "0 3 2", "line 8: a CPU has two budgets"),
        ("group 2000000", "group 2147483647", "line 9: budgets, quanta and skids add up to more"),
        ("group 100 hard 25 2", "group 5000 hard 1 2", "line 9: a budget is more than 4096 quanta"),
        ("hard 25 2", "hard 25 2 4 5 6 7", "line 9: a budget is less than a quantum for each CPU"),
        ("end\n", "end", "line 9: more on this line than it has, or no newline"),
        ("end\n", "end\n\n", "line 10: something follows the end"),
    ] {
        assert!(REQUEST.contains(right), "{right}");
        let found = read_request(&REQUEST.replacen(right, wrong, 1));
        assert!(found.starts_with(&format!("refused {refusal}")), "{wrong}: {found}");
    }
}

#[test]
fn no_request_is_read_beyond_its_end() {
    let text = String::from_utf8(answer("request", &["200000", "1"], REQUEST.as_bytes())).expect("text");
    // Some changes leave it right: the unchanged, and other digits.
    let accepted = text.split(' ').next().and_then(|count| count.parse::<u32>().ok());
    assert!(accepted.is_some_and(|count| (50_000..150_000).contains(&count)), "{text}");
}
