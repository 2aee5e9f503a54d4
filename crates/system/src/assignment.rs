//! The assignment of a system: the colors, cores and budgets of each task on its platform.

use std::path::Path;

use memtint_map::{Granule, Palette, Platform, Selection};
use memtint_units::{IndexList, IndexSet};

use crate::error::SystemError;
use crate::file::{BandwidthEntry, Mode, SystemFile, TaskEntry};
use crate::place::Place;
use crate::select::select;

/// Linux on x86-64 can be built for this many CPUs at most (`NR_CPUS`).
const CORES_MAX: u32 = 8192;

/// An assignment in which every color exists on the platform, and no two tasks share colors unless both allow it.
#[derive(Debug)]
pub struct Assignment {
    name: String,
    file: SystemFile,
    platform_spec: String,
    platform: Platform,
    palette: Palette,
    tasks: Vec<AssignedTask>,
}

/// The assignment of one task.
#[derive(Clone, Debug)]
pub struct AssignedTask {
    name: String,
    command: Vec<String>,
    selection: Selection,
    cores: Option<Vec<u32>>,
    mode: Mode,
    shared: bool,
    bandwidth: Option<BandwidthEntry>,
    refresh: Option<IndexList>,
}

impl Assignment {
    /// Reads and checks a file; a platform file is found beside it.
    ///
    /// # Errors
    ///
    /// Any [`SystemError`].
    pub fn load(path: &Path) -> Result<Self, SystemError> {
        Self::of(&SystemFile::load(path)?, &format!("{path:?}"), path.parent().unwrap_or(Path::new("")))
    }

    /// Reads and checks a text; `name` is its name in messages, and a platform file is relative to the current
    /// directory.
    ///
    /// # Errors
    ///
    /// Any [`SystemError`] but [`SystemError::Read`].
    pub fn parse(text: &str, name: &str) -> Result<Self, SystemError> {
        Self::of(&SystemFile::parse(text, name)?, name, Path::new(""))
    }

    /// Checks the assignment of a system; a platform file is relative to `directory`.
    ///
    /// # Errors
    ///
    /// [`SystemError::Missing`] without platform or tasks, [`SystemError::Value`] for a field of a task, and `Platform`, `Palette`,
    /// `Selection` or `Overlap`. Quadratic in the number of tasks.
    pub fn of(file: &SystemFile, name: &str, directory: &Path) -> Result<Self, SystemError> {
        let place = Place::new(name);
        place.need(&[
            ("platform", file.platform.is_some(), "a name of the catalogue, or a platform file"),
            ("task", !file.tasks.is_empty(), "one or more tables [[task]]"),
        ])?;
        let spec = file.platform.as_ref().map_or("", crate::Text::as_str);
        let platform = Platform::load(&beside(directory, spec))
            .map_err(|cause| SystemError::Platform { file: name.to_owned(), cause: Box::new(cause) })?;
        let palette = Palette::new(&platform, file.granule.unwrap_or_default())
            .map_err(|cause| SystemError::Palette { file: name.to_owned(), cause: Box::new(cause) })?;
        let tasks = file.tasks.iter().map(|entry| AssignedTask::of(entry, &palette, name)).collect::<Result<_, _>>()?;
        let assignment = Self {
            name: name.to_owned(),
            file: file.clone(),
            platform_spec: spec.to_owned(),
            platform,
            palette,
            tasks,
        };
        assignment.refuse_overlaps()?;
        Ok(assignment)
    }

    /// The platform.
    pub fn platform(&self) -> &Platform {
        &self.platform
    }

    /// The file that it is of.
    pub fn file(&self) -> &SystemFile {
        &self.file
    }

    /// The platform as the file names it: catalogue name, or path relative to the file.
    pub fn platform_spec(&self) -> &str {
        &self.platform_spec
    }

    /// The platform's colors at this granule.
    pub fn palette(&self) -> &Palette {
        &self.palette
    }

    /// The block that is colored as a unit.
    pub fn granule(&self) -> Granule {
        self.palette.granule()
    }

    /// All tasks, in the order of the file; at least one.
    pub fn tasks(&self) -> &[AssignedTask] {
        &self.tasks
    }

    /// The task of this name.
    ///
    /// # Errors
    ///
    /// [`SystemError::NoSuchTask`], which lists the names there are.
    pub fn task(&self, name: &str) -> Result<&AssignedTask, SystemError> {
        self.tasks.iter().find(|task| task.name == name).ok_or_else(|| SystemError::NoSuchTask {
            file: self.name.clone(),
            name: name.to_owned(),
            known: self.tasks.iter().map(|task| format!("{:?}", task.name)).collect::<Vec<_>>().join(", "),
        })
    }

    fn refuse_overlaps(&self) -> Result<(), SystemError> {
        for (index, second) in self.tasks.iter().enumerate() {
            for first in &self.tasks[..index] {
                if first.shared && second.shared {
                    continue;
                }
                if let Some(colors) = colors_in_common(&first.selection, &second.selection) {
                    return Err(SystemError::Overlap {
                        file: self.name.clone(),
                        first: first.name.clone(),
                        second: second.name.clone(),
                        colors,
                    });
                }
            }
        }
        Ok(())
    }
}

impl AssignedTask {
    fn of(entry: &TaskEntry, palette: &Palette, file: &str) -> Result<Self, SystemError> {
        let name = entry.checked_name(&Place::new(file))?;
        let place = Place::new(file).item("task", 0, Some(name));
        let refuse =
            |cause| SystemError::Selection { file: file.to_owned(), task: name.to_owned(), cause: Box::new(cause) };
        let selection =
            select(palette, entry.banks.as_ref(), entry.sets.as_ref(), entry.node.as_ref()).map_err(refuse)?;
        // Finds colors that do not exist, or not together.
        selection.compile(palette).map_err(refuse)?;
        plain(&place, "refresh", entry.refresh.as_ref())?;
        if let Some(bandwidth) = entry.bandwidth {
            if bandwidth.budget.bytes() == 0 {
                return Err(place.refuse("bandwidth.budget", Some(&0), "a size above 0, such as \"1 MiB\""));
            }
            if bandwidth.period.0.0 == 0 {
                return Err(place.refuse_text("bandwidth.period", "0 ps", "a time above 0, such as \"1 ms\""));
            }
        }
        Ok(Self {
            name: name.to_owned(),
            command: entry.command.clone(),
            selection,
            cores: plain(&place, "cores", entry.cores.as_ref())?,
            mode: entry.mode.unwrap_or_default(),
            shared: entry.shared.unwrap_or(false),
            bandwidth: entry.bandwidth,
            refresh: entry.refresh.clone(),
        })
    }

    /// Unique name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its program with arguments; empty when the file gives none.
    pub fn command(&self) -> &[String] {
        &self.command
    }

    /// The colors the task's pages may have.
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Linux CPU numbers the task may run on, ascending; `None` when it may run anywhere.
    pub fn cores(&self) -> Option<&[u32]> {
        self.cores.as_deref()
    }

    /// What happens to an allocation that cannot be honored.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether the task may have colors in common with others that say so too.
    pub fn shared(&self) -> bool {
        self.shared
    }

    /// Bandwidth budget.
    pub fn bandwidth(&self) -> Option<BandwidthEntry> {
        self.bandwidth
    }

    /// Refresh partitions; not enforced by this version.
    pub fn refresh(&self) -> Option<&IndexList> {
        self.refresh.as_ref()
    }
}

/// Describes the colors that programs in two selections contend for; `None` when the selections are disjoint.
///
/// Programs on different nodes contend for neither banks nor sets. A dimension that neither names is not partitioned
/// between them, so it is no conflict, unless they name nothing at all and thus share everything. Both must be of one
/// palette.
pub fn colors_in_common(mine: &Selection, others: &Selection) -> Option<String> {
    if common(mine.node.as_ref(), others.node.as_ref()).is_some_and(|nodes| nodes.is_empty()) {
        return None;
    }
    let banks = common(mine.banks.as_ref(), others.banks.as_ref());
    let sets = common(mine.sets.as_ref(), others.sets.as_ref());
    match (&banks, &sets) {
        (None, None) => Some("every bank class and set color".to_owned()),
        (Some(banks), _) if !banks.is_empty() => Some(format!("bank classes {banks}")),
        (_, Some(sets)) if !sets.is_empty() => Some(format!("set colors {sets}")),
        _ => None,
    }
}

/// The intersection of two selections in a dimension; `None` when neither restricts it.
fn common(a: Option<&IndexSet>, b: Option<&IndexSet>) -> Option<IndexSet> {
    match (a, b) {
        (None, None) => None,
        (Some(only), None) | (None, Some(only)) => Some(only.clone()),
        (Some(a), Some(b)) => Some(a.intersection(b)),
    }
}

/// The indices of a list that must be plain, because a file does not contain the number of cores or partitions.
fn plain(place: &Place, field: &str, list: Option<&IndexList>) -> Result<Option<Vec<u32>>, SystemError> {
    const PLAIN: &str = "a plain list such as 0-3,8, of numbers below 8192";
    match list {
        None => Ok(None),
        Some(IndexList::Only(ranges)) if ranges.last().is_some_and(|&(_, last)| last < CORES_MAX) => {
            Ok(Some(ranges.iter().flat_map(|&(first, last)| first..=last).collect()))
        }
        Some(other) => Err(place.refuse_text(field, &other.to_string(), PLAIN)),
    }
}

/// The path of a platform file, which is relative to a directory; a name of the catalogue as it is.
fn beside(directory: &Path, platform: &str) -> String {
    let is_file = platform.contains('/') || platform.ends_with(".toml");
    match is_file && directory != Path::new("") {
        true => directory.join(platform).display().to_string(),
        false => platform.to_owned(),
    }
}
