//! Is a wrong machine refused, with the field that is wrong?

use crate::common::{A, bare, cache};
use memtint_cache::{
    CacheError, Hierarchy, HierarchyConfig, Inclusion, Level, LlcConfig, Replacement, StrideConfig, TaskClass, WayMask,
};
use memtint_map::{Platform, catalogue};
use memtint_units::{ByteSize, PhysAddr};

fn field(error: CacheError) -> String {
    match error {
        CacheError::Platform { field, .. } | CacheError::Config { field, .. } => field,
        other => panic!("{other}"),
    }
}

#[test]
fn every_platform_is_taken_or_refused_with_a_field() {
    let mut whole = Vec::new();
    for name in catalogue::names() {
        let platform = Platform::load(name).unwrap();
        match HierarchyConfig::from_platform(&platform, 1) {
            Ok(config) => {
                Hierarchy::new(&config).unwrap();
                whole.push(name);
            }
            Err(error) => {
                let text = error.to_string();
                assert!(text.starts_with(&format!("platform {name:?}: ")) && text.contains("; accepted is "), "{text}");
            }
        }
    }
    assert!(whole.contains(&"p4080"), "{whole:?}");
}

#[test]
fn what_a_platform_lacks_is_named() {
    let refused =
        |name, cores| field(HierarchyConfig::from_platform(&Platform::load(name).unwrap(), cores).unwrap_err());
    assert_eq!(refused("zen3-ddr4-1r", 1), "llc.hash");
    assert_eq!(refused("opteron-6128-tintmalloc", 16), "cache[1].ways");
    assert_eq!(refused("p4080", 9), "cores.count");
    assert_eq!(refused("p4080", 0), "cores.count");
    assert_eq!(refused("opteron-6128-tintmalloc", 3), "llc.instances");
}

#[test]
fn what_a_platform_says_is_taken() {
    let config = HierarchyConfig::from_platform(&Platform::load("p4080").unwrap(), 8).unwrap();
    assert_eq!((config.l1_data.size, config.l1_data.ways), (ByteSize(32 << 10), 8));
    assert_eq!(config.l1_instruction.as_ref().map(|cache| cache.size), Some(ByteSize(32 << 10)));
    assert_eq!((config.llc.cache.size, config.llc.cache.ways), (ByteSize(2 << 20), 32));
    assert_eq!(config.llc.slice_functions, [[6]]);
    assert!(config.latencies.source.contains("assumed"));
    assert_eq!(config.latencies.cycles(Level::Llc), config.latencies.llc_cycles);
    let skylake = LlcConfig::from_platform(&Platform::load("skl-e3-1220v5-4x4g").unwrap()).unwrap();
    assert_eq!((skylake.cache.size, skylake.inclusion), (ByteSize(8 << 20), Inclusion::Inclusive));
    let opteron = LlcConfig::from_platform(&Platform::load("opteron-6128-tintmalloc").unwrap()).unwrap();
    assert_eq!((opteron.instances, opteron.cache.ways, opteron.inclusion), (2, 96, Inclusion::Exclusive));
}

#[test]
fn wrong_configurations_are_refused() {
    type Change = fn(&mut HierarchyConfig);
    let cases: [(Change, &str); 16] = [
        (|config| config.line = ByteSize(48), "line"),
        (|config| config.cores = 0, "cores"),
        (|config| config.classes = 257, "classes"),
        (|config| config.llc.instances = 2, "llc.instances"),
        (|config| config.llc.instances = 0, "llc.instances"),
        (|config| config.l1_data.ways = 0, "l1_data.ways"),
        (|config| config.llc.cache.ways = 129, "llc.ways"),
        (|config| config.l1_data.size = ByteSize(96), "l1_data.size"),
        (|config| config.l2 = Some(cache(3, 2)), "l2.size"),
        (|config| config.l1_data.mshrs = 0, "l1_data.mshrs"),
        (|config| config.llc.cache.set_bits = vec![6, 7, 8], "llc.set_bits"),
        (|config| config.llc.cache.set_bits = vec![5, 7], "llc.set_bits"),
        (|config| config.llc.cache.set_bits = vec![7, 7], "llc.set_bits"),
        (|config| config.llc.way_masks = vec![WayMask(1), WayMask(0)], "llc.way_masks[1]"),
        (|config| config.llc.way_masks = vec![WayMask(1 << 6)], "llc.way_masks[0]"),
        (|config| config.address_end = u64::MAX, "address_end"),
    ];
    for (change, expected) in cases {
        let mut config = bare(4, 6, Inclusion::Inclusive);
        change(&mut config);
        assert_eq!(field(Hierarchy::new(&config).unwrap_err()), expected);
    }
    let mut config = bare(4, 6, Inclusion::Inclusive);
    config.llc.cache.replacement = Replacement::TreePlru;
    assert_eq!(field(Hierarchy::new(&config).unwrap_err()), "llc.ways");
    let mut config = bare(4, 6, Inclusion::Inclusive);
    config.prefetch.stride = Some(StrideConfig { streams: 4, confidence: 2, degree: 4 });
    assert_eq!(field(Hierarchy::new(&config).unwrap_err()), "prefetch.stride.degree");
    let mut caches = Hierarchy::new(&bare(4, 6, Inclusion::Inclusive)).unwrap();
    assert!(caches.set_way_mask(TaskClass(2), WayMask(1)).is_err());
    assert!(caches.set_way_mask(A, WayMask(0)).is_err());
    assert!(caches.set_way_mask(A, WayMask(0b11_1111)).is_ok());
}

#[test]
fn the_address_limit_is_tight() {
    let mut config = bare(4, 6, Inclusion::Inclusive);
    // The first level has one set: all 32 bits of the tag are line number.
    assert_eq!(config.address_limit().unwrap(), PhysAddr(u64::from(u32::MAX) << 6));
    config.address_end = config.address_limit().unwrap().0;
    let mut caches = Hierarchy::new(&config).unwrap();
    let last = PhysAddr(config.address_end - 1);
    let _ = caches.access(0, A, last, memtint_cache::AccessKind::Write);
    assert_eq!(caches.drain(), [last.align_down(6)]);
    config.address_end += 1;
    assert_eq!(field(Hierarchy::new(&config).unwrap_err()), "address_end");
}

#[test]
#[should_panic(expected = "addresses end at")]
fn an_address_beyond_the_end_is_a_defect_of_the_caller() {
    let mut caches = Hierarchy::new(&bare(4, 6, Inclusion::Inclusive)).unwrap();
    let _ = caches.access(0, A, PhysAddr(1 << 36), memtint_cache::AccessKind::Read);
}
