//! The result of timing NUMA nodes.

use crate::cache::{Nearer, NodeLatency, NodeReport};
use schemars::JsonSchema;
use serde::Serialize;

/// The result of timing nodes.
#[derive(Clone, Debug)]
pub enum Nodes {
    /// The measurements, and the node of each group of cores.
    Probed(NodeReport, Vec<u32>),
    /// The reason why nodes cannot be timed.
    NotAsked(String),
}

/// The kind of answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodesAnswer {
    /// Every group of cores distinguishes every two nodes.
    Ordered,
    /// Some nodes could not be distinguished.
    Partly,
    /// There is nothing to compare.
    One,
    /// Nodes cannot be timed.
    NotAsked,
}

/// The report of nodes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct NodesReport {
    /// Whether nodes were distinguished.
    pub answer: NodesAnswer,
    /// Why nodes were not timed; absent where they were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Latency of each node's memory from the cores of each node.
    pub latencies: Vec<LatencyReport>,
    /// For cores of a node: the nearer of two nodes, `null` when they could not be distinguished.
    pub order: Vec<OrderReport>,
    /// Timed accesses.
    pub accesses: u64,
}

/// Latency of a node's memory from the cores of a node.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LatencyReport {
    /// Node of the cores.
    pub cores_of_node: u32,
    /// Node of the memory.
    pub memory_of_node: u32,
    /// Median of the samples.
    pub median_ticks: f64,
    /// Confidence interval of the median, at 95 % or more.
    pub between_ticks: [f64; 2],
    /// Number of samples.
    pub samples: usize,
}

/// The nearer of two nodes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OrderReport {
    /// Node of the cores.
    pub cores_of_node: u32,
    /// The two nodes.
    pub nodes: [u32; 2],
    /// The nearer one.
    pub nearer: Option<u32>,
}

impl Nodes {
    /// Returns whether any node was timed.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        matches!(self, Nodes::Probed(report, _) if !report.nodes.is_empty())
    }

    /// Returns whether nodes were distinguished.
    #[must_use]
    pub fn answer(&self) -> NodesAnswer {
        let Nodes::Probed(report, _) = self else { return NodesAnswer::NotAsked };
        let known = |&(.., nearer): &(usize, usize, Nearer)| nearer != Nearer::Neither;
        match report.nodes.len() {
            0 | 1 => NodesAnswer::One,
            _ if report.order.iter().flatten().all(known) => NodesAnswer::Ordered,
            _ => NodesAnswer::Partly,
        }
    }

    /// Gives the serializable form.
    #[must_use]
    pub fn report(&self) -> NodesReport {
        let answer = self.answer();
        let (report, groups) = match self {
            Nodes::Probed(report, groups) => (report, groups),
            Nodes::NotAsked(why) => {
                let (latencies, order) = (Vec::new(), Vec::new());
                return NodesReport { answer, why: Some(why.clone()), latencies, order, accesses: 0 };
            }
        };
        let latency = |group: u32, (&node, latency): (&u32, &NodeLatency)| LatencyReport {
            cores_of_node: group,
            memory_of_node: node,
            median_ticks: latency.median,
            between_ticks: latency.between,
            samples: latency.samples,
        };
        let order = |group: u32, &(a, b, nearer): &(usize, usize, Nearer)| {
            let nodes = [a, b].map(|place| report.nodes[place]);
            OrderReport {
                cores_of_node: group,
                nodes,
                nearer: match nearer {
                    Nearer::First => Some(nodes[0]),
                    Nearer::Second => Some(nodes[1]),
                    Nearer::Neither => None,
                },
            }
        };
        NodesReport {
            answer,
            why: None,
            latencies: groups
                .iter()
                .zip(&report.latencies)
                .flat_map(|(&group, all)| report.nodes.iter().zip(all).map(move |one| latency(group, one)))
                .collect(),
            order: groups
                .iter()
                .zip(&report.order)
                .flat_map(|(&group, all)| all.iter().map(move |one| order(group, one)))
                .collect(),
            accesses: report.accesses,
        }
    }
}
