//! `memtint refresh compare`: schemes beside each other, at several densities.

use std::path::PathBuf;
use std::process::ExitCode;

use memtint_hiding::BEYOND_STANDARD;
use memtint_hiding::crs::Density;
use memtint_picture::lines::{self, Panel, Series};
use memtint_refresh::{Cell, Comparison, Outcome, Scheme, compare};
use memtint_sim::Watch as _;
use schemars::JsonSchema;
use serde::Serialize;

use super::report::{complaints, share, short};
use super::setting::{Setting, density, gigabits, scheme};
use crate::output::{Ending, Format, print, print_json, table, write_file};
use crate::sim::Progress;
use crate::system::first_line;

/// Version of the form of JSON output.
const SCHEMA: u32 = 1;

/// Schemes beside each other, at several densities.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct CompareReport {
    /// Version of the form of this report.
    schema: u32,
    /// Which report it is.
    #[schemars(extend("const" = "refresh compare"))]
    report: &'static str,
    /// Fields of the system file that no simulation considers.
    not_considered: Vec<String>,
    /// Mean latency of all reads of memory without refresh, rounded down.
    latency_mean_none_ps: u64,
    /// Density by density, scheme by scheme.
    cells: Vec<CellReport>,
}

impl CompareReport {
    pub(super) fn new(found: &Comparison, not_considered: Vec<String>) -> CompareReport {
        CompareReport {
            schema: SCHEMA,
            report: "refresh compare",
            not_considered,
            latency_mean_none_ps: found.none.latency().0,
            cells: found.cells.iter().map(|cell| CellReport::new(found, cell)).collect(),
        }
    }
}

/// A scheme at a density.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct CellReport {
    /// How memory was refreshed.
    scheme: Scheme,
    /// Gigabits of a chip.
    density_gbit: u32,
    /// What came out; absent where the scheme has no schedule.
    #[serde(flatten)]
    figures: Option<Figures>,
    /// Whether the scheme keeps what it promises.
    holds: bool,
    /// Why it does not, or has no schedule.
    complaints: Vec<String>,
}

impl CellReport {
    fn new(found: &Comparison, cell: &Cell) -> CellReport {
        let (scheme, density_gbit) = (cell.scheme, gigabits(cell.density));
        let (figures, holds, complaints) = match &cell.outcome {
            Ok(outcome) => (Some(Figures::new(found, outcome)), outcome.holds(), complaints(outcome)),
            Err(error) => (None, false, vec![error.to_string()]),
        };
        CellReport { scheme, density_gbit, figures, holds, complaints }
    }
}

/// What came out of a simulation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Figures {
    /// Mean share of the time that cores had a task.
    utilization: f64,
    /// Mean latency of all reads of memory, rounded down.
    latency_mean_ps: u64,
    /// The same, by that without refresh.
    latency_over_none: f64,
    /// The longest response of any task, by its deadline.
    response_over_deadline_max: f64,
    /// Jobs that were late.
    deadline_misses: u64,
    /// How many requests met a refresh of their rank.
    requests_that_met_a_refresh: u64,
    /// Time in which cores stood idle only because of locks, all cores together; null without locks.
    unhidden_ps: Option<u64>,
    /// Refreshes that came too late.
    retention_losses: u64,
    /// Whether every response is within its bound; null where a task has none and no other is beyond its own.
    within_bounds: Option<bool>,
    /// What the scheme asks of memory that the standard does not give.
    beyond_standard: Option<&'static str>,
}

impl Figures {
    fn new(found: &Comparison, outcome: &Outcome) -> Figures {
        Figures {
            utilization: utilization(outcome),
            latency_mean_ps: outcome.latency().0,
            latency_over_none: slower(found, outcome),
            response_over_deadline_max: longest(outcome),
            deadline_misses: outcome.misses(),
            requests_that_met_a_refresh: outcome.requests_met(),
            unhidden_ps: outcome.unhidden().map(|time| time.0),
            retention_losses: outcome.losses(),
            within_bounds: within(outcome),
            beyond_standard: outcome.scheme.beyond_standard(),
        }
    }
}

/// Arguments of `memtint refresh compare`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 every scheme holds at every density, 1 one does not (see memtint refresh simulate), or has no \
    schedule, 2 failure.\n\
    \n\
    Example: memtint refresh compare tasks.toml --schemes auto,burst,crs --densities 1,8,64 --svg lines.svg"
)]
pub(crate) struct CompareArguments {
    #[command(flatten)]
    setting: Setting,
    /// Schemes, with commas between them; default: all that the file has what they need for.
    #[arg(long, value_name = "SCHEMES", value_delimiter = ',', value_parser = scheme())]
    schemes: Vec<Scheme>,
    /// Gigabits of a chip, with commas between them.
    #[arg(long, value_name = "GIGABITS", value_delimiter = ',', value_parser = density(), default_value = "1,2,4,8,16,32,64")]
    densities: Vec<Density>,
    /// File for a picture of lines over density.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// What of all there is to do is finding out what jobs execute.
const PREPARING: f64 = 0.2;

pub(super) fn main(arguments: &CompareArguments, format: Format) -> Ending {
    let progress = Progress::new()?;
    let mut schemes = arguments.schemes.clone();
    if schemes.is_empty() {
        schemes = Scheme::ALL.to_vec();
    }
    let (prepared, not_considered) = arguments.setting.prepare(&schemes, &progress, PREPARING)?;
    if arguments.schemes.is_empty() {
        schemes.retain(|&scheme| scheme != Scheme::Crs || !prepared.file().servers.is_empty());
    }
    let told = |done: f64| progress.go_on(PREPARING + done * (1.0 - PREPARING));
    let found = compare(&prepared, &schemes, &arguments.densities, arguments.setting.threads(), &told)?;
    progress.end();
    if let Some(path) = &arguments.svg {
        write_file(path, &picture(&found, &schemes, &arguments.densities))?;
    }
    match format {
        Format::Text => print(&(first_line(&not_considered) + &text(&found)))?,
        Format::Json => print_json(&CompareReport::new(&found, not_considered))?,
    }
    let holds = |cell: &Cell| cell.outcome.as_ref().is_ok_and(Outcome::holds);
    Ok(ExitCode::from(u8::from(!found.cells.iter().all(holds))))
}

/// Mean share of the time that cores had a task.
fn utilization(outcome: &Outcome) -> f64 {
    (0..outcome.busy.len()).map(|core| share(outcome, core)).sum::<f64>() / outcome.busy.len().max(1) as f64
}

/// Mean latency of memory, by that without refresh.
fn slower(found: &Comparison, outcome: &Outcome) -> f64 {
    outcome.latency().0 as f64 / found.none.latency().0.max(1) as f64
}

/// The longest response of any task, by its deadline.
fn longest(outcome: &Outcome) -> f64 {
    outcome.tasks.iter().map(|task| task.response.max.0 as f64 / task.deadline.0 as f64).fold(0.0, f64::max)
}

/// Whether every response is within its bound; `None` where a task has none.
fn within(outcome: &Outcome) -> Option<bool> {
    match (outcome.beyond().is_empty(), outcome.tasks.iter().all(|task| task.within().is_some())) {
        (false, _) => Some(false),
        (true, true) => Some(true),
        (true, false) => None,
    }
}

fn text(found: &Comparison) -> String {
    let heads = [
        "scheme",
        "Gb",
        "utilization",
        "latency / none",
        "response / deadline",
        "late",
        "met refresh",
        "not hidden",
        "in bounds",
        "holds",
    ];
    let row = |cell: &Cell| {
        let mut row = vec![cell.scheme.name().to_owned(), gigabits(cell.density).to_string()];
        match &cell.outcome {
            Ok(outcome) => row.extend([
                format!("{:.2} %", 100.0 * utilization(outcome)),
                format!("{:.4}", slower(found, outcome)),
                format!("{:.4}", longest(outcome)),
                outcome.misses().to_string(),
                outcome.requests_met().to_string(),
                outcome.unhidden().map_or("-".to_owned(), short),
                within(outcome).map_or("-", |within| if within { "yes" } else { "NO" }).to_owned(),
                if outcome.holds() { "yes" } else { "NO" }.to_owned(),
            ]),
            Err(_) => row.extend(["-", "-", "-", "-", "-", "-", "-", "no schedule"].map(str::to_owned)),
        }
        row
    };
    let mut order: Vec<&Cell> = found.cells.iter().collect();
    // The lines of a scheme together.
    order.sort_by_key(|cell| found.cells.iter().position(|first| first.scheme == cell.scheme));
    let mut text = table(&heads, &[1, 2, 3, 4, 5, 6, 7], &order.into_iter().map(row).collect::<Vec<_>>());
    for cell in &found.cells {
        if let Err(error) = &cell.outcome {
            text.push_str(&format!("\n{} Gb: {error}", gigabits(cell.density)));
        }
    }
    if found.cells.iter().any(|cell| cell.outcome.is_err()) {
        text.push('\n');
    }
    let mut beyond: Vec<&str> = Vec::new();
    for cell in found.cells.iter().filter(|cell| cell.scheme.beyond_standard().is_some()) {
        if !beyond.contains(&cell.scheme.name()) {
            beyond.push(cell.scheme.name());
        }
    }
    if !beyond.is_empty() {
        text.push_str(&format!("standard: not kept by {}: {BEYOND_STANDARD}\n", beyond.join(", ")));
    }
    text
}

fn picture(found: &Comparison, schemes: &[Scheme], densities: &[Density]) -> String {
    let value = |scheme: Scheme, density: Density, of: &dyn Fn(&Outcome) -> f64| {
        let cell = found.cells.iter().find(|cell| (cell.scheme, cell.density) == (scheme, density))?;
        cell.outcome.as_ref().ok().map(of)
    };
    let panel = |name: &'static str, of: &dyn Fn(&Outcome) -> f64| Panel {
        name,
        series: schemes
            .iter()
            .map(|&scheme| Series {
                name: scheme.name(),
                values: densities.iter().map(|&density| value(scheme, density, of)).collect(),
            })
            .collect(),
    };
    let panels = [
        panel("mean memory latency, by that without refresh", &|outcome| slower(found, outcome)),
        panel("utilization of the cores", &utilization),
        panel("longest response, by its deadline", &longest),
    ];
    let labels: Vec<String> = densities.iter().map(|&density| format!("{} Gb", gigabits(density))).collect();
    lines::svg("Refresh schemes over the density of memory chips", &labels, &panels)
}
