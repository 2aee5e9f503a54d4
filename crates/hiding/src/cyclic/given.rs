//! Jobs into frames when the instances of each task and their colors are given.

use crate::cyclic::flow::{Cut, route};
use crate::cyclic::problem::{ColorSet, Problem, Unanswered, Window};
use crate::cyclic::table::{Executive, table};

/// The most ways to choose an instance for each job that are tried.
const CHOICES_MAX: u64 = 4096;

/// Places all jobs of a cycle, given the colors of each instance of each task, and the colors in whose frames each task
/// may not run in any instance (`avoid`, in the order of tasks). Each job is executed by one instance from beginning to
/// end; slices go anywhere, and cost nothing here. A no has a cut for each choice of instances that was tried: choices
/// that forbid a job more frames than another are skipped.
///
/// The number of colors that a task needs, and colors given away twice, are not checked here;
/// [`check_executive`](crate::cyclic::check_executive) does.
///
/// # Errors
///
/// As [`place`](crate::cyclic::place()), and [`Unanswered::Nodes`] when there are more than 4096 choices of instances.
///
/// # Panics
///
/// When there is not one set and one list of instances, not empty, for each task.
pub fn place_given(
    problem: &Problem,
    colors: &[Vec<ColorSet>],
    avoid: &[ColorSet],
) -> Result<Result<Executive, Vec<Cut>>, Unanswered> {
    let tasks = problem.set().tasks().len();
    assert_eq!(avoid.len(), tasks, "one set of colors for each task");
    assert_eq!(colors.len(), tasks, "one list of instances for each task");
    assert!(colors.iter().all(|own| !own.is_empty()), "one instance or more for each task");
    if let Some(reason) = problem.unanswered() {
        return Err(reason);
    }
    let instances: Vec<usize> = colors.iter().map(Vec::len).collect();
    let choices: Vec<Vec<ColorSet>> = problem
        .jobs
        .iter()
        .map(|job| least(problem, job, &colors[job.id.task.index()], avoid[job.id.task.index()]))
        .collect();
    let ways = choices.iter().try_fold(1u64, |ways, own| ways.checked_mul(own.len() as u64));
    let Some(ways) = ways.filter(|&ways| ways <= CHOICES_MAX) else {
        return Err(Unanswered::Nodes { nodes_max: CHOICES_MAX });
    };
    let mut cuts = Vec::new();
    for mut way in 0..ways {
        let chosen: Vec<ColorSet> = choices
            .iter()
            .map(|own| {
                let one = own[(way % own.len() as u64) as usize];
                way /= own.len() as u64;
                one
            })
            .collect();
        match route(problem, &instances, &chosen) {
            Ok(placement) => return Ok(Ok(table(problem, &placement, colors))),
            Err(cut) => cuts.push(cut),
        }
    }
    Ok(Err(cuts))
}

/// The choices of colors that the instances of a job's task let it avoid, without those that forbid more frames of its
/// window than another.
fn least(problem: &Problem, job: &Window, own: &[ColorSet], avoid: ColorSet) -> Vec<ColorSet> {
    let met = (job.from..job.to).fold(0, |met, frame| met | 1u64 << problem.color_of(frame));
    let taken = |one: &ColorSet| (one.0 | avoid.0) & met;
    let mut found: Vec<ColorSet> = Vec::new();
    for one in own {
        let dominated = |other: &ColorSet| taken(other) & !taken(one) == 0;
        if !found.iter().any(dominated) {
            found.retain(|other| taken(one) & !taken(other) != 0);
            found.push(*one);
        }
    }
    found.into_iter().map(|one| ColorSet(one.0 | avoid.0)).collect()
}
