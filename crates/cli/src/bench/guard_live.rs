//! `memtint bench guard --live`: the regulator on this machine, beside a loaded machine and a storm of cgroups.
//!
//! A load causes page faults as fast as it can, in turn without a regulator, with its CPU occupied, and with its group frozen. On the same
//! CPU a companion of lowest priority takes what time is left: what it gets of the throttled time is what others can use.

use memtint_bench::{Beside, Machine, Spread, cpu_seconds};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use memtint_guard::Kind;
use memtint_regulator::{
    Backend, Cause, CgroupRoot, GroupSettings, Incident, Place, ProgramStatistics, Programs, Regulator, Sensor,
    Settings, online_cpus,
};
use serde::Serialize;
use serde_json::json;

use super::guard::GuardArguments;
use crate::Ending;
use crate::guard::programs;
use crate::output::{Failure, Format, done, done_json, table};

/// Periods in microseconds, and the share of a CPU's time, in percent, that is to be occupied at most.
const PERIODS: [(u64, f64); 2] = [(1000, 1.0), (200, 3.0)];
const BUDGETS: [u32; 4] = [1, 20, 100, 10_000];
/// Of the throttled time, in percent.
const USABLE_TARGET: f64 = 90.0;
/// Of the group that a process leaves.
const LEAVING_PERIOD_US: u64 = 1000;
/// Until everything runs after SIGKILL.
const THAW_TARGET_MS: f64 = 10.0;

/// How a load is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Side {
    Unregulated,
    Occupied,
    /// Decided in threads.
    Frozen,
    /// Decided in the kernel.
    FrozenBpf,
}

const SIDES: [Side; 4] = [Side::Unregulated, Side::Occupied, Side::Frozen, Side::FrozenBpf];

impl Side {
    fn name(self) -> &'static str {
        match self {
            Side::Unregulated => "unregulated",
            Side::Occupied => "occupied",
            Side::Frozen => "frozen",
            Side::FrozenBpf => "frozen, bpf",
        }
    }

    fn is_frozen(self) -> bool {
        matches!(self, Side::Frozen | Side::FrozenBpf)
    }
}

/// One run of a load.
#[derive(Clone, Debug, Serialize)]
struct Run {
    side: Side,
    period_us: u64,
    budget: u32,
    /// Of the load, by its own count.
    events_per_second: f64,
    throttled_periods: u64,
    /// Periods with more than budget, quantum and skid.
    periods_beyond: u64,
    most_in_a_period: u64,
    /// Of one CPU's time: regulator thread and freezer.
    regulator_percent: f64,
    /// The same of the programs in the kernel, beside the threads; `None` without them.
    programs_percent: Option<f64>,
    /// From waking up, because of a budget that is used up, until the group has stopped.
    occupied_percent: f64,
    /// What the companion had of the throttled time; `None` when there was none.
    usable_percent: Option<f64>,
    /// The longest write to `cgroup.freeze`.
    slowest_freeze_ms: Option<f64>,
}

pub(super) fn bench_live(arguments: &GuardArguments, format: Format) -> Ending {
    let (machine, beside, began) = (Machine::read(), Beside::since_now(), cpu_seconds());
    let seconds = arguments.seconds.unwrap_or(if arguments.quick { 1 } else { 10 });
    let cpus = online_cpus()?;
    let root = CgroupRoot::find()?;
    let cpu = *cpus.last().ok_or_else(|| Failure::Sentence("no CPU is online".to_owned()))?;
    let bench = Bench { cpu, time: Duration::from_secs(seconds), root: root.clone() };
    let elsewhere: Vec<usize> = cpus.iter().copied().filter(|other| *other != cpu).collect();
    let others = Others::start(&elsewhere, root.path().join(format!("memtint-bench-{}", std::process::id())))?;
    let mut runs = Vec::new();
    let without = Regulator::kernel_can_decide().err().map(|error| error.to_string());
    let sides = SIDES.into_iter().filter(|side| *side != Side::FrozenBpf || without.is_none());
    for (period_us, _) in PERIODS {
        for budget in BUDGETS {
            for side in sides.clone() {
                eprintln!("memtint: bench: guard --live: {period_us} us, {budget} events, {side:?}");
                runs.push(bench.run(side, period_us, budget)?);
            }
        }
    }
    let mut reclaiming = Vec::new();
    for (period_us, _) in PERIODS {
        for backend in
            [Backend::Threads, Backend::Bpf].into_iter().filter(|one| *one != Backend::Bpf || without.is_none())
        {
            eprintln!("memtint: bench: guard --live: {period_us} us, reclaiming, {backend:?}");
            reclaiming.push(bench.reclaim(backend, period_us)?);
        }
    }
    let kills = if arguments.quick { 3 } else { 20 };
    let thawed = (0..kills).map(|_| bench.kill()).collect::<Result<Vec<f64>, Failure>>()?;
    let best = if without.is_none() { Side::FrozenBpf } else { Side::Frozen };
    let mut leaving = Vec::new();
    for side in sides.filter(|side| side.is_frozen()) {
        eprintln!("memtint: bench: guard --live: leaving, {side:?}");
        let times = (0..kills).map(|_| bench.leave(side)).collect::<Result<Vec<f64>, Failure>>()?;
        let Spread { median, min, max } = Spread::of(&times).expect("left at least once");
        leaving.push(Leaving { side, median_ms: median, min_ms: min, max_ms: max });
    }
    drop(others);
    let disturbance = beside.until_now(Duration::from_secs_f64((cpu_seconds() - began).max(0.0)));
    let thawed = Spread::of(&thawed).expect("killed at least once");
    let frozen = || runs.iter().filter(|run| run.side.is_frozen());
    let default = || runs.iter().filter(|run| run.side == best);
    let throttled: u64 = frozen().map(|run| run.throttled_periods).sum();
    let beyond: u64 = frozen().map(|run| run.periods_beyond).sum();
    let targets = [
        ("no throttled period beyond budget, quantum and skid", beyond == 0),
        ("CPU occupied below 1 % of the time at 1 ms and 3 % at 200 us", default().all(is_cheap)),
        ("at least 90 % of the throttled time usable by others", default().all(is_usable)),
        (
            "at least 90 % of reclaims without a wake-up",
            reclaiming.iter().any(|one| one.backend == "bpf")
                && reclaiming.iter().all(|one| one.backend == "threads" || one.is_quiet()),
        ),
        ("everything runs within 10 ms of SIGKILL", thawed.max <= THAW_TARGET_MS),
        (
            "a process that leaves its group is reported within a period of 1 ms (median)",
            leaving.iter().any(|one| one.side == best && one.median_ms <= LEAVING_PERIOD_US as f64 / 1e3),
        ),
    ];
    if format == Format::Json {
        return done_json(&json!({
            "schema": 1,
            "bench": "guard-live",
            "version": env!("CARGO_PKG_VERSION"),
            "machine": machine,
            "disturbance": disturbance,
            "event": EVENT,
            "seconds": seconds,
            "busy_threads_on_other_cpus": elsewhere.len() * BUSY_THREADS,
            "rows": runs,
            "reclaiming": reclaiming,
            "not_in_kernel": without,
            "throttled_periods": throttled,
            "periods_beyond": beyond,
            "thawed_after_kill_ms": {"median": thawed.median, "min": thawed.min, "max": thawed.max, "kills": kills},
            "left_reported_after": leaving,
            "targets": targets.map(|(target, met)| json!({"target": target, "met": met})),
        }));
    }
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{EVENT} on CPU {cpu} ({}), {seconds} s each, beside {} busy threads and a storm of cgroups on other CPUs\n",
        machine.cpu.as_deref().unwrap_or("unknown CPU"),
        elsewhere.len() * BUSY_THREADS
    );
    if let Some(reason) = &without {
        let _ = writeln!(text, "left out: {reason}\n");
    }
    let heads = [
        "side",
        "period us",
        "budget",
        "events/s",
        "allowed/s",
        "throttled",
        "beyond",
        "most",
        "regulator %",
        "programs %",
        "occupied %",
        "usable %",
        "freeze ms",
    ];
    text.push_str(&table(
        &heads,
        &(1..heads.len()).collect::<Vec<_>>(),
        &runs.iter().map(Run::cells).collect::<Vec<_>>(),
    ));
    let _ = writeln!(text, "\n{throttled} throttled periods of frozen groups, {beyond} beyond their bound");
    for Reclaiming { backend, period_us, reclaims, woken } in &reclaiming {
        let _ = writeln!(text, "{backend}, {period_us} us: {reclaims} reclaims, the thread woke up at {woken} of them");
    }
    let _ = writeln!(
        text,
        "after SIGKILL everything runs within {:.2} ms (median of {kills}; {:.2} to {:.2})",
        thawed.median, thawed.min, thawed.max
    );
    for Leaving { side, median_ms, min_ms, max_ms } in &leaving {
        let _ = writeln!(
            text,
            "{}: a process that leaves its group is reported within {median_ms:.2} ms (median of {kills}; {min_ms:.2} to {max_ms:.2})",
            side.name()
        );
    }
    for (target, met) in targets {
        let _ = writeln!(text, "target {}: {target}", if met { "met" } else { "not met" });
    }
    done(&text)
}

const EVENT: &str = "page-faults";

/// A load that takes from the pool what another group has donated.
#[derive(Clone, Debug, Serialize)]
struct Reclaiming {
    backend: &'static str,
    period_us: u64,
    reclaims: u64,
    /// At which the regulator thread woke up.
    woken: u64,
}

impl Reclaiming {
    fn is_quiet(&self) -> bool {
        self.reclaims > 0 && self.woken * 10 <= self.reclaims
    }
}

/// After how long it is reported that a process has left its group.
#[derive(Clone, Debug, Serialize)]
struct Leaving {
    side: Side,
    median_ms: f64,
    min_ms: f64,
    max_ms: f64,
}

fn is_cheap(run: &Run) -> bool {
    PERIODS.iter().all(|(period, percent)| *period != run.period_us || run.occupied_percent < *percent)
}

fn is_usable(run: &Run) -> bool {
    run.usable_percent.is_none_or(|percent| percent >= USABLE_TARGET)
}

impl Run {
    fn cells(&self) -> Vec<String> {
        let allowed = f64::from(self.budget) * 1e6 / self.period_us as f64;
        let one = |number: f64| format!("{number:.1}");
        let some = |number: Option<f64>| number.map_or("-".to_owned(), one);
        let mut cells = vec![self.side.name().to_owned(), self.period_us.to_string(), self.budget.to_string()];
        cells.extend([self.events_per_second, allowed].map(|number| format!("{number:.0}")));
        cells.extend(
            [self.throttled_periods, self.periods_beyond, self.most_in_a_period].map(|number| number.to_string()),
        );
        cells.extend([one(self.regulator_percent), some(self.programs_percent), one(self.occupied_percent)]);
        cells.extend([some(self.usable_percent), some(self.slowest_freeze_ms)]);
        cells
    }
}

/// What all runs have in common.
struct Bench {
    cpu: usize,
    time: Duration,
    root: CgroupRoot,
}

impl Bench {
    fn settings(&self, side: Side, period_us: u64, budget: u32) -> Result<Settings, Failure> {
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
            // What occupying a CPU for too long leads to is to be seen.
            peak: Some(budget.into()),
            backend: if side == Side::FrozenBpf { Backend::Bpf } else { Backend::Threads },
        })
    }

    fn run(&self, side: Side, period_us: u64, budget: u32) -> Result<Run, Failure> {
        let regulator = match side {
            Side::Unregulated => None,
            _ => Some(Regulator::start(self.settings(side, period_us, budget)?, programs()?)?),
        };
        let mut load = Load::start(self.cpu, self.time)?;
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
        let mut run = Run {
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
    fn reclaim(&self, backend: Backend, period_us: u64) -> Result<Reclaiming, Failure> {
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
        let mut regulator = Regulator::start(settings, programs()?)?;
        let mut load = Load::start(self.cpu, self.time)?;
        load.join(&self.root.path().join("memtint-guard").join(GROUP))?;
        let before = regulator.snapshot();
        load.run()?;
        regulator.finish();
        let sums = regulator.snapshot()[0].since(&before[0]);
        let backend = if backend == Backend::Bpf { "bpf" } else { "threads" };
        Ok(Reclaiming { backend, period_us, reclaims: sums.reclaims, woken: sums.reclaims_woken })
    }

    /// Moves a process out of its group. Returns after how many milliseconds that is reported.
    fn leave(&self, side: Side) -> Result<f64, Failure> {
        let regulator = Regulator::start(self.settings(side, LEAVING_PERIOD_US, BUDGETS[3])?, programs()?)?;
        let load = Load::start(self.cpu, self.time)?;
        load.join(&self.root.path().join("memtint-guard").join(GROUP))?;
        // It is seen there.
        std::thread::sleep(Duration::from_millis(200));
        let reported = memtint_regulator::watch_closely(|| {
            // Takes milliseconds: the kernel waits for all CPUs before it moves a process. The time from then on is measured.
            load.join(self.root.path())?;
            let begin = Instant::now();
            let has_left = |incident: &Incident| incident.cause == Cause::TaskLeft;
            while !regulator.take_incidents().iter().any(has_left) {
                if begin.elapsed() > Duration::from_secs(10) {
                    return Err(Failure::Sentence("a process has left its group, and nothing says so".to_owned()));
                }
                regulator.wait(Duration::from_secs(1));
            }
            Ok(begin.elapsed())
        })?;
        Ok(reported.as_secs_f64() * 1e3)
    }

    /// Kills a regulator whose group is frozen nearly all the time. Returns after how many milliseconds the group has run.
    fn kill(&self) -> Result<f64, Failure> {
        let failed = |what: String| Failure::Sentence(format!("a regulator to kill: {what}"));
        let own = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
        let group = format!("{GROUP}=1ev@{}", self.cpu);
        let regulator = Command::new(own)
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
        let mut load = Load::start(self.cpu, Duration::from_secs(1))?;
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
            Ok::<Duration, Failure>(begin.elapsed())
        })?;
        // The guardian works on: the next run must not meet it.
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
/// On each CPU but the load's.
const BUSY_THREADS: usize = 2;

/// A process that is killed when this is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended.
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
    fn start(cpu: usize, time: Duration) -> Result<Load, Failure> {
        let Programs { program, load, .. } = programs()?;
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

    fn failed(what: &str) -> Failure {
        Failure::Sentence(format!("a load: {what}"))
    }

    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|error| Load::failed(&error.to_string()))?;
        Ok(line.trim_end().to_owned())
    }

    fn join(&self, folder: &std::path::Path) -> Result<(), Failure> {
        let path = folder.join("cgroup.procs");
        std::fs::write(&path, self.process.0.id().to_string()).map_err(|cause| Failure::File {
            path,
            done: "written",
            cause,
        })
    }

    fn begin(&mut self) -> Result<(), Failure> {
        let input = self.process.0.stdin.as_mut().ok_or_else(|| Load::failed("no pipe"))?;
        input.write_all(b"\n").map_err(|error| Load::failed(&error.to_string()))
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.process.0.try_wait(), Ok(None))
    }

    fn count(&mut self) -> Result<u64, Failure> {
        let line = self.line()?;
        let count = line.strip_prefix("caused ").and_then(|count| count.parse().ok());
        // It has nothing left to do.
        let _ = self.process.0.wait();
        count.ok_or_else(|| Load::failed(&format!("it has answered {line:?}")))
    }

    fn run(&mut self) -> Result<u64, Failure> {
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

    /// Processor time that it has had.
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
    fn start(cpus: &[usize], folder: PathBuf) -> Result<Others, Failure> {
        std::fs::create_dir(&folder).map_err(|cause| Failure::File { path: folder.clone(), done: "created", cause })?;
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
                // Each makes the kernel take the mutex that freezing takes.
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
            // A panic of the thread has been reported where it happened.
            let _ = thread.join();
        }
    }
}
