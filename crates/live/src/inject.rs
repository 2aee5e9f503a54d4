//! Putting a helper into an address space whose only thread is stopped.
//!
//! The supervisor makes the thread carry out a few system calls: first at a `syscall` instruction of the vDSO, then at
//! the helper's own. The thread gets descriptors through the system-call filter: it calls `prctl` with an option that
//! the kernel does not define, and the supervisor answers with a descriptor. No memory of the program is written.
//!
//! From the first descriptor to the helper's first message the address space is not dumpable: no process of the same user can take a
//! descriptor or write to memory meanwhile. The supervisor remains the helper's tracer until the helper ends: its process id comes from the
//! kernel, cannot be reused before the supervisor has reaped it, and no other process can attach to it.

use crate::RunError;
use crate::areas;
use crate::listener::Listener;
use crate::space::{Cradle, Settings, Space};
use crate::sys::{self, Change, Notification, Pid};
use crate::wire;
use libc::user_regs_struct;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Files that each address space of a run needs.
pub(crate) struct Kit {
    /// The helper's code.
    pub(crate) blob: OwnedFd,
    /// `/dev/userfaultfd`; None where it cannot be opened: the system call does the same for privileged programs.
    pub(crate) device: Option<OwnedFd>,
}

impl Kit {
    /// Opens them.
    pub(crate) fn new() -> Result<Kit, RunError> {
        let image = include_bytes!(concat!(env!("OUT_DIR"), "/helper.bin"));
        let blob = sys::memory_file("memtint-helper", 0)?;
        let mut file = std::fs::File::from(blob);
        io::Write::write_all(&mut file, image)?;
        file.set_len(wire::BLOB_LEN)?;
        let blob = OwnedFd::from(file);
        sys::seal(&blob)?;
        let device = std::fs::OpenOptions::new().read(true).write(true).open("/dev/userfaultfd");
        Ok(Kit { blob, device: device.ok().map(OwnedFd::from) })
    }
}

/// Limits that could keep a helper from being created, or would count memtint's mappings against the program.
const IN_THE_WAY: [u32; 5] =
    [libc::RLIMIT_NOFILE, libc::RLIMIT_NPROC, libc::RLIMIT_AS, libc::RLIMIT_DATA, libc::RLIMIT_MEMLOCK];
/// Memory that a helper may map, or lock, beyond twice the program's limit: a copy of a file under construction, a search, chunks of the
/// pool.
const BEYOND: [(u32, u64); 3] =
    [(libc::RLIMIT_AS, 2 << 30), (libc::RLIMIT_DATA, 2 << 30), (libc::RLIMIT_MEMLOCK, 8 << 20)];

/// Limits of a stopped process that are lifted for the moment.
struct Lifted {
    pid: Pid,
    before: Vec<(u32, libc::rlimit64)>,
}

impl Lifted {
    fn new(pid: Pid) -> Lifted {
        let before: Vec<_> =
            IN_THE_WAY.iter().filter_map(|&which| Some((which, sys::limits(which, pid).ok()?))).collect();
        for &(which, limits) in &before {
            let most = if which == libc::RLIMIT_NOFILE { sys::descriptors_max() } else { libc::RLIM64_INFINITY };
            let lifted = libc::rlimit64 { rlim_cur: most, rlim_max: most.max(limits.rlim_max) };
            // Without CAP_SYS_RESOURCE, up to the hard limit.
            if sys::set_limits(which, pid, lifted).is_err() {
                let _ = sys::set_limits(which, pid, libc::rlimit64 { rlim_cur: limits.rlim_max, ..limits });
            }
        }
        Lifted { pid, before }
    }

    /// Bounds a helper that was created with lifted limits: by its program's hard limits, not the soft ones.
    /// Everything it maps or locks for the program has been checked against the program's limits before.
    ///
    /// Returns the capabilities that it needs: to end a program that has changed its user, to compare address spaces, and to
    /// lock memory for a program that may where its limit could not be lifted.
    fn bound(&self, helper: Pid) -> u64 {
        let mut needed = 1 << sys::CAP_KILL | 1 << sys::CAP_SYS_PTRACE;
        for (which, beyond) in BEYOND {
            let hard = self.before.iter().find(|(other, _)| *other == which).map_or(0, |(_, limits)| limits.rlim_max);
            let locks = which == libc::RLIMIT_MEMLOCK;
            let exempt = locks && sys::has_capability(self.pid, sys::CAP_IPC_LOCK);
            let most = match hard {
                _ if exempt => libc::RLIM64_INFINITY,
                // A program that may lock nothing has no locked pool.
                0 if locks => 0,
                hard => hard.saturating_mul(2).saturating_add(beyond),
            };
            let bounds = libc::rlimit64 { rlim_cur: most, rlim_max: most };
            // Without CAP_SYS_RESOURCE nothing has been lifted: the helper has its program's limits.
            if sys::set_limits(which, helper, bounds).is_err() && exempt {
                needed |= 1 << sys::CAP_IPC_LOCK;
            }
        }
        needed
    }

    fn restore(&self) {
        for &(which, limits) in &self.before {
            let _ = sys::set_limits(which, self.pid, limits);
        }
    }
}

/// A stopped thread that carries out system calls for us.
struct Puppet<'a> {
    pid: Pid,
    saved: user_regs_struct,
    saved_mask: u64,
    gadget: u64,
    listener: &'a Listener,
}

/// Gives the address space of the stopped thread `pid` a helper; the thread is as before, and still stopped.
pub(crate) fn inject(
    kit: &Kit,
    settings: &Settings,
    looks_per_page: f64,
    prefault_pages: u64,
    listener: &Listener,
    pid: Pid,
) -> Result<Space, RunError> {
    // `__USER32_CS` of the kernel. A 32-bit program has no instruction that could make a 64-bit call.
    const CODE_SEGMENT_32: u64 = 0x23;
    if sys::registers(pid)?.cs == CODE_SEGMENT_32 {
        return Err(RunError::NotX86_64);
    }
    let cradle = Cradle::new(settings, looks_per_page, prefault_pages, pid)?;
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default().to_string_lossy().into_owned();
    let mut puppet = Puppet::new(pid, listener)?;
    let limits = Lifted::new(pid);
    let space = puppet.out_of_reach(|puppet| {
        let born = puppet.give_birth(kit, &cradle, &limits);
        let space = born.and_then(|helper| cradle.greet(helper, pid, program));
        if space.is_err() {
            end_others_in(pid);
        }
        space
    });
    if matches!(space, Err(RunError::ProgramGone)) {
        // Its process id may have been reused.
        return space;
    }
    limits.restore();
    // In any case, the program resumes where it was.
    puppet.restore()?;
    space
}

impl<'a> Puppet<'a> {
    fn new(pid: Pid, listener: &'a Listener) -> Result<Puppet<'a>, RunError> {
        let saved = sys::registers(pid)?;
        let gadget = find_syscall(pid)?;
        // SIGTRAP stays open: the kernel would reset its handler to force it through.
        let saved_mask = sys::swap_signal_mask(pid, !(1 << (libc::SIGTRAP - 1)))?;
        Ok(Puppet { pid, saved, saved_mask, gadget, listener })
    }

    fn restore(&self) -> Result<(), RunError> {
        sys::set_registers(self.pid, &self.saved)?;
        sys::swap_signal_mask(self.pid, self.saved_mask)?;
        Ok(())
    }

    /// Performs an action while no process of the program's user can reach into the address space.
    fn out_of_reach<T>(&mut self, act: impl FnOnce(&mut Self) -> Result<T, RunError>) -> Result<T, RunError> {
        let set = |value| [libc::PR_SET_DUMPABLE as u64, value, 0, 0, 0, 0];
        let dumpable = self.call(libc::SYS_prctl, [libc::PR_GET_DUMPABLE as u64, 0, 0, 0, 0, 0])? == 1;
        if dumpable {
            self.call(libc::SYS_prctl, set(0))?;
        }
        let done = act(self);
        if dumpable {
            self.call(libc::SYS_prctl, set(1))?;
        }
        done
    }

    /// Creates the helper and returns it, running.
    fn give_birth(&mut self, kit: &Kit, cradle: &Cradle, limits: &Lifted) -> Result<Pid, RunError> {
        let shared_fixed = (libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE) as u64;
        let (rx, rw) = (libc::PROT_READ | libc::PROT_EXEC, libc::PROT_READ | libc::PROT_WRITE);
        for (file, at, length, protection) in [
            (&kit.blob, wire::BLOB_BASE, wire::BLOB_LEN, rx),
            (&cradle.control_file, wire::CONTROL_BASE, wire::CONTROL_LEN, rw),
        ] {
            let fd = self.fetch(file)?;
            let mapped = self.call(libc::SYS_mmap, [at, length, protection as u64, shared_fixed, fd, 0]);
            self.call(libc::SYS_close, [fd, 0, 0, 0, 0, 0])?;
            if mapped? != at {
                return Err(RunError::AddressTaken);
            }
            for advice in [libc::MADV_DONTFORK, libc::MADV_DONTDUMP] {
                // The filter stops calls on these addresses, unless they come from the helper's code.
                self.call_at(wire::BLOB_BASE, libc::SYS_madvise, [at, length, advice as u64, 0, 0, 0])?;
            }
        }
        let socket = self.fetch(&cradle.helper_socket)?;
        let device = kit.device.as_ref().map(|device| self.fetch(device)).transpose()?;
        cradle.set_descriptors(socket, device.unwrap_or(wire::NO_DEVICE));
        let helper = self.bear();
        self.call(libc::SYS_close, [socket, 0, 0, 0, 0, 0])?;
        if let Some(device) = device {
            self.call(libc::SYS_close, [device, 0, 0, 0, 0, 0])?;
        }
        let helper = helper?;
        cradle.set_capabilities(limits.bound(helper));
        sys::set_trace_options(helper, 0)?;
        sys::resume(helper, 0)?;
        Ok(helper)
    }

    /// Creates the helper, which is traced and stopped before its first instruction.
    ///
    /// Its parent is a process that exists for this purpose alone and ends at once. Only the supervisor may observe it.
    fn bear(&mut self) -> Result<Pid, RunError> {
        // At the helper's own `clone`, which the filter lets pass.
        let vdso = std::mem::replace(&mut self.gadget, wire::BLOB_BASE + 16);
        let begun = self.begin(libc::SYS_clone, [libc::CLONE_VM as u64, wire::STACK_TOP, 0, 0, 0, 0]);
        self.gadget = vdso;
        begun?;
        let parent = self.created()?;
        let helper = helper_of(parent);
        if helper.is_err() {
            end_others_in(self.pid);
        }
        let parent = self.finish()?;
        self.call(libc::SYS_wait4, [parent, 0, u64::from(libc::__WALL as u32), 0, 0, 0])?;
        helper
    }

    /// The process created by the pending call, which has not returned yet.
    fn created(&mut self) -> Result<Pid, RunError> {
        loop {
            match sys::wait(self.pid, true)? {
                Some((_, Change::Event(libc::PTRACE_EVENT_CLONE))) => {
                    let created = sys::event_message(self.pid)?;
                    sys::step(self.pid)?;
                    return Ok(created);
                }
                Some((_, Change::Signal(libc::SIGTRAP))) => {
                    return Err(match self.result() {
                        Err(RunError::Io(error)) if error.raw_os_error() == Some(libc::EAGAIN) => {
                            RunError::TooManyProcesses
                        }
                        Err(error) => error,
                        Ok(_) => RunError::HelperLost,
                    });
                }
                Some((_, Change::Gone)) => return Err(RunError::ProgramGone),
                _ => sys::step(self.pid)?,
            }
        }
    }

    /// Gives the thread a copy of `file`; returns its descriptor number in the thread.
    fn fetch(&mut self, file: &OwnedFd) -> Result<u64, RunError> {
        self.begin(libc::SYS_prctl, [wire::PRCTL_MAGIC, 0, 0, 0, 0, 0])?;
        let notification = loop {
            match self.listener.question_of(self.pid) {
                Some(notification) => break notification,
                None => self.nudge()?,
            }
        };
        sys::conclude_with_descriptor(self.listener.fd(), notification.id, file.as_raw_fd())?;
        self.finish()
    }

    /// Makes the thread carry out a system call.
    fn call(&mut self, number: i64, args: [u64; 6]) -> Result<u64, RunError> {
        self.begin(number, args)?;
        self.finish()
    }

    /// The same at another `syscall` instruction.
    fn call_at(&mut self, gadget: u64, number: i64, args: [u64; 6]) -> Result<u64, RunError> {
        let vdso = std::mem::replace(&mut self.gadget, gadget);
        let result = self.call(number, args);
        self.gadget = vdso;
        result
    }

    fn begin(&mut self, number: i64, a: [u64; 6]) -> Result<(), RunError> {
        let mut registers = self.saved;
        registers.rip = self.gadget;
        registers.rax = number as u64;
        registers.orig_rax = u64::MAX;
        [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9] = a;
        sys::set_registers(self.pid, &registers)?;
        sys::step(self.pid)?;
        Ok(())
    }

    /// The thread has not asked yet: it may be gone, or have stopped for another reason before it could.
    fn nudge(&self) -> Result<(), RunError> {
        match sys::wait(self.pid, false)? {
            Some((_, Change::Gone)) => Err(RunError::ProgramGone),
            // The call has returned unanswered: a filter of the program takes precedence over memtint's.
            Some((_, Change::Signal(libc::SIGTRAP))) if !self.restarts()? => Err(RunError::HelperLost),
            Some((_, Change::Signal(libc::SIGSYS))) => Err(RunError::HelperLost),
            Some(_) => Ok(sys::step(self.pid)?),
            None => Ok(()),
        }
    }

    /// Whether a signal has interrupted the call before it did anything: it is made again.
    fn restarts(&self) -> Result<bool, RunError> {
        // ERESTARTSYS to ERESTART_RESTARTBLOCK, which no program sees.
        Ok((-516..=-512).contains(&(sys::registers(self.pid)?.rax as i64)))
    }

    fn finish(&mut self) -> Result<u64, RunError> {
        loop {
            match sys::wait(self.pid, true)? {
                Some((_, Change::Signal(libc::SIGTRAP))) => break,
                Some((_, Change::Gone)) => return Err(RunError::ProgramGone),
                // A group stop: the call is carried out all the same.
                _ => sys::step(self.pid)?,
            }
        }
        self.result()
    }

    /// Result of the call that has returned.
    fn result(&self) -> Result<u64, RunError> {
        let result = sys::registers(self.pid)?.rax as i64;
        if (-4095..0).contains(&result) {
            return Err(RunError::Io(io::Error::from_raw_os_error(-result as i32)));
        }
        Ok(result as u64)
    }
}

/// Ends the processes that share the memory of a thread under injection and are traced by this process: remains of a helper that could not
/// be created, or did not begin.
fn end_others_in(pid: Pid) {
    for other in sys::own_tracees() {
        if other != pid && sys::same_space(other, pid) {
            // It is traced: its process id cannot be reused before it is reaped.
            sys::kill_tracee(other);
        }
    }
}

/// The helper that a traced, new process creates; that process ends at once. It stays traced until then, so that no
/// signal of the same user can stop it.
fn helper_of(parent: Pid) -> Result<Pid, RunError> {
    let stops = |pid, event| loop {
        match sys::wait(pid, true)? {
            Some((_, Change::Event(found))) if found == event => return Ok(()),
            Some((_, Change::Gone)) => return Err(RunError::HelperLost),
            _ => sys::resume(pid, 0)?,
        }
    };
    stops(parent, libc::PTRACE_EVENT_STOP)?;
    sys::resume(parent, 0)?;
    // This process only makes this one call; it exits if the call fails.
    stops(parent, libc::PTRACE_EVENT_CLONE).map_err(|error| match error {
        RunError::HelperLost => RunError::TooManyProcesses,
        error => error,
    })?;
    let helper = sys::event_message(parent)?;
    stops(helper, libc::PTRACE_EVENT_STOP)?;
    sys::resume(parent, 0)?;
    while !matches!(sys::wait(parent, true)?, Some((_, Change::Gone))) {
        sys::resume(parent, 0)?;
    }
    Ok(helper)
}

/// Address of a `syscall` instruction in the vDSO of a process.
fn find_syscall(pid: Pid) -> Result<u64, RunError> {
    let vdso = areas::of(pid)?.into_iter().find(|area| area.name == "[vdso]").ok_or(RunError::NoVdso)?;
    let mut code = vec![0u8; vdso.length() as usize];
    if !sys::read_memory(pid, vdso.start, &mut code) {
        return Err(RunError::NoVdso);
    }
    let at = code.windows(2).position(|bytes| bytes == [0x0f, 0x05]).ok_or(RunError::NoVdso)?;
    Ok(vdso.start + at as u64)
}

/// Whether this is the request of a thread under injection.
pub(crate) fn is_question(notification: &Notification) -> bool {
    i64::from(notification.call) == libc::SYS_prctl && notification.args[0] == wire::PRCTL_MAGIC
}
