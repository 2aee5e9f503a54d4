//! Colored Refresh Servers.
//!
//! All times are whole references, so that nothing is left to margins: what the analysis says happens to the cycle.
//!
//! The analysis is exact for servers whose times are known, and only sufficient below a deferrable server and for a deferrable
//! one that can run out of budget ([`judge`]). Most systems that it leaves open are of this kind: budgets and locks together take
//! the whole core, and little of a deferrable budget is then sure in any one window. For these, phases of tasks and servers that
//! make a job late are looked for: where there are some, no analysis could have said yes.

use super::machine::{CYCLE_PS, Dispatch, Hardware, Locks, Scheme, is_late_by, parse, run, words};
use super::sets::Own;
use memtint_hiding::crs::{Core, Inner, Kind, RankGroup, Refresh, Server, System, Timeline, What, judge, timeline};
use memtint_sched::{Effort, TaskSet, TaskSpec, Verdict};
use memtint_sim::scenario::{ScenarioServer, ScenarioSpec, Time};
use memtint_sim::{ServerKind, ServerScheduling};
use memtint_units::Picoseconds as Ps;
use memtint_units::Random;
use std::collections::HashMap;

const SETS: u64 = 300;
/// A timeline, and a run, has about so many events ...
const EVENTS: u64 = 1000;
/// ... and one that the analysis looks through so many.
const JUDGED_EVENTS: u64 = 20_000;
const EFFORT: Effort = Effort { steps_max: 200_000 };
/// Phases that are tried to make a job late.
const ROUNDS: u64 = 200;

/// Two ranks, each locked for itself.
pub(crate) fn refresh(locks: &Locks) -> Refresh {
    let group = |rank: u64| {
        let phase = Ps(rank * locks.period / 2);
        RankGroup { ranks: vec![rank as u32], phase, burst: Ps(locks.length - locks.lock) }
    };
    Refresh {
        retention: Ps(locks.period),
        lock: Ps(locks.lock),
        unlock: Ps(locks.unlock),
        groups: vec![group(0), group(1)],
    }
}

fn system(random: &mut Random, machine: &Hardware) -> System {
    let reference = machine.reference;
    let refresh = refresh(&machine.locks);
    let count = random.within(2, 3);
    let mut share = 100;
    let servers = (0..count).map(|index| {
        let percent = if index + 1 == count { share } else { random.within(share / 4, share * 2 / 3) };
        share -= percent;
        let period = random.within(40, 300);
        let budget = (period * percent / 100).max(1);
        let mut left = percent * random.within(10, 80) / 100;
        let specs = (0..random.within(1, 3)).map(|task| {
            let own = if task == 0 { left * 2 / 3 } else { left / 2 };
            left -= own;
            let length = period * random.within(3, 12) + random.within(0, period);
            let wcet = (length * own / 100).max(1);
            let deadline = if random.within(0, 1) == 0 { length } else { random.within(length / 2, length).max(wcet) };
            let name = format!("s{index} t{task}");
            TaskSpec::new(name, Ps(length * reference), Ps(wcet * reference)).deadline(Ps(deadline * reference))
        });
        let tasks = TaskSet::new(specs.collect::<Vec<_>>()).unwrap();
        let inner = if random.within(0, 1) == 0 { Inner::Edf } else { Inner::RateMonotonic };
        let kind = if random.within(0, 2) == 0 { Kind::IdleConsuming } else { Kind::Deferrable };
        let (period, budget, policy) = (Ps(period * reference), Ps(budget * reference), inner.policy(&tasks));
        Server { group: random.within(0, 1) as usize, period, budget, kind, tasks, policy }
    });
    System::new(2, refresh, vec![Core { servers: servers.collect() }]).unwrap()
}

/// The tasks of all servers, in order, with the server and place of each.
pub(crate) fn tasks(system: &System, machine: &Hardware) -> (Vec<Own>, Vec<(usize, usize)>) {
    let mut all = (Vec::new(), Vec::new());
    for (index, server) in system.cores()[0].servers.iter().enumerate() {
        for (place, task) in server.tasks.tasks().iter().enumerate() {
            let (period, deadline, references) =
                (task.period().0, task.deadline().0, task.wcet().0 / machine.reference);
            all.0.push(Own { period, deadline, jitter: 0, references, rank: server.group as u64 });
            all.1.push((index, place));
        }
    }
    all
}

pub(crate) fn serve(spec: &mut ScenarioSpec, system: &System, places: &[(usize, usize)], phases: &[u64]) {
    let time = |cycles: u64| Time(Ps(cycles * CYCLE_PS));
    let section = |(index, server): (usize, &Server)| ScenarioServer {
        name: format!("s{index}"),
        core: 0,
        period: time(server.period.0),
        budget: time(server.budget.0),
        phase: time(phases[index]),
        priority: None,
        kind: match server.kind {
            Kind::Deferrable => ServerKind::Deferrable,
            Kind::IdleConsuming => ServerKind::IdleConsuming,
        },
        scheduling: match server.policy {
            memtint_sched::Policy::FixedPriority(..) => ServerScheduling::FixedPriority,
            _ => ServerScheduling::Edf,
        },
        ranks: Some(server.group.to_string()),
    };
    spec.servers = system.cores()[0].servers.iter().enumerate().map(section).collect();
    for (task, &(server, _)) in spec.tasks.iter_mut().zip(places) {
        task.server = Some(format!("s{server}"));
    }
}

/// When each job of a timeline is complete: by server, task and job, from 0.
fn completions(timeline: &Timeline, system: &System) -> HashMap<(usize, usize, u64), u64> {
    let (mut had, mut done) = (HashMap::new(), HashMap::new());
    for run in &timeline.runs {
        if let What::Job { server, task, job } = run.what {
            let so_far = had.entry((server, task.index(), job)).or_insert(0);
            *so_far += run.end.0 - run.start.0;
            if *so_far == system.cores()[0].servers[server].tasks[task].wcet().0 {
                done.insert((server, task.index(), job), run.end.0);
            }
        }
    }
    done
}

/// The longest response of a task without phase in a timeline, of the jobs that are complete in it; 0 of none.
fn response(timeline: &Timeline, system: &System, place: (usize, usize)) -> u64 {
    let period = system.cores()[0].servers[place.0].tasks.tasks()[place.1].period().0;
    let done = completions(timeline, system).into_iter().filter(|((server, task, _), _)| (*server, *task) == place);
    done.map(|((.., job), end)| end - job * period).max().unwrap_or(0)
}

/// Of all jobs whose deadlines are in a timeline the longest response, in thousandths of its deadline; `None` when one is late.
fn longest(system: &System) -> Option<u64> {
    let timeline = timeline(system, EVENTS);
    let done = completions(&timeline, system);
    let mut most = 0;
    for (server, own) in system.cores()[0].servers.iter().enumerate() {
        for (place, task) in own.tasks.tasks().iter().enumerate() {
            let arrivals = (task.phase().0..).step_by(task.period().0 as usize);
            let due = arrivals.take_while(|arrival| arrival + task.deadline().0 <= timeline.window.0);
            for (job, arrival) in (0..).zip(due) {
                let response = done.get(&(server, place, job))? - arrival;
                most = most.max(response * 1000 / task.deadline().0);
            }
        }
    }
    (most <= 1000).then_some(most)
}

/// When tasks and servers begin, in references.
#[derive(Clone)]
struct Phases {
    /// Of each task, from the beginning of servers on.
    tasks: Vec<u64>,
    servers: u64,
}

/// The system seen from the beginning of servers, so many references after that of the timetable; `None` where a lock
/// would have begun before.
fn shifted(system: &System, phases: &Phases, reference: u64) -> Option<System> {
    let mut refresh = system.refresh().clone();
    for group in &mut refresh.groups {
        group.phase.0 = (group.phase.0 + refresh.retention.0 - phases.servers * reference) % refresh.retention.0;
    }
    let mut own = phases.tasks.iter();
    let mut later = |task: &memtint_sched::Task| task.spec().phase(Ps(own.next().unwrap() * reference));
    let servers = system.cores()[0].servers.iter().map(|server| {
        let tasks = TaskSet::new(server.tasks.tasks().iter().map(&mut later).collect::<Vec<_>>()).unwrap();
        Server { tasks, ..server.clone() }
    });
    let servers = servers.collect();
    System::new(system.ranks(), refresh, vec![Core { servers }]).ok()
}

/// Looks for phases in which a job is late: from some to others that make no response shorter, one change at a time. Jobs that
/// come as their server has just used up its budget wait the longest.
fn late_phases(random: &mut Random, system: &System, reference: u64) -> Option<Phases> {
    let servers = &system.cores()[0].servers;
    let tasks =
        servers.iter().enumerate().flat_map(|(index, own)| own.tasks.tasks().iter().map(move |task| (index, task)));
    let (owners, periods): (Vec<usize>, Vec<u64>) =
        tasks.map(|(index, task)| (index, task.period().0 / reference)).unzip();
    let mut phases = Phases { tasks: vec![0; periods.len()], servers: 0 };
    let mut most = 0;
    for _ in 0..ROUNDS {
        let mut tried = phases.clone();
        let task = random.within(0, periods.len() as u64 - 1) as usize;
        match random.within(0, 4) {
            0 => tried.servers = random.within(0, system.refresh().retention.0 / reference - 1),
            1 | 2 => tried.tasks[task] = random.within(0, periods[task] - 1),
            which => {
                let runs = timeline(&shifted(system, &phases, reference)?, EVENTS).runs;
                let of_server =
                    |what| matches!(what, What::Job { server, .. } | What::Held { server } if server == owners[task]);
                let ends: Vec<u64> =
                    runs.iter().filter(|run| of_server(run.what)).map(|run| run.end.0 / reference).collect();
                let Some(last) = ends.len().checked_sub(1) else { continue };
                let end = ends[random.within(0, last as u64) as usize];
                // One task of the server then, or all.
                for other in
                    (0..periods.len()).filter(|&other| other == task || which == 4 && owners[other] == owners[task])
                {
                    tried.tasks[other] = end % periods[other];
                }
            }
        }
        let Some(now) = shifted(system, &tried, reference) else { continue };
        match longest(&now) {
            None => return Some(tried),
            Some(found) if found >= most => (most, phases) = (found, tried),
            Some(_) => {}
        }
    }
    None
}

/// What all systems came to.
#[derive(Debug, Default)]
struct Counts {
    yes: u64,
    /// No, and late in the simulation: with all together, with all together but later than was simulated first, and in other phases.
    no: [u64; 3],
    /// No answer, but late in some phases.
    late: u64,
    open: u64,
}

fn confront(random: &mut Random, machine: &Hardware, counts: &mut Counts) {
    let system = system(random, machine);
    let servers = &system.cores()[0].servers;
    let (tasks, places) = tasks(&system, machine);
    let dispatch = dispatch(&system, &places);
    let verdict = judge(&system, EFFORT, JUDGED_EVENTS).unwrap();
    let timeline = timeline(&system, EVENTS);

    // As the timeline has it: everything begins at 0.
    let end = timeline.window.0;
    let together = vec![0; servers.len()];
    let scenario =
        machine.scenario(&tasks, &vec![0; tasks.len()], &dispatch, |spec| serve(spec, &system, &places, &together));
    let seen = run(&scenario, end);
    for (&place, seen) in places.iter().zip(&seen) {
        let expected = response(&timeline, &system, place);
        let words = || words(&scenario, end);
        assert_eq!(seen.worst, expected, "task {place:?}: cycles, and those of the timeline, of\n{}", words());
    }
    match verdict {
        Verdict::Schedulable(witness) => {
            counts.yes += 1;
            // Any phases, of tasks and servers.
            let reference = machine.reference;
            let mut phase = |period: u64| random.within(0, period / reference) * reference;
            let later: Vec<u64> = tasks.iter().map(|task| phase(task.period)).collect();
            let begin: Vec<u64> = servers.iter().map(|server| phase(server.period.0) % server.period.0).collect();
            // Bounds hold once all servers have a budget.
            let first = servers.iter().map(|server| server.period.0).max().unwrap_or(0);
            let later: Vec<u64> = later.into_iter().map(|phase| phase + first).collect();
            let scenario = machine.scenario(&tasks, &later, &dispatch, |spec| serve(spec, &system, &places, &begin));
            let end = end.max(2 * machine.locks.period);
            for (&(server, task), seen) in places.iter().zip(run(&scenario, end)) {
                let bound = witness.proof.cores[0][server].responses[task].0;
                let words = || words(&scenario, end);
                assert!(
                    seen.worst <= bound,
                    "s{server} t{task}: {} cycles, bound {bound}, of\n{}",
                    seen.worst,
                    words()
                );
                assert_eq!(seen.misses, 0, "s{server} t{task} of\n{}", words());
            }
        }
        Verdict::Unschedulable(late) if seen[late.task.index()].misses > 0 => counts.no[0] += 1,
        Verdict::Unschedulable(late) => {
            let end = memtint_hiding::crs::timeline(&system, JUDGED_EVENTS).window.0;
            if is_late_by(&scenario, end, machine.locks.period, |task| task == late.task.index()) {
                counts.no[1] += 1;
            } else {
                let phases = late_phases(random, &system, machine.reference);
                let phases = phases.unwrap_or_else(|| panic!("no witness of {late:?} in\n{}", words(&scenario, end)));
                assert_late(machine, &system, &phases);
                counts.no[2] += 1;
            }
        }
        Verdict::Unsupported(_) => match late_phases(random, &system, machine.reference) {
            Some(phases) => {
                assert_late(machine, &system, &phases);
                counts.late += 1;
            }
            None => counts.open += 1,
        },
    }
}

/// What is late in a timeline is late in the simulation.
fn assert_late(machine: &Hardware, system: &System, phases: &Phases) {
    let servers = &system.cores()[0].servers;
    let begin = phases.servers * machine.reference;
    let (tasks, places) = tasks(system, machine);
    let later: Vec<u64> = phases.tasks.iter().map(|phase| begin + phase * machine.reference).collect();
    let change = |spec: &mut ScenarioSpec| {
        let first: Vec<u64> = servers.iter().map(|_| begin).collect();
        serve(spec, system, &places, &first);
    };
    let scenario = machine.scenario(&tasks, &later, &dispatch(system, &places), change);
    let end = begin + timeline(&shifted(system, phases, machine.reference).unwrap(), EVENTS).window.0;
    let late = is_late_by(&scenario, end, machine.locks.period, |_| true);
    assert!(late, "nobody is late, as in the timeline, in\n{}", words(&scenario, end));
}

/// Priorities of the tasks in their servers.
pub(crate) fn dispatch(system: &System, places: &[(usize, usize)]) -> Dispatch {
    let rank = |(server, task): &(usize, usize)| match &system.cores()[0].servers[*server].policy {
        memtint_sched::Policy::FixedPriority(order, _) => {
            order.order().iter().position(|index| index.index() == *task).unwrap_or_default()
        }
        _ => 0,
    };
    Dispatch::Priorities(places.iter().map(rank).collect())
}

#[test]
fn what_is_printed_of_a_system_runs_as_that_does() {
    let machine = Hardware::new(Scheme::Colors, 1);
    for round in 0..20 {
        let system = system(&mut Random::new(round), &machine);
        let (tasks, places) = tasks(&system, &machine);
        let (later, together) = (vec![0; tasks.len()], vec![0; system.cores()[0].servers.len()]);
        let change = |spec: &mut ScenarioSpec| serve(spec, &system, &places, &together);
        let scenario = machine.scenario(&tasks, &later, &dispatch(&system, &places), change);
        let end = machine.locks.period;
        assert_eq!(run(&parse(&words(&scenario, end)), end), run(&scenario, end));
    }
}

#[test]
fn servers_respond_as_their_timeline_and_within_their_bounds() {
    let machines = [1, 4].map(|density| Hardware::new(Scheme::Colors, density));
    let mut counts = Counts::default();
    for round in 0..SETS {
        let mut random = Random::new(0xc125_0000 + round);
        confront(&mut random, &machines[round as usize % 2], &mut counts);
    }
    println!("servers: {SETS} systems, {counts:?}");
    assert!(counts.yes >= 30 && counts.no.iter().sum::<u64>() >= 60 && counts.late >= 8, "{counts:?}");
}
