//! Page-frame allocators as pure data structures over simulated memory, behind one trait.
//!
//! What it is for: to put the page allocator of an operating system into a simulation, and to compare the published coloring allocators on
//! equal terms. [`FrameMemory`] describes the frames, their zones and their colors; every system implements [`FrameAllocator`], one file
//! each:
//!
//! | system | file | finds a frame by | freed frames |
//! |---|---|---|---|
//! | [`Buddy`] | `buddy.rs` | the smallest block, per-CPU lists before it; no colors | merge |
//! | [`Palloc`] | `palloc.rs` | bins by bank; breaks free blocks until one fits | per-CPU lists, buddy |
//! | [`Bpm`] | `bpm.rs` | free lists by order and bank | merge |
//! | [`Camc`] | `camc.rs` | color lists; colors given to tasks automatically | their color's list |
//! | [`TintMalloc`] | `tintmalloc.rs` | a matrix of color lists, bank by cache color | their color's list |
//! | [`Hybrid`] | `hybrid.rs` | the same, with another free path | by the mode of the freeing task |
//! | [`Tinted`] | `tinted.rs` | an index of colors over the buddy's own blocks: constant time | merge |
//!
//! Several of them can serve one memory, each its own tasks: [`Shared`].
//!
//! The published systems are modelled as published, with their defects (memory trapped on color lists, searches without
//! bound, merging lost): `tests/it/published.rs` shows each.
//!
//! What it deliberately does not do: it holds no page contents and no page tables, reclaims nothing, and models neither locks nor time.
//! Migrate types, watermarks and reserves are not modelled.
//!
//! Types to know: [`FrameMemory`], [`Policy`], [`FrameAllocator`], [`FrameError`].
//!
//! ```
//! use memtint_frames::{Caller, FrameAllocator, FrameError, FrameMemory, Policy, Profile, Tinted};
//! use memtint_map::{Granule, Palette, Platform};
//! use memtint_units::IndexSet;
//!
//! // The 4 GiB machine of the PALLOC paper: 16 banks, one CPU of node 0.
//! let palette = Palette::new(&Platform::load("xeon-w3530-palloc")?, Granule::PAGE)?;
//! let memory = FrameMemory::of_palette(&palette, &[0])?;
//! let mut frames = Tinted::new(&memory);
//!
//! let banks = IndexSet::parse("0-3", palette.bank_classes())?;
//! let task = frames.enter(&Profile::of(Policy::banks(banks.clone())))?;
//! let caller = Caller { task, cpu: 0 };
//! let frame = frames.allocate(caller)?;
//! assert!(banks.contains(palette.bank_class(frame.addr()).unwrap()));
//!
//! frames.free(caller, frame)?;
//! assert!(matches!(frames.free(caller, frame), Err(FrameError::NotAllocated { .. })));
//! // Everything has merged again: 1024 blocks of 4 MiB.
//! assert_eq!(frames.counts().blocks[10], 1024);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod allocator;
mod base;
mod bins;
mod blocks;
mod bpm;
mod buddy;
mod camc;
mod error;
pub mod hybrid;
mod lists;
mod memory;
mod palloc;
mod percpu;
mod shared;
mod task;
mod tinted;
mod tintmalloc;

pub use allocator::{Counts, FrameAllocator, Promises, Steps};
pub use base::Tenant;
pub use bins::Form;
pub use bpm::Bpm;
pub use buddy::Buddy;
pub use camc::Camc;
pub use error::FrameError;
pub use hybrid::Hybrid;
pub use memory::{COLORS_MAX, ColorBy, FrameColoring, FrameMemory, FrameRange, ORDER_MAX, ZoneKind};
pub use palloc::{Palloc, Pick};
pub use percpu::PerCpu;
pub use shared::{Member, Shared};
pub use task::{Caller, Mode, Policy, Profile, TaskId, Usage};
pub use tinted::Tinted;
pub use tintmalloc::{MemIds, TintMalloc};
