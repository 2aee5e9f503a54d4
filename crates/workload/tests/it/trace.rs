//! Does a trace file give back what was put in, and is everything else refused?

use std::path::PathBuf;

use memtint_workload::trace::Sampling;
use memtint_workload::{Kind, Reference, Source, TraceFile, TraceHeader, TraceWriter, WorkloadError};
use proptest::prelude::*;

/// A directory of the test's own, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn reference() -> impl Strategy<Value = Reference> {
    let kind = prop_oneof![Just(Kind::Read), Just(Kind::Write), Just(Kind::Fetch)];
    let near = prop_oneof![any::<u64>(), 0x7000_0000_0000u64..0x7000_0000_1000];
    let gap = prop_oneof![0u32..9, any::<u32>()];
    (near, gap, 1u8..=255, kind, any::<bool>(), any::<bool>())
        .prop_map(|(addr, gap, bytes, kind, depends, shares)| Reference { addr, gap, bytes, kind, depends, shares })
}

fn collect(source: &mut dyn Source) -> Vec<Reference> {
    let all: Vec<Reference> = std::iter::from_fn(|| source.next()).collect();
    assert!(source.failure().is_none(), "{:?}", source.failure());
    all
}

/// A file of three blocks in two streams, one of them in two windows.
fn sample(scratch: &Scratch) -> Vec<u8> {
    let path = scratch.0.join("sample");
    let mut header = TraceHeader::named("sample");
    header.sampling =
        Some(Sampling { skip_instructions: 10, sample_instructions: 90, period_instructions: Some(1000) });
    let mut writer = TraceWriter::create(&path, &header).unwrap();
    for window in [10, 1010] {
        writer.window(0, window).unwrap();
        (0..30).for_each(|index| writer.push(0, &Reference::read(window + index * 64, 8, 2)).unwrap());
        writer.end_window(0, window + 92).unwrap();
    }
    (0..5).for_each(|index| writer.push(7, &Reference::write(index, 4, 0)).unwrap());
    writer.executed(0, 1234);
    let ending = writer.finish(Some("0".to_owned()), vec!["a note".to_owned()]).unwrap();
    assert_eq!((ending.references(), ending.instructions()), (65, 92 + 92 + 5));
    std::fs::read(path).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read(streams in prop::collection::vec(prop::collection::vec(reference(), 0..300), 1..4)) {
        let scratch = Scratch::new("round-trip");
        let path = scratch.0.join("trace");
        let mut writer = TraceWriter::create(&path, &TraceHeader::named("proptest")).unwrap();
        let longest = streams.iter().map(Vec::len).max().unwrap_or(0);
        for index in 0..longest {
            for (stream, references) in streams.iter().enumerate() {
                if let Some(reference) = references.get(index) {
                    writer.push(stream as u32, reference).unwrap();
                }
            }
        }
        let ending = writer.finish(None, Vec::new()).unwrap();
        let file = TraceFile::open(&path).unwrap();
        prop_assert_eq!(file.ending(), &ending);
        prop_assert_eq!(&file.header().program, "proptest");
        file.verify().unwrap();
        for (stream, references) in streams.iter().enumerate() {
            prop_assert_eq!(&collect(&mut file.source(stream as u32)), references);
        }
    }
}

#[test]
fn many_blocks_are_read_from_any_point_and_a_snapshot_goes_on() {
    let scratch = Scratch::new("blocks");
    let path = scratch.0.join("trace");
    let mut writer = TraceWriter::create(&path, &TraceHeader::named("blocks")).unwrap();
    let made = |index: u64| Reference { depends: index.is_multiple_of(3), ..Reference::read(index * 64, 8, 1) };
    let count = 200_000;
    for index in 0..count {
        writer.push(0, &made(index)).unwrap();
        if index.is_multiple_of(2) {
            writer.push(1, &made((1 << 40) - index)).unwrap();
        }
    }
    assert_eq!(writer.references(), count + count / 2);
    writer.finish(None, Vec::new()).unwrap();
    let file = TraceFile::open(&path).unwrap();
    file.verify().unwrap();
    let expected: Vec<Reference> = (0..count).map(made).collect();
    let mut source = file.source(0);
    let mut first = vec![Reference::default(); 70_000];
    assert_eq!(source.fill(&mut first), 70_000);
    assert_eq!(source.instruction(), 140_000);
    let mut snapshot = source.snapshot();
    assert_eq!([first, collect(&mut source)].concat(), expected);
    assert_eq!(collect(snapshot.as_mut()), expected[70_000..]);
    // Two instructions a reference: the second block begins with reference 65536, instruction 131072.
    assert_eq!(collect(&mut file.source_from(0, 131_072).unwrap()), expected[65_536..]);
    assert_eq!(collect(&mut file.source_from(0, 131_071).unwrap()), expected);
    assert!(collect(&mut file.source_from(0, 2 * count).unwrap()).is_empty());
    assert!(collect(&mut file.source(9)).is_empty());
    assert!(file.bytes() < 3 * (count + count / 2), "{} bytes", file.bytes());
}

#[test]
fn windows_and_their_instructions_are_kept() {
    let scratch = Scratch::new("windows");
    let file = TraceFile::from_bytes(sample(&scratch), "sample").unwrap();
    file.verify().unwrap();
    let first = file.streams()[0];
    assert_eq!((first.windows, first.references, first.instructions, first.executed_instructions), (2, 60, 184, 1234));
    assert_eq!(file.ending().notes, ["a note"]);
    let mut source = file.source_from(0, 500).unwrap();
    assert_eq!(source.next(), Some(Reference::read(1010, 8, 2)));
    assert_eq!(source.instruction(), 1013);
}

#[test]
fn every_truncation_is_refused_with_its_place() {
    let scratch = Scratch::new("truncated");
    let bytes = sample(&scratch);
    for length in 0..bytes.len() {
        let error = TraceFile::from_bytes(bytes[..length].to_vec(), "short").unwrap_err();
        assert!(matches!(error, WorkloadError::Damaged { .. }), "{length}: {error}");
        assert!(error.to_string().starts_with("trace \"short\": byte "), "{error}");
    }
    let error = TraceFile::from_bytes(bytes[..bytes.len() - 1].to_vec(), "short").unwrap_err();
    assert!(error.to_string().contains("truncated"), "{error}");
}

#[test]
fn every_flipped_bit_is_noticed() {
    let scratch = Scratch::new("flipped");
    let bytes = sample(&scratch);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let outcome = TraceFile::from_bytes(damaged, "flipped").and_then(|file| file.verify());
        assert!(matches!(outcome, Err(WorkloadError::Damaged { .. })), "byte {at}: {outcome:?}");
    }
}

#[test]
fn a_source_that_meets_damage_ends_and_says_so() {
    let scratch = Scratch::new("damage");
    let mut bytes = sample(&scratch);
    let file = TraceFile::from_bytes(bytes.clone(), "whole").unwrap();
    assert_eq!(collect(&mut file.source(0)).len(), 60);
    // The second block of stream 0 begins at the second "BLCK".
    let begin = bytes.windows(4).enumerate().filter(|(_, four)| four == b"BLCK").nth(1).unwrap().0;
    bytes[begin + 50] ^= 1;
    let mut source = TraceFile::from_bytes(bytes, "damaged").unwrap().source(0);
    assert_eq!(std::iter::from_fn(|| source.next()).count(), 30);
    let message = source.failure().unwrap().to_string();
    assert!(message.contains(&format!("byte {begin}: ")) && message.contains("checksum"), "{message}");
    assert!(source.next().is_none() && source.clone().failure().is_some());
}

#[test]
fn an_unfinished_file_never_has_the_final_name() {
    let scratch = Scratch::new("unfinished");
    let path = scratch.0.join("trace");
    std::fs::write(&path, "what was there before").unwrap();
    let mut writer = TraceWriter::create(&path, &TraceHeader::named("x")).unwrap();
    (0..100_000).for_each(|index| writer.push(0, &Reference::read(index, 1, 0)).unwrap());
    assert_eq!(std::fs::read(&path).unwrap(), b"what was there before");
    assert_eq!(scratch.files().len(), 2);
    drop(writer);
    assert_eq!(scratch.files(), ["trace"]);
    let writer = TraceWriter::create(&path, &TraceHeader::named("x")).unwrap();
    writer.finish(None, Vec::new()).unwrap();
    assert_eq!(scratch.files(), ["trace"]);
    assert_eq!(TraceFile::open(&path).unwrap().ending().references(), 0);
}

#[test]
fn other_files_are_refused() {
    let header = |json: &[u8]| {
        let length = (json.len() as u32).to_le_bytes();
        [b"MEMTRAC1", &length[..], json, &crc32fast::hash(json).to_le_bytes()].concat()
    };
    let good = serde_json::to_string(&TraceHeader::named("x")).unwrap();
    for (bytes, part) in [
        (b"MEMTRAC2............".to_vec(), "\"MEMTRAC1\""),
        (Vec::new(), "12 bytes are missing: the file ends at 0"),
        (b"MEMTRAC1\xff\xff\xff\xff".to_vec(), "a header of 4294967295 bytes"),
        (header(b"{}"), "missing field `schema`"),
        (header(good.replace("\"notes\"", "\"nodes\"").as_bytes()), "unknown field `nodes`"),
        (header(good.replace("\"schema\":1", "\"schema\":2").as_bytes()), "schema is 2; accepted is 1"),
        (header(good.as_bytes()), "truncated"),
    ] {
        let message = TraceFile::from_bytes(bytes, "other").unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
    assert!(TraceFile::open(&PathBuf::from("/nonexistent/trace")).unwrap_err().to_string().contains("opened"));
}
