//! The plan on its platform.

use std::path::Path;

use memtint_map::{Granule, Palette, Platform, Selection};
use memtint_units::{IndexList, IndexSet};

use crate::error::PlanError;
use crate::file::{BandwidthEntry, Mode, PlanFile};
use crate::select::select;

/// A plan whose every color exists on its platform and in which no two tasks share colors unless both say so.
#[derive(Debug)]
pub struct Plan {
    origin: String,
    platform_spec: String,
    platform: Platform,
    palette: Palette,
    tasks: Vec<Task>,
}

/// What one task gets.
#[derive(Clone, Debug)]
pub struct Task {
    name: String,
    selection: Selection,
    cores: Option<Vec<u32>>,
    mode: Mode,
    shared: bool,
    bandwidth: Option<BandwidthEntry>,
    refresh: Option<IndexList>,
}

impl Plan {
    /// Reads and checks a plan file.
    ///
    /// # Errors
    ///
    /// Any [`PlanError`].
    pub fn load(path: &Path) -> Result<Self, PlanError> {
        let origin = path.display().to_string();
        let text = memtint_input::text(path, memtint_input::CONFIGURATION_BYTES_MAX)
            .map_err(|cause| PlanError::Read { file: origin.clone(), cause })?;
        Self::parse(&text, &origin)
    }

    /// Checks a plan file's text; `origin` is its path, or any name when its platform is one of the catalogue.
    ///
    /// Reads the platform file if the plan names one, relative to the directory of `origin`.
    ///
    /// # Errors
    ///
    /// Any [`PlanError`] but [`PlanError::Read`].
    pub fn parse(text: &str, origin: &str) -> Result<Self, PlanError> {
        let file = PlanFile::parse(text, origin)?;
        let platform = Platform::load(&beside(origin, &file.platform))
            .map_err(|cause| PlanError::Platform { file: origin.to_owned(), cause: Box::new(cause) })?;
        Self::resolve(&file, origin, platform)
    }

    /// Checks a plan file against a platform, whatever platform it names itself.
    ///
    /// # Errors
    ///
    /// [`PlanError::Palette`], [`PlanError::Selection`] or [`PlanError::Overlap`]. Quadratic in the number of tasks.
    pub fn resolve(file: &PlanFile, origin: &str, platform: Platform) -> Result<Self, PlanError> {
        let palette = Palette::new(&platform, file.granule)
            .map_err(|cause| PlanError::Palette { file: origin.to_owned(), cause: Box::new(cause) })?;
        let tasks = file.tasks.iter().map(|entry| Task::resolve(entry, &palette, origin)).collect::<Result<_, _>>()?;
        let plan = Self { origin: origin.to_owned(), platform_spec: file.platform.clone(), platform, palette, tasks };
        plan.refuse_overlaps()?;
        Ok(plan)
    }

    /// The platform.
    pub fn platform(&self) -> &Platform {
        &self.platform
    }

    /// The platform as the plan names it: catalogue name, or path relative to the plan file.
    pub fn platform_spec(&self) -> &str {
        &self.platform_spec
    }

    /// The platform's colors at the plan's granule.
    pub fn palette(&self) -> &Palette {
        &self.palette
    }

    /// The block that is colored as a unit.
    pub fn granule(&self) -> Granule {
        self.palette.granule()
    }

    /// All tasks, in the order of the file; at least one.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// The task of this name.
    ///
    /// # Errors
    ///
    /// [`PlanError::NoSuchTask`], which lists the names there are.
    pub fn task(&self, name: &str) -> Result<&Task, PlanError> {
        self.tasks.iter().find(|task| task.name == name).ok_or_else(|| PlanError::NoSuchTask {
            file: self.origin.clone(),
            name: name.to_owned(),
            known: self.tasks.iter().map(|task| format!("{:?}", task.name)).collect::<Vec<_>>().join(", "),
        })
    }

    fn refuse_overlaps(&self) -> Result<(), PlanError> {
        for (index, second) in self.tasks.iter().enumerate() {
            for first in &self.tasks[..index] {
                if first.shared && second.shared {
                    continue;
                }
                if let Some(colors) = colors_in_common(&first.selection, &second.selection) {
                    return Err(PlanError::Overlap {
                        file: self.origin.clone(),
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

impl Task {
    fn resolve(entry: &crate::TaskEntry, palette: &Palette, origin: &str) -> Result<Self, PlanError> {
        let refuse =
            |cause| PlanError::Selection { file: origin.to_owned(), task: entry.name.clone(), cause: Box::new(cause) };
        let selection =
            select(palette, entry.banks.as_ref(), entry.sets.as_ref(), entry.node.as_ref()).map_err(refuse)?;
        // Finds colors that do not exist, or not together.
        selection.compile(palette).map_err(refuse)?;
        let cores = entry.cores.as_ref().map(|cores| match cores {
            IndexList::Only(ranges) => ranges.iter().flat_map(|&(first, last)| first..=last).collect(),
            IndexList::All | IndexList::Except(_) => unreachable!("refused when the file was read"),
        });
        Ok(Self {
            name: entry.name.clone(),
            selection,
            cores,
            mode: entry.mode,
            shared: entry.shared,
            bandwidth: entry.bandwidth,
            refresh: entry.refresh.clone(),
        })
    }

    /// Unique name.
    pub fn name(&self) -> &str {
        &self.name
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

/// Tells what programs in two selections contend for, in words; `None` when they are apart.
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

/// What two selections have in common in a dimension; `None` when neither restricts it.
fn common(a: Option<&IndexSet>, b: Option<&IndexSet>) -> Option<IndexSet> {
    match (a, b) {
        (None, None) => None,
        (Some(only), None) | (None, Some(only)) => Some(only.clone()),
        (Some(a), Some(b)) => Some(a.intersection(b)),
    }
}

/// Where a platform given in a plan is: files are found beside the plan.
fn beside(origin: &str, platform: &str) -> String {
    let is_file = platform.contains('/') || platform.ends_with(".toml");
    match Path::new(origin).parent() {
        Some(directory) if is_file && directory != Path::new("") => directory.join(platform).display().to_string(),
        _ => platform.to_owned(),
    }
}
