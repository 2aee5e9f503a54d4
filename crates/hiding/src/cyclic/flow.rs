//! Jobs into frames by maximum flow (Liu, *Real-Time Systems*, 2000, section 5.8, which 4.3.2 refers to), with the colors that
//! tasks avoid taken out of the network.
//!
//! ```text
//! source --demand--> job --no limit--> frame --length--> sink     an edge for each frame of the job's window
//!                                                                 in which no color of its data is refreshed
//! ```
//!
//! All jobs are placed if and only if the flow is the sum of all demands, when slices cost nothing. The flow comes from
//! a library (Dinic's algorithm of `petgraph`); its cut, computed here, shows that it is a maximum.

use crate::cyclic::problem::{ColorSet, JobId, Problem, Unanswered};
use memtint_units::Picoseconds;
use petgraph::graph::{DiGraph, NodeIndex};
use std::collections::VecDeque;

/// The part of a job that runs in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portion {
    /// The job.
    pub id: JobId,
    /// The frame, from time 0, below [`Problem::frame_count`].
    pub frame: u64,
    /// How long; more than zero.
    pub time: Picoseconds,
}

/// All jobs of a cycle, placed into frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The portions, by task, job, and frame in the order of the job's window.
    pub portions: Vec<Portion>,
}

impl Placement {
    /// Counts slices beyond the first of each job.
    #[must_use]
    pub fn extra_slices(&self) -> u64 {
        self.portions.windows(2).filter(|pair| pair[0].id == pair[1].id).count() as u64
    }

    /// Gives for each task the colors that are refreshed while it runs: its "occupied frames" of Tables 4.2, 4.3 and 4.5.
    #[must_use]
    pub fn occupied(&self, problem: &Problem) -> Vec<ColorSet> {
        let mut occupied = vec![ColorSet::default(); problem.set.tasks().len()];
        for portion in &self.portions {
            occupied[portion.id.task.index()].0 |= 1 << problem.color_of(portion.frame);
        }
        occupied
    }
}

/// Why jobs cannot be placed: a minimum cut of the network. These jobs may run in these frames only, and need more time than
/// the frames have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The jobs, by task and number.
    pub jobs: Vec<JobId>,
    /// All frames in which any of them may run, ascending; may be empty.
    pub frames: Vec<u64>,
    /// Total demand of the jobs; 2^64 - 1 ps if it is more than that.
    pub demand: Picoseconds,
    /// Total time of the frames; less than the demand.
    pub supply: Picoseconds,
}

/// Places all jobs of a cycle so that no task runs in a frame in which a color of its set is refreshed; slices go anywhere, and
/// cost nothing here. Sets are given in the order of tasks; an empty one avoids nothing.
///
/// The outer result is `Err` where this method does not answer, the inner one is the answer.
///
/// # Errors
///
/// [`Unanswered::Precondition`], for a deadline after the next arrival, blocking, or a huge task.
///
/// # Panics
///
/// When there is not one set for each task.
pub fn place(problem: &Problem, avoid: &[ColorSet]) -> Result<Result<Placement, Cut>, Unanswered> {
    assert_eq!(avoid.len(), problem.set.tasks().len(), "one set of colors for each task");
    if let Some(reason) = problem.unanswered() {
        return Err(reason);
    }
    let once = vec![1; avoid.len()];
    let avoid_of: Vec<ColorSet> = problem.jobs.iter().map(|job| avoid[job.id.task.index()]).collect();
    Ok(route(problem, &once, &avoid_of))
}

/// Places jobs, each of which avoids its given colors.
pub(crate) fn route(problem: &Problem, instances: &[usize], avoid: &[ColorSet]) -> Result<Placement, Cut> {
    let (jobs, frames) = (problem.jobs.len(), problem.frame_count());
    let demands: Vec<u64> =
        problem.jobs.iter().map(|job| problem.demand(job.id.task, instances[job.id.task.index()])).collect();
    let total: u128 = demands.iter().map(|&demand| u128::from(demand)).sum();
    // Jobs first, then frames, then the source and the sink.
    let mut graph: DiGraph<(), u128> = DiGraph::new();
    let nodes: Vec<NodeIndex> = (0..jobs as u64 + frames + 2).map(|_| graph.add_node(())).collect();
    let (source, sink) = (nodes[nodes.len() - 2], nodes[nodes.len() - 1]);
    for (job, &demand) in demands.iter().enumerate() {
        graph.add_edge(source, nodes[job], u128::from(demand));
    }
    for frame in 0..frames as usize {
        graph.add_edge(nodes[jobs + frame], sink, u128::from(problem.frames.size.0));
    }
    let first_pair = graph.edge_count();
    let mut pairs = Vec::new();
    for (job, window) in problem.jobs.iter().enumerate() {
        for frame in (window.from..window.to).map(|frame| frame % frames) {
            if !avoid[job].has(problem.color_of(frame)) {
                graph.add_edge(nodes[job], nodes[jobs + frame as usize], total);
                pairs.push((job, frame));
            }
        }
    }
    let (found, flows) = petgraph::algo::dinics(&graph, source, sink);
    if found < total {
        return Err(cut(problem, &graph, &flows, source, &demands, total - found));
    }
    let used = pairs.iter().zip(&flows[first_pair..]).filter(|(_, time)| **time > 0);
    assert_placed(problem, &demands, used.clone());
    let portion = |(&(job, frame), &time): (&(usize, u64), &u128)| Portion {
        id: problem.jobs[job].id,
        frame,
        time: Picoseconds(u64::try_from(time).expect("no longer than a job")),
    };
    Ok(Placement { portions: used.map(portion).collect() })
}

/// A flow gives each job all that it needs, and takes no more of a frame than there is.
fn assert_placed<'a>(problem: &Problem, demands: &[u64], used: impl Iterator<Item = (&'a (usize, u64), &'a u128)>) {
    let mut given = vec![0u128; demands.len()];
    let mut taken = vec![0u128; problem.frame_count() as usize];
    for (&(job, frame), &time) in used {
        given[job] += time;
        taken[frame as usize] += time;
    }
    assert!(
        given.iter().zip(demands).all(|(&given, &demand)| given == demand.into()),
        "a job gets less or more than it needs"
    );
    assert!(taken.iter().all(|&taken| taken <= problem.frames.size.0.into()), "a frame is given away twice");
}

/// The nodes that the source still reaches in the residual network.
fn cut(
    problem: &Problem,
    graph: &DiGraph<(), u128>,
    flows: &[u128],
    source: NodeIndex,
    demands: &[u64],
    missing: u128,
) -> Cut {
    let mut reached = vec![false; graph.node_count()];
    let mut waiting = VecDeque::from([source]);
    reached[source.index()] = true;
    while let Some(node) = waiting.pop_front() {
        let mut reach = |next: NodeIndex| {
            if !std::mem::replace(&mut reached[next.index()], true) {
                waiting.push_back(next);
            }
        };
        let mut out = graph.neighbors_directed(node, petgraph::Outgoing).detach();
        while let Some((edge, next)) = out.next(graph) {
            if flows[edge.index()] < graph[edge] {
                reach(next);
            }
        }
        let mut back = graph.neighbors_directed(node, petgraph::Incoming).detach();
        while let Some((edge, next)) = back.next(graph) {
            if flows[edge.index()] > 0 {
                reach(next);
            }
        }
    }
    let count = problem.jobs.len();
    let inside: Vec<usize> = (0..count).filter(|&job| reached[job]).collect();
    let frames: Vec<u64> = (0..problem.frame_count()).filter(|&frame| reached[count + frame as usize]).collect();
    let demand: u128 = inside.iter().map(|&job| u128::from(demands[job])).sum();
    let supply = frames.len() as u128 * u128::from(problem.frames.size.0);
    assert_eq!(demand - supply, missing, "the cut of a maximum flow is as large as the flow");
    let fits = |time: u128| Picoseconds(u64::try_from(time).expect("below 2^22 pairs of 2^60 ps"));
    Cut {
        jobs: inside.iter().map(|&job| problem.jobs[job].id).collect(),
        frames,
        demand: fits(demand.min(u128::from(u64::MAX))),
        supply: fits(supply),
    }
}
