//! The module's place in Linux: contexts of its handlers, texts written to its files, tracing and spinning.
//!
//! Sources: the module's code; `kernel/irq_work.c`, `kernel/time/hrtimer.c` and `kernel/smp.c` of Linux 6.12. Simplified: the bytes
//! behind a written text are those of the write before, as if the kernel's stack had not been used in between; where a text has no
//! number, the module goes on with a variable that is not initialized, and the model with the budget as it was; every call with
//! interrupts off is listed, though the kernel complains of the first only.

use std::collections::BTreeSet;

use super::{Defect, Released};

/// The kernel that the module is loaded into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Version and patch level.
    pub version: (u32, u32),
    /// Compiled with `CONFIG_PREEMPT_RT`: handlers that are not marked as hard run in threads, interrupts enabled.
    pub preempt_rt: bool,
}

/// The module cannot be compiled for a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{function} is not part of Linux {}.{} and newer", .since.0, .since.1)]
pub struct NotCompiled {
    /// The function that is missing.
    pub function: &'static str,
    /// Version without it.
    pub since: (u32, u32),
}

/// A diagnostic of the kernel for a handler of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Complaint {
    /// `BUG_ON`: an assertion of the module does not hold. In a timer's handler the machine stops; in that of an overflow the thread
    /// ends that executes it, and the core is never throttled again.
    Bug(&'static str),
    /// `WARN_ON`: a function that waits for other cores is called with interrupts off, from where two cores can wait for each
    /// other for ever.
    CallWithInterruptsOff,
}

/// The context of a handler.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context {
    in_hard_irq: bool,
    irqs_disabled: bool,
}

/// A handler of the module.
#[derive(Clone, Copy, Debug)]
pub(super) enum Handler {
    /// Of an `irq_work`, which an overflow queues.
    Overflow,
    /// Of an `hrtimer`.
    Period,
}

/// Size of the buffer for a written text (`BUF_SIZE`).
const BUFFER: usize = 256;

/// State of the module outside its algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Linux {
    kernel: Kernel,
    complaints: Vec<Complaint>,
    stopped: bool,
    /// Cores whose thread for overflows has ended.
    deserted: BTreeSet<usize>,
    trace_lines: u64,
    buffer: [u8; BUFFER],
}

impl Linux {
    pub(super) fn new() -> Linux {
        let kernel = Kernel { version: (6, 1), preempt_rt: false };
        let (complaints, deserted) = (Vec::new(), BTreeSet::new());
        Linux { kernel, complaints, stopped: false, deserted, trace_lines: 0, buffer: [0; BUFFER] }
    }

    /// A failed assertion has stopped the machine.
    pub(super) fn has_stopped(&self) -> bool {
        self.stopped
    }
}

/// A decimal number at the start of a text, after blanks, as `sscanf("%d")` reads it.
fn number(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii_start();
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&text[..digits]).ok()?.parse().ok()
}

impl Released {
    /// The same module in another kernel than 6.1 without PREEMPT_RT.
    ///
    /// # Errors
    ///
    /// A kernel without a function that the module calls.
    pub fn in_kernel(mut self, kernel: Kernel) -> Result<Released, NotCompiled> {
        let since = (6, 15);
        if self.has(Defect::RemovedFunction) && kernel.version >= since {
            return Err(NotCompiled { function: "hrtimer_init", since });
        }
        self.linux.kernel = kernel;
        Ok(self)
    }

    /// Diagnostics of the kernel so far.
    pub fn complaints(&self) -> &[Complaint] {
        &self.linux.complaints
    }

    /// Lines that overflows have written to the kernel's trace without being asked, one each. (Period starts write as well.)
    pub fn trace_lines(&self) -> u64 {
        self.linux.trace_lines
    }

    /// Whether the core executes instructions for nothing: takes power, and time from the other thread of an SMT core.
    pub fn is_spinning(&self, core: usize) -> bool {
        self.is_throttled(core) && self.has(Defect::SpinningWhileThrottled)
    }

    /// Budgets of the cores that are online, in events, separated by blanks, are written to the module's file; they hold from the next
    /// period on. A core without a number keeps its budget. After a 0, so do all that follow: it is parsed again for each.
    pub fn write_limits(&mut self, text: &str) {
        let length = text.len().min(BUFFER);
        if !self.has(Defect::UnterminatedText) {
            self.linux.buffer = [0; BUFFER];
        }
        self.linux.buffer[..length].copy_from_slice(&text.as_bytes()[..length]);
        let buffer = self.linux.buffer;
        let end = buffer.iter().position(|&byte| byte == 0).unwrap_or(BUFFER);
        let mut rest = Some(&buffer[..end]);
        for core in self.cores.iter_mut().filter(|core| core.online) {
            let Some(text) = rest else { break };
            match number(text) {
                Some(0) => continue,
                Some(limit) => core.next_limit = limit,
                None => {}
            }
            rest = text.iter().position(|&byte| byte == b' ').map(|blank| &text[blank + 1..]);
        }
    }

    fn context(&self) -> Context {
        let in_thread = self.linux.kernel.preempt_rt && self.has(Defect::AssertedContext);
        Context { in_hard_irq: !in_thread, irqs_disabled: !in_thread }
    }

    /// A handler begins on a core: whether it comes to its end.
    pub(super) fn enter(&mut self, handler: Handler, core: usize) -> bool {
        if self.linux.stopped || self.linux.deserted.contains(&core) && matches!(handler, Handler::Overflow) {
            return false;
        }
        let context = self.context();
        let (assertion, holds) = match handler {
            Handler::Overflow => ("in_irq()", context.in_hard_irq),
            Handler::Period => ("irqs_disabled()", context.irqs_disabled),
        };
        if !holds {
            self.linux.complaints.push(Complaint::Bug(assertion));
            match handler {
                Handler::Overflow => _ = self.linux.deserted.insert(core),
                Handler::Period => self.linux.stopped = true,
            }
        }
        holds
    }

    /// A handler lets a function run on other cores.
    pub(super) fn call_others(&mut self) {
        if self.has(Defect::CallWithInterruptsOff) && self.context().irqs_disabled {
            self.linux.complaints.push(Complaint::CallWithInterruptsOff);
        }
    }

    /// A handler writes to the trace.
    pub(super) fn trace(&mut self) {
        if self.has(Defect::AlwaysTracing) {
            self.linux.trace_lines += 1;
        }
    }
}
