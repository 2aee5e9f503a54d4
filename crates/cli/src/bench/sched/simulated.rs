//! Jobs on the whole simulated machine, with their memory requests.
//!
//! There is no textbook's implementation of that to compare it with. Each job executes for its WCET, as the schedules of the other
//! rows have it, but for the time that refresh takes; what it does meanwhile is so many reads of memory, evenly spread, each of which
//! misses the caches and opens a row.

use memtint_bench::Spread;
use std::fmt::Write as _;
use std::path::Path;

use memtint_sched::TaskSet;
use memtint_sim::Scenario;
use memtint_units::Picoseconds;
use serde_json::{Value, json};

use super::cpu_seconds;
use crate::output::{Failure, table};

/// Reads of a job.
const REFERENCES: [u64; 2] = [1, 4];
/// Sets that are simulated, of those that are analysed, and for how long.
const SETS: usize = 10;
const DURATION: Picoseconds = Picoseconds(100_000_000_000);
const TARGET_JOBS_PER_CPU_SECOND: f64 = 1e6;
/// Clock of the core, an instruction in each cycle, and from the start of a read to its data, somewhat more than it takes.
const MEGAHERTZ: u64 = 3000;
const READ_CYCLES: u64 = 150;

/// Simulations of one kind.
pub(super) struct Simulated {
    scheduling: &'static str,
    references: u64,
    scenarios: Vec<Scenario>,
    jobs: u64,
    misses: u64,
    rates: Vec<f64>,
}

/// Makes them, of some of the sets.
pub(super) fn machines(sets: &[TaskSet]) -> Result<Vec<Simulated>, Failure> {
    let mut all = Vec::new();
    for scheduling in ["fixed-priority", "edf"] {
        for references in REFERENCES {
            let scenario =
                |set: &TaskSet| Scenario::parse(&scenario(set, scheduling, references), "bench sched", Path::new(""));
            let scenarios = sets.iter().take(SETS).map(scenario).collect::<Result<_, memtint_sim::SimError>>()?;
            all.push(Simulated { scheduling, references, scenarios, jobs: 0, misses: 0, rates: Vec::new() });
        }
    }
    Ok(all)
}

fn scenario(set: &TaskSet, scheduling: &str, references: u64) -> String {
    let mut text = format!(
        "schema = 1\nplatform = \"ramses-sandy-1ch1d1r\"\ndevice = \"ddr3-1600\"\nduration = \"{} ps\"\n\
         [cores]\ncount = 1\nmhz = {MEGAHERTZ}\nwidth = 1\nwindow = 0\n\
         [caches]\nlatency_cycles = [4, 14, 40, 60, 60]\nl1 = {{ size = \"128\", ways = 1 }}\n\
         llc = {{ size = \"128\", ways = 1 }}\n[controller]\npage = \"closed\"\n\
         [system]\nfault = \"0 ns\"\nscheduling = \"{scheduling}\"\n",
        DURATION.0
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
    pub(super) fn measure(&mut self) -> Result<(), Failure> {
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

    fn spread(&self) -> Spread {
        Spread::of(&self.rates).expect("each kind is measured at least once")
    }

    pub(super) fn met(&self) -> bool {
        self.spread().median >= TARGET_JOBS_PER_CPU_SECOND
    }

    pub(super) fn to_json(&self) -> Value {
        let spread = self.spread();
        json!({
            "scheduling": self.scheduling,
            "reads_per_job": self.references,
            "sets": self.scenarios.len(),
            "simulated_ns": DURATION.0 / 1000,
            "jobs": self.jobs,
            "deadline_misses": self.misses,
            "jobs_per_cpu_second": {"median": spread.median, "min": spread.min, "max": spread.max},
            "target_jobs_per_cpu_second": TARGET_JOBS_PER_CPU_SECOND,
            "target_met": self.met(),
        })
    }
}

/// What is told of them.
pub(super) fn text(all: &[Simulated]) -> String {
    let row = |one: &Simulated| {
        let spread = one.spread();
        let rate = |value: f64| format!("{value:.0}");
        let mut cells = vec![one.scheduling.to_owned(), one.references.to_string(), one.jobs.to_string()];
        cells.extend([spread.median, spread.min, spread.max, TARGET_JOBS_PER_CPU_SECOND].map(rate));
        cells.push(if one.met() { "met" } else { "not met" }.to_owned());
        cells
    };
    let heads = ["simulated machine", "reads a job", "jobs", "jobs a second", "least", "most", "target", ""];
    table(&heads, &[1, 2, 3, 4, 5, 6], &all.iter().map(row).collect::<Vec<_>>())
}
