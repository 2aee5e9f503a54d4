//! The program `memtint`: one module for each verb.
//!
//! Data goes to standard output, words for people to standard error. Exit status: 0 yes, 1 a well-founded no (a verdict
//! `violated`), 2 failure. `memtint run` and `memtint trace record` end with the status of the program they ran, or 125
//! when memtint itself failed, 126 when the program cannot be executed, 127 when there is none.

mod analyze;
mod bench;
mod choice;
mod command_watch;
mod decode;
mod detect;
mod doctor;
mod dram;
mod draw;
mod guard;
mod init;
mod inspect;
mod manual;
mod output;
mod palette;
mod parquet;
mod platform;
mod probe;
mod refresh;
mod reproduce;
mod run;
mod searching;
mod sim;
mod system;
mod trace;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use crate::output::{Format, RUN_FAILED};

/// Runs programs in their own DRAM banks and cache sets on a stock kernel, and proves it from outside.
#[derive(Debug, Parser)]
#[command(name = "memtint", version, max_term_width = 100, propagate_version = false, subcommand_required = true)]
struct Arguments {
    /// Form of what goes to standard output: text for people, or JSON with a schema number.
    #[arg(long, global = true, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Runs a program in colors of its own.
    Run(run::RunArguments),
    /// Says where the pages of a process are, and whether that is where they should be.
    Inspect(inspect::InspectArguments),
    /// Draws saved reports of inspect (JSON) below each other into one picture.
    Draw(draw::DrawArguments),
    /// Says what can be isolated on a platform: its bank classes, set colors and their pairs.
    Palette(palette::PaletteArguments),
    /// Finds the mapping from physical addresses to banks by timing, or says why it cannot be found.
    Probe(probe::ProbeArguments),
    /// Lists, shows, detects and converts descriptions of machines.
    Platform(platform::PlatformArguments),
    /// Check whether this machine can color, probe and regulate, and what to do where it cannot.
    Doctor(doctor::DoctorArguments),
    /// Simulates one DRAM channel, and checks command traces.
    Dram(dram::DramArguments),
    /// Write a first system file, from a platform and what you say of your tasks.
    Init(init::InitArguments),
    /// Check system files, which describe tasks once for all verbs, and print their schema.
    System(system::SystemArguments),
    /// Simulates a machine with its tasks: cores, caches, controllers, DRAM, page allocator, schedulers.
    Sim(sim::SimArguments),
    /// Regulate the memory bandwidth of cgroups and CPUs; calculate what bandwidth memory guarantees.
    Guard(guard::GuardArguments),
    /// Decides whether a task set meets its deadlines, and says by which theorem and with which numbers.
    Analyze(analyze::AnalyzeArguments),
    /// Plans when memory is refreshed, so that tasks do not meet it.
    Refresh(refresh::RefreshArguments),
    /// Regenerates published figures and tables, and compares.
    Reproduce(reproduce::ReproduceArguments),
    /// Measures what coloring costs, and how fast the simulated allocators and channels are.
    Bench(bench::BenchArguments),
    /// Records the memory references of programs, and looks at such recordings.
    Trace(trace::TraceArguments),
    /// Print a script that completes memtint's command line in a shell.
    Completions(manual::CompletionsArguments),
    /// Write the manual: one page for each verb.
    Manual(manual::ManualArguments),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return misused(&error),
    };
    let running = matches!(arguments.verb, Verb::Run(_));
    let outcome = match arguments.verb {
        Verb::Run(run) => run::main(&run),
        Verb::Inspect(inspect) => inspect::main(&inspect, arguments.format),
        Verb::Draw(draw) => draw::main(&draw),
        Verb::Palette(palette) => palette::main(&palette, arguments.format),
        Verb::Probe(probe) => probe::main(&probe, arguments.format),
        Verb::Platform(platform) => platform::main(&platform, arguments.format),
        Verb::Dram(dram) => dram::main(&dram, arguments.format),
        Verb::Init(init) => init::main(&init, arguments.format),
        Verb::System(system) => system::main(&system, arguments.format),
        Verb::Sim(sim) => sim::main(&sim, arguments.format),
        Verb::Guard(guard) => guard::main(&guard, arguments.format),
        Verb::Analyze(analyze) => analyze::main(&analyze, arguments.format),
        Verb::Refresh(refresh) => refresh::main(&refresh, arguments.format),
        Verb::Reproduce(reproduce) => reproduce::main(&reproduce, arguments.format),
        Verb::Bench(bench) => bench::main(&bench, arguments.format),
        Verb::Trace(trace) => trace::main(&trace, arguments.format),
        Verb::Doctor(doctor) => doctor::main(&doctor, arguments.format),
        Verb::Completions(shell) => manual::completions(&shell),
        Verb::Manual(manual) => manual::main(&manual),
    };
    match outcome {
        Ok(status) => status,
        Err(failure) => {
            eprintln!("memtint: {failure}");
            ExitCode::from(if running { RUN_FAILED } else { 2 })
        }
    }
}

/// Prints what clap has to say: help and version are no failures.
fn misused(error: &clap::Error) -> ExitCode {
    // A closed pipe is not an error.
    let _ = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
        _ if asked_to_run(std::env::args_os()) => ExitCode::from(RUN_FAILED),
        _ => ExitCode::from(2),
    }
}

/// Tells whether the verb is `run` or `trace record`, whatever else is wrong with the command line.
fn asked_to_run(arguments: impl Iterator<Item = OsString>) -> bool {
    let mut rest = arguments.skip(1);
    let mut tracing = false;
    while let Some(argument) = rest.next() {
        match argument.to_str() {
            Some("--format") => drop(rest.next()),
            Some(option) if option.starts_with('-') => {}
            Some("trace") if !tracing => tracing = true,
            verb => return verb == Some(if tracing { "record" } else { "run" }),
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_defined() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_verb_is_found_behind_options() {
        let asked = |line: &str| asked_to_run(line.split(' ').map(OsString::from));
        assert!(
            asked("memtint run --bogus") && asked("memtint --format json run") && asked("memtint --format=json run")
        );
        assert!(asked("memtint trace record --bogus") && asked("memtint trace --format json record"));
        assert!(!asked("memtint trace info record") && !asked("memtint trace run") && !asked("memtint record"));
        assert!(!asked("memtint inspect run") && !asked("memtint --format run inspect") && !asked("memtint"));
    }
}
