//! The program `memtint`: one module for each verb.
//!
//! Data goes to standard output, words for people to standard error. Exit status: 0 yes, 1 a well-founded no (a verdict
//! `violated`), 2 failure, 3 where memtint cannot say. `memtint run` and `memtint trace record` end with the status of the program they ran, or 125
//! when memtint itself failed, 126 when the program cannot be executed, 127 when there is none.

mod analyze;
mod bench;
mod choice;
mod command_line;
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
mod platform;
mod probe;
mod progress;
mod refresh;
mod relative;
mod reproduce;
mod run;
mod sim;
mod system;
mod trace;

use std::process::ExitCode;
use std::time::Instant;

use clap::error::ErrorKind;

use crate::command_line::{Verb, asked_format, asked_to_run, parse};
use crate::output::{ErrorReport, Format, RUN_FAILED, detail, has_printed, print_json_line, warn};

fn main() -> ExitCode {
    let arguments = match parse() {
        Ok(arguments) => arguments,
        Err(error) => return misused(&error),
    };
    arguments.messages.apply();
    let started = Instant::now();
    let running = matches!(arguments.verb, Verb::Run(_));
    let outcome = match arguments.verb {
        Verb::Run(run) => run::main(&run, arguments.format),
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
    detail(|| format!("took {:.3} s", started.elapsed().as_secs_f64()));
    match outcome {
        Ok(status) => status,
        Err(failure) => {
            warn(&failure.to_string());
            if running {
                // Standard output is the program's.
                return ExitCode::from(RUN_FAILED);
            }
            tell_programs(arguments.format, failure.status(), failure.to_string());
            ExitCode::from(failure.status())
        }
    }
}

/// Prints an error as JSON, where JSON was asked for and no report was printed.
fn tell_programs(format: Format, status: u8, message: String) {
    if format == Format::Json && !has_printed() {
        // Standard error has the sentence.
        let _ = print_json_line(&ErrorReport::new(status, message));
    }
}

/// What is wrong with the command line, on one line.
fn sentence(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "the subcommand is missing; accepted is one that --help lists".to_owned();
    }
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
    first.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Prints what clap has to say: help and version are no failures.
fn misused(error: &clap::Error) -> ExitCode {
    // A closed pipe is not an error.
    let _ = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
        _ if asked_to_run(std::env::args_os()) => ExitCode::from(RUN_FAILED),
        _ => {
            tell_programs(asked_format(std::env::args_os()), 2, sentence(error));
            ExitCode::from(2)
        }
    }
}
