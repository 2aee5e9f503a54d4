//! A system file and what the analyses make of it: reading never panics.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memtint_analysis::TaskSystem;

fuzz_target!(|text: &str| {
    let _ = TaskSystem::parse("fuzz", text);
});
