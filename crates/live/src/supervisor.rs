//! The supervisor: one thread that answers the program's stopped system calls and injects helpers.
//!
//! It is the tracer of a thread only from the start to the end of an `execve` or a `fork`, so that debuggers work and
//! signals cost nothing in between.

use crate::areas;
use crate::inject::{self, Kit};
use crate::report::{self, AddressSpaceReport, RunReport};
use crate::space::{Settings, Space, Supply};
use crate::sys::{self, Change, Notification, Pid, Poller};
use crate::wire::{self, PAGE, Reply, Request, op, say};
use crate::{FrameChoice, RunError};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::fd::OwnedFd;

/// Private file mappings up to this size are copied when they are made; larger ones stay the kernel's.
const COPY_MAX: u64 = 256 << 20;

/// The listener of the filter, with notifications that came while waiting for another.
pub(crate) struct Listener {
    fd: OwnedFd,
    early: VecDeque<Notification>,
}

impl Listener {
    /// The descriptor.
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// The next notification, if there is one now.
    ///
    /// Asked first: taking one would wait, and the one that was announced may have been taken since, or its thread
    /// killed.
    fn take(&self) -> Option<Notification> {
        if !sys::is_readable(&self.fd, 0) {
            return None;
        }
        sys::receive_notification(&self.fd).ok()
    }

    /// The question of a thread under injection, if it comes within a moment; others are kept for later.
    pub(crate) fn question_of(&mut self, pid: Pid) -> Option<Notification> {
        const MOMENT_MS: i32 = 20;
        while sys::is_readable(&self.fd, MOMENT_MS) {
            match sys::receive_notification(&self.fd) {
                Ok(found) if found.thread as Pid == pid && inject::is_question(&found) => return Some(found),
                Ok(found) => self.early.push_back(found),
                Err(_) => return None,
            }
        }
        None
    }
}

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

/// A stopped call that a helper carries out.
struct Job {
    /// The waiting call; None for work of the supervisor's own.
    notification: Option<u64>,
    /// It is a `brk`.
    is_break: bool,
    /// Arguments of its first request.
    call: [u64; 6],
    /// What is still to be done.
    steps: VecDeque<Step>,
    /// For an `mmap`: fill and lock what was mapped.
    after_map: Option<AfterMap>,
    /// Result of the step that counts, once it is done.
    result: i64,
    /// The request that is under way: its id, whether its result counts, whether the call fails with it.
    under_way: (u64, bool, bool),
}

/// One request to a helper.
struct Step {
    request: Request,
    /// File that goes with it.
    file: Option<OwnedFd>,
    /// Its result is the result of the call.
    counts: bool,
    /// When it fails, so does the call.
    vital: bool,
}

impl Step {
    /// The program's own call.
    fn call(op: u32, args: [u64; 6]) -> Step {
        Step { request: Request { op, args, ..Request::default() }, file: None, counts: true, vital: false }
    }

    /// Work before or after it.
    fn aside(op: u32, args: [u64; 6]) -> Step {
        Step { counts: false, ..Step::call(op, args) }
    }
}

#[derive(Clone, Copy)]
struct AfterMap {
    length: u64,
    lock: bool,
}

/// An address space with the calls that wait for its helper.
struct Served {
    space: Space,
    jobs: VecDeque<Job>,
    began: &'static str,
    first_pid: Pid,
    shared_by_fork: u64,
    /// End of the heap, as far as the program has moved it.
    program_break: u64,
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
    report: RunReport,
}

impl Supervisor {
    pub(crate) fn new(settings: Settings, supply: Supply, channels: Channels) -> Result<Supervisor, RunError> {
        let poller = Poller::new()?;
        let signals = sys::signals_as_file(&[libc::SIGCHLD])?;
        sys::prefer_same_cpu(&channels.listener);
        poller.add(&channels.listener, TOKEN_LISTENER)?;
        poller.add(&signals, TOKEN_SIGNALS)?;
        poller.add(&channels.front, TOKEN_FRONT)?;
        Ok(Supervisor {
            kit: Kit::new()?,
            settings,
            supply,
            listener: Listener { fd: channels.listener, early: VecDeque::new() },
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
            report: RunReport::default(),
        })
    }

    /// Serves until nobody is left who could ask.
    pub(crate) fn serve(&mut self) {
        while self.front.is_some() || !self.processes.is_empty() {
            while let Some(notification) = self.next_passed_on() {
                self.on_notification(&notification);
            }
            self.assign_lane();
            for (token, hung) in self.poller.wait(-1) {
                match token {
                    // Nobody with the filter is left; the front may still want the report.
                    TOKEN_LISTENER if hung => self.poller.remove(&self.listener.fd),
                    TOKEN_LISTENER => self.take_notification(),
                    TOKEN_SIGNALS => self.on_signals(),
                    TOKEN_FRONT => self.on_front(),
                    token if token & TOKEN_PROCESS != 0 => self.on_exit(token as u32 as Pid),
                    token => self.on_helper(token & 0xffff_ffff),
                }
            }
        }
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
        if served.jobs.is_empty() && served.space.set_lane(&self.supply, Some(&self.listener.fd)).is_ok() {
            self.poller.remove(&self.listener.fd);
            self.lane = Some(id);
        }
    }

    /// Takes the listener back.
    fn end_lane(&mut self) {
        let Some(id) = self.lane.take() else { return };
        let _ = self.poller.add(&self.listener.fd, TOKEN_LISTENER);
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
                // Nobody but a thread under injection asks for descriptors; huge pages stay off without a word.
                let value = if inject::is_question(notification) { -i64::from(libc::EINVAL) } else { 0 };
                sys::conclude(&self.listener.fd, notification.id, value);
            }
            _ => self.on_memory_call(notification),
        }
    }

    /// Becomes the tracer of a thread for the time of one call, and lets the call proceed.
    fn trace(&mut self, notification: &Notification, why: Tracing) {
        let pid = notification.thread as Pid;
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
                sys::proceed(&self.listener.fd, notification.id);
            }
            Err(error) => {
                self.problem(format!(
                    "process {pid} is traced by another program ({error}): what it starts is not colored"
                ));
                if self.settings.strict {
                    sys::conclude(&self.listener.fd, notification.id, -i64::from(libc::EPERM));
                } else {
                    sys::proceed(&self.listener.fd, notification.id);
                }
            }
        }
    }

    /// `clone3` keeps its flags in memory, where a filter cannot look.
    fn on_clone3(&mut self, notification: &Notification) {
        let mut flags = [0u8; 8];
        let known = sys::read_memory(notification.thread as Pid, notification.args[0], &mut flags);
        let flags = u64::from_le_bytes(flags);
        let has = |bits: i32| flags & bits as u64 != 0;
        let shares = has(libc::CLONE_VM) && has(libc::CLONE_THREAD | libc::CLONE_VFORK);
        if !known || shares {
            sys::proceed(&self.listener.fd, notification.id);
        } else {
            self.trace(notification, Tracing::Fork);
        }
    }

    /// A call that changes memory: the helper carries it out.
    fn on_memory_call(&mut self, notification: &Notification) {
        let Some(space) = self.space_of(notification.thread as Pid) else {
            return sys::proceed(&self.listener.fd, notification.id);
        };
        match self.plan_call(space, notification) {
            Plan::Proceed => sys::proceed(&self.listener.fd, notification.id),
            Plan::Conclude(value) => sys::conclude(&self.listener.fd, notification.id, value),
            Plan::Carry(steps, after_map) => {
                if let Some(refusal) = self.beyond_limits(space, notification) {
                    return sys::conclude(&self.listener.fd, notification.id, refusal);
                }
                let served = self.spaces.get_mut(&space).expect("found above");
                let id = Some(notification.id);
                let is_break = i64::from(notification.call) == libc::SYS_brk;
                let call = steps.front().map_or([0; 6], |step| step.request.args);
                let job =
                    Job { notification: id, is_break, call, steps, after_map, result: 0, under_way: (0, false, false) };
                served.jobs.push_back(job);
                if served.jobs.len() == 1 {
                    self.advance(space);
                }
            }
        }
    }

    /// The refusal of a call that would exceed the program's resource limits.
    ///
    /// The kernel would count the pool, which lies in the same address space, and would look at the helper's limits:
    /// the helper has none, and what the program may have is checked here. Programs without limits pay nothing.
    fn beyond_limits(&self, space: u64, notification: &Notification) -> Option<i64> {
        let (a, thread) = (notification.args, notification.thread as Pid);
        let served = &self.spaces[&space];
        let no_memory = Some(-i64::from(libc::ENOMEM));
        let (grows_by, refusal) = match i64::from(notification.call) {
            libc::SYS_mmap => (a[1], no_memory),
            libc::SYS_mremap => (a[2].saturating_sub(a[1]), no_memory),
            libc::SYS_brk => (a[0].saturating_sub(served.program_break), Some(served.program_break as i64)),
            libc::SYS_mlock | libc::SYS_mlock2 | libc::SYS_mlockall => {
                return self.beyond_lock_limit(space, notification);
            }
            _ => return None,
        };
        let (space_limit, data_limit) = (sys::limit(libc::RLIMIT_AS, thread), sys::limit(libc::RLIMIT_DATA, thread));
        if grows_by == 0 || (space_limit.is_none() && data_limit.is_none()) {
            return None;
        }
        let areas = areas::of(served.space.helper).unwrap_or_default();
        let total = |wanted: &dyn Fn(&areas::Area) -> bool| {
            areas.iter().filter(|area| !area.is_ours() && wanted(area)).map(areas::Area::length).sum::<u64>()
        };
        let exceeds = |limit: Option<u64>, used: u64| limit.is_some_and(|limit| used.saturating_add(grows_by) > limit);
        let data = |area: &areas::Area| area.private && area.protection & 2 != 0 && area.name != "[stack]";
        let is_data = i64::from(notification.call) != libc::SYS_mmap || a[2] & libc::PROT_WRITE as u64 != 0;
        let beyond = exceeds(space_limit, total(&|_| true)) || (is_data && exceeds(data_limit, total(&data)));
        if beyond { refusal } else { None }
    }

    /// RLIMIT_MEMLOCK binds programs without CAP_IPC_LOCK; the helper, which locks for them, is not bound.
    fn beyond_lock_limit(&self, space: u64, notification: &Notification) -> Option<i64> {
        let thread = notification.thread as Pid;
        let limit = sys::limit(libc::RLIMIT_MEMLOCK, thread)?;
        let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        const CAP_IPC_LOCK: u64 = 1 << 14;
        let capabilities = field("CapEff:").and_then(|text| u64::from_str_radix(text, 16).ok()).unwrap_or(0);
        if capabilities & CAP_IPC_LOCK != 0 {
            return None;
        }
        let kib = |name| field(name).and_then(|text| text.trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0);
        let ours = self.spaces[&space].space.counters().pool_pages * PAGE;
        let all = i64::from(notification.call) == libc::SYS_mlockall;
        let wanted = if all {
            (kib("VmSize:") << 10).saturating_sub(ours)
        } else {
            (kib("VmLck:") << 10) + notification.args[1]
        };
        let refusal = if limit == 0 { libc::EPERM } else { libc::ENOMEM };
        (wanted > limit).then_some(-i64::from(refusal))
    }

    /// Decides what is done for a call.
    fn plan_call(&mut self, space: u64, notification: &Notification) -> Plan {
        let a = notification.args;
        let carry = |op, args| Plan::Carry(VecDeque::from([Step::call(op, args)]), None);
        match i64::from(notification.call) {
            libc::SYS_mmap => self.plan_mmap(notification),
            libc::SYS_brk => carry(op::BRK, a),
            libc::SYS_mremap => carry(op::MREMAP, a),
            libc::SYS_mprotect => carry(op::PROTECT, [a[0], a[1], a[2], u64::MAX, 0, 0]),
            libc::SYS_pkey_mprotect => carry(op::PROTECT, [a[0], a[1], a[2], a[3], 0, 0]),
            libc::SYS_munmap | libc::SYS_madvise => self.plan_release(space, notification),
            libc::SYS_mlock | libc::SYS_mlock2 => {
                let (start, end) = (a[0] & !(PAGE - 1), a[0].saturating_add(a[1]).next_multiple_of(PAGE));
                let flags = if i64::from(notification.call) == libc::SYS_mlock2 { a[2] } else { 0 };
                let fill = flags & u64::from(libc::MLOCK_ONFAULT) == 0;
                let mut steps = if fill { self.fills(space, start, end) } else { VecDeque::new() };
                steps.push_back(Step::call(op::MLOCK, [a[0], a[1], flags, 0, 0, 0]));
                Plan::Carry(steps, None)
            }
            libc::SYS_mlockall => self.plan_mlockall(space, a[0]),
            libc::SYS_munlock => carry(op::MUNLOCK, a),
            libc::SYS_munlockall => {
                self.spaces[&space].space.set_fill_future(false);
                carry(op::MUNLOCKALL, a)
            }
            _ => Plan::Proceed,
        }
    }

    fn plan_mmap(&mut self, notification: &Notification) -> Plan {
        let mut a = notification.args;
        let (flags, protection) = (a[3] as i32, a[2] as i32);
        let fixed = flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) != 0;
        if a[0] < wire::POOL_END && a[0].saturating_add(a[1]) > wire::BLOB_BASE {
            if fixed {
                return Plan::Conclude(-i64::from(libc::ENOMEM));
            }
            // Only a hint: the kernel finds another place.
            a[0] = 0;
        }
        let lock = flags & libc::MAP_LOCKED != 0;
        let fill = lock || flags & libc::MAP_POPULATE != 0;
        a[3] &= !((libc::MAP_LOCKED | libc::MAP_POPULATE) as u64);
        let mut file = None;
        if flags & libc::MAP_ANONYMOUS == 0 {
            // A loader first maps a whole library to reserve its place; the parts follow.
            let reservation = !fixed && protection & (libc::PROT_WRITE | libc::PROT_EXEC) == 0;
            if reservation || a[1] > COPY_MAX {
                return Plan::Proceed;
            }
            match self.descriptor(notification.thread as Pid, a[4] as i32) {
                Ok(found) => file = Some(found),
                Err(_) => return Plan::Proceed,
            }
        }
        let after_map = fill.then_some(AfterMap { length: a[1].next_multiple_of(PAGE), lock });
        Plan::Carry(VecDeque::from([Step { file, ..Step::call(op::MMAP, a) }]), after_map)
    }

    /// `munmap` and `madvise`: pages in color go back to the pool before the program gives them up.
    fn plan_release(&mut self, space: u64, notification: &Notification) -> Plan {
        let a = notification.args;
        let unmap = i64::from(notification.call) == libc::SYS_munmap;
        if !unmap {
            match a[2] as i32 {
                libc::MADV_DONTNEED => {}
                libc::MADV_HUGEPAGE | libc::MADV_MERGEABLE => return Plan::Conclude(0),
                libc::MADV_POPULATE_READ | libc::MADV_POPULATE_WRITE => {
                    let mut steps = self.fills(space, a[0], a[0].saturating_add(a[1]));
                    steps.push_back(Step::call(op::MADVISE, [a[0], a[1], a[2], 0, 0, 0]));
                    return Plan::Carry(steps, None);
                }
                _ => return Plan::Conclude(-i64::from(libc::EINVAL)),
            }
        }
        if a[0] < wire::POOL_END && a[0].saturating_add(a[1]) > wire::BLOB_BASE {
            return Plan::Conclude(-i64::from(libc::EINVAL));
        }
        // The run list is filled when the request is sent; see `advance`.
        let (op, advice) = if unmap { (op::MUNMAP, 0) } else { (op::MADVISE, a[2]) };
        Plan::Carry(VecDeque::from([Step::call(op, [a[0], a[1], advice, 0, 0, 0])]), None)
    }

    fn plan_mlockall(&mut self, space: u64, flags: u64) -> Plan {
        let (current, future) = (libc::MCL_CURRENT as u64, libc::MCL_FUTURE as u64);
        let on_fault = libc::MCL_ONFAULT as u64;
        if flags == 0 || flags & !(current | future | on_fault) != 0 || flags == on_fault {
            return Plan::Conclude(-i64::from(libc::EINVAL));
        }
        // The kernel would fill missing pages with frames of its own choice: it only locks, the helper fills.
        let mut steps = VecDeque::from([Step::call(op::MLOCKALL, [flags | on_fault, 0, 0, 0, 0, 0])]);
        if flags & on_fault == 0 {
            self.spaces[&space].space.set_fill_future(flags & future != 0);
            if flags & current != 0 {
                steps.extend(self.fills(space, 0, u64::MAX));
            }
        }
        Plan::Carry(steps, None)
    }

    /// Requests that bring in what is missing between two addresses.
    fn fills(&self, space: u64, start: u64, end: u64) -> VecDeque<Step> {
        let mut steps = VecDeque::new();
        for area in areas::of(self.spaces[&space].space.helper).unwrap_or_default() {
            let (from, to) = (area.start.max(start), area.end.min(end));
            let accessible = area.protection != 0 && !(wire::BLOB_BASE..wire::POOL_END).contains(&area.start);
            if from >= to || !accessible || area.name.starts_with("[v") {
                continue;
            }
            steps.push_back(if area.is_anonymous() && area.protection & 2 != 0 {
                Step { vital: true, ..Step::aside(op::FILL, [from, to - from, 0, 0, 0, 0]) }
            } else {
                Step::aside(op::MADVISE, [from, to - from, libc::MADV_POPULATE_READ as u64, 0, 0, 0])
            });
        }
        steps
    }

    fn descriptor(&self, thread: Pid, number: i32) -> io::Result<OwnedFd> {
        let group = thread_group(thread).ok_or(io::ErrorKind::NotFound)?;
        match self.processes.get(&group) {
            Some(process) => sys::descriptor_of(&process.handle, number),
            None => sys::descriptor_of(&sys::open_process(group)?, number),
        }
    }

    /// The address space of a thread.
    fn space_of(&mut self, thread: Pid) -> Option<u64> {
        let is = |served: &Served| sys::same_space(thread, served.space.helper);
        if let Some(guess) = self.guesses.get(&thread)
            && self.spaces.get(guess).is_some_and(is)
        {
            return Some(*guess);
        }
        let found = self.spaces.iter().find(|(_, served)| is(served)).map(|(&id, _)| id)?;
        self.guesses.insert(thread, found);
        Some(found)
    }

    // --- helpers ---

    /// Sends the next request of the first job of a space.
    fn advance(&mut self, id: u64) {
        let Some(served) = self.spaces.get_mut(&id) else { return };
        let Some(job) = served.jobs.front_mut() else { return };
        let Some(Step { mut request, file, counts, vital }) = job.steps.pop_front() else { return self.finish_job(id) };
        // Pages that are about to be given up and are in color go back to the pool.
        let given_up = (request.args[0], request.args[0].saturating_add(request.args[1]));
        let list = |space: &Space| space.list_pages(&*self.supply.choice, given_up.0, given_up.1, true);
        match request.op {
            op::BRK if request.args[0] != 0 && request.args[0] < served.program_break => {
                let end = request.args[0].next_multiple_of(PAGE);
                let heap_end = served.program_break;
                request.args[1] = served.space.list_pages(&*self.supply.choice, end, heap_end, true);
            }
            op::BRK => request.args[1] = 0,
            op::MUNMAP => request.args[2] = list(&served.space),
            op::MADVISE if request.args[2] == libc::MADV_DONTNEED as u64 => request.args[3] = list(&served.space),
            _ => {}
        }
        match served.space.send(request, file.as_ref()) {
            Ok(id) => job.under_way = (id, counts, vital),
            Err(_) => self.lose(id),
        }
    }

    fn on_helper(&mut self, id: u64) {
        let Some(served) = self.spaces.get_mut(&id) else { return };
        match served.space.hear(&self.supply, false) {
            Ok(Some(reply)) => self.on_reply(id, &reply),
            Ok(None) => {}
            Err(_) => self.lose(id),
        }
    }

    fn on_reply(&mut self, id: u64, reply: &Reply) {
        if reply.kind == say::REFUSED {
            let program = self.spaces[&id].space.program.clone();
            let colors = self.supply.choice.label();
            return self.problem(format!(
                "{program}: no frame in {colors} is left, {} missing: the page at {:#x} raises SIGBUS (strict)",
                reply.extra[1], reply.extra[0]
            ));
        }
        let Some(served) = self.spaces.get_mut(&id) else { return };
        let Some(job) = served.jobs.front_mut() else { return };
        let (request, counts, vital) = job.under_way;
        if reply.id != request {
            return;
        }
        if reply.value == wire::NOT_ANONYMOUS {
            return self.copy_then_protect(id);
        }
        if vital && reply.value < 0 {
            job.result = reply.value;
            job.steps.clear();
        }
        if counts {
            job.result = reply.value;
            if job.is_break && reply.value > 0 {
                served.program_break = reply.value as u64;
            }
            if let Some(after) = job.after_map.take()
                && reply.value >= 0
            {
                let at = reply.value as u64;
                job.steps.push_back(Step::aside(op::FILL, [at, after.length, 0, 0, 0, 0]));
                if after.lock {
                    job.steps.push_back(Step::aside(op::MLOCK, [at, after.length, 0, 0, 0, 0]));
                }
            }
        }
        self.advance(id);
    }

    /// A private file mapping becomes writable: it is replaced by a colored copy first.
    fn copy_then_protect(&mut self, id: u64) {
        let Some(served) = self.spaces.get_mut(&id) else { return };
        let Some(job) = served.jobs.front_mut() else { return };
        let [start, length, ..] = job.call;
        let end = start.saturating_add(length).next_multiple_of(PAGE);
        for area in areas::of(served.space.helper).unwrap_or_default() {
            let (from, to) = (area.start.max(start), area.end.min(end));
            if from < to && area.is_private_file() && area.protection & 1 != 0 && to - from <= COPY_MAX {
                job.steps.push_back(Step::aside(op::REPLACE, [from, to - from, area.protection, 0, 0, 0]));
            }
        }
        let mut call = job.call;
        call[4] = 1;
        job.steps.push_back(Step::call(op::PROTECT, call));
        self.advance(id);
    }

    fn finish_job(&mut self, id: u64) {
        let Some(served) = self.spaces.get_mut(&id) else { return };
        if let Some(job) = served.jobs.pop_front()
            && let Some(notification) = job.notification
        {
            sys::conclude(&self.listener.fd, notification, job.result);
        }
        if !served.jobs.is_empty() {
            self.advance(id);
        }
    }

    /// A helper is gone while its program lives: its faults and calls cannot be served any more.
    fn lose(&mut self, id: u64) {
        let Some(served) = self.spaces.remove(&id) else { return };
        if self.lane == Some(id) {
            self.end_lane();
        }
        if !served.space.users.is_empty() {
            self.problem(format!("{}: the helper is lost, the program is ended", served.space.program));
        }
        for user in &served.space.users {
            if let Some(process) = self.processes.get(user) {
                sys::signal_process(&process.handle, libc::SIGKILL);
            }
        }
        self.close_space(served);
    }

    // --- processes ---

    fn on_signals(&mut self) {
        while sys::next_signal(&self.signals).is_some() {}
        while let Ok(Some((pid, change))) = sys::wait(-1, false) {
            self.on_change(pid, change);
        }
    }

    fn on_change(&mut self, pid: Pid, change: Change) {
        let state = self.tracing.get(&pid).copied();
        match (state, change) {
            (_, Change::Gone) => {
                self.tracing.remove(&pid);
            }
            (_, Change::Event(libc::PTRACE_EVENT_EXEC)) => {
                // After an exec by another thread than the first, the thread has the id of the first.
                if let Ok(former) = sys::event_message(pid) {
                    self.tracing.remove(&former);
                }
                self.tracing.insert(pid, Tracing::Fresh);
                // Registers are not final yet: it is stopped once more, on its way to the first instruction.
                let _ = sys::interrupt(pid);
                let _ = sys::resume(pid, 0);
            }
            (Some(Tracing::Fresh), Change::Event(libc::PTRACE_EVENT_STOP)) => self.on_fresh_program(pid),
            (
                Some(Tracing::Fork),
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
    fn release(&mut self, pid: Pid, signal: i32) {
        self.tracing.remove(&pid);
        let _ = sys::detach(pid, signal);
    }

    /// A program has been loaded and has not run an instruction yet.
    fn on_fresh_program(&mut self, pid: Pid) {
        self.leave_space(pid);
        match self.adopt(pid, "exec") {
            Ok(id) => {
                if let Err(error) = self.color_image(id, pid) {
                    self.not_colored(pid, &error);
                }
            }
            Err(error) => self.not_colored(pid, &error),
        }
        self.release(pid, 0);
    }

    fn on_forked(&mut self, parent: Pid) {
        let space = self.space_of(parent).unwrap_or(0);
        if let Ok(child) = sys::event_message(parent) {
            if let Some(served) = self.spaces.get_mut(&space)
                && !sys::same_space(child, served.space.helper)
            {
                let (right, wrong) = served.space.census(&*self.supply.choice);
                served.shared_by_fork = right + wrong;
            }
            let waiting = self.tracing.insert(child, Tracing::Child(space)) == Some(Tracing::Child(0));
            if waiting {
                self.on_child(child, space);
            }
        }
        self.release(parent, 0);
    }

    /// A forked process has not run an instruction yet.
    fn on_child(&mut self, pid: Pid, parent: u64) {
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
                        self.not_colored(pid, &error);
                    }
                }
                Err(error) => self.not_colored(pid, &error),
            }
        }
        self.release(pid, 0);
    }

    /// Gives a stopped process a helper.
    fn adopt(&mut self, pid: Pid, began: &'static str) -> Result<u64, RunError> {
        let id = self.next_space;
        self.next_space += 1;
        // The injected thread asks for descriptors through the listener.
        self.end_lane();
        let looks = self.supply.choice.looks_per_page();
        let program = *self.program.get_or_insert(pid);
        let prefault = if began == "exec" && pid == program { self.settings.prefault_pages } else { 0 };
        let space = inject::inject(&self.kit, &self.settings, looks, prefault, &mut self.listener, pid)?;
        self.poller.add(&space.socket, TOKEN_SPACE | id)?;
        let served =
            Served { space, jobs: VecDeque::new(), began, first_pid: pid, shared_by_fork: 0, program_break: 0 };
        self.spaces.insert(id, served);
        self.enroll(pid, id);
        Ok(id)
    }

    fn enroll(&mut self, pid: Pid, space: u64) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.space = space;
        } else if let Ok(handle) = sys::open_process(pid)
            && self.poller.add(&handle, TOKEN_PROCESS | pid as u64).is_ok()
        {
            self.processes.insert(pid, Process { handle, space });
        }
    }

    fn on_exit(&mut self, pid: Pid) {
        self.leave_space(pid);
        self.processes.remove(&pid);
        self.guesses.clear();
    }

    /// A process no longer uses its address space; the last one ends the helper.
    fn leave_space(&mut self, pid: Pid) {
        let Some(process) = self.processes.get(&pid) else { return };
        let id = process.space;
        let Some(served) = self.spaces.get_mut(&id) else { return };
        served.space.users.remove(&pid);
        if served.space.users.is_empty()
            && let Some(served) = self.spaces.remove(&id)
        {
            self.close_space(served);
            if self.lane == Some(id) {
                self.end_lane();
            }
        }
    }

    fn close_space(&mut self, served: Served) {
        let report = served.report(&*self.supply.choice);
        self.report.address_spaces.push(report);
        for job in served.jobs {
            if let Some(notification) = job.notification {
                sys::conclude(&self.listener.fd, notification, -i64::from(libc::ENOMEM));
            }
        }
        sys::signal_process(&served.space.helper_process, libc::SIGKILL);
    }

    // --- memory that is there already ---

    /// Puts a freshly loaded program in color: stack, data, text.
    fn color_image(&mut self, id: u64, pid: Pid) -> Result<(), RunError> {
        let image = areas::of(pid)?;
        let space = &mut self.spaces.get_mut(&id).ok_or(RunError::HelperLost)?.space;
        let copies: u64 = image.iter().filter(|area| area.is_private_file()).map(|area| area.length() / PAGE).sum();
        let prefault = if self.program == Some(pid) { self.settings.prefault_pages } else { 0 };
        space.ask(&self.supply, op::GROW, [copies + 64 + prefault, 0, 0, 0, 0, 0])?;
        for area in image.iter().filter(|area| area.is_private_file() && area.protection & 1 != 0) {
            let copied = space.ask(&self.supply, op::REPLACE, [area.start, area.length(), area.protection, 0, 0, 0])?;
            if copied == -i64::from(libc::ENOMEM) && self.settings.strict {
                let missing = space.counters().missing_pages.max(1);
                return Err(RunError::Exhausted { colors: self.supply.choice.label(), missing });
            }
        }
        self.watch_everything(id)
    }

    /// Watches all private memory of a stopped process, and puts in color what of it is there.
    fn watch_everything(&mut self, id: u64) -> Result<(), RunError> {
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

    // --- the front ---

    fn on_front(&mut self) {
        let Some(front) = &self.front else { return };
        let mut bytes = [0u8; 16];
        let orderly = matches!(sys::receive_message(front, &mut bytes, false), Ok(message) if message.length > 0 && bytes[0] == word::ENDED);
        if orderly {
            self.send_report();
        } else {
            // The front was killed: so is everything it started.
            for process in self.processes.values() {
                sys::signal_process(&process.handle, libc::SIGKILL);
            }
        }
        self.front = None;
    }

    fn send_report(&mut self) {
        let Some(front) = &self.front else { return };
        let mut report = self.report.clone();
        let alive: BTreeSet<Pid> =
            self.processes.iter().filter(|(_, process)| !gone(&process.handle)).map(|(&pid, _)| pid).collect();
        report.still_running = alive.len();
        report.address_spaces.extend(self.spaces.values().map(|served| served.report(&*self.supply.choice)));
        let mut message = vec![word::REPORT];
        message.extend(serde_json::to_vec(&report).unwrap_or_default());
        let _ = sys::send_message(front, &message, None);
    }

    fn not_colored(&mut self, pid: Pid, error: &RunError) {
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

/// What is done for a stopped call.
enum Plan {
    /// The kernel carries it out.
    Proceed,
    /// It ends with this result.
    Conclude(i64),
    /// The helper carries it out.
    Carry(VecDeque<Step>, Option<AfterMap>),
}

impl Served {
    /// What became of the address space; it still exists, through its helper.
    fn report(&self, choice: &dyn FrameChoice) -> AddressSpaceReport {
        let counters = self.space.counters();
        let (right, wrong) = self.space.census(choice);
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
            pages_in_color_at_end: right,
            pages_out_of_color_at_end: wrong,
            causes: report::causes(&counters, self.shared_by_fork, wrong),
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
