//! The supervisor: one thread that answers the program's stopped system calls, taken by another thread, and injects helpers.
//!
//! It traces a thread only from the start to the end of an `execve` or a `fork`, so that debuggers work and signals
//! cost nothing in between.

mod borrowed;
mod calls;
mod jobs;
mod processes;

use crate::filter;
use crate::inject::{self, Kit};
use crate::listener::Listener;
use crate::report::{self, AddressSpaceReport, CompactionReport, RunReport};
use crate::space::{Settings, Space, Supply};
use crate::sys::{self, Notification, Pid, Poller, Status};
use crate::wire::Reply;
use crate::{FrameChoice, RunError};
use calls::Plan;
use jobs::Job;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::time::Instant;

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
    /// It is creating a process; its space.
    Fork(u64),
    /// It was just created; the space of its parent.
    Child(u64),
    /// It does not belong to the run: it continues as soon as it has stopped.
    Stray,
}

/// An address space with the calls that wait for its helper.
struct Served {
    space: Space,
    jobs: VecDeque<Job>,
    began: &'static str,
    first_pid: Pid,
    shared_by_fork: u64,
    /// Number and bytes of writable private file mappings that were not copied.
    not_copied: (u64, u64),
    /// The program registered memory with its own userfaultfd.
    serves_itself: bool,
    /// Refusals that the helper has reported.
    refusals: u64,
    /// False if its program was ended before its first instruction.
    ran: bool,
}

/// Ends of the supervisor's channels.
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
    /// Supervisor: the report, as JSON in the file that comes along.
    pub(crate) const REPORT: u8 = b'r';
    /// Bytes of a line at most.
    pub(crate) const LINE_MAX: usize = 1 << 12;
}

/// Most problems in the list: a hostile program could cause any number.
const PROBLEMS_MAX: usize = 1000;
/// Longest wait for the front to read at the end.
const SENT_MS: i32 = 60_000;

const TOKEN_LISTENER: u64 = 0;
const TOKEN_SIGNALS: u64 = 1;
const TOKEN_FRONT: u64 = 2;
const TOKEN_CALLS: u64 = 3;
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
    /// Last known space of each thread: a guess, verified before use.
    guesses: BTreeMap<Pid, u64>,
    next_space: u64,
    /// The process that the front waits for.
    program: Option<Pid>,
    /// The address space whose helper reads the listener.
    lane: Option<u64>,
    /// The program has ended, and the front waits for the report.
    ended: bool,
    /// Some process still has the filter.
    filtered: bool,
    /// The front was killed: no process of the run may go on.
    front_lost: bool,
    report: RunReport,
    /// Lines that the front has not taken yet: it may have been stopped together with its program.
    unsent: VecDeque<Vec<u8>>,
    /// Problems omitted from the list.
    untold: u64,
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
        // The alternative to real-time priority. Set before the listener's thread begins, which inherits it.
        sys::shorten_slice(0);
        poller.add_for_end(&channels.listener, TOKEN_LISTENER)?;
        poller.add(&signals, TOKEN_SIGNALS)?;
        poller.add(&channels.front, TOKEN_FRONT)?;
        let listener = Listener::new(channels.listener)?;
        poller.add(listener.bell(), TOKEN_CALLS)?;
        Ok(Supervisor {
            kit: Kit::new()?,
            settings,
            supply,
            listener,
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
            filtered: true,
            front_lost: false,
            unsent: VecDeque::new(),
            untold: 0,
            report: RunReport { compaction: Some(compaction), ..RunReport::default() },
        })
    }

    /// Serves until no process has the filter. An uncolored process may outlive all colored ones; without a listener, its
    /// filtered calls would fail with ENOSYS.
    pub(crate) fn serve(&mut self) {
        while self.front.is_some() || self.filtered || !self.processes.is_empty() || !self.tracing.is_empty() {
            self.catch_up();
            self.flush(false);
            self.assign_lane();
            // A thread whose fork failed stays traced until its next call, but adds nothing to the report.
            let unborn = |tracing: &Tracing| matches!(tracing, Tracing::Child(_) | Tracing::Fresh | Tracing::Exec);
            if self.ended && !self.tracing.values().any(unborn) {
                self.send_report();
                self.ended = false;
                continue;
            }
            let timeout_ms = self.end_boosts();
            for (token, hung) in self.poller.wait(timeout_ms) {
                match token {
                    // No process has the filter any more; the front may still request the report.
                    TOKEN_LISTENER if hung => {
                        self.filtered = false;
                        self.poller.remove(self.listener.fd());
                    }
                    TOKEN_CALLS => self.on_calls(),
                    TOKEN_SIGNALS => self.on_signals(),
                    TOKEN_FRONT => self.on_front(),
                    token if token & TOKEN_PROCESS != 0 => self.on_exit(token as u32 as Pid),
                    token => self.on_helper(token & 0xffff_ffff),
                }
            }
        }
    }

    /// Ends the priority of helpers whose time is over; returns the milliseconds until the next end, -1 for none.
    fn end_boosts(&mut self) -> i32 {
        let spaces = self.spaces.values_mut().map(|served| &mut served.space);
        let next = spaces.filter_map(|space| {
            space.end_boost_in_time();
            space.boosted_until()
        });
        next.min().map_or(-1, |until| until.saturating_duration_since(Instant::now()).as_millis() as i32 + 1)
    }

    /// Serves the events that came during a wait for another one.
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

    /// A notification that a helper took and could not serve.
    fn next_passed_on(&mut self) -> Option<Notification> {
        let listener = self.listener.fd();
        self.spaces.values_mut().find_map(|served| served.space.passed_on(listener))
    }

    /// With one address space in the run, its helper reads the listener and answers simple calls at once, without the
    /// detour through this process. Only for programs that have this process's privileges: the listener gives power over
    /// every process of the run.
    fn assign_lane(&mut self) {
        if self.lane.is_some() || !self.settings.lane || self.spaces.len() != 1 || !self.tracing.is_empty() {
            return;
        }
        let Some((&id, served)) = self.spaces.iter_mut().next() else { return };
        // A program may have dropped privileges since it began.
        let may = served.jobs.is_empty() && served.space.users.iter().all(|&user| sys::is_as_privileged(user));
        if may && self.listener.lend() {
            match served.space.set_lane(&self.supply, Some(self.listener.fd())) {
                Ok(()) => self.lane = Some(id),
                // It may have the descriptor nonetheless.
                Err(_) => {
                    self.lose(id);
                    self.listener.take_back();
                }
            }
        }
    }

    /// Takes the listener back.
    fn end_lane(&mut self) {
        let Some(id) = self.lane.take() else { return };
        let lost = self.spaces.get_mut(&id).is_some_and(|served| served.space.set_lane(&self.supply, None).is_err());
        if lost {
            self.lose(id);
        }
        self.listener.take_back();
    }

    // --- stopped system calls ---

    /// Serves the calls taken so far: later ones are left to the next round, after all other events.
    fn on_calls(&mut self) {
        for notification in self.listener.taken() {
            self.on_notification(&notification);
        }
    }

    fn on_notification(&mut self, notification: &Notification) {
        if notification.call as u32 & !filter::X32_BIT == libc::SYS_pidfd_getfd as u32 {
            return self.on_taking_descriptors(notification);
        }
        match i64::from(notification.call) {
            libc::SYS_execve | libc::SYS_execveat => self.trace(notification, Tracing::Exec),
            // A process in the same memory that must not be traced, such as LeakSanitizer's: the same helper serves it.
            libc::SYS_clone if has_all(notification.args[0], libc::CLONE_VM | libc::CLONE_UNTRACED) => {
                sys::proceed(self.listener.fd(), notification.id);
            }
            libc::SYS_fork | libc::SYS_clone => self.trace_fork(notification),
            libc::SYS_clone3 => self.on_clone3(notification),
            libc::SYS_prctl if notification.args[0] as i32 == libc::PR_SET_SECCOMP => {
                match notification.args[1] as u32 {
                    libc::SECCOMP_MODE_STRICT => self.refuse_strict_mode(notification),
                    _ => sys::proceed(self.listener.fd(), notification.id),
                }
            }
            libc::SYS_seccomp => self.refuse_strict_mode(notification),
            libc::SYS_prctl
                if [libc::PR_CAPBSET_DROP, libc::PR_SET_SECUREBITS].contains(&(notification.args[0] as i32)) =>
            {
                self.on_fewer_privileges(notification);
            }
            libc::SYS_setuid
            | libc::SYS_setgid
            | libc::SYS_setreuid
            | libc::SYS_setregid
            | libc::SYS_setresuid
            | libc::SYS_setresgid
            | libc::SYS_setfsuid
            | libc::SYS_setfsgid
            | libc::SYS_setgroups
            | libc::SYS_capset
            | libc::SYS_unshare
            | libc::SYS_setns => self.on_fewer_privileges(notification),
            libc::SYS_prctl => {
                // Only a thread under injection requests descriptors; huge and merged pages silently stay off.
                let value = if inject::is_question(notification) { -i64::from(libc::EINVAL) } else { 0 };
                sys::conclude(self.listener.fd(), notification.id, value);
            }
            _ => self.on_memory_call(notification),
        }
    }

    /// A program is about to drop privileges.
    fn on_fewer_privileges(&mut self, notification: &Notification) {
        self.end_lane_for_good();
        sys::proceed(self.listener.fd(), notification.id);
    }

    /// From now on no helper of the run reads the listener: its program has fewer privileges than this process, or another process has the
    /// filter and no helper, and the helper of the first must not take its calls.
    fn end_lane_for_good(&mut self) {
        self.settings.lane = false;
        self.end_lane();
    }

    /// The kernel refuses strict mode under a filter, such as the runtime's.
    fn refuse_strict_mode(&mut self, notification: &Notification) {
        sys::conclude(self.listener.fd(), notification.id, -i64::from(libc::EINVAL));
        self.problem_once(
            "SECCOMP_MODE_STRICT is refused with EINVAL: the runtime's own filter excludes it".to_owned(),
        );
    }

    /// A program takes a descriptor of another process, which could be a helper: its userfaultfd serves faults in the kernel, which
    /// unprivileged programs may not do by themselves. The target process could change between a check and the call, so the call is refused
    /// unless the program could create such a userfaultfd itself.
    fn on_taking_descriptors(&mut self, notification: &Notification) {
        let thread = notification.thread as Pid;
        let may = sys::has_capability(thread, sys::CAP_SYS_PTRACE) && sys::is_as_privileged(thread);
        if may && sys::is_pending(self.listener.fd(), notification.id) {
            return sys::proceed(self.listener.fd(), notification.id);
        }
        sys::conclude(self.listener.fd(), notification.id, -i64::from(libc::EPERM));
        self.problem_once("pidfd_getfd is refused to programs with fewer privileges than memtint's own".to_owned());
    }

    fn trace_fork(&mut self, notification: &Notification) {
        let space = self.space_of(notification.thread as Pid).unwrap_or(0);
        self.trace(notification, Tracing::Fork(space));
    }

    /// Traces a thread for the duration of one call, and lets the call proceed.
    fn trace(&mut self, notification: &Notification, why: Tracing) {
        let pid = notification.thread as Pid;
        let forks = matches!(why, Tracing::Fork(_));
        if !self.settings.children && (forks || !self.is_the_program(pid)) {
            if let Tracing::Fork(space) = why {
                self.note_sharing(space);
            }
            self.end_lane_for_good();
            return sys::proceed(self.listener.fd(), notification.id);
        }
        // The thread was killed while its call waited; its number may have been reused.
        if !sys::is_pending(self.listener.fd(), notification.id) {
            return;
        }
        // A thread whose fork failed is still traced.
        let seized = if self.tracing.contains_key(&pid) { Ok(()) } else { sys::seize(pid) };
        match seized {
            // The thread was killed before it was seized, and its number may have been reused.
            Ok(()) if !sys::is_pending(self.listener.fd(), notification.id) => {
                self.tracing.insert(pid, Tracing::Stray);
                let _ = sys::interrupt(pid);
            }
            Ok(()) => {
                self.tracing.insert(pid, why);
                if why == Tracing::Exec {
                    // The thread stops when it leaves the kernel, whether or not the call succeeded. Interrupt first,
                    // so that it cannot reach its next call. A fork would treat this as a signal and restart; it stops
                    // at its own event instead. If it fails, the thread stays seized until its next call.
                    let _ = sys::interrupt(pid);
                }
                sys::proceed(self.listener.fd(), notification.id);
            }
            Err(error) => {
                self.problem(format!(
                    "process {pid} is traced by another program ({error}): the processes and programs it starts are not colored"
                ));
                if self.settings.strict {
                    sys::conclude(self.listener.fd(), notification.id, -i64::from(libc::EPERM));
                } else {
                    self.end_lane_for_good();
                    sys::proceed(self.listener.fd(), notification.id);
                }
            }
        }
    }

    /// A fork makes all private pages of an address space shared.
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

    /// `clone3` keeps its flags in memory, which a filter cannot read.
    fn on_clone3(&mut self, notification: &Notification) {
        let mut flags = [0u8; 8];
        let known = sys::read_memory(notification.thread as Pid, notification.args[0], &mut flags);
        let flags = u64::from_le_bytes(flags);
        let has = |bits: i32| flags & bits as u64 != 0;
        let shares = has(libc::CLONE_VM) && has(libc::CLONE_THREAD | libc::CLONE_VFORK | libc::CLONE_UNTRACED);
        if !known || shares {
            sys::proceed(self.listener.fd(), notification.id);
        } else {
            self.trace_fork(notification);
        }
    }

    /// A call that changes memory: the helper carries it out.
    fn on_memory_call(&mut self, notification: &Notification) {
        let Some(space) = self.space_of(notification.thread as Pid) else {
            return sys::proceed(self.listener.fd(), notification.id);
        };
        let plan = self.plan_call(space, notification);
        // If the thread has ended, its number may have been reused: space and plan may be those of another thread.
        if !sys::is_pending(self.listener.fd(), notification.id) {
            return;
        }
        let id = notification.id;
        match plan {
            Plan::Proceed => sys::proceed(self.listener.fd(), id),
            Plan::Conclude(value) => sys::conclude(self.listener.fd(), id, value),
            Plan::Carry(steps, ending) => {
                if let Some(refusal) = self.beyond_limits(space, notification) {
                    return sys::conclude(self.listener.fd(), id, refusal);
                }
                let Some(served) = self.spaces.get_mut(&space) else {
                    // The program is being ended.
                    return sys::conclude(self.listener.fd(), id, -i64::from(libc::ENOMEM));
                };
                let call = steps.front().map_or([0; 6], |step| step.request.args);
                let under_way = (0, false, false);
                served.jobs.push_back(Job {
                    notification: Some(id),
                    call,
                    steps,
                    ending,
                    copied: false,
                    result: 0,
                    under_way,
                });
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
            // The report must include a child under construction.
            self.ended = true;
            self.poller.remove(front);
        } else {
            // The broker has a copy of this socket: closing this one would not end the events.
            self.poller.remove(front);
            // The front was killed: kill all processes of the run.
            for process in self.processes.values() {
                sys::signal_process(&process.handle, libc::SIGKILL);
            }
            self.front = None;
            self.front_lost = true;
        }
    }

    fn send_report(&mut self) {
        self.flush(true);
        let Some(front) = self.front.take() else { return };
        let mut report = self.report.clone();
        let alive: BTreeSet<Pid> =
            self.processes.iter().filter(|(_, process)| !gone(&process.handle)).map(|(&pid, _)| pid).collect();
        report.still_running = Some(alive.len());
        report.address_spaces.extend(self.spaces.values().map(|served| served.report(&*self.supply.choice)));
        if self.untold > 0 {
            report.problems.push(format!("{} more problems are not listed", self.untold));
        }
        // In a file: the report on many processes exceeds a message.
        let sent = sys::memory_file("memtint-report", 0).and_then(|file| {
            let mut writer = io::BufWriter::new(std::fs::File::from(file.try_clone()?));
            serde_json::to_writer(&mut writer, &report)?;
            writer.flush()?;
            sys::send_message_in_time(&front, &[word::REPORT], Some(&file), SENT_MS)
        });
        if let Err(error) = sent {
            eprintln!("memtint: the report could not be sent: {error}");
        }
    }

    fn not_colored(&mut self, pid: Pid, error: &RunError) {
        // An ended process needs no color, and its id may have been reused.
        if matches!(error, RunError::ProgramGone) || !std::path::Path::new(&format!("/proc/{pid}")).exists() {
            return;
        }
        self.end_lane_for_good();
        self.report.processes_not_colored += 1;
        self.problem(format!("process {pid} is not colored: {error}"));
        if self.settings.strict || self.front_lost {
            // A strict program never runs uncolored.
            if let Ok(process) = sys::open_process(pid) {
                sys::signal_process(&process, libc::SIGKILL);
            }
        }
    }

    /// Records a problem once.
    pub(super) fn problem_once(&mut self, text: String) {
        if !self.report.problems.contains(&plain(&text)) {
            self.problem(text);
        }
    }

    /// Records a problem, and reports it to the user.
    fn problem(&mut self, text: String) {
        let text = plain(&text);
        if self.report.problems.len() >= PROBLEMS_MAX {
            self.untold += 1;
            return;
        }
        let line: Vec<u8> = std::iter::once(word::TELL).chain(text.bytes().take(word::LINE_MAX)).collect();
        self.unsent.push_back(line);
        self.flush(false);
        self.report.problems.push(text);
    }

    /// Sends the pending lines to the front; waits until it reads if necessary (`patiently`).
    fn flush(&mut self, patiently: bool) {
        let Some(front) = &self.front else { return self.unsent.clear() };
        while let Some(line) = self.unsent.front() {
            match sys::send_message_in_time(front, line, None, if patiently { SENT_MS } else { 0 }) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !patiently => return,
                _ => drop(self.unsent.pop_front()),
            }
        }
    }
}

impl Served {
    /// The report on the address space, which still exists through its helper.
    fn report(&self, choice: &dyn FrameChoice) -> AddressSpaceReport {
        let counters = self.space.counters();
        // Pages that the kernel prepared for a program that never ran do not count.
        let (right, wrong) = if self.ran { self.space.census(choice) } else { (0, 0) };
        let from_fork = self.began == "fork";
        // After a fork, written pages of files have the same cause as all others.
        let unforked = !from_fork && self.shared_by_fork == 0;
        let of_files = self.not_copied.0 > 0 || (wrong > 0 && unforked && self.space.has_files_out_of_color(choice));
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
            serves_itself: self.serves_itself,
            pages_in_color_at_end: right,
            pages_out_of_color_at_end: wrong,
            causes: report::causes(&counters, self.shared_by_fork, of_files, wrong, from_fork),
            ran: self.ran,
            pool_build_ns: counters.grow_ns,
        }
    }
}

/// Replaces control characters: the program chooses its file names, which must not reach a terminal unescaped.
fn plain(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

/// The process a thread belongs to.
fn thread_group(thread: Pid) -> Option<Pid> {
    Status::of(thread).number("Tgid")?.try_into().ok()
}

fn has_all(flags: u64, bits: i32) -> bool {
    flags & bits as u64 == bits as u64
}

fn gone(process: &OwnedFd) -> bool {
    let Ok(poller) = Poller::new() else { return true };
    poller.add(process, 0).is_err() || !poller.wait(0).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_command_a_terminal() {
        assert_eq!(plain("/tmp/\u{1b}[2Jname\n: \u{9b}x"), "/tmp/\u{fffd}[2Jname\u{fffd}: \u{fffd}x");
        assert_eq!(plain("/tmp/Käse (deleted)"), "/tmp/Käse (deleted)");
    }
}
