//! `memtint bench sched`: how fast the analyses are.
//!
//! Each kind of answer is computed for the same random task sets by the library and by a plain implementation from the
//! textbook that is kept here; both must give the same answers. Time is this thread's processor time; each kind is
//! measured in turn with all others, over and over.

mod servers;
mod sets;
mod simulated;
mod textbook;

use memtint_bench::{Beside, Machine, Spread, cpu_seconds};
use std::fmt::Write as _;
use std::hint::black_box;

use memtint_sched::{
    Effort, Policy, Preemption, Priorities, Run, Supply, TaskSet, Verdict, WorstCase, fixed_priority,
    quick_processor_demand, schedule, smallest_budget, worst_response, worst_response_edf,
};
use memtint_units::Picoseconds;
use serde_json::{Value, json};

use crate::Ending;
use crate::output::{Format, done, done_json, table};
use memtint_units::Random;

/// Arguments of `memtint bench sched`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 measured (whether or not targets are met: the last lines say so), 2 failure.\n\
    Example: memtint bench sched --format json > sched.json")]
pub(super) struct SchedArguments {
    /// Task sets of each size. Default: 300, with --quick 30.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    sets: Option<u32>,
    /// Runs of each kind. Default: 7, with --quick 2.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: Option<u16>,
    /// Few sets: for tests and a first impression.
    #[arg(long)]
    quick: bool,
    /// Seed of the task sets.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Tasks of a set, and of one whose budget is looked for.
const TASKS: usize = 10;
const BUDGET_TASKS: usize = 5;
/// Utilization in percent: the sum of all `C / T`, less what rounding down to whole nanoseconds takes.
const LOAD_PERCENT: u64 = 90;
/// The same where a budget is looked for, beside [`LOAD_PERCENT`]: there the window that decides often has millions of jobs before
/// it, for which the textbook has no answer.
const BUDGET_LOAD_PERCENT: u64 = 50;
/// Steps of the search for a budget; a set that needs more has no answer.
const BUDGET_EFFORT: Effort = Effort { steps_max: 100_000 };
/// Jobs of a schedule.
const JOBS: u64 = 10_000;
/// Period of the resource: the shortest period there can be.
const RESOURCE_PERIOD: Picoseconds = Picoseconds::from_ns(10_000);

/// An answer as a number, to be compared: a response time, a yes, a budget.
type Answers = Vec<Option<u64>>;

/// One kind of answer.
struct Kind {
    name: &'static str,
    /// What one answer is about.
    each: &'static str,
    tasks: usize,
    load_percent: u64,
    /// What it is to reach, in microseconds for each.
    target_us: f64,
    ours: fn(&TaskSet) -> Answers,
    plain: fn(&TaskSet) -> Answers,
    /// Microseconds for each answer, run by run: ours, plain.
    times: [Vec<f64>; 2],
    agrees: bool,
    /// Time is that of the median set and not of the mean one: few sets take a thousand times as long as the others.
    typical: bool,
    /// Time of the longest set, where it is known.
    longest_us: Option<f64>,
    /// Answers that the library and the textbook do not find.
    left_out: [usize; 2],
}

impl Kind {
    /// Answers that one set asks for.
    fn each_of_set(&self) -> usize {
        match self.each {
            "task" => self.tasks,
            "job" => JOBS as usize,
            _ => 1,
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

    fn spreads(&self) -> [Spread; 2] {
        [0, 1].map(|which: usize| Spread::of(&self.times[which]).expect("each kind is measured at least once"))
    }

    fn ratio(&self) -> f64 {
        let [ours, plain] = self.spreads();
        plain.median / ours.median
    }

    fn met(&self) -> bool {
        self.agrees && (self.typical || self.left_out[0] == 0) && self.spreads()[0].median <= self.target_us
    }

    fn to_json(&self) -> Value {
        let [ours, plain] = self.spreads();
        json!({
            "answer": self.name,
            "each": self.each,
            "tasks": self.tasks,
            "cpu_us": {"median": ours.median, "min": ours.min, "max": ours.max},
            "textbook_cpu_us": {"median": plain.median, "min": plain.min, "max": plain.max},
            "textbook_by_ours": self.ratio(),
            "same_answers": self.agrees,
            "utilization_percent": self.load_percent,
            "without_answer": self.left_out[0],
            "textbook_without_answer": self.left_out[1],
            "of_sets": if self.typical { "median" } else { "mean" },
            "longest_set_cpu_us": self.longest_us,
            "target_us": self.target_us,
            "target_met": self.met(),
        })
    }

    fn cells(&self) -> Vec<String> {
        let [ours, plain] = self.spreads();
        let us = |value: f64| format!("{value:.2}");
        let mut cells = vec![self.name.to_owned(), self.each.to_owned(), self.tasks.to_string()];
        cells.push(format!("0.{}", self.load_percent));
        cells.extend([ours.median, ours.min, ours.max, plain.median].map(us));
        cells.extend([format!("{:.1}", self.ratio()), if self.agrees { "yes" } else { "NO" }.to_owned()]);
        cells.extend([us(self.target_us), if self.met() { "met" } else { "not met" }.to_owned()]);
        cells
    }
}

fn kinds() -> Vec<Kind> {
    let kind = |name, each, tasks, target_us, ours, plain| Kind {
        name,
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
        kind("response times, rate monotonic", "task", TASKS, 2.0, fixed_responses, textbook::fixed_responses),
        kind("decision, rate monotonic", "set", TASKS, 20.0, fixed_decision, textbook::fixed_decision),
        kind("response times, EDF", "task", TASKS, 50.0, edf_responses, textbook::edf_responses),
        kind("decision, EDF (QPA)", "set", TASKS, 20.0, edf_decision, textbook::edf_decision),
        kind("schedule, rate monotonic", "job", TASKS, 1.0, fixed_schedule, textbook::fixed_schedule),
        kind("schedule, EDF", "job", TASKS, 1.0, edf_schedule, textbook::edf_schedule),
    ];
    for load_percent in [BUDGET_LOAD_PERCENT, LOAD_PERCENT] {
        let edf = kind("exact budget, EDF", "set", BUDGET_TASKS, 100.0, edf_budget, textbook::edf_budget);
        let name = "exact budget, rate monotonic";
        let fixed = kind(name, "set", BUDGET_TASKS, 100.0, fixed_budget, textbook::fixed_budget);
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
    (0..set.tasks().len()).map(one).collect()
}

fn fixed_decision(set: &TaskSet) -> Answers {
    let order = Priorities::rate_monotonic(set);
    let verdict = fixed_priority(set, &order, Preemption::Full, Effort::default());
    vec![Some(u64::from(verdict.is_schedulable()))]
}

fn edf_responses(set: &TaskSet) -> Answers {
    (0..set.tasks().len()).map(|task| bounded(worst_response_edf(set, task, Effort::default()))).collect()
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

/// A number that two schedules have in common only if they are equal, in all probability.
fn digest(runs: &[Run]) -> Answers {
    let mix = |digest: u64, value: u64| (digest ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let digest = |digest, run: &Run| [run.task as u64, run.job, run.start.0, run.end.0].into_iter().fold(digest, mix);
    vec![Some(runs.iter().fold(runs.len() as u64, digest))]
}

pub(super) fn bench_sched(arguments: &SchedArguments, format: Format) -> Ending {
    let (machine, beside) = (Machine::read(), Beside::since_now());
    let count = arguments.sets.unwrap_or(if arguments.quick { 30 } else { 300 });
    let repeat = arguments.repeat.map_or(if arguments.quick { 2 } else { 7 }, usize::from);
    let mut random = Random::new(arguments.seed);
    let mut drawn = |tasks, load| (0..count).map(|_| sets::draw(&mut random, tasks, load)).collect::<Vec<TaskSet>>();
    let large = drawn(TASKS, LOAD_PERCENT);
    let small = [BUDGET_LOAD_PERCENT, LOAD_PERCENT].map(|load| (load, drawn(BUDGET_TASKS, load)));
    let mut kinds = kinds();
    let mut machines = simulated::machines(&large)?;
    let mut searches = servers::searches(arguments.quick)?;
    let began = cpu_seconds();
    for round in 1..=repeat {
        eprintln!("memtint: bench: sched {round}/{repeat}");
        for kind in &mut kinds {
            let small = || small.iter().find(|(load, _)| *load == kind.load_percent).map_or(&[][..], |(_, sets)| sets);
            kind.measure(if kind.tasks == TASKS { &large } else { small() });
        }
        for machine in &mut machines {
            machine.measure()?;
        }
        searches.measure();
    }
    let own = std::time::Duration::from_secs_f64((cpu_seconds() - began).max(0.0));
    let disturbance = beside.until_now(own);
    let met = kinds.iter().all(Kind::met) && machines.iter().all(simulated::Simulated::met) && searches.met();
    match format {
        Format::Json => done_json(&json!({
            "schema": 1,
            "bench": "sched",
            "version": env!("CARGO_PKG_VERSION"),
            "machine": machine,
            "disturbance": disturbance,
            "seed": arguments.seed,
            "sets": count,
            "repeat": repeat,
            "quick": arguments.quick,
            "threads": 1,
            "periods_ns": [sets::PERIOD_MIN_NS, sets::PERIOD_MAX_NS],
            "resource_period_ns": RESOURCE_PERIOD.0 / 1000,
            "jobs_of_a_schedule": JOBS,
            "rows": kinds.iter().map(Kind::to_json).collect::<Vec<_>>(),
            "simulated_machine": machines.iter().map(simulated::Simulated::to_json).collect::<Vec<_>>(),
            "refresh_servers": searches.to_json(),
            "target_met": met,
        })),
        Format::Text => {
            let mut text = String::new();
            let cpu = machine.cpu.as_deref().unwrap_or("unknown CPU");
            let _ = writeln!(
                text,
                "microseconds of processor time for each answer ({cpu}; median of {repeat} runs over {count} sets, seed {}; \
                 deadlines are periods, log-uniform in {} to {} ns; resource period {} ns)\n",
                arguments.seed,
                sets::PERIOD_MIN_NS,
                sets::PERIOD_MAX_NS,
                RESOURCE_PERIOD.0 / 1000
            );
            let heads =
                ["answer", "each", "tasks", "U", "median", "least", "most", "textbook", "ratio", "same", "target", ""];
            text.push_str(&table(
                &heads,
                &[2, 3, 4, 5, 6, 7, 8, 10],
                &kinds.iter().map(Kind::cells).collect::<Vec<_>>(),
            ));
            text.push('\n');
            for kind in &kinds {
                if let Some(longest) = kind.longest_us {
                    let (name, load, [ours, plain]) = (kind.name, kind.load_percent, kind.left_out);
                    let _ = writeln!(
                        text,
                        "{name}, U = 0.{load}: of the median set; the longest took {longest:.0} us; without an answer {ours} of {count} sets, \
                         of the textbook {plain}"
                    );
                }
            }
            text.push_str("a schedule has its jobs a second as 1e6 by the microseconds for each\n\n");
            text.push_str(&simulated::text(&machines));
            text.push('\n');
            text.push_str(&searches.to_text());
            done(&text)
        }
    }
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
            assert!(kind.agrees, "{}", kind.name);
        }
    }
}
