//! All contact with the machine: thin, safe-to-call wrappers of Linux interfaces.
//!
//! Shared preconditions: Linux 5.15 or newer; CAP_PERFMON, CAP_SYS_NICE and CAP_IPC_LOCK. Wrappers return the error number as
//! [`io::Error`].

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use perf_event_open_sys::bindings::{
    self, PERF_FLAG_FD_CLOEXEC, PERF_FLAG_PID_CGROUP, PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING,
    perf_event_attr, perf_event_header, perf_event_mmap_page,
};
use perf_event_open_sys::{ioctls, perf_event_open};

/// Turns a C return value into a result.
fn check(value: i64) -> io::Result<i64> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

// --- performance events ---

/// The events of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventCode {
    /// `perf_event_attr.type`.
    pub(crate) kind: u32,
    /// `perf_event_attr.config`, `config1` and `config2`.
    pub(crate) config: [u64; 3],
    /// Events in the kernel are not counted.
    pub(crate) excludes_kernel: bool,
}

impl EventCode {
    /// Time, in nanoseconds: PERF_COUNT_SW_CPU_CLOCK.
    pub(crate) const CPU_CLOCK: EventCode = EventCode { kind: 1, config: [0; 3], excludes_kernel: false };
}

/// Opens a pinned counter of one CPU, disabled: of all tasks, or of the cgroup whose folder is given. It overflows whenever it has
/// counted `every` events.
pub(crate) fn open_counter(
    code: EventCode,
    cpu: usize,
    cgroup: Option<BorrowedFd<'_>>,
    every: u64,
) -> io::Result<OwnedFd> {
    let mut attributes = perf_event_attr {
        size: size_of::<perf_event_attr>() as u32,
        type_: code.kind,
        config: code.config[0],
        read_format: u64::from(PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING),
        ..Default::default()
    };
    attributes.__bindgen_anon_1.sample_period = every;
    attributes.__bindgen_anon_2.wakeup_events = 1;
    attributes.__bindgen_anon_3.config1 = code.config[1];
    attributes.__bindgen_anon_4.config2 = code.config[2];
    attributes.set_disabled(1);
    attributes.set_pinned(1);
    attributes.set_exclude_hv(1);
    attributes.set_exclude_kernel(u64::from(code.excludes_kernel));
    let (subject, cgroup_flag) = cgroup.map_or((-1, 0), |folder| (folder.as_raw_fd(), PERF_FLAG_PID_CGROUP));
    // SAFETY: `attributes` is initialized and outlives the call, which reads it.
    let fd = check(i64::from(unsafe {
        let flags = (PERF_FLAG_FD_CLOEXEC | cgroup_flag).into();
        perf_event_open(&raw mut attributes, subject, cpu as i32, -1, flags)
    }))?;
    // SAFETY: the call has just returned this descriptor, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// A sample period that is never reached.
pub(crate) const FAR: u64 = 1 << 46;

/// Starts or stops a counter.
pub(crate) fn enable_counter(counter: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    let fd = counter.as_raw_fd();
    // SAFETY: both calls take a number only.
    check(i64::from(unsafe { if on { ioctls::ENABLE(fd, 0) } else { ioctls::DISABLE(fd, 0) } })).map(drop)
}

/// Sets the number of events until a counter overflows next, counted from now if it is stopped.
pub(crate) fn set_counter_period(counter: BorrowedFd<'_>, events: u64) -> io::Result<()> {
    // The crate's own wrapper passes the number where the kernel takes its address.
    // SAFETY: the kernel reads one u64 at this address, which lives until the call returns.
    check(i64::from(unsafe { libc::ioctl(counter.as_raw_fd(), bindings::PERIOD.into(), &raw const events) })).map(drop)
}

/// A reading of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) events: u64,
    /// How long it has been enabled, and counting, in nanoseconds.
    pub(crate) enabled_ns: u64,
    pub(crate) running_ns: u64,
}

/// Reads a counter; `None` if it is in the error state, in which it counts nothing.
pub(crate) fn read_counter(counter: BorrowedFd<'_>) -> io::Result<Option<Reading>> {
    let mut words = [0_u64; 3];
    // SAFETY: the kernel writes at most the size of `words`, which is not aliased.
    let read =
        check(unsafe { libc::read(counter.as_raw_fd(), words.as_mut_ptr().cast(), size_of_val(&words)) as i64 })?;
    let [events, enabled_ns, running_ns] = words;
    Ok((read == size_of_val(&words) as i64).then_some(Reading { events, enabled_ns, running_ns }))
}

/// The ring of records of a counter. Without one, `poll` does not report overflows.
#[derive(Debug)]
pub(crate) struct Ring {
    start: NonNull<perf_event_mmap_page>,
    data_bytes: usize,
}

// SAFETY: the mapping is not bound to a thread, and only the owner reads it.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring of a counter.
    pub(crate) fn map(counter: BorrowedFd<'_>) -> io::Result<Ring> {
        let page = page_bytes();
        // SAFETY: a new shared mapping at an address that the kernel chooses.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                2 * page,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                counter.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mmap returned address 0"))?;
        Ok(Ring { start, data_bytes: page })
    }

    /// Discards all records. Returns whether one of them reports that the kernel has suspended overflows of this counter
    /// (PERF_RECORD_THROTTLE).
    pub(crate) fn drain(&mut self) -> bool {
        let page = self.start.as_ptr();
        // SAFETY: the mapping lives as long as `self`; the kernel writes `data_head`, which is read atomically.
        let head = unsafe { AtomicU64::from_ptr(&raw mut (*page).data_head) }.load(Ordering::Acquire);
        // SAFETY: only this program writes `data_tail`.
        let tail = unsafe { AtomicU64::from_ptr(&raw mut (*page).data_tail) };
        let (mut at, mut suspended) = (tail.load(Ordering::Relaxed), false);
        while at < head {
            // SAFETY: records begin at multiples of 8 bytes, so a header of 8 bytes lies within the page of data.
            let header = unsafe {
                let data = self.start.as_ptr().cast::<u8>().add(self.data_bytes);
                data.add(at as usize % self.data_bytes).cast::<perf_event_header>().read()
            };
            suspended |= header.type_ == bindings::PERF_RECORD_THROTTLE;
            at += u64::from(header.size.max(8));
        }
        tail.store(head, Ordering::Release);
        suspended
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is this ring's, of this size, and no reference to it remains.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.data_bytes * 2) };
    }
}

// --- BPF ---

/// Commands of bpf(2), and BPF_PERF_EVENT, of linux/bpf.h.
const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_PROG_TEST_RUN: libc::c_long = 10;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_long = 15;
const BPF_RAW_TRACEPOINT_OPEN: libc::c_long = 17;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_PERF_EVENT: u32 = 41;

/// Two 32-bit members, which lie one after the other.
fn pair(first: u32, second: u32) -> u64 {
    let (first, second) = (first.to_ne_bytes(), second.to_ne_bytes());
    let mut both = [0; 8];
    both[..4].copy_from_slice(&first);
    both[4..].copy_from_slice(&second);
    u64::from_ne_bytes(both)
}

/// Calls bpf(2).
///
/// # Safety
/// Addresses within the attributes must be valid for the command's use of them.
unsafe fn bpf(command: libc::c_long, attributes: &mut [u64]) -> io::Result<i64> {
    // SAFETY: the kernel reads and writes as many bytes of the attributes as are given; for the rest the caller vouches.
    check(unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), size_of_val(attributes)) })
}

/// Sets an entry of an array map of 32-bit values.
pub(crate) fn set_array_entry(map: BorrowedFd<'_>, index: u32, value: u32) -> io::Result<()> {
    let mut attributes = [pair(map.as_raw_fd() as u32, 0), (&raw const index) as u64, (&raw const value) as u64, 0];
    // SAFETY: the kernel reads a key and a value of four bytes each, which live until the call returns.
    unsafe { bpf(BPF_MAP_UPDATE_ELEM, &mut attributes) }.map(drop)
}

/// Runs a program at each overflow of a counter, as long as the returned descriptor is open. It can ask for `cookie`.
pub(crate) fn attach_program(program: BorrowedFd<'_>, counter: BorrowedFd<'_>, cookie: u64) -> io::Result<OwnedFd> {
    let fds = pair(program.as_raw_fd() as u32, counter.as_raw_fd() as u32);
    let mut attributes = [fds, pair(BPF_PERF_EVENT, 0), cookie];
    // SAFETY: there are no addresses in these attributes.
    let fd = unsafe { bpf(BPF_LINK_CREATE, &mut attributes) }?;
    // SAFETY: the call has just returned this descriptor, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Runs a program at each pass of a tracepoint of the kernel, as long as the returned descriptor is open.
pub(crate) fn attach_to_tracepoint(program: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let mut attributes = [name.as_ptr() as u64, pair(program.as_raw_fd() as u32, 0)];
    // SAFETY: the kernel reads the name, which lives until the call returns.
    let fd = unsafe { bpf(BPF_RAW_TRACEPOINT_OPEN, &mut attributes) }?;
    // SAFETY: the call has just returned this descriptor, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Runs a raw-tracepoint program once, on this CPU, with these arguments. Returns its result.
pub(crate) fn run_program(program: BorrowedFd<'_>, arguments: &[u64]) -> io::Result<u32> {
    let mut attributes = [0_u64; 10];
    attributes[0] = pair(program.as_raw_fd() as u32, 0);
    // The size and the address of the context.
    attributes[5] = pair(size_of_val(arguments) as u32, 0);
    attributes[6] = arguments.as_ptr() as u64;
    // SAFETY: the kernel reads the arguments, whose size it has.
    unsafe { bpf(BPF_PROG_TEST_RUN, &mut attributes) }?;
    let second = attributes[0].to_ne_bytes();
    Ok(u32::from_ne_bytes([second[4], second[5], second[6], second[7]]))
}

/// How long a program has run in all, in nanoseconds: while statistics were on.
pub(crate) fn program_time_ns(program: BorrowedFd<'_>) -> io::Result<u64> {
    /// `run_time_ns` of `struct bpf_prog_info`, in words of eight bytes.
    const RUN_TIME: usize = 24;
    let mut info = [0_u64; RUN_TIME + 1];
    let mut attributes = [pair(program.as_raw_fd() as u32, size_of_val(&info) as u32), info.as_mut_ptr() as u64];
    // SAFETY: the kernel writes at most the size that it has been given.
    unsafe { bpf(BPF_OBJ_GET_INFO_BY_FD, &mut attributes) }?;
    Ok(info[RUN_TIME])
}

/// A value of an array map with one entry, shared with the kernel. All bit patterns are valid for `T`, which consists of atomic words.
#[derive(Debug)]
pub(crate) struct Shared<T> {
    start: NonNull<T>,
}

// SAFETY: `T` is shared with the kernel in any case, and consists of atomic words.
unsafe impl<T: Sync> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// Maps the entry; fails if it is smaller than `T`, in pages.
    pub(crate) fn map(map: BorrowedFd<'_>) -> io::Result<Shared<T>> {
        // SAFETY: a new shared mapping at an address that the kernel chooses.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<T>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mmap returned address 0"))?;
        Ok(Shared { start })
    }

    /// The value.
    pub(crate) fn get(&self) -> &T {
        // SAFETY: the mapping is as large as `T`, at the start of a page, and lives as long as `self`.
        unsafe { self.start.as_ref() }
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, of this size, and no reference to it remains.
        unsafe { libc::munmap(self.start.as_ptr().cast(), size_of::<T>()) };
    }
}

fn page_bytes() -> usize {
    // SAFETY: the call has no preconditions.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

// --- waiting ---

/// Waits until one of the descriptors can be read, or `timeout` is over, if there is one. Returns for each whether it can be read, or
/// has an error.
pub(crate) fn wait_readable(fds: &mut [libc::pollfd], timeout: Option<Duration>) -> io::Result<()> {
    let timeout = timeout.map(|time| timespec(time.as_nanos() as u64));
    let timeout: *const libc::timespec = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the kernel reads and writes as many entries as the slice has, and reads what `timeout` points to, if anything.
    let ready = check(i64::from(unsafe {
        libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout, std::ptr::null())
    }));
    match ready {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            fds.iter_mut().for_each(|fd| fd.revents = 0);
            Ok(())
        }
        other => other.map(drop),
    }
}

/// Creates an event counter that `poll` reports.
pub(crate) fn event_fd() -> io::Result<OwnedFd> {
    // SAFETY: the call takes numbers only.
    let fd = check(i64::from(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) }))?;
    // SAFETY: the call has just returned this descriptor, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Makes an event counter readable.
pub(crate) fn notify(event: BorrowedFd<'_>) {
    let one = 1_u64.to_ne_bytes();
    // A counter at its maximum stays readable, so a failure changes nothing.
    // SAFETY: the kernel reads eight bytes.
    unsafe { libc::write(event.as_raw_fd(), one.as_ptr().cast(), one.len()) };
}

/// Resets an event counter or a timer.
pub(crate) fn clear(event: BorrowedFd<'_>) {
    let mut count = [0_u8; 8];
    // SAFETY: the kernel writes at most eight bytes.
    unsafe { libc::read(event.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
}

// --- time ---

fn timespec(time_ns: u64) -> libc::timespec {
    libc::timespec { tv_sec: (time_ns / 1_000_000_000) as _, tv_nsec: (time_ns % 1_000_000_000) as _ }
}

/// Creates a timer of the monotonic clock that `poll` reports.
pub(crate) fn timer_fd() -> io::Result<OwnedFd> {
    let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
    // SAFETY: the call takes numbers only.
    let fd = check(i64::from(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) }))?;
    // SAFETY: the call has just returned this descriptor, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Has a timer fire at a time, and then whenever `interval_ns` has passed.
pub(crate) fn arm_timer(timer: BorrowedFd<'_>, first_ns: u64, interval_ns: u64) {
    let setting = libc::itimerspec { it_interval: timespec(interval_ns), it_value: timespec(first_ns.max(1)) };
    // Fails for a descriptor that is no timer only, and for a time that is none.
    // SAFETY: the kernel reads one setting.
    unsafe {
        libc::timerfd_settime(timer.as_raw_fd(), libc::TFD_TIMER_ABSTIME, &raw const setting, std::ptr::null_mut())
    };
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec. These clocks exist on every Linux, so it cannot fail.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds since the machine has started, without suspended time (CLOCK_MONOTONIC).
pub fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// The same with suspended time.
pub(crate) fn now_with_suspend_ns() -> u64 {
    clock_ns(libc::CLOCK_BOOTTIME)
}

/// Processor time of the calling thread, in nanoseconds.
pub(crate) fn thread_time_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

// --- scheduling ---

/// Runs the calling thread on these CPUs only.
pub(crate) fn pin(cpus: &[usize]) -> io::Result<()> {
    // SAFETY: an all-zero set is an empty one.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &cpu in cpus {
        if cpu >= libc::CPU_SETSIZE as usize {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        // SAFETY: the index is below CPU_SETSIZE.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // SAFETY: the kernel reads one set.
    check(i64::from(unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) })).map(drop)
}

/// Gives the calling thread a SCHED_FIFO priority, which its children do not inherit.
pub(crate) fn set_fifo(priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the kernel reads one structure.
    check(i64::from(unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) })).map(drop)
}

/// Gives the calling thread the scheduling policy of ordinary tasks.
pub(crate) fn set_ordinary() -> io::Result<()> {
    set_policy(libc::SCHED_OTHER)
}

/// Gives the calling thread the policy of tasks that run when nothing else does.
pub(crate) fn set_idle_policy() -> io::Result<()> {
    set_policy(libc::SCHED_IDLE)
}

fn set_policy(policy: i32) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads one structure.
    check(i64::from(unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) })).map(drop)
}

/// The CPU that the calling thread runs on.
pub(crate) fn current_cpu() -> usize {
    // SAFETY: the call has no preconditions; it fails only on kernels without it.
    unsafe { libc::sched_getcpu() as usize }
}

/// Keeps all memory of the process, present and future, from being paged out.
pub(crate) fn lock_memory() -> io::Result<()> {
    // SAFETY: the call takes numbers only.
    check(i64::from(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) })).map(drop)
}

// --- the calibrated loads ---

/// Private memory, zeroed, untouched.
#[derive(Debug)]
pub(crate) struct LoadMemory {
    start: NonNull<u8>,
    bytes: usize,
}

impl LoadMemory {
    /// Reserves `bytes`, rounded up to pages, in pages of the smallest size.
    pub(crate) fn reserve(bytes: usize) -> io::Result<LoadMemory> {
        let bytes = bytes.max(1).next_multiple_of(page_bytes());
        // SAFETY: a new private mapping at an address that the kernel chooses.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mmap returned address 0"))?;
        let memory = LoadMemory { start, bytes };
        // Kernels without huge pages refuse this, and need it not.
        // SAFETY: advice about this mapping.
        unsafe { libc::madvise(memory.start.as_ptr().cast(), memory.bytes, libc::MADV_NOHUGEPAGE) };
        Ok(memory)
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// Writes the byte at an offset.
    ///
    /// # Panics
    /// When the offset is not within.
    pub(crate) fn touch(&mut self, offset: usize) {
        assert!(offset < self.bytes, "{offset} is beyond {} bytes", self.bytes);
        // SAFETY: the offset lies within the mapping.
        unsafe { self.start.as_ptr().add(offset).write_volatile(1) };
    }

    /// Reads the byte at an offset.
    ///
    /// # Panics
    /// When the offset is not within.
    pub(crate) fn look(&self, offset: usize) {
        assert!(offset < self.bytes, "{offset} is beyond {} bytes", self.bytes);
        // SAFETY: the offset lies within the mapping.
        unsafe { self.start.as_ptr().add(offset).read_volatile() };
    }

    /// Has the CPU forget the addresses of all pages: their protection is changed and changed back.
    pub(crate) fn forget(&mut self) -> io::Result<()> {
        for protection in [libc::PROT_NONE, libc::PROT_READ | libc::PROT_WRITE] {
            // SAFETY: the mapping is this value's, which nothing uses meanwhile.
            check(i64::from(unsafe { libc::mprotect(self.start.as_ptr().cast(), self.bytes, protection) }))?;
        }
        Ok(())
    }

    /// Returns the pages to the kernel: the next touch of each is a page fault.
    pub(crate) fn discard(&mut self) -> io::Result<()> {
        // SAFETY: the mapping is private and anonymous, and no reference to its content exists.
        check(i64::from(unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes, libc::MADV_DONTNEED) }))
            .map(drop)
    }

    /// Bytes of a page.
    pub(crate) fn page_bytes() -> usize {
        page_bytes()
    }
}

impl Drop for LoadMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, of this size, and no reference to it remains.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

// --- the kernel ---

/// The first two numbers of the kernel's release; 0 where there is none.
pub(crate) fn kernel_release() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map(|part| part.trim().parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

// --- processes ---

/// Starts a new session, so that no terminal signals the process, and ignores SIGTERM.
pub(crate) fn leave_terminal() {
    // SAFETY: both calls take numbers only; the first fails only if the process leads a group already, which changes nothing.
    unsafe {
        libc::setsid();
        libc::signal(libc::SIGTERM, libc::SIG_IGN);
    }
}

/// Closes standard output: its reader sees the end.
pub(crate) fn close_output() {
    // SAFETY: `/dev/null` takes the place of the descriptor, so that nothing else is opened in it.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if null >= 0 {
            libc::dup2(null, 1);
            libc::close(null);
        }
    }
}

/// Ignores the signals by which a terminal stops a process: groups would stay frozen meanwhile.
pub(crate) fn ignore_stops() {
    for signal in [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU] {
        // SAFETY: ignoring a signal runs no code of this program.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// A copy of a descriptor that programs started from now on inherit.
pub(crate) fn inheritable(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: the call takes numbers only.
    let copy = check(i64::from(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD, 3) }))?;
    // SAFETY: the call has just returned this descriptor, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy as RawFd) })
}

/// Gives the calling thread a separate table of descriptors, in which this one only is open: the kernel closes it as soon as the thread
/// has ended, however many others live on. The copy in the table before stays open ([`close_number`]).
pub(crate) fn keep_only(fd: BorrowedFd<'_>) -> io::Result<()> {
    let number = fd.as_raw_fd() as u32;
    // SAFETY: the calls take numbers only. Descriptors of others stay open in the other table, where their owners are.
    unsafe {
        check(i64::from(libc::unshare(libc::CLONE_FILES)))?;
        // Where that is not known, they are open a little longer.
        libc::syscall(libc::SYS_close_range, 0, number.saturating_sub(1), 0);
        libc::syscall(libc::SYS_close_range, number + 1, u32::MAX, 0);
    }
    Ok(())
}

/// Closes a descriptor by its number.
///
/// # Safety
/// Nothing that goes by the table of the calling thread has this number.
pub(crate) unsafe fn close_number(number: RawFd) {
    // SAFETY: see above.
    unsafe { libc::close(number) };
}

/// The user by whose permissions this process acts.
pub(crate) fn user() -> u32 {
    // SAFETY: the call takes nothing.
    unsafe { libc::geteuid() }
}

/// The parent of this process: while the one that has started it has a thread left, that one.
pub(crate) fn parent() -> u32 {
    // SAFETY: the call takes nothing.
    unsafe { libc::getppid() }.unsigned_abs()
}

/// Reads the data that arrive within a time, and appends them. Returns the number of bytes, 0 at the end; `None` when
/// nothing comes.
pub(crate) fn read_some(fd: BorrowedFd<'_>, time: Duration, out: &mut Vec<u8>) -> io::Result<Option<usize>> {
    let mut fds = [libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
    wait_readable(&mut fds, Some(time))?;
    if fds[0].revents == 0 {
        return Ok(None);
    }
    let mut bytes = [0_u8; 64];
    // SAFETY: the kernel writes at most the size of `bytes`.
    let read = check(unsafe { libc::read(fd.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) as i64 })? as usize;
    out.extend_from_slice(&bytes[..read]);
    Ok(Some(read))
}
