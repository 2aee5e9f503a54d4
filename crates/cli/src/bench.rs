//! `memtint bench`: what coloring costs.

mod frames;
mod guard;
mod guard_live;
mod probe;
mod report;
mod sched;
mod sim;
mod touch;

use std::ffi::OsString;
use std::time::Duration;

use memtint_bench::Extent;
use memtint_benchmarks::BenchmarkError;
use memtint_benchmarks::run::{self, Asked, PoolColors};
use memtint_map::{Palette, Selection};
use memtint_units::IndexSet;

use crate::choice::{Choice, ChoiceArguments};
use crate::output::{Ending, Failure, Format, JsonForm, done, done_json, note};

/// What is printed as JSON.
pub(crate) const FORMS: &[JsonForm] = &[
    JsonForm::of::<memtint_benchmarks::run::RunReport>("bench-run"),
    JsonForm::of::<memtint_benchmarks::frames::FramesReport>("bench-frames"),
    JsonForm::of::<memtint_benchmarks::sim::SimReport>("bench-sim"),
    JsonForm::of::<memtint_benchmarks::sched::SchedReport>("bench-sched"),
    JsonForm::of::<memtint_benchmarks::guard::GuardReport>("bench-guard"),
    JsonForm::of::<memtint_benchmarks::guard_live::GuardLiveReport>("bench-guard-live"),
    JsonForm::of::<memtint_benchmarks::probe::ProbeReport>("bench-probe"),
    JsonForm::of::<memtint_benchmarks::probe::ablation::AblationReport>("bench-probe-ablation"),
];

/// Arguments of `memtint bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    what: BenchVerb,
}

#[derive(Debug, clap::Subcommand)]
enum BenchVerb {
    /// Compare programs in color with the same programs without, interleaved.
    Run(Box<BenchRunArguments>),
    /// Compare simulated page-frame allocators with each other and with PALLOC's published table.
    Frames(frames::FramesArguments),
    /// Measure how many requests a second the simulated DRAM channel serves.
    Sim(sim::SimArguments),
    /// Measure how long the real-time analyses take, beside plain ones from the textbook.
    Sched(sched::SchedArguments),
    /// Measure how long the state machine of bandwidth regulation takes for an event.
    Guard(guard::GuardArguments),
    /// Count the accesses that it takes to find a mapping, beside DRAMA and DRAMDig.
    Probe(probe::ProbeArguments),
    /// Touches memory and prints the time: the load that `run` measures.
    #[command(hide = true)]
    Touch(touch::TouchArguments),
    /// Touches memory and frees it in random order: what `run` does between runs.
    #[command(hide = true)]
    Scramble(touch::ScrambleArguments),
}

/// Arguments of `memtint bench run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 measured (whether or not targets are met: the last lines say so), 2 failure.\n\
    Example: memtint bench run --platform ./here.toml --banks 0-3 --only startup,touch")]
struct BenchRunArguments {
    #[command(flatten)]
    choice: ChoiceArguments,
    /// Runs of each kind on each side; start-up is measured three times as often. Default: 7, with --quick 3.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: Option<u16>,
    /// Small sizes, under a minute: for tests and a first impression.
    #[arg(long)]
    quick: bool,
    /// Seed of inputs and orders.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// What to measure, separated by commas; default: all.
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',')]
    only: Vec<Group>,
}

/// What can be measured by itself.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Group {
    /// Programs that do nothing.
    Startup,
    /// Page faults by order of touches, and memory prefaulted in bulk.
    Touch,
    /// Five real programs: time, steady part, memory.
    Programs,
    /// Pool building for one, a quarter and all of the classes.
    Pool,
}

impl From<Group> for run::Group {
    fn from(group: Group) -> run::Group {
        match group {
            Group::Startup => run::Group::Startup,
            Group::Touch => run::Group::Touch,
            Group::Programs => run::Group::Programs,
            Group::Pool => run::Group::Pool,
        }
    }
}

/// Writes what is measured next to standard error.
fn tell(line: &str) {
    note(&format!("bench: {line}"));
}

/// Names the verb where the message does not begin with what it is about.
fn failed(verb: &'static str) -> impl Fn(BenchmarkError) -> Failure {
    move |error| match error {
        BenchmarkError::Platform(cause) => cause.into(),
        BenchmarkError::Palette(cause) => cause.into(),
        BenchmarkError::Dram(cause) => cause.into(),
        BenchmarkError::Sim(cause) => cause.into(),
        BenchmarkError::Regulator(cause) => cause.into(),
        BenchmarkError::NoCpu
        | BenchmarkError::Load { .. }
        | BenchmarkError::RegulatorToKill { .. }
        | BenchmarkError::NotReported => Failure::Sentence(error.to_string()),
        BenchmarkError::File { path, done, cause } => Failure::File { path, done, cause },
        BenchmarkError::Banks(cause) => Failure::Sentence(format!("{verb}: --banks: {cause}")),
        other => Failure::Sentence(format!("{verb}: {other}")),
    }
}

pub(crate) fn main(arguments: &BenchArguments, format: Format) -> Ending {
    match &arguments.what {
        BenchVerb::Run(run) => bench_run(run, format),
        BenchVerb::Frames(frames) => frames::bench_frames(frames, format),
        BenchVerb::Sim(sim) => sim::bench_sim(sim, format),
        BenchVerb::Sched(sched) => sched::bench_sched(sched, format),
        BenchVerb::Guard(guard) => guard::bench_guard(guard, format),
        BenchVerb::Probe(arguments) => probe::bench_probe(arguments, format),
        BenchVerb::Touch(arguments) => touch::touch(arguments),
        BenchVerb::Scramble(arguments) => touch::scramble(arguments),
    }
}

fn bench_run(arguments: &BenchRunArguments, format: Format) -> Ending {
    let (choice, selection, options) = resolve(&arguments.choice)?;
    arguments.choice.check_machine(choice.palette.platform())?;
    let matcher = selection.compile(&choice.palette)?;
    let quick = arguments.quick;
    let asked = Asked {
        me: std::env::current_exe()
            .map_err(|error| Failure::Sentence(format!("bench: this program's file: {error}")))?,
        platform: choice.palette.platform().id().to_owned(),
        granule_bytes: choice.palette.granule().bytes(),
        colors: selection.label(),
        pools: pool_colors(&arguments.choice, &choice.palette, &options),
        options,
        share_of_frames: matcher.fraction(),
        in_color: Box::new(move |frame| matcher.matches(frame)),
        only: arguments.only.iter().copied().map(run::Group::from).collect(),
        extent: Extent {
            repeat: arguments.repeat.map_or(if quick { 3 } else { 7 }, usize::from),
            quick,
            limit: Duration::from_secs(if quick { 15 } else { 60 }),
        },
        seed: arguments.seed,
        work: std::env::temp_dir().join(format!("memtint-bench-{}", std::process::id())),
    };
    let report = run::measure(asked, tell).map_err(failed("bench run"))?;
    match format {
        Format::Text => done(&report::text(&report)),
        Format::Json => done_json(&report),
    }
}

/// The colors, and the options of `memtint run` that name them.
fn resolve(arguments: &ChoiceArguments) -> Result<(Choice, Selection, Vec<OsString>), Failure> {
    let choice = arguments.resolve()?;
    let mut options = colors_of(arguments);
    let selection = match &choice.selection {
        Some(selection) => selection.clone(),
        None => {
            let classes = choice.palette.bank_classes();
            if classes < 2 {
                let sentence = "bench run: the platform has one bank class at this granule, so all frames are alike; name \
                                --sets, another --granule or another platform";
                return Err(Failure::Sentence(sentence.to_owned()));
            }
            let banks = first_classes(classes.min(8) / 2, classes)?;
            options.extend(["--banks".into(), banks.to_string().into()]);
            Selection { banks: Some(banks), ..Selection::default() }
        }
    };
    Ok((choice, selection, options))
}

fn first_classes(count: u32, of: u32) -> Result<IndexSet, Failure> {
    IndexSet::from_indices(0..count, of).map_err(|error| Failure::Sentence(format!("bench run: {error}")))
}

/// The options as they were given; the environment reaches `memtint run` the same way.
fn colors_of(arguments: &ChoiceArguments) -> Vec<OsString> {
    let mut options = platform_of(arguments);
    let mut option = |name: &str, value: Option<OsString>| {
        if let Some(value) = value {
            options.extend([name.into(), value]);
        }
    };
    option("--banks", arguments.banks.as_ref().map(|list| list.to_string().into()));
    option("--sets", arguments.sets.as_ref().map(|list| list.to_string().into()));
    option("--node", arguments.node.as_ref().map(|list| list.to_string().into()));
    option("--system", arguments.system.as_ref().map(|path| path.clone().into_os_string()));
    option("--task", arguments.task.as_ref().map(OsString::from));
    options
}

fn platform_of(arguments: &ChoiceArguments) -> Vec<OsString> {
    let platform = arguments.platform.iter().flat_map(|platform| ["--platform".into(), platform.into()]);
    let granule = arguments.granule.iter().flat_map(|granule| ["--granule".into(), granule.bytes().to_string().into()]);
    let assumed = arguments.platform_assumed.then(|| "--platform-assumed".into());
    platform.chain(granule).chain(assumed).collect()
}

/// One class, a quarter of them, and all; with a system file, the colors of its task.
fn pool_colors(arguments: &ChoiceArguments, palette: &Palette, own: &[OsString]) -> Vec<PoolColors> {
    if arguments.system.is_some() {
        return vec![PoolColors { subject: "the task's colors".to_owned(), options: own.to_vec() }];
    }
    let classes = palette.bank_classes();
    let mut counts = vec![1, classes / 4, classes];
    counts.retain(|&count| count > 0);
    counts.dedup();
    let choice = |count: u32| {
        let mut options = platform_of(arguments);
        let banks = first_classes(count, classes).ok()?;
        options.extend(["--banks".into(), banks.to_string().into()]);
        Some(PoolColors { subject: format!("{count} of {classes} classes"), options })
    };
    counts.into_iter().filter_map(choice).collect()
}
