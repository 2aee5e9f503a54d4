//! Everything that can be read.

use std::path::Path;

use memtint_units::PAGE_SIZE;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cpu::Processor;
use crate::geometry::Geometry;
use crate::smbios::{self, Smbios};
use crate::sysfs::{self, Cache, Cores, Node, read_text};

/// Properties of this machine; unreadable values are null or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Machine {
    /// The processor; null on architectures without `cpuid`.
    pub processor: Option<Processor>,
    /// Cores and sockets.
    pub cores: Cores,
    /// Caches, by level.
    pub caches: Vec<Cache>,
    /// NUMA nodes.
    pub nodes: Vec<Node>,
    /// Memory that the kernel manages, ascending by address, cut to whole pages and split at node boundaries. Empty
    /// when the caller may not read addresses.
    pub memory: Vec<MemoryRange>,
    /// Modules, ranks and banks.
    pub geometry: Geometry,
    /// Firmware.
    pub firmware: Firmware,
}

/// A range of physical addresses that is memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MemoryRange {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// NUMA node.
    pub node: u32,
}

/// Facts from the firmware.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Firmware {
    /// Maker of the machine.
    pub vendor: Option<String>,
    /// Its product name.
    pub product: Option<String>,
    /// Name of the board.
    pub board: Option<String>,
    /// Version of the firmware.
    pub bios_version: Option<String>,
    /// SMBIOS tables, where there are any and the caller may read them.
    pub smbios: Option<Smbios>,
    /// Signatures of the ACPI tables, ascending. SRAT, SLIT and HMAT describe nodes, MCFG the PCI window.
    pub acpi_tables: Vec<String>,
}

impl Machine {
    /// Reads this machine.
    pub fn read() -> Self {
        Self { processor: Processor::read(), ..Self::read_files(Path::new("/")) }
    }

    /// Reads the files of a machine below `root`, which contains the directories `sys` and `proc`; the processor stays
    /// absent.
    pub fn read_files(root: &Path) -> Self {
        let nodes = sysfs::nodes(root);
        let iomem = std::fs::read_to_string(root.join("proc/iomem")).unwrap_or_default();
        Self {
            processor: None,
            cores: sysfs::cores(root),
            caches: sysfs::caches(root),
            memory: split_by_node(&system_ram(&iomem), &nodes),
            nodes,
            geometry: Geometry::read(root),
            firmware: firmware(root),
        }
    }

    /// Reads only the processor and memory of this machine, as [`crate::Fit::of`] needs them.
    pub fn read_identity() -> Self {
        Self { processor: Processor::read(), memory: Self::read_memory(), ..Self::default() }
    }

    /// Reads only [`Machine::memory`] of this machine.
    pub fn read_memory() -> Vec<MemoryRange> {
        let root = Path::new("/");
        let iomem = std::fs::read_to_string(root.join("proc/iomem")).unwrap_or_default();
        split_by_node(&system_ram(&iomem), &sysfs::nodes(root))
    }

    /// The last-level cache: the highest level there is.
    pub fn last_level_cache(&self) -> Option<&Cache> {
        self.caches.iter().max_by_key(|cache| cache.level)
    }
}

/// `start-end : System RAM`, whole pages only. A caller without CAP_SYS_ADMIN sees zeroes, which is no range.
fn system_ram(iomem: &str) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = iomem
        .lines()
        // Indented lines lie inside a range that is already included.
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_once(" : ").filter(|(_, name)| *name == "System RAM"))
        .filter_map(|(range, _)| range.split_once('-'))
        .filter_map(|(start, last)| Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(last, 16).ok()?)))
        .map(|(start, last)| (start.next_multiple_of(PAGE_SIZE), last.saturating_add(1) / PAGE_SIZE * PAGE_SIZE))
        .filter(|(start, end)| start < end)
        .collect();
    ranges.sort_unstable();
    ranges
}

/// Assigns each range its node. With a single node this is trivial; with several, the kernel's memory blocks give the
/// node.
fn split_by_node(ranges: &[(u64, u64)], nodes: &[Node]) -> Vec<MemoryRange> {
    let with_memory: Vec<&Node> = nodes.iter().filter(|node| node.memory_bytes > 0).collect();
    if let [] | [_] = with_memory.as_slice() {
        let node = with_memory.first().map_or(0, |node| node.node);
        return ranges.iter().map(|&(start, end)| MemoryRange { start, end, node }).collect();
    }
    let mut split = Vec::new();
    for &(start, end) in ranges {
        for node in &with_memory {
            for &(block_start, block_end) in &node.blocks {
                let (start, end) = (start.max(block_start), end.min(block_end));
                if start < end {
                    split.push(MemoryRange { start, end, node: node.node });
                }
            }
        }
    }
    split.sort_by_key(|range| range.start);
    split
}

fn firmware(root: &Path) -> Firmware {
    let dmi = |name: &str| read_text(&root.join("sys/class/dmi/id").join(name)).filter(|text| !text.is_empty());
    let mut acpi_tables: Vec<String> = std::fs::read_dir(root.join("sys/firmware/acpi/tables"))
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    acpi_tables.sort_unstable();
    Firmware {
        vendor: dmi("sys_vendor"),
        product: dmi("product_name"),
        board: dmi("board_name"),
        bios_version: dmi("bios_version"),
        smbios: std::fs::read(root.join("sys/firmware/dmi/tables/DMI")).ok().map(|table| smbios::parse(&table)),
        acpi_tables,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IOMEM: &str = "\
00000000-00000fff : Reserved
00001000-0009fbff : System RAM
  00002000-00002fff : System RAM
00100000-bfffffff : System RAM
  01000000-0220bb07 : Kernel code
100000000-1ffffffff : System RAM
";

    fn node(node: u32, memory_bytes: u64, blocks: &[(u64, u64)]) -> Node {
        Node { node, memory_bytes, cpus: String::new(), blocks: blocks.to_vec() }
    }

    #[test]
    fn memory_is_cut_to_whole_pages() {
        let ranges = system_ram(IOMEM);
        assert_eq!(ranges, [(0x1000, 0x9f000), (0x10_0000, 0xc000_0000), (0x1_0000_0000, 0x2_0000_0000)]);
    }

    #[test]
    fn hidden_addresses_are_no_memory() {
        assert_eq!(system_ram("00000000-00000000 : System RAM\n00000000-00000000 : System RAM\n"), []);
    }

    #[test]
    fn memory_is_cut_at_the_borders_of_nodes() {
        let nodes = [node(0, 1, &[(0, 0x1_8000_0000)]), node(1, 1, &[(0x1_8000_0000, 0x2_0000_0000)]), node(2, 0, &[])];
        let memory = split_by_node(&system_ram(IOMEM), &nodes);
        let last: Vec<(u64, u64, u32)> =
            memory.iter().map(|range| (range.start, range.end, range.node)).skip(2).collect();
        assert_eq!(last, [(0x1_0000_0000, 0x1_8000_0000, 0), (0x1_8000_0000, 0x2_0000_0000, 1)]);
    }

    #[test]
    fn a_machine_without_files_is_empty_and_this_one_is_not() {
        assert_eq!(Machine::read_files(Path::new("/nowhere")), Machine::default());
        let here = Machine::read();
        assert!(here.cores.online_cpus > 0 && here.cores.cores <= here.cores.online_cpus, "{here:?}");
    }
}
