//! Does a controller that reorders, tick by tick, ever exceed the bounds for banks that cores share and for cores with
//! several requests, and are they reached?

use crate::common::{Job, Shape, arrivals, longest, random_set};
use memtint_sched::{
    BankTimings, Effort, HitCap, Interference, Neighbour, ParallelBanks, ParallelNeighbour, Preemption, Priorities,
    Regulator, RowDelays, RowTimings, SharedBanks, TaskIndex, TaskSet, TaskSpec, Unsupported, Verdict, WorstCase,
    WriteBuffer, fixed_priority_with, worst_response_with,
};
use memtint_units::Picoseconds as Ps;
use memtint_units::Random;
use std::collections::VecDeque;

/// What another core does: one task's jobs, or requests without end.
#[derive(Clone, Debug)]
struct Rival {
    /// Period, phase and lines; `None`: always as many requests as it may have.
    task: Option<(i64, i64, u64)>,
    at_once: u64,
    out: u64,
    /// Arrivals of its jobs with the requests that are not complete yet, and how many are not made yet.
    queue: VecDeque<(i64, u64)>,
    unmade: u64,
    slowest: i64,
}

impl Rival {
    fn new(task: Option<(i64, i64, u64)>, at_once: u64) -> Rival {
        Rival { task, at_once, out: 0, queue: VecDeque::new(), unmade: 0, slowest: 0 }
    }

    fn arrive(&mut self, now: i64) {
        if let Some((period, phase, lines)) = self.task
            && now >= phase
            && (now - phase) % period == 0
        {
            self.queue.push_back((now, lines));
            self.unmade += lines;
        }
    }

    fn wants(&self) -> bool {
        self.out < self.at_once && (self.task.is_none() || self.unmade > 0)
    }

    /// Makes a request of so many lines.
    fn make(&mut self, lines: u64) {
        self.out += 1;
        self.unmade = self.unmade.saturating_sub(lines);
    }

    fn complete(&mut self, now: i64, lines: u64) {
        self.out -= 1;
        if let Some(first) = self.queue.front_mut() {
            first.1 = first.1.saturating_sub(lines);
            if first.1 == 0 {
                self.slowest = self.slowest.max(now - first.0);
                self.queue.pop_front();
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Request {
    /// `None` is the core that is looked at.
    rival: Option<usize>,
    row: u64,
    overtaken: u64,
}

enum Grant {
    Start(Request, bool),
    Other(usize),
}

/// One bank, row hits first, with a cap; and a channel through which each service of the bank and each request to another
/// bank goes in turn.
struct Bank {
    hit: i64,
    conflict: i64,
    between: i64,
    cap: HitCap,
    open: u64,
    /// Hits served while an older one waited, since the row was opened.
    hits: u64,
    queue: Vec<Request>,
    serving: Option<(Request, i64)>,
    chosen: bool,
    channel: VecDeque<Grant>,
    busy: i64,
    on_channel: Option<usize>,
    sharers: Vec<Rival>,
    others: Vec<Rival>,
    rows: u64,
}

impl Bank {
    /// The one to serve next, and whether it is a hit.
    fn choose(&mut self) -> Option<(Request, bool)> {
        let open = self.open;
        let first = self.queue.iter().position(|request| request.row == open);
        let place = match (first, self.cap) {
            _ if self.queue.is_empty() => return None,
            (Some(0), _) | (None, _) => 0,
            (Some(at), HitCap::EachRequest(most)) if self.queue[..at].iter().all(|older| older.overtaken < most) => at,
            (Some(at), HitCap::EachRow(most)) if self.hits < most => at,
            _ => 0,
        };
        for older in &mut self.queue[..place] {
            older.overtaken += 1;
        }
        let request = self.queue.remove(place);
        let hit = request.row == open;
        self.hits = if !hit { 0 } else { self.hits + u64::from(place > 0) };
        self.open = request.row;
        Some((request, hit))
    }

    /// Goes on to `now`; tells whether the request of the core that is looked at is complete. `own` is made after those of all
    /// others.
    fn tick(&mut self, now: i64, random: &mut Random, own: impl FnOnce(bool) -> Option<u64>) -> bool {
        let mut complete = false;
        if let Some((request, _)) = self.serving.take_if(|(_, end)| *end == now) {
            self.chosen = false;
            match request.rival {
                Some(rival) => self.sharers[rival].complete(now, 1),
                None => complete = true,
            }
        }
        if self.busy == now
            && let Some(other) = self.on_channel.take()
        {
            self.others[other].complete(now, 1);
        }
        for rival in 0..self.sharers.len() {
            self.sharers[rival].arrive(now);
            if self.sharers[rival].wants() && random.within(0, 7) > 0 {
                self.sharers[rival].make(1);
                let row = if random.within(0, 1) > 0 { self.open.max(1) } else { random.within(1, self.rows) };
                self.queue.push(Request { rival: Some(rival), row, overtaken: 0 });
            }
        }
        for other in 0..self.others.len() {
            self.others[other].arrive(now);
            if self.others[other].wants() {
                self.others[other].make(1);
                self.channel.push_back(Grant::Other(other));
            }
        }
        if let Some(row) = own(complete) {
            self.queue.push(Request { rival: None, row, overtaken: 0 });
        }
        if !self.chosen
            && let Some((request, hit)) = self.choose()
        {
            self.chosen = true;
            self.channel.push_back(Grant::Start(request, hit));
        }
        while self.busy <= now {
            match self.channel.pop_front() {
                Some(Grant::Start(request, hit)) => {
                    self.serving = Some((request, now + if hit { self.hit } else { self.conflict }));
                }
                Some(Grant::Other(other)) => {
                    self.busy = now + self.between;
                    self.on_channel = Some(other);
                }
                None => break,
            }
        }
        complete
    }
}

fn random_bank(random: &mut Random, sharers: Vec<Rival>, others: Vec<Rival>) -> Bank {
    let hit = random.within(1, 3) as i64;
    let most = random.within(0, 3);
    Bank {
        hit,
        conflict: hit + random.within(0, 4) as i64,
        between: random.within(1, 3) as i64,
        cap: if random.within(0, 1) == 0 { HitCap::EachRequest(most) } else { HitCap::EachRow(most) },
        open: 0,
        hits: 0,
        queue: Vec::new(),
        serving: None,
        chosen: false,
        channel: VecDeque::new(),
        busy: 0,
        on_channel: None,
        sharers,
        others,
        rows: 4,
    }
}

/// The term for a bank, with what is known of the others.
fn term_of(bank: &Bank, known: &impl Fn(&Rival) -> Neighbour) -> SharedBanks {
    SharedBanks {
        request_delay: Ps(bank.between as u64),
        rows: RowDelays { hit: Ps(bank.hit as u64), conflict: Ps(bank.conflict as u64) },
        overtaking: Some(bank.cap),
        sharers: bank.sharers.iter().map(known).collect(),
        others: bank.others.iter().map(known).collect(),
        requests_at_once_max: 1,
    }
}

fn unknown(_: &Rival) -> Neighbour {
    Neighbour { tasks: None, regulator: None, donated: 0 }
}

const DEADLINE: i64 = 80;

/// Its task; it keeps a deadline, or what is seen does not count.
fn known(rival: &Rival) -> Neighbour {
    let spec = |(period, _, lines): (i64, i64, u64)| {
        TaskSpec::new("other", Ps(period as u64), Ps(1)).deadline(Ps(DEADLINE as u64)).lines(lines)
    };
    Neighbour { tasks: rival.task.map(|task| TaskSet::new([spec(task)]).unwrap()), regulator: None, donated: 0 }
}

#[test]
fn no_request_in_a_shared_bank_waits_longer_and_some_wait_as_long() {
    let mut random = Random::new(141);
    let (mut reached, mut with_channel) = (0, (0, 0));
    for round in 0..600 {
        let mut greedy = |most| (0..random.within(0, most)).map(|_| Rival::new(None, 1)).collect::<Vec<_>>();
        let (sharers, others) = (greedy(3), greedy(2));
        let others = if round % 2 == 0 { Vec::new() } else { others };
        let mut bank = random_bank(&mut random, sharers, others);
        if bank.others.is_empty() {
            bank.between = 0; // Sharers have no other bank here.
        }
        let term = term_of(&bank, &unknown);
        // Alone, it is a hit.
        let most = if bank.sharers.is_empty() { bank.hit as u128 } else { 0 } + term.longest_wait();
        let (mut made, mut next, mut worst) = (None, 0, 0);
        for now in 0..4000 {
            let mut began = made;
            let pause = random.within(0, 9) as i64;
            let complete = bank.tick(now, &mut random, |complete| {
                if complete {
                    (began, next) = (None, now + pause);
                }
                (began.is_none() && now >= next).then(|| {
                    began = Some(now);
                    0
                })
            });
            if complete {
                worst = worst.max(now - made.expect("a request"));
            }
            made = began;
        }
        assert!(worst as u128 <= most, "round {round}: {worst} > {most}: {term:?}");
        if bank.others.is_empty() {
            reached += u32::from(worst as u128 == most && bank.sharers.len() > 1 && bank.conflict > bank.hit);
        } else {
            with_channel = (with_channel.0 + worst as u128, with_channel.1 + most);
        }
    }
    println!("{reached} reached, {with_channel:?} with other banks");
    assert!(reached > 50, "{reached} times as long as the bound");
    assert!(with_channel.0 * 10 > with_channel.1 * 6, "{with_channel:?} of all bounds with other banks");
}

/// Jobs on the core that is looked at: they execute tick by tick, and at some ticks of their execution need a line.
struct Own {
    jobs: Vec<Job>,
    left: Vec<u64>,
    lines: Vec<Vec<u64>>,
    running: Option<usize>,
}

impl Own {
    /// Executes a tick; tells whether a line is needed then.
    fn execute(&mut self, now: i64) -> bool {
        let ready = (0..self.jobs.len()).filter(|&j| self.jobs[j].release <= now && self.left[j] > 0);
        self.running = ready.min_by_key(|&j| (self.jobs[j].urgency, self.jobs[j].release, j));
        let Some(j) = self.running else { return false };
        self.left[j] -= 1;
        self.lines[self.jobs[j].task].contains(&self.left[j])
    }
}

/// A set whose jobs execute `work` ticks and move lines at some of them, each of which takes `line` ticks of the WCET.
fn with_lines(random: &mut Random, line: u64, moved: u64) -> (TaskSet, Vec<Vec<u64>>, Vec<u64>) {
    let set = random_set(random, Shape { tasks: 3, period: 120, jitter: 0, blocking: 0, deadline: 3 });
    let (mut specs, mut all, mut work) = (Vec::new(), Vec::new(), Vec::new());
    for task in set.tasks() {
        let ticks = task.wcet().0.div_ceil(6);
        let mut lines: Vec<u64> = (0..ticks).filter(|_| random.within(0, 3) == 0).collect();
        if lines.is_empty() {
            lines.push(0);
        }
        let mut spec = task.spec().lines(lines.len() as u64 * moved);
        spec.wcet = Ps(ticks + lines.len() as u64 * line);
        spec.period = Ps(spec.period.0.max(spec.wcet.0));
        specs.push(spec);
        all.push(lines);
        work.push(ticks);
    }
    (TaskSet::new(specs).unwrap(), all, work)
}

fn own_jobs(random: &mut Random, set: &TaskSet, lines: Vec<Vec<u64>>, work: &[u64], ticks: i64) -> Own {
    let offsets: Vec<i64> = set.tasks().iter().map(|task| random.within(0, task.period().0 - 1) as i64).collect();
    let jobs: Vec<Job> =
        (0..set.tasks().len()).flat_map(|task| arrivals(set, task, offsets[task], ticks, |_| task as i64)).collect();
    let left = jobs.iter().map(|job| work[job.task]).collect();
    Own { jobs, left, lines, running: None }
}

fn random_rivals(random: &mut Random, most: u64, at_once: u64) -> Vec<Rival> {
    let count = random.within(0, most);
    let task = |random: &mut Random| {
        let lines = random.within(1, 4);
        Some((random.within(20, 90) as i64, random.within(0, 40) as i64, lines))
    };
    (0..count).map(|_| Rival::new(task(random), random.within(1, at_once))).collect()
}

fn in_order(set: &TaskSet) -> Priorities {
    Priorities::given(set, set.indices().collect()).unwrap()
}

fn bound(set: &TaskSet, task: usize, terms: &[Interference]) -> Option<u64> {
    match worst_response_with(set, &in_order(set), Preemption::Full, TaskIndex(task), terms, Effort::default()) {
        Ok(WorstCase::Bounded(worst)) => Some(worst.response.0),
        Ok(WorstCase::Unbounded(_)) | Err(Unsupported::Load(_)) => None,
        Err(reason) => panic!("{reason:?} {set:?}"),
    }
}

/// Responses that were held against their bounds.
#[derive(Debug, Default)]
struct Held {
    checked: u32,
    /// Longer than without others.
    delayed: u32,
    /// Bounds that the others' jobs make smaller.
    by_jobs: u32,
}

impl Held {
    /// Holds the longest responses against both bounds: others' jobs known, and not.
    fn add(&mut self, set: &TaskSet, mut own: Own, terms: &[[Interference; 1]; 2], ticks: i64, round: u32) {
        own.jobs.retain(|job| job.completion.is_some());
        for task in 0..set.tasks().len() {
            let [jobs, requests] = terms.each_ref().map(|terms| bound(set, task, terms));
            self.by_jobs += u32::from(jobs < requests || (jobs.is_some() && requests.is_none()));
            let worst = longest(&own.jobs, task, ticks) as u64;
            for most in [jobs, requests].into_iter().flatten() {
                self.checked += 1;
                self.delayed += u32::from(worst > bound(set, task, &[]).unwrap_or(u64::MAX));
                assert!(worst <= most, "round {round}, task {task}: {worst} > {most}: {terms:?} {set:?}");
            }
        }
    }
}

#[test]
fn no_response_beside_sharers_of_a_bank_exceeds_its_bound() {
    let mut random = Random::new(142);
    let mut held = Held::default();
    for round in 0..3000 {
        let (sharers, others) = (random_rivals(&mut random, 2, 1), random_rivals(&mut random, 2, 1));
        if sharers.is_empty() {
            continue;
        }
        let mut bank = random_bank(&mut random, sharers, others);
        let (set, lines, work) = with_lines(&mut random, bank.hit as u64, 1);
        let ticks = 900;
        let mut own = own_jobs(&mut random, &set, lines, &work, ticks);
        let terms = [term_of(&bank, &known), term_of(&bank, &unknown)].map(|term| [Interference::SharedBanks(term)]);
        let (mut waits, mut asks) = (None::<usize>, false);
        for now in 0..ticks {
            let asked = std::mem::take(&mut asks);
            let complete = bank.tick(now, &mut random, |_| asked.then_some(0));
            if complete {
                let j = waits.take().expect("a request");
                if own.left[j] == 0 {
                    own.jobs[j].completion = Some(now);
                }
            }
            if waits.is_none() {
                if own.execute(now) {
                    (waits, asks) = (own.running, true);
                } else if let Some(j) = own.running
                    && own.left[j] == 0
                {
                    own.jobs[j].completion = Some(now + 1);
                }
            }
        }
        if bank.sharers.iter().chain(&bank.others).any(|rival| rival.slowest > DEADLINE) {
            continue;
        }
        held.add(&set, own, &terms, ticks, round);
    }
    assert!(held.checked > 2000 && held.delayed > 300 && held.by_jobs > 100, "{held:?}");
}

/// Reads in the order of their arrival, before writes; writes in batches.
struct Controller {
    read: i64,
    write: i64,
    turn: i64,
    entries: usize,
    drain_at: usize,
    drain_to: usize,
    reads: VecDeque<(Option<usize>, u64)>,
    writes: usize,
    draining: bool,
    busy: i64,
    serving: Option<(usize, u64)>,
    rivals: Vec<Rival>,
}

impl Controller {
    /// Goes on to `now`, after this core has made its requests; gives how many of its reads are complete.
    fn tick(&mut self, now: i64, random: &mut Random) -> u64 {
        if self.busy == now
            && let Some((rival, lines)) = self.serving.take()
        {
            self.rivals[rival].complete(now, lines);
        }
        for rival in 0..self.rivals.len() {
            self.rivals[rival].arrive(now);
            while self.rivals[rival].wants() {
                let unlimited = self.rivals[rival].task.is_none();
                let dirty = (unlimited || self.rivals[rival].unmade > 1) && random.within(0, 3) > 0;
                if dirty && self.writes == self.entries {
                    break;
                }
                self.writes += usize::from(dirty);
                let lines = 1 + u64::from(dirty);
                self.rivals[rival].make(lines);
                self.reads.push_back((Some(rival), lines));
            }
        }
        let mut own = 0;
        while self.busy <= now {
            if self.draining && self.writes > self.drain_to {
                self.writes -= 1;
                self.busy = now + self.write;
                continue;
            }
            self.draining = false;
            if self.writes >= self.drain_at {
                self.draining = true;
                self.busy = now + self.turn;
                continue;
            }
            match self.reads.pop_front() {
                Some((None, _)) => own += 1,
                Some((Some(rival), lines)) => {
                    self.serving = Some((rival, lines));
                    self.busy = now + self.read;
                }
                None if self.writes > 0 && random.within(0, 2) > 0 => {
                    self.writes -= 1;
                    self.busy = now + self.turn + self.write;
                }
                None => break,
            }
        }
        own
    }
}

fn random_controller(random: &mut Random, rivals: Vec<Rival>) -> Controller {
    let drain_at = random.within(1, 6) as usize;
    Controller {
        read: random.within(1, 3) as i64,
        write: random.within(1, 3) as i64,
        turn: random.within(0, 2) as i64,
        entries: drain_at + random.within(0, 3) as usize,
        drain_at,
        drain_to: random.within(0, drain_at as u64 - 1) as usize,
        reads: VecDeque::new(),
        writes: 0,
        draining: false,
        busy: 0,
        serving: None,
        rivals,
    }
}

fn parallel_term(own: &Controller, at_once: u64, known: &impl Fn(&Rival) -> Neighbour) -> ParallelBanks {
    let neighbour =
        |rival: &Rival| ParallelNeighbour { core: known(rival), requests_at_once_max: rival.at_once as u32 };
    ParallelBanks {
        read_delay: Ps(own.read as u64),
        write_delay: Ps(own.write as u64),
        turn: Ps(own.turn as u64),
        writes: WriteBuffer::new(own.entries as u64, own.drain_at as u64, own.drain_to as u64).unwrap(),
        requests_at_once_max: at_once as u32,
        neighbours: own.rivals.iter().map(neighbour).collect(),
        private_banks: true,
        write_back: true,
    }
}

#[test]
fn no_read_beside_many_waits_longer() {
    let mut random = Random::new(143);
    let (mut worst_of_all, mut closest) = ((0, 0), 0);
    for round in 0..600 {
        let rivals = (0..random.within(1, 3)).map(|_| Rival::new(None, random.within(1, 4))).collect();
        let mut controller = random_controller(&mut random, rivals);
        let term = parallel_term(&controller, 1, &unknown);
        let (mut made, mut next, mut worst) = (None, 0, 0);
        for now in 0..4000 {
            if made.is_none() && now >= next {
                made = Some(now);
                controller.reads.push_back((None, 1));
            }
            if controller.tick(now, &mut random) > 0 {
                worst = worst.max(now - made.take().expect("a read"));
                next = now + random.within(0, 9) as i64;
            }
        }
        let most = term.longest_wait();
        assert!(worst as u128 <= most, "round {round}: {worst} > {most}: {term:?}");
        worst_of_all = (worst_of_all.0 + worst as u128, worst_of_all.1 + most);
        closest = closest.max(worst as u128 * 100 / most);
    }
    // Not all writes come at once, and the lone write not with a full buffer.
    println!("{closest} percent of one, {worst_of_all:?} of all");
    assert!(closest >= 85, "{closest} percent of a bound");
    assert!(worst_of_all.0 * 2 > worst_of_all.1, "{worst_of_all:?} of all bounds");
}

#[test]
fn no_response_beside_parallel_reads_exceeds_its_bound() {
    let mut random = Random::new(144);
    let mut held = Held::default();
    for round in 0..3000 {
        let rivals = random_rivals(&mut random, 3, 4);
        if rivals.is_empty() {
            continue;
        }
        let mut controller = random_controller(&mut random, rivals);
        let at_once = random.within(1, 3);
        // Each line read pushes one out.
        let (set, lines, work) = with_lines(&mut random, 0, 2);
        let ticks = 900;
        let mut own = own_jobs(&mut random, &set, lines, &work, ticks);
        let terms = [parallel_term(&controller, at_once, &known), parallel_term(&controller, at_once, &unknown)]
            .map(|term| [Interference::ParallelBanks(term)]);
        // Jobs whose reads are on their way, in order; those that have executed are complete with their last.
        let mut out: VecDeque<usize> = VecDeque::new();
        let mut wants = None::<usize>;
        for now in 0..ticks {
            if let Some(j) = wants
                && controller.writes < controller.entries
            {
                controller.writes += usize::from(random.within(0, 3) > 0);
                controller.reads.push_back((None, 1));
                out.push_back(j);
                wants = None;
            }
            for _ in 0..controller.tick(now, &mut random) {
                let j = out.pop_front().expect("a read");
                if own.left[j] == 0 && !out.contains(&j) {
                    own.jobs[j].completion = Some(now);
                }
            }
            if wants.is_none() && (out.len() as u64) < at_once {
                if own.execute(now) {
                    wants = own.running;
                } else if let Some(j) = own.running
                    && own.left[j] == 0
                    && !out.contains(&j)
                {
                    own.jobs[j].completion = Some(now + 1);
                }
            }
        }
        if controller.rivals.iter().any(|rival| rival.slowest > DEADLINE) {
            continue;
        }
        held.add(&set, own, &terms, ticks, round);
    }
    assert!(held.checked > 1000 && held.delayed > 300 && held.by_jobs > 100, "{held:?}");
}

#[test]
fn both_by_hand() {
    // DDR3-1333: tRP, tRCD 9, tRAS 24, tRTP 5, tWR 10, tCCD 4 cycles beside those of Kim et al. 2014. A hit: 7 + 4 + 5; a conflict:
    // max(24 - 9, 5, 7 + 4 + 10) + 9 + 9.
    let timings = BankTimings { t_ck: Ps(1500), n_rrd: 4, n_faw: 20, n_wl: 7, n_cl: 9, bl: 8, n_wtr: 5 };
    let rows = RowTimings { n_rp: 9, n_rcd: 9, n_ras: 24, n_rtp: 5, n_wr: 10, n_ccd: 4 };
    let delays = timings.row_delays(&rows).unwrap();
    assert_eq!((delays.hit, delays.conflict), (Ps(16 * 1500), Ps(39 * 1500)));
    assert!(timings.row_delays(&RowTimings { n_wr: 1 << 21, ..rows }).is_err());
    let unknown = || Neighbour { tasks: None, regulator: None, donated: 0 };
    let shared = SharedBanks {
        request_delay: Ps(2),
        rows: RowDelays { hit: Ps(3), conflict: Ps(10) },
        overtaking: Some(HitCap::EachRequest(4)),
        sharers: vec![unknown(), unknown()],
        others: vec![unknown()],
        requests_at_once_max: 1,
    };
    // 10 + 2 (10 + 2 * 2) + 4 (3 + 2 * 2) + 3 * 2.
    assert_eq!(shared.longest_wait(), 10 + 28 + 28 + 6);
    let by_row = SharedBanks { overtaking: Some(HitCap::EachRow(4)), ..shared.clone() };
    assert_eq!(by_row.longest_wait(), 10 + 28 + 56 + 6);
    // Without sharers it is what Banks says.
    let private = SharedBanks { sharers: Vec::new(), ..shared.clone() };
    assert_eq!(Interference::SharedBanks(private).delay(Ps(100), 4), 5 * 2);
    // By jobs: in 150, 3 jobs of 3 lines of a sharer, 10 each; and 6 conflicts of one's own.
    let other = TaskSet::new([TaskSpec::new("other", Ps(100), Ps(1)).deadline(Ps(100)).lines(3)]).unwrap();
    let known = Neighbour { tasks: Some(other), regulator: None, donated: 0 };
    let one = SharedBanks { sharers: vec![known.clone()], others: Vec::new(), ..shared.clone() };
    assert_eq!(Interference::SharedBanks(one).delay(Ps(150), 5), 6 * 10 + 9 * 10);
    let parallel = ParallelBanks {
        read_delay: Ps(2),
        write_delay: Ps(3),
        turn: Ps(5),
        writes: WriteBuffer::new(16, 12, 4).unwrap(),
        requests_at_once_max: 2,
        neighbours: vec![ParallelNeighbour { core: unknown(), requests_at_once_max: 10 }],
        private_banks: true,
        write_back: true,
    };
    // 10 reads; 16 - 4 + 1 + 10 + 1 writes; 2 + floor(10 / 8) batches. Two lines more are on their way.
    assert_eq!(parallel.longest_wait(), 20 + 72 + 15);
    assert_eq!(Interference::ParallelBanks(parallel.clone()).delay(Ps(100), 1), 3 * 107);
    // With 9 lines of the other in the window, and 3 own: reads 3 * 20 and writes (13 + 12) * 3 + 3 * 5, or 9 * 3 + 16 * 3 + 15.
    let heard = |core| vec![ParallelNeighbour { core, requests_at_once_max: 10 }];
    let busy = ParallelBanks { neighbours: heard(known.clone()), ..parallel.clone() };
    assert_eq!(Interference::ParallelBanks(busy).delay(Ps(150), 1), 27 + 48 + 15);
    // A budget of 2 lines in 100 can be passed by 9 in each period, and 10 are on their way: 3 * 11 + 10 lines, and 7 batches.
    let regulated = Neighbour { tasks: None, regulator: Some(Regulator::new(Ps(100), 2, Ps(0)).unwrap()), donated: 0 };
    let slow = ParallelBanks { neighbours: heard(regulated), ..parallel };
    assert_eq!(Interference::ParallelBanks(slow).delay(Ps(150), 1), 43 * 3 + 16 * 3 + 7 * 5);
    assert_eq!(WriteBuffer::new(8, 4, 4).unwrap_err().to_string(), "write buffer: drain_to is 4; accepted is 0 to 3");
}

#[test]
fn what_both_ask_for_is_asked() {
    let set = TaskSet::new([TaskSpec::new("a", Ps(1000), Ps(2)).lines(1)]).unwrap();
    let needs = |term: Interference| match fixed_priority_with(
        &set,
        &in_order(&set),
        Preemption::Full,
        &[term],
        Effort::default(),
    ) {
        Verdict::Unsupported(Unsupported::Platform { needs }) => needs,
        other => panic!("{other:?}"),
    };
    let unknown = || Neighbour { tasks: None, regulator: None, donated: 0 };
    let shared = SharedBanks {
        request_delay: Ps(2),
        rows: RowDelays { hit: Ps(3), conflict: Ps(10) },
        overtaking: Some(HitCap::EachRequest(4)),
        sharers: vec![unknown()],
        others: Vec::new(),
        requests_at_once_max: 1,
    };
    let parallel = ParallelBanks {
        read_delay: Ps(2),
        write_delay: Ps(3),
        turn: Ps(5),
        writes: WriteBuffer::new(16, 12, 4).unwrap(),
        requests_at_once_max: 2,
        neighbours: vec![ParallelNeighbour { core: unknown(), requests_at_once_max: 10 }],
        private_banks: true,
        write_back: true,
    };
    for term in [Interference::SharedBanks(shared.clone()), Interference::ParallelBanks(parallel.clone())] {
        let verdict = fixed_priority_with(&set, &in_order(&set), Preemption::Full, &[term], Effort::default());
        assert!(verdict.is_schedulable(), "{verdict:?}");
    }
    let slow = RowDelays { hit: Ps(3), conflict: Ps(2) };
    let without = |change: &dyn Fn(&mut SharedBanks)| {
        let mut wrong = shared.clone();
        change(&mut wrong);
        needs(Interference::SharedBanks(wrong))
    };
    assert!(without(&|own| own.requests_at_once_max = 2).contains("one request"));
    assert!(without(&|own| own.overtaking = None).contains("a limit"));
    assert!(without(&|own| own.rows = slow).contains("no less"));
    let silent = TaskSet::new([TaskSpec::new("other", Ps(100), Ps(1))]).unwrap();
    assert!(
        without(&|own| own.others = vec![Neighbour { tasks: Some(silent.clone()), regulator: None, donated: 0 }])
            .contains("lines")
    );
    let without = |change: &dyn Fn(&mut ParallelBanks)| {
        let mut wrong = parallel.clone();
        change(&mut wrong);
        needs(Interference::ParallelBanks(wrong))
    };
    assert!(without(&|own| own.private_banks = false).contains("no other core"));
    assert!(without(&|own| own.write_back = false).contains("push"));
    assert!(without(&|own| own.neighbours[0].requests_at_once_max = 0).contains("one or more"));
}
