//! A task set under a scheme: the work of its jobs, the simulation, and the result.

use memtint_analysis::{Inside, MemorySpec, TaskSystem};
use memtint_hiding::cyclic::{Executive, Problem};
use memtint_sim::{Ending, Machine as Simulated, Scenario};
use memtint_units::Picoseconds;
use num_integer::Integer;

use crate::bound::{Bounds, of_priorities, of_servers};
use crate::job::{fit, globals, moves_lines, rank_bytes};
use crate::outcome::{Locked, Met, Outcome, Spread, TaskOutcome};
use crate::scenario::{Plan, of_slots};
use crate::watch::CommandWatch;
use crate::{Caches, Hardware, Job, RefreshError, Scheme};

/// Longer simulations are cut off.
const DURATION_MAX: u64 = 10_000_000_000_000;
/// Longest time between two calls of the progress callback, in picoseconds of simulated time.
const STEP: u64 = 1_000_000_000;

/// Default times of lock and unlock tasks, as in `memtint sim`.
const LOCK: Picoseconds = Picoseconds::from_ns(20_000);
const UNLOCK: Picoseconds = Picoseconds::from_ns(1000);

/// Options of a simulation, besides the scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Hyperperiods, 1 or more.
    pub hyperperiods: u32,
    /// Seed of everything random.
    pub seed: u64,
    /// Whether jobs are released late at random, up to the jitter of their task; else at their arrival.
    pub jitter: bool,
    /// How tasks are ordered where there are neither servers nor a table.
    pub order: Inside,
    /// The caches.
    pub caches: Caches,
    /// Thousandths of a WCET that are reserved for the cost of other tasks: lines that they displace, and their pending
    /// writes. At most 999.
    pub spared_per_mille: u32,
    /// The most runs, and the most refreshes, that are kept for a chart.
    pub runs_max: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            hyperperiods: 1,
            seed: 1,
            jitter: false,
            order: Inside::Edf,
            caches: Caches::default(),
            spared_per_mille: 5,
            runs_max: 4096,
        }
    }
}

/// Callback that receives the progress of a simulation, from 0 to 1, and returns whether to continue.
pub type GoOn<'a> = &'a (dyn Fn(f64) -> bool + Sync);

/// A task set that is ready to be simulated under any scheme and density: the work of its jobs is known.
#[derive(Clone, Debug)]
pub struct Prepared {
    file: TaskSystem,
    memory: MemorySpec,
    lock_assumed: bool,
    options: Options,
    jobs: Vec<Job>,
    rank_bytes: u64,
    hyperperiod: Option<Picoseconds>,
    duration: Picoseconds,
}

impl Prepared {
    /// Finds the work of each task's jobs, on up to `threads` threads; the result does not depend on their number.
    ///
    /// Where the file gives lock tasks no time, they take 20 us, and unlock tasks 1 us, in analysis and simulation.
    ///
    /// # Errors
    ///
    /// [`RefreshError`] when the file has no `[memory]`, a task without `lines` and without `program`, a value that cannot be
    /// simulated, or a WCET that is too short for a single reference.
    pub fn new(file: &TaskSystem, options: Options, threads: usize, go_on: GoOn<'_>) -> Result<Prepared, RefreshError> {
        let mut memory = *file.memory_given()?;
        moves_lines(file)?;
        // Requests end and dirty lines are written back in no lesser time.
        let lock_assumed = memory.lock.0 == 0;
        if lock_assumed {
            memory.lock = LOCK;
            memory.unlock = memory.unlock.max(UNLOCK);
        }
        let rank_bytes = rank_bytes(file)?;
        let machine = Hardware::new(&file.name, &memory, options.caches, rank_bytes)?;
        let mut all = file.set.tasks().iter().zip(&file.tasks);
        if let Some((task, more)) = all.find(|(_, more)| more.ranks > memory.ranks) {
            return Err(RefreshError::Field {
                file: file.name.clone(),
                field: format!("task {:?}: ranks", task.name()),
                found: more.ranks.to_string(),
                accepted: format!("at most the {} ranks of the memory", memory.ranks),
            });
        }
        for task in 0..file.tasks.len() {
            globals(file, task)?;
        }
        let hyperperiod = hyperperiod(file, &memory);
        let last = file.set.tasks().iter().map(|task| task.phase().0).max().unwrap_or(0);
        let whole = hyperperiod.map(|one| one.0.saturating_mul(u64::from(options.hyperperiods)).saturating_add(last));
        let whole = whole.filter(|&whole| whole <= DURATION_MAX);
        let duration = Picoseconds(whole.unwrap_or(DURATION_MAX));
        let tasks = file.set.tasks().len();
        let one = |index: usize| {
            let task = &file.set.tasks()[index];
            let jobs = duration.0.saturating_sub(task.phase().0).div_ceil(task.period().0).max(1);
            let stay = || go_on(index as f64 / tasks as f64);
            fit(&machine, file, index, jobs, &options, &stay)
        };
        let jobs = parallel(tasks, threads, one).into_iter().collect::<Result<Vec<Job>, RefreshError>>()?;
        let hyperperiod = hyperperiod.filter(|_| whole.is_some());
        let mut file = file.clone();
        file.memory = Some(memory);
        Ok(Prepared { file, memory, lock_assumed, options, jobs, rank_bytes, hyperperiod, duration })
    }

    /// Gives the work of each task's jobs.
    #[must_use]
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// Gives the task set.
    #[must_use]
    pub fn file(&self) -> &TaskSystem {
        &self.file
    }

    /// The same tasks with memory of another density, tRFC as in Table 4.1.
    #[must_use]
    pub fn with_density(&self, density: memtint_hiding::crs::Density) -> Prepared {
        let memory = MemorySpec { density: Some(density), t_rfc: density.t_rfc(), ..self.memory };
        let mut prepared = self.clone();
        (prepared.memory, prepared.file.memory) = (memory, Some(memory));
        prepared
    }

    /// Simulates a scheme.
    ///
    /// # Errors
    ///
    /// [`RefreshError`] for requirements of the scheme that the file lacks (such as colors and servers), and when there
    /// is no schedule; [`RefreshError::Stopped`] when cancelled.
    pub fn simulate(&self, scheme: Scheme, go_on: GoOn<'_>) -> Result<Outcome, RefreshError> {
        let machine = Hardware::new(&self.file.name, &self.memory, self.options.caches, self.rank_bytes)?;
        let plan = self.plan(&machine, scheme);
        let (setup, bounds) = match scheme {
            Scheme::ColoredRefresh => crate::colored::setup(&plan)?,
            Scheme::Crs => (Setup::plain(&plan)?, of_servers(&plan)?),
            _ => (Setup::plain(&plan)?, of_priorities(&plan)?),
        };
        self.run(&plan, &setup, bounds, go_on)
    }

    /// Simulates Colored Refresh by a table that the caller brings, right or wrong; the problem is the one that it is for.
    ///
    /// # Errors
    ///
    /// As [`Prepared::simulate`].
    pub fn simulate_executive(
        &self,
        problem: &Problem,
        table: &Executive,
        go_on: GoOn<'_>,
    ) -> Result<Outcome, RefreshError> {
        let machine = Hardware::new(&self.file.name, &self.memory, self.options.caches, self.rank_bytes)?;
        let plan = self.plan(&machine, Scheme::ColoredRefresh);
        let setup = crate::colored::of_executive(&plan, problem, table)?;
        self.run(&plan, &setup, crate::colored::bounds(&plan, table), go_on)
    }

    fn plan<'a>(&'a self, machine: &'a Hardware, scheme: Scheme) -> Plan<'a> {
        Plan {
            machine,
            file: &self.file,
            memory: &self.memory,
            scheme,
            order: self.options.order,
            jobs: &self.jobs,
            duration: self.duration,
            seed: self.options.seed,
            jitter: self.options.jitter,
        }
    }

    fn run(&self, plan: &Plan<'_>, setup: &Setup, bounds: Bounds, go_on: GoOn<'_>) -> Result<Outcome, RefreshError> {
        let channels = setup.scenario.channels()?;
        let clock = plan.machine.device.clock;
        let runs_max = self.options.runs_max;
        let watches =
            (0..channels.count).map(|_| CommandWatch::new(&channels, self.memory.ranks, clock, runs_max)).collect();
        let mut simulated = setup.scenario.watched_machine(watches)?;
        simulated.log_runs(runs_max);
        let mut now = 0;
        while now < self.duration.0 {
            if !go_on(now as f64 / self.duration.0 as f64) {
                return Err(RefreshError::Stopped);
            }
            now = (now + STEP).min(self.duration.0);
            if !simulated.run_until(Picoseconds(now)) {
                break;
            }
        }
        Ok(self.outcome(plan, setup, bounds, simulated))
    }

    fn outcome(&self, plan: &Plan<'_>, setup: &Setup, bounds: Bounds, simulated: Simulated<CommandWatch>) -> Outcome {
        let found = simulated.outcome();
        let runs = simulated.runs();
        let watch = simulated.into_sinks().into_iter().next().expect("there is one channel");
        let (retention, refreshed, refreshed_until) = watch.finish(self.duration);
        let clock = plan.machine.device.clock;
        let longest = retention.as_ref().and_then(|found| found.longest.iter().copied().max());
        let met = found.refresh_met.iter().flatten().enumerate().map(|(rank, met)| Met {
            rank: rank as u32,
            requests: met.ordinary + met.locked + met.caught,
            tasks: self.tasks_in(setup, rank as u32),
        });
        let tasks = bounds.tasks.into_iter().enumerate();
        // Behind those of tasks there may be one of lock tasks.
        let cores = (0..self.jobs.len()).map(|task| plan.core(task) as usize + 1).max().unwrap_or(0);
        let timing = setup.scenario.channels().map_or(plan.machine.device.timing, |channels| channels.timing);
        Outcome {
            scheme: plan.scheme,
            duration: found.duration,
            hyperperiod: self.hyperperiod,
            t_rfc: clock.start(u64::from(timing.rfc)),
            tasks: tasks.map(|(task, bound)| self.task(plan, setup, &found, task, bound)).collect(),
            analysis: bounds.analysis,
            busy: found.core_slots.iter().take(cores).map(|&slots| of_slots(slots)).collect(),
            met: met.filter(|met| met.requests > 0).collect(),
            refresh_gap: longest.map(|cycles| clock.start(cycles)),
            retention,
            locked: found.locks.as_ref().map(|locks| Locked {
                locked: Picoseconds(locks.locked_ps),
                unhidden: locks.unhidden_ps.iter().take(cores).map(|&time| Picoseconds(time)).collect(),
                tasks: Picoseconds(locks.tasks_ps),
                lock_task: self.memory.lock,
                unlock_task: self.memory.unlock,
                assumed: self.lock_assumed,
                locks: locks.locks,
                cleaned_lines: locks.cleaned_lines,
                copies: locks.copies,
                copied_lines: locks.copied_lines,
            }),
            runs,
            instances: setup.instances.iter().map(|&(task, _)| task).collect(),
            refreshed,
            refreshed_until,
        }
    }

    fn tasks_in(&self, setup: &Setup, rank: u32) -> Vec<String> {
        let there = setup.instances.iter().filter(|(_, ranks)| ranks.contains(&rank));
        let mut tasks: Vec<usize> = there.map(|&(task, _)| task).collect();
        tasks.dedup();
        tasks.into_iter().map(|task| self.file.set.tasks()[task].name().to_owned()).collect()
    }

    fn task(
        &self,
        plan: &Plan<'_>,
        setup: &Setup,
        found: &memtint_sim::Outcome,
        index: usize,
        bound: crate::Bound,
    ) -> TaskOutcome {
        let (task, more) = (&self.file.set.tasks()[index], &self.file.tasks[index]);
        let server = more.server.filter(|_| plan.scheme == Scheme::Crs);
        let mut outcome = TaskOutcome {
            name: task.name().to_owned(),
            core: plan.core(index),
            server: server.map(|server| self.file.servers[server].name.clone()),
            ranks: Vec::new(),
            job: self.jobs[index].clone(),
            wcet: task.wcet(),
            deadline: task.deadline(),
            period: task.period(),
            phase: task.phase(),
            misses: 0,
            response: Spread::default(),
            execution: Spread::default(),
            latency: Spread::default(),
            preemptions: 0,
            copies: 0,
            ended: None,
            bound,
        };
        let own = setup.instances.iter().enumerate().filter(|(_, instance)| instance.0 == index);
        for (place, (_, ranks)) in own {
            let counts = &found.tasks[place];
            outcome.ranks.push(ranks.clone());
            outcome.misses += counts.deadline_misses;
            outcome.response.add(&counts.response_ps, 1);
            outcome.execution.add(&counts.execution_slots, of_slots(1).0);
            outcome.latency.add(&counts.latency_ps, 1);
            outcome.preemptions += counts.preemptions;
            outcome.copies += counts.taken_over;
            outcome.ended = outcome.ended.or(match &found.endings[place] {
                Ending::Running | Ending::Completed => None,
                Ending::OutOfMemory(reason) | Ending::Failed(reason) => Some(reason.clone()),
            });
        }
        outcome
    }
}

/// A scenario, and which instance of which task each of its tasks is.
pub(crate) struct Setup {
    pub(crate) scenario: Scenario,
    /// The task, and its ranks.
    pub(crate) instances: Vec<(usize, Vec<u32>)>,
}

impl Setup {
    fn plain(plan: &Plan<'_>) -> Result<Setup, RefreshError> {
        let instances = plan.instances()?.into_iter().map(|own| (own.task, own.ranks));
        Ok(Setup { scenario: plan.scenario()?, instances: instances.collect() })
    }
}

/// The least common multiple of the periods of tasks and servers, and of the retention time.
fn hyperperiod(file: &TaskSystem, memory: &MemorySpec) -> Option<Picoseconds> {
    let tasks = file.set.tasks().iter().map(|task| task.period().0);
    let mut periods = tasks.chain(file.servers.iter().map(|server| server.period.0));
    let common = periods.try_fold(u128::from(memory.retention.0), |common, period| {
        let next = common.lcm(&u128::from(period));
        (next < 1 << 62).then_some(next)
    });
    common.and_then(|common| u64::try_from(common).ok()).map(Picoseconds)
}

/// Runs `count` tasks on up to `threads` threads; results in order.
pub(crate) fn parallel<T: Send>(count: usize, threads: usize, one: impl Fn(usize) -> T + Sync) -> Vec<T> {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Mutex, PoisonError};
    let results: Vec<Mutex<Option<T>>> = (0..count).map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(result) = results.get(index) else { return };
            *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(one(index));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.clamp(1, count.max(1)) {
            scope.spawn(work);
        }
        work();
    });
    let take = |result: Mutex<Option<T>>| result.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_iter().map(|result| take(result).expect("some thread did each")).collect()
}
