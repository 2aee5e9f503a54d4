//! CPUs, policies and processor time.

use std::time::Duration;

use super::Pid;

/// Pins a process (0 = this one) to one CPU; failure only makes steering of frames less exact.
pub(crate) fn pin_to_cpu(pid: Pid, cpu: u64) {
    let mut set = [0u64; 128];
    if let Some(word) = set.get_mut(cpu as usize / 64) {
        *word = 1 << (cpu % 64);
        set_affinity(pid, &set);
    }
}

/// CPUs a process may run on.
pub(crate) fn affinity(pid: Pid) -> [u64; 128] {
    let mut set = [0u64; 128];
    // SAFETY: the set is as large as said.
    unsafe { libc::sched_getaffinity(pid, size_of_val(&set), set.as_mut_ptr().cast()) };
    set
}

/// Sets the CPUs a process may run on.
pub(crate) fn set_affinity(pid: Pid, set: &[u64; 128]) {
    // SAFETY: the set is as large as said.
    unsafe { libc::sched_setaffinity(pid, size_of_val(set), set.as_ptr().cast()) };
}

/// Scheduling policy and priority of a process.
pub(crate) fn scheduling(pid: Pid) -> (i32, i32) {
    let mut parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure is valid for the call.
    unsafe {
        libc::sched_getparam(pid, &raw mut parameters);
        (libc::sched_getscheduler(pid), parameters.sched_priority)
    }
}

/// Whether a process has a real-time policy.
pub(crate) fn is_realtime(pid: Pid) -> bool {
    matches!(scheduling(pid).0 & !libc::SCHED_RESET_ON_FORK, libc::SCHED_FIFO | libc::SCHED_RR)
}

/// Sets scheduling policy and priority of a process.
pub(crate) fn set_scheduling(pid: Pid, (policy, priority): (i32, i32)) {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the structure is valid for the call.
    let set = |policy| unsafe { libc::sched_setscheduler(pid, policy, &raw const parameters) };
    // If real-time priority came from a limit and not from CAP_SYS_NICE, the flag set with it cannot be cleared.
    if set(policy) < 0 {
        set(policy | libc::SCHED_RESET_ON_FORK);
    }
}

/// Asks the kernel to run a process (0 = this one) soon after it wakes, ahead of processes that compute: its slice becomes the shortest
/// possible. Its share stays the same. Before Linux 6.12 the kernel ignores this.
pub(crate) fn shorten_slice(pid: Pid) {
    const SHORTEST_NS: u64 = 100_000;
    let size = size_of::<libc::sched_attr>() as u32;
    // SAFETY: zeros are a valid value of this structure of numbers.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most `size` bytes of the structure.
    let found = unsafe { libc::syscall(libc::SYS_sched_getattr, pid, &raw mut attributes, size, 0) };
    if found < 0 || attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return;
    }
    (attributes.size, attributes.sched_runtime) = (size, SHORTEST_NS);
    // SAFETY: the kernel reads `size` bytes of the structure.
    unsafe { libc::syscall(libc::SYS_sched_setattr, pid, &raw const attributes, 0) };
}

/// Gives a process (0 = this one) real-time priority, or ordinary priority again. Its children do not inherit it.
pub(crate) fn set_realtime(pid: Pid, on: bool) {
    set_scheduling(pid, if on { (libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 1) } else { (libc::SCHED_OTHER, 0) });
}

/// Processor time that the calling thread has used.
pub(crate) fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is valid for the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The CPU that a process runs on, or ran on last.
pub(crate) fn processor(pid: Pid) -> Option<u64> {
    // Field 39, of which the third is the first behind the name in brackets.
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()?
        .rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(36)?
        .parse()
        .ok()
}

/// The NUMA node of a CPU; 0 where the kernel names none.
pub(crate) fn node_of(cpu: u64) -> u64 {
    let entries = std::fs::read_dir(format!("/sys/devices/system/cpu/cpu{cpu}")).into_iter().flatten().flatten();
    let mut nodes = entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix("node")?.parse().ok());
    nodes.next().unwrap_or(0)
}
