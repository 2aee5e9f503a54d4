//! Putting a helper into an address space whose only thread is stopped.
//!
//! The thread is made to carry out a few system calls: first at a `syscall` instruction of the vDSO, then at the
//! helper's own. Descriptors come to it through the system-call filter: it asks by a `prctl` that the kernel does not
//! know, and the supervisor answers with a descriptor. Nothing of the program's memory is written.

use crate::RunError;
use crate::areas;
use crate::listener::Listener;
use crate::space::{Cradle, Settings, Space};
use crate::sys::{self, Change, Notification, Pid};
use crate::wire;
use libc::user_regs_struct;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Files that every address space of a run is given.
pub(crate) struct Kit {
    /// The helper's code.
    pub(crate) blob: OwnedFd,
    /// `/dev/userfaultfd`.
    pub(crate) device: OwnedFd,
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
        Ok(Kit { blob, device: device.map_err(RunError::Userfaultfd)?.into() })
    }
}

/// A stopped thread that carries out system calls for us.
struct Puppet<'a> {
    pid: Pid,
    saved: user_regs_struct,
    saved_mask: u64,
    gadget: u64,
    listener: &'a mut Listener,
}

/// Gives the address space of the stopped thread `pid` a helper; the thread is as before, and still stopped.
pub(crate) fn inject(
    kit: &Kit,
    settings: &Settings,
    looks_per_page: f64,
    prefault_pages: u64,
    listener: &mut Listener,
    pid: Pid,
) -> Result<Space, RunError> {
    // `__USER32_CS` of the kernel. Such a program has no instruction that could be made to call as a 64-bit one does.
    const CODE_SEGMENT_32: u64 = 0x23;
    if sys::registers(pid)?.cs == CODE_SEGMENT_32 {
        return Err(RunError::NotX86_64);
    }
    let cradle = Cradle::new(settings, looks_per_page, prefault_pages, pid)?;
    let mut puppet = Puppet::new(pid, listener)?;
    let result = puppet.give_birth(kit, &cradle);
    // Whatever happened, the program goes on where it was.
    puppet.restore()?;
    result?;
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    cradle.greet(pid, program.to_string_lossy().into_owned())
}

impl<'a> Puppet<'a> {
    fn new(pid: Pid, listener: &'a mut Listener) -> Result<Puppet<'a>, RunError> {
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

    fn give_birth(&mut self, kit: &Kit, cradle: &Cradle) -> Result<(), RunError> {
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
                self.call(libc::SYS_madvise, [at, length, advice as u64, 0, 0, 0])?;
            }
        }
        let (socket, device) = (self.fetch(&cradle.helper_socket)?, self.fetch(&kit.device)?);
        cradle.set_descriptors(socket, device);
        // The helper is born at the helper's own `clone`, which the filter lets pass.
        let vdso = std::mem::replace(&mut self.gadget, wire::BLOB_BASE + 16);
        let flags = (libc::CLONE_VM | libc::CLONE_UNTRACED) as u64;
        let parent = self.call(libc::SYS_clone, [flags, wire::STACK_TOP, 0, 0, 0, 0]);
        self.gadget = vdso;
        // The helper's parent ends at once, and nobody but this call may learn of it.
        let reaped = parent.and_then(|parent| {
            let status = wire::CONTROL_BASE + std::mem::offset_of!(wire::Control, birth) as u64;
            self.call(libc::SYS_wait4, [parent, status, u64::from(libc::__WALL as u32), 0, 0, 0])
        });
        self.call(libc::SYS_close, [socket, 0, 0, 0, 0, 0])?;
        self.call(libc::SYS_close, [device, 0, 0, 0, 0, 0])?;
        reaped?;
        if cradle.is_stillborn() { Err(RunError::HelperLost) } else { Ok(()) }
    }

    /// Gives the thread a copy of `file` and returns its number there.
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
            Some(_) => Ok(sys::step(self.pid)?),
            None => Ok(()),
        }
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
        let result = sys::registers(self.pid)?.rax as i64;
        if (-4095..0).contains(&result) {
            return Err(RunError::Io(io::Error::from_raw_os_error(-result as i32)));
        }
        Ok(result as u64)
    }
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

/// True for the question of a thread under injection.
pub(crate) fn is_question(notification: &Notification) -> bool {
    i64::from(notification.call) == libc::SYS_prctl && notification.args[0] == wire::PRCTL_MAGIC
}
