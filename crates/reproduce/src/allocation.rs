//! Frames handed out one after the other by an allocator, with its work counted in steps: the same on every machine, which
//! times are not.

use crate::error::{ReproduceError, refuse};
use crate::figure::Allocation;
use memtint_frames::{Buddy, Caller, FrameAllocator, FrameMemory, Palloc, PerCpu, Pick, Policy, Profile};
use memtint_map::{Granule, Palette, Platform};
use memtint_units::Random;
use memtint_units::{IndexSet, PAGE_SIZE};
use std::collections::BTreeMap;

/// Of the order in which frames were given back.
const SEED: u64 = 1;

/// Cost of allocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Steps {
    pub(crate) frames: u32,
    pub(crate) total: u64,
    pub(crate) most: u64,
}

/// Does all allocations of a figure, by name. Those that differ in the number of frames only are the beginnings of one.
pub(crate) fn run<'a>(id: &str, all: &'a [Allocation]) -> Result<BTreeMap<&'a str, Steps>, ReproduceError> {
    let mut found = BTreeMap::new();
    for allocation in all {
        if found.contains_key(allocation.name.as_str()) {
            continue;
        }
        let alike = |other: &&Allocation| Allocation { name: String::new(), frames: 0, ..(*other).clone() };
        let mut family: Vec<&Allocation> = all.iter().filter(|other| alike(other) == alike(&allocation)).collect();
        family.sort_by_key(|member| member.frames);
        found.extend(run_family(id, &family)?);
    }
    Ok(found)
}

/// Hands out frames, all lists of colors being empty at first as in PALLOC's measurement, and notes the steps at each
/// size; sizes grow.
fn run_family<'a>(id: &str, family: &[&'a Allocation]) -> Result<Vec<(&'a str, Steps)>, ReproduceError> {
    let (mut frames, caller) = prepare(id, family[0])?;
    let mut steps = Steps { frames: 0, total: 0, most: 0 };
    let mut before = frames.steps();
    let mut found = Vec::new();
    for member in family {
        while steps.frames < member.frames {
            frames.allocate(caller)?;
            let after = frames.steps();
            let took = after.since(&before).total();
            steps.frames += 1;
            steps.total += took;
            steps.most = steps.most.max(took);
            before = after;
        }
        found.push((member.name.as_str(), steps));
    }
    Ok(found)
}

fn prepare(id: &str, allocation: &Allocation) -> Result<(Box<dyn FrameAllocator>, Caller), ReproduceError> {
    let platform = Platform::load(&allocation.platform)?;
    let granule = Granule::from_bytes(PAGE_SIZE).map_err(|error| refuse(id, "granule", PAGE_SIZE, error))?;
    let palette = Palette::new(&platform, granule)?;
    let memory = FrameMemory::of_palette(&palette, &[0])?;
    let lists = Some(PerCpu::LINUX_3_6);
    let mut frames: Box<dyn FrameAllocator> = match allocation.allocator.as_str() {
        "buddy" => Box::new(Buddy::new(&memory, lists)),
        "palloc" => Box::new(Palloc::new(&memory, lists, Pick::InTurn)),
        other => return Err(refuse(id, "allocation.allocator", other, "buddy or palloc")),
    };
    let policy = match &allocation.banks {
        None => Policy::any(),
        Some(text) => {
            let banks = IndexSet::parse(text, palette.bank_classes());
            Policy::banks(banks.map_err(|error| refuse(id, "allocation.banks", text, error))?)
        }
    };
    if allocation.frames == 0 {
        return Err(refuse(id, "allocation.frames", 0, "1 or more"));
    }
    if let Some(percent) = allocation.free_percent {
        if !(1..=100).contains(&percent) {
            return Err(refuse(id, "allocation.free_percent", percent, "1 to 100"));
        }
        scatter(frames.as_mut(), percent)?;
    }
    let task = frames.enter(&Profile { policy, path: "/colored".to_owned(), ..Profile::default() })?;
    Ok((frames, Caller { task, cpu: 0 }))
}

/// Others hold everything but some frames, which they give back in random order.
fn scatter(frames: &mut dyn FrameAllocator, percent: u32) -> Result<(), ReproduceError> {
    let others = frames.enter(&Profile { path: "/others".to_owned(), ..Profile::default() })?;
    let caller = Caller { task: others, cpu: 0 };
    let mut all = Vec::new();
    while let Ok(frame) = frames.allocate(caller) {
        all.push(frame);
    }
    let mut random = Random::new(SEED);
    for last in (1..all.len()).rev() {
        all.swap(last, random.below(last as u64 + 1) as usize);
    }
    let free = all.len() * percent as usize / 100;
    for &frame in &all[..free] {
        frames.free(caller, frame)?;
    }
    frames.flush();
    Ok(())
}
