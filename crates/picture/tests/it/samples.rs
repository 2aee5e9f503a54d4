//! A picture of each kind, with what is hard to draw: long names, long titles, dense pieces, missing values.

use std::collections::BTreeMap;

use memtint_picture::bars::Bars;
use memtint_picture::gantt::{Arrivals, Band, Bar, Lane, Picture};
use memtint_picture::heat::{Cell, Colors, Heat};
use memtint_picture::pages::{Pages, Panel, Part, Row};
use memtint_picture::plot::{self, Limit, Plot, Series};
use memtint_picture::timing::{Decision, Levels, Square, Timing};
use memtint_units::Picoseconds;

const US: u64 = 1_000_000;
/// Longer than any place for it.
const LONG: &str = "a-name-of-a-task-that-is-<much>-longer-than-the-margin-that-it-stands-in-and-goes-on-and-on-until-nothing-is-left-of-it";

/// Names and pictures.
pub(crate) fn all() -> Vec<(String, String)> {
    let drawn = [
        ("gantt", schedule(None).svg()),
        ("gantt-part", schedule(Some((12_300, 13_900))).svg()),
        ("gantt-moment", schedule(Some((10_000, 10_001))).svg()),
        ("gantt-empty", Picture { lanes: Vec::new(), bands: Vec::new(), end: Picoseconds(0), ..schedule(None) }.svg()),
        ("plot", plot().svg()),
        (
            "plot-empty",
            Plot { panels: vec![plot::Panel { name: "nothing", limit: None, series: Vec::new() }], ..plot() }.svg(),
        ),
        ("bars", bars(true).svg()),
        ("bars-empty", bars(false).svg()),
        ("pages", pages(true).svg()),
        ("pages-unjudged", pages(false).svg()),
        ("pages-empty", Pages { title: "no program".to_owned(), parts: Vec::new(), foot: Vec::new() }.svg()),
        ("timing", timing(true)),
        ("timing-empty", timing(false)),
    ];
    drawn.into_iter().map(|(name, svg)| (name.to_owned(), svg)).collect()
}

/// Two tasks, one with a long name and without one of its values.
fn bars(full: bool) -> Bars {
    let series = |name, values: [Option<f64>; 2]| Series { name, values: values.to_vec() };
    let all = vec![
        series("shared", [Some(5.66), Some(1.41)]),
        series("each in its part", [Some(1.2), None]),
        series("alone in its part", [Some(1.0), Some(0.99)]),
    ];
    Bars {
        title: "dividing the memory lowers the worst slowdown from 5.66 to 1.2".to_owned(),
        subtitle: "against each task alone with all of the memory".to_owned(),
        name: "slowdown",
        labels: if full { vec!["reader".to_owned(), LONG.to_owned()] } else { Vec::new() },
        limit: Limit { at: 1.0, name: "alone" },
        series: if full { all } else { Vec::new() },
        missing: "executed nothing",
    }
}

fn time(us: u64) -> Picoseconds {
    Picoseconds(us * US)
}

/// Three tasks over 40 ms: one in pieces of 8 us, one preempted, one with a long name; refresh of two ranks.
fn schedule(span: Option<(u64, u64)>) -> Picture {
    let piece = |start: u64, end: u64, what: &str| Bar { start: time(start), end: time(end), what: what.to_owned() };
    let arrivals =
        |phase, period, deadline| Some(Arrivals { phase: time(phase), period: time(period), deadline: time(deadline) });
    let dense = (0..4).flat_map(|job| (0..300).map(move |at| (job, job * 10_000 + at * 10)));
    let dense = dense.map(|(job, at)| piece(at, at + 8, &format!("rate <loop> job {job}"))).collect();
    let preempted = vec![
        piece(3_000, 10_000, "planner job 0"),
        piece(13_000, 16_000, "planner job 0"),
        piece(23_000, 25_000, "planner job 1"),
    ];
    let lane = |name: &str, arrivals, bars| Lane { name: name.to_owned(), arrivals, bars };
    let every = |period: u64, length: u64| {
        (0..40_000 / period).map(|at| (time(at * period), time(at * period + length))).collect()
    };
    let band =
        |rank: u32, spans| Band { name: format!("rank {rank}"), what: format!("rank {rank} is refreshed"), spans };
    Picture {
        title: "all 3 tasks meet their deadlines; least slack 7 ms (rate <loop>)".to_owned(),
        subtitle: "40 ms, one hyperperiod; 7 jobs accepted by the checker; each job on time, for its whole WCET "
            .repeat(3),
        end: time(40_000),
        span: span.map(|(from, to)| (time(from), time(to))),
        lanes: vec![
            lane("rate <loop>", arrivals(0, 10_000, 10_000), dense),
            lane("planner", arrivals(3_000, 20_000, 18_000), preempted),
            lane(LONG, arrivals(0, 50, 50), vec![piece(39_000, 40_000, LONG)]),
        ],
        bands: vec![band(0, every(20_000, 900)), band(1, every(8, 1))],
        bands_are: "the rank is refreshed",
    }
}

fn plot() -> Plot {
    let series = |name, values: [Option<f64>; 4]| Series { name, values: values.to_vec() };
    let names = ["auto", "burst", "colored-refresh", "crs", "none", "per-bank", "adaptive", LONG];
    let flat =
        names.iter().enumerate().map(|(index, name)| series(name, [Some(0.98 + 0.002 * index as f64); 4])).collect();
    let limit = Some(Limit { at: 1.0, name: "deadline" });
    let panel = |name, limit, series| plot::Panel { name, limit, series };
    let responses = vec![
        series("auto", [Some(0.2), None, Some(0.5), Some(1.31)]),
        series("crs", [Some(0.33), Some(0.35), None, None]),
    ];
    Plot {
        title: "crs holds at both densities that it has a schedule for; auto at 2 of 3: a job is late at 64 Gb"
            .to_owned(),
        subtitle: "refresh schemes over the density of memory chips".to_owned(),
        labels: ["2 Gb", "8 Gb", "32 Gb", "64 Gb"].map(str::to_owned).to_vec(),
        panels: vec![
            panel("longest response, by its deadline", limit, responses),
            panel("utilization", None, flat),
            panel("nothing", limit, vec![series("crs", [None; 4])]),
        ],
        missing: "no schedule",
    }
}

fn pages(judged: bool) -> Pages {
    let row = |color: u32, allowed, pages: u64| match allowed || !judged {
        true => Row { color, allowed, in_color: pages, out_of_color: 0 },
        false => Row { color, allowed, in_color: 0, out_of_color: pages },
    };
    let banks = |first: u32, pages: u64| {
        let count = move |color: u32| {
            if (first..first + 4).contains(&color) { pages + u64::from(color) } else { u64::from(color == 15) }
        };
        (0..16).map(|color| row(color, (first..first + 4).contains(&color), count(color))).collect()
    };
    let sets = (0..128).map(|color| row(color, true, u64::from(color) % 17 * 40)).collect();
    let panel =
        |headline: &str, dimension, rows| Part::Bars(Panel { headline: headline.to_owned(), dimension, judged, rows });
    Pages {
        title: "1 of 2 programs has all of its private pages in color; sort has 1 page out of color".to_owned(),
        parts: vec![
            panel("sqlite3 (4711): 10006 private pages, 100.00 % in color: held", "bank class", banks(0, 2500)),
            panel(LONG, "bank class", banks(4, 61)),
            panel("sort (4712): the same pages by set color", "set color", sets),
            Part::Heat(heat(judged)),
        ],
        foot: vec![
            "platform skl-e3-1220v5-4x4g (Intel Xeon E3-1220 v5 (Skylake), 4x4 GiB DDR4), granule 4 KiB, bank classes 16".to_owned(),
            "not drawn: 27 pages of sort, whose frames are outside of the platform ".repeat(4),
        ],
    }
}

fn heat(judged: bool) -> Heat {
    let colors = |dimension, count: u32, allowed: &[u32]| Colors {
        dimension,
        allowed: (0..count).map(|color| allowed.contains(&color)).collect(),
    };
    let place = |(row, column): (u32, u32)| {
        (
            (row, column),
            Cell { in_color: u64::from((row * 37 + column * 11) % 900 + 1), out_of_color: u64::from(row == 9) },
        )
    };
    let places = [4, 5, 6, 7, 9].into_iter().flat_map(|row| (row * 8..row * 8 + 40).map(move |column| (row, column)));
    Heat {
        headline: "sort (4712): the same pages by bank class and set color".to_owned(),
        judged,
        rows: colors("bank class", 16, &[4, 5, 6, 7]),
        columns: colors("set color", 128, &(32..96).collect::<Vec<_>>()),
        cells: places.map(place).collect(),
    }
}

fn timing(heard: bool) -> String {
    let hill = |middle: u32, most: u64| {
        (0..20u32).map(move |at| (middle + at - 10, most * u64::from(at.min(20 - at) + 1) / 10))
    };
    let pairs: BTreeMap<u32, u64> = hill(200, 80).chain(hill(288, 120)).chain([(9_000, 3)]).collect();
    let alone: BTreeMap<u32, u64> = hill(198, 300).collect();
    let nothing = BTreeMap::new();
    let decision = |low: u32, high: u32| match (low + high) % 4 {
        0 => Some(Decision::Conflict),
        1 => Some(Decision::None),
        2 => Some(Decision::Undecided),
        _ => None,
    };
    let squares = (6..34).flat_map(|low| (low..34).map(move |high| (low, high)));
    let squares =
        squares.map(|(low, high)| ((low, high), Square { decision: decision(low, high), ticks: Some(200 + high) }));
    Timing {
        answer: "a mapping, confidence at least 99.9904 % (assuming independent measurement errors)".to_owned(),
        asked: format!("a simulated machine, and the recording /{LONG}/{LONG}"),
        pairs: if heard { &pairs } else { &nothing },
        alone: if heard { &alone } else { &nothing },
        levels: heard.then_some(Levels { alone: 198.0, hit: 201.0, conflict: 297.9, sigma: 0.3 }),
        squares: if heard { squares.collect() } else { BTreeMap::new() },
    }
    .svg()
}
