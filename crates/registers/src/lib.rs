//! Address mappings read from dumps of a memory controller's registers.
//!
//! Where the manufacturer documents the registers, reading them is better than timing: the result is exact and needs no
//! measurement. This crate contains pure functions from a dump to a platform file. [`ConfigSpace`] is a dump of PCI
//! configuration space (`lspci -xxxx`, `setpci`, sysfs), from which [`decode_family`] reads AMD families 10h and 15h;
//! [`ZenDump`] is a list of data fabric and memory controller registers, from which [`decode_zen`] reads Zen.
//!
//! The crate touches no hardware and never guesses. A mapping that a platform file cannot express exactly is refused;
//! the error names the register.
//!
//! ```
//! use memtint_registers::{ZenDump, decode_zen};
//!
//! // Zen 4 desktop: two channels interleaved at address bit 8, 32 GiB, memory controllers not dumped.
//! let dump = "
//! fabric df4
//! F7xE00 = 0x00000000
//! F7xE04 = 0x0000007f
//! F7xE08 = 0x00000001
//! F7xE0C = 0x00000010
//! F7x104 = 0x00000000
//! ";
//! let decoded = decode_zen(&ZenDump::parse(dump, "example")?, "example")?;
//! assert_eq!(decoded.file.dram.functions[0].bits, [8]);
//! # Ok::<(), memtint_registers::RegisterError>(())
//! ```
#![forbid(unsafe_code)]

mod dct;
mod decoded;
mod dump;
mod error;
mod fabric;
mod list;
mod pci;
mod umc;
mod wires;
mod zen;

pub use dct::{Family, decode_family};
pub use decoded::Decoded;
pub use dump::{Controller, DecodeReport, decode_folder, decode_text};
pub use error::RegisterError;
pub use list::{Fabric, Layout, ZenDump};
pub use pci::{ConfigSpace, PciAddress};
pub use zen::decode_zen;
