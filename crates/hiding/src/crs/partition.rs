//! Partitioning of tasks to cores: the fewest cores, and then the least unhidden refresh.
//!
//! The model is that of [`crs`](crate::crs): tasks never move, banks of different cores are disjoint, all cores see the
//! same locked windows, so that they share the phases of refresh and nothing else. Each core has two servers, neither
//! of them empty, and is optimized alone ([`optimize`](super::optimize())), admitted by supply ([`Admission::Supply`]):
//! every statement about a partition is proved for choices whose supply fits their tasks whatever the phases.
//! [`judge`](super::judge()) accepts others too.
//!
//! *Bounds.* A server holds no more load than the rate of its supply, and a core no more than both: its load is at most
//! the largest sum of two rates of the space, whence the fewest cores. The loss of a core to refresh depends on its
//! servers alone. Servers with a smaller sum of rates than its load are excluded; the least loss of the others is a
//! bound `f` that grows with the load. So all cores together lose at least the least sum of `f` over `m` loads whose
//! sum is that of the set.
//!
//! *Search.* Tasks, largest load first, are put on cores one by one, the least loaded first (worst fit: the first leaf
//! is the result of that heuristic), and only one empty core is tried. A branch ends when a core has more load than it
//! can hold, or when the sum of `f` is no less than the best found. A leaf is admitted if each core has an admitted
//! choice. Before that, some random orders are placed by worst fit, since a search from one corner may not reach
//! another. The search ends when a bound is reached, when no branch remains, or at its limits; in the last case the
//! result includes the proven bound.

use crate::crs::model::{Core, System};
use crate::crs::optimum::{Admission, Choice, Optimum, Space, optimize};
use crate::crs::search::CONFIGURATIONS_MAX;
use crate::crs::supply::{Plain, PlainRefresh, supply_of};
use crate::crs::timeline::Saturated;
use crate::error::HidingError;
use memtint_sched::{Effort, SchedError, Task, TaskIndex, TaskSet, Unsupported};
use memtint_units::Picoseconds;
use num_bigint::{BigInt, BigUint};
use num_rational::Ratio;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Orders drawn at random.
const DRAWN: usize = 12;

type Part = Ratio<BigUint>;

/// How far a search goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionLimits {
    /// The most cores.
    pub cores_max: usize,
    /// The most partial assignments tried, for each number of cores.
    pub nodes_max: u64,
    /// The most sets of tasks that are optimized as one core, for each number of cores.
    pub optimized_max: u64,
}

/// A core of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreShare {
    /// Its tasks, by their index in the set, ascending.
    pub tasks: Vec<TaskIndex>,
    /// Its servers; `second` is about the tasks above.
    pub choice: Choice,
    /// The part of time that it loses to refresh that is not hidden, exact.
    pub unhidden: Part,
}

/// Tasks on cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The cores; all have the same phases of refresh.
    pub cores: Vec<CoreShare>,
    /// Loss of all cores, in parts of the time of one core, exact.
    pub unhidden: Part,
    /// No partition on fewer cores is admitted: proved.
    pub cores_min: usize,
    /// No partition on as many cores as this one loses less: proved.
    pub unhidden_min: Part,
}

impl Partition {
    /// Returns whether it is proved to be the best: on the fewest cores, and with the least loss on that number of
    /// cores.
    #[must_use]
    pub fn is_optimal(&self) -> bool {
        self.cores.len() == self.cores_min && self.unhidden == self.unhidden_min
    }

    /// Gives the system.
    ///
    /// # Errors
    ///
    /// Those of [`Space::system`], for another set or space.
    pub fn system(&self, set: &TaskSet, space: &Space) -> Result<System, HidingError> {
        let mut cores: Vec<Core> = Vec::new();
        for share in &self.cores {
            let own = subset(set, &share.tasks)?;
            cores.extend(space.system(&own, &share.choice)?.cores().iter().cloned());
        }
        let phases = self.cores.first().map_or(space.phases()[0], |share| share.choice.phases);
        System::new(space.ranks(), space.phased(phases), cores)
    }
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Partitioned {
    /// The best partition found, with its proven bounds.
    Found(Partition),
    /// Proved: no partition on that number of cores is admitted.
    Impossible,
    /// No partition was found within the limits; at least `cores_min` cores are needed.
    Unknown {
        /// Fewer are proved not to be enough.
        cores_min: usize,
    },
}

/// Assigns tasks to cores, and finds the servers of each core and the phases of refresh.
///
/// # Errors
///
/// [`Unsupported::Precondition`] as [`optimize`](super::optimize()). Where that ends with [`Unsupported::Effort`] for the tasks of a core, they count as not
/// admitted, and nothing is proved by them.
///
/// # Panics
///
/// When `cores_max` is 0.
pub fn partition(
    set: &TaskSet,
    space: &Space,
    limits: PartitionLimits,
    effort: Effort,
) -> Result<Partitioned, Unsupported> {
    assert!(limits.cores_max > 0, "cores to put tasks on");
    if set.tasks().len() < 2 {
        return Err(Unsupported::Precondition { task: TaskIndex(0), needs: "a task for each of two servers" });
    }
    let bounds = Bounds::new(space);
    let load: u128 = set.tasks().iter().map(parts).sum();
    let mut cores_min = usize::try_from(load.div_ceil(bounds.most.max(1))).unwrap_or(usize::MAX).max(1);
    let most = limits.cores_max.min(set.tasks().len() / 2);
    let fewest = cores_min;
    for cores in fewest..=most {
        let mut search = Search::new(set, space, &bounds, cores, limits, effort);
        search.run()?;
        let complete = search.complete;
        if let Some(best) = search.best {
            let mut tasks: Vec<TaskIndex> = best.cores.iter().flat_map(|share| share.tasks.iter().copied()).collect();
            tasks.sort_unstable();
            assert!(tasks.into_iter().eq(set.indices()), "a partition that does not have each task once");
            let lower = if complete { best.unhidden.clone() } else { search.lower.min(best.unhidden.clone()) };
            return Ok(Partitioned::Found(Partition { cores_min, unhidden_min: lower, ..best }));
        }
        if complete && cores == cores_min {
            cores_min += 1;
        }
    }
    Ok(if cores_min > most { Partitioned::Impossible } else { Partitioned::Unknown { cores_min } })
}

fn subset(set: &TaskSet, tasks: &[TaskIndex]) -> Result<TaskSet, SchedError> {
    TaskSet::new(tasks.iter().map(|&task| set[task].spec()))
}

/// Utilization in parts of 2^64, rounded down.
fn parts(task: &Task) -> u128 {
    (u128::from(task.wcet().0) << 64) / u128::from(task.period().0)
}

/// Loads that cores can hold, and their least losses.
struct Bounds {
    /// The largest load of a core, in parts of 2^64, rounded up.
    most: u128,
    /// For each pair of phases, pairs of a load and the least that a core with that load loses, both ascending.
    fronts: Vec<Vec<(u128, Part)>>,
}

impl Bounds {
    fn new(space: &Space) -> Bounds {
        let steps = space.steps();
        let pairs = u128::from(steps) * u128::from(steps + 1) / 2;
        if pairs * pairs > CONFIGURATIONS_MAX {
            let any = vec![(1 << 64, zero())];
            return Bounds { most: 1 << 64, fronts: vec![any; space.phases().len()] };
        }
        let refresh = space.plain_refresh();
        let mut choices: Vec<(u128, [Plain; 2])> = Vec::new();
        for (p1, e1) in all(steps) {
            let one = space.plain(0, p1, e1);
            let Some(first) = rate(&[one], 0, &refresh) else { continue };
            for (p2, e2) in all(steps) {
                let servers = [one, space.plain(1, p2, e2)];
                if let Some(second) = rate(&servers, 1, &refresh) {
                    choices.push((first + second, servers));
                }
            }
        }
        choices.sort_by_key(|&(load, _)| Reverse(load));
        let most = choices.first().map_or(0, |&(load, _)| load);
        let fronts = space.phases().iter().map(|&phases| front(&choices, &refresh, phases)).collect();
        Bounds { most, fronts }
    }

    /// The least that a core with this load loses; `None` when it cannot have it.
    fn least(&self, phases: usize, load: u128) -> Option<&Part> {
        let front = &self.fronts[phases];
        front.get(front.partition_point(|own| own.0 < load)).map(|own| &own.1)
    }

    /// The least total loss of this number of cores with this total load.
    fn together(&self, phases: usize, cores: usize, load: u128) -> Option<Part> {
        let mut sums: Vec<(u128, Part)> = vec![(0, zero())];
        for _ in 0..cores {
            let pairs = sums
                .iter()
                .flat_map(|one| self.fronts[phases].iter().map(|two| ((one.0 + two.0).min(load), &one.1 + &two.1)));
            let mut pairs: Vec<(u128, Part)> = pairs.collect();
            // Those that hold most first, and of these only those that lose less than all before.
            pairs.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
            sums.clear();
            for pair in pairs {
                if sums.last().is_none_or(|last| pair.1 < last.1) {
                    sums.push(pair);
                }
            }
        }
        sums.into_iter().find(|sum| sum.0 >= load).map(|sum| sum.1)
    }
}

fn zero() -> Part {
    Ratio::from_integer(BigUint::ZERO)
}

fn all(steps: u64) -> impl Iterator<Item = (u64, u64)> {
    (1..=steps).flat_map(|period| (1..=period).map(move |budget| (period, budget)))
}

/// Rate of a server's supply in parts of 2^64, rounded up; `None` when it supplies nothing.
fn rate(servers: &[Plain], index: usize, refresh: &PlainRefresh) -> Option<u128> {
    let rate = supply_of(servers, refresh, index).rate();
    if *rate.numer() <= BigInt::ZERO {
        return None;
    }
    let scaled: BigInt = (rate.numer() << 64u32) / rate.denom() + 1;
    u128::try_from(scaled).ok()
}

/// The least that the choices lose which hold a load, for all loads; `choices` hold most first.
fn front(choices: &[(u128, [Plain; 2])], refresh: &PlainRefresh, phases: [Picoseconds; 2]) -> Vec<(u128, Part)> {
    let phases = phases.map(|phase| phase.0);
    let mut front: Vec<(u128, Part)> = Vec::new();
    for (load, servers) in choices {
        let Some(saturated) = Saturated::new(refresh, &phases, servers, u64::MAX) else { continue };
        let span = BigUint::from(saturated.bursts) * refresh.retention;
        let limit = front.last().map(|(_, least)| (least * Ratio::from_integer(span.clone())).ceil().to_integer());
        let limit = limit.map_or(u128::MAX, |limit| u128::try_from(limit).unwrap_or(u128::MAX));
        let mut unhidden = 0;
        for (index, group) in (0..saturated.bursts).flat_map(|index| [(index, 0), (index, 1)]) {
            unhidden += u128::from(saturated.unhidden(group, index));
            if unhidden >= limit {
                break;
            }
        }
        if unhidden < limit {
            front.push((*load, Ratio::new(unhidden.into(), span)));
            if unhidden == 0 {
                break;
            }
        }
    }
    front.reverse();
    front
}

struct Search<'a> {
    set: &'a TaskSet,
    spaces: Vec<Space>,
    bounds: &'a Bounds,
    cores: usize,
    effort: Effort,
    /// Tasks by load, the largest first, and their loads.
    order: Vec<TaskIndex>,
    loads: Vec<u128>,
    /// The optimum of a core with these tasks, by pair of phases.
    known: HashMap<(usize, Vec<TaskIndex>), Option<Optimum>>,
    nodes_left: u64,
    left: u64,
    /// Nothing was left out.
    complete: bool,
    /// No partition on these cores loses less.
    lower: Part,
    best: Option<Partition>,
}

impl<'a> Search<'a> {
    fn new(
        set: &'a TaskSet,
        space: &Space,
        bounds: &'a Bounds,
        cores: usize,
        limits: PartitionLimits,
        effort: Effort,
    ) -> Search<'a> {
        let loads: Vec<u128> = set.tasks().iter().map(parts).collect();
        let mut order: Vec<TaskIndex> = set.indices().collect();
        order.sort_by_key(|&task| Reverse(loads[task.index()]));
        let load = loads.iter().sum();
        let lowers = (0..space.phases().len()).filter_map(|phases| bounds.together(phases, cores, load));
        Search {
            set,
            spaces: space.phases().iter().map(|&phases| space.with_phases(phases)).collect(),
            bounds,
            cores,
            effort,
            order,
            loads,
            known: HashMap::new(),
            nodes_left: limits.nodes_max,
            left: limits.optimized_max,
            complete: true,
            lower: lowers.min().unwrap_or_else(zero),
            best: None,
        }
    }

    fn run(&mut self) -> Result<(), Unsupported> {
        let mut random = 0x6d65_6d74_696e_7400u64;
        let mut order = self.order.clone();
        for _ in 0..DRAWN {
            self.worst_fit(&order)?;
            if self.ended() {
                return Ok(());
            }
            // Neighbours change places, so that it stays nearly sorted.
            for place in 1..order.len() {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                if random >> 62 == 0 {
                    order.swap(place - 1, place);
                }
            }
        }
        self.complete = true;
        let mut shares = vec![Vec::new(); self.cores];
        let mut loads = vec![0; self.cores];
        self.descend(0, &mut shares, &mut loads)
    }

    /// The best cannot be bettered.
    fn ended(&self) -> bool {
        self.best.as_ref().is_some_and(|best| best.unhidden <= self.lower)
    }

    fn worst_fit(&mut self, order: &[TaskIndex]) -> Result<(), Unsupported> {
        let mut shares = vec![Vec::new(); self.cores];
        let mut loads = vec![0; self.cores];
        for &task in order {
            let least = (0..self.cores).min_by_key(|&core| loads[core]).expect("a core");
            shares[least].push(task);
            loads[least] += self.loads[task.index()];
        }
        self.leaf(&shares)
    }

    fn descend(
        &mut self,
        depth: usize,
        shares: &mut Vec<Vec<TaskIndex>>,
        loads: &mut Vec<u128>,
    ) -> Result<(), Unsupported> {
        if self.nodes_left == 0 || self.left == 0 {
            self.complete = false;
            return Ok(());
        }
        self.nodes_left -= 1;
        let missing: usize = shares.iter().map(|share| 2usize.saturating_sub(share.len())).sum();
        if missing > self.order.len() - depth || self.costly(loads) {
            return Ok(());
        }
        let Some(&task) = self.order.get(depth) else { return self.leaf(shares) };
        let mut cores: Vec<usize> = (0..self.cores).collect();
        cores.sort_by_key(|&core| loads[core]);
        let mut empty = false;
        for core in cores {
            if loads[core] + self.loads[task.index()] > self.bounds.most || (shares[core].is_empty() && empty) {
                continue;
            }
            empty |= shares[core].is_empty();
            shares[core].push(task);
            loads[core] += self.loads[task.index()];
            self.descend(depth + 1, shares, loads)?;
            shares[core].pop();
            loads[core] -= self.loads[task.index()];
            if self.ended() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// No phases let cores with at least these loads lose less than the best.
    fn costly(&self, loads: &[u128]) -> bool {
        let sum = |phases: usize| {
            let mut least = loads.iter().map(|&load| self.bounds.least(phases, load));
            least.try_fold(zero(), |sum, least| Some(sum + least?))
        };
        let mut sums = (0..self.spaces.len()).filter_map(sum);
        match &self.best {
            Some(best) => sums.all(|sum| sum >= best.unhidden),
            None => sums.next().is_none(),
        }
    }

    /// Looks at a partition, with each pair of phases.
    fn leaf(&mut self, shares: &[Vec<TaskIndex>]) -> Result<(), Unsupported> {
        if shares.iter().any(|share| share.len() < 2) {
            return Ok(());
        }
        for phases in 0..self.spaces.len() {
            let (mut cores, mut unhidden) = (Vec::new(), zero());
            for share in shares {
                let mut tasks = share.clone();
                tasks.sort_unstable();
                // Whether there is a choice does not depend on the phases.
                let Some(found) = self.one(phases, &tasks)? else { return Ok(()) };
                unhidden += found.unhidden.clone();
                cores.push(CoreShare { tasks, choice: found.choice, unhidden: found.unhidden });
            }
            if self.best.as_ref().is_none_or(|best| unhidden < best.unhidden) {
                let (cores_min, unhidden_min) = (0, zero());
                self.best = Some(Partition { cores, unhidden, cores_min, unhidden_min });
            }
        }
        Ok(())
    }

    fn one(&mut self, phases: usize, tasks: &[TaskIndex]) -> Result<Option<Optimum>, Unsupported> {
        let key = (phases, tasks.to_vec());
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        if self.left == 0 {
            self.complete = false;
            return Ok(None);
        }
        self.left -= 1;
        let own = subset(self.set, tasks).expect("tasks of a set");
        let found = match optimize(&own, None, &self.spaces[phases], Admission::Supply, self.effort) {
            Ok(found) => found,
            Err(Unsupported::Effort { .. }) => {
                self.complete = false;
                return Ok(None);
            }
            Err(Unsupported::Precondition { task, needs }) => {
                return Err(Unsupported::Precondition { task: tasks[task.index()], needs });
            }
            Err(reason) => return Err(reason),
        };
        self.known.insert(key, found.clone());
        Ok(found)
    }
}
