//! The frames of a selection on this machine.

use std::collections::BTreeSet;

use memtint_detect::{Machine, MemoryRange};
use memtint_live::{FrameChoice, available_bytes, machine_pages};
use memtint_map::{Granule, Matcher, Platform};
use memtint_units::{PAGE_SIZE, Pfn, PhysAddr};

/// The frames of a selection, as the runtime takes them.
#[derive(Debug)]
pub struct Frames {
    matcher: Matcher,
    label: String,
    looks_per_page: f64,
    nodes: Vec<u32>,
    /// In this machine, about.
    frames: u64,
}

impl Frames {
    /// Finds the frames of a selection's matcher on this machine. `label` names the colors in messages.
    #[must_use]
    pub fn new(matcher: Matcher, granule: Granule, label: String, platform: &Platform) -> Frames {
        let selected = matcher.granules() * granule.pages();
        // A platform smaller than the machine makes its colors rarer than they are among themselves.
        let in_machine = machine_pages() as f64 / selected as f64;
        let looks_per_page = in_machine.max(1.0 / matcher.fraction());
        let memory = Machine::read_memory();
        let nodes = nodes_of(&matcher, &memory);
        let frames = (matcher.fraction() * pages_within(platform, &memory) as f64) as u64;
        Frames { matcher, label, looks_per_page, nodes, frames }
    }

    /// Gives the bytes of this machine that are in color, and those of them that are free, if free memory is as the rest.
    #[must_use]
    pub fn bytes(&self) -> (u64, u64) {
        let share = self.frames as f64 / machine_pages().max(1) as f64;
        (self.frames * PAGE_SIZE, (available_bytes() as f64 * share.min(1.0)) as u64)
    }
}

/// Pages of the machine's memory inside a region of the platform; all pages if the machine does not report its memory
/// map.
fn pages_within(platform: &Platform, memory: &[MemoryRange]) -> u64 {
    let shared = |range: &MemoryRange| -> u64 {
        let regions = platform.regions().iter();
        regions.map(|region| range.end.min(region.end().0).saturating_sub(range.start.max(region.base.0))).sum()
    };
    if memory.is_empty() { machine_pages() } else { memory.iter().map(shared).sum::<u64>() / PAGE_SIZE }
}

/// Nodes with memory of the selected colors, ascending; empty when there is one node only.
///
/// Uses addresses, not the node numbers of the platform file: those may be memory controllers, several per Linux node.
fn nodes_of(matcher: &Matcher, memory: &[MemoryRange]) -> Vec<u32> {
    let nodes: BTreeSet<u32> = memory.iter().map(|range| range.node).collect();
    let has_selected =
        |range: &&MemoryRange| matcher.enumerate(PhysAddr(range.start)..PhysAddr(range.end)).next().is_some();
    match nodes.len() {
        0 | 1 => Vec::new(),
        _ => BTreeSet::from_iter(memory.iter().filter(has_selected).map(|range| range.node)).into_iter().collect(),
    }
}

impl FrameChoice for Frames {
    fn contains(&self, frame: Pfn) -> bool {
        self.matcher.matches(frame)
    }

    fn looks_per_page(&self) -> f64 {
        self.looks_per_page
    }

    fn label(&self) -> String {
        self.label.clone()
    }

    fn frames(&self) -> Option<u64> {
        Some(self.frames)
    }

    fn nodes(&self) -> Vec<u32> {
        self.nodes.clone()
    }
}

#[cfg(test)]
mod tests {
    use memtint_map::{Palette, Selection};

    use super::*;

    /// Frames of class 0 are in the first half of each GiB, those of class 1 in the second.
    fn matcher(banks: &str) -> Matcher {
        const PLATFORM: &str = r#"
            schema = 1
            id = "two-halves"
            name = "Two halves"
            dram = { standard = "DDR4", address_bits = 32, functions = [{ role = "bank", bits = [29] }], source = "made up" }
            region = [{ base = 0, size = "4 GiB", source = "made up" }]
        "#;
        let palette = Palette::new(&Platform::parse(PLATFORM, "two-halves").unwrap(), Granule::PAGE).unwrap();
        let banks = Some(memtint_units::IndexSet::parse(banks, 2).unwrap());
        Selection { banks, ..Selection::default() }.compile(&palette).unwrap()
    }

    #[test]
    fn nodes_are_those_with_memory_in_color() {
        const HALF: u64 = 512 << 20;
        let range = |node, start: u64, end: u64| MemoryRange { start: start * HALF, end: end * HALF, node };
        let memory = [range(0, 0, 1), range(4, 1, 2), range(2, 2, 4), range(0, 4, 5)];
        assert_eq!(nodes_of(&matcher("0"), &memory), [0, 2]);
        assert_eq!(nodes_of(&matcher("1"), &memory), [2, 4]);
        assert!(nodes_of(&matcher("0"), &memory[..1]).is_empty(), "one node needs no choice");
        assert!(nodes_of(&matcher("0"), &memory[1..2]).is_empty());
    }
}
