//! The tasks of one core.

use std::collections::BTreeSet;

use memtint_system::{OtherCoreEntry, Place, SystemError, SystemFile, TaskEntry, Text};
use memtint_units::IndexList;

use crate::banks::requests_of;

/// Takes the tasks of one core from a file, and gives the others with their cores; `name` is what messages call the file.
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

/// Enters other cores, each with its tasks, into the file's `[banks]` or `[shared_banks]`, where that lists no core. Returns whether it
/// did.
///
/// Requests of a task are bounded where the file has its period, WCET and lines; with one that lacks them, nothing is entered. Cores in
/// `[shared_banks]` are taken to share the banks of the analyzed core, which delays it most. `[parallel_banks]` needs a number of each
/// core that no task has.
pub fn enter_neighbours(file: &mut SystemFile, elsewhere: &[(u32, TaskEntry)]) -> bool {
    let is_bounded = |task: &TaskEntry| task.period.is_some() && task.wcet.is_some() && task.lines.is_some();
    if !elsewhere.iter().all(|(_, task)| is_bounded(task)) {
        return false;
    }
    let list = match (&mut file.banks, &mut file.shared_banks) {
        (Some(table), None) if table.core.is_empty() => &mut table.core,
        (None, Some(table)) if table.core.is_empty() && table.sharer.is_empty() => &mut table.sharer,
        _ => return false,
    };
    let cores: BTreeSet<u32> = elsewhere.iter().map(|&(core, _)| core).collect();
    for core in cores {
        let tasks = elsewhere.iter().filter(|&&(on, _)| on == core).map(|(_, task)| requests_of(task)).collect();
        list.push(OtherCoreEntry { tasks, ..OtherCoreEntry::default() });
    }
    true
}
