//! Published characteristics of programs: the files of `programs`.

use serde::Deserialize;

use crate::program::footprint;
use crate::{Program, ProgramParameters, Region, Reuse, ReuseParameters, Source, WorkloadError};
use memtint_units::ByteSize;

const FILES: [(&str, &str); 5] = [
    ("palloc", include_str!("../programs/palloc.toml")),
    ("bpm", include_str!("../programs/bpm.toml")),
    ("opteron", include_str!("../programs/opteron.toml")),
    ("spec2006", include_str!("../programs/spec2006.toml")),
    ("refresh", include_str!("../programs/refresh.toml")),
];

/// A number, and where it is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Characteristic {
    /// The number; its unit is in the name of the field that holds it.
    pub value: u64,
    /// Where it is from.
    pub origin: Origin,
}

/// Where a number is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A paper says it; this one, there.
    Published(String),
    /// Nobody says it; it was chosen so.
    Fitted(String),
}

/// What is known of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramModel {
    /// The collection: `palloc`, `bpm`, `opteron`, `spec2006` or `refresh`.
    pub set: String,
    /// The machine that the published numbers were taken on.
    pub machine: String,
    /// The program.
    pub name: String,
    /// Memory traffic alone, 10^6 bytes a second: to compare a simulation with; the generator does not use it.
    pub bandwidth_mb_per_s: Option<Characteristic>,
    /// Instructions in a thousand cycles alone: to compare a simulation with; the generator does not use it.
    pub ipc_per_mille: Option<Characteristic>,
    /// Memory used, in MiB.
    pub footprint_mib: Characteristic,
    /// Misses of the last-level cache.
    pub misses_per_million_instructions: Characteristic,
    /// Of a million misses those to the row of the miss before, of their stream.
    pub row_hits_per_million: Characteristic,
    /// Rows that are walked through at once; one where absent.
    pub streams: Option<Characteristic>,
    /// Of a million misses those that are stores.
    pub writes_per_million: Characteristic,
    /// Misses that do not wait for each other.
    pub parallelism: Characteristic,
    /// Loads between the misses that the first-level cache answers, one after the other.
    pub near_loads_per_million_instructions: Option<Characteristic>,
    /// Loads between the misses that the last-level cache answers when it has room, one after the other.
    pub llc_loads_per_million_instructions: Option<Characteristic>,
    /// What those go to, in KiB.
    pub llc_set_kib: Option<Characteristic>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    schema: u32,
    set: String,
    machine: String,
    program: Vec<RawProgram>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawProgram {
    name: String,
    bandwidth_mb_per_s: Option<RawValue>,
    ipc_per_mille: Option<RawValue>,
    footprint_mib: RawValue,
    misses_per_million_instructions: RawValue,
    row_hits_per_million: RawValue,
    streams: Option<RawValue>,
    writes_per_million: RawValue,
    parallelism: RawValue,
    near_loads_per_million_instructions: Option<RawValue>,
    llc_loads_per_million_instructions: Option<RawValue>,
    llc_set_kib: Option<RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawValue {
    value: u64,
    published: Option<String>,
    fitted: Option<String>,
}

impl RawValue {
    fn check(self, program: &str, field: &'static str) -> Result<Characteristic, WorkloadError> {
        let origin = match (self.published, self.fitted) {
            (Some(text), None) => Origin::Published(text),
            (None, Some(text)) => Origin::Fitted(text),
            (None, None) => {
                return Err(WorkloadError::parameter(program, field, "without origin", "published or fitted, and how"));
            }
            _ => return Err(WorkloadError::parameter(program, field, "published and fitted", "one of both")),
        };
        Ok(Characteristic { value: self.value, origin })
    }
}

impl RawProgram {
    fn check(self, set: &str, machine: &str) -> Result<ProgramModel, WorkloadError> {
        let name = self.name;
        let model = ProgramModel {
            set: set.to_owned(),
            machine: machine.to_owned(),
            bandwidth_mb_per_s: self
                .bandwidth_mb_per_s
                .map(|raw| raw.check(&name, "bandwidth_mb_per_s"))
                .transpose()?,
            ipc_per_mille: self.ipc_per_mille.map(|raw| raw.check(&name, "ipc_per_mille")).transpose()?,
            footprint_mib: self.footprint_mib.check(&name, "footprint_mib")?,
            misses_per_million_instructions: self
                .misses_per_million_instructions
                .check(&name, "misses_per_million_instructions")?,
            row_hits_per_million: self.row_hits_per_million.check(&name, "row_hits_per_million")?,
            streams: self.streams.map(|raw| raw.check(&name, "streams")).transpose()?,
            writes_per_million: self.writes_per_million.check(&name, "writes_per_million")?,
            parallelism: self.parallelism.check(&name, "parallelism")?,
            near_loads_per_million_instructions: self
                .near_loads_per_million_instructions
                .map(|raw| raw.check(&name, "near_loads_per_million_instructions"))
                .transpose()?,
            llc_loads_per_million_instructions: self
                .llc_loads_per_million_instructions
                .map(|raw| raw.check(&name, "llc_loads_per_million_instructions"))
                .transpose()?,
            llc_set_kib: self.llc_set_kib.map(|raw| raw.check(&name, "llc_set_kib")).transpose()?,
            name,
        };
        // Says what the generator does not accept.
        model.source(0)?;
        Ok(model)
    }
}

impl ProgramModel {
    /// Gives the program: its misses, and where the model says so the loads between them ([`Reuse`]).
    pub fn source(&self, seed: u64) -> Result<Box<dyn Source>, WorkloadError> {
        let misses = Program::new(&self.parameters(seed)?)?;
        let loads = [&self.near_loads_per_million_instructions, &self.llc_loads_per_million_instructions];
        let Some(set) = &self.llc_set_kib else {
            if loads.into_iter().any(Option::is_some) {
                return Err(WorkloadError::parameter(
                    &self.name,
                    "llc_set_kib",
                    "absent",
                    "given with loads between misses",
                ));
            }
            return Ok(Box::new(misses));
        };
        if !(1..=1 << 24).contains(&set.value) {
            return Err(WorkloadError::parameter(&self.name, "llc_set_kib", set.value, "1 to 16777216"));
        }
        // What does not fit is refused by the source.
        let rate =
            |of: &Option<Characteristic>| of.as_ref().map_or(0, |rate| u32::try_from(rate.value).unwrap_or(u32::MAX));
        let parameters = ReuseParameters {
            near_per_million_instructions: rate(loads[0]),
            llc_per_million_instructions: rate(loads[1]),
            llc_set: ByteSize(set.value << 10),
            seed,
        };
        Ok(Box::new(Reuse::new(misses, &parameters)?))
    }

    /// Gives what a [`Program`] with these characteristics is made from; near references are left out.
    pub fn parameters(&self, seed: u64) -> Result<ProgramParameters, WorkloadError> {
        let small = |field: &'static str, of: &Characteristic| {
            u32::try_from(of.value).map_err(|_| WorkloadError::parameter(&self.name, field, of.value, "below 2^32"))
        };
        if !(1..=1 << 24).contains(&self.footprint_mib.value) {
            let found = self.footprint_mib.value;
            return Err(WorkloadError::parameter(&self.name, "footprint_mib", found, "1 to 16777216"));
        }
        Ok(ProgramParameters {
            region: Region::of(footprint(self.footprint_mib.value)),
            misses_per_million_instructions: small(
                "misses_per_million_instructions",
                &self.misses_per_million_instructions,
            )?,
            row_hits_per_million: small("row_hits_per_million", &self.row_hits_per_million)?,
            streams: self.streams.as_ref().map_or(Ok(1), |streams| small("streams", streams))?,
            writes_per_million: small("writes_per_million", &self.writes_per_million)?,
            parallelism: small("parallelism", &self.parallelism)?,
            near_per_million_instructions: 0,
            seed,
        })
    }
}

/// Reads a file of programs; `origin` stands for its name in messages. Unknown keys, values without origin and values
/// that the generator does not accept are refused.
pub fn parse(text: &str, origin: &str) -> Result<Vec<ProgramModel>, WorkloadError> {
    let raw: RawFile = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        let problem = error.message().to_owned();
        WorkloadError::Foreign { origin: origin.to_owned(), unit: "line", number: line as u64, problem }
    })?;
    if raw.schema != 1 {
        return Err(WorkloadError::parameter(origin, "schema", raw.schema, 1));
    }
    raw.program.into_iter().map(|program| program.check(&raw.set, &raw.machine)).collect()
}

/// Gives every program that this crate has published characteristics of.
pub fn all() -> Result<Vec<ProgramModel>, WorkloadError> {
    let sets = FILES.iter().map(|(name, text)| parse(text, name));
    sets.collect::<Result<Vec<_>, _>>().map(|sets| sets.concat())
}

/// Finds a program by `SET/NAME`, for instance `palloc/470.lbm`.
pub fn find(name: &str) -> Result<ProgramModel, WorkloadError> {
    let all = all()?;
    let names = || all.iter().map(|model| format!("{}/{}", model.set, model.name)).collect::<Vec<_>>().join(", ");
    let found = all.iter().find(|model| name.split_once('/') == Some((&model.set, &model.name)));
    found.cloned().ok_or_else(|| WorkloadError::parameter("programs", "name", name, names()))
}
