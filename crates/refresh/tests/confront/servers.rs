//! Colored Refresh Servers.
//!
//! All times are whole references, so that nothing is left to margins: what the analysis says happens to the cycle.

use crate::machine::{CYCLE_PS, Dispatch, Machine, Scheme, run, words};
use crate::sets::{Own, Random};
use memtint_sched::crs::{Core, Inner, Kind, RankGroup, Refresh, Server, System, Timeline, What, judge, timeline};
use memtint_sched::{Effort, TaskSet, TaskSpec, Verdict};
use memtint_sim::scenario::{ScenarioFile, ServerSection, Time};
use memtint_sim::{ServerKind, ServerScheduling};
use memtint_units::Picoseconds as Ps;

const SETS: u64 = 300;
/// A timeline, and a run, has about so many events.
const EVENTS: u64 = 1000;
const EFFORT: Effort = Effort { steps_max: 20_000 };

fn system(random: &mut Random, machine: &Machine) -> System {
    let reference = machine.reference;
    let locks = &machine.locks;
    let group = |rank: u64| {
        let phase = Ps(rank * locks.period / 2);
        RankGroup { ranks: vec![rank as u32], phase, burst: Ps(locks.length - locks.lock) }
    };
    let refresh = Refresh {
        retention: Ps(locks.period),
        lock: Ps(locks.lock),
        unlock: Ps(locks.unlock),
        groups: vec![group(0), group(1)],
    };
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
fn tasks(system: &System, machine: &Machine) -> (Vec<Own>, Vec<(usize, usize)>) {
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

fn serve(file: &mut ScenarioFile, system: &System, places: &[(usize, usize)], phases: &[u64]) {
    let time = |cycles: u64| Time(Ps(cycles * CYCLE_PS));
    let section = |(index, server): (usize, &Server)| ServerSection {
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
    file.servers = system.cores()[0].servers.iter().enumerate().map(section).collect();
    for (task, &(server, _)) in file.tasks.iter_mut().zip(places) {
        task.server = Some(format!("s{server}"));
    }
}

/// The longest response of a task in a timeline, of the jobs that are complete in it; 0 of none.
fn response(timeline: &Timeline, system: &System, (server, task): (usize, usize)) -> u64 {
    let own = &system.cores()[0].servers[server].tasks.tasks()[task];
    let mut done = std::collections::BTreeMap::new();
    for run in &timeline.runs {
        if let What::Job { server: its, task: which, job } = run.what
            && (its, which) == (server, task)
        {
            let (had, end) = done.entry(job).or_insert((0, 0));
            *had += run.end.0 - run.start.0;
            *end = run.end.0;
        }
    }
    let complete = done.into_iter().filter(|&(_, (had, _))| had == own.wcet().0);
    complete.map(|(job, (_, end))| end - job * own.period().0).max().unwrap_or(0)
}

fn confront(random: &mut Random, machine: &Machine, counts: &mut [u64; 3]) {
    let system = system(random, machine);
    let servers = &system.cores()[0].servers;
    let (tasks, places) = tasks(&system, machine);
    let ranks = |(server, task): &(usize, usize)| match &servers[*server].policy {
        memtint_sched::Policy::FixedPriority(order, _) => {
            order.order().iter().position(|index| index == task).unwrap_or_default()
        }
        _ => 0,
    };
    let dispatch = Dispatch::Priorities(places.iter().map(ranks).collect());
    let verdict = judge(&system, EFFORT, EVENTS);
    let timeline = timeline(&system, EVENTS);

    // As the timeline has it: everything begins at 0.
    let end = timeline.window.0;
    let together = vec![0; servers.len()];
    let scenario =
        machine.scenario(&tasks, &vec![0; tasks.len()], &dispatch, |file| serve(file, &system, &places, &together));
    let seen = run(&scenario, end);
    for (&place, seen) in places.iter().zip(&seen) {
        let expected = response(&timeline, &system, place);
        let words = || words(&scenario, end);
        assert_eq!(seen.worst, expected, "task {place:?}: cycles, and those of the timeline, of\n{}", words());
    }
    match verdict {
        Verdict::Schedulable(witness) => {
            counts[0] += 1;
            // Any phases, of tasks and servers.
            let reference = machine.reference;
            let mut phase = |period: u64| random.within(0, period / reference) * reference;
            let later: Vec<u64> = tasks.iter().map(|task| phase(task.period)).collect();
            let begin: Vec<u64> = servers.iter().map(|server| phase(server.period.0) % server.period.0).collect();
            // Bounds hold once all servers have a budget.
            let first = servers.iter().map(|server| server.period.0).max().unwrap_or(0);
            let later: Vec<u64> = later.into_iter().map(|phase| phase + first).collect();
            let scenario = machine.scenario(&tasks, &later, &dispatch, |file| serve(file, &system, &places, &begin));
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
        Verdict::Unschedulable(late) => {
            counts[1] += 1;
            assert!(seen[late.task].misses > 0, "no witness of {late:?} in\n{}", words(&scenario, end));
        }
        Verdict::Unsupported(_) => counts[2] += 1,
    }
}

#[test]
fn servers_respond_as_their_timeline_and_within_their_bounds() {
    let machines = [1, 4].map(|density| Machine::new(Scheme::Colors, density));
    let mut counts = [0; 3];
    for round in 0..SETS {
        let mut random = Random(0xc125_0000 + round);
        confront(&mut random, &machines[round as usize % 2], &mut counts);
    }
    let [yes, no, open] = counts;
    println!("servers: {SETS} systems, {yes} yes, {no} no with a witness each, {open} open");
    assert!(yes >= 30 && no >= 30, "{counts:?}");
}
