//! A trace file: opening, verifying and reading never panic, and a file that verifies reads to its end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memtint_workload::{Source, TraceFile};

fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = TraceFile::from_bytes(bytes.to_vec(), "fuzz") else { return };
    let whole = file.verify().is_ok();
    for stream in file.streams().iter().take(16) {
        let mut source = file.source(stream.stream);
        let count = std::iter::from_fn(|| source.next()).count() as u64;
        if whole {
            assert!(source.failure().is_none());
            assert_eq!(count, stream.references);
        }
        let _ = file.source_from(stream.stream, stream.instructions / 2);
    }
});
