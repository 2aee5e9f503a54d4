//! The system-call filter: which calls of a colored program stop for the supervisor.
//!
//! Only calls that create, move or give up private memory, or that create processes, are stopped; everything else runs at full speed. Calls
//! from the helper's code are exempt by their instruction address. The program can make calls from there as well, but gains only uncolored
//! memory. The exception is `pidfd_getfd`, which could take the helper's descriptors and is not exempt anywhere.

use crate::wire;
use libc::sock_filter;

/// `ioctl` request that registers memory with a userfaultfd, here the program's.
const UFFDIO_REGISTER: u32 = 0xc020_aa00;
/// `prctl` option by which a process asks for all its memory to be merged (Linux 6.4).
const PR_SET_MEMORY_MERGE: u32 = 67;
/// Smallest `munmap` or `MADV_DONTNEED`, in bytes, that is worth taking the pages back into the pool.
pub(crate) const RECYCLE_MIN: u32 = 64 << 10;

const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const AND: u16 = 0x54; // BPF_ALU | BPF_AND | BPF_K
const IF_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const IF_AT_LEAST: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
const IF_ANY_BIT: u16 = 0x45; // BPF_JMP | BPF_JSET | BPF_K
const RETURN: u16 = 0x06; // BPF_RET | BPF_K
const ALLOW: sock_filter = instruction(RETURN, 0, 0, 0x7fff_0000);
const NOTIFY: sock_filter = instruction(RETURN, 0, 0, 0x7fc0_0000);

const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
/// Marks calls by the x32 convention.
pub(crate) const X32_BIT: u32 = 0x4000_0000;
const OFFSET_CALL: u32 = 0;
const OFFSET_ARCH: u32 = 4;
const OFFSET_INSTRUCTION: u32 = 8;

const fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

const fn load(offset: u32) -> sock_filter {
    instruction(LOAD, 0, 0, offset)
}

/// Low half of argument `index`.
const fn low(index: u32) -> sock_filter {
    load(16 + 8 * index)
}

/// High half of argument `index`.
const fn high(index: u32) -> sock_filter {
    load(20 + 8 * index)
}

/// A test that falls through when it holds, and skips `skip` instructions when not.
const fn when(test: u16, value: u32, skip: u8) -> sock_filter {
    instruction(test, 0, skip, value)
}

/// Stops the call when any of `bits` is set in the value loaded; falls through when not.
fn notify_on_bits(bits: u32) -> [sock_filter; 2] {
    [when(IF_ANY_BIT, bits, 1), NOTIFY]
}

/// Stops the call if a length argument is large; else lets it pass.
fn notify_when_long(index: u32) -> Vec<sock_filter> {
    vec![high(index), when(IF_EQUAL, 0, 3), low(index), when(IF_AT_LEAST, RECYCLE_MIN, 2), NOTIFY, NOTIFY, ALLOW]
}

/// Stops a call on addresses of memtint, or that begin shortly before them; falls through otherwise.
fn notify_on_ours() -> [sock_filter; 4] {
    let (first, end) = ((wire::BLOB_BASE >> 32) as u32 - 1, (wire::POOL_END >> 32) as u32);
    [high(0), when(IF_AT_LEAST, first, 2), instruction(IF_AT_LEAST, 1, 0, end), NOTIFY]
}

/// The whole program.
pub(crate) fn program() -> Vec<sock_filter> {
    let mut program = vec![
        // The only call that could take a helper's descriptors, in any calling convention and from any address.
        load(OFFSET_CALL),
        instruction(AND, 0, 0, !X32_BIT),
        when(IF_EQUAL, libc::SYS_pidfd_getfd as u32, 1),
        NOTIFY,
        load(OFFSET_ARCH),
        instruction(IF_EQUAL, 1, 0, AUDIT_ARCH_X86_64),
        ALLOW,
        load(OFFSET_INSTRUCTION + 4),
        when(IF_EQUAL, (wire::BLOB_BASE >> 32) as u32, 3),
        load(OFFSET_INSTRUCTION),
        instruction(IF_AT_LEAST, 1, 0, wire::BLOB_LEN as u32),
        ALLOW,
        load(OFFSET_CALL),
    ];
    for (call, body) in rules() {
        let skip = u8::try_from(body.len()).expect("rules are short");
        program.push(when(IF_EQUAL, call as u32, skip));
        program.extend(body);
    }
    program.push(ALLOW);
    program
}

/// Each stopped system call with the test of its arguments; every body ends in a decision.
fn rules() -> Vec<(i64, Vec<sock_filter>)> {
    let mut rules = vec![(libc::SYS_mmap, mmap_rule()), (libc::SYS_madvise, madvise_rule())];
    rules.push((libc::SYS_munmap, [notify_on_ours().to_vec(), notify_when_long(1)].concat()));
    rules.push((libc::SYS_ioctl, vec![low(1), when(IF_EQUAL, UFFDIO_REGISTER, 1), NOTIFY, ALLOW]));
    rules.push((libc::SYS_seccomp, vec![low(0), when(IF_EQUAL, libc::SECCOMP_SET_MODE_STRICT, 1), NOTIFY, ALLOW]));
    rules.push((libc::SYS_clone, clone_rule()));
    for call in [libc::SYS_mprotect, libc::SYS_pkey_mprotect] {
        let mut body = notify_on_ours().to_vec();
        body.push(low(2));
        body.extend(notify_on_bits(libc::PROT_WRITE as u32));
        body.push(ALLOW);
        rules.push((call, body));
    }
    rules.push((libc::SYS_prctl, {
        let mut body = vec![low(0)];
        // Huge pages and merging of equal pages would let the kernel choose frames.
        for option in [
            wire::PRCTL_MAGIC as u32,
            libc::PR_SET_THP_DISABLE as u32,
            PR_SET_MEMORY_MERGE,
            libc::PR_SET_SECCOMP as u32,
            libc::PR_CAPBSET_DROP as u32,
            libc::PR_SET_SECUREBITS as u32,
        ] {
            body.extend([when(IF_EQUAL, option, 1), NOTIFY]);
        }
        body.push(ALLOW);
        body
    }));
    let always = [
        // The program drops privileges that its helper may still have: see `Supervisor::on_fewer_privileges`.
        libc::SYS_setuid,
        libc::SYS_setgid,
        libc::SYS_setreuid,
        libc::SYS_setregid,
        libc::SYS_setresuid,
        libc::SYS_setresgid,
        libc::SYS_setfsuid,
        libc::SYS_setfsgid,
        libc::SYS_setgroups,
        libc::SYS_capset,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_brk,
        libc::SYS_mremap,
        libc::SYS_mlock,
        libc::SYS_mlock2,
        libc::SYS_mlockall,
        libc::SYS_munlock,
        libc::SYS_munlockall,
        libc::SYS_fork,
        libc::SYS_clone3,
        libc::SYS_execve,
        libc::SYS_execveat,
    ];
    rules.extend(always.map(|call| (call, vec![NOTIFY])));
    rules
}

/// Private anonymous memory, and private file mappings that hold code or written data (or come from a loader).
fn mmap_rule() -> Vec<sock_filter> {
    let mut body = vec![
        low(3),
        when(IF_ANY_BIT, libc::MAP_HUGETLB as u32, 1),
        ALLOW,
        instruction(AND, 0, 0, 0xf),
        instruction(IF_EQUAL, 1, 0, libc::MAP_PRIVATE as u32),
        ALLOW,
        low(3),
    ];
    body.extend(notify_on_bits((libc::MAP_ANONYMOUS | libc::MAP_DENYWRITE) as u32));
    body.push(low(2));
    body.extend(notify_on_bits((libc::PROT_WRITE | libc::PROT_EXEC) as u32));
    body.push(ALLOW);
    body
}

/// Advice that gives up pages in bulk, or that lets the kernel choose or merge frames.
fn madvise_rule() -> Vec<sock_filter> {
    const MADV_COLLAPSE: i32 = 25;
    let ours =
        [libc::MADV_HUGEPAGE, libc::MADV_MERGEABLE, libc::MADV_POPULATE_READ, libc::MADV_POPULATE_WRITE, MADV_COLLAPSE];
    let mut body = notify_on_ours().to_vec();
    body.push(low(2));
    for advice in ours {
        body.extend([when(IF_EQUAL, advice as u32, 1), NOTIFY]);
    }
    body.extend([instruction(IF_EQUAL, 1, 0, libc::MADV_DONTNEED as u32), ALLOW]);
    body.extend(notify_when_long(1));
    body
}

/// New processes; threads and `vfork` (which shares the address space until it executes a program) pass.
fn clone_rule() -> Vec<sock_filter> {
    vec![
        low(0),
        instruction(IF_ANY_BIT, 1, 0, libc::CLONE_VM as u32),
        NOTIFY,
        when(IF_ANY_BIT, (libc::CLONE_THREAD | libc::CLONE_VFORK) as u32, 1),
        ALLOW,
        NOTIFY,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: u32 = ALLOW.k;
    const STOPPED: u32 = NOTIFY.k;

    /// Interprets the program as the kernel would.
    fn decide(call: i64, instruction: u64, args: [u64; 6]) -> u32 {
        let mut data = Vec::new();
        data.extend((call as u32).to_le_bytes());
        data.extend(AUDIT_ARCH_X86_64.to_le_bytes());
        data.extend(instruction.to_le_bytes());
        args.iter().for_each(|arg| data.extend(arg.to_le_bytes()));
        let (program, mut at, mut value) = (program(), 0, 0u32);
        loop {
            let step = program[at];
            let jump = |holds: bool| at + 1 + usize::from(if holds { step.jt } else { step.jf });
            at = match step.code {
                LOAD => {
                    let offset = step.k as usize;
                    value = u32::from_le_bytes(data[offset..offset + 4].try_into().unwrap());
                    at + 1
                }
                AND => {
                    value &= step.k;
                    at + 1
                }
                IF_EQUAL => jump(value == step.k),
                IF_AT_LEAST => jump(value >= step.k),
                IF_ANY_BIT => jump(value & step.k != 0),
                RETURN => return step.k,
                other => panic!("unknown instruction {other:#x}"),
            };
        }
    }

    fn mmap(protection: i32, flags: i32) -> u32 {
        decide(libc::SYS_mmap, 0x40_1000, [0, 4096, protection as u64, flags as u64, 3, 0])
    }

    #[test]
    fn private_memory_stops_and_shared_memory_does_not() {
        let (rw, r, rx) = (libc::PROT_READ | libc::PROT_WRITE, libc::PROT_READ, libc::PROT_READ | libc::PROT_EXEC);
        assert_eq!(mmap(rw, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS), STOPPED);
        assert_eq!(mmap(0, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE), STOPPED);
        assert_eq!(mmap(rw, libc::MAP_SHARED | libc::MAP_ANONYMOUS), ALLOWED);
        assert_eq!(mmap(rw, libc::MAP_SHARED_VALIDATE), ALLOWED);
        assert_eq!(mmap(rw, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB), ALLOWED);
        assert_eq!(mmap(r, libc::MAP_PRIVATE), ALLOWED);
        assert_eq!(mmap(r, libc::MAP_PRIVATE | libc::MAP_DENYWRITE), STOPPED);
        assert_eq!(mmap(rx, libc::MAP_PRIVATE), STOPPED);
        assert_eq!(mmap(rw, libc::MAP_PRIVATE), STOPPED);
    }

    #[test]
    fn lengths_are_compared_with_64_bits() {
        let long = u64::from(RECYCLE_MIN);
        for (length, verdict) in [(long - 1, ALLOWED), (long, STOPPED), (1 << 32, STOPPED), ((1 << 32) + 1, STOPPED)] {
            assert_eq!(decide(libc::SYS_munmap, 0, [0x1000, length, 0, 0, 0, 0]), verdict, "{length:#x}");
            let dontneed = [0x1000, length, libc::MADV_DONTNEED as u64, 0, 0, 0];
            assert_eq!(decide(libc::SYS_madvise, 0, dontneed), verdict, "{length:#x}");
        }
        assert_eq!(decide(libc::SYS_madvise, 0, [0, long, libc::MADV_WILLNEED as u64, 0, 0, 0]), ALLOWED);
        assert_eq!(decide(libc::SYS_madvise, 0, [0, 1, libc::MADV_HUGEPAGE as u64, 0, 0, 0]), STOPPED);
    }

    #[test]
    fn memory_that_becomes_writable_stops() {
        for (protection, verdict) in [(libc::PROT_READ, ALLOWED), (libc::PROT_READ | libc::PROT_WRITE, STOPPED)] {
            assert_eq!(decide(libc::SYS_mprotect, 0, [0x1000, 4096, protection as u64, 0, 0, 0]), verdict);
            assert_eq!(decide(libc::SYS_pkey_mprotect, 0, [0x1000, 4096, protection as u64, 1, 0, 0]), verdict);
        }
    }

    #[test]
    fn calls_on_memtints_own_addresses_stop() {
        let (first, last) = (wire::BLOB_BASE, wire::POOL_END - 4096);
        for (address, verdict) in
            [(first, STOPPED), (last, STOPPED), (first - 4096, STOPPED), (wire::POOL_END, ALLOWED)]
        {
            assert_eq!(decide(libc::SYS_munmap, 0, [address, 8192, 0, 0, 0, 0]), verdict, "{address:#x}");
            assert_eq!(decide(libc::SYS_mprotect, 0, [address, 8192, 0, 0, 0, 0]), verdict, "{address:#x}");
            let advice = libc::MADV_DONTNEED as u64;
            assert_eq!(decide(libc::SYS_madvise, 0, [address, 8192, advice, 0, 0, 0]), verdict, "{address:#x}");
        }
        assert_eq!(decide(libc::SYS_munmap, 0, [0x7f00_0000_0000, 8192, 0, 0, 0, 0]), ALLOWED);
    }

    #[test]
    fn own_userfaultfds_and_strict_mode_stop() {
        assert_eq!(decide(libc::SYS_ioctl, 0, [5, 0xc020_aa00, 0x1000, 0, 0, 0]), STOPPED);
        assert_eq!(decide(libc::SYS_ioctl, 0, [5, 0x5401, 0x1000, 0, 0, 0]), ALLOWED);
        assert_eq!(decide(libc::SYS_prctl, 0, [22, 1, 0, 0, 0, 0]), STOPPED);
        assert_eq!(decide(libc::SYS_seccomp, 0, [0; 6]), STOPPED);
        assert_eq!(decide(libc::SYS_seccomp, 0, [1, 0, 0x1000, 0, 0, 0]), ALLOWED);
    }

    #[test]
    fn new_processes_stop_and_threads_do_not() {
        let thread = (libc::CLONE_VM | libc::CLONE_THREAD) as u64;
        let spawn = (libc::CLONE_VM | libc::CLONE_VFORK) as u64;
        let odd = libc::CLONE_VM as u64;
        for (flags, verdict) in [(thread, ALLOWED), (spawn, ALLOWED), (odd, STOPPED), (17, STOPPED)] {
            assert_eq!(decide(libc::SYS_clone, 0, [flags, 0, 0, 0, 0, 0]), verdict, "{flags:#x}");
        }
        assert_eq!(decide(libc::SYS_vfork, 0, [0; 6]), ALLOWED);
        assert_eq!(decide(libc::SYS_execve, 0, [0; 6]), STOPPED);
    }

    #[test]
    fn descriptors_of_others_cannot_be_taken_from_anywhere() {
        let x32 = i64::from(libc::SYS_pidfd_getfd as u32 | X32_BIT);
        for (call, address) in [(libc::SYS_pidfd_getfd, 0), (libc::SYS_pidfd_getfd, wire::BLOB_BASE), (x32, 0)] {
            assert_eq!(decide(call, address, [3, 4, 0, 0, 0, 0]), STOPPED, "{call:#x} at {address:#x}");
        }
        // Decided before the architecture is checked: the 32-bit call has the same number.
        assert!(program().iter().position(|step| step.k == OFFSET_ARCH).unwrap() > 2);
    }

    #[test]
    fn the_helper_is_exempt_and_nobody_else() {
        let (first, last) = (wire::BLOB_BASE, wire::BLOB_BASE + wire::BLOB_LEN - 1);
        for (address, verdict) in [(first, ALLOWED), (last, ALLOWED), (last + 1, STOPPED), (first - 1, STOPPED)] {
            assert_eq!(decide(libc::SYS_brk, address, [1, 0, 0, 0, 0, 0]), verdict, "{address:#x}");
        }
        assert_eq!(decide(libc::SYS_read, 0x40_1000, [0; 6]), ALLOWED);
        assert_eq!(decide(libc::SYS_prctl, 0, [wire::PRCTL_MAGIC, 0, 0, 0, 0, 0]), STOPPED);
        assert_eq!(decide(libc::SYS_prctl, 0, [15, 0, 0, 0, 0, 0]), ALLOWED);
        assert_eq!(decide(libc::SYS_prctl, 0, [67, 1, 0, 0, 0, 0]), STOPPED);
    }
}
