//! Threads that measure: the processor time that a throttled group leaves to others, and latencies.

use std::time::Duration;

use crate::sys;

/// Makes the calling thread run on one CPU, when nothing else runs there (SCHED_IDLE). It stays as it is where the kernel refuses.
pub fn become_companion(cpu: usize) {
    // A companion of another priority or on another CPU measures too little.
    let _ = sys::pin(&[cpu]);
    let _ = sys::set_idle_policy();
}

/// Restricts the calling thread to these CPUs, unless the kernel refuses.
pub fn stay_on(cpus: &[usize]) {
    // On another CPU it disturbs the measurement, which is visible in the figures.
    let _ = sys::pin(cpus);
}

/// Processor time of the calling thread.
pub fn thread_time() -> Duration {
    Duration::from_nanos(sys::thread_time_ns())
}

/// Watches something with a real-time priority below the regulator's, so that ordinary tasks do not delay the answer.
pub fn watch_closely<T>(watch: impl FnOnce() -> T) -> T {
    // Without the priority, a busy machine lengthens the measured latency.
    let _ = sys::set_fifo(WATCH_PRIORITY);
    let seen = watch();
    let _ = sys::set_ordinary();
    seen
}

const WATCH_PRIORITY: i32 = 90;
