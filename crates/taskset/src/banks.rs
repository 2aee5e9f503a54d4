//! Other cores, in the DRAM: `[banks]`, `[shared_banks]` or `[parallel_banks]`, one of them.

use memtint_sched::{
    Banks, HitCap, Interference, Neighbour, ParallelBanks, ParallelNeighbour, Regulator, RowDelays, SharedBanks,
    WriteBuffer,
};
use serde::Deserialize;
use toml::Value;

use crate::file::{RawRegulator, RawTask, task_set};
use crate::place::{Place, TaskFileError};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawBanks {
    request_delay: Option<Value>,
    private_banks: Option<Value>,
    requests_at_once_max: Option<Value>,
    #[serde(default)]
    core: Vec<RawCore>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawSharedBanks {
    request_delay: Option<Value>,
    hit: Option<Value>,
    conflict: Option<Value>,
    overtaking_each_request: Option<Value>,
    overtaking_each_row: Option<Value>,
    requests_at_once_max: Option<Value>,
    #[serde(default)]
    sharer: Vec<RawCore>,
    #[serde(default)]
    core: Vec<RawCore>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawParallelBanks {
    read_delay: Option<Value>,
    write_delay: Option<Value>,
    turn: Option<Value>,
    write_entries: Option<Value>,
    drain_at: Option<Value>,
    drain_to: Option<Value>,
    requests_at_once_max: Option<Value>,
    private_banks: Option<Value>,
    write_back: Option<Value>,
    #[serde(default)]
    core: Vec<RawCore>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCore {
    #[serde(default)]
    task: Vec<RawTask>,
    regulator: Option<RawRegulator>,
    requests_at_once_max: Option<Value>,
}

/// The tables, and the regulator of the core itself.
pub(crate) struct Tables<'a> {
    pub(crate) banks: Option<&'a RawBanks>,
    pub(crate) shared: Option<&'a RawSharedBanks>,
    pub(crate) parallel: Option<&'a RawParallelBanks>,
    pub(crate) regulator: Option<&'a Regulator>,
}

impl Tables<'_> {
    /// The term of the one table that there is.
    pub(crate) fn term(&self, file: &str) -> Result<Option<Interference>, TaskFileError> {
        // What others can have of this core's budget.
        let donated = self.regulator.filter(|own| own.reclaims()).map_or(0, Regulator::lines);
        match (self.banks, self.shared, self.parallel) {
            (None, None, None) => Ok(None),
            (Some(banks), None, None) => Ok(Some(Interference::Banks(banks.check(file, donated)?))),
            (None, Some(shared), None) => Ok(Some(Interference::SharedBanks(shared.check(file, donated)?))),
            (None, None, Some(parallel)) => Ok(Some(Interference::ParallelBanks(parallel.check(file, donated)?))),
            _ => {
                let two = Value::String("with another of these tables".to_owned());
                Err(Place::new(file).refuse("banks, shared_banks or parallel_banks", Some(&two), "one of them"))
            }
        }
    }
}

impl RawBanks {
    fn check(&self, file: &str, donated: u64) -> Result<Banks, TaskFileError> {
        let place = Place::table(file, "banks");
        Ok(Banks {
            private_banks: place.flag("private_banks", self.private_banks.as_ref())?,
            requests_at_once_max: at_once(&place, self.requests_at_once_max.as_ref())?,
            request_delay: place.needed("request_delay", self.request_delay.as_ref())?,
            neighbours: neighbours(file, "banks.core", &self.core, donated)?,
        })
    }
}

impl RawSharedBanks {
    fn check(&self, file: &str, donated: u64) -> Result<SharedBanks, TaskFileError> {
        let place = Place::table(file, "shared_banks");
        let (request, row) = (self.overtaking_each_request.as_ref(), self.overtaking_each_row.as_ref());
        let each_request = place.count("overtaking_each_request", request, 0, u64::MAX)?;
        let each_row = place.count("overtaking_each_row", row, 0, u64::MAX)?;
        let overtaking = match (each_request, each_row) {
            (Some(most), None) => Some(HitCap::EachRequest(most)),
            (None, Some(most)) => Some(HitCap::EachRow(most)),
            (None, None) => None,
            _ => return Err(place.refuse("overtaking_each_row", row, "it or overtaking_each_request, not both")),
        };
        let rows = RowDelays {
            hit: place.needed("hit", self.hit.as_ref())?,
            conflict: place.needed("conflict", self.conflict.as_ref())?,
        };
        Ok(SharedBanks {
            request_delay: place.needed("request_delay", self.request_delay.as_ref())?,
            rows,
            overtaking,
            sharers: neighbours(file, "shared_banks.sharer", &self.sharer, donated)?,
            others: neighbours(file, "shared_banks.core", &self.core, donated)?,
            requests_at_once_max: at_once(&place, self.requests_at_once_max.as_ref())?,
        })
    }
}

impl RawParallelBanks {
    fn check(&self, file: &str, donated: u64) -> Result<ParallelBanks, TaskFileError> {
        let place = Place::table(file, "parallel_banks");
        let count = |field, value: &Option<Value>, least| place.needed_count(field, value.as_ref(), least, u64::MAX);
        let entries = count("write_entries", &self.write_entries, 1)?;
        let marks = (count("drain_at", &self.drain_at, 1)?, count("drain_to", &self.drain_to, 0)?);
        let writes = WriteBuffer::new(entries, marks.0, marks.1).map_err(|error| place.range(error))?;
        let own = self.core.iter().zip(neighbours(file, "parallel_banks.core", &self.core, donated)?).enumerate();
        let own = own.map(|(index, (raw, core))| {
            let place = core_place(file, "parallel_banks.core", index);
            let requests_at_once_max = at_once(&place, raw.requests_at_once_max.as_ref())?;
            Ok(ParallelNeighbour { core, requests_at_once_max })
        });
        Ok(ParallelBanks {
            read_delay: place.needed("read_delay", self.read_delay.as_ref())?,
            write_delay: place.needed("write_delay", self.write_delay.as_ref())?,
            turn: place.needed("turn", self.turn.as_ref())?,
            writes,
            requests_at_once_max: at_once(&place, self.requests_at_once_max.as_ref())?,
            neighbours: own.collect::<Result<_, TaskFileError>>()?,
            private_banks: place.flag("private_banks", self.private_banks.as_ref())?,
            write_back: place.flag("write_back", self.write_back.as_ref())?,
        })
    }
}

fn at_once(place: &Place, value: Option<&Value>) -> Result<u32, TaskFileError> {
    Ok(place.needed_count("requests_at_once_max", value, 1, u64::from(u32::MAX))? as u32)
}

fn core_place(file: &str, table: &str, index: usize) -> Place {
    Place::new(&format!("{file}: {table} {index} (counted from 0)"))
}

fn neighbours(file: &str, table: &str, cores: &[RawCore], donated: u64) -> Result<Vec<Neighbour>, TaskFileError> {
    let each = cores.iter().enumerate().map(|(index, core)| {
        let place = core_place(file, table, index);
        if table != "parallel_banks.core" && core.requests_at_once_max.is_some() {
            let found = core.requests_at_once_max.as_ref();
            return Err(place.refuse("requests_at_once_max", found, "none: it is that of the table"));
        }
        if let Some(found) = core.regulator.as_ref().and_then(RawRegulator::guaranteed) {
            return Err(place.refuse("regulator.guaranteed", Some(found), "none: it is that of [regulator]"));
        }
        let name = format!("{file}: {table} {index} (counted from 0)");
        let tasks = (!core.task.is_empty()).then(|| task_set(&name, &place, &core.task)).transpose()?;
        let regulator = core.regulator.as_ref().map(|own| own.check(&place)).transpose()?;
        Ok(Neighbour { tasks, regulator, donated })
    });
    each.collect()
}
