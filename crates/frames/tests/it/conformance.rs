//! Do all implementations keep the contract? `cargo test -p memtint-frames --test it conformance::`
//!
//! Every test runs on every system and every memory of `common`; what a system promises decides what is asked of it.

use memtint_units::Random;
use std::collections::BTreeSet;

use crate::common::{banks, colored, drain, every, memories, on, square, systems, two_nodes, uncolored};
use memtint_frames::{Buddy, Caller, FrameAllocator, FrameError, Mode, ORDER_MAX, Policy, Profile, Tinted, ZoneKind};
use memtint_units::{IndexSet, Pfn};

/// Held and free frames and lost ones are all there are, and the structure agrees with itself.
fn sound(name: &str, frames: &dyn FrameAllocator) {
    let counts = frames.counts();
    assert_eq!(counts.held + counts.free() + counts.lost, counts.frames, "{name}");
    assert_eq!(counts.frames, frames.memory().frames(), "{name}");
    assert_eq!(frames.free_in_color(&Policy::any()).unwrap(), counts.free(), "{name}");
    assert_eq!(frames.faults(), 0, "{name}");
}

fn no_frame_twice(name: &str, held: &[Pfn]) {
    assert_eq!(held.iter().collect::<BTreeSet<_>>().len(), held.len(), "{name}: a frame was handed out twice");
}

#[test]
fn all_memory_is_free_at_first_and_in_the_largest_blocks() {
    for (name, frames) in every() {
        sound(&name, &*frames);
        let counts = frames.counts();
        assert_eq!((counts.in_blocks, counts.held), (counts.frames, 0), "{name}");
    }
    assert_eq!(Buddy::new(&square(3072), None).counts().blocks[ORDER_MAX as usize], 3);
}

#[test]
fn a_task_without_colors_gets_every_frame_once() {
    for (name, mut frames) in every() {
        let task = frames.enter(&uncolored()).unwrap();
        let held = drain(&mut *frames, task);
        assert_eq!(held.len() as u64, frames.memory().frames(), "{name}");
        no_frame_twice(&name, &held);
        assert!(held.iter().all(|&pfn| frames.memory().color(pfn).is_some()), "{name}");
        let free = frames.counts().free();
        let out_of_memory = FrameError::OutOfMemory { task, order: 0, free, frames: frames.memory().frames() };
        assert_eq!((free, frames.allocate(on(task))), (0, Err(out_of_memory)), "{name}");
        sound(&name, &*frames);
    }
}

#[test]
fn a_task_gets_every_frame_of_its_banks_and_no_other() {
    for (name, mut frames) in every().filter(|(_, frames)| frames.promises().banks) {
        let policy = banks("1,4", frames.memory());
        let task = frames.enter(&colored(policy.clone())).unwrap();
        let held = drain(&mut *frames, task);
        no_frame_twice(&name, &held);
        // CAMC chooses, and gives more colors until none is left.
        let policy = frames.policy(task).unwrap().clone();
        assert_eq!(held.len() as u64, frames.memory().frames_in_color(&policy).unwrap(), "{name}");
        assert!(held.iter().all(|&pfn| frames.memory().is_in_color(&policy, pfn)), "{name}");
        let usage = frames.usage(task).unwrap();
        assert_eq!((usage.in_color, usage.out_of_color), (held.len() as u64, 0), "{name}");
        match frames.allocate(on(task)) {
            Err(FrameError::OutOfColor { free_in_color: 0, free, .. }) => {
                assert_eq!(free, frames.counts().free(), "{name}");
            }
            other => panic!("{name}: {other:?}"),
        }
        sound(&name, &*frames);
    }
}

#[test]
fn banks_of_other_tasks_are_still_there_when_one_is_exhausted() {
    let fixed = |frames: &dyn FrameAllocator| frames.promises().banks && !frames.promises().chooses;
    for (name, mut frames) in every().filter(|(_, frames)| fixed(&**frames)) {
        let tasks = ["0-1", "2-3"].map(|list| frames.enter(&colored(banks(list, frames.memory()))).unwrap());
        let first = drain(&mut *frames, tasks[0]);
        let second = drain(&mut *frames, tasks[1]);
        for (list, held) in [("0-1", &first), ("2-3", &second)] {
            let policy = banks(list, frames.memory());
            assert_eq!(held.len() as u64, frames.memory().frames_in_color(&policy).unwrap(), "{name}");
        }
        // What one frees, it can have again.
        for &pfn in &first {
            frames.free(on(tasks[0]), pfn).unwrap();
        }
        assert_eq!(drain(&mut *frames, tasks[0]).len(), first.len(), "{name}");
        sound(&name, &*frames);
    }
}

#[test]
fn set_colors_and_pairs_of_both_are_honored() {
    for (name, mut frames) in every().filter(|(_, frames)| frames.promises().sets && frames.memory().set_colors() > 1) {
        let sets = IndexSet::parse("1-2", frames.memory().set_colors()).unwrap();
        let alone = Policy { sets: Some(sets.clone()), ..Policy::any() };
        let both = Policy { sets: Some(sets), ..banks("1-2,5-6", frames.memory()) };
        for policy in [both, alone] {
            let task = frames.enter(&colored(policy.clone())).unwrap();
            let free = frames.free_in_color(&policy).unwrap();
            let held = drain(&mut *frames, task);
            assert_eq!(held.len() as u64, free, "{name}");
            assert!(free > 0 && held.iter().all(|&pfn| frames.memory().is_in_color(&policy, pfn)), "{name}");
        }
        sound(&name, &*frames);
    }
}

#[test]
fn nodes_are_honored_where_promised() {
    let memory = two_nodes();
    for mut frames in systems(&memory).into_iter().filter(|frames| frames.promises().nodes) {
        let policy = Policy { nodes: Some(IndexSet::parse("1", 2).unwrap()), ..Policy::any() };
        let task = frames.enter(&Profile::of(policy)).unwrap();
        let held = drain(&mut *frames, task);
        assert_eq!(held.len(), 2048, "{}", frames.name());
        assert!(held.iter().all(|&pfn| memory.color(pfn).unwrap().node == 1), "{}", frames.name());
    }
}

#[test]
fn memory_of_the_own_node_comes_first() {
    let memory = two_nodes();
    for mut frames in systems(&memory) {
        let task = frames.enter(&uncolored()).unwrap();
        for (cpu, node) in [(0, 0), (1, 1)] {
            let pfn = frames.allocate(Caller { task, cpu }).unwrap();
            assert_eq!(memory.zone(pfn), Some((ZoneKind::Normal, node)), "{}", frames.name());
        }
    }
}

#[test]
fn what_a_system_cannot_express_is_refused() {
    for (name, mut frames) in every().filter(|(_, frames)| frames.promises().banks) {
        let promises = frames.promises();
        let all = |count| Some(IndexSet::all(count));
        let sets = Policy { sets: all(1), ..Policy::any() };
        let nodes = Policy { nodes: all(1), ..Policy::any() };
        let soft = Policy { mode: Mode::Soft, ..Policy::any() };
        for (promised, policy) in [(promises.sets, sets), (promises.nodes, nodes), (promises.soft, soft)] {
            let found = frames.enter(&colored(policy));
            assert_eq!(matches!(found, Err(FrameError::Unsupported { .. })), !promised, "{name}: {found:?}");
        }
    }
}

#[test]
fn policies_that_no_frame_can_satisfy_are_refused() {
    for (name, mut frames) in every() {
        let classes = frames.memory().bank_classes();
        let beyond = Policy::banks(IndexSet::parse("0-99", 100).unwrap());
        let found = frames.enter(&colored(beyond)).unwrap_err();
        assert_eq!(found, FrameError::NoSuchColor { what: "bank class", index: 99, count: classes }, "{name}");
        let nothing = Policy::banks(IndexSet::none(classes));
        assert!(matches!(frames.enter(&colored(nothing)), Err(FrameError::EmptyPolicy { .. })), "{name}");
    }
    // Bank bit 0 and set bit 0 are one address bit.
    let memory = square(1024);
    let apart = Policy { sets: Some(IndexSet::parse("1", 8).unwrap()), ..banks("0", &memory) };
    let found = Tinted::new(&memory).enter(&Profile::of(apart)).unwrap_err();
    assert_eq!(found, FrameError::EmptyPolicy { colors: "bank classes 0, set colors 1".to_owned() });
}

#[test]
fn blocks_of_every_order_are_aligned_and_apart() {
    for (name, mut frames) in every() {
        let task = frames.enter(&uncolored()).unwrap();
        let mut owned = BTreeSet::new();
        let mut held = Vec::new();
        for order in (0..=6).rev() {
            for _ in 0..3 {
                let pfn = frames.allocate_block(on(task), order).unwrap();
                assert_eq!(pfn.0 % (1 << order), 0, "{name}");
                assert!(
                    (pfn.0..pfn.0 + (1 << order)).all(|frame| owned.insert(frame)),
                    "{name}: order {order} at {pfn}"
                );
                held.push((pfn, order));
            }
        }
        assert_eq!(frames.counts().held, owned.len() as u64, "{name}");
        for (pfn, order) in held {
            frames.free_block(on(task), pfn, order).unwrap();
        }
        sound(&name, &*frames);
    }
}

#[test]
fn blocks_are_in_color_where_promised() {
    for (name, mut frames) in every().filter(|(_, frames)| frames.promises().blocks_in_color) {
        // Classes 0 and 1 lie side by side in three of the memories, 0 and 2 (channels 0 and 1) in the one with three channels.
        let pair = if name.ends_with("modulo") { "0,2" } else { "0-1" };
        let policy = banks(pair, frames.memory());
        let task = frames.enter(&colored(policy.clone())).unwrap();
        let mut blocks = 0;
        while let Ok(pfn) = frames.allocate_block(on(task), 1) {
            blocks += 1;
            assert!((0..2).all(|next| frames.memory().is_in_color(&policy, pfn.offset(next))), "{name}");
        }
        let found = frames.allocate_block(on(task), 1);
        assert!(blocks > 0 && matches!(found, Err(FrameError::OutOfColor { order: 1, .. })), "{name}: {found:?}");
        assert_eq!(frames.usage(task).unwrap().out_of_color, 0, "{name}");
        sound(&name, &*frames);
    }
}

#[test]
fn what_is_not_held_cannot_be_freed() {
    for (name, mut frames) in every() {
        let task = frames.enter(&colored(banks("0", frames.memory()))).unwrap();
        let free = on(task);
        let single = frames.allocate(free).unwrap();
        let block = frames.allocate_block(free, 3).unwrap_or_else(|_| {
            // Blocks of one bank alone do not exist; a task without colors has them.
            let plain = frames.enter(&uncolored()).unwrap();
            frames.allocate_block(on(plain), 3).unwrap()
        });
        let before = frames.counts();
        let inside = frames.free(free, block.offset(1)).unwrap_err();
        assert_eq!(inside, FrameError::NotAllocated { pfn: block.offset(1), found: "inside a larger block" }, "{name}");
        let wrong = frames.free(free, block).unwrap_err();
        assert_eq!(wrong, FrameError::WrongOrder { pfn: block, order: 0, allocated: 3 }, "{name}");
        let nowhere = Pfn(1 << 40);
        assert_eq!(frames.free(free, nowhere), Err(FrameError::NoSuchFrame { pfn: nowhere }), "{name}");
        assert_eq!(frames.counts(), before, "{name}: a refused free changes nothing");
        frames.free(free, single).unwrap();
        frames.free_block(free, block, 3).unwrap();
        for (pfn, order) in [(single, 0), (block, 3), (block.offset(4), 2)] {
            let found = frames.free_block(free, pfn, order);
            assert!(matches!(found, Err(FrameError::NotAllocated { .. })), "{name}: {found:?}");
        }
        assert_eq!(frames.counts().held, 0, "{name}");
        sound(&name, &*frames);
    }
}

#[test]
fn holes_do_not_exist() {
    for mut frames in systems(&crate::common::ragged()) {
        let task = frames.enter(&uncolored()).unwrap();
        for hole in [0, 159, 255, 1000, 2048 + 77, 8192, 8192 + 700].map(Pfn) {
            assert_eq!(frames.free(on(task), hole), Err(FrameError::NoSuchFrame { pfn: hole }), "{}", frames.name());
            assert_eq!(frames.memory().color(hole), None);
        }
    }
}

#[test]
fn strangers_are_refused() {
    for (name, mut frames) in every() {
        let task = frames.enter(&uncolored()).unwrap();
        let held = frames.allocate(on(task)).unwrap();
        let cpus = frames.memory().cpus();
        let elsewhere = FrameError::UnknownCpu { cpu: cpus, cpus };
        assert_eq!(frames.allocate(Caller { task, cpu: cpus }), Err(elsewhere.clone()), "{name}");
        assert_eq!(frames.enter(&Profile { cpu: cpus, ..uncolored() }), Err(elsewhere), "{name}");
        let large = FrameError::OrderTooLarge { order: ORDER_MAX + 1 };
        assert_eq!(frames.allocate_block(on(task), ORDER_MAX + 1), Err(large), "{name}");
        frames.leave(task).unwrap();
        let gone = FrameError::UnknownTask { task };
        assert_eq!(frames.allocate(on(task)), Err(gone.clone()), "{name}");
        assert_eq!(frames.free(on(task), held), Err(gone.clone()), "{name}");
        assert_eq!(frames.leave(task), Err(gone.clone()), "{name}");
        let next = frames.enter(&uncolored()).unwrap();
        assert_eq!(frames.usage(task), Err(gone), "{name}: a number used again does not bring the old task back");
        frames.free(on(next), held).unwrap();
        sound(&name, &*frames);
    }
}

#[test]
fn a_new_policy_holds_from_the_next_allocation_on() {
    let fixed = |frames: &dyn FrameAllocator| frames.promises().banks && !frames.promises().chooses;
    for (name, mut frames) in every().filter(|(_, frames)| fixed(&**frames)) {
        let task = frames.enter(&colored(banks("0", frames.memory()))).unwrap();
        let first = frames.allocate(on(task)).unwrap();
        frames.set_policy(task, &banks("3", frames.memory())).unwrap();
        let second = frames.allocate(on(task)).unwrap();
        let class = |pfn| frames.memory().color(pfn).unwrap().bank_class;
        assert_eq!((class(first), class(second)), (0, 3), "{name}");
        let refused = frames.set_policy(task, &Policy::banks(IndexSet::none(1)));
        assert!(refused.is_err() && frames.policy(task) == Ok(&banks("3", frames.memory())), "{name}");
        assert_eq!(frames.usage(task).unwrap().in_color, 2, "{name}");
    }
}

#[test]
fn fragmented_memory_still_gives_every_frame_of_a_color() {
    for (name, mut frames) in every().filter(|(_, frames)| frames.promises().banks) {
        let plain = frames.enter(&uncolored()).unwrap();
        let held = drain(&mut *frames, plain);
        let (keep, give): (Vec<Pfn>, Vec<Pfn>) = held.into_iter().partition(|pfn| (pfn.0 ^ pfn.0 >> 1) & 1 == 0);
        for &pfn in &give {
            frames.free(on(plain), pfn).unwrap();
        }
        let task = frames.enter(&colored(banks("0-1", frames.memory()))).unwrap();
        let free = give.len() as u64;
        let mine = drain(&mut *frames, task);
        // CAMC grows until everything is its.
        let policy = frames.policy(task).unwrap().clone();
        let expected = give.iter().filter(|&&pfn| frames.memory().is_in_color(&policy, pfn)).count();
        assert!(expected > 0 && mine.len() == expected, "{name}: {} of {expected}, {free} free", mine.len());
        sound(&name, &*frames);
        for pfn in keep {
            frames.free(on(plain), pfn).unwrap();
        }
        sound(&name, &*frames);
    }
}

/// Frees everything in an order of its own and says whether memory looks as at first.
fn merges_again(frames: &mut dyn FrameAllocator) -> bool {
    let fresh = frames.counts().blocks;
    let plain = frames.enter(&uncolored()).unwrap();
    let task = frames.enter(&colored(banks("0-3", frames.memory()))).unwrap();
    let mut held: Vec<(Pfn, u32, Caller)> = Vec::new();
    let larger = frames.allocate_block(on(plain), 4).unwrap();
    held.push((larger, 4, on(plain)));
    for _ in 0..40 {
        held.push((frames.allocate(on(task)).unwrap(), 0, on(task)));
        held.push((frames.allocate(on(plain)).unwrap(), 0, on(plain)));
    }
    Random::new(7).shuffle(&mut held);
    for (pfn, order, caller) in held {
        frames.free_block(caller, pfn, order).unwrap();
    }
    frames.flush();
    assert_eq!(frames.counts().held, 0);
    frames.counts().blocks == fresh
}

#[test]
fn everything_merges_again_where_promised_and_only_there() {
    for (name, mut frames) in every() {
        let merged = merges_again(&mut *frames);
        assert_eq!(merged, frames.promises().merges, "{name}");
        let counts = frames.counts();
        assert_eq!(counts.on_cpu_lists, 0, "{name}: flushed");
        assert_eq!(
            counts.on_color_lists > 0,
            !frames.promises().merges,
            "{name}: what does not merge is on color lists"
        );
        sound(&name, &*frames);
    }
}

#[test]
fn per_cpu_lists_hold_what_was_freed_until_flushed_or_needed() {
    let memory = square(1024);
    for mut frames in systems(&memory) {
        let task = frames.enter(&uncolored()).unwrap();
        let held = drain(&mut *frames, task);
        for &pfn in &held[..8] {
            frames.free(on(task), pfn).unwrap();
        }
        // The other CPU has an empty list and finds no block; the lists are emptied for it.
        let other = Caller { task, cpu: 1 };
        for _ in 0..8 {
            frames.allocate(other).unwrap_or_else(|error| panic!("{}: {error}", frames.name()));
        }
        assert_eq!(frames.counts().held, 1024, "{}", frames.name());
        sound(frames.name(), &*frames);
    }
}

#[test]
fn a_color_blind_system_counts_what_it_gets_wrong() {
    let memory = square(1024);
    let mut frames = Buddy::new(&memory, None);
    let task = frames.enter(&Profile::of(banks("0-3", &memory))).unwrap();
    drain(&mut frames, task);
    let usage = frames.usage(task).unwrap();
    assert_eq!((usage.in_color, usage.out_of_color), (256, 768));
    assert_eq!(frames.counts().given_out_of_color, 768);
}

#[test]
fn equal_calls_give_equal_frames() {
    for (_, memory) in memories() {
        for (mut one, mut other) in systems(&memory).into_iter().zip(systems(&memory)) {
            let run = |frames: &mut dyn FrameAllocator| {
                let task = frames.enter(&colored(banks("0-1", frames.memory()))).unwrap();
                let held: Vec<Pfn> = (0..60).map(|_| frames.allocate(on(task)).unwrap()).collect();
                held.iter().step_by(3).for_each(|&pfn| frames.free(on(task), pfn).unwrap());
                (held, drain(frames, task), frames.steps())
            };
            assert_eq!(run(&mut *one), run(&mut *other), "{}", one.name());
        }
    }
}
