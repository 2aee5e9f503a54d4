//! Memory traffic as the processor itself monitors it (Intel RDT and AMD QoS, "MBM"), through resctrl: for display, not
//! for regulation.
//!
//! The kernel reads these counters when it is asked, and they have no interrupt. Files: Documentation/arch/x86/resctrl.rst.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Traffic of all tasks of the machine between an L3 cache and memory since the counters began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes, of all nodes' memory; `None` where the processor or the kernel does not have the number.
    pub total_bytes: Option<u64>,
    /// Of these, from the L3 cache's own node.
    pub local_bytes: Option<u64>,
}

impl Traffic {
    /// A number that one of the two lacks, the sum lacks.
    fn and(self, other: Traffic) -> Traffic {
        let sum = |one: Option<u64>, other: Option<u64>| Some(one? + other?);
        Traffic {
            total_bytes: sum(self.total_bytes, other.total_bytes),
            local_bytes: sum(self.local_bytes, other.local_bytes),
        }
    }

    fn since(self, before: Traffic) -> Traffic {
        let passed = |now: Option<u64>, before: Option<u64>| now?.checked_sub(before?);
        Traffic {
            total_bytes: passed(self.total_bytes, before.total_bytes),
            local_bytes: passed(self.local_bytes, before.local_bytes),
        }
    }
}

/// The counters at one time, by domain of an L3 cache and by group of resctrl.
#[derive(Clone, Debug, Default)]
pub struct Reading(BTreeMap<(String, PathBuf), Traffic>);

impl Reading {
    /// The traffic since an earlier reading, by the name of each L3 cache's domain (`00`). Unknown if a group was
    /// removed meanwhile: its last number is lost.
    pub fn since(&self, before: &Reading) -> BTreeMap<String, Traffic> {
        let mut passed: BTreeMap<String, Traffic> = BTreeMap::new();
        let mut add = |domain: &String, traffic: Traffic| {
            passed.entry(domain.clone()).and_modify(|sum| *sum = sum.and(traffic)).or_insert(traffic);
        };
        for (key, now) in &self.0 {
            // The counters of a new group begin at zero.
            let begun = Traffic { total_bytes: Some(0), local_bytes: Some(0) };
            add(&key.0, now.since(before.0.get(key).copied().unwrap_or(begun)));
        }
        before.0.keys().filter(|key| !self.0.contains_key(key)).for_each(|key| add(&key.0, Traffic::default()));
        passed
    }
}

/// The monitor of this machine.
#[derive(Clone, Debug)]
pub struct Monitor {
    folder: PathBuf,
}

impl Monitor {
    /// The monitor; `None` where resctrl is not mounted, or the processor monitors no traffic.
    pub fn find() -> Option<Monitor> {
        Monitor::of(&fs::read_to_string("/proc/mounts").ok()?)
    }

    fn of(mounts: &str) -> Option<Monitor> {
        let resctrl = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let folder = resctrl
            .filter(|words| words.get(2) == Some(&"resctrl"))
            .find_map(|words| Some(PathBuf::from(words.get(1)?)))?;
        let monitor = Monitor { folder };
        let has_number = |traffic: &Traffic| traffic.total_bytes.is_some() || traffic.local_bytes.is_some();
        monitor.read().0.values().any(has_number).then_some(monitor)
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// The counters of all groups.
    pub fn read(&self) -> Reading {
        let mut reading = BTreeMap::new();
        // A group's number has that of the monitoring groups in it, and the root group is one beside the others.
        let groups = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        for group in groups.chain([self.folder.clone()]) {
            for domain in fs::read_dir(group.join("mon_data")).into_iter().flatten().flatten() {
                let name = domain.file_name().to_string_lossy().into_owned();
                let Some(name) = name.strip_prefix("mon_L3_") else { continue };
                let traffic = Traffic {
                    total_bytes: number(&domain.path().join("mbm_total_bytes")),
                    local_bytes: number(&domain.path().join("mbm_local_bytes")),
                };
                reading.insert((name.to_owned(), group.clone()), traffic);
            }
        }
        Reading(reading)
    }
}

/// The number in a file; `None` for "Unavailable" or "Error".
fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with files as the kernel's documentation describes them.
    fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("memtint-resctrl-{name}-{}", std::process::id()));
        for (file, content) in files {
            let file = folder.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
        }
        folder
    }

    fn mounts(folder: &Path) -> String {
        format!("proc /proc proc rw 0 0\nresctrl {} resctrl rw,relatime 0 0\n", folder.display())
    }

    #[test]
    fn traffic_is_that_of_all_groups() {
        let folder = folder(
            "groups",
            &[
                ("mon_data/mon_L3_00/mbm_total_bytes", "1000\n"),
                ("mon_data/mon_L3_00/mbm_local_bytes", "400\n"),
                ("mon_data/mon_L3_01/mbm_total_bytes", "7\n"),
                ("mon_data/mon_L3_01/mbm_local_bytes", "Unavailable\n"),
                ("mon_groups/web/mon_data/mon_L3_00/mbm_total_bytes", "900\n"),
                ("batch/mon_data/mon_L3_00/mbm_total_bytes", "30\n"),
                ("batch/mon_data/mon_L3_00/mbm_local_bytes", "3\n"),
                ("info/L3_MON/num_rmids", "8\n"),
            ],
        );
        let monitor = Monitor::of(&mounts(&folder)).unwrap();
        let read = monitor.read();
        let since_boot = read.since(&Reading::default());
        assert_eq!(since_boot["00"], Traffic { total_bytes: Some(1030), local_bytes: Some(403) });
        assert_eq!(since_boot["01"], Traffic { total_bytes: Some(7), local_bytes: None });
        fs::write(folder.join("mon_data/mon_L3_00/mbm_total_bytes"), "5000\n").unwrap();
        let later = monitor.read();
        assert_eq!(later.since(&read)["00"], Traffic { total_bytes: Some(4000), local_bytes: Some(0) });
        // The traffic of the group before its removal is unknown.
        fs::remove_dir_all(folder.join("batch")).unwrap();
        assert_eq!(monitor.read().since(&read)["00"], Traffic::default());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn without_traffic_counters_there_is_no_monitor() {
        let folder = folder("occupancy", &[("mon_data/mon_L3_00/llc_occupancy", "1000\n")]);
        assert!(Monitor::of(&mounts(&folder)).is_none());
        assert!(Monitor::of("proc /proc proc rw 0 0\n").is_none());
        fs::remove_dir_all(folder).unwrap();
    }
}
