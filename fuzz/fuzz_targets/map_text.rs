//! The mapping text of other tools: parsing never panics, printing is its inverse, and what is read makes a platform.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memtint_map::{Platform, mapfile};

fuzz_target!(|text: &str| {
    if let Ok(masks) = mapfile::parse(text, "fuzz") {
        assert_eq!(mapfile::parse(&mapfile::print(&masks), "printed"), Ok(masks.clone()));
        let file = mapfile::to_platform_file("fuzz", &masks, 1 << 30, "fuzz");
        Platform::from_file(file, "fuzz").expect("a map that is read makes a platform");
    }
});
