//! What ran when in a simulation, and below it when ranks were refreshed.

use memtint_refresh::{Outcome, TaskOutcome};
use memtint_sim::Ran;
use memtint_units::Picoseconds;

use memtint_picture::gantt::{Arrivals, Band, Bar, Lane, Picture};

use crate::analyze::SpanArguments;
use crate::output::{Failure, time};

/// A lane for each task and one for lock tasks, and a line for each rank.
pub(super) fn picture(outcome: &Outcome, span: SpanArguments) -> Result<Picture, Failure> {
    let end = outcome.runs.until.min(outcome.refreshed_until);
    let tasks = outcome.tasks.iter().enumerate().map(|(index, task)| Lane {
        name: task.name.clone(),
        arrivals: Some(Arrivals { phase: task.phase, period: task.period, deadline: task.deadline }),
        bars: bars(outcome, index),
    });
    let locks = outcome.scheme.locks().then(|| Lane {
        name: "(refresh tasks)".to_owned(),
        arrivals: None,
        bars: outcome.runs.runs.iter().filter_map(lock).collect(),
    });
    let ranks = outcome.refreshed.iter().map(|found| found.rank.0 + 1).max().unwrap_or(0);
    let band = |rank: u32| {
        let own = outcome.refreshed.iter().filter(|found| found.rank.0 == rank);
        Band {
            name: format!("rank {rank}"),
            what: format!("rank {rank} is refreshed"),
            spans: own.map(|found| (found.start, found.end)).collect(),
        }
    };
    Ok(Picture {
        title: conclusion(outcome),
        subtitle: subtitle(outcome, end),
        end,
        span: span.of(end)?,
        lanes: tasks.chain(locks).collect(),
        bands: (0..ranks).map(band).collect(),
        bands_are: "the rank is refreshed",
    })
}

/// What to conclude: of the simulated time only.
fn conclusion(outcome: &Outcome) -> String {
    let length = time(outcome.duration);
    match &outcome.complaints()[..] {
        [] => format!("every deadline is met in the simulated {length}{}", longest(outcome)),
        [only] => format!("fails: {only}"),
        [first, others @ ..] => format!("fails: {first}; and {} more", others.len()),
    }
}

/// The response that is the longest, by its deadline.
fn longest(outcome: &Outcome) -> String {
    let share = |task: &TaskOutcome| task.response.max.0 as f64 / task.deadline.0 as f64;
    let longest = outcome.tasks.iter().max_by(|one, other| share(one).total_cmp(&share(other)));
    longest.map_or(String::new(), |task| {
        format!("; the longest response takes {:.1} % of its deadline ({})", 100.0 * share(task), task.name)
    })
}

fn subtitle(outcome: &Outcome, end: Picoseconds) -> String {
    let (scheme, length, misses) = (outcome.scheme.name(), time(outcome.duration), outcome.misses());
    let met = outcome.requests_met();
    let part = if outcome.hyperperiod.is_none() { ", a part of the hyperperiod" } else { "" };
    let kept = match end < outcome.duration {
        true => format!("; what ran is kept to {}", time(end)),
        false => String::new(),
    };
    format!("{scheme}: {length} simulated{part}; {misses} jobs late; {met} requests met a refresh of their rank{kept}")
}

fn lock(run: &memtint_sim::Run) -> Option<Bar> {
    let what = match run.ran {
        Ran::Job { .. } => return None,
        Ran::Lock { .. } => "lock",
        _ => "unlock",
    };
    Some(Bar { start: run.start, end: run.end, what: what.to_owned() })
}

fn bars(outcome: &Outcome, task: usize) -> Vec<Bar> {
    let place = |instance: usize| outcome.instances[..instance].iter().filter(|&&own| own == task).count();
    let (name, several) = (&outcome.tasks[task].name, outcome.tasks[task].ranks.len() > 1);
    let own = outcome.runs.runs.iter().filter_map(|run| match run.ran {
        Ran::Job { task: instance, job } if outcome.instances[instance] == task => {
            let which = if several { format!(", instance {}", place(instance)) } else { String::new() };
            Some(Bar { start: run.start, end: run.end, what: format!("{name}, job {job}{which}") })
        }
        _ => None,
    });
    own.collect()
}
