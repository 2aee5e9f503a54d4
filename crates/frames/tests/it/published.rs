//! Do the published systems behave as published, defects included? Each test names what it shows and where it is written.

use crate::common::{
    PLAIN_USER, SMALL_LISTS, banks, camc, colored, drain, memory, modulo, on, plain_bits, range, square, two_nodes,
    uncolored,
};
use memtint_frames::{
    Bpm, Buddy, Caller, Camc, Form, FrameAllocator, FrameError, FrameMemory, Hybrid, MemIds, Palloc, Pick, Policy,
    Profile, TintMalloc, ZoneKind,
};
use memtint_map::{Granule, Palette, Platform};
use memtint_units::{IndexSet, Pfn};

fn class(memory: &FrameMemory, pfn: Pfn) -> u32 {
    memory.color(pfn).unwrap().bank_class
}

/// The most steps of one allocation while a task takes all it can.
fn worst(frames: &mut dyn FrameAllocator, policy: &Policy) -> u64 {
    let task = frames.enter(&colored(policy.clone())).unwrap();
    let mut most = 0;
    loop {
        let before = frames.steps();
        let done = frames.allocate(on(task)).is_err();
        most = most.max(frames.steps().since(&before).total());
        if done {
            return most;
        }
    }
}

// Buddy.

#[test]
fn buddy_frames_of_one_batch_follow_each_other() {
    let mut frames = Buddy::new(&square(1024), Some(SMALL_LISTS));
    let task = frames.enter(&uncolored()).unwrap();
    let held: Vec<u64> = (0..8).map(|_| frames.allocate(on(task)).unwrap().0).collect();
    assert_eq!(held, [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!((frames.counts().on_cpu_lists, frames.counts().held), (0, 8));
    // The list of 12 gives 4 back as soon as it is full.
    for pfn in held {
        frames.free(on(task), Pfn(pfn)).unwrap();
    }
    assert_eq!(frames.counts().on_cpu_lists, 8);
    for _ in 0..4 {
        let pfn = frames.allocate(Caller { task, cpu: 1 }).unwrap();
        frames.free(on(task), pfn).unwrap();
    }
    assert_eq!(frames.counts().on_cpu_lists, 8, "at 12 the oldest 4 went back");
}

// PALLOC.

#[test]
fn palloc_traps_the_frames_a_search_comes_by() {
    let memory = square(1024);
    let mut frames = Palloc::new(&memory, None, Pick::InTurn);
    let task = frames.enter(&colored(banks("0", &memory))).unwrap();
    let plain = frames.enter(&uncolored()).unwrap();
    let pfn = frames.allocate(on(task)).unwrap();
    // One frame was wanted; the whole block lies in bins, and nothing of two frames can be had.
    let counts = frames.counts();
    assert_eq!((counts.held, counts.on_color_lists, counts.in_blocks), (1, 1023, 0));
    assert_eq!((frames.bin_frames(0), frames.bin_frames(1)), (63, 64));
    let refused = frames.allocate_block(on(plain), 1);
    assert!(matches!(refused, Err(FrameError::OutOfMemory { order: 1, free: 1023, .. })), "{refused:?}");
    // Freed, it goes to the buddy allocator, not to its bin; nothing merges.
    frames.free(on(task), pfn).unwrap();
    assert_eq!((frames.bin_frames(0), frames.counts().blocks[0]), (63, 1));
    // `flush` gives the bins back in single frames: still nothing of two.
    frames.flush_bins();
    assert_eq!((frames.counts().blocks[0], frames.counts().on_color_lists), (1024, 0));
    assert!(frames.allocate_block(on(plain), 1).is_err());
}

#[test]
fn palloc_searches_grow_with_memory() {
    let most = |size: u64| {
        let memory = square(size);
        let mut frames = Palloc::new(&memory, None, Pick::InTurn);
        // Bank 3 is used up by somebody else: the search for it goes through all memory.
        let plain = frames.enter(&uncolored()).unwrap();
        let held = drain(&mut frames, plain);
        for pfn in held.into_iter().filter(|&pfn| class(&memory, pfn) != 3) {
            frames.free(on(plain), pfn).unwrap();
        }
        worst(&mut frames, &banks("3", &memory))
    };
    let (small, large) = (most(2048), most(8192));
    assert!(small > 1000 && large > 3 * small, "{small} {large}");
}

#[test]
fn palloc_fills_bank_after_bank_in_the_papers_figure_and_takes_turns_in_the_patch() {
    let memory = square(1024);
    let first = |pick| {
        let mut frames = Palloc::new(&memory, None, pick);
        let task = frames.enter(&colored(banks("1,4", &memory))).unwrap();
        (0..6).map(|_| class(&memory, frames.allocate(on(task)).unwrap())).collect::<Vec<_>>()
    };
    assert_eq!(first(Pick::InOrder), [1; 6]);
    assert_eq!(first(Pick::InTurn), [1, 4, 1, 4, 1, 4]);
}

#[test]
fn palloc_reserves_nothing_for_those_who_have_bins() {
    let memory = square(1024);
    let mut frames = Palloc::new(&memory, None, Pick::InTurn);
    let owner = frames.enter(&colored(banks("0-3", &memory))).unwrap();
    let plain = frames.enter(&uncolored()).unwrap();
    let taken = (0..160).filter(|_| class(&memory, frames.allocate(on(plain)).unwrap()) <= 3).count();
    assert_eq!(taken, 40);
    // A list can be rewritten at any time and holds at once.
    frames.write_bins(owner, &IndexSet::parse("9", 16).unwrap()).unwrap();
    assert_eq!(class(&memory, frames.allocate(on(owner)).unwrap()), 9);
    frames.write_bins(owner, &IndexSet::none(16)).unwrap();
    assert!(frames.policy(owner).unwrap().is_any());
}

// BPM.

#[test]
fn bpm_needs_no_search_and_traps_nothing() {
    let most = |size: u64| {
        let memory = square(size);
        worst(&mut Bpm::new(&memory).unwrap(), &banks("3", &memory))
    };
    assert_eq!(most(2048), most(8192));
}

#[test]
fn bpm_refuses_memory_whose_first_frames_do_not_tell() {
    let found = Bpm::new(&modulo()).unwrap_err();
    assert!(matches!(found, FrameError::NotLinear { order: 1, .. }), "{found}");
    assert!(Bpm::new(&two_nodes()).is_ok(), "XOR functions do tell");
}

#[test]
fn bpm_picks_colors_in_turn() {
    let memory = square(1024);
    let mut frames = Bpm::new(&memory).unwrap();
    let task = frames.enter(&colored(banks("2,7", &memory))).unwrap();
    let picked: Vec<u32> = (0..4).map(|_| class(&memory, frames.allocate(on(task)).unwrap())).collect();
    assert_eq!(picked, [2, 7, 2, 7]);
}

// CAMC.

fn program(cpu: u32, colors: Option<&str>, memory: &FrameMemory) -> Profile {
    let policy = colors.map_or(Policy::any(), |list| banks(list, memory));
    Profile { cpu, ..colored(policy) }
}

fn colors_of(frames: &Camc, task: memtint_frames::TaskId) -> String {
    frames.policy(task).unwrap().to_string()
}

#[test]
fn camc_gives_local_colors_that_nobody_has_then_remote_ones_then_shares() {
    let memory = two_nodes();
    let mut frames = camc(&memory, Form::Corrected);
    let first = frames.enter(&program(1, None, &memory)).unwrap();
    let second = frames.enter(&program(1, Some("0-2"), &memory)).unwrap();
    assert_eq!(
        (colors_of(&frames, first), colors_of(&frames, second)),
        ("bank classes 8".into(), "bank classes 9-11".into())
    );
    let third = frames.enter(&program(0, Some("0-1"), &memory)).unwrap();
    assert_eq!(colors_of(&frames, third), "bank classes 0-1");
    // Four are left on node 1: two more come from node 0.
    let fourth = frames.enter(&program(1, Some("0-5"), &memory)).unwrap();
    assert_eq!(colors_of(&frames, fourth), "bank classes 2-3,12-15");
    let fifth = frames.enter(&program(1, Some("0-4"), &memory)).unwrap();
    assert_eq!(colors_of(&frames, fifth), "bank classes 4-8", "the pool first, then a shared one of the own node");
    assert_eq!(frames.coloring_pool(), [] as [u32; 0]);
    // Whoever leaves returns its colors.
    frames.leave(second).unwrap();
    assert_eq!(frames.coloring_pool(), [9, 10, 11]);
    let many = frames.enter(&program(0, None, &memory)).unwrap();
    assert_eq!(colors_of(&frames, many), "bank classes 9");
}

#[test]
fn camc_shares_the_least_used_color() {
    let memory = square(1024);
    let mut frames = camc(&memory, Form::Corrected);
    let first = frames.enter(&program(0, Some("0-7"), &memory)).unwrap();
    let second = frames.enter(&program(0, Some("0-7"), &memory)).unwrap();
    for _ in 0..40 {
        frames.allocate(on(first)).unwrap();
    }
    frames.allocate(on(second)).unwrap();
    // Each of 16 colors has one owner; color 0 has 40 frames in use, color 8 one, the others none.
    let third = frames.enter(&program(0, None, &memory)).unwrap();
    assert_eq!(colors_of(&frames, third), "bank classes 1");
}

#[test]
fn camc_colors_registered_users_and_matching_programs_only() {
    let memory = square(1024);
    let mut frames = camc(&memory, Form::Corrected);
    let right = colored(Policy::any());
    let other_user = Profile { user: PLAIN_USER, ..right.clone() };
    let other_path = Profile { path: "/usr/bin/ls".to_owned(), ..right.clone() };
    let any = |frames: &mut Camc, profile: &Profile| {
        let task = frames.enter(profile).unwrap();
        frames.policy(task).unwrap().is_any()
    };
    assert_eq!([&right, &other_user, &other_path].map(|profile| any(&mut frames, profile)), [false, true, true]);
    frames.register_user(PLAIN_USER);
    frames.add_pattern("*/ls");
    assert_eq!([&other_user, &other_path].map(|profile| any(&mut frames, profile)), [false; 2]);
}

#[test]
fn camc_gives_one_more_color_to_who_has_used_up_its_own() {
    let memory = square(1024);
    let mut frames = camc(&memory, Form::Corrected);
    let other = frames.enter(&program(0, Some("0-9"), &memory)).unwrap();
    let task = frames.enter(&program(0, None, &memory)).unwrap();
    assert_eq!(colors_of(&frames, task), "bank classes 10");
    assert!((0..64).all(|_| class(&memory, frames.allocate(on(task)).unwrap()) == 10));
    assert_eq!(class(&memory, frames.allocate(on(task)).unwrap()), 11);
    assert_eq!(colors_of(&frames, task), "bank classes 10-11");
    // Six of sixteen colors, and no more when the pool is dry.
    assert_eq!(drain(&mut frames, task).len() + 65, 6 * 64);
    let error = frames.allocate(on(task)).unwrap_err();
    assert!(matches!(error, FrameError::OutOfColor { free: 640, free_in_color: 0, .. }), "{error}");
    assert_eq!(drain(&mut frames, other).len(), 640);
    let refused = frames.enter(&program(0, Some("0-15"), &memory));
    assert!(refused.is_ok(), "all 16 may be shared");
}

#[test]
fn camc_keeps_frames_on_color_lists_out_of_everybody_elses_reach() {
    let memory = square(1024);
    let mut frames = camc(&memory, Form::Corrected);
    let task = frames.enter(&program(0, None, &memory)).unwrap();
    let plain = frames.enter(&uncolored()).unwrap();
    let pfn = frames.allocate(on(task)).unwrap();
    frames.free(on(task), pfn).unwrap();
    let refused = frames.allocate(on(plain));
    assert!(matches!(refused, Err(FrameError::OutOfMemory { order: 0, free: 1024, .. })), "{refused:?}");
}

/// What a task gets, what is lost, and what is left of its color, when one task takes all it can of one color.
fn one_color(frames: &mut dyn FrameAllocator, policy: Policy) -> (usize, u64, u64) {
    let task = frames.enter(&colored(policy)).unwrap();
    let held = drain(frames, task);
    let policy = frames.policy(task).unwrap().clone();
    assert_eq!(frames.counts().held + frames.counts().free() + frames.counts().lost, frames.counts().frames);
    (held.len(), frames.counts().lost, frames.free_in_color(&policy).unwrap())
}

#[test]
fn algorithm_2_as_printed_forgets_half_of_each_block() {
    // for i = 0 ... 2^(order-1), last included: 513 of 1024 frames are kept. Algorithm 4 is the same.
    let memory = square(1024);
    let mut printed = camc(&memory, Form::AsPrinted);
    let task = printed.enter(&program(0, None, &memory)).unwrap();
    printed.allocate(on(task)).unwrap();
    assert_eq!((printed.counts().lost, printed.counts().on_color_lists), (511, 512));
    let ids = || MemIds::dense(&memory);
    let printed = one_color(&mut TintMalloc::new(&memory, ids(), Form::AsPrinted).unwrap(), banks("5", &memory));
    let corrected = one_color(&mut TintMalloc::new(&memory, ids(), Form::Corrected).unwrap(), banks("5", &memory));
    assert_eq!((printed.1, corrected), (511, (64, 0, 0)));
    assert!(printed.0 <= 33, "{printed:?}");
}

#[test]
fn algorithms_1_and_3_as_printed_give_up_before_the_list_ends() {
    // One block of each order is looked at in a request. Blocks of order 0 of bank 1 lie before the one of bank 2.
    let memory = square(1024);
    let ids = || MemIds::dense(&memory);
    let mut found = Vec::new();
    for form in [Form::AsPrinted, Form::Corrected] {
        let mut frames = TintMalloc::new(&memory, ids(), form).unwrap();
        let plain = frames.enter(&uncolored()).unwrap();
        let held = drain(&mut frames, plain);
        for bank in [2, 1, 1] {
            let pfn = held.iter().find(|&&pfn| class(&memory, pfn) == bank && frames.free(on(plain), pfn).is_ok());
            assert!(pfn.is_some());
        }
        let task = frames.enter(&colored(banks("2", &memory))).unwrap();
        let first = frames.allocate(on(task)).map(|pfn| class(&memory, pfn));
        found.push(first.map_err(|error| matches!(error, FrameError::OutOfColor { free_in_color: 1, .. })));
    }
    assert_eq!(found, [Err(true), Ok(2)]);
}

// TintMalloc.

#[test]
fn equation_1_as_printed_overflows_the_matrix() {
    let palette = Palette::new(&Platform::load("opteron-6128-tintmalloc").unwrap(), Granule::PAGE).unwrap();
    let ranges = [range(ZoneKind::Normal, 0, 0, 2048), range(ZoneKind::Normal, 3, 0x30_0000, 0x30_0800)];
    let memory = FrameMemory::new(&ranges, &[0], &palette).unwrap();
    let printed = MemIds::of_palette(&palette, Form::AsPrinted).unwrap();
    assert_eq!((printed.rows(), printed.of_classes().len()), (128, 64));
    assert!(printed.of_classes().iter().any(|&row| row >= 128));
    let refused = TintMalloc::new(&memory, printed, Form::Corrected).unwrap_err();
    assert!(matches!(refused, FrameError::MemIdOutsideMatrix { lists: 128, .. }), "{refused}");
    let corrected = MemIds::of_palette(&palette, Form::Corrected).unwrap();
    assert!(corrected.of_classes().iter().all(|&row| row < 128));
    let mut frames = TintMalloc::new(&memory, corrected, Form::Corrected).unwrap();
    // Banks of node 3 for a task on node 0.
    let remote = memory.colors().iter().find(|color| color.node == 3).unwrap().bank_class;
    let policy = Policy::banks(IndexSet::from_indices([remote], memory.bank_classes()).unwrap());
    let task = frames.enter(&Profile::of(policy)).unwrap();
    assert_eq!(memory.color(frames.allocate(on(task)).unwrap()).unwrap().node, 3);
    let few = MemIds::dense(&square(1024));
    assert_eq!(
        TintMalloc::new(&memory, few, Form::Corrected).unwrap_err(),
        FrameError::MemIdCount { found: 16, classes: 64 }
    );
}

#[test]
fn tintmalloc_lists_by_bank_and_cache_color() {
    let memory = square(1024);
    let mut frames = TintMalloc::new(&memory, MemIds::dense(&memory), Form::Corrected).unwrap();
    let sets = Some(IndexSet::parse("6", 8).unwrap());
    let task = frames.enter(&colored(Policy { sets: sets.clone(), ..Policy::any() })).unwrap();
    let held = drain(&mut frames, task);
    assert_eq!(held.len(), 128);
    assert!(held.iter().all(|&pfn| plain_bits(pfn).set_color == 6));
    // Bank 2 and set 6 share the low bits (10): those are taken; bank 2 and set 2 are there.
    assert_eq!((frames.list_frames(2, 6), frames.list_frames(2, 2), frames.list_frames(2, 5)), (0, 32, 0));
    frames.free(on(task), held[0]).unwrap();
    assert_eq!(frames.counts().on_color_lists, 1024 - 127);
}

#[test]
fn tintmalloc_and_the_hybrid_traverse_all_memory_for_a_color_in_use() {
    for hybrid in [false, true] {
        let most = |size: u64| {
            let memory = square(size);
            let mut frames: Box<dyn FrameAllocator> = if hybrid {
                Box::new(Hybrid::new(&memory, None))
            } else {
                Box::new(TintMalloc::new(&memory, MemIds::dense(&memory), Form::Corrected).unwrap())
            };
            worst(&mut *frames, &banks("3", &memory))
        };
        let (small, large) = (most(1024), most(8192));
        assert!(small >= 1024 && large >= small, "{small} {large}");
        // The last request fails after everything was looked at; each single one breaks at most one fresh block.
        assert!(large < 3 * small, "fresh memory has the color in every block: {small} {large}");
    }
}

// Hybrid.

#[test]
fn the_hybrids_frees_follow_the_mode_of_the_moment() {
    let memory = square(1024);
    let mut frames = Hybrid::new(&memory, None);
    let policy = Policy { sets: Some(IndexSet::parse("1", 8).unwrap()), ..banks("1,5", &memory) };
    let task = frames.enter(&colored(policy)).unwrap();
    let (one, other) = (frames.allocate(on(task)).unwrap(), frames.allocate(on(task)).unwrap());
    assert_eq!(frames.counts().on_color_lists, 1022);
    frames.free(on(task), one).unwrap();
    assert_eq!((frames.counts().on_color_lists, frames.counts().in_blocks), (1023, 0), "colored: to the color list");
    frames.set_policy(task, &Policy::any()).unwrap();
    frames.free(on(task), other).unwrap();
    assert_eq!((frames.counts().on_color_lists, frames.counts().in_blocks), (1023, 1), "cleared: to the buddy");
}

#[test]
fn several_zones_are_used_one_after_the_other() {
    let ranges = [range(ZoneKind::Dma, 0, 0, 1024), range(ZoneKind::Normal, 0, 1024, 2048)];
    let memory = memory(&ranges, &[0], (16, 8), plain_bits);
    for mut frames in crate::common::systems(&memory)
        .into_iter()
        .filter(|frames| frames.promises().banks && !frames.promises().chooses)
    {
        let task = frames.enter(&colored(banks("0", &memory))).unwrap();
        let held = drain(&mut *frames, task);
        assert_eq!(held.len(), 128, "{}", frames.name());
        assert!(
            held[..64].iter().all(|pfn| pfn.0 >= 1024) && held[64..].iter().all(|pfn| pfn.0 < 1024),
            "{}",
            frames.name()
        );
    }
}
