//! The run time of a program under a budget, from its profile. It is no bound.

use memtint_sched::{Regulator, Stretch, predicted_run_time};
use memtint_units::Picoseconds;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Version of the form of the report.
const SCHEMA: u32 = 1;

/// A profile: the part of a report of `memtint sim` that shows how a program uses memory; anything else in it is left alone.
#[derive(Clone, Debug, Deserialize)]
pub struct Profile {
    simulated_ns: f64,
    bandwidth: Option<Bandwidth>,
}

#[derive(Clone, Debug, Deserialize)]
struct Bandwidth {
    counters: Vec<Counter>,
    regulators: Vec<Named>,
    #[serde(default)]
    history: Vec<Period>,
}

#[derive(Clone, Debug, Deserialize)]
struct Counter {
    counts: String,
    event_bytes: u64,
}

#[derive(Clone, Debug, Deserialize)]
struct Named {
    subject: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Period {
    subject: String,
    began_ns: f64,
    events: u64,
    throttled: bool,
}

/// A budget to predict with.
#[derive(Clone, Debug)]
pub struct Budgeted {
    /// Core or task, as the profile names it; `None`: the only one.
    pub subject: Option<String>,
    /// Budget in megabytes a second.
    pub mb_per_s: u64,
    /// Time between two budgets.
    pub period: Picoseconds,
    /// Most events of a grant, each of which ends with an interrupt; 0: one grant for each budget.
    pub quantum: u64,
    /// Time of an interrupt on the core.
    pub overhead: Picoseconds,
}

/// A run time that is predicted.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Prediction {
    /// Version of the form of this report.
    pub schema: u32,
    /// `guard-predict`.
    #[schemars(extend("const" = "guard-predict"))]
    pub report: &'static str,
    /// Core or task.
    pub subject: String,
    /// What is counted.
    pub counts: String,
    /// Parts of the profile.
    pub stretches: usize,
    /// Events of the program.
    pub events: u64,
    /// Run time alone.
    pub alone_ns: f64,
    /// Time between two budgets.
    pub period_ns: f64,
    /// Events per period.
    pub budget: u64,
    /// Run time under the budget.
    pub predicted_ns: f64,
    /// Run time under the budget by that alone.
    pub slowdown: f64,
}

/// Why nothing is predicted.
#[derive(Debug, Error)]
pub enum PredictError {
    /// The text is no report.
    #[error("no report of memtint sim: {0}")]
    Report(serde_json::Error),
    /// Nothing was regulated.
    #[error("bandwidth is missing; accepted is a report of a system file with [simulation.bandwidth]")]
    NoBandwidth,
    /// Several things were counted.
    #[error("bandwidth has {found} counters; accepted is one")]
    Counters {
        /// Number of counters.
        found: usize,
    },
    /// Periods are missing.
    #[error(
        "bandwidth.history is missing; accepted is a report of a system file with history = true in [simulation.bandwidth]"
    )]
    NoHistory,
    /// The subject is not in the profile, or there are several.
    #[error("--subject is {}; accepted is one of {names:?}", found.as_ref().map_or("missing".to_owned(), |name| format!("{name:?}")))]
    Subject {
        /// The subject that was named.
        found: Option<String>,
        /// Those of the profile.
        names: Vec<String>,
    },
    /// The program used its budget up.
    #[error(
        "{subject} was throttled in the period from {began_ns} ns on; accepted is a profile with a budget that is never used up"
    )]
    Throttled {
        /// The subject.
        subject: String,
        /// Beginning of the first such period.
        began_ns: f64,
    },
    /// Periods overlap.
    #[error("bandwidth.history: a period from {began_ns} to {end_ns} ns; accepted are ascending times")]
    History {
        /// Beginning of a period.
        began_ns: f64,
        /// Its end.
        end_ns: f64,
    },
    /// The budget is none.
    #[error(transparent)]
    Regulator(#[from] memtint_sched::SchedError),
    /// Interrupts leave no time.
    #[error("interrupts that take a whole period leave no time; accepted is a shorter --overhead")]
    NoTime,
}

impl Profile {
    /// Reads a report of `memtint sim`.
    ///
    /// # Errors
    /// [`PredictError::Report`].
    pub fn parse(text: &str) -> Result<Profile, PredictError> {
        serde_json::from_str(text).map_err(PredictError::Report)
    }

    /// Predicts the run time under a budget. The program goes on as it did alone, and stands still from the last line
    /// of its budget to the end of the period. It excludes delays by other cores.
    ///
    /// # Errors
    /// [`PredictError`].
    pub fn predict(&self, budgeted: &Budgeted) -> Result<Prediction, PredictError> {
        let bandwidth = self.bandwidth.as_ref().ok_or(PredictError::NoBandwidth)?;
        let [counter] = &bandwidth.counters[..] else {
            return Err(PredictError::Counters { found: bandwidth.counters.len() });
        };
        if bandwidth.history.is_empty() {
            return Err(PredictError::NoHistory);
        }
        let subject = bandwidth.subject(budgeted.subject.as_deref())?;
        let periods: Vec<&Period> = bandwidth.history.iter().filter(|period| period.subject == subject).collect();
        if let Some(period) = periods.iter().find(|period| period.throttled) {
            return Err(PredictError::Throttled { subject, began_ns: period.began_ns });
        }
        let stretches = stretches(&periods, self.simulated_ns)?;
        let budget = u128::from(budgeted.mb_per_s) * 1_000_000 * u128::from(budgeted.period.0)
            / (u128::from(counter.event_bytes.max(1)) * 1_000_000_000_000);
        let budget = u64::try_from(budget).unwrap_or(u64::MAX);
        let regulator = Regulator::new(budgeted.period, budget, Picoseconds(0))?
            .counting(budgeted.quantum, 0)?
            .overhead(budgeted.overhead)?;
        let predicted = predicted_run_time(&stretches, &regulator).ok_or(PredictError::NoTime)?;
        Ok(Prediction {
            schema: SCHEMA,
            report: "guard-predict",
            counts: counter.counts.clone(),
            stretches: stretches.len(),
            events: stretches.iter().map(|stretch| stretch.lines).sum(),
            alone_ns: self.simulated_ns,
            period_ns: budgeted.period.as_ns(),
            budget,
            predicted_ns: predicted.as_ns(),
            slowdown: predicted.as_ns() / self.simulated_ns,
            subject,
        })
    }
}

impl Bandwidth {
    fn subject(&self, named: Option<&str>) -> Result<String, PredictError> {
        let names: Vec<String> = self.regulators.iter().map(|regulator| regulator.subject.clone()).collect();
        match (named, &names[..]) {
            (None, [only]) => Ok(only.clone()),
            (Some(name), _) if names.iter().any(|own| own == name) => Ok(name.to_owned()),
            (found, _) => Err(PredictError::Subject { found: found.map(str::to_owned), names }),
        }
    }
}

/// The times between the beginnings of periods, and to the end of the run.
fn stretches(periods: &[&Period], end_ns: f64) -> Result<Vec<Stretch>, PredictError> {
    let ends = periods.iter().skip(1).map(|period| period.began_ns).chain([end_ns]);
    let stretch = |(period, end_ns): (&&Period, f64)| {
        let began_ns = period.began_ns;
        let ps = (end_ns - began_ns) * 1000.0;
        // Less than a day; a number that is none fails, too.
        if !(0.0..1e17).contains(&ps) {
            return Err(PredictError::History { began_ns, end_ns });
        }
        Ok(Stretch { time: Picoseconds(ps.round() as u64), lines: period.events })
    };
    periods.iter().zip(ends).map(stretch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten lines of 64 bytes in each of three milliseconds.
    const REPORT: &str = r#"{
        "simulated_ns": 3e6,
        "bandwidth": {
            "counters": [{ "counts": "reads", "event_bytes": 64 }],
            "regulators": [{ "subject": "core 0" }],
            "history": [
                { "subject": "core 0", "began_ns": 0, "events": 10, "throttled": false },
                { "subject": "core 0", "began_ns": 1e6, "events": 10, "throttled": false },
                { "subject": "core 0", "began_ns": 2e6, "events": 10, "throttled": false }
            ]
        }
    }"#;

    fn budgeted(mb_per_s: u64) -> Budgeted {
        let (period, overhead) = (Picoseconds(1_000_000_000), Picoseconds(0));
        Budgeted { subject: None, mb_per_s, period, quantum: 0, overhead }
    }

    #[test]
    fn a_large_budget_changes_nothing() {
        let prediction = Profile::parse(REPORT).unwrap().predict(&budgeted(1000)).unwrap();
        assert_eq!((prediction.events, prediction.stretches), (30, 3));
        assert_eq!((prediction.predicted_ns, prediction.slowdown), (3e6, 1.0));
    }

    #[test]
    fn a_profile_that_shows_nothing_is_refused() {
        let refused = |from: &str, to: &str| {
            let profile = Profile::parse(&REPORT.replace(from, to)).unwrap();
            profile.predict(&budgeted(1000)).unwrap_err().to_string()
        };
        assert!(refused("\"history\"", "\"other\"").starts_with("bandwidth.history is missing"));
        assert!(refused("\"bandwidth\"", "\"other\"").starts_with("bandwidth is missing"));
        assert!(refused("false", "true").starts_with("core 0 was throttled in the period from 0 ns on"));
        assert!(refused("2e6", "5e5").starts_with("bandwidth.history: a period from 1000000 to 500000 ns"));
        let named = Budgeted { subject: Some("core 1".to_owned()), ..budgeted(1000) };
        let error = Profile::parse(REPORT).unwrap().predict(&named).unwrap_err().to_string();
        assert_eq!(error, "--subject is \"core 1\"; accepted is one of [\"core 0\"]");
    }
}
