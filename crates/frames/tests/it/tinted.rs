//! Does memtint's own allocator do what it says beyond the common contract?

use memtint_units::Random;
use std::sync::Arc;

use crate::common::{
    banks, drain, memory, on, plain_bits, range, square, systems, three_channels, two_nodes, uncolored,
};
use memtint_frames::{
    Caller, FrameAllocator, FrameError, FrameMemory, FrameRange, Mode, Policy, Profile, Tinted, ZoneKind,
};
use memtint_map::{Granule, Palette, Platform, catalogue};
use memtint_units::{IndexSet, Pfn};

/// Fills memory, then frees frames by a rule in an order of the seed's choice.
fn fragmented(memory: &Arc<FrameMemory>, seed: u64, freed: impl Fn(Pfn) -> bool) -> Tinted {
    let mut frames = Tinted::new(memory);
    let plain = frames.enter(&uncolored()).unwrap();
    let mut held = drain(&mut frames, plain);
    Random::new(seed).shuffle(&mut held);
    for pfn in held.into_iter().filter(|&pfn| freed(pfn)) {
        frames.free(on(plain), pfn).unwrap();
    }
    frames
}

/// The most steps of one allocation and of one free, over everything the banks have.
fn worst(frames: &mut Tinted, policy: &Policy) -> (u64, u64) {
    let task = frames.enter(&Profile::of(policy.clone())).unwrap();
    let (mut held, mut worst) = (Vec::new(), (0, 0));
    loop {
        let before = frames.steps();
        let Ok(pfn) = frames.allocate(on(task)) else { break };
        let steps = frames.steps().since(&before);
        assert!(steps.lookups <= frames.lookups_max() && steps.splits <= 10 && steps.merges == 0);
        // Taken off its free list, and one half put on a free list at each split.
        assert_eq!(steps.moves, steps.splits + 1);
        worst.0 = worst.0.max(steps.total());
        held.push(pfn);
    }
    Random::new(3).shuffle(&mut held);
    for pfn in held {
        let before = frames.steps();
        frames.free(on(task), pfn).unwrap();
        let steps = frames.steps().since(&before);
        assert!(steps.merges <= 10 && steps.lookups == 0 && steps.moves == steps.merges + 1);
        worst.1 = worst.1.max(steps.total());
    }
    worst
}

#[test]
fn the_worst_case_does_not_grow_with_memory() {
    let find = |size: u64| {
        let memory = square(size);
        let policy = banks("5", &memory);
        let fresh = worst(&mut Tinted::new(&memory), &policy);
        let sparse =
            worst(&mut fragmented(&memory, size, |pfn| plain_bits(pfn).bank_class != 4 && pfn.0 % 7 != 0), &policy);
        (fresh.0.max(sparse.0), fresh.1.max(sparse.1))
    };
    assert_eq!(find(2048), find(16384));
}

#[test]
fn an_exhausted_color_is_noticed_at_once() {
    let memory = square(4096);
    // Everything but bank 3 is free, in single frames and small blocks.
    let mut frames = fragmented(&memory, 1, |pfn| plain_bits(pfn).bank_class != 3);
    let task = frames.enter(&Profile::of(banks("3", &memory))).unwrap();
    let before = frames.steps();
    let error = frames.allocate(on(task)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "out of color: no free block of order 0 in the colors of task 1.0 (bank classes 3); 0 free frames have these colors, \
         3840 of 4096 frames are free in all"
    );
    let steps = frames.steps().since(&before);
    assert!(steps.total() <= frames.lookups_max(), "{steps:?}");
    assert_eq!(steps.total(), steps.lookups);
}

#[test]
fn soft_tasks_get_what_is_left_and_it_is_counted() {
    let memory = square(1024);
    let mut frames = Tinted::new(&memory);
    let policy = Policy { mode: Mode::Soft, ..banks("2", &memory) };
    let task = frames.enter(&Profile::of(policy.clone())).unwrap();
    let held = drain(&mut frames, task);
    assert_eq!(held.len(), 1024);
    assert!(held[..64].iter().all(|&pfn| plain_bits(pfn).bank_class == 2), "in color as long as there is any");
    let usage = frames.usage(task).unwrap();
    assert_eq!((usage.in_color, usage.out_of_color), (64, 960));
    let counts = frames.counts();
    assert_eq!((counts.given_in_color, counts.given_out_of_color), (64, 960));
    assert!(matches!(frames.allocate(on(task)), Err(FrameError::OutOfColor { free: 0, .. })));
    // A frame of the color comes back to it.
    frames.free(on(task), held[9]).unwrap();
    assert_eq!(frames.allocate(on(task)), Ok(held[9]));
}

#[test]
fn others_keep_out_of_the_colors_of_strict_tasks_while_they_can() {
    let memory = square(1024);
    let mut frames = Tinted::new(&memory);
    let owner = frames.enter(&Profile::of(banks("0-3", &memory))).unwrap();
    let soft = Policy { mode: Mode::Soft, ..banks("4", &memory) };
    let guests = [uncolored(), Profile::of(soft)].map(|profile| frames.enter(&profile).unwrap());
    for turn in 0..768 {
        let pfn = frames.allocate(on(guests[turn % 2])).unwrap();
        assert!(plain_bits(pfn).bank_class > 3, "frame {turn}");
    }
    // Nothing else is left: what is free is given, whosever color it has.
    for guest in guests {
        assert!(plain_bits(frames.allocate(on(guest)).unwrap()).bank_class <= 3);
    }
    // Once the owner has left, its colors are anybody's.
    let mut fresh = Tinted::new(&memory);
    let gone = fresh.enter(&Profile::of(banks("0-3", &memory))).unwrap();
    fresh.leave(gone).unwrap();
    let plain = fresh.enter(&uncolored()).unwrap();
    assert!((0..256).any(|_| plain_bits(fresh.allocate(on(plain)).unwrap()).bank_class <= 3));
    assert_eq!(drain(&mut frames, owner).len(), 254);
}

#[test]
fn frames_are_spread_over_the_banks_of_a_task() {
    let memory = square(8192);
    for fragment in [false, true] {
        let mut frames = if fragment { fragmented(&memory, 5, |pfn| pfn.0 % 3 != 0) } else { Tinted::new(&memory) };
        let task = frames.enter(&Profile::of(banks("1,6,8,15", &memory))).unwrap();
        let mut used = [0u32; 16];
        for _ in 0..400 {
            used[plain_bits(frames.allocate(on(task)).unwrap()).bank_class as usize] += 1;
        }
        assert!([1, 6, 8, 15].iter().all(|&bank: &usize| (90..=110).contains(&used[bank])), "{fragment}: {used:?}");
    }
}

#[test]
fn large_blocks_remain_while_a_color_is_used_up() {
    // PALLOC, CAMC, TintMalloc and the hybrid one leave single frames behind; here the rest is still in blocks.
    let memory = square(4096);
    let mut left = Vec::new();
    for mut frames in
        systems(&memory).into_iter().filter(|frames| frames.promises().banks && !frames.promises().chooses)
    {
        // Bank bits are frame bits 0, 1, 4 and 5: banks 0-3 are 16 frames side by side of every 64.
        let task = frames.enter(&crate::common::colored(banks("0-3", &memory))).unwrap();
        let held = drain(&mut *frames, task);
        assert_eq!(held.len(), 1024);
        let plain = frames.enter(&uncolored()).unwrap();
        let blocks = std::iter::from_fn(|| frames.allocate_block(on(plain), 4).ok()).count();
        left.push((frames.name(), frames.promises().merges, blocks));
    }
    for &(name, merges, blocks) in &left {
        assert_eq!(blocks, if merges { 192 } else { 0 }, "{name}");
    }
}

#[test]
fn a_mapping_without_bits_is_colored_as_well() {
    let memory = memory(&[range(ZoneKind::Normal, 0, 0, 6 * 1024)], &[0], (6, 1), three_channels);
    let mut frames = Tinted::new(&memory);
    assert_eq!(frames.order_max(), 10);
    let task = frames.enter(&Profile::of(banks("2", &memory))).unwrap();
    let held = drain(&mut frames, task);
    assert_eq!(held.len(), 1024);
    assert!(held.iter().all(|&pfn| three_channels(pfn).bank_class == 2));
}

#[test]
fn a_color_function_without_any_order_limits_blocks_and_nothing_else() {
    let scrambled = |pfn: Pfn| {
        let bank_class = Random::new(pfn.0).below(32) as u32;
        memtint_map::FrameColor { bank_class, set_color: 0, node: 0 }
    };
    let memory = memory(&[range(ZoneKind::Normal, 0, 0, 32768)], &[0], (32, 1), scrambled);
    let mut frames = Tinted::new(&memory);
    assert!((1..10).contains(&frames.order_max()), "{}", frames.order_max());
    let task = frames.enter(&Profile::of(banks("7", &memory))).unwrap();
    let policy = banks("7", &memory);
    assert_eq!(drain(&mut frames, task).len() as u64, memory.frames_in_color(&policy).unwrap());
    assert_eq!(frames.faults(), 0);
    let plain = frames.enter(&uncolored()).unwrap();
    let large = frames.order_max() + 1;
    assert!(matches!(frames.allocate_block(on(plain), large), Err(FrameError::OutOfMemory { .. })));
}

#[test]
fn nodes_can_be_asked_for_and_fall_back_in_soft_mode() {
    let memory = two_nodes();
    let mut frames = Tinted::new(&memory);
    let mode = Mode::Soft;
    let policy = Policy { nodes: Some(IndexSet::parse("0", 2).unwrap()), mode, ..Policy::any() };
    let task = frames.enter(&Profile::of(policy)).unwrap();
    let near = Caller { task, cpu: 1 };
    let held: Vec<Pfn> = (0..2900).map(|_| frames.allocate(near).unwrap()).collect();
    assert!(held.iter().all(|&pfn| memory.color(pfn).unwrap().node == 0));
    assert_eq!(memory.color(frames.allocate(near).unwrap()).unwrap().node, 1);
    assert_eq!(frames.usage(task).unwrap().out_of_color, 1);
}

/// The first 8 MiB of each region of a platform, whole blocks.
fn beginnings(palette: &Palette) -> Option<Arc<FrameMemory>> {
    let regions = palette.platform().regions().iter();
    let ranges: Vec<FrameRange> = regions
        .filter_map(|region| {
            let (start, end) = (region.base.pfn().0.next_multiple_of(1024), region.end().pfn().0);
            let end = end.min(start + 2048);
            (start < end).then(|| range(ZoneKind::Normal, region.node, start, end))
        })
        .collect();
    FrameMemory::new(&ranges, &[0], palette).ok()
}

#[test]
fn every_platform_of_the_catalogue_can_be_colored_page_by_page() {
    let mut platforms = 0;
    for name in catalogue::names() {
        let platform = Platform::load(name).unwrap();
        let Ok(palette) = Palette::new(&platform, Granule::PAGE) else { continue };
        let memory = beginnings(&palette).unwrap_or_else(|| panic!("{name}"));
        let mut frames = Tinted::new(&memory);
        assert_eq!(frames.order_max(), 10, "{name}");
        let color = memory.colors()[memory.colors().len() / 2];
        let own = Policy::banks(IndexSet::from_indices([color.bank_class], memory.bank_classes()).unwrap());
        let task = frames.enter(&Profile::of(own.clone())).unwrap();
        let held = drain(&mut frames, task);
        assert_eq!(held.len() as u64, memory.frames_in_color(&own).unwrap(), "{name}");
        assert!(held.iter().all(|pfn| palette.bank_class(pfn.addr()) == Some(color.bank_class)), "{name}");
        for pfn in held {
            frames.free(on(task), pfn).unwrap();
        }
        let fresh = Tinted::new(&memory).counts().blocks;
        assert_eq!((frames.counts().blocks, frames.faults()), (fresh, 0), "{name}");
        platforms += 1;
    }
    assert!(platforms > 40, "{platforms}");
}
