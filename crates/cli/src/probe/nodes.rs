//! What a probe found of NUMA nodes, for people and for programs.

use std::fmt::{self, Write as _};

use memtint_probe::cache::{Nearer, NodeLatency, NodeReport};
use schemars::JsonSchema;
use serde::Serialize;

use crate::output::table;

/// What came of timing nodes.
pub(super) enum Nodes {
    /// With the node of each group of cores.
    Probed(NodeReport, Vec<u32>),
    /// Why nobody could be asked.
    NotAsked(String),
}

#[derive(Serialize, JsonSchema)]
pub(super) struct NodesJson {
    /// `ordered` when every two nodes were told apart from every group of cores, `partly` when some were not, `one` when there is
    /// nothing to compare, `not_asked`.
    answer: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    latencies: Vec<LatencyJson>,
    /// For cores of a node: the nearer of two nodes, `null` when they could not be told apart.
    order: Vec<OrderJson>,
    accesses: u64,
}

#[derive(Serialize, JsonSchema)]
struct LatencyJson {
    cores_of_node: u32,
    memory_of_node: u32,
    median_ticks: f64,
    /// The true median lies between these with a probability of at least 0.95.
    between_ticks: [f64; 2],
    samples: usize,
}

#[derive(Serialize, JsonSchema)]
struct OrderJson {
    cores_of_node: u32,
    nodes: [u32; 2],
    nearer: Option<u32>,
}

impl Nodes {
    pub(super) fn is_measured(&self) -> bool {
        matches!(self, Nodes::Probed(report, _) if !report.nodes.is_empty())
    }

    pub(super) fn to_json(&self) -> NodesJson {
        let (report, groups) = match self {
            Nodes::Probed(report, groups) => (report, groups),
            Nodes::NotAsked(why) => {
                let (latencies, order) = (Vec::new(), Vec::new());
                return NodesJson { answer: "not_asked", why: Some(why.clone()), latencies, order, accesses: 0 };
            }
        };
        let latency = |group: u32, (&node, latency): (&u32, &NodeLatency)| LatencyJson {
            cores_of_node: group,
            memory_of_node: node,
            median_ticks: latency.median,
            between_ticks: latency.between,
            samples: latency.samples,
        };
        let order = |group: u32, &(a, b, nearer): &(usize, usize, Nearer)| {
            let nodes = [a, b].map(|place| report.nodes[place]);
            OrderJson {
                cores_of_node: group,
                nodes,
                nearer: match nearer {
                    Nearer::First => Some(nodes[0]),
                    Nearer::Second => Some(nodes[1]),
                    Nearer::Neither => None,
                },
            }
        };
        let latencies = groups.iter().zip(&report.latencies);
        NodesJson {
            answer: answer(report),
            why: None,
            latencies: latencies
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

    pub(super) fn write(&self, out: &mut String) -> fmt::Result {
        let (report, groups) = match self {
            Nodes::Probed(report, groups) => (report, groups),
            Nodes::NotAsked(why) => return writeln!(out, "nodes       not looked at: {why}"),
        };
        let words = match answer(report) {
            "one" => "one node has memory: there is nothing to compare",
            "ordered" => "all of them are told apart, from all cores",
            _ => "some cannot be told apart",
        };
        writeln!(out, "nodes       {words}")?;
        let row = |(&group, latencies): (&u32, &Vec<NodeLatency>)| {
            let cells = latencies.iter().map(|latency| {
                let [low, high] = latency.between;
                format!("{:.0} ({low:.0}-{high:.0})", latency.median)
            });
            std::iter::once(format!("  of node {group}")).chain(cells).collect::<Vec<String>>()
        };
        let rows: Vec<Vec<String>> = groups.iter().zip(&report.latencies).map(row).collect();
        let heads: Vec<String> = std::iter::once("  cores".to_owned())
            .chain(report.nodes.iter().map(|node| format!("node {node}, ticks")))
            .collect();
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        out.push_str(&table(&heads, &[], &rows));
        for (group, node) in groups.iter().zip(&report.order) {
            for &(a, b, _) in node.iter().filter(|(.., nearer)| *nearer == Nearer::Neither) {
                let (a, b) = (report.nodes[a], report.nodes[b]);
                writeln!(out, "no order    nodes {a} and {b} from the cores of node {group}")?;
            }
        }
        writeln!(out, "accesses    {} timed", report.accesses)
    }
}

fn answer(report: &NodeReport) -> &'static str {
    let known = |&(.., nearer): &(usize, usize, Nearer)| nearer != Nearer::Neither;
    match report.nodes.len() {
        0 | 1 => "one",
        _ if report.order.iter().flatten().all(known) => "ordered",
        _ => "partly",
    }
}
