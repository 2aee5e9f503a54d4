//! The supervisor: one thread that answers the program's stopped system calls and injects helpers.
//!
//! It is the tracer of a thread only from the start to the end of an `execve` or a `fork`, so that debuggers work and
//! signals cost nothing in between.

mod calls;
mod jobs;
mod processes;

use crate::inject::{self, Kit};
use crate::listener::Listener;
use crate::report::{self, AddressSpaceReport, CompactionReport, RunReport};
use crate::space::{Settings, Space, Supply};
use crate::sys::{self, Notification, Pid, Poller};
use crate::wire::Reply;
use crate::{FrameChoice, RunError};
use calls::Plan;
use jobs::Job;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::OwnedFd;

/// A process of the run.
struct Process {
    handle: OwnedFd,
    space: u64,
}

/// Why a thread is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tracing {
    /// It is in `execve`.
    Exec,
    /// It has executed a program and is about to start it.
    Fresh,
    /// It is creating a process.
    Fork,
    /// It was just created; the space of its parent.
    Child(u64),
}

/// An address space with the calls that wait for its helper.
struct Served {
    space: Space,
    jobs: VecDeque<Job>,
    began: &'static str,
    first_pid: Pid,
    shared_by_fork: u64,
    /// Private file mappings that were too large to be copied, and their bytes.
    not_copied: (u64, u64),
    /// Its program has not been ended before its first instruction.
    ran: bool,
}

/// Ends of the channels the supervisor is started with.
pub(crate) struct Channels {
    /// The filter's listener.
    pub(crate) listener: OwnedFd,
    /// To the front process.
    pub(crate) front: OwnedFd,
}

/// Messages on the front socket begin with one of these.
pub(crate) mod word {
    /// Front: the program has ended.
    pub(crate) const ENDED: u8 = b'e';
    /// Supervisor: a line for the user.
    pub(crate) const TELL: u8 = b't';
    /// Supervisor: the report, as JSON.
    pub(crate) const REPORT: u8 = b'r';
}

const TOKEN_LISTENER: u64 = 0;
const TOKEN_SIGNALS: u64 = 1;
const TOKEN_FRONT: u64 = 2;
const TOKEN_SPACE: u64 = 1 << 32;
const TOKEN_PROCESS: u64 = 2 << 32;

/// The supervisor's state.
pub(crate) struct Supervisor {
    kit: Kit,
    settings: Settings,
    supply: Supply,
    listener: Listener,
    signals: OwnedFd,
    front: Option<OwnedFd>,
    poller: Poller,
    spaces: BTreeMap<u64, Served>,
    processes: BTreeMap<Pid, Process>,
    tracing: BTreeMap<Pid, Tracing>,
    /// Space in which a thread was seen last: a guess, verified before use.
    guesses: BTreeMap<Pid, u64>,
    next_space: u64,
    /// The process that the front waits for.
    program: Option<Pid>,
    /// The address space whose helper reads the listener.
    lane: Option<u64>,
    /// The program has ended, and the front waits for the report.
    ended: bool,
    report: RunReport,
}

impl Supervisor {
    pub(crate) fn new(
        settings: Settings,
        supply: Supply,
        channels: Channels,
        compaction: CompactionReport,
    ) -> Result<Supervisor, RunError> {
        let poller = Poller::new()?;
        let (signals, _) = sys::signals_as_file(&[libc::SIGCHLD])?;
        sys::prefer_same_cpu(&channels.listener);
        poller.add(&channels.listener, TOKEN_LISTENER)?;
        poller.add(&signals, TOKEN_SIGNALS)?;
        poller.add(&channels.front, TOKEN_FRONT)?;
        Ok(Supervisor {
            kit: Kit::new()?,
            settings,
            supply,
            listener: Listener::new(channels.listener),
            signals,
            front: Some(channels.front),
            poller,
            spaces: BTreeMap::new(),
            processes: BTreeMap::new(),
            tracing: BTreeMap::new(),
            guesses: BTreeMap::new(),
            next_space: 1,
            program: None,
            lane: None,
            ended: false,
            report: RunReport { compaction: Some(compaction), ..RunReport::default() },
        })
    }

    /// Serves until nobody is left who could ask.
    pub(crate) fn serve(&mut self) {
        while self.front.is_some() || !self.processes.is_empty() || !self.tracing.is_empty() {
            self.catch_up();
            self.assign_lane();
            if self.ended && self.tracing.is_empty() {
                self.send_report();
                self.front = None;
                self.ended = false;
                continue;
            }
            for (token, hung) in self.poller.wait(-1) {
                match token {
                    // Nobody with the filter is left; the front may still want the report.
                    TOKEN_LISTENER if hung => self.poller.remove(self.listener.fd()),
                    TOKEN_LISTENER => self.take_notification(),
                    TOKEN_SIGNALS => self.on_signals(),
                    TOKEN_FRONT => self.on_front(),
                    token if token & TOKEN_PROCESS != 0 => self.on_exit(token as u32 as Pid),
                    token => self.on_helper(token & 0xffff_ffff),
                }
            }
        }
    }

    /// Serves what came while something else was waited for.
    fn catch_up(&mut self) {
        loop {
            if let Some(notification) = self.next_passed_on() {
                self.on_notification(&notification);
            } else if let Some((id, reply)) = self.next_unheard() {
                self.on_reply(id, &reply);
            } else {
                return;
            }
        }
    }

    fn next_unheard(&mut self) -> Option<(u64, Reply)> {
        self.spaces.iter_mut().find_map(|(&id, served)| Some((id, served.space.unheard.pop_front()?)))
    }

    /// A notification that was taken by somebody who could not serve it.
    fn next_passed_on(&mut self) -> Option<Notification> {
        let early = self.listener.early.pop_front();
        early.or_else(|| self.spaces.values_mut().find_map(|served| served.space.forwarded.pop()))
    }

    /// With one address space in the run, its helper reads the listener and answers simple calls at once, without the
    /// detour through this process. Only for programs that have this process's privileges anyway: whoever holds the
    /// listener can act on every process of the run.
    fn assign_lane(&mut self) {
        if self.lane.is_some() || !self.settings.lane || self.spaces.len() != 1 || !self.tracing.is_empty() {
            return;
        }
        let Some((&id, served)) = self.spaces.iter_mut().next() else { return };
        if served.jobs.is_empty() && served.space.set_lane(&self.supply, Some(self.listener.fd())).is_ok() {
            self.poller.remove(self.listener.fd());
            self.lane = Some(id);
        }
    }

    /// Takes the listener back.
    fn end_lane(&mut self) {
        let Some(id) = self.lane.take() else { return };
        let _ = self.poller.add(self.listener.fd(), TOKEN_LISTENER);
        let lost = self.spaces.get_mut(&id).is_some_and(|served| served.space.set_lane(&self.supply, None).is_err());
        if lost {
            self.lose(id);
        }
    }

    // --- stopped system calls ---

    fn take_notification(&mut self) {
        if let Some(notification) = self.listener.take() {
            self.on_notification(&notification);
        }
    }

    fn on_notification(&mut self, notification: &Notification) {
        match i64::from(notification.call) {
            libc::SYS_execve | libc::SYS_execveat => self.trace(notification, Tracing::Exec),
            libc::SYS_fork | libc::SYS_clone => self.trace(notification, Tracing::Fork),
            libc::SYS_clone3 => self.on_clone3(notification),
            libc::SYS_prctl => {
                // Nobody but a thread under injection asks for descriptors; huge and merged pages stay off without a word.
                let value = if inject::is_question(notification) { -i64::from(libc::EINVAL) } else { 0 };
                sys::conclude(self.listener.fd(), notification.id, value);
            }
            _ => self.on_memory_call(notification),
        }
    }

    /// Becomes the tracer of a thread for the time of one call, and lets the call proceed.
    fn trace(&mut self, notification: &Notification, why: Tracing) {
        let pid = notification.thread as Pid;
        if !self.settings.children && (why == Tracing::Fork || !self.is_the_program(pid)) {
            if why == Tracing::Fork
                && let Some(space) = self.space_of(pid)
            {
                self.note_sharing(space);
            }
            return sys::proceed(self.listener.fd(), notification.id);
        }
        // A thread whose fork failed is still ours.
        let seized = if self.tracing.contains_key(&pid) { Ok(()) } else { sys::seize(pid) };
        match seized {
            Ok(()) => {
                self.tracing.insert(pid, why);
                if why == Tracing::Exec {
                    // It will stop when it leaves the kernel, whether or not the call succeeded. Asked for first, so
                    // that it cannot get as far as its next call. A fork would see it as a signal and start again;
                    // that one stops at its own event, and when it fails the thread stays seized until its next call.
                    let _ = sys::interrupt(pid);
                }
                sys::proceed(self.listener.fd(), notification.id);
            }
            Err(error) => {
                self.problem(format!(
                    "process {pid} is traced by another program ({error}): what it starts is not colored"
                ));
                if self.settings.strict {
                    sys::conclude(self.listener.fd(), notification.id, -i64::from(libc::EPERM));
                } else {
                    sys::proceed(self.listener.fd(), notification.id);
                }
            }
        }
    }

    /// A fork shares all private pages of an address space.
    fn note_sharing(&mut self, space: u64) {
        if let Some(served) = self.spaces.get_mut(&space) {
            let (right, wrong) = served.space.census(&*self.supply.choice);
            served.shared_by_fork = right + wrong;
        }
    }

    /// Whether a thread belongs to the program itself, and not to a process that it has started.
    fn is_the_program(&self, thread: Pid) -> bool {
        self.program.is_none_or(|program| thread_group(thread) == Some(program))
    }

    /// `clone3` keeps its flags in memory, where a filter cannot look.
    fn on_clone3(&mut self, notification: &Notification) {
        let mut flags = [0u8; 8];
        let known = sys::read_memory(notification.thread as Pid, notification.args[0], &mut flags);
        let flags = u64::from_le_bytes(flags);
        let has = |bits: i32| flags & bits as u64 != 0;
        let shares = has(libc::CLONE_VM) && has(libc::CLONE_THREAD | libc::CLONE_VFORK);
        if !known || shares {
            sys::proceed(self.listener.fd(), notification.id);
        } else {
            self.trace(notification, Tracing::Fork);
        }
    }

    /// A call that changes memory: the helper carries it out.
    fn on_memory_call(&mut self, notification: &Notification) {
        let Some(space) = self.space_of(notification.thread as Pid) else {
            return sys::proceed(self.listener.fd(), notification.id);
        };
        match self.plan_call(space, notification) {
            Plan::Proceed => sys::proceed(self.listener.fd(), notification.id),
            Plan::Conclude(value) => sys::conclude(self.listener.fd(), notification.id, value),
            Plan::Carry(steps, after_map) => {
                if let Some(refusal) = self.beyond_limits(space, notification) {
                    return sys::conclude(self.listener.fd(), notification.id, refusal);
                }
                let served = self.spaces.get_mut(&space).expect("found above");
                let id = Some(notification.id);
                let call = steps.front().map_or([0; 6], |step| step.request.args);
                let job = Job { notification: id, call, steps, after_map, result: 0, under_way: (0, false, false) };
                served.jobs.push_back(job);
                if served.jobs.len() == 1 {
                    self.advance(space);
                }
            }
        }
    }

    // --- the front ---

    fn on_front(&mut self) {
        let Some(front) = &self.front else { return };
        let mut bytes = [0u8; 16];
        let orderly = matches!(sys::receive_message(front, &mut bytes, false), Ok(message) if message.length > 0 && bytes[0] == word::ENDED);
        if orderly {
            // A child that is just being born belongs into the report.
            self.ended = true;
            self.poller.remove(front);
        } else {
            // The front was killed: so is everything it started.
            for process in self.processes.values() {
                sys::signal_process(&process.handle, libc::SIGKILL);
            }
            self.front = None;
        }
    }

    fn send_report(&mut self) {
        let Some(front) = &self.front else { return };
        let mut report = self.report.clone();
        let alive: BTreeSet<Pid> =
            self.processes.iter().filter(|(_, process)| !gone(&process.handle)).map(|(&pid, _)| pid).collect();
        report.still_running = Some(alive.len());
        report.address_spaces.extend(self.spaces.values().map(|served| served.report(&*self.supply.choice)));
        let mut message = vec![word::REPORT];
        message.extend(serde_json::to_vec(&report).unwrap_or_default());
        let _ = sys::send_message(front, &message, None);
    }

    fn not_colored(&mut self, pid: Pid, error: &RunError) {
        // One that has ended meanwhile needs no color.
        if !std::path::Path::new(&format!("/proc/{pid}")).exists() {
            return;
        }
        self.report.processes_not_colored += 1;
        self.problem(format!("process {pid} is not colored: {error}"));
        if self.settings.strict {
            // A strict program never runs uncolored.
            if let Ok(process) = sys::open_process(pid) {
                sys::signal_process(&process, libc::SIGKILL);
            }
        }
    }

    /// Notes a problem, and tells the user.
    fn problem(&mut self, text: String) {
        if let Some(front) = &self.front {
            let message: Vec<u8> = std::iter::once(word::TELL).chain(text.bytes()).collect();
            let _ = sys::send_message(front, &message, None);
        }
        self.report.problems.push(text);
    }
}

impl Served {
    /// What became of the address space; it still exists, through its helper.
    fn report(&self, choice: &dyn FrameChoice) -> AddressSpaceReport {
        let counters = self.space.counters();
        // What the kernel has laid down for a program that never ran is nobody's memory.
        let (right, wrong) = if self.ran { self.space.census(choice) } else { (0, 0) };
        AddressSpaceReport {
            pid: self.first_pid,
            program: self.space.program.clone(),
            began: self.began.to_owned(),
            faults: counters.faults,
            pages_in_color: counters.pages_in_color,
            pages_out_of_color: counters.pages_out_of_color,
            pages_refused: counters.pages_refused,
            scanned_pages: counters.scanned_pages,
            kept_pages: counters.kept_pages,
            recycled_pages: counters.recycled_pages,
            recolored_pages: counters.recolored_pages,
            copied_pages: counters.copied_pages,
            register_refused: counters.register_refused,
            move_refused: counters.move_refused,
            last_move_error: counters.last_move_error,
            pages_shared_by_fork: self.shared_by_fork,
            file_mappings_not_copied: self.not_copied.0,
            file_bytes_not_copied: self.not_copied.1,
            pages_in_color_at_end: right,
            pages_out_of_color_at_end: wrong,
            causes: report::causes(&counters, self.shared_by_fork, self.not_copied.0, wrong, self.began == "fork"),
            ran: self.ran,
            pool_build_ns: counters.grow_ns,
        }
    }
}

/// The process a thread belongs to.
fn thread_group(thread: Pid) -> Option<Pid> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

fn gone(process: &OwnedFd) -> bool {
    let Ok(poller) = Poller::new() else { return true };
    poller.add(process, 0).is_err() || !poller.wait(0).is_empty()
}
