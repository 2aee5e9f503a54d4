//! `memtint refresh simulate`: a task set on a machine whose memory is refreshed, beside its analysis.

use std::path::PathBuf;
use std::process::ExitCode;

use memtint_hiding::crs::Density;
use memtint_refresh::{Scheme, SimulateReport};
use memtint_sim::Watch as _;

use super::setting::{Setting, density, scheme};
use super::{chart, report};
use crate::analyze::SpanArguments;
use crate::output::{Ending, Format, print, print_json, write_file};
use crate::progress::Simulating;
use crate::system::first_line;

/// Arguments of `memtint refresh simulate`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 every deadline is met and no row is lost, 1 a deadline is missed, a row is not refreshed in time, \
    a request meets a refresh of its rank where locks should keep it off, or the analysis finds responses unbounded, 2 failure.\n\
    \n\
    The machine is that of the dissertation: DDR3-1600, one channel, an in-order core of one instruction a nanosecond, 16 KiB and \
    128 KiB of cache, with the ranks of [memory]. A job executes its `program`, or reads its `lines` (a task \
    without both is refused): as much of it as takes, alone and without refresh, at most its WCET.\n\
    \n\
    Example: memtint refresh simulate tasks.toml --scheme crs --density 16 --svg runs.svg"
)]
pub(crate) struct SimulateArguments {
    #[command(flatten)]
    setting: Setting,
    /// How memory is refreshed.
    #[arg(long, value_parser = scheme())]
    scheme: Scheme,
    /// Gigabits of a chip; default: that of the file.
    #[arg(long, value_parser = density())]
    density: Option<Density>,
    /// File for a picture of the schedule and of refresh.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    span: SpanArguments,
}

/// What of all there is to do is finding out what jobs execute.
const PREPARING: f64 = 0.7;

pub(super) fn main(arguments: &SimulateArguments, format: Format) -> Ending {
    arguments.span.check()?;
    let progress = Simulating::new()?;
    let (mut prepared, not_considered) = arguments.setting.prepare(&[arguments.scheme], &progress, PREPARING)?;
    if let Some(density) = arguments.density {
        prepared = prepared.with_density(density);
    }
    let told = |done: f64| progress.go_on(PREPARING + done * (1.0 - PREPARING));
    let outcome = prepared.simulate(arguments.scheme, &told)?;
    drop(progress);
    match format {
        Format::Text => print(&(first_line(&not_considered) + &report::text(&outcome)))?,
        Format::Json => print_json(&SimulateReport::new(&outcome, not_considered))?,
    }
    if let Some(path) = &arguments.svg {
        write_file(path, &chart::picture(&outcome, arguments.span)?.svg())?;
    }
    Ok(ExitCode::from(u8::from(!outcome.holds())))
}
