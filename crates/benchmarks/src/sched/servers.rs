//! The search for Colored Refresh Servers, compared with the dissertation's Algorithm 7, corrected.

use std::hint::black_box;

use memtint_bench::{Spread, cpu_seconds};
use memtint_hiding::crs::{
    Admission, Algorithm7, Inner, Kind, Optimum, Refresh, Space, algorithm_7, burst, exhaustive, optimize,
};
use memtint_sched::{Density, Effort, Form, RankOrder, TaskSet, TaskSpec, Unsupported};
use memtint_units::Picoseconds;
use schemars::JsonSchema;
use serde::Serialize;

/// Target for the speedup over Algorithm 7, on the paper's task set.
const TARGET_RATIO: f64 = 1000.0;
/// Target in seconds for a set of fifty tasks.
const TARGET_LARGE_SECONDS: f64 = 1.0;
/// Limit on the events of patterns in proofs of a choice.
const PROOF: Admission = Admission::Proof { events_max: 200_000 };
/// Steps of 500 us in the space in which all proofs are tried; a larger space takes too long.
const PROVED_STEPS: u64 = 16;
/// Tasks of that set, and its load in percent.
const LARGE: u64 = 50;
const LARGE_LOADS: [u64; 2] = [50, 90];

/// The search for Colored Refresh Servers.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RefreshServers {
    /// Step of periods and budgets, in microseconds.
    pub unit_us: u64,
    /// The longest period, in microseconds.
    pub periods_us_max: u64,
    /// The paper's task set, one density each; choices are admitted by the least supply.
    pub paper_set: Vec<SearchRow>,
    /// The same set in a coarse space; choices are admitted by proof.
    pub paper_set_proved: ProvedRow,
    /// Sets of fifty tasks.
    pub large_sets: Vec<LargeRow>,
}

impl RefreshServers {
    /// Whether all targets are met.
    pub fn target_met(&self) -> bool {
        self.paper_set.iter().all(|row| row.race.target_met)
            && self.paper_set_proved.race.target_met
            && self.large_sets.iter().all(|row| row.target_met)
    }
}

/// The search compared with an exhaustive one.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RaceRow {
    /// Seconds of CPU time of the search, over all runs.
    pub cpu_s: Spread,
    /// Seconds of CPU time of Algorithm 7, one run.
    pub algorithm_7_cpu_s: f64,
    /// The same divided by the search's median.
    pub algorithm_7_by_ours: f64,
    /// The share of all time that the best choice loses to refresh, an exact fraction; null where no choice is
    /// admitted.
    pub unhidden_part: Option<String>,
    /// Whether both find the same share.
    pub same_cost: bool,
    /// Target for the speedup of the search.
    pub target_ratio: f64,
    /// Whether the target is met, with the same share.
    pub target_met: bool,
}

/// The paper's task set in one memory.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SearchRow {
    /// The search compared with Algorithm 7; tasks are assigned as in the paper.
    #[serde(flatten)]
    pub race: RaceRow,
    /// Density of a device, in gigabits.
    pub density_gbit: u32,
    /// Seconds of CPU time when the search also assigns tasks, the median.
    pub with_assignment_cpu_s: f64,
    /// The same search, with admission by proofs that include refresh phases.
    pub proved: ProvedSearch,
}

/// A search with admission by proof.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ProvedSearch {
    /// Seconds of CPU time, the median.
    pub cpu_s: f64,
    /// Median, minimum and maximum of the same; not part of the JSON.
    #[serde(skip)]
    pub spread_s: Spread,
    /// The share of all time that the best choice loses to refresh, an exact fraction; null where no choice is
    /// admitted.
    pub unhidden_part: Option<String>,
}

/// The paper's task set in a coarse space, in which all choices are proved.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ProvedRow {
    /// The search compared with all choices.
    #[serde(flatten)]
    pub race: RaceRow,
    /// Step of periods and budgets, in microseconds.
    pub unit_us: u64,
}

/// A set of many tasks.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LargeRow {
    /// Its tasks.
    pub tasks: u64,
    /// Its utilization, in percent.
    pub utilization_percent: u64,
    /// Seconds of CPU time, over all runs.
    pub cpu_s: Spread,
    /// Whether the search has an answer.
    pub answered: bool,
    /// Target for the median, in seconds.
    pub target_cpu_s: f64,
    /// Whether the target is met, with an answer.
    pub target_met: bool,
}

/// One space of one memory, for both searches.
struct Search {
    density: Density,
    space: Space,
    race: Race,
    assigned: Vec<f64>,
    /// Seconds with admission by proofs, which include refresh phases, instead of by supplies.
    proved: Vec<f64>,
    proved_cost: Option<String>,
}

/// The same search, and all choices of a coarse space, with admission by proof.
struct Proved {
    space: Space,
    race: Race,
}

/// A search and an exhaustive one.
#[derive(Default)]
struct Race {
    ours: Vec<f64>,
    cost: Option<String>,
    /// Seconds of the exhaustive search, and whether it found the same cost. Run once, because it takes long.
    plain: Option<(f64, bool)>,
}

/// A search for servers of fifty tasks.
struct Large {
    load_percent: u64,
    set: TaskSet,
    space: Space,
    seconds: Vec<f64>,
    found: bool,
}

/// All searches: for the paper's set, and for larger ones.
pub(super) struct Searches {
    searches: Vec<Search>,
    proved: Proved,
    larges: Vec<Large>,
    set: TaskSet,
    /// Tasks in the second server, as 5.5.1 assigns them.
    second: [bool; 5],
    unit_us: u64,
    steps: u64,
}

fn us(value: u64) -> Picoseconds {
    Picoseconds::from_ns(value * 1000)
}

/// Two colors of four ranks each, as in 5.3.4; periods and budgets are multiples of a unit.
fn space(density: Density, unit_us: u64, steps: u64) -> Space {
    let length = burst(density, 4, 8, RankOrder::Parallel, Form::Corrected);
    let refresh = Refresh::two_colors(8, us(64_000), length);
    let phases = vec![[us(32_000), us(0)]];
    Space::new(8, refresh, phases, us(unit_us), us(unit_us * steps), Kind::Deferrable, Inner::Edf)
        .expect("all times are in range")
}

fn set(tasks: impl IntoIterator<Item = (String, u64, u64)>) -> TaskSet {
    let specs = tasks.into_iter().map(|(name, period, wcet)| TaskSpec::new(name, us(period), us(wcet)));
    TaskSet::new(specs).expect("all times are in range")
}

/// Fifty tasks of 10 to 100 ms.
fn large(load_percent: u64) -> TaskSet {
    let periods = [10_000, 12_500, 16_000, 20_000, 25_000, 32_000, 40_000, 50_000, 80_000, 100_000];
    set((0..LARGE).map(|index| {
        let period = periods[(index * 7 % 10) as usize];
        // Shares of 5 to 15 parts, 10 on average.
        let wcet = period * load_percent * (5 + index % 11) / (LARGE * 1000);
        (format!("t{index}"), period, wcet)
    }))
}

/// Makes all searches.
pub(super) fn searches(quick: bool) -> Searches {
    // Table 5.2 of Pan 2018.
    let table = [("cnt", 20_000, 3000), ("compress", 10_000, 1200), ("lms", 10_000, 1600), ("matmult", 40_000, 10_000)];
    let table = table.into_iter().chain([("st", 8000, 2000)]);
    // Periods up to 8 ms, the shortest of a task. Algorithm 7 goes on to the hyperperiod, 40 ms, which would take it hours.
    let (unit_us, steps) = if quick { (500, 16) } else { (100, 80) };
    let search = |density| {
        let space = space(density, unit_us, steps);
        let (race, assigned) = (Race::default(), Vec::new());
        Search { density, space, race, assigned, proved: Vec::new(), proved_cost: None }
    };
    let large = |load_percent| {
        let space = space(Density::Gb2, 500, 16);
        Large { load_percent, set: large(load_percent), space, seconds: Vec::new(), found: false }
    };
    let coarse = space(Density::Gb2, 500, if quick { PROVED_STEPS / 2 } else { PROVED_STEPS });
    Searches {
        proved: Proved { space: coarse, race: Race::default() },
        searches: [Density::Gb1, Density::Gb2].into_iter().map(search).collect(),
        larges: LARGE_LOADS.into_iter().map(large).collect(),
        set: set(table.map(|(name, period, wcet)| (name.to_owned(), period, wcet))),
        second: [false, true, false, true, false],
        unit_us,
        steps,
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let began = cpu_seconds();
    let found = black_box(work());
    (found, (cpu_seconds() - began).max(1e-9))
}

/// The share of all time that is lost to refresh, exact.
fn cost(best: Option<&Optimum>) -> Option<String> {
    best.map(|best| best.unhidden.to_string())
}

impl Searches {
    /// Runs all searches once.
    pub(super) fn measure(&mut self) {
        for search in &mut self.searches {
            let found =
                |second, admission| timed(|| optimize(&self.set, second, &search.space, admission, Effort::default()));
            let (_, seconds) = found(None, Admission::Supply);
            search.assigned.push(seconds);
            let (proved, seconds) = found(Some(&self.second), PROOF);
            search.proved.push(seconds);
            search.proved_cost = cost(proved.ok().flatten().as_ref());
            let ours = found(Some(&self.second), Admission::Supply);
            search.race.measure(ours, || {
                match algorithm_7(&self.set, &self.second, &search.space, Form::Corrected, Effort::default()) {
                    Ok(Algorithm7::Best(best)) => Some(best),
                    _ => None,
                }
            });
        }
        self.proved.measure(&self.set, &self.second);
        for large in &mut self.larges {
            let (found, seconds) = timed(|| optimize(&large.set, None, &large.space, PROOF, Effort::default()));
            large.seconds.push(seconds);
            large.found = found.is_ok();
        }
    }

    pub(super) fn report(&self) -> RefreshServers {
        RefreshServers {
            unit_us: self.unit_us,
            periods_us_max: self.unit_us * self.steps,
            paper_set: self.searches.iter().map(Search::row).collect(),
            paper_set_proved: ProvedRow {
                race: self.proved.race.row(),
                unit_us: self.proved.space.unit().0 / 1_000_000,
            },
            large_sets: self.larges.iter().map(Large::row).collect(),
        }
    }
}

impl Proved {
    fn measure(&mut self, set: &TaskSet, second: &[bool]) {
        let ours = timed(|| optimize(set, Some(second), &self.space, PROOF, Effort::default()));
        self.race.measure(ours, || exhaustive(set, Some(second), &self.space, PROOF, Effort::default()).ok());
    }
}

impl Race {
    /// Records the result and time of the search; the first time, also runs the exhaustive search and compares its
    /// result, if any.
    fn measure(
        &mut self,
        (ours, seconds): (Result<Option<Optimum>, Unsupported>, f64),
        everything: impl FnOnce() -> Option<Option<Optimum>>,
    ) {
        self.ours.push(seconds);
        self.cost = cost(ours.ok().flatten().as_ref());
        if self.plain.is_none() {
            let (all, seconds) = timed(everything);
            self.plain = Some((seconds, all.is_some_and(|all| cost(all.as_ref()) == self.cost)));
        }
    }

    fn row(&self) -> RaceRow {
        let ours = spread(&self.ours);
        let (plain, agrees) = self.plain.unwrap_or((0.0, false));
        let ratio = plain / ours.median;
        RaceRow {
            cpu_s: ours,
            algorithm_7_cpu_s: plain,
            algorithm_7_by_ours: ratio,
            unhidden_part: self.cost.clone(),
            same_cost: agrees,
            target_ratio: TARGET_RATIO,
            target_met: agrees && ratio >= TARGET_RATIO,
        }
    }
}

impl Search {
    fn row(&self) -> SearchRow {
        let proved = spread(&self.proved);
        SearchRow {
            race: self.race.row(),
            density_gbit: self.density.gigabits(),
            with_assignment_cpu_s: spread(&self.assigned).median,
            proved: ProvedSearch { cpu_s: proved.median, spread_s: proved, unhidden_part: self.proved_cost.clone() },
        }
    }
}

impl Large {
    fn row(&self) -> LargeRow {
        let seconds = spread(&self.seconds);
        LargeRow {
            tasks: LARGE,
            utilization_percent: self.load_percent,
            cpu_s: seconds,
            answered: self.found,
            target_cpu_s: TARGET_LARGE_SECONDS,
            target_met: self.found && seconds.median <= TARGET_LARGE_SECONDS,
        }
    }
}

fn spread(seconds: &[f64]) -> Spread {
    Spread::of(seconds).expect("each is measured at least once")
}
