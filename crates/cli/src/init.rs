//! `memtint init`: a first system file, from a platform and the user's description of the tasks.

mod ask;
mod task;

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use memtint_analysis::{Analyzable, analyzable};
use memtint_detect::{Candidate, Fit, Machine, assumed_platform, candidates, usable_cores};
use memtint_dram::{Device, DeviceChoice, Standard};
use memtint_map::{Granule, Palette, Platform};
use memtint_planner::{CPUS_MAX, Division, Share, divide};
use memtint_system::{Assignment, RefreshEntry, RefreshMode, SystemFile, TaskEntry, Text, Time};
use memtint_units::IndexList;
use schemars::JsonSchema;
use serde::Serialize;

use crate::output::{Ending, Failure, Format, JsonForm, WholeFile, done, done_json, note, print, write_file};
use crate::relative;

/// What is printed as JSON.
pub(crate) const FORMS: &[JsonForm] = &[JsonForm::of::<InitReport>("init")];

/// Version of the form of JSON output.
const SCHEMA: u32 = 1;

/// Arguments of `memtint init`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Tasks without CPUs get one each, in turn. Tasks without colors get even shares of the platform's bank classes, or of its set colors where \
bank classes are too few; where both are, tasks of the same CPUs share. A single task gets half of them. It is a first division, to be \
changed by hand.\n\
wcet is the longest execution time of a job, with the delay by tasks of other cores.\n\
--functions-of describes this machine, in a platform file beside FILE, with bank functions of a relative, marked as assumed.\n\
Exit status: 0, or 2 failure: nothing is written.\n\
Example: memtint init flight.toml --platform skl-e3-1220v5-4x4g --device ddr4-2400 \\\n    \
--task \"control period=20ms wcet=3ms -- ./control --fast\" --task \"camera -- ./camera\"")]
pub(crate) struct InitArguments {
    /// File to write, or - for standard output.
    #[arg(value_name = "FILE", default_value = "system.toml")]
    file: PathBuf,
    /// Task: its name, fields of a system file (period, wcet, deadline, priority, cores, banks, sets, bandwidth=1MiB/1ms, ...) and,
    /// behind two dashes, its command. May be repeated. Default: questions, when standard input is a terminal.
    #[arg(long = "task", value_name = "TASK")]
    tasks: Vec<String>,
    /// Ask for the tasks on standard input, which need not be a terminal.
    #[arg(long, conflicts_with = "tasks")]
    ask: bool,
    /// Platform: a name of the catalogue, or a file (a path with a slash or ending in .toml).
    ///
    /// Default: what the environment variable MEMTINT_PLATFORM names, or else the file /etc/memtint/platform.toml.
    #[arg(short, long, value_name = "PLATFORM")]
    platform: Option<String>,
    /// Describe this machine, with the bank functions of this platform, marked as assumed (see memtint platform detect).
    #[arg(long, value_name = "PLATFORM", conflicts_with = "platform")]
    functions_of: Option<String>,
    /// Take the last-level cache of this platform too, marked as assumed.
    #[arg(long, value_name = "PLATFORM", requires = "functions_of")]
    cache_of: Option<String>,
    /// Block that is colored as a unit, from 4K to 2M [default: 4K].
    #[arg(long, value_name = "SIZE")]
    granule: Option<Granule>,
    /// CPUs to divide, such as 0-3, or +0-1 for the first two of the caller's [default: those of the platform, or of this machine
    /// where the platform fits it].
    #[arg(long, value_name = "CPUS", value_parser = relative::cpus)]
    cpus: Option<IndexList>,
    /// DRAM standard of the memory (see memtint dram list), for the table [refresh] of tasks with deadlines.
    #[arg(long, value_name = "STANDARD")]
    device: Option<String>,
    /// Density of one device in gibibits; default: the standard's.
    #[arg(long, value_name = "GBIT", requires = "device")]
    density: Option<u32>,
    /// Replace existing files.
    #[arg(long)]
    force: bool,
}

/// The platform of the new file.
struct Chosen {
    platform: Platform,
    /// As the file names it.
    spec: String,
    /// A platform file to write: where, and its text.
    new: Option<(PathBuf, String)>,
    /// CPUs to divide; empty where nothing is known of them.
    cpus: Vec<u32>,
}

pub(crate) fn main(arguments: &InitArguments, format: Format) -> Ending {
    let asking = arguments.ask || (arguments.tasks.is_empty() && std::io::stdin().is_terminal());
    if !asking && arguments.tasks.is_empty() {
        return Err(Failure::Sentence(format!("--task is missing; accepted is {}, or --ask", task::ACCEPTED)));
    }
    let path = arguments.path()?;
    if path == "-" && format == Format::Json {
        return Err(Failure::Sentence("FILE is \"-\"; accepted with --format json is a file".to_owned()));
    }
    let chosen = Chosen::new(arguments)?;
    let palette = Palette::new(&chosen.platform, arguments.granule.unwrap_or_default())?;
    let device =
        arguments.device.as_deref().map(|name| device(name, arguments.density, &chosen.platform)).transpose()?;
    let tasks = match asking {
        true => ask::tasks()?,
        false => arguments.tasks.iter().map(|text| task::read(text)).collect::<Result<Vec<_>, _>>()?,
    };
    let Division { tasks, shares } = divide(tasks, &chosen.cpus, &palette).map_err(sentence)?;
    let timed = tasks.iter().any(is_timed);
    let file = SystemFile {
        platform: Some(Text::new(&chosen.spec)),
        granule: arguments.granule,
        refresh: device.as_ref().filter(|_| timed).map(refresh),
        tasks,
        ..SystemFile::default()
    };
    let text = Written { file: &file, shares: &shares, chosen: &chosen, device: device.as_ref(), path }.text();
    write(arguments, &chosen, &text)?;
    match (timed, &device) {
        (true, None) => {
            note("no --device is given: without a table [refresh], analyze assumes that refresh delays nothing");
        }
        (false, Some(_)) => {
            note("--device is not used: no task has both period and wcet, so there is no table [refresh]");
        }
        _ => {}
    }
    if chosen.cpus.is_empty() && file.tasks.iter().any(|task| task.cores.is_none()) {
        note("the CPUs of the platform are not known: tasks without CPUs may run on any; --cpus names them");
    }
    if path == "-" {
        return done("");
    }
    let platform_file = chosen.new.as_ref().map(|(path, _)| path.display().to_string());
    match format {
        Format::Json => done_json(&InitReport {
            schema: SCHEMA,
            report: "init",
            system: path.to_string(),
            platform: chosen.spec,
            platform_file,
            tasks: file.tasks.len(),
        }),
        Format::Text => {
            let beside = platform_file.map_or_else(String::new, |file| format!(", and {file}"));
            done(&format!("wrote {path}{beside}; next: memtint system check {path}\n"))
        }
    }
}

/// What `memtint init` prints.
#[derive(Serialize, JsonSchema)]
struct InitReport {
    schema: u32,
    report: &'static str,
    /// The new system file.
    system: String,
    /// The platform that it names.
    platform: String,
    /// The new platform file, if one was written.
    platform_file: Option<String>,
    tasks: usize,
}

impl InitArguments {
    /// The name of the file, which stands in its remarks.
    fn path(&self) -> Result<&str, Failure> {
        let text = self.file.to_str().filter(|text| !text.is_empty() && !text.chars().any(char::is_control));
        let accepted = "a name in UTF-8 without control characters";
        text.ok_or_else(|| Failure::Sentence(format!("FILE is {:?}; accepted is {accepted}", self.file)))
    }
}

impl Chosen {
    fn new(arguments: &InitArguments) -> Result<Chosen, Failure> {
        if let Some(relative) = &arguments.functions_of {
            return Chosen::this_machine(arguments, relative);
        }
        let Some(spec) = arguments.platform.clone().or_else(crate::choice::default_platform) else {
            return Err(Failure::Sentence(format!(
                "--platform is missing; accepted is a name of memtint platform list, a platform file, or --functions-of with a relative \
                 of this machine{}",
                relatives(&candidates(&Machine::read()))
            )));
        };
        let platform = Platform::load(&spec)?;
        let fits = Fit::of(&Machine::read_identity(), &platform).contradictions.is_empty();
        let cpus = match (&arguments.cpus, platform.cores()) {
            (Some(cpus), _) => listed(cpus)?,
            (None, Some(cores)) => (0..cores.count).collect(),
            (None, None) if fits => online()?,
            (None, None) => Vec::new(),
        };
        let spec = relative_to(&spec, &arguments.file);
        Ok(Chosen { platform, spec, new: None, cpus })
    }

    fn this_machine(arguments: &InitArguments, relative: &str) -> Result<Chosen, Failure> {
        let path = arguments.file.with_extension("platform.toml");
        let Some(name) = path.file_name().filter(|_| arguments.file != Path::new("-")) else {
            return Err(Failure::Sentence(format!(
                "FILE is {:?}; accepted with --functions-of is a file: the platform file is written beside it",
                arguments.file
            )));
        };
        let cache_of = arguments.cache_of.as_deref().map(Platform::load).transpose()?;
        let file = assumed_platform(&Machine::read(), &Platform::load(relative)?, cache_of.as_ref())?;
        let text = file.to_toml();
        let platform = Platform::from_file(file, &path.display().to_string())?;
        let spec = name.to_string_lossy().into_owned();
        let cpus = arguments.cpus.as_ref().map_or_else(online, listed)?;
        Ok(Chosen { platform, spec, new: Some((path, text)), cpus })
    }
}

fn listed(cpus: &IndexList) -> Result<Vec<u32>, Failure> {
    match cpus {
        IndexList::Only(_) => Ok(cpus.resolve(CPUS_MAX).map_err(refused)?.iter().collect()),
        _ => Err(refused(format!("{:?} is not plain", cpus.to_string()))),
    }
}

fn refused(cause: impl std::fmt::Display) -> Failure {
    Failure::Sentence(format!("--cpus: {cause}; accepted is a plain list such as 0-3,8, of numbers below {}", CPUS_MAX))
}

fn online() -> Result<Vec<u32>, Failure> {
    usable_cores().map_err(|error| Failure::Sentence(format!("{error}; accepted is --cpus")))
}

fn sentence(error: impl std::error::Error) -> Failure {
    Failure::Sentence(error.to_string())
}

fn relatives(candidates: &[Candidate]) -> String {
    let names: Vec<&str> = candidates.iter().map(|candidate| candidate.id.as_str()).collect();
    if names.is_empty() { String::new() } else { format!(" (the catalogue has {})", names.join(", ")) }
}

/// A platform as a system file names it: files are relative to the system file.
fn relative_to(spec: &str, system: &Path) -> String {
    let is_file = spec.contains('/') || spec.ends_with(".toml");
    let beside = system.parent().is_none_or(|folder| folder == Path::new(""));
    match is_file && !beside {
        true => std::path::absolute(spec).map_or_else(|_| spec.to_owned(), |path| path.display().to_string()),
        false => spec.to_owned(),
    }
}

fn device(name: &str, density_gbit: Option<u32>, platform: &Platform) -> Result<Device, Failure> {
    let standard = Standard::load(name)?;
    let (family, memory) = (standard.family(), &platform.dram().standard);
    if !memory.split('/').any(|own| own.eq_ignore_ascii_case(family)) {
        return Err(Failure::Sentence(format!(
            "--device has {name:?}, of {family}; accepted is a standard of the platform's memory, {memory} (memtint dram list)"
        )));
    }
    Ok(standard.device(DeviceChoice { density_gbit, ..DeviceChoice::default() })?)
}

/// Refresh by the controller: a row that has just been opened is closed before it, and opened again.
fn refresh(device: &Device) -> RefreshEntry {
    let time = |cycles: u32| Some(Time(device.clock.start(cycles.into())));
    let timing = &device.timing;
    RefreshEntry {
        mode: Some(RefreshMode::Auto),
        interval: time(timing.refi),
        duration: time(timing.rfc),
        reopen: time(timing.ras + timing.rp + timing.rcd),
        moved: None,
    }
}

fn is_timed(task: &TaskEntry) -> bool {
    task.period.is_some() && task.wcet.is_some()
}

/// Writes both files, or none; they are a valid assignment.
fn write(arguments: &InitArguments, chosen: &Chosen, text: &str) -> Result<(), Failure> {
    const NEW: &str = "the new file";
    let folder = arguments.file.parent().unwrap_or(Path::new(""));
    if arguments.file == Path::new("-") {
        Assignment::of(&SystemFile::parse(text, NEW)?, NEW, Path::new(""))?;
        return print(text);
    }
    let system = place(&arguments.file, arguments.force)?;
    let Some((path, platform_text)) = &chosen.new else {
        Assignment::of(&SystemFile::parse(text, NEW)?, NEW, folder)?;
        return system.finish(text);
    };
    let platform = place(path, arguments.force)?;
    // A platform is read from a file.
    let trial = path.with_extension(format!("{}.toml", std::process::id()));
    write_file(&trial, platform_text)?;
    let checked = SystemFile::parse(text, NEW).and_then(|file| {
        let spec = trial.file_name().map(|name| Text::new(name.to_string_lossy()));
        Assignment::of(&SystemFile { platform: spec, ..file }, NEW, folder)
    });
    let removed = std::fs::remove_file(&trial).map_err(|cause| Failure::File { path: trial, done: "removed", cause });
    checked?;
    removed?;
    platform.finish(platform_text)?;
    system.finish(text)
}

/// The path to write: the target of a link, not the link.
fn place(path: &Path, force: bool) -> Result<WholeFile, Failure> {
    if std::fs::symlink_metadata(path).is_err() {
        return WholeFile::new(path);
    }
    if !force {
        return Err(Failure::Sentence(format!("{path:?} exists; accepted is another FILE, or --force to replace it")));
    }
    let target = std::fs::canonicalize(path);
    WholeFile::new(&target.map_err(|cause| Failure::File { path: path.to_owned(), done: "replaced", cause })?)
}

/// A system file with remarks.
struct Written<'a> {
    file: &'a SystemFile,
    /// What each task got of the platform.
    shares: &'a [Option<Share>],
    chosen: &'a Chosen,
    device: Option<&'a Device>,
    path: &'a str,
}

impl Written<'_> {
    fn text(&self) -> String {
        let mut text = self.head();
        let top = SystemFile { tasks: Vec::new(), refresh: None, ..self.file.clone() };
        text += &top.to_text();
        for (task, share) in self.file.tasks.iter().zip(self.shares) {
            text.push('\n');
            if let Some(Share { kind, colors, of, size, with_others }) = share {
                let with = if *with_others { ", with the other tasks of its CPUs" } else { "" };
                let _ = writeln!(text, "# {colors} of {of} {kind}, {size}{with}");
            }
            text += &SystemFile { tasks: vec![task.clone()], ..SystemFile::default() }.to_text();
        }
        if let (Some(refresh), Some(device)) = (&self.file.refresh, self.device) {
            let _ = writeln!(
                text,
                "\n# Of {}, refreshed by the controller, all ranks at once; a row that has just been opened is closed and opened again.",
                device.name
            );
            text += &SystemFile { refresh: Some(refresh.clone()), ..SystemFile::default() }.to_text();
        }
        text
    }

    /// What to do with the file.
    fn head(&self) -> String {
        let path = if self.path == "-" { "FILE" } else { self.path };
        let path = shlex::try_quote(path).unwrap_or_default();
        let tasks = &self.file.tasks;
        let name: String = self.chosen.platform.name().chars().filter(|letter| !letter.is_control()).collect();
        let mut text = format!(
            "# {} on {name}, a first division by memtint init. All fields: memtint system schema\n#\n",
            if tasks.len() == 1 { "One task".to_owned() } else { format!("{} tasks", tasks.len()) },
        );
        let mut line = |command: &str| {
            let _ = writeln!(text, "#     memtint {command}");
        };
        line(&format!("system check {path}"));
        let analysis = analyzable(self.file);
        if let Some(Analyzable { core, other_cores }) = analysis {
            let ignored = if core.is_some() && other_cores { " --ignore other-cores" } else { "" };
            let core = core.map_or_else(String::new, |core| format!(" --core {core}"));
            line(&format!("analyze {path}{core}{ignored}"));
        }
        if tasks.iter().any(|task| task.bandwidth.is_some()) {
            line(&format!("guard --system {path}"));
        }
        if let Some(name) = tasks.iter().find(|task| !task.command.is_empty()).and_then(|task| task.name.as_ref()) {
            line(&format!("run --system {path} --task {}", name.as_str()));
            line(&format!("inspect --system {path}"));
        }
        if analysis.is_some_and(|analysis| analysis.other_cores) {
            text +=
                "#\n# analyze leaves out tasks of other cores: each wcet must include the delay by their requests.\n";
        }
        text.push('\n');
        text
    }
}
