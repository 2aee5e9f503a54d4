//! Simulated machines, and tasks for them, as text of system files.
use memtint_dram::{Cycle, DeviceChoice, RetentionMonitor, Standard};
use memtint_sim::scenario::ScenarioSpec;
use memtint_sim::{Report, Scenario, SimError, simulate, simulate_watched};
use std::path::Path;

/// A machine: what a system file says of it, before the tasks.
#[derive(Clone, Copy)]
pub(crate) struct Machine<'a> {
    pub(crate) platform: &'a str,
    pub(crate) device: &'a str,
    pub(crate) duration: &'a str,
    /// How many cores there are, and their clock.
    pub(crate) count: u32,
    pub(crate) mhz: u32,
    /// Of a first touch.
    pub(crate) fault: &'a str,
    /// Further lines of `[simulation]`, and lines of its tables.
    pub(crate) simulation: &'a str,
    pub(crate) cores: &'a str,
    pub(crate) caches: &'a str,
    pub(crate) system: &'a str,
    /// Further tables.
    pub(crate) tables: &'a str,
}

/// A desktop processor without a last level.
pub(crate) const DESKTOP: Machine = Machine {
    platform: "skl-e3-1220v5-4x4g",
    device: "ddr4-2400",
    duration: "20 ms",
    count: 4,
    mhz: 3000,
    fault: "0 ns",
    simulation: "",
    cores: "",
    caches: "latency_cycles = [4, 14, 40, 60, 120]\nl1 = { size = \"32 KiB\", ways = 8 }\n\
             l2 = { size = \"256 KiB\", ways = 4 }\n",
    system: "",
    tables: "",
};

/// The desktop with one of 8 MiB.
pub(crate) const DESKTOP_WITH_LAST_LEVEL: Machine = Machine {
    caches: "latency_cycles = [4, 14, 40, 60, 120]\nl1 = { size = \"32 KiB\", ways = 8 }\n\
             l2 = { size = \"256 KiB\", ways = 4 }\nllc = { size = \"8 MiB\", ways = 16 }\n",
    ..DESKTOP
};

/// A Core 2 Quad: each pair of cores has a cache.
pub(crate) const CORE_2_QUAD: Machine = Machine {
    platform: "core2quad-8400",
    device: "ddr2-800",
    mhz: 2660,
    cores: "window = 96",
    caches: "latency_cycles = [3, 14, 14, 60, 150]\nl1 = { size = \"32 KiB\", ways = 8 }\n\
             llc = { size = \"2 MiB\", ways = 8, instances = 2 }\n",
    ..DESKTOP
};

/// An Opteron: four nodes of 4 GiB and four cores each.
pub(crate) const OPTERON: Machine = Machine {
    platform: "opteron-6128-tintmalloc",
    device: "ddr3-1333",
    duration: "10 ms",
    count: 16,
    mhz: 2000,
    caches: "latency_cycles = [3, 12, 40, 60, 80]\nl1 = { size = \"64 KiB\", ways = 2 }\n\
             l2 = { size = \"512 KiB\", ways = 16 }\nllc = { size = \"2 MiB\", ways = 16 }\n",
    ..DESKTOP
};

/// The simulated machine of chapters 4 and 5 of \[Pan18\]: one core, 8 ranks of DDR3-1600, split first level of 16 KiB, 128 KiB
/// behind it.
pub(crate) const SIMPLESCALAR: Machine = Machine {
    platform: "simplescalar-rtmemcontroller",
    device: "ddr3-1600",
    count: 1,
    mhz: 1000,
    cores: "window = 0\nwidth = 1",
    caches: "latency_cycles = [1, 6, 6, 60, 20]\nl1 = { size = \"16 KiB\", ways = 4 }\n\
             llc = { size = \"128 KiB\", ways = 4 }\n",
    ..DESKTOP
};

impl Machine<'_> {
    /// The system file of this machine with some tasks, servers and groups.
    pub(crate) fn text(&self, parts: &[String]) -> String {
        let Machine { platform, device, duration, count, mhz, fault, simulation, cores, caches, system, tables } = self;
        format!(
            "platform = \"{platform}\"\n[simulation]\ndevice = \"{device}\"\nduration = \"{duration}\"\n{simulation}\n\
             [simulation.cores]\ncount = {count}\nmhz = {mhz}\n{cores}\n[simulation.caches]\n{caches}\n\
             [simulation.system]\nfault = \"{fault}\"\n{system}\n{tables}\n{}",
            parts.concat()
        )
    }
}

/// The machine of \[Pan18\] with parts.
pub(crate) fn text(density: u32, refresh: &str, duration_ms: u64, system: &str, parts: &[String]) -> String {
    text_of_cores(1, density, refresh, duration_ms, system, parts)
}

/// The same with more cores.
pub(crate) fn text_of_cores(
    count: u32,
    density: u32,
    refresh: &str,
    duration_ms: u64,
    system: &str,
    parts: &[String],
) -> String {
    let (duration, simulation) = (format!("{duration_ms} ms"), format!("density_gbit = {density}"));
    Machine { count, duration: &duration, simulation: &simulation, system, tables: refresh, ..SIMPLESCALAR }.text(parts)
}

pub(crate) fn named(refresh: &str) -> String {
    // Refreshes close rows, which random accesses to open ones gain from; so all rows are closed at once.
    format!("[simulation.controller]\npage = \"closed\"\nrefresh = \"{refresh}\"")
}

/// A timetable, with a window for each text of ranks and start in milliseconds.
pub(crate) fn timetable(lines: &str, windows: &[(&str, u64, &str)]) -> String {
    let window = |(ranks, start, more): &(&str, u64, &str)| {
        format!("[[simulation.timetable.window]]\nranks = \"{ranks}\"\nstart = \"{start} ms\"\n{more}\n")
    };
    let windows: String = windows.iter().map(window).collect();
    format!("{}\n[simulation.timetable]\nperiod = \"64 ms\"\n{lines}\n{windows}", named("timetable"))
}

/// The two colors of CRS: the second server's first (5.3.4 of the paper, E20 of the errata).
pub(crate) fn two_colors(lines: &str) -> String {
    timetable(lines, &[("4-7", 0, ""), ("0-3", 32, "")])
}

/// A task of core 0 that reads and writes all over a megabyte, a line each 400 cycles or so.
pub(crate) fn writer(name: &str, ranks: &str, lines: &str) -> String {
    writer_of_any_core(name, ranks, &format!("cores = \"0\"\n{lines}"))
}

/// The same wherever its further lines say.
pub(crate) fn writer_of_any_core(name: &str, ranks: &str, lines: &str) -> String {
    format!(
        "[[task]]\nname = \"{name}\"\nranks = \"{ranks}\"\n\
         workload = {{ kind = \"uniform\", size = \"1 MiB\", writes_per_1024 = 512, gap = 399 }}\n{lines}\n"
    )
}

/// One that computes only: a job takes so many microseconds.
pub(crate) fn computing(name: &str, ranks: &str, cost_us: u64, period_us: u64, lines: &str) -> String {
    computing_on(0, name, ranks, cost_us, period_us, lines)
}

/// The same on another core.
pub(crate) fn computing_on(core: u32, name: &str, ranks: &str, cost_us: u64, period_us: u64, lines: &str) -> String {
    format!(
        "[[task]]\nname = \"{name}\"\nranks = \"{ranks}\"\ncores = \"{core}\"\n\
         workload = {{ kind = \"bandwidth\", size = \"4 KiB\", gap = 99 }}\n\
         period = \"{period_us} us\"\nreferences = {}\n{lines}\n",
        cost_us * 10
    )
}

pub(crate) fn parse(text: &str) -> Result<Scenario, SimError> {
    Scenario::parse(text, Path::new("test"))
}

pub(crate) fn run(text: &str) -> Report {
    simulate(&parse(text).unwrap(), 1, &|_: f64| true).unwrap()
}

/// With what a system file does not have.
pub(crate) fn run_changed(text: &str, change: impl FnOnce(&mut ScenarioSpec)) -> Report {
    simulate(&parse(text).unwrap().changed(change).unwrap(), 1, &|_: f64| true).unwrap()
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
    assert_says(parse(text), words);
}

/// A file that is accepted, but not with a change.
#[track_caller]
pub(crate) fn refused_changed(text: &str, change: impl FnOnce(&mut ScenarioSpec), words: &[&str]) {
    assert_says(parse(text).unwrap().changed(change), words);
}

#[track_caller]
fn assert_says(result: Result<Scenario, SimError>, words: &[&str]) {
    let error = result.unwrap_err().to_string();
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

/// The same with what a system file does not have.
pub(crate) fn plain_changed(
    duration_ms: u64,
    system: &str,
    parts: &[String],
    change: impl FnOnce(&mut ScenarioSpec),
) -> Report {
    run_changed(&text(1, &named("none"), duration_ms, system, parts), change)
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
