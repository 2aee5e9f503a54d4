//! Small memories and every system on each.
use std::sync::Arc;

use memtint_frames::{
    Bpm, Buddy, Caller, Camc, ColorBy, Counts, Form, FrameAllocator, FrameError, FrameMemory, FrameRange, Hybrid,
    MemIds, Palloc, PerCpu, Pick, Policy, Profile, Promises, Shared, Steps, TaskId, Tenant, TintMalloc, Tinted, Usage,
    ZoneKind,
};
use memtint_map::FrameColor;
use memtint_units::{IndexSet, Pfn};

/// The user whose programs CAMC does not color.
pub(crate) const PLAIN_USER: u32 = 1000;

/// Small lists, so that small memories meet their limits.
pub(crate) const SMALL_LISTS: PerCpu = PerCpu { batch: 4, high: 12 };

/// Bank by frame bits 0, 1, 4 and 5, set color by bits 0 to 2: the two share bits, as on the PALLOC machine.
pub(crate) fn plain_bits(pfn: Pfn) -> FrameColor {
    let bank_class = (pfn.0 & 3 | pfn.0 >> 2 & 12) as u32;
    FrameColor { bank_class, set_color: (pfn.0 & 7) as u32, node: 0 }
}

fn parity(pfn: u64, mask: u64) -> u32 {
    (pfn & mask).count_ones() & 1
}

/// XOR functions that reach above a block, and the node by address.
pub(crate) fn xor_bits(pfn: Pfn) -> FrameColor {
    let bits = [0x201, 0x402, 0x804].map(|mask| parity(pfn.0, mask));
    let bank = bits[0] | bits[1] << 1 | bits[2] << 2;
    let node = u32::from(pfn.0 >= 4096);
    FrameColor { bank_class: node << 3 | bank, set_color: (pfn.0 >> 1 & 3) as u32, node }
}

/// Three channels in turn, and a bank bit of the address within the channel: no XOR of bits.
pub(crate) fn three_channels(pfn: Pfn) -> FrameColor {
    let (channel, rest) = ((pfn.0 % 3) as u32, pfn.0 / 3);
    FrameColor { bank_class: channel << 1 | ((rest + 5) >> 4 & 1) as u32, set_color: 0, node: 0 }
}

pub(crate) fn range(zone: ZoneKind, node: u32, start: u64, end: u64) -> FrameRange {
    FrameRange { zone, node, start: Pfn(start), end: Pfn(end) }
}

pub(crate) fn memory(
    ranges: &[FrameRange],
    cpus: &[u32],
    (bank_classes, set_colors): (u32, u32),
    color: fn(Pfn) -> FrameColor,
) -> Arc<FrameMemory> {
    FrameMemory::new(ranges, cpus, &ColorBy { bank_classes, set_colors, color: |pfn| Some(color(pfn)) }).unwrap()
}

/// One zone of whole blocks, 16 banks.
pub(crate) fn square(frames: u64) -> Arc<FrameMemory> {
    memory(&[range(ZoneKind::Normal, 0, 0, frames)], &[0, 0], (16, 8), plain_bits)
}

/// Ragged ranges with holes in three zones of one node.
pub(crate) fn ragged() -> Arc<FrameMemory> {
    let ranges = [
        range(ZoneKind::Normal, 0, 8192 + 5, 8192 + 700),
        range(ZoneKind::Dma, 0, 1, 159),
        range(ZoneKind::Dma, 0, 256, 1000),
        range(ZoneKind::Dma32, 0, 1024, 2048 + 77),
    ];
    memory(&ranges, &[0], (16, 8), plain_bits)
}

/// Two nodes with a CPU each, XOR functions.
pub(crate) fn two_nodes() -> Arc<FrameMemory> {
    let ranges = [
        range(ZoneKind::Dma32, 0, 0, 2048),
        range(ZoneKind::Normal, 1, 4096, 6144),
        range(ZoneKind::Normal, 0, 2048, 2900),
    ];
    memory(&ranges, &[0, 1], (16, 4), xor_bits)
}

/// A mapping whose bits alone do not tell the color.
pub(crate) fn modulo() -> Arc<FrameMemory> {
    memory(&[range(ZoneKind::Normal, 0, 0, 3 * 1024)], &[0], (6, 1), three_channels)
}

/// All memories, by name.
pub(crate) fn memories() -> Vec<(&'static str, Arc<FrameMemory>)> {
    vec![("square", square(3072)), ("ragged", ragged()), ("two nodes", two_nodes()), ("modulo", modulo())]
}

pub(crate) fn camc(memory: &Arc<FrameMemory>, form: Form) -> Camc {
    let mut camc = Camc::new(memory, Some(SMALL_LISTS), form);
    camc.register_user(0);
    camc.add_pattern("/rt/*");
    camc
}

/// Every system that accepts the memory: alone, and in memory that it shares with an idle other.
pub(crate) fn systems(memory: &Arc<FrameMemory>) -> Vec<Box<dyn FrameAllocator>> {
    let alone = tenants(memory).into_iter().map(|system| system as Box<dyn FrameAllocator>);
    let beside = tenants(memory).into_iter().map(|system| {
        let name = Box::leak(format!("{} beside palloc", system.name()).into_boxed_str());
        let idle = Palloc::new(memory, Some(SMALL_LISTS), Pick::InTurn);
        let shared = Shared::new(vec![Box::new(idle), system]).unwrap();
        Box::new(Beside { name, shared }) as Box<dyn FrameAllocator>
    });
    alone.chain(beside).collect()
}

/// The second system of a shared memory.
struct Beside {
    name: &'static str,
    shared: Shared,
}

impl Beside {
    fn own(&self) -> &dyn FrameAllocator {
        self.shared.systems().nth(1).unwrap()
    }
}

impl FrameAllocator for Beside {
    fn name(&self) -> &'static str {
        self.name
    }
    fn promises(&self) -> Promises {
        self.own().promises()
    }
    fn memory(&self) -> &FrameMemory {
        self.own().memory()
    }
    fn enter(&mut self, profile: &Profile) -> Result<TaskId, FrameError> {
        self.shared.member(1).enter(profile)
    }
    fn leave(&mut self, task: TaskId) -> Result<(), FrameError> {
        self.shared.member(1).leave(task)
    }
    fn set_policy(&mut self, task: TaskId, policy: &Policy) -> Result<(), FrameError> {
        self.shared.member(1).set_policy(task, policy)
    }
    fn policy(&self, task: TaskId) -> Result<&Policy, FrameError> {
        self.own().policy(task)
    }
    fn allocate_block(&mut self, caller: Caller, order: u32) -> Result<Pfn, FrameError> {
        self.shared.member(1).allocate_block(caller, order)
    }
    fn free_block(&mut self, caller: Caller, pfn: Pfn, order: u32) -> Result<(), FrameError> {
        self.shared.member(1).free_block(caller, pfn, order)
    }
    fn flush(&mut self) {
        self.shared.member(1).flush();
    }
    fn counts(&self) -> Counts {
        self.own().counts()
    }
    fn free_in_color(&self, policy: &Policy) -> Result<u64, FrameError> {
        self.own().free_in_color(policy)
    }
    fn usage(&self, task: TaskId) -> Result<Usage, FrameError> {
        self.own().usage(task)
    }
    fn steps(&self) -> Steps {
        self.own().steps()
    }
    fn faults(&self) -> usize {
        self.shared.faults()
    }
}

/// Every system that accepts the memory, in its sound form. BPM refuses memory that bits alone do not color.
pub(crate) fn tenants(memory: &Arc<FrameMemory>) -> Vec<Box<dyn Tenant>> {
    let lists = Some(SMALL_LISTS);
    let mut systems: Vec<Box<dyn Tenant>> = vec![
        Box::new(Buddy::new(memory, lists)),
        Box::new(Buddy::new(memory, None)),
        Box::new(Palloc::new(memory, lists, Pick::InTurn)),
        Box::new(Palloc::new(memory, lists, Pick::InOrder)),
        Box::new(camc(memory, Form::Corrected)),
        Box::new(TintMalloc::new(memory, MemIds::dense(memory), Form::Corrected).unwrap()),
        Box::new(Hybrid::new(memory, lists)),
        Box::new(Tinted::new(memory)),
    ];
    if let Ok(bpm) = Bpm::new(memory) {
        systems.push(Box::new(bpm));
    }
    systems
}

/// Every system on every memory.
pub(crate) fn every() -> impl Iterator<Item = (String, Box<dyn FrameAllocator>)> {
    memories().into_iter().flat_map(|(name, memory)| {
        systems(&memory).into_iter().map(move |system| (format!("{} on {name}", system.name()), system))
    })
}

/// A program that CAMC colors.
pub(crate) fn colored(policy: Policy) -> Profile {
    Profile { policy, path: "/rt/program".to_owned(), ..Profile::default() }
}

pub(crate) fn uncolored() -> Profile {
    Profile { user: PLAIN_USER, ..Profile::default() }
}

pub(crate) fn on(task: TaskId) -> Caller {
    Caller { task, cpu: 0 }
}

pub(crate) fn banks(list: &str, memory: &FrameMemory) -> Policy {
    Policy::banks(IndexSet::parse(list, memory.bank_classes()).unwrap())
}

/// Allocates single frames until refused.
pub(crate) fn drain(frames: &mut dyn FrameAllocator, task: TaskId) -> Vec<Pfn> {
    std::iter::from_fn(|| frames.allocate(on(task)).ok()).collect()
}
