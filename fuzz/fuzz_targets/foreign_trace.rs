//! Traces of other simulators: reading never panics, and what is written is read as the same again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memtint_workload::Reference;
use memtint_workload::convert::{Format, Writer, read};

const FORMATS: [Format; 4] = [Format::Dramsim3, Format::Ramulator2, Format::Ramulator2Cpu, Format::Champsim];

fn parse(format: Format, bytes: &[u8]) -> Option<Vec<Reference>> {
    let mut found = Vec::new();
    let read = read(format, &mut &bytes[..], "fuzz", &mut |reference| {
        found.push(reference);
        Ok(())
    });
    read.ok().map(|_| found)
}

fuzz_target!(|input: (u8, &[u8])| {
    let format = FORMATS[usize::from(input.0) % FORMATS.len()];
    let Some(found) = parse(format, input.1) else { return };
    let mut out = Vec::new();
    if let Ok(mut writer) = Writer::new(format, &mut out) {
        found.iter().for_each(|reference| writer.push(reference).expect("memory can be written"));
        writer.finish(0).expect("memory can be written");
        assert_eq!(parse(format, &out), Some(found));
    }
});
