//! `/proc/PID/maps`: the segments of an address space and their kinds.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pool::is_pool;

/// Content of a mapping, inferred from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SegmentKind {
    /// Executable mapping of a file: program, loader, libraries.
    Text,
    /// Private mapping of a file without execute or write permission: constants, or a file that is only read.
    ReadOnlyFile,
    /// Private writable mapping of a file: initialised data, or a file mapped to be changed privately.
    Data,
    /// Zero-initialised data: the anonymous mapping that continues a file's data.
    Bss,
    /// The `brk` heap.
    Heap,
    /// Any other anonymous private mapping.
    Anonymous,
    /// Anonymous private mapping that can be executed: generated code, or text that memtint has replaced by a copy.
    AnonymousCode,
    /// The first thread's stack.
    Stack,
    /// Another thread's stack, recognised by the thread's stack pointer or by the guard below it; an unrecognised one
    /// is counted as [`SegmentKind::Anonymous`].
    ThreadStack,
    /// Shared mapping of a file.
    SharedFile,
    /// Shared memory: anonymous shared mappings, memfd, System V segments, files on tmpfs in `/dev/shm`.
    SharedMemory,
    /// Mapping of huge pages reserved through hugetlbfs.
    HugeTlb,
    /// The kernel's own pages in every program: vdso, vvar, vsyscall.
    Vdso,
    /// Mapping of a device.
    Device,
    /// memtint's stock of frames and helper inside the program (see [`crate::POOL_ADDRESSES`]).
    MemtintPool,
}

impl SegmentKind {
    /// Name for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::ReadOnlyFile => "read-only file",
            Self::Data => "data",
            Self::Bss => "bss",
            Self::Heap => "heap",
            Self::Anonymous => "anonymous",
            Self::AnonymousCode => "anonymous code",
            Self::Stack => "stack",
            Self::ThreadStack => "thread stack",
            Self::SharedFile => "shared file",
            Self::SharedMemory => "shared memory",
            Self::HugeTlb => "hugetlb",
            Self::Vdso => "vdso, vvar",
            Self::Device => "device",
            Self::MemtintPool => "memtint pool",
        }
    }
}

/// One line of `/proc/PID/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) start: u64,
    /// Excluded.
    pub(crate) end: u64,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    pub(crate) executable: bool,
    pub(crate) shared: bool,
    pub(crate) device_number: (u32, u32),
    pub(crate) inode: u64,
    pub(crate) name: String,
    pub(crate) kind: SegmentKind,
}

impl Segment {
    fn has_file(&self) -> bool {
        self.inode != 0 || self.name.starts_with('/')
    }
}

/// Data about the threads: their stacks look like any other memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Landmarks {
    /// Stack pointers of all threads but the first, where they could be read.
    pub(crate) thread_stack_pointers: Vec<u64>,
    pub(crate) threads: usize,
}

/// Parses the whole of `/proc/PID/maps` and determines the kind of every segment. Malformed lines are left out.
pub(crate) fn parse(text: &str, landmarks: &Landmarks) -> Vec<Segment> {
    let mut segments: Vec<Segment> = text.lines().filter_map(parse_line).collect();
    for index in 0..segments.len() {
        segments[index].kind = classify(&segments, index);
    }
    let stacks: BTreeSet<usize> = thread_stacks(&segments, landmarks).collect();
    for index in stacks {
        segments[index].kind = SegmentKind::ThreadStack;
    }
    segments
}

/// `start-end perms offset major:minor inode   name` (proc_pid_maps(5)); the name may hold blanks.
fn parse_line(line: &str) -> Option<Segment> {
    let mut rest = line;
    let mut field = || {
        rest = rest.trim_start_matches(' ');
        let (head, tail) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = tail;
        head
    };
    let (start, end) = field().split_once('-')?;
    let permissions = field().as_bytes();
    let _offset = field();
    let (major, minor) = field().split_once(':')?;
    let inode = field().parse().ok()?;
    let name = rest.trim_start_matches(' ').to_owned();
    let [read, write, execute, share, ..] = permissions else { return None };
    Some(Segment {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        readable: *read == b'r',
        writable: *write == b'w',
        executable: *execute == b'x',
        shared: *share == b's',
        device_number: (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?),
        inode,
        name,
        kind: SegmentKind::Anonymous,
    })
}

fn classify(segments: &[Segment], index: usize) -> SegmentKind {
    let segment = &segments[index];
    let name = segment.name.as_str();
    if is_pool(segment.start, segment.end) {
        return SegmentKind::MemtintPool;
    }
    if matches!(name, "[vdso]" | "[vsyscall]") || name.starts_with("[vvar") {
        return SegmentKind::Vdso;
    }
    if name.starts_with("/anon_hugepage") || name.starts_with("/dev/hugepages") {
        return SegmentKind::HugeTlb;
    }
    if is_shared_memory_name(name) && (segment.shared || name.starts_with("/SYSV")) {
        return SegmentKind::SharedMemory;
    }
    if name.starts_with("/dev/") && !is_plain_memory_device(name) && !name.starts_with("/dev/shm/") {
        return SegmentKind::Device;
    }
    if segment.shared {
        return if segment.has_file() { SegmentKind::SharedFile } else { SegmentKind::SharedMemory };
    }
    if segment.has_file() && !is_plain_memory_device(name) {
        return match (segment.executable, segment.writable) {
            (true, _) => SegmentKind::Text,
            (false, true) => SegmentKind::Data,
            (false, false) => SegmentKind::ReadOnlyFile,
        };
    }
    classify_anonymous(segments, index)
}

fn classify_anonymous(segments: &[Segment], index: usize) -> SegmentKind {
    let segment = &segments[index];
    if segment.name == "[stack]" {
        SegmentKind::Stack
    } else if segment.name == "[heap]" {
        SegmentKind::Heap
    } else if segment.executable {
        SegmentKind::AnonymousCode
    } else if segment.name.is_empty() && segment.writable && continues_file_data(segments, index) {
        SegmentKind::Bss
    } else {
        SegmentKind::Anonymous
    }
}

/// The loader maps the part of a data segment beyond the file as anonymous memory directly after it.
fn continues_file_data(segments: &[Segment], index: usize) -> bool {
    let Some(previous) = index.checked_sub(1).map(|i| &segments[i]) else { return false };
    previous.end == segments[index].start && previous.has_file() && !previous.shared && previous.writable
}

fn is_shared_memory_name(name: &str) -> bool {
    ["/dev/zero", "/memfd:", "/SYSV", "/dev/shm/", "[anon_shmem:"].iter().any(|prefix| name.starts_with(prefix))
}

/// A private mapping of `/dev/zero` is anonymous memory.
fn is_plain_memory_device(name: &str) -> bool {
    name.starts_with("/dev/zero")
}

/// Largest guard below a thread's stack that is recognised: allows for 64 KiB pages and generous settings.
const GUARD_BYTES_MAX: u64 = 64 * 1024;

/// A thread's stack is anonymous memory like any other (`MAP_STACK` leaves no readable mark). It is recognised by a
/// stack pointer inside it, or by the small mapping without permissions that every C library places below.
fn thread_stacks<'a>(segments: &'a [Segment], landmarks: &'a Landmarks) -> impl Iterator<Item = usize> + 'a {
    (0..segments.len()).filter(move |&index| {
        let segment = &segments[index];
        let pointed_at = landmarks.thread_stack_pointers.iter().any(|sp| (segment.start..segment.end).contains(sp));
        segment.kind == SegmentKind::Anonymous
            && segment.writable
            && (pointed_at || (landmarks.threads > 1 && has_guard_below(segments, index)))
    })
}

fn has_guard_below(segments: &[Segment], index: usize) -> bool {
    let Some(guard) = index.checked_sub(1).map(|i| &segments[i]) else { return false };
    guard.end == segments[index].start
        && guard.end - guard.start <= GUARD_BYTES_MAX
        && !guard.readable
        && !guard.writable
        && !guard.executable
        && !guard.has_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/dbus daemon
00651000-00652000 r--p 00051000 08:02 173521      /usr/bin/dbus daemon
00652000-00655000 rw-p 00052000 08:02 173521      /usr/bin/dbus daemon
00655000-00659000 rw-p 00000000 00:00 0
00e03000-00e24000 rw-p 00000000 00:00 0           [heap]
4d0000000000-4d0001000000 rw-p 00000000 00:00 0
7f0000000000-7f0000001000 ---p 00000000 00:00 0
7f0000001000-7f0000801000 rw-p 00000000 00:00 0
7f1000000000-7f1000001000 rw-s 00000000 00:01 1024 /memfd:x (deleted)
7f1000002000-7f1000003000 rw-s 00000000 00:01 7    /dev/zero (deleted)
7f1000004000-7f1000005000 rw-s 00000000 08:02 9    /var/lib/thing
7f1000006000-7f1000007000 r-xp 00000000 00:00 0
7f1000008000-7f1000009000 rw-p 00000000 00:00 0
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0   [stack]
7ffc00025000-7ffc00029000 r--p 00000000 00:00 0   [vvar]
7ffc00029000-7ffc0002b000 r-xp 00000000 00:00 0   [vdso]
nonsense
";

    #[test]
    fn every_kind_of_line_gets_its_kind() {
        use SegmentKind::*;
        let landmarks = Landmarks { threads: 2, thread_stack_pointers: vec![] };
        let kinds: Vec<SegmentKind> = parse(MAPS, &landmarks).iter().map(|s| s.kind).collect();
        assert_eq!(
            kinds,
            [
                Text,
                ReadOnlyFile,
                Data,
                Bss,
                Heap,
                MemtintPool,
                Anonymous,
                ThreadStack,
                SharedMemory,
                SharedMemory,
                SharedFile,
                AnonymousCode,
                Anonymous,
                Stack,
                Vdso,
                Vdso,
            ]
        );
    }

    #[test]
    fn a_single_threaded_program_has_no_thread_stacks() {
        let segments = parse(MAPS, &Landmarks { threads: 1, thread_stack_pointers: vec![] });
        assert!(segments.iter().all(|s| s.kind != SegmentKind::ThreadStack));
    }

    #[test]
    fn a_stack_pointer_marks_the_stack_it_is_in() {
        let landmarks = Landmarks { threads: 2, thread_stack_pointers: vec![0x7f10_0000_8800] };
        let segments = parse(MAPS, &landmarks);
        let marked = segments.iter().find(|s| s.start == 0x7f10_0000_8000).expect("the segment is in the text");
        assert_eq!(marked.kind, SegmentKind::ThreadStack);
    }

    #[test]
    fn blanks_in_names_survive() {
        assert_eq!(parse(MAPS, &Landmarks::default())[0].name, "/usr/bin/dbus daemon");
    }
}
