//! CAMC: colors are given to tasks automatically, by user and program, local ones first.
//!
//! Source: Pan's thesis (\[Pan18\]), chapter 2: section 2.3.3 for the assignment, Algorithms 1 and 2 for the choice of a frame.
//!
//! A task is colored when its user is registered and its path matches a pattern. It then gets as many colors as its profile requests
//! (default 1) from the *coloring pool*, the colors without an owner: first colors with memory on the task's node, then of other nodes.
//! When the pool is empty, the colors with the fewest owners are shared (so 16 tasks on 4 nodes degrade to bank coloring in section 2.4.4).
//! A task whose colors are exhausted gets one more from the pool. A task that leaves returns its colors.
//!
//! A color is a bank class of the color function. Frames that a colored task frees go to their color's list and merge no more, as
//! published; so do those that a search passes over. Requests above order 0, and uncolored tasks, use the buddy allocator with its per-CPU
//! lists, and get no frames from color lists.
//!
//! Readings where the thesis is silent: patterns support `*` (any text) and `?` (one character); among equals the color with the fewest
//! frames in use, then the lowest, is chosen.

use std::sync::Arc;

use memtint_units::IndexSet;

use crate::allocator::Promises;
use crate::base::{Base, System, Task, refuse};
use crate::bins::{self, Bins, Form};
use crate::blocks::OneFreeList;
use crate::error::FrameError;
use crate::memory::{FrameMemory, ORDER_MAX};
use crate::percpu::{CpuLists, PerCpu};
use crate::task::{Caller, Policy, Profile};

/// Data that CAMC keeps for a task.
#[derive(Clone, Debug, Default)]
pub struct Assigned {
    /// In the order of their assignment; empty for uncolored tasks.
    colors: Vec<u32>,
    node: u32,
}

/// CAMC.
#[derive(Clone, Debug)]
pub struct Camc {
    base: Base<OneFreeList, Assigned>,
    cpu_lists: CpuLists,
    color_list: Bins,
    form: Form,
    coloring_users: Vec<u32>,
    patterns: Vec<String>,
    /// Tasks that have each color.
    owners: Vec<u32>,
    /// Frames of each color by node: shows which colors are local, and which exist at all.
    nodes_of: Vec<Vec<u32>>,
}

impl Camc {
    /// Starts with all memory in free blocks, no registered user and no pattern: no task is colored yet.
    #[must_use]
    pub fn new(memory: &Arc<FrameMemory>, per_cpu: Option<PerCpu>, form: Form) -> Camc {
        let mut nodes_of = vec![Vec::new(); memory.bank_classes() as usize];
        for color in memory.colors() {
            let nodes: &mut Vec<u32> = &mut nodes_of[color.bank_class as usize];
            if !nodes.contains(&color.node) {
                nodes.push(color.node);
            }
        }
        Camc {
            base: Base::new(Arc::clone(memory), OneFreeList, ORDER_MAX),
            cpu_lists: CpuLists::new(memory, per_cpu),
            color_list: Bins::new(memory.bank_classes() as usize),
            form,
            coloring_users: Vec::new(),
            patterns: Vec::new(),
            owners: vec![0; memory.bank_classes() as usize],
            nodes_of,
        }
    }

    /// Registers a user, as the coloring call of one of its processes does: its tasks are colored from now on.
    pub fn register_user(&mut self, user: u32) {
        if !self.coloring_users.contains(&user) {
            self.coloring_users.push(user);
        }
    }

    /// Adds a pattern of program paths that are colored: `*` stands for any text, `?` for one character.
    pub fn add_pattern(&mut self, pattern: &str) {
        self.patterns.push(pattern.to_owned());
    }

    /// Gives the colors that no task has, ascending: the coloring pool.
    #[must_use]
    pub fn coloring_pool(&self) -> Vec<u32> {
        (0..self.owners.len() as u32).filter(|&color| self.exists(color) && self.owners[color as usize] == 0).collect()
    }

    fn exists(&self, color: u32) -> bool {
        !self.nodes_of[color as usize].is_empty()
    }

    fn is_colored(&self, profile: &Profile) -> bool {
        self.coloring_users.contains(&profile.user)
            && self.patterns.iter().any(|pattern| matches(pattern.as_bytes(), profile.path.as_bytes()))
    }

    /// The table of global utilization: frames in use of each color.
    fn used(&self) -> Vec<u64> {
        let mut used = vec![0; self.owners.len()];
        for (color, frames) in self.base.used_by_color() {
            used[self.base.memory().colors()[color].bank_class as usize] += frames;
        }
        used
    }

    /// Colors by preference for a task on this node: fewest owners, local, least used, lowest.
    fn preferred(&self, node: u32) -> Vec<u32> {
        let used = self.used();
        let mut colors: Vec<u32> = (0..self.owners.len() as u32).filter(|&color| self.exists(color)).collect();
        colors.sort_by_key(|&color| {
            let remote = !self.nodes_of[color as usize].contains(&node);
            (self.owners[color as usize], remote, used[color as usize], color)
        });
        colors
    }

    fn policy_of(&self, colors: &[u32]) -> Policy {
        let set = IndexSet::from_indices(colors.iter().copied(), self.owners.len() as u32);
        Policy::banks(set.expect("colors are below their number"))
    }

    /// Gives a task one more color of the pool; `false` when there is none.
    fn grow(&mut self, caller: Caller) -> bool {
        let node = self.base.task(caller.task).own.node;
        let Some(color) = self.preferred(node).first().copied().filter(|&color| self.owners[color as usize] == 0)
        else {
            return false;
        };
        self.owners[color as usize] += 1;
        let mut colors = self.base.task(caller.task).own.colors.clone();
        colors.push(color);
        let policy = self.policy_of(&colors);
        let wanted = policy.wanted(self.base.memory()).expect("the color exists");
        let task = self.base.tasks.get_mut(caller.task).expect("the caller was checked");
        (task.policy, task.wanted, task.own.colors) = (policy, wanted, colors);
        true
    }

    /// Algorithm 1 on every zone that the caller may use.
    fn select(&mut self, caller: Caller, colors: &[u32]) -> Option<u32> {
        let (bins, base, form) = (&mut self.color_list, &mut self.base, self.form);
        let find = |bins: &mut Bins, base: &mut Base<OneFreeList, Assigned>| {
            colors.iter().find_map(|&color| bins.pop(base, color as usize))
        };
        let bin_of = |memory: &FrameMemory, frame| memory.bank_of(frame) as usize;
        (0..base.memory().zone_list(caller.cpu).len()).find_map(|place| {
            let zone = base.memory().zone_list(caller.cpu)[place];
            bins::select(bins, base, zone, form, find, bin_of)
        })
    }
}

impl System for Camc {
    type Lists = OneFreeList;
    type Own = Assigned;

    const NAME: &'static str = "camc";
    const PROMISES: Promises = Promises { banks: true, chooses: true, ..Promises::NONE };

    fn base(&self) -> &Base<OneFreeList, Assigned> {
        &self.base
    }

    fn base_mut(&mut self) -> &mut Base<OneFreeList, Assigned> {
        &mut self.base
    }

    fn accept(&mut self, profile: &Profile) -> Result<(Policy, Assigned), FrameError> {
        let accepted = "a number of colors (the length of the list of bank classes), strict";
        refuse(Self::NAME, &Self::PROMISES, &profile.policy, accepted)?;
        let node = self.base.memory().node_of_cpu(profile.cpu).expect("the CPU was checked");
        if !self.is_colored(profile) {
            return Ok((Policy::any(), Assigned { colors: Vec::new(), node }));
        }
        let wanted = profile.policy.banks.as_ref().map_or(1, IndexSet::len);
        let mut colors = self.preferred(node);
        if wanted as usize > colors.len() {
            let classes = colors.len() as u32;
            return Err(FrameError::TooManyColorsWanted { system: Self::NAME, wanted, classes });
        }
        colors.truncate(wanted as usize);
        for &color in &colors {
            self.owners[color as usize] += 1;
        }
        Ok((self.policy_of(&colors), Assigned { colors, node }))
    }

    /// `do_exit`: colors return to the pool.
    fn dismiss(&mut self, task: Task<Assigned>) {
        for color in task.own.colors {
            self.owners[color as usize] -= 1;
        }
    }

    fn take(&mut self, caller: Caller, order: u32) -> Option<u32> {
        if order > 0 || self.base.task(caller.task).own.colors.is_empty() {
            return self.cpu_lists.take_normal(&mut self.base, caller.cpu, order);
        }
        loop {
            let task = self.base.tasks.get_mut(caller.task).expect("the caller was checked");
            let colors = std::mem::take(&mut task.own.colors);
            let mut page = self.select(caller, &colors);
            if page.is_none() && self.cpu_lists.drain(&mut self.base) {
                page = self.select(caller, &colors);
            }
            self.base.tasks.get_mut(caller.task).expect("the caller was checked").own.colors = colors;
            if page.is_some() || !self.grow(caller) {
                return page;
            }
        }
    }

    fn give(&mut self, caller: Caller, first: u32, order: u32) {
        if order > 0 || self.base.task(caller.task).own.colors.is_empty() {
            self.cpu_lists.give(&mut self.base, caller.cpu, first, order);
        } else {
            let color = self.base.memory().bank_of(first) as usize;
            self.color_list.push(&mut self.base, color, first);
        }
    }

    fn drain(&mut self) {
        self.cpu_lists.drain(&mut self.base);
    }
}

/// Returns whether a text matches a pattern of `*` and `?`; quadratic at worst.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut star) = ((0, 0), None);
    while at.1 < text.len() {
        match pattern.get(at.0) {
            Some(b'*') => {
                star = Some(at);
                at.0 += 1;
            }
            Some(&byte) if byte == b'?' || byte == text[at.1] => at = (at.0 + 1, at.1 + 1),
            _ => match star {
                // Let the last star swallow one more.
                Some((place, from)) => {
                    star = Some((place, from + 1));
                    at = (place + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at.0..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_paths() {
        let matched = |pattern: &str, path: &str| matches(pattern.as_bytes(), path.as_bytes());
        assert!(matched("*", "") && matched("/opt/rt/*", "/opt/rt/cnt") && matched("*/c?t", "/a/b/cnt"));
        assert!(matched("*a*b", "xaybab") && matched("", ""));
        assert!(
            !matched("/opt/rt/*", "/opt/other") && !matched("c?t", "ct") && !matched("", "a") && !matched("*a*b", "ba")
        );
    }
}
