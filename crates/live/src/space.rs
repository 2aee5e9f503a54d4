//! One colored address space as the supervisor sees it: its helper, its control area, and talking to both.

use crate::areas::{self, Backing, PageMap};
use crate::broker::{Broker, Wish};
use crate::sys::{self, Notification, Pid, SharedMapping};
use crate::wire::{self, Control, Counters, Reply, Request, Run, op, say};
use crate::{FrameChoice, RunError};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, OwnedFd};

/// What every address space of a run starts with.
pub(crate) struct Settings {
    /// Refuse instead of falling back.
    pub(crate) strict: bool,
    /// Pages to have in place ahead of their first touch.
    pub(crate) prefault_pages: u64,
    /// Processes that the program starts are colored too.
    pub(crate) children: bool,
    /// Helpers may read the filter's listener: the program has the supervisor's privileges anyway.
    pub(crate) lane: bool,
    /// Most pages of the wrong color to hold while looking for the right ones.
    pub(crate) hold_max: u64,
    /// NUMA nodes with memory in color; empty where the machine has only one.
    pub(crate) nodes: wire::Nodes,
}

/// Where frames come from, and which are right.
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
    pub(crate) forwarded: Vec<Notification>,
    /// Results that came while another was waited for.
    pub(crate) unheard: VecDeque<Reply>,
    next_request: u64,
    /// CPUs and scheduling of the helper before it was pinned for taking frames.
    unpinned: Option<([u64; 128], (i32, i32))>,
}

/// The supervisor's ends of what a helper is born with.
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
        sys::want_credentials(&socket)?;
        let values = [
            (offset_of!(Control, target), target as u64),
            (offset_of!(Control, strict), u64::from(settings.strict)),
            (offset_of!(Control, prefault_pages), prefault_pages),
            (offset_of!(Control, batch_max), 256),
            (offset_of!(Control, pool_cap), 1 << 18),
            (offset_of!(Control, looks_per_page_256), (looks * 256.0) as u64),
            // While searching, wrong pages are held in the program's own memory: not many.
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

    /// Tells the helper-to-be which descriptors it will find.
    pub(crate) fn set_descriptors(&self, socket: u64, device: u64) {
        self.control.set(offset_of!(Control, socket), socket);
        self.control.set(offset_of!(Control, device), device);
    }

    /// Whether the process that was to create the helper could not.
    pub(crate) fn is_stillborn(&self) -> bool {
        self.control.get::<u64>(offset_of!(Control, birth)) != 0
    }

    /// Waits for the helper's first word.
    pub(crate) fn greet(self, user: Pid, program: String) -> Result<Space, RunError> {
        let mut reply = [0u8; size_of::<Reply>()];
        let message = sys::receive_message(&self.socket, &mut reply, true)?;
        let (Some(hello), Some(helper)) = (decode(&reply, message.length), message.sender) else {
            return Err(RunError::HelperLost);
        };
        if hello.kind != say::HELLO || hello.value != 0 {
            return Err(RunError::Userfaultfd(io::Error::from_raw_os_error(-hello.value as i32)));
        }
        // Its own mappings must not count against the program; see `Supervisor::beyond_limits`.
        for resource in [libc::RLIMIT_AS, libc::RLIMIT_DATA, libc::RLIMIT_MEMLOCK] {
            sys::set_limit(resource, helper, None);
        }
        Ok(Space {
            helper,
            helper_process: sys::open_process(helper)?,
            socket: self.socket,
            users: BTreeSet::from([user]),
            program,
            control: self.control,
            pages: PageMap::open(helper)?,
            forwarded: Vec::new(),
            unheard: VecDeque::new(),
            next_request: 1,
            unpinned: None,
        })
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
    /// The helper's counters now.
    pub(crate) fn counters(&self) -> Counters {
        self.control.get(offset_of!(Control, counters))
    }

    /// From now on new memory is filled at once (MCL_FUTURE), or no longer.
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

    /// The helper's next result or refusal, answering its questions on the way. None: nothing there (when not
    /// blocking); an error: the helper is gone or talks nonsense.
    pub(crate) fn hear(&mut self, supply: &Supply, block: bool) -> Result<Option<Reply>, RunError> {
        loop {
            let mut bytes = [0u8; size_of::<Reply>()];
            let message = match sys::receive_message(&self.socket, &mut bytes, block) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                message => message?,
            };
            let reply = decode(&bytes, message.length).ok_or(RunError::HelperLost)?;
            match reply.kind {
                say::CLASSIFY => self.classify(&reply, supply)?,
                say::WANT => self.supply(&reply, supply)?,
                say::PROTECTION => {
                    let areas = areas::of(self.helper).unwrap_or_default();
                    let area = areas.iter().find(|area| (area.start..area.end).contains(&reply.extra[0]));
                    let (protection, end) = area.map_or((0, 0), |area| (area.protection, area.end));
                    let locked = area.is_some_and(|area| areas::is_locked(self.helper, area));
                    self.answer(op::PROTECTED, reply.id, [protection, end, u64::from(locked)])?;
                }
                say::FORWARD => self.forwarded.push(Notification::from_words(reply.extra)),
                say::DONE | say::REFUSED => return Ok(Some(reply)),
                _ => return Err(RunError::HelperLost),
            }
        }
    }

    /// Carries out a request and waits for its result.
    pub(crate) fn ask(&mut self, supply: &Supply, op: u32, args: [u64; 6]) -> Result<i64, RunError> {
        let id = self.send(Request { op, args, ..Request::default() }, None)?;
        self.wait_for(supply, id)
    }

    /// Lets the helper answer simple calls of the program itself, with the filter's listener, or no longer.
    pub(crate) fn set_lane(&mut self, supply: &Supply, listener: Option<&OwnedFd>) -> Result<(), RunError> {
        let args = [u64::from(listener.is_some()), 0, 0, 0, 0, 0];
        let id = self.send(Request { op: op::LANE, args, ..Request::default() }, listener)?;
        self.wait_for(supply, id).map(|_| ())
    }

    /// Waits for the result of a request.
    fn wait_for(&mut self, supply: &Supply, id: u64) -> Result<i64, RunError> {
        loop {
            match self.hear(supply, true)? {
                Some(reply) if reply.kind == say::DONE && reply.id == id => return Ok(reply.value),
                Some(reply) => self.unheard.push_back(reply),
                None => {}
            }
        }
    }

    /// Answers which fresh pages of the helper are in color.
    fn classify(&mut self, question: &Reply, supply: &Supply) -> Result<(), RunError> {
        let [start, pages, ..] = question.extra;
        let fresh = wire::INTAKE_BASE..wire::POOL_END;
        if !fresh.contains(&start) || pages > 1 << 16 {
            return Err(RunError::HelperLost);
        }
        if let Some((cpus, scheduling)) = self.unpinned.take() {
            sys::set_scheduling(self.helper, scheduling);
            sys::set_affinity(self.helper, &cpus);
            supply.broker.go_on();
        }
        let backing = self.pages.read(start, pages);
        let runs = areas::runs(start, &backing, |page| in_color(page, &*supply.choice));
        let count = self.write_runs(wire::ANSWER_OFFSET, &runs);
        self.answer(op::CLASSIFIED, question.id, [count, 0, 0])
    }

    /// Has the broker put frames on top of the free list of the helper's CPU, and keeps the helper there.
    fn supply(&mut self, wish: &Reply, supply: &Supply) -> Result<(), RunError> {
        let [pages, cpu, near, ..] = wish.extra;
        self.unpinned = Some((sys::affinity(self.helper), sys::scheduling(self.helper)));
        sys::pin_to_cpu(self.helper, cpu);
        sys::set_realtime(self.helper, true);
        let released = supply.broker.release(&*supply.choice, Wish { pages: pages.min(1 << 16), cpu, near });
        let node = released.node.map_or([0, 0], |node| [1, u64::from(node)]);
        self.answer(op::TAKE, wish.id, [released.pages, node[0], node[1]])
    }

    fn answer(&self, op: u32, id: u64, [first, second, third]: [u64; 3]) -> Result<(), RunError> {
        let answer = Request { op, id, args: [first, second, third, 0, 0, 0], ..Request::default() };
        Ok(sys::send_message(&self.socket, &encode(&answer), None)?)
    }

    /// Writes as many runs as fit and returns how many.
    fn write_runs(&self, list: u64, runs: &[Run]) -> u64 {
        let fitting = &runs[..runs.len().min(wire::RUNS_MAX)];
        for (index, run) in fitting.iter().enumerate() {
            self.control.set(list as usize + index * size_of::<Run>(), *run);
        }
        fitting.len() as u64
    }

    /// Puts into the request's run list the private pages of a range that are (`right`), or are not, in color; returns
    /// the number of runs. What does not fit the list is left out.
    pub(crate) fn list_pages(&self, choice: &dyn FrameChoice, start: u64, end: u64, right: bool) -> u64 {
        let runs = self.pages.private(start, end, wire::RUNS_MAX, |frame| choice.contains(frame) == right);
        self.write_runs(wire::RUNS_OFFSET, &runs)
    }

    /// Private pages of the program, in color and not, as they are now. The pool is not the program's.
    pub(crate) fn census(&self, choice: &dyn FrameChoice) -> (u64, u64) {
        let count = |start, end, right| {
            let runs = self.pages.private(start, end, usize::MAX, |frame| choice.contains(frame) == right);
            runs.iter().map(|run| run.pages).sum::<u64>()
        };
        let both = |right| count(0, wire::BLOB_BASE, right) + count(wire::POOL_END, u64::MAX, right);
        (both(true), both(false))
    }
}

fn in_color(page: Backing, choice: &dyn FrameChoice) -> bool {
    matches!(page, Backing::Private(frame) if choice.contains(frame))
}
