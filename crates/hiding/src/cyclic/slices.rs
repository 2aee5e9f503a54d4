//! The fewest slices: a best-first branch and bound over frames.
//!
//! A node is the beginning of a frame, with the rest of each open job and the colors that each task may still have; a
//! branch is the work of the frame. Times are multiples of the greatest common divisor of the frame, all demands and
//! the cost of a slice: for a given assignment of tasks to frames, amounts are a flow, and a flow has a solution in
//! such multiples. The lower bound of a node is its slices so far plus the fewest that the rest needs without colors.
//! That number is computed backwards over all states when there are not too many, and else counted frame by frame.
//! Equal nodes are kept once.

use crate::cyclic::flow::{Placement, Portion};
use crate::cyclic::problem::{ColorSet, Problem, Sharing, Slicing};
use memtint_sched::TaskIndex;
use memtint_units::Picoseconds;
use num_integer::Integer;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// The colors of each instance of a task: one way to give it colors.
pub(crate) type Tuple = Vec<ColorSet>;

/// The result of a search.
pub(crate) struct Found {
    /// The slices, extra ones only, the placement and the colors; `None` when nothing below the given bound exists or
    /// was found.
    pub(crate) best: Option<(u64, Placement, Vec<Tuple>)>,
    /// No schedule in the searched part has fewer extra slices.
    pub(crate) least: u64,
    /// Whether the search is complete.
    pub(crate) complete: bool,
    /// Nodes made.
    pub(crate) nodes: u64,
}

/// The most states of the bound without colors.
const RELAXED_MAX: usize = 200_000;
/// The most steps to find the possible work of one frame.
const FILL_MAX: u64 = 1 << 18;
/// The most steps to find the possible work of all states of the bound without colors: few states of fine quanta have
/// many successors.
const RELAXED_STEPS_MAX: u64 = 1 << 23;
/// The most steps to find possible work for each node of a search, in addition to one frame. Most successors are
/// existing nodes, so that the number of nodes does not limit the time.
const STEPS_PER_NODE: u64 = 64;
/// The most ways to share jobs across the origin.
const ROOTS_MAX: u64 = 1 << 12;

/// A job in frames counted from the origin.
#[derive(Clone, Copy)]
struct Span {
    /// Index in the problem's jobs.
    job: usize,
    from: u64,
    to: u64,
}

/// How a job that lies across the origin is shared between the end of the cycle and its beginning.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Across {
    /// Quanta after the origin.
    after: u64,
    /// Quanta before it.
    before: u64,
    /// The instance that executes both parts, where there are two.
    instance: Option<u8>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    frame: u64,
    /// Quanta left of the open job of each task.
    left: Vec<u64>,
    /// For each task and way to give it colors the instances that may still execute the open job, as bits; 0 where the way is
    /// closed.
    alive: Vec<Vec<u8>>,
    across: Vec<Option<Across>>,
}

/// A state without its colors: the frame, the rest of each job, and the sharing of jobs across the origin.
type Uncolored = (u64, Vec<u64>, Vec<Option<Across>>);

/// The work of a frame: tasks and their quanta.
type Branch = Vec<(usize, u64)>;

/// The search for the possible work of a frame.
struct Filling<'a> {
    left: &'a [u64],
    /// For each task whether its job has to be complete with this frame.
    must: &'a [bool],
    branch: Branch,
    branches: Vec<Branch>,
    /// Steps that are left.
    steps: u64,
}

struct Node {
    state: State,
    parent: usize,
    branch: Branch,
    slices: u64,
}

pub(crate) struct Slicer<'a> {
    problem: &'a Problem,
    candidates: &'a [Vec<Tuple>],
    /// Picoseconds of a quantum.
    quantum: u64,
    size: u64,
    cost: u64,
    demands: Vec<u64>,
    origin: u64,
    frames: u64,
    /// For each frame, the spans that open at its beginning.
    opens: Vec<Vec<Span>>,
    /// For each task, which job is open in a frame, and the frame at which its span ends.
    open: Vec<Vec<Option<Span>>>,
    /// Slices that jobs need at least that open at a frame or later.
    future: Vec<u64>,
    relaxed: Option<HashMap<Uncolored, u64>>,
}

impl<'a> Slicer<'a> {
    pub(crate) fn new(problem: &'a Problem, candidates: &'a [Vec<Tuple>]) -> Slicer<'a> {
        let count = problem.set.tasks().len();
        let demand = |task: usize| problem.demand(TaskIndex(task), candidates[task].first().map_or(1, Vec::len));
        let size = problem.frames.size.0;
        let quantum = (0..count).fold(size.gcd(&problem.slice.0), |quantum, task| quantum.gcd(&demand(task)));
        let frames = problem.frame_count();
        let origin = origin(problem);
        let mut slicer = Slicer {
            problem,
            candidates,
            quantum,
            size: size / quantum,
            cost: problem.slice.0 / quantum,
            demands: (0..count).map(|task| demand(task) / quantum).collect(),
            origin,
            frames,
            opens: vec![Vec::new(); frames as usize],
            open: vec![vec![None; frames as usize]; count],
            future: vec![0; frames as usize + 1],
            relaxed: None,
        };
        for (job, window) in problem.jobs.iter().enumerate() {
            let from = (window.from % frames + frames - origin) % frames;
            let span = Span { job, from, to: from + (window.to - window.from) };
            slicer.opens[from as usize].push(span);
            for frame in span.from..span.to {
                slicer.open[window.id.task.index()][(frame % frames) as usize] = Some(span);
            }
        }
        for frame in (0..frames as usize).rev() {
            let whole = slicer.opens[frame].iter().filter(|span| span.to <= frames);
            let slices = whole.map(|span| slicer.demands[slicer.task(span)].div_ceil(slicer.size));
            slicer.future[frame] = slicer.future[frame + 1] + slices.sum::<u64>();
        }
        slicer.relaxed = slicer.roots().and_then(|roots| slicer.relax(&roots));
        slicer
    }

    /// Goes on with other colors, for as many instances of each task.
    pub(crate) fn recolor(&mut self, candidates: &'a [Vec<Tuple>]) {
        self.candidates = candidates;
    }

    /// Searches for fewer extra slices than `below`, with at most `nodes_max` nodes.
    pub(crate) fn search(&self, below: u64, nodes_max: u64) -> Found {
        let jobs = self.problem.jobs.len() as u64;
        let given_up = |least: u64, nodes: usize| Found {
            best: None,
            least: least.saturating_sub(jobs).min(below),
            complete: false,
            nodes: nodes as u64,
        };
        let Some(roots) = self.roots() else { return given_up(0, 0) };
        let mut steps = nodes_max.saturating_mul(STEPS_PER_NODE).saturating_add(FILL_MAX);
        let mut nodes: Vec<Node> = Vec::new();
        let mut queue = BinaryHeap::new();
        let mut reached: HashMap<State, u64> = HashMap::new();
        for state in roots {
            self.push(
                Node { state, parent: usize::MAX, branch: Vec::new(), slices: 0 },
                below + jobs,
                &mut nodes,
                &mut queue,
                &mut reached,
            );
        }
        while let Some(Reverse((bound, _, index))) = queue.pop() {
            let (frame, slices) = (nodes[index].state.frame, nodes[index].slices);
            if reached[&nodes[index].state] < slices {
                continue;
            }
            if frame == self.frames {
                let best = self.unwind(&nodes, index);
                let extra = slices - jobs;
                return Found {
                    best: Some((extra, best.0, best.1)),
                    least: extra,
                    complete: true,
                    nodes: nodes.len() as u64,
                };
            }
            if nodes.len() as u64 >= nodes_max {
                return given_up(bound, nodes.len());
            }
            let state = nodes[index].state.clone();
            let Some(branches) = self.branches(&state, &mut steps) else { return given_up(bound, nodes.len()) };
            for branch in branches {
                if let Some(next) = self.after(&state, &branch) {
                    let slices = slices + branch.len() as u64;
                    let node = Node { state: next, parent: index, branch, slices };
                    self.push(node, below + jobs, &mut nodes, &mut queue, &mut reached);
                }
            }
        }
        Found { best: None, least: below, complete: true, nodes: nodes.len() as u64 }
    }

    fn task(&self, span: &Span) -> usize {
        self.problem.jobs[span.job].id.task.index()
    }

    fn push(
        &self,
        node: Node,
        below: u64,
        nodes: &mut Vec<Node>,
        queue: &mut BinaryHeap<Reverse<(u64, Reverse<u64>, usize)>>,
        reached: &mut HashMap<State, u64>,
    ) {
        let Some(rest) = self.rest(&node.state) else { return };
        let bound = node.slices + rest;
        if bound >= below || reached.get(&node.state).is_some_and(|&slices| slices <= node.slices) {
            return;
        }
        reached.insert(node.state.clone(), node.slices);
        // Among equals the deepest first, and of these the oldest.
        queue.push(Reverse((bound, Reverse(node.state.frame), nodes.len())));
        nodes.push(node);
    }

    /// The states before the first frame: one, or one for each way to share the jobs that lie across the origin.
    ///
    /// `None` when there are too many.
    fn roots(&self) -> Option<Vec<State>> {
        let tasks = self.candidates.len();
        let alive = |task: usize| self.candidates[task].iter().map(|tuple| full(tuple.len())).collect();
        let blank =
            State { frame: 0, left: vec![0; tasks], alive: (0..tasks).map(alive).collect(), across: vec![None; tasks] };
        let mut roots = vec![blank];
        for task in 0..tasks {
            if self.open[task][0].is_some_and(|span| span.from > 0 && span.to > self.frames) {
                if (self.demands[task] + self.cost).saturating_mul(roots.len() as u64) > ROOTS_MAX {
                    return None;
                }
                let shares = self.shares(task);
                let with = |root: State| {
                    shares.iter().map(move |&across| {
                        let mut root = root.clone();
                        root.across[task] = Some(across);
                        root.left[task] = across.after;
                        restrict(&mut root.alive[task], across.instance);
                        root
                    })
                };
                roots = roots.into_iter().flat_map(with).collect();
            }
        }
        Some(roots.into_iter().map(|root| self.opened(root)).collect())
    }

    /// The ways to share a job of a task across the origin.
    fn shares(&self, task: usize) -> Vec<Across> {
        let demand = self.demands[task];
        let instances = self.candidates[task].first().map_or(1, Vec::len) as u8;
        let mut shares = vec![
            Across { after: 0, before: demand, instance: None },
            Across { after: demand, before: 0, instance: None },
        ];
        for after in 1..demand + self.cost {
            let choices = (0..instances).map(|instance| (instances > 1).then_some(instance));
            let before = demand + self.cost - after;
            if self.problem.slicing == Slicing::Free || self.whole_frames(before, after) {
                shares.extend(choices.map(|instance| Across { after, before, instance }));
            }
        }
        shares
    }

    /// Returns whether the part before the origin consists of slices as long as frames, so that more can follow.
    fn whole_frames(&self, before: u64, after: u64) -> bool {
        let step = self.size.saturating_sub(self.cost);
        after > self.cost && before >= self.size && step > 0 && u64::is_multiple_of(before - self.size, step)
    }

    /// Opens the jobs of a state's frame.
    fn opened(&self, mut state: State) -> State {
        for span in self.opens.get(state.frame as usize).into_iter().flatten() {
            let task = self.task(span);
            let across = state.across[task].filter(|_| span.to > self.frames);
            state.left[task] = across.map_or(self.demands[task], |across| across.before);
            if let Some(across) = across {
                restrict(&mut state.alive[task], across.instance);
            }
        }
        state
    }

    /// The end of the span of a task's open job, in this lap.
    fn due(&self, task: usize, frame: u64) -> u64 {
        let span = self.open[task][frame as usize].expect("a job is open");
        if frame < span.from { span.to - self.frames } else { span.to.min(self.frames) }
    }

    /// The possible work of a state's frame; `None` when it is too much, or takes more than the remaining steps.
    fn branches(&self, state: &State, steps: &mut u64) -> Option<Vec<Branch>> {
        let color = self.problem.color_of((state.frame + self.origin) % self.frames);
        let may = |task: usize| {
            let open = |(tuple, &alive): (&Tuple, &u8)| alive & !meeting(tuple, color) != 0;
            self.candidates[task].iter().zip(&state.alive[task]).any(open)
        };
        self.choices(state, may, steps)
    }

    fn choices(&self, state: &State, may: impl Fn(usize) -> bool, steps: &mut u64) -> Option<Vec<Branch>> {
        let all = 0..self.candidates.len();
        let must = |task: usize| state.left[task] > 0 && self.due(task, state.frame) == state.frame + 1;
        let must: Vec<bool> = all.clone().map(must).collect();
        let tasks: Vec<usize> = all.clone().filter(|&task| state.left[task] > 0 && may(task)).collect();
        if all.clone().any(|task| must[task] && !tasks.contains(&task)) {
            return Some(Vec::new());
        }
        let (branch, branches, most) = (Vec::new(), Vec::new(), FILL_MAX.min(*steps));
        let mut filling = Filling { left: &state.left, must: &must, branch, branches, steps: most };
        self.fill(&mut filling, &tasks, self.size, false);
        *steps -= most - filling.steps;
        (filling.steps > 0).then_some(filling.branches)
    }

    fn fill(&self, filling: &mut Filling, tasks: &[usize], room: u64, partial: bool) {
        filling.steps = filling.steps.saturating_sub(1);
        let Some((&task, others)) = tasks.split_first() else {
            // A slice that is not the last of its job, in a frame with room, could as well be longer.
            if !(partial && room > 0 && self.problem.slicing == Slicing::Free) {
                filling.branches.push(filling.branch.clone());
            }
            return;
        };
        let left = filling.left[task];
        if left <= room {
            filling.branch.push((task, left));
            self.fill(filling, others, room - left, partial);
            filling.branch.pop();
        }
        if filling.must[task] {
            return;
        }
        let parts = match self.problem.slicing {
            Slicing::Free => self.cost + 1..left.min(room + 1),
            Slicing::WholeFrames if left > self.size && room == self.size => self.size..self.size + 1,
            Slicing::WholeFrames => 0..0,
        };
        for part in parts {
            if filling.steps == 0 {
                return;
            }
            filling.branch.push((task, part));
            self.fill(filling, others, room - part, true);
            filling.branch.pop();
        }
        self.fill(filling, others, room, partial);
    }

    /// The state after a frame; `None` when colors run out.
    fn after(&self, state: &State, branch: &Branch) -> Option<State> {
        let color = self.problem.color_of((state.frame + self.origin) % self.frames);
        let mut next = state.clone();
        let mut closed = false;
        for &(task, time) in branch {
            next.left[task] = rest_of(state.left[task], time, self.cost);
            for (alive, tuple) in next.alive[task].iter_mut().zip(&self.candidates[task]) {
                let before = *alive;
                *alive &= !meeting(tuple, color);
                closed |= before != 0 && *alive == 0;
                if next.left[task] == 0 && *alive != 0 {
                    *alive = full(tuple.len());
                }
            }
        }
        if closed && self.colors(&next).is_none() {
            return None;
        }
        next.frame += 1;
        Some(self.opened(next))
    }

    /// Colors for all tasks that are still possible in a state, private ones where asked for.
    fn colors(&self, state: &State) -> Option<Vec<Tuple>> {
        let private = self.problem.sharing == Sharing::Private;
        let mut chosen = Vec::new();
        self.disjoint(state, private, 0, &mut chosen).then_some(chosen)
    }

    fn disjoint(&self, state: &State, private: bool, taken: u64, chosen: &mut Vec<Tuple>) -> bool {
        let task = chosen.len();
        if task == self.candidates.len() {
            return true;
        }
        for (tuple, &alive) in self.candidates[task].iter().zip(&state.alive[task]) {
            let own = tuple.iter().fold(0, |own, colors| own | colors.0);
            if alive != 0 && !(private && own & taken != 0) {
                chosen.push(tuple.clone());
                if self.disjoint(state, private, taken | own, chosen) {
                    return true;
                }
                chosen.pop();
            }
        }
        false
    }

    /// A lower bound of the slices that are still to come; `None` when no schedule is left, colors or not.
    fn rest(&self, state: &State) -> Option<u64> {
        if let Some(relaxed) = &self.relaxed {
            return relaxed.get(&(state.frame, state.left.clone(), state.across.clone())).copied();
        }
        let open: u64 = state.left.iter().map(|&left| u64::div_ceil(left, self.size)).sum();
        Some(open + self.future.get(state.frame as usize + 1).copied().unwrap_or(0))
    }

    /// Computes [`Slicer::rest`] without colors for all states, forwards to find them and backwards to count; `None` when that is too
    /// much.
    fn relax(&self, roots: &[State]) -> Option<HashMap<Uncolored, u64>> {
        let key = |state: &State| (state.left.clone(), state.across.clone());
        let blank = |(left, across): &(Vec<u64>, Vec<Option<Across>>), frame: u64| State {
            frame,
            left: left.clone(),
            alive: vec![Vec::new(); self.candidates.len()],
            across: across.clone(),
        };
        let mut layers = vec![roots.iter().map(key).collect::<std::collections::HashSet<_>>()];
        let (mut count, mut steps) = (0, RELAXED_STEPS_MAX);
        for frame in 0..self.frames {
            let mut next = std::collections::HashSet::new();
            for state in &layers[frame as usize] {
                next.extend(self.uncolored(&blank(state, frame), &mut steps)?.map(|(state, _)| key(&state)));
                if count + next.len() > RELAXED_MAX {
                    return None;
                }
            }
            count += next.len();
            layers.push(next);
        }
        let mut rest = HashMap::new();
        for (frame, layer) in layers.iter().enumerate().rev() {
            for state in layer {
                let fewest = if frame as u64 == self.frames {
                    Some(0)
                } else {
                    let via = |(next, slices): (State, u64)| {
                        rest.get(&(next.frame, next.left, next.across)).map(|more: &u64| more + slices)
                    };
                    // As many steps as forwards.
                    self.uncolored(&blank(state, frame as u64), &mut { FILL_MAX })?.filter_map(via).min()
                };
                if let Some(fewest) = fewest {
                    rest.insert((frame as u64, state.0.clone(), state.1.clone()), fewest);
                }
            }
        }
        Some(rest)
    }

    /// Successors without regard to colors, with the slices of each; `None` when there are too many.
    fn uncolored(&self, state: &State, steps: &mut u64) -> Option<impl Iterator<Item = (State, u64)>> {
        let way = move |branch: Branch| {
            let mut next = state.clone();
            for &(task, time) in &branch {
                next.left[task] = rest_of(state.left[task], time, self.cost);
            }
            next.frame += 1;
            (self.opened(next), branch.len() as u64)
        };
        Some(self.choices(state, |_| true, steps)?.into_iter().map(way))
    }

    /// The placement that leads to a node, and colors for it.
    fn unwind(&self, nodes: &[Node], mut index: usize) -> (Placement, Vec<Tuple>) {
        let colors = self.colors(&nodes[index].state).expect("looked at when a way was closed");
        let mut portions = Vec::new();
        while nodes[index].parent != usize::MAX {
            let parent = nodes[index].parent;
            let frame = nodes[parent].state.frame;
            for &(task, time) in &nodes[index].branch {
                let span = self.open[task][frame as usize].expect("a job is open");
                let order = if frame < span.from { frame + self.frames } else { frame };
                let id = self.problem.jobs[span.job].id;
                let frame = (frame + self.origin) % self.frames;
                portions.push((order, Portion { id, frame, time: Picoseconds(time * self.quantum) }));
            }
            index = parent;
        }
        portions.sort_by_key(|&(order, portion)| (portion.id, order));
        (Placement { portions: portions.into_iter().map(|(_, portion)| portion).collect() }, colors)
    }
}

/// The rest of a job after a slice; a slice that is not the last makes the next longer.
fn rest_of(left: u64, time: u64, cost: u64) -> u64 {
    if time == left { 0 } else { left - time + cost }
}

/// All instances, as bits.
fn full(instances: usize) -> u8 {
    ((1u16 << instances) - 1) as u8
}

/// The instances that have data in a color, as bits.
fn meeting(tuple: &Tuple, color: u32) -> u8 {
    let bit = |(instance, colors): (usize, &ColorSet)| u8::from(colors.has(color)) << instance;
    tuple.iter().enumerate().map(bit).sum()
}

/// Leaves one instance, where one is given.
fn restrict(alive: &mut [u8], instance: Option<u8>) {
    if let Some(instance) = instance {
        alive.iter_mut().for_each(|alive| *alive &= 1 << instance);
    }
}

/// The beginning of a frame across which the fewest windows lie.
fn origin(problem: &Problem) -> u64 {
    let frames = problem.frame_count();
    let mut change = vec![0i64; frames as usize + 1];
    let mut across = 0;
    for window in problem.jobs.iter().filter(|window| window.to > window.from + 1) {
        // It lies across the beginnings of the frames from + 1 to to - 1.
        let (first, last) = ((window.from + 1) % frames, (window.to - 1) % frames);
        change[first as usize] += 1;
        change[last as usize + 1] -= 1;
        across += i64::from(first > last);
    }
    let mut best = (i64::MAX, 0);
    for frame in 0..frames {
        across += change[frame as usize];
        best = best.min((across, frame));
    }
    best.1
}
