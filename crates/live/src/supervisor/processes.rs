//! Processes of the run: their creation, their initial memory, their end.

use super::{Process, Served, Supervisor, TOKEN_PROCESS, TOKEN_SPACE, Tracing, thread_group};
use crate::RunError;
use crate::areas;
use crate::inject;
use crate::space::Space;
use crate::sys::{self, Change, Pid};
use crate::wire::{self, op};
use std::collections::VecDeque;

impl Supervisor {
    pub(super) fn on_signals(&mut self) {
        while sys::next_signal(&self.signals).is_some() {}
        while let Ok(Some((pid, change))) = sys::wait(-1, false) {
            self.on_change(pid, change);
        }
    }

    pub(super) fn on_change(&mut self, pid: Pid, change: Change) {
        if let Some((&id, served)) = self.spaces.iter().find(|(_, served)| served.space.helper == pid) {
            match change {
                // The helper blocks all signals that can be blocked: any other than SIGSTOP comes from a fault of the
                // helper.
                Change::Gone => self.lose(id),
                Change::Signal(signal) if signal != libc::SIGSTOP => self.lose(id),
                // A stop signal: resume the helper.
                _ => drop(sys::resume(served.space.helper, 0)),
            }
            return;
        }
        let state = self.tracing.get(&pid).copied();
        match (state, change) {
            (Some(Tracing::Stray), Change::Event(_)) => self.release(pid, 0),
            (state, Change::Gone) => {
                self.tracing.remove(&pid);
                if let Some(Tracing::Fork(space)) = state {
                    self.on_lost_fork(space);
                }
            }
            (_, Change::Event(libc::PTRACE_EVENT_EXEC)) => {
                // After an exec by a thread other than the first, the thread has the id of the first.
                if let Ok(former) = sys::event_message(pid) {
                    self.tracing.remove(&former);
                }
                self.tracing.insert(pid, Tracing::Fresh);
                // Registers are not final yet: interrupt it once more before its first instruction.
                let _ = sys::interrupt(pid);
                let _ = sys::resume(pid, 0);
            }
            (Some(Tracing::Fresh), Change::Event(libc::PTRACE_EVENT_STOP)) => self.on_fresh_program(pid),
            (
                Some(Tracing::Fork(_)),
                Change::Event(libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE),
            ) => {
                self.on_forked(pid);
            }
            (Some(Tracing::Child(parent)), Change::Event(libc::PTRACE_EVENT_STOP)) => self.on_child(pid, parent),
            // A child may stop before its parent's event is seen; it waits for it.
            (None, Change::Event(libc::PTRACE_EVENT_STOP)) => {
                self.tracing.insert(pid, Tracing::Child(0));
            }
            (_, Change::Event(_)) => self.release(pid, 0),
            (_, Change::Signal(signal)) => self.release(pid, signal),
        }
    }

    /// Stops tracing a stopped thread.
    pub(super) fn release(&mut self, pid: Pid, signal: i32) {
        self.tracing.remove(&pid);
        let _ = sys::detach(pid, signal);
    }

    /// A program has been loaded and has not run an instruction yet.
    pub(super) fn on_fresh_program(&mut self, pid: Pid) {
        self.leave_space(pid);
        match self.adopt(pid, "exec") {
            Ok(id) => {
                if let Err(error) = self.color_image(id, pid) {
                    self.does_not_run(id);
                    self.not_colored(pid, &error);
                }
            }
            Err(error) => self.not_colored(pid, &error),
        }
        self.release(pid, 0);
    }

    /// A thread was killed while it created a process, which still waits for it.
    fn on_lost_fork(&mut self, space: u64) {
        let waits = |(&pid, &why): (&Pid, &Tracing)| (why == Tracing::Child(0)).then_some(pid);
        let waiting: Vec<Pid> = self.tracing.iter().filter_map(waits).collect();
        waiting.into_iter().for_each(|child| self.on_child(child, space));
    }

    pub(super) fn on_forked(&mut self, parent: Pid) {
        let before = if let Some(&Tracing::Fork(space)) = self.tracing.get(&parent) { space } else { 0 };
        let space = self.space_of(parent).unwrap_or(before);
        let Ok(child) = sys::event_message(parent) else {
            self.on_lost_fork(space);
            return self.release(parent, 0);
        };
        if thread_group(child) != Some(child) {
            // A thread, created by one that has stayed traced since a fork of it failed.
            if self.tracing.insert(child, Tracing::Stray) == Some(Tracing::Child(0)) {
                self.release(child, 0);
            }
        } else {
            let shares = self.spaces.get(&space).is_some_and(|served| sys::same_space(child, served.space.helper));
            if !shares {
                self.note_sharing(space);
            }
            let waiting = self.tracing.insert(child, Tracing::Child(space)) == Some(Tracing::Child(0));
            if waiting {
                self.on_child(child, space);
            }
        }
        self.release(parent, 0);
    }

    /// A forked process has not run an instruction yet.
    pub(super) fn on_child(&mut self, pid: Pid, parent: u64) {
        if let Some(served) = self.spaces.get_mut(&parent)
            && sys::same_space(pid, served.space.helper)
        {
            // It shares its parent's memory.
            served.space.users.insert(pid);
            self.enroll(pid, parent);
        } else if parent != 0 {
            match self.adopt(pid, "fork") {
                Ok(id) => {
                    if let Err(error) = self.watch_everything(id) {
                        self.does_not_run(id);
                        self.not_colored(pid, &error);
                    }
                }
                Err(error) => self.not_colored(pid, &error),
            }
        }
        self.release(pid, 0);
    }

    /// Ends a strict program without color before it runs.
    fn does_not_run(&mut self, id: u64) {
        if let Some(served) = self.spaces.get_mut(&id) {
            served.ran = !self.settings.strict;
        }
    }

    /// Gives a stopped process a helper.
    pub(super) fn adopt(&mut self, pid: Pid, began: &'static str) -> Result<u64, RunError> {
        let id = self.next_space;
        self.next_space += 1;
        // The injected thread asks for descriptors through the listener.
        self.end_lane();
        let looks = self.supply.choice.looks_per_page();
        let program = *self.program.get_or_insert(pid);
        let prefault = if began == "exec" && pid == program { self.settings.prefault_pages } else { 0 };
        let injected = inject::inject(&self.kit, &self.settings, looks, prefault, &self.listener, pid);
        if injected.is_err() {
            self.end_stillborn();
        }
        let space = injected?;
        self.poller.add(&space.socket, TOKEN_SPACE | id)?;
        let served = Served {
            space,
            jobs: VecDeque::new(),
            began,
            first_pid: pid,
            shared_by_fork: 0,
            not_copied: (0, 0),
            serves_itself: false,
            refusals: 0,
            ran: true,
        };
        self.spaces.insert(id, served);
        self.enroll(pid, id);
        Ok(id)
    }

    /// Kills the remains of a failed injection: the process that was to create the helper, and the helper. If the program was killed
    /// meanwhile, they are alone in an address space that no helper serves.
    fn end_stillborn(&self) {
        let served = |pid: Pid| {
            let helpers = self.spaces.values().map(|served| served.space.helper);
            helpers.into_iter().any(|helper| helper == pid || sys::same_space(helper, pid))
        };
        let has_blob = |pid| areas::of(pid).unwrap_or_default().iter().any(|area| area.start == wire::BLOB_BASE);
        let known = |pid: &Pid| self.tracing.contains_key(pid) || served(*pid);
        sys::own_tracees().into_iter().filter(|pid| !known(pid) && has_blob(*pid)).for_each(sys::kill_tracee);
    }

    pub(super) fn enroll(&mut self, pid: Pid, space: u64) {
        if self.front_lost
            && let Ok(handle) = sys::open_process(pid)
        {
            // It was under construction when the others were killed.
            sys::signal_process(&handle, libc::SIGKILL);
        }
        if let Some(process) = self.processes.get_mut(&pid) {
            process.space = space;
        } else if let Ok(handle) = sys::open_process(pid)
            && self.poller.add(&handle, TOKEN_PROCESS | pid as u64).is_ok()
        {
            self.processes.insert(pid, Process { handle, space });
        }
    }

    pub(super) fn on_exit(&mut self, pid: Pid) {
        self.leave_space(pid);
        self.processes.remove(&pid);
        self.guesses.clear();
    }

    /// A process leaves its address space; the last one ends the helper.
    pub(super) fn leave_space(&mut self, pid: Pid) {
        let Some(process) = self.processes.get(&pid) else { return };
        let id = process.space;
        let Some(served) = self.spaces.get_mut(&id) else { return };
        served.space.users.remove(&pid);
        if !served.space.users.is_empty() {
            return;
        }
        if self.lane == Some(id) {
            self.end_lane();
        }
        let Some(mut served) = self.spaces.remove(&id) else { return };
        // Calls that the helper took are still answered: they may come from a process that shares the memory without
        // being counted.
        while let Some(taken) = served.space.passed_on(self.listener.fd()) {
            self.listener.keep(taken);
        }
        served.space.await_end();
        self.close_space(served);
    }

    pub(super) fn close_space(&mut self, served: Served) {
        let report = served.report(&*self.supply.choice);
        self.report.address_spaces.push(report);
        for job in served.jobs {
            if let Some(notification) = job.notification {
                sys::conclude(self.listener.fd(), notification, -i64::from(libc::ENOMEM));
            }
        }
        served.space.end();
        self.supply.broker.go_on();
        self.supply.broker.stir();
    }

    // --- existing memory ---

    /// Puts a freshly loaded program in color: stack, data, text.
    pub(super) fn color_image(&mut self, id: u64, pid: Pid) -> Result<(), RunError> {
        let image = areas::of(pid)?;
        let space = &mut self.spaces.get_mut(&id).ok_or(RunError::HelperLost)?.space;
        let prefault = if self.program == Some(pid) { self.settings.prefault_pages } else { 0 };
        let mut uncopied = false;
        let grown = space.ask(&self.supply, op::GROW, [64 + prefault, 0, 0, 0, 0, 0])?;
        let short = |space: &Space| RunError::Exhausted {
            colors: self.supply.choice.label(),
            limit: self.supply.broker.shortage(),
            missing: space.counters().missing_pages.max(1),
        };
        if grown < 0 && self.settings.strict {
            return Err(short(space));
        }
        for area in image.iter().filter(|area| area.is_private_file() && area.protection & 1 != 0) {
            let copied = space.ask(&self.supply, op::COPY, [area.start, area.length(), area.protection, 0, 0, 0])?;
            if copied == -i64::from(libc::ENOMEM) && self.settings.strict {
                return Err(short(space));
            }
            uncopied |= [libc::EACCES, libc::EPERM].iter().any(|&refusal| copied == -i64::from(refusal));
            // The kernel zeroed the part of the last data page that belongs to bss. Written code (uprobes) is left unchanged.
            let writable = area.protection & libc::PROT_WRITE as u64 != 0;
            let list = || space.list_pages(&*self.supply.choice, area.start, area.end, false);
            let written = if writable { list() } else { 0 };
            if written > 0 {
                space.ask(&self.supply, op::REWRITE, [written, area.protection, 0, 0, 0, 0])?;
            }
        }
        if uncopied {
            let program = space.program.clone();
            self.problem_once(format!(
                "{program}: memory that was written may not become executable (MemoryDenyWriteExecute): its code is not in color"
            ));
        }
        self.watch_everything(id)
    }

    /// Watches all private memory of a stopped process, and puts its existing pages in color.
    pub(super) fn watch_everything(&mut self, id: u64) -> Result<(), RunError> {
        let served = self.spaces.get_mut(&id).ok_or(RunError::HelperLost)?;
        let recolor = served.began == "exec";
        let space = &mut served.space;
        for area in areas::of(space.helper)?.iter().filter(|area| area.is_anonymous()) {
            space.ask(&self.supply, op::REGISTER, [area.start, area.length(), 0, 0, 0, 0])?;
            if recolor {
                let runs = space.list_pages(&*self.supply.choice, area.start, area.end, false);
                if runs > 0 {
                    space.ask(&self.supply, op::RECOLOR, [runs, 0, 0, 0, 0, 0])?;
                }
            }
        }
        Ok(())
    }
}
