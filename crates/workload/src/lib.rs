//! Sources of memory references: the kernels of the papers, program models, and trace files.
//!
//! What it is for: a simulator's core pulls [`Reference`]s from a [`Source`], one or a slice at a time, independent of their origin.
//! Kernels are those of the published benchmarks, with their published parameters: [`Latency`], [`Bandwidth`], [`Stream`], [`Strides`],
//! [`Periodic`] and [`Uniform`]. A [`Program`] has the statistics of a program of the [`catalogue`]; a [`TraceFile`] holds the references
//! of a real one; [`convert`] reads other simulators' traces.
//!
//! What it deliberately does not do: addresses are virtual; there is no page table, no cache and no time.
//!
//! ```
//! use memtint_units::ByteSize;
//! use memtint_workload::{Kind, Latency, LatencyParameters, Source};
//!
//! // The pointer chase of PALLOC on a machine with a last-level cache of 8 MiB.
//! let mut chase = Latency::new(&LatencyParameters::for_cache(ByteSize::mib(8), 1))?;
//! let first = chase.next().expect("a chase never ends");
//! assert!(first.depends && first.kind == Kind::Read);
//! assert_eq!(chase.round(), (16 << 20) / 64);
//! # Ok::<(), memtint_workload::WorkloadError>(())
//! ```
#![forbid(unsafe_code)]

mod analysis;
mod bandwidth;
pub mod catalogue;
pub mod convert;
mod error;
mod latency;
mod periodic;
mod program;
mod reference;
mod region;
mod reuse;
mod stream;
mod strides;
pub mod trace;
mod unfinished;
mod uniform;

pub use analysis::{Analysis, AnalysisReport, ReuseBucket, Stride};
pub use bandwidth::{Bandwidth, BandwidthParameters};
pub use error::WorkloadError;
pub use latency::{Latency, LatencyParameters};
pub use periodic::Periodic;
pub use program::{Program, ProgramParameters, ROW_BYTES};
pub use reference::{Kind, Reference, Source};
pub use region::{LINE_BYTES, Region};
pub use reuse::{Reuse, ReuseParameters};
pub use stream::{Stream, StreamLoop, StreamParameters};
pub use strides::{Strides, StridesParameters};
pub use trace::{TraceFile, TraceHeader, TraceReport, TraceSource, TraceWriter};
pub use unfinished::UnfinishedFile;
pub use uniform::{Uniform, UniformParameters};

/// Implements [`Source`] for a type that has `fn step(&mut self) -> Reference`.
macro_rules! endless {
    ($name:ty) => {
        impl Source for $name {
            #[inline]
            fn next(&mut self) -> Option<Reference> {
                Some(self.step())
            }

            fn fill(&mut self, into: &mut [Reference]) -> usize {
                into.iter_mut().for_each(|slot| *slot = self.step());
                into.len()
            }

            fn snapshot(&self) -> Box<dyn Source> {
                Box::new(self.clone())
            }
        }
    };
}
use endless;
