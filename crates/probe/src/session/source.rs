//! Sources of readings: this machine, a simulated one, or a recording.

use super::LogPart;
use super::banks::Banks;
use super::caches::Caches;
use super::error::SessionError;
use super::nodes::Nodes;
use super::outcome::Outcome;
use super::request::{Request, note};
use super::seen::Watched;
use super::subject::{Facts, MemoryFacts, ProcessorFacts, Subject, machine_name, simulated_name};
use crate::cache::{CacheMachine, CacheOracle, NodeOracle, probe_cache, probe_nodes};
use crate::discover::probe;
use crate::log::{Log, Recorder, begin_log};
use crate::noise::NoiseLevel;
use crate::oracle::{Oracle, OracleError};
use crate::pool::Pool;
use crate::simulated::SimulatedMachine;
use memtint_map::Platform;
use std::io::{BufRead, Write};

/// The note of a log that holds [`Facts`].
const MACHINE: &str = "machine";

/// An oracle of this machine's memory, for banks and caches.
pub trait LocalMemory: CacheOracle {
    /// Returns facts about this memory.
    fn facts(&self) -> MemoryFacts;

    /// Checks that the whole pool is still at its original physical addresses; called after the last reading.
    ///
    /// # Errors
    /// [`OracleError`] for a page that has moved.
    fn check_places(&self) -> Result<(), OracleError>;
}

/// This machine.
pub struct ThisMachine {
    /// Its memory; required for banks and the last-level cache.
    pub memory: Option<Box<dyn LocalMemory>>,
    /// Its nodes; required for these, unless [`Facts::no_nodes`] has a reason.
    pub nodes: Option<Box<dyn NodeOracle>>,
    /// Its processor, if known.
    pub processor: Option<ProcessorFacts>,
}

enum Origin {
    Machine(ThisMachine),
    Simulated {
        machine: Box<SimulatedMachine>,
        caches: Option<Box<CacheMachine>>,
        nodes: Option<Box<CacheMachine>>,
        noise: NoiseLevel,
    },
    Log {
        path: String,
        log: Log<Box<dyn BufRead>>,
    },
}

/// A source of readings, with an optional log.
pub struct Source {
    origin: Origin,
    log: Option<Box<dyn Write>>,
    request: Request,
    facts: Facts,
}

impl Source {
    /// Makes a source from this machine. The machine's name is stored in `facts`.
    #[must_use]
    pub fn of_machine(request: Request, machine: ThisMachine, facts: Facts) -> Source {
        let facts = Facts { name: machine_name(machine.processor.as_ref()), ..facts };
        Source { origin: Origin::Machine(machine), log: None, request, facts }
    }

    /// Makes a source from a simulated machine with the mapping, last-level cache and nodes of a platform.
    ///
    /// # Errors
    /// [`SessionError::Pool`] when the platform's memory does not form a pool. A cache or nodes that cannot be
    /// simulated are not an error; the report gives the reason.
    pub fn simulated(request: Request, platform: Platform, noise: NoiseLevel) -> Result<Source, SessionError> {
        let mut facts = Facts {
            name: simulated_name(platform.id(), noise),
            memory: platform.regions().iter().map(|region| (region.base.0, region.end().0)).collect(),
            caches: platform.caches().to_vec(),
            cores: platform.cores().cloned(),
            ..Facts::default()
        };
        let last_node = platform.regions().iter().map(|region| region.node).max();
        facts.groups = (0..=last_node.unwrap_or(0)).collect();
        let (mut caches, mut nodes) = (None, None);
        // Random numbers that differ from those of the probe.
        let seed = !request.seed;
        if request.has(LogPart::Caches) {
            match CacheMachine::of_platform(&platform, Pool::of_platform(&platform)?, noise.noise(), seed) {
                Ok(machine) => caches = Some(Box::new(machine)),
                Err(why) => facts.no_llc = Some(format!("it is not simulated: {why}")),
            }
        }
        if request.has(LogPart::Nodes) {
            match CacheMachine::nodes_of_platform(&platform, Pool::of_platform(&platform)?, noise.noise(), seed) {
                Ok(machine) => nodes = Some(Box::new(machine)),
                Err(why) => facts.no_nodes = Some(format!("they are not simulated: {why}")),
            }
        }
        let machine = Box::new(SimulatedMachine::of_platform(platform, noise, request.seed)?);
        Ok(Source { origin: Origin::Simulated { machine, caches, nodes, noise }, log: None, request, facts })
    }

    /// Makes a source from a recording, with its original request; `name` is its name in messages.
    ///
    /// # Errors
    /// [`SessionError::Oracle`] for a text that is not a log; [`SessionError`] for notes that are not those of
    /// [`Source::record`].
    pub fn of_log(name: &str, log: Box<dyn BufRead>) -> Result<Source, SessionError> {
        let log = Log::new(name, log)?;
        let request = Request::of_notes(name, log.notes())?;
        let known = |key: &str| key == MACHINE || request.notes().iter().any(|(own, _)| *own == key);
        if let Some((key, _)) = log.notes().iter().find(|(key, _)| !known(key)) {
            return Err(SessionError::UnknownNote { log: name.to_owned(), key: key.clone() });
        }
        let facts = serde_json::from_str(note(name, log.notes(), MACHINE)?).map_err(|source| SessionError::Facts {
            log: name.to_owned(),
            key: MACHINE,
            source,
        })?;
        Ok(Source { origin: Origin::Log { path: name.to_owned(), log }, log: None, request, facts })
    }

    /// Writes the beginning of a log, and records all requests and readings from here on. A recording is not recorded
    /// again.
    ///
    /// # Errors
    /// [`OracleError::Io`] when the log cannot be written.
    pub fn record(&mut self, mut log: Box<dyn Write>) -> Result<(), SessionError> {
        let mut notes = self.request.notes().to_vec();
        notes.push((MACHINE, serde_json::to_string(&self.facts).expect("text and numbers")));
        begin_log(&mut log, &notes)?;
        self.log = Some(log);
        Ok(())
    }

    /// Returns the request.
    #[must_use]
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Probes all parts of the request, in order. `progress` receives the current step.
    ///
    /// # Errors
    /// Those of the oracles.
    pub fn run(mut self, progress: &mut dyn FnMut(&str)) -> Result<Outcome, SessionError> {
        let request = self.request.clone();
        let (mut banks, mut caches, mut nodes) = (None, None, None);
        if request.has(LogPart::Dram) {
            banks = Some(self.dram(|oracle| {
                let pool = oracle.pool().clone();
                let mut watched = Watched::new(oracle);
                let report = probe(&mut watched, &request.settings(), &mut |doing| progress(doing))?;
                Ok(Banks::new(report, watched.into_seen(), &pool))
            })?);
        }
        if request.has(LogPart::Caches) {
            progress("the last-level cache");
            let probed = self.caches(|oracle| Ok(probe_cache(oracle, request.seed)?))?;
            caches = Some(probed.map_or_else(Caches::NotAsked, |report| Caches::Probed(Box::new(report))));
        }
        if request.has(LogPart::Nodes) {
            progress("nodes");
            let probed = self.nodes(|oracle| Ok(probe_nodes(oracle, request.seed)?))?;
            let groups = self.facts.groups.clone();
            nodes = Some(probed.map_or_else(Nodes::NotAsked, |report| Nodes::Probed(report, groups)));
        }
        let (subject, facts) = self.finish()?;
        Ok(Outcome { subject, request, facts, banks, caches, nodes })
    }

    /// Runs measurements of banks.
    pub(super) fn dram<T>(
        &mut self,
        questions: impl FnOnce(&mut dyn Oracle) -> Result<T, SessionError>,
    ) -> Result<T, SessionError> {
        let oracle: &mut dyn Oracle = match &mut self.origin {
            Origin::Machine(ThisMachine { memory, .. }) => memory.as_mut().expect("it was opened for this").as_mut(),
            Origin::Simulated { machine, .. } => machine.as_mut(),
            Origin::Log { log, .. } => return questions(&mut log.part(LogPart::Dram)?),
        };
        let Some(log) = &mut self.log else { return questions(oracle) };
        let mut recorder = Recorder::of_dram(oracle, log)?;
        let found = questions(&mut recorder)?;
        recorder.finish()?;
        Ok(found)
    }

    /// Runs measurements of the last-level cache, or returns the reason why it cannot.
    fn caches<T>(
        &mut self,
        questions: impl FnOnce(&mut dyn CacheOracle) -> Result<T, SessionError>,
    ) -> Result<Result<T, String>, SessionError> {
        if let Some(why) = self.facts.without(LogPart::Caches) {
            return Ok(Err(why.to_owned()));
        }
        let oracle: &mut dyn CacheOracle = match &mut self.origin {
            Origin::Machine(ThisMachine { memory, .. }) => memory.as_mut().expect("it was opened for this").as_mut(),
            Origin::Simulated { caches, .. } => caches.as_mut().expect("else there is a reason").as_mut(),
            Origin::Log { log, .. } => return questions(&mut log.part(LogPart::Caches)?).map(Ok),
        };
        let Some(log) = &mut self.log else { return questions(oracle).map(Ok) };
        let mut recorder = Recorder::of_caches(oracle, log)?;
        let found = questions(&mut recorder)?;
        recorder.finish()?;
        Ok(Ok(found))
    }

    /// Runs measurements of nodes, or returns the reason why it cannot.
    fn nodes<T>(
        &mut self,
        questions: impl FnOnce(&mut dyn NodeOracle) -> Result<T, SessionError>,
    ) -> Result<Result<T, String>, SessionError> {
        if let Some(why) = self.facts.without(LogPart::Nodes) {
            return Ok(Err(why.to_owned()));
        }
        let oracle: &mut dyn NodeOracle = match &mut self.origin {
            Origin::Machine(ThisMachine { nodes, .. }) => nodes.as_mut().expect("else there is a reason").as_mut(),
            Origin::Simulated { nodes, .. } => nodes.as_mut().expect("else there is a reason").as_mut(),
            Origin::Log { log, .. } => return questions(&mut log.part(LogPart::Nodes)?).map(Ok),
        };
        let Some(log) = &mut self.log else { return questions(oracle).map(Ok) };
        let mut recorder = Recorder::of_nodes(oracle, log)?;
        let found = questions(&mut recorder)?;
        recorder.finish()?;
        Ok(Ok(found))
    }

    /// Ends the measurements, and returns the probed machine.
    pub(super) fn finish(self) -> Result<(Subject, Facts), SessionError> {
        let Source { origin, facts, .. } = self;
        let subject = match origin {
            Origin::Machine(ThisMachine { memory, processor, .. }) => {
                if let Some(memory) = &memory {
                    memory.check_places()?;
                }
                Subject::Machine { memory: memory.map(|memory| memory.facts()), processor }
            }
            Origin::Simulated { machine, noise, .. } => Subject::Simulated { machine, noise },
            Origin::Log { path, log } => {
                log.end()?;
                Subject::Log { path, of: facts.name.clone() }
            }
        };
        Ok((subject, facts))
    }
}
