//! Are tasks put on the fewest cores, and lose the least there?

use memtint_hiding::crs::{
    Admission, Density, Form, Inner, Kind, Partition, PartitionLimits, Partitioned, RankOrder, Refresh, Space, burst,
    exhaustive, judge, partition, saturated_hiding,
};
use memtint_sched::{Effort, TaskIndex, TaskSet, TaskSpec, Unsupported};
use memtint_units::Picoseconds as Ps;
use memtint_units::Random;
use num_bigint::BigUint;
use num_rational::Ratio;

const LIMITS: PartitionLimits = PartitionLimits { cores_max: 4, nodes_max: 1_000_000, optimized_max: 100_000 };

fn random_tasks(random: &mut Random, count: u64, heavy: u64) -> TaskSet {
    let tasks = (0..count).map(|index| {
        let period = random.within(24, 60);
        let wcet = random.within(1, (period * heavy / (10 * count)).max(1));
        TaskSpec::new(format!("t{index}"), Ps(period), Ps(wcet))
            .deadline(Ps(random.within(wcet.max(period * 3 / 4), period)))
    });
    TaskSet::new(tasks.collect::<Vec<_>>()).unwrap()
}

fn random_space(random: &mut Random, round: u64) -> Space {
    let burst = Ps(random.within(1, 3));
    let refresh = Refresh { lock: Ps(random.within(0, 1)), ..Refresh::two_colors(2, Ps(48), burst) };
    let phases = vec![[Ps(24), Ps(0)], [Ps(random.within(6, 9)), Ps(0)]];
    let inner = if round.is_multiple_of(2) { Inner::Edf } else { Inner::RateMonotonic };
    let kind = if round % 4 < 2 { Kind::Deferrable } else { Kind::IdleConsuming };
    Space::new(2, refresh, phases, Ps(1), Ps(3), kind, inner).unwrap()
}

/// All ways to put so many tasks on cores that are not told apart: the core of each task.
fn ways(tasks: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for _ in 0..tasks {
        let next = |way: &Vec<usize>| {
            let used = way.iter().max().map_or(0, |last| last + 1);
            (0..=used).map(|core| way.iter().copied().chain([core]).collect()).collect::<Vec<Vec<usize>>>()
        };
        all = all.iter().flat_map(next).collect();
    }
    all
}

/// The best by trying everything: cores, and what they lose.
fn best(set: &TaskSet, space: &Space) -> Option<(usize, Ratio<BigUint>)> {
    let count = set.tasks().len();
    let mut costs: Vec<Vec<Option<Option<Ratio<BigUint>>>>> = vec![vec![None; 1 << count]; space.phases().len()];
    let mut least: Option<(usize, Ratio<BigUint>)> = None;
    for (index, &phases) in space.phases().iter().enumerate() {
        let mut refresh = space.refresh().clone();
        refresh.groups[0].phase = phases[0];
        refresh.groups[1].phase = phases[1];
        let (unit, kind) = (Ps(1), kind_of(space));
        let one = Space::new(2, refresh, vec![phases], unit, Ps(3), kind, space.inner()).unwrap();
        for way in ways(count) {
            let cores = way.iter().max().unwrap() + 1;
            let mut sum = Some(Ratio::from_integer(BigUint::ZERO));
            for core in 0..cores {
                let mask = (0..count).filter(|&task| way[task] == core).fold(0, |mask, task| mask | 1 << task);
                let cost = costs[index][mask].get_or_insert_with(|| {
                    let own = (0..count).filter(|task| mask >> task & 1 == 1).map(|task| set.tasks()[task].spec());
                    let own = TaskSet::new(own.collect::<Vec<_>>()).unwrap();
                    exhaustive(&own, None, &one, Admission::Supply, Effort::default())
                        .unwrap()
                        .map(|found| found.unhidden)
                });
                sum = sum.zip(cost.clone()).map(|(sum, cost)| sum + cost);
            }
            if let Some(sum) = sum
                && least.as_ref().is_none_or(|least| (cores, &sum) < (least.0, &least.1))
            {
                least = Some((cores, sum));
            }
        }
    }
    least
}

fn kind_of(space: &Space) -> Kind {
    let set = TaskSet::new([TaskSpec::new("a", Ps(9), Ps(1)), TaskSpec::new("b", Ps(9), Ps(1))]).unwrap();
    let (one, phases) = (Ps(1), space.phases()[0]);
    let choice =
        memtint_hiding::crs::Choice { periods: [one; 2], budgets: [one; 2], phases, second: vec![false, true] };
    space.system(&set, &choice).unwrap().cores()[0].servers[0].kind
}

fn right(found: &Partition, set: &TaskSet, space: &Space) {
    let mut tasks: Vec<TaskIndex> = found.cores.iter().flat_map(|share| share.tasks.clone()).collect();
    tasks.sort_unstable();
    assert!(tasks.into_iter().eq(set.indices()), "each task once");
    let system = found.system(set, space).unwrap();
    assert!(judge(&system, Effort::default(), 200_000).unwrap().is_schedulable());
    let mut sum = Ratio::from_integer(BigUint::ZERO);
    for core in 0..found.cores.len() {
        let (hiding, span) = saturated_hiding(&system, core, 10_000).unwrap();
        sum += Ratio::new(hiding.iter().map(|own| BigUint::from(own.unhidden.0)).sum::<BigUint>(), span.0.into());
    }
    assert_eq!(sum, found.unhidden);
}

#[test]
fn partitions_are_those_that_trying_everything_finds() {
    let mut random = Random::new(551);
    let (mut several, mut lossy, mut impossible) = (0, 0, 0);
    for round in 0..24 {
        let (count, heavy) = (4, random.within(7, 16));
        let set = random_tasks(&mut random, count, heavy);
        let space = random_space(&mut random, round);
        let all = best(&set, &space);
        match partition(&set, &space, LIMITS, Effort::default()).unwrap() {
            Partitioned::Found(found) => {
                assert!(found.is_optimal(), "round {round}: {found:?}");
                assert_eq!(all, Some((found.cores.len(), found.unhidden.clone())), "round {round}: {set:?} {space:?}");
                several += u32::from(found.cores.len() > 1);
                lossy += u32::from(found.unhidden > Ratio::from_integer(BigUint::ZERO));
                right(&found, &set, &space);
            }
            Partitioned::Impossible => {
                impossible += 1;
                assert_eq!(all, None, "round {round}: {set:?} {space:?}");
            }
            Partitioned::Unknown { .. } => panic!("round {round}: {set:?}"),
        }
    }
    println!("{several} on several cores, {lossy} lose time, {impossible} impossible");
    assert!(several > 2 && lossy > 2 && impossible < 12);
}

fn us(value: u64) -> Ps {
    Ps::from_ns(value * 1000)
}

#[test]
fn fifty_tasks_get_cores() {
    let mut random = Random::new(5);
    let periods = [10_000, 12_500, 16_000, 20_000, 25_000, 32_000, 40_000, 50_000, 80_000, 100_000];
    let tasks = (0..50).map(|index| {
        let period = periods[random.within(0, 9) as usize];
        TaskSpec::new(format!("t{index}"), us(period), us(period * random.within(30, 90) / 1000))
    });
    let set = TaskSet::new(tasks.collect::<Vec<_>>()).unwrap();
    let length = burst(Density::Gb2, 4, 8, RankOrder::Parallel, Form::Corrected);
    let refresh = Refresh::two_colors(8, us(64_000), length);
    let phases = vec![[us(32_000), us(0)]];
    let space = Space::new(8, refresh, phases, us(1000), us(8000), Kind::Deferrable, Inner::Edf).unwrap();
    let limits = PartitionLimits { cores_max: 6, nodes_max: 20_000, optimized_max: 60 };
    let Partitioned::Found(found) = partition(&set, &space, limits, Effort::default()).unwrap() else {
        panic!("six cores are enough")
    };
    println!(
        "{} cores of at least {}, {} of at least {}",
        found.cores.len(),
        found.cores_min,
        found.unhidden,
        found.unhidden_min
    );
    assert!(found.cores_min >= 3 && found.cores.len() <= found.cores_min + 1 && found.unhidden_min <= found.unhidden);
    right(&found, &set, &space);
}

#[test]
fn limits_leave_a_gap_and_too_few_tasks_are_refused() {
    let mut random = Random::new(8);
    let set = random_tasks(&mut random, 6, 14);
    let space = random_space(&mut random, 0);
    let few = PartitionLimits { nodes_max: 1, optimized_max: 1, ..LIMITS };
    match partition(&set, &space, few, Effort::default()).unwrap() {
        Partitioned::Found(found) => assert!(found.unhidden_min <= found.unhidden),
        Partitioned::Unknown { cores_min } => assert!(cores_min >= 1),
        Partitioned::Impossible => panic!("nothing was looked at"),
    }
    // Each core needs a task for each of its two servers.
    let heavy = |name: &str| TaskSpec::new(name, Ps(10), Ps(9));
    let set = TaskSet::new([heavy("a"), heavy("b")]).unwrap();
    assert_eq!(partition(&set, &space, LIMITS, Effort::default()), Ok(Partitioned::Impossible));
    let one = random_tasks(&mut random, 1, 1);
    let refused = partition(&one, &space, LIMITS, Effort::default());
    assert!(matches!(refused, Err(Unsupported::Precondition { task: TaskIndex(0), .. })), "{refused:?}");
}
