//! `memtint doctor`: whether this machine can color, probe and regulate.

use std::process::ExitCode;

use memtint_doctor::{Answer, Check, Facts, Purpose, Report};

use crate::choice::default_platform;
use crate::output::{Ending, Format, JsonForm, print, print_json};

/// What is printed as JSON.
pub(crate) const FORMS: &[JsonForm] = &[JsonForm::of::<Report>("doctor")];

/// Arguments of `memtint doctor`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Reads files of /proc, /sys and /boot, and opens a userfaultfd, counters and BPF programs as a run would; changes \
                  nothing. It measures nothing: the self-tests of memtint probe and memtint guard do.\n\n\
                  Exit status: 0 when each purpose is possible, though limited; 1 when one is not; 2 on failure.\n\n\
                  Example: memtint doctor --for color"
)]
pub(crate) struct DoctorArguments {
    /// Answer for these purposes only; may be repeated. Default: all.
    #[arg(long = "for", value_name = "PURPOSE", value_delimiter = ',', value_parser = purpose())]
    purposes: Vec<Purpose>,
    /// Print only checks that stand in the way of something; JSON always has all.
    #[arg(long)]
    problems: bool,
}

fn purpose() -> impl clap::builder::TypedValueParser<Value = Purpose> {
    use clap::builder::{PossibleValuesParser, TypedValueParser as _};
    PossibleValuesParser::new(Purpose::ALL.map(Purpose::name)).map(|name| {
        Purpose::ALL.into_iter().find(|purpose| purpose.name() == name).expect("the parser accepts no other")
    })
}

pub(crate) fn main(arguments: &DoctorArguments, format: Format) -> Ending {
    let report = Report::of(&Facts::here(default_platform()));
    let asked = |purpose: Purpose| arguments.purposes.is_empty() || arguments.purposes.contains(&purpose);
    match format {
        Format::Json => print_json(&report)?,
        Format::Text => print(&page(&report, asked, arguments.problems))?,
    }
    let impossible = Purpose::ALL.into_iter().any(|purpose| asked(purpose) && report.answer(purpose) == Answer::No);
    Ok(ExitCode::from(u8::from(impossible)))
}

fn word(answer: Answer) -> &'static str {
    match answer {
        Answer::Yes => "yes",
        Answer::Limited => "limited",
        Answer::No => "no",
    }
}

/// The answers, then every check with its remedy.
fn page(report: &Report, asked: impl Fn(Purpose) -> bool, problems: bool) -> String {
    let mut text = String::new();
    for purpose in report.purposes.iter().filter(|purpose| asked(purpose.purpose)) {
        let line =
            format!("{:<8}  {:<7}  {}", purpose.purpose.name(), word(purpose.answer), purpose.because.join(", "));
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push('\n');
    let width = report.checks.iter().map(|check| check.id.len()).max().unwrap_or(0);
    for check in report.checks.iter().filter(|check| !problems || worst(check, &asked) != Answer::Yes) {
        text.push_str(&format!("{:<7}  {:<width$}  {}\n", mark(check, worst(check, &asked)), check.id, check.found));
        if let Some(remedy) = &check.remedy {
            text.push_str(&format!("{:<7}  {:<width$}  -> {remedy}\n", "", ""));
        }
    }
    text
}

/// A check that matters only to other purposes than those asked for is neither.
fn mark(check: &Check, worst: Answer) -> &'static str {
    match worst {
        Answer::Yes if check.is_fine() => "ok",
        Answer::Yes => "-",
        other => word(other),
    }
}

/// The worst effect on any purpose that was asked about.
fn worst(check: &Check, asked: &impl Fn(Purpose) -> bool) -> Answer {
    let effects = Purpose::ALL.into_iter().filter(|purpose| asked(*purpose)).map(|purpose| check.effect(purpose));
    effects.max().unwrap_or(Answer::Yes)
}
