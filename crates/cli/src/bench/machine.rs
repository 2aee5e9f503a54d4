//! What the figures were taken on.

use std::fs::read_to_string;

use serde::Serialize;

/// The machine, as it names itself. Absent fields could not be read.
#[derive(Debug, Serialize)]
pub(super) struct Machine {
    pub(super) cpu: Option<String>,
    /// The processor says that a hypervisor runs it.
    pub(super) virtual_machine: bool,
    pub(super) kernel: Option<String>,
    /// CPUs this process may run on.
    pub(super) cores: usize,
    pub(super) memory_bytes: Option<u64>,
    pub(super) memory_available_bytes: Option<u64>,
    /// Mode of transparent huge pages.
    pub(super) thp: Option<String>,
    /// Of the first CPU.
    pub(super) governor: Option<String>,
    /// Load of the minute before the bench.
    pub(super) load_average: Option<f64>,
}

impl Machine {
    pub(super) fn read() -> Machine {
        let cpuinfo = read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let line = cpuinfo.lines().find(|line| line.split(':').next().is_some_and(|head| head.trim() == name));
            line.and_then(|line| Some(line.split_once(':')?.1.trim().to_owned()))
        };
        Machine {
            cpu: field("model name"),
            virtual_machine: field("flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            kernel: trimmed("/proc/sys/kernel/osrelease"),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: meminfo("MemTotal:"),
            memory_available_bytes: meminfo("MemAvailable:"),
            thp: trimmed("/sys/kernel/mm/transparent_hugepage/enabled").and_then(|modes| chosen(&modes)),
            governor: trimmed("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            load_average: trimmed("/proc/loadavg").and_then(|text| text.split(' ').next()?.parse().ok()),
        }
    }
}

fn trimmed(path: &str) -> Option<String> {
    read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The word in brackets.
fn chosen(modes: &str) -> Option<String> {
    Some(modes.split_once('[')?.1.split_once(']')?.0.to_owned())
}

fn meminfo(name: &str) -> Option<u64> {
    let text = read_to_string("/proc/meminfo").ok()?;
    let kib: u64 = text.lines().find_map(|line| line.strip_prefix(name))?.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_in_brackets_is_the_one() {
        assert_eq!(chosen("always [madvise] never").as_deref(), Some("madvise"));
        assert_eq!(chosen("nonsense"), None);
    }
}
