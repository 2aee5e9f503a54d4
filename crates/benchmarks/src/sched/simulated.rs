//! Jobs on the whole simulated machine, with their memory requests.
//!
//! No textbook implementation exists for comparison. Each job executes for its WCET, as in the schedules of the other
//! rows, plus delays by refresh. Meanwhile it performs a fixed number of memory reads, evenly spread; each misses the
//! caches and opens a row.

use std::path::Path;

use memtint_bench::{Spread, cpu_seconds};
use memtint_sched::TaskSet;
use memtint_sim::scenario::{ScenarioTask, SchedulingName, Time, Workload};
use memtint_sim::{Scenario, SimError};
use memtint_units::Picoseconds;
use schemars::JsonSchema;
use serde::Serialize;

use crate::words::words;

/// Reads of a job.
const REFERENCES: [u64; 2] = [1, 4];
/// Number of simulated sets among the analyzed ones, and the simulated time.
const SETS: usize = 10;
const DURATION: Picoseconds = Picoseconds(100_000_000_000);
const TARGET_JOBS_PER_CPU_SECOND: f64 = 1e6;
/// Clock of the core, which executes one instruction per cycle, and an upper estimate of the cycles from a read to its
/// data.
const MEGAHERTZ: u64 = 3000;
const READ_CYCLES: u64 = 150;

words! {
    /// Scheduling policy of the simulated machine.
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
    /// Scheduling policy of the simulated machine.
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
    /// Jobs for each second of CPU time, over all runs, without the time to make the machines.
    pub jobs_per_cpu_second: Spread,
    /// Target for the median.
    pub target_jobs_per_cpu_second: f64,
    /// Whether the target is met.
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

/// Makes the machines, for some of the sets.
pub(super) fn machines(sets: &[TaskSet]) -> Result<Vec<Simulated>, SimError> {
    let machine = Scenario::parse(&machine(), Path::new("bench sched"))?;
    let mut all = Vec::new();
    for scheduling in [Scheduling::FixedPriority, Scheduling::Edf] {
        for references in REFERENCES {
            let scenario = |set: &TaskSet| scenario(&machine, set, scheduling, references);
            let scenarios = sets.iter().take(SETS).map(scenario).collect::<Result<_, _>>()?;
            all.push(Simulated { scheduling, references, scenarios, jobs: 0, misses: 0, rates: Vec::new() });
        }
    }
    Ok(all)
}

/// The machine as the text of a system file, with one task as the template for those of each set.
fn machine() -> String {
    format!(
        r#"
platform = "ramses-sandy-1ch1d1r"

[[task]]
name = "t"
cores = "0"
workload = {{ kind = "bandwidth", size = "64K" }}
period = "1 ms"
references = 1

[simulation]
device = "ddr3-1600"
duration = "{} ps"
cores = {{ count = 1, mhz = {MEGAHERTZ}, width = 1, window = 0 }}
controller = {{ page = "closed" }}
system = {{ fault = "0 ns" }}

[simulation.caches]
latency_cycles = [4, 14, 40, 60, 60]
l1 = {{ size = "128", ways = 1 }}
llc = {{ size = "128", ways = 1 }}
"#,
        DURATION.0
    )
}

/// The machine with the tasks of a set, the shortest period first.
fn scenario(machine: &Scenario, set: &TaskSet, scheduling: Scheduling, references: u64) -> Result<Scenario, SimError> {
    let mut by_period: Vec<usize> = (0..set.tasks().len()).collect();
    by_period.sort_by_key(|&task| set.tasks()[task].period());
    machine.changed(|spec| {
        spec.system.scheduling = match scheduling {
            Scheduling::FixedPriority => SchedulingName::FixedPriority,
            Scheduling::Edf => SchedulingName::Edf,
        };
        let template = spec.tasks[0].clone();
        let own = |(priority, task): (u32, usize)| {
            let mut own = ScenarioTask { name: format!("t{task}"), priority, ..template.clone() };
            let (Workload::Bandwidth { gap, .. }, Some(job)) = (&mut own.workload, &mut own.job) else {
                unreachable!("the machine's task has jobs that walk through an array")
            };
            *gap = gap_of(set.tasks()[task].wcet(), references);
            (job.period, job.references) = (Time(set.tasks()[task].period()), references);
            own
        };
        spec.tasks = (0..).zip(by_period).map(own).collect();
    })
}

/// Instructions between two reads of a job with this WCET.
fn gap_of(wcet: Picoseconds, references: u64) -> u32 {
    let cycles = u128::from(wcet.0) * u128::from(MEGAHERTZ) / 1_000_000 / u128::from(references);
    u32::try_from(cycles.saturating_sub(READ_CYCLES.into())).expect("jobs of the sets take less than a second")
}

impl Simulated {
    /// Simulates all sets once; the time to make the machines is not counted.
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
