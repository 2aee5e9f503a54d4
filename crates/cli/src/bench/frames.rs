//! `memtint bench frames`: what a page costs in each page-frame allocator, beside PALLOC's Table I.
//!
//! One run of an allocator takes the largest size page by page; a smaller size is the beginning of that run, because equal calls
//! give equal frames. Average times come from runs in which the clock is read at the ends of sizes only. Single pages are timed
//! in runs of their own, and of each page the least of all repeats counts: its work is the same each time, and what comes on
//! top is the machine's. Steps are counted in the same runs and are exact.

mod report;

use memtint_bench::{Beside, Machine, own_time};
use std::sync::Arc;
use std::time::{Duration, Instant};

use memtint_frames::{
    Bpm, Buddy, Caller, Camc, Form, FrameAllocator, FrameError, FrameRange, Hybrid, MemIds, Memory, Palloc, PerCpu,
    Pick, Policy, Profile, Steps, TintMalloc, Tinted, ZoneKind,
};
use memtint_map::{Granule, Palette, Platform};
use memtint_units::{IndexList, IndexSet, Pfn};

use self::report::FramesReport;
use crate::Ending;
use crate::output::{Failure, Format, done, done_json};
use memtint_units::Random;

/// Arguments of `memtint bench frames`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 measured, 2 failure.\n\
    Example: memtint bench frames --banks 0-3 --repeat 9")]
pub(super) struct FramesArguments {
    /// Platform whose memory and colors are simulated: a name of the catalogue, or a file.
    #[arg(long, value_name = "PLATFORM", default_value = "xeon-w3530-palloc")]
    platform: String,
    /// Bank classes of the task; default: the first quarter of them.
    #[arg(long, value_name = "CLASSES")]
    banks: Option<IndexList>,
    /// Runs of each allocator in each state.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: u16,
    /// The first 64 MiB and sizes up to 8 MiB only: for tests and a first impression.
    #[arg(long)]
    quick: bool,
    /// Seed of the fragmentation and of the order of runs.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// How memory is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// All free, in the largest blocks.
    Fresh,
    /// Filled, and 60 % of the frames freed in random order.
    Fragmented,
    /// The same frames freed, the task's own colors before all others: whoever searches lists comes by the others first.
    Adverse,
}

impl State {
    const EVERY: [State; 3] = [State::Fresh, State::Fragmented, State::Adverse];

    fn name(self) -> &'static str {
        match self {
            State::Fresh => "fresh",
            State::Fragmented => "fragmented",
            State::Adverse => "adverse",
        }
    }
}

/// The systems, the baseline first.
const SYSTEMS: [&str; 7] = ["buddy", "palloc", "bpm", "camc", "tintmalloc", "hybrid", "tinted"];

/// The user whose tasks CAMC does not color.
const PLAIN_USER: u32 = 1000;

/// Parts of 100 that the fragmented state frees.
const FREED_PERCENT: usize = 60;

/// Pages of the smallest size, 1 MiB.
const PAGES_PER_MIB: usize = 256;

/// What all runs have in common.
struct Setting {
    memory: Arc<Memory>,
    policy: Policy,
    /// Ends of the sizes, in pages, ascending.
    sizes: Vec<usize>,
    /// The frames that the fragmented state frees, in its order.
    scattered: Vec<Pfn>,
    /// The same in the order of the adverse state.
    own_first: Vec<Pfn>,
    /// What reading the clock costs.
    clock_ns: u64,
    /// What it took to color every frame.
    color_ms: f64,
}

/// What was measured of one system in one state.
#[derive(Clone, Debug, Default)]
struct Figures {
    /// For each size, one sample for each repeat.
    average_ns: Vec<Vec<f64>>,
    /// For each page, the least of all repeats.
    page_ns: Vec<u32>,
    /// For each size, the most that any page took in any repeat.
    max_any_ns: Vec<u32>,
    page_steps: Vec<u32>,
    /// One sample for each repeat.
    free_ns: Vec<f64>,
    free_steps: f64,
    build_ms: Vec<f64>,
    out_of_color: u64,
}

/// All figures, by system and state.
struct Results(Vec<(&'static str, State, Figures)>);

impl Results {
    fn of(&mut self, system: &'static str, state: State) -> &mut Figures {
        let place = self.0.iter().position(|&(name, of, _)| name == system && of == state);
        let place = place.unwrap_or_else(|| {
            self.0.push((system, state, Figures::default()));
            self.0.len() - 1
        });
        &mut self.0[place].2
    }
}

pub(super) fn bench_frames(arguments: &FramesArguments, format: Format) -> Ending {
    let started = Instant::now();
    let (machine, beside) = (Machine::read(), Beside::since_now());
    let platform = Platform::load(&arguments.platform)?;
    let palette = Palette::new(&platform, Granule::PAGE)?;
    let mut random = Random::new(arguments.seed);
    let setting = Setting::new(&palette, arguments, &mut random)?;
    let mut results = Results(Vec::new());
    let mut skipped = Vec::new();
    let mut systems: Vec<&'static str> = SYSTEMS.to_vec();
    systems.retain(|system| match make(system, &setting.memory) {
        Ok(_) => true,
        Err(error) => {
            skipped.push(error.to_string());
            false
        }
    });
    for state in State::EVERY {
        for &system in &systems {
            results.of(system, state);
        }
    }
    for round in 1..=arguments.repeat {
        eprintln!("memtint: bench: frames {round}/{}", arguments.repeat);
        let mut runs: Vec<(&'static str, State)> =
            systems.iter().flat_map(|&system| State::EVERY.map(|state| (system, state))).collect();
        random.shuffle(&mut runs);
        for (system, state) in runs {
            let figures = results.of(system, state);
            whole_sizes(&setting, system, state, figures, &mut random)?;
            single_pages(&setting, system, state, figures)?;
        }
    }
    let report = FramesReport {
        machine,
        platform: platform.id().to_owned(),
        banks: setting.policy.banks.as_ref().map(ToString::to_string).unwrap_or_default(),
        bank_classes: palette.bank_classes(),
        memory_frames: setting.memory.frames(),
        seed: arguments.seed,
        repeat: arguments.repeat,
        quick: arguments.quick,
        duration_s: started.elapsed().as_secs_f64(),
        disturbance: beside.until_now(own_time()),
        setting: &setting,
        systems: &systems,
        results: &mut results,
        skipped,
    };
    match format {
        Format::Text => done(&report.to_text()),
        Format::Json => done_json(&report.to_json()),
    }
}

impl Setting {
    fn new(palette: &Palette, arguments: &FramesArguments, random: &mut Random) -> Result<Setting, Failure> {
        let refused = |error: FrameError| Failure::Sentence(format!("bench frames: {error}"));
        let started = Instant::now();
        let memory = memory_of(palette, arguments.quick).map_err(refused)?;
        let color_ms = started.elapsed().as_secs_f64() * 1e3;
        let classes = palette.bank_classes();
        let banks = match &arguments.banks {
            Some(list) => list.resolve(classes),
            None => IndexSet::from_indices(0..classes.div_ceil(4), classes),
        };
        let policy =
            Policy::banks(banks.map_err(|error| Failure::Sentence(format!("bench frames: --banks: {error}")))?);
        // What is left of the color in the fragmented state, less a twentieth for the luck of the draw.
        let room = memory.frames_in_color(&policy).map_err(refused)? as usize * FREED_PERCENT / 100 * 19 / 20;
        let largest = if arguments.quick { 8 } else { 512 };
        let mib = std::iter::successors(Some(1), |size| Some(size * 2)).take_while(|&size| size <= largest);
        let sizes: Vec<usize> = mib.map(|size| size * PAGES_PER_MIB).filter(|&pages| pages <= room).collect();
        if sizes.is_empty() {
            let found = format!("bench frames: the colors hold {room} pages in the fragmented state, needed are 256");
            return Err(Failure::Sentence(found));
        }
        let mut scattered = every_frame(&memory).map_err(refused)?;
        random.shuffle(&mut scattered);
        scattered.truncate(scattered.len() * FREED_PERCENT / 100);
        let mine = |pfn: &Pfn| memory.color(*pfn).is_some_and(|color| policy.allows(color));
        let (mut own_first, others): (Vec<Pfn>, Vec<Pfn>) = scattered.iter().copied().partition(mine);
        own_first.extend(others);
        Ok(Setting { memory, policy, sizes, scattered, own_first, clock_ns: clock_ns(), color_ms })
    }

    fn pages(&self) -> usize {
        *self.sizes.last().expect("there is a size")
    }

    /// An allocator in a state, and who will ask it.
    fn prepare(&self, system: &str, state: State) -> Result<(Box<dyn FrameAllocator>, Caller, Duration), Failure> {
        let refused = |error: FrameError| Failure::Sentence(format!("bench frames: {system}: {error}"));
        let started = Instant::now();
        let mut frames = make(system, &self.memory).map_err(refused)?;
        let build = started.elapsed();
        let freed = match state {
            State::Fresh => None,
            State::Fragmented => Some(&self.scattered),
            State::Adverse => Some(&self.own_first),
        };
        if let Some(freed) = freed {
            let plain = frames.enter(&Profile { user: PLAIN_USER, ..Profile::default() }).map_err(refused)?;
            let caller = Caller { task: plain, cpu: 0 };
            while frames.allocate(caller).is_ok() {}
            for &pfn in freed {
                frames.free(caller, pfn).map_err(refused)?;
            }
            frames.flush();
            frames.leave(plain).map_err(refused)?;
        }
        // The buddy allocator is asked without colors, as in Table I.
        let policy = if system == "buddy" { Policy::any() } else { self.policy.clone() };
        let profile = Profile { policy, path: "/colored".to_owned(), ..Profile::default() };
        let task = frames.enter(&profile).map_err(refused)?;
        Ok((frames, Caller { task, cpu: 0 }, build))
    }
}

/// One run with the clock read at the ends of sizes, then everything freed in random order.
fn whole_sizes(
    setting: &Setting,
    system: &str,
    state: State,
    figures: &mut Figures,
    random: &mut Random,
) -> Result<(), Failure> {
    let refused = |error: FrameError| Failure::Sentence(format!("bench frames: {system}: {error}"));
    let (mut frames, caller, build) = setting.prepare(system, state)?;
    let mut held = vec![Pfn(0); setting.pages()];
    let mut ends = Vec::with_capacity(setting.sizes.len());
    let mut from = 0;
    let started = Instant::now();
    for &end in &setting.sizes {
        for place in &mut held[from..end] {
            *place = frames.allocate(caller).map_err(refused)?;
        }
        ends.push(started.elapsed());
        from = end;
    }
    figures.average_ns.resize(setting.sizes.len(), Vec::new());
    for ((samples, end), &pages) in figures.average_ns.iter_mut().zip(ends).zip(&setting.sizes) {
        samples.push(end.as_nanos() as f64 / pages as f64);
    }
    figures.out_of_color += frames.usage(caller.task).map_err(refused)?.out_of_color;
    figures.build_ms.push(build.as_secs_f64() * 1e3);
    random.shuffle(&mut held);
    let (before, started) = (frames.steps(), Instant::now());
    for &pfn in &held {
        frames.free(caller, pfn).map_err(refused)?;
    }
    figures.free_ns.push(started.elapsed().as_nanos() as f64 / held.len() as f64);
    figures.free_steps = frames.steps().since(&before).total() as f64 / held.len() as f64;
    Ok(())
}

/// One run with every page timed, and its steps counted.
fn single_pages(setting: &Setting, system: &str, state: State, figures: &mut Figures) -> Result<(), Failure> {
    let (mut frames, caller, _) = setting.prepare(system, state)?;
    let pages = setting.pages();
    figures.page_ns.resize(pages, u32::MAX);
    figures.page_steps.resize(pages, 0);
    let mut now = vec![0u32; pages];
    let mut before: Steps = frames.steps();
    for (place, steps) in now.iter_mut().zip(&mut figures.page_steps) {
        let started = Instant::now();
        let found = frames.allocate(caller);
        let took = started.elapsed().as_nanos() as u64;
        found.map_err(|error| Failure::Sentence(format!("bench frames: {system}: {error}")))?;
        *place = u32::try_from(took.saturating_sub(setting.clock_ns)).unwrap_or(u32::MAX);
        let after = frames.steps();
        *steps = after.since(&before).total() as u32;
        before = after;
    }
    for (least, &now) in figures.page_ns.iter_mut().zip(&now) {
        *least = now.min(*least);
    }
    figures.max_any_ns.resize(setting.sizes.len(), 0);
    for (most, &end) in figures.max_any_ns.iter_mut().zip(&setting.sizes) {
        *most = now[..end].iter().copied().max().unwrap_or(0).max(*most);
    }
    Ok(())
}

fn make(system: &str, memory: &Arc<Memory>) -> Result<Box<dyn FrameAllocator>, FrameError> {
    let lists = Some(PerCpu::LINUX_3_6);
    Ok(match system {
        "palloc" => Box::new(Palloc::new(memory, lists, Pick::InTurn)),
        "bpm" => Box::new(Bpm::new(memory)?),
        "camc" => {
            let mut camc = Camc::new(memory, lists, Form::Corrected);
            camc.register_user(0);
            camc.add_pattern("*");
            Box::new(camc)
        }
        "tintmalloc" => Box::new(TintMalloc::new(memory, MemIds::dense(memory), Form::Corrected)?),
        "hybrid" => Box::new(Hybrid::new(memory, lists)),
        "tinted" => Box::new(Tinted::new(memory)),
        _ => Box::new(Buddy::new(memory, lists)),
    })
}

/// The platform's memory, or its first 64 MiB in one zone.
fn memory_of(palette: &Palette, quick: bool) -> Result<Arc<Memory>, FrameError> {
    let node = |pfn: Pfn| palette.color_of_frame(pfn).map_or(0, |color| color.node);
    let first = palette.platform().regions().first().filter(|_| quick);
    let Some(first) = first else { return Memory::of_palette(palette, &[0]) };
    let start = first.base.pfn();
    let end = start.offset(1 << 14).min(first.end().pfn());
    Memory::new(&[FrameRange { zone: ZoneKind::Normal, node: node(start), start, end }], &[node(start)], palette)
}

fn every_frame(memory: &Arc<Memory>) -> Result<Vec<Pfn>, FrameError> {
    let mut frames = Buddy::new(memory, None);
    let task = frames.enter(&Profile::default())?;
    let mut every: Vec<Pfn> = std::iter::from_fn(|| frames.allocate(Caller { task, cpu: 0 }).ok()).collect();
    every.sort_unstable();
    Ok(every)
}

/// The median of what passes between two readings.
fn clock_ns() -> u64 {
    let mut samples: Vec<u64> = (0..10_001).map(|_| Instant::now().elapsed().as_nanos() as u64).collect();
    samples.sort_unstable();
    samples[samples.len() / 2]
}
