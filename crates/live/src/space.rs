//! One colored address space from the supervisor's side: its helper, its control area, and the messages to both.
//!
//! The program can make the helper send anything, at any time, or nothing. The supervisor's reaction to a message is therefore bounded
//! here: it concerns this address space only, names no process, CPU or limit, and ends within a time chosen by the supervisor.

use crate::areas::{self, Area, Backing, PageMap};
use crate::broker::{Broker, Wish};
use crate::credit::{BOOST, Credit};
use crate::sys::{self, Change, Notification, Pid, SharedMapping, Status};
use crate::wire::{self, Control, Counters, Reply, Request, Run, op, say};
use crate::{FrameChoice, RunError};
use memtint_units::Pfn;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Longest wait for an answer without any activity of the helper; ten times as long while it is in uninterruptible sleep.
const SILENCE: Duration = Duration::from_secs(60);
/// Polling interval while waiting for a helper.
const LOOK_MS: i32 = 10;
/// Questions of one helper answered in a row before other spaces are served.
const QUESTIONS: usize = 64;
/// Turns of [`QUESTIONS`] questions within which a request must be done. Prefaulting takes two questions for 2 MiB: this suffices for 512
/// GiB.
const TURNS_MAX: usize = 1 << 13;
/// Most results and refusals in the queue.
const UNHEARD_MAX: usize = 1 << 12;
/// Most calls that a helper has passed on and that are not served yet: more than the waiting threads of a program on
/// any machine.
const PASSED_ON_MAX: usize = 1 << 16;

/// Settings of all address spaces of a run.
pub(crate) struct Settings {
    /// Refuse a page instead of giving one out of color.
    pub(crate) strict: bool,
    /// Pages to put in place ahead of their first touch.
    pub(crate) prefault_pages: u64,
    /// Processes that the program starts are colored too.
    pub(crate) children: bool,
    /// Copy every writable private file mapping, not only programs and libraries.
    pub(crate) copy_files: bool,
    /// Helpers may read the filter's listener: the program has the supervisor's privileges anyway.
    pub(crate) lane: bool,
    /// Most pages of the wrong color to hold during a search.
    pub(crate) hold_max: u64,
    /// NUMA nodes with memory in color; empty where the machine has only one.
    pub(crate) nodes: wire::Nodes,
}

/// The source of frames, and the choice of the right ones.
pub(crate) struct Supply {
    /// Frames that are in color.
    pub(crate) choice: Box<dyn FrameChoice>,
    /// Frames in stock.
    pub(crate) broker: Broker,
}

/// An address space with its helper.
pub(crate) struct Space {
    /// The helper's process id.
    pub(crate) helper: Pid,
    /// The helper, to end it.
    pub(crate) helper_process: OwnedFd,
    /// Messages to and from the helper.
    pub(crate) socket: OwnedFd,
    /// Thread-group ids of the processes that use it.
    pub(crate) users: BTreeSet<Pid>,
    /// Program file, for the report.
    pub(crate) program: String,
    control: SharedMapping,
    pages: PageMap,
    /// Stopped calls that the helper passed on.
    forwarded: VecDeque<Notification>,
    /// The helper reads the filter's listener.
    lane: bool,
    /// Results that came during the wait for another one.
    pub(crate) unheard: VecDeque<Reply>,
    next_request: u64,
    boost: Option<Boost>,
    credit: Credit,
    /// Frames are on top of the helper's free list, and it has sent no message since.
    taking: bool,
}

/// A helper that takes frames runs before others, on one CPU.
struct Boost {
    /// CPUs and scheduling before.
    before: ([u64; 128], (i32, i32)),
    since: Instant,
    until: Instant,
    /// It has priority besides being pinned to its CPU.
    urgent: bool,
}

/// The supervisor's side of a future helper.
pub(crate) struct Cradle {
    /// Mapping of the control area.
    control: SharedMapping,
    /// Its file, for the program's address space.
    pub(crate) control_file: OwnedFd,
    /// The supervisor's end of the socket.
    socket: OwnedFd,
    /// The helper's end.
    pub(crate) helper_socket: OwnedFd,
}

impl Cradle {
    /// Prepares the control area of a new address space.
    pub(crate) fn new(settings: &Settings, looks: f64, prefault_pages: u64, target: Pid) -> io::Result<Cradle> {
        let control_file = sys::memory_file("memtint-control", wire::CONTROL_LEN)?;
        let control = SharedMapping::new(&control_file, wire::CONTROL_LEN as usize)?;
        let (socket, helper_socket) = sys::message_pair()?;
        // The helper lives in the same process-id namespace as the program.
        let innermost = Status::of(target).innermost().unwrap_or(target);
        let values = [
            (offset_of!(Control, target), innermost as u64),
            (offset_of!(Control, realtime_max_us), if sys::is_realtime(target) { 0 } else { wire::REALTIME_MAX_US }),
            (offset_of!(Control, strict), u64::from(settings.strict)),
            (offset_of!(Control, prefault_pages), prefault_pages),
            (offset_of!(Control, batch_max), 256),
            (offset_of!(Control, pool_cap), 1 << 18),
            (offset_of!(Control, looks_per_page_256), (looks * 256.0) as u64),
            // During a search, pages of the wrong color are held in the program's own memory: keep them few.
            (offset_of!(Control, hold_max), settings.hold_max.min(1 << 16)),
            (offset_of!(Control, state.head), wire::READY_BASE),
            (offset_of!(Control, state.tail), wire::READY_BASE),
        ];
        for (offset, value) in values {
            control.set(offset, value);
        }
        control.set(offset_of!(Control, nodes), settings.nodes);
        Ok(Cradle { control, control_file, socket, helper_socket })
    }

    /// Gives the future helper the numbers of its descriptors.
    pub(crate) fn set_descriptors(&self, socket: u64, device: u64) {
        self.control.set(offset_of!(Control, socket), socket);
        self.control.set(offset_of!(Control, device), device);
    }

    /// Lets the future helper keep these capabilities, if it has them.
    pub(crate) fn set_capabilities(&self, capabilities: u64) {
        self.control.set(offset_of!(Control, capabilities), capabilities);
    }

    /// Waits for the first message of the helper, a traced and running process. Ends the helper on any error.
    pub(crate) fn greet(self, helper: Pid, user: Pid, program: String) -> Result<Space, RunError> {
        let (helper_process, pages) = (sys::open_process(helper)?, PageMap::open(helper)?);
        let mut space = Space {
            helper,
            helper_process,
            socket: self.socket,
            users: BTreeSet::from([user]),
            program,
            control: self.control,
            pages,
            forwarded: VecDeque::new(),
            lane: false,
            unheard: VecDeque::new(),
            next_request: 1,
            boost: None,
            credit: Credit::new(),
            taking: false,
        };
        // Only the helper keeps its end: the socket then reports the helper's end.
        drop((self.helper_socket, self.control_file));
        // With the listener, it takes stopped calls as the supervisor does.
        sys::shorten_slice(helper);
        let welcome = space.first_message().and_then(|()| space.check_confinement(user));
        if welcome.is_err() {
            space.end();
        }
        welcome.map(|()| space)
    }
}

fn decode(bytes: &[u8; size_of::<Reply>()], length: usize) -> Option<Reply> {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    (length == bytes.len()).then(|| Reply {
        kind: word(0) as u32,
        reserved: 0,
        id: word(8),
        value: word(16) as i64,
        extra: std::array::from_fn(|index| word(24 + 8 * index)),
    })
}

fn encode(request: &Request) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size_of::<Request>());
    bytes.extend(u64::from(request.op).to_le_bytes());
    bytes.extend(request.id.to_le_bytes());
    request.args.iter().for_each(|argument| bytes.extend(argument.to_le_bytes()));
    bytes
}

impl Space {
    fn first_message(&mut self) -> Result<(), RunError> {
        let hello = self.receive(true)?.ok_or(RunError::HelperLost)?;
        match hello.value {
            _ if hello.kind != say::HELLO => Err(RunError::HelperLost),
            0 => Ok(()),
            error => Err(RunError::Userfaultfd(io::Error::from_raw_os_error(error.unsigned_abs() as i32))),
        }
    }

    /// Checks, from kernel data alone, that the helper shares the program's memory and has confined itself.
    fn check_confinement(&self, user: Pid) -> Result<(), RunError> {
        let (helper, program) = (Status::of(self.helper), Status::of(user));
        let filters = |status: &Status| status.number("Seccomp_filters").unwrap_or(0);
        let confined = helper.number("NoNewPrivs") == Some(1) && filters(&helper) == filters(&program) + 1;
        let realtime = sys::is_realtime(user);
        let bounded = realtime || sys::limits(libc::RLIMIT_RTTIME, self.helper)?.rlim_max <= wire::REALTIME_MAX_US;
        let shares = sys::same_space(user, self.helper);
        if confined && bounded && shares { Ok(()) } else { Err(RunError::HelperLost) }
    }

    /// Ends the helper and reaps it.
    pub(crate) fn end(&self) {
        sys::signal_process(&self.helper_process, libc::SIGKILL);
        self.await_end();
        let _ = sys::wait(self.helper, false);
    }

    /// Waits for the helper's end if it has been killed. After an out-of-memory kill there is no memory until the helper has returned its
    /// own: an allocation of this process or the front would be fatal.
    pub(crate) fn await_end(&self) {
        sys::await_killed(&self.helper_process);
    }

    /// The next message; `None` if there is none now (`block` off). An error: the helper has ended, is silent for too long, or sends a
    /// message of the wrong form.
    fn receive(&mut self, block: bool) -> Result<Option<Reply>, RunError> {
        if block {
            self.await_message()?;
        }
        let mut bytes = [0u8; size_of::<Reply>()];
        match sys::receive_bytes(&self.socket, &mut bytes, false) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            length => decode(&bytes, length?).map(Some).ok_or(RunError::HelperLost),
        }
    }

    fn await_message(&mut self) -> Result<(), RunError> {
        // Counts polls, not time: both processes may have been frozen together. A poll of a helper in uninterruptible sleep counts a tenth.
        // That sleep is bounded, too, since the file system may belong to the program.
        let (mut silence, mut latest) = (0, sys::activity(self.helper));
        while !sys::is_readable(&self.socket, LOOK_MS) {
            match sys::wait(self.helper, false)? {
                // The helper blocks all signals that can be blocked: any other than SIGSTOP comes from a fault of the
                // helper.
                Some((_, Change::Gone)) => return Err(RunError::HelperLost),
                Some((_, Change::Signal(signal))) if signal != libc::SIGSTOP => return Err(RunError::HelperLost),
                // A stop signal: resume the helper.
                Some(_) => sys::resume(self.helper, 0)?,
                None => {}
            }
            self.end_boost_in_time();
            let now = sys::activity(self.helper);
            silence = match now {
                _ if now.0 != latest.0 => 0,
                (_, true) => silence + LOOK_MS as u128,
                (_, false) => silence + 10 * LOOK_MS as u128,
            };
            latest = now;
            if silence > 10 * SILENCE.as_millis() {
                return Err(RunError::HelperSilent(SILENCE.as_secs()));
            }
        }
        Ok(())
    }

    /// When the helper's priority ends at the latest.
    pub(crate) fn boosted_until(&self) -> Option<Instant> {
        self.boost.as_ref().map(|boost| boost.until)
    }

    /// Ends the helper's priority if its time is over.
    pub(crate) fn end_boost_in_time(&mut self) {
        if self.boosted_until().is_some_and(|until| until <= Instant::now()) {
            self.end_boost();
        }
    }

    fn end_boost(&mut self) {
        if let Some(Boost { before: (cpus, scheduling), since, urgent, .. }) = self.boost.take() {
            if urgent {
                self.credit.spend(since.elapsed());
                sys::set_scheduling(self.helper, scheduling);
            }
            sys::set_affinity(self.helper, &cpus);
        }
    }

    /// A call that the helper has passed on, if the kernel confirms it: the thread waits in a call, and shares the helper's memory. All
    /// other fields are claims of the helper, and concern no other address space.
    pub(crate) fn passed_on(&mut self, listener: &OwnedFd) -> Option<Notification> {
        loop {
            let stopped = self.forwarded.pop_front()?;
            if sys::same_space(stopped.thread as Pid, self.helper) && sys::is_pending(listener, stopped.id) {
                return Some(stopped);
            }
        }
    }

    /// The helper's counters now.
    pub(crate) fn counters(&self) -> Counters {
        self.control.get(offset_of!(Control, counters))
    }

    /// Starts or ends filling new memory at once (MCL_FUTURE).
    pub(crate) fn set_fill_future(&self, on: bool) {
        self.control.set(offset_of!(Control, fill_future), u64::from(on));
    }

    /// Sends a request and returns its id.
    pub(crate) fn send(&mut self, mut request: Request, file: Option<&OwnedFd>) -> io::Result<u64> {
        request.id = self.next_request;
        self.next_request += 1;
        sys::send_message(&self.socket, &encode(&request), file.map(AsFd::as_fd))?;
        Ok(request.id)
    }

    /// The helper's next result or refusal; answers its questions on the way. `None`: there is none (when not
    /// blocking), or it is the turn of other spaces; an error: see [`Space::receive`].
    pub(crate) fn hear(&mut self, supply: &Supply, block: bool) -> Result<Option<Reply>, RunError> {
        for _ in 0..QUESTIONS {
            let Some(reply) = self.receive(block)? else { return Ok(None) };
            self.end_boost();
            if std::mem::take(&mut self.taking) {
                // Whether the helper took the frames or not, the broker may search for more.
                supply.broker.go_on();
            }
            match reply.kind {
                say::CLASSIFY => self.classify(&reply, |page| in_color(page, &*supply.choice))?,
                say::UNCOPIED => self.classify(&reply, |page| matches!(page, Backing::Missing | Backing::Shared))?,
                say::WANT => self.supply(&reply, supply)?,
                say::PROTECTION => {
                    let areas = areas::of(self.helper).unwrap_or_default();
                    let area = areas.iter().find(|area| (area.start..area.end).contains(&reply.extra[0]));
                    let (protection, end) = area.map_or((0, 0), |area| (area.protection, area.end));
                    let locked = area.is_some_and(|area| areas::is_locked(self.helper, area));
                    self.answer(op::PROTECTED, reply.id, [protection, end, u64::from(locked)])?;
                }
                say::FORWARD if self.lane && self.forwarded.len() < PASSED_ON_MAX => {
                    self.forwarded.push_back(Notification::from_words(reply.extra));
                }
                say::DONE | say::REFUSED => return Ok(Some(reply)),
                _ => return Err(RunError::HelperLost),
            }
        }
        Ok(None)
    }

    /// Carries out a request and waits for its result.
    pub(crate) fn ask(&mut self, supply: &Supply, op: u32, args: [u64; 6]) -> Result<i64, RunError> {
        let id = self.send(Request { op, args, ..Request::default() }, None)?;
        self.wait_for(supply, id)
    }

    /// Lends the filter's listener to the helper, to answer simple calls of the program, or takes it back.
    pub(crate) fn set_lane(&mut self, supply: &Supply, listener: Option<&OwnedFd>) -> Result<(), RunError> {
        let args = [u64::from(listener.is_some()), 0, 0, 0, 0, 0];
        let id = self.send(Request { op: op::LANE, args, ..Request::default() }, listener)?;
        self.lane |= listener.is_some();
        self.wait_for(supply, id)?;
        self.lane = listener.is_some();
        // Checked from kernel data, not by asking the helper: with the listener it could answer calls of other
        // processes.
        if listener.is_none() && sys::holds_listener(self.helper) { Err(RunError::HelperLost) } else { Ok(()) }
    }

    /// Waits for the result of a request.
    fn wait_for(&mut self, supply: &Supply, id: u64) -> Result<i64, RunError> {
        for _ in 0..TURNS_MAX {
            match self.hear(supply, true)? {
                Some(reply) if reply.kind == say::DONE && reply.id == id => return Ok(reply.value),
                // Queue only results and refusals, of which a correct helper sends fewer.
                Some(reply) if self.unheard.len() < UNHEARD_MAX => self.unheard.push_back(reply),
                Some(_) => return Err(RunError::HelperLost),
                None => {}
            }
        }
        // A compromised helper could send questions forever.
        Err(RunError::HelperLost)
    }

    /// Answers which pages of the address space satisfy `wanted`.
    fn classify(&mut self, question: &Reply, wanted: impl Fn(Backing) -> bool) -> Result<(), RunError> {
        let [start, pages, ..] = question.extra;
        if start >= areas::USER_END || pages > 1 << 16 {
            return Err(RunError::HelperLost);
        }
        let backing = self.pages.read(start, pages);
        let runs = areas::runs(start, &backing, wanted);
        let count = self.write_runs(wire::ANSWER_OFFSET, &runs);
        self.answer(op::CLASSIFIED, question.id, [count, 0, 0])
    }

    /// Makes the broker put frames on top of the free list of the helper's CPU, and keeps the helper there for a
    /// moment.
    fn supply(&mut self, wish: &Reply, supply: &Supply) -> Result<(), RunError> {
        let cpu = sys::processor(self.helper).ok_or(RunError::HelperLost)?;
        let before = (sys::affinity(self.helper), sys::scheduling(self.helper));
        sys::pin_to_cpu(self.helper, cpu);
        let wanted = Wish { pages: wish.extra[0].min(1 << 16), cpu, near: sys::node_of(cpu) };
        // The search may take long; priority is for the step after it.
        let released = supply.broker.release(&*supply.choice, wanted);
        let since = Instant::now();
        let urgent = released.pages > 0 && self.credit.has_some(since);
        if urgent {
            sys::set_realtime(self.helper, true);
        }
        self.boost = Some(Boost { before, since, until: since + BOOST, urgent });
        self.taking = true;
        let node = released.node.map_or([0, 0], |node| [1, u64::from(node)]);
        self.answer(op::TAKE, wish.id, [released.pages, node[0], node[1]])
    }

    fn answer(&self, op: u32, id: u64, [first, second, third]: [u64; 3]) -> Result<(), RunError> {
        let answer = Request { op, id, args: [first, second, third, 0, 0, 0], ..Request::default() };
        Ok(sys::send_message(&self.socket, &encode(&answer), None)?)
    }

    /// Writes as many runs as fit; returns their number.
    fn write_runs(&self, list: u64, runs: &[Run]) -> u64 {
        let fitting = &runs[..runs.len().min(wire::RUNS_MAX)];
        for (index, run) in fitting.iter().enumerate() {
            self.control.set(list as usize + index * size_of::<Run>(), *run);
        }
        fitting.len() as u64
    }

    /// Puts into the request's run list the private pages of a range that are (`right`), or are not, in color; returns
    /// the number of runs. Runs that do not fit the list are left out.
    pub(crate) fn list_pages(&self, choice: &dyn FrameChoice, start: u64, end: u64, right: bool) -> u64 {
        let runs = self.pages.private(start, end, wire::RUNS_MAX, |frame| choice.contains(Pfn(frame)) == right);
        self.write_runs(wire::RUNS_OFFSET, &runs)
    }

    /// Whether any file mapping has private pages out of color.
    pub(crate) fn has_files_out_of_color(&self, choice: &dyn FrameChoice) -> bool {
        let areas = areas::of(self.helper).unwrap_or_default();
        let wrong = |area: &Area| self.pages.private(area.start, area.end, 1, |frame| !choice.contains(Pfn(frame)));
        areas.iter().filter(|area| area.is_private_file()).any(|area| !wrong(area).is_empty())
    }

    /// Current private pages of the program, in color and not. The pool is excluded.
    pub(crate) fn census(&self, choice: &dyn FrameChoice) -> (u64, u64) {
        let count = |start, end, right| {
            let runs = self.pages.private(start, end, usize::MAX, |frame| choice.contains(Pfn(frame)) == right);
            runs.iter().map(|run| run.pages).sum::<u64>()
        };
        let both = |right| count(0, wire::BLOB_BASE, right) + count(wire::POOL_END, u64::MAX, right);
        (both(true), both(false))
    }
}

fn in_color(page: Backing, choice: &dyn FrameChoice) -> bool {
    matches!(page, Backing::Private(frame) if choice.contains(Pfn(frame)))
}
