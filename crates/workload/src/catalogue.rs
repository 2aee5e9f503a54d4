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

/// A number and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Characteristic {
    /// The number; its unit is in the name of the field that holds it.
    pub value: u64,
    /// Its origin.
    pub origin: Origin,
}

/// Origin of a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Published; the source.
    Published(String),
    /// Not published; the reason for the choice.
    Fitted(String),
}

/// Known characteristics of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramModel {
    /// The collection: `palloc`, `bpm`, `opteron`, `spec2006` or `refresh`.
    pub set: String,
    /// The machine that the published numbers were taken on.
    pub machine: String,
    /// The program.
    pub name: String,
    /// Memory traffic of a lone run, 10^6 bytes a second: for comparison with a simulation; the generator does not use
    /// it.
    pub bandwidth_mb_per_s: Option<Characteristic>,
    /// Instructions per thousand cycles of a lone run: for comparison with a simulation; the generator does not use it.
    pub ipc_per_mille: Option<Characteristic>,
    /// Memory used, in MiB.
    pub footprint_mib: Characteristic,
    /// Misses of the last-level cache.
    pub misses_per_million_instructions: Characteristic,
    /// Of a million misses, those to the row of the stream's previous miss.
    pub row_hits_per_million: Characteristic,
    /// Rows that are walked through at once; one if absent.
    pub streams: Option<Characteristic>,
    /// Of a million misses, those that are stores.
    pub writes_per_million: Characteristic,
    /// Misses that do not wait for each other.
    pub parallelism: Characteristic,
    /// Loads between the misses that hit the first-level cache, one after the other.
    pub near_loads_per_million_instructions: Option<Characteristic>,
    /// Loads between the misses that hit the last-level cache if it has room, one after the other.
    pub llc_loads_per_million_instructions: Option<Characteristic>,
    /// Working set of those loads, in KiB.
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
        // Refuses values that the generator does not accept.
        model.source(0)?;
        Ok(model)
    }
}

impl ProgramModel {
    /// Gives the program: its misses, and, if the model has them, the loads between them ([`Reuse`]).
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
        // The source refuses loads that do not fit.
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

    /// Gives the parameters of a [`Program`] with these characteristics; near references are left out.
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

/// Reads a file of programs; `origin` stands for its name in messages. Refuses unknown keys, values without origin and
/// values that the generator does not accept.
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

/// Gives every program with published characteristics in this crate.
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
