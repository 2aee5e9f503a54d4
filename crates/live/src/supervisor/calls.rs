//! Decides how each stopped call is carried out.

use super::borrowed::Borrowed;
use super::{Served, Supervisor, thread_group};
use crate::areas;
use crate::sys::{self, Notification, Pid, Status};
use crate::wire::{self, PAGE, Request, op};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

/// Largest private file mapping that is copied into color.
pub(super) const COPY_MAX: u64 = 256 << 20;

/// A private mapping of this device is anonymous memory.
const DEV_ZERO: &str = "/dev/zero";

/// How a stopped call is carried out.
pub(super) enum Plan {
    /// The kernel carries it out.
    Proceed,
    /// It ends with this result.
    Conclude(i64),
    /// The helper carries out steps for it.
    Carry(VecDeque<Step>, Ending),
}

/// How a call ends after the helper's steps.
pub(super) enum Ending {
    /// With the result of the step that counts.
    Result,
    /// The same; the memory mapped by an `mmap` is filled, and locked, first.
    Mapped(AfterMap),
    /// The kernel carries it out, unless a vital step has failed.
    Proceed,
}

/// One request to a helper.
pub(super) struct Step {
    pub(super) request: Request,
    /// File that goes with it.
    pub(super) file: Option<Borrowed>,
    /// Its result is the result of the call.
    pub(super) counts: bool,
    /// When it fails, so does the call.
    pub(super) vital: bool,
}

impl Step {
    /// The program's own call.
    pub(super) fn call(op: u32, args: [u64; 6]) -> Step {
        Step { request: Request { op, args, ..Request::default() }, file: None, counts: true, vital: false }
    }

    /// Work before or after the call.
    pub(super) fn aside(op: u32, args: [u64; 6]) -> Step {
        Step { counts: false, ..Step::call(op, args) }
    }
}

#[derive(Clone, Copy)]
pub(super) struct AfterMap {
    pub(super) length: u64,
    pub(super) protection: u64,
    /// Populate it. Copied file mappings are populated already.
    pub(super) fill: bool,
    pub(super) lock: bool,
}

/// The next page boundary, or the last possible one: programs pass any number.
pub(super) fn pages_up(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(PAGE).unwrap_or(!(PAGE - 1))
}

/// Calls whose first two arguments are a mapped range of addresses.
const ON_RANGES: [i64; 8] = [
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_pkey_mprotect,
    libc::SYS_madvise,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_munlock,
];

/// A call on a range that includes mappings of memtint: it ends as if nothing were mapped there, and leaves them
/// unchanged.
fn plan_among_ours(call: i64, a: [u64; 6]) -> Plan {
    let (start, end) = (a[0], pages_up(a[0].saturating_add(a[1])));
    match call {
        _ if !start.is_multiple_of(PAGE) || end > areas::USER_END => Plan::Conclude(-i64::from(libc::EINVAL)),
        libc::SYS_munmap if start >= wire::BLOB_BASE && end <= wire::POOL_END => Plan::Conclude(0),
        libc::SYS_munmap => {
            let around = [(start, wire::BLOB_BASE), (wire::POOL_END, end)].into_iter().filter(|(from, to)| from < to);
            let unmap = |(from, to): (u64, u64)| Step::call(op::MUNMAP, [from, to - from, 0, 0, 0, 0]);
            Plan::Carry(around.map(unmap).collect(), Ending::Result)
        }
        libc::SYS_mremap => Plan::Conclude(-i64::from(libc::EFAULT)),
        _ => Plan::Conclude(-i64::from(libc::ENOMEM)),
    }
}

impl Supervisor {
    /// The refusal of a call that would exceed the program's resource limits.
    ///
    /// The kernel would count the pool, which is in the same address space, and would apply the helper's limits: the
    /// helper has none, so the program's limits are checked here. Programs without limits pay nothing.
    pub(super) fn beyond_limits(&self, space: u64, notification: &Notification) -> Option<i64> {
        let (a, thread) = (notification.args, notification.thread as Pid);
        let served = self.spaces.get(&space)?;
        let no_memory = Some(-i64::from(libc::ENOMEM));
        let (grows_by, refusal) = match i64::from(notification.call) {
            libc::SYS_mmap => (a[1], no_memory),
            libc::SYS_mremap => (a[2].saturating_sub(a[1]), no_memory),
            libc::SYS_brk => {
                let heap_end = served.space.counters().program_break;
                (a[0].saturating_sub(heap_end), Some(heap_end as i64))
            }
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

    /// RLIMIT_MEMLOCK binds programs without CAP_IPC_LOCK; the helper, which locks memory for them, is not bound.
    pub(super) fn beyond_lock_limit(&self, space: u64, notification: &Notification) -> Option<i64> {
        let thread = notification.thread as Pid;
        let limit = sys::limit(libc::RLIMIT_MEMLOCK, thread)?;
        let status = Status::of(thread);
        if status.bits("CapEff") >> sys::CAP_IPC_LOCK & 1 == 1 {
            return None;
        }
        let bytes = |name| status.number(name).unwrap_or(0) << 10;
        let ours = self.spaces.get(&space)?.space.counters().pool_pages.saturating_mul(PAGE);
        let all = i64::from(notification.call) == libc::SYS_mlockall;
        let wanted = if all {
            bytes("VmSize").saturating_sub(ours)
        } else {
            bytes("VmLck").saturating_add(notification.args[1])
        };
        let refusal = if limit == 0 { libc::EPERM } else { libc::ENOMEM };
        (wanted > limit).then_some(-i64::from(refusal))
    }

    /// Decides how a call is carried out.
    pub(super) fn plan_call(&mut self, space: u64, notification: &Notification) -> Plan {
        let a = notification.args;
        let call = i64::from(notification.call);
        if ON_RANGES.contains(&call) && a[0] < wire::POOL_END && a[0].saturating_add(a[1]) > wire::BLOB_BASE {
            return plan_among_ours(call, a);
        }
        let carry = |op, args| Plan::Carry(VecDeque::from([Step::call(op, args)]), Ending::Result);
        match call {
            libc::SYS_mmap => self.plan_mmap(space, notification),
            libc::SYS_brk => carry(op::BRK, a),
            libc::SYS_mremap => carry(op::MREMAP, a),
            libc::SYS_mprotect => carry(op::PROTECT, [a[0], a[1], a[2], u64::MAX, 0, 0]),
            libc::SYS_pkey_mprotect => carry(op::PROTECT, [a[0], a[1], a[2], a[3], 0, 0]),
            libc::SYS_munmap | libc::SYS_madvise => self.plan_release(space, notification),
            libc::SYS_mlock | libc::SYS_mlock2 => {
                let (start, end) = (a[0] & !(PAGE - 1), pages_up(a[0].saturating_add(a[1])));
                let flags = if call == libc::SYS_mlock2 { a[2] } else { 0 };
                let fill = flags & u64::from(libc::MLOCK_ONFAULT) == 0;
                let mut steps = if fill { self.fills(space, start, end, true) } else { VecDeque::new() };
                steps.push_back(Step::call(op::MLOCK, [a[0], a[1], flags, 0, 0, 0]));
                Plan::Carry(steps, Ending::Result)
            }
            libc::SYS_ioctl => self.plan_watching(space, notification),
            libc::SYS_mlockall => self.plan_mlockall(space, a[0]),
            libc::SYS_munlock => carry(op::MUNLOCK, a),
            libc::SYS_munlockall => {
                if let Some(served) = self.spaces.get(&space) {
                    served.space.set_fill_future(false);
                }
                carry(op::MUNLOCKALL, a)
            }
            _ => Plan::Proceed,
        }
    }

    /// A program registers memory with its own userfaultfd: memtint's releases the range, whose pages are no longer kept in color.
    fn plan_watching(&mut self, space: u64, notification: &Notification) -> Plan {
        let mut words = [0u8; 16];
        if !sys::read_memory(notification.thread as Pid, notification.args[2], &mut words) {
            return Plan::Proceed;
        }
        let [start, length] = [0, 8].map(|at| u64::from_le_bytes(words[at..at + 8].try_into().expect("eight bytes")));
        let end = start.saturating_add(length);
        if start < wire::POOL_END && end > wire::BLOB_BASE {
            return Plan::Conclude(-i64::from(libc::EINVAL));
        }
        if let Some(served) = self.spaces.get_mut(&space) {
            served.serves_itself = true;
            let program = served.space.program.clone();
            self.problem_once(format!(
                "{program}: the program's own userfaultfd serves part of its memory: those pages are not in color"
            ));
        }
        Plan::Carry(VecDeque::from([Step::aside(op::UNREGISTER, [start, length, 0, 0, 0, 0])]), Ending::Proceed)
    }

    pub(super) fn plan_mmap(&mut self, space: u64, notification: &Notification) -> Plan {
        let mut a = notification.args;
        let (flags, protection) = (a[3] as i32, a[2] as i32);
        let fixed = flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) != 0;
        if a[0] < wire::POOL_END && a[0].saturating_add(a[1]) > wire::BLOB_BASE {
            if fixed {
                return Plan::Conclude(-i64::from(libc::ENOMEM));
            }
            // The address is only a hint: the kernel finds another place.
            a[0] = 0;
        }
        let lock = flags & libc::MAP_LOCKED != 0;
        let fill = lock || flags & libc::MAP_POPULATE != 0;
        a[3] &= !((libc::MAP_LOCKED | libc::MAP_POPULATE) as u64);
        let mut file = None;
        if flags & libc::MAP_ANONYMOUS == 0 {
            // A loader first maps a whole library to reserve its range; the parts follow.
            let reservation = !fixed && protection & (libc::PROT_WRITE | libc::PROT_EXEC) == 0;
            if reservation {
                return Plan::Proceed;
            }
            let (thread, number) = (notification.thread as Pid, a[4] as i32);
            let Some((name, inode)) = sys::file_of(thread, number) else { return Plan::Proceed };
            // If the call is still pending, the thread id has not been reused.
            if !sys::is_pending(self.listener.fd(), notification.id) {
                return Plan::Proceed;
            }
            let may_copy = a[1] <= COPY_MAX && self.may_copy(space, (flags, protection), &name, inode);
            if !may_copy && name != DEV_ZERO {
                self.note_not_copied(space, &name, pages_up(a[1]));
                return Plan::Proceed;
            }
            if name.contains("/libtsan.so") {
                self.problem_once(format!(
                    "{name}: ThreadSanitizer rejects mappings at memtint's addresses and aborts the program"
                ));
            }
            let Ok(found) = self.descriptor(thread, number) else { return Plan::Proceed };
            let found = Borrowed::new(found);
            if sys::is_dev_zero(found.fd()) {
                a[3] |= libc::MAP_ANONYMOUS as u64;
            } else if may_copy {
                file = Some(found);
            } else {
                self.note_not_copied(space, &name, pages_up(a[1]));
                return Plan::Proceed;
            }
        }
        let mapped = AfterMap { length: pages_up(a[1]), protection: a[2], lock, fill: file.is_none() };
        let ending = if fill { Ending::Mapped(mapped) } else { Ending::Result };
        Plan::Carry(VecDeque::from([Step { file, ..Step::call(op::MMAP, a) }]), ending)
    }

    /// Whether a private file mapping may be copied: it belongs to a program or library, or `--copy-files` is set.
    fn may_copy(&self, space: u64, (flags, protection): (i32, i32), name: &str, inode: u64) -> bool {
        let of_a_loader = flags & libc::MAP_DENYWRITE != 0 || protection & libc::PROT_EXEC != 0;
        let areas = || self.spaces.get(&space).and_then(|served| areas::of(served.space.helper).ok());
        // Loaders without MAP_DENYWRITE (musl) are recognized by the code they map from the same file.
        let has_code = || areas().is_some_and(|areas| areas::has_code(&areas, inode, name));
        of_a_loader || self.settings.copy_files || has_code()
    }

    /// Reports a private file mapping that is not copied: it must follow its file, or is too large.
    pub(super) fn note_not_copied(&mut self, space: u64, file: &str, bytes: u64) {
        let Some(served) = self.spaces.get_mut(&space) else { return };
        served.not_copied.0 += 1;
        served.not_copied.1 = served.not_copied.1.saturating_add(bytes);
        let (mib, most) = (bytes >> 20, COPY_MAX >> 20);
        if bytes > COPY_MAX {
            let program = served.space.program.clone();
            return self.problem(format!(
                "{program}: the private mapping of {file} has {mib} MiB; only mappings up to {most} MiB are copied, so pages \
                 written there are not in color"
            ));
        }
        self.problem_once(format!(
            "a private mapping of {file} must follow the file and is not copied: pages written there are not in color \
             (--copy-files copies such mappings when they are made)"
        ));
    }

    /// `munmap` and `madvise`: pages in color go back to the pool before the program gives them up.
    pub(super) fn plan_release(&mut self, space: u64, notification: &Notification) -> Plan {
        let a = notification.args;
        let unmap = i64::from(notification.call) == libc::SYS_munmap;
        if !unmap {
            match a[2] as i32 {
                libc::MADV_DONTNEED => {}
                libc::MADV_HUGEPAGE | libc::MADV_MERGEABLE => return Plan::Conclude(0),
                libc::MADV_POPULATE_READ | libc::MADV_POPULATE_WRITE => {
                    // The program's own thread populates: its faults are served, and the helper's would not be.
                    let steps = self.fills(space, a[0], a[0].saturating_add(a[1]), false);
                    return Plan::Carry(steps, Ending::Proceed);
                }
                _ => return Plan::Conclude(-i64::from(libc::EINVAL)),
            }
        }
        // A call that the kernel refuses must not have released anything.
        if !a[0].is_multiple_of(PAGE) || a[0].saturating_add(a[1]) > areas::USER_END {
            return Plan::Proceed;
        }
        // The run list is filled when the request is sent; see `advance`.
        let (op, advice) = if unmap { (op::MUNMAP, 0) } else { (op::MADVISE, a[2]) };
        Plan::Carry(VecDeque::from([Step::call(op, [a[0], a[1], advice, 0, 0, 0])]), Ending::Result)
    }

    pub(super) fn plan_mlockall(&mut self, space: u64, flags: u64) -> Plan {
        let (current, future) = (libc::MCL_CURRENT as u64, libc::MCL_FUTURE as u64);
        let on_fault = libc::MCL_ONFAULT as u64;
        if flags == 0 || flags & !(current | future | on_fault) != 0 || flags == on_fault {
            return Plan::Conclude(-i64::from(libc::EINVAL));
        }
        // The kernel would fill missing pages with frames of its choice: it only locks, and the helper fills.
        let mut steps = VecDeque::from([Step::call(op::MLOCKALL, [flags | on_fault, 0, 0, 0, 0, 0])]);
        if flags & on_fault == 0 {
            if let Some(served) = self.spaces.get(&space) {
                served.space.set_fill_future(flags & future != 0);
            }
            if flags & current != 0 {
                steps.extend(self.fills(space, 0, u64::MAX, true));
            }
        }
        Plan::Carry(steps, Ending::Result)
    }

    /// Requests that bring in missing pages between two addresses: of memory without a file, and of files as well (`files`).
    ///
    /// The helper never touches watched memory: it would wait for itself. A file mapping stays one until the requests are done, because
    /// calls that could change it wait behind them; the helper answers none by itself meanwhile.
    pub(super) fn fills(&mut self, space: u64, start: u64, end: u64, files: bool) -> VecDeque<Step> {
        let mut steps = VecDeque::new();
        self.end_lane();
        let Some(served) = self.spaces.get(&space) else { return steps };
        for area in areas::of(served.space.helper).unwrap_or_default() {
            let (from, to) = (area.start.max(start), area.end.min(end));
            if from >= to || area.protection == 0 || area.is_ours() || area.name.starts_with("[v") {
                continue;
            }
            if area.is_anonymous() {
                let vital = area.protection & 2 != 0;
                steps.push_back(Step { vital, ..Step::aside(op::FILL, [from, to - from, area.protection, 0, 0, 0]) });
            } else if files {
                let populate = [from, to - from, libc::MADV_POPULATE_READ as u64, 0, 0, 0];
                steps.push_back(Step::aside(op::MADVISE, populate));
            }
        }
        steps
    }

    pub(super) fn descriptor(&self, thread: Pid, number: i32) -> io::Result<OwnedFd> {
        let group = thread_group(thread).ok_or(io::ErrorKind::NotFound)?;
        match self.processes.get(&group) {
            Some(process) => sys::descriptor_of(&process.handle, number),
            None => sys::descriptor_of(&sys::open_process(group)?, number),
        }
    }

    /// The address space of a thread.
    pub(super) fn space_of(&mut self, thread: Pid) -> Option<u64> {
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
}
