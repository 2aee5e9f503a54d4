//! The registry of runs: which programs have which colors now.
//!
//! One file for each run, in a directory that only root can enter, so no other user can forge an entry. A file names
//! the process that began the run, by number and start time. The next reader removes the files of processes that have
//! ended.
//!
//! Types to know: an [`Entry`] describes a run; [`Registry::enter`] registers it as long as [`Registered`] lives. The regulator keeps its
//! status in the same directory; both name processes by [`ProcessId`].

mod process;

pub use process::ProcessId;

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use memtint_map::Selection;
use memtint_units::IndexSet;
use serde::{Deserialize, Serialize};

/// The default directory; [`ELSEWHERE`] overrides it.
const DIRECTORY: &str = "/run/memtint";
/// Environment variable that names another directory, in which only root can write either.
const ELSEWHERE: &str = "MEMTINT_REGISTRY";
/// Larger files are ignored: no run writes one.
const FILE_BYTES_MAX: u64 = 1 << 20;
const SCHEMA: u32 = 1;

/// A run and its colors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    schema: u32,
    /// The namespace in which the process ids are valid.
    pid_namespace: String,
    /// The process that the user started.
    pub front: ProcessId,
    /// The program.
    pub program: ProcessId,
    /// Its command line.
    pub command: Vec<String>,
    /// Id of the platform.
    pub platform: String,
    /// Block that is colored as a unit.
    pub granule_bytes: u64,
    banks: Option<String>,
    sets: Option<String>,
    nodes: Option<String>,
    /// The system file, with links resolved, if there is one.
    pub system: Option<PathBuf>,
    /// Its task in that file.
    pub task: Option<String>,
    /// The system file allows other tasks in the same colors.
    shared: bool,
}

/// The colors of a run, for its entry.
pub struct Colors<'a> {
    /// Id of the platform.
    pub platform: &'a str,
    /// Block that is colored as a unit.
    pub granule_bytes: u64,
    /// The colors.
    pub selection: &'a Selection,
    /// System file and task.
    pub system: Option<(&'a Path, &'a str)>,
    /// The system file allows other tasks in the same colors.
    pub shared: bool,
}

impl Entry {
    /// Makes the entry of this process, which has started `program`; `None` when that has ended already.
    pub fn new(program: u32, command: Vec<String>, colors: &Colors<'_>) -> Option<Entry> {
        let text = |set: &Option<IndexSet>| set.as_ref().map(ToString::to_string);
        let Selection { banks, sets, node } = colors.selection;
        let system = colors.system.map(|(file, _)| std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned()));
        Some(Entry {
            schema: SCHEMA,
            pid_namespace: pid_namespace(),
            front: ProcessId::of(std::process::id())?,
            program: ProcessId::of(program)?,
            command,
            platform: colors.platform.to_owned(),
            granule_bytes: colors.granule_bytes,
            banks: text(banks),
            sets: text(sets),
            nodes: text(node),
            system,
            task: colors.system.map(|(_, task)| task.to_owned()),
            shared: colors.shared,
        })
    }

    /// Describes the colors that both runs use although no system file shares them; `None` if there are none.
    fn conflict(&self, other: &Entry) -> Option<String> {
        let one_system = self.system.is_some() && self.system == other.system && self.task != other.task;
        if one_system && self.shared && other.shared {
            return None;
        }
        let command = other.command.first().map_or("", String::as_str);
        let run = format!("the run of process {} ({command})", other.front.pid);
        if (&self.platform, self.granule_bytes) != (&other.platform, other.granule_bytes) {
            return Some(format!(
                "{run} uses platform {:?} at a granule of {} KiB: whether it shares colors with this run is not known",
                other.platform,
                other.granule_bytes >> 10
            ));
        }
        let colors = memtint_system::colors_in_common(&self.selection()?, &other.selection()?)?;
        Some(format!("{run} uses {colors}, too: only tasks of one system file may, with shared = true in both"))
    }

    /// Gives the colors; `None` if a list is malformed.
    pub fn selection(&self) -> Option<Selection> {
        let set = |text: &Option<String>| match text {
            Some(text) => IndexSet::parse(text, u32::MAX).ok().map(Some),
            None => Some(None),
        };
        Some(Selection { banks: set(&self.banks)?, sets: set(&self.sets)?, node: set(&self.nodes)? })
    }

    fn file_name(&self) -> String {
        format!("{}-{}.json", self.front.pid, self.front.start)
    }
}

/// The directory.
pub struct Registry(PathBuf);

impl Registry {
    /// Where the registry is.
    pub fn place() -> PathBuf {
        let directory = std::env::var_os(ELSEWHERE).filter(|place| !place.is_empty());
        PathBuf::from(directory.unwrap_or_else(|| DIRECTORY.into()))
    }

    /// Opens the registry, and creates it if it does not exist.
    ///
    /// # Errors
    /// A directory that users other than the caller could have written to, or a caller other than root.
    pub fn open() -> io::Result<Registry> {
        Registry::at(Registry::place())
    }

    fn at(directory: PathBuf) -> io::Result<Registry> {
        let fault = |error: io::Error| io::Error::other(format!("{}: {error}", directory.display()));
        if let Some(parent) = directory.parent() {
            std::fs::create_dir_all(parent).map_err(fault)?;
        }
        match DirBuilder::new().mode(0o700).create(&directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(fault(error)),
            _ => {}
        }
        // Do not follow a link: its target may belong to any user.
        let found = std::fs::symlink_metadata(&directory).map_err(fault)?;
        // SAFETY: takes nothing.
        let user = unsafe { libc::geteuid() };
        if !found.is_dir() || found.uid() != user || found.mode() & 0o077 != 0 {
            let (kind, mode, owner) =
                (if found.is_dir() { "directory" } else { "file" }, found.mode() & 0o7777, found.uid());
            let error = format!(
                "it is a {kind} of user {owner} with mode {mode:o}, accepted is a directory of user {user} with mode 700"
            );
            return Err(fault(io::Error::other(error)));
        }
        Ok(Registry(directory))
    }

    /// Gives the active runs, by the process that began them; removes the files of all others.
    pub fn runs(&self) -> Vec<Entry> {
        let files = std::fs::read_dir(&self.0).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut runs: Vec<Entry> = files.filter_map(|file| alive(&file)).collect();
        runs.sort_by_key(|run| run.front.pid);
        runs
    }

    /// Gives the run that a process belongs to; `ancestors` starts with the process itself.
    pub fn run_of(&self, mut ancestors: impl Iterator<Item = u32>) -> Option<Entry> {
        let runs = self.runs();
        ancestors.find_map(|pid| runs.iter().find(|run| run.front.pid == pid)).cloned()
    }

    /// Enters a run; returns a line for each other run that shares its colors.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn enter(&self, entry: &Entry) -> io::Result<(Registered, Vec<String>)> {
        let (file, beside) = (self.0.join(entry.file_name()), self.0.join(format!(".{}", entry.file_name())));
        let text = serde_json::to_string_pretty(entry).expect("an entry is plain data");
        // A file left by a killed run belongs to no running process.
        let _ = std::fs::remove_file(&beside);
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?.write_all(text.as_bytes())?;
        std::fs::rename(&beside, &file)?;
        // Read only after the rename: of two runs that start at the same time, at least one sees the other.
        let others = self.runs();
        let others = others.iter().filter(|other| other.front != entry.front);
        Ok((Registered(file), others.filter_map(|other| entry.conflict(other)).collect()))
    }
}

/// The file of a run; dropping it removes the file.
pub struct Registered(PathBuf);

impl Drop for Registered {
    fn drop(&mut self) {
        // The next reader removes what stays.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The run that a file describes, if it is active; removes the file otherwise.
fn alive(file: &Path) -> Option<Entry> {
    if file.extension()? != "json" {
        return None;
    }
    let mut text = String::new();
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(file).ok()?;
    opened.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
    let entry: Entry = serde_json::from_str(&text).ok()?;
    if entry.schema != SCHEMA || entry.pid_namespace != pid_namespace() {
        return None;
    }
    if !entry.front.is_alive() {
        let _ = std::fs::remove_file(file);
        return None;
    }
    Some(entry)
}

fn pid_namespace() -> String {
    std::fs::read_link("/proc/self/ns/pid").map_or(String::new(), |link| link.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    /// A registry that only this test uses.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Place {
            let place = std::env::temp_dir().join(format!("memtint-registry-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&place);
            Place(place)
        }

        fn files(&self) -> usize {
            std::fs::read_dir(&self.0).unwrap().count()
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn entry(banks: &str, plan: Option<(&str, bool)>) -> Entry {
        let selection = Selection { banks: Some(IndexSet::parse(banks, 16).unwrap()), ..Selection::default() };
        let colors = Colors {
            platform: "p",
            granule_bytes: 4096,
            selection: &selection,
            system: plan.map(|(task, _)| (Path::new("/no/such/system.toml"), task)),
            shared: plan.is_some_and(|(_, shared)| shared),
        };
        Entry::new(std::process::id(), vec!["sort".to_owned()], &colors).unwrap()
    }

    /// The same run, begun by the parent of this process.
    fn of_parent(entry: Entry) -> Entry {
        // SAFETY: takes nothing.
        let parent = unsafe { libc::getppid() };
        Entry { front: ProcessId::of(parent as u32).unwrap(), ..entry }
    }

    #[test]
    fn runs_that_share_colors_are_told_of_each_other() {
        let place = Place::new("overlap");
        let registry = Registry::at(place.0.clone()).unwrap();
        let (first, alone) = registry.enter(&of_parent(entry("0-3", None))).unwrap();
        assert_eq!(alone, [""; 0]);
        let told = |entry: &Entry| registry.enter(entry).unwrap().1;
        assert_eq!(told(&entry("4-7", None)), [""; 0]);
        let lines = told(&entry("2-5", None));
        assert!(
            lines.len() == 1 && lines[0].contains("bank classes 2-3, too") && lines[0].contains("(sort)"),
            "{lines:?}"
        );
        let other = Entry { platform: "q".to_owned(), ..entry("4-7", None) };
        assert!(told(&other)[0].contains("not known"));
        drop(first);
        assert_eq!(told(&entry("2-5", None)), [""; 0]);
        assert_eq!(place.files(), 0);
    }

    #[test]
    fn a_plan_allows_two_tasks_that_both_share() {
        let place = Place::new("plan");
        let registry = Registry::at(place.0.clone()).unwrap();
        let _first = registry.enter(&of_parent(entry("0-3", Some(("a", true))))).unwrap();
        let told = |task: &str, shared| registry.enter(&entry("0-3", Some((task, shared)))).unwrap().1.len();
        assert_eq!((told("b", true), told("b", false), told("a", true)), (0, 1, 1));
    }

    #[test]
    fn files_of_runs_that_have_ended_are_removed_and_others_are_not() {
        let place = Place::new("stale");
        let registry = Registry::at(place.0.clone()).unwrap();
        let write = |name: &str, entry: &Entry| {
            std::fs::write(place.0.join(name), serde_json::to_string(entry).unwrap()).unwrap();
        };
        let mine = entry("0", None);
        // The process number has been reused.
        write("reused.json", &Entry { front: ProcessId { start: mine.front.start + 1, ..mine.front }, ..mine.clone() });
        write("elsewhere.json", &Entry { pid_namespace: "pid:[1]".to_owned(), ..mine.clone() });
        write("mine.json", &mine);
        std::fs::write(place.0.join("nonsense.json"), "{").unwrap();
        assert_eq!(registry.runs(), [mine]);
        assert!(!place.0.join("reused.json").exists());
        assert_eq!(place.files(), 3);
    }

    #[test]
    fn a_directory_that_others_can_enter_is_refused() {
        let place = Place::new("open");
        assert!(Registry::at(place.0.clone()).is_ok());
        assert_eq!(std::fs::metadata(&place.0).unwrap().mode() & 0o777, 0o700);
        for mode in [0o755, 0o777, 0o770, 0o701] {
            std::fs::set_permissions(&place.0, std::fs::Permissions::from_mode(mode)).unwrap();
            let error = Registry::at(place.0.clone()).err().unwrap().to_string();
            assert!(error.contains(&format!("mode {mode:o}")) && error.contains("accepted is"), "{error}");
        }
        std::fs::set_permissions(&place.0, std::fs::Permissions::from_mode(0o700)).unwrap();
        let link = Place::new("link");
        std::os::unix::fs::symlink(&place.0, &link.0).unwrap();
        assert!(Registry::at(link.0.clone()).is_err());
        std::fs::remove_file(&link.0).unwrap();
    }
}
