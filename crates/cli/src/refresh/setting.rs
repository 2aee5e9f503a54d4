//! What `memtint refresh simulate` and `compare` have in common.

use std::path::PathBuf;

use memtint_analysis::{Inside, TaskSystem};
use memtint_hiding::crs::Density;
use memtint_refresh::{Caches, Options, Prepared, Scheme, unused};
use memtint_sim::Watch as _;
use memtint_system::{Reading, Verb};

use crate::output::Failure;
use crate::progress::Simulating;

/// Options of both.
#[derive(Debug, clap::Args)]
pub(super) struct Setting {
    /// System file with the tasks, their memory, and what the schemes need: colors and servers, or the frames of a cyclic executive.
    #[arg(value_name = "SYSTEM")]
    system: PathBuf,
    /// Hyperperiods of tasks, servers and retention to simulate.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    hyperperiods: u32,
    /// Seed of everything random.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Release jobs late, at random up to the jitter of their task; else when they arrive.
    #[arg(long)]
    jitter: bool,
    /// Scheduling policy where there are neither servers nor a table [default: rm, as of memtint analyze].
    #[arg(long, value_enum, default_value_t = Order::Rm, hide_default_value = true)]
    scheduler: Order,
    /// Caches of the machine.
    #[arg(long, value_enum, default_value_t = CacheChoice::Dissertation)]
    caches: CacheChoice,
    /// Thousandths of each WCET that a job alone does not use: for what other tasks cost it, lines that they displace and
    /// writes of theirs that wait.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=999))]
    spared: u32,
    /// Threads; results are the same with any number. Default: the CPUs of this machine.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Order {
    /// The earliest deadline.
    Edf,
    /// The shorter period.
    Rm,
    /// The shorter relative deadline.
    Dm,
    /// Priorities as given.
    Fp,
}

impl From<Order> for Inside {
    fn from(order: Order) -> Inside {
        match order {
            Order::Edf => Inside::Edf,
            Order::Rm => Inside::RateMonotonic,
            Order::Dm => Inside::DeadlineMonotonic,
            Order::Fp => Inside::Given,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum CacheChoice {
    /// 16 KiB, and 128 KiB behind it.
    Dissertation,
    /// One line.
    None,
}

/// A scheme by its name.
pub(super) fn scheme() -> impl clap::builder::TypedValueParser<Value = Scheme> {
    use clap::builder::TypedValueParser as _;
    let names = clap::builder::PossibleValuesParser::new(Scheme::ALL.map(Scheme::name));
    names.map(|name| Scheme::named(&name).expect("it is one of them"))
}

/// A density by its gigabits.
pub(super) fn density() -> impl clap::builder::TypedValueParser<Value = Density> {
    use clap::builder::TypedValueParser as _;
    let names = clap::builder::PossibleValuesParser::new(["1", "2", "4", "8", "16", "32", "64"]);
    names.map(|name| {
        let found = Density::ALL.into_iter().find(|&density| gigabits(density).to_string() == name);
        found.expect("it is one of them")
    })
}

/// The number of a density.
pub(super) fn gigabits(density: Density) -> u32 {
    memtint_refresh::gigabits(density)
}

impl Setting {
    pub(super) fn threads(&self) -> usize {
        let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.map_or_else(cpus, usize::from)
    }

    /// The tasks with what their jobs execute, and the fields that none of these schemes considers; progress goes up to `share` of all
    /// there is to do.
    pub(super) fn prepare(
        &self,
        schemes: &[Scheme],
        progress: &Simulating,
        share: f64,
    ) -> Result<(Prepared, Vec<String>), Failure> {
        let Reading { file, mut not_considered } = Reading::new(&self.system, Verb::RefreshSimulate)?;
        let order = self.scheduler.into();
        not_considered.extend(unused(&file, schemes, order).into_iter().map(str::to_owned));
        let file = TaskSystem::of(&file, &format!("{:?}", self.system))?;
        let options = Options {
            hyperperiods: self.hyperperiods,
            seed: self.seed,
            jitter: self.jitter,
            order,
            caches: match self.caches {
                CacheChoice::Dissertation => Caches::Dissertation,
                CacheChoice::None => Caches::None,
            },
            spared_per_mille: self.spared,
            ..Options::default()
        };
        let prepared = Prepared::new(&file, options, self.threads(), &|done| progress.go_on(done * share))?;
        Ok((prepared, not_considered))
    }
}
