//! The source of a complete probe of this machine.

use memtint_detect::{Cache, CacheKind, Machine};
use memtint_probe::cache::{CacheFacts, NodeOracle, PrivateCache};
use memtint_probe::session::{self, Facts, LocalMemory, LogPart, MemoryFacts, ProcessorFacts, Request, Source};
use memtint_probe::{LINE, OracleError};
use memtint_units::ByteSize;

use crate::error::StopwatchError;
use crate::machine::Stopwatch;
use crate::nodes::NodeMachine;

/// Opens the parts of this machine that the request needs: memory of all nodes, and a pool as of [`Stopwatch::open`].
/// Nodes that cannot be timed are not an error; the report gives the reason. The thread stays on one CPU until the
/// source is dropped.
///
/// # Errors
/// Those of [`Stopwatch::open`].
pub fn this_machine(request: Request, bytes: Option<ByteSize>) -> Result<Source, StopwatchError> {
    let detected = Machine::read();
    let mut facts = Facts {
        memory: detected.memory.iter().map(|range| (range.start, range.end)).collect(),
        llc: detected.last_level_section(),
        caches: detected.cache_sections(),
        cores: detected.cores_section(),
        ..Facts::default()
    };
    // Before the thread is pinned to one CPU.
    let mut nodes: Option<Box<dyn NodeOracle>> = None;
    if request.has(LogPart::Nodes) {
        match NodeMachine::open() {
            Ok(machine) => {
                facts.groups = machine.groups();
                nodes = Some(Box::new(machine));
            }
            Err(error) => facts.no_nodes = Some(error.to_string()),
        }
    }
    let mut memory: Option<Box<dyn LocalMemory>> = None;
    if request.has(LogPart::Dram) || request.has(LogPart::Caches) {
        memory = Some(Box::new(Stopwatch::open(bytes)?.with_caches(cache_facts(&detected))));
    }
    let processor = detected.processor.map(|own| ProcessorFacts { brand: own.brand, hypervisor: own.hypervisor });
    Ok(Source::of_machine(request, session::ThisMachine { memory, nodes, processor }, facts))
}

/// The caches before the last.
fn cache_facts(detected: &Machine) -> CacheFacts {
    let last = detected.last_level_cache();
    let line = last.and_then(|last| last.line_bytes).map_or(LINE, |bytes| u64::from(bytes).max(LINE));
    let inner = detected.caches.iter().filter(|cache| last.is_some_and(|last| cache.level < last.level));
    let data = inner.filter(|cache| cache.kind != CacheKind::Instruction);
    // Lines at a distance of a power of two do not evict each other where the number of sets is no power of two.
    let facts = data.filter_map(|cache: &Cache| {
        Some(PrivateCache { sets: cache.sets.filter(|sets| sets.is_power_of_two())?, ways: cache.ways? })
    });
    CacheFacts { line, private: facts.collect() }
}

impl LocalMemory for Stopwatch {
    fn facts(&self) -> MemoryFacts {
        self.about().clone()
    }

    fn check_places(&self) -> Result<(), OracleError> {
        Stopwatch::check_places(self).map_err(|error| OracleError::Machine(Box::new(error)))
    }
}
