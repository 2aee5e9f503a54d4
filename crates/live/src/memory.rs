//! How much memory may be taken for a while: the room that the machine and the memory cgroups of this process leave.

use crate::wire::PAGE;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// This fraction of the machine's memory, and of each limit, is left to others.
const RESERVE: u64 = 16;
/// Free blocks are taken while they hold this fraction of the machine's memory: to serve a request for a block that it
/// does not have, the kernel compacts memory, which moves other programs' pages out of their colors. Pages are lent
/// while as much is free.
const LEFT_FREE: u64 = 32;
/// Smallest order of a free list that serves blocks of 2 MiB.
const BLOCK_ORDER: usize = 9;

/// The memory cgroups of this process, from its own up to the root.
pub(crate) struct MemoryLimits {
    groups: Vec<Group>,
}

struct Group {
    name: String,
    limit: PathBuf,
    usage: PathBuf,
    events: PathBuf,
    statistics: PathBuf,
    /// Field of `statistics`: bytes of files that are given up before anything else is refused.
    reclaimable: &'static str,
}

impl MemoryLimits {
    pub(crate) fn of_this_process() -> MemoryLimits {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        MemoryLimits { groups: groups(&text("/proc/self/cgroup"), &text("/proc/self/mountinfo")) }
    }

    /// Pages that may be taken now, from a NUMA node or from any.
    pub(crate) fn room(&self, node: Option<u32>) -> u64 {
        let left = self.groups.iter().filter_map(Group::left).map(|(left, limit)| left.saturating_sub(limit / RESERVE));
        left.min().map_or(u64::MAX, |bytes| bytes / PAGE).min(machine_room(node))
    }

    /// The tightest limit, in words for the middle of a sentence, if it leaves less than the machine has; empty
    /// otherwise.
    pub(crate) fn tight_limit(&self) -> String {
        self.limit_in_words().map_or(String::new(), |words| format!(" ({words})"))
    }

    /// The same without brackets.
    pub(crate) fn limit_in_words(&self) -> Option<String> {
        self.tightest().map(|(words, left)| format!("{words}, of which {} MiB are left", left >> 20))
    }

    /// Whether a limit leaves less than the machine has.
    pub(crate) fn has_limit(&self) -> bool {
        self.tightest().is_some()
    }

    /// The tightest limit, in words, and the bytes that it leaves, if the machine has more.
    fn tightest(&self) -> Option<(String, u64)> {
        let with_limits = self.groups.iter().filter_map(|group| Some((group, group.left()?)));
        let (group, (left, limit)) = with_limits.min_by_key(|(_, (left, _))| *left)?;
        let words = format!("the memory limit of cgroup {} is {} MiB", group.name, limit >> 20);
        (left / PAGE < machine_room(None)).then_some((words, left))
    }

    /// Number of out-of-memory kills: in the cgroup of this process, or on the machine if the cgroup does not count them. The kernel counts
    /// first and kills then.
    pub(crate) fn kills(&self) -> u64 {
        let of_group = self.groups.iter().find_map(|group| kills(&group.events));
        of_group.or_else(|| kills(Path::new("/proc/vmstat"))).unwrap_or(0)
    }

    /// A line for the user if [`MemoryLimits::kills`] has risen above `kills`.
    pub(crate) fn killed_since(&self, kills: u64) -> Option<String> {
        let limit = self.tightest().map_or(String::new(), |(words, _)| format!(" ({words})"));
        (self.kills() > kills).then(|| format!("the kernel has ended processes for want of memory{limit}"))
    }
}

/// The count in a `memory.events` (version 2), a `memory.oom_control` (version 1) or `/proc/vmstat`.
fn kills(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.lines().find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok())
}

impl Group {
    /// Bytes that are left, and the limit; `None` without a limit.
    fn left(&self) -> Option<(u64, u64)> {
        let number = |path: &Path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
        // Version 2 writes "max", version 1 a number that no machine has.
        let limit = number(&self.limit).filter(|limit| *limit < 1 << 60)?;
        let statistics = fs::read_to_string(&self.statistics).unwrap_or_default();
        let reclaimable = statistics.lines().find_map(|line| line.strip_prefix(self.reclaimable)?.trim().parse().ok());
        let used = number(&self.usage)?.saturating_sub(reclaimable.unwrap_or(0u64));
        Some((limit.saturating_sub(used), limit))
    }
}

/// The memory cgroups that `/proc/PID/cgroup` names, where `/proc/PID/mountinfo` has them.
fn groups(membership: &str, mounts: &str) -> Vec<Group> {
    let mut groups = Vec::new();
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let second = controllers.is_empty();
        if !second && !controllers.split(',').any(|controller| controller == "memory") {
            continue;
        }
        for (root, mount) in mounts.lines().filter_map(|mount| cgroup_mount(mount, second)) {
            // A container may see its own cgroup as the root.
            let inside = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
            let all =
                inside.ancestors().map(|group| Group::new(&mount.join(group), &Path::new("/").join(group), second));
            groups.extend(all);
        }
    }
    groups
}

/// Root and place of a line of mountinfo that is a hierarchy with memory limits.
fn cgroup_mount(line: &str, second: bool) -> Option<(&str, &Path)> {
    let (place, kind) = line.split_once(" - ")?;
    let mut kind = kind.split(' ');
    let wanted = if second {
        kind.next() == Some("cgroup2")
    } else {
        kind.next() == Some("cgroup") && kind.nth(1)?.split(',').any(|option| option == "memory")
    };
    let mut place = place.split(' ').skip(3);
    let (root, mount) = (place.next()?, place.next()?);
    wanted.then_some((root, Path::new(mount)))
}

impl Group {
    fn new(directory: &Path, name: &Path, second: bool) -> Group {
        let [limit, usage, events, reclaimable] = if second {
            ["memory.max", "memory.current", "memory.events", "inactive_file "]
        } else {
            ["memory.limit_in_bytes", "memory.usage_in_bytes", "memory.oom_control", "total_inactive_file "]
        };
        Group {
            name: name.display().to_string(),
            limit: directory.join(limit),
            usage: directory.join(usage),
            events: directory.join(events),
            statistics: directory.join("memory.stat"),
            reclaimable,
        }
    }
}

/// Pages that the machine, or one of its NUMA nodes, can give without its reserve.
pub(crate) fn machine_room(node: Option<u32>) -> u64 {
    let machine = Meminfo::read("/proc/meminfo");
    let available = machine.kib("MemAvailable:").unwrap_or(0);
    let total = machine.kib("MemTotal:").unwrap_or(available);
    let room = available.saturating_sub(total / RESERVE);
    let Some(node) = node else { return room / (PAGE >> 10) };
    // The kernel reports no available memory per node, which would exclude the watermarks.
    let of_node = Meminfo::read(&format!("/sys/devices/system/node/node{node}/meminfo"));
    let free: u64 = ["MemFree:", "Active(file):", "Inactive(file):"].iter().filter_map(|name| of_node.kib(name)).sum();
    let reserve = of_node.kib("MemTotal:").unwrap_or(free) / RESERVE + high_watermarks(Some(node)) * (PAGE >> 10);
    room.min(free.saturating_sub(reserve)) / (PAGE >> 10)
}

/// A file of lines like `MemFree: 945348 kB`, which begin with `Node 0` for a node.
struct Meminfo(String);

impl Meminfo {
    fn read(file: &str) -> Meminfo {
        Meminfo(fs::read_to_string(file).unwrap_or_default())
    }

    fn kib(&self, name: &str) -> Option<u64> {
        let (_, rest) = self.0.lines().find_map(|line| line.split_once(name))?;
        rest.trim().strip_suffix(" kB")?.trim().parse().ok()
    }
}

/// Frames of a zone of memory; empty if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Zone {
    /// The first.
    pub(crate) start: u64,
    /// First frame past the zone.
    pub(crate) end: u64,
}

/// The highest zone of a NUMA node, or of the machine's only one: the kernel serves single pages from it while it has free ones.
pub(crate) fn highest_zone(node: Option<u32>) -> Zone {
    highest(&fs::read_to_string("/proc/zoneinfo").unwrap_or_default(), node)
}

fn highest(zoneinfo: &str, node: Option<u32>) -> Zone {
    let (mut found, mut wanted, mut present, mut spanned) = (Zone::default(), false, 0, 0);
    for line in zoneinfo.lines() {
        let mut words = line.split([' ', ':', ',']).filter(|word| !word.is_empty());
        let (name, number) = (words.next(), words.next().and_then(|word| word.parse::<u64>().ok()));
        match (name, number) {
            // Device memory belongs to no zone of the allocator.
            (Some("Node"), Some(number)) => {
                wanted = node.is_none_or(|node| u64::from(node) == number) && !line.ends_with("Device");
                (present, spanned) = (0, 0);
            }
            (Some("present"), Some(count)) => present = count,
            (Some("spanned"), Some(count)) => spanned = count,
            (Some("start_pfn"), Some(start)) if wanted && present > 0 && start >= found.start => {
                found = Zone { start, end: start + spanned };
            }
            _ => {}
        }
    }
    found
}

/// Memory of other processes of this executable that no other process shares: the pages that searches of other runs
/// hold.
pub(crate) fn held_by_other_searches() -> u64 {
    let file = |process: &str| {
        let data = fs::metadata(format!("/proc/{process}/exe")).ok()?;
        Some((data.dev(), data.ino()))
    };
    let (own, me) = (file("self"), std::process::id());
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = processes.filter_map(|entry| entry.file_name().into_string().ok());
    let others =
        names.filter(|name| name.parse().is_ok_and(|pid: u32| pid != me) && own.is_some() && file(name) == own);
    let own_pages = |process: String| {
        let text = fs::read_to_string(format!("/proc/{process}/statm")).ok()?;
        let mut fields = text.split(' ').skip(1).map_while(|field| field.parse::<u64>().ok());
        let (resident, shared) = (fields.next()?, fields.next()?);
        Some(resident.saturating_sub(shared))
    };
    others.filter_map(own_pages).sum()
}

/// Whether the kernel can serve blocks of 2 MiB without compaction, on a NUMA node or on all.
pub(crate) fn has_free_blocks(node: Option<u32>) -> bool {
    let (nodes, least) = (free_pages(), left_free(node));
    let mut wanted = nodes.iter().filter(|(name, _)| node.is_none_or(|node| node == **name)).peekable();
    wanted.peek().is_some() && wanted.all(|(_, (in_blocks, _))| *in_blocks > least)
}

/// Free pages of the highest zone of a NUMA node, or of the machine's only one.
pub(crate) fn free(node: Option<u32>) -> u64 {
    let nodes = free_pages();
    nodes
        .iter()
        .filter(|(name, _)| node.is_none_or(|node| node == **name))
        .map(|(_, (blocks, small))| blocks + small)
        .sum()
}

/// Pages of a NUMA node, or of the machine's only one, that must stay free, in addition to the kernel's reserves.
pub(crate) fn left_free(node: Option<u32>) -> u64 {
    // If the kernel does not report the size, everything must stay free.
    let machine = match crate::sys::machine_pages() {
        0 => u64::MAX,
        pages => pages,
    };
    machine / LEFT_FREE / free_pages().len().max(1) as u64 + high_watermarks(node)
}

/// Free pages of a NUMA node, or of all, below which the kernel reclaims memory. Far below, it kills processes. If only one node may serve
/// a request, it kills the one with most memory there: the score of [`crate::sys::be_killed_for_memory`] does not outweigh it.
fn high_watermarks(node: Option<u32>) -> u64 {
    high_marks(&fs::read_to_string("/proc/zoneinfo").unwrap_or_default(), node)
}

fn high_marks(zoneinfo: &str, node: Option<u32>) -> u64 {
    let (mut pages, mut wanted) = (0, false);
    for line in zoneinfo.lines() {
        let mut words = line.split([' ', ':', ',']).filter(|word| !word.is_empty());
        let (name, number) = (words.next(), words.next().and_then(|word| word.parse::<u64>().ok()));
        match (name, number) {
            (Some("Node"), Some(number)) => wanted = node.is_none_or(|node| u64::from(node) == number),
            // The per-CPU lists, further down, have a limit of this name.
            (Some("high"), Some(count)) if wanted => {
                pages += count;
                wanted = false;
            }
            _ => {}
        }
    }
    pages
}

/// Free pages, of a NUMA node or of all, that are in no free block of 2 MiB.
pub(crate) fn in_small_pieces(node: Option<u32>) -> u64 {
    let nodes = free_pages();
    nodes.iter().filter(|(name, _)| node.is_none_or(|node| node == **name)).map(|(_, (_, small))| small).sum()
}

/// For each NUMA node, free pages of its highest zone in blocks of 2 MiB or more and in smaller ones.
fn free_pages() -> BTreeMap<u32, (u64, u64)> {
    let free = Meminfo::read("/proc/meminfo").kib("MemFree:").unwrap_or(0) / (PAGE >> 10);
    free_in(&fs::read_to_string("/proc/buddyinfo").unwrap_or_default(), free)
}

/// The same from the text of `/proc/buddyinfo` and the free pages of the machine. Memory that the kernel counts as free but has in no list
/// yet, because it prepares it on demand, is in blocks; with several nodes, its node is unknown.
fn free_in(buddyinfo: &str, machine_free: u64) -> BTreeMap<u32, (u64, u64)> {
    let mut nodes: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    let mut listed = 0;
    for line in buddyinfo.lines().filter(|line| !line.contains("Device")) {
        let Some((name, zones)) = line.split_once(',') else { continue };
        let Some(name) = name.strip_prefix("Node ").and_then(|number| number.parse().ok()) else { continue };
        let (mut in_blocks, mut small) = (0, 0);
        for (order, count) in zones.split_whitespace().skip(2).enumerate() {
            let pages = count.parse::<u64>().unwrap_or(0) << order;
            *(if order < BLOCK_ORDER { &mut small } else { &mut in_blocks }) += pages;
        }
        listed += in_blocks + small;
        // Zones are listed from the lowest on.
        nodes.insert(name, (in_blocks, small));
    }
    if nodes.len() == 1
        && let Some((in_blocks, _)) = nodes.values_mut().next()
    {
        *in_blocks += machine_free.saturating_sub(listed);
    }
    nodes
}

/// CPUs with the pages in their per-CPU lists, of a NUMA node or of all: the kernel serves those pages on that CPU only.
pub(crate) fn waiting_pages(node: Option<u32>) -> BTreeMap<u32, u64> {
    waiting(&fs::read_to_string("/proc/zoneinfo").unwrap_or_default(), node)
}

fn waiting(zoneinfo: &str, node: Option<u32>) -> BTreeMap<u32, u64> {
    let (mut pages, mut cpu, mut wanted) = (BTreeMap::new(), None, false);
    for line in zoneinfo.lines() {
        let mut words = line.split([' ', ':', ',']).filter(|word| !word.is_empty());
        let (name, number) = (words.next(), words.next().and_then(|word| word.parse::<u64>().ok()));
        match (name, number) {
            (Some("Node"), Some(number)) => wanted = node.is_none_or(|node| u64::from(node) == number),
            (Some("cpu"), Some(number)) => cpu = u32::try_from(number).ok(),
            (Some("count"), Some(count)) => {
                if let Some(cpu) = cpu.take().filter(|_| wanted && count > 0) {
                    *pages.entry(cpu).or_default() += count;
                }
            }
            _ => {}
        }
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watermarks_are_those_of_zones_and_not_of_their_lists() {
        let zone = |node: u32, high: u64| {
            let marks = format!("        min      7\n        low      9\n        high     {high}\n");
            let sets = "  pagesets\n    cpu: 0\n      count:    1\n      high:     50\n      high_min: 51\n";
            format!("Node {node}, zone   Normal\n  pages free     77\n{marks}{sets}")
        };
        let text = zone(0, 16) + &zone(0, 200) + &zone(1, 3000);
        assert_eq!([None, Some(0), Some(1), Some(2)].map(|node| high_marks(&text, node)), [3216, 216, 3000, 0]);
        // Zones without memory have none.
        let here = high_watermarks(None);
        assert!(here > 0 && here < machine_room(None), "{here}");
    }

    #[test]
    fn pages_wait_on_cpus_of_all_zones() {
        let zone = |node: u32, counts: [u64; 2]| {
            let sets = (0..)
                .zip(counts)
                .map(|(cpu, count)| format!("    cpu: {cpu}\n      count:    {count}\n      high: 99\n"));
            let sets = sets.collect::<String>();
            format!(
                "Node {node}, zone   Normal\n  pages free     77\n        present  88\n  pagesets\n{sets}  start_pfn: 4\n"
            )
        };
        let text = zone(0, [0, 3]) + &zone(0, [5, 4]) + &zone(1, [9, 0]);
        assert_eq!(waiting(&text, None), BTreeMap::from([(0, 14), (1, 7)]));
        assert_eq!(waiting(&text, Some(0)), BTreeMap::from([(0, 5), (1, 7)]));
        assert_eq!(waiting(&text, Some(1)), BTreeMap::from([(0, 9)]));
        let here = fs::read_to_string("/proc/zoneinfo").unwrap();
        assert!(waiting(&here, None).values().sum::<u64>() > 0, "none wait:\n{here}");
    }

    #[test]
    fn the_highest_zone_of_a_node_has_memory_and_is_no_device() {
        let zone = |node: u32, name: &str, present: u64, start: u64| {
            format!(
                "Node {node}, zone {name}\n  pages free 9\n        spanned  {present}\n        present  {present}\n  start_pfn:           {start}\n"
            )
        };
        let text = [
            zone(0, "     DMA", 4000, 1),
            zone(0, "   DMA32", 700_000, 4096),
            zone(0, "  Normal", 0, 0),
            zone(0, " Movable", 0, 0),
            zone(1, "  Normal", 500, 1 << 20),
            zone(1, "  Device", 100, 1 << 21),
        ]
        .concat();
        assert_eq!(highest(&text, Some(0)), Zone { start: 4096, end: 704_096 });
        assert_eq!(highest(&text, Some(1)), Zone { start: 1 << 20, end: (1 << 20) + 500 });
        assert_eq!(highest(&text, None).start, 1 << 20);
        assert_eq!(highest("", None), Zone::default());
    }

    #[test]
    fn free_memory_is_that_of_the_highest_zone() {
        let text = "Node 0, zone    DMA32      7      0      0      0      0      0      0      0      0      0      2 \n\
                    Node 0, zone   Normal      3      1      0      0      0      0      0      0      0      1      1 \n";
        assert_eq!(free_in(text, 0), BTreeMap::from([(0, (512 + 1024, 5))]));
        // 100 pages are not in a list yet.
        let listed = 7 + 2 * 1024 + 512 + 1024 + 5;
        assert_eq!(free_in(text, listed + 100), BTreeMap::from([(0, (512 + 1024 + 100, 5))]));
        let two = text.replace("Node 0, zone    DMA32", "Node 1, zone   Normal");
        assert_eq!(free_in(&two, 1 << 30)[&1], (2048, 7));
    }

    const MOUNTS: &str = "\
        31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n\
        41 31 0:38 /pod /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    fn limits(membership: &str) -> Vec<String> {
        groups(membership, MOUNTS).iter().map(|group| group.limit.display().to_string()).collect()
    }

    #[test]
    fn both_versions_and_all_ancestors_are_found() {
        let one = limits("9:name=systemd:/x\n4:memory:/a/b\n1:cpu:/c\n");
        let at = |group: &str| format!("/sys/fs/cgroup/memory/{group}memory.limit_in_bytes");
        assert_eq!(one, [at("a/b/"), at("a/"), at("")]);
        let two = limits("0::/pod/inner\n");
        let at = |group: &str| format!("/sys/fs/cgroup/unified/{group}memory.max");
        assert_eq!(two, [at("inner/"), at("")]);
        assert_eq!(limits("nonsense\n"), [""; 0]);
    }

    #[test]
    fn what_a_limit_leaves() {
        let directory = std::env::temp_dir().join(format!("memtint-cgroup-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let write = |name: &str, text: &str| fs::write(directory.join(name), text).unwrap();
        let group = Group::new(&directory, Path::new("/g"), true);
        assert_eq!(group.left(), None, "no files");
        write("memory.max", "max\n");
        write("memory.current", "500\n");
        assert_eq!(group.left(), None, "no limit");
        write("memory.max", "1000\n");
        assert_eq!(group.left(), Some((500, 1000)));
        write("memory.stat", "anon 100\ninactive_file 300\n");
        assert_eq!(group.left(), Some((800, 1000)));
        write("memory.current", "2000\n");
        assert_eq!(group.left(), Some((0, 1000)));
        // Kills are counted at the cgroup with the limit.
        let memory = MemoryLimits { groups: vec![group] };
        for (before, after, told) in [("0", "0", false), ("3", "4", true)] {
            write("memory.events", &format!("oom 5\noom_kill {before}\n"));
            let kills = memory.kills();
            write("memory.events", &format!("oom 6\noom_kill {after}\n"));
            assert_eq!(memory.killed_since(kills).is_some(), told, "{before} {after}");
        }
        // The directory belongs to this test.
        fs::remove_dir_all(&directory).unwrap();
    }
}
