//! What can be asked of a machine's caches and nodes.

use crate::oracle::{Oracle, OracleError};
use memtint_units::PhysAddr;
use std::ops::Range;

/// A cache that one core has for itself, as the processor describes it (CPUID leaf 4, CCSIDR, sysfs).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrivateCache {
    /// Sets, a power of two: the address bits right above the line select one.
    pub sets: u32,
    /// Ways.
    pub ways: u32,
}

/// What a machine says of its caches: all but the last, which is what has to be found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheFacts {
    /// Bytes of a line, a power of two from 64.
    pub line: u64,
    /// Private caches in front of the last level, in any order.
    pub private: Vec<PrivateCache>,
}

/// Tells whether a line is still in a cache after others were accessed.
pub trait CacheOracle: Oracle {
    /// Gives what is known of the caches.
    fn caches(&self) -> &CacheFacts;

    /// Accesses the target, then the others in order, and gives the time of an access to the target after that; as many
    /// times as rounds. Each round begins with none of these lines in any cache (flushed by address). The others may repeat.
    ///
    /// # Errors
    /// [`OracleError`] when an address is not in the pool or the machine cannot do it.
    fn reload(&mut self, target: PhysAddr, others: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError>;
}

/// Which memory belongs to which node, as the operating system says, and how many groups of cores there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLayout {
    /// Groups of cores that see all memory alike: those of a socket or of a node; at least 1.
    pub groups: u32,
    /// Pieces of memory with their node.
    pub memory: Vec<(u32, Range<PhysAddr>)>,
}

/// Times accesses from given cores.
pub trait NodeOracle: Oracle {
    /// Gives groups and nodes.
    fn layout(&self) -> &NodeLayout;

    /// Gives the time of accesses to an address, none of them from a cache, by a core of a group below `layout().groups`.
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
