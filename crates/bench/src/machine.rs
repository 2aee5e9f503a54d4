//! The machine of a measurement.

use std::fs::read_to_string;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

/// Properties of the machine. Fields that could not be read are null.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Host {
    /// Name of the processor.
    pub cpu: Option<String>,
    /// The processor reports a hypervisor.
    pub virtual_machine: bool,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// CPUs this process may run on.
    pub cores: usize,
    /// Memory of the machine.
    pub memory_bytes: Option<u64>,
    /// Memory available to new programs.
    pub memory_available_bytes: Option<u64>,
    /// Mode of transparent huge pages.
    pub thp: Option<String>,
    /// Frequency governor of the first CPU.
    pub governor: Option<String>,
    /// Load of the minute before the bench.
    pub load_average: Option<f64>,
}

impl Host {
    /// Reads the properties of this machine.
    pub fn read() -> Host {
        let cpuinfo = read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let line = cpuinfo.lines().find(|line| line.split(':').next().is_some_and(|head| head.trim() == name));
            line.and_then(|line| Some(line.split_once(':')?.1.trim().to_owned()))
        };
        Host {
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

/// Processor time of the whole machine since it was started, in ticks.
#[derive(Clone, Copy, Debug)]
struct Ticks {
    all: u64,
    idle: u64,
    stolen: u64,
}

impl Ticks {
    fn read() -> Option<Ticks> {
        Ticks::parse(&read_to_string("/proc/stat").ok()?)
    }

    /// The first line: user, nice, system, idle, iowait, irq, softirq, steal; what follows is contained in these.
    fn parse(stat: &str) -> Option<Ticks> {
        let numbers = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().take(8).map(str::parse);
        let numbers = numbers.collect::<Result<Vec<u64>, _>>().ok()?;
        let &[_, _, _, idle, iowait, _, _, stolen] = &numbers[..] else { return None };
        Some(Ticks { all: numbers.iter().sum(), idle: idle + iowait, stolen })
    }
}

/// Activity besides the bench.
pub struct Beside(Option<Ticks>);

/// Shares of CPU time that were neither the bench's nor idle.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Disturbance {
    /// Used by other programs of this machine, and by the kernel for its own work.
    pub other_programs_share: f64,
    /// Taken by the hypervisor.
    pub stolen_share: f64,
}

impl Beside {
    /// Starts the observation.
    pub fn since_now() -> Beside {
        Beside(Ticks::read())
    }

    /// `own` is the CPU time of the bench and of all children it has waited for.
    pub fn until_now(&self, own: Duration) -> Option<Disturbance> {
        let (before, after) = (self.0?, Ticks::read()?);
        let all = after.all.checked_sub(before.all).filter(|&all| all > 0)? as f64;
        let (idle, stolen) = (after.idle.saturating_sub(before.idle), after.stolen.saturating_sub(before.stolen));
        // SAFETY: takes a number and touches no memory of ours.
        let ticks_per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
        let others = all - idle as f64 - stolen as f64 - own.as_secs_f64() * ticks_per_second;
        Some(Disturbance { other_programs_share: others.max(0.0) / all, stolen_share: stolen as f64 / all })
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

    #[test]
    fn ticks_of_a_line() {
        let ticks = Ticks::parse("cpu  10 1 20 60 4 2 1 2 50 0\ncpu0 ...\n").unwrap();
        assert_eq!((ticks.all, ticks.idle, ticks.stolen), (100, 64, 2));
        assert!(Ticks::parse("cpu  10 1").is_none());
    }
}
