//! The witness as a picture.

use memtint_analysis::{self as analysis, Answer, Chart, Report, Run};
use memtint_picture::gantt::{Arrivals, Band, Bar, Lane, Picture};

use super::span::SpanArguments;
use crate::output::{Failure, time};

/// A lane for each lane of the witness of a report, and a line for each color.
pub(super) fn picture(report: &Report, chart: &Chart, span: SpanArguments) -> Result<Picture, Failure> {
    let lane = |lane: &analysis::Lane| {
        let what = |run: &Joined| match lane.has_jobs {
            true => format!("{}{}", lane.name, run.which()),
            false => lane.name.clone(),
        };
        let joined = joined(&lane.runs).into_iter();
        let bars = joined.map(|run| Bar { start: run.first.start, end: run.last.end, what: what(&run) });
        let arrivals = lane.arrivals.map(|own| {
            let analysis::Arrivals { phase, period, deadline } = own;
            Arrivals { phase, period, deadline }
        });
        Lane { name: lane.name.clone(), arrivals, bars: bars.collect() }
    };
    let band = |band: &analysis::Band| Band {
        name: band.name.clone(),
        what: format!("ranks {:?} are refreshed", band.ranks),
        spans: band.spans.clone(),
    };
    Ok(Picture {
        title: conclusion(report),
        subtitle: format!("{}: {}{}", report.scheduler.name(), chart.summary(), not_considered(report)),
        end: chart.window,
        span: span.of(chart.window)?,
        lanes: chart.lanes.iter().map(lane).collect(),
        bands: chart.bands.iter().map(band).collect(),
        bands_are: "these ranks are refreshed",
    })
}

/// The conclusion of the analysis.
fn conclusion(report: &Report) -> String {
    match &report.answer {
        Answer::Yes => {
            let meet = match report.set.tasks() {
                [only] => format!("task {} meets its deadlines", only.name()),
                several => format!("all {} tasks meet their deadlines", several.len()),
            };
            meet + &least_slack(report).unwrap_or_default()
        }
        Answer::No(refusal) => format!("not schedulable: {}", refusal.sentence),
        Answer::Unsupported(reason) => format!("no answer: {reason}"),
    }
}

/// The least slack of all tasks, where that of all is known.
fn least_slack(report: &Report) -> Option<String> {
    let slack = |row: &analysis::Row| Some((row.worst.as_ref()?.slack(&report.set)?, row.worst.as_ref()?.task));
    let all: Vec<_> = report.rows.iter().map(slack).collect::<Option<_>>()?;
    let (least, task) = all.into_iter().min()?;
    let name = report.set[task].name();
    Some(if least.0 == 0 {
        format!("; {name} has no slack")
    } else {
        format!("; least slack {} ({name})", time(least))
    })
}

fn not_considered(report: &Report) -> String {
    match &report.not_considered[..] {
        [] => String::new(),
        some => format!("; not considered: {}", some.join(", ")),
    }
}

/// Runs of one job without a pause: slices of a table that follow each other.
struct Joined {
    first: Run,
    last: Run,
}

fn joined(runs: &[Run]) -> Vec<Joined> {
    let instance = |run: &Run| run.part.map(|(_, instance)| instance);
    let mut joined: Vec<Joined> = Vec::new();
    for &run in runs {
        let follows = |own: &&mut Joined| {
            own.last.end == run.start && own.last.job == run.job && instance(&own.last) == instance(&run)
        };
        match joined.last_mut().filter(follows) {
            Some(own) => own.last = run,
            None => joined.push(Joined { first: run, last: run }),
        }
    }
    joined
}

impl Joined {
    /// The job, and its slices where it has several.
    fn which(&self) -> String {
        let slices = |(first, instance): (u32, usize)| match self.last.part {
            Some((last, _)) if last != first => format!(", slices {first} to {last}, instance {instance}"),
            _ => format!(", slice {first}, instance {instance}"),
        };
        format!(" job {}{}", self.first.job, self.first.part.map_or(String::new(), slices))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memtint_units::Picoseconds;

    #[test]
    fn slices_that_follow_each_other_are_one_bar() {
        let run = |job, start, end, part| Run { job, start: Picoseconds(start), end: Picoseconds(end), part };
        let runs = [
            run(4, 0, 4, Some((0, 0))),
            run(4, 4, 6, Some((1, 0))),
            run(4, 6, 7, Some((2, 1))),
            run(4, 8, 9, Some((3, 1))),
            run(5, 9, 12, Some((0, 1))),
        ];
        let found: Vec<String> = joined(&runs).iter().map(Joined::which).collect();
        let expected = ["slices 0 to 1, instance 0", "slice 2, instance 1", "slice 3, instance 1"]
            .map(|part| format!(" job 4, {part}"));
        assert_eq!(found[..3], expected);
        assert_eq!(found[3..], [" job 5, slice 0, instance 1"]);
        assert_eq!(joined(&[run(0, 0, 4, None), run(0, 4, 6, None)]).len(), 1);
    }
}
