//! Do the terms bound what a simulation tick by tick sees, and are the printed forms wrong where the errata say so?

use crate::common::{Job, Shape, arrivals, longest, ps, random_set};
use memtint_sched::{
    BankTimings, Banks, Effort, Form, Granularity, Interference, Neighbour, Preemption, Priorities, RankOrder, Refresh,
    Regulator, TaskIndex, TaskSet, TaskSpec, Unsupported, Verdict, WorstCase, burst_length, fixed_priority,
    fixed_priority_with, padded, printed_padding, quick_processor_demand_with, reservations_fit,
    worst_response_edf_with, worst_response_with,
};
use memtint_units::Picoseconds as Ps;
use memtint_units::Random;

fn ns(value: u64) -> Ps {
    Ps::from_ns(value)
}

fn refresh(period: u64, stall: u64) -> Interference {
    Interference::Refresh(Refresh::auto(Ps(period), Ps(stall), Ps(0)).unwrap())
}

fn in_order(set: &TaskSet) -> Priorities {
    Priorities::given(set, set.indices().collect()).unwrap()
}

fn bound(set: &TaskSet, preemption: Preemption, task: usize, terms: &[Interference]) -> Option<u64> {
    match worst_response_with(set, &in_order(set), preemption, TaskIndex(task), terms, Effort::default()) {
        Ok(WorstCase::Bounded(worst)) => Some(worst.response.0),
        Ok(WorstCase::Unbounded(_)) | Err(Unsupported::Load(_)) => None,
        Err(reason) => panic!("{reason:?} {set:?}"),
    }
}

/// What another core does: jobs of (period, phase, lines), whose requests it makes one by one.
struct Rival {
    tasks: Vec<(i64, i64, u64)>,
    /// Arrivals of jobs with requests left, and how many.
    queue: Vec<(i64, u64)>,
    waits: bool,
    /// The longest time from an arrival to the last request.
    slowest: i64,
}

/// A core with everything that can delay it, one tick after the other.
#[derive(Default)]
struct Core {
    /// Period, stall, phase.
    refresh: Option<(i64, i64, i64)>,
    /// Period, lines, phase.
    regulator: Option<(i64, u64, i64)>,
    rivals: Vec<Rival>,
    /// Ticks that one request of another core takes.
    request: i64,
    /// Ticks of each task's execution at which a line is moved.
    lines: Vec<Vec<u64>>,
    nonpreemptive: bool,
    /// A job is chosen while refresh holds the core, and not after it.
    chooses_in_stall: bool,
}

impl Core {
    fn simulate(&mut self, jobs: &mut [Job], ticks: i64) {
        let mut left: Vec<u64> = jobs.iter().map(|job| job.work).collect();
        let (mut held, mut stall, mut used, mut throttled) = (None::<usize>, 0, 0, false);
        // Who waits for the memory, first come first served; `None` is this core. What is left of the first.
        let mut bus: Vec<Option<usize>> = Vec::new();
        let mut serving = 0;
        for now in 0..ticks {
            if let Some((period, length, phase)) = self.refresh
                && now >= phase
                && (now - phase) % period == 0
            {
                stall += length;
            }
            if let Some((period, _, phase)) = self.regulator
                && (now + phase) % period == 0
            {
                (used, throttled) = (0, false);
            }
            for (index, rival) in self.rivals.iter_mut().enumerate() {
                for &(period, phase, lines) in &rival.tasks {
                    if now >= phase && (now - phase) % period == 0 {
                        rival.queue.push((now, lines));
                    }
                }
                if !rival.waits && !rival.queue.is_empty() {
                    rival.waits = true;
                    bus.push(Some(index));
                }
            }
            if bus.first() == Some(&None) {
                bus.remove(0);
            }
            let waits = bus.contains(&None);
            if let Some(&Some(index)) = bus.first() {
                serving += 1;
                if serving == self.request {
                    serving = 0;
                    bus.remove(0);
                    let rival = &mut self.rivals[index];
                    rival.waits = false;
                    rival.queue[0].1 -= 1;
                    if rival.queue[0].1 == 0 {
                        rival.slowest = rival.slowest.max(now + 1 - rival.queue.remove(0).0);
                    }
                }
            }
            let stalled = stall > 0;
            stall -= i64::from(stalled);
            let free = !waits && !throttled && (!stalled || self.chooses_in_stall);
            if held.is_none() || (!self.nonpreemptive && free) {
                let ready = (0..jobs.len()).filter(|&j| jobs[j].release <= now && left[j] > 0);
                if free {
                    held = ready.min_by_key(|&j| (jobs[j].urgency, jobs[j].release, j));
                }
            }
            let Some(j) = held else { continue };
            if stalled || waits || throttled {
                continue;
            }
            left[j] -= 1;
            if self.lines.get(jobs[j].task).is_some_and(|lines| lines.contains(&left[j])) {
                used += 1;
                throttled = self.regulator.is_some_and(|(_, most, _)| used >= most);
                if !self.rivals.is_empty() {
                    // In its own tick it goes to the end of the queue, and the next tick waits for what was there.
                    bus.push(None);
                }
            }
            if left[j] == 0 {
                // The last line, too, must have come.
                jobs[j].completion = Some(now + 1);
                held = None;
            }
        }
    }
}

#[test]
fn refresh_alone_is_reached_exactly_under_fixed_priority() {
    let mut random = Random::new(71);
    let (mut bounded, mut longer) = (0, 0);
    for round in 0..2000 {
        let shape = Shape { tasks: 3, period: 12, jitter: round % 3 * 2, blocking: 0, deadline: 2 };
        let set = random_set(&mut random, shape);
        let (period, stall) = (random.within(4, 15), random.within(1, 3));
        for task in 0..set.tasks().len() {
            let Some(most) = bound(&set, Preemption::Full, task, &[refresh(period, stall)]) else { continue };
            if most > 150 {
                continue;
            }
            let mut jobs: Vec<Job> =
                (0..=task).flat_map(|other| arrivals(&set, other, 0, 400, |_| other as i64)).collect();
            Core { refresh: Some((period as i64, stall as i64, 0)), ..Core::default() }.simulate(&mut jobs, 400);
            jobs.retain(|job| job.completion.is_some());
            assert_eq!(
                ps(longest(&jobs, task, 400)),
                Ps(most),
                "round {round}, task {task}, {period}, {stall}: {set:?}"
            );
            bounded += 1;
            longer += u32::from(Some(most) > bound(&set, Preemption::Full, task, &[]));
        }
    }
    assert!(bounded > 800 && longer > 600, "{bounded} bounds, {longer} longer than without");
}

#[test]
fn no_phase_of_refresh_exceeds_the_bounds() {
    let mut random = Random::new(72);
    let mut seen = [0, 0];
    for round in 0..1500 {
        let set = random_set(&mut random, Shape { tasks: 3, period: 14, jitter: 0, blocking: 0, deadline: 2 });
        let (period, stall) = (random.within(4, 15), random.within(1, 3));
        let terms = [refresh(period, stall)];
        for (kind, preemption) in [Preemption::Full, Preemption::None].into_iter().enumerate() {
            let offsets: Vec<i64> =
                set.tasks().iter().map(|task| random.within(0, task.period().0 - 1) as i64).collect();
            let mut jobs: Vec<Job> = (0..set.tasks().len())
                .flat_map(|task| arrivals(&set, task, offsets[task], 300, |_| task as i64))
                .collect();
            let mut core = Core {
                refresh: Some((period as i64, stall as i64, random.within(0, period - 1) as i64)),
                nonpreemptive: preemption == Preemption::None,
                chooses_in_stall: round % 2 == 0,
                ..Core::default()
            };
            core.simulate(&mut jobs, 300);
            jobs.retain(|job| job.completion.is_some());
            for task in 0..set.tasks().len() {
                let Some(most) = bound(&set, preemption, task, &terms) else { continue };
                seen[kind] += 1;
                let longest = ps(longest(&jobs, task, 300));
                assert!(
                    longest <= Ps(most),
                    "round {round}, {preemption:?}, task {task}: {longest:?} > {most} {set:?}"
                );
            }
        }
    }
    assert!(seen.iter().all(|&seen| seen > 1000), "{seen:?}");
}

#[test]
fn edf_with_refresh_agrees_with_its_response_times_and_with_simulation() {
    let mut random = Random::new(73);
    let (mut yes, mut no) = (0, 0);
    for round in 0..1500 {
        let set = random_set(&mut random, Shape { tasks: 3, period: 10, jitter: 0, blocking: 0, deadline: 2 });
        let (period, stall) = (random.within(4, 12), random.within(1, 2));
        let terms = [refresh(period, stall)];
        let fits =
            |task: usize| match worst_response_edf_with(&set, TaskIndex(task), &terms, Effort::default()).unwrap() {
                WorstCase::Bounded(worst) => worst.response <= set.tasks()[task].deadline(),
                WorstCase::Unbounded(_) => false,
            };
        let every = (0..set.tasks().len()).all(fits);
        match quick_processor_demand_with(&set, &terms, Effort::default()) {
            Verdict::Schedulable(_) => {
                yes += 1;
                assert!(every, "round {round}: {set:?}");
                let offsets = set.tasks().iter().map(|task| random.within(0, task.period().0) as i64);
                let offsets: Vec<i64> = offsets.collect();
                let mut jobs: Vec<Job> = (0..set.tasks().len())
                    .flat_map(|task| {
                        let deadline = set.tasks()[task].deadline().0 as i64;
                        arrivals(&set, task, offsets[task], 300, move |arrival| arrival + deadline)
                    })
                    .collect();
                let phase = random.within(0, period) as i64;
                Core { refresh: Some((period as i64, stall as i64, phase)), ..Core::default() }
                    .simulate(&mut jobs, 300);
                for job in jobs.iter().filter(|job| job.urgency <= 300) {
                    assert!(job.completion.is_some_and(|end| end <= job.urgency), "round {round}: {job:?} {set:?}");
                }
            }
            Verdict::Unschedulable(late) => {
                no += 1;
                assert!(late.demand_ps > late.window_ps, "round {round}: {late:?}");
                assert!(!every, "round {round}: {late:?} {terms:?} {set:?}");
            }
            Verdict::Unsupported(reason) => panic!("{reason:?}"),
        }
    }
    assert!(yes > 150 && no > 400, "{yes} yes, {no} no");
}

/// A set whose tasks move lines, at ticks of their execution drawn here.
fn with_lines(random: &mut Random, set: &TaskSet) -> (TaskSet, Vec<Vec<u64>>) {
    let drawn = set.tasks().iter().map(|task| {
        let mut ticks: Vec<u64> = (0..task.wcet().0).filter(|_| random.within(0, 2) == 0).collect();
        if ticks.is_empty() {
            ticks.push(0);
        }
        ticks
    });
    let lines: Vec<Vec<u64>> = drawn.collect();
    let specs = set.tasks().iter().zip(&lines).map(|(task, own)| task.spec().lines(own.len() as u64));
    (TaskSet::new(specs.collect::<Vec<_>>()).unwrap(), lines)
}

#[test]
fn regulator_banks_and_refresh_together_bound_what_is_simulated() {
    let mut random = Random::new(74);
    let (mut checked, mut delayed) = (0, 0);
    for round in 0..4000 {
        let set = random_set(&mut random, Shape { tasks: 3, period: 60, jitter: 0, blocking: 0, deadline: 3 });
        let (set, lines) = with_lines(&mut random, &set);
        let mut core = Core { lines, request: random.within(1, 3) as i64, ..Core::default() };
        let mut terms = Vec::new();
        if round % 2 == 0 {
            let (period, stall) = (random.within(8, 30), random.within(1, 3));
            core.refresh = Some((period as i64, stall as i64, random.within(0, period - 1) as i64));
            terms.push(refresh(period, stall));
        }
        if round % 3 != 0 {
            let (period, budget) = (random.within(5, 20), random.within(1, 5));
            core.regulator = Some((period as i64, budget, random.within(0, period - 1) as i64));
            terms.push(Interference::Regulator(Regulator::new(Ps(period), budget, Ps(1)).unwrap()));
        }
        let mut promised = Vec::new();
        for _ in 0..random.within(0, 2) {
            let tasks: Vec<(i64, i64, u64)> = (0..2)
                .map(|_| (random.within(10, 60) as i64, random.within(0, 40) as i64, random.within(1, 4)))
                .collect();
            let deadline = random.within(20, 60) as i64;
            let spec = |(index, &(period, _, lines)): (usize, &(i64, i64, u64))| {
                TaskSpec::new(format!("r{index}"), ps(period), Ps(1)).deadline(ps(deadline)).lines(lines)
            };
            let known = TaskSet::new(tasks.iter().enumerate().map(spec)).unwrap();
            promised.push((known, deadline));
            core.rivals.push(Rival { tasks, queue: Vec::new(), waits: false, slowest: 0 });
        }
        if !promised.is_empty() {
            let neighbours = promised
                .iter()
                .map(|(set, _)| Neighbour { tasks: Some(set.clone()), regulator: None, donated: 0 })
                .collect();
            let request_delay = Ps(core.request as u64);
            let banks = Banks { request_delay, neighbours, private_banks: true, requests_at_once_max: 1 };
            terms.push(Interference::Banks(banks));
        }
        let offsets: Vec<i64> = set.tasks().iter().map(|task| random.within(0, task.period().0 - 1) as i64).collect();
        let mut jobs: Vec<Job> =
            (0..set.tasks().len()).flat_map(|task| arrivals(&set, task, offsets[task], 600, |_| task as i64)).collect();
        core.simulate(&mut jobs, 600);
        jobs.retain(|job| job.completion.is_some());
        // The other cores must keep what they promise.
        if core.rivals.iter().zip(&promised).any(|(rival, (_, deadline))| rival.slowest > *deadline) {
            continue;
        }
        for task in 0..set.tasks().len() {
            let Some(most) = bound(&set, Preemption::Full, task, &terms) else { continue };
            let longest = ps(longest(&jobs, task, 600));
            checked += 1;
            delayed += u32::from(Some(longest.0) > bound(&set, Preemption::Full, task, &[]));
            assert!(longest <= Ps(most), "round {round}, task {task}: {longest:?} > {most}, {terms:?} {set:?}");
        }
    }
    assert!(checked > 2000 && delayed > 300, "{checked} bounds, {delayed} delayed beyond the plain response");
}

#[test]
fn padding_as_printed_never_ends_and_the_fixed_point_does() {
    // Errata E1, 8Gb: 1.0452, 1.0921, 1.1414, ... ms; right is 1.04725 ms, and one round of m tRFC is 1.04515 ms.
    let refresh = Refresh::auto(ns(7800), ns(350), ns(0)).unwrap();
    let printed: Vec<u128> = printed_padding(ns(1_000_000), &refresh).take(3).collect();
    assert_eq!(printed[0], 1_045_150_000);
    assert_eq!(printed.map_rounded(), [1.0452, 1.0921, 1.1414]);
    assert_eq!(padded(ns(1_000_000), &refresh, Effort::default()), Ok(ns(1_047_250)));
    let starved = Refresh::auto(ns(100), ns(100), ns(0)).unwrap();
    assert!(matches!(padded(ns(1), &starved, Effort::default()), Err(Unsupported::Load(_))));
}

trait Rounded {
    fn map_rounded(&self) -> Vec<f64>;
}

impl Rounded for Vec<u128> {
    /// Picoseconds as milliseconds with four digits.
    fn map_rounded(&self) -> Vec<f64> {
        self.iter().map(|ps| (*ps as f64 / 1e5).round() / 1e4).collect()
    }
}

#[test]
fn the_term_is_never_worse_than_padding_each_task() {
    let mut random = Random::new(75);
    let mut better = 0;
    for round in 0..2000 {
        let set = random_set(&mut random, Shape { tasks: 4, period: 20, jitter: 2, blocking: 0, deadline: 2 });
        let (period, stall) = (random.within(4, 15), random.within(1, 2));
        let own = Refresh::auto(Ps(period), Ps(stall), Ps(0)).unwrap();
        let specs = set.tasks().iter().map(|task| {
            let mut spec = task.spec();
            spec.wcet = padded(task.wcet(), &own, Effort::default()).unwrap();
            spec
        });
        let enlarged = TaskSet::new(specs.collect::<Vec<_>>()).unwrap();
        for task in 0..set.tasks().len() {
            let Some(by_padding) = bound(&enlarged, Preemption::Full, task, &[]) else { continue };
            let by_term = bound(&set, Preemption::Full, task, &[Interference::Refresh(own)]).unwrap();
            assert!(by_term <= by_padding, "round {round}, task {task}: {set:?}");
            better += u32::from(by_term < by_padding);
        }
    }
    assert!(better > 300, "{better}");
}

#[test]
fn floor_as_printed_accepts_what_misses() {
    // Errata E30: a window of 5 us meets one refresh of 350 ns, and floor(5 / 7.8) is 0.
    let own = Refresh::auto(ns(7800), ns(350), ns(0)).unwrap();
    let term = |form| Interference::Refresh(own.form(form));
    assert_eq!(term(Form::AsPrinted).delay(ns(5000), 0), 0);
    assert_eq!(term(Form::Corrected).delay(ns(5000), 0), 350_000);
    let set = TaskSet::new([TaskSpec::new("a", ns(10_000), ns(5000)).deadline(ns(5300))]).unwrap();
    let decide = |form| fixed_priority_with(&set, &in_order(&set), Preemption::Full, &[term(form)], Effort::default());
    assert!(decide(Form::AsPrinted).is_schedulable());
    let Verdict::Unschedulable(late) = decide(Form::Corrected) else { panic!("5350 ns") };
    assert_eq!((late.window_ps, late.demand_ps), (5_300_000u32.into(), 5_350_000u32.into()));
}

#[test]
fn table_4_4_does_not_fit_at_8_gb_with_auto_refresh() {
    // Errata E13: U = 0.9625 and tRFC / tREFI = 350 / 7800 are more than 1, though 4.4 says "schedulable below 16Gb".
    let ms = |value: u64| Ps::from_ns(value * 1_000_000);
    let tasks = [("lms", 20, 4), ("compress", 32, 6), ("cnt", 32, 8), ("st", 40, 8), ("matmult", 80, 10)];
    let set = TaskSet::new(tasks.map(|(name, period, wcet)| TaskSpec::new(name, ms(period), ms(wcet)))).unwrap();
    let decide = |t_rfc| {
        let own = Refresh::auto(ns(7800), ns(t_rfc), ns(0)).unwrap();
        quick_processor_demand_with(&set, &[Interference::Refresh(own)], Effort::default())
    };
    assert!(decide(260).is_schedulable(), "4Gb: 0.9625 + 0.0333");
    assert!(decide(350).is_unschedulable(), "8Gb: 0.9625 + 0.0449");
}

#[test]
fn bursts_and_fine_granularity_by_hand() {
    // Errata E4 and E22: 8192 commands of 160 ns are 1.31 ms, not less than 0.2 ms.
    let burst = |form| burst_length(ns(160), 8, RankOrder::Parallel, form).unwrap();
    assert_eq!(burst(Form::Corrected), ns(1_310_720));
    assert_eq!(burst(Form::AsPrinted), ns(163_840));
    assert_eq!(burst_length(ns(160), 8, RankOrder::Serial, Form::Corrected).unwrap(), ns(8 * 1_310_720));
    let ms = |value: u64| Ps::from_ns(value * 1_000_000);
    let set = TaskSet::new([TaskSpec::new("a", ms(10), ms(2)).deadline(ms(3))]).unwrap();
    let decide = |form| {
        let own = Interference::Refresh(Refresh::burst(ms(64), burst(form), ns(28)).unwrap());
        fixed_priority_with(&set, &in_order(&set), Preemption::Full, &[own], Effort::default())
    };
    assert!(decide(Form::AsPrinted).is_schedulable());
    assert!(decide(Form::Corrected).is_unschedulable(), "2 + 1.31 > 3");
    // DDR4 8Gb (JESD79-4): 350, 260 and 160 ns at 7.8, 3.9 and 1.95 us. Finer is shorter for a short window, longer for a long one.
    let delay = |granularity, t_rfc, length| {
        let own = Refresh::fine(granularity, ns(7800), ns(t_rfc), ns(0)).unwrap();
        Interference::Refresh(own).delay(ns(length), 0) / 1000
    };
    let all = |length| {
        [(Granularity::One, 350), (Granularity::Two, 260), (Granularity::Four, 160)].map(|(g, t)| delay(g, t, length))
    };
    assert_eq!(all(1000), [350, 260, 160]);
    assert_eq!(all(78_000), [3500, 5200, 6400]);
    let moved = Refresh::auto(ns(7800), ns(350), ns(0)).unwrap().moved(8).unwrap();
    assert_eq!(Interference::Refresh(moved).delay(ns(1000), 0), 9 * 350_000);
    assert!(Refresh::auto(ns(7800), ns(350), ns(0)).unwrap().moved(17).is_err());
}

#[test]
fn banks_by_hand() {
    // DDR3-1333 of Kim et al. 2014, Table 1: tCK 1.5 ns, tRRD 4, tFAW 20, WL 7, CL 9, BL 8, tWTR 5 cycles:
    // 1 + max(4, 20 - 12) + max(7 + 4 + 5, 9 + 4 + 2 - 7) = 25 cycles. (Timings from memory, the sum by hand.)
    let timings = BankTimings { t_ck: Ps(1500), n_rrd: 4, n_faw: 20, n_wl: 7, n_cl: 9, bl: 8, n_wtr: 5 };
    assert_eq!(timings.request_delay().unwrap(), Ps(37_500));
    let other = TaskSet::new([TaskSpec::new("other", Ps(100), Ps(1)).deadline(Ps(100)).lines(3)]).unwrap();
    let banks = |neighbours: Vec<Neighbour>| Banks {
        request_delay: Ps(2),
        neighbours,
        private_banks: true,
        requests_at_once_max: 1,
    };
    let known = Neighbour { tasks: Some(other), regulator: None, donated: 0 };
    // 150 meets 3 jobs of it (100 before to 150), 9 lines: 18; 5 own requests wait 12 at most, with the one begun.
    let delay = |lines| Interference::Banks(banks(vec![known.clone()])).delay(Ps(150), lines);
    assert_eq!((delay(5), delay(100)), (12, 18));
    let regulator = Regulator::new(Ps(100), 2, Ps(0)).unwrap();
    let regulated = Neighbour { regulator: Some(regulator), ..known.clone() };
    // Three periods of 2 lines, and one on its way.
    assert_eq!(Interference::Banks(banks(vec![regulated])).delay(Ps(150), 100), 14);
    let unknown = Neighbour { tasks: None, regulator: None, donated: 0 };
    assert_eq!(Interference::Banks(banks(vec![known, unknown])).delay(Ps(150), 100), 404, "no limit but the requests'");
}

#[test]
fn memguard_by_hand() {
    // Errata 3.7: events of a period are floor(BW P / 64); 100 MB/s in 1 ms are 1562.5.
    assert_eq!(Regulator::lines_of(100_000_000, Ps::from_ns(1_000_000)), 1562);
    // A defect seen elsewhere: from 2048 us on, 32 bits overflow.
    assert_eq!(Regulator::lines_of(100_000_000, Ps::from_ns(4_096_000)), 6400);
    let regulator = Interference::Regulator(Regulator::new(Ps(100), 10, Ps(2)).unwrap());
    // 25 lines: once for what was before, twice for themselves, 82 each, since the first of ten lines can come at once; but in 50 ticks
    // two periods at most.
    assert_eq!((regulator.delay(Ps(1000), 25), regulator.delay(Ps(50), 25)), (246, 164));
    // A skid of 5 from before makes it 30 lines, and leaves 4 distances in a period.
    let skid = Regulator::new(Ps(100), 10, Ps(2)).unwrap().counting(0, 5).unwrap();
    assert_eq!(Interference::Regulator(skid).delay(Ps(1000), 25), 4 * 92);
    let half = Regulator::new(Ps(100), 5, Ps(0)).unwrap();
    assert!(reservations_fit(&[half, half], 10, Ps(100)) && !reservations_fit(&[half, half], 9, Ps(100)));
    // Quanta and skids count, for each core.
    let counted = half.counting(2, 1).unwrap();
    assert!(reservations_fit(&[counted, counted], 16, Ps(100)) && !reservations_fit(&[counted, counted], 15, Ps(100)));

    // Two underruns that need a line each, of 100 ticks; the other two of four periods are full.
    let soft = Regulator::new(Ps(100), 10, Ps(2)).unwrap().reclaiming();
    assert_eq!(Interference::Regulator(soft).delay(Ps(300), 25), 2 * 100 + 2 * 82);
    // A line for the second underrun; the one that is left uses up nothing, but one budget was used up before.
    assert_eq!(Interference::Regulator(soft).delay(Ps(300), 2), 2 * 100 + 82);
    // Four periods begin, and one budget can have been used up before; grants of 4, 4 and 2 end with 9 lines, and once more in each.
    let counting = Regulator::new(Ps(100), 10, Ps(10)).unwrap().counting(4, 0).unwrap().overhead(Ps(3)).unwrap();
    assert_eq!(Interference::Regulator(counting).delay(Ps(300), 9), 10 + 3 * (4 + 9 / 4 + 4 + 1));
    assert_eq!(Interference::Regulator(counting).delay(Ps(300), 900), 4 * 10 + 3 * (4 + 4 * 3));
    // Each end of a grant takes a line.
    assert_eq!(Interference::Regulator(counting).delay(Ps(300), 3), 10 + 3 * (4 + 3 + 1));
}

#[test]
fn donations_change_who_moves_lines_and_not_how_many() {
    let regulator = Regulator::new(Ps(100), 10, Ps(0)).unwrap().counting(2, 1).unwrap();
    let banks = |regulator, donated, cores| {
        let core = Neighbour { tasks: None, regulator: Some(regulator), donated };
        let neighbours = vec![core; cores];
        Interference::Banks(Banks { request_delay: Ps(1), neighbours, private_banks: true, requests_at_once_max: 1 })
    };
    // Three periods, each with 10 + 1, a quantum from before and a line on its way, for each of two cores.
    assert_eq!(banks(regulator, 0, 2).delay(Ps(200), 1 << 60), 2 * (3 * 11 + 2 + 1));
    let soft = regulator.reclaiming();
    assert_eq!(banks(soft, 0, 2).delay(Ps(200), 1 << 60), 2 * (3 * 11 + 2 + 1), "among themselves");
    assert_eq!(banks(soft, 7, 2).delay(Ps(200), 1 << 60), 2 * (3 * 11 + 2 + 1) + 3 * 7, "and of a third core");
    // Best-effort sharing: only this core's own requests are a limit.
    assert_eq!(banks(soft.sharing_spare(), 7, 2).delay(Ps(200), 49), 2 * 50);
}

#[test]
fn what_a_theorem_asks_for_is_asked() {
    let plain = TaskSet::new([TaskSpec::new("a", Ps(10), Ps(2)).lines(1)]).unwrap();
    let right = Banks { request_delay: Ps(1), neighbours: Vec::new(), private_banks: true, requests_at_once_max: 1 };
    let regulator = Interference::Regulator(Regulator::new(Ps(100), 1, Ps(0)).unwrap());
    let decide = |set: &TaskSet, preemption, term: &Interference| {
        fixed_priority_with(set, &in_order(set), preemption, std::slice::from_ref(term), Effort::default())
    };
    let banks = Interference::Banks(right.clone());
    assert!(decide(&plain, Preemption::Full, &banks).is_schedulable());
    for wrong in [Banks { private_banks: false, ..right.clone() }, Banks { requests_at_once_max: 10, ..right }] {
        let verdict = decide(&plain, Preemption::Full, &Interference::Banks(wrong));
        assert!(matches!(verdict, Verdict::Unsupported(Unsupported::Platform { .. })), "{verdict:?}");
    }
    assert!(matches!(decide(&plain, Preemption::None, &banks), Verdict::Unsupported(Unsupported::Platform { .. })));
    let silent = TaskSet::new([TaskSpec::new("a", Ps(10), Ps(2))]).unwrap();
    let blocked = TaskSet::new([TaskSpec::new("a", Ps(10), Ps(2)).lines(1).blocking(Ps(1))]).unwrap();
    for set in [silent, blocked] {
        let verdict = decide(&set, Preemption::Full, &regulator);
        assert!(
            matches!(verdict, Verdict::Unsupported(Unsupported::Precondition { task: TaskIndex(0), .. })),
            "{verdict:?}"
        );
    }
    // A bound that does not fit is no no.
    let roomy = Interference::Regulator(Regulator::new(Ps(100), 20, Ps(0)).unwrap());
    let verdict = decide(&plain, Preemption::Full, &roomy);
    assert!(matches!(verdict, Verdict::Unsupported(Unsupported::Bound(_))), "{verdict:?}");
    let tight = TaskSet::new([TaskSpec::new("a", Ps(10), Ps(9)).lines(9)]).unwrap();
    let verdict = decide(&tight, Preemption::Full, &regulator);
    assert!(matches!(verdict, Verdict::Unsupported(Unsupported::Load(_))), "{verdict:?}");
    assert!(matches!(decide(&plain, Preemption::Full, &regulator), Verdict::Unsupported(Unsupported::Load(_))));
    assert_eq!(
        Regulator::new(Ps(10), 20, Ps(1)).unwrap_err().to_string(),
        "regulator: line_min is 1 ps; accepted is 0 ps to 0 ps"
    );
}

#[test]
fn no_terms_change_nothing_and_too_much_refresh_is_a_no() {
    let mut random = Random::new(76);
    for round in 0..500 {
        let set = random_set(&mut random, Shape { tasks: 4, period: 12, jitter: 2, blocking: 2, deadline: 2 });
        let order = in_order(&set);
        for preemption in [Preemption::Full, Preemption::None] {
            let plain = fixed_priority(&set, &order, preemption, Effort::default());
            assert_eq!(fixed_priority_with(&set, &order, preemption, &[], Effort::default()), plain, "round {round}");
            for (period, stall) in [(3, 4), (5, 5), (7, 6)] {
                let terms = [refresh(period, stall)];
                match fixed_priority_with(&set, &order, preemption, &terms, Effort::default()) {
                    Verdict::Unschedulable(late) => assert!(late.demand_ps > late.window_ps, "round {round}: {late:?}"),
                    Verdict::Schedulable(_) => assert_eq!((period, stall), (7, 6), "round {round}"),
                    Verdict::Unsupported(Unsupported::Bound(late)) => {
                        assert_eq!((preemption, period), (Preemption::None, 7));
                        assert!(late.demand_ps > late.window_ps, "round {round}: {late:?}");
                    }
                    Verdict::Unsupported(reason) => panic!("round {round}: {reason:?} {set:?}"),
                }
            }
        }
    }
}
