//! The tasks of a system, and delays of their core.

use std::fmt;

use memtint_sched::{
    Granularity, Interference, Refresh, Regulator, SchedError, TaskSet, TaskSpec, reservations_fit, reserved,
};
use memtint_system::{
    BudgetKind, Place, Ranks, RefreshEntry, RefreshMode, RegulatorEntry, SharingMode, SystemError, SystemFile, TIME,
    TaskEntry, Text, Time,
};
use memtint_units::{ByteSize, Picoseconds};

use crate::banks;
use crate::refresh::{Color, Cyclic, MemorySpec, ServerSpec, colors, servers};

/// A system as the analyses take it.
#[derive(Clone, Debug)]
pub struct TaskSystem {
    /// Name of its file, for messages.
    pub name: String,
    /// The tasks.
    pub set: TaskSet,
    /// Further properties of each task, in the order of the set.
    pub tasks: Vec<TaskDetails>,
    /// Delays of the core besides its tasks: `[refresh]`, one of `[banks]`, `[shared_banks]` and `[parallel_banks]`,
    /// and `[regulator]`, in this order.
    pub terms: Vec<Interference>,
    /// Lines that the memory serves in every period of `[regulator]`, where the file gives that: all reservations are within them.
    pub guaranteed: Option<u64>,
    /// `[refresh]`: refresh by the memory controller, which a witness can show.
    pub refresh: Option<Refresh>,
    /// Memory whose refresh software schedules.
    pub memory: Option<MemorySpec>,
    /// A cyclic executive.
    pub cyclic: Cyclic,
    /// Ranks that are locked and refreshed together.
    pub colors: Vec<Color>,
    /// Servers.
    pub servers: Vec<ServerSpec>,
    /// The file that it was made from.
    pub(crate) written: SystemFile,
}

/// Properties of a task beyond [`TaskSpec`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskDetails {
    /// 1 is the highest.
    pub priority: Option<u64>,
    /// Ranks that hold its data, 1 or more.
    pub ranks: u32,
    /// Time to bring its globals to another instance.
    pub copy: Picoseconds,
    /// Its globals, where the file gives their size.
    pub globals: Option<ByteSize>,
    /// Model in the catalogue of programs that a job executes in a simulation; it need not exist.
    pub program: Option<String>,
    /// Index of its server.
    pub server: Option<usize>,
    /// Index of the server of its other instance (a copy task).
    pub copy_server: Option<usize>,
}

impl TaskSystem {
    /// Reads the text of a file; `name` is its name in messages.
    ///
    /// # Errors
    ///
    /// [`SystemError`] with the place, the field, its value and the accepted values.
    pub fn parse(name: &str, text: &str) -> Result<TaskSystem, SystemError> {
        Self::of(&SystemFile::parse(text, name)?, name)
    }

    /// Checks a file; `name` is its name in messages.
    ///
    /// # Errors
    ///
    /// [`SystemError`] with the place, the field, its value and the accepted values.
    pub fn of(file: &SystemFile, name: &str) -> Result<TaskSystem, SystemError> {
        let place = Place::new(name);
        let memory = file.memory.as_ref().map(|memory| MemorySpec::of(memory, &place)).transpose()?;
        let colors = colors(&file.colors, memory.as_ref(), &place)?;
        let servers = servers(&file.servers, &colors, &place)?;
        let set = task_set(&place, &file.tasks)?;
        let tasks = file.tasks.iter().enumerate();
        let tasks = tasks.map(|(index, task)| TaskDetails::of(task, &task_place(&place, index, task), &servers));
        let refresh = file.refresh.as_ref().map(|refresh| controller_refresh(refresh, &place)).transpose()?;
        let own = place.table("regulator");
        let regulator = file.regulator.as_ref().map(|entry| regulator(entry, &own)).transpose()?;
        let banks = banks::term(file, regulator.as_ref(), &place)?;
        one_system(&place, regulator.as_ref(), banks.as_ref())?;
        let guaranteed = file.regulator.as_ref().map(|entry| guarantee(entry, &own, &regulator, &banks)).transpose()?;
        let terms = refresh.map(Interference::Refresh).into_iter();
        let terms = terms.chain(banks).chain(regulator.map(Interference::Regulator));
        Ok(TaskSystem {
            name: name.to_owned(),
            set,
            tasks: tasks.collect::<Result<_, _>>()?,
            terms: terms.collect(),
            guaranteed: guaranteed.flatten(),
            refresh,
            memory,
            cyclic: file.cyclic.as_ref().map(Cyclic::of).unwrap_or_default(),
            colors,
            servers,
            written: file.clone(),
        })
    }

    /// The system as a file: the one that it was made from, with memory, `[cyclic]`, colors, servers, and the servers of tasks as they
    /// are now. Defaults of these are left out.
    #[must_use]
    pub fn to_file(&self) -> SystemFile {
        let mut file = self.written.clone();
        file.memory = self.memory.as_ref().map(MemorySpec::entry);
        file.cyclic = (self.cyclic != Cyclic::default()).then(|| self.cyclic.entry());
        let ranks = self.memory.map_or(0, |memory| memory.ranks);
        file.colors = self.colors.iter().map(|color| color.entry(ranks)).collect();
        file.servers = self.servers.iter().map(|server| server.entry(&self.colors)).collect();
        for (entry, task) in file.tasks.iter_mut().zip(&self.tasks) {
            let named = |server: Option<usize>| server.map(|server| Text::new(self.servers[server].name.clone()));
            (entry.server, entry.copy_server) = (named(task.server), named(task.copy_server));
        }
        file
    }
}

/// Writes [`to_file`](TaskSystem::to_file). Comments are lost.
impl fmt::Display for TaskSystem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.to_file().to_text())
    }
}

fn task_place(place: &Place, index: usize, task: &TaskEntry) -> Place {
    place.item("task", index, task.name.as_ref().map(Text::as_str))
}

pub(crate) fn task_set(place: &Place, tasks: &[TaskEntry]) -> Result<TaskSet, SystemError> {
    let specs = tasks.iter().enumerate().map(|(index, task)| spec(task, &task_place(place, index, task)));
    TaskSet::new(specs.collect::<Result<Vec<_>, _>>()?).map_err(|error| place.range(error))
}

/// The time, zero where there is none.
pub(crate) fn or_zero(time: Option<Time>) -> Picoseconds {
    time.map_or(Picoseconds(0), |time| time.0)
}

fn spec(task: &TaskEntry, place: &Place) -> Result<TaskSpec, SystemError> {
    let name = task.checked_name(place)?;
    place.need(&[("period", task.period.is_some(), TIME), ("wcet", task.wcet.is_some(), TIME)])?;
    let mut spec = TaskSpec::new(name, or_zero(task.period), or_zero(task.wcet));
    spec.deadline = task.deadline.map(|deadline| deadline.0);
    spec.phase = or_zero(task.phase);
    spec.jitter = or_zero(task.jitter);
    spec.blocking = or_zero(task.blocking);
    spec.lines = task.lines.map_or(0, |lines| lines.get());
    Ok(spec)
}

impl TaskDetails {
    fn of(task: &TaskEntry, place: &Place, servers: &[ServerSpec]) -> Result<TaskDetails, SystemError> {
        let named = |field: &str, name: &Option<Text>| {
            let Some(name) = name else { return Ok(None) };
            let found = servers.iter().position(|server| name.as_str() == server.name);
            let refuse = || place.refuse_text(field, name.as_str(), "the name of a server of this file");
            found.map(Some).ok_or_else(refuse)
        };
        if task.globals == Some(ByteSize(0)) {
            return Err(place.refuse_text("globals", "0 B", "more than 0"));
        }
        if let Some(Ranks::List(list)) = &task.ranks {
            let accepted =
                "the number of ranks, 1 to 64: which ones is for the analysis to choose, or for the color of a server";
            return Err(place.refuse_text("ranks", &list.to_string(), accepted));
        }
        Ok(TaskDetails {
            priority: task.priority.map(|priority| priority.get()),
            ranks: task.ranks.as_ref().map_or(1, Ranks::count),
            copy: or_zero(task.copy),
            globals: task.globals,
            program: task.program.as_ref().map(|program| program.as_str().to_owned()),
            server: named("server", &task.server)?,
            copy_server: named("copy_server", &task.copy_server)?,
        })
    }
}

fn controller_refresh(entry: &RefreshEntry, file: &Place) -> Result<Refresh, SystemError> {
    const MODES: &str = "\"auto\", \"fgr2\", \"fgr4\" or \"burst\"";
    file.table("refresh").need(&[
        ("mode", entry.mode.is_some(), MODES),
        ("interval", entry.interval.is_some(), TIME),
        ("duration", entry.duration.is_some(), TIME),
        ("reopen", entry.reopen.is_some(), TIME),
    ])?;
    let (interval, duration, reopen) = (or_zero(entry.interval), or_zero(entry.duration), or_zero(entry.reopen));
    let made = match entry.mode.unwrap_or(RefreshMode::Auto) {
        RefreshMode::Auto => Refresh::auto(interval, duration, reopen),
        RefreshMode::Fgr2 => Refresh::fine(Granularity::Two, interval, duration, reopen),
        RefreshMode::Fgr4 => Refresh::fine(Granularity::Four, interval, duration, reopen),
        RefreshMode::Burst => Refresh::burst(interval, duration, reopen),
    };
    let moved = entry.moved.map_or(0, |moved| moved.get());
    made.and_then(|made| made.moved(moved)).map_err(|error| file.range(error))
}

/// Checks the common settings of all cores of a regulated system: best-effort sharing, and the period where they
/// reclaim.
fn one_system(file: &Place, own: Option<&Regulator>, banks: Option<&Interference>) -> Result<(), SystemError> {
    let others = banks.map_or(Vec::new(), Interference::neighbours);
    let all: Vec<&Regulator> =
        own.into_iter().chain(others.iter().filter_map(|core| core.regulator.as_ref())).collect();
    let Some(first) = all.first() else { return Ok(()) };
    const DIFFERENT: &str = "different for regulators of this file";
    if all.iter().any(|one| one.shares_spare() != first.shares_spare()) {
        return Err(file.refuse_text("sharing", DIFFERENT, "the same for all cores"));
    }
    if all.iter().any(|one| one.reclaims()) && all.iter().any(|one| one.period() != first.period()) {
        return Err(file.refuse_text("period", DIFFERENT, "the same for all cores, when one of them is soft"));
    }
    Ok(())
}

/// The guaranteed service of the memory in every period, if the file gives it, with all reservations within it.
fn guarantee(
    entry: &RegulatorEntry,
    place: &Place,
    own: &Option<Regulator>,
    banks: &Option<Interference>,
) -> Result<Option<u64>, SystemError> {
    let (Some(guaranteed), Some(own)) = (entry.guaranteed.map(|lines| lines.get()), own) else { return Ok(None) };
    let refuse = |accepted: &str| Err(place.refuse("guaranteed", Some(&guaranteed), accepted));
    let Some(banks) = banks else {
        return refuse("none, without a table of the other cores, whose budgets are not known");
    };
    let others = banks.neighbours();
    if others.iter().any(|core| core.regulator.is_none()) {
        return refuse("none, where a core has no regulator: nothing is guaranteed then");
    }
    if others.iter().filter_map(|core| core.regulator).any(|other| other.period() != own.period()) {
        return refuse("none, unless the period is the same for all cores");
    }
    let all: Vec<Regulator> = others.iter().filter_map(|core| core.regulator).chain([*own]).collect();
    if !reservations_fit(&all, guaranteed, own.period()) {
        let sum = reserved(&all, own.period()).ceil();
        return refuse(&format!("{sum} or more: lines, quanta and skid_events of {} cores in a period", all.len()));
    }
    Ok(Some(guaranteed))
}

pub(crate) fn regulator(entry: &RegulatorEntry, place: &Place) -> Result<Regulator, SystemError> {
    place.need(&[
        ("period", entry.period.is_some(), TIME),
        ("lines", entry.lines.is_some(), "a whole number from 1 on"),
    ])?;
    let lines = entry.lines.map_or(0, |lines| lines.get());
    let quantum = entry.quantum.map_or(0, |lines| lines.get());
    let skid = entry.skid_events.map_or(0, |lines| lines.get());
    let made = Regulator::new(or_zero(entry.period), lines, or_zero(entry.line_min));
    let made = made.and_then(|own| own.counting(quantum, skid)).and_then(|own| own.overhead(or_zero(entry.overhead)));
    let made = made.map(|own| if entry.kind == Some(BudgetKind::Soft) { own.reclaiming() } else { own });
    let made = made.map(|own| if entry.sharing == Some(SharingMode::Spare) { own.sharing_spare() } else { own });
    made.map_err(|error: SchedError| place.range(error))
}
