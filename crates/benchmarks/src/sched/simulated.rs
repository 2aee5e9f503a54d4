//! Jobs on the whole simulated machine, with their memory requests.
//!
//! There is no textbook's implementation of that to compare it with. Each job executes for its WCET, as the schedules of the other
//! rows have it, but for the time that refresh takes; what it does meanwhile is so many reads of memory, evenly spread, each of which
//! misses the caches and opens a row.

use std::fmt::Write as _;
use std::path::Path;

use memtint_bench::{Spread, cpu_seconds};
use memtint_sched::TaskSet;
use memtint_sim::{Scenario, SimError};
use memtint_units::Picoseconds;
use schemars::JsonSchema;
use serde::Serialize;

use crate::words::words;

/// Reads of a job.
const REFERENCES: [u64; 2] = [1, 4];
/// Sets that are simulated, of those that are analysed, and for how long.
const SETS: usize = 10;
const DURATION: Picoseconds = Picoseconds(100_000_000_000);
const TARGET_JOBS_PER_CPU_SECOND: f64 = 1e6;
/// Clock of the core, an instruction in each cycle, and from the start of a read to its data, somewhat more than it takes.
const MEGAHERTZ: u64 = 3000;
const READ_CYCLES: u64 = 150;

words! {
    /// How the simulated machine schedules.
    Scheduling {
        /// By fixed priorities, the shortest period first.
        FixedPriority = "fixed-priority",
        /// The earliest deadline first.
        Edf = "edf",
    }
}

/// Simulations of one kind.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SimulatedRow {
    /// How the simulated machine schedules.
    pub scheduling: Scheduling,
    /// Reads of memory of a job.
    pub reads_per_job: u64,
    /// Task sets that are simulated.
    pub sets: usize,
    /// Simulated time of each, in nanoseconds.
    pub simulated_ns: u64,
    /// Jobs of all sets.
    pub jobs: u64,
    /// Jobs that ended after their deadlines.
    pub deadline_misses: u64,
    /// Jobs for each second of processor time, over all runs; making the machines is not counted.
    pub jobs_per_cpu_second: Spread,
    /// What the median is to be at least.
    pub target_jobs_per_cpu_second: f64,
    /// Whether it is.
    pub target_met: bool,
}

/// Simulations of one kind.
pub(super) struct Simulated {
    scheduling: Scheduling,
    references: u64,
    scenarios: Vec<Scenario>,
    jobs: u64,
    misses: u64,
    rates: Vec<f64>,
}

/// Makes them, of some of the sets.
pub(super) fn machines(sets: &[TaskSet]) -> Result<Vec<Simulated>, SimError> {
    let mut all = Vec::new();
    for scheduling in [Scheduling::FixedPriority, Scheduling::Edf] {
        for references in REFERENCES {
            let scenario =
                |set: &TaskSet| Scenario::parse(&scenario(set, scheduling, references), "bench sched", Path::new(""));
            let scenarios = sets.iter().take(SETS).map(scenario).collect::<Result<_, _>>()?;
            all.push(Simulated { scheduling, references, scenarios, jobs: 0, misses: 0, rates: Vec::new() });
        }
    }
    Ok(all)
}

fn scenario(set: &TaskSet, scheduling: Scheduling, references: u64) -> String {
    let mut text = format!(
        "schema = 1\nplatform = \"ramses-sandy-1ch1d1r\"\ndevice = \"ddr3-1600\"\nduration = \"{} ps\"\n\
         [cores]\ncount = 1\nmhz = {MEGAHERTZ}\nwidth = 1\nwindow = 0\n\
         [caches]\nlatency_cycles = [4, 14, 40, 60, 60]\nl1 = {{ size = \"128\", ways = 1 }}\n\
         llc = {{ size = \"128\", ways = 1 }}\n[controller]\npage = \"closed\"\n\
         [system]\nfault = \"0 ns\"\nscheduling = \"{}\"\n",
        DURATION.0,
        scheduling.name()
    );
    let mut by_period: Vec<usize> = (0..set.tasks().len()).collect();
    by_period.sort_by_key(|&task| set.tasks()[task].period());
    for (priority, &task) in by_period.iter().enumerate() {
        let (period, wcet) = (set.tasks()[task].period(), set.tasks()[task].wcet());
        let cycles = u128::from(wcet.0) * u128::from(MEGAHERTZ) / 1_000_000 / u128::from(references);
        let gap = cycles.saturating_sub(READ_CYCLES.into());
        let _ = write!(
            text,
            "[[task]]\nname = \"t{task}\"\ncore = 0\npriority = {priority}\n\
             workload = {{ kind = \"bandwidth\", size = \"64K\", gap = {gap} }}\n\
             job = {{ period = \"{} ps\", references = {references} }}\n",
            period.0
        );
    }
    text
}

impl Simulated {
    /// Simulates them once; making the machines is not counted.
    pub(super) fn measure(&mut self) -> Result<(), SimError> {
        let (mut jobs, mut misses, mut seconds) = (0, 0, 0.0);
        for scenario in &self.scenarios {
            let mut machine = scenario.machine()?;
            let began = cpu_seconds();
            machine.run_until(DURATION);
            seconds += cpu_seconds() - began;
            for task in machine.outcome().tasks {
                jobs += task.jobs;
                misses += task.deadline_misses;
            }
        }
        (self.jobs, self.misses) = (jobs, misses);
        self.rates.push(jobs as f64 / seconds);
        Ok(())
    }

    pub(super) fn row(&self) -> SimulatedRow {
        let rate = Spread::of(&self.rates).expect("each kind is measured at least once");
        SimulatedRow {
            scheduling: self.scheduling,
            reads_per_job: self.references,
            sets: self.scenarios.len(),
            simulated_ns: DURATION.0 / 1000,
            jobs: self.jobs,
            deadline_misses: self.misses,
            jobs_per_cpu_second: rate,
            target_jobs_per_cpu_second: TARGET_JOBS_PER_CPU_SECOND,
            target_met: rate.median >= TARGET_JOBS_PER_CPU_SECOND,
        }
    }
}
