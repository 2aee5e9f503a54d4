//! Small machines for tests.

use memtint_cache::{
    CacheConfig, HierarchyConfig, Inclusion, Latencies, LlcConfig, PrefetchConfig, Replacement, TaskClass,
};
use memtint_units::ByteSize;

pub(crate) const LINE: u64 = 64;
#[allow(dead_code, reason = "each suite uses a part of this module")]
pub(crate) const A: TaskClass = TaskClass(0);
#[allow(dead_code, reason = "each suite uses a part of this module")]
pub(crate) const B: TaskClass = TaskClass(1);

pub(crate) fn cache(sets: u64, ways: u32) -> CacheConfig {
    CacheConfig {
        size: ByteSize(sets * u64::from(ways) * LINE),
        ways,
        set_bits: Vec::new(),
        replacement: Replacement::Lru,
        mshrs: 4,
    }
}

/// One core with a direct-mapped first level of one line, no second level, and a last level of `sets` x `ways`: nearly
/// every access reaches the last level.
pub(crate) fn bare(sets: u64, ways: u32, inclusion: Inclusion) -> HierarchyConfig {
    HierarchyConfig {
        line: ByteSize(LINE),
        cores: 1,
        classes: 2,
        l1_data: cache(1, 1),
        l1_instruction: None,
        l2: None,
        llc: LlcConfig {
            cache: cache(sets, ways),
            slice_functions: Vec::new(),
            instances: 1,
            inclusion,
            inclusion_source: "assumed".to_owned(),
            way_masks: Vec::new(),
        },
        coherent: true,
        prefetch: PrefetchConfig::default(),
        latencies: Latencies {
            l1_cycles: 4,
            l2_cycles: 10,
            llc_cycles: 40,
            peer_cycles: 40,
            memory_cycles: 40,
            source: "assumed".to_owned(),
        },
        address_end: 1 << 36,
        seed: 1,
    }
}
