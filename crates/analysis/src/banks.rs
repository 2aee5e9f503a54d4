//! Other cores, in the DRAM: `[banks]`, `[shared_banks]` or `[parallel_banks]`, one of them.

use memtint_sched::{
    Banks, HitCap, Interference, Neighbour, ParallelBanks, ParallelNeighbour, Regulator, RowDelays, SharedBanks,
    WriteBuffer,
};
use memtint_system::{
    AtOnce, BanksEntry, OtherCoreEntry, ParallelBanksEntry, Place, SharedBanksEntry, SystemError, SystemFile, TIME,
    TaskEntry, Verb, left_out, used,
};

use crate::tasks::{or_zero, regulator, task_set};

const NUMBER: &str = "a whole number from 1 on";
const FLAG: &str = "true or false";

/// The term of the one table that the file has; `own` is the regulator of the analyzed core.
pub(crate) fn term(
    file: &SystemFile,
    own: Option<&Regulator>,
    place: &Place,
) -> Result<Option<Interference>, SystemError> {
    // The part of this core's budget that others can reclaim.
    let donated = own.filter(|own| own.reclaims()).map_or(0, Regulator::lines);
    match (&file.banks, &file.shared_banks, &file.parallel_banks) {
        (None, None, None) => Ok(None),
        (Some(entry), None, None) => Ok(Some(Interference::Banks(banks(entry, place, donated)?))),
        (None, Some(entry), None) => Ok(Some(Interference::SharedBanks(shared(entry, place, donated)?))),
        (None, None, Some(entry)) => Ok(Some(Interference::ParallelBanks(parallel(entry, place, donated)?))),
        _ => {
            let two = "with another of these tables";
            Err(place.refuse_text("banks, shared_banks or parallel_banks", two, "one of them"))
        }
    }
}

fn banks(entry: &BanksEntry, file: &Place, donated: u64) -> Result<Banks, SystemError> {
    file.table("banks").need(&[
        ("request_delay", entry.request_delay.is_some(), TIME),
        ("private_banks", entry.private_banks.is_some(), FLAG),
        ("requests_at_once_max", entry.requests_at_once_max.is_some(), NUMBER),
    ])?;
    Ok(Banks {
        private_banks: entry.private_banks.unwrap_or(false),
        requests_at_once_max: at_once(entry.requests_at_once_max),
        request_delay: or_zero(entry.request_delay),
        neighbours: neighbours(file, "banks.core", &entry.core, donated)?,
    })
}

fn shared(entry: &SharedBanksEntry, file: &Place, donated: u64) -> Result<SharedBanks, SystemError> {
    let place = file.table("shared_banks");
    place.need(&[
        ("request_delay", entry.request_delay.is_some(), TIME),
        ("hit", entry.hit.is_some(), TIME),
        ("conflict", entry.conflict.is_some(), TIME),
        ("requests_at_once_max", entry.requests_at_once_max.is_some(), NUMBER),
    ])?;
    let overtaking = match (entry.overtaking_each_request, entry.overtaking_each_row) {
        (Some(most), None) => Some(HitCap::EachRequest(most.get())),
        (None, Some(most)) => Some(HitCap::EachRow(most.get())),
        (None, None) => None,
        (Some(_), Some(row)) => {
            let accepted = "it or overtaking_each_request, not both";
            return Err(place.refuse("overtaking_each_row", Some(&row.get()), accepted));
        }
    };
    Ok(SharedBanks {
        request_delay: or_zero(entry.request_delay),
        rows: RowDelays { hit: or_zero(entry.hit), conflict: or_zero(entry.conflict) },
        overtaking,
        sharers: neighbours(file, "shared_banks.sharer", &entry.sharer, donated)?,
        others: neighbours(file, "shared_banks.core", &entry.core, donated)?,
        requests_at_once_max: at_once(entry.requests_at_once_max),
    })
}

fn parallel(entry: &ParallelBanksEntry, file: &Place, donated: u64) -> Result<ParallelBanks, SystemError> {
    let place = file.table("parallel_banks");
    place.need(&[
        ("read_delay", entry.read_delay.is_some(), TIME),
        ("write_delay", entry.write_delay.is_some(), TIME),
        ("turn", entry.turn.is_some(), TIME),
        ("write_entries", entry.write_entries.is_some(), NUMBER),
        ("drain_at", entry.drain_at.is_some(), NUMBER),
        ("drain_to", entry.drain_to.is_some(), "a whole number from 0 on"),
        ("requests_at_once_max", entry.requests_at_once_max.is_some(), NUMBER),
        ("private_banks", entry.private_banks.is_some(), FLAG),
        ("write_back", entry.write_back.is_some(), FLAG),
    ])?;
    let marks = (entry.drain_at.map_or(0, |most| most.get()), entry.drain_to.map_or(0, |least| least.get()));
    let writes = WriteBuffer::new(entry.write_entries.map_or(0, |most| most.get()), marks.0, marks.1);
    let cores = neighbours(file, "parallel_banks.core", &entry.core, donated)?;
    let cores = entry.core.iter().zip(cores).enumerate().map(|(index, (other, core))| {
        let place = file.item("parallel_banks.core", index, None);
        place.need(&[("requests_at_once_max", other.requests_at_once_max.is_some(), NUMBER)])?;
        Ok(ParallelNeighbour { core, requests_at_once_max: at_once(other.requests_at_once_max) })
    });
    Ok(ParallelBanks {
        read_delay: or_zero(entry.read_delay),
        write_delay: or_zero(entry.write_delay),
        turn: or_zero(entry.turn),
        writes: writes.map_err(|error| place.range(error))?,
        requests_at_once_max: at_once(entry.requests_at_once_max),
        neighbours: cores.collect::<Result<_, SystemError>>()?,
        private_banks: entry.private_banks.unwrap_or(false),
        write_back: entry.write_back.unwrap_or(true),
    })
}

/// Fields of a task of another core: those that bound its requests.
const OF_OTHERS: [&str; 9] = [
    "task.name",
    "task.period",
    "task.wcet",
    "task.deadline",
    "task.phase",
    "task.jitter",
    "task.blocking",
    "task.priority",
    "task.lines",
];

/// The fields of a task of another core that bound its requests.
pub(crate) fn requests_of(task: &TaskEntry) -> TaskEntry {
    TaskEntry {
        name: task.name.clone(),
        period: task.period,
        wcet: task.wcet,
        deadline: task.deadline,
        phase: task.phase,
        jitter: task.jitter,
        blocking: task.blocking,
        priority: task.priority,
        lines: task.lines,
        ..TaskEntry::default()
    }
}

/// Refuses fields that bound no requests: nothing considers them for other cores.
fn only_requests(task: &TaskEntry, place: &Place) -> Result<(), SystemError> {
    let alone = SystemFile { tasks: vec![task.clone()], ..SystemFile::default() };
    let given = Verb::ALL.into_iter().flat_map(|verb| used(&alone, verb).into_iter().chain(left_out(&alone, verb)));
    let Some(field) = given.into_iter().find(|field| !OF_OTHERS.contains(field)) else { return Ok(()) };
    let accepted = OF_OTHERS.map(|field| field.trim_start_matches("task.")).join(", ");
    Err(place.refuse(field, Some(&"given"), &format!("only {accepted} of a task of another core")))
}

fn at_once(given: Option<AtOnce>) -> u32 {
    given.map_or(1, AtOnce::get_u32)
}

fn neighbours(
    file: &Place,
    table: &str,
    cores: &[OtherCoreEntry],
    donated: u64,
) -> Result<Vec<Neighbour>, SystemError> {
    let each = cores.iter().enumerate().map(|(index, core)| {
        let place = file.item(table, index, None);
        if let (Some(found), false) = (core.requests_at_once_max, table == "parallel_banks.core") {
            return Err(place.refuse("requests_at_once_max", Some(&found.get()), "none: it is that of the table"));
        }
        if let Some(found) = core.regulator.as_ref().and_then(|own| own.guaranteed) {
            return Err(place.refuse("regulator.guaranteed", Some(&found.get()), "none: it is that of [regulator]"));
        }
        for task in &core.tasks {
            only_requests(task, &place)?;
        }
        let tasks = (!core.tasks.is_empty()).then(|| task_set(&place, &core.tasks)).transpose()?;
        let regulator = core.regulator.as_ref().map(|own| regulator(own, &place)).transpose()?;
        Ok(Neighbour { tasks, regulator, donated })
    });
    each.collect()
}
