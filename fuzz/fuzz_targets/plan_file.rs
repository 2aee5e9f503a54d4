//! A plan file: parsing never panics.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memtint_plan::Plan;

fuzz_target!(|text: &str| {
    let _ = Plan::parse(text, "fuzz");
});
