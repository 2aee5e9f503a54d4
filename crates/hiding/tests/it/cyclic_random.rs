//! Do colors, flow and slices agree with trying everything?

use memtint_hiding::cyclic::{
    Answer, ColorSet, Cut, Footprint, Frames, Limits, Problem, RankOrder, RefreshedMemory, Refutation, Sharing,
    Slicing, Unanswered, check_executive, color, fewest_slices, place,
};
use memtint_sched::{TaskIndex, TaskSet, TaskSpec};
use memtint_units::Picoseconds as Ps;
use memtint_units::Random;
use std::collections::HashMap;

/// A tick: the burst of a rank with tRFC = 1 ps.
const TICK: u64 = 8192;

/// A small set, in ticks.
#[derive(Clone, Debug)]
struct Small {
    /// Phase, period, WCET, deadline, jitter.
    tasks: Vec<[u64; 5]>,
    ranks: Vec<u32>,
    copy: u64,
    frame: u64,
    fused: u64,
    colors: u64,
    slice: u64,
    sharing: Sharing,
    slicing: Slicing,
}

impl Small {
    fn random(random: &mut Random) -> Small {
        let (frame, fused, colors) = (random.within(1, 3), random.within(1, 2), random.within(2, 4));
        let count = random.within(1, 3);
        let retention = frame * fused * colors;
        let periods: Vec<u64> = (1..=8 * frame).filter(|p| p * retention / gcd(*p, retention) <= 8 * frame).collect();
        let phased = random.within(0, 2) == 0;
        let task = |random: &mut Random| {
            let period = periods[random.within(0, periods.len() as u64 - 1) as usize];
            let wcet = random.within(1, (period * 5 / 4 / count).clamp(1, period));
            let deadline = if random.within(0, 2) == 0 { random.within(wcet, period) } else { period };
            let (phase, jitter) = if phased { (random.within(0, 2 * period), random.within(0, 1)) } else { (0, 0) };
            [phase, period, wcet, deadline, jitter]
        };
        let slicing = if random.within(0, 3) == 0 { Slicing::WholeFrames } else { Slicing::Free };
        Small {
            tasks: (0..count).map(|_| task(random)).collect(),
            ranks: (0..count).map(|_| if random.within(0, 3) == 0 && colors > 2 { 2 } else { 1 }).collect(),
            copy: random.within(0, 1),
            frame,
            fused,
            colors,
            slice: if slicing == Slicing::Free { random.within(0, 3) / 3 } else { 0 },
            sharing: if random.within(0, 3) == 0 { Sharing::Shared } else { Sharing::Private },
            slicing,
        }
    }

    fn problem(&self) -> Option<Problem> {
        let name = |index: usize| format!("t{index}");
        let spec = |(index, &[phase, period, wcet, deadline, jitter]): (usize, &[u64; 5])| {
            TaskSpec::new(name(index), Ps(period * TICK), Ps(wcet * TICK))
                .phase(Ps(phase * TICK))
                .deadline(Ps(deadline * TICK))
                .jitter(Ps(jitter * TICK))
        };
        let set = TaskSet::new(self.tasks.iter().enumerate().map(spec)).unwrap();
        let color = self.frame * self.fused * TICK;
        let memory =
            RefreshedMemory::new(Ps(color * self.colors), self.colors as u32, Ps(1), RankOrder::Parallel).unwrap();
        let frames = Frames { size: Ps(self.frame * TICK), color: Ps(color) };
        let footprints = self.ranks.iter().map(|&ranks| Footprint { ranks, copy: Ps(self.copy * TICK) }).collect();
        let problem = Problem::new(set, memory, frames, footprints).unwrap();
        let problem = problem.sharing(self.sharing).slicing(self.slicing).slice_cost(Ps(self.slice * TICK)).unwrap();
        (problem.frame_count() <= 8).then_some(problem)
    }

    fn cycle(&self) -> u64 {
        let retention = self.frame * self.fused * self.colors;
        self.tasks.iter().fold(retention, |cycle, task| cycle * task[1] / gcd(cycle, task[1]))
    }

    /// Whole frames in the window of a job, in its order, as tick by tick says.
    fn frames_of(&self, task: usize, job: u64) -> Vec<u64> {
        let [phase, period, _, deadline, jitter] = self.tasks[task];
        let arrival = phase + job * period;
        let inside = |&start: &u64| start.is_multiple_of(self.frame) && start + self.frame <= arrival + deadline;
        (arrival + jitter..arrival + deadline).filter(inside).map(|start| start % self.cycle() / self.frame).collect()
    }

    fn color_of(&self, frame: u64) -> u64 {
        frame / self.fused % self.colors
    }

    /// The fewest slices with given instances of given colors, by trying everything, job after job.
    fn brute(&self, colors: &[Vec<u64>]) -> Option<u64> {
        let mut jobs = Vec::new();
        for (task, own) in colors.iter().enumerate() {
            for job in 0..self.cycle() / self.tasks[task][1] {
                let demand = self.tasks[task][2] + if own.len() > 1 { self.copy } else { 0 };
                let apart = |own: u64| {
                    let frames = self.frames_of(task, job).into_iter();
                    frames.map(|frame| (frame, own >> self.color_of(frame) & 1 == 0)).collect()
                };
                jobs.push((demand, own.iter().map(|&own| apart(own)).collect()));
            }
        }
        let room = vec![self.frame; (self.cycle() / self.frame) as usize];
        self.jobs(&jobs, room, &mut HashMap::new())
    }

    #[allow(
        clippy::type_complexity,
        reason = "a job is its demand, and for each instance its frames and which may be used"
    )]
    fn jobs(
        &self,
        jobs: &[(u64, Vec<Vec<(u64, bool)>>)],
        room: Vec<u64>,
        known: &mut HashMap<(usize, Vec<u64>), Option<u64>>,
    ) -> Option<u64> {
        let Some(((demand, instances), others)) = jobs.split_first() else { return Some(0) };
        if let Some(&best) = known.get(&(jobs.len(), room.clone())) {
            return best;
        }
        let mut ends = Vec::new();
        for frames in instances {
            self.one(*demand, frames, 0, room.clone(), &mut ends);
        }
        ends.sort();
        ends.dedup();
        let best = ends.into_iter().filter_map(|(room, slices)| Some(self.jobs(others, room, known)? + slices)).min();
        known.insert((jobs.len(), room), best);
        best
    }

    /// Every way to put one job into its frames: what room is left, and how many slices it took.
    fn one(&self, left: u64, frames: &[(u64, bool)], slices: u64, room: Vec<u64>, ends: &mut Vec<(Vec<u64>, u64)>) {
        if left == 0 {
            ends.push((room, slices));
            return;
        }
        let Some((&(frame, usable), later)) = frames.split_first() else { return };
        self.one(left, later, slices, room.clone(), ends);
        for time in 1..=if usable { left.min(room[frame as usize]) } else { 0 } {
            if self.slicing == Slicing::WholeFrames && time < left && time < self.frame {
                continue;
            }
            let mut room = room.clone();
            room[frame as usize] -= time;
            let left = if time == left { 0 } else { left - time + self.slice };
            self.one(left, later, slices + 1, room, ends);
        }
    }

    /// Colors of each task for so many copy tasks, every way.
    fn colorings(&self, copies: usize) -> Vec<Vec<Vec<u64>>> {
        let sets = |count: u32| (0..1u64 << self.colors).filter(move |set| set.count_ones() == count);
        let mut ways: Vec<(Vec<Vec<u64>>, u64, usize)> = vec![(Vec::new(), 0, copies)];
        for &ranks in &self.ranks {
            let mut longer = Vec::new();
            for (way, taken, left) in ways {
                // Instances one after another, each of a larger number than the one before.
                let mut stack: Vec<(Vec<u64>, u64)> = vec![(Vec::new(), taken)];
                while let Some((own, taken)) = stack.pop() {
                    if own.len() > left + 1 {
                        continue;
                    }
                    if !own.is_empty() {
                        let mut way = way.clone();
                        way.push(own.clone());
                        longer.push((way, taken, left + 1 - own.len()));
                    }
                    let after = own.last().map_or(0, |last| last + 1);
                    for set in sets(ranks).filter(|&set| set >= after) {
                        if self.sharing == Sharing::Shared || set & taken == 0 {
                            stack.push(([own.as_slice(), &[set]].concat(), taken | set));
                        }
                    }
                }
            }
            ways = longer;
        }
        ways.into_iter().filter(|(.., left)| *left == 0).map(|(way, ..)| way).collect()
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A cut is a proof: its jobs have no frame outside of it that they may use, and need more than it has.
fn proves(small: &Small, cut: &Cut, usable: impl Fn(usize, u64, u64) -> bool, instances: &[usize]) {
    let mut demand = 0;
    for id in &cut.jobs {
        demand += small.tasks[id.task.index()][2] + if instances[id.task.index()] > 1 { small.copy } else { 0 };
        for frame in small.frames_of(id.task.index(), id.job) {
            assert!(!usable(id.task.index(), id.job, frame) || cut.frames.contains(&frame), "{small:?} {cut:?}");
        }
    }
    assert_eq!((cut.demand, cut.supply), (Ps(demand * TICK), Ps(cut.frames.len() as u64 * small.frame * TICK)));
    assert!(cut.demand > cut.supply);
}

#[test]
fn a_flow_exists_exactly_when_a_placement_does_and_slices_are_the_fewest() {
    let mut random = Random::new(61);
    let (mut yes, mut no) = (0, 0);
    for round in 0..1500 {
        let small = Small { copy: 0, ..Small::random(&mut random) };
        let Some(problem) = small.problem() else { continue };
        let avoid: Vec<u64> = small
            .tasks
            .iter()
            .map(|_| random.bits() & random.bits() & random.bits() & ((1 << small.colors) - 1))
            .collect();
        let sets: Vec<ColorSet> = avoid.iter().map(|&colors| ColorSet(colors)).collect();
        let Ok(found) = place(&problem, &sets) else { continue };
        let plain = Small { slice: 0, slicing: Slicing::Free, ..small.clone() };
        let colors: Vec<Vec<u64>> = avoid.iter().map(|&colors| vec![colors]).collect();
        assert_eq!(found.is_ok(), plain.brute(&colors).is_some(), "round {round}: {small:?} {avoid:?}");
        let usable = |task: usize, _: u64, frame: u64| avoid[task] >> small.color_of(frame) & 1 == 0;
        match found {
            Ok(_) => {
                let fewest = fewest_slices(&problem, &sets, 200_000).unwrap().unwrap();
                assert!(fewest.complete, "round {round}: {small:?}");
                let jobs: u64 = small.tasks.iter().map(|task| small.cycle() / task[1]).sum();
                let extra = small.brute(&colors).map(|slices| slices - jobs);
                let ours = fewest.placement.as_ref().map(|placement| placement.extra_slices());
                assert_eq!(ours, extra, "round {round}: {small:?} {avoid:?}");
                assert!(extra.is_none_or(|extra| extra == fewest.least));
                yes += 1;
            }
            Err(cut) => {
                proves(&small, &cut, usable, &vec![1; avoid.len()]);
                no += 1;
            }
        }
    }
    assert!(yes > 200 && no > 200, "{yes} yes, {no} no");
}

#[test]
fn fewest_copies_and_slices_are_those_of_trying_everything() {
    let mut random = Random::new(62);
    let (mut yes, mut copied, mut no, mut sliced, mut unmoved) = (0, 0, 0, 0, 0);
    for round in 0..3000 {
        let small = Small::random(&mut random);
        let Some(problem) = small.problem() else { continue };
        let most = match small.sharing {
            Sharing::Private => small.colors as usize,
            Sharing::Shared => 2,
        };
        // With shared colors no more than two copies are tried, here and there.
        let limits = Limits { nodes_max: 200_000, copies_max: most as u32 };
        let jobs: u64 = small.tasks.iter().map(|task| small.cycle() / task[1]).sum();
        // What trying everything can take: jobs, and how full frames can be.
        if jobs > 9 || (small.frame + 1).pow(problem.frame_count() as u32) > 5000 {
            continue;
        }
        let answer = color(&problem, limits);
        let brute = || {
            (0..=most).find_map(|copies| {
                let fewest = small.colorings(copies).iter().filter_map(|colors| small.brute(colors)).min();
                fewest.map(|slices| (copies as u32, slices - jobs))
            })
        };
        match answer {
            Answer::Schedulable(solution) => {
                let executive = &solution.executive;
                let ours = (executive.copies(), executive.extra_slices());
                assert_eq!(Some(ours), brute(), "round {round}: {small:?}");
                assert_eq!(ours, (solution.copies_least, solution.extra_slices_least), "round {round}: {small:?}");
                assert_eq!(check_executive(&problem, executive), Ok(solution.checked));
                yes += 1;
                copied += u32::from(executive.copies() > 0);
            }
            Answer::Unschedulable(refutation) => {
                assert_eq!(brute(), None, "round {round}: {small:?}");
                no += 1;
                match refutation {
                    Refutation::Demand(cut) => proves(&small, &cut, |_, _, _| true, &vec![1; small.tasks.len()]),
                    Refutation::Colors(refuted) => {
                        for one in &refuted {
                            let usable = |task: usize, job: u64, frame: u64| {
                                let Some((_, own)) = one.colors.iter().find(|(own, _)| *own == task) else {
                                    return true;
                                };
                                let color = small.color_of(frame) as u32;
                                match one.jobs.iter().find(|(id, _)| (id.task, id.job) == (TaskIndex(task), job)) {
                                    Some(&(_, instance)) => !own[instance].has(color),
                                    None => !own.iter().all(|colors| colors.has(color)),
                                }
                            };
                            proves(&small, &one.cut, usable, &one.instances);
                        }
                        complete(&small, &refuted, most);
                    }
                    Refutation::Slices(_) => sliced += 1,
                }
            }
            Answer::Unsupported(Unanswered::NoMoment { .. }) => {
                // All fits but for a moment to copy.
                assert!(small.copy > 0 && brute().is_some_and(|(copies, _)| copies > 0), "round {round}: {small:?}");
                unmoved += 1;
            }
            Answer::Unsupported(reason) => {
                let huge = small.ranks.iter().any(|&ranks| u64::from(ranks) >= small.colors);
                let short = small.sharing == Sharing::Shared && brute().is_none();
                assert!(huge || short, "round {round}: {reason:?} {small:?}");
            }
        }
    }
    let counts = format!("{yes} yes, {copied} copied, {no} no, {sliced} sliced, {unmoved} without a moment to copy");
    assert!(yes > 200 && copied > 30 && no > 200 && sliced > 5 && unmoved > 5, "{counts}");
}

#[test]
fn damaged_executives_are_refused() {
    let mut random = Random::new(63);
    let mut refused = 0;
    for round in 0..1500 {
        let small = Small { copy: 0, ..Small::random(&mut random) };
        let Some(problem) = small.problem() else { continue };
        let Answer::Schedulable(solution) = color(&problem, Limits { nodes_max: 500, copies_max: 2 }) else { continue };
        let mut wrong = solution.executive.clone();
        let at = random.within(0, wrong.slots.len() as u64 - 1) as usize;
        let refresh = random.within(0, wrong.refreshes.len() as u64 - 1) as usize;
        match random.within(0, 6) {
            0 => wrong.slots[at].end.0 -= 1,
            1 => _ = wrong.slots.remove(at),
            2 => wrong.slots[at].id.job += 1,
            3 => wrong.slots[at].slice += 1,
            4 => wrong.switches += 1,
            5 => _ = wrong.refreshes.remove(refresh),
            _ => {
                // The data of a task to where its slot meets the refresh.
                let (slot, colors) = (wrong.slots[at], problem.color_of(wrong.frame(&wrong.slots[at])));
                wrong.instances[slot.id.task.index()][slot.instance].colors.0 |= 1 << colors;
            }
        }
        refused += 1;
        assert!(check_executive(&problem, &wrong).is_err(), "round {round}: accepted {wrong:?} of {small:?}");
    }
    assert!(refused > 200, "{refused} executives");
}

/// Each way to choose colors, and each way to choose instances for jobs that are decided on, is among those refuted.
fn complete(small: &Small, refuted: &[memtint_hiding::cyclic::Refuted], most: usize) {
    for copies in 0..=most {
        for coloring in small.colorings(copies) {
            let covers = |one: &&memtint_hiding::cyclic::Refuted| {
                let same = |(task, own): &(usize, Vec<ColorSet>)| {
                    let mut own: Vec<u64> = own.iter().map(|colors| colors.0).collect();
                    own.sort_unstable();
                    own == coloring[*task]
                };
                let instances: Vec<usize> = coloring.iter().map(Vec::len).collect();
                one.instances == instances && one.colors.iter().all(same)
            };
            let covering: Vec<_> = refuted.iter().filter(covers).collect();
            assert!(!covering.is_empty(), "{small:?}: {coloring:?} is not refuted");
            if covering.iter().all(|one| !one.jobs.is_empty()) {
                decided(&covering, &mut Vec::new(), &coloring);
            }
        }
    }
}

type Decided = Vec<(memtint_hiding::cyclic::JobId, usize)>;

/// Follows the decisions about instances: at each one, all of them are refuted.
fn decided(covering: &[&memtint_hiding::cyclic::Refuted], so_far: &mut Decided, coloring: &[Vec<u64>]) {
    if covering.iter().any(|one| one.jobs == *so_far) {
        return;
    }
    let next = covering.iter().find(|one| one.jobs.len() > so_far.len() && one.jobs.starts_with(so_far));
    let id = next.expect("a decision that goes on").jobs[so_far.len()].0;
    for instance in 0..coloring[id.task.index()].len() {
        so_far.push((id, instance));
        decided(covering, so_far, coloring);
        so_far.pop();
    }
}
