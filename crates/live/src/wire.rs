//! The protocol between supervisor and helper, and the helper's addresses.
//!
//! The helper is a process that shares the address space of a colored program. Everything here is plain data with a
//! fixed layout: both sides include this file. The program can write to the same memory, so the supervisor treats every
//! message and every value in the control area as the program's: `docs/security.md` lists the possible effects of each.
//!
//! ```text
//! BLOB_BASE    code of the helper (shared mapping of one sealed file, r-x)
//! CONTROL_BASE control area (shared file, rw): Control, then run list, then the helper's stack
//! POOL_BASE .. frame pool: intake (fresh pages, any color) and ready ring (pages of the right color, zeroed)
//! POOL_END
//! ```

/// First address of the range that belongs to memtint in every colored address space.
///
/// Outside the ranges that programs choose on x86-64 (47-bit layout): V8 takes random addresses of 46 bits,
/// position-independent executables and libraries lie above 0x55.., Go and the sanitizers use fixed places below.
pub const BLOB_BASE: u64 = 0x4d00_0000_0000;
/// Bytes reserved for code; the system-call filter exempts calls made from here.
pub const BLOB_LEN: u64 = 0x2_0000;
/// Control area of one address space.
pub const CONTROL_BASE: u64 = 0x4d00_0010_0000;
/// Bytes of the control area: header, run list, stack.
pub const CONTROL_LEN: u64 = 0x4_0000;
/// Offset inside the control area of the run list that goes with a request.
pub const RUNS_OFFSET: u64 = 0x8000;
/// Offset of the run list that answers a question of the helper.
pub const ANSWER_OFFSET: u64 = 0x1_8000;
/// Runs that fit either list.
pub const RUNS_MAX: usize = 0x1_0000 / size_of::<Run>();
/// The helper's stack ends (grows down from) here.
pub const STACK_TOP: u64 = CONTROL_BASE + CONTROL_LEN;
/// Fresh pages whose color is not known yet, if frames cannot be had through the free list.
pub const INTAKE_BASE: u64 = 0x4d10_0000_0000;
/// Scratch page.
pub const STAGE_BASE: u64 = 0x4d30_0000_0000;
/// Ready pages: a ring of chunks.
pub const READY_BASE: u64 = 0x4d40_0000_0000;
/// Bytes of one chunk of the ready ring: mapped when the ring reaches it, so that the pool takes little of the
/// program's address space beyond the pages it holds.
pub const READY_CHUNK: u64 = 2 << 20;
/// Chunks of the ready ring.
pub const READY_CHUNKS: u64 = 1 << 17;
/// First address past memtint's range.
pub const POOL_END: u64 = 0x4e00_0000_0000;

/// Argument of `prctl` by which the injector asks the supervisor for a file descriptor.
pub const PRCTL_MAGIC: u64 = 0x6d65_6d74;

/// File descriptor numbers of the helper.
pub const FD_SOCKET: i32 = 3;
/// See [`FD_SOCKET`].
pub const FD_UFFD: i32 = 4;
/// The filter's listener, while the helper answers the program itself ([`op::LANE`]).
pub const FD_LISTENER: i32 = 5;

/// Value of [`Control::device`] where the device cannot be opened.
pub const NO_DEVICE: u64 = u64::MAX;

/// Processor time that a helper may spend at real-time priority without waiting, in microseconds; then the kernel kills it. A helper's work
/// at that priority takes less than a thousandth of this.
pub const REALTIME_MAX_US: u64 = 500_000;

/// Requests that the helper can defer. The supervisor has at most two under way: one for the program, one for itself.
pub const DEFERRED: usize = 4;

/// Blocks of memory for which the helper keeps a record of faults.
pub const BLOCKS: usize = 2048;

/// Result of [`op::PROTECT`] outside the kernel's error numbers.
pub const NOT_ANONYMOUS: i64 = -4001;

/// Page size of every machine memtint runs on.
pub const PAGE: u64 = 4096;

/// NUMA nodes, one bit each, as the kernel takes them; 1024 is the most a kernel can be built for.
pub type Nodes = [u64; 16];

/// The set of one node; empty for a number that no node has.
pub const fn one_node(node: u32) -> Nodes {
    let mut nodes = [0; 16];
    if (node as usize) < 64 * nodes.len() {
        nodes[node as usize / 64] = 1 << (node % 64);
    }
    nodes
}

/// Consecutive pages.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// Virtual address of the first page.
    pub start: u64,
    /// Pages.
    pub pages: u64,
}

/// Head of the control area. Counters are written by the helper only and read by the supervisor at any time.
#[repr(C)]
pub struct Control {
    /// Handler events.
    pub counters: Counters,
    /// Descriptor of the socket to the supervisor when the helper starts.
    pub socket: u64,
    /// Descriptor of the userfaultfd device when the helper starts; [`NO_DEVICE`]: the system call creates it.
    pub device: u64,
    /// Process id of the program, so that the helper can end it when the supervisor is gone.
    pub target: u64,
    /// The helper's `RLIMIT_RTTIME`; 0 for a program that is real-time itself.
    pub realtime_max_us: u64,
    /// Capabilities that the helper keeps if it has them, as bits.
    pub capabilities: u64,
    /// 1 = strict: a fault that cannot be served in color is poisoned.
    pub strict: u64,
    /// Pages still to put in place ahead of the first touch.
    pub prefault_pages: u64,
    /// 1 while the program's MCL_FUTURE is in effect: new mappings are filled at once.
    pub fill_future: u64,
    /// Largest number of pages a fault may bring in.
    pub batch_max: u64,
    /// Most pages the pool may keep from the system.
    pub pool_cap: u64,
    /// Pages to examine for one of the right color, times 256.
    pub looks_per_page_256: u64,
    /// Most pages of the wrong color held at a time during a search.
    pub hold_max: u64,
    /// NUMA nodes with memory in color; empty where the machine has only one.
    pub nodes: Nodes,
    /// The helper's own state.
    pub state: State,
}

/// The helper's state; no other process reads it.
#[repr(C)]
pub struct State {
    /// Next page of the ready ring to give out.
    pub head: u64,
    /// End of the ready ring.
    pub tail: u64,
    /// Streams of faults, for batching.
    pub streams: [Stream; 8],
    /// Blocks of memory hit by the latest faults, by their number; for scattered faults.
    pub blocks: [u64; BLOCKS],
    /// Next stream slot to replace.
    pub next_stream: u64,
    /// Sequence number of questions to the supervisor.
    pub sequence: u64,
    /// Requests that came while the helper waited for an answer, with the attached file or -1: a ring.
    pub deferred: [(Request, i64); DEFERRED],
    /// Index of the oldest of them.
    pub deferred_first: u64,
    /// Their number.
    pub deferred_count: u64,
    /// 1 while the helper reads the filter's listener.
    pub lane: u64,
    /// 1 once the program has locked memory.
    pub locks: u64,
    /// 1 if there was too little memory when the pool was last to grow.
    pub scarce: u64,
}

/// A run of faults at neighbouring addresses.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Stream {
    /// Page that the stream would touch next going up.
    pub up: u64,
    /// Page that it would touch next going down.
    pub down: u64,
    /// Pages brought in last time.
    pub batch: u64,
}

/// Counters of one address space.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Page faults served.
    pub faults: u64,
    /// Pages moved into the program in color.
    pub pages_in_color: u64,
    /// Pages given out of color (soft mode, pool dry).
    pub pages_out_of_color: u64,
    /// Pages refused (strict mode, pool dry).
    pub pages_refused: u64,
    /// Pages ready in the pool now.
    pub pool_pages: u64,
    /// Pages examined to build the pool.
    pub scanned_pages: u64,
    /// Pages of the right color found among them.
    pub kept_pages: u64,
    /// Pages of unmapped areas taken back.
    pub recycled_pages: u64,
    /// Existing pages put in color.
    pub recolored_pages: u64,
    /// File pages copied into color.
    pub copied_pages: u64,
    /// Mappings that userfaultfd refused to register.
    pub register_refused: u64,
    /// Pages the kernel did not move for another reason.
    pub move_refused: u64,
    /// Error number of the last refusal to move a page.
    pub last_move_error: u64,
    /// Nanoseconds spent building the pool.
    pub grow_ns: u64,
    /// Largest unmet request for pages.
    pub missing_pages: u64,
    /// End of the heap: `brk` as the helper carried it out last.
    pub program_break: u64,
}

/// Requests of the supervisor. Values are system-call numbers where the helper carries out the program's call.
pub mod op {
    /// `mmap(args)`; a file, if any, comes along as a descriptor.
    pub const MMAP: u32 = 1;
    /// `brk(args[0])`; `args[1]` runs of the run list go back to the pool first.
    pub const BRK: u32 = 2;
    /// `mremap(args)`.
    pub const MREMAP: u32 = 3;
    /// `munmap(args[0], args[1])`; `args[2]` runs of the run list go back to the pool first.
    pub const MUNMAP: u32 = 4;
    /// `madvise(args[0], args[1], args[2])`; `args[3]` runs of the run list go back to the pool first.
    pub const MADVISE: u32 = 5;
    /// `mlock(args[0], args[1])` with flags `args[2]`.
    pub const MLOCK: u32 = 6;
    /// `munlock(args[0], args[1])`.
    pub const MUNLOCK: u32 = 7;
    /// `mlockall(args[0])`, without letting the kernel fill; the supervisor sends FILL for the ranges to fill.
    pub const MLOCKALL: u32 = 8;
    /// `munlockall()`.
    pub const MUNLOCKALL: u32 = 9;
    /// Watch anonymous memory `args[0] .. args[0]+args[1]`.
    pub const REGISTER: u32 = 10;
    /// Put the `args[0]` runs of the run list (existing pages of registered memory) in color.
    pub const RECOLOR: u32 = 11;
    /// Copy the pages of the private file mapping `args[0] .. +args[1]`, protection `args[2]`, that are not private yet, into
    /// color.
    pub const COPY: u32 = 12;
    /// Bring in all missing pages of `args[0] .. +args[1]`, which has protection `args[2]`.
    pub const FILL: u32 = 13;
    /// Stop watching `args[0] .. +args[1]`: the program watches it.
    pub const UNREGISTER: u32 = 20;
    /// Move the `args[0]` runs of the run list, private pages of a writable file mapping with protection `args[1]`, into color.
    pub const REWRITE: u32 = 21;
    /// Have at least `args[0]` pages ready.
    pub const GROW: u32 = 14;
    /// Answer to a question of the helper: number of runs in the answer list, in `args[0]`.
    pub const CLASSIFIED: u32 = 15;
    /// Take the attached listener of the filter, and answer simple calls of this address space (`args[0]` = 1), or
    /// return it (0).
    pub const LANE: u32 = 17;
    /// `mprotect(args[0], args[1], args[2])`, or `pkey_mprotect` with key `args[3]` unless that is `u64::MAX`, of memory
    /// that becomes writable. With `args[4]` = 0 the result is [`super::NOT_ANONYMOUS`], and nothing is done, when a
    /// file is mapped there.
    pub const PROTECT: u32 = 18;
    /// Answer to [`super::say::PROTECTION`]: protection bits in `args[0]`, end of the mapping in `args[1]`, and
    /// 1 in `args[2]` when it is locked in memory.
    pub const PROTECTED: u32 = 19;
    /// Answer to [`super::say::WANT`]: `args[0]` frames of the right color lie on top of this CPU's free list. Each NUMA
    /// node has such a list: with `args[1]` = 1 it is that of node `args[2]`.
    pub const TAKE: u32 = 16;
}

/// Supervisor to helper.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    /// One of [`op`].
    pub op: u32,
    /// Padding.
    pub reserved: u32,
    /// Echoed in the reply.
    pub id: u64,
    /// See [`op`].
    pub args: [u64; 6],
}

/// Messages of the helper.
pub mod say {
    /// The helper runs; `value` is 0 or a negative error number from creating its userfaultfd.
    pub const HELLO: u32 = 1;
    /// Result of a request in `value` (negative = error number).
    pub const DONE: u32 = 2;
    /// Which pages of `extra[0]`, `extra[1]` pages, are in color? Answer with [`super::op::CLASSIFIED`].
    pub const CLASSIFY: u32 = 3;
    /// Which pages of `extra[0]`, `extra[1]` pages, are missing or belong to a file? Answer with
    /// [`super::op::CLASSIFIED`].
    pub const UNCOPIED: u32 = 8;
    /// Put `extra[0]` frames of the right color on top of the free list of the helper's CPU, and keep the helper on that
    /// CPU until its next message, for a moment at most. Answer with [`super::op::TAKE`].
    pub const WANT: u32 = 5;
    /// Which protection does the page at `extra[0]` have? Answer with [`super::op::PROTECTED`].
    pub const PROTECTION: u32 = 7;
    /// A stopped call for the supervisor: `extra` is the kernel's `struct seccomp_notif`.
    pub const FORWARD: u32 = 6;
    /// Strict mode refused a page at address `extra[0]`, or a call that brings in pages (0): the pool is dry, and
    /// `extra[1]` pages are missing.
    pub const REFUSED: u32 = 4;
}

/// Helper to supervisor.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Reply {
    /// One of [`say`].
    pub kind: u32,
    /// Padding.
    pub reserved: u32,
    /// Id of the request, or of the question.
    pub id: u64,
    /// Result.
    pub value: i64,
    /// See [`say`].
    pub extra: [u64; 10],
}

const _: () = assert!(size_of::<Control>() as u64 <= RUNS_OFFSET, "the header must end before the run list");
const _: () = assert!(ANSWER_OFFSET + 0x1_0000 < CONTROL_LEN - 0x1_0000, "the stack needs room");
