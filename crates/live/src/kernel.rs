//! The kernel backend: Linux itself enforces a program's colors, if it has the series of `kernel/`.
//!
//! ```text
//! front     loads the mapping if there is none, waits for the program, reads the counters
//! program   takes the colors between fork and exec: by a cgroup of version 2 made for it, or else by a private
//!           policy; its children inherit them
//! keeper    with a policy only: shares it, since only its holders can read its counters, and ends with the run
//! ```
//!
//! The mapping applies to the whole machine. A loaded mapping is never replaced. A run unloads the mapping that it has
//! loaded at its end, unless colors are in use then.

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

/// The colors to request from the kernel.
#[derive(Clone, Debug)]
pub struct KernelOptions {
    /// Where.
    pub floor: KernelFloor,
    /// The platform's id, for messages.
    pub platform: String,
    /// Accepted mappings, at least one: in each, the colors below have the same numbers. The first one is loaded if the
    /// kernel has none.
    pub mappings: Vec<String>,
    /// Bank classes in the kernel's list syntax; `None` = any.
    pub banks: Option<String>,
    /// Set colors in the kernel's list syntax; `None` = any.
    pub sets: Option<String>,
}

impl KernelOptions {
    /// The writes of a run with these colors.
    pub(crate) fn writes(&self) -> Vec<String> {
        let folder = self.floor.folder.display();
        let mut writes =
            vec![format!("{folder}/map: the mapping of {}, until the run ends, unless one is loaded", self.platform)];
        let policy = format!("{folder}/task: a private policy for the program");
        writes.push(match &self.floor.group {
            Some(group) => format!(
                "{}/memtint-PID: a cgroup for the program, with its colors in memory.colors.*; or else {policy}",
                group.display()
            ),
            None => policy,
        });
        writes
    }

    /// Checks that the lists are short enough for a policy. A cgroup, if one can be made, takes longer ones.
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

    /// Gives the reason why this process cannot use it; `None` if it can.
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

/// How the program gets its colors.
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
    // From here on there is cleanup to do: no signal may end this process before it.
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

/// Starts the program. The turn prevents other runs from loading or unloading a mapping until the program has its
/// colors, which keep the mapping loaded.
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
        // A process is in one cgroup: a run with a given cgroup makes no other.
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
            // The cgroup has kept its mapping in use since it was made.
            Means::Group(group) => Kept::Group(group),
            Means::Policy { keeper, socket, .. } => {
                drop(socket);
                Kept::Policy(Keeper::hear(keeper))
            }
        }
    }
}

/// The source of the counters at the end of a run.
enum Kept {
    Group(Group),
    /// `None`: the program did not reach its policy.
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

/// Reads lines `NAME COUNT`, and ignores others before them. `None` if a counter is missing that every kernel with the
/// series has.
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

/// Explains why the kernel refused a text.
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
