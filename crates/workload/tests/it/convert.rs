//! Are the traces of other simulators read and written as their own readers take them?

use memtint_workload::convert::{Format, Losses, Writer, read};
use memtint_workload::{Kind, Reference, WorkloadError};
use proptest::prelude::*;

fn parse(format: Format, bytes: &[u8]) -> Result<(Vec<Reference>, u64), WorkloadError> {
    let mut found = Vec::new();
    let rest = read(format, &mut &bytes[..], "in", &mut |reference| {
        found.push(reference);
        Ok(())
    })?;
    Ok((found, rest))
}

fn print(format: Format, references: &[Reference]) -> (String, Losses) {
    let mut out = Vec::new();
    let mut writer = Writer::new(format, &mut out).unwrap();
    references.iter().for_each(|reference| writer.push(reference).unwrap());
    let losses = writer.finish(0).unwrap();
    (String::from_utf8(out).unwrap(), losses)
}

fn refusal(format: Format, bytes: &[u8]) -> String {
    parse(format, bytes).unwrap_err().to_string()
}

#[test]
fn dramsim3_lines() {
    let text = "0x40 READ 3\n80 WRITE 3\n\n0xFFFFFFFFFFFFFFC0 READ 10\n";
    let (found, _) = parse(Format::Dramsim3, text.as_bytes()).unwrap();
    let expected = [
        Reference::read(0x40, 64, 3),
        Reference { shares: true, ..Reference::write(0x80, 64, 0) },
        Reference::read(!63, 64, 6),
    ];
    assert_eq!(found, expected);
    assert_eq!(print(Format::Dramsim3, &found).0, "0x40 READ 3\n0x80 WRITE 3\n0xffffffffffffffc0 READ 10\n");
}

#[test]
fn ramulator2_lines() {
    let (found, _) = parse(Format::Ramulator2, b"LD 0x1000\nST 64\n").unwrap();
    assert_eq!(found, [Reference::read(0x1000, 64, 0), Reference::write(64, 64, 0)]);
    assert_eq!(print(Format::Ramulator2, &found).0, "LD 0x1000\nST 0x40\n");
    let text = "3 64\n0 128 4096\n7 192\n";
    let (found, _) = parse(Format::Ramulator2Cpu, text.as_bytes()).unwrap();
    assert_eq!(found[2], Reference { shares: true, ..Reference::write(4096, 64, 0) });
    assert_eq!(found.iter().map(Reference::instructions).sum::<u64>(), 4 + 1 + 8);
    assert_eq!(print(Format::Ramulator2Cpu, &found), (text.to_owned(), Losses::default()));
}

#[test]
fn what_a_format_cannot_say_is_counted() {
    let chase = Reference { depends: true, ..Reference::read(0, 8, 5) };
    let fetch = Reference { kind: Kind::Fetch, shares: true, ..Reference::read(0x400, 64, 0) };
    let store = Reference::write(64, 64, 2);
    let (text, losses) = print(Format::Ramulator2Cpu, &[chase, fetch, store]);
    assert_eq!(text, "5 0\n2 64 64\n");
    assert_eq!(losses, Losses { fetches: 1, lone_stores: 1, dependences: 1, sizes: 1, instructions: 0 });
    assert_eq!(print(Format::Ramulator2, &[chase, store]).1.instructions, 6 + 3);
    assert!(Writer::new(Format::Champsim, &mut Vec::new()).unwrap_err().to_string().contains("champsim"));
}

fn champsim_record(registers: [u8; 6], written: [u64; 2], read: [u64; 4]) -> Vec<u8> {
    let mut record = 0x40_1000u64.to_le_bytes().to_vec();
    record.extend([0, 0]);
    record.extend(registers);
    written.iter().chain(&read).for_each(|addr| record.extend(addr.to_le_bytes()));
    assert_eq!(record.len(), 64);
    record
}

#[test]
fn champsim_records() {
    let bytes = [
        champsim_record([1, 0, 2, 0, 0, 0], [0, 0], [0, 0, 0, 0]),
        champsim_record([3, 0, 1, 0, 0, 0], [0, 0], [0x1000, 0, 0, 0]),
        champsim_record([0, 0, 3, 0, 0, 0], [0x3000, 0], [0x2000, 0, 0x2040, 0]),
        champsim_record([0, 0, 0, 0, 0, 0], [0, 0], [0, 0, 0, 0]),
    ]
    .concat();
    let (found, rest) = parse(Format::Champsim, &bytes).unwrap();
    let shared = |reference| Reference { shares: true, ..reference };
    let expected = [
        Reference::read(0x1000, 8, 1),
        Reference { depends: true, ..Reference::read(0x2000, 8, 0) },
        shared(Reference::read(0x2040, 8, 0)),
        shared(Reference::write(0x3000, 8, 0)),
    ];
    assert_eq!((found, rest), (expected.to_vec(), 1));
    assert_eq!(refusal(Format::Champsim, &bytes[..100]), "\"in\": record 2: the file ends after 36 of its 64 bytes");
    let mut branch = bytes;
    branch[128 + 9] = 2;
    assert!(refusal(Format::Champsim, &branch).starts_with("\"in\": record 3: "));
    let compressed = refusal(Format::Champsim, b"\xfd7zXZ\0 and so on");
    assert!(compressed.contains("compressed with xz") && compressed.contains("xz -dc"), "{compressed}");
}

#[test]
fn every_refusal_names_the_line() {
    for (format, text, parts) in [
        (Format::Dramsim3, "0x40 READ 3\n0x40 READ", ["line 2", "2 words"]),
        (Format::Dramsim3, "0x40 READ 3\n\n0x40 LOAD 4", ["line 3", "\"LOAD\""]),
        (Format::Dramsim3, "xyz READ 3", ["line 1", "\"xyz\""]),
        (Format::Dramsim3, "0x+40 READ 3", ["line 1", "address"]),
        (Format::Dramsim3, "0x40 READ -3", ["line 1", "cycle \"-3\""]),
        (Format::Dramsim3, "0x40 READ 9\n0x40 READ 8", ["line 2", "below 9"]),
        (Format::Dramsim3, "0x40 READ 4294967296", ["line 1", "4294967296"]),
        (Format::Ramulator2, "LD 0x40\nld 0x40", ["line 2", "LD ADDRESS"]),
        (Format::Ramulator2, "LD 40h", ["line 1", "\"40h\""]),
        (Format::Ramulator2, "3 64", ["line 1", "LD ADDRESS"]),
        (Format::Ramulator2Cpu, "3 0x40", ["line 1", "\"0x40\""]),
        (Format::Ramulator2Cpu, "3", ["line 1", "1 words"]),
        (Format::Ramulator2Cpu, "4294967296 0", ["line 1", "4294967296"]),
    ] {
        let message = refusal(format, text.as_bytes());
        assert!(parts.iter().all(|part| message.contains(part)), "{text:?}: {message}");
    }
    assert!(refusal(Format::Dramsim3, b"0x40 READ 3\n\xff\xfe\n").contains("line 2: is no text"));
    assert!(refusal(Format::Dramsim3, &[b'7'; 5000]).contains("line 1: is longer"));
}

fn line() -> impl Strategy<Value = (u64, bool, u32)> {
    (any::<u64>(), any::<bool>(), prop_oneof![0u32..3, any::<u32>()])
}

proptest! {
    #[test]
    fn what_is_read_is_written_again(lines in prop::collection::vec(line(), 0..100)) {
        let mut cycle = 0u64;
        let dramsim3: String = lines.iter().map(|&(addr, write, gap)| {
            cycle += u64::from(gap);
            format!("{addr:#x} {} {cycle}\n", if write { "WRITE" } else { "READ" })
        }).collect();
        let memory: String =
            lines.iter().map(|&(addr, write, _)| format!("{} {addr:#x}\n", if write { "ST" } else { "LD" })).collect();
        let processor: String = lines.iter().map(|&(addr, write, gap)| match write {
            true => format!("{gap} {addr} {}\n", !addr),
            false => format!("{gap} {addr}\n"),
        }).collect();
        for (format, text) in
            [(Format::Dramsim3, dramsim3), (Format::Ramulator2, memory), (Format::Ramulator2Cpu, processor)]
        {
            let (found, _) = parse(format, text.as_bytes()).unwrap();
            prop_assert_eq!(print(format, &found).0, text);
        }
    }

    #[test]
    fn nonsense_is_read_or_refused(bytes: Vec<u8>) {
        for format in [Format::Dramsim3, Format::Ramulator2, Format::Ramulator2Cpu, Format::Champsim] {
            let _ = parse(format, &bytes);
        }
    }
}
