//! `memtint inspect`: where the pages of a process are.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use memtint_inspect::{
    InspectError, Inspector, Others, ProcessTree, Report, SystemReport, TaskReport, Verdict, cgroup_pids,
};
use memtint_registry::{Entry, Registry};
use memtint_system::{AssignedTask, Assignment, SystemFile, Verb, left_out};

use crate::choice::ChoiceArguments;
use crate::draw::svg;
use crate::output::{Ending, Failure, Format, JsonForm, print, print_json, warn, write_file};

/// What is printed as JSON.
pub(crate) const FORMS: &[JsonForm] = &[
    JsonForm::of::<Report>("inspect"),
    JsonForm::of::<Others>("inspect-others"),
    JsonForm::of::<SystemReport>("inspect-system"),
];

/// Arguments of `memtint inspect`.
///
/// Exit status: 0 every private page is in color, or no colors were named; 1 some are not; 2 failure.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 held (or no colors named), 1 violated, 2 failure. With --others: 0 no other process has \
    private pages in the colors, 1 some have.\n\
    Example: memtint inspect --platform ./here.toml --banks 0-3 --svg pages.svg 4711"
)]
pub(crate) struct InspectArguments {
    /// Process id. Without one, --system judges all running tasks of the file.
    #[arg(value_name = "PID", required_unless_present_any = ["cgroup", "others", "system"], conflicts_with = "cgroup")]
    pid: Option<u32>,
    /// All processes of this cgroup and those below it: a directory, or a name as in /proc/PID/cgroup; version 1 or 2.
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,
    /// Take the processes that PID has started, and those that they have started, as well.
    #[arg(long, requires = "pid")]
    children: bool,
    /// List the processes of the machine that have pages in the colors, with counts.
    #[arg(long, conflicts_with_all = ["pid", "cgroup", "children", "svg"])]
    others: bool,
    /// Draw the pages by bank class and set color into this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    choice: ChoiceArguments,
}

pub(crate) fn main(arguments: &InspectArguments, format: Format) -> Ending {
    let subject = (arguments.pid, &arguments.cgroup, &arguments.choice.task);
    if let (false, (None, None, None), Some(file)) = (arguments.others, subject, &arguments.choice.system) {
        return inspect_system(arguments, file, format);
    }
    let choice = arguments.choice.resolve()?;
    // Without privileges, that is the sentence to be said.
    let inspector = Inspector::new(choice.palette.clone(), choice.selection)?;
    arguments.choice.check_machine(choice.palette.platform())?;
    if arguments.others {
        return inspect_others(&inspector, format);
    }
    let mut report = match (&arguments.cgroup, arguments.pid) {
        (Some(path), _) => inspector
            .inspect_pids(&without_memtint(cgroup_pids(path)?))?
            .ok_or_else(|| InspectError::EmptyCgroup { path: path.display().to_string() })?,
        (None, Some(pid)) if arguments.children => inspect_tree(&inspector, pid)?,
        (None, Some(pid)) => inspect_process(&inspector, pid)?,
        (None, None) => return Err(Failure::Sentence("name a process or a cgroup".to_owned())),
    };
    report.not_judged = choice.system.as_ref().map(not_judged).unwrap_or_default();
    if let Some(path) = &arguments.svg {
        write_file(path, &svg(std::slice::from_ref(&report)))?;
    }
    match format {
        Format::Json => print_json(&report)?,
        Format::Text => print(&report.to_text())?,
    }
    Ok(status(report.verdict))
}

/// Fields of a file's one task that pages do not show.
fn not_judged(file: &SystemFile) -> Vec<String> {
    let name = file.tasks.first().and_then(|task| task.name.as_ref()).map_or("", |name| name.as_str());
    let fields = left_out(file, Verb::Inspect).into_iter();
    fields.map(|field| format!("{} of task {name}", field.trim_start_matches("task."))).collect()
}

/// A process of memtint itself has pages of all colors while it looks for frames: the program is another one.
fn inspect_process(inspector: &Inspector, pid: u32) -> Result<Report, Failure> {
    if !is_memtint(pid) {
        return Ok(inspector.inspect_pid(pid)?);
    }
    let run = Registry::open().ok().and_then(|registry| registry.run_of(ProcessTree::read().ancestors(pid)));
    let advice = match run {
        Some(Entry { program, .. }) => {
            format!("the program of its run is process {}: inspect that, or --children", program.pid)
        }
        None => "no run is registered for it: inspect the program, or --children".to_owned(),
    };
    Err(Failure::Sentence(format!("process {pid} is memtint itself, not a program in color; {advice}")))
}

/// A process and all below it, as one program.
fn inspect_tree(inspector: &Inspector, pid: u32) -> Result<Report, Failure> {
    let none = || Failure::Sentence(format!("process {pid} does not exist, or nothing below it has memory"));
    inspector.inspect_pids(&without_memtint(ProcessTree::read().below(pid)))?.ok_or_else(none)
}

/// Leaves out the processes of `memtint run` itself, which are in the cgroup that it was started in: they look for frames,
/// and are no part of the task.
fn without_memtint(pids: Vec<u32>) -> Vec<u32> {
    let (memtint, others): (Vec<u32>, Vec<u32>) = pids.into_iter().partition(|&pid| is_memtint(pid));
    if !memtint.is_empty() {
        let list: Vec<String> = memtint.iter().map(ToString::to_string).collect();
        warn(&format!("not judged, being memtint itself: process {}", list.join(", ")));
    }
    others
}

/// Whether a process runs this program's file.
fn is_memtint(pid: u32) -> bool {
    let file = |path: &str| std::fs::metadata(path).map(|data| (data.dev(), data.ino())).ok();
    let here = file("/proc/self/exe");
    here.is_some() && file(&format!("/proc/{pid}/exe")) == here
}

/// The processes of the machine with pages in the colors.
fn inspect_others(inspector: &Inspector, format: Format) -> Ending {
    let mut others = inspector.others()?;
    name_runs(&mut others);
    match format {
        Format::Json => print_json(&others)?,
        Format::Text => print(&others.to_text())?,
    }
    let some = others.processes.iter().any(|process| process.private_pages > 0);
    Ok(if some { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Gives the run that a process belongs to.
fn name_runs(others: &mut Others) {
    let runs = Registry::open().map(|registry| registry.runs()).unwrap_or_default();
    let tree = ProcessTree::read();
    for process in &mut others.processes {
        let front = |pid: u32| runs.iter().any(|run| run.front.pid == pid || run.program.pid == pid).then_some(pid);
        let member = tree.ancestors(process.pid).find_map(front);
        process.run = member.and_then(|pid| {
            runs.iter().find(|run| run.front.pid == pid || run.program.pid == pid).map(|run| run.front.pid)
        });
    }
}

/// Judges the programs of all tasks of a system file whose runs are registered.
fn inspect_system(arguments: &InspectArguments, file: &Path, format: Format) -> Ending {
    let assignment = arguments.choice.assignment(file)?;
    arguments.choice.check_machine(assignment.platform())?;
    let path =
        std::fs::canonicalize(file).map_err(|cause| Failure::File { path: file.to_owned(), done: "read", cause })?;
    let registry = Registry::open().map_err(|error| Failure::Sentence(format!("the registry of runs: {error}")))?;
    let runs: Vec<Entry> =
        registry.runs().into_iter().filter(|run| run.system.as_deref() == Some(path.as_path())).collect();
    let tree = ProcessTree::read();
    let tasks = assignment
        .tasks()
        .iter()
        .map(|task| inspect_task(&assignment, task, &runs, &tree))
        .collect::<Result<Vec<_>, _>>()?;
    let Some(report) = SystemReport::new(path.display().to_string(), tasks) else {
        let names: Vec<&str> = assignment.tasks().iter().map(AssignedTask::name).collect();
        let sentence = format!("no task of system {} runs: its tasks are {}", file.display(), names.join(", "));
        return Err(Failure::Sentence(sentence));
    };
    if let Some(path) = &arguments.svg {
        let reports: Vec<Report> = report.reports().cloned().collect();
        write_file(path, &svg(&reports))?;
    }
    match format {
        Format::Json => print_json(&report)?,
        Format::Text => print(&report.to_text())?,
    }
    Ok(status(Some(report.verdict())))
}

fn inspect_task(
    assignment: &Assignment,
    task: &AssignedTask,
    runs: &[Entry],
    tree: &ProcessTree,
) -> Result<TaskReport, Failure> {
    let runs: Vec<&Entry> = runs.iter().filter(|run| run.task.as_deref() == Some(task.name())).collect();
    let id = assignment.platform().id();
    if let Some(run) = runs.iter().find(|run| run.platform != id) {
        return Err(Failure::Sentence(format!(
            "task {:?} runs on platform {:?}, and colors of platform {id:?} mean something else; accepted is the platform of the run \
             (--platform)",
            task.name(),
            run.platform
        )));
    }
    let programs: Vec<u32> = runs.iter().map(|run| run.program.pid).collect();
    let mut pids: Vec<u32> = programs.iter().flat_map(|&program| tree.below(program)).collect();
    pids.sort_unstable();
    pids.dedup();
    let inspector = Inspector::new(assignment.palette().clone(), Some(task.selection().clone()))?;
    let pids: Vec<u32> = pids.into_iter().filter(|&pid| !is_memtint(pid)).collect();
    let mut report = inspector.inspect_pids(&pids)?;
    report.iter_mut().for_each(|report| report.not_judged = not_judged(&assignment.file().with_task(task.name())));
    Ok(TaskReport::new(task.name(), programs, report))
}

fn status(verdict: Option<Verdict>) -> ExitCode {
    match verdict {
        Some(Verdict::Violated) => ExitCode::from(1),
        Some(Verdict::Held) | None => ExitCode::SUCCESS,
    }
}
