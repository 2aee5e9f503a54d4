//! The helper's own system-call filter: the calls it needs, with the arguments it needs, and no others.
//!
//! The helper shares memory with the program it serves, so the program can make it run anything. This filter bounds the gain: memory calls
//! in the shared address space, which the program can make itself, and messages to the supervisor, which trusts none of them. A helper
//! cannot open, create, execute, signal or trace anything, and cannot pass on its descriptors. It installs the filter on itself, with
//! `no_new_privs`, before the program runs again; the supervisor verifies this.
//!
//! Both sides include this file: the helper installs the filter, the tests of the library interpret it.

use crate::wire::{FD_LISTENER, FD_SOCKET, FD_UFFD};

/// One instruction. Layout of `struct sock_filter`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Instruction {
    /// Operation.
    pub code: u16,
    /// Instructions to skip when a test holds.
    pub jt: u8,
    /// Instructions to skip when it does not.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const IF_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const RETURN: u16 = 0x06; // BPF_RET | BPF_K
/// `SECCOMP_RET_ALLOW`.
pub const ALLOW: u32 = 0x7fff_0000;
/// `SECCOMP_RET_ERRNO` with EPERM.
pub const DENY: u32 = 0x0005_0001;
const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;

/// Calls that are allowed with any arguments: they act on the shared address space, or on the helper alone.
const PLAIN: [u32; 19] = [
    3,   // close
    7,   // poll
    9,   // mmap
    10,  // mprotect
    11,  // munmap
    12,  // brk
    25,  // mremap
    27,  // mincore
    28,  // madvise
    39,  // getpid
    60,  // exit
    150, // munlock
    151, // mlockall
    152, // munlockall
    228, // clock_gettime
    231, // exit_group
    238, // set_mempolicy
    325, // mlock2
    329, // pkey_mprotect
];

/// `ioctl` requests of a userfaultfd, except for those that create or configure one.
const UFFD_REQUESTS: [u32; 7] = [
    0xc020_aa00, // UFFDIO_REGISTER
    0x8010_aa01, // UFFDIO_UNREGISTER
    0x8010_aa02, // UFFDIO_WAKE
    0xc028_aa03, // UFFDIO_COPY
    0xc020_aa04, // UFFDIO_ZEROPAGE
    0xc028_aa05, // UFFDIO_MOVE
    0xc020_aa08, // UFFDIO_POISON
];

/// `ioctl` requests of a filter's listener: SECCOMP_IOCTL_NOTIF_RECV and SECCOMP_IOCTL_NOTIF_SEND.
const LISTENER_REQUESTS: [u32; 2] = [0xc050_2100, 0xc018_2101];

/// Marks the high half of an argument in a rule.
const HIGH: u32 = 1 << 8;

/// A filter under construction.
pub struct Filter {
    code: [Instruction; 128],
    length: usize,
}

impl Filter {
    /// The filter of the helper with process id `own`, which may end the process `target` and no other.
    pub fn new(own: u32, target: u32) -> Filter {
        let mut filter = Filter { code: [Instruction::default(); 128], length: 0 };
        filter.load(4);
        filter.test(AUDIT_ARCH_X86_64, 1, 0);
        filter.give(DENY);
        filter.load(0);
        for call in PLAIN {
            filter.test(call, 0, 1);
            filter.give(ALLOW);
        }
        let (socket, uffd, listener) = (FD_SOCKET as u32, FD_UFFD as u32, FD_LISTENER as u32);
        filter.rule(0, &[(0, &[uffd])]); // read
        filter.rule(16, &[(0, &[uffd]), (1, &UFFD_REQUESTS)]); // ioctl
        filter.rule(16, &[(0, &[listener]), (1, &LISTENER_REQUESTS)]);
        filter.rule(46, &[(0, &[socket])]); // sendmsg
        filter.rule(47, &[(0, &[socket])]); // recvmsg
        filter.rule(62, &[(0, &[target]), (1, &[9])]); // kill
        filter.rule(292, &[(1, &[listener])]); // dup3
        filter.rule(302, &[(2, &[0]), (HIGH | 2, &[0])]); // prlimit64 that sets nothing
        filter.rule(312, &[(1, &[own]), (2, &[1])]); // kcmp of address spaces with this one
        filter.give(DENY);
        filter
    }

    /// The instructions.
    pub fn code(&self) -> &[Instruction] {
        &self.code[..self.length]
    }

    /// Allows a call if each argument named has one of the values; falls through with the call's number loaded if not.
    /// The kernel looks at the low half of these arguments, except for those marked with [`HIGH`].
    fn rule(&mut self, call: u32, arguments: &[(u32, &[u32])]) {
        // Loads and tests that are left; behind them come ALLOW and the load that restores the call's number.
        let mut left: usize = arguments.iter().map(|(_, values)| values.len() + 1).sum();
        self.test(call, 0, left + 2);
        for (argument, values) in arguments {
            self.load(16 + 8 * (argument & !HIGH) + if argument & HIGH != 0 { 4 } else { 0 });
            left -= 1;
            for (index, &value) in values.iter().enumerate() {
                let others = values.len() - 1 - index;
                left -= 1;
                self.test(value, others, if others == 0 { left + 1 } else { 0 });
            }
        }
        self.give(ALLOW);
        self.load(0);
    }

    fn load(&mut self, offset: u32) {
        self.push(Instruction { code: LOAD, jt: 0, jf: 0, k: offset });
    }

    /// Compares the value loaded: skips `held` instructions if it is equal, `missed` if not.
    fn test(&mut self, value: u32, held: usize, missed: usize) {
        self.push(Instruction { code: IF_EQUAL, jt: held as u8, jf: missed as u8, k: value });
    }

    fn give(&mut self, decision: u32) {
        self.push(Instruction { code: RETURN, jt: 0, jf: 0, k: decision });
    }

    fn push(&mut self, instruction: Instruction) {
        self.code[self.length] = instruction;
        self.length += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u64 = 4321;
    const TARGET: u64 = 1234;

    /// Interprets the filter as the kernel would.
    fn decide_as(architecture: u32, call: u32, args: [u64; 6]) -> u32 {
        let mut data = Vec::new();
        data.extend(call.to_le_bytes());
        data.extend(architecture.to_le_bytes());
        data.extend(0u64.to_le_bytes());
        args.iter().for_each(|argument| data.extend(argument.to_le_bytes()));
        let filter = Filter::new(OWN as u32, TARGET as u32);
        let (mut at, mut value) = (0, 0u32);
        loop {
            let step = filter.code()[at];
            at += 1;
            match step.code {
                LOAD => value = u32::from_le_bytes(data[step.k as usize..][..4].try_into().unwrap()),
                IF_EQUAL => at += usize::from(if value == step.k { step.jt } else { step.jf }),
                RETURN => return step.k,
                other => panic!("unknown instruction {other:#x}"),
            }
        }
    }

    fn decide(call: i64, args: [u64; 6]) -> u32 {
        decide_as(AUDIT_ARCH_X86_64, call as u32, args)
    }

    #[test]
    fn memory_calls_and_nothing_else_need_no_arguments() {
        let any = [u64::MAX; 6];
        let allowed: Vec<i64> = (0..600).filter(|&call| decide(call, any) == ALLOW).collect();
        assert_eq!(allowed, PLAIN.map(i64::from));
        for call in [
            libc::SYS_openat,
            libc::SYS_execve,
            libc::SYS_clone,
            libc::SYS_ptrace,
            libc::SYS_pidfd_getfd,
            libc::SYS_prctl,
        ] {
            assert_eq!(decide(call, [0; 6]), DENY, "{call}");
        }
    }

    #[test]
    fn other_conventions_are_denied() {
        const AUDIT_ARCH_I386: u32 = 0x4000_0003;
        const X32_BIT: u32 = 0x4000_0000;
        for call in PLAIN {
            assert_eq!(decide_as(AUDIT_ARCH_I386, call, [0; 6]), DENY);
            assert_eq!(decide_as(AUDIT_ARCH_X86_64, call | X32_BIT, [0; 6]), DENY);
        }
    }

    #[test]
    fn each_rule_allows_its_arguments_and_denies_their_neighbours() {
        let (socket, uffd, listener) = (FD_SOCKET as u64, FD_UFFD as u64, FD_LISTENER as u64);
        let (get, set) = ([7, 9, 0, 0xd00d, 0, 0], [7, 9, 0xbad, 0xd00d, 0, 0]);
        let cases: [(i64, [u64; 6], u32); 19] = [
            (libc::SYS_read, [uffd, 1, 1, 0, 0, 0], ALLOW),
            (libc::SYS_read, [socket, 1, 1, 0, 0, 0], DENY),
            (libc::SYS_ioctl, [uffd, 0xc028_aa05, 1, 0, 0, 0], ALLOW),
            (libc::SYS_ioctl, [uffd, 0xc020_aa00, 1, 0, 0, 0], ALLOW),
            (libc::SYS_ioctl, [uffd, 0xc020_aa08, 1, 0, 0, 0], ALLOW),
            // UFFDIO_API.
            (libc::SYS_ioctl, [uffd, 0xc018_aa3f, 1, 0, 0, 0], DENY),
            (libc::SYS_ioctl, [listener, 0xc018_2101, 1, 0, 0, 0], ALLOW),
            // SECCOMP_IOCTL_NOTIF_ADDFD.
            (libc::SYS_ioctl, [listener, 0x4018_2103, 1, 0, 0, 0], DENY),
            (libc::SYS_ioctl, [socket, 0xc028_aa05, 1, 0, 0, 0], DENY),
            (libc::SYS_sendmsg, [socket, 1, 0, 0, 0, 0], ALLOW),
            (libc::SYS_sendmsg, [uffd, 1, 0, 0, 0, 0], DENY),
            (libc::SYS_kill, [TARGET, 9, 0, 0, 0, 0], ALLOW),
            (libc::SYS_kill, [TARGET, 15, 0, 0, 0, 0], DENY),
            (libc::SYS_kill, [1, 9, 0, 0, 0, 0], DENY),
            (libc::SYS_prlimit64, get, ALLOW),
            (libc::SYS_prlimit64, set, DENY),
            (libc::SYS_prlimit64, [7, 9, 1 << 32, 0xd00d, 0, 0], DENY),
            (libc::SYS_process_vm_readv, [OWN, 1, 1, 1, 1, 0], DENY),
            (libc::SYS_kcmp, [TARGET, OWN, 0, 0, 0, 0], DENY),
        ];
        for (call, args, decision) in cases {
            assert_eq!(decide(call, args), decision, "{call} {args:x?}");
        }
    }
}
