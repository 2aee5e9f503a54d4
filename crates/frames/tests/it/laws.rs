//! Do the laws hold? Random runs of every system against a plain map of what is held.
//!
//! The model is a map from frame to what was asked, and sums over all frames of the memory's colors; it shares no code with
//! the crate. Failing seeds are printed by proptest.

use memtint_units::Random;
use std::collections::BTreeMap;

use crate::common::{banks, colored, memories, on, systems, uncolored};
use memtint_frames::{Caller, FrameAllocator, FrameError, Mode, Policy, Profile, TaskId};
use memtint_units::Pfn;
use proptest::prelude::*;

/// What is held: first frame to order, and who asked.
#[derive(Default)]
struct Model {
    held: BTreeMap<Pfn, u32>,
    tasks: Vec<TaskId>,
}

impl Model {
    fn frames(&self) -> u64 {
        self.held.values().map(|order| 1u64 << order).sum()
    }

    /// A new block must not touch any that is held: look at the neighbours on both sides.
    fn hold(&mut self, pfn: Pfn, order: u32) {
        let end = pfn.offset(1 << order);
        let before = self.held.range(..end).next_back();
        assert!(before.is_none_or(|(start, order)| start.offset(1 << order) <= pfn), "frame {pfn} handed out twice");
        self.held.insert(pfn, order);
    }
}

fn policies(frames: &dyn FrameAllocator) -> Vec<Profile> {
    let memory = frames.memory();
    let mut profiles = vec![uncolored(), colored(banks("0-1", memory)), colored(banks("2,4-5", memory))];
    if frames.promises().soft && frames.promises().banks {
        profiles.push(colored(Policy { mode: Mode::Soft, ..banks("1", memory) }));
    }
    profiles
}

fn check(frames: &dyn FrameAllocator, model: &Model) {
    let counts = frames.counts();
    assert_eq!(counts.held, model.frames());
    assert_eq!(counts.held + counts.free(), counts.frames);
    let memory = frames.memory();
    let free_in = |class: u32| {
        let held = model.held.iter().flat_map(|(pfn, order)| (0..1 << order).map(|next| pfn.offset(next)));
        let held = held.filter(|&pfn| memory.color(pfn).unwrap().bank_class == class).count() as u64;
        memory.frames_in_color(&banks(&class.to_string(), memory)).unwrap() - held
    };
    for class in [0, 3] {
        assert_eq!(frames.free_in_color(&banks(&class.to_string(), memory)), Ok(free_in(class)));
    }
    assert_eq!(frames.faults(), 0);
}

fn allocate(frames: &mut dyn FrameAllocator, model: &mut Model, caller: Caller, order: u32) {
    let before = frames.counts();
    let promises = frames.promises();
    match frames.allocate_block(caller, order) {
        Ok(pfn) => {
            model.hold(pfn, order);
            let policy = frames.policy(caller.task).unwrap();
            let strict = promises.banks && policy.mode == Mode::Strict && (order == 0 || promises.blocks_in_color);
            for next in 0..1 << order {
                let color = frames.memory().color(pfn.offset(next)).expect("what is handed out exists");
                assert!(!strict || policy.allows(color), "{}: {color:?} is not in {policy}", frames.name());
            }
        }
        Err(FrameError::OutOfColor { free_in_color, .. }) => {
            let counts = frames.counts();
            assert_eq!((counts.held, counts.free()), (before.held, before.free()));
            // Single frames of the color are found wherever they are.
            assert!(order > 0 || free_in_color == 0, "{}: {free_in_color} frames missed", frames.name());
        }
        Err(FrameError::OutOfMemory { free, .. }) => {
            assert_eq!(frames.counts().held, before.held);
            assert!(order > 0 || free == 0 || !promises.merges, "{}: {free} frames missed", frames.name());
        }
        Err(error) => panic!("{}: {error}", frames.name()),
    }
}

fn run(frames: &mut dyn FrameAllocator, seed: u64, operations: usize) {
    let mut random = Random::new(seed);
    let fresh = frames.counts();
    let profiles = policies(frames);
    let mut model = Model::default();
    for profile in &profiles {
        model.tasks.push(frames.enter(profile).unwrap());
    }
    let cpus = frames.memory().cpus() as usize;
    // Phases that mostly allocate, so that memory runs dry, and phases that mostly free.
    for operation in 0..operations {
        let caller = Caller { task: model.tasks[random.index(model.tasks.len())], cpu: random.index(cpus) as u32 };
        let frees = [2, 7, 2, 7][operation * 4 / operations];
        match random.index(100) {
            0 => frames.flush(),
            1 => {
                let place = random.index(model.tasks.len());
                frames.leave(model.tasks[place]).unwrap();
                model.tasks[place] = frames.enter(&profiles[place]).unwrap();
            }
            2 => {
                let place = random.index(model.tasks.len());
                let policy = profiles[random.index(profiles.len())].policy.clone();
                frames.set_policy(model.tasks[place], &policy).unwrap();
            }
            3 => check(frames, &model),
            dice if dice % 10 < frees && !model.held.is_empty() => {
                let from = model.held.keys().nth(random.index(model.held.len())).copied().unwrap();
                let order = model.held.remove(&from).unwrap();
                frames.free_block(caller, from, order).unwrap();
                let again = frames.free_block(caller, from, order);
                assert!(matches!(again, Err(FrameError::NotAllocated { .. })), "{again:?}");
            }
            dice => {
                let order = if dice % 7 == 0 { random.index(6) as u32 } else { 0 };
                let batch = 1 + random.index(60);
                for _ in 0..batch {
                    allocate(frames, &mut model, caller, order);
                }
            }
        }
    }
    check(frames, &model);
    for (pfn, order) in std::mem::take(&mut model.held) {
        frames.free_block(on(model.tasks[random.index(model.tasks.len())]), pfn, order).unwrap();
    }
    frames.flush();
    check(frames, &model);
    assert!(!frames.promises().merges || frames.counts().blocks == fresh.blocks, "{}", frames.name());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn random_runs_keep_every_law(seed in any::<u64>(), place in 0usize..4) {
        let (name, memory) = memories().swap_remove(place);
        for mut frames in systems(&memory) {
            run(&mut *frames, seed, 240);
            prop_assert_eq!(frames.counts().held, 0, "{} on {}", frames.name(), name);
        }
    }
}
