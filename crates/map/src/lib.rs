//! DRAM address mappings, cache geometry, isolation classes and palettes.
//!
//! For every page frame of a machine, this crate computes which banks and cache sets it touches, and which other frames
//! touch none of them. A [`Platform`] is a verified platform file; a [`Palette`] holds its colors at one [`Granule`]; a
//! [`Selection`] names colors and compiles to a [`Matcher`] that classifies a frame in a few nanoseconds.
//!
//! The crate discovers no mappings, touches no machine, and offers no bank that a granule cannot honor. A *bank class*
//! (isolation class) is a set of banks that granules touch together: two granules are bank-disjoint exactly when their
//! classes differ. A *set color* is the same for the (slice, set) pairs of the last-level cache.
//!
//! ```
//! use memtint_map::{Granule, Palette, Platform};
//! use memtint_units::PhysAddr;
//!
//! let platform = Platform::load("skl-e3-1220v5-4x4g")?;
//! let palette = Palette::new(&platform, Granule::PAGE)?;
//! // 64 banks, but a page always touches four of them: 16 classes.
//! assert_eq!((palette.banks(), palette.banks_per_granule(), palette.bank_classes()), (64, 4, 16));
//! assert_eq!(palette.bank_class(PhysAddr(1 << 15)), Some(1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod catalogue;
mod enumerate;
mod error;
mod evaluate;
pub mod file;
pub mod gf2;
mod granule;
pub mod kernel;
pub mod mapfile;
mod palette;
mod platform;
pub mod report;
mod select;
pub mod tint;

pub use enumerate::Granules;
pub use error::PlatformError;
pub use file::{PlatformFile, Role, SliceHash};
pub use granule::{Granule, GranuleError};
pub use kernel::KernelMapError;
pub use mapfile::MapFileError;
pub use palette::{FrameColor, Pair, Palette, PaletteError};
pub use platform::{
    ADDRESS_BITS_MAX, BankFunction, DOMAINS_MAX, Domain, FUNCTIONS_MAX, Interleave, Location, Platform, Region,
};
pub use select::{Matcher, Selection, SelectionError};
pub use tint::{BankRoles, TintBank, TintError, TintNumbering};
