//! The table of processors, `uarch.toml`.

use crate::config::{Inclusion, Latencies};
use serde::Deserialize;

/// Miss registers of a last-level cache. No figure is published; the assumed number is large enough not to bind before
/// those of the cores.
pub(crate) const LLC_MSHRS_ASSUMED: u32 = 64;

pub(crate) struct Facts {
    pub(crate) inclusion: Inclusion,
    pub(crate) inclusion_source: String,
    pub(crate) latencies: Latencies,
    pub(crate) l1_mshrs: u32,
    pub(crate) l2_mshrs: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    uarch: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    names: Vec<String>,
    inclusion: Inclusion,
    inclusion_source: String,
    l1_cycles: u32,
    l2_cycles: u32,
    llc_cycles: u32,
    latency_source: String,
    l1_mshrs: u32,
    l2_mshrs: u32,
    mshr_source: String,
}

/// Returns the first row with a name that occurs in `uarch`. For want of better figures, the response of other cores'
/// caches and the path to the memory controller are assumed to take as long as a hit in the last level.
pub(crate) fn facts(uarch: &str) -> Facts {
    let table: Table = toml::from_str(include_str!("../uarch.toml")).expect("the table is checked by a test");
    let named = |row: &Row| row.names.iter().any(|name| uarch.contains(name.as_str()));
    let row = table.uarch.into_iter().find(named).expect("the last row matches everything");
    Facts {
        inclusion: row.inclusion,
        inclusion_source: row.inclusion_source,
        latencies: Latencies {
            l1_cycles: row.l1_cycles,
            l2_cycles: row.l2_cycles,
            llc_cycles: row.llc_cycles,
            peer_cycles: row.llc_cycles,
            memory_cycles: row.llc_cycles,
            source: format!(
                "{} Peer and memory cycles: assumed. Miss registers: {}",
                row.latency_source, row.mshr_source
            ),
        },
        l1_mshrs: row.l1_mshrs,
        l2_mshrs: row.l2_mshrs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_platform_of_the_catalogue_finds_its_row() {
        assert_eq!(facts("Skylake-SP").inclusion, Inclusion::NonInclusive);
        assert_eq!(facts("Skylake").inclusion, Inclusion::Inclusive);
        assert_eq!(facts("Zen 1+").inclusion, Inclusion::Exclusive);
        assert_eq!(facts("K10/Bulldozer").inclusion, Inclusion::Exclusive);
        assert_eq!(facts("Nehalem/Lynnfield").latencies.llc_cycles, 40);
        assert_eq!(facts("e500mc").inclusion_source, "assumed");
        assert_eq!(facts("").inclusion, Inclusion::NonInclusive);
    }
}
