//! Which platform, and which of its colors: the options that several verbs share.

use std::path::{Path, PathBuf};

use memtint_detect::{Fit, Machine};
use memtint_map::{Granule, Palette, Platform, Selection};
use memtint_system::{AssignedTask, Assignment, SystemFile, Text, select};
use memtint_units::IndexList;

use crate::output::{Failure, detail, warn};
use crate::relative;

/// The platform file of a machine that has one.
const INSTALLED: &str = "/etc/memtint/platform.toml";

/// The platform where no option names one: that of the environment, or else the installed one.
pub(crate) fn default_platform() -> Option<String> {
    let environment = || std::env::var("MEMTINT_PLATFORM").ok().filter(|spec| !spec.is_empty());
    let installed = || Path::new(INSTALLED).exists().then(|| INSTALLED.to_owned());
    environment().or_else(installed)
}

/// Options that choose a platform and colors.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Colors")]
pub(crate) struct ChoiceArguments {
    /// Platform: a name of the catalogue, or a file (a path with a slash or ending in .toml).
    ///
    /// Default: that of the system file, where there is one; else what the environment variable MEMTINT_PLATFORM names, or else the
    /// file /etc/memtint/platform.toml.
    #[arg(short, long, value_name = "PLATFORM")]
    pub(crate) platform: Option<String>,
    /// Bank classes, for instance 0-3,8 or !0-1 or all (see memtint palette); default: any.
    #[arg(long, value_name = "CLASSES")]
    pub(crate) banks: Option<IndexList>,
    /// Set colors of the last-level cache, in the same syntax; default: any.
    #[arg(long, value_name = "COLORS")]
    pub(crate) sets: Option<IndexList>,
    /// NUMA nodes, in the same syntax; +0-1 are the first two that the caller may use. Default: any.
    #[arg(long, value_name = "NODES", value_parser = relative::nodes)]
    pub(crate) node: Option<IndexList>,
    /// Block that is colored as a unit, from 4K to 2M; classes and colors are numbered at this granule. Default: 4K.
    #[arg(long, value_name = "SIZE")]
    pub(crate) granule: Option<Granule>,
    /// System file that names the platform and the colors of each task; --task names one (memtint system check shows what is used).
    ///
    /// With --platform, its classes and colors are those of that platform: for a file that was written for another machine.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["banks", "sets", "node", "granule"])]
    pub(crate) system: Option<PathBuf>,
    /// Task of the system file.
    #[arg(long, value_name = "NAME", requires = "system")]
    pub(crate) task: Option<String>,
    /// Go on with a platform that contradicts this machine: another vendor or family, more or less memory.
    #[arg(long)]
    pub(crate) platform_assumed: bool,
}

/// What the options mean.
#[derive(Debug)]
pub(crate) struct Choice {
    /// The platform's colors.
    pub(crate) palette: Palette,
    /// The colors chosen; `None` when no option speaks of colors.
    pub(crate) selection: Option<Selection>,
    /// The task, when a system file was given.
    pub(crate) task: Option<AssignedTask>,
    /// Of that file, this task alone.
    pub(crate) system: Option<SystemFile>,
}

impl ChoiceArguments {
    /// Loads what is named and checks that the colors exist.
    pub(crate) fn resolve(&self) -> Result<Choice, Failure> {
        if let Some(path) = &self.system {
            let Some(task) = &self.task else {
                return Err(Failure::Sentence(
                    "--system: no task is named, accepted is --task with one of its names".to_owned(),
                ));
            };
            let assignment = self.assignment(path)?;
            let task = assignment.task(task)?.clone();
            let (palette, selection) = (assignment.palette().clone(), Some(task.selection().clone()));
            let system = assignment.file().with_task(task.name());
            detail(|| format!("task {} of {path:?}, platform {}", task.name(), palette.platform().id()));
            return Ok(Choice { palette, selection, task: Some(task), system: Some(system) });
        }
        let spec = self.platform_spec()?;
        let platform = Platform::load(&spec)?;
        detail(|| format!("platform {} from {spec:?}", platform.id()));
        let palette = Palette::new(&platform, self.granule.unwrap_or_default())?;
        let named = self.banks.is_some() || self.sets.is_some() || self.node.is_some();
        let selection = match named {
            true => Some(select(&palette, self.banks.as_ref(), self.sets.as_ref(), self.node.as_ref())?),
            false => None,
        };
        if let Some(selection) = &selection {
            selection.compile(&palette)?;
        }
        Ok(Choice { palette, selection, task: None, system: None })
    }

    /// The assignment of a system file, on the platform of --platform where that is given.
    pub(crate) fn assignment(&self, path: &Path) -> Result<Assignment, Failure> {
        let Some(platform) = &self.platform else { return Ok(Assignment::load(path)?) };
        let file = SystemFile { platform: Some(Text::new(platform)), ..SystemFile::load(path)? };
        // Unlike one that the file names, it is not relative to the file.
        Ok(Assignment::of(&file, &format!("{path:?}"), Path::new(""))?)
    }

    /// Compares a platform with this machine, and warns of assumptions in one line on standard error.
    ///
    /// # Errors
    /// A platform that contradicts this machine, unless --platform-assumed is given.
    pub(crate) fn check_machine(&self, platform: &Platform) -> Result<Fit, Failure> {
        let fit = Fit::of(&Machine::read_identity(), platform);
        let id = platform.id();
        let contradictions = fit.contradictions.join("; ");
        if !contradictions.is_empty() && !self.platform_assumed {
            return Err(Failure::Sentence(format!(
                "platform {id:?} is not this machine's: {contradictions}; accepted is a platform of this machine (memtint \
                 platform detect), or --platform-assumed to go on all the same"
            )));
        }
        let contradiction = (!contradictions.is_empty()).then(|| format!("not this machine's ({contradictions})"));
        let parts: Vec<String> = contradiction.into_iter().chain(fit.doubts()).collect();
        if !parts.is_empty() {
            warn(&format!("platform {id}: {}", parts.join("; ")));
        }
        Ok(fit)
    }

    fn platform_spec(&self) -> Result<String, Failure> {
        self.platform.clone().or_else(default_platform).ok_or_else(|| {
            Failure::Sentence(format!(
                "no platform is named: say --platform PLATFORM, set MEMTINT_PLATFORM, or write {INSTALLED}; memtint platform \
                 list names the catalogue, memtint platform detect describes this machine"
            ))
        })
    }
}
