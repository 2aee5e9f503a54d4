//! A system file and its assignment: reading never panics.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memtint_system::Assignment;

fuzz_target!(|text: &str| {
    let _ = Assignment::parse(text, "fuzz");
});
