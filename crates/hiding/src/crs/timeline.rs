//! Timelines: the activity of every core and rank, as a witness, and the hidden part of the refresh.

use crate::crs::model::{Kind, Server, System};
use crate::crs::supply::{Plain, PlainRefresh};
use memtint_sched::parts::WINDOW_MAX;
use memtint_sched::{Policy, TaskIndex};
use memtint_units::Picoseconds;
use num_bigint::BigUint;
use num_integer::Integer;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// An activity of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The refresh lock task of a group.
    Lock {
        /// The group, from 0.
        group: usize,
    },
    /// The refresh unlock task of a group.
    Unlock {
        /// The group, from 0.
        group: usize,
    },
    /// A job of a task.
    Job {
        /// The server of the core, from 0.
        server: usize,
        /// The task of the server, from 0.
        task: TaskIndex,
        /// The job, from 0 for the one that arrives at the phase.
        job: u64,
    },
    /// An idle-consuming server without work.
    Held {
        /// The server of the core, from 0.
        server: usize,
    },
}

/// A stretch of time on a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineRun {
    /// The core, from 0.
    pub core: usize,
    /// Its activity.
    pub what: What,
    /// When it begins.
    pub start: Picoseconds,
    /// When it ends, excluded.
    pub end: Picoseconds,
}

/// The refresh of all ranks of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// The group, from 0.
    pub group: usize,
    /// When it begins.
    pub start: Picoseconds,
    /// When it ends, excluded; may be after the window of the timeline.
    pub end: Picoseconds,
}

/// How much of the refresh of a group costs a core processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hiding {
    /// Time in which nothing runs although a server of the locked group has budget and work.
    pub unhidden: Picoseconds,
    /// The rest of the bursts: others run, or no server is delayed.
    pub hidden: Picoseconds,
}

/// The runs on all cores, and the refreshes, from time 0 to the end of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// End of the window, excluded.
    pub window: Picoseconds,
    /// The hyperperiod of tasks, servers and refresh in picoseconds, exact.
    pub hyperperiod: BigUint,
    /// Whether the window holds one hyperperiod (no phases) or the last phase and two hyperperiods; else it was cut.
    pub whole: bool,
    /// All runs, by core, in order.
    pub runs: Vec<TimelineRun>,
    /// All refreshes that begin in the window, by group, in order.
    pub bursts: Vec<Burst>,
    /// For each core, for each group, in their order.
    pub hiding: Vec<Vec<Hiding>>,
}

/// A job of a timeline.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) core: usize,
    pub(super) server: usize,
    pub(super) task: TaskIndex,
    pub(super) job: u64,
    pub(super) arrival: u64,
    pub(super) deadline: u64,
    pub(super) completion: Option<u64>,
}

/// Makes the timeline in which every job arrives on time, is released at once and takes its whole WCET. A job of a
/// copied task stays with the instance of the previous job, unless the lock of that instance's group overlaps it.
///
/// The window is a hyperperiod, or the last phase and two hyperperiods when there are phases; it is cut short when it would
/// hold more than about `events_max` arrivals, replenishments and refreshes. Jobs may be late in it.
#[must_use]
pub fn timeline(system: &System, events_max: u64) -> Timeline {
    record(system, events_max).0
}

pub(super) fn record(system: &System, events_max: u64) -> (Timeline, Vec<Record>) {
    let (window, hyperperiod, whole) = extent(system, events_max);
    let mut timeline = Timeline {
        window: Picoseconds(window),
        hyperperiod,
        whole,
        runs: Vec::new(),
        bursts: Vec::new(),
        hiding: Vec::new(),
    };
    let mut records = Vec::new();
    for core in 0..system.cores().len() {
        let mut player = Player::new(system, core, window);
        player.play();
        timeline.runs.extend(player.runs);
        timeline.hiding.push(player.hiding);
        records.extend(player.records);
    }
    let refresh = system.refresh();
    for (group, own) in refresh.groups.iter().enumerate() {
        let mut start = own.phase.0 + refresh.lock.0;
        while start < window {
            timeline.bursts.push(Burst { group, start: Picoseconds(start), end: Picoseconds(start + own.burst.0) });
            start += refresh.retention.0;
        }
    }
    (timeline, records)
}

fn extent(system: &System, events_max: u64) -> (u64, BigUint, bool) {
    let refresh = system.refresh();
    let servers = || system.cores().iter().flat_map(|core| &core.servers);
    let tasks = || servers().flat_map(|server| server.tasks.tasks());
    let hyperperiod = servers()
        .map(|server| server.period.0)
        .chain(tasks().map(|task| task.period().0))
        .fold(BigUint::from(refresh.retention.0), |multiple, period| multiple.lcm(&BigUint::from(period)));
    let phases = tasks().map(|task| task.phase().0).chain(refresh.groups.iter().map(|group| group.phase.0));
    let last = phases.max().unwrap_or(0);
    let times = if last == 0 { 1u8 } else { 2 };
    let events = |window: u64| -> u128 {
        let every = |period: u64| u128::from(window.div_ceil(period));
        let refreshes = every(refresh.retention.0) * 4 * (refresh.groups.len() * system.cores().len()) as u128;
        refreshes
            + servers().map(|s| every(s.period.0)).sum::<u128>()
            + tasks().map(|t| every(t.period().0)).sum::<u128>()
    };
    match u64::try_from(&hyperperiod * times + last) {
        Ok(window) if window <= WINDOW_MAX && events(window) <= u128::from(events_max) => (window, hyperperiod, true),
        _ => {
            let (mut fits, mut exceeds) = (1, WINDOW_MAX);
            while exceeds - fits > 1 {
                let middle = fits + (exceeds - fits) / 2;
                if events(middle) <= u128::from(events_max) { fits = middle } else { exceeds = middle }
            }
            (fits, hyperperiod, false)
        }
    }
}

/// The state of a group at a time, and until when.
#[derive(Clone, Copy)]
struct Now {
    locked: bool,
    /// Lock or unlock task.
    task: Option<bool>,
    until: u64,
}

/// Where a time is in the cycle of a group, counted from the beginning of its locked window.
fn now_of(since: u64, lock: u64, burst: u64, unlock: u64, retention: u64) -> Now {
    let left = |end: u64| end - since;
    if since < lock {
        Now { locked: true, task: Some(true), until: left(lock) }
    } else if since < lock + burst {
        Now { locked: true, task: None, until: left(lock + burst) }
    } else if since < lock + burst + unlock {
        Now { locked: true, task: Some(false), until: left(lock + burst + unlock) }
    } else {
        Now { locked: false, task: None, until: left(retention) }
    }
}

struct ServerState {
    budget: u64,
    /// Jobs that wait: urgency, task, job; jobs of one task in order.
    ready: BTreeSet<(u64, TaskIndex, u64)>,
    ranks: Vec<u64>,
}

struct Player<'a> {
    system: &'a System,
    core: usize,
    window: u64,
    states: Vec<ServerState>,
    /// Time, server, task and job; a copied task arrives as its first instance.
    arrivals: BinaryHeap<Reverse<(u64, usize, TaskIndex, u64)>>,
    /// Which instance had the latest job of each copied task of the system, where it is one of this core.
    latest: Vec<(usize, TaskIndex)>,
    /// Left of each task's jobs that have begun, by server and task.
    left: Vec<Vec<Option<u64>>>,
    /// Index of the record of each task's next completion.
    open: Vec<Vec<std::collections::VecDeque<usize>>>,
    runs: Vec<TimelineRun>,
    hiding: Vec<Hiding>,
    records: Vec<Record>,
}

impl<'a> Player<'a> {
    fn new(system: &'a System, core: usize, window: u64) -> Player<'a> {
        let servers = &system.cores()[core].servers;
        let state = |server: &Server| {
            let mut ranks = vec![0; server.tasks.tasks().len()];
            if let Policy::FixedPriority(priorities, _) = &server.policy {
                for (rank, &task) in (0..).zip(priorities.order()) {
                    ranks[task.index()] = rank;
                }
            }
            ServerState { budget: 0, ready: BTreeSet::new(), ranks }
        };
        let tasks = |server: usize| servers[server].tasks.indexed();
        let first = (0..servers.len()).flat_map(|s| tasks(s).map(move |(t, task)| Reverse((task.phase().0, s, t, 0))));
        let second =
            |at: &(usize, TaskIndex)| system.copied().iter().any(|one| one.core == core && one.instances[1] == *at);
        Player {
            system,
            core,
            window,
            states: servers.iter().map(state).collect(),
            arrivals: first.filter(|&Reverse((_, server, task, _))| !second(&(server, task))).collect(),
            latest: system.copied().iter().map(|one| one.instances[0]).collect(),
            left: servers.iter().map(|server| vec![None; server.tasks.tasks().len()]).collect(),
            open: servers.iter().map(|server| vec![Default::default(); server.tasks.tasks().len()]).collect(),
            runs: Vec::new(),
            hiding: vec![Hiding::default(); system.refresh().groups.len()],
            records: Vec::new(),
        }
    }

    fn servers(&self) -> &'a [Server] {
        &self.system.cores()[self.core].servers
    }

    fn play(&mut self) {
        let mut now = 0;
        while now < self.window {
            self.admit(now);
            let groups = self.groups(now);
            let next = self.next(now, &groups);
            now = self.step(now, next, &groups);
        }
    }

    fn admit(&mut self, now: u64) {
        for (state, server) in self.states.iter_mut().zip(&self.system.cores()[self.core].servers) {
            if now.is_multiple_of(server.period.0) {
                state.budget = server.budget.0;
            }
        }
        while let Some(&Reverse((at, server, task, job))) = self.arrivals.peek() {
            if at > now {
                return;
            }
            self.arrivals.pop();
            let own = &self.servers()[server].tasks[task];
            let deadline = at + own.deadline().0;
            self.arrivals.push(Reverse((at + own.period().0, server, task, job + 1)));
            let (server, task) = self.instance((server, task), at, deadline);
            let urgency = match self.servers()[server].policy {
                Policy::Edf | Policy::NonPreemptiveEdf => deadline,
                Policy::FixedPriority(..) => self.states[server].ranks[task.index()],
            };
            self.states[server].ready.insert((urgency, task, job));
            self.open[server][task.index()].push_back(self.records.len());
            self.records.push(Record { core: self.core, server, task, job, arrival: at, deadline, completion: None });
        }
    }

    /// The instance of a job.
    fn instance(&mut self, first: (usize, TaskIndex), from: u64, to: u64) -> (usize, TaskIndex) {
        let copied = self.system.copied();
        let Some(place) = copied.iter().position(|one| one.core == self.core && one.instances[0] == first) else {
            return first;
        };
        let latest = self.latest[place];
        if self.is_locked(self.servers()[latest.0].group, from, to) {
            self.latest[place] = copied[place].other(self.core, latest).expect("one of its instances");
        }
        self.latest[place]
    }

    /// Whether a group is locked at any time from the first to the second.
    fn is_locked(&self, group: usize, from: u64, to: u64) -> bool {
        let refresh = self.system.refresh();
        let (phase, locked) = (refresh.groups[group].phase.0, refresh.locked(group).0);
        // The first lock that ends after the time.
        let before = (from + refresh.retention.0).saturating_sub(phase + locked) / refresh.retention.0;
        phase + before * refresh.retention.0 < to
    }

    fn groups(&self, now: u64) -> Vec<Now> {
        let refresh = self.system.refresh();
        let one = |group: &crate::crs::model::RankGroup| match now.checked_sub(group.phase.0) {
            None => Now { locked: false, task: None, until: group.phase.0 - now },
            Some(since) => {
                let since = since % refresh.retention.0;
                now_of(since, refresh.lock.0, group.burst.0, refresh.unlock.0, refresh.retention.0)
            }
        };
        refresh.groups.iter().map(one).collect()
    }

    fn next(&self, now: u64, groups: &[Now]) -> u64 {
        let boundaries = groups.iter().map(|group| now + group.until);
        let replenishments = self.servers().iter().map(|server| (now / server.period.0 + 1) * server.period.0);
        let arrival = self.arrivals.peek().map(|&Reverse((at, ..))| at);
        boundaries.chain(replenishments).chain(arrival).min().unwrap_or(self.window).min(self.window)
    }

    fn step(&mut self, now: u64, next: u64, groups: &[Now]) -> u64 {
        for (index, group) in groups.iter().enumerate() {
            if group.locked && group.task.is_none() {
                self.hiding[index].hidden.0 += next - now;
            }
        }
        if let Some((group, lock)) = groups.iter().enumerate().find_map(|(index, group)| Some((index, group.task?))) {
            let what = if lock { What::Lock { group } } else { What::Unlock { group } };
            self.note(what, now, next);
            return next;
        }
        let open = |server: &usize| self.states[*server].budget > 0 && !groups[self.servers()[*server].group].locked;
        let wants = |server: &usize| {
            !self.states[*server].ready.is_empty() || self.servers()[*server].kind == Kind::IdleConsuming
        };
        match (0..self.states.len()).filter(open).find(wants) {
            Some(server) => {
                let end = self.serve(server, now, next);
                // Time counted as hidden beyond the end is counted again from there.
                for (hiding, group) in self.hiding.iter_mut().zip(groups) {
                    if group.locked && group.task.is_none() {
                        hiding.hidden.0 -= next - end;
                    }
                }
                end
            }
            None => {
                self.idle(now, next, groups);
                next
            }
        }
    }

    fn idle(&mut self, now: u64, next: u64, groups: &[Now]) {
        for (index, group) in groups.iter().enumerate() {
            let held_up = |(server, state): (&Server, &ServerState)| {
                server.group == index && state.budget > 0 && !state.ready.is_empty()
            };
            if group.locked && self.servers().iter().zip(&self.states).any(held_up) {
                self.hiding[index].unhidden.0 += next - now;
                self.hiding[index].hidden.0 -= next - now;
            }
        }
    }

    fn serve(&mut self, server: usize, now: u64, next: u64) -> u64 {
        let until = next.min(now + self.states[server].budget);
        let Some(&(urgency, task, job)) = self.states[server].ready.first() else {
            self.states[server].budget -= until - now;
            self.note(What::Held { server }, now, until);
            return until;
        };
        let wcet = self.servers()[server].tasks[task].wcet().0;
        let left = self.left[server][task.index()].unwrap_or(wcet);
        let end = until.min(now + left);
        self.states[server].budget -= end - now;
        self.note(What::Job { server, task, job }, now, end);
        if end == now + left {
            self.states[server].ready.remove(&(urgency, task, job));
            self.left[server][task.index()] = None;
            let record = self.open[server][task.index()].pop_front().expect("a job that was admitted");
            self.records[record].completion = Some(end);
        } else {
            self.left[server][task.index()] = Some(now + left - end);
        }
        end
    }

    fn note(&mut self, what: What, start: u64, end: u64) {
        match self.runs.last_mut() {
            Some(last) if last.what == what && last.end.0 == start => last.end.0 = end,
            last => {
                debug_assert!(start < end, "a run from {start} to {end}");
                debug_assert!(
                    last.is_none_or(|last| last.end.0 <= start),
                    "a run from {start} on, before the last has ended"
                );
                let (start, end) = (Picoseconds(start), Picoseconds(end));
                self.runs.push(TimelineRun { core: self.core, what, start, end });
            }
        }
    }
}

/// Gives the hidden refresh of a core whose servers always have work, which depends only on the servers' periods,
/// budgets and phases, over the least common multiple of the server periods and the retention time, which is returned
/// too. `None` when that holds more than `bursts_max` refreshes of a group.
///
/// This is the count of Algorithm 8 with its mistakes corrected: refreshes have their phases, server periods include
/// their beginning, and only the part of a burst counts that the other servers do not cover (instead of all or
/// nothing).
///
/// # Panics
///
/// When the system has no such core.
#[must_use]
pub fn saturated_hiding(system: &System, core: usize, bursts_max: u64) -> Option<(Vec<Hiding>, Picoseconds)> {
    let plain = |server: &Server| Plain {
        group: server.group,
        period: server.period.0,
        budget: server.budget.0,
        kind: server.kind,
    };
    let servers: Vec<Plain> = system.cores()[core].servers.iter().map(plain).collect();
    let refresh = PlainRefresh::of(system);
    let phases: Vec<u64> = system.refresh().groups.iter().map(|group| group.phase.0).collect();
    let saturated = Saturated::new(&refresh, &phases, &servers, bursts_max)?;
    let mut hiding = vec![Hiding::default(); phases.len()];
    for (group, own) in hiding.iter_mut().enumerate() {
        for index in 0..saturated.bursts {
            let unhidden = saturated.unhidden(group, index);
            own.unhidden.0 += unhidden;
            own.hidden.0 += refresh.bursts[group] - unhidden;
        }
    }
    Some((hiding, Picoseconds(saturated.bursts * refresh.retention)))
}

/// Servers that always have work.
pub(super) struct Saturated<'a> {
    refresh: &'a PlainRefresh,
    phases: &'a [u64],
    servers: &'a [Plain],
    /// Refreshes of each group until all repeats.
    pub(super) bursts: u64,
}

impl<'a> Saturated<'a> {
    pub(super) fn new(
        refresh: &'a PlainRefresh,
        phases: &'a [u64],
        servers: &'a [Plain],
        bursts_max: u64,
    ) -> Option<Saturated<'a>> {
        let mut bursts = 1u64;
        for server in servers {
            // lcm(n T, p) / T
            let span = u128::from(bursts) * u128::from(refresh.retention);
            let span = span.lcm(&u128::from(server.period));
            bursts = u64::try_from(span / u128::from(refresh.retention)).ok().filter(|&bursts| bursts <= bursts_max)?;
        }
        u64::try_from(u128::from(bursts + 1) * u128::from(refresh.retention)).ok().filter(|&end| end <= WINDOW_MAX)?;
        Some(Saturated { refresh, phases, servers, bursts })
    }

    /// Unused time of one burst although a server of the group has budget.
    ///
    /// The budgets at its beginning depend on the activity since the beginning of the lowest server's period, and, for
    /// each higher server, since the beginning of its period at that time.
    pub(super) fn unhidden(&self, group: usize, index: u64) -> u64 {
        let refresh = self.refresh;
        let from = self.phases[group] + index * refresh.retention;
        let (burst, end) = (from + refresh.lock, from + refresh.lock + refresh.bursts[group]);
        let mut now = self.servers.iter().rev().fold(burst, |start, server| start / server.period * server.period);
        let mut budgets: Vec<u64> = self.servers.iter().map(|server| server.budget).collect();
        let mut unhidden = 0;
        while now < end {
            let mut next = if now < burst { burst } else { end };
            let (mut busy, mut locked) = (false, 0u64);
            for (other, &phase) in self.phases.iter().enumerate() {
                let since = (now + refresh.retention - phase) % refresh.retention;
                let state = now_of(since, refresh.lock, refresh.bursts[other], refresh.unlock, refresh.retention);
                next = next.min(now + state.until);
                busy |= state.task.is_some();
                locked |= u64::from(state.locked) << (other & 63);
            }
            let (mut runs, mut held_up) = (None, false);
            for (server, budget) in self.servers.iter().zip(budgets.iter_mut()) {
                let into = now % server.period;
                if into == 0 {
                    *budget = server.budget;
                }
                next = next.min(now - into + server.period);
                if *budget > 0 && locked & (1 << (server.group & 63)) == 0 {
                    runs = runs.or(Some(budget));
                } else if *budget > 0 && server.group == group {
                    held_up = true;
                }
            }
            match runs {
                Some(budget) if !busy => {
                    next = next.min(now + *budget);
                    *budget -= next - now;
                }
                _ if !busy && held_up && now >= burst => unhidden += next - now,
                _ => {}
            }
            now = next;
        }
        unhidden
    }
}
