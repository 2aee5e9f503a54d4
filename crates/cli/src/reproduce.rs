//! `memtint reproduce`: published figures and tables, regenerated and compared.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use memtint_reproduce::{
    ComparedRow, Comparison, Comparisons, Evidence, Figure, FigureList, JudgedClaim, JudgedErratum, Options,
    Regenerated, Verdict, catalogue,
};

use crate::output::{
    Ending, Failure, Format, JsonForm, done, done_json, note, print, print_json, read_configuration, table, write_file,
};
use crate::progress::Simulating;

/// What is printed as JSON.
pub(crate) const FORMS: &[JsonForm] =
    &[JsonForm::of::<Comparisons>("reproduce"), JsonForm::of::<FigureList>("reproduce-list")];

/// Options of `memtint reproduce`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 every figure comes out as its file expects (or there is no verdict, with --short), 1 one differs, or agrees \
    where its file explains why it would not, 2 failure: a task that ends before its work is done, a wrong file, Ctrl-C."
)]
pub(crate) struct ReproduceArguments {
    /// Figures and tables to regenerate: names of the list, or files of your own (a path with a slash or ending in .toml;
    /// the file's id is its name). Default: all of which that is possible.
    #[arg(value_name = "FIGURES")]
    figures: Vec<String>,
    /// List what there is instead: name, paper, title, kind and time.
    #[arg(long)]
    list: bool,
    /// Simulate a tenth as much, and parts of long lists: a first look in seconds, without a verdict where anything is simulated.
    #[arg(long)]
    short: bool,
    /// Seed of everything random. Default: that of each scenario.
    #[arg(long)]
    seed: Option<u64>,
    /// Threads; results are the same with any number. Default: the CPUs of this machine.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Directory for a result (ID.json, ID.md) and the scenarios (ID/*.toml, for `memtint sim`) of each figure; made when it
    /// is missing.
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn main(arguments: &ReproduceArguments, format: Format) -> Ending {
    let mut figures = match &arguments.figures[..] {
        [] => catalogue::figures()?,
        named => named.iter().map(|name| figure(name)).collect::<Result<_, _>>()?,
    };
    if arguments.list {
        return list(&figures, format);
    }
    let all = figures.len();
    if arguments.figures.is_empty() {
        figures.retain(Figure::is_regenerated);
        let left_out = all - figures.len();
        if left_out > 0 {
            note(&format!("{left_out} figures have published values only and are left out (--list shows them)"));
        }
    }
    // Not after minutes of work.
    if let Some(directory) = &arguments.out {
        make(directory)?;
    }
    let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
    let options = Options {
        threads: arguments.threads.map_or_else(cpus, usize::from),
        short: arguments.short,
        seed: arguments.seed,
    };
    let progress = Simulating::new()?;
    let regenerated = memtint_reproduce::reproduce(&figures, options, &progress)?;
    drop(progress);
    if let Some(directory) = &arguments.out {
        regenerated.iter().try_for_each(|one| keep(directory, one))?;
    }
    match format {
        Format::Json => print_json(&Comparisons::of(&regenerated))?,
        Format::Text => print(&text(&regenerated))?,
    }
    if regenerated.len() < figures.len() {
        return Err(Failure::Sentence(format!(
            "stopped; {} of {} figures were done",
            regenerated.len(),
            figures.len()
        )));
    }
    let failed: Vec<&str> = regenerated
        .iter()
        .filter(|one| one.comparison.verdict == Verdict::Failed)
        .map(|one| one.comparison.id.as_str())
        .collect();
    if !failed.is_empty() {
        return Err(Failure::Sentence(format!("simulations of {} did not do their work", failed.join(", "))));
    }
    let as_expected = regenerated.iter().all(|one| one.comparison.is_as_expected());
    Ok(ExitCode::from(u8::from(!as_expected)))
}

/// One of the catalogue, or a file.
fn figure(name: &str) -> Result<Figure, Failure> {
    let path = Path::new(name);
    if !name.contains('/') && path.extension().is_none_or(|extension| extension != "toml") {
        return Ok(catalogue::find(name)?);
    }
    let text = read_configuration(path)?;
    let id = path.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
    Ok(catalogue::parse(&text, &id)?)
}

fn make(directory: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(directory).map_err(|cause| Failure::File {
        path: directory.to_owned(),
        done: "made",
        cause,
    })
}

/// Writes a figure's result and its scenarios.
fn keep(directory: &Path, one: &Regenerated) -> Result<(), Failure> {
    let id = &one.comparison.id;
    let json = serde_json::to_string_pretty(&one.comparison).map_err(|error| Failure::Output(error.into()))?;
    write_file(&directory.join(format!("{id}.json")), &(json + "\n"))?;
    write_file(&directory.join(format!("{id}.md")), &markdown(&one.comparison))?;
    let folder = directory.join(id);
    if !one.scenarios.is_empty() {
        make(&folder)?;
    }
    for run in &one.scenarios {
        let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '.' { letter } else { '-' };
        let name: String = run.name.chars().map(plain).collect();
        write_file(&folder.join(format!("{name}.toml")), &run.text)?;
    }
    Ok(())
}

fn list(figures: &[Figure], format: Format) -> Ending {
    if format == Format::Json {
        return done_json(&FigureList::of(figures));
    }
    let row = |figure: &Figure| {
        let kind = format!("{:?}", figure.kind).to_lowercase();
        let time = match figure.is_regenerated() {
            true => format!("{} s", figure.seconds),
            false => "published values only, not regenerated yet".to_owned(),
        };
        vec![figure.id.clone(), kind, time, format!("{}: {}", figure.paper, figure.title)]
    };
    let rows: Vec<Vec<String>> = figures.iter().map(row).collect();
    done(&table(&["figure", "kind", "cpu time", "what"], &[], &rows))
}

fn text(all: &[Regenerated]) -> String {
    let mut text = String::new();
    for Regenerated { comparison, .. } in all {
        figure_text(comparison, &mut text);
        text.push('\n');
    }
    let rows: Vec<Vec<String>> =
        all.iter().map(|one| vec![one.comparison.id.clone(), one.comparison.verdict_text.clone()]).collect();
    text + &table(&["figure", "verdict"], &[], &rows)
}

fn listed(items: &Option<Vec<String>>) -> String {
    match items {
        None => "-".to_owned(),
        Some(items) if items.is_empty() => "none".to_owned(),
        Some(items) => items.join(", "),
    }
}

fn equal(row: &ComparedRow) -> &'static str {
    match row.equal {
        Some(true) => "equal",
        Some(false) => "differs",
        None => "",
    }
}

fn holds(claim: &JudgedClaim) -> &'static str {
    match claim.holds {
        Some(true) => "holds",
        Some(false) => "does not hold",
        None => "not judged",
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}

/// The same for a document: Markdown.
fn markdown(figure: &Comparison) -> String {
    // A bar would end the cell.
    let cell = |text: &str| text.replace('|', "\\|").replace('\n', " ");
    let mut text = format!("# {}: {}\n\n{}, {}\n\n", figure.id, figure.title, figure.paper, figure.source);
    let shorter = if figure.short { " (short form)" } else { "" };
    let _ = writeln!(text, "**Verdict{shorter}: {}**", figure.verdict_text);
    if !figure.values.is_empty() {
        text.push_str("\n| value | unit | published | computed | ratio |\n|---|---|---:|---:|---:|\n");
    }
    for value in &figure.values {
        let (name, unit, ratio) = (cell(&value.name), cell(&value.unit), value.ratio.filter(|_| value.compared));
        let (published, found, ratio) = (number(value.published), number(value.simulated), number(ratio));
        let _ = writeln!(text, "| {name} | {unit} | {published} | {found} | {ratio} |");
    }
    if !figure.rows.is_empty() {
        text.push_str("\n| row | published | computed | |\n|---|---|---|---|\n");
    }
    for row in &figure.rows {
        let (published, found) = (cell(&listed(&row.published)), cell(&listed(&row.found)));
        let _ = writeln!(text, "| {} | {published} | {found} | {} |", cell(&row.name), equal(row));
    }
    if !figure.claims.is_empty() {
        text.push_str("\n| claim | source | | bound | found |\n|---|---|---|---|---|\n");
    }
    for claim in &figure.claims {
        let texts = [&claim.say, &claim.source, &holds(claim).to_owned(), &claim.bound, &claim.found];
        let _ = writeln!(text, "| {} |", texts.map(|text| cell(text)).join(" | "));
    }
    for erratum in &figure.errata {
        let shown = if erratum.shown { "shown" } else { "not shown" };
        let _ = writeln!(text, "\n## Erratum {}: {shown}\n", erratum.number);
        let _ = writeln!(text, "- Printed ({}): {}", erratum.source, erratum.printed);
        let _ = writeln!(text, "- Cannot be right: {}\n- Right: {}", erratum.why, erratum.correct);
        for one in &erratum.evidence {
            let holds = if one.holds { "Shown by" } else { "Not shown by" };
            let _ = writeln!(text, "- {holds} {}; found {}", one.bound, one.found);
        }
        for explained in &erratum.explains {
            let _ = writeln!(text, "- Explains: {explained}");
        }
    }
    let _ = writeln!(text);
    let fitted = figure.fitted.iter().map(|own| format!("fitted: {} = {}: {}", own.parameter, own.value, own.how));
    let lines = figure.simplified.iter().map(|line| format!("simplified: {line}")).chain(fitted);
    for name in &figure.stale {
        let _ = writeln!(text, "- stale: the file explains why {name:?} differs, and it agrees");
    }
    for line in lines.chain(figure.assumed.iter().map(|line| format!("assumed: {line}"))) {
        let _ = writeln!(text, "- {line}");
    }
    text
}

fn figure_text(figure: &Comparison, text: &mut String) {
    let shorter = if figure.short { " (short form)" } else { "" };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}: {}{shorter}\n  {}, {}", figure.id, figure.title, figure.paper, figure.source);
    let rows: Vec<Vec<String>> = figure
        .values
        .iter()
        .map(|value| {
            let ratio = value.ratio.filter(|_| value.compared);
            vec![
                format!("  {}", value.name),
                value.unit.clone(),
                number(value.published),
                number(value.simulated),
                number(ratio),
            ]
        })
        .collect();
    if !rows.is_empty() {
        let word = if figure.values.iter().any(|value| value.exact.is_some()) { "computed" } else { "simulated" };
        text.push_str(&table(&["  value", "unit", "published", word, "ratio"], &[2, 3, 4], &rows));
    }
    let rows: Vec<Vec<String>> = figure
        .rows
        .iter()
        .map(|row| vec![format!("  {}", row.name), listed(&row.published), listed(&row.found), equal(row).to_owned()])
        .collect();
    if !rows.is_empty() {
        text.push_str(&table(&["  row", "published", "computed", ""], &[], &rows));
    }
    for claim in &figure.claims {
        let _ = writeln!(text, "  {}: {} [{}]", holds(claim), claim.say, claim.source);
        if !claim.bound.is_empty() {
            let _ = writeln!(text, "    {}; found {}", claim.bound, claim.found);
        }
    }
    for erratum in &figure.errata {
        let JudgedErratum { number, source, printed, why, correct, explains, evidence, shown } = erratum;
        let shown = if *shown { "shown" } else { "not shown" };
        let _ = writeln!(text, "  erratum {number}, {shown}: {printed} [{source}]");
        let _ = writeln!(text, "    cannot be right: {why}\n    right: {correct}");
        for Evidence { bound, found, holds } in evidence {
            let holds = if *holds { "shown by" } else { "not shown by" };
            let _ = writeln!(text, "    {holds} {bound}; found {found}");
        }
        for explained in explains {
            let _ = writeln!(text, "    explains: {explained}");
        }
    }
    for line in &figure.simplified {
        let _ = writeln!(text, "  simplified: {line}");
    }
    for fitted in &figure.fitted {
        let _ = writeln!(text, "  fitted: {} = {}: {}", fitted.parameter, fitted.value, fitted.how);
    }
    for line in &figure.assumed {
        let _ = writeln!(text, "  assumed: {line}");
    }
    if figure.verdict != Verdict::PublishedOnly
        && let Some(seed) = figure.seed
    {
        let _ = writeln!(text, "  seed: {seed}");
    }
    for name in &figure.stale {
        let _ = writeln!(text, "  stale: the file explains why {name:?} differs, and it agrees");
    }
    let _ = writeln!(text, "  verdict: {}", figure.verdict_text);
}
