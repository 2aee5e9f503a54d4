//! Memory of every NUMA node and a CPU of each, to measure the distances between nodes.

use std::fs::read_to_string;
use std::io;

use memtint_probe::cache::{NodeLayout, NodeOracle};
use memtint_probe::{Oracle, OracleError, Pool};
use memtint_units::{IndexSet, PhysAddr};

use crate::access;
use crate::cpus::{self, Pinned};
use crate::error::StopwatchError;
use crate::machine::time;
use crate::memory::{Line, TimedMemory};

/// Bytes of memory of each node.
const BYTES: u64 = 8 << 20;
/// A node is skipped if its free memory is less than this many times `BYTES`.
const FREE_LEAST: u64 = 4;
/// The most nodes (`MAX_NUMNODES`) and CPUs that Linux supports.
const NODES_MAX: u32 = 1024;
const CPUS_MAX: u32 = 8192;
const NODES: &str = "/sys/devices/system/node";

/// Times reads of each node's memory from the CPUs of each node.
///
/// A group of cores is the cores of one node. Addresses are names, not physical addresses: the distance of a node does
/// not depend on them.
pub struct NodeMachine {
    memories: Vec<TimedMemory>,
    pool: Pool,
    layout: NodeLayout,
    /// The node of each group, and the CPU that times for it.
    groups: Vec<(u32, u32)>,
    pinned: Option<(u32, Pinned)>,
}

impl NodeMachine {
    /// Allocates memory of every node.
    ///
    /// # Errors
    /// [`StopwatchError`] when the processor cannot time accesses, and when the kernel provides no memory of a node
    /// that has enough free.
    pub fn open() -> Result<NodeMachine, StopwatchError> {
        if let Some(lacking) = access::missing() {
            return Err(StopwatchError::Processor { lacking });
        }
        let allowed = cpus::allowed().map_err(|source| StopwatchError::io("reading which CPUs may be used", source))?;
        let named = |file: &str| {
            let list = read_to_string(format!("{NODES}/{file}")).ok()?;
            IndexSet::parse(list.trim(), NODES_MAX).ok()
        };
        // A kernel without NUMA support has one node.
        let with_memory: Vec<u32> = named("has_memory").map_or_else(|| vec![0], |nodes| nodes.iter().collect());
        let online: Vec<u32> = named("online").map_or_else(|| vec![0], |nodes| nodes.iter().collect());
        let cpu = |node: u32| match read_to_string(format!("{NODES}/node{node}/cpulist")) {
            Err(_) => allowed.last().copied(),
            Ok(list) => {
                let own = IndexSet::parse(list.trim(), CPUS_MAX).ok()?;
                allowed.iter().rev().copied().find(|&cpu| own.contains(cpu))
            }
        };
        let groups: Vec<(u32, u32)> = online.iter().filter_map(|&node| Some((node, cpu(node)?))).collect();
        let (mut memories, mut memory, mut end) = (Vec::new(), Vec::new(), 0);
        for &node in &with_memory {
            if free_bytes(node).is_some_and(|free| free < FREE_LEAST * BYTES) {
                continue;
            }
            // With a single node there is nothing to bind, and a container may forbid it.
            let bound = (with_memory.len() > 1).then_some(node);
            let own = TimedMemory::of_node(BYTES, bound)
                .map_err(|source| StopwatchError::io(&format!("taking {BYTES} bytes of node {node}"), source))?;
            memory.push((node, PhysAddr(end)..PhysAddr(end + own.bytes())));
            end += own.bytes();
            memories.push(own);
        }
        let pieces = memory.iter().map(|(_, piece)| piece.clone());
        let pool = Pool::new(pieces, crate::memory::base_page_bytes().trailing_zeros())?;
        let layout = NodeLayout { groups: groups.len() as u32, memory };
        Ok(NodeMachine { memories, pool, layout, groups, pinned: None })
    }

    /// Gives the node of each group of cores.
    #[must_use]
    pub fn groups(&self) -> Vec<u32> {
        self.groups.iter().map(|&(node, _)| node).collect()
    }

    fn line(&self, addr: PhysAddr) -> Result<Line<'_>, OracleError> {
        let of = self.layout.memory.iter().zip(&self.memories).find(|((_, piece), _)| piece.contains(&addr));
        let line = of.and_then(|((_, piece), memory)| memory.line(addr.0 - piece.start.0));
        line.ok_or(OracleError::Outside { found: addr.0 })
    }
}

impl Oracle for NodeMachine {
    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn time(&mut self, addresses: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError> {
        let lines: Vec<Line<'_>> = addresses.iter().map(|&addr| self.line(addr)).collect::<Result<_, _>>()?;
        Ok(time(&lines, rounds))
    }

    fn time_beside(&mut self, _: &[PhysAddr], _: &[PhysAddr], _: u32) -> Result<Option<Vec<u32>>, OracleError> {
        Ok(None)
    }
}

impl NodeOracle for NodeMachine {
    fn layout(&self) -> &NodeLayout {
        &self.layout
    }

    fn load(&mut self, group: u32, addr: PhysAddr, rounds: u32) -> Result<Vec<u32>, OracleError> {
        let (node, cpu) = self.groups[group as usize];
        if self.pinned.as_ref().is_none_or(|&(on, _)| on != cpu) {
            // Restore the original affinity first, so that the new pin remembers that one.
            self.pinned = None;
            let refused = |source| OracleError::Io { what: format!("staying on CPU {cpu} of node {node}"), source };
            self.pinned = Some((cpu, Pinned::to(cpu).map_err(refused)?));
        }
        Ok(time(&[self.line(addr)?], rounds))
    }
}

/// Free bytes of a node; `None` where the kernel does not report them.
fn free_bytes(node: u32) -> Option<u64> {
    let text = read_to_string(format!("{NODES}/node{node}/meminfo")).ok()?;
    let kib = text.lines().find_map(|line| line.split_once("MemFree:")?.1.trim().strip_suffix(" kB"))?;
    Some(kib.parse::<u64>().ok()? << 10)
}

/// Binds a range to one node: the kernel takes its pages from no other.
pub(crate) fn bind(start: *mut u8, bytes: usize, node: u32) -> io::Result<()> {
    let mut mask = [0_u64; NODES_MAX as usize / 64];
    mask[node as usize / 64] |= 1 << (node % 64);
    // The kernel reads one bit less than the given number.
    let bits = NODES_MAX as usize + 1;
    // SAFETY: the range is a mapping of the caller; the call sets where its pages come from and changes no byte. The
    // kernel reads the mask, which has as many bits as given, and writes nothing.
    let result = unsafe { libc::syscall(libc::SYS_mbind, start, bytes, libc::MPOL_BIND, mask.as_ptr(), bits, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_node_is_had_and_of_none_is_not() {
        let here = TimedMemory::of_node(1 << 20, Some(0));
        match here.as_ref().map_err(io::Error::raw_os_error) {
            Err(Some(libc::ENOSYS | libc::EPERM)) => return memtint_testing::skip("the system call mbind"),
            other => assert!(other.is_ok(), "node 0 has memory"),
        }
        assert!(TimedMemory::of_node(1 << 20, Some(NODES_MAX - 1)).is_err(), "there is no such node");
    }
}
