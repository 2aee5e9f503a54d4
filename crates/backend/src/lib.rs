//! What keeps a program in its colors on this machine: the choice of the backend, and the frames that are in color.
//!
//! What it is for: a selection of a platform's colors becomes what `memtint-live` takes. [`choose()`] decides between the kernel and the
//! runtime, with the mapping and the lists of colors that the kernel needs; [`Frames`] says of each frame whether it is in color.
//!
//! What it deliberately does not do: it starts no program and prints nothing. `memtint-live` knows neither platforms nor palettes; its
//! caller names the frames, and this crate is such a caller.
//!
//! ```
//! use memtint_backend::{Preference, RuntimeOptions, choose};
//! use memtint_live::{Floor, KernelFloor};
//! use memtint_map::{Granule, Palette, Platform, Selection};
//!
//! let palette = Palette::new(&Platform::load("haswell-e3-1230")?, Granule::PAGE)?;
//! let nowhere = KernelFloor::at("/nonexistent".into(), None);
//! let chosen = choose(Preference::Auto, &RuntimeOptions::default(), &palette, &Selection::default(), &nowhere)?;
//! assert!(matches!(chosen.floor, Floor::User { .. }));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod choose;
mod frames;

pub use choose::{BackendError, Chosen, Preference, RuntimeOptions, choose};
pub use frames::Frames;
