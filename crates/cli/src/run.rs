//! `memtint run`: a program in its colors.

mod presence;
mod report;

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::PathBuf;
use std::rc::Rc;

use memtint_backend::{Frames, Preference, RuntimeOptions, choose};
use memtint_live::{Floor, FloorName, KernelFloor, RunOptions, SEARCHING};
use memtint_map::Selection;
use memtint_registry::Registry;
use memtint_system::{AssignedTask, Verb, left_out};
use memtint_units::{ByteSize, IndexList};

use self::presence::Presence;
use self::report::{Colors, DryRun, Report};
use crate::choice::{Choice, ChoiceArguments};
use crate::guard::{Member, Regulation};
use crate::output::{Ending, Failure, Format, JsonForm, WholeFile, detail, done, done_json, note, warn};
use crate::relative;

/// What is printed as JSON.
pub(crate) const FORMS: &[JsonForm] =
    &[JsonForm::of::<self::report::Report>("run"), JsonForm::of::<self::report::DryRun>("run-dry-run")];

/// Arguments of `memtint run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: that of COMMAND; 125 memtint itself failed, 126 COMMAND cannot be executed, \
    127 there is no COMMAND. Out of color and strict: SIGBUS or ENOMEM by the userspace runtime, SIGKILL (137) by the kernel; \
    125 when COMMAND could not begin in color.\n\
    Options of memtint come before COMMAND; -- separates them from a COMMAND that begins with a dash.\n\
    Example: memtint run --platform ./here.toml --banks 0-3 -- sqlite3 my.db")]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) choice: ChoiceArguments,
    /// Refuse memory rather than give a page out of color (default, unless the task is soft).
    #[arg(long, conflicts_with = "soft")]
    pub(crate) strict: bool,
    /// Give a page out of color when no other is left, and count it.
    #[arg(long)]
    pub(crate) soft: bool,
    /// What keeps the program in its colors.
    ///
    /// The kernel works with one mapping for the whole machine: that of the platform is loaded when there is none, and
    /// unloaded again at the end of the run that loaded it, unless another program has colors then. A run whose platform (or
    /// granule) differs from what is loaded fails.
    #[arg(long, value_enum, default_value_t = FloorChoice::Auto)]
    pub(crate) floor: FloorChoice,
    /// Put this much memory in place before the program begins, for instance 64M. Not on the kernel floor, where pages are
    /// in color without a stock of them.
    #[arg(long, value_name = "SIZE", default_value = "0")]
    pub(crate) prefault: ByteSize,
    /// Most memory that a search for frames holds at a time, for instance 512M; default: 10 % of the machine's.
    ///
    /// A search holds what is of the wrong color until it has enough, or else the kernel would give the same frames again.
    /// One pass looks at all free memory in blocks of 2 MiB or more, which takes next to nothing, and at smaller pieces as
    /// far as this allows; for a strict program, beyond it too, with memory that the kernel takes back first when anything
    /// else needs it. Not on the kernel floor, which does not search.
    #[arg(long, value_name = "SIZE")]
    pub(crate) search_memory: Option<ByteSize>,
    /// Go on without these fields of the task, for instance bandwidth,refresh. Otherwise a task with refresh partitions is refused, and
    /// so is a bandwidth that no memtint guard keeps. The report lists them as problems.
    #[arg(long, value_name = "FIELDS", value_enum, value_delimiter = ',', requires = "system")]
    pub(crate) ignore: Vec<TaskField>,
    /// Leave the processes that the program starts uncolored. Not on the kernel floor, where they keep the colors.
    #[arg(long)]
    pub(crate) no_children: bool,
    /// Copy every writable private file mapping up to 256 MiB into color, not only programs and libraries.
    ///
    /// A copy does not show later writes to the file. Use this for files that nothing modifies during the run, such as the JVM's
    /// class archive or a saved image. Refused on the kernel floor, which colors such pages when the program writes them.
    #[arg(long)]
    pub(crate) copy_files: bool,
    /// CPUs the program may run on, for instance 2,3; +0-1 are the first two of the caller's. Default: the task's, or the caller's.
    #[arg(short = 'C', long, value_name = "LIST", value_parser = relative::cpus)]
    pub(crate) cores: Option<IndexList>,
    /// User to run the program as; memtint keeps the privileges that the program then does not have.
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Write a JSON report of colored and uncolored memory to this file when the program has ended.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write the program's process id to this file as soon as there is one; the file is removed with the run.
    #[arg(long, value_name = "FILE")]
    pub(crate) pid_file: Option<PathBuf>,
    /// Print every write outside of the program that the run would make, and exit.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The program and its arguments; default: the command of the task.
    #[arg(value_name = "COMMAND", required_unless_present = "task", trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}

/// What keeps the program in its colors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FloorChoice {
    /// The kernel if it can (it has memtint's series, debugfs is mounted, the platform can be expressed), else the runtime.
    Auto,
    /// The kernel, or a failure with the reason.
    Kernel,
    /// memtint's runtime beside the program, on any kernel from 6.8 on. While such runs last, vm.compaction_proactiveness is 0:
    /// the kernel would move their pages together, out of color.
    User,
}

/// A field of a task that may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TaskField {
    /// Memory bandwidth budgets.
    Bandwidth,
    /// Refresh partitions.
    Refresh,
}

impl TaskField {
    /// As the system file writes it.
    fn name(self) -> &'static str {
        match self {
            TaskField::Bandwidth => "bandwidth",
            TaskField::Refresh => "refresh",
        }
    }
}

/// The options, resolved.
#[derive(Debug)]
struct Request {
    choice: Choice,
    selection: Selection,
    strict: bool,
    /// CPU numbers, ascending; `None`: those of the caller.
    cores: Option<Vec<u32>>,
    /// Fields of the task that are not enforced, as the user has agreed to.
    not_enforced: Vec<&'static str>,
    /// The system file, when one is given.
    system: Option<PathBuf>,
    /// The group of a regulator that keeps the task's budget.
    member: RefCell<Option<Member>>,
    /// The program and its arguments.
    command: Vec<OsString>,
    /// Fields of the system file that a run does not consider.
    not_considered: Vec<&'static str>,
}

pub(crate) fn main(arguments: &RunArguments, format: Format) -> Ending {
    let request = Rc::new(resolve(arguments)?);
    let colors = Colors::of(&request.selection);
    let palette = &request.choice.palette;
    let floor = floor(arguments, &request)?;
    if let Floor::User { .. } = &floor {
        memtint_live::check_privileges()?;
    }
    let platform_fit = arguments.choice.check_machine(palette.platform())?;
    let frames = Frames::new(
        request.selection.compile(palette)?,
        palette.granule(),
        request.selection.label(),
        palette.platform(),
    );
    let (colors_bytes, colors_free_bytes) = frames.bytes();
    note(&format!(
        "{} hold {} of this machine's memory, about {} of it free",
        request.selection.label(),
        rounded(colors_bytes),
        rounded(colors_free_bytes)
    ));
    let mode = if request.strict { "strict" } else { "soft" };
    if arguments.dry_run {
        return dry_run(arguments, &request, &floor, format);
    }
    // Fail before the program has run rather than after.
    let file = arguments.report.as_deref().map(WholeFile::new).transpose()?;
    let pid_file = arguments.pid_file.as_deref().map(WholeFile::new).transpose()?;
    let presence = Rc::new(Presence::new(words(&request.command), Rc::clone(&request), pid_file));
    let (started, ended) = (Rc::clone(&presence), Rc::clone(&request));
    let options = RunOptions {
        command: request.command.clone(),
        choice: Box::new(frames),
        strict: request.strict,
        cores: request.cores.clone(),
        user: arguments.user.clone(),
        floor,
        cgroup: request.member.borrow().as_ref().map(|member| member.cgroup().to_owned()),
        started: Some(Box::new(move |program| started.begin(program))),
        ended: Some(Box::new(move |program| {
            ended.member.borrow_mut().iter_mut().for_each(|member| member.see_end(program));
        })),
    };
    let ended = memtint_live::run(options, |line| if line.starts_with(SEARCHING) { note(line) } else { warn(line) });
    let shared_with = presence.end();
    let mut status = ended?;
    let regulation = request.member.take().map(Member::end);
    let broken = regulation.as_ref().and_then(Regulation::problem);
    broken.iter().for_each(|problem| warn(problem));
    let ignored = request.not_enforced.iter().map(|field| not_enforced(field)).chain(broken);
    let ignored: Vec<String> = ignored.collect();
    status.report.iter_mut().for_each(|report| report.problems.extend(ignored.clone()));
    if let Some(file) = file {
        let report = Report {
            schema: 1,
            command: words(&request.command),
            platform: palette.platform().id(),
            granule_bytes: palette.granule().bytes(),
            colors,
            mode,
            platform_fit,
            colors_bytes,
            colors_free_bytes,
            not_considered: request.not_considered.clone(),
            not_enforced: request.not_enforced.clone(),
            regulation,
            shared_with,
            prefault_bytes: arguments.prefault.bytes(),
            exit_status: status.code,
            signal: status.signal,
            run: status.report.clone(),
        };
        let text = serde_json::to_string_pretty(&report).expect("the report is plain data");
        file.finish(&(text + "\n"))?;
    }
    Ok(status.end_like())
}

/// Prints the plan of a run and its writes.
fn dry_run(arguments: &RunArguments, request: &Request, floor: &Floor, format: Format) -> Ending {
    let mut writes = memtint_live::writes(floor);
    writes.push(format!("{}/PID-START.json: the run, while it lasts", Registry::place().display()));
    if let Some(member) = request.member.borrow().as_ref() {
        writes.push(format!("{}/cgroup.procs: the program, under the budget of its task", member.cgroup().display()));
    }
    let file =
        |path: &Option<PathBuf>, content: &str| path.as_ref().map(|path| format!("{}: {content}", path.display()));
    writes.extend(file(&arguments.report, "the report, at the end"));
    writes.extend(file(&arguments.pid_file, "the process id, while the run lasts"));
    let plan = DryRun {
        schema: 1,
        report: "run-dry-run",
        command: words(&request.command),
        platform: request.choice.palette.platform().id().to_owned(),
        colors: Colors::of(&request.selection),
        mode: if request.strict { "strict" } else { "soft" },
        backend: if matches!(floor, Floor::Kernel(_)) { FloorName::Kernel } else { FloorName::User },
        cores: request.cores.clone(),
        user: arguments.user.clone(),
        writes,
    };
    match format {
        Format::Json => done_json(&plan),
        Format::Text => done(&plan.text(&request.selection.label())),
    }
}

/// What keeps the program in its colors.
fn floor(arguments: &RunArguments, request: &Request) -> Result<Floor, Failure> {
    let wanted = match arguments.floor {
        FloorChoice::Auto => Preference::Auto,
        FloorChoice::Kernel => Preference::Kernel,
        FloorChoice::User => Preference::User,
    };
    let RunArguments { prefault, search_memory, no_children, copy_files, .. } = *arguments;
    let options = RuntimeOptions { prefault, search_memory, no_children, copy_files };
    let (palette, kernel) = (&request.choice.palette, KernelFloor::of_this_machine());
    let chosen = choose(wanted, &options, palette, &request.selection, &kernel)
        .map_err(|error| Failure::Sentence(error.to_string()))?;
    if let Some(reason) = chosen.not_kernel {
        note(&format!("not on the kernel floor: {reason}"));
    }
    detail(|| {
        let is_kernel = matches!(chosen.floor, Floor::Kernel { .. });
        format!("backend: {}", if is_kernel { "the kernel" } else { "the userspace runtime" })
    });
    Ok(chosen.floor)
}

fn words(command: &[OsString]) -> Vec<String> {
    command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// In GiB or MiB, so that people can read it.
fn rounded(bytes: u64) -> String {
    const GIB: f64 = (1u64 << 30) as f64;
    if bytes as f64 >= GIB { format!("{:.1} GiB", bytes as f64 / GIB) } else { format!("{} MiB", bytes >> 20) }
}

/// For the report: a field of the task that nothing has enforced.
fn not_enforced(field: &str) -> String {
    format!("{field} of the task is not enforced")
}

fn resolve(arguments: &RunArguments) -> Result<Request, Failure> {
    let choice = arguments.choice.resolve()?;
    let Some(selection) = choice.selection.clone() else {
        let sentence = "run: no colors are named: say --banks, --sets or --node, or --system and --task";
        return Err(Failure::Sentence(sentence.to_owned()));
    };
    let command = command(arguments, choice.task.as_ref())?;
    let not_considered = choice.system.as_ref().map(|file| left_out(file, Verb::Run)).unwrap_or_default();
    if !not_considered.is_empty() {
        warn(&format!("not considered: {}", not_considered.join(", ")));
    }
    let planned_soft = choice.task.as_ref().is_some_and(|task| task.mode() == memtint_system::Mode::Soft);
    let strict = arguments.strict || !(arguments.soft || planned_soft);
    let planned_cores = choice.task.as_ref().and_then(|task| task.cores().map(<[u32]>::to_vec));
    let cores = match &arguments.cores {
        Some(list) => cpus(list)?,
        None => planned_cores,
    };
    let (member, not_enforced) = match &choice.task {
        Some(task) => enforced(arguments, task, cores.as_deref())?,
        None => (None, Vec::new()),
    };
    let (system, member) = (arguments.choice.system.clone(), RefCell::new(member));
    Ok(Request { choice, selection, strict, cores, not_enforced, system, member, command, not_considered })
}

/// The program with its arguments, from the command line or from the task.
fn command(arguments: &RunArguments, task: Option<&AssignedTask>) -> Result<Vec<OsString>, Failure> {
    if !arguments.command.is_empty() {
        return Ok(arguments.command.clone());
    }
    let own: Vec<OsString> = task.into_iter().flat_map(AssignedTask::command).map(OsString::from).collect();
    if own.is_empty() {
        let name = task.map_or("", AssignedTask::name);
        let sentence = format!(
            "run: no program is named; accepted is -- COMMAND, or command = [\"PROGRAM\", ...] of task {name:?}"
        );
        return Err(Failure::Sentence(sentence));
    }
    Ok(own)
}

/// The group that keeps the task's bandwidth, and the fields that nothing enforces.
fn enforced(
    arguments: &RunArguments,
    task: &AssignedTask,
    cores: Option<&[u32]>,
) -> Result<(Option<Member>, Vec<&'static str>), Failure> {
    let agreed = |field: TaskField| arguments.ignore.contains(&field);
    let mut fields: Vec<(TaskField, String)> = Vec::new();
    let mut member = None;
    match task.bandwidth() {
        Some(_) if agreed(TaskField::Bandwidth) => fields.push((TaskField::Bandwidth, String::new())),
        Some(bandwidth) => match Member::find(task, bandwidth, cores) {
            Ok(found) => member = Some(found),
            Err(error) => fields.push((TaskField::Bandwidth, error.to_string())),
        },
        None => {}
    }
    if task.refresh().is_some() {
        fields.push((TaskField::Refresh, "nothing in this version keeps it".to_owned()));
    }
    let names: Vec<&str> = fields.iter().map(|(field, _)| field.name()).collect();
    let Some((field, reason)) = fields.iter().find(|(field, _)| !agreed(*field)) else { return Ok((member, names)) };
    let guard = match (field, &arguments.choice.system) {
        (TaskField::Bandwidth, Some(file)) => format!("a running memtint guard --system {}", file.display()),
        _ => "a task without it".to_owned(),
    };
    let (name, task, all) = (field.name(), task.name(), names.join(","));
    Err(Failure::Sentence(format!(
        "{name} of task {task:?} is not enforced: {reason}; accepted is {guard}, or --ignore {all}"
    )))
}

/// `all` and `!` are among the CPUs that are configured.
fn cpus(list: &IndexList) -> Result<Option<Vec<u32>>, Failure> {
    let set = list
        .resolve(memtint_live::configured_cpus())
        .map_err(|error| Failure::Sentence(format!("--cores: {error}")))?;
    if set.is_empty() {
        return Err(Failure::Sentence("--cores: the list is empty, accepted is at least one CPU".to_owned()));
    }
    Ok(Some(set.iter().collect()))
}
