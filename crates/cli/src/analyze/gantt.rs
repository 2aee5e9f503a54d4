//! The witness as a picture.

use memtint_analysis::{self as analysis, Chart, Run};
use memtint_picture::gantt::{Arrivals, Band, Bar, Lane, Picture};

/// A lane for each lane of the witness, and a line for each color.
pub(super) fn picture(chart: &Chart, scheduler: &str) -> Picture {
    let lane = |lane: &analysis::Lane| {
        let what = |run: &Run| match lane.has_jobs {
            true => format!("{}{}", lane.name, which(run)),
            false => lane.name.clone(),
        };
        let bars = lane.runs.iter().map(|run| Bar { start: run.start, end: run.end, what: what(run) });
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
    Picture {
        title: format!("Who runs when ({scheduler})"),
        subtitle: chart.summary(),
        end: chart.window,
        lanes: chart.lanes.iter().map(lane).collect(),
        bands: chart.bands.iter().map(band).collect(),
        bands_are: "these ranks are refreshed",
    }
}

/// The job of a run, and its part where it has several.
fn which(run: &Run) -> String {
    let part = run.part.map_or(String::new(), |(slice, instance)| format!(", slice {slice}, instance {instance}"));
    format!(" job {}{part}", run.job)
}
