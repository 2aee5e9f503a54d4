//! Distance of each node's memory from each group of cores.

use crate::cache::oracle::{NodeLayout, NodeOracle};
use crate::oracle::OracleError;
use crate::pool::Pool;
use crate::tester::median;
use memtint_units::PhysAddr;
use memtint_units::Random;

/// Rounds of one sample.
const ROUNDS: u32 = 8;
/// The fewest and the most samples of each group and node.
const SAMPLES: [usize; 2] = [32, 512];
/// Error probability of the order of two nodes.
const ERROR: f64 = 1e-6;
/// Share of sample pairs in which the nearer node is faster, under the hypothesis of the test; for equal nodes it is a
/// half.
const SHARE: f64 = 0.75;

/// The time of an access from a group of cores to a node's memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeLatency {
    /// Median of the samples; unit: ticks. A sample is the lower quartile of some accesses to one address.
    pub median: f64,
    /// Confidence interval of the median, at 95 % or more; unit: ticks.
    pub between: [f64; 2],
    /// Median distance of samples from their median; unit: ticks.
    pub spread: f64,
    /// Samples.
    pub samples: usize,
}

/// The nearer of two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nearer {
    /// The one with the smaller number.
    First,
    /// The one with the larger number.
    Second,
    /// They could not be distinguished.
    Neither,
}

/// Latencies and order of nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeReport {
    /// Nodes that have memory in the pool, ascending.
    pub nodes: Vec<u32>,
    /// By group and index in `nodes`.
    pub latencies: Vec<Vec<NodeLatency>>,
    /// By group: pairs of indices in `nodes`, the smaller first, and the nearer of the two.
    pub order: Vec<Vec<(usize, usize, Nearer)>>,
    /// Accesses that were timed.
    pub accesses: u64,
}

impl NodeReport {
    /// Returns the index in `nodes` of the node that is nearer to a group than every other one, if there is one.
    #[must_use]
    pub fn nearest(&self, group: usize) -> Option<usize> {
        let order = &self.order[group];
        (0..self.nodes.len()).find(|&own| {
            let mut with = order.iter().filter(|&&(a, b, _)| a == own || b == own);
            with.all(|&(a, _, nearer)| nearer == if a == own { Nearer::First } else { Nearer::Second })
        })
    }
}

/// Measures all groups and nodes in turn until their order is decided or the samples are used up.
///
/// Two nodes are compared by the sign of the difference of consecutive samples, so neither drift nor the distribution
/// of the noise matters. There are two sequential tests, each of a share of 3/4 for one node against a half.
///
/// # Errors
/// Those of the oracle.
pub fn probe_nodes(oracle: &mut dyn NodeOracle, seed: u64) -> Result<NodeReport, OracleError> {
    let mut random = Random::new(seed);
    let layout = oracle.layout().clone();
    let mut nodes: Vec<u32> = layout.memory.iter().map(|&(node, _)| node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes.retain(|&node| draw(oracle.pool(), &layout, node, &mut random).is_some());
    let mut report = NodeReport { nodes, latencies: Vec::new(), order: Vec::new(), accesses: 0 };
    for group in 0..layout.groups {
        let pairs: Vec<(usize, usize)> = (0..report.nodes.len()).flat_map(|b| (0..b).map(move |a| (a, b))).collect();
        let mut contests = vec![Contest::default(); pairs.len()];
        let mut samples = vec![Vec::new(); report.nodes.len()];
        for taken in 0..SAMPLES[1] {
            if taken >= SAMPLES[0] && contests.iter().all(|contest| contest.nearer().is_some()) {
                break;
            }
            for (place, &node) in report.nodes.iter().enumerate() {
                let Some(addr) = draw(oracle.pool(), &layout, node, &mut random) else { continue };
                let mut readings = oracle.load(group, addr, ROUNDS)?;
                readings.sort_unstable();
                report.accesses += u64::from(ROUNDS);
                samples[place].push(f64::from(readings[ROUNDS as usize / 4]));
            }
            for (contest, &(a, b)) in contests.iter_mut().zip(&pairs) {
                if let (Some(a), Some(b)) = (samples[a].last(), samples[b].last()) {
                    contest.count(a.total_cmp(b));
                }
            }
        }
        report.latencies.push(samples.iter_mut().map(|samples| latency(samples)).collect());
        let nearer = |contest: &Contest| contest.nearer().unwrap_or(Nearer::Neither);
        report.order.push(pairs.iter().zip(&contests).map(|(&(a, b), contest)| (a, b, nearer(contest))).collect());
    }
    Ok(report)
}

/// Two nodes, and the evidence for each being the nearer one, against neither.
#[derive(Clone, Debug, Default)]
struct Contest {
    first: f64,
    second: f64,
}

impl Contest {
    fn count(&mut self, order: std::cmp::Ordering) {
        if order.is_eq() || self.nearer().is_some() {
            return;
        }
        let (faster, slower) = ((2.0 * SHARE).ln(), (2.0 * (1.0 - SHARE)).ln());
        self.first += if order.is_lt() { faster } else { slower };
        self.second += if order.is_gt() { faster } else { slower };
    }

    /// The nearer one, if decided.
    fn nearer(&self) -> Option<Nearer> {
        let limit = (1.0 / ERROR).ln();
        match (self.first, self.second) {
            (first, _) if first >= limit => Some(Nearer::First),
            (_, second) if second >= limit => Some(Nearer::Second),
            (first, second) if first <= -limit && second <= -limit => Some(Nearer::Neither),
            _ => None,
        }
    }
}

/// Draws a line of the pool that belongs to a node.
fn draw(pool: &Pool, layout: &NodeLayout, node: u32, random: &mut Random) -> Option<PhysAddr> {
    (0..1000)
        .map(|_| pool.any(random))
        .find(|addr| layout.memory.iter().any(|(of, piece)| *of == node && piece.contains(addr)))
}

fn latency(samples: &mut [f64]) -> NodeLatency {
    let middle = median(samples);
    // Order statistics: the median lies between ranks (n ± 1.96 √n) / 2 of n samples.
    let (count, half) = (samples.len() as f64, 0.98 * (samples.len() as f64).sqrt());
    let low = ((count / 2.0 - half).floor().max(0.0)) as usize;
    let high = ((count / 2.0 + half).ceil() as usize).min(samples.len() - 1);
    let between = [samples[low], samples[high]];
    let mut away: Vec<f64> = samples.iter().map(|sample| (sample - middle).abs()).collect();
    NodeLatency { median: middle, between, spread: median(&mut away), samples: samples.len() }
}
