//! The command line: its verbs, and what was asked for where it cannot be read.

use std::ffi::OsString;

use clap::{ColorChoice, Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::output::{Format, Verbosity, set_colors, set_verbosity};
use crate::progress::{ProgressForm, set_form};
use crate::{
    analyze, bench, doctor, dram, draw, guard, init, inspect, manual, palette, platform, probe, refresh, reproduce,
    run, sim, system, trace,
};

/// Run programs in their own DRAM banks and cache sets on a stock kernel, and prove it from outside.
#[derive(Debug, Parser)]
#[command(name = "memtint", version, max_term_width = 100, propagate_version = false, subcommand_required = true)]
pub(crate) struct Arguments {
    /// Form of what goes to standard output: text for people, or JSON with a schema number.
    #[arg(long, global = true, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) messages: Messages,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What goes to standard error, and colors.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Messages {
    /// Print errors and warnings only: no notes, no progress.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Print how a result came about too: platform and its source, backend, elapsed time.
    #[arg(short, long, global = true)]
    verbose: bool,
    /// Form of progress on standard error.
    #[arg(long, global = true, value_name = "FORM", value_enum, default_value_t = ProgressForm::Auto)]
    progress: ProgressForm,
    /// Whether to color verdicts and help. NO_COLOR and CLICOLOR_FORCE count with auto.
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

impl Messages {
    /// Makes this the behavior of the program.
    pub(crate) fn apply(self) {
        set_verbosity(match self {
            Messages { quiet: true, .. } => Verbosity::Quiet,
            Messages { verbose: true, .. } => Verbosity::Verbose,
            _ => Verbosity::Normal,
        });
        set_form(self.progress);
        set_colors(self.color);
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run a program in its own colors.
    Run(run::RunArguments),
    /// Show where the pages of a process are, and judge whether that is where they should be.
    Inspect(inspect::InspectArguments),
    /// Draw saved reports of inspect below each other into one picture.
    Draw(draw::DrawArguments),
    /// Show what can be isolated on a platform: bank classes, set colors and their pairs.
    Palette(palette::PaletteArguments),
    /// Find the mapping from physical addresses to banks by timing, or the reason why not.
    Probe(probe::ProbeArguments),
    /// List, show, detect and convert descriptions of machines.
    Platform(platform::PlatformArguments),
    /// Check whether this machine can color, probe and regulate, and name remedies.
    Doctor(doctor::DoctorArguments),
    /// Simulate one DRAM channel, and check command traces.
    Dram(dram::DramArguments),
    /// Write a first system file, from a platform and what you say of your tasks.
    Init(init::InitArguments),
    /// Check system files, which describe tasks once for all verbs, and print their schema.
    System(system::SystemArguments),
    /// Simulate a machine with its tasks, from cores and caches to DRAM and page allocator.
    Sim(sim::SimArguments),
    /// Regulate the memory bandwidth of cgroups and CPUs; calculate guaranteed bandwidth.
    Guard(guard::GuardArguments),
    /// Decide whether a task set meets its deadlines, with the theorem and the numbers.
    Analyze(analyze::AnalyzeArguments),
    /// Plan when memory is refreshed, so that tasks do not wait for it.
    Refresh(refresh::RefreshArguments),
    /// Regenerate published figures and tables, and compare.
    Reproduce(reproduce::ReproduceArguments),
    /// Measure what coloring costs, and how fast the simulated allocators and channels are.
    Bench(bench::BenchArguments),
    /// Record the memory references of programs, and inspect such recordings.
    Trace(trace::TraceArguments),
    /// Print a script that completes memtint's command line in a shell.
    Completions(manual::CompletionsArguments),
    /// Write the manual: one page for each verb.
    Manual(manual::ManualArguments),
}

/// The verbs by what they are for, as `--help` lists them.
const GROUPS: [(&str, &[&str]); 4] = [
    ("For your machine", &["doctor", "run", "inspect", "draw", "guard", "palette", "platform", "probe"]),
    ("For your design", &["init", "system", "analyze", "refresh", "sim", "trace"]),
    ("For researchers", &["reproduce", "bench", "dram"]),
    ("Other", &["completions", "manual", "help"]),
];

/// The command line, with its verbs in groups.
pub(crate) fn command() -> Command {
    let mut command = Arguments::command();
    command.build();
    let mut verbs = String::new();
    for (heading, names) in GROUPS {
        verbs.push_str(&format!("{heading}:\n"));
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
            verbs.push_str(&format!("  {name:<11}  {}\n", about.unwrap_or_default()));
        }
        verbs.push('\n');
    }
    // Built anew, because a built one keeps its template from the verbs.
    Arguments::command()
        .help_template(format!("{{about}}\n\n{{usage-heading}} {{usage}}\n\n{verbs}Options:\n{{options}}"))
}

/// Reads the command line.
pub(crate) fn parse() -> Result<Arguments, clap::Error> {
    // Help and errors are printed before there are arguments.
    let color = asked_color(std::env::args_os());
    Arguments::from_arg_matches(&command().color(color).try_get_matches()?)
}

/// The words before `--`, without the name of the program.
fn words(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    arguments.skip(1).take_while(|word| word != "--").collect()
}

/// Tells whether an option has a value, in either spelling.
fn has(words: &[OsString], option: &str, value: &str) -> bool {
    words.iter().any(|word| *word == *format!("{option}={value}"))
        || words.windows(2).any(|pair| pair[0] == option && pair[1] == value)
}

/// Whether to color, whatever else is wrong with the command line.
fn asked_color(arguments: impl Iterator<Item = OsString>) -> ColorChoice {
    let words = words(arguments);
    match () {
        () if has(&words, "--color", "always") => ColorChoice::Always,
        () if has(&words, "--color", "never") => ColorChoice::Never,
        () => ColorChoice::Auto,
    }
}

/// The format that was asked for, whatever else is wrong with the command line.
pub(crate) fn asked_format(arguments: impl Iterator<Item = OsString>) -> Format {
    if has(&words(arguments), "--format", "json") { Format::Json } else { Format::Text }
}

/// Tells whether the verb is `run` or `trace record`, whatever else is wrong with the command line.
pub(crate) fn asked_to_run(arguments: impl Iterator<Item = OsString>) -> bool {
    let mut rest = arguments.skip(1);
    let mut tracing = false;
    while let Some(argument) = rest.next() {
        match argument.to_str() {
            Some("--format" | "--progress" | "--color") => drop(rest.next()),
            Some(option) if option.starts_with('-') => {}
            Some("trace") if !tracing => tracing = true,
            verb => return verb == Some(if tracing { "record" } else { "run" }),
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_defined() {
        command().debug_assert();
    }

    #[test]
    fn each_verb_is_in_one_group_and_its_line_fits() {
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let mut command = command();
        // Rendering adds the verb help.
        let help = command.render_help().to_string();
        let mut verbs: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        listed.sort_unstable();
        verbs.sort_unstable();
        assert_eq!(listed, verbs);
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }

    #[test]
    fn the_format_is_found_behind_other_mistakes() {
        let asked = |line: &str| asked_format(line.split(' ').map(OsString::from));
        assert_eq!([asked("memtint --format json --bogus"), asked("memtint sim --format=json")], [Format::Json; 2]);
        assert_eq!([asked("memtint json"), asked("memtint run -- a --format json")], [Format::Text; 2]);
    }

    #[test]
    fn colors_are_found_behind_other_mistakes() {
        let asked = |line: &str| asked_color(line.split(' ').map(OsString::from));
        assert_eq!(asked("memtint --bogus --color always"), ColorChoice::Always);
        assert_eq!(asked("memtint sim --color=never"), ColorChoice::Never);
        assert_eq!(asked("memtint run -- --color never"), ColorChoice::Auto);
    }

    #[test]
    fn the_verb_is_found_behind_options() {
        let asked = |line: &str| asked_to_run(line.split(' ').map(OsString::from));
        assert!(
            asked("memtint run --bogus") && asked("memtint --format json run") && asked("memtint --format=json run")
        );
        assert!(asked("memtint trace record --bogus") && asked("memtint trace --format json record"));
        assert!(!asked("memtint trace info record") && !asked("memtint trace run") && !asked("memtint record"));
        assert!(asked("memtint -q --color never --progress json run") && !asked("memtint --color run inspect"));
        assert!(!asked("memtint inspect run") && !asked("memtint --format run inspect") && !asked("memtint"));
    }
}
