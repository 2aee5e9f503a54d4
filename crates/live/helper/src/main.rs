//! The helper: a process that shares the address space of a colored program, owns its frame pool and serves its faults.
//!
//! It is injected when a program starts (see `memtint-live`, module `inject`), runs from a read-only shared mapping
//! without a standard library, and keeps all state in the control area. It never reads frame numbers: which of its
//! fresh pages have the right color is the supervisor's answer to a question.
//!
//! One rule keeps it alive: it must never touch memory that is registered with its own userfaultfd unless the page is
//! known to be present, because nobody else would serve the fault.
#![no_std]
#![no_main]
#![deny(unsafe_op_in_unsafe_fn)]

#[path = "../../src/wire.rs"]
#[allow(dead_code)]
mod wire;

#[path = "../../src/confinement.rs"]
#[allow(dead_code)]
mod confinement;

mod kernel;
mod pool;

use kernel::{Errno, RawResult, UffdMsg};
use pool::Helper;
use wire::{Control, PAGE, Reply, Request, op, say};

// The two entry points, in this order at BLOB_BASE.
//
// gadget 0 (BLOB_BASE): `syscall; int3` carries out one system call for the injector and stops.
// gadget 1 (BLOB_BASE + 16): the same for `clone`. The child, which sees 0, creates the helper and ends at once: the
// program waits for it, and the helper becomes a child of the front, or of the system's reaper. A program that waits for all its
// children, of whatever kind, thus never waits for the helper. The one in between leaves the stack alone, so that the
// helper can have it.
core::arch::global_asm!(
    ".section .text.gadgets,\"ax\",@progbits",
    ".globl memtint_gadget_syscall",
    "memtint_gadget_syscall:",
    "syscall",
    "int3",
    ".balign 16, 0xcc",
    "memtint_gadget_clone:",
    "syscall",
    "test rax, rax",
    "jz 2f",
    "int3",
    "2: mov eax, 56",         // clone
    "mov edi, 0x100",         // CLONE_VM, no signal at its end
    "mov rsi, rsp",
    "xor edx, edx",
    "xor r10d, r10d",
    "xor r8d, r8d",
    "syscall",
    "test rax, rax",
    "jz 3f",
    "xor edi, edi",
    "mov eax, 60",            // exit
    "syscall",
    "3: xor ebp, ebp",
    "and rsp, -16",
    "call {start}",
    "ud2",
    ".text",
    start = sym start,
);

/// Runs the helper; called once on the helper's own stack.
extern "C" fn start() -> ! {
    // SAFETY: the injector mapped the control area, shared and writable, at CONTROL_BASE before it created this
    // process, and only this process uses the `state` in it.
    let control = unsafe { &mut *(wire::CONTROL_BASE as *mut Control) };
    kernel::leave_the_terminal();
    kernel::prefer_nodes(&control.nodes);
    let settled = kernel::settle_descriptors(control.socket, control.device);
    let ready = settled.and_then(|()| kernel::confine(control));
    control.counters.program_break = kernel::call(kernel::NR_BRK, [0; 6]).unwrap_or(0);
    let mut helper = Helper { control };
    let hello = match ready {
        Ok(()) => 0,
        Err(Errno(number)) => -i64::from(number),
    };
    helper.send(Reply { kind: say::HELLO, value: hello, ..Reply::default() });
    loop {
        helper.turn();
    }
}

/// See [`wire::NOT_ANONYMOUS`].
const NOT_ANONYMOUS: Errno = Errno(-wire::NOT_ANONYMOUS as i32);

impl Helper {
    /// Waits for a fault or a request and serves it.
    fn turn(&mut self) {
        if let Some((request, file)) = self.next_deferred() {
            return self.serve(&request, file);
        }
        let surplus = self.surplus();
        let listener = (self.control.state.lane == 1).then_some(wire::FD_LISTENER);
        let ready = kernel::wait(wire::FD_UFFD, wire::FD_SOCKET, listener, surplus > 0);
        // Serving one thing may take up another: a message is only read when it is certainly there, faults are read
        // without waiting.
        if ready.message {
            let (request, file) = self.receive();
            self.serve(&request, file);
        } else if ready.call {
            self.serve_call();
        } else if !ready.fault {
            self.shrink(surplus / 2 + 1);
        }
        if ready.fault {
            self.serve_faults();
        }
    }

    /// Answers a stopped call of the program, or passes it on to the supervisor.
    fn serve_call(&mut self) {
        let Some(stopped) = kernel::receive_call(wire::FD_LISTENER) else { return };
        let ours = self.is_simple(&stopped) && kernel::shares_memory(stopped.thread());
        if !ours || !kernel::is_unlimited(stopped.thread()) {
            return self.send(Reply { kind: say::FORWARD, extra: stopped.0, ..Reply::default() });
        }
        let a = stopped.arguments();
        let result = match stopped.number() {
            kernel::NR_MMAP => self.mmap(a, -1),
            kernel::NR_BRK => self.brk(a[0]),
            kernel::NR_MREMAP => self.mremap(a),
            _ => {
                let key = if stopped.number() == kernel::NR_PKEY_MPROTECT { a[3] } else { u64::MAX };
                match self.protect([a[0], a[1], a[2], key, 0, 0]) {
                    Err(NOT_ANONYMOUS) => {
                        return self.send(Reply { kind: say::FORWARD, extra: stopped.0, ..Reply::default() });
                    }
                    result => result,
                }
            }
        };
        kernel::conclude(wire::FD_LISTENER, &stopped, result);
    }

    /// Whether a call needs nothing but this address space: no file, no frame numbers, no decision.
    fn is_simple(&self, stopped: &kernel::Stopped) -> bool {
        let a = stopped.arguments();
        let is_ours = |at: u64, length: u64| at < wire::POOL_END && at.saturating_add(length) > wire::BLOB_BASE;
        match stopped.number() {
            kernel::NR_MMAP => {
                let anonymous = a[3] & kernel::MAP_ANONYMOUS != 0;
                let fills = a[3] & (kernel::MAP_LOCKED | kernel::MAP_POPULATE) != 0;
                anonymous && !fills && !is_ours(a[0], a[1])
            }
            // A heap that shrinks gives pages back, whose color the supervisor looks up.
            kernel::NR_BRK => a[0] == 0 || a[0] >= self.control.counters.program_break,
            kernel::NR_MREMAP => !is_ours(a[0], a[1]) && !is_ours(a[4], a[2]),
            kernel::NR_MPROTECT | kernel::NR_PKEY_MPROTECT => !is_ours(a[0], a[1]),
            _ => false,
        }
    }

    /// Makes memory writable. A private file mapping among it would take its written pages from anywhere: the supervisor
    /// has it copied first.
    fn protect(&mut self, a: [u64; 6]) -> RawResult {
        let length = a[1].saturating_add(PAGE - 1) & !(PAGE - 1);
        // Watching what is watched already changes nothing, and is refused for files.
        if a[4] == 0 && length > 0 && kernel::register(wire::FD_UFFD, a[0], length) == Err(Errno::INVALID) {
            return Err(NOT_ANONYMOUS);
        }
        match a[3] {
            u64::MAX => kernel::call(kernel::NR_MPROTECT, [a[0], a[1], a[2], 0, 0, 0]),
            key => kernel::call(kernel::NR_PKEY_MPROTECT, [a[0], a[1], a[2], key, 0, 0]),
        }
    }

    /// Begins or ends to answer stopped calls.
    fn set_lane(&mut self, on: bool, file: i32) -> RawResult {
        self.control.state.lane = u64::from(on);
        if on {
            kernel::settle(file, wire::FD_LISTENER);
        } else {
            kernel::close(wire::FD_LISTENER);
        }
        Ok(0)
    }

    fn serve_faults(&mut self) {
        let mut messages = [UffdMsg::default(); 16];
        let count = kernel::read_faults(wire::FD_UFFD, &mut messages);
        for message in &messages[..count] {
            if message.event == kernel::UFFD_EVENT_PAGEFAULT {
                self.control.counters.faults += 1;
                self.serve_fault(message.address & !(PAGE - 1));
            }
        }
    }

    /// Next message of the supervisor; ends the program when the supervisor is gone.
    fn receive(&mut self) -> (Request, i32) {
        match kernel::receive(wire::FD_SOCKET) {
            Some(message) => message,
            None => kernel::end_with(self.control.target),
        }
    }

    fn send(&mut self, reply: Reply) {
        if !kernel::send(wire::FD_SOCKET, &reply) {
            kernel::end_with(self.control.target);
        }
    }

    /// Carries out one request and reports its result.
    fn serve(&mut self, request: &Request, file: i32) {
        let a = request.args;
        let result = match request.op {
            op::MMAP => self.mmap(a, file),
            op::BRK => {
                self.recycle(a[1] as usize);
                self.brk(a[0])
            }
            op::MREMAP => self.mremap(a),
            op::MUNMAP => {
                self.recycle(a[2] as usize);
                kernel::call(kernel::NR_MUNMAP, [a[0], a[1], 0, 0, 0, 0])
            }
            op::MADVISE => {
                // Locked memory is not given up: the kernel refuses.
                if self.control.state.locks == 0 || self.is_unlocked(a[0], a[1]) {
                    self.recycle(a[3] as usize);
                }
                kernel::call(kernel::NR_MADVISE, [a[0], a[1], a[2], 0, 0, 0])
            }
            // What is to be locked has been filled. Without this flag the kernel would fill what grows later, and wait
            // for this process to serve it.
            op::MLOCK => {
                self.control.state.locks = 1;
                kernel::call(kernel::NR_MLOCK2, [a[0], a[1], a[2] | kernel::MLOCK_ONFAULT, 0, 0, 0])
            }
            op::MUNLOCK => kernel::call(kernel::NR_MUNLOCK, [a[0], a[1], 0, 0, 0, 0]),
            op::MLOCKALL => {
                self.control.state.locks = 1;
                kernel::call(kernel::NR_MLOCKALL, [a[0], 0, 0, 0, 0, 0])
            }
            op::MUNLOCKALL => kernel::call(kernel::NR_MUNLOCKALL, [0; 6]),
            op::REGISTER => kernel::register(wire::FD_UFFD, a[0], a[1]).map(|()| 0),
            op::RECOLOR => self.recolor(a[0] as usize),
            op::COPY => self.copy_file(a[0], a[1], a[2]),
            op::REWRITE => self.rewrite(a[0] as usize, a[1]),
            op::FILL => self.fill_protected(a[0], a[1], a[2]),
            op::UNREGISTER => {
                kernel::unregister(wire::FD_UFFD, a[0], a[1]);
                Ok(0)
            }
            op::GROW => self.grow(a[0]),
            op::LANE => self.set_lane(a[0] == 1, file),
            op::PROTECT => self.protect(a),
            _ => Err(Errno::INVALID),
        };
        if file >= 0 && request.op != op::LANE {
            kernel::close(file);
        }
        let value = match result {
            Ok(value) => value as i64,
            Err(Errno(number)) => -i64::from(number),
        };
        self.send(Reply { kind: say::DONE, id: request.id, value, ..Reply::default() });
    }

    /// Maps memory for the program and watches it.
    ///
    /// The supervisor has taken MAP_POPULATE and MAP_LOCKED out of the flags: both would let the kernel fill the
    /// area before it is watched. A private file mapping arrives here only if it may be copied: it is copied into color
    /// before the call returns.
    fn mmap(&mut self, a: [u64; 6], file: i32) -> RawResult {
        let anonymous = a[3] & kernel::MAP_ANONYMOUS != 0;
        let fd = if anonymous { u64::MAX } else { file as u64 };
        let length = (a[1] + PAGE - 1) & !(PAGE - 1);
        let address = kernel::call(kernel::NR_MMAP, [a[0], a[1], a[2], a[3], fd, a[5]])?;
        if !anonymous {
            // On failure the mapping remains as the kernel made it.
            let _ = self.copy_file(address, length, a[2]);
            return Ok(address);
        }
        if self.watch(address, length) && a[2] & kernel::PROT_WRITE != 0 {
            self.fill_ahead(address, length).inspect_err(|_| {
                let _ = kernel::call(kernel::NR_MUNMAP, [address, length, 0, 0, 0, 0]);
            })?;
        }
        Ok(address)
    }

    /// Fills new memory now when the program has locked its future, or the user asked for memory in place.
    fn fill_ahead(&mut self, address: u64, length: u64) -> RawResult {
        let pages = length / PAGE;
        if self.control.fill_future == 1 {
            return self.fill(address, length);
        }
        if pages <= self.control.prefault_pages {
            self.control.prefault_pages -= pages;
            return self.fill(address, length);
        }
        Ok(0)
    }

    /// Registers; a refusal is counted and the memory stays the kernel's.
    fn watch(&mut self, address: u64, length: u64) -> bool {
        let done = length > 0 && kernel::register(wire::FD_UFFD, address, length).is_ok();
        if !done {
            self.control.counters.register_refused += 1;
        }
        done
    }

    fn brk(&mut self, wanted: u64) -> RawResult {
        let old = self.control.counters.program_break;
        let (old_end, new_end) = ((old + PAGE - 1) & !(PAGE - 1), wanted.saturating_add(PAGE - 1) & !(PAGE - 1));
        let new = self.move_break(wanted)?;
        if new == wanted && new_end > old_end {
            let length = new_end - old_end;
            if self.watch(old_end, length) {
                // A break that cannot be had stays where it was.
                return self.fill_ahead(old_end, length).map(|_| new).or_else(|_| self.move_break(old));
            }
        }
        Ok(new)
    }

    /// Moves the end of the heap, and remembers where it is.
    fn move_break(&mut self, wanted: u64) -> RawResult {
        let end = kernel::call(kernel::NR_BRK, [wanted, 0, 0, 0, 0, 0])?;
        self.control.counters.program_break = end;
        Ok(end)
    }

    fn mremap(&mut self, a: [u64; 6]) -> RawResult {
        let new = kernel::call(kernel::NR_MREMAP, [a[0], a[1], a[2], a[3], a[4], 0])?;
        let length = (a[2] + PAGE - 1) & !(PAGE - 1);
        // A move drops the registration, growth in place keeps it; registering again is harmless. Shared and file
        // mappings refuse, which is not a loss of color.
        let watched = kernel::register(wire::FD_UFFD, new, length).is_ok();
        // The kernel itself brings in what grows in locked memory: that much, and no more.
        let before = (a[1] + PAGE - 1) & !(PAGE - 1);
        if watched && length > before && self.control.state.locks == 1 && self.protection(new).locked {
            // Too late to refuse the call: what is missing is missed when it is touched.
            let _ = self.fill(new + before, length - before);
        }
        Ok(new)
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    kernel::exit(97)
}
