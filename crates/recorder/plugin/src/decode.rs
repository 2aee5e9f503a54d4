//! Which registers an x86-64 instruction takes its address from, and which register a load fills.
//!
//! Only as much of the instruction set as tells a pointer chase: registers are bits of a mask (rax 0 ... r15 15).

/// Registers of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// Base and index of the address.
    pub address: u16,
    /// What a load fills, or computes from what it loads.
    pub loaded: u16,
}

/// The stack pointer.
const RSP: u16 = 1 << 4;

/// Decodes an instruction; what it does not know has no registers.
pub fn decode(bytes: &[u8]) -> Registers {
    read(bytes).unwrap_or_default()
}

fn read(bytes: &[u8]) -> Option<Registers> {
    let mut at = bytes.iter().position(|byte| !is_prefix(*byte))?;
    let mut rex = 0;
    if bytes[at] & 0xf0 == 0x40 {
        rex = bytes[at];
        at += 1;
    }
    let opcode = *bytes.get(at)?;
    let low = 1 << (u16::from(opcode & 7) | extension(rex, 0));
    match opcode {
        // pop r
        0x58..=0x5f => Some(Registers { address: RSP, loaded: low }),
        // push r, push imm, ret, leave, call rel
        0x50..=0x57 | 0x68 | 0x6a | 0xc2 | 0xc3 | 0xc9 | 0xe8 => Some(Registers { address: RSP, loaded: 0 }),
        0x0f => {
            let opcode = *bytes.get(at + 1)?;
            let (modrm, fills) = match opcode {
                0x38 | 0x3a => (at + 3, false),
                // cmov, imul, movzx and movsx, bsf, bsr, popcnt
                0x40..=0x4f | 0xaf | 0xb6..=0xb8 | 0xbc..=0xbf => (at + 2, true),
                0x10..=0x2f | 0x51..=0x76 | 0x7e..=0x7f | 0x90..=0x9f | 0xa3..=0xa5 | 0xab..=0xad | 0xb0..=0xb3 => {
                    (at + 2, false)
                }
                0xba | 0xbb | 0xc0..=0xc7 | 0xd0..=0xff => (at + 2, false),
                _ => return None,
            };
            operands(bytes.get(modrm..)?, rex, fills)
        }
        // add, or, adc, sbb, and, sub, xor with the register as target; movsxd, imul, mov
        _ if opcode < 0x38 && matches!(opcode & 7, 2 | 3) => operands(bytes.get(at + 1..)?, rex, true),
        0x63 | 0x69 | 0x6b | 0x8a | 0x8b => operands(bytes.get(at + 1..)?, rex, true),
        _ if opcode < 0x40 && opcode & 7 < 4 => operands(bytes.get(at + 1..)?, rex, false),
        0x80..=0x8f | 0xc0 | 0xc1 | 0xc6 | 0xc7 | 0xd0..=0xd3 | 0xd8..=0xdf | 0xf6 | 0xf7 | 0xfe | 0xff => {
            operands(bytes.get(at + 1..)?, rex, false)
        }
        _ => None,
    }
}

fn is_prefix(byte: u8) -> bool {
    matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0x66 | 0x67 | 0xf0 | 0xf2 | 0xf3)
}

/// 8 when a bit of the REX prefix is set: the fourth bit of a register number.
fn extension(rex: u8, bit: u8) -> u16 {
    u16::from(rex >> bit & 1) << 3
}

/// ModRM and what follows it.
fn operands(bytes: &[u8], rex: u8, fills: bool) -> Option<Registers> {
    let modrm = *bytes.first()?;
    let (mode, register, base) = (modrm >> 6, u16::from(modrm >> 3 & 7), u16::from(modrm & 7));
    if mode == 3 {
        return None;
    }
    let loaded = if fills { 1 << (register | extension(rex, 2)) } else { 0 };
    let address = if base == 4 {
        let sib = *bytes.get(1)?;
        let index = u16::from(sib >> 3 & 7) | extension(rex, 1);
        let scaled = if index == 4 { 0 } else { 1 << index };
        let base = u16::from(sib & 7);
        scaled | if mode == 0 && base == 5 { 0 } else { 1 << (base | extension(rex, 0)) }
    } else if mode == 0 && base == 5 {
        // Relative to the instruction.
        0
    } else {
        1 << (base | extension(rex, 0))
    };
    Some(Registers { address, loaded })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chase_is_seen_in_its_registers() {
        // What an assembler makes of each line; masks by register number.
        for (bytes, address, loaded, line) in [
            (&[0x48, 0x8b, 0x00][..], 1, 1, "mov (%rax),%rax"),
            (&[0x48, 0x8b, 0x7f, 0x08], 1 << 7, 1 << 7, "mov 8(%rdi),%rdi"),
            (&[0x4d, 0x8b, 0x24, 0x24], 1 << 12, 1 << 12, "mov (%r12),%r12"),
            (&[0x4e, 0x8b, 0x04, 0xd8], 1 | 1 << 11, 1 << 8, "mov (%rax,%r11,8),%r8"),
            (&[0x8b, 0x05, 0, 0, 0, 0], 0, 1, "mov 0(%rip),%eax"),
            (&[0x48, 0x89, 0x03], 1 << 3, 0, "mov %rax,(%rbx)"),
            (&[0x48, 0x03, 0x06], 1 << 6, 1, "add (%rsi),%rax"),
            (&[0x0f, 0xb6, 0x11], 1 << 1, 1 << 2, "movzbl (%rcx),%edx"),
            (&[0x48, 0x63, 0x41, 0x04], 1 << 1, 1, "movslq 4(%rcx),%rax"),
            (&[0x5d], 1 << 4, 1 << 5, "pop %rbp"),
            (&[0x41, 0x54], 1 << 4, 0, "push %r12"),
            (&[0xc3], 1 << 4, 0, "ret"),
            (&[0x66, 0x0f, 0x6f, 0x07], 1 << 7, 0, "movdqa (%rdi),%xmm0"),
            (&[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0], 0, 1, "mov %fs:0x28,%rax"),
            (&[0x48, 0x89, 0xd8], 0, 0, "mov %rbx,%rax"),
        ] {
            assert_eq!(decode(bytes), Registers { address, loaded }, "{line}");
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        for first in 0..=255u8 {
            for second in 0..=255u8 {
                for rest in [&[][..], &[0x0f], &[0x04, 0x25]] {
                    let bytes = [&[first, second], rest].concat();
                    for length in 0..=bytes.len() {
                        std::hint::black_box(decode(&bytes[..length]));
                    }
                }
            }
        }
    }
}
