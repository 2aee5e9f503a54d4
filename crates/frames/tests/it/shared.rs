//! Do systems that share a memory keep out of each other's frames? `cargo test -p memtint-frames --test it shared::`
//!
//! The model is a map from frame to who holds it; it shares no code with the crate.

use memtint_units::Random;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{SMALL_LISTS, banks, colored, memories, on, square, tenants, uncolored};
use memtint_frames::{
    Bpm, Buddy, Caller, FrameAllocator, FrameError, FrameMemory, Hybrid, Mode, Palloc, Pick, Policy, Shared, TaskId,
    Tenant, TintMalloc, Tinted,
};
use memtint_units::Pfn;
use proptest::prelude::*;

/// A task and its system.
#[derive(Clone, Copy)]
struct Seat {
    system: usize,
    task: TaskId,
}

/// Who holds what: first frame to order and system.
#[derive(Default)]
struct Model(BTreeMap<Pfn, (u32, usize)>);

impl Model {
    fn hold(&mut self, pfn: Pfn, order: u32, system: usize) {
        let end = pfn.offset(1 << order);
        let before = self.0.range(..end).next_back();
        let apart = before.is_none_or(|(start, (order, _))| start.offset(1 << order) <= pfn);
        assert!(apart, "frame {pfn} of system {system} is held already: {before:?}");
        self.0.insert(pfn, (order, system));
    }

    fn frames_of(&self, system: usize) -> u64 {
        self.0.values().filter(|&&(_, of)| of == system).map(|&(order, _)| 1 << order).sum()
    }
}

fn check(shared: &Shared, model: &Model) {
    assert_eq!(shared.faults(), 0, "{shared:?}");
    let all: u64 = model.0.values().map(|&(order, _)| 1u64 << order).sum();
    for (place, system) in shared.systems().enumerate() {
        let counts = system.counts();
        assert_eq!(counts.held, model.frames_of(place), "{}", system.name());
        assert_eq!(counts.held + counts.free() + counts.lost + counts.elsewhere, counts.frames, "{}", system.name());
        assert!(counts.elsewhere >= all - counts.held, "{}", system.name());
    }
}

fn enter(shared: &mut Shared) -> Vec<Seat> {
    let mut seats = Vec::new();
    for system in 0..shared.systems().count() {
        let mut member = shared.member(system);
        let mut profiles = vec![uncolored(), colored(banks("0-1", member.memory()))];
        if member.promises().soft && member.promises().banks {
            profiles.push(colored(Policy { mode: Mode::Soft, ..banks("2", member.memory()) }));
        }
        seats.extend(profiles.iter().map(|profile| Seat { system, task: member.enter(profile).unwrap() }));
    }
    seats
}

fn allocate(shared: &mut Shared, model: &mut Model, seat: Seat, caller: Caller, order: u32) {
    let mut member = shared.member(seat.system);
    let promises = member.promises();
    match member.allocate_block(caller, order) {
        Ok(pfn) => {
            model.hold(pfn, order, seat.system);
            let policy = member.policy(caller.task).unwrap();
            let strict = promises.banks && policy.mode == Mode::Strict && order == 0;
            assert!(!strict || member.memory().is_in_color(policy, pfn), "{}", member.name());
        }
        // What is left is with others, out of color, or too small.
        Err(FrameError::OutOfColor { free_in_color, .. }) => assert!(order > 0 || free_in_color == 0),
        Err(FrameError::OutOfMemory { free, .. }) => assert!(order > 0 || free == 0 || !promises.merges),
        Err(error) => panic!("{}: {error}", member.name()),
    }
}

fn run(shared: &mut Shared, seed: u64, operations: usize) {
    let mut random = Random::new(seed);
    let fresh: Vec<_> = shared.systems().map(FrameAllocator::counts).collect();
    let seats = enter(shared);
    let cpus = shared.systems().next().unwrap().memory().cpus() as usize;
    let mut model = Model::default();
    for operation in 0..operations {
        let seat = seats[random.index(seats.len())];
        let caller = Caller { task: seat.task, cpu: random.index(cpus) as u32 };
        let frees = [2, 7, 2, 7][operation * 4 / operations];
        match random.index(100) {
            0 => shared.member(seat.system).flush(),
            1 => check(shared, &model),
            dice if dice % 10 < frees && !model.0.is_empty() => {
                let pfn = model.0.keys().nth(random.index(model.0.len())).copied().unwrap();
                let (order, owner) = model.0[&pfn];
                let free =
                    |shared: &mut Shared, seat: Seat| shared.member(seat.system).free_block(on(seat.task), pfn, order);
                if owner != seat.system {
                    let stolen = free(shared, seat);
                    assert!(matches!(stolen, Err(FrameError::NotAllocated { .. })), "{stolen:?}");
                }
                let own = *seats.iter().find(|seat| seat.system == owner).unwrap();
                free(shared, own).unwrap();
                model.0.remove(&pfn);
            }
            dice => {
                let order = if dice % 7 == 0 { random.index(6) as u32 } else { 0 };
                for _ in 0..1 + random.index(60) {
                    allocate(shared, &mut model, seat, caller, order);
                }
            }
        }
    }
    check(shared, &model);
    for (pfn, (order, owner)) in std::mem::take(&mut model.0) {
        let own = *seats.iter().rfind(|seat| seat.system == owner).unwrap();
        shared.member(owner).free_block(on(own.task), pfn, order).unwrap();
    }
    for system in 0..fresh.len() {
        shared.member(system).flush();
    }
    check(shared, &model);
    let trapped: u64 = shared.systems().map(|system| system.counts().on_color_lists).sum();
    for (system, fresh) in shared.systems().zip(&fresh) {
        let counts = system.counts();
        assert_eq!((counts.held, counts.on_cpu_lists), (0, 0), "{}", system.name());
        assert_eq!(counts.in_blocks + trapped, counts.frames, "{}: all has come back", system.name());
        assert!(!system.promises().merges || counts.on_color_lists == 0, "{}", system.name());
        assert!(trapped > 0 || counts.blocks == fresh.blocks, "{}: and merged", system.name());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn no_frame_is_ever_with_two_systems_and_all_come_back(
        seed in any::<u64>(), place in 0usize..4, mixed in 0u32..512,
    ) {
        let (_, memory) = memories().swap_remove(place);
        // Any two or more of them, and memtint's own.
        let mut systems: Vec<Box<dyn Tenant>> = vec![Box::new(Tinted::new(&memory))];
        systems.extend(tenants(&memory).into_iter().enumerate().filter(|(bit, _)| mixed >> bit & 1 == 1).map(|(_, it)| it));
        systems.push(Box::new(Buddy::new(&memory, Some(SMALL_LISTS))));
        run(&mut Shared::new(systems).unwrap(), seed, 240);
    }

    #[test]
    fn where_all_merge_memory_is_in_the_end_as_at_first(seed in any::<u64>(), first in 0usize..3) {
        let memory = square(3072);
        let mut systems: Vec<Box<dyn Tenant>> = vec![
            Box::new(Buddy::new(&memory, Some(SMALL_LISTS))), Box::new(Tinted::new(&memory)), Box::new(Bpm::new(&memory).unwrap()),
        ];
        systems.rotate_left(first);
        let mut shared = Shared::new(systems).unwrap();
        run(&mut shared, seed, 240);
        prop_assert!(shared.systems().all(|system| system.counts().blocks[10] == 3));
    }
}

fn pair(memory: &Arc<FrameMemory>) -> Shared {
    let plain = Buddy::new(memory, Some(SMALL_LISTS));
    Shared::new(vec![Box::new(plain), Box::new(Tinted::new(memory))]).unwrap()
}

#[test]
fn one_system_takes_what_another_leaves_to_the_last_frame() {
    let memory = square(2048);
    let mut shared = pair(&memory);
    let colored = shared.member(1).enter(&colored(banks("0-3", &memory))).unwrap();
    let plain = shared.member(0).enter(&uncolored()).unwrap();
    let mine = crate::common::drain(&mut shared.member(1), colored);
    let rest = crate::common::drain(&mut shared.member(0), plain);
    assert_eq!((mine.len(), rest.len()), (512, 1536));
    assert!(rest.iter().all(|&pfn| memory.color(pfn).unwrap().bank_class > 3));
    let counts = shared.systems().next().unwrap().counts();
    assert_eq!((counts.held, counts.elsewhere, counts.free()), (1536, 512, 0));
    let found = shared.member(0).free(on(plain), mine[7]).unwrap_err();
    assert_eq!(found, FrameError::NotAllocated { pfn: mine[7], found: "another allocator has it" });
    // What one gives back, the other has next.
    shared.member(1).free(on(colored), mine[7]).unwrap();
    assert_eq!(shared.member(0).allocate(on(plain)), Ok(mine[7]));
}

#[test]
fn per_cpu_lists_of_others_are_emptied_in_need() {
    let memory = square(1024);
    let mut shared = pair(&memory);
    let plain = shared.member(0).enter(&uncolored()).unwrap();
    let held = crate::common::drain(&mut shared.member(0), plain);
    for &pfn in &held[..8] {
        shared.member(0).free(on(plain), pfn).unwrap();
    }
    let kept = shared.systems().next().unwrap().counts();
    assert_eq!((kept.on_cpu_lists, kept.in_blocks), (8, 0));
    let task = shared.member(1).enter(&uncolored()).unwrap();
    assert_eq!(crate::common::drain(&mut shared.member(1), task).len(), 8);
    assert_eq!(shared.faults(), 0);
}

/// What PALLOC's search leaves in its bins, nobody else can have: as published.
#[test]
fn frames_on_color_lists_are_trapped_for_others_too() {
    let memory = square(1024);
    let systems: Vec<Box<dyn Tenant>> =
        vec![Box::new(Palloc::new(&memory, None, Pick::InTurn)), Box::new(Buddy::new(&memory, None))];
    let mut shared = Shared::new(systems).unwrap();
    let task = shared.member(0).enter(&colored(banks("0", &memory))).unwrap();
    shared.member(0).allocate(on(task)).unwrap();
    let plain = shared.member(1).enter(&uncolored()).unwrap();
    let found = shared.member(1).allocate(on(plain)).unwrap_err();
    assert_eq!(found, FrameError::OutOfMemory { task: plain, order: 0, free: 0, frames: 1024 });
}

#[test]
fn systems_of_other_memory_or_already_used_are_refused() {
    let memory = square(1024);
    let refused = |systems: Vec<Box<dyn Tenant>>| Shared::new(systems).unwrap_err();
    assert_eq!(refused(Vec::new()), FrameError::Nothing { what: "allocators" });
    let strangers: Vec<Box<dyn Tenant>> = vec![Box::new(Tinted::new(&memory)), Box::new(Tinted::new(&square(1024)))];
    assert_eq!(refused(strangers), FrameError::NotShared { system: "tinted", found: "was made for another memory" });
    let mut used = Hybrid::new(&memory, None);
    let task = used.enter(&uncolored()).unwrap();
    let pfn = used.allocate(on(task)).unwrap();
    used.free(on(task), pfn).unwrap();
    assert_eq!(refused(vec![Box::new(used)]), FrameError::NotShared { system: "hybrid", found: "was used before" });
}

/// A system whose patterns are too many for large blocks has the others keep to its size.
#[test]
fn blocks_are_as_large_as_all_can_have_them() {
    let memory = crate::common::memory(
        &[crate::common::range(memtint_frames::ZoneKind::Normal, 0, 0, 16_384)],
        &[0],
        (64, 64),
        // Classes that follow no bits: hardly any two blocks are alike.
        |pfn| {
            let mut random = Random::new(pfn.0);
            memtint_map::FrameColor { bank_class: random.index(64) as u32, set_color: random.index(64) as u32, node: 0 }
        },
    );
    let tinted = Tinted::new(&memory);
    let order_max = tinted.order_max();
    assert!(order_max < 10, "{order_max}");
    let systems: Vec<Box<dyn Tenant>> = vec![
        Box::new(tinted),
        Box::new(Buddy::new(&memory, None)),
        Box::new(
            TintMalloc::new(&memory, memtint_frames::MemIds::dense(&memory), memtint_frames::Form::Corrected).unwrap(),
        ),
    ];
    let mut shared = Shared::new(systems).unwrap();
    assert!(shared.systems().all(|system| system.counts().blocks[order_max as usize] == 16_384 >> order_max));
    run(&mut shared, 5, 120);
}
