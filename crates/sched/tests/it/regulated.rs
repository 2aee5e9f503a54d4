//! Do the bounds hold for cores that memtint's own state machine regulates, tick by tick?

use crate::common::{Job, Random, arrivals, longest, ps};
use memtint_guard::{Action, Config, Event, Ewma, Group, Guard, Kind, Predictor, Reservation, Sharing};
use memtint_sched::{
    Banks, Effort, Interference, Neighbour, Preemption, Priorities, Refresh, Regulator, TaskSet, TaskSpec, Unsupported,
    WorstCase, worst_response_with,
};
use memtint_units::Picoseconds as Ps;
use std::collections::VecDeque;

/// The most ticks from the end of a grant to its interrupt.
const LATE: u64 = 12;

/// Predicts what was used, or anything: no bound may rest on the prediction.
#[derive(Clone, Debug)]
struct Whatever {
    ewma: Ewma,
    /// Predicts anything below this; 0: what was used.
    wild_below: u64,
    seed: u64,
}

impl Predictor for Whatever {
    fn observe(&mut self, used: u64) {
        self.ewma.observe(used);
        self.seed = Random(self.seed).next();
    }

    fn predict(&self) -> Option<u64> {
        if self.wild_below > 0 { Some(self.seed % self.wild_below) } else { self.ewma.predict() }
    }
}

/// What is armed on a core.
#[derive(Clone, Copy, Debug)]
enum Counter {
    /// Nothing is counted.
    Off,
    /// What is left of a grant.
    Armed { grant: u32, left: u64 },
    /// A grant is used up, and `beyond` lines more; the interrupt comes after `lines` of them, or at a tick.
    Due { grant: u32, beyond: u64, lines: u64, at: i64 },
}

/// One core, as the regulator's backend sees it.
#[derive(Debug)]
struct Backend {
    counter: Counter,
    throttled: bool,
    busy: bool,
    /// Ticks that interrupts still take of it.
    overhead: i64,
    skid: u64,
}

/// A system that the state machine regulates.
struct System {
    guard: Guard<Whatever>,
    cores: Vec<Backend>,
    period: i64,
    overhead: i64,
    begun: u32,
    throttles: u64,
    underruns: u64,
}

impl System {
    fn new(config: &Config, period: i64, overhead: i64, wild_below: u64, random: &mut Random) -> System {
        let seed = random.next();
        let predictor = |core: usize| Whatever { ewma: Ewma::new(1), wild_below, seed: seed ^ core as u64 };
        let skid = |core| {
            let group = config.groups.iter().find(|group| group.cores.contains(&core));
            group.map_or(0, |group| group.skid.into())
        };
        let core =
            |core| Backend { counter: Counter::Off, throttled: false, busy: false, overhead: 0, skid: skid(core) };
        System {
            guard: Guard::new(config.clone(), predictor).unwrap(),
            cores: (0..config.cores).map(core).collect(),
            period,
            overhead,
            begun: 0,
            throttles: 0,
            underruns: 0,
        }
    }

    fn report(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.guard.on(event, &mut actions);
        for action in actions {
            match action {
                Action::Grant { core, grant, events, .. } => {
                    let consumed = matches!(event, Event::Consumed { core: own, .. } if own == core);
                    let beyond = match self.cores[core].counter {
                        Counter::Due { beyond, .. } if consumed => beyond,
                        _ => 0,
                    };
                    let left = u64::from(events).saturating_sub(beyond);
                    self.cores[core].counter = if left > 0 {
                        Counter::Armed { grant, left }
                    } else {
                        // The interrupt finds this one used up as well.
                        Counter::Due { grant, beyond: beyond - u64::from(events), lines: 0, at: 0 }
                    };
                }
                Action::Throttle { core, reason } => {
                    self.cores[core].counter = Counter::Off;
                    self.cores[core].throttled = true;
                    self.throttles += 1;
                    let short = memtint_guard::ThrottleReason::Exhausted { shortfall: 0 };
                    self.underruns += u64::from(reason != short);
                }
                Action::Release { core, .. } => {
                    self.cores[core].counter = Counter::Off;
                    self.cores[core].throttled = false;
                }
                Action::NextPeriod { .. } => unreachable!("no proportional sharing here"),
            }
        }
    }

    fn begin_tick(&mut self, now: i64) {
        if now % self.period == 0 {
            self.begun += 1;
            for core in 0..self.cores.len() {
                let unused = match self.cores[core].counter {
                    Counter::Armed { left, .. } => left as u32,
                    _ => 0,
                };
                self.report(Event::PeriodStart { core, period: self.begun, unused });
                self.cores[core].overhead += self.overhead;
            }
        }
        for core in 0..self.cores.len() {
            self.serve(core, now);
        }
    }

    /// The overflow interrupt, when it is time.
    fn serve(&mut self, core: usize, now: i64) {
        let is_due = |counter| {
            matches!(counter, Counter::Due { lines: 0, .. }) || matches!(counter, Counter::Due { at, .. } if at <= now)
        };
        let mut served = false;
        while is_due(self.cores[core].counter) {
            let Counter::Due { grant, .. } = self.cores[core].counter else { unreachable!() };
            self.report(Event::Consumed { core, grant });
            if matches!(self.cores[core].counter, Counter::Due { grant: after, .. } if after == grant) {
                self.cores[core].counter = Counter::Off;
            }
            served = true;
        }
        self.cores[core].overhead += i64::from(served) * self.overhead;
    }

    /// A core has moved a line.
    fn moved(&mut self, core: usize, now: i64, random: &mut Random) {
        let own = &mut self.cores[core];
        own.counter = match own.counter {
            Counter::Armed { grant, left: 1 } => {
                let (lines, late) = (random.within(0, own.skid), random.within(0, LATE) as i64);
                Counter::Due { grant, beyond: 0, lines, at: if own.skid == 0 { now } else { now + late } }
            }
            Counter::Armed { grant, left } => Counter::Armed { grant, left: left - 1 },
            Counter::Due { grant, beyond, lines, at } => {
                Counter::Due { grant, beyond: beyond + 1, lines: lines - 1, at }
            }
            Counter::Off => Counter::Off,
        };
        self.serve(core, now);
    }

    fn set_busy(&mut self, core: usize, busy: bool) {
        if std::mem::replace(&mut self.cores[core].busy, busy) == busy {
            return;
        }
        if busy {
            return self.report(Event::Busy { core });
        }
        let unused = match self.cores[core].counter {
            Counter::Armed { left, .. } => {
                self.cores[core].counter = Counter::Off;
                left as u32
            }
            _ => 0,
        };
        self.report(Event::Idle { core, unused });
    }

    fn may_run(&self, core: usize) -> bool {
        !self.cores[core].throttled && self.cores[core].overhead == 0
    }

    fn end_tick(&mut self) {
        self.cores.iter_mut().for_each(|core| core.overhead = (core.overhead - 1).max(0));
    }
}

/// Another core: jobs of (period, phase, lines), whose lines it requests one by one.
struct Rival {
    tasks: Vec<(i64, i64, u64)>,
    /// Arrivals of jobs with lines left, and how many.
    queue: VecDeque<(i64, u64)>,
    waits: bool,
    slowest: i64,
    /// Ticks at which a line came.
    lines: Vec<i64>,
}

impl Rival {
    fn arrive(&mut self, now: i64) {
        for &(period, phase, lines) in &self.tasks {
            if now >= phase && (now - phase) % period == 0 {
                self.queue.push_back((now, lines));
            }
        }
    }

    fn complete(&mut self, now: i64) {
        self.waits = false;
        self.lines.push(now);
        let first = self.queue.front_mut().expect("it has asked");
        first.1 -= 1;
        if first.1 == 0 {
            self.slowest = self.slowest.max(now + 1 - first.0);
            self.queue.pop_front();
        }
    }
}

/// Core 0 with its jobs; the others are rivals. One memory, first come first served.
struct Machine {
    system: System,
    rivals: Vec<Rival>,
    /// Ticks that a request of a rival takes.
    request: i64,
    /// Ticks of each task's execution at which a line is moved.
    lines: Vec<Vec<u64>>,
    refresh: Option<(i64, i64, i64)>,
}

impl Machine {
    fn simulate(&mut self, jobs: &mut [Job], ticks: i64, random: &mut Random) {
        let mut left: Vec<u64> = jobs.iter().map(|job| job.work).collect();
        let (mut bus, mut served, mut stall) = (VecDeque::<usize>::new(), 0, 0);
        for now in 0..ticks {
            self.system.begin_tick(now);
            if let Some((period, length, phase)) = self.refresh
                && now >= phase
                && (now - phase) % period == 0
            {
                stall += length;
            }
            let ready = |left: &[u64]| {
                let ready = (0..jobs.len()).filter(|&j| jobs[j].release <= now && left[j] > 0);
                ready.min_by_key(|&j| (jobs[j].urgency, jobs[j].release, j))
            };
            let chosen = ready(&left);
            self.system.set_busy(0, chosen.is_some());
            for (index, rival) in self.rivals.iter_mut().enumerate() {
                rival.arrive(now);
                self.system.set_busy(index + 1, !rival.queue.is_empty());
                if !rival.waits && !rival.queue.is_empty() && self.system.may_run(index + 1) {
                    rival.waits = true;
                    bus.push_back(index + 1);
                }
            }
            if bus.front() == Some(&0) {
                bus.pop_front();
            }
            let waits = bus.contains(&0);
            if let Some(&index) = bus.front() {
                served += 1;
                if served == self.request {
                    served = 0;
                    bus.pop_front();
                    self.rivals[index - 1].complete(now);
                    self.system.moved(index, now, random);
                }
            }
            let stalled = stall > 0;
            stall -= i64::from(stalled);
            if let Some(j) = chosen.filter(|_| !stalled && !waits && self.system.may_run(0)) {
                left[j] -= 1;
                if self.lines[jobs[j].task].contains(&left[j]) {
                    self.system.moved(0, now, random);
                    bus.push_back(0);
                }
                if left[j] == 0 {
                    jobs[j].completion = Some(now + 1);
                }
            }
            self.system.end_tick();
        }
    }
}

/// What is drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Draw {
    /// All kinds of systems.
    Any,
    /// A soft core that moves two lines or three in a period and is expected to need none, beside others that want all they can have.
    Robbed,
}

/// A set at random, with the ticks of each task's execution at which a line is moved.
fn random_tasks(random: &mut Random, draw: Draw) -> (TaskSet, Vec<Vec<u64>>) {
    let count = if draw == Draw::Robbed { 1 } else { random.within(1, 3) };
    let tasks = (0..count).map(|index| {
        let (period, wcet) = if draw == Draw::Robbed {
            (4000, random.within(700, 1000))
        } else {
            let period = random.within(20, 150);
            (period, random.within(1, period / (3 * count)))
        };
        let drawn: Vec<u64> = (0..wcet)
            .filter(|tick| if draw == Draw::Robbed { tick % 22 == 0 } else { random.within(0, 2) == 0 })
            .collect();
        let lines = if drawn.is_empty() { vec![0] } else { drawn };
        let spec = TaskSpec::new(format!("t{index}"), Ps(period), Ps(wcet)).deadline(Ps(3 * period));
        (spec.lines(lines.len() as u64), lines)
    });
    let (specs, lines): (Vec<TaskSpec>, Vec<Vec<u64>>) = tasks.unzip();
    (TaskSet::new(specs).unwrap(), lines)
}

/// A system at random: the configuration, and the analysis's view of each core; a core in no group has none.
fn random_system(
    random: &mut Random,
    draw: Draw,
    cores: usize,
    period: u64,
    overhead: u64,
) -> (Config, Vec<Option<Regulator>>) {
    let sharing = if draw == Draw::Any && random.within(0, 3) == 0 { Sharing::Spare } else { Sharing::Off };
    let mut groups = Vec::new();
    for core in 0..cores {
        if core > 0 && random.within(0, 4) == 0 {
            continue;
        }
        let kind = if draw == Draw::Robbed || random.within(0, 1) == 0 { Kind::Soft } else { Kind::Hard };
        let budget = if draw == Draw::Robbed && core == 0 { random.within(8, 12) } else { random.within(1, 6) };
        let reservation = Reservation { budget: budget as u32, kind };
        let (quantum, skid) = (random.within(1, 3) as u32, random.within(0, 5) as u32);
        groups.push(Group { cores: vec![core], reservation, quantum, skid });
    }
    let reclaim_step = random.within(1, groups.iter().map(|group| group.quantum).min().unwrap().into()) as u32;
    let guaranteed = groups.iter().map(|group| group.reservation.budget + group.quantum + group.skid).sum();
    let mut known = vec![None; cores];
    for group in &groups {
        let own = Regulator::new(Ps(period), group.reservation.budget.into(), Ps(1)).unwrap();
        let own = own.counting(group.quantum.into(), group.skid.into()).unwrap().overhead(Ps(overhead)).unwrap();
        let own = if group.reservation.kind == Kind::Soft { own.reclaiming(reclaim_step.into()).unwrap() } else { own };
        known[group.cores[0]] = Some(if sharing == Sharing::Spare { own.sharing_spare() } else { own });
    }
    (Config { cores, groups, guaranteed, reclaim_step, sharing }, known)
}

fn bound(set: &TaskSet, task: usize, terms: &[Interference]) -> Option<u64> {
    let order = Priorities::given(set, (0..set.tasks().len()).collect()).unwrap();
    match worst_response_with(set, &order, Preemption::Full, task, terms, Effort::default()) {
        Ok(WorstCase::Bounded(worst)) => Some(worst.response.0),
        Ok(WorstCase::Unbounded(_)) | Err(Unsupported::Load(_)) => None,
        Err(reason) => panic!("{reason:?} {set:?}"),
    }
}

/// What was seen, so that the tests below can be shown to test something.
#[derive(Debug, Default)]
struct Seen {
    /// Sets with a bound.
    sets: u64,
    /// Of cores with hard and with soft reservations.
    bounds: [u64; 2],
    /// Longer than without regulation, other cores and refresh.
    delayed: [u64; 2],
    /// Responses of at least half of their bound.
    near: [u64; 2],
    /// Responses beyond the bound of a core that does not reclaim.
    beyond_hard: u64,
    throttles: u64,
    underruns: u64,
    windows: u64,
    /// Windows in which the lines of the others came to half of their bound.
    full: u64,
}

/// One set on one machine for so many ticks: responses against their bounds, and the lines of the others against theirs.
fn try_one(random: &mut Random, draw: Draw, round: u64, ticks: i64, seen: &mut Seen) {
    let (set, lines) = random_tasks(random, draw);
    let (period, overhead) = match draw {
        Draw::Any => (random.within(6, 24), random.within(0, 3)),
        Draw::Robbed => (random.within(50, 60), 0),
    };
    let cores = random.within(if draw == Draw::Robbed { 2 } else { 1 }, 4) as usize;
    let (config, regulators) = random_system(random, draw, cores, period, overhead);
    let own = regulators[0].expect("core 0 is regulated");
    let soft = usize::from(own.reclaims());
    let donated = if own.reclaims() { own.lines() } else { 0 };
    let wild_below = if draw == Draw::Robbed { 2 } else { 7 * random.within(0, 1) };
    let mut machine = Machine {
        system: System::new(&config, period as i64, overhead as i64, wild_below, random),
        rivals: Vec::new(),
        request: if draw == Draw::Robbed { 1 } else { random.within(1, 2) as i64 },
        lines,
        refresh: None,
    };
    let mut terms = vec![Interference::Regulator(own)];
    if round.is_multiple_of(3) {
        let (period, stall) = (random.within(8, 30), random.within(1, 2));
        machine.refresh = Some((period as i64, stall as i64, random.within(0, period - 1) as i64));
        terms.push(Interference::Refresh(Refresh::auto(Ps(period), Ps(stall), Ps(0)).unwrap()));
    }
    let (mut neighbours, mut promised) = (Vec::new(), Vec::new());
    for regulator in &regulators[1..] {
        let tasks: Vec<(i64, i64, u64)> =
            (0..2).map(|_| (random.within(20, 90) as i64, random.within(0, 40) as i64, random.within(1, 8))).collect();
        let deadline = random.within(60, 200);
        let spec = |(index, &(period, _, lines)): (usize, &(i64, i64, u64))| {
            TaskSpec::new(format!("r{index}"), ps(period), Ps(1)).deadline(Ps(deadline)).lines(lines)
        };
        let known = draw == Draw::Any && random.within(0, 1) == 0;
        let set = known.then(|| TaskSet::new(tasks.iter().enumerate().map(spec)).unwrap());
        neighbours.push(Neighbour { tasks: set, regulator: *regulator, donated });
        promised.push(if known { deadline as i64 } else { i64::MAX });
        machine.rivals.push(Rival { tasks, queue: VecDeque::new(), waits: false, slowest: 0, lines: Vec::new() });
    }
    let banks = |request: u64| {
        let request_delay = Ps(request);
        Banks { request_delay, neighbours: neighbours.clone(), private_banks: true, requests_at_once_max: 1 }
    };
    if cores > 1 {
        terms.push(Interference::Banks(banks(machine.request as u64)));
    }
    let offsets: Vec<i64> = set.tasks().iter().map(|task| random.within(0, task.period().0 - 1) as i64).collect();
    let mut jobs: Vec<Job> =
        (0..set.tasks().len()).flat_map(|task| arrivals(&set, task, offsets[task], ticks, |_| task as i64)).collect();
    machine.simulate(&mut jobs, ticks, random);
    seen.throttles += machine.system.throttles;
    seen.underruns += machine.system.underruns;
    // The other cores must keep what they promise.
    let kept = |(rival, promised): (&Rival, &i64)| {
        let waiting = rival.queue.front().map_or(0, |first| ticks - first.0);
        rival.slowest.max(waiting) <= *promised
    };
    if !machine.rivals.iter().zip(&promised).all(kept) {
        return;
    }
    for _ in 0..8 {
        let length = random.within(1, ticks as u64 / 2);
        let start = random.within(0, ticks as u64 - length) as i64;
        let all = machine.rivals.iter().flat_map(|rival| &rival.lines);
        let moved = all.filter(|&&tick| tick >= start && tick < start + length as i64).count() as u128;
        let most = Interference::Banks(banks(1)).delay(Ps(length), 1 << 100);
        assert!(moved <= most, "round {round}: {moved} lines in {length} ticks, bound {most}: {config:?}");
        seen.windows += 1;
        seen.full += u64::from(moved > 0 && 2 * moved >= most);
    }
    jobs.retain(|job| job.completion.is_some());
    let hard = Regulator::new(Ps(period), own.lines(), Ps(1)).unwrap();
    let hard = hard.counting(config.groups[0].quantum.into(), config.groups[0].skid.into()).unwrap();
    let hard = Interference::Regulator(hard.overhead(Ps(overhead)).unwrap());
    let before = seen.bounds;
    for task in 0..set.tasks().len() {
        let Some(most) = bound(&set, task, &terms) else { continue };
        let longest = longest(&jobs, task, ticks) as u64;
        assert!(longest <= most, "round {round}, task {task}: {longest} > {most}, {terms:?} {config:?} {set:?}");
        seen.bounds[soft] += 1;
        seen.delayed[soft] += u64::from(Some(longest) > bound(&set, task, &[]));
        seen.near[soft] += u64::from(2 * longest >= most);
        let hard = terms.iter().map(|term| if let Interference::Regulator(_) = term { &hard } else { term });
        seen.beyond_hard +=
            u64::from(bound(&set, task, &hard.cloned().collect::<Vec<_>>()).is_some_and(|most| longest > most));
    }
    seen.sets += u64::from(seen.bounds != before);
}

#[test]
fn no_response_of_ten_thousand_regulated_sets_exceeds_its_bound() {
    let mut random = Random(91);
    let seen = try_many(&mut random, Draw::Any, 10_000);
    println!("{seen:?}");
    assert!(seen.bounds.iter().all(|&bounds| bounds > 4000), "{seen:?}");
    assert!(seen.delayed.iter().all(|&delayed| delayed > 3000), "{seen:?}");
    assert!(seen.near[0] > 500 && seen.throttles > 100_000 && seen.underruns > 10_000, "{seen:?}");
    assert!(seen.windows > 100_000 && seen.full > 10_000, "{seen:?}");
}

/// A core that reclaims has less than its budget; the bound of a core that does not would be wrong.
#[test]
fn a_core_that_donates_what_it_needs_has_its_budget_in_every_second_period() {
    let mut random = Random(92);
    let seen = try_many(&mut random, Draw::Robbed, 200);
    println!("{seen:?}");
    assert!(seen.beyond_hard > 20 && seen.near[1] > 30, "{seen:?}");
}

/// So many sets with a bound, of which there is none where a core is overloaded.
fn try_many(random: &mut Random, draw: Draw, sets: u64) -> Seen {
    let (mut seen, mut round) = (Seen::default(), 0);
    while seen.sets < sets {
        try_one(random, draw, round, if draw == Draw::Robbed { 8000 } else { 600 }, &mut seen);
        round += 1;
    }
    seen
}
