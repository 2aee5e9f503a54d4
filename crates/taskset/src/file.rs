//! The whole file: tasks, and what delays their core.

use memtint_sched::{
    Granularity, Interference, Refresh, Regulator, SchedError, TaskSet, TaskSpec, reservations_fit, reserved,
};
use memtint_units::{ByteSize, Picoseconds};
use serde::Deserialize;
use toml::Value;

use crate::banks::{self, RawBanks, RawParallelBanks, RawSharedBanks};
use crate::place::{Place, TaskFileError};
use crate::refresh::{Color, Cyclic, Memory, RawColor, RawCyclic, RawMemory, RawServer, ServerEntry, colors, servers};

/// A file that has been checked.
#[derive(Clone, Debug)]
pub struct TaskFile {
    /// Its name, for messages.
    pub name: String,
    /// The tasks.
    pub set: TaskSet,
    /// What else is said of each task, in the order of the set.
    pub tasks: Vec<TaskMore>,
    /// What delays the core beside its tasks: `[refresh]`, one of `[banks]`, `[shared_banks]` and `[parallel_banks]`,
    /// and `[regulator]`, in this order.
    pub terms: Vec<Interference>,
    /// Lines that the memory always serves in a period of `[regulator]`, where that says so: all reservations are within them.
    pub guaranteed: Option<u64>,
    /// What `[refresh]` says: refresh by the memory controller, which a witness can show.
    pub refresh: Option<Refresh>,
    /// Memory whose refresh software schedules.
    pub memory: Option<Memory>,
    /// A cyclic executive.
    pub cyclic: Cyclic,
    /// Ranks that are locked and refreshed together.
    pub colors: Vec<Color>,
    /// Servers.
    pub servers: Vec<ServerEntry>,
    /// The tables of these as text.
    pub(crate) delays: String,
}

/// What a file says of a task beyond [`TaskSpec`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskMore {
    /// 1 is the highest.
    pub priority: Option<u64>,
    /// Ranks that hold its data, 1 or more.
    pub ranks: u32,
    /// Time to bring its globals to another instance.
    pub copy: Picoseconds,
    /// Its globals, where the file says how much that is.
    pub globals: Option<ByteSize>,
    /// What a job executes, for a simulation: a model of the catalogue of programs. Whether there is one is not looked at.
    pub program: Option<String>,
    /// Index of its server.
    pub server: Option<usize>,
    /// Index of the server of its other instance (a copy task).
    pub copy_server: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    task: Vec<RawTask>,
    refresh: Option<RawRefresh>,
    regulator: Option<RawRegulator>,
    banks: Option<RawBanks>,
    shared_banks: Option<RawSharedBanks>,
    parallel_banks: Option<RawParallelBanks>,
    memory: Option<RawMemory>,
    cyclic: Option<RawCyclic>,
    #[serde(default)]
    color: Vec<RawColor>,
    #[serde(default)]
    server: Vec<RawServer>,
}

/// Times stay values here, so that a message can name their field.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTask {
    name: Option<Value>,
    period: Option<Value>,
    wcet: Option<Value>,
    deadline: Option<Value>,
    phase: Option<Value>,
    jitter: Option<Value>,
    blocking: Option<Value>,
    priority: Option<Value>,
    lines: Option<Value>,
    ranks: Option<Value>,
    copy: Option<Value>,
    globals: Option<Value>,
    program: Option<Value>,
    server: Option<Value>,
    copy_server: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRefresh {
    mode: Option<Value>,
    interval: Option<Value>,
    duration: Option<Value>,
    reopen: Option<Value>,
    moved: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawRegulator {
    period: Option<Value>,
    lines: Option<Value>,
    line_min: Option<Value>,
    quantum: Option<Value>,
    skid_events: Option<Value>,
    overhead: Option<Value>,
    kind: Option<Value>,
    sharing: Option<Value>,
    guaranteed: Option<Value>,
}

impl TaskFile {
    /// Reads the text of a file; `name` is what messages call it.
    ///
    /// # Errors
    ///
    /// [`TaskFileError`] with the place, the field, what was found and what is accepted.
    pub fn parse(name: &str, text: &str) -> Result<TaskFile, TaskFileError> {
        let raw: Raw = toml::from_str(text).map_err(|error| {
            let before = &text[..error.span().map_or(0, |span| span.start)];
            let line = before.matches('\n').count() + 1;
            TaskFileError::Syntax { file: name.to_owned(), line, message: error.message().replace('\n', "; ") }
        })?;
        let memory = raw.memory.map(|memory| memory.check(name)).transpose()?;
        let colors = colors(&raw.color, memory.as_ref(), name)?;
        let servers = servers(&raw.server, &colors, name)?;
        let set = task_set(name, &Place::new(name), &raw.task)?;
        let tasks = raw.task.iter().enumerate();
        let tasks =
            tasks.map(|(index, task)| task.more(&Place::item(name, "task", index, task.name.as_ref()), &servers));
        let refresh = raw.refresh.map(|refresh| refresh.check(name)).transpose()?;
        let place = Place::table(name, "regulator");
        let regulator = raw.regulator.as_ref().map(|own| own.check(&place)).transpose()?;
        let banks = banks::Tables {
            banks: raw.banks.as_ref(),
            shared: raw.shared_banks.as_ref(),
            parallel: raw.parallel_banks.as_ref(),
            regulator: regulator.as_ref(),
        };
        let banks = banks.term(name)?;
        one_system(name, regulator.as_ref(), banks.as_ref())?;
        let guaranteed = raw.regulator.as_ref().map(|own| own.guarantee(&place, &regulator, &banks)).transpose()?;
        let terms = refresh.map(Interference::Refresh).into_iter();
        let terms = terms.chain(banks).chain(regulator.map(Interference::Regulator));
        Ok(TaskFile {
            name: name.to_owned(),
            set,
            tasks: tasks.collect::<Result<_, _>>()?,
            terms: terms.collect(),
            guaranteed: guaranteed.flatten(),
            refresh,
            memory,
            cyclic: raw.cyclic.map_or(Ok(Cyclic::default()), |cyclic| cyclic.check(name))?,
            colors,
            servers,
            delays: delays(text),
        })
    }
}

/// The tables that [`TaskFile::terms`] come from; the text has been read once already.
fn delays(text: &str) -> String {
    let mut all: toml::Table = toml::from_str(text).unwrap_or_default();
    all.retain(|key, _| ["refresh", "banks", "shared_banks", "parallel_banks", "regulator"].contains(&key));
    all.to_string()
}

pub(crate) fn task_set(file: &str, place: &Place, tasks: &[RawTask]) -> Result<TaskSet, TaskFileError> {
    let specs = tasks.iter().enumerate();
    let specs = specs.map(|(index, task)| task.spec(&Place::item(file, "task", index, task.name.as_ref())));
    TaskSet::new(specs.collect::<Result<Vec<_>, _>>()?).map_err(|error| place.range(error))
}

impl RawTask {
    fn spec(&self, place: &Place) -> Result<TaskSpec, TaskFileError> {
        let name = place.name("name", self.name.as_ref())?;
        let (period, wcet) = (place.needed("period", self.period.as_ref())?, place.needed("wcet", self.wcet.as_ref())?);
        let mut spec = TaskSpec::new(name, period, wcet);
        spec.deadline = place.time("deadline", self.deadline.as_ref())?;
        spec.phase = place.time_or_zero("phase", self.phase.as_ref())?;
        spec.jitter = place.time_or_zero("jitter", self.jitter.as_ref())?;
        spec.blocking = place.time_or_zero("blocking", self.blocking.as_ref())?;
        spec.lines = place.count("lines", self.lines.as_ref(), 1, u64::MAX)?.unwrap_or(0);
        Ok(spec)
    }

    fn more(&self, place: &Place, servers: &[ServerEntry]) -> Result<TaskMore, TaskFileError> {
        let named = |field: &'static str, value: &Option<Value>| {
            let Some(value) = value else { return Ok(None) };
            let found = servers.iter().position(|server| value.as_str() == Some(&server.name));
            let refuse = || place.refuse(field, Some(value), "the name of a server of this file");
            found.map(Some).ok_or_else(refuse)
        };
        Ok(TaskMore {
            priority: place.count("priority", self.priority.as_ref(), 1, u64::MAX)?,
            ranks: place.count("ranks", self.ranks.as_ref(), 1, 64)?.unwrap_or(1) as u32,
            copy: place.time_or_zero("copy", self.copy.as_ref())?,
            globals: place.bytes("globals", self.globals.as_ref())?,
            program: self.program.as_ref().map(|program| place.name("program", Some(program))).transpose()?,
            server: named("server", &self.server)?,
            copy_server: named("copy_server", &self.copy_server)?,
        })
    }
}

impl RawRefresh {
    fn check(&self, file: &str) -> Result<Refresh, TaskFileError> {
        let place = Place::table(file, "refresh");
        let mode = match &self.mode {
            Some(Value::String(mode)) => mode.as_str(),
            found => return Err(place.refuse("mode", found.as_ref(), MODES)),
        };
        let interval = place.needed("interval", self.interval.as_ref())?;
        let duration = place.needed("duration", self.duration.as_ref())?;
        let reopen = place.needed("reopen", self.reopen.as_ref())?;
        let moved = place.count("moved", self.moved.as_ref(), 0, u64::MAX)?.unwrap_or(0);
        let made = match mode {
            "auto" => Refresh::auto(interval, duration, reopen),
            "fgr2" => Refresh::fine(Granularity::Two, interval, duration, reopen),
            "fgr4" => Refresh::fine(Granularity::Four, interval, duration, reopen),
            "burst" => Refresh::burst(interval, duration, reopen),
            _ => return Err(place.refuse("mode", self.mode.as_ref(), MODES)),
        };
        made.and_then(|made| made.moved(moved)).map_err(|error| Place::new(file).range(error))
    }
}

/// Checks what is the same for all cores of a regulated system: best-effort sharing, and the period where they reclaim.
fn one_system(file: &str, own: Option<&Regulator>, banks: Option<&Interference>) -> Result<(), TaskFileError> {
    let others = banks.map_or(Vec::new(), Interference::neighbours);
    let all: Vec<&Regulator> =
        own.into_iter().chain(others.iter().filter_map(|core| core.regulator.as_ref())).collect();
    let Some(first) = all.first() else { return Ok(()) };
    let refuse = |field, found: &str, accepted| {
        Err(Place::new(file).refuse(field, Some(&Value::String(found.to_owned())), accepted))
    };
    if all.iter().any(|one| one.shares_spare() != first.shares_spare()) {
        return refuse("sharing", "different for regulators of this file", "the same for all cores");
    }
    if all.iter().any(|one| one.reclaims()) && all.iter().any(|one| one.period() != first.period()) {
        let accepted = "the same for all cores, when one of them is soft";
        return refuse("period", "different for regulators of this file", accepted);
    }
    Ok(())
}

const MODES: &str = "\"auto\", \"fgr2\", \"fgr4\" or \"burst\"";

impl RawRegulator {
    pub(crate) fn guaranteed(&self) -> Option<&Value> {
        self.guaranteed.as_ref()
    }

    /// What the memory always serves, where the file says so, with all reservations within it.
    fn guarantee(
        &self,
        place: &Place,
        own: &Option<Regulator>,
        banks: &Option<Interference>,
    ) -> Result<Option<u64>, TaskFileError> {
        let guaranteed = place.count("guaranteed", self.guaranteed.as_ref(), 1, u64::MAX)?;
        let (Some(guaranteed), Some(own)) = (guaranteed, own) else { return Ok(None) };
        let found = self.guaranteed.as_ref();
        let Some(banks) = banks else {
            return Err(place.refuse(
                "guaranteed",
                found,
                "none, without a table of the other cores, whose budgets are not known",
            ));
        };
        let others = banks.neighbours();
        if others.iter().any(|core| core.regulator.is_none()) {
            return Err(place.refuse(
                "guaranteed",
                found,
                "none, where a core has no regulator: nothing is guaranteed then",
            ));
        }
        if others.iter().filter_map(|core| core.regulator).any(|other| other.period() != own.period()) {
            return Err(place.refuse("guaranteed", found, "none, unless the period is the same for all cores"));
        }
        let all: Vec<Regulator> = others.iter().filter_map(|core| core.regulator).chain([*own]).collect();
        if !reservations_fit(&all, guaranteed, own.period()) {
            let sum = reserved(&all, own.period()).ceil();
            let accepted = format!("{sum} or more: lines, quanta and skid_events of {} cores in a period", all.len());
            return Err(place.refuse("guaranteed", found, &accepted));
        }
        Ok(Some(guaranteed))
    }

    pub(crate) fn check(&self, place: &Place) -> Result<Regulator, TaskFileError> {
        let lines = place.needed_count("lines", self.lines.as_ref(), 1, u64::MAX)?;
        let line_min = place.time_or_zero("line_min", self.line_min.as_ref())?;
        let period = place.needed("period", self.period.as_ref())?;
        let quantum = place.count("quantum", self.quantum.as_ref(), 0, u64::MAX)?.unwrap_or(0);
        let skid = place.count("skid_events", self.skid_events.as_ref(), 0, u64::MAX)?.unwrap_or(0);
        let overhead = place.time_or_zero("overhead", self.overhead.as_ref())?;
        let reclaims = place.word("kind", self.kind.as_ref(), &[("hard", false), ("soft", true)])?;
        let spare = place.word("sharing", self.sharing.as_ref(), &[("off", false), ("spare", true)])?;
        let made = Regulator::new(period, lines, line_min).and_then(|own| own.counting(quantum, skid));
        let made = made.and_then(|own| own.overhead(overhead));
        let made = made.map(|own| if reclaims { own.reclaiming() } else { own });
        made.map(|own| if spare { own.sharing_spare() } else { own }).map_err(|error: SchedError| place.range(error))
    }
}
