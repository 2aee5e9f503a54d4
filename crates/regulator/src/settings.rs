//! The groups to regulate, and whether this machine can keep their bounds.

use std::fs;
use std::time::Duration;

use memtint_guard::{Config, Group, Kind, Reservation, Sharing};
use memtint_units::IndexSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cgroup::Cgroup;
use crate::error::RegulatorError;
use crate::sensor::Sensor;
use crate::sys;

/// The events that count, and how their source is stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// All events on the CPUs of the group. The regulator occupies these until the period is over.
    Cpus,
    /// Events of the tasks in a cgroup, which is frozen: its CPUs are free for others as soon as that is done.
    Cgroup(Cgroup),
}

/// Where it is decided which group runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// In the kernel if that is possible, else in threads.
    #[default]
    Auto,
    /// In the kernel, by BPF programs: threads wake up to stop groups, and to let them run again.
    Bpf,
    /// In a thread of each CPU, which wakes up for each quantum and each period.
    Threads,
    /// In the kernel module `kernel/modules/memguard`, which holds whole CPUs: above the fair server and every task.
    Kernel,
}

impl Backend {
    /// Gives its name, as in reports.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Auto => "auto",
            Backend::Bpf => "bpf",
            Backend::Threads => "threads",
            Backend::Kernel => "kernel",
        }
    }
}

/// A group with a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSettings {
    /// Its name, for messages.
    pub name: String,
    /// The events that count.
    pub place: Place,
    /// CPUs on which they are counted; ascending, not empty.
    pub cpus: Vec<usize>,
    /// Budget B in events per period, for all CPUs together.
    pub budget: u32,
    /// Hard or soft.
    pub kind: Kind,
    /// Quantum q in events.
    pub quantum: u32,
}

/// A regulated machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Length of a period; 100 us to 1 s.
    pub period: Duration,
    /// The sensor.
    pub sensor: Sensor,
    /// Groups, at least one.
    pub groups: Vec<GroupSettings>,
    /// Guaranteed bandwidth r_min in events per period. Without one, budgets are only limits: it is unknown whether the
    /// memory can serve them.
    pub guaranteed: Option<u32>,
    /// Most events that a CPU can cause in a period, for groups that are stopped by occupying their CPU.
    pub peak: Option<u64>,
    /// Where it is decided.
    pub backend: Backend,
}

/// Accepted lengths of a period.
const PERIODS: std::ops::RangeInclusive<Duration> = Duration::from_micros(100)..=Duration::from_secs(1);

/// Longest period in which a CPU is occupied: with a budget of one event, in the self-test, the kernel would let others run.
const LONGEST_OCCUPIED: Duration = Duration::from_millis(50);

impl Settings {
    /// Checks ranges, CPUs and the reservation rule.
    ///
    /// # Errors
    /// [`RegulatorError`] with the field, the value found and the values accepted.
    pub fn check(&self) -> Result<(), RegulatorError> {
        let refused = |field: &str, found: String, accepted: &str| {
            Err(RegulatorError::Settings { field: field.to_owned(), found, accepted: accepted.to_owned() })
        };
        if !PERIODS.contains(&self.period) {
            return refused("period", format!("{:?}", self.period), "100 us to 1 s");
        }
        if self.groups.is_empty() {
            return refused("groups", "none".to_owned(), "at least one group or core with a budget");
        }
        if self.peak == Some(0) {
            return refused("peak", "0".to_owned(), "at least one event per period");
        }
        let online = online_cpus()?;
        let occupied = self.groups.iter().find(|group| group.place == Place::Cpus);
        if let Some(group) = occupied.filter(|_| self.period > LONGEST_OCCUPIED) {
            let accepted = format!("up to 50 ms, since {} is stopped by occupying its CPU", group.name);
            return refused("period", format!("{:?}", self.period), &accepted);
        }
        let mut whole: Vec<(usize, &str)> = Vec::new();
        for group in &self.groups {
            if self.backend == Backend::Kernel && group.place != Place::Cpus {
                return refused(
                    &group.name,
                    "a cgroup".to_owned(),
                    "a CPU (--core): the kernel module stops whole CPUs",
                );
            }
            if group.cpus.is_empty() {
                return refused(&format!("CPUs of {}", group.name), "none".to_owned(), "at least one");
            }
            if let Some(cpu) = group.cpus.iter().find(|cpu| !online.contains(cpu)) {
                return refused(
                    &format!("CPUs of {}", group.name),
                    cpu.to_string(),
                    &format!("CPUs that are online: {online:?}"),
                );
            }
            for &cpu in group.cpus.iter().filter(|_| group.place == Place::Cpus) {
                if let Some((_, other)) = whole.iter().find(|(taken, _)| *taken == cpu) {
                    return refused(&group.name, format!("CPU {cpu}, which {other} has"), "one budget per CPU");
                }
                whole.push((cpu, &group.name));
            }
        }
        for (index, group) in self.groups.iter().enumerate() {
            if self.groups[..index].iter().any(|other| other.name == group.name || matches!((&other.place, &group.place), (Place::Cgroup(one), Place::Cgroup(another)) if one == another)) {
                return refused("groups", format!("{} twice", group.name), "one budget per group");
            }
        }
        let needed = self.needed();
        if self.guaranteed.is_none() && needed >> 31 != 0 {
            return refused(
                "the sum of budgets, quanta and skids",
                needed.to_string(),
                "up to 2147483647 events per period",
            );
        }
        self.config().check()?;
        // Nothing runs on a CPU that the module holds.
        if self.backend == Backend::Kernel { Ok(()) } else { self.check_occupation() }
    }

    /// The regulated system: a core of it is a group on a CPU, in the order of [`Settings::seats`].
    pub(crate) fn config(&self) -> Config {
        let mut cores = 0;
        let groups: Vec<Group> = self
            .groups
            .iter()
            .map(|group| {
                let first = cores;
                cores += group.cpus.len();
                Group {
                    cores: (first..cores).collect(),
                    reservation: Reservation { budget: group.budget, kind: group.kind },
                    quantum: group.quantum,
                    skid: self.sensor.skid,
                }
            })
            .collect();
        let reclaim_step = groups.iter().map(|group| group.quantum).min().unwrap_or(1);
        // Without a guarantee the rule cannot refuse anything.
        let guaranteed = self.guaranteed.unwrap_or_else(|| u32::try_from(self.needed()).unwrap_or(u32::MAX));
        Config { cores, groups, guaranteed, reclaim_step, sharing: Sharing::Off }
    }

    /// The configuration that [`Backend::Kernel`] writes to the module's device, line by line.
    pub fn request(&self) -> String {
        crate::module::request(self)
    }

    /// Sum of B + q + s over all groups and their CPUs.
    fn needed(&self) -> u64 {
        let of = |group: &GroupSettings| {
            let each = u64::from(group.quantum) + u64::from(self.sensor.skid);
            u64::from(group.budget) + each * group.cpus.len() as u64
        };
        self.groups.iter().map(of).sum()
    }

    /// Group and CPU of each counter, group by group.
    pub fn seats(&self) -> Vec<(usize, usize)> {
        let of = |(index, group): (usize, &GroupSettings)| {
            group.cpus.iter().map(move |&cpu| (index, cpu)).collect::<Vec<_>>()
        };
        self.groups.iter().enumerate().flat_map(of).collect()
    }

    /// The kernel lets ordinary tasks run for a share of each second, whatever real-time tasks do. A group that is stopped by
    /// occupying its CPU may not be stopped for longer than the rest.
    fn check_occupation(&self) -> Result<(), RegulatorError> {
        for group in self.groups.iter().filter(|group| group.place == Place::Cpus) {
            // A budget that is donated or shared with other CPUs may leave this one an event only.
            let whole = group.kind == Kind::Hard && group.cpus.len() == 1;
            let allowed = if whole { u64::from(group.budget) } else { 1 };
            let running = self.peak.map_or(0.0, |peak| allowed as f64 / peak.max(1) as f64);
            for &cpu in &group.cpus {
                let Some((limit, reason)) = occupation_limit(cpu) else { continue };
                let occupied = 1.0 - running.min(1.0);
                if occupied > limit {
                    return Err(RegulatorError::Occupation {
                        group: group.name.clone(),
                        cpu,
                        percent: occupied * 100.0,
                        limit_percent: limit * 100.0,
                        reason,
                    });
                }
            }
        }
        Ok(())
    }
}

/// Largest share of time that a SCHED_FIFO thread may occupy a CPU without others running, and what limits it; `None` if nothing
/// does. A hundredth is kept for the regulator's own work.
fn occupation_limit(cpu: usize) -> Option<(f64, String)> {
    let mut limits: Vec<(f64, String)> = Vec::new();
    let number = |path: &str| fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<i64>().ok());
    let runtime = number("/proc/sys/kernel/sched_rt_runtime_us");
    let period = number("/proc/sys/kernel/sched_rt_period_us");
    if let (Some(runtime @ 0..), Some(period @ 1..)) = (runtime, period)
        && runtime < period
    {
        limits.push((runtime as f64 / period as f64, "kernel.sched_rt_runtime_us".to_owned()));
    }
    let server = |name: &str| number(&format!("/sys/kernel/debug/sched/fair_server/cpu{cpu}/{name}"));
    match (server("runtime"), server("period")) {
        (Some(runtime @ 1..), Some(period @ 1..)) => {
            limits.push((1.0 - runtime as f64 / period as f64, "the fair server".to_owned()));
        }
        (Some(_), Some(_)) => {}
        // Linux's default is 50 ms of each second.
        _ if has_fair_server() => {
            limits.push((
                0.95,
                "the fair server, whose settings cannot be read (/sys/kernel/debug/sched/fair_server)".to_owned(),
            ));
        }
        _ => {}
    }
    let (limit, reason) = limits.into_iter().min_by(|one, other| one.0.total_cmp(&other.0))?;
    Some((limit - 0.01, reason))
}

/// Linux 6.12 and newer.
fn has_fair_server() -> bool {
    sys::kernel_release() >= (6, 12)
}

/// Largest number of CPUs that Linux has.
const CPUS_MAX: u32 = 8192;

/// CPUs that are online, ascending.
///
/// # Errors
/// [`RegulatorError::Cpus`] if the kernel's list cannot be read.
pub fn online_cpus() -> Result<Vec<usize>, RegulatorError> {
    let path = "/sys/devices/system/cpu/online";
    let text = fs::read_to_string(path).map_err(|cause| RegulatorError::Cpus { reason: format!("{path}: {cause}") })?;
    let list = IndexSet::parse(text.trim(), CPUS_MAX)
        .map_err(|error| RegulatorError::Cpus { reason: format!("{path}: {error}") })?;
    Ok(list.iter().map(|cpu| cpu as usize).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::Cgroup;
    use std::path::PathBuf;

    fn group(name: &str, place: Place, cpus: &[usize]) -> GroupSettings {
        let (name, cpus) = (name.to_owned(), cpus.to_vec());
        GroupSettings { name, place, cpus, budget: 100, kind: Kind::Hard, quantum: 25 }
    }

    fn cgroup(name: &str) -> Place {
        Place::Cgroup(Cgroup::at(PathBuf::from("/nowhere").join(name), true))
    }

    fn settings(groups: Vec<GroupSettings>) -> Settings {
        let sensor = Sensor { skid: 5, ..Sensor::find("page-faults").unwrap() };
        let period = Duration::from_millis(1);
        Settings { period, sensor, groups, guaranteed: None, peak: None, backend: Backend::Auto }
    }

    #[test]
    fn settings_outside_their_ranges_are_refused() {
        let sound = || settings(vec![group("web", cgroup("web"), &[0])]);
        let two = |one: GroupSettings, other: GroupSettings| settings(vec![one, other]);
        let short = Settings { period: Duration::from_micros(99), ..sound() };
        let still = Settings { peak: Some(0), ..sound() };
        let large = settings(vec![GroupSettings {
            budget: 2_000_000_000,
            quantum: 500_000_000,
            ..group("web", cgroup("web"), &[0])
        }]);
        let slow = Settings {
            period: Duration::from_millis(51),
            peak: Some(100),
            ..settings(vec![group("CPU 0", Place::Cpus, &[0])])
        };
        let reserved = Settings { guaranteed: Some(129), ..sound() };
        let whole = || group("CPU 0", Place::Cpus, &[0]);
        let twice =
            Settings { peak: Some(100), ..two(whole(), GroupSettings { name: "CPU 00".to_owned(), ..whole() }) };
        for (settings, words) in [
            (short, ["period is 99", "100 us to 1 s"]),
            (settings(Vec::new()), ["groups is none", "at least one"]),
            (still, ["peak is 0", "at least one"]),
            (slow, ["period is 51ms", "up to 50 ms, since CPU 0"]),
            (large, ["2500000005", "2147483647"]),
            (reserved, ["add up to 130", "129"]),
            (settings(vec![group("web", cgroup("web"), &[])]), ["CPUs of web", "at least one"]),
            (settings(vec![group("web", cgroup("web"), &[8000])]), ["8000", "online"]),
            (two(group("web", cgroup("web"), &[0]), group("web", cgroup("db"), &[0])), ["web twice", "one budget"]),
            (two(group("web", cgroup("web"), &[0]), group("db", cgroup("web"), &[0])), ["db twice", "one budget"]),
            (twice, ["CPU 0, which CPU 0 has", "one budget"]),
        ] {
            let error = settings.check().unwrap_err().to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{words:?}: {error}");
        }
        let equal = Settings { guaranteed: Some(130), ..sound() };
        if online_cpus().unwrap().len() > 1 {
            equal.check().unwrap();
        }
    }

    #[test]
    fn a_group_on_several_cpus_has_a_core_on_each() {
        let settings = settings(vec![group("web", cgroup("web"), &[0, 1]), group("CPU 1", Place::Cpus, &[1])]);
        assert_eq!(settings.seats(), [(0, 0), (0, 1), (1, 1)]);
        let config = settings.config();
        assert_eq!(config.groups.iter().map(|group| group.cores.clone()).collect::<Vec<_>>(), [vec![0, 1], vec![2]]);
        // 100 + 2 (25 + 5) and 100 + 25 + 5.
        assert_eq!((config.cores, config.guaranteed), (3, 290));
    }

    #[test]
    fn a_cpu_is_not_occupied_for_longer_than_the_kernel_allows() {
        let Some((limit, reason)) = occupation_limit(0) else { return };
        let of = |peak| Settings { peak, ..settings(vec![group("CPU 0", Place::Cpus, &[0])]) };
        let error = of(None).check().unwrap_err().to_string();
        assert!(error.contains("100 % of the time") && error.contains(&reason) && error.contains("--group"), "{error}");
        // Just as fast as the limit allows, and faster.
        let peak = (100.0 / (1.0 - limit)).floor() as u64;
        of(Some(peak)).check().unwrap();
        of(Some(peak + 10)).check().unwrap_err();
    }
}
