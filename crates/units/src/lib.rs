//! Units of the memory system, one type each.
//!
//! Byte addresses, page frame numbers and byte counts are different quantities, and so are cycles and picoseconds.
//! Confusing two of them is the oldest bug of memory allocators. This crate gives each its own type and makes every
//! conversion a named method. It also contains the list syntax for colors and cores (`0-3,8`, `all`, `!0-1`), and the
//! project's only random number generator.
//!
//! Out of scope: DRAM, caches and files. The crate performs no I/O.
//!
//! Types to know: [`PhysAddr`], [`Pfn`], [`ByteSize`], [`Picoseconds`], [`Clock`], [`IndexSet`], [`Random`].
//!
//! ```
//! use memtint_units::{ByteSize, IndexSet, Pfn, PhysAddr};
//!
//! assert_eq!(PhysAddr(0x12345678).pfn(), Pfn(0x12345));
//! assert_eq!("64K".parse::<ByteSize>().unwrap().to_string(), "64 KiB");
//! assert_eq!(IndexSet::parse("!0-1", 8).unwrap().to_string(), "2-7");
//! ```
#![forbid(unsafe_code)]

mod addr;
mod bytes;
pub mod list;
pub mod random;
mod time;

pub use addr::{PAGE_SHIFT, PAGE_SIZE, Pfn, PhysAddr};
pub use bytes::{ByteSize, ByteSizeError};
pub use list::{IndexList, IndexSet, ListError};
pub use random::Random;
pub use time::{Clock, Picoseconds, TimeError, spell_picoseconds};
