//! The tasks of one core.

use std::collections::BTreeSet;

use memtint_system::{OtherCoreEntry, Place, SystemError, SystemFile, TaskEntry, Text, Verb, decisive};
use memtint_units::IndexList;

use crate::banks::requests_of;
use crate::error::AnalysisError;
use crate::tasks::{TaskSystem, task_set};

/// Takes the tasks of one core from a file, and gives the others with their cores; `name` is the file's name in
/// messages.
///
/// Scheduling is partitioned: a task runs on one core. Tasks without `cores` are those of the one core that there is.
///
/// # Errors
///
/// [`SystemError::Value`] when tasks of the file have several cores and none is named, when the named core has no task, and for a
/// task that may run on several cores, or on any beside tasks that have one.
pub fn on_core(
    file: &SystemFile,
    name: &str,
    wanted: Option<u32>,
) -> Result<(SystemFile, Vec<(u32, TaskEntry)>), SystemError> {
    let place = Place::new(name);
    if wanted.is_none() && file.tasks.iter().all(|task| task.cores.is_none()) {
        return Ok((file.clone(), Vec::new()));
    }
    let mut cores = Vec::new();
    for (index, task) in file.tasks.iter().enumerate() {
        const ONE: &str = "one core, as scheduling is partitioned";
        let place = place.item("task", index, task.name.as_ref().map(Text::as_str));
        match &task.cores {
            Some(IndexList::Only(ranges)) if matches!(ranges[..], [(first, last)] if first == last) => {
                cores.push(ranges[0].0);
            }
            Some(several) => return Err(place.refuse_text("cores", &several.to_string(), ONE)),
            None => return Err(place.refuse("cores", None, ONE)),
        }
    }
    let known: BTreeSet<u32> = cores.iter().copied().collect();
    let list = known.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let core = match (wanted, known.first()) {
        (Some(core), _) if known.contains(&core) => core,
        (Some(core), _) => return Err(place.refuse("--core", Some(&core), &format!("a core that has tasks: {list}"))),
        (None, Some(&core)) if known.len() == 1 => core,
        (None, _) => return Err(place.refuse("--core", None, &format!("one of the cores that have tasks: {list}"))),
    };
    let (mut own, mut elsewhere) = (file.clone(), Vec::new());
    own.tasks.clear();
    for (task, &on) in file.tasks.iter().zip(&cores) {
        if on == core { own.tasks.push(task.clone()) } else { elsewhere.push((on, task.clone())) }
    }
    Ok((own, elsewhere))
}

/// An analysis that takes a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Analyzable {
    /// The core to name; `None` where the file has one.
    pub core: Option<u32>,
    /// Whether it leaves out tasks of other cores.
    pub other_cores: bool,
}

/// Finds an analysis that takes a file: of its one core, or else of the first core that can be named. `None` where there is none.
#[must_use]
pub fn analyzable(file: &SystemFile) -> Option<Analyzable> {
    if !decisive(file, Verb::Analyze).is_empty() {
        return None;
    }
    let first = |task: &TaskEntry| match &task.cores {
        Some(IndexList::Only(ranges)) => ranges.first().map(|&(first, _)| Some(first)),
        _ => None,
    };
    std::iter::once(None).chain(file.tasks.iter().filter_map(first)).find_map(|core| {
        let (own, others) = on_core(file, "", core).ok()?;
        TaskSystem::of(&own, "").ok()?;
        Some(Analyzable { core, other_cores: !others.is_empty() })
    })
}

/// The tasks of one core, and how those of other cores are considered.
#[derive(Debug)]
pub struct OneCore {
    /// The file with the tasks of the core alone.
    pub file: SystemFile,
    /// A sentence on what the analysis does not consider.
    pub not_considered: Option<String>,
    /// A sentence on its assumptions about other cores.
    pub assumption: Option<String>,
}

/// Takes the tasks of one core from a file, as [`on_core`] does, and enters those of other cores as
/// [`enter_neighbours`] does, unless the file lists as many other cores, or `ignore_others` is set, because WCETs
/// include the delay by their requests.
///
/// # Errors
/// As [`on_core`] and [`enter_neighbours`]; [`AnalysisError::OtherCores`] rather than omit tasks that could turn a yes
/// into a no.
pub fn one_core(
    file: &SystemFile,
    name: &str,
    wanted: Option<u32>,
    ignore_others: bool,
) -> Result<OneCore, AnalysisError> {
    let (mut file, elsewhere) = on_core(file, name, wanted)?;
    if elsewhere.is_empty() {
        return Ok(OneCore { file, not_considered: None, assumption: None });
    }
    let names = names(elsewhere.iter().map(|(_, task)| task));
    let left_out = format!("tasks of other cores ({names})");
    if ignore_others {
        let assumption = Some("WCETs include the delay by requests of other cores".to_owned());
        return Ok(OneCore { file, not_considered: Some(left_out), assumption });
    }
    if are_listed(&file, &elsewhere) {
        return Ok(OneCore { file, not_considered: Some(left_out), assumption: None });
    }
    if let Err(reason) = enter_neighbours(&mut file, &elsewhere, name)? {
        return Err(AnalysisError::OtherCores {
            file: name.to_owned(),
            others: names,
            own: self::names(&file.tasks),
            reason,
        });
    }
    let what = if file.shared_banks.is_some() { ", in the same banks" } else { "" };
    let assumption = Some(format!("requests of other cores are those of their tasks ({names}){what}"));
    Ok(OneCore { file, not_considered: None, assumption })
}

fn names<'a>(tasks: impl IntoIterator<Item = &'a TaskEntry>) -> String {
    tasks.into_iter().map(name_of).collect::<Vec<_>>().join(", ")
}

/// Whether a table lists as many other cores as have tasks.
fn are_listed(file: &SystemFile, elsewhere: &[(u32, TaskEntry)]) -> bool {
    let cores: BTreeSet<u32> = elsewhere.iter().map(|&(core, _)| core).collect();
    let listed = [
        file.banks.as_ref().map(|table| table.core.len()),
        file.shared_banks.as_ref().map(|table| table.core.len() + table.sharer.len()),
        file.parallel_banks.as_ref().map(|table| table.core.len()),
    ];
    listed.into_iter().flatten().max().unwrap_or(0) >= cores.len()
}

/// Enters other cores, each with its tasks, into the file's `[banks]` or `[shared_banks]`, if that lists no core;
/// `name` is the file's name in messages. The inner error is a sentence with the reason why nothing is entered.
///
/// Requests of a task are bounded if the file has its period, WCET and lines. Banks are private only if the file gives
/// each pair of tasks disjoint banks. Cores in `[shared_banks]` are assumed to share the banks of the analyzed core,
/// which delays it most. `[parallel_banks]` needs a number of each core that no task has.
///
/// # Errors
///
/// [`SystemError`] where a field of another core's task has no meaning.
pub fn enter_neighbours(
    file: &mut SystemFile,
    elsewhere: &[(u32, TaskEntry)],
    name: &str,
) -> Result<Result<(), String>, SystemError> {
    for (_, task) in elsewhere {
        let given = [("period", task.period.is_some()), ("wcet", task.wcet.is_some()), ("lines", task.lines.is_some())];
        if let Some((field, _)) = given.into_iter().find(|&(_, is_given)| !is_given) {
            return Ok(Err(format!("{field} of task {:?} is missing", name_of(task))));
        }
    }
    let own = &file.tasks;
    let together = || elsewhere.iter().find_map(|(_, other)| Some((own.iter().find(|own| !apart(own, other))?, other)));
    let list = match (&mut file.banks, &mut file.shared_banks) {
        (Some(table), None) if table.core.is_empty() => match together() {
            Some((own, other)) if table.private_banks == Some(true) => {
                let (own, other) = (name_of(own), name_of(other));
                return Ok(Err(format!(
                    "private_banks is true, and tasks {own:?} and {other:?} may have banks in common"
                )));
            }
            _ => &mut table.core,
        },
        (None, Some(table)) if table.core.is_empty() && table.sharer.is_empty() => &mut table.sharer,
        (None, None) => return Ok(Err("the file has neither [banks] nor [shared_banks]".to_owned())),
        _ => return Ok(Err("the table lists fewer cores".to_owned())),
    };
    let cores: BTreeSet<u32> = elsewhere.iter().map(|&(core, _)| core).collect();
    for core in cores {
        let own = elsewhere.iter().filter(|&&(on, _)| on == core);
        let tasks: Vec<TaskEntry> = own.map(|(_, task)| requests_of(task)).collect();
        // Refused here, a field has the name of its task.
        task_set(&Place::new(name), &tasks)?;
        list.push(OtherCoreEntry { tasks, ..OtherCoreEntry::default() });
    }
    Ok(Ok(()))
}

fn name_of(task: &TaskEntry) -> &str {
    task.name.as_ref().map_or("", Text::as_str)
}

/// Whether two tasks have no bank class in common, by their lists of numbers.
fn apart(one: &TaskEntry, other: &TaskEntry) -> bool {
    let (Some(IndexList::Only(one)), Some(IndexList::Only(other))) = (&one.banks, &other.banks) else { return false };
    one.iter().all(|&(first, last)| other.iter().all(|&(start, end)| last < start || end < first))
}
