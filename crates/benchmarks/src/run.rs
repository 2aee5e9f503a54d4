//! The cost of coloring: programs with and without colors, interleaved.

mod groups;
mod programs;
mod report;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Instant;

use memtint_bench::{Beside, Extent, Host, Results, Session, WorkDirectory, adopt_orphans, own_time};
use memtint_units::{Pfn, Random};

pub use self::groups::{MemoryAsFound, PoolColors};
pub use self::programs::STEADY;
pub use self::report::{
    Context, Limit, MadeOf, OutputReport, PartReport, RunReport, Sampled, SteadyPart, TargetName, TargetReport, Value,
    Verdict,
};
use crate::BenchmarkError;

/// A group of measurements that can be selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Programs that do nothing.
    Startup,
    /// Page faults by order of touches, and memory prefaulted in bulk.
    Touch,
    /// Five real programs: time, steady part, memory.
    Programs,
    /// Pool building.
    Pool,
}

/// Parameters of the benchmark.
pub struct Asked {
    /// The program memtint, whose verbs `run`, `bench touch` and `bench scramble` are called.
    pub me: PathBuf,
    /// Name of the platform, for the report.
    pub platform: String,
    /// Its granule, for the report.
    pub granule_bytes: u64,
    /// The colors as text, for the report.
    pub colors: String,
    /// Options of `memtint run` that name the colors.
    pub options: Vec<OsString>,
    /// Whether a frame is in these colors.
    pub in_color: Box<dyn Fn(Pfn) -> bool>,
    /// Share of all frames in these colors, for the report.
    pub share_of_frames: f64,
    /// Colors of the pools to build.
    pub pools: Vec<PoolColors>,
    /// Groups to measure; empty: all.
    pub only: Vec<Group>,
    /// The extent of the measurement.
    pub extent: Extent,
    /// Seed of inputs and orders.
    pub seed: u64,
    /// A directory for inputs and reports, which must not exist; it is removed at the end.
    pub work: PathBuf,
}

/// Measures programs with and without coloring. Waits for all children of this process: no other may be running.
///
/// # Errors
///
/// When the directory for inputs cannot be made. The report lists impossible measurements.
pub fn measure(asked: Asked, tell: fn(&str)) -> Result<RunReport, BenchmarkError> {
    let started = Instant::now();
    let (machine, beside) = (Host::read(), Beside::since_now());
    adopt_orphans();
    let failed = |cause| BenchmarkError::File { path: asked.work.clone(), done: "created", cause };
    let mut session = Session {
        work: WorkDirectory::new(asked.work.clone()).map_err(failed)?,
        me: asked.me,
        colors: asked.options,
        in_color: asked.in_color,
        tell,
        extent: asked.extent,
        seed: asked.seed,
        random: Random::new(asked.seed),
        results: Results::default(),
    };
    let memory_as_found = groups::warm(&mut session, machine.memory_available_bytes.unwrap_or(u64::MAX));
    let wanted = |group| asked.only.is_empty() || asked.only.contains(&group);
    if wanted(Group::Startup) {
        groups::startup(&mut session);
    }
    if wanted(Group::Touch) {
        groups::touch(&mut session);
    }
    if wanted(Group::Programs) {
        programs::programs(&mut session);
    }
    if wanted(Group::Pool) {
        groups::pool(&mut session, &asked.pools);
    }
    let duration_s = started.elapsed().as_secs_f64();
    let disturbance = beside.until_now(own_time());
    let results = std::mem::take(&mut session.results);
    Ok(RunReport {
        schema: report::SCHEMA,
        bench: crate::Benchmark::Run,
        version: env!("CARGO_PKG_VERSION"),
        machine,
        platform: asked.platform,
        granule_bytes: asked.granule_bytes,
        colors: asked.colors,
        share_of_frames: asked.share_of_frames,
        seed: asked.seed,
        repeat: asked.extent.repeat,
        quick: asked.extent.quick,
        duration_s,
        series: results.series.iter().map(memtint_bench::Series::report).collect(),
        steady_parts: report::steady_parts(),
        outputs: results.outputs.iter().map(|&(program, equal)| OutputReport { program, equal }).collect(),
        targets: report::targets(&results).iter().map(report::Target::report).collect(),
        context: Context::new(memory_as_found, disturbance, &results),
        failures: results.failures,
        skipped: results.skipped,
    })
}
