//! `memtint run`: a program in colors of its own.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;

use memtint_detect::{Fit, Machine, MemoryRange};
use memtint_live::{Floor, FrameChoice, KernelFloor, KernelOptions, RunOptions, RunStatus};
use memtint_map::{Granule, KernelMapError, Matcher, Palette, Platform, Selection, kernel};
use memtint_system::{AssignedTask, Verb, left_out};
use memtint_units::{ByteSize, IndexList, PAGE_SIZE, Pfn, PhysAddr};
use serde::Serialize;

use crate::choice::{Choice, ChoiceArguments};
use crate::guard::{Member, Regulation};
use crate::output::{Failure, WholeFile, say};
use crate::registry::{self, Entry, Registered, Registry};
use crate::{Ending, RUN_FAILED};

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
    /// Refuses memory rather than give a page out of color (default, unless the task is soft).
    #[arg(long, conflicts_with = "soft")]
    pub(crate) strict: bool,
    /// Gives a page out of color when no other is left, and counts it.
    #[arg(long)]
    pub(crate) soft: bool,
    /// Who keeps the program in its colors.
    ///
    /// The kernel works with one mapping for the whole machine: that of the platform is loaded when there is none, and
    /// unloaded again at the end of the run that loaded it, unless somebody has colors then. A run whose platform (or
    /// granule) differs from what is loaded fails.
    #[arg(long, value_enum, default_value_t = FloorChoice::Auto)]
    pub(crate) floor: FloorChoice,
    /// Has this much memory in place before the program begins, for instance 64M. Not on the kernel floor, where pages are
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
    /// Leaves the processes that the program starts uncolored. Not on the kernel floor, where they keep the colors.
    #[arg(long)]
    pub(crate) no_children: bool,
    /// Copy every writable private file mapping up to 256 MiB into color, not only programs and libraries.
    ///
    /// A copy does not show later writes to the file. Use this for files that nothing modifies during the run, such as the JVM's
    /// class archive or a saved image. Refused on the kernel floor, which colors such pages when the program writes them.
    #[arg(long)]
    pub(crate) copy_files: bool,
    /// CPUs the program may run on, for instance 2,3; default: those of the caller, or the task's.
    #[arg(long, value_name = "LIST")]
    pub(crate) cores: Option<IndexList>,
    /// User to run the program as; memtint keeps the privileges that the program then does not have.
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Writes what was colored, and what was not, to this file as JSON when the program has ended.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write the program's process id to this file as soon as there is one; the file is removed with the run.
    #[arg(long, value_name = "FILE")]
    pub(crate) pid_file: Option<PathBuf>,
    /// The program and its arguments; default: the command of the task.
    #[arg(value_name = "COMMAND", required_unless_present = "task", trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}

/// Who keeps the program in its colors.
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

/// What `--report` writes.
#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    command: Vec<String>,
    platform: &'a str,
    granule_bytes: u64,
    #[serde(flatten)]
    colors: Colors,
    mode: &'static str,
    /// How the platform fits the machine.
    platform_fit: Fit,
    /// Memory of the machine that is in these colors, about.
    colors_bytes: u64,
    /// Of this, what was free when the run began, about.
    colors_free_bytes: u64,
    /// Fields of the system file that a run does not consider.
    not_considered: Vec<&'static str>,
    /// Fields of the task that nothing enforced.
    not_enforced: Vec<&'static str>,
    /// What a regulator has made of the task's bandwidth.
    regulation: Option<Regulation>,
    /// Other runs in the same colors, without a system file that allows it.
    shared_with: Vec<String>,
    prefault_bytes: u64,
    exit_status: i32,
    signal: Option<i32>,
    #[serde(flatten)]
    run: Option<memtint_live::RunReport>,
}

/// The colors a program was given, in list syntax; absent = any.
#[derive(Serialize)]
struct Colors {
    banks: Option<String>,
    sets: Option<String>,
    nodes: Option<String>,
}

impl Colors {
    fn of(selection: &Selection) -> Colors {
        let text = |set: &Option<memtint_units::IndexSet>| set.as_ref().map(ToString::to_string);
        Colors { banks: text(&selection.banks), sets: text(&selection.sets), nodes: text(&selection.node) }
    }

    /// For messages: `bank classes 0-3, set colors 1`.
    fn label(&self) -> String {
        let named = [("bank classes", &self.banks), ("set colors", &self.sets), ("nodes", &self.nodes)];
        let parts = named.iter().filter_map(|(name, list)| list.as_ref().map(|list| format!("{name} {list}")));
        parts.collect::<Vec<_>>().join(", ")
    }
}

/// The frames of a selection, as the runtime wants to know them.
struct Frames {
    matcher: Matcher,
    label: String,
    looks_per_page: f64,
    nodes: Vec<u32>,
    /// In this machine, about.
    frames: u64,
}

impl Frames {
    fn new(matcher: Matcher, granule: Granule, label: String, platform: &Platform) -> Frames {
        let selected = matcher.granules() * granule.pages();
        // A platform smaller than the machine makes its colors rarer than they are among themselves.
        let in_machine = machine_pages() as f64 / selected as f64;
        let looks_per_page = in_machine.max(1.0 / matcher.fraction());
        let memory = Machine::read_memory();
        let nodes = nodes_of(&matcher, &memory);
        let frames = (matcher.fraction() * pages_within(platform, &memory) as f64) as u64;
        Frames { matcher, label, looks_per_page, nodes, frames }
    }

    /// Bytes of this machine that are in color, and those of them that are free, if free memory is as the rest.
    fn bytes(&self) -> (u64, u64) {
        let share = self.frames as f64 / machine_pages().max(1) as f64;
        (self.frames * PAGE_SIZE, (available_bytes() as f64 * share.min(1.0)) as u64)
    }
}

/// Pages of the machine's memory that lie in a region of the platform; all, where the machine does not say where it is.
fn pages_within(platform: &Platform, memory: &[MemoryRange]) -> u64 {
    let shared = |range: &MemoryRange| -> u64 {
        let regions = platform.regions().iter();
        regions.map(|region| range.end.min(region.end().0).saturating_sub(range.start.max(region.base.0))).sum()
    };
    if memory.is_empty() { machine_pages() } else { memory.iter().map(shared).sum::<u64>() / PAGE_SIZE }
}

/// Memory that new programs can have, as the kernel estimates it.
fn available_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) << 10
}

/// Nodes with memory of the selected colors, ascending; empty when there is one node only.
///
/// By address, not by the numbers of the platform file: it may name memory controllers, several in a node of Linux's.
fn nodes_of(matcher: &Matcher, memory: &[MemoryRange]) -> Vec<u32> {
    let nodes: BTreeSet<u32> = memory.iter().map(|range| range.node).collect();
    let has_selected =
        |range: &&MemoryRange| matcher.enumerate(PhysAddr(range.start)..PhysAddr(range.end)).next().is_some();
    match nodes.len() {
        0 | 1 => Vec::new(),
        _ => BTreeSet::from_iter(memory.iter().filter(has_selected).map(|range| range.node)).into_iter().collect(),
    }
}

/// Pages of memory that the kernel manages; 0 when it does not say.
fn machine_pages() -> u64 {
    // SAFETY: sysconf takes a number and touches no memory of ours.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) }).unwrap_or(0)
}

impl FrameChoice for Frames {
    fn contains(&self, frame: u64) -> bool {
        self.matcher.matches(Pfn(frame))
    }

    fn looks_per_page(&self) -> f64 {
        self.looks_per_page
    }

    fn label(&self) -> String {
        self.label.clone()
    }

    fn frames(&self) -> Option<u64> {
        Some(self.frames)
    }

    fn nodes(&self) -> Vec<u32> {
        self.nodes.clone()
    }
}

pub(crate) fn main(arguments: &RunArguments) -> Ending {
    let request = Rc::new(resolve(arguments)?);
    let colors = Colors::of(&request.selection);
    let palette = &request.choice.palette;
    let floor = floor(arguments, palette, &request.selection, &KernelFloor::of_this_machine())?;
    if let Floor::User { .. } = &floor {
        memtint_live::check_privileges()?;
    }
    let platform_fit = arguments.choice.check_machine(palette.platform())?;
    let frames =
        Frames::new(request.selection.compile(palette)?, palette.granule(), colors.label(), palette.platform());
    let (colors_bytes, colors_free_bytes) = frames.bytes();
    say(&format!(
        "{} hold {} of this machine's memory, about {} of it free",
        colors.label(),
        rounded(colors_bytes),
        rounded(colors_free_bytes)
    ));
    let mode = if request.strict { "strict" } else { "soft" };
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
    let ended = memtint_live::run(options, say);
    let shared_with = presence.end();
    let mut status = ended?;
    let regulation = request.member.take().map(Member::end);
    let broken = regulation.as_ref().and_then(Regulation::problem);
    broken.iter().for_each(|problem| say(problem));
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
    Ok(end_like(&status))
}

fn words(command: &[OsString]) -> Vec<String> {
    command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// In GiB or MiB, so that people can read it.
fn rounded(bytes: u64) -> String {
    const GIB: f64 = (1u64 << 30) as f64;
    if bytes as f64 >= GIB { format!("{:.1} GiB", bytes as f64 / GIB) } else { format!("{} MiB", bytes >> 20) }
}

/// What others can find of a run while it lasts: its entry in the registry, and the file with the program's process id.
struct Presence {
    command: Vec<String>,
    request: Rc<Request>,
    pid_file: RefCell<Option<WholeFile>>,
    begun: RefCell<Begun>,
}

/// What is to be undone at the end, and what was said.
#[derive(Default)]
struct Begun {
    entry: Option<Registered>,
    pid_file: Option<PathBuf>,
    shared_with: Vec<String>,
}

impl Presence {
    fn new(command: Vec<String>, request: Rc<Request>, pid_file: Option<WholeFile>) -> Presence {
        Presence { command, request, pid_file: RefCell::new(pid_file), begun: RefCell::default() }
    }

    /// There is a program.
    fn begin(&self, program: i32) {
        self.request.member.borrow_mut().iter_mut().for_each(Member::begin);
        let mut begun = self.begun.borrow_mut();
        if let Some(file) = self.pid_file.take() {
            let path = file.path().to_owned();
            match file.finish(&format!("{program}\n")) {
                Ok(()) => begun.pid_file = Some(path),
                Err(failure) => say(&failure.to_string()),
            }
        }
        let palette = &self.request.choice.palette;
        let task = self.request.choice.task.as_ref();
        let colors = registry::Colors {
            platform: palette.platform().id(),
            granule_bytes: palette.granule().bytes(),
            selection: &self.request.selection,
            system: task.and_then(|task| Some((self.request.system.as_deref()?, task.name()))),
            shared: task.is_some_and(memtint_system::AssignedTask::shared),
        };
        let Some(entry) = Entry::new(program.unsigned_abs(), self.command.clone(), &colors) else { return };
        match Registry::open().and_then(|registry| registry.enter(&entry)) {
            Ok((entry, conflicts)) => {
                conflicts.iter().for_each(|line| say(line));
                (begun.entry, begun.shared_with) = (Some(entry), conflicts);
            }
            Err(error) => {
                say(&format!("the run is not registered, and whether others share its colors is not known: {error}"));
            }
        }
    }

    /// The program has ended. Gives the lines about other runs.
    fn end(&self) -> Vec<String> {
        let begun = self.begun.take();
        if let Some(file) = begun.pid_file {
            // Somebody may have removed it.
            let _ = std::fs::remove_file(file);
        }
        begun.shared_with
    }
}

/// For the report: a field of the task that nothing has enforced.
fn not_enforced(field: &str) -> String {
    format!("{field} of the task is not enforced")
}

/// Decides who keeps the program in its colors.
fn floor(
    arguments: &RunArguments,
    palette: &Palette,
    selection: &Selection,
    kernel: &KernelFloor,
) -> Result<Floor, Failure> {
    let search_bytes = search_bytes(arguments)?;
    let user = Floor::User {
        prefault_bytes: arguments.prefault.bytes(),
        children: !arguments.no_children,
        copy_files: arguments.copy_files,
        search_bytes,
    };
    let must = match arguments.floor {
        FloorChoice::User => return Ok(user),
        FloorChoice::Auto => false,
        FloorChoice::Kernel => true,
    };
    if let Some(reason) = kernel.absence() {
        let failure = Failure::Sentence(format!("--floor kernel: {reason}"));
        return if must { Err(failure) } else { Ok(user) };
    }
    let mappings = match mappings(palette, selection) {
        Ok(mappings) => mappings,
        Err(error) if must => return Err(error.into()),
        Err(error) => {
            eprintln!("memtint: not on the kernel floor: {error}");
            return Ok(user);
        }
    };
    let unfit = [
        ("--prefault", arguments.prefault.bytes() > 0),
        ("--search-memory", arguments.search_memory.is_some()),
        ("--no-children", arguments.no_children),
        ("--copy-files", arguments.copy_files),
    ];
    if let Some((option, _)) = unfit.iter().find(|(_, given)| *given) {
        let sentence = format!(
            "{option} has no meaning on the kernel floor, which this machine has; leave it out, or say --floor user"
        );
        return Err(Failure::Sentence(sentence));
    }
    let platform = palette.platform().id().to_owned();
    let kernel::KernelColors { banks, sets } = kernel::colors(palette, selection);
    let asked = KernelOptions { floor: kernel.clone(), platform, mappings, banks, sets };
    match asked.check_length() {
        Err(error) if !must => {
            eprintln!("memtint: not on the kernel floor: {error}");
            Ok(user)
        }
        _ => Ok(Floor::Kernel(asked)),
    }
}

/// Most bytes that a search holds.
fn search_bytes(arguments: &RunArguments) -> Result<u64, Failure> {
    /// Less is too little for a single look.
    const MIN: u64 = 16 << 20;
    match arguments.search_memory {
        Some(size) if size.bytes() < MIN => {
            let sentence = format!("--search-memory is {size}, accepted is {} or more", ByteSize(MIN));
            Err(Failure::Sentence(sentence))
        }
        Some(size) => Ok(size.bytes()),
        None => Ok((machine_pages() * PAGE_SIZE / 10).max(MIN)),
    }
}

/// The mapping with the cache, if the kernel has room for it, and the one without, where no set colors are asked for:
/// classes have the same numbers in both.
fn mappings(palette: &Palette, selection: &Selection) -> Result<Vec<String>, KernelMapError> {
    let whole = kernel::print(palette, false);
    if selection.sets.is_some() {
        return whole.map(|text| vec![text]);
    }
    match (whole, kernel::print(palette, true)) {
        (Ok(whole), Ok(banks)) if whole != banks => Ok(vec![whole, banks]),
        (Ok(text), _) | (Err(_), Ok(text)) => Ok(vec![text]),
        (Err(error), Err(_)) => Err(error),
    }
}

/// Ends as the program did: by the same signal, or with the same status.
fn end_like(status: &RunStatus) -> ExitCode {
    if let Some(signal) = status.signal {
        // The program has written its core file, if any. The kernel tells a parent of that only when there is one: this
        // process writes another where nobody sees it, or none.
        let core_bytes = if status.core_dumped && hide_core_files() { 1 << 16 } else { 0 };
        // SAFETY: numbers and valid structures.
        unsafe {
            let limit = libc::rlimit { rlim_cur: core_bytes, rlim_max: core_bytes };
            libc::setrlimit(libc::RLIMIT_CORE, &raw const limit);
            let mut open = std::mem::zeroed();
            libc::sigemptyset(&raw mut open);
            libc::sigaddset(&raw mut open, signal);
            libc::signal(signal, libc::SIG_DFL);
            libc::sigprocmask(libc::SIG_UNBLOCK, &raw const open, std::ptr::null_mut());
            libc::raise(signal);
        }
    }
    ExitCode::from(u8::try_from(status.code).unwrap_or(RUN_FAILED))
}

/// Has a core file of this process written into memory that goes with it. False when it would be seen: the kernel
/// writes it to a fixed place, or hands it to a program.
fn hide_core_files() -> bool {
    let pattern = std::fs::read("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if pattern.first().is_none_or(|first| b"|@".contains(first)) || pattern.contains(&b'/') {
        return false;
    }
    let (place, private) = (c"/proc".as_ptr(), libc::MS_REC | libc::MS_PRIVATE);
    // SAFETY: C strings that live as long as the program. What is mounted is seen by this process only, which is about
    // to end and opens no file there any more.
    unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(c"none".as_ptr(), c"/".as_ptr(), std::ptr::null(), private, std::ptr::null()) == 0
            && libc::mount(c"none".as_ptr(), place, c"tmpfs".as_ptr(), 0, std::ptr::null()) == 0
            && libc::chdir(place) == 0
    }
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
        say(&format!("not considered: {}", not_considered.join(", ")));
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
    // SAFETY: sysconf takes a number and touches no memory of ours.
    let configured = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    let limit = u32::try_from(configured).unwrap_or(1).max(1);
    let set = list.resolve(limit).map_err(|error| Failure::Sentence(format!("--cores: {error}")))?;
    if set.is_empty() {
        return Err(Failure::Sentence("--cores: the list is empty, accepted is at least one CPU".to_owned()));
    }
    Ok(Some(set.iter().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    /// Frames of class 0 are in the first half of each GiB, those of class 1 in the second.
    fn matcher(banks: &str) -> Matcher {
        const PLATFORM: &str = r#"
            schema = 1
            id = "two-halves"
            name = "Two halves"
            dram = { standard = "DDR4", address_bits = 32, functions = [{ role = "bank", bits = [29] }], source = "made up" }
            region = [{ base = 0, size = "4 GiB", source = "made up" }]
        "#;
        let palette = Palette::new(&Platform::parse(PLATFORM, "two-halves").unwrap(), Granule::PAGE).unwrap();
        let banks = Some(memtint_units::IndexSet::parse(banks, 2).unwrap());
        Selection { banks, ..Selection::default() }.compile(&palette).unwrap()
    }

    /// A folder that stands in for memtint's in debugfs, with nothing loaded.
    struct Stand(PathBuf);

    impl Stand {
        fn new(name: &str) -> Stand {
            let folder = std::env::temp_dir().join(format!("memtint-floor-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("map"), "none\n").unwrap();
            Stand(folder)
        }

        fn floor(&self) -> KernelFloor {
            KernelFloor::at(self.0.clone(), None)
        }
    }

    impl Drop for Stand {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// What `memtint run OPTIONS -- true` does on a platform of the catalogue.
    fn floor_of(platform: &str, options: &[&str], kernel: &KernelFloor) -> Result<Floor, String> {
        let line = [&["run", "--platform", platform], options, &["--", "true"]].concat();
        let arguments = Line::try_parse_from(line).unwrap().run;
        let choice = arguments.choice.resolve().unwrap();
        floor(&arguments, &choice.palette, &choice.selection.unwrap(), kernel).map_err(|failure| failure.to_string())
    }

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        run: RunArguments,
    }

    /// 16 classes, and with its cache more colors than the kernel has room for.
    const SKYLAKE: &str = "skl-e3-1220v5-4x4g";

    #[test]
    fn without_a_kernel_floor_it_is_the_runtime() {
        let nowhere = KernelFloor::at("/nonexistent/memtint".into(), None);
        let auto = floor_of(SKYLAKE, &["--banks", "0-3", "--prefault", "1M", "--no-children"], &nowhere);
        assert!(matches!(auto, Ok(Floor::User { prefault_bytes: 1_048_576, children: false, .. })));
        let error = floor_of(SKYLAKE, &["--banks", "0", "--floor", "kernel"], &nowhere).err().unwrap();
        assert!(error.contains("--floor kernel") && error.contains("/nonexistent/memtint/map"), "{error}");
    }

    #[test]
    fn with_a_kernel_floor_it_is_the_kernel_unless_asked_otherwise() {
        let here = Stand::new("is-the-kernel");
        for options in [&["--banks", "0-3,8"][..], &["--banks", "0-3,8", "--floor", "kernel"]] {
            let Ok(Floor::Kernel(asked)) = floor_of(SKYLAKE, options, &here.floor()) else { panic!("{options:?}") };
            assert_eq!((asked.banks.as_deref(), asked.sets), (Some("0-3,8"), None));
            assert_eq!(asked.mappings.len(), 1, "with the cache there are too many colors");
        }
        let user = floor_of(SKYLAKE, &["--banks", "0", "--floor", "user", "--prefault", "4K"], &here.floor());
        assert!(matches!(user, Ok(Floor::User { prefault_bytes: 4096, children: true, .. })));
    }

    #[test]
    fn what_the_kernel_has_no_words_for_is_for_the_runtime() {
        let here = Stand::new("no-words");
        let sets = ["--banks", "0-3", "--sets", "0-15"];
        assert!(matches!(floor_of(SKYLAKE, &sets, &here.floor()), Ok(Floor::User { .. })));
        let error = floor_of(SKYLAKE, &[&sets[..], &["--floor", "kernel"]].concat(), &here.floor()).err().unwrap();
        assert!(error.contains("16 bank classes times 128 set colors"), "{error}");
    }

    #[test]
    fn a_list_too_long_for_the_kernel_is_for_the_runtime() {
        let here = Stand::new("too-long");
        // 512 classes, and every other one of them.
        let functions: String = (13..22).map(|bit| format!("{{ role = \"bank\", bits = [{bit}] }}, ")).collect();
        let text = format!(
            "schema = 1\nid = \"wide\"\nname = \"Wide\"\nuarch = \"none\"\n[dram]\nstandard = \"DDR4\"\naddress_bits = 32\n\
             functions = [{functions}]\ncomplete = false\nsource_kind = \"synthetic\"\nsource = \"a test\"\n\
             [[region]]\nbase = 0\nsize = \"4 GiB\"\nsource = \"a test\"\n"
        );
        let platform = here.0.join("wide.toml");
        std::fs::write(&platform, text).unwrap();
        let (platform, list) = (platform.to_str().unwrap(), (0..512).step_by(2).map(|class| class.to_string()));
        let list = list.collect::<Vec<_>>().join(",");
        assert!(matches!(floor_of(platform, &["--banks", &list], &here.floor()), Ok(Floor::User { .. })));
        let must = floor_of(platform, &["--banks", &list, "--floor", "kernel"], &here.floor());
        assert!(matches!(must, Ok(Floor::Kernel(_))), "a cgroup takes it, perhaps");
    }

    #[test]
    fn options_of_the_runtime_are_refused_by_name_on_the_kernel_floor() {
        let here = Stand::new("refused");
        for option in [&["--prefault", "1M"][..], &["--search-memory", "1G"], &["--no-children"]] {
            let error = floor_of(SKYLAKE, &[&["--banks", "0"][..], option].concat(), &here.floor()).err().unwrap();
            assert!(error.contains(option[0]) && error.contains("--floor user"), "{error}");
        }
    }

    #[test]
    fn classes_may_be_those_of_a_mapping_with_the_cache_or_without() {
        let platform = memtint_map::catalogue::names().find(|name| {
            let palette = Palette::new(&Platform::load(name).unwrap(), Granule::PAGE);
            palette.is_ok_and(|palette| {
                palette.set_colors() > 1 && [false, true].iter().all(|&banks| kernel::print(&palette, banks).is_ok())
            })
        });
        let platform = platform.expect("the catalogue has one with few enough colors");
        let here = Stand::new("cache-or-not");
        let mappings = |options: &[&str]| match floor_of(platform, options, &here.floor()) {
            Ok(Floor::Kernel(asked)) => asked.mappings.len(),
            _ => panic!("{platform}"),
        };
        assert_eq!((mappings(&["--banks", "0"]), mappings(&["--sets", "0"])), (2, 1));
    }

    #[test]
    fn nodes_are_those_with_memory_in_color() {
        const HALF: u64 = 512 << 20;
        let range = |node, start: u64, end: u64| MemoryRange { start: start * HALF, end: end * HALF, node };
        let memory = [range(0, 0, 1), range(4, 1, 2), range(2, 2, 4), range(0, 4, 5)];
        assert_eq!(nodes_of(&matcher("0"), &memory), [0, 2]);
        assert_eq!(nodes_of(&matcher("1"), &memory), [2, 4]);
        assert!(nodes_of(&matcher("0"), &memory[..1]).is_empty(), "one node needs no choice");
        assert!(nodes_of(&matcher("0"), &memory[1..2]).is_empty());
    }
}
