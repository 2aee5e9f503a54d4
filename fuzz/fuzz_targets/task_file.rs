//! A task-set file: reading never panics.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memtint_taskset::TaskFile;

fuzz_target!(|text: &str| {
    let _ = TaskFile::parse("fuzz", text);
});
