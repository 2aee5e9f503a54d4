//! Speed of the real-time analyses.
//!
//! The library and a plain textbook implementation in this module compute each kind of answer for the same random task
//! sets; both must give the same answers. Time is CPU time of this thread; all kinds are measured in turn, repeatedly.

mod servers;
mod sets;
mod simulated;
mod textbook;

use std::hint::black_box;
use std::time::Duration;

use memtint_bench::{Beside, Disturbance, Host, Spread, cpu_seconds};
use memtint_sched::{
    Effort, Policy, Preemption, Priorities, Run, Supply, TaskSet, Verdict, WorstCase, fixed_priority,
    quick_processor_demand, schedule, smallest_budget, worst_response, worst_response_edf,
};
use memtint_units::{Picoseconds, Random};
use schemars::JsonSchema;
use serde::Serialize;

pub use self::servers::{LargeRow, ProvedRow, ProvedSearch, RaceRow, RefreshServers, SearchRow};
pub use self::simulated::{Scheduling, SimulatedRow};
use crate::words::words;
use crate::{Benchmark, BenchmarkError};

/// Schema version of the report.
const SCHEMA: u32 = 1;
/// Tasks of a set, and of a set for the search for a budget.
const TASKS: usize = 10;
const BUDGET_TASKS: usize = 5;
/// Utilization in percent: the sum of all `C / T`, reduced slightly by rounding down to whole nanoseconds.
const LOAD_PERCENT: u64 = 90;
/// Utilization in percent of further sets for the search for a budget, besides [`LOAD_PERCENT`]. At the latter,
/// millions of jobs often precede the deciding window, and the textbook has no answer.
const BUDGET_LOAD_PERCENT: u64 = 50;
/// Steps of the search for a budget; a set that needs more has no answer.
const BUDGET_EFFORT: Effort = Effort { steps_max: 100_000 };
/// Jobs of a schedule.
const JOBS: u64 = 10_000;
/// Period of the resource: the shortest possible period.
const RESOURCE_PERIOD: Picoseconds = Picoseconds::from_ns(10_000);

/// Parameters of the benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Task sets of each size, at least one.
    pub sets: u32,
    /// Runs of each kind, at least one.
    pub repeat: usize,
    /// Whether the search for refresh servers uses a coarser space.
    pub quick: bool,
    /// Seed of the task sets.
    pub seed: u64,
}

words! {
    /// A kind of answer.
    Answer {
        /// Worst response times under rate-monotonic priorities.
        FixedResponses = "response times, rate monotonic",
        /// Whether all deadlines are met under rate-monotonic priorities.
        FixedDecision = "decision, rate monotonic",
        /// Worst response times under EDF.
        EdfResponses = "response times, EDF",
        /// Whether all deadlines are met under EDF.
        EdfDecision = "decision, EDF (QPA)",
        /// The schedule under rate-monotonic priorities.
        FixedSchedule = "schedule, rate monotonic",
        /// The schedule under EDF.
        EdfSchedule = "schedule, EDF",
        /// The smallest budget of a periodic resource that EDF needs.
        EdfBudget = "exact budget, EDF",
        /// The smallest budget of a periodic resource that rate-monotonic priorities need.
        FixedBudget = "exact budget, rate monotonic",
    }
}

words! {
    /// The subject of one answer.
    Each {
        /// A task.
        Task = "task",
        /// A task set.
        Set = "set",
        /// A job of a schedule.
        Job = "job",
    }
}

words! {
    /// The set whose time is reported.
    OfSets {
        /// The median set.
        Median = "median",
        /// The mean of all sets.
        Mean = "mean",
    }
}

/// The report of the benchmark.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SchedReport {
    /// Schema version of this report.
    pub schema: u32,
    /// The benchmark.
    #[schemars(extend("const" = "sched"))]
    pub bench: Benchmark,
    /// Version of memtint.
    pub version: &'static str,
    /// The machine of the measurement.
    pub machine: Host,
    /// Other load on the machine during the benchmark; null where the kernel does not report it.
    pub disturbance: Option<Disturbance>,
    /// Seed of the task sets.
    pub seed: u64,
    /// Task sets of each size.
    pub sets: u32,
    /// Runs of each kind.
    pub repeat: usize,
    /// Whether the benchmark ran with `--quick`.
    pub quick: bool,
    /// Measuring threads.
    pub threads: u32,
    /// The shortest and the longest period of a task, in nanoseconds.
    pub periods_ns: [u64; 2],
    /// Period of the periodic resource, in nanoseconds.
    pub resource_period_ns: u64,
    /// Jobs of a schedule.
    pub jobs_of_a_schedule: u64,
    /// One kind of answer each, compared with the textbook.
    pub rows: Vec<SchedRow>,
    /// Jobs on the whole simulated machine.
    pub simulated_machine: Vec<SimulatedRow>,
    /// The search for Colored Refresh Servers.
    pub refresh_servers: RefreshServers,
    /// Whether all targets are met.
    pub target_met: bool,
}

/// One kind of answer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SchedRow {
    /// The kind of answer.
    pub answer: Answer,
    /// The subject of one answer.
    pub each: Each,
    /// Tasks of a set.
    pub tasks: usize,
    /// Microseconds of CPU time for each answer, over all runs.
    pub cpu_us: Spread,
    /// The same of the textbook.
    pub textbook_cpu_us: Spread,
    /// The textbook's median divided by that of the library.
    pub textbook_by_ours: f64,
    /// Whether both give the same answer wherever both have one.
    pub same_answers: bool,
    /// Utilization of each set, in percent.
    pub utilization_percent: u64,
    /// Answers that the library does not find.
    pub without_answer: usize,
    /// Answers that the textbook does not find.
    pub textbook_without_answer: usize,
    /// The set of this time.
    pub of_sets: OfSets,
    /// Longest time of a set, in microseconds; null where sets are not timed one by one.
    pub longest_set_cpu_us: Option<f64>,
    /// Target for the median, in microseconds.
    pub target_us: f64,
    /// Whether the target is met, with the same answers.
    pub target_met: bool,
}

/// An answer as a number, to be compared: a response time, a yes, a budget.
type Answers = Vec<Option<u64>>;

/// One kind of answer.
struct Kind {
    answer: Answer,
    each: Each,
    tasks: usize,
    load_percent: u64,
    /// The target, in microseconds for each answer.
    target_us: f64,
    ours: fn(&TaskSet) -> Answers,
    plain: fn(&TaskSet) -> Answers,
    /// Microseconds for each answer, run by run: ours, plain.
    times: [Vec<f64>; 2],
    agrees: bool,
    /// Whether the time is that of the median set instead of the mean of all sets: a few sets take a thousand times as
    /// long as the others.
    typical: bool,
    /// Longest time of a set, where known.
    longest_us: Option<f64>,
    /// Answers that the library and the textbook do not find.
    left_out: [usize; 2],
}

impl Kind {
    /// Number of answers for one set.
    fn each_of_set(&self) -> usize {
        match self.each {
            Each::Task => self.tasks,
            Each::Job => JOBS as usize,
            Each::Set => 1,
        }
    }

    fn measure(&mut self, sets: &[TaskSet]) {
        let mut answers = [Vec::new(), Vec::new()];
        for (which, answer) in [self.ours, self.plain].into_iter().enumerate() {
            let mut each = Vec::new();
            let began = cpu_seconds();
            for set in sets {
                let begun = if self.typical { cpu_seconds() } else { 0.0 };
                answers[which].push(answer(black_box(set)));
                if self.typical {
                    each.push((cpu_seconds() - begun) * 1e6);
                }
            }
            let mean = (cpu_seconds() - began) * 1e6 / (sets.len() * self.each_of_set()) as f64;
            let spread = Spread::of(&each);
            self.times[which].push(spread.as_ref().map_or(mean, |spread| spread.median));
            if which == 0 {
                self.longest_us = spread.map(|spread| spread.max);
            }
        }
        let pairs = || answers[0].iter().flatten().zip(answers[1].iter().flatten());
        self.left_out =
            [pairs().filter(|(ours, _)| ours.is_none()).count(), pairs().filter(|(_, plain)| plain.is_none()).count()];
        self.agrees &= pairs().all(|(ours, plain)| ours.is_none() || plain.is_none() || ours == plain);
    }

    fn row(&self) -> SchedRow {
        let [ours, plain] =
            [0, 1].map(|which: usize| Spread::of(&self.times[which]).expect("each kind is measured at least once"));
        SchedRow {
            answer: self.answer,
            each: self.each,
            tasks: self.tasks,
            cpu_us: ours,
            textbook_cpu_us: plain,
            textbook_by_ours: plain.median / ours.median,
            same_answers: self.agrees,
            utilization_percent: self.load_percent,
            without_answer: self.left_out[0],
            textbook_without_answer: self.left_out[1],
            of_sets: if self.typical { OfSets::Median } else { OfSets::Mean },
            longest_set_cpu_us: self.longest_us,
            target_us: self.target_us,
            target_met: self.agrees && (self.typical || self.left_out[0] == 0) && ours.median <= self.target_us,
        }
    }
}

fn kinds() -> Vec<Kind> {
    let kind = |answer, each, tasks, target_us, ours, plain| Kind {
        answer,
        each,
        tasks,
        load_percent: LOAD_PERCENT,
        target_us,
        ours,
        plain,
        times: [Vec::new(), Vec::new()],
        agrees: true,
        typical: tasks == BUDGET_TASKS,
        longest_us: None,
        left_out: [0; 2],
    };
    let mut kinds = vec![
        kind(Answer::FixedResponses, Each::Task, TASKS, 2.0, fixed_responses, textbook::fixed_responses),
        kind(Answer::FixedDecision, Each::Set, TASKS, 20.0, fixed_decision, textbook::fixed_decision),
        kind(Answer::EdfResponses, Each::Task, TASKS, 50.0, edf_responses, textbook::edf_responses),
        kind(Answer::EdfDecision, Each::Set, TASKS, 20.0, edf_decision, textbook::edf_decision),
        kind(Answer::FixedSchedule, Each::Job, TASKS, 1.0, fixed_schedule, textbook::fixed_schedule),
        kind(Answer::EdfSchedule, Each::Job, TASKS, 1.0, edf_schedule, textbook::edf_schedule),
    ];
    for load_percent in [BUDGET_LOAD_PERCENT, LOAD_PERCENT] {
        let edf = kind(Answer::EdfBudget, Each::Set, BUDGET_TASKS, 100.0, edf_budget, textbook::edf_budget);
        let fixed = kind(Answer::FixedBudget, Each::Set, BUDGET_TASKS, 100.0, fixed_budget, textbook::fixed_budget);
        kinds.extend([edf, fixed].map(|kind| Kind { load_percent, ..kind }));
    }
    kinds
}

fn bounded(found: Result<WorstCase, memtint_sched::Unsupported>) -> Option<u64> {
    match found {
        Ok(WorstCase::Bounded(worst)) => Some(worst.response.0),
        _ => None,
    }
}

fn fixed_responses(set: &TaskSet) -> Answers {
    let order = Priorities::rate_monotonic(set);
    let one = |task| bounded(worst_response(set, &order, Preemption::Full, task, Effort::default()));
    set.indices().map(one).collect()
}

fn fixed_decision(set: &TaskSet) -> Answers {
    let order = Priorities::rate_monotonic(set);
    let verdict = fixed_priority(set, &order, Preemption::Full, Effort::default());
    vec![Some(u64::from(verdict.is_schedulable()))]
}

fn edf_responses(set: &TaskSet) -> Answers {
    set.indices().map(|task| bounded(worst_response_edf(set, task, Effort::default()))).collect()
}

fn edf_decision(set: &TaskSet) -> Answers {
    vec![Some(u64::from(quick_processor_demand(set, Effort::default()).is_schedulable()))]
}

fn budget(set: &TaskSet, policy: &Policy) -> Answers {
    let found = smallest_budget(set, policy, RESOURCE_PERIOD, Supply::Exact, BUDGET_EFFORT);
    let Verdict::Schedulable(found) = found else { return vec![None] };
    vec![u64::try_from(found.budget_ps.ceil().to_integer()).ok()]
}

fn edf_budget(set: &TaskSet) -> Answers {
    budget(set, &Policy::Edf)
}

fn fixed_budget(set: &TaskSet) -> Answers {
    budget(set, &Policy::FixedPriority(Priorities::rate_monotonic(set), Preemption::Full))
}

fn schedule_of(set: &TaskSet, policy: &Policy) -> Answers {
    digest(&schedule(set, policy, JOBS).runs)
}

fn fixed_schedule(set: &TaskSet) -> Answers {
    schedule_of(set, &Policy::FixedPriority(Priorities::rate_monotonic(set), Preemption::Full))
}

fn edf_schedule(set: &TaskSet) -> Answers {
    schedule_of(set, &Policy::Edf)
}

/// A hash of a schedule.
fn digest(runs: &[Run]) -> Answers {
    let mix = |digest: u64, value: u64| (digest ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let digest = |digest, run: &Run| [run.task.0 as u64, run.job, run.start.0, run.end.0].into_iter().fold(digest, mix);
    vec![Some(runs.iter().fold(runs.len() as u64, digest))]
}

/// Measures the time of the analyses.
///
/// # Errors
///
/// When a scenario of the simulated machine is refused.
pub fn measure(asked: &Asked, tell: fn(&str)) -> Result<SchedReport, BenchmarkError> {
    let (machine, beside) = (Host::read(), Beside::since_now());
    let mut random = Random::new(asked.seed);
    let mut drawn =
        |tasks, load| (0..asked.sets).map(|_| sets::draw(&mut random, tasks, load)).collect::<Vec<TaskSet>>();
    let large = drawn(TASKS, LOAD_PERCENT);
    let small = [BUDGET_LOAD_PERCENT, LOAD_PERCENT].map(|load| (load, drawn(BUDGET_TASKS, load)));
    let mut kinds = kinds();
    let mut machines = simulated::machines(&large)?;
    let mut searches = servers::searches(asked.quick);
    let began = cpu_seconds();
    for round in 1..=asked.repeat {
        tell(&format!("sched {round}/{}", asked.repeat));
        for kind in &mut kinds {
            let small = || small.iter().find(|(load, _)| *load == kind.load_percent).map_or(&[][..], |(_, sets)| sets);
            kind.measure(if kind.tasks == TASKS { &large } else { small() });
        }
        for machine in &mut machines {
            machine.measure()?;
        }
        searches.measure();
    }
    let own = Duration::from_secs_f64((cpu_seconds() - began).max(0.0));
    let disturbance = beside.until_now(own);
    let rows: Vec<SchedRow> = kinds.iter().map(Kind::row).collect();
    let simulated_machine: Vec<SimulatedRow> = machines.iter().map(simulated::Simulated::row).collect();
    let refresh_servers = searches.report();
    let target_met = rows.iter().all(|row| row.target_met)
        && simulated_machine.iter().all(|row| row.target_met)
        && refresh_servers.target_met();
    Ok(SchedReport {
        schema: SCHEMA,
        bench: Benchmark::Sched,
        version: env!("CARGO_PKG_VERSION"),
        machine,
        disturbance,
        seed: asked.seed,
        sets: asked.sets,
        repeat: asked.repeat,
        quick: asked.quick,
        threads: 1,
        periods_ns: [sets::PERIOD_MIN_NS, sets::PERIOD_MAX_NS],
        resource_period_ns: RESOURCE_PERIOD.0 / 1000,
        jobs_of_a_schedule: JOBS,
        rows,
        simulated_machine,
        refresh_servers,
        target_met,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_textbook_gives_the_same_answers() {
        let mut random = Random::new(3);
        for mut kind in kinds() {
            let drawn: Vec<TaskSet> = (0..3).map(|_| sets::draw(&mut random, kind.tasks, kind.load_percent)).collect();
            kind.measure(&drawn);
            assert!(kind.agrees, "{}", kind.answer.name());
        }
    }
}
