//! The kernel: requirements of the userspace runtime, and the privileges to use them.

use crate::facts::Facts;
use crate::{Check, Purpose, Rule};

pub(crate) const RULES: &[Rule] = &[version, configuration, privileges, userfaultfd, seccomp, ptrace, lockdown, series];

/// First kernel with `UFFDIO_MOVE`.
const MOVES_PAGES: (u32, u32) = (6, 8);

const CAP_DAC_READ_SEARCH: u32 = 2;
const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_PTRACE: u32 = 19;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_SYS_NICE: u32 = 23;
const CAP_PERFMON: u32 = 38;

/// Options of a kernel that the userspace runtime needs,
const RUNTIME_OPTIONS: [&str; 5] = [
    "CONFIG_USERFAULTFD",
    "CONFIG_SECCOMP_FILTER",
    "CONFIG_PROC_PAGE_MONITOR",
    "CONFIG_KCMP",
    "CONFIG_CROSS_MEMORY_ATTACH",
];
/// and those without which a CPU can be regulated in part only.
const REGULATOR_OPTIONS: [&str; 2] = ["CONFIG_CGROUPS", "CONFIG_BPF_SYSCALL"];

/// A check of something that only the userspace runtime needs: it prevents nothing where the kernel itself colors.
pub(crate) fn for_runtime(facts: &Facts, check: Check) -> Check {
    if facts.trials.kernel_series.is_ok() { check } else { check.prevents(&[Purpose::Color]) }
}

fn version(facts: &Facts) -> Option<Check> {
    let found = Check::fine("kernel-version", format!("Linux {}", facts.release()?));
    // A distribution may have brought UFFDIO_MOVE to an older kernel.
    if facts.version().is_none_or(|version| version >= MOVES_PAGES) || facts.trials.userfaultfd.is_ok() {
        return Some(found);
    }
    let found = Check { found: format!("{}, without UFFDIO_MOVE", found.found), ..found };
    Some(for_runtime(facts, found).remedy("use Linux 6.8 or newer, or a 6.12 kernel with memtint's series"))
}

fn configuration(facts: &Facts) -> Option<Check> {
    let id = "kernel-configuration";
    let Some(options) = facts.configuration() else {
        return Some(Check::fine(id, "not published; the functions themselves were tried instead"));
    };
    let missing = |wanted: &[&'static str]| -> Vec<&'static str> {
        wanted.iter().copied().filter(|name| !options.contains_key(*name)).collect()
    };
    let (runtime, regulator, counters) =
        (missing(&RUNTIME_OPTIONS), missing(&REGULATOR_OPTIONS), missing(&["CONFIG_PERF_EVENTS"]));
    let names = [runtime.clone(), regulator.clone(), counters.clone()].concat();
    if names.is_empty() {
        return Some(Check::fine(id, "has every option that memtint needs"));
    }
    let mut found = Check::fine(id, format!("lacks {}", names.join(", ")));
    if !runtime.is_empty() {
        found = for_runtime(facts, found);
    }
    if runtime.contains(&"CONFIG_PROC_PAGE_MONITOR") {
        found = found.prevents(&[Purpose::Probe]);
    }
    found = match (counters.is_empty(), regulator.is_empty()) {
        (false, _) => found.prevents(&[Purpose::Regulate]),
        (true, false) => found.limits(&[Purpose::Regulate]),
        (true, true) => found,
    };
    Some(found.remedy("use a kernel with these options; the kernels of Debian, Ubuntu and Fedora have them"))
}

/// Capabilities by what they are for; docs/security.md has the reasons.
fn privileges(facts: &Facts) -> Option<Check> {
    let names = [
        ("CAP_SYS_ADMIN", CAP_SYS_ADMIN),
        ("CAP_SYS_PTRACE", CAP_SYS_PTRACE),
        ("CAP_SYS_NICE", CAP_SYS_NICE),
        ("CAP_IPC_LOCK", CAP_IPC_LOCK),
        ("CAP_DAC_READ_SEARCH", CAP_DAC_READ_SEARCH),
    ];
    let has = |number| facts.has_capability(number);
    let is_root = facts.effective_user() == Some(0);
    let needed = names.into_iter().filter(|(_, number)| *number != CAP_DAC_READ_SEARCH || !is_root);
    let lacking: Vec<&str> = needed.filter(|(_, number)| !has(*number)).map(|(name, _)| name).collect();
    let mut found = match lacking.is_empty() {
        true => Check::fine("privileges", "all capabilities that memtint needs"),
        false => Check::fine("privileges", format!("this process lacks {}", lacking.join(", "))),
    };
    if !(has(CAP_SYS_ADMIN) && has(CAP_SYS_PTRACE) && (is_root || has(CAP_DAC_READ_SEARCH))) {
        found = for_runtime(facts, found);
    } else if !has(CAP_SYS_NICE) {
        // Calls of the program that the supervisor takes late end with EINTR more often.
        found = found.limits(&[Purpose::Color]);
    }
    if !has(CAP_SYS_ADMIN) {
        // Frame numbers within huge pages are known without it.
        found = found.limits(&[Purpose::Probe]);
    }
    // Distributions add a level 3, which CAP_PERFMON does not pass.
    let is_strict = facts.number("proc/sys/kernel/perf_event_paranoid").is_some_and(|level| level >= 3);
    let counts = has(CAP_SYS_ADMIN) || (has(CAP_PERFMON) && !is_strict);
    if !(counts && has(CAP_SYS_NICE) && has(CAP_IPC_LOCK)) {
        found = found.prevents(&[Purpose::Regulate]);
    }
    let remedy = "run memtint as root; in a container, add these capabilities (podman run --cap-add)";
    Some(if lacking.is_empty() { found } else { found.remedy(remedy) })
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
