//! The work of a job: as much as fits into the WCET of the task set.
//!
//! A task set bounds the execution time of a job; a simulation needs its instructions and references. A task with a
//! `program` executes as many references of that model as fit. A task with `lines` reads that number of lines, one
//! after the other and evenly spread, with as many instructions between them as fit. A task with neither is refused:
//! its memory accesses are unknown. The size is found by simulating the task alone, without refresh, for all of its
//! jobs: none takes longer than the WCET, less the [spared](Options::spared_per_mille) share, and less one reference of
//! another task, which the simulator does not interrupt.

use memtint_analysis::{TaskDetails, TaskSystem};
use memtint_sched::Task;
use memtint_sim::Machine as Simulated;
use memtint_sim::scenario::Workload;
use memtint_units::{ByteSize, Picoseconds};
use memtint_workload::catalogue;
use schemars::JsonSchema;
use serde::Serialize;

use crate::machine::{Hardware, RANK_BYTES_MIN};
use crate::scenario::{Placed, alone, of_slots};
use crate::{Options, RefreshError};

/// The longest time of a memory read and of the write that it displaces, without contention.
const ONE_READ: Picoseconds = Picoseconds::from_ns(300);
/// The longest time to copy a line: a read of the line, and a read of the line to be written.
const ONE_COPY: Picoseconds = Picoseconds(2 * ONE_READ.0);
/// Bytes of a line.
const LINE_BYTES: u64 = 64;
/// Simulations of one job of a task, and of all of its jobs, at most.
const ROUNDS_OF_ONE: u32 = 24;
const ROUNDS_OF_ALL: u32 = 5;
/// From the least size of a job to the next that is tried.
const FIRST_STEP: u64 = 64;
/// Size of the memory area that `lines` are read from, larger than the caches.
const LINES_BYTES: u64 = 1 << 20;
/// Neither references of a job nor the gap between two are more.
const SIZE_MAX: u64 = 1 << 31;

/// The work of a task's jobs, and its duration without contention.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The references.
    pub workload: Executed,
    /// How many of a job.
    pub references: u64,
    /// Execution time of the longest job, alone and without refresh; at most the WCET.
    pub alone: Picoseconds,
    /// Execution time of the shortest.
    pub alone_least: Picoseconds,
    /// Jobs that were simulated for that.
    pub jobs: u64,
}

/// The work of jobs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Executed {
    /// Reads of lines, one after the other.
    Bandwidth {
        /// The memory that they are in, such as "1 MiB".
        #[schemars(with = "String")]
        size: ByteSize,
        /// Distance of two references, such as "64 B".
        #[schemars(with = "String")]
        step: ByteSize,
        /// Whether they are writes.
        write: bool,
        /// Instructions between two references.
        gap: u32,
    },
    /// A program with published statistics.
    Program {
        /// Its model, `SET/NAME` of the catalogue.
        model: String,
    },
}

impl Executed {
    /// For the simulator.
    pub(crate) fn workload(&self) -> Workload {
        match *self {
            Executed::Program { ref model } => Workload::Program { model: model.clone() },
            Executed::Bandwidth { size, step, write, gap } => Workload::Bandwidth { size, step, write, gap },
        }
    }
}

/// How a job can grow.
enum Shape {
    /// More references of a model.
    References(Executed),
    /// More instructions between this number of references.
    Gap(u64),
}

impl Shape {
    fn of(more: &TaskDetails, lines: u64) -> Shape {
        match (&more.program, lines) {
            (Some(model), _) => Shape::References(Executed::Program { model: model.clone() }),
            (None, lines) => Shape::Gap(lines),
        }
    }

    fn job(&self, size: u64) -> (Executed, u64) {
        match self {
            Shape::References(workload) => (workload.clone(), size),
            Shape::Gap(lines) => {
                let (size_bytes, step) = (ByteSize(LINES_BYTES), ByteSize(LINE_BYTES));
                let gap = u32::try_from(size).expect("no gap is longer");
                (Executed::Bandwidth { size: size_bytes, step, write: false, gap }, *lines)
            }
        }
    }

    fn least(&self) -> u64 {
        match self {
            Shape::References(_) => 1,
            Shape::Gap(_) => 0,
        }
    }
}

/// Gives the memory that each rank has to have for the tasks of a set.
pub(crate) fn rank_bytes(file: &TaskSystem) -> Result<u64, RefreshError> {
    let mut most = 0;
    for more in &file.tasks {
        if let Some(model) = &more.program {
            most += catalogue::find(model)?.footprint_mib.value << 20;
        }
    }
    // Instances of each task may lie in the same rank.
    Ok((2 * most).next_power_of_two().max(RANK_BYTES_MIN))
}

/// Refuses a task whose memory accesses the file does not describe.
///
/// Such a task used to compute on one cache line. It met no refresh, so that a simulation of it proves nothing.
pub(crate) fn moves_lines(file: &TaskSystem) -> Result<(), RefreshError> {
    let mut all = file.set.tasks().iter().zip(&file.tasks);
    match all.find(|(task, more)| task.lines() == 0 && more.program.is_none()) {
        None => Ok(()),
        Some((task, _)) => Err(RefreshError::Field {
            file: file.name.clone(),
            field: format!("task {:?}: lines", task.name()),
            found: "not given".to_owned(),
            accepted: "lines, the cache lines that a job moves, or program, a model of the catalogue".to_owned(),
        }),
    }
}

/// Gives the data that instances of a task copy: those of the file, or as many lines as surely fit into the time that it gives.
pub(crate) fn globals(file: &TaskSystem, task: usize) -> Result<ByteSize, RefreshError> {
    let more = &file.tasks[task];
    let fitting = more.copy.0 / ONE_COPY.0;
    match more.globals {
        None => Ok(ByteSize(fitting * LINE_BYTES)),
        Some(globals) if globals.0.div_ceil(LINE_BYTES) <= fitting => Ok(globals),
        Some(globals) => {
            let lines = globals.0.div_ceil(LINE_BYTES);
            Err(RefreshError::Field {
                file: file.name.clone(),
                field: format!("task {:?}: copy", file.set.tasks()[task].name()),
                found: more.copy.to_string(),
                accepted: format!(
                    "{} or more, for {lines} lines of globals",
                    Picoseconds(lines.saturating_mul(ONE_COPY.0))
                ),
            })
        }
    }
}

/// Bounds the longest non-preemptive stretch of any task of the set but one: a reference with the instructions before
/// it. It can block tasks of higher priority for that long.
pub(crate) fn stretch(file: &TaskSystem, but: Option<usize>) -> Result<Picoseconds, RefreshError> {
    let mut longest = Picoseconds(0);
    for (index, (task, more)) in file.set.tasks().iter().zip(&file.tasks).enumerate() {
        if Some(index) == but {
            continue;
        }
        let instructions = match (&more.program, task.lines()) {
            // A miss lies anywhere in its share of the instructions: two are less than two shares apart.
            (Some(model), _) => 2_000_000 / catalogue::find(model)?.misses_per_million_instructions.value.max(1) + 1,
            (None, lines) => task.wcet().0 / 1000 / lines.max(1) + 1,
        };
        longest = longest.max(Picoseconds::from_ns(instructions) + ONE_READ);
    }
    Ok(longest)
}

/// Finds the work of a task's jobs: first the size of one job, then whether it is that of all.
pub(crate) fn fit(
    machine: &Hardware,
    file: &TaskSystem,
    index: usize,
    jobs: u64,
    options: &Options,
    go_on: &dyn Fn() -> bool,
) -> Result<Job, RefreshError> {
    let (task, more) = (&file.set.tasks()[index], &file.tasks[index]);
    let shape = Shape::of(more, task.lines());
    let spared = u128::from(task.wcet().0) * u128::from(options.spared_per_mille.min(999)) / 1000;
    let spared = u64::try_from(spared).expect("a part of it") + stretch(file, Some(index))?.0;
    let Some(allowed) = task.wcet().0.checked_sub(spared).filter(|&allowed| allowed > 0).map(Picoseconds) else {
        return Err(too_short(file, task, format!("more than {}, which other tasks can cost it", Picoseconds(spared))));
    };
    let measure = |size: u64, jobs: u64| -> Result<Job, RefreshError> {
        if !go_on() {
            return Err(RefreshError::Stopped);
        }
        let (workload, references) = shape.job(size);
        measure(machine, file, index, Placed { workload, references }, jobs, options.seed)
    };
    let least = shape.least();
    let mut best = measure(least, jobs)?;
    if best.alone > allowed {
        let what = match &shape {
            Shape::References(_) => "a single reference takes".to_owned(),
            Shape::Gap(lines) => format!("{lines} lines take one after the other"),
        };
        let time = if best.alone.0 == u64::MAX { "more than the period".to_owned() } else { best.alone.to_string() };
        return Err(too_short(file, task, format!("enough for {time}, which {what}")));
    }
    let mut size = size_of_one(least, allowed, |size| Ok(measure(size, 1)?.alone))?;
    for _ in 0..ROUNDS_OF_ALL {
        let found = measure(size, jobs)?;
        let scaled = u128::from(size - least) * u128::from(allowed.0) / u128::from(found.alone.0.max(1));
        let scaled = least + u64::try_from(scaled).unwrap_or(0);
        if found.alone <= allowed {
            let enough = allowed.0 - found.alone.0 <= allowed.0 / 200;
            if found.alone >= best.alone {
                best = found;
            }
            if enough || scaled <= size + 1 {
                break;
            }
            // A little less than that: a size that did not fit is near.
            size = scaled - (scaled - size) / 8;
        } else {
            size = scaled.clamp(least, size - 1);
        }
    }
    Ok(best)
}

/// The largest size, nearly, that takes no longer than allowed; `least` does not.
fn size_of_one(
    least: u64,
    allowed: Picoseconds,
    time: impl Fn(u64) -> Result<Picoseconds, RefreshError>,
) -> Result<u64, RefreshError> {
    let (mut fits, mut exceeds) = ((least, time(least)?), None::<(u64, Picoseconds)>);
    let mut next = least + FIRST_STEP;
    for _ in 0..ROUNDS_OF_ONE {
        let most = exceeds.map_or(SIZE_MAX, |(size, _)| size);
        if most - fits.0 <= 1 || allowed.0.saturating_sub(fits.1.0) <= allowed.0 / 1000 {
            break;
        }
        let tried = next.clamp(fits.0 + 1, most - 1);
        let found = time(tried)?;
        let before = fits;
        if found <= allowed {
            fits = (tried, found);
        } else {
            exceeds = Some((tried, found));
        }
        next = match exceeds {
            // That simulation was not run to its end.
            Some((above, Picoseconds(u64::MAX))) => ((fits.0 + 1) * above).isqrt(),
            Some(above) => fits.0 + on_the_way(fits, above, allowed),
            // Time grows about linearly; a size a little beyond the extrapolation gives an upper end.
            None => {
                let step = on_the_way(before, fits, allowed);
                before.0 + step + step / 512 + 1
            }
        };
    }
    Ok(fits.0)
}

/// How far beyond the first of two points the time is as long as allowed, if it grows evenly.
fn on_the_way(one: (u64, Picoseconds), other: (u64, Picoseconds), allowed: Picoseconds) -> u64 {
    let grown = other.1.0.saturating_sub(one.1.0).max(1);
    let step = u128::from(other.0 - one.0) * u128::from(allowed.0.saturating_sub(one.1.0)) / u128::from(grown);
    u64::try_from(step).unwrap_or(SIZE_MAX).min(SIZE_MAX)
}

fn too_short(file: &TaskSystem, task: &Task, accepted: String) -> RefreshError {
    RefreshError::Field {
        file: file.name.clone(),
        field: format!("task {:?}: wcet", task.name()),
        found: task.wcet().to_string(),
        accepted,
    }
}

/// Simulates a task alone without refresh.
fn measure(
    machine: &Hardware,
    file: &TaskSystem,
    index: usize,
    placed: Placed,
    jobs: u64,
    seed: u64,
) -> Result<Job, RefreshError> {
    let Placed { workload, references } = placed.clone();
    let scenario = alone(machine, file, index, placed, jobs, seed)?;
    let mut simulated: Simulated = scenario.machine()?;
    simulated.run_until(scenario.spec().duration.0);
    let outcome = simulated.outcome();
    let slots = &outcome.tasks[0].execution_slots;
    // A job that does not end in time takes too long, whatever it takes.
    let late = slots.count() < jobs;
    let alone = if late { Picoseconds(u64::MAX) } else { of_slots(slots.max()) };
    Ok(Job { workload, references, alone, alone_least: of_slots(slots.min()), jobs })
}
