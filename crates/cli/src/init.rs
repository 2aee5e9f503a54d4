//! `memtint init`: a first system file, from a platform and what the user says of the tasks.

mod ask;
mod share;
mod task;

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use memtint_detect::{Candidate, Fit, Machine, assumed_platform, candidates};
use memtint_dram::{Device, DeviceChoice, Standard};
use memtint_map::{Granule, Palette, Platform};
use memtint_regulator::online_cpus;
use memtint_system::{Assignment, RefreshEntry, RefreshMode, SystemFile, TaskEntry, Text, Time, Verb, decisive};
use memtint_units::IndexList;
use serde_json::json;

use crate::Ending;
use crate::output::{Failure, Format, WholeFile, done, done_json, print, say};

/// Version of the form of JSON output.
const SCHEMA: u32 = 1;

/// Arguments of `memtint init`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Tasks without CPUs get one each, and tasks without colors get even shares of the platform's bank classes, or of its set colors where \
bank classes are too few. It is a first division, to be changed by hand.\n\
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
    #[arg(long, value_name = "PLATFORM")]
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
    /// CPUs to divide, such as 0-3 [default: those of the platform, or of this machine where the platform fits it].
    #[arg(long, value_name = "CPUS")]
    cpus: Option<IndexList>,
    /// DRAM standard of the memory (see memtint dram list), for the table [refresh] of tasks with deadlines.
    #[arg(long, value_name = "STANDARD")]
    device: Option<String>,
    /// Density of one device in gibibits; default: the standard's.
    #[arg(long, value_name = "GBIT", requires = "device")]
    density: Option<u32>,
    /// Replace files that exist.
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
    let chosen = Chosen::new(arguments)?;
    let palette = Palette::new(&chosen.platform, arguments.granule.unwrap_or_default())?;
    let device = arguments.device.as_deref().map(|name| device(name, arguments.density)).transpose()?;
    let mut tasks = match asking {
        true => ask::tasks()?,
        false => arguments.tasks.iter().map(|text| task::read(text)).collect::<Result<Vec<_>, _>>()?,
    };
    let cpus = arguments.cpus.as_ref().map_or_else(|| Ok(chosen.cpus.clone()), listed)?;
    share::cpus(&mut tasks, &cpus);
    let shares = share::colors(&mut tasks, &palette)?;
    let timed = tasks.iter().any(is_timed);
    let file = SystemFile {
        platform: Some(Text::new(&chosen.spec)),
        granule: arguments.granule,
        refresh: device.as_ref().filter(|_| timed).map(refresh),
        tasks,
        ..SystemFile::default()
    };
    let text =
        Written { file: &file, shares: &shares, chosen: &chosen, device: device.as_ref(), path: &arguments.file }
            .text();
    write(arguments, &chosen, &text)?;
    if timed && device.is_none() {
        say("no --device is given: without a table [refresh], an analysis takes it that refresh delays nothing");
    }
    if cpus.is_empty() && file.tasks.iter().any(|task| task.cores.is_none()) {
        say("the CPUs of the platform are not known: tasks without CPUs may run on any; --cpus names them");
    }
    if arguments.file == Path::new("-") {
        return done("");
    }
    let path = arguments.file.display();
    let platform_file = chosen.new.as_ref().map(|(path, _)| path.display().to_string());
    match format {
        Format::Json => done_json(&json!({
            "schema": SCHEMA, "report": "init", "system": path.to_string(), "platform": chosen.spec,
            "platform_file": platform_file, "tasks": file.tasks.len(),
        })),
        Format::Text => {
            let beside = platform_file.map_or_else(String::new, |file| format!(", and {file}"));
            done(&format!("wrote {path}{beside}; next: memtint system check {path}\n"))
        }
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
        let cpus = match platform.cores() {
            Some(cores) => (0..cores.count).collect(),
            None if fits => online()?,
            None => Vec::new(),
        };
        let spec = relative_to(&spec, &arguments.file);
        Ok(Chosen { platform, spec, new: None, cpus })
    }

    fn this_machine(arguments: &InitArguments, relative: &str) -> Result<Chosen, Failure> {
        let path = arguments.file.with_extension("platform.toml");
        let Some(name) = path.file_name().filter(|_| arguments.file != Path::new("-")) else {
            return Err(Failure::Sentence(
                "FILE is \"-\"; accepted with --functions-of is a file: the platform file is written beside it"
                    .to_owned(),
            ));
        };
        let cache_of = arguments.cache_of.as_deref().map(Platform::load).transpose()?;
        let file = assumed_platform(&Machine::read(), &Platform::load(relative)?, cache_of.as_ref())?;
        let text = file.to_toml();
        let platform = Platform::from_file(file, &path.display().to_string())?;
        let spec = name.to_string_lossy().into_owned();
        Ok(Chosen { platform, spec, new: Some((path, text)), cpus: online()? })
    }
}

fn listed(cpus: &IndexList) -> Result<Vec<u32>, Failure> {
    match cpus {
        IndexList::Only(_) => Ok(cpus.resolve(share::CPUS_MAX).map_err(refused)?.iter().collect()),
        _ => Err(refused("a list that is not plain")),
    }
}

fn refused(cause: impl std::fmt::Display) -> Failure {
    Failure::Sentence(format!(
        "--cpus: {cause}; accepted is a plain list such as 0-3,8, of numbers below {}",
        share::CPUS_MAX
    ))
}

/// CPUs that are online, one of each core as Linux numbers them on most machines: the first threads of all cores come first.
fn online() -> Result<Vec<u32>, Failure> {
    let cores = Machine::read_identity().cores.cores;
    let online = online_cpus()?.into_iter().filter_map(|cpu| u32::try_from(cpu).ok());
    Ok(online.take(cores.max(1) as usize).collect())
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

fn device(name: &str, density_gbit: Option<u32>) -> Result<Device, Failure> {
    Ok(Standard::load(name)?.device(DeviceChoice { density_gbit, ..DeviceChoice::default() })?)
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

/// Writes both files, or none; what is written is a valid assignment.
fn write(arguments: &InitArguments, chosen: &Chosen, text: &str) -> Result<(), Failure> {
    let path = &arguments.file;
    if path == Path::new("-") {
        Assignment::of(&SystemFile::parse(text, "the new file")?, "the new file", Path::new(""))?;
        return print(text);
    }
    let files = [Some(path), chosen.new.as_ref().map(|(path, _)| path)];
    if let Some(existing) = files.into_iter().flatten().find(|path| path.exists() && !arguments.force) {
        return Err(Failure::Sentence(format!(
            "{existing:?} exists; accepted is another FILE, or --force to replace it"
        )));
    }
    let file = WholeFile::new(path)?;
    let Some((platform_path, platform_text)) = &chosen.new else {
        let folder = path.parent().unwrap_or(Path::new(""));
        Assignment::of(&SystemFile::parse(text, "the new file")?, "the new file", folder)?;
        return file.finish(text);
    };
    let before = std::fs::read(platform_path).ok();
    WholeFile::new(platform_path)?.finish(platform_text)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let checked = SystemFile::parse(text, "the new file").and_then(|own| Assignment::of(&own, "the new file", folder));
    checked.map_err(Failure::from).and_then(|_| file.finish(text)).inspect_err(|_| {
        // What fails here has a message of its own already.
        let _ = match before {
            Some(before) => std::fs::write(platform_path, before),
            None => std::fs::remove_file(platform_path),
        };
    })
}

/// A system file with remarks.
struct Written<'a> {
    file: &'a SystemFile,
    /// What each task got of the platform, in words.
    shares: &'a [Option<String>],
    chosen: &'a Chosen,
    device: Option<&'a Device>,
    path: &'a Path,
}

impl Written<'_> {
    fn text(&self) -> String {
        let mut text = self.head();
        let top = SystemFile { tasks: Vec::new(), refresh: None, ..self.file.clone() };
        text += &top.to_text();
        for (task, share) in self.file.tasks.iter().zip(self.shares) {
            text.push('\n');
            if let Some(share) = share {
                let _ = writeln!(text, "# {share}");
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
        let path = if self.path == Path::new("-") { "FILE".into() } else { self.path.display().to_string() };
        let tasks = &self.file.tasks;
        let mut text = format!(
            "# {} on {}, a first division by memtint init. All fields: memtint system schema\n#\n",
            if tasks.len() == 1 { "One task".to_owned() } else { format!("{} tasks", tasks.len()) },
            self.chosen.platform.name()
        );
        let mut line = |command: &str| {
            let _ = writeln!(text, "#     memtint {command}");
        };
        line(&format!("system check {path}"));
        let timed: Vec<&TaskEntry> = tasks.iter().filter(|task| is_timed(task)).collect();
        let cores = |task: &TaskEntry| task.cores.as_ref().map(ToString::to_string);
        let may_analyze = decisive(self.file, Verb::Analyze).is_empty();
        if let Some(first) = timed.first().filter(|_| may_analyze) {
            let one_core = tasks.iter().all(|task| cores(task) == cores(first));
            match cores(first).filter(|_| !one_core) {
                // WCETs must include what the other cores cost.
                Some(core) => line(&format!("analyze {path} --core {core} --ignore other-cores")),
                None => line(&format!("analyze {path}")),
            }
        }
        if let Some(name) = tasks.iter().find(|task| !task.command.is_empty()).and_then(|task| task.name.as_ref()) {
            line(&format!("run --system {path} --task {}", name.as_str()));
            line(&format!("inspect --system {path}"));
        }
        if tasks.iter().any(|task| task.bandwidth.is_some()) {
            line(&format!("guard --system {path}"));
        }
        text
    }
}
