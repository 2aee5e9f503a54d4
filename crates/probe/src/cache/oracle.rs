//! Oracles for a machine's caches and nodes.

use crate::oracle::{Oracle, OracleError};
use memtint_units::PhysAddr;
use std::ops::Range;

/// A private cache of a core, as the processor describes it (CPUID leaf 4, CCSIDR, sysfs).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrivateCache {
    /// Sets, a power of two: the address bits right above the line select one.
    pub sets: u32,
    /// Ways.
    pub ways: u32,
}

/// Caches that the machine reports: all but the last level, which the probe determines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheFacts {
    /// Bytes of a line, a power of two from 64.
    pub line: u64,
    /// Private caches in front of the last level, in any order.
    pub private: Vec<PrivateCache>,
}

/// Measures whether a line is still in a cache after accesses to others.
pub trait CacheOracle: Oracle {
    /// Returns the known caches.
    fn caches(&self) -> &CacheFacts;

    /// In each round, accesses the target, then the others in order, then the target again, and returns the time of the
    /// last access. Each round begins with these lines flushed from all caches. The others may contain duplicates.
    ///
    /// # Errors
    /// [`OracleError`] when an address is not in the pool or the machine cannot do it.
    fn reload(&mut self, target: PhysAddr, others: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError>;
}

/// The node of each piece of memory, as reported by the operating system, and the number of groups of cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLayout {
    /// Groups of cores with equal distances to all memory: those of a socket or of a node; at least 1.
    pub groups: u32,
    /// Pieces of memory with their node.
    pub memory: Vec<(u32, Range<PhysAddr>)>,
}

/// Times accesses from given cores.
pub trait NodeOracle: Oracle {
    /// Gives groups and nodes.
    fn layout(&self) -> &NodeLayout;

    /// Returns the times of uncached accesses to an address by a core of a group below `layout().groups`.
    ///
    /// # Errors
    /// [`OracleError`] when the address is not in the pool or the machine cannot do it.
    fn load(&mut self, group: u32, addr: PhysAddr, rounds: u32) -> Result<Vec<u32>, OracleError>;
}

impl<O: CacheOracle + ?Sized> CacheOracle for &mut O {
    fn caches(&self) -> &CacheFacts {
        (**self).caches()
    }

    fn reload(&mut self, target: PhysAddr, others: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError> {
        (**self).reload(target, others, rounds)
    }
}

impl<O: NodeOracle + ?Sized> NodeOracle for &mut O {
    fn layout(&self) -> &NodeLayout {
        (**self).layout()
    }

    fn load(&mut self, group: u32, addr: PhysAddr, rounds: u32) -> Result<Vec<u32>, OracleError> {
        (**self).load(group, addr, rounds)
    }
}
