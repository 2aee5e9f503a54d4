//! The kernel floor: Linux itself keeps a program in its colors, where it has the series of `kernel/`.
//!
//! ```text
//! front     loads the mapping if there is none, waits for the program, reads what was counted
//! program   takes the colors between fork and exec: by a cgroup of version 2 that was made for it, or else by its own
//!           policy; what it starts keeps them
//! keeper    only with a policy: shares it, because its counters can be read by who has it, and goes with it
//! ```
//!
//! The mapping is that of the whole machine. One that is loaded is never replaced; one that a run has loaded it unloads
//! again at its end, unless somebody has colors then.

mod group;
mod mapping;
mod policy;

use crate::front::{self, Identity, RunOptions, RunStatus, Watch};
use crate::report::{FloorName, KernelReport, RunReport};
use crate::sys::{self, Pid};
use crate::{FrameChoice, RunError};
use group::Group;
use policy::Keeper;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Where the kernel's files are.
#[derive(Clone, Debug)]
pub struct KernelFloor {
    /// memtint's folder in debugfs.
    folder: PathBuf,
    /// The cgroup of version 2 that this process is in.
    group: Option<PathBuf>,
}

/// What to ask the kernel for.
#[derive(Clone, Debug)]
pub struct KernelOptions {
    /// Where.
    pub floor: KernelFloor,
    /// The platform's id, for messages.
    pub platform: String,
    /// Mapping objects in which the colors below have the numbers that are meant, at least one. The first one is loaded
    /// when the kernel has none.
    pub mappings: Vec<String>,
    /// Bank classes in the kernel's list syntax; `None` = any.
    pub banks: Option<String>,
    /// Set colors in the kernel's list syntax; `None` = any.
    pub sets: Option<String>,
}

impl KernelOptions {
    /// Tells whether the lists are short enough for a policy. A cgroup, where there can be one, takes longer ones.
    ///
    /// # Errors
    ///
    /// [`RunError::ListTooLong`].
    pub fn check_length(&self) -> Result<(), RunError> {
        policy::text(self, true).map(drop)
    }
}

impl KernelFloor {
    /// Where Linux has these files.
    #[must_use]
    pub fn of_this_machine() -> KernelFloor {
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let path = own.lines().find_map(|line| line.strip_prefix("0::/"));
        let group = path.map(|path| Path::new("/sys/fs/cgroup").join(path));
        KernelFloor::at("/sys/kernel/debug/memtint".into(), group)
    }

    /// In these folders: memtint's in debugfs, and the cgroup of version 2 that this process is in, if there is one.
    #[must_use]
    pub fn at(folder: PathBuf, group: Option<PathBuf>) -> KernelFloor {
        KernelFloor { folder, group }
    }

    /// Tells why this process cannot use it; `None` when it can.
    #[must_use]
    pub fn absence(&self) -> Option<String> {
        let map = self.file("map");
        let error = File::options().read(true).write(true).open(&map).err()?;
        Some(match error.kind() {
            io::ErrorKind::NotFound => {
                format!(
                    "{} does not exist: debugfs is not mounted, or this kernel is without the series",
                    map.display()
                )
            }
            _ => format!("{}: {error}", map.display()),
        })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// How the program comes to its colors.
enum Means {
    Group(Group),
    Policy { task: PathBuf, text: String, keeper: OwnedFd, socket: OwnedFd },
}

/// Runs a program in color and waits for its end.
pub(crate) fn run(
    options: &RunOptions,
    asked: &KernelOptions,
    tell: &mut impl FnMut(&str),
) -> Result<RunStatus, RunError> {
    let identity = options.user.as_deref().map(Identity::find).transpose()?;
    front::nodes(&*options.choice)?;
    let turn = mapping::take_turn(&asked.floor)?;
    // From here on there is something to be undone: no signal ends this process before that.
    let watch = Watch::begin(None)?;
    let loaded = mapping::have(asked)?;
    let (program, kept) = match begin(options, asked, identity.as_ref(), loaded.by_us, turn, &watch, tell) {
        Ok(begun) => begun,
        Err(error) => {
            loaded.unload(tell);
            return Err(error);
        }
    };
    options.started.iter().for_each(|started| started(program));
    let end = watch.wait_for(program, options.ended.as_deref(), tell);
    let mut report = kept.report(&*options.choice, tell);
    let kernel = report.kernel.get_or_insert_default();
    kernel.mapping_loaded = loaded.by_us;
    kernel.mapping_unloaded = loaded.unload(tell);
    Ok(RunStatus { code: end.code, signal: end.signal, core_dumped: end.core_dumped, report: Some(report) })
}

/// Starts the program. Nobody else loads or unloads, which the turn sees to, until it has its colors, and with them the
/// mapping.
fn begin(
    options: &RunOptions,
    asked: &KernelOptions,
    identity: Option<&Identity>,
    loaded: bool,
    turn: File,
    watch: &Watch<'_>,
    tell: &mut impl FnMut(&str),
) -> Result<(Pid, Kept), RunError> {
    let means = Means::find(options, asked)?;
    let (words, loaded) = (means.words(), if loaded { ", mapping loaded" } else { "" });
    let mode = if options.strict { "strict" } else { "soft" };
    tell(&format!("kernel floor ({words}{loaded}): {mode}, {}", options.choice.label()));
    let program = watch.fork()?;
    if program == 0 {
        drop(turn);
        launch(options, identity, &means, watch);
    }
    Ok((program, means.begun()))
}

impl Means {
    fn find(options: &RunOptions, asked: &KernelOptions) -> Result<Means, RunError> {
        // A process is in one group: a run that is to be in another one makes none.
        if let Some(parent) = asked.floor.group.as_ref().filter(|_| options.cgroup.is_none())
            && let Some(group) = Group::below(parent, asked, options.strict)?
        {
            return Ok(Means::Group(group));
        }
        let (keeper, socket) = sys::message_pair()?;
        sys::want_credentials(&keeper)?;
        let text = policy::text(asked, options.strict)?;
        Ok(Means::Policy { task: asked.floor.file("task"), text, keeper, socket })
    }

    fn words(&self) -> &'static str {
        match self {
            Means::Group(_) => "cgroup",
            Means::Policy { .. } => "policy",
        }
    }

    /// In the process that becomes the program: takes the colors.
    fn take(&self) -> io::Result<()> {
        match self {
            Means::Group(group) => group.join(),
            Means::Policy { task, text, socket, .. } => {
                policy::take(task, text).map_err(|cause| io::Error::other(refused(task, text, cause)))?;
                policy::leave_keeper(task, socket)
            }
        }
    }

    /// In the front: waits until the program has its colors, or has failed to get them.
    fn begun(self) -> Kept {
        match self {
            // Its mapping is in use since it was made.
            Means::Group(group) => Kept::Group(group),
            Means::Policy { keeper, socket, .. } => {
                drop(socket);
                Kept::Policy(Keeper::hear(keeper))
            }
        }
    }
}

/// What the run leaves to be read at its end.
enum Kept {
    Group(Group),
    /// `None`: the program has not come as far as its policy.
    Policy(Option<Keeper>),
}

impl Kept {
    fn report(self, choice: &dyn FrameChoice, tell: &mut impl FnMut(&str)) -> RunReport {
        let (interface, counters, still_running) = match self {
            Kept::Group(group) => ("cgroup", group.counters(), group.members()),
            Kept::Policy(keeper) => ("policy", keeper.and_then(Keeper::end), None),
        };
        let mut report = RunReport { floor: FloorName::Kernel, still_running, ..RunReport::default() };
        let Some(counters) = counters else {
            report.problem("what the kernel has counted of this run is lost".to_owned(), tell);
            report.kernel = Some(KernelReport { interface: interface.to_owned(), ..KernelReport::default() });
            return report;
        };
        let count = |name: &str| counters.get(name).copied().unwrap_or(0);
        (report.pages_in_color, report.pages_out_of_color) = (count("colored"), count("fallback"));
        report.pages_refused = count("exhausted");
        if report.pages_refused > 0 {
            let (colors, ended) = (choice.label(), count("killed"));
            let what = match ended {
                0 => "calls failed".to_owned(),
                1 => "the kernel has ended a process".to_owned(),
                _ => format!("the kernel has ended processes {ended} times"),
            };
            report.problem(
                format!("no page in {colors} was left, {} refused: {what} (strict)", report.pages_refused),
                tell,
            );
        }
        report.judge();
        report.kernel = Some(KernelReport { interface: interface.to_owned(), counters, ..KernelReport::default() });
        report
    }
}

/// Reads lines `NAME COUNT`; others, which there may be in front, are passed over. `None` when one of those that every
/// kernel with the series has is missing.
fn counters(text: &str) -> Option<BTreeMap<String, u64>> {
    let line = |line: &str| {
        let (name, count) = line.split_once(' ')?;
        Some((name.to_owned(), count.parse().ok()?))
    };
    let counters: BTreeMap<String, u64> = text.lines().filter_map(line).collect();
    ["colored", "fallback", "exhausted", "killed"].iter().all(|&name| counters.contains_key(name)).then_some(counters)
}

/// Body of the process that becomes the program.
fn launch(options: &RunOptions, identity: Option<&Identity>, means: &Means, watch: &Watch<'_>) -> ! {
    front::become_program(&options.command, || {
        sys::die_with_parent();
        options.take_place()?;
        means.take()?;
        watch.leave();
        identity.map_or(Ok(()), Identity::assume)
    })
}

/// What the kernel means by not taking a text.
fn refused(file: &Path, text: &str, cause: io::Error) -> RunError {
    let meaning = match cause.raw_os_error() {
        Some(libc::EPERM) => " (the colors of this process's cgroup are others: memory.colors.effective)",
        Some(libc::EINVAL) => " (the cgroup above has none of these colors: memory.colors.effective)",
        Some(libc::ENODEV) => " (the mapping has just been unloaded)",
        _ => "",
    };
    RunError::KernelRefuses { file: file.to_owned(), text: text.to_owned(), cause, meaning }
}

#[cfg(test)]
mod tests;
