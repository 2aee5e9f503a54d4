//! The kernel: requirements of the userspace runtime, and the privileges to use them.

use crate::facts::Facts;
use crate::{Check, Purpose, Rule};

pub(crate) const RULES: &[Rule] =
    &[version, architecture, configuration, privileges, userfaultfd, seccomp, ptrace, lockdown, series];

/// First kernel with `UFFDIO_MOVE`.
const MOVES_PAGES: (u32, u32) = (6, 8);

const CAP_SYS_PTRACE: u32 = 19;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_SYS_NICE: u32 = 23;
const CAP_PERFMON: u32 = 38;

/// Options of a kernel, and the purposes that are impossible without each.
const OPTIONS: [(&str, &[Purpose]); 6] = [
    ("CONFIG_USERFAULTFD", &[Purpose::Color]),
    ("CONFIG_SECCOMP_FILTER", &[Purpose::Color]),
    ("CONFIG_PROC_PAGE_MONITOR", &[Purpose::Color, Purpose::Probe]),
    ("CONFIG_PERF_EVENTS", &[Purpose::Regulate]),
    ("CONFIG_CGROUPS", &[]),
    ("CONFIG_BPF_SYSCALL", &[]),
];

/// A check of something that only the userspace runtime needs: it prevents nothing where the kernel itself colors.
fn for_runtime(facts: &Facts, check: Check) -> Check {
    if facts.trials.kernel_series.is_ok() { check } else { check.prevents(&[Purpose::Color]) }
}

fn version(facts: &Facts) -> Option<Check> {
    let found = Check::fine("kernel-version", format!("Linux {}", facts.release()?));
    if facts.version()? >= MOVES_PAGES {
        return Some(found);
    }
    let found = Check { found: format!("{}, without UFFDIO_MOVE", found.found), ..found };
    Some(for_runtime(facts, found).remedy("use Linux 6.8 or newer, or a 6.12 kernel with memtint's series"))
}

fn architecture(facts: &Facts) -> Option<Check> {
    let found = Check::fine("architecture", facts.architecture);
    Some(match facts.architecture {
        "x86_64" => found,
        "aarch64" => found
            .prevents(&[Purpose::Color])
            .remedy("color programs on x86-64: the userspace runtime has no other port"),
        _ => found
            .prevents(&[Purpose::Color, Purpose::Probe])
            .remedy("color on x86-64; probe on x86-64 or aarch64, or analyze a log with memtint probe --replay"),
    })
}

fn configuration(facts: &Facts) -> Option<Check> {
    let id = "kernel-configuration";
    let Some(options) = facts.configuration() else {
        return Some(Check::fine(id, "not published; the functions themselves were tried instead"));
    };
    let missing: Vec<_> = OPTIONS.iter().filter(|(name, _)| !options.contains_key(*name)).collect();
    if missing.is_empty() {
        return Some(Check::fine(id, "has every option that memtint needs"));
    }
    let names: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
    let mut prevented: Vec<Purpose> = missing.iter().flat_map(|(_, purposes)| purposes.iter().copied()).collect();
    prevented.sort_unstable();
    prevented.dedup();
    // Without cgroups whole CPUs are regulated, and without BPF threads decide.
    let limited: &[Purpose] = if prevented.contains(&Purpose::Regulate) { &[] } else { &[Purpose::Regulate] };
    let limited = if missing.iter().any(|(_, purposes)| purposes.is_empty()) { limited } else { &[] };
    let found = Check::fine(id, format!("lacks {}", names.join(", "))).prevents(&prevented).limits(limited);
    Some(found.remedy("use a kernel with these options; the kernels of Debian, Ubuntu and Fedora have them"))
}

fn privileges(facts: &Facts) -> Option<Check> {
    let has = |number| facts.has_capability(number);
    let lacking: Vec<&str> =
        [("CAP_SYS_ADMIN", CAP_SYS_ADMIN), ("CAP_SYS_PTRACE", CAP_SYS_PTRACE), ("CAP_SYS_NICE", CAP_SYS_NICE)]
            .into_iter()
            .filter(|(_, number)| !has(*number))
            .map(|(name, _)| name)
            .collect();
    if lacking.is_empty() {
        return Some(Check::fine("privileges", "CAP_SYS_ADMIN, CAP_SYS_PTRACE and CAP_SYS_NICE"));
    }
    let prevented = [
        (Purpose::Color, has(CAP_SYS_ADMIN) && has(CAP_SYS_PTRACE)),
        (Purpose::Probe, has(CAP_SYS_ADMIN)),
        (Purpose::Regulate, (has(CAP_SYS_ADMIN) || has(CAP_PERFMON)) && has(CAP_SYS_NICE)),
    ];
    let prevented: Vec<Purpose> = prevented.into_iter().filter(|(_, may)| !may).map(|(purpose, _)| purpose).collect();
    let found = Check::fine("privileges", format!("this process lacks {}", lacking.join(", "))).prevents(&prevented);
    Some(found.remedy("run memtint as root; in a container, add these capabilities (podman run --cap-add)"))
}

fn userfaultfd(facts: &Facts) -> Option<Check> {
    Some(match &facts.trials.userfaultfd {
        Ok(()) => Check::fine("userfaultfd", "moves pages"),
        Err(cause) => for_runtime(facts, Check::fine("userfaultfd", format!("does not work: {cause}")))
            .remedy("run as root, on Linux 6.8 or newer; a container's seccomp profile must allow userfaultfd or /dev/userfaultfd"),
    })
}

fn seccomp(facts: &Facts) -> Option<Check> {
    let actions = facts.text("proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    if actions.split_whitespace().any(|action| action == "user_notif") {
        return Some(Check::fine("seccomp", "notifies a supervisor of system calls"));
    }
    let found = Check::fine("seccomp", "cannot notify a supervisor of system calls (no user_notif)");
    Some(for_runtime(facts, found).remedy("use a kernel with CONFIG_SECCOMP_FILTER"))
}

fn ptrace(facts: &Facts) -> Option<Check> {
    let scope = facts.number("proc/sys/kernel/yama/ptrace_scope")?;
    let found = Check::fine("ptrace-scope", format!("kernel.yama.ptrace_scope is {scope}"));
    // Yama then denies every attachment, pidfd_getfd included, whatever the capabilities (Documentation/admin-guide/LSM/Yama.rst).
    if scope < 3 {
        return Some(found);
    }
    let found = Check { found: format!("{}: no process can take descriptors of another", found.found), ..found };
    Some(
        for_runtime(facts, found)
            .remedy("set kernel.yama.ptrace_scope to 2 or less at boot; 3 lasts until the next boot"),
    )
}

fn lockdown(facts: &Facts) -> Option<Check> {
    let mode = facts.chosen("sys/kernel/security/lockdown")?;
    let found = Check::fine("lockdown", format!("the kernel's lockdown is {mode}"));
    Some(match mode.as_str() {
        "none" => found,
        _ => found.remedy(
            "sign the module memtint_guard before it is loaded; debugfs, which the kernel series needs, is closed",
        ),
    })
}

fn series(facts: &Facts) -> Option<Check> {
    Some(match &facts.trials.kernel_series {
        Ok(()) => Check::fine("kernel-series", "this kernel colors in its page allocator (memtint run --floor kernel)"),
        Err(cause) => Check::fine("kernel-series", format!("not in this kernel, optional: {cause}")),
    })
}
