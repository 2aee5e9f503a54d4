//! Which machine answers, and what it says of itself.

use crate::simulated::SimulatedMachine;
use memtint_map::file::{CacheSection, CoresSection, LlcSection};
use memtint_units::PhysAddr;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

use super::LogPart;
use crate::noise::NoiseLevel;

/// What a machine says of itself beside its timing: written into logs, so that a repetition writes the same files.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// The machine, in words.
    pub name: String,
    /// Where memory is, as far as the machine says it: first and last excluded byte.
    pub memory: Vec<(u64, u64)>,
    /// The last-level cache, as far as the machine says it.
    pub llc: Option<LlcSection>,
    /// All caches, as far as the machine says it.
    pub caches: Vec<CacheSection>,
    /// Its cores.
    pub cores: Option<CoresSection>,
    /// The node of each group of cores.
    pub groups: Vec<u32>,
    /// Why the last-level cache cannot be probed.
    pub no_llc: Option<String>,
    /// Why nodes cannot be timed.
    pub no_nodes: Option<String>,
}

impl Facts {
    /// Gives where memory is.
    #[must_use]
    pub fn memory(&self) -> Vec<Range<PhysAddr>> {
        self.memory.iter().map(|&(base, end)| PhysAddr(base)..PhysAddr(end)).collect()
    }

    /// Gives why a part cannot be probed.
    pub(super) fn without(&self, part: LogPart) -> Option<&str> {
        match part {
            LogPart::Dram => None,
            LogPart::Caches => self.no_llc.as_deref(),
            LogPart::Nodes => self.no_nodes.as_deref(),
        }
    }
}

/// The processor of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessorFacts {
    /// Its name; empty when it has none.
    pub brand: String,
    /// The hypervisor, if the processor names one.
    pub hypervisor: Option<String>,
}

/// What an oracle of this machine's memory found out about itself. Ticks are those of the processor's clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MemoryFacts {
    /// Size of all pages of the pool.
    pub page_bytes: u64,
    /// The kernel gives the physical addresses of the pages; else addresses of the pool are names above the bits of a page.
    pub addresses_known: bool,
    /// The kernel keeps the pool from being swapped out.
    pub locked: bool,
    /// The CPU that times.
    pub cpu: u32,
    /// The CPU, of another core, that accesses memory beside it, if there is one.
    pub other_cpu: Option<u32>,
    /// All of the clock's readings are multiples of this, but for a constant.
    pub clock_quantum_ticks: u64,
    /// Median time of a read that a cache answers, which includes reading the clock.
    pub cached_ticks: u32,
    /// Median time of a read of a line that has just been flushed.
    pub flushed_ticks: u32,
}

/// The machine that answered.
#[derive(Debug)]
pub enum Subject {
    /// This machine.
    Machine {
        /// Facts of its memory; `None` when neither banks nor the last-level cache were probed.
        memory: Option<MemoryFacts>,
        /// Its processor, if it is known.
        processor: Option<ProcessorFacts>,
    },
    /// A simulated one.
    Simulated {
        /// The machine.
        machine: Box<SimulatedMachine>,
        /// What disturbs it.
        noise: NoiseLevel,
    },
    /// A recording.
    Log {
        /// Its name.
        path: String,
        /// The machine that was recorded.
        of: String,
    },
}

impl Subject {
    /// Gives the hypervisor, if the processor names one.
    #[must_use]
    pub fn hypervisor(&self) -> Option<&str> {
        match self {
            Subject::Machine { processor, .. } => processor.as_ref()?.hypervisor.as_deref(),
            Subject::Simulated { .. } | Subject::Log { .. } => None,
        }
    }

    /// Gives its serializable form, with the advice for it.
    #[must_use]
    pub fn report(&self, advice: Vec<String>) -> SubjectReport {
        match self {
            Subject::Machine { memory, processor } => SubjectReport::Machine {
                processor: processor.as_ref().map(|processor| processor.brand.clone()),
                hypervisor: self.hypervisor().map(str::to_owned),
                memory: memory.clone(),
                advice,
            },
            Subject::Simulated { machine, noise } => {
                SubjectReport::Simulated { platform: machine.platform().id().to_owned(), noise: *noise, advice }
            }
            Subject::Log { path, of } => SubjectReport::Log { path: path.clone(), of: of.clone() },
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Machine { processor, .. } => f.write_str(&machine_name(processor.as_ref())),
            Subject::Simulated { machine, noise } => f.write_str(&simulated_name(machine.platform().id(), *noise)),
            Subject::Log { path, .. } => write!(f, "the recording {path}"),
        }
    }
}

/// This machine, in words.
pub(super) fn machine_name(processor: Option<&ProcessorFacts>) -> String {
    let brand = processor.map(|processor| processor.brand.as_str()).filter(|brand| !brand.is_empty());
    let brand = brand.unwrap_or("unknown processor");
    match processor.and_then(|processor| processor.hypervisor.as_deref()) {
        Some(hypervisor) => format!("this machine ({brand}, a virtual machine of {hypervisor})"),
        None => format!("this machine ({brand})"),
    }
}

/// A simulated machine, in words.
pub(super) fn simulated_name(platform: &str, noise: NoiseLevel) -> String {
    format!("a simulated machine with the mapping of {platform}, noise: {}", noise.name())
}

/// The machine that answered, in a report.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SubjectReport {
    /// This machine.
    Machine {
        /// Name of the processor; null when it is not known.
        processor: Option<String>,
        /// The hypervisor that the processor names; null when it names none.
        hypervisor: Option<String>,
        /// Absent when neither banks nor the last-level cache were looked for.
        #[serde(flatten, skip_serializing_if = "Option::is_none")]
        memory: Option<MemoryFacts>,
        /// What would make the answer better.
        advice: Vec<String>,
    },
    /// A simulated one.
    Simulated {
        /// Platform whose mapping it has.
        platform: String,
        /// What disturbs it.
        noise: NoiseLevel,
        /// What the platform file leaves open, and was assumed.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        advice: Vec<String>,
    },
    /// A recording.
    Log {
        /// Name of the file.
        path: String,
        /// The machine that was recorded.
        of: String,
    },
}
