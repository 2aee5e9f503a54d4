//! References as bytes, and the heads of blocks.

use super::{BLOCK_HEAD_BYTES, BLOCK_MAGIC, BLOCK_REFERENCES_MAX, INDEX_ENTRY_BYTES, REFERENCE_BYTES_MAX};
use crate::{Kind, Reference};

/// Gaps below this fit the control byte.
const GAP_LONG: u32 = 7;
const NEW_SIZE: u8 = 1 << 4;

/// State of coder and decoder between references; new for each block.
#[derive(Clone, Debug)]
pub(super) struct Context {
    addr: [u64; 3],
    bytes: [u8; 3],
}

impl Default for Context {
    fn default() -> Self {
        Context { addr: [0; 3], bytes: [8; 3] }
    }
}

impl Context {
    #[inline]
    pub(super) fn encode(&mut self, reference: &Reference, out: &mut Vec<u8>) {
        let kind = reference.kind as usize;
        let mut control = kind as u8 | u8::from(reference.depends) << 2 | u8::from(reference.shares) << 3;
        control |= (reference.gap.min(GAP_LONG) as u8) << 5;
        let new_size = self.bytes[kind] != reference.bytes;
        if new_size {
            control |= NEW_SIZE;
        }
        out.push(control);
        if new_size {
            self.bytes[kind] = reference.bytes;
            out.push(reference.bytes);
        }
        if reference.gap >= GAP_LONG {
            push_varint(u64::from(reference.gap - GAP_LONG), out);
        }
        let distance = reference.addr.wrapping_sub(self.addr[kind]) as i64;
        push_varint((distance << 1 ^ distance >> 63) as u64, out);
        self.addr[kind] = reference.addr;
    }

    /// Decodes one reference from the front of `bytes`; `None` when they are not one.
    #[inline]
    pub(super) fn decode(&mut self, bytes: &mut &[u8]) -> Option<Reference> {
        let control = pop(bytes)?;
        let kind = match control & 3 {
            0 => Kind::Read,
            1 => Kind::Write,
            2 => Kind::Fetch,
            _ => return None,
        };
        let slot = kind as usize;
        if control & NEW_SIZE != 0 {
            self.bytes[slot] = pop(bytes).filter(|&size| size != 0)?;
        }
        let mut gap = u32::from(control >> 5);
        if gap == GAP_LONG {
            gap = u32::try_from(pop_varint(bytes)?).ok()?.checked_add(GAP_LONG)?;
        }
        let zigzag = pop_varint(bytes)?;
        let distance = (zigzag >> 1) ^ (zigzag & 1).wrapping_neg();
        self.addr[slot] = self.addr[slot].wrapping_add(distance);
        Some(Reference {
            addr: self.addr[slot],
            gap,
            bytes: self.bytes[slot],
            kind,
            depends: control & 4 != 0,
            shares: control & 8 != 0,
        })
    }
}

#[inline]
fn pop(bytes: &mut &[u8]) -> Option<u8> {
    let (&first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(first)
}

#[inline]
fn push_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[inline]
fn pop_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = pop(bytes)?;
        let part = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit.
        if shift == 63 && part > 1 {
            return None;
        }
        value |= part << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The 48 bytes before the packed bytes of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockHead {
    pub(super) stream: u32,
    pub(super) references: u32,
    pub(super) raw_bytes: u32,
    pub(super) packed_bytes: u32,
    pub(super) flags: u32,
    pub(super) first_instruction: u64,
    pub(super) instructions: u64,
    pub(super) packed_crc: u32,
}

impl BlockHead {
    pub(super) fn to_bytes(self) -> [u8; BLOCK_HEAD_BYTES] {
        let mut bytes = [0; BLOCK_HEAD_BYTES];
        bytes[..4].copy_from_slice(&BLOCK_MAGIC);
        for (at, word) in
            [(4, self.stream), (8, self.references), (12, self.raw_bytes), (16, self.packed_bytes), (20, self.flags)]
        {
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        bytes[24..32].copy_from_slice(&self.first_instruction.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.instructions.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.packed_crc.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..44]);
        bytes[44..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Parses a head; on a malformed one, returns a sentence.
    pub(super) fn from_bytes(bytes: &[u8; BLOCK_HEAD_BYTES]) -> Result<BlockHead, String> {
        if bytes[..4] != BLOCK_MAGIC {
            return Err(format!("{:02x?} is not the beginning of a block", &bytes[..4]));
        }
        let (found, expected) = (word(bytes, 44), crc32fast::hash(&bytes[..44]));
        if found != expected {
            return Err(format!("the head of the block has checksum {found:#010x} and should have {expected:#010x}"));
        }
        let head = BlockHead {
            stream: word(bytes, 4),
            references: word(bytes, 8),
            raw_bytes: word(bytes, 12),
            packed_bytes: word(bytes, 16),
            flags: word(bytes, 20),
            first_instruction: long(bytes, 24),
            instructions: long(bytes, 32),
            packed_crc: word(bytes, 40),
        };
        head.check().map(|()| head)
    }

    fn check(&self) -> Result<(), String> {
        if self.references > BLOCK_REFERENCES_MAX {
            return Err(format!("a block of {} references; accepted are 0 to {BLOCK_REFERENCES_MAX}", self.references));
        }
        // Two bytes a reference at least: control and distance.
        let (least, most) = (self.references * 2, self.references * REFERENCE_BYTES_MAX);
        if !(least..=most).contains(&self.raw_bytes) {
            let (references, raw) = (self.references, self.raw_bytes);
            return Err(format!("{references} references in {raw} bytes; accepted are {least} to {most}"));
        }
        let packed_max = packed_bytes_max(self.raw_bytes);
        if self.packed_bytes > packed_max {
            let (raw, packed) = (self.raw_bytes, self.packed_bytes);
            return Err(format!("{raw} bytes packed into {packed}; accepted are 0 to {packed_max}"));
        }
        match self.first_instruction.checked_add(self.instructions) {
            None => Err("the instructions of the block go beyond 2^64".to_owned()),
            Some(_) => Ok(()),
        }
    }

    pub(super) fn index_entry(&self, offset: u64) -> [u8; INDEX_ENTRY_BYTES] {
        let mut bytes = [0; INDEX_ENTRY_BYTES];
        bytes[..8].copy_from_slice(&offset.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.stream.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.references.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first_instruction.to_le_bytes());
        bytes[24..].copy_from_slice(&self.instructions.to_le_bytes());
        bytes
    }
}

/// Largest output of zstd for this many bytes (its ZSTD_compressBound, with room to spare).
pub(super) const fn packed_bytes_max(raw_bytes: u32) -> u32 {
    raw_bytes + (raw_bytes >> 7) + 1024
}

/// Four bytes of a slice that is long enough.
pub(super) fn word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// Eight bytes of a slice that is long enough.
pub(super) fn long(bytes: &[u8], at: usize) -> u64 {
    let mut long = [0; 8];
    long.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(long)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_come_back(value: u64) {
            let mut bytes = Vec::new();
            push_varint(value, &mut bytes);
            let mut rest = &bytes[..];
            prop_assert_eq!(pop_varint(&mut rest), Some(value));
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn nonsense_is_decoded_or_refused(bytes: Vec<u8>) {
            let (mut context, mut rest) = (Context::default(), &bytes[..]);
            while context.decode(&mut rest).is_some() {}
        }
    }

    #[test]
    fn a_varint_beyond_64_bits_is_none() {
        let mut bytes: &[u8] = &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert_eq!(pop_varint(&mut bytes), None);
    }
}
