//! Is a platform file put together from a machine and a relative one that can be used?

use memtint_detect::{BorrowError, Cache, CacheKind, Machine, MemoryRange, Processor, assumed_platform};
use memtint_map::{Granule, Palette, Platform, SliceHash, catalogue};
use memtint_units::PhysAddr;

const GIB: u64 = 1 << 30;

fn machine(vendor: &str, sets: u32) -> Machine {
    let processor = Processor {
        vendor: vendor.to_owned(),
        brand: "a processor".to_owned(),
        family: 6,
        model: 0x55,
        stepping: 7,
        physical_address_bits: Some(46),
        hypervisor: None,
    };
    let cache = Cache {
        level: 3,
        kind: CacheKind::Unified,
        size_bytes: u64::from(sets) * 11 * 64,
        ways: Some(11),
        line_bytes: Some(64),
        sets: Some(sets),
        instances: 1,
        shared_by_cpus: 8,
    };
    let memory = [(0x1000, 0x9f000, 0), (0x10_0000, 3 * GIB, 0), (4 * GIB, 20 * GIB, 0), (20 * GIB, 37 * GIB, 1)];
    let memory = memory.map(|(start, end, node)| MemoryRange { start, end, node });
    Machine { processor: Some(processor), caches: vec![cache], memory: memory.to_vec(), ..Machine::default() }
}

fn load(name: &str) -> Platform {
    Platform::load(name).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_entry_of_the_catalogue_can_lend_its_functions() {
    for name in catalogue::names() {
        let relative = load(name);
        let file = match assumed_platform(&machine("GenuineIntel", 49152), &relative, None) {
            Ok(file) => file,
            Err(error) => panic!("{name}: {error}"),
        };
        let again = Platform::parse(&file.to_toml(), name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(*again.file(), file, "{name}");
        assert_eq!(again.function_masks(), relative.function_masks(), "{name}");
        assert_eq!(again.size_bytes(), 3 * GIB - 0x10_0000 + 0x9e000 + 33 * GIB, "{name}");
        assert_eq!(again.dram().source_kind.as_deref(), Some("assumed"), "{name}");
    }
}

#[test]
fn memory_beyond_the_functions_repeats_their_colors() {
    let relative = load("nehalem-w3530"); // functions known below bit 32
    let file = assumed_platform(&machine("GenuineIntel", 49152), &relative, None).unwrap_or_else(|e| panic!("{e}"));
    let platform = Platform::from_file(file, "here").unwrap_or_else(|error| panic!("{error}"));
    let palette = Palette::new(&platform, Granule::PAGE).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(palette.bank_class(PhysAddr(5 * GIB)), palette.bank_class(PhysAddr(9 * GIB)));
    assert_eq!(palette.node(PhysAddr(21 * GIB)), Some(1));
    assert_eq!(palette.bank_class(PhysAddr(3 * GIB)), None);
}

#[test]
fn set_bits_are_written_only_where_they_are_well_established() {
    let relative = load("nehalem-w3530");
    let llc =
        |machine| assumed_platform(&machine, &relative, None).ok().and_then(|file| file.llc).expect("has a cache");
    let intel = llc(machine("GenuineIntel", 49152));
    assert_eq!((intel.slices, intel.set_bits.len(), intel.hash), (Some(24), 11, SliceHash::Unknown));
    assert!(intel.assumed && intel.source.contains("assumed"));
    assert!(llc(machine("AuthenticAMD", 49152)).set_bits.is_empty());
    assert!(llc(machine("GenuineIntel", 12345)).set_bits.is_empty());
}

#[test]
fn a_borrowed_cache_says_so() {
    let relative = load("nehalem-w3530");
    let file = assumed_platform(&machine("AuthenticAMD", 32768), &relative, Some(&relative));
    let llc = file.ok().and_then(|file| file.llc).expect("nehalem-w3530 has a cache");
    assert!(llc.assumed && llc.source.starts_with("assumed: borrowed from platform nehalem-w3530"));
    assert_eq!(llc.set_bits, relative.llc().expect("as above").set_bits);
}

#[test]
fn hidden_memory_is_said_to_be_hidden() {
    let error = assumed_platform(&Machine::default(), &load("nehalem-w3530"), None).expect_err("there is no memory");
    assert!(matches!(error, BorrowError::NoMemory) && error.to_string().contains("CAP_SYS_ADMIN"), "{error}");
}
