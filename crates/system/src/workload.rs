//! The work of a task in a simulation.

use std::path::PathBuf;

use memtint_units::ByteSize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::SystemError;
use crate::place::Place;
use crate::quantity::Count;

/// A kernel of memory references, or a recorded program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkloadEntry {
    /// Which kernel, or trace.
    pub kind: WorkloadKind,
    /// Bytes that it works on, such as "32 MiB"; of every kind but trace.
    #[schemars(with = "Option<String>")]
    pub size: Option<ByteSize>,
    /// Instructions between two references, default 2; of latency, bandwidth and uniform.
    pub gap: Option<u32>,
    /// Distance between two references (bandwidth), or by how much offsets grow (strides); default 64 bytes.
    #[schemars(with = "Option<String>")]
    pub step: Option<ByteSize>,
    /// Whether bandwidth writes instead of reading; default false.
    pub write: Option<bool>,
    /// Whether strides reads instead of writing; default false.
    pub read: Option<bool>,
    /// How many of 1024 references of uniform are writes; default 0.
    pub writes_per_1024: Option<Count<0, 1024>>,
    /// File of memtint trace record, relative to the system file; of trace.
    pub file: Option<PathBuf>,
    /// Which thread of a trace; default 0.
    pub thread: Option<u32>,
}

/// Kernels of memory references, and traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadKind {
    /// A pointer chase over a randomly shuffled list.
    Latency,
    /// A walk through an array.
    Bandwidth,
    /// Copy, scale, add and triad over three arrays, which `size` holds together.
    Stream,
    /// Growing strides from both ends (CAMC, TintMalloc).
    Strides,
    /// Lines at random, none of which depends on another.
    Uniform,
    /// A recorded program.
    Trace,
}

impl WorkloadKind {
    fn name(self) -> &'static str {
        match self {
            WorkloadKind::Latency => "latency",
            WorkloadKind::Bandwidth => "bandwidth",
            WorkloadKind::Stream => "stream",
            WorkloadKind::Strides => "strides",
            WorkloadKind::Uniform => "uniform",
            WorkloadKind::Trace => "trace",
        }
    }

    /// The fields that it has beside `kind`, the first of which it needs.
    fn fields(self) -> &'static [&'static str] {
        match self {
            WorkloadKind::Latency => &["size", "gap"],
            WorkloadKind::Bandwidth => &["size", "step", "write", "gap"],
            WorkloadKind::Stream => &["size"],
            WorkloadKind::Strides => &["size", "step", "read"],
            WorkloadKind::Uniform => &["size", "writes_per_1024", "gap"],
            WorkloadKind::Trace => &["file", "thread"],
        }
    }
}

impl WorkloadEntry {
    /// Checks that the kind has its field, and no others.
    ///
    /// # Errors
    ///
    /// [`SystemError::Missing`] and [`SystemError::UnknownField`].
    pub(crate) fn check(&self, place: &Place) -> Result<(), SystemError> {
        let given = [
            ("size", self.size.is_some()),
            ("gap", self.gap.is_some()),
            ("step", self.step.is_some()),
            ("write", self.write.is_some()),
            ("read", self.read.is_some()),
            ("writes_per_1024", self.writes_per_1024.is_some()),
            ("file", self.file.is_some()),
            ("thread", self.thread.is_some()),
        ];
        let (place, own) = (place.table(&format!("workload of kind {:?}", self.kind.name())), self.kind.fields());
        let is_given = |field: &str| given.iter().any(|&(other, given)| given && other == field);
        if let Some((field, _)) = given.iter().find(|(field, given)| *given && !own.contains(field)) {
            let accepted = own.join(", ");
            return Err(SystemError::UnknownField {
                place: place.to_string(),
                field: (*field).to_owned(),
                nearest: None,
                accepted,
            });
        }
        let accepted = if self.kind == WorkloadKind::Trace { "a file" } else { "a size such as \"32 MiB\"" };
        place.need(&[(own[0], is_given(own[0]), accepted)])
    }
}
