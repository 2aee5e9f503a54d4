//! Who is asked: this machine, a simulated one, or a recording.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::ops::Range;
use std::path::Path;

use memtint_detect::{CacheKind, Machine, Processor};
use memtint_input::Input;
use memtint_map::Platform;
use memtint_map::file::{CacheSection, CoresSection, LlcSection};
use memtint_probe::cache::{CacheFacts, CacheMachine, CacheOracle, NodeOracle, PrivateCache};
use memtint_probe::{LINE, Log, Oracle, Recorder, SimulatedMachine, begin_log};
use memtint_stopwatch::{About, NodeMachine, Stopwatch};
use memtint_units::PhysAddr;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ProbeArguments;
use super::noise::{self, Level};
use super::wanted::{Part, Wanted, note};
use crate::output::{Failure, open_log};

/// The note of a log that holds a [`Described`].
const MACHINE: &str = "machine";

/// Who was asked.
pub(super) enum Asked {
    Machine { about: Option<About>, processor: Option<Processor> },
    Simulated { machine: Box<SimulatedMachine>, noise: &'static str },
    Log { path: String, of: String },
}

/// What a machine says of itself beside its timing: written into logs, so that a repetition writes the same files.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Described {
    /// The machine, in words.
    pub(super) name: String,
    /// Where memory is, as far as somebody says it: first and last excluded byte.
    memory: Vec<(u64, u64)>,
    /// The last-level cache, as far as the machine says it.
    pub(super) llc: Option<LlcSection>,
    pub(super) caches: Vec<CacheSection>,
    pub(super) cores: Option<CoresSection>,
    /// The node of each group of cores.
    pub(super) groups: Vec<u32>,
    /// Why the last-level cache, or nodes, cannot be asked about.
    no_llc: Option<String>,
    no_nodes: Option<String>,
}

impl Described {
    pub(super) fn memory(&self) -> Vec<Range<PhysAddr>> {
        self.memory.iter().map(|&(base, end)| PhysAddr(base)..PhysAddr(end)).collect()
    }

    fn without(&self, part: Part) -> Option<&str> {
        match part {
            Part::Dram => None,
            Part::Llc => self.no_llc.as_deref(),
            Part::Nodes => self.no_nodes.as_deref(),
        }
    }
}

enum Who {
    Machine {
        /// Not there when nothing about banks and caches is wanted.
        machine: Option<Box<Stopwatch>>,
        nodes: Option<Box<NodeMachine>>,
        processor: Option<Processor>,
    },
    Simulated {
        machine: Box<SimulatedMachine>,
        caches: Option<Box<CacheMachine>>,
        nodes: Option<Box<CacheMachine>>,
        noise: &'static str,
    },
    Log {
        path: String,
        log: Log<BufReader<Input>>,
    },
}

/// What can be asked, and the log that is kept of it.
pub(super) struct Source {
    who: Who,
    log: Option<BufWriter<File>>,
    pub(super) wanted: Wanted,
    pub(super) described: Described,
}

impl Source {
    /// Opens whom the arguments name, and the log if there is to be one, once what is wanted has been looked at.
    pub(super) fn open<T>(
        arguments: &ProbeArguments,
        look: impl FnOnce(&Wanted) -> Result<T, Failure>,
    ) -> Result<(Source, T), Failure> {
        if let Some(path) = &arguments.replay {
            let source = Source::of_log(path, arguments)?;
            let looked = look(&source.wanted)?;
            return Ok((source, looked));
        }
        let wanted = Wanted::of(arguments)?;
        let looked = look(&wanted)?;
        let (who, described) = match &arguments.simulate {
            Some(spec) => simulated(arguments, &wanted, spec)?,
            None => this_machine(arguments, &wanted)?,
        };
        let log = match &arguments.record {
            None => None,
            Some(path) => {
                let failed = |cause| Failure::File { path: path.clone(), done: "written", cause };
                let mut log = BufWriter::new(File::create(path).map_err(failed)?);
                let mut notes = wanted.notes(arguments);
                notes.push((MACHINE, serde_json::to_string(&described).expect("text and numbers")));
                begin_log(&mut log, &notes)?;
                Some(log)
            }
        };
        Ok((Source { who, log, wanted, described }, looked))
    }

    fn of_log(path: &Path, arguments: &ProbeArguments) -> Result<Source, Failure> {
        let name = path.display().to_string();
        let log = Log::new(&name, open_log(path)?)?;
        let wanted = Wanted::of_log(&name, log.notes(), arguments)?;
        let known = |key: &str| key == MACHINE || wanted.notes(arguments).iter().any(|(own, _)| *own == key);
        if let Some((key, _)) = log.notes().iter().find(|(key, _)| !known(key)) {
            return Err(Failure::Sentence(format!("{name}: note {key}: this version of memtint does not know it")));
        }
        let described = serde_json::from_str(note(&name, log.notes(), MACHINE)?)
            .map_err(|error| Failure::Sentence(format!("{name}: note {MACHINE}: {error}")))?;
        Ok(Source { who: Who::Log { path: name, log }, log: None, wanted, described })
    }

    /// Puts questions about banks.
    pub(super) fn dram<T>(
        &mut self,
        questions: impl FnOnce(&mut dyn Oracle) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let oracle: &mut dyn Oracle = match &mut self.who {
            Who::Machine { machine, .. } => machine.as_mut().expect("it was opened for this").as_mut(),
            Who::Simulated { machine, .. } => machine.as_mut(),
            Who::Log { log, .. } => return questions(&mut log.part(Part::Dram.in_log())?),
        };
        let Some(log) = &mut self.log else { return questions(oracle) };
        let mut recorder = Recorder::of_dram(oracle, log)?;
        let found = questions(&mut recorder)?;
        recorder.finish()?;
        Ok(found)
    }

    /// Puts questions about the last-level cache, or says why it cannot.
    pub(super) fn caches<T>(
        &mut self,
        questions: impl FnOnce(&mut dyn CacheOracle) -> Result<T, Failure>,
    ) -> Result<Result<T, String>, Failure> {
        if let Some(why) = self.described.without(Part::Llc) {
            return Ok(Err(why.to_owned()));
        }
        let oracle: &mut dyn CacheOracle = match &mut self.who {
            Who::Machine { machine, .. } => machine.as_mut().expect("it was opened for this").as_mut(),
            Who::Simulated { caches, .. } => caches.as_mut().expect("else it says why not").as_mut(),
            Who::Log { log, .. } => return questions(&mut log.part(Part::Llc.in_log())?).map(Ok),
        };
        let Some(log) = &mut self.log else { return questions(oracle).map(Ok) };
        let mut recorder = Recorder::of_caches(oracle, log)?;
        let found = questions(&mut recorder)?;
        recorder.finish()?;
        Ok(Ok(found))
    }

    /// Puts questions about nodes, or says why it cannot.
    pub(super) fn nodes<T>(
        &mut self,
        questions: impl FnOnce(&mut dyn NodeOracle) -> Result<T, Failure>,
    ) -> Result<Result<T, String>, Failure> {
        if let Some(why) = self.described.without(Part::Nodes) {
            return Ok(Err(why.to_owned()));
        }
        let oracle: &mut dyn NodeOracle = match &mut self.who {
            Who::Machine { nodes, .. } => nodes.as_mut().expect("else it says why not").as_mut(),
            Who::Simulated { nodes, .. } => nodes.as_mut().expect("else it says why not").as_mut(),
            Who::Log { log, .. } => return questions(&mut log.part(Part::Nodes.in_log())?).map(Ok),
        };
        let Some(log) = &mut self.log else { return questions(oracle).map(Ok) };
        let mut recorder = Recorder::of_nodes(oracle, log)?;
        let found = questions(&mut recorder)?;
        recorder.finish()?;
        Ok(Ok(found))
    }

    /// Ends the asking, and says who was asked.
    pub(super) fn finish(self) -> Result<(Asked, Described), Failure> {
        let Source { who, described, .. } = self;
        let asked = match who {
            Who::Machine { machine, processor, .. } => {
                if let Some(machine) = &machine {
                    machine.check_places()?;
                }
                Asked::Machine { about: machine.map(|machine| machine.about().clone()), processor }
            }
            Who::Simulated { machine, noise, .. } => Asked::Simulated { machine, noise },
            Who::Log { path, log } => {
                log.end()?;
                Asked::Log { path, of: described.name.clone() }
            }
        };
        Ok((asked, described))
    }
}

fn simulated(arguments: &ProbeArguments, wanted: &Wanted, spec: &str) -> Result<(Who, Described), Failure> {
    let level = match arguments.noise[..] {
        [] => Level::Quiet,
        [level] => level,
        _ => {
            return Err(Failure::Sentence("--noise: several levels found; accepted with --simulate is one".to_owned()));
        }
    };
    let platform = Platform::load(spec)?;
    let mut described = Described {
        name: format!("a simulated machine with the mapping of {}, noise: {}", platform.id(), level.name()),
        memory: platform.regions().iter().map(|region| (region.base.0, region.end().0)).collect(),
        caches: platform.caches().to_vec(),
        cores: platform.cores().cloned(),
        ..Described::default()
    };
    let mut nodes: Vec<u32> = platform.regions().iter().map(|region| region.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    described.groups = (0..=nodes.last().copied().unwrap_or(0)).collect();
    let (mut caches, mut node_machine) = (None, None);
    if wanted.has(Part::Llc) {
        match noise::caches(&platform, level, wanted.seed)? {
            Ok(machine) => caches = Some(Box::new(machine)),
            Err(why) => described.no_llc = Some(format!("it is not simulated: {why}")),
        }
    }
    if wanted.has(Part::Nodes) {
        match noise::nodes(&platform, level, wanted.seed)? {
            Ok(machine) => node_machine = Some(Box::new(machine)),
            Err(why) => described.no_nodes = Some(format!("they are not simulated: {why}")),
        }
    }
    let machine = Box::new(noise::machine(platform, level, wanted.seed)?);
    Ok((Who::Simulated { machine, caches, nodes: node_machine, noise: level.name() }, described))
}

fn this_machine(arguments: &ProbeArguments, wanted: &Wanted) -> Result<(Who, Described), Failure> {
    let detected = Machine::read();
    let mut described = Described {
        memory: detected.memory.iter().map(|range| (range.start, range.end)).collect(),
        llc: detected.last_level_section(),
        caches: detected.cache_sections(),
        cores: detected.cores_section(),
        ..Described::default()
    };
    // Before the thread is kept on one CPU.
    let mut nodes = None;
    if wanted.has(Part::Nodes) {
        match NodeMachine::open() {
            Ok(machine) => {
                described.groups = machine.groups();
                nodes = Some(Box::new(machine));
            }
            Err(error) => described.no_nodes = Some(error.to_string()),
        }
    }
    let mut machine = None;
    if wanted.has(Part::Dram) || wanted.has(Part::Llc) {
        eprintln!("memtint: taking memory");
        machine = Some(Box::new(Stopwatch::open(arguments.memory)?.with_caches(cache_facts(&detected))));
    }
    let who = Who::Machine { machine, nodes, processor: detected.processor };
    described.name = who.to_string();
    Ok((who, described))
}

/// The caches before the last.
fn cache_facts(detected: &Machine) -> CacheFacts {
    let last = detected.last_level_cache();
    let line = last.and_then(|last| last.line_bytes).map_or(LINE, |bytes| u64::from(bytes).max(LINE));
    let inner = detected.caches.iter().filter(|cache| last.is_some_and(|last| cache.level < last.level));
    let data = inner.filter(|cache| cache.kind != CacheKind::Instruction);
    // One that is indexed by no power of two is not pushed out by lines that are so many apart.
    let facts = data.filter_map(|cache| {
        Some(PrivateCache { sets: cache.sets.filter(|sets| sets.is_power_of_two())?, ways: cache.ways? })
    });
    CacheFacts { line, private: facts.collect() }
}

impl std::fmt::Display for Who {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Who::Machine { processor, .. } => super::report::write_machine(f, processor.as_ref()),
            Who::Simulated { machine, noise, .. } => super::report::write_simulated(f, machine, noise),
            Who::Log { path, .. } => write!(f, "the recording {path}"),
        }
    }
}
