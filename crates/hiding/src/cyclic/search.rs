//! Colors and placement at once: a branch and bound over the colors of each task, with a maximum flow at each node.

use crate::cyclic::check::{Checked, Fault, check_executive};
use crate::cyclic::flow::{Cut, Placement, route};
use crate::cyclic::problem::{ColorSet, JobId, Problem, Sharing, Slicing, Unanswered};
use crate::cyclic::slices::{Slicer, Tuple};
use crate::cyclic::table::{Executive, has_moments, table};
use memtint_sched::{TaskIndex, TaskSet};

/// How far a search may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Flows computed, and nodes made in each search for fewest slices, for each way to give out copy tasks. Such a
    /// search also ends when it has tried 64 times as many successors, and those of one frame.
    pub nodes_max: u64,
    /// Copy tasks that may be made, all together.
    pub copies_max: u32,
}

impl Default for Limits {
    /// A hundred thousand nodes, some seconds for a few tasks; as many copies as colors allow.
    fn default() -> Limits {
        Limits { nodes_max: 100_000, copies_max: 64 }
    }
}

/// An executive, and how good it is: the fewest copy tasks first, and among these the fewest slices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solution {
    /// The executive.
    pub executive: Executive,
    /// The independent checker's findings in it.
    pub checked: Checked,
    /// No schedule has fewer copy tasks than this; proved, by refuting each way to have fewer. Equal to the executive's
    /// [`copies`](Executive::copies) unless a search ended at its limit.
    pub copies_least: u32,
    /// No schedule with as many copy tasks as the executive has fewer extra slices; proved. Equal to the
    /// executive's [`extra_slices`](Executive::extra_slices) unless a search ended at its limit.
    pub extra_slices_least: u64,
    /// Nodes made in all searches.
    pub nodes: u64,
}

/// One refuted choice: with it, and whatever else is chosen, jobs do not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refuted {
    /// The number of instances of each task.
    pub instances: Vec<usize>,
    /// The colors of the instances of some tasks; others avoid nothing in the cut, and neither do tasks with several instances
    /// beyond the colors that all of these have.
    pub colors: Vec<(usize, Vec<ColorSet>)>,
    /// Which instance executes some jobs, of tasks with several.
    pub jobs: Vec<(JobId, usize)>,
    /// Why not.
    pub cut: Cut,
}

/// Why there is no schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refutation {
    /// Jobs do not fit into frames even where colors are forgotten.
    Demand(Cut),
    /// Jobs fit, but not with any colors and copies: each choice is in one of these, or gives one color away twice.
    Colors(Vec<Refuted>),
    /// Jobs fit when slices go anywhere and cost nothing; with [`Slicing::WholeFrames`], or at the cost of slices, they
    /// do not. The search was exhaustive, and no single cut proves this. The choices refuted by the flow are listed.
    Slices(Vec<Refuted>),
}

/// An answer: yes with its executive, no with the cuts that prove it, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "an unread answer protects nothing"]
pub enum Answer {
    /// All jobs fit, and no task meets a refresh.
    Schedulable(Box<Solution>),
    /// There is no such schedule in these frames.
    Unschedulable(Refutation),
    /// This method does not answer; this implies nothing about the tasks.
    Unsupported(Unanswered),
}

impl Answer {
    /// Returns whether the answer is yes.
    #[must_use]
    pub fn is_schedulable(&self) -> bool {
        matches!(self, Answer::Schedulable(_))
    }
}

/// The most ways to give a task colors.
const CHOICES_MAX: usize = 4096;
/// The most instances of a task: bits of a byte.
const INSTANCES_MAX: usize = 8;
/// More slices than there can be.
const NO_BOUND: u64 = 1 << 48;

/// Places jobs and chooses colors at once, with the fewest copy tasks, and then with the fewest slices.
///
/// Colors are in the flow: a task has no edge to frames in which a color of its data is refreshed. A task with copies has
/// several instances, each job is executed by one of them from beginning to end, and each of its jobs is given the time to copy
/// its globals. With [`Sharing::Private`] no color is given twice.
///
/// Exact, up to the limits: a yes carries an executive that the independent checker has accepted, and proven bounds for
/// what it minimizes; a no carries cuts. At the limits there is no answer. In the worst case the time grows
/// exponentially with tasks and colors. Fewest slices are found quickly where the frame and the WCETs are multiples of
/// a time that is not too small a part of a frame (round WCETs up to one); otherwise the slices are those of the flow,
/// beside a weaker bound. If slices have a cost and the limit is reached, jobs are extended by the cost of some slices,
/// rounded up, and cut for free; a result that the checker accepts, counting each slice, is an answer too, again with a
/// weaker bound.
///
/// ```
/// use memtint_hiding::cyclic::{Answer, Footprint, Frames, Limits, RefreshedMemory, Problem, RankOrder, color};
/// use memtint_sched::{TaskSet, TaskSpec};
/// use memtint_units::Picoseconds;
///
/// // Example 2 of section 4.3.5, which is said to need copies of both tasks.
/// let ms = |value: u64| Picoseconds::from_ns(value * 1_000_000);
/// let set = TaskSet::new([TaskSpec::new("A", ms(20), ms(8)), TaskSpec::new("B", ms(40), ms(16))])?;
/// let memory = RefreshedMemory::new(ms(64), 8, Picoseconds::from_ns(350), RankOrder::Parallel)?;
/// let problem = Problem::new(set, memory, Frames::plain(ms(8)), vec![Footprint::default(); 2])?;
/// let Answer::Schedulable(solution) = color(&problem, Limits::default()) else { panic!("it can") };
/// assert_eq!(solution.executive.copies(), 0);
/// # Ok::<(), memtint_hiding::HidingError>(())
/// ```
pub fn color(problem: &Problem, limits: Limits) -> Answer {
    match exact(problem, limits) {
        Answer::Unsupported(Unanswered::Nodes { nodes_max })
            if problem.slicing == Slicing::Free && problem.slice.0 > 0 =>
        {
            let found = with_margin(problem, limits).map(|found| Answer::Schedulable(Box::new(found)));
            found.unwrap_or(Answer::Unsupported(Unanswered::Nodes { nodes_max }))
        }
        answer => answer,
    }
}

/// Slices of a job whose cost is added to its WCET.
const MARGIN_SLICES_MAX: u64 = 4;
/// Parts of a frame to which the longer WCETs are rounded up.
const MARGIN_PARTS: [u64; 3] = [32, 250, 2000];

/// Places longer jobs with slices that cost nothing.
fn with_margin(problem: &Problem, limits: Limits) -> Option<Solution> {
    let mut free = problem.clone();
    free.slice.0 = 0;
    // A schedule with costly slices is one with free ones: its bounds hold.
    let Answer::Schedulable(bound) = exact(&free, limits) else { return None };
    let size = problem.frames.size.0;
    for slices in 1..=MARGIN_SLICES_MAX {
        for unit in MARGIN_PARTS.iter().filter(|&&parts| size.is_multiple_of(parts)).map(|parts| size / parts) {
            let longer = |task: &memtint_sched::Task| {
                let mut spec = task.spec();
                spec.wcet.0 = (spec.wcet.0 + slices * problem.slice.0).next_multiple_of(unit);
                spec
            };
            let mut wide = free.clone();
            wide.set = TaskSet::new(problem.set.tasks().iter().map(longer)).ok()?;
            let Answer::Schedulable(found) = exact(&wide, limits) else { continue };
            let Ok(checked) = check_executive(problem, &found.executive) else { continue };
            let as_many = found.executive.copies() == bound.copies_least;
            let extra_slices_least = if as_many { bound.extra_slices_least } else { 0 };
            let nodes = bound.nodes + found.nodes;
            let (executive, copies_least) = (found.executive, bound.copies_least);
            return Some(Solution { executive, checked, copies_least, extra_slices_least, nodes });
        }
    }
    None
}

fn exact(problem: &Problem, limits: Limits) -> Answer {
    if let Some(reason) = problem.unanswered() {
        return Answer::Unsupported(reason);
    }
    let free = vec![ColorSet::default(); problem.jobs.len()];
    if let Err(cut) = route(problem, &vec![1; problem.footprints.len()], &free) {
        return Answer::Unschedulable(Refutation::Demand(cut));
    }
    let (mut refuted, mut sliced, mut nodes) = (Vec::new(), false, 0);
    let mut copies_least = None;
    for copies in 0..=copies_possible(problem) {
        if copies > limits.copies_max {
            // Where a search with fewer copies ended at its limit, more may not be needed.
            return Answer::Unsupported(match copies_least {
                Some(_) => Unanswered::Nodes { nodes_max: limits.nodes_max },
                None => Unanswered::Copies { copies_max: limits.copies_max },
            });
        }
        let mut level = Level::default();
        for instances in ways(problem, copies) {
            let mut search = match Search::new(problem, instances, limits.nodes_max) {
                Ok(search) => search,
                Err(reason) => return Answer::Unsupported(reason),
            };
            let outcome = search.run(level.fewest());
            nodes += search.nodes;
            refuted.append(&mut search.refuted);
            level.take(outcome);
        }
        sliced |= level.sliced;
        if level.open || level.best.is_some() {
            copies_least.get_or_insert(copies);
        }
        if let Some((executive, slices)) = level.best {
            let checked = match check_executive(problem, &executive) {
                Ok(checked) => checked,
                // The search does not look for moments to copy; other placements may have some.
                Err(Fault::Copy { id }) => return Answer::Unsupported(Unanswered::NoMoment { id }),
                Err(fault) => return Answer::Unsupported(Unanswered::Contradiction(Box::new(fault))),
            };
            let (copies_least, extra_slices_least) = (copies_least.unwrap_or(copies), level.least.min(slices));
            return Answer::Schedulable(Box::new(Solution {
                executive,
                checked,
                copies_least,
                extra_slices_least,
                nodes,
            }));
        }
    }
    match (copies_least, sliced) {
        (Some(_), _) => Answer::Unsupported(Unanswered::Nodes { nodes_max: limits.nodes_max }),
        (None, true) => Answer::Unschedulable(Refutation::Slices(refuted)),
        (None, false) => Answer::Unschedulable(Refutation::Colors(refuted)),
    }
}

/// The fewest slices with given colors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FewestSlices {
    /// A placement, the best found; `None` when none was found, or there is none.
    pub placement: Option<Placement>,
    /// No placement has fewer extra slices than this; proved. Equal to those of the placement unless the search ended at its
    /// limit.
    pub least: u64,
    /// Whether the search is complete, so that no placement means that there is none.
    pub complete: bool,
    /// Nodes made.
    pub nodes: u64,
}

/// Places all jobs with the fewest slices, when it is given which colors each task avoids, as for [`place`](super::place()).
///
/// Obeys [`Problem::slicing`] and [`Problem::slice_cost`]. The inner result is `Err` if the flow refutes a placement.
///
/// # Errors
///
/// As [`place`](super::place()).
///
/// # Panics
///
/// When there is not one set for each task.
pub fn fewest_slices(
    problem: &Problem,
    avoid: &[ColorSet],
    nodes_max: u64,
) -> Result<Result<FewestSlices, Cut>, Unanswered> {
    let placed = match super::place(problem, avoid)? {
        Ok(placed) => placed,
        Err(cut) => return Ok(Err(cut)),
    };
    let problem = problem.clone().sharing(Sharing::Shared);
    let anywhere = problem.slicing == Slicing::Free && problem.slice.0 == 0;
    let (placed, below) = match placed.extra_slices() {
        slices if anywhere => (Some(placed), slices),
        _ => (None, NO_BOUND),
    };
    let candidates: Vec<Vec<Tuple>> = avoid.iter().map(|&colors| vec![vec![colors]]).collect();
    let found = Slicer::new(&problem, &candidates).search(below, nodes_max);
    let placement = found.best.map(|(_, placement, _)| placement).or(placed);
    Ok(Ok(FewestSlices { placement, least: found.least, complete: found.complete, nodes: found.nodes }))
}

/// Findings for one number of copy tasks.
struct Level {
    best: Option<(Executive, u64)>,
    /// No schedule has fewer extra slices.
    least: u64,
    /// Whether a search ended at its limit without a schedule.
    open: bool,
    /// Whether slices, and not the flow, refuted something.
    sliced: bool,
}

impl Default for Level {
    fn default() -> Level {
        Level { best: None, least: NO_BOUND, open: false, sliced: false }
    }
}

impl Level {
    fn fewest(&self) -> u64 {
        self.best.as_ref().map_or(NO_BOUND, |&(_, slices)| slices)
    }

    fn take(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Refuted => {}
            Outcome::Sliced => self.sliced = true,
            Outcome::Open { least } => {
                self.open = true;
                self.least = self.least.min(least);
            }
            Outcome::Bounded { least } => self.least = self.least.min(least),
            Outcome::Found { executive, least } => {
                self.least = self.least.min(least);
                let slices = executive.extra_slices();
                if slices < self.fewest() {
                    self.best = Some((executive, slices));
                }
            }
        }
    }
}

enum Outcome {
    /// The flow refutes all colors.
    Refuted,
    /// The slices refute all colors.
    Sliced,
    /// The limit was reached; no schedule has fewer extra slices than this.
    Open { least: u64 },
    /// There is no schedule with fewer extra slices than this, which another way to give out copies has.
    Bounded { least: u64 },
    /// There is one, and none has fewer extra slices than `least`.
    Found { executive: Executive, least: u64 },
}

/// The most copy tasks that colors allow.
fn copies_possible(problem: &Problem) -> u32 {
    let tasks = problem.footprints.len();
    let each = |task: usize| problem.colors_needed(TaskIndex(task));
    match problem.sharing {
        // Each copy takes colors that no other instance has; the task with the least needs can have the most.
        Sharing::Private => {
            let needed: u32 = (0..tasks).map(each).sum();
            if needed == 0 {
                return 0;
            }
            let least = (0..tasks).map(each).min().unwrap_or(1);
            problem.colors().saturating_sub(needed) / least
        }
        Sharing::Shared => (0..tasks).map(|task| instances_possible(problem, task) as u32 - 1).sum(),
    }
}

/// The most instances of a task that have different colors.
fn instances_possible(problem: &Problem, task: usize) -> usize {
    let (colors, need) = (u128::from(problem.colors()), u128::from(problem.colors_needed(TaskIndex(task))));
    if need == 0 {
        return 1;
    }
    match problem.sharing {
        Sharing::Private => (colors / need) as usize,
        Sharing::Shared => {
            let ways = (0..need).fold(1u128, |ways, one| (ways * (colors - one) / (one + 1)).min(1 << 64));
            usize::try_from(ways).unwrap_or(usize::MAX).min(CHOICES_MAX)
        }
    }
}

/// All ways to have this number of copy tasks: the instances of each task.
fn ways(problem: &Problem, copies: u32) -> Vec<Vec<usize>> {
    let mut ways = vec![(Vec::new(), copies as usize)];
    for task in 0..problem.footprints.len() {
        let most = instances_possible(problem, task).saturating_sub(1);
        let extend = |(instances, left): (Vec<usize>, usize)| {
            (0..=left.min(most)).rev().map(move |more| {
                let mut instances = instances.clone();
                instances.push(more + 1);
                (instances, left - more)
            })
        };
        ways = ways.into_iter().flat_map(extend).collect();
    }
    ways.into_iter().filter(|&(_, left)| left == 0).map(|(instances, _)| instances).collect()
}

/// The search for one way to give out copy tasks.
struct Search<'a> {
    problem: &'a Problem,
    instances: Vec<usize>,
    candidates: Vec<Vec<Tuple>>,
    refuted: Vec<Refuted>,
    nodes: u64,
    nodes_max: u64,
}

/// The search has used up its nodes.
struct Exhausted;

impl<'a> Search<'a> {
    fn new(problem: &'a Problem, instances: Vec<usize>, nodes_max: u64) -> Result<Search<'a>, Unanswered> {
        let mut candidates = Vec::new();
        for (task, &count) in instances.iter().enumerate() {
            let found = (count <= INSTANCES_MAX).then(|| tuples(problem, task, count)).flatten();
            candidates.push(found.ok_or(Unanswered::Choices { task: TaskIndex(task), most: CHOICES_MAX })?);
        }
        Ok(Search { problem, instances, candidates, refuted: Vec::new(), nodes: 0, nodes_max })
    }

    fn run(&mut self, below: u64) -> Outcome {
        let none = vec![None; self.instances.len()];
        let found = match self.viable().and_then(|()| self.assign(0, 0, &none)) {
            Ok(Some(found)) => found,
            Ok(None) => return Outcome::Refuted,
            Err(Exhausted) => return Outcome::Open { least: 0 },
        };
        self.slice(found, below)
    }

    /// Drops colors that no placement has for one task alone.
    fn viable(&mut self) -> Result<(), Exhausted> {
        for task in 0..self.instances.len() {
            let mut viable = Vec::new();
            for tuple in std::mem::take(&mut self.candidates[task]) {
                let mut chosen = vec![None; self.instances.len()];
                chosen[task] = Some(tuple.clone());
                if self.fits(&chosen, &mut Vec::new())?.is_some() {
                    viable.push(tuple);
                }
            }
            self.candidates[task] = viable;
        }
        Ok(())
    }

    /// Gives colors to the tasks from `task` on.
    fn assign(
        &mut self,
        task: usize,
        taken: u64,
        chosen: &[Option<Tuple>],
    ) -> Result<Option<(Placement, Vec<Tuple>)>, Exhausted> {
        for at in 0..self.candidates.get(task).map_or(0, Vec::len) {
            let tuple = self.candidates[task][at].clone();
            let own = tuple.iter().fold(0, |own, colors| own | colors.0);
            if self.problem.sharing == Sharing::Private && own & taken != 0 {
                continue;
            }
            let mut chosen = chosen.to_vec();
            chosen[task] = Some(tuple);
            let Some(placement) = self.fits(&chosen, &mut Vec::new())? else { continue };
            if task + 1 == self.candidates.len() {
                return Ok(Some((placement, chosen.into_iter().flatten().collect())));
            }
            if let Some(found) = self.assign(task + 1, taken | own, &chosen)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Places all jobs with the colors chosen so far, and an instance for each job of tasks that have several.
    fn fits(
        &mut self,
        chosen: &[Option<Tuple>],
        jobs: &mut Vec<(usize, usize)>,
    ) -> Result<Option<Placement>, Exhausted> {
        if self.nodes >= self.nodes_max {
            return Err(Exhausted);
        }
        self.nodes += 1;
        let problem = self.problem;
        let avoid = |(job, window): (usize, &crate::cyclic::problem::Window)| match &chosen[window.id.task.index()] {
            None => ColorSet::default(),
            Some(tuple) => match jobs.iter().find(|&&(decided, _)| decided == job) {
                Some(&(_, instance)) => tuple[instance],
                None => ColorSet(tuple.iter().fold(u64::MAX, |common, colors| common & colors.0)),
            },
        };
        let avoid: Vec<ColorSet> = problem.jobs.iter().enumerate().map(avoid).collect();
        let placement = match route(problem, &self.instances, &avoid) {
            Ok(placement) => placement,
            Err(cut) => {
                let named = |(task, tuple): (usize, &Option<Tuple>)| tuple.clone().map(|tuple| (task, tuple));
                self.refuted.push(Refuted {
                    instances: self.instances.clone(),
                    colors: chosen.iter().enumerate().filter_map(named).collect(),
                    jobs: jobs.iter().map(|&(job, instance)| (problem.jobs[job].id, instance)).collect(),
                    cut,
                });
                return Ok(None);
            }
        };
        let Some(job) = self.torn(&placement, chosen) else { return Ok(Some(placement)) };
        for instance in 0..self.instances[problem.jobs[job].id.task.index()] {
            jobs.push((job, instance));
            let found = self.fits(chosen, jobs)?;
            jobs.pop();
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// A job that no one instance can execute where it is placed.
    fn torn(&self, placement: &Placement, chosen: &[Option<Tuple>]) -> Option<usize> {
        let mut met = std::collections::BTreeMap::new();
        for portion in &placement.portions {
            *met.entry(portion.id).or_insert(0u64) |= 1 << self.problem.color_of(portion.frame);
        }
        self.problem.jobs.iter().position(|window| match &chosen[window.id.task.index()] {
            Some(tuple) => tuple.iter().all(|colors| colors.0 & met[&window.id] != 0),
            None => false,
        })
    }

    /// Gives tasks that have no moment to copy other colors with which the same placement has one, where there are such.
    fn with_moments(&self, placement: &Placement, mut colors: Vec<Tuple>) -> Vec<Tuple> {
        for task in 0..colors.len() {
            if has_moments(self.problem, placement, task, &colors[task]) {
                continue;
            }
            let all = |tuple: &Tuple| tuple.iter().fold(0, |all, colors| all | colors.0);
            let others = (0..colors.len()).filter(|&other| other != task).map(|other| all(&colors[other]));
            let taken = if self.problem.sharing == Sharing::Private { others.fold(0, |all, own| all | own) } else { 0 };
            let fits = |tuple: &&Tuple| all(tuple) & taken == 0 && has_moments(self.problem, placement, task, tuple);
            if let Some(tuple) = self.candidates[task].iter().find(fits) {
                colors[task] = tuple.clone();
            }
        }
        colors
    }

    /// Looks for the fewest slices, first with the colors found, then with all.
    fn slice(&mut self, found: (Placement, Vec<Tuple>), below: u64) -> Outcome {
        let anywhere = self.problem.slicing == Slicing::Free && self.problem.slice.0 == 0;
        let mut best = None;
        let mut fewest = below;
        if anywhere && found.0.extra_slices() < below {
            fewest = found.0.extra_slices();
            best = Some(found.clone());
        }
        let fixed: Vec<Vec<Tuple>> = found.1.iter().map(|tuple| vec![tuple.clone()]).collect();
        let mut complete = false;
        let mut least = fewest;
        let mut slicer = Slicer::new(self.problem, &fixed);
        for candidates in [&fixed, &self.candidates] {
            slicer.recolor(candidates);
            let result = slicer.search(fewest, self.nodes_max);
            self.nodes += result.nodes;
            if let Some((slices, placement, colors)) = result.best {
                fewest = slices;
                best = Some((placement, colors));
            }
            (least, complete) = (result.least.min(fewest), result.complete);
        }
        match best {
            Some((placement, colors)) => {
                let colors = self.with_moments(&placement, colors);
                Outcome::Found { executive: table(self.problem, &placement, &colors), least }
            }
            None if !complete => Outcome::Open { least },
            None if below == NO_BOUND => Outcome::Sliced,
            None => Outcome::Bounded { least },
        }
    }
}

/// All ways to give the instances of a task colors; `None` when there are too many.
///
/// Instances are not distinguished. With private colors they have none in common.
fn tuples(problem: &Problem, task: usize, instances: usize) -> Option<Vec<Tuple>> {
    let sets = sets(problem.colors(), problem.colors_needed(TaskIndex(task)))?;
    let mut tuples: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..instances {
        let mut longer = Vec::new();
        for tuple in &tuples {
            let taken = tuple.iter().fold(0, |taken, &at| taken | sets[at].0);
            for (at, set) in sets.iter().enumerate().skip(tuple.last().map_or(0, |last| last + 1)) {
                if problem.sharing == Sharing::Shared || set.0 & taken == 0 {
                    longer.push([tuple.as_slice(), &[at]].concat());
                }
            }
            if longer.len() > CHOICES_MAX {
                return None;
            }
        }
        tuples = longer;
    }
    Some(tuples.into_iter().map(|tuple| tuple.into_iter().map(|at| sets[at]).collect()).collect())
}

/// All sets of `count` colors; `None` when there are too many.
fn sets(colors: u32, count: u32) -> Option<Vec<ColorSet>> {
    let mut sets = vec![(0u64, 0)];
    for _ in 0..count {
        let extend = |(set, first): (u64, u32)| (first..colors).map(move |color| (set | 1 << color, color + 1));
        sets = sets.into_iter().flat_map(extend).collect();
        if sets.len() > CHOICES_MAX {
            return None;
        }
    }
    Some(sets.into_iter().map(|(set, _)| ColorSet(set)).collect())
}
