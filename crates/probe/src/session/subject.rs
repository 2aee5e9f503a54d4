//! The probed machine and its properties.

use crate::simulated::SimulatedMachine;
use memtint_map::file::{CacheSection, CoresSection, LlcSection};
use memtint_units::PhysAddr;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

use super::LogPart;
use crate::noise::NoiseLevel;

/// Properties of a machine besides its timing; written into logs, so that a repetition writes the same files.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// Name of the machine.
    pub name: String,
    /// Memory ranges, where reported by the machine: first byte, and the byte after the last.
    pub memory: Vec<(u64, u64)>,
    /// The last-level cache, where reported by the machine.
    pub llc: Option<LlcSection>,
    /// All caches, where reported by the machine.
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
    /// Returns the memory ranges.
    #[must_use]
    pub fn memory(&self) -> Vec<Range<PhysAddr>> {
        self.memory.iter().map(|&(base, end)| PhysAddr(base)..PhysAddr(end)).collect()
    }

    /// Returns the reason why a part cannot be probed.
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

/// Facts about the memory used as an oracle of this machine. Ticks are those of the processor's clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MemoryFacts {
    /// Page size of the pool.
    pub page_bytes: u64,
    /// Whether the kernel shows physical addresses of the pages; if not, address bits above a page are arbitrary.
    pub addresses_known: bool,
    /// Whether the kernel keeps the pool from being swapped out.
    pub locked: bool,
    /// The timing CPU.
    pub cpu: u32,
    /// The CPU of another core that accesses memory at the same time, if there is one.
    pub other_cpu: Option<u32>,
    /// All readings of the clock are multiples of this, apart from a constant.
    pub clock_quantum_ticks: u64,
    /// Median time of a cache hit, including the time to read the clock.
    pub cached_ticks: u32,
    /// Median time of a read of a line that has just been flushed.
    pub flushed_ticks: u32,
}

/// The probed machine.
#[derive(Debug)]
pub enum Subject {
    /// This machine.
    Machine {
        /// Facts of its memory; `None` when neither banks nor the last-level cache were probed.
        memory: Option<MemoryFacts>,
        /// Its processor, if known.
        processor: Option<ProcessorFacts>,
    },
    /// A simulated one.
    Simulated {
        /// The machine.
        machine: Box<SimulatedMachine>,
        /// Noise level.
        noise: NoiseLevel,
    },
    /// A recording.
    Log {
        /// Its name.
        path: String,
        /// The recorded machine.
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

    /// Returns its serializable form, with advice.
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

/// Name of this machine.
pub(super) fn machine_name(processor: Option<&ProcessorFacts>) -> String {
    let brand = processor.map(|processor| processor.brand.as_str()).filter(|brand| !brand.is_empty());
    let brand = brand.unwrap_or("unknown processor");
    match processor.and_then(|processor| processor.hypervisor.as_deref()) {
        Some(hypervisor) => format!("this machine ({brand}, a virtual machine of {hypervisor})"),
        None => format!("this machine ({brand})"),
    }
}

/// Name of a simulated machine.
pub(super) fn simulated_name(platform: &str, noise: NoiseLevel) -> String {
    format!("a simulated machine with the mapping of {platform}, noise: {}", noise.name())
}

/// The report of the probed machine.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SubjectReport {
    /// This machine.
    Machine {
        /// Name of the processor; null when unknown.
        processor: Option<String>,
        /// The hypervisor reported by the processor; null without one.
        hypervisor: Option<String>,
        /// Facts about memory; absent when neither banks nor the last-level cache were requested.
        #[serde(flatten, skip_serializing_if = "Option::is_none")]
        memory: Option<MemoryFacts>,
        /// Advice to improve the answer.
        advice: Vec<String>,
    },
    /// A simulated one.
    Simulated {
        /// Platform with its mapping.
        platform: String,
        /// Noise level.
        noise: NoiseLevel,
        /// Assumptions about facts that are missing from the platform file.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        advice: Vec<String>,
    },
    /// A recording.
    Log {
        /// Name of the file.
        path: String,
        /// The recorded machine.
        of: String,
    },
}
