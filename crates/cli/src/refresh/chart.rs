//! What ran when in a simulation, and below it when ranks were refreshed: one file, no script, readable in black and white.

use std::fmt::{self, Write as _};

use memtint_inspect::escape_xml;
use memtint_refresh::{Outcome, TaskOutcome};
use memtint_sim::Ran;
use memtint_taskset::exact_time as time;
use memtint_units::Picoseconds;

const WIDTH: f64 = 1200.0;
const LEFT: f64 = 130.0;
const RIGHT: f64 = 24.0;
const HEAD: f64 = 58.0;
const LANE: f64 = 40.0;
const BAR: f64 = 20.0;
const BAND: f64 = 16.0;
const BANDS_HEAD: f64 = 22.0;
const FOOT: f64 = 46.0;
/// More runs than this cannot be told apart; the picture then ends earlier, and says so.
const RUNS_MAX: usize = 1500;
const TICKS: u64 = 10;

/// Times become places.
struct Axis {
    end: u64,
}

impl Axis {
    fn x(&self, at: Picoseconds) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (at.0.min(self.end) as f64 / self.end as f64)
    }
}

/// Draws an outcome: a lane for each task and one for lock tasks, an arrow for each arrival, a thick mark for each deadline, and a
/// line for each rank with a dark bar for each refresh.
pub(super) fn svg(outcome: &Outcome) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = draw(&mut out, outcome);
    out
}

/// Where the picture ends: with the simulation, or where not everything is known, or too much to be drawn.
fn end(outcome: &Outcome) -> u64 {
    let known = outcome.runs.until.min(outcome.refreshed_until);
    outcome.runs.runs.get(RUNS_MAX).map_or(known, |run| run.start.min(known)).0.max(1)
}

fn draw(out: &mut String, outcome: &Outcome) -> fmt::Result {
    let axis = Axis { end: end(outcome) };
    let lanes = outcome.tasks.len() + usize::from(outcome.scheme.locks());
    let ranks = outcome.refreshed.iter().map(|found| found.rank + 1).max().unwrap_or(0);
    let bands = HEAD + LANE * lanes as f64;
    let bottom = bands + if ranks == 0 { 0.0 } else { BANDS_HEAD + BAND * f64::from(ranks) };
    let height = bottom + FOOT;
    writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12">"#
    )?;
    writeln!(out, r##"<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>"##)?;
    let title = format!("What ran when (simulated, {})", outcome.scheme.name());
    text(out, LEFT, 22.0, "font-size=\"16\" font-weight=\"bold\"", &title)?;
    let cut = if axis.end < outcome.duration.0 {
        format!("; drawn to {}", time(Picoseconds(axis.end)))
    } else {
        String::new()
    };
    let (length, misses) = (time(outcome.duration), outcome.misses());
    let met = outcome.requests_met();
    let subtitle = format!("{length} simulated; {misses} jobs late; {met} requests met a refresh of their rank{cut}");
    text(out, LEFT, 40.0, "font-size=\"11\"", &subtitle)?;
    for (index, task) in outcome.tasks.iter().enumerate() {
        let base = HEAD + LANE * (index + 1) as f64 - 6.0;
        lane(out, &axis, &task.name, base, runs_of(outcome, index))?;
        arrivals(out, &axis, task, base)?;
    }
    if outcome.scheme.locks() {
        let name = |ran: Ran| if matches!(ran, Ran::Lock { .. }) { "lock" } else { "unlock" };
        let runs = outcome.runs.runs.iter().filter(|run| !matches!(run.ran, Ran::Job { .. }));
        let runs = runs.map(|run| (run.start, run.end, name(run.ran).to_owned()));
        lane(out, &axis, "(refresh tasks)", HEAD + LANE * lanes as f64 - 6.0, runs)?;
    }
    if ranks > 0 {
        text(out, 8.0, bands + BANDS_HEAD - 7.0, "font-size=\"11\"", "what is refreshed:")?;
    }
    for rank in 0..ranks {
        band(out, &axis, outcome, rank, bands + BANDS_HEAD + BAND * f64::from(rank))?;
    }
    for tick in 0..=TICKS {
        let at = Picoseconds((u128::from(axis.end) * u128::from(tick) / u128::from(TICKS)) as u64);
        let x = axis.x(at);
        writeln!(out, r##"<line x1="{x:.2}" y1="{bottom}" x2="{x:.2}" y2="{:.2}" stroke="#000000"/>"##, bottom + 5.0)?;
        text(out, x, bottom + 18.0, "font-size=\"10\" text-anchor=\"middle\"", &time(at))?;
    }
    let legend = "bar: the job runs; arrow: a job arrives; thick mark above the bar: a deadline; dark bar below: the rank is refreshed";
    text(out, LEFT, bottom + 36.0, "font-size=\"11\"", legend)?;
    out.push_str("</svg>\n");
    Ok(())
}

fn runs_of(outcome: &Outcome, task: usize) -> impl Iterator<Item = (Picoseconds, Picoseconds, String)> + '_ {
    let place = move |instance: usize| outcome.instances[..instance].iter().filter(|&&own| own == task).count();
    let several = outcome.tasks[task].ranks.len() > 1;
    outcome.runs.runs.iter().filter_map(move |run| match run.ran {
        Ran::Job { task: instance, job } if outcome.instances[instance] == task => {
            let which = if several { format!(", instance {}", place(instance)) } else { String::new() };
            Some((run.start, run.end, format!("job {job}{which}")))
        }
        _ => None,
    })
}

fn lane(
    out: &mut String,
    axis: &Axis,
    name: &str,
    base: f64,
    runs: impl Iterator<Item = (Picoseconds, Picoseconds, String)>,
) -> fmt::Result {
    text(out, 8.0, base - 5.0, "", name)?;
    writeln!(out, r##"<line x1="{LEFT}" y1="{base}" x2="{}" y2="{base}" stroke="#888888"/>"##, WIDTH - RIGHT)?;
    for (start, stop, what) in runs.filter(|run| run.0.0 < axis.end) {
        let (from, to) = (axis.x(start), axis.x(stop));
        writeln!(
            out,
            r##"<rect x="{from:.2}" y="{:.2}" width="{:.2}" height="{BAR}" fill="#9ec3ea" stroke="#000000" stroke-width="0.5"><title>{}, {what}: {} to {}</title></rect>"##,
            base - BAR,
            to - from,
            escape_xml(name),
            time(start),
            time(stop)
        )?;
    }
    Ok(())
}

fn arrivals(out: &mut String, axis: &Axis, task: &TaskOutcome, base: f64) -> fmt::Result {
    // What could not be told apart is left out.
    if axis.x(task.period) - LEFT < 2.0 {
        return Ok(());
    }
    let mut arrival = task.phase;
    while arrival.0 < axis.end {
        let (at, top) = (axis.x(arrival), base - BAR - 8.0);
        writeln!(
            out,
            r##"<path d="M{at:.2} {base:.2} V{top:.2} M{:.2} {:.2} L{at:.2} {top:.2} L{:.2} {:.2}" fill="none" stroke="#000000"/>"##,
            at - 3.0,
            top + 4.0,
            at + 3.0,
            top + 4.0
        )?;
        let due = arrival + task.deadline;
        if due.0 <= axis.end {
            let due = axis.x(due);
            writeln!(
                out,
                r##"<line x1="{due:.2}" y1="{top:.2}" x2="{due:.2}" y2="{:.2}" stroke="#b00020" stroke-width="3"/>"##,
                base - BAR
            )?;
        }
        arrival += task.period;
    }
    Ok(())
}

fn band(out: &mut String, axis: &Axis, outcome: &Outcome, rank: u32, top: f64) -> fmt::Result {
    text(out, 8.0, top + BAND - 5.0, "font-size=\"11\"", &format!("rank {rank}"))?;
    let base = top + BAND - 2.0;
    writeln!(out, r##"<line x1="{LEFT}" y1="{base}" x2="{}" y2="{base}" stroke="#cccccc"/>"##, WIDTH - RIGHT)?;
    for found in outcome.refreshed.iter().filter(|found| found.rank == rank && found.start.0 < axis.end) {
        let (from, to) = (axis.x(found.start), axis.x(found.end));
        writeln!(
            out,
            r##"<rect x="{from:.2}" y="{top:.2}" width="{:.2}" height="{:.2}" fill="#444444"><title>rank {rank} is refreshed: {} to {}</title></rect>"##,
            to - from,
            BAND - 2.0,
            time(found.start),
            time(found.end)
        )?;
    }
    Ok(())
}

fn text(out: &mut String, x: f64, y: f64, attributes: &str, content: &str) -> fmt::Result {
    writeln!(out, r#"<text x="{x:.1}" y="{y:.1}" {attributes}>{}</text>"#, escape_xml(content))
}
