//! Regulated memory bandwidth: the state machine of [`memtint_guard`], which counts every line that cores fetch and
//! write back, and stops cores or tasks.
//!
//! The unit of regulation is a *subject*: a core, which stands still while it is throttled, or a task, which does not
//! run on any core meanwhile, so that other tasks can. A counter of a subject is armed with each grant. When the grant
//! is consumed, an interrupt follows after the skid, with the next reference that the core begins; lines that the
//! subject sends in between are counted, and deducted from the next grant. Each interrupt, of a counter, of the
//! period's timer or of another core, takes the core the same time.
//!
//! The handlers cause no memory traffic, and lines that lock tasks write back are not counted.

use super::server::Choice;
use super::{END_OF_TIME, Machine};
use crate::task::State;
use memtint_dram::CommandSink;
use memtint_guard::{Action, Config, Event, Guard, Prediction, ReleaseReason, Use};
use memtint_map::Palette;
use memtint_units::{IndexSet, PhysAddr, Picoseconds};

/// A core or a task with a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A core: whatever it runs.
    Core(usize),
    /// A task, by its index: wherever it runs.
    Task(usize),
}

/// Events that are counted together, with a budget for each group of subjects.
#[derive(Clone, Debug)]
pub struct CounterConfig {
    /// The groups; core i of it is the i-th subject.
    pub guard: Config,
    /// Events that a line read from memory counts as.
    pub read_events: u32,
    /// Events that a line written back counts as.
    pub write_events: u32,
    /// Bank classes whose lines are counted; all without.
    pub banks: Option<IndexSet>,
}

/// How bandwidth is regulated.
#[derive(Clone, Debug)]
pub struct RegulationConfig {
    /// Between two budgets.
    pub period: Picoseconds,
    /// From the event that consumes a grant to the interrupt.
    pub skid: Picoseconds,
    /// Time of an interrupt on its core.
    pub overhead: Picoseconds,
    /// How the use of a period is predicted, for groups that donate.
    pub prediction: Prediction,
    /// The cores and tasks with a budget, each once.
    pub subjects: Vec<Subject>,
    /// The counters. A subject stands still as soon as one of them throttles it.
    pub counters: Vec<CounterConfig>,
    /// The palette of the bank classes.
    pub palette: Palette,
    /// Whether to record the use of each subject in each period.
    pub history: bool,
}

/// Counts of a subject in a period, in events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeriodUse {
    /// Number of the period, from 1.
    pub period: u32,
    /// When it began.
    pub began: Picoseconds,
    /// All events.
    pub events: u64,
    /// Of these, in best-effort sharing.
    pub shared: u64,
    /// Events granted and donated.
    pub used: Use,
}

/// Counts of a subject, in events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeterCounts {
    /// All events.
    pub events: u64,
    /// Of these, in best-effort sharing, while nothing was regulated.
    pub shared: u64,
    /// Periods that have begun.
    pub periods: u64,
    /// Granted of the group's budget.
    pub reserved: u64,
    /// Donated for the group.
    pub donated: u64,
    /// Granted of the group's donation, taken back.
    pub returned: u64,
    /// Granted of the donations of others.
    pub reclaimed: u64,
    /// Periods in which donated events of the group's budget were missing when this subject was the first to need them.
    pub underruns: u64,
    /// Those events.
    pub shortfall: u64,
    /// Periods in which it was throttled.
    pub throttled: u64,
    /// Most events in a period, but for those of sharing.
    pub most_in_a_period: u64,
    /// Most events beyond a grant, until the interrupt.
    pub longest_skid: u64,
}

/// Results of a subject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubjectCounts {
    /// Time in which it was throttled.
    pub throttled_ps: u64,
    /// Of each counter.
    pub meters: Vec<MeterCounts>,
    /// Of each counter, all periods that it had, where they were to be kept.
    pub history: Vec<Vec<PeriodUse>>,
}

/// Results of regulation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegulationCounts {
    /// Periods that have begun.
    pub periods: u64,
    /// Interrupts.
    pub interrupts: u64,
    /// Their time on all cores.
    pub overhead_ps: u64,
    /// Of each counter, most events of all subjects in a period, but for those of sharing.
    pub most_in_a_period: Vec<u64>,
    /// Of each subject, in order.
    pub subjects: Vec<SubjectCounts>,
}

/// A subject's counter.
#[derive(Clone, Debug, Default)]
struct Meter {
    /// Number of the grant.
    grant: u32,
    /// It interrupts when `left` is used.
    armed: bool,
    /// Of the grant; below zero once it is consumed.
    left: i64,
    /// When the interrupt comes.
    overflow: Option<Picoseconds>,
    throttled: bool,
    sharing: bool,
    /// Events of this period, but for those of sharing.
    in_period: u64,
    /// The guard's period, when that began, and its account of that.
    period: u32,
    began: Picoseconds,
    used: Use,
    counts: MeterCounts,
    /// Events, and those of sharing, when that period began.
    before: (u64, u64),
    /// The periods before, where they are to be kept.
    history: Option<Vec<PeriodUse>>,
}

struct Counter {
    guard: Guard<Prediction>,
    config: CounterConfig,
    meters: Vec<Meter>,
    /// Events of all in this period, but for those of sharing; and most of a period before.
    in_period: u64,
    most_in_a_period: u64,
}

/// The regulators.
pub(super) struct Regulation {
    period: Picoseconds,
    skid: Picoseconds,
    overhead: Picoseconds,
    palette: Palette,
    subjects: Vec<Subject>,
    /// The subject that each core, each task is.
    of_core: Vec<Option<usize>>,
    of_task: Vec<Option<usize>>,
    counters: Vec<Counter>,
    /// Number of the latest period, and when it began.
    number: u32,
    began: Picoseconds,
    busy: Vec<bool>,
    throttled_since: Vec<Option<Picoseconds>>,
    throttled_ps: Vec<u64>,
    /// Cores that another one has called.
    called: Vec<bool>,
    interrupts: u64,
    overhead_ps: u64,
    actions: Vec<Action>,
    /// Subjects with a decision that their cores have not yet received.
    decided: Vec<usize>,
}

impl Regulation {
    pub(super) fn new(config: RegulationConfig, cores: usize, tasks: usize) -> Result<Regulation, crate::SimError> {
        let place = |subject| config.subjects.iter().position(|&other| other == subject);
        let count = config.subjects.len();
        let counter = |counter: CounterConfig| {
            let guard = Guard::new(counter.guard.clone(), |_| config.prediction)?;
            let history = config.history.then(Vec::new);
            let meters = vec![Meter { history, ..Meter::default() }; count];
            Ok(Counter { guard, config: counter, meters, in_period: 0, most_in_a_period: 0 })
        };
        Ok(Regulation {
            of_core: (0..cores).map(|core| place(Subject::Core(core))).collect(),
            of_task: (0..tasks).map(|task| place(Subject::Task(task))).collect(),
            counters: config.counters.into_iter().map(counter).collect::<Result<_, crate::SimError>>()?,
            subjects: config.subjects,
            period: config.period,
            skid: config.skid,
            overhead: config.overhead,
            palette: config.palette,
            number: 1,
            began: Picoseconds(0),
            busy: vec![false; count],
            throttled_since: vec![None; count],
            throttled_ps: vec![0; count],
            called: vec![false; cores],
            interrupts: 0,
            overhead_ps: 0,
            actions: Vec::new(),
            decided: Vec::new(),
        })
    }

    fn is_throttled(&self, subject: usize) -> bool {
        self.counters.iter().any(|counter| counter.meters[subject].throttled)
    }

    /// Counts a line; the earliest interrupt that comes of it.
    fn count(&mut self, subject: usize, class: Option<u32>, write: bool, now: Picoseconds) -> Option<Picoseconds> {
        let mut interrupt = None;
        for counter in &mut self.counters {
            let config = &counter.config;
            let events = if write { config.write_events } else { config.read_events };
            let is_other = |banks: &IndexSet| class.is_none_or(|class| !banks.contains(class));
            if events == 0 || config.banks.as_ref().is_some_and(is_other) {
                continue;
            }
            let meter = &mut counter.meters[subject];
            meter.counts.events += u64::from(events);
            if meter.sharing {
                meter.counts.shared += u64::from(events);
                continue;
            }
            meter.in_period += u64::from(events);
            counter.in_period += u64::from(events);
            if meter.armed {
                meter.left -= i64::from(events);
                if meter.left <= 0 && meter.overflow.is_none() {
                    meter.overflow = Some(now + self.skid);
                }
                interrupt = interrupt.into_iter().chain(meter.overflow).min();
            }
        }
        interrupt
    }

    fn next_period(&mut self, number: u32, began: Picoseconds) {
        (self.number, self.began) = (number, began);
        for counter in &mut self.counters {
            counter.most_in_a_period = counter.most_in_a_period.max(counter.in_period);
            counter.in_period = 0;
        }
    }

    /// Passes an event to a counter's guard, and carries out its actions. Affected cores are notified.
    fn tell(&mut self, index: usize, event: Event, now: Picoseconds) {
        let mut actions = std::mem::take(&mut self.actions);
        let counter = &mut self.counters[index];
        counter.guard.on(event, &mut actions);
        for (subject, meter) in counter.meters.iter_mut().enumerate() {
            meter.follow(counter.guard.core(subject).period(), self.began, counter.guard.used(subject));
        }
        for action in actions.drain(..) {
            let subject = match action {
                Action::NextPeriod { period } => {
                    self.next_period(period, now);
                    self.decided.extend(0..self.subjects.len());
                    continue;
                }
                Action::Grant { core, .. } | Action::Throttle { core, .. } | Action::Release { core, .. } => core,
            };
            self.counters[index].meters[subject].obey(action, now);
            self.decided.push(subject);
            let is_throttled = self.is_throttled(subject);
            match (is_throttled, self.throttled_since[subject]) {
                (true, None) => self.throttled_since[subject] = Some(now),
                (false, Some(since)) => {
                    self.throttled_ps[subject] += now.saturating_sub(since).0;
                    self.throttled_since[subject] = None;
                }
                _ => {}
            }
        }
        self.actions = actions;
    }

    /// The period that a subject has to begin, if it has not.
    fn is_late(&self, index: usize, subject: usize) -> bool {
        self.counters[index].guard.core(subject).period() != self.number
    }

    fn begin_period(&mut self, index: usize, subject: usize, now: Picoseconds) {
        let meter = &self.counters[index].meters[subject];
        let unused = if meter.armed { meter.left.max(0) as u32 } else { 0 };
        self.tell(index, Event::PeriodStart { core: subject, period: self.number, unused }, now);
    }

    /// A subject has something to do, or nothing any more.
    fn note_demand(&mut self, subject: usize, busy: bool, now: Picoseconds) {
        if std::mem::replace(&mut self.busy[subject], busy) == busy {
            return;
        }
        for index in 0..self.counters.len() {
            if busy {
                self.tell(index, Event::Busy { core: subject }, now);
                continue;
            }
            let meter = &mut self.counters[index].meters[subject];
            let unused = if meter.armed { meter.left.max(0) as u32 } else { 0 };
            if unused > 0 {
                (meter.armed, meter.left) = (false, 0);
            }
            self.tell(index, Event::Idle { core: subject, unused }, now);
        }
    }
}

impl Meter {
    /// Keeps the account of a period when another begins.
    fn follow(&mut self, period: u32, began: Picoseconds, used: Use) {
        if period != self.period {
            self.close();
            (self.period, self.began, self.in_period) = (period, began, 0);
            self.before = (self.counts.events, self.counts.shared);
            self.counts.periods += 1;
        }
        self.used = used;
    }

    fn close(&mut self) {
        let (used, counts) = (self.used, &mut self.counts);
        counts.reserved += u64::from(used.reserved);
        counts.donated += u64::from(used.donated);
        counts.returned += u64::from(used.returned);
        counts.reclaimed += u64::from(used.reclaimed);
        counts.shortfall += u64::from(used.shortfall);
        counts.underruns += u64::from(used.shortfall > 0);
        counts.throttled += u64::from(used.throttled);
        counts.most_in_a_period = counts.most_in_a_period.max(self.in_period);
        if let Some(history) = &mut self.history
            && self.period > 0
        {
            let (events, shared) = (counts.events - self.before.0, counts.shared - self.before.1);
            history.push(PeriodUse { period: self.period, began: self.began, events, shared, used });
        }
    }

    fn obey(&mut self, action: Action, now: Picoseconds) {
        match action {
            Action::Grant { grant, events, .. } => {
                let over = self.left.min(0);
                self.counts.longest_skid = self.counts.longest_skid.max(over.unsigned_abs());
                (self.grant, self.armed, self.left) = (grant, true, over + i64::from(events));
                (self.throttled, self.sharing) = (false, false);
                self.overflow = (self.left <= 0).then_some(now);
            }
            Action::Throttle { .. } => {
                self.counts.longest_skid = self.counts.longest_skid.max(self.left.min(0).unsigned_abs());
                (self.armed, self.throttled, self.sharing, self.overflow) = (false, true, false, None);
            }
            Action::Release { reason, .. } => {
                (self.armed, self.throttled, self.overflow) = (false, false, None);
                self.sharing = reason == ReleaseReason::Sharing;
            }
            Action::NextPeriod { .. } => {}
        }
    }
}

impl<S: CommandSink> Machine<S> {
    /// Counts a line that a core fetches or writes back, for the core and for the task.
    #[inline]
    pub(super) fn count_line(&mut self, at: usize, task: usize, line: u64, write: bool, slot: u64) {
        let Some(regulation) = &mut self.regulation else { return };
        let core = &mut self.cores[at];
        let now = core.time_of(slot);
        let subjects = [regulation.of_core[at], regulation.of_task[task]];
        let class = regulation.palette.bank_class(PhysAddr(line));
        let interrupts = subjects.into_iter().flatten();
        let interrupts = interrupts.filter_map(|subject| regulation.count(subject, class, write, now));
        if let Some(interrupt) = interrupts.min() {
            core.look_at = core.look_at.min(core.slot_of(interrupt));
        }
    }

    /// The subjects whose interrupts come on a core: itself, the task that it runs; and for the timer, tasks that may run here
    /// and on no core before it.
    fn subjects_on(&self, regulation: &Regulation, at: usize) -> Vec<(usize, bool)> {
        let core = &self.cores[at];
        let of_core = regulation.of_core[at].map(|subject| (subject, true));
        let of_tasks = core.tasks.iter().filter_map(|&task| {
            let subject = regulation.of_task[task]?;
            let (runs, home) = (core.task == Some(task), self.tasks[task].cores[0] == at);
            (runs || home).then_some((subject, runs))
        });
        of_core.into_iter().chain(of_tasks).collect()
    }

    /// Serves the interrupts that are due on a core: consumed grants, the beginning of a period, calls of others.
    pub(super) fn serve_interrupts(&mut self, at: usize) {
        let Some(mut regulation) = self.regulation.take() else { return };
        let now = self.cores[at].time_of(self.cores[at].slot);
        let mut interrupted = std::mem::take(&mut regulation.called[at]);
        while regulation.began + regulation.period <= now {
            let (number, began) = (regulation.number.wrapping_add(1), regulation.began + regulation.period);
            regulation.next_period(number, began);
        }
        for (subject, runs) in self.subjects_on(&regulation, at) {
            for index in 0..regulation.counters.len() {
                if regulation.began <= now && regulation.is_late(index, subject) {
                    interrupted = true;
                    regulation.begin_period(index, subject, now);
                }
                // Lines beyond a grant may use up the next grants, too.
                while runs && regulation.counters[index].meters[subject].overflow.is_some_and(|due| due <= now) {
                    interrupted = true;
                    let meter = &mut regulation.counters[index].meters[subject];
                    meter.overflow = None;
                    let grant = meter.grant;
                    regulation.tell(index, Event::Consumed { core: subject, grant }, now);
                }
            }
        }
        self.regulation = Some(regulation);
        self.call_decided(at, now);
        if interrupted {
            self.take_interrupt(at);
        }
    }

    fn take_interrupt(&mut self, at: usize) {
        let Some(regulation) = &mut self.regulation else { return };
        let core = &mut self.cores[at];
        regulation.interrupts += 1;
        regulation.overhead_ps += regulation.overhead.0;
        if regulation.overhead.0 > 0 {
            core.slot = core.slot_of(core.time_of(core.slot) + regulation.overhead);
            core.wake = core.wake.max(core.slot);
        }
    }

    /// Interrupts the other cores that something has been decided about.
    fn call_decided(&mut self, at: usize, now: Picoseconds) {
        let Some(regulation) = &mut self.regulation else { return };
        let mut cores: Vec<usize> = Vec::new();
        for subject in regulation.decided.drain(..) {
            match regulation.subjects[subject] {
                Subject::Core(core) => cores.push(core),
                // Where it runs, or where it may.
                Subject::Task(task) => match self.tasks[task].running_on {
                    Some(core) => cores.push(core),
                    None => cores.extend(&self.tasks[task].cores),
                },
            }
        }
        cores.sort_unstable();
        cores.dedup();
        for &core in cores.iter().filter(|&&core| core != at) {
            regulation.called[core] = true;
        }
        for core in cores.into_iter().filter(|&core| core != at) {
            self.call(core, now);
        }
    }

    /// The choice of a core under its budgets, given the choice without them: nothing while it is throttled.
    pub(super) fn regulated(&mut self, at: usize, choice: Choice) -> Choice {
        let Some(regulation) = &mut self.regulation else { return choice };
        let Some(subject) = regulation.of_core[at] else { return choice };
        let core = &self.cores[at];
        let now = core.time_of(core.slot);
        regulation.note_demand(subject, choice.task.is_some(), now);
        let is_throttled = regulation.is_throttled(subject);
        self.call_decided(at, now);
        if is_throttled { Choice::default() } else { choice }
    }

    /// Reports to the guard which tasks of a core have work.
    pub(super) fn note_demand_of_tasks(&mut self, at: usize) {
        let Some(regulation) = &mut self.regulation else { return };
        let core = &self.cores[at];
        let now = core.time_of(core.slot);
        for &task in &core.tasks {
            if let Some(subject) = regulation.of_task[task] {
                regulation.note_demand(subject, self.tasks[task].state == State::Ready, now);
            }
        }
        self.call_decided(at, now);
    }

    /// Whether a task may not run now, because it has used its budget.
    pub(super) fn is_throttled(&self, task: usize) -> bool {
        let subject = |regulation: &Regulation| Some(regulation.is_throttled(regulation.of_task[task]?));
        self.regulation.as_deref().and_then(subject).unwrap_or(false)
    }

    /// Whether a core stands still, because it has used its budget.
    pub(super) fn is_core_throttled(&self, at: usize) -> bool {
        let subject = |regulation: &Regulation| Some(regulation.is_throttled(regulation.of_core[at]?));
        self.regulation.as_deref().and_then(subject).unwrap_or(false)
    }

    /// When an interrupt of a core is next due.
    pub(super) fn next_interrupt(&self, at: usize) -> Option<Picoseconds> {
        let regulation = self.regulation.as_deref()?;
        let of_subject = |(subject, runs): (usize, bool)| {
            let late = (0..regulation.counters.len()).any(|index| regulation.is_late(index, subject));
            let period = regulation.began + if late { Picoseconds(0) } else { regulation.period };
            let overflows = regulation.counters.iter().filter_map(move |counter| counter.meters[subject].overflow);
            overflows.filter(|_| runs).chain([period]).min().unwrap_or(END_OF_TIME)
        };
        self.subjects_on(regulation, at).into_iter().map(of_subject).min()
    }

    /// Results of regulation so far.
    pub(super) fn regulation_counts(&self) -> Option<RegulationCounts> {
        let regulation = self.regulation.as_deref()?;
        let subject = |subject: usize| {
            let since = regulation.throttled_since[subject].unwrap_or(self.now);
            let meter = |counter: &Counter| {
                let mut meter = counter.meters[subject].clone();
                meter.close();
                (meter.counts, meter.history.unwrap_or_default())
            };
            let (meters, history) = regulation.counters.iter().map(meter).unzip();
            let throttled_ps = regulation.throttled_ps[subject] + self.now.saturating_sub(since).0;
            SubjectCounts { throttled_ps, meters, history }
        };
        let most = |counter: &Counter| counter.most_in_a_period.max(counter.in_period);
        Some(RegulationCounts {
            periods: u64::from(regulation.number),
            interrupts: regulation.interrupts,
            overhead_ps: regulation.overhead_ps,
            most_in_a_period: regulation.counters.iter().map(most).collect(),
            subjects: (0..regulation.subjects.len()).map(subject).collect(),
        })
    }
}
