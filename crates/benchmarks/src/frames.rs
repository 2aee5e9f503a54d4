//! The cost of a page in each page-frame allocator, compared with PALLOC's Table I.
//!
//! One run of an allocator allocates the largest size page by page; a smaller size is the beginning of that run,
//! because equal calls give equal frames. Average times come from runs that read the clock only at the ends of sizes.
//! Single pages are timed in separate runs. For each page the minimum of all repeats counts: its work is the same each
//! time, and the excess comes from the machine. Steps are counted in the same runs and are exact.

mod report;

use std::sync::Arc;
use std::time::{Duration, Instant};

use memtint_bench::{Beside, Host, own_time};
use memtint_frames::{
    Bpm, Buddy, Caller, Camc, Form, FrameAllocator, FrameError, FrameMemory, FrameRange, Hybrid, MemIds, Palloc,
    PerCpu, Pick, Policy, Profile, Steps, TintMalloc, Tinted, ZoneKind,
};
use memtint_map::{Granule, Palette, Platform};
use memtint_units::{IndexList, IndexSet, Pfn, Random};

pub use self::report::{FramesReport, PublishedRow, PublishedTable, SizeRow, SystemRow};
use crate::words::words;
use crate::{Benchmark, BenchmarkError};

/// Schema version of the report.
const SCHEMA: u32 = 1;

/// Parameters of the benchmark.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Platform whose memory and colors are simulated: a name of the catalogue, or a file.
    pub platform: String,
    /// Bank classes of the task; `None`: the first quarter of them.
    pub banks: Option<IndexList>,
    /// Runs of each allocator in each state, at least one.
    pub repeat: u16,
    /// Whether only the first 64 MiB and sizes up to 8 MiB are measured.
    pub quick: bool,
    /// Seed of the fragmentation and of the order of runs.
    pub seed: u64,
}

words! {
    /// Initial state of memory.
    State {
        /// All free, in the largest blocks.
        Fresh = "fresh",
        /// Filled, and 60 % of the frames freed in random order.
        Fragmented = "fragmented",
        /// The same frames freed, the task's colors before all others: an allocator that searches lists finds the
        /// others first.
        Adverse = "adverse",
    }
}

impl State {
    /// All of them.
    pub const EVERY: [State; 3] = [State::Fresh, State::Fragmented, State::Adverse];
}

words! {
    /// A page-frame allocator.
    System {
        /// The buddy allocator without colors: the baseline.
        Buddy = "buddy",
        /// PALLOC.
        Palloc = "palloc",
        /// BPM.
        Bpm = "bpm",
        /// CAMC.
        Camc = "camc",
        /// TintMalloc.
        TintMalloc = "tintmalloc",
        /// The hybrid allocator.
        Hybrid = "hybrid",
        /// memtint's constant-time allocator.
        Tinted = "tinted",
    }
}

impl System {
    /// All of them, the baseline first.
    const ALL: [System; 7] =
        [System::Buddy, System::Palloc, System::Bpm, System::Camc, System::TintMalloc, System::Hybrid, System::Tinted];

    fn refused(self) -> impl Fn(FrameError) -> BenchmarkError {
        move |cause| BenchmarkError::System { system: self.name(), cause }
    }
}

/// The user whose tasks CAMC does not color.
const PLAIN_USER: u32 = 1000;

/// Percentage of frames that the fragmented state frees.
const FREED_PERCENT: usize = 60;

/// Pages of the smallest size, 1 MiB.
const PAGES_PER_MIB: usize = 256;

/// Data shared by all runs.
struct Setting {
    memory: Arc<FrameMemory>,
    policy: Policy,
    /// Ends of the sizes, in pages, ascending.
    sizes: Vec<usize>,
    /// The frames that the fragmented state frees, in its order.
    scattered: Vec<Pfn>,
    /// The same in the order of the adverse state.
    own_first: Vec<Pfn>,
    /// Cost of reading the clock.
    clock_ns: u64,
    /// Time to color every frame.
    color_ms: f64,
}

/// Measurements of one system in one state.
#[derive(Clone, Debug, Default)]
struct Figures {
    /// For each size, one sample for each repeat.
    average_ns: Vec<Vec<f64>>,
    /// For each page, the minimum of all repeats.
    page_ns: Vec<u32>,
    /// For each size, the maximum over all pages and repeats.
    max_any_ns: Vec<u32>,
    page_steps: Vec<u32>,
    /// One sample for each repeat.
    free_ns: Vec<f64>,
    free_steps: f64,
    build_ms: Vec<f64>,
    out_of_color: u64,
}

/// All figures, by system and state.
struct Results(Vec<(System, State, Figures)>);

impl Results {
    fn of(&mut self, system: System, state: State) -> &mut Figures {
        let place = self.0.iter().position(|&(name, of, _)| name == system && of == state);
        let place = place.unwrap_or_else(|| {
            self.0.push((system, state, Figures::default()));
            self.0.len() - 1
        });
        &mut self.0[place].2
    }
}

/// Measures the cost of a page in each allocator.
///
/// # Errors
///
/// When the platform cannot be read, its memory is too small for the colors, or an allocator refuses an allocation that
/// it must grant.
pub fn measure(asked: &Asked, tell: fn(&str)) -> Result<FramesReport, BenchmarkError> {
    let started = Instant::now();
    let (machine, beside) = (Host::read(), Beside::since_now());
    let platform = Platform::load(&asked.platform)?;
    let palette = Palette::new(&platform, Granule::PAGE)?;
    let mut random = Random::new(asked.seed);
    let setting = Setting::new(&palette, asked, &mut random)?;
    let mut results = Results(Vec::new());
    let mut skipped = Vec::new();
    let mut systems: Vec<System> = System::ALL.to_vec();
    systems.retain(|&system| match make(system, &setting.memory) {
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
    for round in 1..=asked.repeat {
        tell(&format!("frames {round}/{}", asked.repeat));
        let mut runs: Vec<(System, State)> =
            systems.iter().flat_map(|&system| State::EVERY.map(|state| (system, state))).collect();
        random.shuffle(&mut runs);
        for (system, state) in runs {
            let figures = results.of(system, state);
            whole_sizes(&setting, system, state, figures, &mut random)?;
            single_pages(&setting, system, state, figures)?;
        }
    }
    let duration_s = started.elapsed().as_secs_f64();
    let disturbance = beside.until_now(own_time());
    let (system_rows, rows) = report::rows(&setting, &systems, &results);
    Ok(FramesReport {
        schema: SCHEMA,
        bench: Benchmark::Frames,
        machine,
        disturbance,
        platform: platform.id().to_owned(),
        memory_frames: setting.memory.frames(),
        memory_color_ms: setting.color_ms,
        bank_classes: palette.bank_classes(),
        banks: setting.policy.banks.as_ref().map(ToString::to_string).unwrap_or_default(),
        freed_percent_of_fragmented_state: FREED_PERCENT,
        seed: asked.seed,
        repeat: asked.repeat,
        quick: asked.quick,
        duration_s,
        clock_ns_subtracted: setting.clock_ns,
        systems: system_rows,
        rows,
        published: report::published(),
        skipped,
    })
}

impl Setting {
    fn new(palette: &Palette, asked: &Asked, random: &mut Random) -> Result<Setting, BenchmarkError> {
        let started = Instant::now();
        let memory = memory_of(palette, asked.quick)?;
        let color_ms = started.elapsed().as_secs_f64() * 1e3;
        let classes = palette.bank_classes();
        let banks = match &asked.banks {
            Some(list) => list.resolve(classes),
            None => IndexSet::from_indices(0..classes.div_ceil(4), classes),
        };
        let policy = Policy::banks(banks.map_err(BenchmarkError::Banks)?);
        // Pages left in the colors in the fragmented state, less 5 % for random variation.
        let room = memory.frames_in_color(&policy)? as usize * FREED_PERCENT / 100 * 19 / 20;
        let largest = if asked.quick { 8 } else { 512 };
        let mib = std::iter::successors(Some(1), |size| Some(size * 2)).take_while(|&size| size <= largest);
        let sizes: Vec<usize> = mib.map(|size| size * PAGES_PER_MIB).filter(|&pages| pages <= room).collect();
        if sizes.is_empty() {
            return Err(BenchmarkError::Room { pages: room, needed: PAGES_PER_MIB });
        }
        let mut scattered = every_frame(&memory)?;
        random.shuffle(&mut scattered);
        scattered.truncate(scattered.len() * FREED_PERCENT / 100);
        let mine = |pfn: &Pfn| memory.is_in_color(&policy, *pfn);
        let (mut own_first, others): (Vec<Pfn>, Vec<Pfn>) = scattered.iter().copied().partition(mine);
        own_first.extend(others);
        Ok(Setting { memory, policy, sizes, scattered, own_first, clock_ns: clock_ns(), color_ms })
    }

    fn pages(&self) -> usize {
        *self.sizes.last().expect("there is a size")
    }

    /// Makes an allocator in a state, and a caller; returns how long making it took.
    fn prepare(
        &self,
        system: System,
        state: State,
    ) -> Result<(Box<dyn FrameAllocator>, Caller, Duration), BenchmarkError> {
        let refused = system.refused();
        let started = Instant::now();
        let mut frames = make(system, &self.memory).map_err(&refused)?;
        let build = started.elapsed();
        let freed = match state {
            State::Fresh => None,
            State::Fragmented => Some(&self.scattered),
            State::Adverse => Some(&self.own_first),
        };
        if let Some(freed) = freed {
            let plain = frames.enter(&Profile { user: PLAIN_USER, ..Profile::default() }).map_err(&refused)?;
            let caller = Caller { task: plain, cpu: 0 };
            while frames.allocate(caller).is_ok() {}
            for &pfn in freed {
                frames.free(caller, pfn).map_err(&refused)?;
            }
            frames.flush();
            frames.leave(plain).map_err(&refused)?;
        }
        // The buddy allocator gets no colors, as in Table I.
        let policy = if system == System::Buddy { Policy::any() } else { self.policy.clone() };
        let profile = Profile { policy, path: "/colored".to_owned(), ..Profile::default() };
        let task = frames.enter(&profile).map_err(&refused)?;
        Ok((frames, Caller { task, cpu: 0 }, build))
    }
}

/// One run with the clock read at the ends of sizes, then everything freed in random order.
fn whole_sizes(
    setting: &Setting,
    system: System,
    state: State,
    figures: &mut Figures,
    random: &mut Random,
) -> Result<(), BenchmarkError> {
    let refused = system.refused();
    let (mut frames, caller, build) = setting.prepare(system, state)?;
    let mut held = vec![Pfn(0); setting.pages()];
    let mut ends = Vec::with_capacity(setting.sizes.len());
    let mut from = 0;
    let started = Instant::now();
    for &end in &setting.sizes {
        for place in &mut held[from..end] {
            *place = frames.allocate(caller).map_err(&refused)?;
        }
        ends.push(started.elapsed());
        from = end;
    }
    figures.average_ns.resize(setting.sizes.len(), Vec::new());
    for ((samples, end), &pages) in figures.average_ns.iter_mut().zip(ends).zip(&setting.sizes) {
        samples.push(end.as_nanos() as f64 / pages as f64);
    }
    figures.out_of_color += frames.usage(caller.task).map_err(&refused)?.out_of_color;
    figures.build_ms.push(build.as_secs_f64() * 1e3);
    random.shuffle(&mut held);
    let (before, started) = (frames.steps(), Instant::now());
    for &pfn in &held {
        frames.free(caller, pfn).map_err(&refused)?;
    }
    figures.free_ns.push(started.elapsed().as_nanos() as f64 / held.len() as f64);
    figures.free_steps = frames.steps().since(&before).total() as f64 / held.len() as f64;
    Ok(())
}

/// One run with every page timed, and its steps counted.
fn single_pages(setting: &Setting, system: System, state: State, figures: &mut Figures) -> Result<(), BenchmarkError> {
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
        found.map_err(system.refused())?;
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

fn make(system: System, memory: &Arc<FrameMemory>) -> Result<Box<dyn FrameAllocator>, FrameError> {
    let lists = Some(PerCpu::LINUX_3_6);
    Ok(match system {
        System::Palloc => Box::new(Palloc::new(memory, lists, Pick::InTurn)),
        System::Bpm => Box::new(Bpm::new(memory)?),
        System::Camc => {
            let mut camc = Camc::new(memory, lists, Form::Corrected);
            camc.register_user(0);
            camc.add_pattern("*");
            Box::new(camc)
        }
        System::TintMalloc => Box::new(TintMalloc::new(memory, MemIds::dense(memory), Form::Corrected)?),
        System::Hybrid => Box::new(Hybrid::new(memory, lists)),
        System::Tinted => Box::new(Tinted::new(memory)),
        System::Buddy => Box::new(Buddy::new(memory, lists)),
    })
}

/// The platform's memory, or its first 64 MiB in one zone.
fn memory_of(palette: &Palette, quick: bool) -> Result<Arc<FrameMemory>, FrameError> {
    let node = |pfn: Pfn| palette.color_of_frame(pfn).map_or(0, |color| color.node);
    let first = palette.platform().regions().first().filter(|_| quick);
    let Some(first) = first else { return FrameMemory::of_palette(palette, &[0]) };
    let start = first.base.pfn();
    let end = start.offset(1 << 14).min(first.end().pfn());
    FrameMemory::new(&[FrameRange { zone: ZoneKind::Normal, node: node(start), start, end }], &[node(start)], palette)
}

fn every_frame(memory: &Arc<FrameMemory>) -> Result<Vec<Pfn>, FrameError> {
    let mut frames = Buddy::new(memory, None);
    let task = frames.enter(&Profile::default())?;
    let mut every: Vec<Pfn> = std::iter::from_fn(|| frames.allocate(Caller { task, cpu: 0 }).ok()).collect();
    every.sort_unstable();
    Ok(every)
}

/// The median time between two readings.
fn clock_ns() -> u64 {
    let mut samples: Vec<u64> = (0..10_001).map(|_| Instant::now().elapsed().as_nanos() as u64).collect();
    samples.sort_unstable();
    samples[samples.len() / 2]
}
