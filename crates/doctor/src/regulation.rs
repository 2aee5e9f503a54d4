//! Regulation: counters and their other users, cgroups, and mechanisms that let other tasks run on an occupied CPU.

use std::path::Path;

use crate::facts::Facts;
use crate::{Check, Purpose, Rule};

pub(crate) const RULES: &[Rule] =
    &[software_counter, traffic_counter, watchdog, lock, programs, cgroups, throttling, fair_server];

/// First kernel with the fair server.
const FAIR_SERVER: (u32, u32) = (6, 12);

fn software_counter(facts: &Facts) -> Option<Check> {
    Some(match &facts.trials.software_counter {
        Ok(()) => Check::fine("software-counter", "page faults can be counted"),
        Err(cause) => Check::fine("software-counter", format!("performance events cannot be counted: {cause}"))
            .prevents(&[Purpose::Regulate])
            .remedy(
                "run as root or with CAP_PERFMON (CAP_SYS_ADMIN where kernel.perf_event_paranoid is 3, as on Debian), on a kernel with \
                 CONFIG_PERF_EVENTS",
            ),
    })
}

fn traffic_counter(facts: &Facts) -> Option<Check> {
    Some(match &facts.trials.traffic_counter {
        Ok(sensor) => Check::fine("traffic-counter", format!("{sensor} counts memory traffic")),
        Err(cause) => Check::fine("traffic-counter", format!("memory traffic cannot be counted: {cause}"))
            .limits(&[Purpose::Regulate])
            .remedy(
                "in a virtual machine, ask the host for a PMU; elsewhere name a raw event with --event (--list-events)",
            ),
    })
}

fn watchdog(facts: &Facts) -> Option<Check> {
    Some(match facts.number("proc/sys/kernel/nmi_watchdog")? {
        0 => Check::fine("pmu-users", "the NMI watchdog holds no counter"),
        _ => Check::fine("pmu-users", "the NMI watchdog holds a hardware counter of each CPU")
            .remedy("sysctl kernel.nmi_watchdog=0, if memtint guard reports that its counter is multiplexed"),
    })
}

/// One regulator runs at a time: its lock is in a folder that must be its user's.
fn lock(facts: &Facts) -> Option<Check> {
    let (id, user) = ("lock-folder", facts.effective_user()?);
    match facts.owner("run/memtint") {
        Some(owner) if owner == user => return Some(Check::fine(id, "/run/memtint is this user's")),
        None if user == 0 => return Some(Check::fine(id, "/run/memtint does not exist yet")),
        _ => {}
    }
    let found = Check::fine(id, "/run/memtint is not this user's").prevents(&[Purpose::Regulate]);
    Some(found.remedy("run as root, or as the user of a service with RuntimeDirectory=memtint"))
}

fn programs(facts: &Facts) -> Option<Check> {
    Some(match &facts.trials.programs {
        Ok(()) => Check::fine("bpf", "the regulator's programs load: the kernel decides"),
        Err(cause) => Check::fine("bpf", format!("the regulator's programs do not load, threads decide: {cause}"))
            .limits(&[Purpose::Regulate])
            .remedy("run as root or with CAP_BPF, on Linux 6.7 or newer, with a memtint that was compiled where there was clang"),
    })
}

fn can_write(facts: &Facts, cgroups: &Path) -> bool {
    facts.is_writable(cgroups.join("cgroup.procs"))
}

fn cgroups(facts: &Facts) -> Option<Check> {
    let id = "cgroup-v2";
    let root = match &facts.trials.cgroup_v2 {
        Ok(root) => root,
        Err(cause) => {
            let found = Check::fine(id, format!("groups cannot be frozen, only whole CPUs regulated: {cause}"));
            return Some(
                found.limits(&[Purpose::Regulate]).remedy("mount it: mount -t cgroup2 none /sys/fs/cgroup/unified"),
            );
        }
    };
    if can_write(facts, root) {
        return Some(Check::fine(id, format!("{} is writable", root.display())));
    }
    let found = format!("{} cannot be written by this process: only whole CPUs can be regulated", root.display());
    let found = Check::fine(id, found).limits(&[Purpose::Regulate]);
    Some(found.remedy(
        "run as root, or in a private cgroup namespace with a mount that can be written (podman: --cgroupns=private)",
    ))
}

/// A check of something that matters where a CPU is occupied for long: with `--core`, and without groups that can be frozen.
fn for_occupied_cpus(facts: &Facts, check: Check) -> Check {
    let root = facts.trials.cgroup_v2.as_ref();
    let can_freeze = root.is_ok_and(|root| can_write(facts, root)) && facts.machine.cores.online_cpus > 1;
    if can_freeze { check } else { check.limits(&[Purpose::Regulate]) }
}

fn throttling(facts: &Facts) -> Option<Check> {
    let id = "real-time-throttling";
    let runtime = facts.number("proc/sys/kernel/sched_rt_runtime_us")?;
    let period = facts.number("proc/sys/kernel/sched_rt_period_us")?;
    if runtime < 0 || runtime >= period {
        return Some(Check::fine(id, "off"));
    }
    let found = format!(
        "on: real-time tasks run for at most {runtime} of {period} us; memtint guard --core refuses budgets beyond"
    );
    Some(for_occupied_cpus(facts, Check::fine(id, found)).remedy("for --core: sysctl kernel.sched_rt_runtime_us=-1"))
}

fn fair_server(facts: &Facts) -> Option<Check> {
    let id = "fair-server";
    if facts.version()? < FAIR_SERVER {
        return Some(Check::fine(id, "not in this kernel"));
    }
    let cpus = 0..facts.machine.cores.online_cpus;
    let runtimes = cpus.map(|cpu| facts.number(&format!("sys/kernel/debug/sched/fair_server/cpu{cpu}/runtime")));
    let longest = runtimes.collect::<Option<Vec<i64>>>().and_then(|all| all.into_iter().max());
    let found = match longest {
        Some(0) => return Some(Check::fine(id, "off")),
        Some(runtime) => {
            format!("on: other tasks get {} us of each of its periods, also on a CPU that is held", runtime / 1000)
        }
        None => "its settings cannot be read (is debugfs mounted?): 50 ms of each second are assumed".to_owned(),
    };
    let remedy = "for --core: echo 0 >/sys/kernel/debug/sched/fair_server/cpuN/runtime, or use --backend kernel";
    Some(for_occupied_cpus(facts, Check::fine(id, found)).remedy(remedy))
}
