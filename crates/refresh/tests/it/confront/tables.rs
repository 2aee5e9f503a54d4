//! Cyclic executives with colors.

use super::machine::{CYCLE_PS, Dispatch, Hardware, Scheme, run, words};
use super::sets::Own;
use memtint_hiding::cyclic::{
    Answer, Footprint, Frames, Limits, Problem, RankOrder, RefreshedMemory, Sharing, Slicing, Solution, color,
};
use memtint_sched::{TaskIndex, TaskSet, TaskSpec};
use memtint_sim::scenario::{ScenarioSpec, SchedulingName, SlotSection, TableSection, Time};
use memtint_units::Picoseconds as Ps;
use memtint_units::Random;

const SETS: u64 = 300;
/// Copy tasks of an executive.
const COPIES_MAX: u32 = 2;

/// Frames that divide half of tRET, in references.
const FRAMES: [u64; 2] = [800, 1600];
/// Periods that divide tRET, in references, and what WCETs are multiples of: the search for the fewest slices is for few frames and
/// few different sums.
const PERIODS: [u64; 3] = [1600, 3200, 6400];
const PART: u64 = 200;

fn problem(random: &mut Random, machine: &Hardware) -> Option<Problem> {
    let (reference, retention) = (machine.reference, machine.locks.period);
    let frame = FRAMES[random.within(0, 1) as usize] * reference;
    let count = random.within(1, 3);
    let mut left = random.within(30, 99);
    let specs = (0..count).map(|index| {
        let period = PERIODS[random.within(0, PERIODS.len() as u64 - 1) as usize];
        let percent = if index + 1 == count { left } else { random.within(1, left.max(2) * 2 / 3) }.min(left);
        left -= percent;
        let wcet = (period * percent / 100 / PART).max(1) * PART;
        TaskSpec::new(format!("t{index}"), Ps(period * reference), Ps(wcet * reference))
    });
    let set = TaskSet::new(specs.collect::<Vec<_>>()).unwrap();
    let memory = RefreshedMemory::new(Ps(retention), 2, Ps(machine.rfc), RankOrder::Parallel).unwrap();
    let frames = Frames { size: Ps(frame), color: Ps(retention / 2) };
    let problem = Problem::new(set, memory, frames, vec![Footprint::default(); count as usize]).ok()?;
    let slicing = if random.within(0, 2) == 0 { Slicing::WholeFrames } else { Slicing::Free };
    Some(problem.sharing(Sharing::Shared).slicing(slicing))
}

/// The longest response of each instance, as the table has it.
fn responses(solution: &Solution, set: &TaskSet, instances: &[(usize, usize)]) -> Vec<u64> {
    let mut ends = std::collections::BTreeMap::new();
    for slot in &solution.executive.slots {
        let (instance, end) = ends.entry(slot.id).or_insert((slot.instance, 0));
        assert_eq!(*instance, slot.instance, "a job is of one instance");
        *end = slot.end.0.max(*end);
    }
    let longest = |&(task, instance): &(usize, usize)| {
        let own = ends.iter().filter(|(id, (its, _))| (id.task, *its) == (TaskIndex(task), instance));
        own.map(|(id, (_, end))| end - id.job * set.tasks()[task].period().0).max().unwrap_or(0)
    };
    instances.iter().map(longest).collect()
}

fn confront(random: &mut Random, machine: &Hardware, counts: &mut [u64; 3]) {
    let Some(problem) = problem(random, machine) else { return };
    let solution = match color(&problem, Limits { nodes_max: 20, copies_max: COPIES_MAX }) {
        Answer::Schedulable(solution) => solution,
        Answer::Unschedulable(_) => return counts[1] += 1,
        Answer::Unsupported(_) => return counts[2] += 1,
    };
    counts[0] += 1;
    let (executive, set) = (&solution.executive, problem.set());
    let of_task =
        |(task, own): (usize, &Vec<_>)| (0..own.len()).map(move |instance| (task, instance)).collect::<Vec<_>>();
    let instances: Vec<(usize, usize)> = executive.instances.iter().enumerate().flat_map(of_task).collect();
    let place = |wanted: (usize, usize)| instances.iter().position(|&one| one == wanted).unwrap();
    let own = |&(task, instance): &(usize, usize)| {
        let colors = executive.instances[task][instance].colors.colors();
        assert_eq!(colors.len(), 1, "a rank each");
        let (task, rank) = (&set.tasks()[task], u64::from(colors[0]));
        let references = task.wcet().0 / machine.reference;
        Own { period: task.period().0, deadline: task.deadline().0, jitter: 0, references, rank }
    };
    let tasks: Vec<Own> = instances.iter().map(own).collect();
    let time = |cycles: u64| Time(Ps(cycles * CYCLE_PS));
    let slots = executive.slots.iter().map(|slot| SlotSection {
        task: format!("t{}", place((slot.id.task.index(), slot.instance))),
        start: time(slot.start.0),
        length: time(slot.end.0 - slot.start.0),
        core: None,
    });
    let table = TableSection { cycle: time(executive.cycle.0), core: 0, slot: slots.collect() };
    let used = |&index: &usize| table.slot.iter().any(|slot| slot.task == format!("t{index}"));
    if !(0..tasks.len()).all(|index| used(&index)) {
        // An instance without a job.
        return;
    }
    let dispatch = Dispatch::Priorities(vec![0; tasks.len()]);
    let change = |spec: &mut ScenarioSpec| {
        (spec.system.scheduling, spec.table) = (SchedulingName::Table, Some(table.clone()));
        for (index, &(task, instance)) in instances.iter().enumerate() {
            if instance > 0 {
                spec.tasks[index].copy_of = Some(format!("t{}", place((task, 0))));
                spec.tasks[index].job = None;
            }
        }
    };
    let scenario = machine.scenario(&tasks, &vec![0; tasks.len()], &dispatch, change);
    let end = 2 * executive.cycle.0;
    for ((seen, expected), own) in run(&scenario, end).iter().zip(responses(&solution, set, &instances)).zip(&instances)
    {
        assert_eq!((seen.worst, seen.misses), (expected, 0), "{own:?} of\n{}", words(&scenario, end));
    }
}

#[test]
fn jobs_of_cyclic_executives_end_when_the_table_says() {
    let machines = [1, 4].map(|density| Hardware::new(Scheme::Frames, density));
    let mut counts = [0; 3];
    for round in 0..SETS {
        let mut random = Random::new(0x7ab1_0000 + round);
        confront(&mut random, &machines[round as usize % 2], &mut counts);
    }
    let [yes, no, open] = counts;
    println!("tables: {SETS} problems, {yes} with a table that was run, {no} without one, {open} open");
    assert!(yes >= 30 && no >= 5, "{counts:?}");
}
