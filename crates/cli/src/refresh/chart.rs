//! What ran when in a simulation, and below it when ranks were refreshed.

use memtint_refresh::Outcome;
use memtint_sim::Ran;

use crate::output::time;
use memtint_picture::gantt::{Arrivals, Band, Bar, Lane, Picture};

/// A lane for each task and one for lock tasks, and a line for each rank.
pub(super) fn picture(outcome: &Outcome) -> Picture {
    let (length, misses, met) = (time(outcome.duration), outcome.misses(), outcome.requests_met());
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
    Picture {
        title: format!("What ran when (simulated, {})", outcome.scheme.name()),
        subtitle: format!("{length} simulated; {misses} jobs late; {met} requests met a refresh of their rank"),
        end: outcome.runs.until.min(outcome.refreshed_until),
        lanes: tasks.chain(locks).collect(),
        bands: (0..ranks).map(band).collect(),
        bands_are: "the rank is refreshed",
    }
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
