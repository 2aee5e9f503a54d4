//! A platform file: parsing, printing, and the chain palette, selection, walk never panic and agree with each other.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memtint_map::{Granule, Palette, Platform, Selection};
use memtint_units::{IndexSet, PhysAddr};

/// Counting behind a modulo interleave looks at each granule; more bytes would only be slow.
const MODULO_BYTES_MAX: u64 = 1 << 28;
/// So many aligned blocks at most, for the same reason.
const BYTES_MAX: u64 = 1 << 36;

fuzz_target!(|text: &str| {
    let Ok(platform) = Platform::parse(text, "fuzz") else { return };
    let again = Platform::parse(&platform.file().to_toml(), "printed").expect("an accepted file prints as one");
    assert_eq!(again.file(), platform.file());
    let modulo = |region: &memtint_map::Region| region.interleave.is_some() && region.size_bytes > MODULO_BYTES_MAX;
    if platform.size_bytes() > BYTES_MAX || platform.regions().iter().any(modulo) {
        return;
    }
    for granule in [Granule::MIN, Granule::MAX] {
        let Ok(palette) = Palette::new(&platform, granule) else { continue };
        assert_eq!(palette.bank_classes() * palette.banks_per_granule(), palette.banks());
        let Some(pair) = palette.pairs().first() else { continue };
        let one = |index| IndexSet::from_indices([index], u32::MAX).ok();
        let selection = Selection { banks: one(pair.bank_class), sets: one(pair.set_color), node: None };
        let matcher = selection.compile(&palette).expect("the pair exists");
        for addr in matcher.enumerate(PhysAddr(0)..PhysAddr(u64::MAX)).take(64) {
            assert!(matcher.matches(addr.pfn()));
        }
    }
});
