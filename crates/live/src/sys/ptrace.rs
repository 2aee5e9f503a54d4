//! Tracing of threads.

use std::io;

use super::{Pid, Status, check};

fn ptrace(request: libc::c_uint, pid: Pid, address: u64, data: u64) -> io::Result<i64> {
    // SAFETY: the requests used here take numbers, or pointers to structures that the callers keep alive.
    check(unsafe { libc::ptrace(request, pid, address, data) })
}

/// The threads that this process traces.
pub(crate) fn own_tracees() -> Vec<Pid> {
    let own = u64::from(std::process::id());
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|&pid: &Pid| Status::of(pid).number("TracerPid") == Some(own)).collect()
}

/// Kills a process that this one traces, and reaps it.
pub(crate) fn kill_tracee(pid: Pid) {
    // SAFETY: takes numbers.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    while let Ok(Some((_, change))) = wait(pid, true) {
        if change == Change::Gone {
            return;
        }
        let _ = resume(pid, 0);
    }
}

/// Becomes the tracer of a running thread without stopping it; it will stop at `execve` and when it creates a process.
pub(crate) fn seize(pid: Pid) -> io::Result<()> {
    let creations = libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK | libc::PTRACE_O_TRACECLONE;
    ptrace(libc::PTRACE_SEIZE, pid, 0, (libc::PTRACE_O_TRACEEXEC | creations) as u64).map(|_| ())
}

/// Asks a seized thread to stop at the next chance.
pub(crate) fn interrupt(pid: Pid) -> io::Result<()> {
    ptrace(libc::PTRACE_INTERRUPT, pid, 0, 0).map(|_| ())
}

/// Lets a stopped thread continue.
pub(crate) fn resume(pid: Pid, signal: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_CONT, pid, 0, signal as u64).map(|_| ())
}

/// Lets a stopped thread run one instruction.
pub(crate) fn step(pid: Pid) -> io::Result<()> {
    ptrace(libc::PTRACE_SINGLESTEP, pid, 0, 0).map(|_| ())
}

/// Stops tracing a thread.
pub(crate) fn detach(pid: Pid, signal: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_DETACH, pid, 0, signal as u64).map(|_| ())
}

/// Changes the events at which a traced thread stops.
pub(crate) fn set_trace_options(pid: Pid, options: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_SETOPTIONS, pid, 0, options as u64).map(|_| ())
}

/// Number of the current ptrace event (new process, former thread id).
pub(crate) fn event_message(pid: Pid) -> io::Result<Pid> {
    let mut message: libc::c_ulong = 0;
    ptrace(libc::PTRACE_GETEVENTMSG, pid, 0, &raw mut message as u64)?;
    Ok(message as Pid)
}

/// Registers of a stopped thread.
pub(crate) fn registers(pid: Pid) -> io::Result<libc::user_regs_struct> {
    // SAFETY: all-zero is a valid value of this plain structure.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    ptrace(libc::PTRACE_GETREGS, pid, 0, &raw mut registers as u64)?;
    Ok(registers)
}

/// Sets the registers of a stopped thread.
pub(crate) fn set_registers(pid: Pid, registers: &libc::user_regs_struct) -> io::Result<()> {
    ptrace(libc::PTRACE_SETREGS, pid, 0, std::ptr::from_ref(registers) as u64).map(|_| ())
}

/// Replaces the signal mask of a stopped thread and returns the old one.
pub(crate) fn swap_signal_mask(pid: Pid, mask: u64) -> io::Result<u64> {
    const PTRACE_GETSIGMASK: libc::c_uint = 0x420a;
    const PTRACE_SETSIGMASK: libc::c_uint = 0x420b;
    let mut old = 0u64;
    ptrace(PTRACE_GETSIGMASK, pid, 8, &raw mut old as u64)?;
    ptrace(PTRACE_SETSIGMASK, pid, 8, &raw const mask as u64)?;
    Ok(old)
}

/// A state change of a traced thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It is gone.
    Gone,
    /// It stopped at a ptrace event (`PTRACE_EVENT_*`).
    Event(i32),
    /// It is about to receive a signal.
    Signal(i32),
}

/// Waits for one traced thread (or any, with -1); `None` with `block` off if nothing happened.
pub(crate) fn wait(pid: Pid, block: bool) -> io::Result<Option<(Pid, Change)>> {
    let mut status = 0;
    let options = libc::__WALL | if block { 0 } else { libc::WNOHANG };
    loop {
        // SAFETY: `status` is valid for the call.
        let found = unsafe { libc::waitpid(pid, &raw mut status, options) };
        if found < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted {
            continue;
        }
        let found = check(i64::from(found))? as Pid;
        if found == 0 {
            return Ok(None);
        }
        let change = if !libc::WIFSTOPPED(status) {
            Change::Gone
        } else if status >> 16 != 0 {
            Change::Event(status >> 16)
        } else {
            Change::Signal(libc::WSTOPSIG(status))
        };
        return Ok(Some((found, change)));
    }
}
