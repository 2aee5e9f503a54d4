//! Copy tasks of Colored Refresh Servers: two servers on a core, one for each rank, and short tasks with an instance in both.
//!
//! The machine chooses whose a job is; the analysis knows nothing of how. Copies take no time here, so that all times are whole references
//! and nothing is left to margins.

use super::machine::{Dispatch, Hardware, Scheme, run, words};
use super::servers::{dispatch, refresh, serve, tasks};
use super::sets::shuffled;
use memtint_hiding::crs::{Copied, Core, Kind, Server, System, judge};
use memtint_sched::{Effort, Policy, Preemption, Priorities, TaskIndex, TaskSet, TaskSpec, Verdict};
use memtint_sim::scenario::{ScenarioSpec, Time};
use memtint_units::Picoseconds as Ps;
use memtint_units::Random;

const SETS: u64 = 120;
const JUDGED_EVENTS: u64 = 20_000;
const EFFORT: Effort = Effort { steps_max: 200_000 };

fn system(random: &mut Random, machine: &Hardware) -> Option<System> {
    let (reference, locks) = (machine.reference, &machine.locks);
    let refresh = refresh(locks);
    let spec = |name: String, period: u64, wcet: u64, deadline: u64| {
        TaskSpec::new(name, Ps(period * reference), Ps(wcet * reference)).deadline(Ps(deadline * reference))
    };
    // Periods from a third of a lock on.
    let locked = locks.length / reference;
    let shared: Vec<TaskSpec> = (0..random.within(1, 2))
        .map(|index| {
            let period = random.within(locked / 3, 2 * locked);
            let deadline = random.within(period * 3 / 4, period);
            spec(format!("short {index}"), period, (period * random.within(2, 8) / 100).max(1), deadline)
        })
        .collect();
    let servers = (0..2).map(|index| {
        let period = random.within(10, 40);
        let budget = if index == 0 { period * random.within(30, 60) / 100 } else { period };
        let ordinary = (0..random.within(0, 2)).map(|task| {
            let period = random.within(5 * locked, 30 * locked);
            spec(format!("s{index} t{task}"), period, (period * random.within(3, 15) / 100).max(1), period)
        });
        let tasks = TaskSet::new(ordinary.chain(shared.clone()).collect::<Vec<_>>()).unwrap();
        let count = tasks.tasks().len();
        let order = shuffled(random, count);
        let policy = match random.within(0, 2) {
            0 => Policy::FixedPriority(Priorities::given(&tasks, order).unwrap(), Preemption::Full),
            _ => Policy::Edf,
        };
        let kind = if random.within(0, 2) == 0 { Kind::IdleConsuming } else { Kind::Deferrable };
        Server { group: index, period: Ps(period * reference), budget: Ps(budget * reference), kind, tasks, policy }
    });
    let servers: Vec<Server> = servers.collect();
    let place = |server: usize, name: &str| {
        let at = servers[server].tasks.tasks().iter().position(|task| task.name() == name);
        (server, TaskIndex(at.unwrap()))
    };
    let copied =
        shared.iter().map(|spec| Copied { core: 0, instances: [0, 1].map(|server| place(server, &spec.name)) });
    let copied = copied.collect();
    System::new(2, refresh, vec![Core { servers }]).ok()?.with_copies(copied).ok()
}

#[derive(Debug, Default)]
struct Counts {
    systems: u64,
    yes: u64,
    /// Servers of these, with earliest deadlines and with priorities.
    servers: [u64; 2],
    jobs: u64,
    /// Of all responses the largest, in thousandths of its bound.
    largest_permille: u64,
}

fn confront(random: &mut Random, machine: &Hardware, counts: &mut Counts) {
    let Some(system) = system(random, machine) else { return };
    counts.systems += 1;
    let Verdict::Schedulable(witness) = judge(&system, EFFORT, JUDGED_EVENTS).unwrap() else { return };
    counts.yes += 1;
    let (tasks, places) = tasks(&system, machine);
    let servers = &system.cores()[0].servers;
    let original = |place: (usize, usize)| {
        let own = system.copied().iter().find(|own| own.instances[1] == (place.0, TaskIndex(place.1)))?;
        places.iter().position(|&(server, task)| (server, TaskIndex(task)) == own.instances[0])
    };
    let reference = machine.reference;
    let phases: Vec<u64> =
        servers.iter().map(|server| random.within(0, server.period.0 / reference - 1) * reference).collect();
    let later: Vec<u64> =
        tasks.iter().map(|task| (100 + random.within(0, task.period / reference)) * reference).collect();
    let change = |spec: &mut ScenarioSpec| {
        serve(spec, &system, &places, &phases);
        for (index, &place) in places.iter().enumerate() {
            if let Some(first) = original(place) {
                spec.tasks[index].copy_of = Some(format!("t{first}"));
                spec.tasks[index].copy = Time::default();
                spec.tasks[index].job = None;
            }
        }
    };
    let dispatch: Dispatch = dispatch(&system, &places);
    let scenario = machine.scenario(&tasks, &later, &dispatch, change);
    let end = 2 * machine.locks.period;
    for (&(server, task), seen) in places.iter().zip(run(&scenario, end)) {
        let bound = witness.proof.cores[0][server].responses[task].0;
        let words = || words(&scenario, end);
        assert!(seen.worst <= bound, "s{server} t{task}: {} cycles, bound {bound}, of\n{}", seen.worst, words());
        assert_eq!(seen.misses, 0, "s{server} t{task} of\n{}", words());
        counts.jobs += seen.jobs;
        counts.largest_permille = counts.largest_permille.max(seen.worst * 1000 / bound);
    }
    for server in servers {
        counts.servers[usize::from(server.policy != Policy::Edf)] += 1;
    }
}

#[test]
fn copied_tasks_keep_their_bounds_and_no_job_waits_for_a_lock() {
    let machines = [1, 4].map(|density| Hardware::new(Scheme::Colors, density));
    let mut counts = Counts::default();
    for round in 0..SETS {
        let mut random = Random::new(0xc0b1_0000 + round);
        confront(&mut random, &machines[round as usize % 2], &mut counts);
    }
    println!("copies: {counts:?}");
    assert!(counts.yes >= 30 && counts.servers.iter().all(|&servers| servers >= 15), "{counts:?}");
}
