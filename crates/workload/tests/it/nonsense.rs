//! Does it survive nonsense? Each parser a second; `MEMTINT_NONSENSE_SECONDS=60` makes that a minute.
//!
//! The seed is printed on failure; `MEMTINT_SEED=N` begins with it.

use std::time::{Duration, Instant};

use memtint_units::Random;
use memtint_workload::convert::{Format, Writer, read};
use memtint_workload::{Kind, Program, Reference, Source, TraceFile, TraceHeader, TraceWriter, catalogue};

/// So many sequences are tried even where the time is too short for them.
const SEQUENCES_MIN: u64 = 100;

/// Calls with one random sequence after the other until the time is over; returns how often.
fn for_a_while(mut each: impl FnMut(&mut Random)) -> u64 {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let limit = Duration::from_secs(number("MEMTINT_NONSENSE_SECONDS").unwrap_or(1));
    let first = number("MEMTINT_SEED").unwrap_or(1u64);
    let begin = Instant::now();
    let mut seed = first;
    while seed - first < SEQUENCES_MIN || begin.elapsed() < limit {
        let guard = Named(seed);
        each(&mut Random::new(seed));
        std::mem::forget(guard);
        seed += 1;
    }
    seed - first
}

/// Tells the seed when a test fails.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        eprintln!("MEMTINT_SEED={}", self.0);
    }
}

/// Changes a few bytes.
fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len().max(1) as u64) as usize;
        match random.below(4) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at.min(bytes.len()), random.bits() as u8),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = random.bits() as u8;
                }
            }
        }
    }
}

fn sample() -> Vec<u8> {
    // Tests run side by side: each has a file of its own.
    let name = format!("nonsense-{}-{:?}", std::process::id(), std::thread::current().id());
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut writer = TraceWriter::create(&path, &TraceHeader::named("nonsense")).unwrap();
    for index in 0..200u64 {
        let kind = if index % 3 == 0 { Kind::Write } else { Kind::Read };
        writer.push((index % 2) as u32, &Reference { kind, ..Reference::read(index * 40, 8, index as u32) }).unwrap();
    }
    writer.finish(None, Vec::new()).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    bytes
}

/// Opens, verifies and reads a file: a verified one gives what it says.
fn open(bytes: Vec<u8>) -> bool {
    let Ok(file) = TraceFile::from_bytes(bytes, "nonsense") else { return false };
    let whole = file.verify().is_ok();
    for stream in file.streams().iter().take(8) {
        let mut source = file.source(stream.stream);
        let count = std::iter::from_fn(|| source.next()).count() as u64;
        assert!(!whole || (source.failure().is_none() && count == stream.references));
        let _ = file.source_from(stream.stream, stream.instructions / 2);
    }
    whole
}

#[test]
fn a_damaged_trace() {
    let good = sample();
    assert!(open(good.clone()));
    for_a_while(|random| {
        let mut bytes = good.clone();
        damage(&mut bytes, random);
        let same = bytes == good;
        assert_eq!(open(bytes), same, "damage passed");
    });
}

#[test]
fn a_forged_trace_whose_checksums_fit() {
    let good = sample();
    let begin = good.windows(4).position(|four| four == b"BLCK").unwrap();
    let packed_bytes = u32::from_le_bytes(good[begin + 16..begin + 20].try_into().unwrap()) as usize;
    let mut read = 0u64;
    for_a_while(|random| {
        let mut bytes = good.clone();
        for _ in 0..=random.below(2) {
            let at = match random.below(2) {
                0 => begin + 4 + random.below(36) as usize,
                _ => begin + 48 + random.below(packed_bytes as u64) as usize,
            };
            bytes[at] = if random.below(2) == 0 { bytes[at].wrapping_add(1) } else { random.bits() as u8 };
        }
        let crc = |range: std::ops::Range<usize>, bytes: &[u8]| crc32fast::hash(&bytes[range]).to_le_bytes();
        let packed = crc(begin + 48..begin + 48 + packed_bytes, &bytes);
        bytes[begin + 40..begin + 44].copy_from_slice(&packed);
        let head = crc(begin..begin + 44, &bytes);
        bytes[begin + 44..begin + 48].copy_from_slice(&head);
        open(bytes.clone());
        let file = TraceFile::from_bytes(bytes, "forged").unwrap();
        let mut source = file.source(0);
        // In slices, which go another way than one by one.
        let mut batch = [Reference::default(); 64];
        while source.fill(&mut batch) == batch.len() {
            read += 1;
        }
    });
    assert!(read > 0, "some forgeries are read in part");
}

#[test]
fn traces_of_other_simulators() {
    let texts: [(Format, &[u8]); 4] = [
        (Format::Dramsim3, b"0x40 READ 3\n0x80 WRITE 3\n0xfc0 READ 10\n"),
        (Format::Ramulator2, b"LD 0x40\nST 64\n"),
        (Format::Ramulator2Cpu, b"3 64\n0 128 4096\n"),
        (Format::Champsim, &[1; 192]),
    ];
    let parse = |format, bytes: &[u8]| {
        let mut found = Vec::new();
        let outcome = read(format, &mut &bytes[..], "nonsense", &mut |reference| {
            found.push(reference);
            Ok(())
        });
        outcome.ok().map(|_| found)
    };
    for_a_while(|random| {
        let (format, text) = texts[random.below(4) as usize];
        let mut bytes = text.to_vec();
        damage(&mut bytes, random);
        let Some(found) = parse(format, &bytes) else { return };
        let mut out = Vec::new();
        if let Ok(mut writer) = Writer::new(format, &mut out) {
            found.iter().for_each(|reference| writer.push(reference).unwrap());
            writer.finish(0).unwrap();
            assert_eq!(parse(format, &out), Some(found));
        }
    });
}

#[test]
fn program_models() {
    let text = include_str!("../../programs/bpm.toml");
    let begin = text.find("schema").unwrap();
    let mut accepted = 0;
    for_a_while(|random| {
        let mut bytes = text.as_bytes()[begin..begin + 900].to_vec();
        // The last program is cut off: go back to where it begins.
        bytes.truncate(String::from_utf8_lossy(&bytes).rfind("[[program]]").unwrap());
        damage(&mut bytes, random);
        let Ok(text) = String::from_utf8(bytes) else { return };
        for model in catalogue::parse(&text, "nonsense").into_iter().flatten() {
            accepted += 1;
            let mut program = Program::new(&model.parameters(1).unwrap()).unwrap();
            assert!((0..100).all(|_| program.next().is_some()));
        }
    });
    assert!(accepted > 0, "some damage goes unnoticed: another digit");
}
