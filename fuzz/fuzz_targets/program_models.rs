//! A file of program models: parsing never panics, and every model that is accepted makes references.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memtint_workload::{Program, Source, catalogue};

fuzz_target!(|text: &str| {
    for model in catalogue::parse(text, "fuzz").into_iter().flatten() {
        let parameters = model.parameters(1).expect("checked when it was read");
        let mut program = Program::new(&parameters).expect("checked when it was read");
        assert!((0..100).all(|_| program.next().is_some()));
    }
});
