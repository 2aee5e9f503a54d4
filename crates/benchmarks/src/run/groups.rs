//! Start-up, faults and pool building.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use memtint_bench::{Ended, Job, Measured, Session, Side, Spread, Trouble, Unit};
use schemars::JsonSchema;
use serde::Serialize;

use crate::touch::{Pass, TouchReport};

const PAGE: u64 = 4096;
/// Largest resident set. For a colored program, it is never below that of `memtint run` itself, because the kernel
/// reports the larger of the two.
pub(super) const PEAK: &str = "program, peak resident";
/// Pages scrambled before programs that do nothing.
const LITTLE: usize = 1 << 14;

/// Pages scrambled before all other runs: several times the pages that a colored run frees in one color, so that these
/// frames are few among those available to the next run.
pub(super) fn scramble_pages(quick: bool) -> usize {
    if quick { 1 << 16 } else { 1 << 18 }
}

/// State of memory at the start of the bench.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct MemoryAsFound {
    /// Pages that were touched, natively.
    pub touched_pages: usize,
    /// First touch of each page.
    pub first_touch_ns_per_page: f64,
    /// Touch of each page after an immediate unmap and remap.
    pub second_touch_ns_per_page: f64,
}

/// Touches memory twice, natively: measures the cost of long-unused and of just-used memory.
pub(super) fn warm(session: &mut Session, available_bytes: u64) -> Option<MemoryAsFound> {
    let most = if session.extent.quick { 1 << 16 } else { 1 << 19 };
    let pages = usize::try_from(available_bytes / PAGE / 2).unwrap_or(most).clamp(1, most);
    (session.tell)(&format!("touching {} MiB to see what memory costs here", pages >> 8));
    let job = touch_job(session, &["--pattern", "sequential", "--passes", "2"], pages);
    let report = touch_report(&session.run(&job, Side::Native).ok()?).ok()?;
    let cost = |pass: &Pass| pass.touch_ns as f64 / pages as f64;
    Some(MemoryAsFound {
        touched_pages: pages,
        first_touch_ns_per_page: cost(report.passes.first()?),
        second_touch_ns_per_page: cost(report.passes.last()?),
    })
}

/// Start-up of programs that do nothing.
pub(super) fn startup(session: &mut Session) {
    let candidates: [(&str, &[&str]); 2] =
        [("dynamic (true)", &["/bin/true"]), ("static (busybox true)", &["/usr/bin/busybox", "true"])];
    for (subject, words) in candidates {
        if !Path::new(words[0]).exists() {
            session.results.skipped.push(format!("startup {subject}: there is no {}", words[0]));
            continue;
        }
        let job = Job::new(words);
        let repeat = session.extent.repeat * 3;
        session.alternate(("startup", subject), &Side::BOTH, (repeat, LITTLE), |session, side| {
            let done = session.run(&job, side)?;
            add_times(session, ("startup", subject), side, &done);
            let mib = done.ended.usage.max_rss_kib as f64 / 1024.0;
            session.results.add("memory", subject, (PEAK, Unit::Mebibytes), side, mib);
            Ok(())
        });
    }
}

/// Wall and processor times of a whole run.
pub(super) fn add_times(session: &mut Session, (group, subject): (&'static str, &str), side: Side, done: &Measured) {
    let Ended { usage, entourage, .. } = &done.ended;
    let mut add = |measure, time: Duration| {
        session.results.add(group, subject, (measure, Unit::Milliseconds), side, time.as_secs_f64() * 1e3);
    };
    add("wall", done.ended.wall);
    add("program, user CPU", usage.user);
    add("program, system CPU", usage.system);
    if side == Side::Colored {
        add("memtint's processes, CPU", entourage.cpu());
    }
}

fn touch_job(session: &Session, options: &[&str], pages: usize) -> Job {
    let mut job = Job::new([session.me.as_os_str()]);
    job.words.extend(["bench", "touch"].iter().chain(options).map(OsString::from));
    let seed = session.seed.to_string();
    job.words.extend(["--pages", &pages.to_string(), "--seed", &seed].map(OsString::from));
    job
}

fn touch_report(done: &Measured) -> Result<TouchReport, Trouble> {
    let report: TouchReport = serde_json::from_slice(&done.ended.output.text).map_err(|error| error.to_string())?;
    if report.passes.is_empty() { Err("no pass was made".into()) } else { Ok(report) }
}

/// Cost of faults by the order of touches.
pub(super) fn touch(session: &mut Session) {
    let pages = if session.extent.quick { 1 << 12 } else { 1 << 14 };
    let scrambled = scramble_pages(session.extent.quick);
    for pattern in ["sequential", "random", "single", "populate"] {
        let mut options = vec!["--pattern", pattern, "--passes", "4"];
        if pattern == "sequential" {
            options.push("--frames");
        }
        // A mapping for every page takes two system calls a page; fewer pages suffice.
        let pages = if pattern == "single" { pages / 4 } else { pages };
        let job = touch_job(session, &options, pages);
        let repeat = session.extent.repeat;
        session.alternate(("touch", pattern), &Side::BOTH, (repeat, scrambled), |session, side| {
            let report = touch_report(&session.run(&job, side)?)?;
            add_passes(session, pattern, side, &report);
            session.note_share(side, &report.frames);
            Ok(())
        });
    }
    prefault(session, pages);
}

fn add_passes(session: &mut Session, pattern: &str, side: Side, report: &TouchReport) {
    let per_page = |ns: u64| ns as f64 / report.pages as f64;
    let taken = |pass: &Pass| per_page(pass.map_ns + pass.touch_ns);
    let (first, later) = report.passes.split_first().expect("there is a pass");
    let mut add = |measure, value| {
        session.results.add("touch", pattern, (measure, Unit::NanosecondsPerPage), side, value);
    };
    add("map and touch, cold", taken(first));
    if let Some(warm) = Spread::of(&later.iter().map(taken).collect::<Vec<_>>()) {
        add("map and touch, warm", warm.median);
    }
    let unmapped: Vec<f64> = report.passes.iter().map(|pass| per_page(pass.unmap_ns)).collect();
    if let Some(unmap) = Spread::of(&unmapped) {
        add("unmap", unmap.median);
    }
}

/// Memory prefaulted before the program starts, compared with MAP_POPULATE without memtint.
fn prefault(session: &mut Session, pages: usize) {
    const SUBJECT: &str = "prefault";
    // Mappings of the loader and the libraries use the same allowance.
    const OWN: u64 = 32 << 20;
    let populated = touch_job(session, &["--pattern", "populate"], pages);
    let mut prefaulted = touch_job(session, &["--pattern", "sequential"], pages);
    let bytes = pages as u64 * PAGE + OWN;
    prefaulted.run_options = vec!["--prefault".into(), bytes.to_string().into()];
    let (repeat, scrambled) = (session.extent.repeat, scramble_pages(session.extent.quick));
    session.alternate(("touch", SUBJECT), &Side::BOTH, (repeat, scrambled), |session, side| {
        let job = if side == Side::Native { &populated } else { &prefaulted };
        let report = touch_report(&session.run(job, side)?)?;
        let pass = report.passes[0];
        let per_page = (pass.map_ns + pass.touch_ns) as f64 / pages as f64;
        session.results.add("touch", SUBJECT, ("map and touch", Unit::NanosecondsPerPage), side, per_page);
        Ok(())
    });
}

/// Colors of a pool to build.
#[derive(Clone, Debug)]
pub struct PoolColors {
    /// The colors as text.
    pub subject: String,
    /// Options of `memtint run`.
    pub options: Vec<OsString>,
}

/// Cost of building pools.
pub(super) fn pool(session: &mut Session, choices: &[PoolColors]) {
    let pages = if session.extent.quick { 1 << 11 } else { 1 << 13 };
    for PoolColors { subject, options } in choices {
        let mut job = touch_job(session, &["--pattern", "sequential"], pages);
        job.colors = Some(options.clone());
        let repeat = session.extent.repeat;
        let scrambled = scramble_pages(session.extent.quick);
        session.alternate(("pool", subject), &[Side::Colored], (repeat, scrambled), |session, side| {
            let done = session.run(&job, side)?;
            let pool = done.pool.filter(|pool| pool.kept_pages > 0).ok_or("the report names no page that was kept")?;
            let per_page = |value: f64| value / pool.kept_pages as f64;
            let mut add = |name, unit, value| session.results.add("pool", subject, (name, unit), side, per_page(value));
            add("building, program waits", Unit::NanosecondsPerPage, pool.pool_build_ns as f64);
            let broker = done.ended.entourage.broker.cpu().as_nanos() as f64;
            add("broker, CPU", Unit::NanosecondsPerPage, broker);
            add("pages taken by the helper", Unit::PagesPerPage, pool.scanned_pages as f64);
            Ok(())
        });
    }
}
