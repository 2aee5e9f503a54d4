//! What a probe found of NUMA nodes, in words.

use std::fmt::{self, Write as _};

use memtint_probe::cache::{Nearer, NodeLatency};
use memtint_probe::session::{Nodes, NodesAnswer};

use crate::output::table;

/// Writes what came of timing nodes.
pub(super) fn write(out: &mut String, nodes: &Nodes) -> fmt::Result {
    let (report, groups) = match nodes {
        Nodes::Probed(report, groups) => (report, groups),
        Nodes::NotAsked(why) => return writeln!(out, "nodes       not examined: {why}"),
    };
    let words = match nodes.answer() {
        NodesAnswer::One => "one node has memory: there is nothing to compare",
        NodesAnswer::Ordered => "all of them are distinguished, from all cores",
        NodesAnswer::Partly | NodesAnswer::NotAsked => "some cannot be distinguished",
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
