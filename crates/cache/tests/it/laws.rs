//! Do the laws hold? Closed formulas, isolation by way masks and by set colors, inclusion, conservation.

use crate::common::{A, B, LINE, bare, cache};
use memtint_cache::{
    AccessKind, CacheConfig, CacheId, Hierarchy, HierarchyConfig, Inclusion, Level, LlcConfig, PrefetchConfig,
    Replacement, StrideConfig, TaskClass, WayMask,
};
use memtint_map::{Granule, Palette, Platform, Selection};
use memtint_units::{ByteSize, IndexSet, PhysAddr};

const INCLUSIONS: [Inclusion; 3] = [Inclusion::Inclusive, Inclusion::NonInclusive, Inclusion::Exclusive];

fn read(caches: &mut Hierarchy, core: usize, class: TaskClass, addr: u64) -> Level {
    caches.access(core, class, PhysAddr(addr), AccessKind::Read).level
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % end
    }
}

#[test]
fn a_cyclic_sweep_over_one_line_too_many_always_misses_with_lru() {
    for ways in [1u32, 2, 3, 8, 16, 20, 96, 128] {
        let mut caches = Hierarchy::new(&bare(4, ways, Inclusion::NonInclusive)).unwrap();
        let stride = 4 * LINE;
        for round in 0..3 {
            for line in 0..=u64::from(ways) {
                assert_eq!(read(&mut caches, 0, A, line * stride), Level::Memory, "{ways} ways, round {round}");
            }
        }
        let mut caches = Hierarchy::new(&bare(4, ways, Inclusion::NonInclusive)).unwrap();
        for round in 0..3 {
            for line in 0..u64::from(ways) {
                let missed = read(&mut caches, 0, A, line * stride) == Level::Memory;
                assert_eq!(missed, round == 0, "{ways} ways: as many lines as ways miss once");
            }
        }
    }
}

#[test]
fn tree_plru_evicts_in_the_order_of_its_tree() {
    // Four ways filled with 0 1 2 3: the root points left, its left child at way 0. Then by hand, each step from the tree:
    // 4 replaces 0, 5 replaces 2, 6 replaces 1, 7 replaces 3.
    let mut config = bare(1, 4, Inclusion::NonInclusive);
    config.llc.cache.replacement = Replacement::TreePlru;
    let mut caches = Hierarchy::new(&config).unwrap();
    for line in 0..4 {
        read(&mut caches, 0, A, line * LINE);
    }
    for (line, victim) in [(4, 0), (5, 2), (6, 1), (7, 3)] {
        assert!(caches.holds(CacheId::Llc(0), PhysAddr(victim * LINE)));
        read(&mut caches, 0, A, line * LINE);
        assert!(!caches.holds(CacheId::Llc(0), PhysAddr(victim * LINE)), "{line} replaces {victim}");
    }
    // A sweep over five lines misses always with LRU; the tree keeps one of them for a while.
    let mut config = bare(1, 4, Inclusion::NonInclusive);
    config.llc.cache.replacement = Replacement::TreePlru;
    let mut caches = Hierarchy::new(&config).unwrap();
    let hits = (0..500).filter(|step| read(&mut caches, 0, A, step % 5 * LINE) == Level::Llc).count();
    assert!(hits > 0);
}

#[test]
fn random_replacement_follows_its_seed_and_takes_every_way() {
    let run = |seed| {
        let mut config = bare(1, 8, Inclusion::NonInclusive);
        config.llc.cache.replacement = Replacement::Random;
        config.seed = seed;
        let mut caches = Hierarchy::new(&config).unwrap();
        let mut random = Random(7);
        (0..4000).map(|_| read(&mut caches, 0, A, random.below(16) * LINE)).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    // 8 of 16 lines are there; the line of the first level is one of them or not: between 7/15 and 8/15 of the rest hit.
    let hits = run(1).iter().filter(|&&level| level == Level::Llc).count();
    assert!((1600..2300).contains(&hits), "{hits} of 4000");
}

#[test]
fn disjoint_way_masks_isolate_whatever_the_policy() {
    for inclusion in INCLUSIONS {
        for replacement in [Replacement::Lru, Replacement::TreePlru, Replacement::Random] {
            let mut config = bare(16, 8, inclusion);
            config.cores = 2;
            config.l1_data = cache(2, 2);
            config.l2 = Some(cache(4, 2));
            config.llc.cache.replacement = replacement;
            config.llc.way_masks = vec![WayMask(0b1010_0110), WayMask(0b0101_1001)];
            let mut caches = Hierarchy::new(&config).unwrap();
            let mut random = Random(3);
            // A stays within what its four ways hold, B sweeps over twenty times as much.
            let mut a_misses_late = 0;
            for step in 0..40_000 {
                let own = random.below(if inclusion == Inclusion::Exclusive { 64 } else { 48 });
                let kind = if step % 3 == 0 { AccessKind::Write } else { AccessKind::Read };
                let level = caches.access(0, A, PhysAddr(own * LINE), kind).level;
                a_misses_late += u64::from(step > 10_000 && level == Level::Memory);
                let other = PhysAddr((1 << 20) + random.below(1280) * LINE);
                let _ = caches.access(1, B, other, kind);
            }
            for class in [A, B] {
                assert_eq!(caches.llc_counts().evictions_by_others(class), 0, "{inclusion:?}, {replacement:?}");
                assert_eq!(caches.llc_counts().back_invalidations_by_others(class), 0);
                assert!(caches.llc_counts().resident(class) <= 64);
            }
            assert_eq!(a_misses_late, 0, "{inclusion:?}, {replacement:?}: A fits its ways");
            assert!(caches.llc_counts().evictions(B, B) > 10_000);
            // The same without masks: the sweep throws the other out. The test can fail.
            config.llc.way_masks.clear();
            let mut caches = Hierarchy::new(&config).unwrap();
            let mut random = Random(3);
            for _ in 0..10_000 {
                read(&mut caches, 0, A, random.below(48) * LINE);
                read(&mut caches, 1, B, (1 << 20) + random.below(1280) * LINE);
            }
            assert!(caches.llc_counts().evictions_by_others(A) > 100);
        }
    }
}

/// A platform's last level with small private caches.
fn machine(platform: &Platform, inclusion: Inclusion) -> HierarchyConfig {
    let llc = LlcConfig { inclusion, ..LlcConfig::from_platform(platform).unwrap() };
    let end = platform.regions().last().unwrap().end().0;
    let small = |sets: u64| CacheConfig { size: ByteSize(sets * 2 * 64), ..cache(sets, 2) };
    let mut config = bare(16, 8, inclusion);
    config.line = platform.llc().unwrap().line;
    assert_eq!(config.line.bytes(), 64);
    (config.cores, config.address_end) = (2, end);
    (config.l1_data, config.l2, config.llc) = (small(8), Some(small(16)), llc);
    config
}

#[test]
fn tasks_in_disjoint_set_colors_never_evict_each_other() {
    // With a slice hash and without one; the P4080 has its slice bit below its set bits.
    for name in ["skl-e3-1220v5-4x4g", "nehalem-w3530", "p4080"] {
        let platform = Platform::load(name).unwrap();
        let palette = Palette::new(&platform, Granule::PAGE).unwrap();
        assert!(palette.set_colors() > 1, "{name}");
        let pages = |colors: std::ops::Range<u32>| {
            let sets = IndexSet::from_indices(colors, palette.set_colors()).unwrap();
            let matcher = Selection { sets: Some(sets), ..Selection::default() }.compile(&palette).unwrap();
            let found = matcher.enumerate(PhysAddr(0)..PhysAddr(u64::MAX)).take(4096);
            found.collect::<Vec<PhysAddr>>()
        };
        let half = palette.set_colors() / 2;
        let (of_a, of_b) = (pages(0..half), pages(half..palette.set_colors()));
        for (inclusion, shared) in
            [(Inclusion::Inclusive, false), (Inclusion::Exclusive, false), (Inclusion::Inclusive, true)]
        {
            let mut caches = Hierarchy::new(&machine(&platform, inclusion)).unwrap();
            caches.count_set_colors(&palette);
            let mut random = Random(5);
            // Four lines of each page, so that few accesses fill their sets.
            let lines = [0, 17, 34, 63];
            for step in 0..60_000 {
                let (core, class, own) = if step % 2 == 0 { (0, A, &of_a) } else { (1, B, &of_b) };
                // The control: both anywhere.
                let own = if shared { [&of_a, &of_b][random.below(2) as usize] } else { own };
                let page = own[random.below(own.len() as u64) as usize];
                read(&mut caches, core, class, page.0 + lines[random.below(4) as usize] * LINE);
            }
            let counts = caches.llc_counts();
            let crossed = counts.evictions_by_others(A) + counts.evictions_by_others(B);
            assert!(counts.evictions(A, A) > 0 && counts.evictions(B, B) > 0, "{name}: both need more than they have");
            assert_eq!(crossed > 0, shared, "{name}, {inclusion:?}");
            let colors = caches.color_counts().unwrap();
            let sum = |count: fn(&memtint_cache::ColorCounts) -> u64| colors.iter().map(count).sum::<u64>();
            assert_eq!(sum(|color| color.evictions_by_others), crossed);
            assert_eq!(
                sum(|color| color.hits),
                caches.class_counts(A).hits(Level::Llc) + caches.class_counts(B).hits(Level::Llc)
            );
            assert_eq!(
                sum(|color| color.misses),
                caches.class_counts(A).hits(Level::Memory) + caches.class_counts(B).hits(Level::Memory)
            );
            assert!(colors.iter().all(|color| color.misses > 0), "{name}: every color was used");
        }
    }
}

#[test]
fn a_flushed_line_is_nowhere_and_only_a_dirty_one_is_written() {
    let platform = Platform::load("skl-e3-1220v5-4x4g").unwrap();
    for inclusion in INCLUSIONS {
        let mut caches = Hierarchy::new(&machine(&platform, inclusion)).unwrap();
        let mut random = Random(7);
        for _ in 0..20_000 {
            let addr = PhysAddr(random.below(1 << 20) & !63);
            let (core, kind) =
                (random.below(2) as usize, [AccessKind::Read, AccessKind::Write][random.below(2) as usize]);
            let _ = caches.access(core, A, addr, kind);
        }
        let ids = [CacheId::L1Data(0), CacheId::L1Data(1), CacheId::L2(0), CacheId::L2(1), CacheId::Llc(0)];
        let written = caches.clone().drain();
        let mut flushed = Vec::new();
        for line in 0..1 << 14 {
            let addr = PhysAddr(line * LINE);
            if caches.flush(addr) {
                flushed.push(addr);
            }
            assert!(ids.iter().all(|&id| !caches.holds(id, addr)), "{inclusion:?}: {addr}");
        }
        assert!(flushed.len() > 1000 && flushed == written, "{inclusion:?}: {} lines", flushed.len());
        assert!(ids.iter().all(|&id| caches.resident(id) == Some(0)));
        assert_eq!(caches.llc_counts().resident(A), 0, "{inclusion:?}");
    }
}

#[test]
fn an_inclusive_last_level_takes_its_victims_from_the_cores() {
    let mut config = bare(1, 2, Inclusion::Inclusive);
    config.l1_data = cache(1, 4);
    let mut caches = Hierarchy::new(&config).unwrap();
    let _ = caches.access(0, A, PhysAddr(0), AccessKind::Write);
    read(&mut caches, 0, A, LINE);
    assert!(caches.holds(CacheId::L1Data(0), PhysAddr(0)));
    let outcome = caches.access(0, A, PhysAddr(2 * LINE), AccessKind::Read);
    assert!(!caches.holds(CacheId::L1Data(0), PhysAddr(0)), "the first level has room, and lost it all the same");
    assert_eq!(outcome.writebacks.as_slice(), [PhysAddr(0)], "its dirt goes to memory with it");
    assert_eq!(caches.llc_counts().back_invalidations, 1);
    config.llc.inclusion = Inclusion::NonInclusive;
    let mut caches = Hierarchy::new(&config).unwrap();
    for line in 0..3 {
        read(&mut caches, 0, A, line * LINE);
    }
    assert_eq!(read(&mut caches, 0, A, 0), Level::L1);
}

#[test]
fn a_victim_cache_holds_what_the_core_does_not() {
    let mut config = bare(4, 4, Inclusion::Exclusive);
    config.l1_data = cache(1, 2);
    config.l2 = Some(cache(2, 2));
    let mut caches = Hierarchy::new(&config).unwrap();
    let mut random = Random(9);
    for _ in 0..5000 {
        let kind = if random.below(2) == 0 { AccessKind::Read } else { AccessKind::Write };
        let _ = caches.access(0, A, PhysAddr(random.below(30) * LINE), kind);
        for line in 0..30 {
            let addr = PhysAddr(line * LINE);
            assert!(!(caches.holds(CacheId::L2(0), addr) && caches.holds(CacheId::Llc(0), addr)));
        }
    }
    // What fits second and last level together stays, though it fits neither: 4 + 16 lines.
    let mut caches = Hierarchy::new(&config).unwrap();
    let mut sweep = || (0..20).filter(|line| read(&mut caches, 0, A, line * LINE) == Level::Memory).count();
    assert_eq!((sweep(), sweep(), sweep()), (20, 0, 0));
}

#[test]
fn every_dirty_line_is_written_back_exactly_once() {
    for inclusion in INCLUSIONS {
        let mut config = bare(8, 4, inclusion);
        config.l1_data = cache(2, 2);
        config.l2 = Some(cache(4, 2));
        let mut caches = Hierarchy::new(&config).unwrap();
        // 5000 lines, each written once and never used again, with reads of others between them.
        let mut written = Vec::new();
        for line in 0..5000 {
            written
                .extend_from_slice(caches.access(0, A, PhysAddr(line * LINE), AccessKind::Write).writebacks.as_slice());
            let read = caches.access(0, A, PhysAddr((1 << 30) + line * LINE), AccessKind::Read);
            written.extend_from_slice(read.writebacks.as_slice());
        }
        // What is still dirty: the even lines are cleaned first, and stay.
        let resident = caches.resident(CacheId::Llc(0));
        let is_even = |line: PhysAddr| (line.0 / LINE).is_multiple_of(2);
        let cleaned = caches.clean(is_even);
        assert!(!cleaned.is_empty() && cleaned.is_sorted() && cleaned.iter().all(|&line| is_even(line)));
        assert!(caches.clean(is_even).is_empty(), "once");
        assert_eq!(caches.resident(CacheId::Llc(0)), resident);
        written.extend(cleaned);
        written.extend(caches.drain());
        written.sort_unstable();
        assert_eq!(written, (0..5000).map(|line| PhysAddr(line * LINE)).collect::<Vec<_>>(), "{inclusion:?}");
    }
}

#[test]
fn nodes_have_last_levels_of_their_own() {
    let mut config = bare(4, 4, Inclusion::Inclusive);
    (config.cores, config.llc.instances) = (4, 2);
    let mut caches = Hierarchy::new(&config).unwrap();
    assert_eq!(read(&mut caches, 0, A, 0), Level::Memory);
    assert!(caches.holds(CacheId::Llc(0), PhysAddr(0)) && !caches.holds(CacheId::Llc(1), PhysAddr(0)));
    assert_eq!(read(&mut caches, 1, A, 0), Level::Llc);
    assert_eq!(read(&mut caches, 3, A, 0), Level::Peer, "the other node has it");
    let write = caches.access(2, A, PhysAddr(0), AccessKind::Write);
    assert!(write.upgraded && write.level == Level::Llc);
    for cache in [CacheId::Llc(0), CacheId::L1Data(0), CacheId::L1Data(1), CacheId::L1Data(3)] {
        assert!(!caches.holds(cache, PhysAddr(0)), "{cache:?}");
    }
    assert!(!caches.access(2, A, PhysAddr(0), AccessKind::Write).upgraded, "nobody else has it now");
}

#[test]
fn prefetchers_turn_a_stream_into_second_level_hits() {
    let mut config = bare(64, 8, Inclusion::Inclusive);
    config.l1_data = cache(4, 2);
    config.l2 = Some(cache(16, 4));
    let mut run = |prefetch, stride: u64| {
        config.prefetch = prefetch;
        let mut caches = Hierarchy::new(&config).unwrap();
        for step in 0..6400 {
            let outcome = caches.access(0, A, PhysAddr(step * stride * LINE), AccessKind::Read);
            for &addr in outcome.prefetches.as_slice() {
                assert_eq!(addr.pfn(), PhysAddr(step * stride * LINE).pfn(), "never into another page");
                let _ = caches.prefetch(0, A, addr);
            }
        }
        (caches.class_counts(A).hits(Level::L2), caches.prefetch_counts(0))
    };
    let stride = Some(StrideConfig { streams: 4, confidence: 2, degree: 1 });
    let (hits, counts) = run(PrefetchConfig::default(), 1);
    assert_eq!((hits, counts.filled), (0, 0));
    // Next line: every second of the 64 lines of a page. By stride 1: all but the first three. By stride 4: 13 of 16.
    let (hits, counts) = run(PrefetchConfig { next_line: true, stride: None }, 1);
    assert_eq!((hits, counts.filled, counts.useful, counts.useless), (3200, 3200, 3200, 0));
    let (hits, _) = run(PrefetchConfig { next_line: false, stride }, 1);
    assert_eq!(hits, 100 * 61);
    let (hits, _) = run(PrefetchConfig { next_line: false, stride }, 4);
    assert_eq!(hits, 400 * 13);
}

#[test]
fn equal_streams_give_equal_counts() {
    let run = || {
        let platform = Platform::load("p4080").unwrap();
        let mut config = HierarchyConfig::from_platform(&platform, 8).unwrap();
        config.llc.cache.replacement = Replacement::Random;
        config.classes = 2;
        let mut caches = Hierarchy::new(&config).unwrap();
        let mut random = Random(11);
        for _ in 0..100_000 {
            let kind = AccessKind::ALL[random.below(3) as usize];
            let (core, class) = (random.below(8) as usize, TaskClass(random.below(2) as u8));
            let _ = caches.access(core, class, PhysAddr(random.below(1 << 23)), kind);
        }
        let cores: Vec<_> = (0..8).map(|core| caches.core_counts(core)).collect();
        (cores, caches.llc_counts().clone(), caches.drain())
    };
    assert_eq!(run(), run());
}
