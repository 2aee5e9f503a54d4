//! The content of a dump, as a platform file.

use memtint_map::file::{DramSection, FunctionSection, RegionSection, SCHEMA};
use memtint_map::{ADDRESS_BITS_MAX, Platform, PlatformFile, Role, gf2};
use memtint_units::ByteSize;

use crate::error::{Origin, RegisterError};

/// A platform file made from a dump, and the registers behind each of its functions.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The file, which [`Platform::from_file`] accepts.
    pub file: PlatformFile,
    /// The register bits behind each entry of `file.dram.functions`, in the same order.
    pub registers: Vec<String>,
}

/// An XOR function and the registers that define it.
pub(crate) struct Function {
    pub(crate) role: Role,
    pub(crate) mask: u64,
    pub(crate) registers: String,
    /// Inferred from a dumped part of the machine, or one of several published rules.
    pub(crate) assumed: bool,
}

/// A piece of physical memory.
pub(crate) struct Piece {
    pub(crate) base: u64,
    /// End (excluded).
    pub(crate) end: u64,
    pub(crate) node: u32,
    pub(crate) dram_base: u64,
    pub(crate) registers: String,
}

/// The result of a decoder.
pub(crate) struct Parts {
    pub(crate) id: &'static str,
    pub(crate) name: String,
    pub(crate) uarch: &'static str,
    pub(crate) standard: &'static str,
    /// Channels of the machine.
    pub(crate) channels: Option<u32>,
    /// Ranks of a channel.
    pub(crate) ranks: Option<u32>,
    /// Banks of a rank.
    pub(crate) banks: Option<u32>,
    pub(crate) bank_groups: Option<u32>,
    pub(crate) functions: Vec<Function>,
    /// DRAM address bits of the row, as masks; empty when not known.
    pub(crate) rows: u64,
    pub(crate) columns: u64,
    pub(crate) address_bits: u32,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) source: String,
    pub(crate) notes: Vec<String>,
}

impl Parts {
    /// Makes the platform file and verifies it.
    pub(crate) fn finish(self, origin: Origin<'_>) -> Result<Decoded, RegisterError> {
        if self.address_bits > ADDRESS_BITS_MAX {
            let found = format!("at least {} bits of DRAM addresses", self.address_bits);
            return origin.refuse("the memory the registers describe", found, format!("up to {ADDRESS_BITS_MAX} bits"));
        }
        let (rows, columns) = (self.rows, self.columns);
        let all =
            self.functions.iter().map(|function| function.mask).chain(gf2::bits(rows | columns).map(|bit| 1 << bit));
        let complete = rows != 0 && gf2::Basis::spanning(all).rank() == self.address_bits;
        let list = |mask: u64| (mask != 0).then(|| gf2::bits(mask).collect());
        let dram = DramSection {
            standard: self.standard.to_owned(),
            channels: self.channels,
            dimms: None,
            ranks: self.ranks,
            banks: self.banks,
            bank_groups: self.bank_groups,
            address_bits: self.address_bits,
            functions: self.functions.iter().map(Function::section).collect(),
            row_bits: list(rows),
            row_functions: None,
            column_bits: list(columns),
            complete,
            source_kind: Some("registers".to_owned()),
            source: self.source,
        };
        let file = PlatformFile {
            schema: SCHEMA,
            id: self.id.to_owned(),
            name: self.name,
            uarch: Some(self.uarch.to_owned()),
            notes: Some(self.notes.join(" ")).filter(|notes| !notes.is_empty()),
            dram,
            region: self.pieces.into_iter().map(Piece::section).collect(),
            llc: None,
            cache: Vec::new(),
            cores: None,
        };
        Platform::from_file(file.clone(), origin.0).map_err(Box::new)?;
        Ok(Decoded { file, registers: self.functions.into_iter().map(|function| function.registers).collect() })
    }
}

impl Function {
    fn section(&self) -> FunctionSection {
        FunctionSection { role: self.role, bit: None, bits: gf2::bits(self.mask).collect(), assumed: self.assumed }
    }
}

impl Piece {
    fn section(self) -> RegionSection {
        RegionSection {
            base: ByteSize(self.base),
            size: ByteSize(self.end - self.base),
            node: self.node,
            dram_base: (self.dram_base != self.base).then_some(ByteSize(self.dram_base)),
            interleave: None,
            assumed: false,
            source: self.registers,
        }
    }
}

/// Number of bits that hold the address `last`.
pub(crate) fn bits_for(last: u64) -> u32 {
    64 - last.leading_zeros()
}
