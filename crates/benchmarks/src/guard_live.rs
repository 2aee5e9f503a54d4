//! The regulator on this machine, under load and a storm of cgroups.
//!
//! A load causes page faults as fast as possible, in turn without a regulator, with its CPU occupied, and with its
//! group frozen. A companion of lowest priority uses the remaining time of the same CPU. Its share of the throttled
//! time is the share usable by others.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use memtint_bench::{Beside, Disturbance, Host, Spread, cpu_seconds};
use memtint_guard::Kind;
use memtint_regulator::{
    Backend, Cause, CgroupRoot, GroupSettings, Incident, Place, ProgramStatistics, Programs, Regulator, Sensor,
    Settings, online_cpus,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::words::words;
use crate::{Benchmark, BenchmarkError};

/// Schema version of the report.
const SCHEMA: u32 = 1;
/// Periods in microseconds, and the target for the occupied share of a CPU's time, in percent.
const PERIODS: [(u64, f64); 2] = [(1000, 1.0), (200, 3.0)];
const BUDGETS: [u32; 4] = [1, 20, 100, 10_000];
/// Target for the usable share of the throttled time, in percent.
const USABLE_TARGET: f64 = 90.0;
/// Period of the group that a process leaves.
const LEAVING_PERIOD_US: u64 = 1000;
/// Target for the time from SIGKILL until everything runs.
const THAW_TARGET_MS: f64 = 10.0;

/// Parameters of the benchmark.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Time of each run, in seconds, at least one.
    pub seconds: u64,
    /// Whether regulators are killed, and groups left, only a few times.
    pub quick: bool,
    /// The program memtint, whose verb `guard` is called, and its helper processes.
    pub programs: Programs,
}

/// How a load is throttled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// Not at all.
    Unregulated,
    /// Its CPU is occupied.
    Occupied,
    /// Its group is frozen; threads decide.
    Frozen,
    /// Its group is frozen; the kernel decides.
    FrozenBpf,
}

const SIDES: [Side; 4] = [Side::Unregulated, Side::Occupied, Side::Frozen, Side::FrozenBpf];

impl Side {
    fn is_frozen(self) -> bool {
        matches!(self, Side::Frozen | Side::FrozenBpf)
    }
}

words! {
    /// The backend that decides which group runs.
    Decider {
        /// In the kernel, by BPF programs.
        Bpf = "bpf",
        /// In a thread of each CPU.
        Threads = "threads",
    }
}

words! {
    /// A target.
    Target {
        /// No throttled period exceeds its bound.
        Bound = "no throttled period beyond budget, quantum and skid",
        /// The regulator occupies its CPU for a small share of the time.
        Occupied = "CPU occupied below 1 % of the time at 1 ms and 3 % at 200 us",
        /// Others can use nearly all of the throttled time.
        Usable = "at least 90 % of the throttled time usable by others",
        /// Reclaiming a budget wakes no thread.
        Quiet = "at least 90 % of reclaims without a wake-up",
        /// A killed regulator leaves no group frozen.
        Thawed = "everything runs within 10 ms of SIGKILL",
        /// A process that leaves its group is reported.
        Left = "a process that leaves its group is reported within a period of 1 ms (median)",
    }
}

/// The report of the benchmark.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GuardLiveReport {
    /// Schema version of this report.
    pub schema: u32,
    /// The benchmark.
    #[schemars(extend("const" = "guard-live"))]
    pub bench: Benchmark,
    /// Version of memtint.
    pub version: &'static str,
    /// The machine of the measurement.
    pub machine: Host,
    /// Other load on the machine during the benchmark; null where the kernel does not report it.
    pub disturbance: Option<Disturbance>,
    /// The event that is counted and regulated.
    pub event: &'static str,
    /// The regulated CPU; not part of the JSON.
    #[serde(skip)]
    pub cpu: usize,
    /// Time of each run, in seconds.
    pub seconds: u64,
    /// Busy threads on all other CPUs.
    pub busy_threads_on_other_cpus: usize,
    /// One run of a load each.
    pub rows: Vec<LiveRow>,
    /// Loads that reclaim budget donated by another group.
    pub reclaiming: Vec<Reclaiming>,
    /// Why the kernel backend is unavailable on this machine; null where it is available.
    pub not_in_kernel: Option<String>,
    /// Throttled periods of all frozen groups.
    pub throttled_periods: u64,
    /// Periods of frozen groups with more events than budget, quantum and skid.
    pub periods_beyond: u64,
    /// Time from SIGKILL of a regulator until everything runs.
    pub thawed_after_kill_ms: Thawed,
    /// Time from a process leaving its group until the report.
    pub left_reported_after: Vec<Leaving>,
    /// The targets.
    pub targets: Vec<TargetReport>,
}

/// One run of a load.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LiveRow {
    /// How the load is throttled.
    pub side: Side,
    /// Period of regulation, in microseconds.
    pub period_us: u64,
    /// Events in a period.
    pub budget: u32,
    /// Events per second, as counted by the load.
    pub events_per_second: f64,
    /// Periods in which the budget was used up.
    pub throttled_periods: u64,
    /// Periods with more events than budget, quantum and skid.
    pub periods_beyond: u64,
    /// Most events in a period.
    pub most_in_a_period: u64,
    /// Share of one CPU's time used by the regulator thread and the freezer.
    pub regulator_percent: f64,
    /// Share of one CPU's time used by BPF programs in the kernel, in addition; null without them.
    pub programs_percent: Option<f64>,
    /// Time from the wake-up after an exhausted budget until the group has stopped.
    pub occupied_percent: f64,
    /// The companion's share of the throttled time; null without throttled time.
    pub usable_percent: Option<f64>,
    /// The longest write to `cgroup.freeze`; null without a freezer.
    pub slowest_freeze_ms: Option<f64>,
}

/// A load that reclaims, from the pool, budget donated by another group.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Reclaiming {
    /// The deciding backend.
    pub backend: Decider,
    /// Period of regulation, in microseconds.
    pub period_us: u64,
    /// Budgets that were reclaimed.
    pub reclaims: u64,
    /// Reclaims that woke the regulator thread.
    pub woken: u64,
}

/// Time until everything runs.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Thawed {
    /// Median, minimum and maximum, in milliseconds.
    #[serde(flatten)]
    pub ms: Spread,
    /// Regulators that were killed.
    pub kills: usize,
}

/// Time until a process that left its group is reported.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Leaving {
    /// How the group is throttled.
    pub side: Side,
    /// The median.
    pub median_ms: f64,
    /// The shortest time.
    pub min_ms: f64,
    /// The longest time.
    pub max_ms: f64,
}

/// A target and its result.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct TargetReport {
    /// The target.
    pub target: Target,
    /// Whether it is met.
    pub met: bool,
}

/// Measures the regulator on this machine. Needs root; no other regulator may run.
///
/// # Errors
///
/// When the regulator cannot be started, or a load does not respond as expected.
pub fn measure(asked: &Asked, tell: fn(&str)) -> Result<GuardLiveReport, BenchmarkError> {
    let (machine, beside, began) = (Host::read(), Beside::since_now(), cpu_seconds());
    let seconds = asked.seconds;
    let cpus = online_cpus()?;
    let root = CgroupRoot::find()?;
    let cpu = *cpus.last().ok_or(BenchmarkError::NoCpu)?;
    let (time, programs) = (Duration::from_secs(seconds), asked.programs.clone());
    let bench = Bench { cpu, time, root: root.clone(), programs };
    let elsewhere: Vec<usize> = cpus.iter().copied().filter(|other| *other != cpu).collect();
    let others = Others::start(&elsewhere, root.path().join(format!("memtint-bench-{}", std::process::id())))?;
    let mut rows = Vec::new();
    let without = Regulator::kernel_can_decide().err().map(|error| error.to_string());
    let sides = SIDES.into_iter().filter(|side| *side != Side::FrozenBpf || without.is_none());
    for (period_us, _) in PERIODS {
        for budget in BUDGETS {
            for side in sides.clone() {
                tell(&format!("guard --live: {period_us} us, {budget} events, {side:?}"));
                rows.push(bench.run(side, period_us, budget)?);
            }
        }
    }
    let mut reclaiming = Vec::new();
    for (period_us, _) in PERIODS {
        for backend in
            [Backend::Threads, Backend::Bpf].into_iter().filter(|one| *one != Backend::Bpf || without.is_none())
        {
            tell(&format!("guard --live: {period_us} us, reclaiming, {backend:?}"));
            reclaiming.push(bench.reclaim(backend, period_us)?);
        }
    }
    let kills = if asked.quick { 3 } else { 20 };
    let thawed = (0..kills).map(|_| bench.kill()).collect::<Result<Vec<f64>, BenchmarkError>>()?;
    let mut leaving = Vec::new();
    for side in sides.filter(|side| side.is_frozen()) {
        tell(&format!("guard --live: leaving, {side:?}"));
        let times = (0..kills).map(|_| bench.leave(side)).collect::<Result<Vec<f64>, BenchmarkError>>()?;
        let Spread { median, min, max } = Spread::of(&times).expect("left at least once");
        leaving.push(Leaving { side, median_ms: median, min_ms: min, max_ms: max });
    }
    drop(others);
    let disturbance = beside.until_now(Duration::from_secs_f64((cpu_seconds() - began).max(0.0)));
    let thawed = Thawed { ms: Spread::of(&thawed).expect("killed at least once"), kills };
    let frozen = || rows.iter().filter(|run| run.side.is_frozen());
    Ok(GuardLiveReport {
        schema: SCHEMA,
        bench: Benchmark::GuardLive,
        version: env!("CARGO_PKG_VERSION"),
        machine,
        disturbance,
        event: EVENT,
        cpu,
        seconds,
        busy_threads_on_other_cpus: elsewhere.len() * BUSY_THREADS,
        throttled_periods: frozen().map(|run| run.throttled_periods).sum(),
        periods_beyond: frozen().map(|run| run.periods_beyond).sum(),
        targets: targets(without.is_none(), &rows, &reclaiming, &thawed, &leaving),
        rows,
        reclaiming,
        not_in_kernel: without,
        thawed_after_kill_ms: thawed,
        left_reported_after: leaving,
    })
}

fn targets(
    in_kernel: bool,
    rows: &[LiveRow],
    reclaiming: &[Reclaiming],
    thawed: &Thawed,
    leaving: &[Leaving],
) -> Vec<TargetReport> {
    let best = if in_kernel { Side::FrozenBpf } else { Side::Frozen };
    let default = || rows.iter().filter(|run| run.side == best);
    let met = |target| match target {
        Target::Bound => rows.iter().filter(|run| run.side.is_frozen()).all(|run| run.periods_beyond == 0),
        Target::Occupied => default().all(is_cheap),
        Target::Usable => default().all(is_usable),
        Target::Quiet => {
            reclaiming.iter().any(|one| one.backend == Decider::Bpf)
                && reclaiming.iter().all(|one| one.backend == Decider::Threads || one.is_quiet())
        }
        Target::Thawed => thawed.ms.max <= THAW_TARGET_MS,
        Target::Left => leaving.iter().any(|one| one.side == best && one.median_ms <= LEAVING_PERIOD_US as f64 / 1e3),
    };
    let all = [Target::Bound, Target::Occupied, Target::Usable, Target::Quiet, Target::Thawed, Target::Left];
    all.map(|target| TargetReport { target, met: met(target) }).to_vec()
}

const EVENT: &str = "page-faults";

impl Reclaiming {
    fn is_quiet(&self) -> bool {
        self.reclaims > 0 && self.woken * 10 <= self.reclaims
    }
}

fn is_cheap(run: &LiveRow) -> bool {
    PERIODS.iter().all(|(period, percent)| *period != run.period_us || run.occupied_percent < *percent)
}

fn is_usable(run: &LiveRow) -> bool {
    run.usable_percent.is_none_or(|percent| percent >= USABLE_TARGET)
}

/// Data shared by all runs.
struct Bench {
    cpu: usize,
    time: Duration,
    root: CgroupRoot,
    programs: Programs,
}

impl Bench {
    fn settings(&self, side: Side, period_us: u64, budget: u32) -> Result<Settings, BenchmarkError> {
        let (name, place) = match side {
            Side::Frozen | Side::FrozenBpf => (GROUP.to_owned(), Place::Cgroup(self.root.group(GROUP)?)),
            _ => (format!("CPU {}", self.cpu), Place::Cpus),
        };
        let group =
            GroupSettings { name, place, cpus: vec![self.cpu], budget, kind: Kind::Hard, quantum: budget.div_ceil(4) };
        Ok(Settings {
            period: Duration::from_micros(period_us),
            sensor: Sensor::find(EVENT)?,
            groups: vec![group],
            guaranteed: None,
            // The effects of occupying a CPU for too long must be visible.
            peak: Some(budget.into()),
            backend: if side == Side::FrozenBpf { Backend::Bpf } else { Backend::Threads },
        })
    }

    fn run(&self, side: Side, period_us: u64, budget: u32) -> Result<LiveRow, BenchmarkError> {
        let regulator = match side {
            Side::Unregulated => None,
            _ => Some(Regulator::start(self.settings(side, period_us, budget)?, self.programs.clone())?),
        };
        let mut load = Load::start(&self.programs, self.cpu, self.time)?;
        if side.is_frozen() {
            load.join(&self.root.path().join("memtint-guard").join(GROUP))?;
        }
        let before = regulator.as_ref().map(Regulator::snapshot);
        let _statistics = regulator.as_ref().and_then(Regulator::program_time).and_then(|_| ProgramStatistics::begin());
        let companion = Companion::start(self.cpu);
        let begin = Instant::now();
        let caused = load.run()?;
        let seconds = begin.elapsed().as_secs_f64();
        let left = companion.stop();
        let mut run = LiveRow {
            side,
            period_us,
            budget,
            events_per_second: caused as f64 / seconds,
            throttled_periods: 0,
            periods_beyond: 0,
            most_in_a_period: 0,
            regulator_percent: 0.0,
            programs_percent: None,
            occupied_percent: 0.0,
            usable_percent: None,
            slowest_freeze_ms: None,
        };
        if let (Some(regulator), Some(before)) = (regulator, before) {
            let mut regulator = regulator;
            regulator.finish();
            let sums = regulator.snapshot()[0].since(&before[0]);
            let throttled = sums.throttled_ns as f64 / 1e9;
            (run.throttled_periods, run.periods_beyond) = (sums.throttled_periods, sums.broken);
            run.most_in_a_period = sums.used_max;
            let (_, total, occupied) = regulator.work()[0];
            let freezer = regulator.freezer_costs()[0];
            let freezing = freezer.map_or(Duration::ZERO, |cost| cost.processor);
            run.regulator_percent = (total + freezing).as_secs_f64() / seconds * 100.0;
            run.programs_percent = regulator.program_time().map(|time| time.as_secs_f64() / seconds * 100.0);
            run.occupied_percent = occupied.as_secs_f64() / seconds * 100.0;
            run.usable_percent = (throttled > 0.0).then(|| (left.as_secs_f64() / throttled * 100.0).min(100.0));
            run.slowest_freeze_ms = freezer.map(|cost| cost.slowest.as_secs_f64() * 1e3);
        }
        Ok(run)
    }

    /// Runs a load with a small budget beside an idle group with a large one.
    fn reclaim(&self, backend: Backend, period_us: u64) -> Result<Reclaiming, BenchmarkError> {
        let mut settings = self.settings(Side::Frozen, period_us, RECLAIMER)?;
        settings.groups[0].kind = Kind::Soft;
        let donor = GroupSettings {
            name: DONOR.to_owned(),
            place: Place::Cgroup(self.root.group(DONOR)?),
            budget: RECLAIMER * 10,
            ..settings.groups[0].clone()
        };
        settings.groups.push(donor);
        settings.backend = backend;
        let mut regulator = Regulator::start(settings, self.programs.clone())?;
        let mut load = Load::start(&self.programs, self.cpu, self.time)?;
        load.join(&self.root.path().join("memtint-guard").join(GROUP))?;
        let before = regulator.snapshot();
        load.run()?;
        regulator.finish();
        let sums = regulator.snapshot()[0].since(&before[0]);
        let backend = if backend == Backend::Bpf { Decider::Bpf } else { Decider::Threads };
        Ok(Reclaiming { backend, period_us, reclaims: sums.reclaims, woken: sums.reclaims_woken })
    }

    /// Moves a process out of its group. Returns the time until the report, in milliseconds.
    fn leave(&self, side: Side) -> Result<f64, BenchmarkError> {
        let regulator = Regulator::start(self.settings(side, LEAVING_PERIOD_US, BUDGETS[3])?, self.programs.clone())?;
        let load = Load::start(&self.programs, self.cpu, self.time)?;
        load.join(&self.root.path().join("memtint-guard").join(GROUP))?;
        // The regulator must see it in the group.
        std::thread::sleep(Duration::from_millis(200));
        let reported = memtint_regulator::watch_closely(|| {
            // Takes milliseconds: the kernel waits for all CPUs before it moves a process. The measured time begins
            // afterwards.
            load.join(self.root.path())?;
            let begin = Instant::now();
            let has_left = |incident: &Incident| incident.cause == Cause::TaskLeft;
            while !regulator.take_incidents().iter().any(has_left) {
                if begin.elapsed() > Duration::from_secs(10) {
                    return Err(BenchmarkError::NotReported);
                }
                regulator.wait(Duration::from_secs(1));
            }
            Ok(begin.elapsed())
        })?;
        Ok(reported.as_secs_f64() * 1e3)
    }

    /// Kills a regulator whose group is frozen nearly all the time. Returns the time until the group runs, in
    /// milliseconds.
    fn kill(&self) -> Result<f64, BenchmarkError> {
        let failed = |what: String| BenchmarkError::RegulatorToKill { what };
        let group = format!("{GROUP}=1ev@{}", self.cpu);
        let regulator = Command::new(&self.programs.program)
            .args([
                "--format",
                "json",
                "guard",
                "--event",
                EVENT,
                "--group",
                &group,
                "--period",
                "100 ms",
                "--interval",
                "1000 s",
            ])
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let mut regulator = Killed(regulator);
        let output = regulator.0.stdout.take().ok_or_else(|| failed("it has no pipe".to_owned()))?;
        let mut started = String::new();
        let mut output = BufReader::new(output);
        output.read_line(&mut started).map_err(|error| failed(error.to_string()))?;
        let folder = self.root.path().join("memtint-guard").join(GROUP);
        let mut load = Load::start(&self.programs, self.cpu, Duration::from_secs(1))?;
        load.join(&folder)?;
        load.begin()?;
        let state = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap_or_default();
        while !state("cgroup.events").contains("frozen 1") {
            if load.has_ended() {
                return Err(failed("the load was never frozen".to_owned()));
            }
        }
        let begin = Instant::now();
        let thawed = memtint_regulator::watch_closely(|| {
            regulator.0.kill().map_err(|error| failed(error.to_string()))?;
            while state("cgroup.events").contains("frozen 1") {
                std::hint::spin_loop();
            }
            Ok::<Duration, BenchmarkError>(begin.elapsed())
        })?;
        // The guardian is still cleaning up; the next run must not overlap with it.
        while folder.exists() {
            if begin.elapsed() > Duration::from_secs(30) {
                return Err(failed(format!("{} is left", folder.display())));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        load.count()?;
        Ok(thawed.as_secs_f64() * 1e3)
    }
}

const GROUP: &str = "bench";
const DONOR: &str = "donor";
/// Budget of a group that reclaims.
const RECLAIMER: u32 = 20;
/// Threads on each CPU except the load's.
const BUSY_THREADS: usize = 2;

/// A process that is killed when this is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that causes events.
struct Load {
    process: Killed,
    output: BufReader<std::process::ChildStdout>,
}

impl Load {
    fn start(programs: &Programs, cpu: usize, time: Duration) -> Result<Load, BenchmarkError> {
        let Programs { program, load, .. } = programs;
        let process = Command::new(program)
            .args(load)
            .args(["faults", &cpu.to_string(), &time.as_millis().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Load::failed(&error.to_string()))?;
        let mut process = Killed(process);
        let output = process.0.stdout.take().ok_or_else(|| Load::failed("no pipe"))?;
        let mut load = Load { process, output: BufReader::new(output) };
        if load.line()? != "ready" {
            return Err(Load::failed("it is not ready"));
        }
        Ok(load)
    }

    fn failed(what: &str) -> BenchmarkError {
        BenchmarkError::Load { what: what.to_owned() }
    }

    fn line(&mut self) -> Result<String, BenchmarkError> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|error| Load::failed(&error.to_string()))?;
        Ok(line.trim_end().to_owned())
    }

    fn join(&self, folder: &std::path::Path) -> Result<(), BenchmarkError> {
        let path = folder.join("cgroup.procs");
        std::fs::write(&path, self.process.0.id().to_string()).map_err(|cause| BenchmarkError::File {
            path,
            done: "written",
            cause,
        })
    }

    fn begin(&mut self) -> Result<(), BenchmarkError> {
        let input = self.process.0.stdin.as_mut().ok_or_else(|| Load::failed("no pipe"))?;
        input.write_all(b"\n").map_err(|error| Load::failed(&error.to_string()))
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.process.0.try_wait(), Ok(None))
    }

    fn count(&mut self) -> Result<u64, BenchmarkError> {
        let line = self.line()?;
        let count = line.strip_prefix("caused ").and_then(|count| count.parse().ok());
        // The process is done.
        let _ = self.process.0.wait();
        count.ok_or_else(|| Load::failed(&format!("it has answered {line:?}")))
    }

    fn run(&mut self) -> Result<u64, BenchmarkError> {
        self.begin()?;
        self.count()
    }
}

/// A thread of lowest priority on a CPU.
struct Companion {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Companion {
    fn start(cpu: usize) -> Companion {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            memtint_regulator::become_companion(cpu);
            while !told.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            memtint_regulator::thread_time()
        });
        Companion { stop, thread }
    }

    /// Stops it; returns its CPU time.
    fn stop(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

/// Busy threads, and one that creates and removes cgroups, until it is dropped.
struct Others {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Others {
    fn start(cpus: &[usize], folder: PathBuf) -> Result<Others, BenchmarkError> {
        std::fs::create_dir(&folder).map_err(|cause| BenchmarkError::File {
            path: folder.clone(),
            done: "created",
            cause,
        })?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for &cpu in cpus.iter().flat_map(|cpu| std::iter::repeat_n(cpu, BUSY_THREADS)) {
            let told = Arc::clone(&stop);
            threads.push(std::thread::spawn(move || {
                memtint_regulator::stay_on(&[cpu]);
                while !told.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            }));
        }
        let (told, cpus) = (Arc::clone(&stop), cpus.to_vec());
        threads.push(std::thread::spawn(move || {
            memtint_regulator::stay_on(&cpus);
            let inner = folder.join("storm");
            while !told.load(Ordering::Relaxed) {
                // Each call takes the kernel mutex that freezing needs.
                let _ = std::fs::create_dir(&inner);
                let _ = std::fs::remove_dir(&inner);
            }
            let _ = std::fs::remove_dir(&folder);
        }));
        Ok(Others { stop, threads })
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic of the thread has already been reported.
            let _ = thread.join();
        }
    }
}
