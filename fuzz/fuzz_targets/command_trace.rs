//! A command trace: reading never panics, printing is its inverse, and the checker is of one mind with itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memtint_dram::{CheckOptions, Checker, CommandReader, DeviceChoice, NEVER, RefreshCheck, Standard};

fuzz_target!(|input: (u8, &[u8])| {
    let (which, text) = input;
    let name = Standard::names().nth(usize::from(which) % Standard::names().len()).expect("in range");
    let choice = DeviceChoice { ranks: 2, ..DeviceChoice::default() };
    let device = Standard::load(name).and_then(|standard| standard.device(choice)).expect("it comes with memtint");
    let refresh = RefreshCheck::single_banks(&device).or(Some(RefreshCheck::all_bank(&device)));
    let mut checker = Checker::new(&device.geometry, &device.timing, CheckOptions { refresh });
    for command in CommandReader::new(text, "fuzz").flatten() {
        assert_eq!(CommandReader::new(command.to_string().as_bytes(), "printed").next(), Some(Ok(command)));
        let broken = checker.violations(command);
        match checker.see(command) {
            Ok(()) => assert!(broken.is_empty()),
            Err(violation) => assert!(broken.contains(&violation)),
        }
    }
    let _ = checker.finish(NEVER);
});
