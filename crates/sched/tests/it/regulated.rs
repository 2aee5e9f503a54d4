//! Do the bounds hold for cores that memtint's own state machine regulates, tick by tick?

use crate::common::{Job, arrivals, longest, ps};
use memtint_guard::{Action, Config, Event, Ewma, Group, Guard, Kind, Predictor, Reservation, Sharing, ThrottleReason};
use memtint_sched::{
    Banks, Effort, Interference, Neighbour, Preemption, Priorities, Refresh, Regulator, TaskIndex, TaskSet, TaskSpec,
    Unsupported, WorstCase, worst_response_with,
};
use memtint_units::Picoseconds as Ps;
use memtint_units::Random;
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
        self.seed = Random::new(self.seed).bits();
    }

    fn predict(&self) -> Option<u64> {
        if self.wild_below > 0 { Some(self.seed % self.wild_below) } else { self.ewma.predict() }
    }
}

/// One core, as the regulator's backend sees it.
#[derive(Debug)]
struct Backend {
    /// A grant is armed: its number, and what is left of it; below 0, what was moved beyond it, which the next one lacks.
    grant: Option<u32>,
    left: i64,
    /// The grant is used up: lines until the interrupt, and the tick at which it comes.
    due: Option<(u64, i64)>,
    throttled: bool,
    busy: bool,
    /// Ticks that interrupts still take of it.
    overhead: i64,
    skid: u64,
    /// When it begins the next period: with the system's, or a little later.
    begins: i64,
}

/// A system that the state machine regulates.
struct System {
    guard: Guard<Whatever>,
    cores: Vec<Backend>,
    period: i64,
    overhead: i64,
    throttles: u64,
    underruns: u64,
}

impl System {
    fn new(config: &Config, period: i64, overhead: i64, wild_below: u64, random: &mut Random) -> System {
        let seed = random.bits();
        let predictor = |core: usize| Whatever { ewma: Ewma::new(1), wild_below, seed: seed ^ core as u64 };
        let skid = |core| {
            let group = config.groups.iter().find(|group| group.cores.contains(&core));
            group.map_or(0, |group| group.skid.into())
        };
        let core = |core| Backend {
            grant: None,
            left: 0,
            due: None,
            throttled: false,
            busy: false,
            overhead: 0,
            skid: skid(core),
            begins: 0,
        };
        System {
            guard: Guard::new(config.clone(), predictor).unwrap(),
            cores: (0..config.cores).map(core).collect(),
            period,
            overhead,
            throttles: 0,
            underruns: 0,
        }
    }

    fn report(&mut self, event: Event, now: i64) {
        let mut actions = Vec::new();
        self.guard.on(event, &mut actions);
        for action in actions {
            match action {
                Action::Grant { core, grant, events, .. } => {
                    let own = &mut self.cores[core];
                    own.left = own.left.min(0) + i64::from(events);
                    (own.grant, own.throttled) = (Some(grant), false);
                    // One interrupt takes off what it finds.
                    own.due = (own.left <= 0).then_some((0, now));
                }
                Action::Throttle { core, reason } => {
                    let own = &mut self.cores[core];
                    (own.grant, own.due, own.throttled) = (None, None, true);
                    self.throttles += 1;
                    self.underruns += u64::from(matches!(reason, ThrottleReason::Exhausted { shortfall: 1.. }));
                }
                Action::Release { core, .. } => {
                    let own = &mut self.cores[core];
                    (own.grant, own.due, own.throttled) = (None, None, false);
                }
                Action::NextPeriod { .. } => unreachable!("no proportional sharing here"),
            }
        }
    }

    /// Core 0 begins each period when it does, the others up to two ticks later.
    fn begin_tick(&mut self, now: i64, random: &mut Random) {
        for core in 0..self.cores.len() {
            if now == self.cores[core].begins {
                let next = (now / self.period + 1) * self.period;
                self.cores[core].begins = next + if core == 0 { 0 } else { random.within(0, 2) as i64 };
                let own = &self.cores[core];
                let unused = if own.grant.is_some() { own.left.max(0) as u32 } else { 0 };
                let period = (now / self.period) as u32 + 1;
                self.report(Event::PeriodStart { core, period, unused }, now);
                self.cores[core].overhead += self.overhead;
            }
        }
        for core in 0..self.cores.len() {
            self.serve(core, now);
        }
    }

    /// The overflow interrupt, when it is time.
    fn serve(&mut self, core: usize, now: i64) {
        let is_due = |due: Option<(u64, i64)>| due.is_some_and(|(lines, at)| lines == 0 || at <= now);
        let mut served = false;
        while is_due(self.cores[core].due) {
            let grant = self.cores[core].grant.expect("it is due");
            self.cores[core].due = None;
            self.report(Event::Consumed { core, grant }, now);
            served = true;
        }
        self.cores[core].overhead += i64::from(served) * self.overhead;
    }

    /// A core has moved a line.
    fn moved(&mut self, core: usize, now: i64, random: &mut Random) {
        let own = &mut self.cores[core];
        if own.grant.is_none() {
            return;
        }
        own.left -= 1;
        own.due = match own.due {
            Some((lines, at)) => Some((lines - 1, at)),
            None if own.left <= 0 => {
                let lines = random.within(0, own.skid);
                Some((lines, now + if lines == 0 { 0 } else { random.within(0, LATE) as i64 }))
            }
            None => None,
        };
        self.serve(core, now);
    }

    fn set_busy(&mut self, core: usize, busy: bool, now: i64) {
        if std::mem::replace(&mut self.cores[core].busy, busy) == busy {
            return;
        }
        if busy {
            self.report(Event::Busy { core }, now);
            return self.serve(core, now);
        }
        let own = &mut self.cores[core];
        let unused = if own.grant.is_some() { own.left.max(0) as u32 } else { 0 };
        if unused > 0 {
            (own.grant, own.left) = (None, 0);
        }
        self.report(Event::Idle { core, unused }, now);
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
            self.system.begin_tick(now, random);
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
            self.system.set_busy(0, chosen.is_some(), now);
            for (index, rival) in self.rivals.iter_mut().enumerate() {
                rival.arrive(now);
                self.system.set_busy(index + 1, !rival.queue.is_empty(), now);
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
/// `distance`: the fewest ticks of execution from one line to the next, of the same job or of another.
fn random_tasks(random: &mut Random, draw: Draw, distance: u64) -> (TaskSet, Vec<Vec<u64>>) {
    let count = if draw == Draw::Robbed { 1 } else { random.within(1, 3) };
    let tasks = (0..count).map(|index| {
        let (period, wcet) = if draw == Draw::Robbed {
            (4000, random.within(700, 1000))
        } else {
            let period = random.within(20, 150);
            (period, random.within(2 * distance, (period / (3 * count)).max(2 * distance)))
        };
        let drawn: Vec<u64> = (0..wcet)
            .filter(|tick| tick % distance == distance - 1 && tick + distance <= wcet)
            .filter(|tick| if draw == Draw::Robbed { tick % 22 == 0 } else { random.within(0, 2) == 0 })
            .collect();
        let lines = if drawn.is_empty() { vec![distance - 1] } else { drawn };
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
    [period, overhead, line_min]: [u64; 3],
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
        let own = Regulator::new(Ps(period), group.reservation.budget.into(), Ps(line_min)).unwrap();
        let own = own.counting(group.quantum.into(), group.skid.into()).unwrap().overhead(Ps(overhead)).unwrap();
        let own = if group.reservation.kind == Kind::Soft { own.reclaiming() } else { own };
        known[group.cores[0]] = Some(if sharing == Sharing::Spare { own.sharing_spare() } else { own });
    }
    (Config { cores, groups, guaranteed, reclaim_step, sharing }, known)
}

fn bound(set: &TaskSet, task: usize, terms: &[Interference]) -> Option<u64> {
    let order = Priorities::given(set, set.indices().collect()).unwrap();
    match worst_response_with(set, &order, Preemption::Full, TaskIndex(task), terms, Effort::default()) {
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

/// One set on one machine for a number of ticks: responses against their bounds, and the lines of the others against theirs.
fn try_one(random: &mut Random, draw: Draw, round: u64, ticks: i64, seen: &mut Seen) {
    let distance = if draw == Draw::Robbed { 1 } else { random.within(1, 3) };
    let (set, lines) = random_tasks(random, draw, distance);
    let (period, overhead) = match draw {
        Draw::Any => (random.within(6, 24), random.within(0, 3)),
        Draw::Robbed => (random.within(50, 60), 0),
    };
    let cores = random.within(if draw == Draw::Robbed { 2 } else { 1 }, 4) as usize;
    let line_min = distance.min(period / 6);
    let (config, regulators) = random_system(random, draw, cores, [period, overhead, line_min]);
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
        let limited = cores > 1 && most < 1 << 90;
        assert!(moved <= most, "round {round}: {moved} lines in {length} ticks, bound {most}: {config:?}");
        seen.windows += u64::from(limited);
        seen.full += u64::from(moved > 0 && 2 * moved >= most);
    }
    let hard = Regulator::new(Ps(period), own.lines(), Ps(line_min)).unwrap();
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
    let mut random = Random::new(91);
    let seen = try_many(&mut random, Draw::Any, 10_000);
    println!("{seen:?}");
    assert!(seen.bounds.iter().all(|&bounds| bounds > 4000), "{seen:?}");
    assert!(seen.delayed.iter().all(|&delayed| delayed > 3000), "{seen:?}");
    assert!(seen.near[0] > 500 && seen.throttles > 100_000 && seen.underruns > 3000, "{seen:?}");
    assert!(seen.windows > 30_000 && seen.full > 5000, "{seen:?}");
}

/// A core that reclaims has less than its budget; the bound of a core that does not would be wrong.
#[test]
fn a_core_that_donates_what_it_needs_has_its_budget_in_every_second_period() {
    let mut random = Random::new(92);
    let seen = try_many(&mut random, Draw::Robbed, 200);
    println!("{seen:?}");
    assert!(seen.beyond_hard > 20 && seen.near[1] > 30, "{seen:?}");
}

/// Two lines that are 5 ticks apart use up a budget of two in 6 ticks, and not in 10: the core stands still for 14 of 20.
#[test]
fn the_first_line_of_a_period_can_come_at_once() {
    let (works, task) = (260, TaskSpec::new("a", Ps(2000), Ps(260)).deadline(Ps(2000)).lines(20));
    let set = TaskSet::new([task]).unwrap();
    let lines = (0..works).filter(|tick| [0, 5].contains(&(tick % 26))).map(|tick| works - 1 - tick).collect();
    let reservation = Reservation { budget: 2, kind: Kind::Hard };
    let group = Group { cores: vec![0], reservation, quantum: 2, skid: 0 };
    let config = Config { cores: 1, groups: vec![group], guaranteed: 4, reclaim_step: 1, sharing: Sharing::Off };
    let mut random = Random::new(93);
    let system = System::new(&config, 20, 0, 0, &mut random);
    let mut machine = Machine { system, rivals: Vec::new(), request: 1, lines: vec![lines], refresh: None };
    let mut jobs = arrivals(&set, 0, 0, 600, |_| 0);
    machine.simulate(&mut jobs, 600, &mut random);
    let regulator = Regulator::new(Ps(20), 2, Ps(5)).unwrap().counting(2, 0).unwrap();
    assert_eq!(longest(&jobs, 0, 600), 400);
    assert_eq!(bound(&set, 0, &[Interference::Regulator(regulator)]), Some(260 + 11 * 15));
}

/// Tries sets until enough of them have a bound, of which there is none where a core is overloaded.
fn try_many(random: &mut Random, draw: Draw, sets: u64) -> Seen {
    let (mut seen, mut round) = (Seen::default(), 0);
    while seen.sets < sets {
        try_one(random, draw, round, if draw == Draw::Robbed { 8000 } else { 600 }, &mut seen);
        round += 1;
    }
    seen
}
