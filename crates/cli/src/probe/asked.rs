//! Who is asked: this machine, a simulated one, or a recording.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::ops::Range;
use std::path::Path;

use memtint_detect::{Machine as Detected, MemoryRange, Processor};
use memtint_map::Platform;
use memtint_probe::{Oracle, Pool, Recorder, Replay, SimulatedMachine};
use memtint_stopwatch::{About, Machine};
use memtint_units::PhysAddr;

use super::ProbeArguments;
use super::noise::{self, Level};
use crate::output::Failure;

/// Who was asked.
pub(super) enum Asked {
    Machine { about: About, processor: Option<Processor> },
    Simulated { machine: Box<SimulatedMachine>, noise: &'static str },
    Log(String),
}

/// What came of asking.
pub(super) struct Answered<T> {
    pub(super) asked: Asked,
    pub(super) pool: Pool,
    /// Where memory is, as far as somebody says it.
    pub(super) memory: Vec<Range<PhysAddr>>,
    pub(super) found: T,
}

/// Asks whom the arguments name, and writes down what is asked if they say so.
pub(super) fn ask<T>(
    arguments: &ProbeArguments,
    questions: impl FnOnce(&mut dyn Oracle) -> Result<T, Failure>,
) -> Result<Answered<T>, Failure> {
    match (&arguments.replay, &arguments.simulate) {
        (Some(log), _) => of_log(log, questions),
        (None, Some(platform)) => of_simulated(arguments, platform, questions),
        (None, None) => of_this_machine(arguments, questions),
    }
}

fn of_log<T>(
    path: &Path,
    questions: impl FnOnce(&mut dyn Oracle) -> Result<T, Failure>,
) -> Result<Answered<T>, Failure> {
    let file = File::open(path).map_err(|cause| Failure::File { path: path.to_owned(), done: "read", cause })?;
    let name = path.display().to_string();
    let mut replay = Replay::new(&name, BufReader::new(file))?;
    let found = questions(&mut replay)?;
    Ok(Answered { asked: Asked::Log(name), pool: replay.pool().clone(), memory: Vec::new(), found })
}

fn of_simulated<T>(
    arguments: &ProbeArguments,
    spec: &str,
    questions: impl FnOnce(&mut dyn Oracle) -> Result<T, Failure>,
) -> Result<Answered<T>, Failure> {
    let level = match arguments.noise[..] {
        [] => Level::Quiet,
        [level] => level,
        _ => {
            return Err(Failure::Sentence("--noise: several levels found; accepted with --simulate is one".to_owned()));
        }
    };
    let platform = Platform::load(spec)?;
    let memory = platform.regions().iter().map(|region| region.base..region.end()).collect();
    let machine = noise::machine(platform, level, arguments.seed)?;
    let (found, machine) = recorded(machine, arguments, questions)?;
    let pool = machine.pool().clone();
    let asked = Asked::Simulated { machine: Box::new(machine), noise: level.name() };
    Ok(Answered { asked, pool, memory, found })
}

fn of_this_machine<T>(
    arguments: &ProbeArguments,
    questions: impl FnOnce(&mut dyn Oracle) -> Result<T, Failure>,
) -> Result<Answered<T>, Failure> {
    eprintln!("memtint: taking memory");
    let machine = Machine::open(arguments.memory)?;
    let (found, machine) = recorded(machine, arguments, questions)?;
    machine.check_places()?;
    let detected = Detected::read();
    let range = |range: &MemoryRange| PhysAddr(range.start)..PhysAddr(range.end);
    let memory = detected.memory.iter().map(range).collect();
    let asked = Asked::Machine { about: machine.about().clone(), processor: detected.processor };
    Ok(Answered { asked, pool: machine.pool().clone(), memory, found })
}

/// Asks, and writes down what is asked if that is wanted.
fn recorded<O: Oracle, T>(
    mut oracle: O,
    arguments: &ProbeArguments,
    questions: impl FnOnce(&mut dyn Oracle) -> Result<T, Failure>,
) -> Result<(T, O), Failure> {
    let Some(path) = &arguments.record else {
        let found = questions(&mut oracle)?;
        return Ok((found, oracle));
    };
    let log = File::create(path).map_err(|cause| Failure::File { path: path.clone(), done: "written", cause })?;
    let mut recorder = Recorder::new(oracle, BufWriter::new(log))?;
    let found = questions(&mut recorder)?;
    Ok((found, recorder.finish()?))
}
