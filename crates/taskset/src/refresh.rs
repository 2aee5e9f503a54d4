//! Refresh by software: memory, cyclic executives, servers.

use memtint_sched::crs::Kind;
use memtint_sched::cyclic::{Sharing, Slicing};
use memtint_sched::{Density, RankOrder};
use memtint_units::Picoseconds;
use serde::Deserialize;
use toml::Value;

use crate::place::{Place, TaskFileError};

/// The most ranks.
const RANKS_MAX: u64 = 64;
/// The most cores.
const CORES_MAX: u64 = 1024;

/// The memory whose refresh software schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// How many ranks there are, 1 to 64.
    pub ranks: u32,
    /// Density of a chip, where the file gives that.
    pub density: Option<Density>,
    /// Time of one refresh command.
    pub t_rfc: Picoseconds,
    /// In which each rank must be refreshed in full.
    pub retention: Picoseconds,
    /// How the ranks of one color are refreshed.
    pub bursts: RankOrder,
    /// What a refresh lock task takes.
    pub lock: Picoseconds,
    /// What a refresh unlock task takes.
    pub unlock: Picoseconds,
}

/// A cyclic executive, as far as the file decides it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cyclic {
    /// Length of a frame, by which jobs are placed.
    pub frame: Option<Picoseconds>,
    /// Length of a colored frame; default: that of a frame.
    pub color_frame: Option<Picoseconds>,
    /// Whether tasks may have data in one color.
    pub sharing: Sharing,
    /// How jobs may be cut.
    pub slicing: Slicing,
    /// What each slice after the first costs.
    pub slice_cost: Picoseconds,
    /// The most copy tasks that are tried.
    pub copies_max: Option<u32>,
}

/// Ranks that are locked and refreshed together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Color {
    /// Its name.
    pub name: String,
    /// The ranks.
    pub ranks: Vec<u32>,
    /// When it is locked first.
    pub phase: Picoseconds,
}

/// By what the tasks of a server are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// The earliest deadline.
    Edf,
    /// The shorter period.
    RateMonotonic,
    /// The shorter relative deadline.
    DeadlineMonotonic,
    /// Priorities as given.
    Given,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerEntry {
    /// Its name.
    pub name: String,
    /// Index of its color.
    pub color: usize,
    /// Its core.
    pub core: u32,
    /// Its period.
    pub period: Picoseconds,
    /// Its budget in each period.
    pub budget: Picoseconds,
    /// What becomes of a budget that is not used.
    pub kind: Kind,
    /// How its tasks are ordered.
    pub inside: Inside,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawMemory {
    ranks: Option<Value>,
    density: Option<Value>,
    t_rfc: Option<Value>,
    retention: Option<Value>,
    bursts: Option<Value>,
    lock: Option<Value>,
    unlock: Option<Value>,
}

impl RawMemory {
    pub(crate) fn check(&self, file: &str) -> Result<Memory, TaskFileError> {
        let place = Place::table(file, "memory");
        let density = match &self.density {
            None => None,
            Some(value) => {
                let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
                let found = Density::ALL.into_iter().find(|density| Some(u64::from(density.gigabits())) == number);
                let accepted = "gigabits of a chip: 1, 2, 4, 8, 16, 32 or 64";
                Some(found.ok_or_else(|| place.refuse("density", Some(value), accepted))?)
            }
        };
        let t_rfc = match (density, &self.t_rfc) {
            (Some(density), None) => density.t_rfc(),
            (None, Some(_)) => place.needed("t_rfc", self.t_rfc.as_ref())?,
            (_, found) => return Err(place.refuse("t_rfc", found.as_ref(), "either t_rfc or density")),
        };
        let retention = place.time("retention", self.retention.as_ref())?;
        let words = [("parallel", RankOrder::Parallel), ("serial", RankOrder::Serial)];
        Ok(Memory {
            ranks: place.needed_count("ranks", self.ranks.as_ref(), 1, RANKS_MAX)? as u32,
            density,
            t_rfc,
            retention: retention.unwrap_or(Picoseconds::from_ns(64_000_000)),
            bursts: place.word("bursts", self.bursts.as_ref(), &words)?,
            lock: place.time_or_zero("lock", self.lock.as_ref())?,
            unlock: place.time_or_zero("unlock", self.unlock.as_ref())?,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawCyclic {
    frame: Option<Value>,
    color_frame: Option<Value>,
    sharing: Option<Value>,
    slicing: Option<Value>,
    slice_cost: Option<Value>,
    copies_max: Option<Value>,
}

impl RawCyclic {
    pub(crate) fn check(&self, file: &str) -> Result<Cyclic, TaskFileError> {
        let place = Place::table(file, "cyclic");
        let copies_max = place.count("copies_max", self.copies_max.as_ref(), 0, u64::from(u32::MAX))?;
        let sharing = [("private", Sharing::Private), ("shared", Sharing::Shared)];
        let slicing = [("free", Slicing::Free), ("whole-frames", Slicing::WholeFrames)];
        Ok(Cyclic {
            frame: place.time("frame", self.frame.as_ref())?,
            color_frame: place.time("color_frame", self.color_frame.as_ref())?,
            sharing: place.word("sharing", self.sharing.as_ref(), &sharing)?,
            slicing: place.word("slicing", self.slicing.as_ref(), &slicing)?,
            slice_cost: place.time_or_zero("slice_cost", self.slice_cost.as_ref())?,
            copies_max: copies_max.map(|most| most as u32),
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawColor {
    name: Option<Value>,
    ranks: Option<Value>,
    phase: Option<Value>,
}

/// Colors of a memory, each with a name of its own. Whether each rank has one is for the analysis to ask.
pub(crate) fn colors(raw: &[RawColor], memory: Option<&Memory>, file: &str) -> Result<Vec<Color>, TaskFileError> {
    let mut colors: Vec<Color> = Vec::new();
    for (index, color) in raw.iter().enumerate() {
        let place = Place::item(file, "color", index, color.name.as_ref());
        let Some(memory) = memory else {
            return Err(place.refuse("ranks", color.ranks.as_ref(), "[memory] with the number of ranks first"));
        };
        let name = place.name("name", color.name.as_ref())?;
        if colors.iter().any(|other| other.name == name) {
            return Err(place.refuse("name", color.name.as_ref(), "a name that no other color has"));
        }
        let ranks = place.ranks("ranks", color.ranks.as_ref(), memory.ranks)?;
        colors.push(Color { name, ranks, phase: place.time_or_zero("phase", color.phase.as_ref())? });
    }
    Ok(colors)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawServer {
    name: Option<Value>,
    color: Option<Value>,
    core: Option<Value>,
    period: Option<Value>,
    budget: Option<Value>,
    kind: Option<Value>,
    scheduling: Option<Value>,
}

/// Servers, each with a name of its own and a color that exists.
pub(crate) fn servers(raw: &[RawServer], colors: &[Color], file: &str) -> Result<Vec<ServerEntry>, TaskFileError> {
    let mut servers: Vec<ServerEntry> = Vec::new();
    for (index, server) in raw.iter().enumerate() {
        let place = Place::item(file, "server", index, server.name.as_ref());
        let name = place.name("name", server.name.as_ref())?;
        if servers.iter().any(|other| other.name == name) {
            return Err(place.refuse("name", server.name.as_ref(), "a name that no other server has"));
        }
        let wanted = place.name("color", server.color.as_ref())?;
        let color = colors.iter().position(|color| color.name == wanted);
        let color =
            color.ok_or_else(|| place.refuse("color", server.color.as_ref(), "the name of a color of this file"))?;
        let inside = [
            ("edf", Inside::Edf),
            ("rm", Inside::RateMonotonic),
            ("dm", Inside::DeadlineMonotonic),
            ("fp", Inside::Given),
        ];
        let kinds = [("deferrable", Kind::Deferrable), ("idle-consuming", Kind::IdleConsuming)];
        servers.push(ServerEntry {
            name,
            color,
            core: place.count("core", server.core.as_ref(), 0, CORES_MAX - 1)?.unwrap_or(0) as u32,
            period: place.needed("period", server.period.as_ref())?,
            budget: place.needed("budget", server.budget.as_ref())?,
            kind: place.word("kind", server.kind.as_ref(), &kinds)?,
            inside: place.word("scheduling", server.scheduling.as_ref(), &inside)?,
        });
    }
    Ok(servers)
}
