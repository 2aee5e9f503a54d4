//! Dumps of a memory controller's registers: parsing and decoding never panic, printing is the inverse of parsing, and what
//! is decoded is a platform.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memtint_map::Platform;
use memtint_registers::{ConfigSpace, Family, ZenDump, decode_family, decode_zen};

fuzz_target!(|text: &str| {
    if let Ok(space) = ConfigSpace::parse(text, "fuzz") {
        assert_eq!(ConfigSpace::parse(&space.print(), "printed").expect("it was printed"), space);
        for family in [Family::F10h, Family::F15h] {
            if let Ok(decoded) = decode_family(&space, family, "fuzz") {
                Platform::from_file(decoded.file, "fuzz").expect("what is decoded is a platform");
            }
        }
    }
    if let Ok(dump) = ZenDump::parse(text, "fuzz") {
        assert_eq!(ZenDump::parse(&dump.print(), "printed").expect("it was printed"), dump);
        if let Ok(decoded) = decode_zen(&dump, "fuzz") {
            Platform::from_file(decoded.file, "fuzz").expect("what is decoded is a platform");
        }
    }
});
