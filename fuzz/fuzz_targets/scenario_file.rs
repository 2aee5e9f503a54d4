//! A system file as a scenario: reading never panics, and what is accepted runs, for a microsecond.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memtint_sim::Scenario;
use memtint_units::Picoseconds;
use std::path::Path;

fuzz_target!(|text: &str| {
    // Files that it may name are another matter.
    let named = ["file", "/", ".toml"];
    if named.iter().any(|named| text.contains(named)) {
        return;
    }
    if let Ok(scenario) = Scenario::parse(text, Path::new("fuzz")) {
        let mut machine = scenario.machine().expect("it was accepted");
        machine.run_until(Picoseconds::from_ns(1000));
        let _ = machine.outcome();
    }
});
