//! System calls of the helper, without a C library.

use crate::confinement::{Filter, Instruction};
use crate::wire::{Control, Nodes, PAGE, Reply, Request};
use core::arch::asm;

pub(crate) const NR_CLOSE: u64 = 3;
pub(crate) const NR_MMAP: u64 = 9;
pub(crate) const NR_MPROTECT: u64 = 10;
pub(crate) const NR_MUNMAP: u64 = 11;
pub(crate) const NR_BRK: u64 = 12;
pub(crate) const NR_MREMAP: u64 = 25;
pub(crate) const NR_MADVISE: u64 = 28;
pub(crate) const NR_MLOCKALL: u64 = 151;
pub(crate) const NR_MUNLOCKALL: u64 = 152;
pub(crate) const NR_MUNLOCK: u64 = 150;
pub(crate) const NR_MLOCK2: u64 = 325;
pub(crate) const NR_PKEY_MPROTECT: u64 = 329;
const NR_READ: u64 = 0;
const NR_MINCORE: u64 = 27;
const NR_POLL: u64 = 7;
const NR_RT_SIGPROCMASK: u64 = 14;
const NR_IOCTL: u64 = 16;
const NR_GETPID: u64 = 39;
const NR_SENDMSG: u64 = 46;
const NR_RECVMSG: u64 = 47;
const NR_EXIT_GROUP: u64 = 231;
const NR_KILL: u64 = 62;
const NR_SETSID: u64 = 112;
const NR_PRCTL: u64 = 157;
const NR_FCNTL: u64 = 72;
const NR_CAPGET: u64 = 125;
const NR_CAPSET: u64 = 126;
const NR_CLOCK_GETTIME: u64 = 228;
const NR_SET_MEMPOLICY: u64 = 238;
const NR_DUP3: u64 = 292;
const NR_PRLIMIT64: u64 = 302;
const NR_KCMP: u64 = 312;
const NR_SECCOMP: u64 = 317;
const NR_USERFAULTFD: u64 = 323;
const NR_CLOSE_RANGE: u64 = 436;

const F_DUPFD_CLOEXEC: u64 = 1030;
const O_CLOEXEC: u64 = 0o2_000_000;

pub(crate) const MAP_PRIVATE: u64 = 2;
pub(crate) const MAP_FIXED: u64 = 0x10;
pub(crate) const MAP_ANONYMOUS: u64 = 0x20;
pub(crate) const MAP_LOCKED: u64 = 0x2000;
pub(crate) const MAP_NORESERVE: u64 = 0x4000;
pub(crate) const MAP_POPULATE: u64 = 0x8000;
pub(crate) const PROT_READ: u64 = 1;
pub(crate) const PROT_WRITE: u64 = 2;
pub(crate) const PROT_EXEC: u64 = 4;
pub(crate) const MADV_DONTFORK: u64 = 10;
/// Gives pages up even where the program has locked its memory (Linux 5.18).
pub(crate) const MADV_DONTNEED_LOCKED: u64 = 24;
pub(crate) const MADV_DONTDUMP: u64 = 16;
pub(crate) const MADV_POPULATE_READ: u64 = 22;
pub(crate) const MADV_POPULATE_WRITE: u64 = 23;
pub(crate) const MLOCK_ONFAULT: u64 = 1;

pub(crate) const UFFD_EVENT_PAGEFAULT: u8 = 0x12;

/// An error number of the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

impl Errno {
    pub(crate) const AGAIN: Errno = Errno(11);
    pub(crate) const EXISTS: Errno = Errno(17);
    pub(crate) const INVALID: Errno = Errno(22);
    pub(crate) const NO_ENTRY: Errno = Errno(2);
    pub(crate) const NO_MEMORY: Errno = Errno(12);
}

pub(crate) type RawResult = Result<u64, Errno>;

/// Makes a system call.
pub(crate) fn call(number: u64, a: [u64; 6]) -> RawResult {
    let result: i64;
    // SAFETY: the `syscall` instruction clobbers rcx and r11 only. What the kernel does with the arguments is each
    // caller's business: this process owns the pool's addresses, and for the rest carries out the program's own calls.
    unsafe {
        asm!("syscall", inlateout("rax") number as i64 => result, in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5], lateout("rcx") _, lateout("r11") _);
    }
    if (-4095..0).contains(&result) { Err(Errno(-result as i32)) } else { Ok(result as u64) }
}

/// Ends the helper.
pub(crate) fn exit(status: u64) -> ! {
    loop {
        let _ = call(NR_EXIT_GROUP, [status, 0, 0, 0, 0, 0]);
    }
}

/// Ends the program and the helper: without a supervisor its system calls and faults would hang.
pub(crate) fn end_with(target: u64) -> ! {
    let _ = call(NR_KILL, [target, 9, 0, 0, 0, 0]);
    exit(98)
}

pub(crate) fn close(fd: i32) {
    let _ = call(NR_CLOSE, [fd as u64, 0, 0, 0, 0, 0]);
}

/// Blocks every signal, leaves the program's session and names the process.
pub(crate) fn leave_the_terminal() {
    let all = u64::MAX;
    let name = b"memtint-helper\0";
    let _ = call(NR_RT_SIGPROCMASK, [2, &raw const all as u64, 0, 8, 0, 0]);
    let _ = call(NR_SETSID, [0; 6]);
    let _ = call(NR_PRCTL, [15, name.as_ptr() as u64, 0, 0, 0, 0]);
}

/// Creates the userfaultfd of this address space, moves it and the socket to their fixed numbers and closes all others:
/// the program's are copies here, and a pipe must not stay open because of them.
pub(crate) fn settle_descriptors(socket: u64, device: u64) -> Result<(), Errno> {
    let mut kept = [socket, device];
    kept.sort_unstable();
    close_between(0, kept[0]);
    close_between(kept[0].saturating_add(1), kept[1]);
    close_between(kept[1].saturating_add(1), NO_MORE);
    let uffd = new_userfaultfd(device);
    // Above the fixed numbers first: either may sit on the other's place.
    let above = |fd| call(NR_FCNTL, [fd, F_DUPFD_CLOEXEC, crate::wire::FD_LISTENER as u64 + 1, 0, 0, 0]);
    let (high_socket, high_uffd) = (above(socket)?, uffd.and_then(above));
    call(NR_DUP3, [high_socket, crate::wire::FD_SOCKET as u64, O_CLOEXEC, 0, 0, 0])?;
    // Without it, the socket is needed to say so.
    let settled = high_uffd.and_then(|fd| call(NR_DUP3, [fd, crate::wire::FD_UFFD as u64, O_CLOEXEC, 0, 0, 0]));
    close_between(0, crate::wire::FD_SOCKET as u64);
    close_between(crate::wire::FD_UFFD as u64 + 1, NO_MORE);
    settled.map(|_| ())
}

const NO_MORE: u64 = 1 << 32;

/// Closes the descriptors from `first` up to `end`, excluded.
fn close_between(first: u64, end: u64) {
    let last = end.min(NO_MORE).wrapping_sub(1);
    if first < end && first <= u64::from(u32::MAX) {
        let _ = call(NR_CLOSE_RANGE, [first, last, 0, 0, 0, 0]);
    }
}

#[repr(C)]
struct UffdioApi {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// Creates a userfaultfd of this address space, by the device or, without one, by the system call.
fn new_userfaultfd(device: u64) -> RawResult {
    const USERFAULTFD_IOC_NEW: u64 = 0xaa00;
    const UFFDIO_API: u64 = 0xc018_aa3f;
    const UFFD_FEATURE_MOVE: u64 = 1 << 16;
    const O_NONBLOCK: u64 = 0o4000;
    let flags = O_CLOEXEC | O_NONBLOCK;
    let fd = if device == crate::wire::NO_DEVICE {
        call(NR_USERFAULTFD, [flags, 0, 0, 0, 0, 0])?
    } else {
        call(NR_IOCTL, [device, USERFAULTFD_IOC_NEW, flags, 0, 0, 0])?
    };
    let api = UffdioApi { api: 0xaa, features: UFFD_FEATURE_MOVE, ioctls: 0 };
    call(NR_IOCTL, [fd, UFFDIO_API, &raw const api as u64, 0, 0, 0])?;
    Ok(fd)
}

/// Gives up what this process need not be able to do: capabilities, and all system calls but those of `confinement`.
pub(crate) fn confine(control: &Control) -> Result<(), Errno> {
    const PR_SET_NO_NEW_PRIVS: u64 = 38;
    const SECCOMP_SET_MODE_FILTER: u64 = 1;
    #[repr(C)]
    struct Program {
        length: u16,
        code: *const Instruction,
    }
    const RLIMIT_RTTIME: u64 = 15;
    let mut before = [0u64; 2];
    call(NR_PRLIMIT64, [0, RLIMIT_RTTIME, 0, before.as_mut_ptr() as u64, 0, 0])?;
    if control.realtime_max_us != 0 && before[1] > control.realtime_max_us {
        let realtime = [control.realtime_max_us; 2];
        call(NR_PRLIMIT64, [0, RLIMIT_RTTIME, realtime.as_ptr() as u64, 0, 0, 0])?;
    }
    drop_capabilities(control.capabilities as u32)?;
    let own = call(NR_GETPID, [0; 6])?;
    let filter = Filter::new(own as u32, control.target as u32);
    let program = Program { length: filter.code().len() as u16, code: filter.code().as_ptr() };
    call(NR_PRCTL, [PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0])?;
    call(NR_SECCOMP, [SECCOMP_SET_MODE_FILTER, 0, &raw const program as u64, 0, 0, 0]).map(|_| ())
}

/// Gives up all capabilities but `kept`, which are among the first 32.
fn drop_capabilities(kept: u32) -> Result<(), Errno> {
    const VERSION_3: u32 = 0x2008_0522;
    let header = [VERSION_3, 0];
    // Twice effective, permitted, inheritable: for the low and the high half of the set.
    let mut before = [0u32; 6];
    call(NR_CAPGET, [header.as_ptr() as u64, before.as_mut_ptr() as u64, 0, 0, 0, 0])?;
    let permitted = before[1] & kept;
    let after = [permitted, permitted, 0, 0, 0, 0];
    call(NR_CAPSET, [header.as_ptr() as u64, after.as_ptr() as u64, 0, 0, 0, 0]).map(|_| ())
}

/// One message of a userfaultfd.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct UffdMsg {
    pub(crate) event: u8,
    reserved: [u8; 7],
    flags: u64,
    pub(crate) address: u64,
    thread: u64,
}

/// Reads what is there, without waiting.
pub(crate) fn read_faults(fd: i32, into: &mut [UffdMsg; 16]) -> usize {
    let bytes = size_of_val(into) as u64;
    call(NR_READ, [fd as u64, into.as_mut_ptr() as u64, bytes, 0, 0, 0])
        .map_or(0, |read| read as usize / size_of::<UffdMsg>())
}

#[repr(C)]
struct PollFd {
    fd: i32,
    events: i16,
    revents: i16,
}

/// What the helper waits for.
pub(crate) struct Ready {
    pub(crate) fault: bool,
    pub(crate) message: bool,
    pub(crate) call: bool,
}

/// Waits until there is something to do; not for long when there is `idle_work`.
pub(crate) fn wait(uffd: i32, socket: i32, listener: Option<i32>, idle_work: bool) -> Ready {
    const IDLE_MS: u64 = 5000;
    let timeout = if idle_work { IDLE_MS } else { u64::MAX };
    let watch = |fd| PollFd { fd, events: 1, revents: 0 };
    // The kernel passes over negative descriptors.
    let mut fds = [watch(uffd), watch(socket), watch(listener.unwrap_or(-1))];
    let _ = call(NR_POLL, [fds.as_mut_ptr() as u64, 3, timeout, 0, 0, 0]);
    Ready { fault: fds[0].revents != 0, message: fds[1].revents != 0, call: fds[2].revents & 1 != 0 }
}

/// A thread that waits in a system call. Layout of `struct seccomp_notif`, as words.
#[derive(Clone, Copy)]
pub(crate) struct Stopped(pub(crate) [u64; 10]);

impl Stopped {
    pub(crate) fn thread(&self) -> u64 {
        self.0[1] & 0xffff_ffff
    }

    pub(crate) fn number(&self) -> u64 {
        self.0[2] & 0xffff_ffff
    }

    pub(crate) fn arguments(&self) -> [u64; 6] {
        [self.0[4], self.0[5], self.0[6], self.0[7], self.0[8], self.0[9]]
    }
}

/// Takes a stopped call.
pub(crate) fn receive_call(listener: i32) -> Option<Stopped> {
    const SECCOMP_IOCTL_NOTIF_RECV: u64 = 0xc050_2100;
    let mut words = [0u64; 10];
    let argument = words.as_mut_ptr() as u64;
    call(NR_IOCTL, [listener as u64, SECCOMP_IOCTL_NOTIF_RECV, argument, 0, 0, 0]).ok()?;
    Some(Stopped(words))
}

/// Ends a stopped call.
pub(crate) fn conclude(listener: i32, stopped: &Stopped, result: RawResult) {
    const SECCOMP_IOCTL_NOTIF_SEND: u64 = 0xc018_2101;
    let (value, error) = match result {
        Ok(value) => (value, 0),
        Err(Errno(number)) => (0, u64::from(-number as u32)),
    };
    let mut answer = [stopped.0[0], value, error];
    let _ = call(NR_IOCTL, [listener as u64, SECCOMP_IOCTL_NOTIF_SEND, answer.as_mut_ptr() as u64, 0, 0, 0]);
}

/// Whether a thread shares this process's memory.
pub(crate) fn shares_memory(thread: u64) -> bool {
    const KCMP_VM: u64 = 1;
    let me = call(NR_GETPID, [0; 6]).unwrap_or(0);
    call(NR_KCMP, [thread, me, KCMP_VM, 0, 0, 0]) == Ok(0)
}

/// Whether a thread's process has no limit on its address space and data.
pub(crate) fn is_unlimited(thread: u64) -> bool {
    const RLIMIT_DATA: u64 = 2;
    const RLIMIT_AS: u64 = 9;
    [RLIMIT_DATA, RLIMIT_AS].iter().all(|&resource| {
        let mut limit = [0u64; 2];
        call(NR_PRLIMIT64, [thread, resource, 0, limit.as_mut_ptr() as u64, 0, 0]).is_ok() && limit[0] == u64::MAX
    })
}

/// Moves a descriptor to a fixed number.
pub(crate) fn settle(fd: i32, number: i32) {
    let _ = call(NR_DUP3, [fd as u64, number as u64, 0, 0, 0, 0]);
    close(fd);
}

#[repr(C)]
struct IoVec {
    base: u64,
    length: u64,
}

#[repr(C)]
struct MsgHdr {
    name: u64,
    name_length: u64,
    iov: u64,
    iov_length: u64,
    control: u64,
    control_length: u64,
    flags: u64,
}

fn header(iov: &IoVec, control: u64, control_length: u64) -> MsgHdr {
    MsgHdr { name: 0, name_length: 0, iov: &raw const *iov as u64, iov_length: 1, control, control_length, flags: 0 }
}

/// Receives a request and the file that may come with it (else -1). None: the supervisor is gone.
pub(crate) fn receive(socket: i32) -> Option<(Request, i32)> {
    const MSG_CMSG_CLOEXEC: u64 = 0x4000_0000;
    let mut request = Request::default();
    let mut control = [0u64; 4];
    let iov = IoVec { base: &raw mut request as u64, length: size_of::<Request>() as u64 };
    let mut message = header(&iov, control.as_mut_ptr() as u64, size_of_val(&control) as u64);
    let read = call(NR_RECVMSG, [socket as u64, &raw mut message as u64, MSG_CMSG_CLOEXEC, 0, 0, 0]).ok()?;
    if read as usize != size_of::<Request>() {
        return None;
    }
    // cmsg_len = 20 (header 16, one int 4): exactly one descriptor came along.
    let file = if message.control_length >= 20 && control[0] == 20 { control[2] as u32 as i32 } else { -1 };
    Some((request, file))
}

pub(crate) fn send(socket: i32, reply: &Reply) -> bool {
    const MSG_NOSIGNAL: u64 = 0x4000;
    let iov = IoVec { base: &raw const *reply as u64, length: size_of::<Reply>() as u64 };
    let message = header(&iov, 0, 0);
    call(NR_SENDMSG, [socket as u64, &raw const message as u64, MSG_NOSIGNAL, 0, 0, 0]).is_ok()
}

#[repr(C)]
struct UffdioRegister {
    start: u64,
    length: u64,
    mode: u64,
    ioctls: u64,
}

/// Watches a range for missing pages.
pub(crate) fn register(uffd: i32, start: u64, length: u64) -> Result<(), Errno> {
    const UFFDIO_REGISTER: u64 = 0xc020_aa00;
    let mut argument = UffdioRegister { start, length, mode: 1, ioctls: 0 };
    call(NR_IOCTL, [uffd as u64, UFFDIO_REGISTER, &raw mut argument as u64, 0, 0, 0]).map(|_| ())
}

/// Stops watching a range of the pool.
pub(crate) fn unregister(uffd: i32, start: u64, length: u64) {
    const UFFDIO_UNREGISTER: u64 = 0x8010_aa01;
    let mut argument = [start, length];
    let _ = call(NR_IOCTL, [uffd as u64, UFFDIO_UNREGISTER, argument.as_mut_ptr() as u64, 0, 0, 0]);
}

#[repr(C)]
struct UffdioMove {
    destination: u64,
    source: u64,
    length: u64,
    mode: u64,
    moved: i64,
}

/// Pages of private memory that are not there; those of a range that is not mapped as a whole.
pub(crate) fn absent_pages(at: u64, length: u64) -> u64 {
    let mut present = [0u8; 1024];
    let (mut absent, mut done) = (0, 0);
    while done < length {
        let part = (length - done).min(present.len() as u64 * PAGE);
        let pages = &mut present[..(part / PAGE) as usize];
        pages.fill(0);
        let _ = call(NR_MINCORE, [at + done, part, pages.as_mut_ptr() as u64, 0, 0, 0]);
        absent += pages.iter().filter(|&&page| page & 1 == 0).count() as u64;
        done += part;
    }
    absent
}

/// Moves pages; returns how many were moved and why not more.
pub(crate) fn move_pages(uffd: i32, destination: u64, source: u64, pages: u64) -> (u64, Option<Errno>) {
    const UFFDIO_MOVE: u64 = 0xc028_aa05;
    let length = pages * PAGE;
    let mut argument = UffdioMove { destination, source, length, mode: 0, moved: 0 };
    let result = call(NR_IOCTL, [uffd as u64, UFFDIO_MOVE, &raw mut argument as u64, 0, 0, 0]);
    let moved = if argument.moved > 0 { argument.moved as u64 / PAGE } else { 0 };
    match result {
        Ok(_) => (pages, None),
        Err(errno) => (moved, Some(errno)),
    }
}

#[repr(C)]
struct UffdioRange4 {
    start: u64,
    length: u64,
    mode: u64,
    done: i64,
}

/// Maps the shared zero page; for memory that cannot be written.
pub(crate) fn zero_page(uffd: i32, at: u64) -> RawResult {
    const UFFDIO_ZEROPAGE: u64 = 0xc020_aa04;
    let mut argument = UffdioRange4 { start: at, length: PAGE, mode: 0, done: 0 };
    call(NR_IOCTL, [uffd as u64, UFFDIO_ZEROPAGE, &raw mut argument as u64, 0, 0, 0])
}

/// Makes an access to the page raise SIGBUS.
pub(crate) fn poison(uffd: i32, at: u64) -> RawResult {
    const UFFDIO_POISON: u64 = 0xc020_aa08;
    let mut argument = UffdioRange4 { start: at, length: PAGE, mode: 0, done: 0 };
    call(NR_IOCTL, [uffd as u64, UFFDIO_POISON, &raw mut argument as u64, 0, 0, 0])
}

#[repr(C)]
struct UffdioCopy {
    destination: u64,
    source: u64,
    length: u64,
    mode: u64,
    copied: i64,
}

/// Lets the kernel choose a frame for the page and fills it from `source`.
pub(crate) fn copy_page(uffd: i32, at: u64, source: u64) -> RawResult {
    const UFFDIO_COPY: u64 = 0xc028_aa03;
    let mut argument = UffdioCopy { destination: at, source, length: PAGE, mode: 0, copied: 0 };
    call(NR_IOCTL, [uffd as u64, UFFDIO_COPY, &raw mut argument as u64, 0, 0, 0])
}

/// Wakes threads that wait for a page that is there by now.
pub(crate) fn wake(uffd: i32, at: u64) {
    const UFFDIO_WAKE: u64 = 0x8010_aa02;
    let mut argument = [at, PAGE];
    let _ = call(NR_IOCTL, [uffd as u64, UFFDIO_WAKE, argument.as_mut_ptr() as u64, 0, 0, 0]);
}

/// Takes this process's memory from these NUMA nodes while they have any; nothing changes when there are none.
///
/// The policy belongs to the task: the program, which shares the memory, keeps its own.
pub(crate) fn prefer_nodes(nodes: &Nodes) {
    const MPOL_PREFERRED_MANY: u64 = 5;
    // The kernel takes the number of bits plus one.
    let bits = 8 * size_of::<Nodes>() as u64 + 1;
    if nodes.iter().any(|&word| word != 0) {
        let _ = call(NR_SET_MEMPOLICY, [MPOL_PREFERRED_MANY, nodes.as_ptr() as u64, bits, 0, 0, 0]);
    }
}

/// Monotonic time in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    let mut time = [0u64; 2];
    let _ = call(NR_CLOCK_GETTIME, [1, time.as_mut_ptr() as u64, 0, 0, 0, 0]);
    time[0] * 1_000_000_000 + time[1]
}

/// Copies `length` bytes between present, non-overlapping memory.
pub(crate) fn copy(to: u64, from: u64, length: u64) {
    // SAFETY: callers pass present pages that are not registered with the userfaultfd: pool pages, or pages of the program
    // while its threads are stopped.
    unsafe {
        asm!("rep movsb", inout("rcx") length => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags));
    }
}

/// Clears pages that are present in the pool.
pub(crate) fn clear(at: u64, length: u64) {
    // SAFETY: as in `copy`.
    unsafe {
        asm!("rep stosb", inout("rcx") length => _, inout("rdi") at => _, in("al") 0u8,
            options(nostack, preserves_flags));
    }
}

// The compiler may call these for block moves.

/// # Safety
/// As `memcpy` of C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, length: usize) -> *mut u8 {
    copy(to as u64, from as u64, length as u64);
    to
}

/// # Safety
/// As `memset` of C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, value: i32, length: usize) -> *mut u8 {
    // SAFETY: the caller's.
    unsafe {
        asm!("rep stosb", inout("rcx") length => _, inout("rdi") to => _, in("al") value as u8,
            options(nostack, preserves_flags));
    }
    to
}
