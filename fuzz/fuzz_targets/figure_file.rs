//! A figure: reading never panics, nor does making its scenarios.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memtint_reproduce::{catalogue, prepare};

fuzz_target!(|text: &str| {
    if let Ok(figure) = catalogue::parse(text, "fuzz") {
        let _ = prepare(&figure, true, None);
    }
});
