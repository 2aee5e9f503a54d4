//! Does a recording hold what the program did?

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::missing;
use memtint_recorder::{RecordOptions, Recording, record};
use memtint_workload::trace::Sampling;
use memtint_workload::{Kind, Reference, Source, TraceFile};

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()))
}

/// Compiles a program of `tests/programs` for one test.
fn compile(name: &str, test: &str) -> PathBuf {
    let product = scratch(test);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(format!("{name}.c"));
    let mut compiler = Command::new("cc");
    compiler
        .args(["-O1", "-fno-tree-vectorize", "-Wall", "-Werror", "-pthread", "-static", "-o"])
        .arg(&product)
        .arg(source);
    assert!(compiler.status().unwrap().success());
    product
}

fn recorded(program: &Path, change: impl FnOnce(&mut RecordOptions)) -> (Recording, TraceFile) {
    let output = program.with_extension("trace");
    let mut options = RecordOptions::new(program.as_os_str(), &output);
    change(&mut options);
    let recording = record(&options, |_| {}).unwrap();
    let file = TraceFile::open(&output).unwrap();
    file.verify().unwrap();
    assert_eq!(file.ending(), &recording.ending);
    std::fs::remove_file(output).unwrap();
    (recording, file)
}

fn references(file: &TraceFile, stream: u32) -> Vec<Reference> {
    let mut source = file.source(stream);
    let all = std::iter::from_fn(|| source.next()).collect();
    assert!(source.failure().is_none());
    all
}

/// The longest run of references of 8 bytes of a kind that go up by 8 bytes.
fn longest_walk(references: &[Reference], kind: Kind) -> Vec<Reference> {
    let (mut best, mut run): (Vec<Reference>, Vec<Reference>) = (Vec::new(), Vec::new());
    for &reference in references.iter().filter(|reference| reference.kind == kind && reference.bytes == 8) {
        if run.last().is_some_and(|last| reference.addr != last.addr + 8) {
            run.clear();
        }
        run.push(reference);
        if run.len() > best.len() {
            best.clone_from(&run);
        }
    }
    best
}

#[test]
fn an_array_that_is_written_and_read_back() {
    if missing() {
        return;
    }
    let program = compile("array", "an_array_that_is_written_and_read_back");
    let (recording, file) = recorded(&program, |options| options.arguments = vec!["5000".into(), "3".into()]);
    // The program ends with the sum of the array modulo 100: 3 * (0 + ... + 4999).
    assert_eq!(recording.status.code(), Some(3 * (4999 * 5000 / 2) % 100));
    assert_eq!(recording.ending.exit.as_deref(), Some(format!("status {}", 3 * (4999 * 5000 / 2) % 100).as_str()));
    let all = references(&file, 0);
    let written = longest_walk(&all, Kind::Write);
    assert_eq!(written.len(), 5000);
    let begin = written[0].addr;
    let inside = |r: &&Reference| r.addr >= begin && r.addr < begin + 40_000;
    assert_eq!(all.iter().filter(inside).filter(|r| r.kind == Kind::Write).count(), 5000);
    let reads: Vec<u64> = all.iter().filter(inside).filter(|r| r.kind == Kind::Read).map(|r| r.addr).collect();
    let expected: Vec<u64> = (0..3).flat_map(|_| (0..5000).map(|index| begin + index * 8)).collect();
    assert_eq!(reads, expected);
    // A loop of a few instructions around each access.
    assert!(written[1..].iter().all(|r| (1..8).contains(&r.gap) && !r.shares), "{:?}", written[1]);
    let stream = file.streams()[0];
    assert_eq!(stream.instructions, stream.executed_instructions);
    assert!(stream.instructions > 5000 * 4 * 3, "{stream:?}");
    assert_eq!(stream.references, all.len() as u64);
}

#[test]
fn a_chase_depends_and_a_walk_does_not() {
    if missing() {
        return;
    }
    let program = compile("chase", "a_chase_depends_and_a_walk_does_not");
    let (recording, file) = recorded(&program, |_| {});
    assert_eq!(recording.status.code(), Some(0));
    let all = references(&file, 0);
    // 1000 nodes of 64 bytes; after the walk that links them, 10 rounds of 1000 loads.
    let dependent: Vec<&Reference> = all.iter().filter(|r| r.depends && r.addr % 64 == 0).collect();
    let rounds = dependent.windows(2).filter(|pair| pair[1].addr.wrapping_sub(pair[0].addr) % 64 == 0).count();
    assert!((9_900..10_200).contains(&rounds), "{rounds}");
    let share = all.iter().filter(|r| r.depends).count() as f64 / all.len() as f64;
    assert!(share < 0.9, "{share}: not everything depends");
}

#[test]
fn every_thread_is_a_stream() {
    if missing() {
        return;
    }
    let program = compile("threads", "every_thread_is_a_stream");
    let (recording, file) = recorded(&program, |_| {});
    assert_eq!(recording.status.code(), Some(0));
    // The main thread, and 40 threads of which four live at a time; thread i writes 1000 * (i + 1) words.
    let mut walks: Vec<usize> =
        file.streams().iter().map(|s| longest_walk(&references(&file, s.stream), Kind::Write).len()).collect();
    assert_eq!(walks.len(), 41);
    walks.sort_unstable();
    assert_eq!(walks[1..], (1..=40).map(|index| index * 1000).collect::<Vec<_>>()[..]);
}

#[test]
fn windows_begin_and_end_where_they_should() {
    if missing() {
        return;
    }
    let program = compile("array", "windows_begin_and_end_where_they_should");
    let sampling = Sampling { skip_instructions: 20_000, sample_instructions: 1000, period_instructions: Some(10_000) };
    let (_, file) = recorded(&program, |options| {
        options.arguments = vec!["5000".into(), "20".into()];
        options.sampling = Some(sampling);
    });
    let stream = file.streams()[0];
    let expected = (stream.executed_instructions - 20_000).div_ceil(10_000);
    assert_eq!(stream.windows, expected, "{stream:?}");
    // A translated block has a few instructions; the last window may be cut.
    let recorded = stream.instructions as i64 - 1000 * expected as i64;
    assert!(recorded.abs() < 1000 + 64 * expected as i64, "{stream:?}");
    let mut source = file.source(0);
    while source.next().is_some() {
        let place = (source.instruction() - 20_000) % 10_000;
        assert!(place < 1000 + 512, "a reference at {}", source.instruction());
    }
    assert_eq!(file.header().sampling, Some(sampling));
}

#[test]
fn a_limit_stops_the_recording_and_not_the_program() {
    if missing() {
        return;
    }
    let program = compile("array", "a_limit_stops_the_recording_and_not_the_program");
    let (recording, file) = recorded(&program, |options| {
        options.arguments = vec!["5000".into(), "3".into()];
        options.limit = Some(777);
    });
    assert_eq!(recording.status.code(), Some(3 * (4999 * 5000 / 2) % 100));
    assert_eq!(references(&file, 0).len(), 777);
    assert!(recording.ending.notes.iter().any(|note| note.contains("777")), "{:?}", recording.ending.notes);
}

#[test]
fn fetches_walk_through_the_code() {
    if missing() {
        return;
    }
    let program = compile("array", "fetches_walk_through_the_code");
    let with = |fetches| {
        let (_, file) = recorded(&program, |options| {
            options.arguments = vec!["100".into(), "1".into()];
            options.fetches = fetches;
        });
        assert_eq!(file.header().fetches, fetches);
        let all = references(&file, 0);
        let fetches: Vec<Reference> = all.iter().filter(|r| r.kind == Kind::Fetch).copied().collect();
        (fetches, all.len(), file.ending().instructions())
    };
    let ((fetches, all, instructions), (none, data, same_instructions)) = (with(true), with(false));
    assert!(none.is_empty() && fetches.len() > 100 && fetches.len() == all - data, "{} {all} {data}", fetches.len());
    assert!(fetches.iter().all(|r| r.addr % 64 == 0 && r.bytes == 64 && r.shares));
    assert!(fetches.windows(2).all(|pair| pair[0].addr != pair[1].addr));
    assert_eq!(instructions, same_instructions);
}

#[test]
fn children_run_unrecorded_and_are_counted() {
    if missing() {
        return;
    }
    let program = compile("children", "children_run_unrecorded_and_are_counted");
    let (recording, file) = recorded(&program, |_| {});
    // The child writes 100000 words and ends with 7; the parent ends with what the child did, and wrote 1000 words.
    assert_eq!(recording.status.code(), Some(7));
    assert_eq!(longest_walk(&references(&file, 0), Kind::Write).len(), 1000);
    assert_eq!(file.streams().len(), 1);
    assert!(
        recording.ending.notes.iter().any(|note| note.starts_with("1 calls to start a child")),
        "{:?}",
        recording.ending.notes
    );
}

#[test]
fn a_program_that_is_killed_leaves_a_whole_file() {
    if missing() {
        return;
    }
    let program = compile("array", "a_program_that_is_killed_leaves_a_whole_file");
    let (recording, file) = recorded(&program, |options| options.arguments = vec!["5000".into(), "0".into()]);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&recording.status), Some(9));
    assert_eq!(longest_walk(&references(&file, 0), Kind::Write).len(), 5000);
    assert_eq!(recording.ending.notes[0], "the program was ended by signal 9");
}
