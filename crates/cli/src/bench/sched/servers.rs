//! The search for Colored Refresh Servers, beside the dissertation's Algorithm 7, corrected.

use memtint_bench::Spread;
use std::fmt::Write as _;
use std::hint::black_box;

use memtint_hiding::crs::{
    Admission, Algorithm7, Inner, Kind, Optimum, Refresh, Space, algorithm_7, burst, exhaustive, optimize,
};
use memtint_sched::{Density, Effort, Form, RankOrder, TaskSet, TaskSpec, Unsupported};
use memtint_units::Picoseconds;
use serde_json::{Value, json};

use super::cpu_seconds;
use crate::output::{Failure, table};

/// How much faster than Algorithm 7 the search is to be, on the paper's task set.
const TARGET_RATIO: f64 = 1000.0;
/// Seconds for a set of fifty tasks.
const TARGET_LARGE_SECONDS: f64 = 1.0;
/// Events of the patterns by which a choice may be proved.
const PROOF: Admission = Admission::Proof { events_max: 200_000 };
/// Steps of 500 us in the space in which all proofs are tried, which takes long.
const PROVED_STEPS: u64 = 16;
/// Tasks of that set, and its load in percent.
const LARGE: u64 = 50;
const LARGE_LOADS: [u64; 2] = [50, 90];

/// One space that both search, of one memory.
pub(super) struct Search {
    density: Density,
    space: Space,
    race: Race,
    assigned: Vec<f64>,
    /// Refresh phases included: what is proved, and not only what supplies admit.
    proved: Vec<f64>,
    proved_cost: Option<String>,
}

/// The same search, and all choices of a coarse space, by what is proved.
pub(super) struct Proved {
    space: Space,
    race: Race,
}

/// A search beside one that tries everything.
#[derive(Default)]
struct Race {
    ours: Vec<f64>,
    cost: Option<String>,
    /// The other's seconds, and whether it found the same cost. Once: it takes long.
    plain: Option<(f64, bool)>,
}

/// Fifty tasks whose servers are looked for.
pub(super) struct Large {
    load_percent: u64,
    set: TaskSet,
    space: Space,
    seconds: Vec<f64>,
    found: bool,
}

/// What is measured: the paper's set, and larger ones.
pub(super) struct Searches {
    pub(super) searches: Vec<Search>,
    pub(super) proved: Proved,
    pub(super) larges: Vec<Large>,
    set: TaskSet,
    /// As 5.5.1 assigns them: which tasks are in the second server.
    second: [bool; 5],
    unit_us: u64,
    steps: u64,
}

fn us(value: u64) -> Picoseconds {
    Picoseconds::from_ns(value * 1000)
}

/// Two colors of four ranks each, as 5.3.4 has them; periods and budgets are so many units.
fn space(density: Density, unit_us: u64, steps: u64) -> Result<Space, Failure> {
    let length = burst(density, 4, 8, RankOrder::Parallel, Form::Corrected);
    let refresh = Refresh::two_colors(8, us(64_000), length);
    let phases = vec![[us(32_000), us(0)]];
    let space = Space::new(8, refresh, phases, us(unit_us), us(unit_us * steps), Kind::Deferrable, Inner::Edf);
    space.map_err(|error| Failure::Sentence(error.to_string()))
}

fn set(tasks: impl IntoIterator<Item = (String, u64, u64)>) -> Result<TaskSet, Failure> {
    let specs = tasks.into_iter().map(|(name, period, wcet)| TaskSpec::new(name, us(period), us(wcet)));
    TaskSet::new(specs).map_err(|error| Failure::Sentence(error.to_string()))
}

/// Fifty tasks of 10 to 100 ms.
fn large(load_percent: u64) -> Result<TaskSet, Failure> {
    let periods = [10_000, 12_500, 16_000, 20_000, 25_000, 32_000, 40_000, 50_000, 80_000, 100_000];
    set((0..LARGE).map(|index| {
        let period = periods[(index * 7 % 10) as usize];
        // Shares of 5 to 15 parts, 10 on average.
        let wcet = period * load_percent * (5 + index % 11) / (LARGE * 1000);
        (format!("t{index}"), period, wcet)
    }))
}

/// Makes them.
pub(super) fn searches(quick: bool) -> Result<Searches, Failure> {
    // Table 5.2 of Pan 2018.
    let table = [("cnt", 20_000, 3000), ("compress", 10_000, 1200), ("lms", 10_000, 1600), ("matmult", 40_000, 10_000)];
    let table = table.into_iter().chain([("st", 8000, 2000)]);
    // Periods up to 8 ms, the shortest of a task. Algorithm 7 goes on to the hyperperiod, 40 ms, which would take it hours.
    let (unit_us, steps) = if quick { (500, 16) } else { (100, 80) };
    let search = |density| {
        let space = space(density, unit_us, steps)?;
        let (race, assigned) = (Race::default(), Vec::new());
        Ok(Search { density, space, race, assigned, proved: Vec::new(), proved_cost: None })
    };
    let large = |load_percent| {
        let space = space(Density::Gb2, 500, 16)?;
        Ok(Large { load_percent, set: large(load_percent)?, space, seconds: Vec::new(), found: false })
    };
    let coarse = space(Density::Gb2, 500, if quick { PROVED_STEPS / 2 } else { PROVED_STEPS })?;
    Ok(Searches {
        proved: Proved { space: coarse, race: Race::default() },
        searches: [Density::Gb1, Density::Gb2].into_iter().map(search).collect::<Result<_, Failure>>()?,
        larges: LARGE_LOADS.into_iter().map(large).collect::<Result<_, Failure>>()?,
        set: set(table.map(|(name, period, wcet)| (name.to_owned(), period, wcet)))?,
        second: [false, true, false, true, false],
        unit_us,
        steps,
    })
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let began = cpu_seconds();
    let found = black_box(work());
    (found, (cpu_seconds() - began).max(1e-9))
}

/// The part of all time that is lost to refresh, exact.
fn cost(best: Option<&Optimum>) -> Option<String> {
    best.map(|best| best.unhidden.to_string())
}

impl Searches {
    /// Searches once more.
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

    /// Whether all targets are met.
    pub(super) fn met(&self) -> bool {
        self.searches.iter().all(|search| search.race.met())
            && self.proved.race.met()
            && self.larges.iter().all(Large::met)
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "unit_us": self.unit_us,
            "periods_us_max": self.unit_us * self.steps,
            "paper_set": self.searches.iter().map(Search::to_json).collect::<Vec<_>>(),
            "paper_set_proved": self.proved.to_json(),
            "large_sets": self.larges.iter().map(Large::to_json).collect::<Vec<_>>(),
        })
    }

    pub(super) fn to_text(&self) -> String {
        let mut text = format!(
            "refresh servers for Table 5.2 (Pan 2018), periods and budgets in steps of {} us up to {} us; processor time\n\n",
            self.unit_us,
            self.unit_us * self.steps
        );
        let heads =
            ["density", "search, s", "with assignment, s", "algorithm 7, s", "ratio", "same cost", "target", ""];
        text.push_str(&table(&heads, &[1, 2, 3, 4, 6], &self.searches.iter().map(Search::cells).collect::<Vec<_>>()));
        text.push('\n');
        text.push_str(
            "choices are admitted by the least supply there, whatever the refresh phases; by proof, phases included:\n",
        );
        for search in &self.searches {
            let seconds = Spread::of(&search.proved).expect("each is measured at least once");
            let found = search.proved_cost.as_deref().unwrap_or("none");
            let _ = writeln!(
                text,
                "{} Gb: {:.6} s ({:.6} to {:.6}), unhidden {found}, by supply {}",
                search.density.gigabits(),
                seconds.median,
                seconds.min,
                seconds.max,
                search.race.cost.as_deref().unwrap_or("none")
            );
        }
        text.push_str(&self.proved.to_text());
        for large in &self.larges {
            let seconds = large.spread();
            let _ = writeln!(
                text,
                "{LARGE} tasks, U = 0.{}: {:.3} s ({:.3} to {:.3}), at most {TARGET_LARGE_SECONDS} s: {}",
                large.load_percent,
                seconds.median,
                seconds.min,
                seconds.max,
                if large.met() { "met" } else { "not met" }
            );
        }
        text
    }
}

impl Proved {
    fn measure(&mut self, set: &TaskSet, second: &[bool]) {
        let ours = timed(|| optimize(set, Some(second), &self.space, PROOF, Effort::default()));
        self.race.measure(ours, || exhaustive(set, Some(second), &self.space, PROOF, Effort::default()).ok());
    }

    fn to_json(&self) -> Value {
        let mut all = self.race.to_json();
        all["unit_us"] = json!(self.space.unit().0 / 1_000_000);
        all
    }

    fn to_text(&self) -> String {
        format!(
            "both by proof, 2 Gb, in steps of {} us: {:.6} s, algorithm 7 {:.3} s, ratio {:.0}, at least {TARGET_RATIO}: {}; same cost: {}\n",
            self.space.unit().0 / 1_000_000,
            self.race.spread().median,
            self.race.plain(),
            self.race.ratio(),
            if self.race.met() { "met" } else { "not met" },
            if self.race.agrees() { "yes" } else { "NO" }
        )
    }
}

impl Race {
    /// Takes what was found and how long it took; the first time, what trying everything finds too, if it can.
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

    fn spread(&self) -> Spread {
        Spread::of(&self.ours).expect("each is measured at least once")
    }

    fn plain(&self) -> f64 {
        self.plain.map_or(0.0, |(seconds, _)| seconds)
    }

    fn agrees(&self) -> bool {
        self.plain.is_some_and(|(_, agrees)| agrees)
    }

    fn ratio(&self) -> f64 {
        self.plain() / self.spread().median
    }

    fn met(&self) -> bool {
        self.agrees() && self.ratio() >= TARGET_RATIO
    }

    fn to_json(&self) -> Value {
        let ours = self.spread();
        json!({
            "cpu_s": {"median": ours.median, "min": ours.min, "max": ours.max},
            "algorithm_7_cpu_s": self.plain(),
            "algorithm_7_by_ours": self.ratio(),
            "unhidden_part": self.cost,
            "same_cost": self.agrees(),
            "target_ratio": TARGET_RATIO,
            "target_met": self.met(),
        })
    }
}

impl Search {
    fn to_json(&self) -> Value {
        let mut all = self.race.to_json();
        let median = |seconds| Spread::of(seconds).map(|spread| spread.median);
        all["density_gbit"] = json!(self.density.gigabits());
        all["with_assignment_cpu_s"] = json!(median(&self.assigned));
        all["proved"] = json!({"cpu_s": median(&self.proved), "unhidden_part": self.proved_cost});
        all
    }

    fn cells(&self) -> Vec<String> {
        let assigned = Spread::of(&self.assigned).map_or(0.0, |spread| spread.median);
        vec![
            format!("{} Gb", self.density.gigabits()),
            format!("{:.6}", self.race.spread().median),
            format!("{assigned:.6}"),
            format!("{:.3}", self.race.plain()),
            format!("{:.0}", self.race.ratio()),
            if self.race.agrees() { "yes" } else { "NO" }.to_owned(),
            format!("{TARGET_RATIO}"),
            if self.race.met() { "met" } else { "not met" }.to_owned(),
        ]
    }
}

impl Large {
    fn spread(&self) -> Spread {
        Spread::of(&self.seconds).expect("each is measured at least once")
    }

    fn met(&self) -> bool {
        self.found && self.spread().median <= TARGET_LARGE_SECONDS
    }

    fn to_json(&self) -> Value {
        let seconds = self.spread();
        json!({
            "tasks": LARGE,
            "utilization_percent": self.load_percent,
            "cpu_s": {"median": seconds.median, "min": seconds.min, "max": seconds.max},
            "answered": self.found,
            "target_cpu_s": TARGET_LARGE_SECONDS,
            "target_met": self.met(),
        })
    }
}
