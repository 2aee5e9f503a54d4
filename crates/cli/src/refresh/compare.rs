//! `memtint refresh compare`: schemes beside each other, at several densities.

use std::path::PathBuf;
use std::process::ExitCode;

use memtint_hiding::BEYOND_STANDARD;
use memtint_hiding::crs::Density;
use memtint_picture::plot::{Limit, Panel, Plot, Series};
use memtint_refresh::{Cell, CompareReport, Comparison, Outcome, Scheme, compare, short};
use memtint_sim::Watch as _;

use super::setting::{Setting, density, gigabits, scheme};
use crate::output::{Ending, Format, print, print_json, table, write_file};
use crate::progress::Simulating;
use crate::system::first_line;

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
    let progress = Simulating::new()?;
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
    drop(progress);
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
                format!("{:.2} %", 100.0 * outcome.utilization()),
                format!("{:.4}", found.latency_over_none(outcome)),
                format!("{:.4}", outcome.response_over_deadline()),
                outcome.misses().to_string(),
                outcome.requests_met().to_string(),
                outcome.unhidden().map_or("-".to_owned(), short),
                outcome.within_bounds().map_or("-", |within| if within { "yes" } else { "NO" }).to_owned(),
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

/// What to conclude: at how many densities each scheme holds.
fn conclusion(found: &Comparison, schemes: &[Scheme], densities: &[Density]) -> String {
    let count = |scheme: Scheme| {
        let cells = found.cells.iter().filter(|cell| cell.scheme == scheme);
        cells.filter(|cell| cell.outcome.as_ref().is_ok_and(Outcome::holds)).count()
    };
    let all = densities.len();
    if schemes.iter().all(|&scheme| count(scheme) == all) {
        return "every scheme holds at every density".to_owned();
    }
    let said = schemes.iter().map(|&scheme| match count(scheme) {
        0 => format!("{} holds at no density", scheme.name()),
        held if held == all => format!("{} holds at every density", scheme.name()),
        held => format!("{} holds at {held} of {all} densities", scheme.name()),
    });
    said.collect::<Vec<_>>().join("; ")
}

fn picture(found: &Comparison, schemes: &[Scheme], densities: &[Density]) -> String {
    let value = |scheme: Scheme, density: Density, of: &dyn Fn(&Outcome) -> f64| {
        let cell = found.cells.iter().find(|cell| (cell.scheme, cell.density) == (scheme, density))?;
        cell.outcome.as_ref().ok().map(of)
    };
    let panel = |name: &'static str, limit: &'static str, of: &dyn Fn(&Outcome) -> f64| Panel {
        name,
        limit: Some(Limit { at: 1.0, name: limit }),
        series: schemes
            .iter()
            .map(|&scheme| Series {
                name: scheme.name(),
                values: densities.iter().map(|&density| value(scheme, density, of)).collect(),
            })
            .collect(),
    };
    let panels = vec![
        panel("mean memory latency, by that without refresh", "without refresh", &|outcome| {
            found.latency_over_none(outcome)
        }),
        panel("utilization of the cores", "all of the time", &Outcome::utilization),
        panel("longest response, by its deadline", "deadline", &Outcome::response_over_deadline),
    ];
    let labels: Vec<String> = densities.iter().map(|&density| format!("{} Gb", gigabits(density))).collect();
    Plot {
        title: conclusion(found, schemes, densities),
        subtitle: "refresh schemes over the density of memory chips".to_owned(),
        labels,
        panels,
        missing: "no schedule",
    }
    .svg()
}
