//! The simulated machine of paper 004, and tasks for it.
use memtint_dram::{Cycle, DeviceChoice, RetentionMonitor, Standard};
use memtint_sim::{Report, Scenario, SimError, simulate, simulate_watched};
use std::path::Path;

/// The machine of chapters 4 and 5 of paper 004: one core, 8 ranks of DDR3-1600, split first level of 16 KiB, 128 KiB
/// behind it.
pub(crate) fn text(density: u32, refresh: &str, duration_ms: u64, system: &str, tasks: &[String]) -> String {
    format!(
        "schema = 1\nplatform = \"simplescalar-rtmemcontroller\"\ndevice = \"ddr3-1600\"\ndensity_gbit = {density}\n\
         duration = \"{duration_ms} ms\"\n[cores]\ncount = 1\nmhz = 1000\nwindow = 0\nwidth = 1\n\
         [caches]\nlatency_cycles = [1, 6, 6, 60, 20]\nl1 = {{ size = \"16 KiB\", ways = 4 }}\n\
         llc = {{ size = \"128 KiB\", ways = 4 }}\n[system]\nfault = \"0 ns\"\n{system}\n{refresh}\n{}",
        tasks.concat()
    )
}

pub(crate) fn named(refresh: &str) -> String {
    // Refreshes close rows, which random accesses to open ones gain from; so all rows are closed at once.
    format!("[controller]\npage = \"closed\"\nrefresh = \"{refresh}\"")
}

/// A timetable, with a window for each text of ranks and start in milliseconds.
pub(crate) fn timetable(lines: &str, windows: &[(&str, u64, &str)]) -> String {
    let window = |(ranks, start, more): &(&str, u64, &str)| {
        format!("[[timetable.window]]\nranks = \"{ranks}\"\nstart = \"{start} ms\"\n{more}\n")
    };
    let windows: String = windows.iter().map(window).collect();
    format!("{}\n[timetable]\nperiod = \"64 ms\"\n{lines}\n{windows}", named("timetable"))
}

/// The two colors of CRS: the second server's first (5.3.4 of the paper, E20 of the errata).
pub(crate) fn two_colors(lines: &str) -> String {
    timetable(lines, &[("4-7", 0, ""), ("0-3", 32, "")])
}

/// A task that reads and writes all over a megabyte, a line each 400 cycles or so.
pub(crate) fn writer(name: &str, ranks: &str, lines: &str) -> String {
    format!(
        "[[task]]\nname = \"{name}\"\nranks = \"{ranks}\"\ncore = 0\n\
         workload = {{ kind = \"uniform\", size = \"1 MiB\", writes_per_1024 = 512, gap = 399 }}\n{lines}\n"
    )
}

/// One that computes only: a job takes so many microseconds.
pub(crate) fn computing(name: &str, ranks: &str, cost_us: u64, period_us: u64, lines: &str) -> String {
    format!(
        "[[task]]\nname = \"{name}\"\nranks = \"{ranks}\"\ncore = 0\n\
         workload = {{ kind = \"bandwidth\", size = \"4 KiB\", gap = 99 }}\n\
         job = {{ period = \"{period_us} us\", references = {}{lines} }}\n",
        cost_us * 10
    )
}

pub(crate) fn parse(text: &str) -> Result<Scenario, SimError> {
    Scenario::parse(text, "test", Path::new(""))
}

pub(crate) fn run(text: &str) -> Report {
    simulate(&parse(text).unwrap(), 1, &|_: f64| true).unwrap()
}

/// With the monitor on every channel: no row is lost.
pub(crate) fn run_safely(text: &str) -> Report {
    let scenario = parse(text).unwrap();
    let channels = scenario.channels().unwrap();
    let monitor = RetentionMonitor::new(&channels.geometry, &channels.duty.unwrap());
    let (report, monitors) = simulate_watched(&scenario, 1, &|_: f64| true, vec![monitor; channels.count]).unwrap();
    let end = scenario.device().clock.cycles_covering(scenario.spec().duration.0);
    for monitor in monitors {
        let found = monitor.finish(Cycle(end));
        assert_eq!(found.losses, 0, "{:?}", found.first);
    }
    report
}

#[track_caller]
pub(crate) fn assert_near(name: &str, found: f64, expected: f64, share: f64) {
    assert!((found / expected - 1.0).abs() < share, "{name}: {found}, expected {expected}");
}

/// 8192 REF, in nanoseconds.
pub(crate) fn burst_ns(density: u32) -> f64 {
    let choice = DeviceChoice { density_gbit: Some(density), ..DeviceChoice::default() };
    let device = Standard::load("ddr3-1600").unwrap().device(choice).unwrap();
    8192.0 * f64::from(device.timing.rfc) * 1.25
}

#[track_caller]
pub(crate) fn refused(text: &str, words: &[&str]) {
    let error = parse(text).unwrap_err().to_string();
    assert!(words.iter().all(|word| error.contains(word)), "{error}");
}

/// A task that computes, a tenth of a microsecond each reference, all of them to one line.
pub(crate) fn task(name: &str, lines: &str) -> String {
    format!("[[task]]\nname = \"{name}\"\nworkload = {{ kind = \"bandwidth\", size = \"64\", gap = 99 }}\n{lines}\n")
}

/// Without refresh.
pub(crate) fn plain(duration_ms: u64, system: &str, parts: &[String]) -> Report {
    run(&text(1, &named("none"), duration_ms, system, parts))
}

/// Longest response of a task, in microseconds.
pub(crate) fn longest(report: &Report, task: usize) -> f64 {
    report.tasks[task].response_ns.unwrap().max / 1000.0
}

/// Microseconds that differ by what the first access to a line takes, and a few references that are not divided.
#[track_caller]
pub(crate) fn assert_us(name: &str, found: f64, expected: f64) {
    assert!((found - expected).abs() < 2.0, "{name}: {found} us, expected {expected} us");
}
