//! Backend selection on this machine, and the set of frames that have the selected colors.
//!
//! What it is for: turning a selection of a platform's colors into the input of `memtint-live`. [`choose()`] decides between the kernel and
//! the runtime, with the mapping and the lists of colors that the kernel needs; [`Frames`] decides for each frame whether it has a selected
//! color.
//!
//! What it deliberately does not do: it starts no program and prints nothing. `memtint-live` is independent of platforms and palettes; its
//! caller supplies the frames, and this crate is such a caller.
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
