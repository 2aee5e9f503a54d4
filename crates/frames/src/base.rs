//! The common part of all systems: admitting tasks, checking requests, keeping the books.
//!
//! A system implements [`System`], which covers its algorithm alone; [`FrameAllocator`] follows.

use std::fmt;
use std::sync::Arc;

use memtint_units::Pfn;

use crate::allocator::{Counts, FrameAllocator, Promises, Steps};
use crate::blocks::{Blocks, Change, FreeLists};
use crate::error::FrameError;
use crate::memory::{FrameMemory, ORDER_MAX};
use crate::task::{Caller, Mode, Policy, Profile, TaskId, Usage, Wanted};

/// A task that has entered.
#[derive(Clone, Debug)]
pub struct Task<T> {
    pub(crate) profile: Profile,
    pub(crate) policy: Policy,
    pub(crate) wanted: Wanted,
    pub(crate) usage: Usage,
    /// Private data of the system.
    pub(crate) own: T,
}

#[derive(Clone)]
struct Slot<T> {
    turn: u32,
    task: Option<Task<T>>,
}

/// Tasks by their numbers.
#[derive(Clone)]
pub(crate) struct Tasks<T> {
    slots: Vec<Slot<T>>,
    vacant: Vec<u32>,
}

impl<T> Tasks<T> {
    fn add(&mut self, task: Task<T>) -> TaskId {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(Slot { turn: 0, task: None });
            self.slots.len() as u32 - 1
        });
        let place = &mut self.slots[slot as usize];
        place.task = Some(task);
        TaskId { slot, turn: place.turn }
    }

    fn remove(&mut self, id: TaskId) -> Option<Task<T>> {
        self.get(id)?;
        let place = &mut self.slots[id.slot as usize];
        place.turn += 1;
        self.vacant.push(id.slot);
        place.task.take()
    }

    #[inline]
    pub(crate) fn get(&self, id: TaskId) -> Option<&Task<T>> {
        self.slots.get(id.slot as usize).filter(|slot| slot.turn == id.turn)?.task.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: TaskId) -> Option<&mut Task<T>> {
        self.slots.get_mut(id.slot as usize).filter(|slot| slot.turn == id.turn)?.task.as_mut()
    }
}

/// Free blocks, tasks and books of a system.
#[derive(Clone)]
pub struct Base<S, T> {
    pub(crate) blocks: Blocks<S>,
    pub(crate) tasks: Tasks<T>,
    free_of_color: Vec<u32>,
    pub(crate) held: u64,
    pub(crate) on_color_lists: u64,
    pub(crate) on_cpu_lists: u64,
    pub(crate) lost: u64,
    elsewhere: u64,
    given: Usage,
}

impl<S, T> fmt::Debug for Base<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Base").field("blocks", &self.blocks).field("held", &self.held).finish_non_exhaustive()
    }
}

impl<S: FreeLists, T> Base<S, T> {
    pub(crate) fn new(memory: Arc<FrameMemory>, free_lists: S, order_max: u32) -> Base<S, T> {
        Base {
            free_of_color: memory.frames_of_color().to_vec(),
            blocks: Blocks::new(memory, free_lists, order_max),
            tasks: Tasks { slots: Vec::new(), vacant: Vec::new() },
            held: 0,
            on_color_lists: 0,
            on_cpu_lists: 0,
            lost: 0,
            elsewhere: 0,
            given: Usage::default(),
        }
    }

    pub(crate) fn memory(&self) -> &Arc<FrameMemory> {
        &self.blocks.memory
    }

    /// The task of a caller that has been checked.
    #[inline]
    pub(crate) fn task(&self, id: TaskId) -> &Task<T> {
        self.tasks.get(id).expect("the caller was checked")
    }

    /// Marks a frame as forgotten: it is no longer free.
    pub(crate) fn lose(&mut self, frame: u32) {
        self.blocks.mark_lost(frame);
        self.free_of_color[self.blocks.memory.color_of(frame) as usize] -= 1;
        self.lost += 1;
    }

    #[inline]
    fn check(&self, caller: Caller, order: u32) -> Result<(), FrameError> {
        if order > ORDER_MAX {
            return Err(FrameError::OrderTooLarge { order });
        }
        if self.tasks.get(caller.task).is_none() {
            return Err(FrameError::UnknownTask { task: caller.task });
        }
        self.check_cpu(caller.cpu)
    }

    #[inline]
    fn check_cpu(&self, cpu: u32) -> Result<(), FrameError> {
        let cpus = self.blocks.memory.cpus();
        if cpu < cpus { Ok(()) } else { Err(FrameError::UnknownCpu { cpu, cpus }) }
    }

    /// Enters a block in the books as held; gives its first frame, and how many of its frames are out of color.
    #[inline]
    fn hand_out(&mut self, id: TaskId, first: u32, order: u32) -> (Pfn, u64) {
        self.blocks.mark_held(first, order);
        self.held += 1 << order;
        let task = self.tasks.get_mut(id).expect("the caller was checked");
        let mut given = Usage::default();
        for frame in first..first + (1 << order) {
            let color = self.blocks.memory.color_of(frame);
            self.free_of_color[color as usize] -= 1;
            if task.wanted.has(u32::from(color)) {
                given.in_color += 1;
            } else {
                given.out_of_color += 1;
            }
        }
        for usage in [&mut task.usage, &mut self.given] {
            usage.in_color += given.in_color;
            usage.out_of_color += given.out_of_color;
        }
        (self.blocks.memory.pfn(first), given.out_of_color)
    }

    /// Strikes a block off the books.
    #[inline]
    fn take_back(&mut self, pfn: Pfn, order: u32) -> Result<u32, FrameError> {
        let first = self.blocks.memory.index(pfn).ok_or(FrameError::NoSuchFrame { pfn })?;
        self.blocks.release(first, order)?;
        self.held -= 1 << order;
        for frame in first..first + (1 << order) {
            self.free_of_color[self.blocks.memory.color_of(frame) as usize] += 1;
        }
        Ok(first)
    }

    /// Frames of each color that are not free.
    pub(crate) fn used_by_color(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let all = self.memory().frames_of_color().iter();
        all.zip(&self.free_of_color).map(|(&all, &free)| u64::from(all - free)).enumerate()
    }

    fn free(&self) -> u64 {
        let used = self.held + self.lost + self.elsewhere;
        assert!(
            used <= self.memory().frames(),
            "{used} of {} frames are held, lost or elsewhere",
            self.memory().frames()
        );
        self.memory().frames() - self.held - self.lost - self.elsewhere
    }

    fn free_in(&self, wanted: &Wanted) -> u64 {
        let colors = 0..self.free_of_color.len();
        colors.filter(|&color| wanted.has(color as u32)).map(|color| u64::from(self.free_of_color[color])).sum()
    }

    fn shortage(&self, id: TaskId, order: u32) -> FrameError {
        let task = self.task(id);
        let (free, frames) = (self.free(), self.memory().frames());
        if task.policy.is_any() {
            return FrameError::OutOfMemory { task: id, order, free, frames };
        }
        let (colors, free_in_color) = (task.policy.to_string(), self.free_in(&task.wanted));
        FrameError::OutOfColor { task: id, colors, order, free_in_color, free, frames }
    }

    fn counts(&self) -> Counts {
        Counts {
            frames: self.memory().frames(),
            held: self.held,
            in_blocks: self.free() - self.on_color_lists - self.on_cpu_lists,
            on_color_lists: self.on_color_lists,
            on_cpu_lists: self.on_cpu_lists,
            lost: self.lost,
            elsewhere: self.elsewhere,
            blocks: self.blocks.by_order(),
            given_in_color: self.given.in_color,
            given_out_of_color: self.given.out_of_color,
        }
    }

    /// Enters in the books a change that another system made to the shared blocks.
    fn follow(&mut self, change: Change) {
        self.blocks.follow(change);
        let frames = change.first..change.first + (1 << change.order);
        let count = u64::from(1u32 << change.order);
        for frame in frames {
            let free = &mut self.free_of_color[self.blocks.memory.color_of(frame) as usize];
            if change.filed {
                *free += 1;
            } else {
                *free -= 1;
            }
        }
        if change.filed {
            self.elsewhere -= count;
        } else {
            self.elsewhere += count;
        }
    }

    /// Contradictions in the blocks, and between blocks and books.
    fn faults(&self) -> usize {
        let blocks: u64 = self.blocks.by_order().iter().enumerate().map(|(order, count)| count << order).sum();
        let colors: u64 = self.free_of_color.iter().map(|&count| u64::from(count)).sum();
        let counts = self.counts();
        self.blocks.faults() + usize::from(blocks != counts.in_blocks) + usize::from(colors != counts.free())
    }
}

/// A system's algorithm. Callers, orders and frees have been checked before these are called.
pub trait System {
    /// Assignment of free blocks to free lists.
    type Lists: FreeLists;
    /// Data kept for each task.
    type Own;

    /// Name, lower case.
    const NAME: &'static str;
    /// Guarantees of the system.
    const PROMISES: Promises;

    /// Blocks, tasks, books.
    fn base(&self) -> &Base<Self::Lists, Self::Own>;
    /// Blocks, tasks, books.
    fn base_mut(&mut self) -> &mut Base<Self::Lists, Self::Own>;
    /// Accepts a task: gives the effective policy, and the data to keep. The policy has been checked against memory.
    fn accept(&mut self, profile: &Profile) -> Result<(Policy, Self::Own), FrameError>;
    /// Takes back what belongs to a task that is leaving, or to its former policy.
    fn dismiss(&mut self, _: Task<Self::Own>) {}
    /// Finds a block for the caller; its first frame.
    fn take(&mut self, caller: Caller, order: u32) -> Option<u32>;
    /// Files a block that the caller freed.
    fn give(&mut self, caller: Caller, first: u32, order: u32);
    /// Empties per-CPU lists.
    fn drain(&mut self) {}
}

/// A system as the other systems of a [`Shared`](crate::Shared) memory use it. Every system of this crate implements it, and only the
/// shared memory calls these methods.
pub trait Tenant: FrameAllocator {
    /// The system itself.
    fn as_allocator(&self) -> &dyn FrameAllocator;
    /// The system itself.
    fn as_allocator_mut(&mut self) -> &mut dyn FrameAllocator;
    /// Largest order of a block.
    fn order_max(&self) -> u32;
    /// Limits blocks to this order, and records changes to them.
    fn share(&mut self, order_max: u32);
    /// Gives the changes of blocks since the last call.
    fn changes(&mut self) -> Vec<Change>;
    /// Applies the changes of another system.
    fn follow(&mut self, changes: &[Change]);
}

impl<A: System> Tenant for A {
    fn as_allocator(&self) -> &dyn FrameAllocator {
        self
    }

    fn as_allocator_mut(&mut self) -> &mut dyn FrameAllocator {
        self
    }

    fn order_max(&self) -> u32 {
        self.base().blocks.order_max()
    }

    fn share(&mut self, order_max: u32) {
        self.base_mut().blocks.share(order_max);
    }

    fn changes(&mut self) -> Vec<Change> {
        self.base_mut().blocks.changes()
    }

    fn follow(&mut self, changes: &[Change]) {
        for &change in changes {
            self.base_mut().follow(change);
        }
    }
}

/// Whether a system promises that blocks of this order are in color for a task.
fn keeps_colors<T>(promises: &Promises, task: &Task<T>, order: u32) -> bool {
    let policy = &task.policy;
    policy.mode == Mode::Strict
        && (order == 0 || promises.blocks_in_color)
        && (policy.banks.is_none() || promises.banks)
        && (policy.sets.is_none() || promises.sets)
        && (policy.nodes.is_none() || promises.nodes)
}

fn admit<A: System>(system: &mut A, profile: &Profile) -> Result<Task<A::Own>, FrameError> {
    let memory = Arc::clone(system.base().memory());
    profile.policy.wanted(&memory)?;
    let (policy, own) = system.accept(profile)?;
    let wanted = policy.wanted(&memory)?;
    Ok(Task { profile: profile.clone(), policy, wanted, usage: Usage::default(), own })
}

impl<A: System> FrameAllocator for A {
    fn name(&self) -> &'static str {
        A::NAME
    }

    fn promises(&self) -> Promises {
        A::PROMISES
    }

    fn memory(&self) -> &FrameMemory {
        self.base().memory()
    }

    fn enter(&mut self, profile: &Profile) -> Result<TaskId, FrameError> {
        self.base().check_cpu(profile.cpu)?;
        let task = admit(self, profile)?;
        Ok(self.base_mut().tasks.add(task))
    }

    fn leave(&mut self, id: TaskId) -> Result<(), FrameError> {
        let task = self.base_mut().tasks.remove(id).ok_or(FrameError::UnknownTask { task: id })?;
        self.dismiss(task);
        Ok(())
    }

    fn set_policy(&mut self, id: TaskId, policy: &Policy) -> Result<(), FrameError> {
        let task = self.base().tasks.get(id).ok_or(FrameError::UnknownTask { task: id })?;
        let (profile, usage) = (Profile { policy: policy.clone(), ..task.profile.clone() }, task.usage);
        let mut next = admit(self, &profile)?;
        next.usage = usage;
        let place = self.base_mut().tasks.get_mut(id).expect("the task has been found above");
        let former = std::mem::replace(place, next);
        self.dismiss(former);
        Ok(())
    }

    fn policy(&self, id: TaskId) -> Result<&Policy, FrameError> {
        self.base().tasks.get(id).map(|task| &task.policy).ok_or(FrameError::UnknownTask { task: id })
    }

    #[inline]
    fn allocate_block(&mut self, caller: Caller, order: u32) -> Result<Pfn, FrameError> {
        self.base().check(caller, order)?;
        match self.take(caller, order) {
            Some(first) => {
                let (pfn, out_of_color) = self.base_mut().hand_out(caller.task, first, order);
                let kept = out_of_color == 0 || !keeps_colors(&A::PROMISES, self.base().task(caller.task), order);
                assert!(kept, "{} gave {pfn}, order {order}, which has frames out of color", A::NAME);
                Ok(pfn)
            }
            None => Err(self.base().shortage(caller.task, order)),
        }
    }

    #[inline]
    fn free_block(&mut self, caller: Caller, pfn: Pfn, order: u32) -> Result<(), FrameError> {
        self.base().check(caller, order)?;
        let first = self.base_mut().take_back(pfn, order)?;
        self.give(caller, first, order);
        Ok(())
    }

    fn flush(&mut self) {
        self.drain();
    }

    fn counts(&self) -> Counts {
        self.base().counts()
    }

    fn free_in_color(&self, policy: &Policy) -> Result<u64, FrameError> {
        Ok(self.base().free_in(&policy.wanted(self.base().memory())?))
    }

    fn usage(&self, id: TaskId) -> Result<Usage, FrameError> {
        self.base().tasks.get(id).map(|task| task.usage).ok_or(FrameError::UnknownTask { task: id })
    }

    fn steps(&self) -> Steps {
        self.base().blocks.steps
    }

    fn faults(&self) -> usize {
        self.base().faults()
    }
}

/// Refuses parts of a policy that a system cannot express.
pub(crate) fn refuse(
    system: &'static str,
    promises: &Promises,
    policy: &Policy,
    accepted: &'static str,
) -> Result<(), FrameError> {
    let soft = policy.mode == crate::task::Mode::Soft;
    let parts = [
        (policy.banks.is_some() && !promises.banks, "a choice of bank classes"),
        (policy.sets.is_some() && !promises.sets, "a choice of set colors"),
        (policy.nodes.is_some() && !promises.nodes, "a choice of nodes"),
        (soft && !promises.soft, "soft mode"),
    ];
    match parts.iter().find(|(lacking, _)| *lacking) {
        Some(&(_, what)) => Err(FrameError::Unsupported { system, what, accepted }),
        None => Ok(()),
    }
}
