//! Cores, caches and nodes from `/sys/devices/system`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use memtint_units::ByteSize;
use schemars::JsonSchema;
use serde::Serialize;

/// Processors used by Linux.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Cores {
    /// Online hardware threads.
    pub online_cpus: u32,
    /// Cores: hardware threads that share one are counted once.
    pub cores: u32,
    /// Sockets.
    pub sockets: u32,
}

/// Caches of one kind and level; the machine may have several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Cache {
    /// Level, 1 nearest to the core.
    pub level: u32,
    /// Kind of content.
    pub kind: CacheKind,
    /// Size of one.
    pub size_bytes: u64,
    /// Ways of associativity, where reported.
    pub ways: Option<u32>,
    /// Line size, where reported.
    pub line_bytes: Option<u32>,
    /// Sets of one, over all slices, where reported.
    pub sets: Option<u32>,
    /// How many there are.
    pub instances: u32,
    /// Hardware threads that share one.
    pub shared_by_cpus: u32,
}

/// Kind of a cache's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    Unified,
}

/// A NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Node {
    /// Its number in Linux.
    pub node: u32,
    /// Memory of the node that the kernel manages.
    pub memory_bytes: u64,
    /// Hardware threads, in list syntax; empty for a memory-only node.
    pub cpus: String,
    /// Physical address ranges `start..end`, from the hotplug blocks where the kernel has them.
    #[serde(skip)]
    pub blocks: Vec<(u64, u64)>,
}

pub(crate) fn read_text(path: &Path) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

fn read_number(path: &Path) -> Option<u32> {
    read_text(path)?.parse().ok()
}

/// Directories `prefixN` of `parent` with their N, ascending.
pub(crate) fn numbered(parent: &Path, prefix: &str) -> Vec<(u64, PathBuf)> {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let mut found: Vec<(u64, PathBuf)> = entries
        .filter_map(|entry| Some((entry.file_name().to_str()?.strip_prefix(prefix)?.parse().ok()?, entry.path())))
        .collect();
    found.sort();
    found
}

pub(crate) fn cores(root: &Path) -> Cores {
    let mut cores = std::collections::BTreeSet::new();
    let mut sockets = std::collections::BTreeSet::new();
    let mut online_cpus = 0;
    for (_, cpu) in numbered(&root.join("sys/devices/system/cpu"), "cpu") {
        // Without the directory the processor is offline; cpu0 often cannot go offline and then has no file `online`.
        let Some(core) = read_number(&cpu.join("topology/core_id")) else { continue };
        let socket = read_number(&cpu.join("topology/physical_package_id")).unwrap_or(0);
        online_cpus += 1;
        cores.insert((socket, read_number(&cpu.join("topology/die_id")).unwrap_or(0), core));
        sockets.insert(socket);
    }
    Cores { online_cpus, cores: cores.len() as u32, sockets: sockets.len() as u32 }
}

pub(crate) fn caches(root: &Path) -> Vec<Cache> {
    // The key identifies a cache; the value is its first description.
    let mut seen: BTreeMap<(u32, CacheKind, String), Cache> = BTreeMap::new();
    for (_, cpu) in numbered(&root.join("sys/devices/system/cpu"), "cpu") {
        for (_, index) in numbered(&cpu.join("cache"), "index") {
            if let Some((shared, cache)) = read_cache(&index) {
                seen.entry((cache.level, cache.kind, shared)).or_insert(cache);
            }
        }
    }
    let mut kinds: Vec<Cache> = Vec::new();
    for cache in seen.into_values() {
        let same = kinds.iter_mut().find(|kind| Cache { instances: cache.instances, ..(**kind).clone() } == cache);
        match same {
            Some(kind) => kind.instances += 1,
            None => kinds.push(cache),
        }
    }
    kinds
}

fn read_cache(index: &Path) -> Option<(String, Cache)> {
    let kind = match read_text(&index.join("type"))?.as_str() {
        "Data" => CacheKind::Data,
        "Instruction" => CacheKind::Instruction,
        "Unified" => CacheKind::Unified,
        _ => return None,
    };
    let shared = read_text(&index.join("shared_cpu_list"))?;
    let positive = |name: &str| read_number(&index.join(name)).filter(|&number| number > 0);
    let cache = Cache {
        level: read_number(&index.join("level"))?,
        kind,
        size_bytes: read_text(&index.join("size"))?.parse::<ByteSize>().ok()?.bytes(),
        ways: positive("ways_of_associativity"),
        line_bytes: positive("coherency_line_size"),
        sets: positive("number_of_sets"),
        instances: 1,
        shared_by_cpus: count_list(&shared),
    };
    Some((shared, cache))
}

fn count_list(list: &str) -> u32 {
    let items = list.split(',').filter_map(|item| {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        Some(last.trim().parse::<u32>().ok()?.checked_sub(first.trim().parse().ok()?)? + 1)
    });
    items.sum()
}

pub(crate) fn nodes(root: &Path) -> Vec<Node> {
    let block_bytes = read_text(&root.join("sys/devices/system/memory/block_size_bytes"))
        .and_then(|text| u64::from_str_radix(&text, 16).ok());
    numbered(&root.join("sys/devices/system/node"), "node")
        .into_iter()
        .map(|(node, path)| Node {
            node: node as u32,
            memory_bytes: memory_bytes(&path),
            cpus: read_text(&path.join("cpulist")).unwrap_or_default(),
            blocks: block_bytes.map_or_else(Vec::new, |bytes| joined_blocks(&numbered(&path, "memory"), bytes)),
        })
        .collect()
}

/// `Node 0 MemTotal:       24689312 kB`
fn memory_bytes(node: &Path) -> u64 {
    let meminfo = read_text(&node.join("meminfo")).unwrap_or_default();
    let line = meminfo.lines().find(|line| line.contains("MemTotal:"));
    line.and_then(|line| line.split_whitespace().nth(3)?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn joined_blocks(blocks: &[(u64, PathBuf)], bytes: u64) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for (number, _) in blocks {
        let Some(start) = number.checked_mul(bytes) else { continue };
        match ranges.last_mut() {
            Some(last) if last.1 == start => last.1 = start + bytes,
            _ => ranges.push((start, start.saturating_add(bytes))),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_counted() {
        assert_eq!(count_list("0"), 1);
        assert_eq!(count_list("0-3,8-11"), 8);
        assert_eq!(count_list(""), 0);
    }

    #[test]
    fn adjacent_blocks_are_one_range() {
        let blocks = [0, 1, 2, 8].map(|number| (number, PathBuf::new()));
        assert_eq!(joined_blocks(&blocks, 0x100), [(0, 0x300), (0x800, 0x900)]);
    }
}
