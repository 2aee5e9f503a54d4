//! Processes by their parents.

use std::collections::BTreeMap;

use crate::sys::{self, ProcDir};
use crate::walk::stat_fields;

/// The parent of each process that exists now.
#[derive(Clone, Debug, Default)]
pub struct ProcessTree {
    parents: BTreeMap<u32, u32>,
}

impl ProcessTree {
    /// Reads the existing processes; empty when `/proc` cannot be read.
    #[must_use]
    pub fn read() -> ProcessTree {
        let parent = |pid: u32| {
            let stat = ProcDir::open(pid).and_then(|process| process.read("stat")).ok()?;
            Some((pid, stat_fields(&stat).get(1)?.parse().ok()?))
        };
        ProcessTree { parents: sys::all_pids().unwrap_or_default().into_iter().filter_map(parent).collect() }
    }

    /// Gives a process and its descendants: the process first, the others ascending.
    #[must_use]
    pub fn below(&self, root: u32) -> Vec<u32> {
        let mut found = vec![root];
        let descends = |&pid: &u32| pid != root && self.ancestors(pid).any(|ancestor| ancestor == root);
        found.extend(self.parents.keys().copied().filter(descends));
        found
    }

    /// Walks from a process to its parent, the parent's parent, and so on; the process itself comes first.
    pub fn ancestors(&self, pid: u32) -> impl Iterator<Item = u32> + '_ {
        // Process ids can be reused during the reading: a cycle must not hold the reader.
        std::iter::successors(Some(pid), |pid| self.parents.get(pid).copied().filter(|&parent| parent != 0))
            .take(self.parents.len() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_all_below_it_and_ends_in_circles() {
        let tree = ProcessTree { parents: BTreeMap::from([(1, 0), (2, 1), (3, 2), (4, 1), (5, 3), (8, 9), (9, 8)]) };
        assert_eq!(tree.below(2), [2, 3, 5]);
        assert_eq!(tree.below(1), [1, 2, 3, 4, 5]);
        assert_eq!(tree.below(7), [7]);
        assert_eq!(tree.ancestors(5).collect::<Vec<_>>(), [5, 3, 2, 1]);
        assert!(tree.below(8).contains(&9));
    }

    #[test]
    fn this_process_descends_from_its_parent() {
        let tree = ProcessTree::read();
        let parent = tree.ancestors(std::process::id()).nth(1).expect("it has one");
        assert!(tree.below(parent).contains(&std::process::id()));
    }
}
