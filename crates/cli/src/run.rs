//! `memtint run`: a program in colors of its own.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use memtint_detect::MemoryRange;
use memtint_live::{FrameChoice, RunOptions, RunStatus};
use memtint_map::{Granule, Matcher, Selection};
use memtint_units::{ByteSize, IndexList, Pfn, PhysAddr};
use serde::Serialize;

use crate::choice::{Choice, ChoiceArguments};
use crate::output::{Failure, write_file};
use crate::{Ending, RUN_FAILED};

/// Arguments of `memtint run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: that of COMMAND; 125 memtint itself failed, 126 COMMAND cannot be executed, \
    127 there is no COMMAND.\nExample: memtint run --platform ./here.toml --banks 0-3 -- sqlite3 my.db")]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) choice: ChoiceArguments,
    /// Refuses memory rather than give a page out of color (default, unless the plan says soft).
    #[arg(long, conflicts_with = "soft")]
    pub(crate) strict: bool,
    /// Gives a page out of color when no other is left, and counts it.
    #[arg(long)]
    pub(crate) soft: bool,
    /// Has this much memory in place before the program begins, for instance 64M.
    #[arg(long, value_name = "SIZE", default_value = "0")]
    pub(crate) prefault: ByteSize,
    /// Leaves the processes that the program starts uncolored.
    #[arg(long)]
    pub(crate) no_children: bool,
    /// CPUs the program may run on, for instance 2,3; default: those of the caller, or the plan's.
    #[arg(long, value_name = "LIST")]
    pub(crate) cores: Option<IndexList>,
    /// User to run the program as; memtint keeps the privileges that the program then does not have.
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Writes what was colored, and what was not, to this file as JSON when the program has ended.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<OsString>,
}

/// The options, resolved.
#[derive(Debug)]
struct Request {
    choice: Choice,
    selection: Selection,
    strict: bool,
    /// CPU numbers, ascending; `None`: those of the caller.
    cores: Option<Vec<u32>>,
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
}

impl Frames {
    fn new(matcher: Matcher, granule: Granule, label: String) -> Frames {
        let selected = matcher.granules() * granule.pages();
        // A platform smaller than the machine makes its colors rarer than they are among themselves.
        let in_machine = machine_pages() as f64 / selected as f64;
        let looks_per_page = in_machine.max(1.0 / matcher.fraction());
        let nodes = nodes_of(&matcher, &memtint_detect::Machine::read_memory());
        Frames { matcher, label, looks_per_page, nodes }
    }
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

    fn nodes(&self) -> Vec<u32> {
        self.nodes.clone()
    }
}

pub(crate) fn main(arguments: &RunArguments) -> Ending {
    let request = resolve(arguments)?;
    let colors = Colors::of(&request.selection);
    let palette = &request.choice.palette;
    let frames = Frames::new(request.selection.compile(palette)?, palette.granule(), colors.label());
    let options = RunOptions {
        command: arguments.command.clone(),
        choice: Box::new(frames),
        strict: request.strict,
        prefault_bytes: arguments.prefault.bytes(),
        children: !arguments.no_children,
        cores: request.cores.clone(),
        user: arguments.user.clone(),
    };
    // Fails before the program has run rather than after.
    if let Some(file) = &arguments.report {
        write_file(file, "")?;
    }
    let status = memtint_live::run(options, |line| eprintln!("memtint: {line}"))?;
    if let Some(file) = &arguments.report {
        let report = report(arguments, &request, colors, &status);
        let text = serde_json::to_string_pretty(&report).expect("the report is plain data");
        write_file(file, &(text + "\n"))?;
    }
    Ok(end_like(&status))
}

fn report<'a>(arguments: &RunArguments, request: &'a Request, colors: Colors, status: &RunStatus) -> Report<'a> {
    let words = arguments.command.iter().map(|word| word.to_string_lossy().into_owned());
    Report {
        schema: 1,
        command: words.collect(),
        platform: request.choice.palette.platform().id(),
        granule_bytes: request.choice.palette.granule().bytes(),
        colors,
        mode: if request.strict { "strict" } else { "soft" },
        prefault_bytes: arguments.prefault.bytes(),
        exit_status: status.code,
        signal: status.signal,
        run: status.report.clone(),
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
        let sentence = "run: no colors are named: say --banks, --sets or --node, or --plan and --task";
        return Err(Failure::Sentence(sentence.to_owned()));
    };
    let planned_soft = choice.task.as_ref().is_some_and(|task| task.mode() == memtint_plan::Mode::Soft);
    let strict = arguments.strict || !(arguments.soft || planned_soft);
    let planned_cores = choice.task.as_ref().and_then(|task| task.cores().map(<[u32]>::to_vec));
    let cores = match &arguments.cores {
        Some(list) => cpus(list)?,
        None => planned_cores,
    };
    Ok(Request { choice, selection, strict, cores })
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
    use memtint_map::{Palette, Platform};

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
