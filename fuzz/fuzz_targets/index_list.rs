//! The list syntax: parsing never panics, and the printed set is the same set.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memtint_units::{IndexList, IndexSet};

fuzz_target!(|input: (u32, &str)| {
    let (limit, text) = input;
    if let Ok(list) = text.parse::<IndexList>() {
        assert_eq!(list.to_string().parse(), Ok(list));
    }
    if let Ok(set) = IndexSet::parse(text, limit) {
        assert!(set.last().is_none_or(|last| last < limit));
        assert_eq!(IndexSet::parse(&set.to_string(), limit), Ok(set));
    }
});
