//! Carrying out stopped calls with a helper, one request after the other.

use super::Supervisor;
use super::borrowed::Borrowed;
use super::calls::{COPY_MAX, Ending, Step, pages_up};
use crate::areas;
use crate::memory::MemoryLimits;
use crate::space::Space;
use crate::sys;
use crate::wire::{self, Reply, op, say};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// A stopped call that a helper carries out.
pub(super) struct Job {
    /// The waiting call; `None` for work of the supervisor.
    pub(super) notification: Option<u64>,
    /// Arguments of its first request.
    pub(super) call: [u64; 6],
    /// The remaining steps.
    pub(super) steps: VecDeque<Step>,
    /// How the call ends.
    pub(super) ending: Ending,
    /// Files that the call concerns have been replaced by copies.
    pub(super) copied: bool,
    /// Result of the step that counts, once it is done.
    pub(super) result: i64,
    /// The pending request: its id, whether its result counts, whether the call fails with it.
    pub(super) under_way: (u64, bool, bool),
}

impl Supervisor {
    /// Sends the next request of an address space; finishes jobs without further requests.
    pub(super) fn advance(&mut self, id: u64) {
        loop {
            let Some(served) = self.spaces.get_mut(&id) else { return };
            let Some(job) = served.jobs.front_mut() else { return };
            match job.steps.pop_front() {
                Some(step) => return self.begin_step(id, step),
                None => self.finish_job(id),
            }
        }
    }

    fn begin_step(&mut self, id: u64, Step { mut request, file, counts, vital }: Step) {
        let Some(served) = self.spaces.get_mut(&id) else { return };
        // Pages in color that are about to be released go back to the pool.
        let given_up = (request.args[0], request.args[0].saturating_add(request.args[1]));
        let list = |space: &Space| space.list_pages(&*self.supply.choice, given_up.0, given_up.1, true);
        match request.op {
            // The helper also moves the break by itself: its counters have the end of the heap.
            op::BRK => {
                let (end, heap_end) = (pages_up(request.args[0]), served.space.counters().program_break);
                // Below its start the heap does not shrink: the kernel leaves it unchanged.
                let start = areas::heap_start(served.space.helper).unwrap_or(heap_end);
                let shrinks = end >= start && end < heap_end;
                request.args[1] =
                    if shrinks { served.space.list_pages(&*self.supply.choice, end, heap_end, true) } else { 0 };
            }
            op::MUNMAP => request.args[2] = list(&served.space),
            op::MADVISE if request.args[2] == libc::MADV_DONTNEED as u64 => request.args[3] = list(&served.space),
            _ => {}
        }
        match (served.space.send(request, file.as_ref().map(Borrowed::fd)), served.jobs.front_mut()) {
            (Ok(request), Some(job)) => job.under_way = (request, counts, vital),
            _ => self.lose(id),
        }
    }

    pub(super) fn on_helper(&mut self, id: u64) {
        let Some(served) = self.spaces.get_mut(&id) else { return };
        match served.space.hear(&self.supply, false) {
            Ok(Some(reply)) => self.on_reply(id, &reply),
            Ok(None) => {}
            Err(_) => self.lose(id),
        }
    }

    pub(super) fn on_reply(&mut self, id: u64, reply: &Reply) {
        if reply.kind == say::REFUSED {
            return self.on_refusal(id, reply);
        }
        let Some(served) = self.spaces.get_mut(&id) else { return };
        let Some(job) = served.jobs.front_mut() else { return };
        let (request, counts, vital) = job.under_way;
        if reply.id != request {
            return;
        }
        // Only once: a correct helper does not return this again after the copy.
        if reply.value == wire::NOT_ANONYMOUS && !std::mem::replace(&mut job.copied, true) {
            return self.copy_then_protect(id);
        }
        if vital && reply.value < 0 {
            job.result = reply.value;
            job.steps.clear();
        }
        if counts {
            job.result = reply.value;
            if reply.value >= 0
                && let Ending::Mapped(after) = std::mem::replace(&mut job.ending, Ending::Result)
            {
                let at = reply.value as u64;
                if after.fill {
                    job.steps.push_back(Step::aside(op::FILL, [at, after.length, after.protection, 0, 0, 0]));
                }
                if after.lock {
                    job.steps.push_back(Step::aside(op::MLOCK, [at, after.length, 0, 0, 0, 0]));
                }
            }
        }
        self.advance(id);
    }

    /// Reports the first refusals; all are counted.
    fn on_refusal(&mut self, id: u64, reply: &Reply) {
        const TOLD: u64 = 8;
        let Some(served) = self.spaces.get_mut(&id) else { return };
        served.refusals += 1;
        let (program, refusals) = (served.space.program.clone(), served.refusals);
        if refusals > TOLD {
            return;
        }
        let (colors, [at, missing, ..]) = (self.supply.choice.label(), reply.extra);
        let effect = match at {
            0 => "the call fails with ENOMEM".to_owned(),
            at => format!("the page at {at:#x} raises SIGBUS"),
        };
        let why = self.supply.broker.shortage();
        let last = if refusals == TOLD { "; further refusals are counted without a message" } else { "" };
        self.problem(format!(
            "{program}: no frame in {colors} was found{why}, {missing} missing: {effect} (strict){last}"
        ));
    }

    /// Copies the parts of a library that are about to become writable, then changes the protection.
    pub(super) fn copy_then_protect(&mut self, id: u64) {
        // Keeps the mappings unchanged until they are copied: see `fills`.
        self.end_lane();
        let Some(served) = self.spaces.get_mut(&id) else { return };
        let Some(job) = served.jobs.front_mut() else { return };
        let [start, length, ..] = job.call;
        let end = pages_up(start.saturating_add(length));
        let mut left = Vec::new();
        let areas = areas::of(served.space.helper).unwrap_or_default();
        for area in &areas {
            let (from, to) = (area.start.max(start), area.end.min(end));
            // Another thread may be writing to an area that is writable already.
            let becomes_writable = area.is_private_file() && area.protection & 3 == 1;
            if from >= to || !becomes_writable {
                continue;
            }
            let may_copy = self.settings.copy_files || areas::has_code(&areas, area.inode, &area.name);
            if to - from > COPY_MAX || !may_copy {
                left.push((area.name.clone(), to - from));
            } else {
                job.steps.push_back(Step::aside(op::COPY, [from, to - from, area.protection, 0, 0, 0]));
            }
        }
        let mut call = job.call;
        call[4] = 1;
        job.steps.push_back(Step::call(op::PROTECT, call));
        for (file, bytes) in left {
            self.note_not_copied(id, &file, bytes);
        }
        self.advance(id);
    }

    fn finish_job(&mut self, id: u64) {
        let Some(served) = self.spaces.get_mut(&id) else { return };
        if let Some(job) = served.jobs.pop_front()
            && let Some(notification) = job.notification
        {
            if matches!(job.ending, Ending::Proceed) && job.result >= 0 {
                sys::proceed(self.listener.fd(), notification);
            } else {
                sys::conclude(self.listener.fd(), notification, job.result);
            }
        }
    }

    /// A helper is gone while its program lives: its faults and calls can no longer be served.
    pub(super) fn lose(&mut self, id: u64) {
        let Some(served) = self.spaces.remove(&id) else { return };
        let ended = self.ends_with_helper(&served.space);
        let users = || served.space.users.iter().filter_map(|user| self.processes.get(user));
        let all: Vec<&OwnedFd> = users().map(|user| &user.handle).chain([&served.space.helper_process]).collect();
        all.iter().for_each(|process| sys::signal_process(process, libc::SIGKILL));
        all.iter().for_each(|process| sys::await_killed(process));
        if self.lane == Some(id) {
            self.lane = None;
            self.listener.take_back();
        }
        if !ended {
            let limit = MemoryLimits::of_this_process().tight_limit();
            self.problem(format!("{}: the helper is lost{limit}, the program is ended", served.space.program));
        }
        self.close_space(served);
    }

    /// Whether the programs of an address space have ended, or are ending, together with its helper. The end of a
    /// process-id namespace or of a cgroup ends both, in no particular order.
    fn ends_with_helper(&self, space: &Space) -> bool {
        const MOMENT: Duration = Duration::from_millis(20);
        for attempt in 0..10 {
            if space.users.iter().all(|&user| sys::is_ending(user)) {
                return true;
            }
            if attempt < 9 {
                std::thread::sleep(MOMENT);
            }
        }
        false
    }
}
