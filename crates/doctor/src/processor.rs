//! Processors: what tasks share without being asked, and what timing needs.

use crate::facts::Facts;
use crate::{Check, Purpose, Rule};

pub(crate) const RULES: &[Rule] = &[cpus, threads, clock, partitioning, preemption];

fn cpus(facts: &Facts) -> Option<Check> {
    let cores = &facts.machine.cores;
    let found = format!("{} CPUs online, {} cores, {} sockets", cores.online_cpus, cores.cores, cores.sockets);
    Some(match cores.online_cpus {
        0 => return None,
        1 => Check::fine("cpus", "one CPU online")
            .limits(&[Purpose::Regulate])
            .remedy("use --core: without a second CPU, groups cannot be frozen, and the whole CPU is occupied instead"),
        _ => Check::fine("cpus", found),
    })
}

fn threads(facts: &Facts) -> Option<Check> {
    Some(match facts.number("sys/devices/system/cpu/smt/active")? {
        0 => Check::fine("smt", "off"),
        _ => Check::fine("smt", "on: hardware threads of a core share its private caches, which no color divides")
            .limits(&[Purpose::Color])
            .remedy("give both threads of a core to one task, or turn it off: echo off >/sys/devices/system/cpu/smt/control"),
    })
}

fn clock(facts: &Facts) -> Option<Check> {
    let lacking = |flags: &[&'static str]| -> Vec<&'static str> {
        flags.iter().copied().filter(|flag| !facts.has_flag(flag)).collect()
    };
    let (needed, steady) = (lacking(&["clflush", "rdtscp"]), lacking(&["constant_tsc", "nonstop_tsc"]));
    if !needed.is_empty() {
        let found = format!("the processor lacks {}", needed.join(" and "));
        return Some(
            Check::fine("clock", found).prevents(&[Purpose::Probe]).remedy("probe on another machine of the kind"),
        );
    }
    if steady.is_empty() {
        return Some(Check::fine("clock", "the time-stamp counter is constant and does not stop"));
    }
    let found = format!("the processor does not promise a steady time-stamp counter (no {})", steady.join(", no "));
    Some(
        Check::fine("clock", found)
            .limits(&[Purpose::Probe])
            .remedy("fix the frequency (cpupower frequency-set -g performance) before probing"),
    )
}

fn partitioning(facts: &Facts) -> Option<Check> {
    let features = [("cat_l3", "CAT (L3)"), ("cat_l2", "CAT (L2)"), ("mba", "MBA"), ("cqm_mbm_total", "MBM")];
    let present: Vec<&str> = features.iter().filter(|(flag, _)| facts.has_flag(flag)).map(|(_, name)| *name).collect();
    let present = match present.as_slice() {
        [] => "the processor has neither CAT nor MBA".to_owned(),
        names => format!("the processor has {}", names.join(", ")),
    };
    let resctrl = match facts.has("sys/fs/resctrl/info") {
        true => "resctrl is mounted",
        false if facts.has("sys/fs/resctrl") => "resctrl is not mounted",
        false => "the kernel has no resctrl",
    };
    Some(Check::fine("hardware-partitioning", format!("{present}; {resctrl}; memtint needs neither")))
}

fn preemption(facts: &Facts) -> Option<Check> {
    let version = facts.text("proc/version").unwrap_or_default();
    let is_realtime = facts.number("sys/kernel/realtime") == Some(1) || version.contains("PREEMPT_RT");
    Some(Check::fine("preemption", if is_realtime { "PREEMPT_RT" } else { "not PREEMPT_RT" }))
}
