//! Refresh by software: memory, cyclic executives, servers.

use memtint_hiding::crs::Kind;
use memtint_hiding::cyclic::{Sharing, Slicing};
use memtint_sched::{Density, RankOrder};
use memtint_system::{
    BurstOrder, ColorEntry, ColorSharing, Count, CyclicEntry, JobSlicing, MemoryEntry, Place, ServerEntry, ServerKind,
    ServerPolicy, SystemError, TIME, Text, Time,
};
use memtint_units::{IndexSet, Picoseconds};

use crate::tasks::or_zero;

/// Default of tRET.
const RETENTION: Picoseconds = Picoseconds::from_ns(64_000_000);

/// The memory whose refresh software schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySpec {
    /// How many ranks there are, 1 to 64.
    pub ranks: u32,
    /// Density of a chip, where the file gives that.
    pub density: Option<Density>,
    /// Time of one refresh command.
    pub t_rfc: Picoseconds,
    /// Time in which each rank must be refreshed in full.
    pub retention: Picoseconds,
    /// How the ranks of one color are refreshed.
    pub bursts: RankOrder,
    /// Time of a refresh lock task.
    pub lock: Picoseconds,
    /// Time of a refresh unlock task.
    pub unlock: Picoseconds,
}

/// A cyclic executive; fields that the file does not decide are empty.
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
    /// Cost of each slice after the first.
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

/// Order of the tasks of a server.
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
pub struct ServerSpec {
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
    /// Treatment of an unused budget.
    pub kind: Kind,
    /// How its tasks are ordered.
    pub inside: Inside,
}

impl MemorySpec {
    pub(crate) fn of(entry: &MemoryEntry, file: &Place) -> Result<MemorySpec, SystemError> {
        let place = file.table("memory");
        place.need(&[
            ("ranks", entry.ranks.is_some(), "a whole number, 1 to 64"),
            ("t_rfc", entry.t_rfc.is_some() || entry.density.is_some(), "a time, or density in gigabits of a chip"),
        ])?;
        let gigabits = |number: u64| Density::ALL.into_iter().find(|density| u64::from(density.gigabits()) == number);
        let density = match entry.density.map(Count::get) {
            None => None,
            Some(number) => {
                let accepted = "gigabits of a chip: 1, 2, 4, 8, 16, 32 or 64";
                Some(gigabits(number).ok_or_else(|| place.refuse("density", Some(&number), accepted))?)
            }
        };
        let t_rfc = match (density, entry.t_rfc) {
            (Some(density), None) => density.t_rfc(),
            (None, Some(t_rfc)) => t_rfc.0,
            (Some(_), Some(t_rfc)) => {
                return Err(place.refuse_text("t_rfc", &t_rfc.0.to_string(), "either t_rfc or density"));
            }
            (None, None) => unreachable!("one of them is needed"),
        };
        Ok(MemorySpec {
            ranks: entry.ranks.map_or(1, |ranks| ranks.get() as u32),
            density,
            t_rfc,
            retention: entry.retention.map_or(RETENTION, |time| time.0),
            bursts: match entry.bursts {
                None | Some(BurstOrder::Parallel) => RankOrder::Parallel,
                Some(BurstOrder::Serial) => RankOrder::Serial,
            },
            lock: or_zero(entry.lock),
            unlock: or_zero(entry.unlock),
        })
    }

    pub(crate) fn entry(&self) -> MemoryEntry {
        MemoryEntry {
            ranks: Some(Count::new(self.ranks.into())),
            density: self.density.map(|density| Count::new(density.gigabits().into())),
            t_rfc: self.density.is_none().then_some(Time(self.t_rfc)),
            retention: Some(Time(self.retention)),
            bursts: (self.bursts == RankOrder::Serial).then_some(BurstOrder::Serial),
            lock: above_zero(self.lock),
            unlock: above_zero(self.unlock),
        }
    }
}

fn above_zero(time: Picoseconds) -> Option<Time> {
    Some(Time(time)).filter(|time| time.0.0 > 0)
}

impl Cyclic {
    pub(crate) fn of(entry: &CyclicEntry) -> Cyclic {
        Cyclic {
            frame: entry.frame.map(|time| time.0),
            color_frame: entry.color_frame.map(|time| time.0),
            sharing: match entry.sharing {
                None | Some(ColorSharing::Private) => Sharing::Private,
                Some(ColorSharing::Shared) => Sharing::Shared,
            },
            slicing: match entry.slicing {
                None | Some(JobSlicing::Free) => Slicing::Free,
                Some(JobSlicing::WholeFrames) => Slicing::WholeFrames,
            },
            slice_cost: or_zero(entry.slice_cost),
            copies_max: entry.copies_max.map(Count::get_u32),
        }
    }

    pub(crate) fn entry(&self) -> CyclicEntry {
        CyclicEntry {
            frame: self.frame.map(Time),
            color_frame: self.color_frame.map(Time),
            sharing: (self.sharing == Sharing::Shared).then_some(ColorSharing::Shared),
            slicing: (self.slicing == Slicing::WholeFrames).then_some(JobSlicing::WholeFrames),
            slice_cost: above_zero(self.slice_cost),
            copies_max: self.copies_max.map(|most| Count::new(most.into())),
        }
    }
}

impl Color {
    pub(crate) fn entry(&self, ranks: u32) -> ColorEntry {
        let own = IndexSet::from_indices(self.ranks.iter().copied(), ranks);
        let list = own.map_or_else(|_| format!("{:?}", self.ranks), |own| own.to_string());
        ColorEntry {
            name: Some(Text::new(self.name.clone())),
            ranks: Some(Text::new(list)),
            phase: above_zero(self.phase),
        }
    }
}

impl ServerSpec {
    pub(crate) fn entry(&self, colors: &[Color]) -> ServerEntry {
        ServerEntry {
            name: Some(Text::new(self.name.clone())),
            color: Some(Text::new(colors[self.color].name.clone())),
            core: (self.core > 0).then(|| Count::new(self.core.into())),
            period: Some(Time(self.period)),
            budget: Some(Time(self.budget)),
            kind: (self.kind == Kind::IdleConsuming).then_some(ServerKind::IdleConsuming),
            scheduling: match self.inside {
                Inside::Edf => None,
                Inside::RateMonotonic => Some(ServerPolicy::Rm),
                Inside::DeadlineMonotonic => Some(ServerPolicy::Dm),
                Inside::Given => Some(ServerPolicy::Fp),
            },
        }
    }
}

/// Colors of a memory, each with a unique name. The analysis checks that each rank has one.
pub(crate) fn colors(
    entries: &[ColorEntry],
    memory: Option<&MemorySpec>,
    file: &Place,
) -> Result<Vec<Color>, SystemError> {
    let mut colors: Vec<Color> = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let place = file.item("color", index, entry.name.as_ref().map(Text::as_str));
        place.need(&[
            ("name", entry.name.is_some(), "a unique name"),
            ("ranks", entry.ranks.is_some(), "a list of ranks, such as \"0-3\""),
        ])?;
        let (name, list) = (given(entry.name.as_ref()), given(entry.ranks.as_ref()));
        let Some(memory) = memory else {
            return Err(place.refuse_text("ranks", &list, "[memory] with the number of ranks first"));
        };
        if colors.iter().any(|other| other.name == name) {
            return Err(place.refuse_text("name", &name, "a name that no other color has"));
        }
        let set = IndexSet::parse(&list, memory.ranks).ok().filter(|set| !set.is_empty());
        let accepted = format!("a list of ranks below {}, such as \"0-3\"", memory.ranks);
        let ranks = set.ok_or_else(|| place.refuse_text("ranks", &list, &accepted))?.iter().collect();
        colors.push(Color { name, ranks, phase: or_zero(entry.phase) });
    }
    Ok(colors)
}

fn given(text: Option<&Text>) -> String {
    text.map_or_else(String::new, |text| text.as_str().to_owned())
}

/// Servers, each with a unique name and a color that exists.
pub(crate) fn servers(entries: &[ServerEntry], colors: &[Color], file: &Place) -> Result<Vec<ServerSpec>, SystemError> {
    let mut servers: Vec<ServerSpec> = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let place = file.item("server", index, entry.name.as_ref().map(Text::as_str));
        place.need(&[
            ("name", entry.name.is_some(), "a unique name"),
            ("color", entry.color.is_some(), "the name of a color of this file"),
            ("period", entry.period.is_some(), TIME),
            ("budget", entry.budget.is_some(), TIME),
        ])?;
        let (name, wanted) = (given(entry.name.as_ref()), given(entry.color.as_ref()));
        if servers.iter().any(|other| other.name == name) {
            return Err(place.refuse_text("name", &name, "a name that no other server has"));
        }
        let color = colors.iter().position(|color| color.name == wanted);
        let color = color.ok_or_else(|| place.refuse_text("color", &wanted, "the name of a color of this file"))?;
        servers.push(ServerSpec {
            name,
            color,
            core: entry.core.map_or(0, |core| core.get() as u32),
            period: or_zero(entry.period),
            budget: or_zero(entry.budget),
            kind: match entry.kind {
                None | Some(ServerKind::Deferrable) => Kind::Deferrable,
                Some(ServerKind::IdleConsuming) => Kind::IdleConsuming,
            },
            inside: match entry.scheduling {
                None | Some(ServerPolicy::Edf) => Inside::Edf,
                Some(ServerPolicy::Rm) => Inside::RateMonotonic,
                Some(ServerPolicy::Dm) => Inside::DeadlineMonotonic,
                Some(ServerPolicy::Fp) => Inside::Given,
            },
        });
    }
    Ok(servers)
}
