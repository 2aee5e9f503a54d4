//! Hardware properties that this machine reports.
//!
//! [`Machine`] is read from sysfs, `/proc/iomem`, EDAC, SPD, SMBIOS and ACPI, where the caller has permission, and from
//! `cpuid`. The crate never guesses how addresses map to DRAM: [`candidates`] lists the catalogue's entries for
//! relatives of this processor, to be confirmed by probing, and [`assumed_platform`] writes a platform file that marks
//! each fact as read from the machine or borrowed. Nothing here changes the machine.
//!
//! ```no_run
//! let machine = memtint_detect::Machine::read();
//! for candidate in memtint_detect::candidates(&machine) {
//!     println!("{} ({})", candidate.id, candidate.uarch);
//! }
//! ```

mod borrow;
mod cpu;
mod cpus;
mod fit;
mod geometry;
mod machine;
mod report;
mod smbios;
mod sysfs;
mod uarch;

pub use borrow::{BorrowError, assumed_platform};
pub use cpu::Processor;
pub use cpus::{CpuListError, usable_cores};
pub use fit::Fit;
pub use geometry::{EdacController, EdacKind, EdacPart, Geometry, SpdModule};
pub use machine::{Firmware, Machine, MemoryRange};
pub use report::DetectReport;
pub use smbios::{MappedAddress, MemoryDevice, Smbios};
pub use sysfs::{Cache, CacheKind, Cores, Node};
pub use uarch::{Candidate, Microarchitecture, candidates, microarchitecture};
