//! What is looked for, and how: what a recording says of itself, so that it can be repeated.

use clap::ValueEnum as _;
use memtint_probe::{LogPart, Settings};

use super::ProbeArguments;
use super::baseline::Algorithm;
use crate::output::Failure;

/// What can be looked for, in the order in which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(super) enum Part {
    /// Which addresses share a bank.
    Dram,
    /// Which addresses share a set and slice of the last-level cache.
    Llc,
    /// How far each NUMA node's memory is from each node's cores.
    Nodes,
}

impl Part {
    const ALL: [Part; 3] = [Part::Dram, Part::Llc, Part::Nodes];

    pub(super) fn name(self) -> &'static str {
        self.in_log().name()
    }

    pub(super) fn in_log(self) -> LogPart {
        match self {
            Part::Dram => LogPart::Dram,
            Part::Llc => LogPart::Caches,
            Part::Nodes => LogPart::Nodes,
        }
    }
}

/// Everything that the questions of a probe follow from, beside the machine's answers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted {
    pub(super) algorithm: Algorithm,
    /// In order.
    pub(super) parts: Vec<Part>,
    pub(super) seed: u64,
    pub(super) confidence: f64,
    pub(super) shift: bool,
    pub(super) banks: Option<u32>,
    pub(super) repeats: Option<u32>,
}

/// An option: its name without dashes, what was recorded, and what was asked for, if it was.
type Row = (&'static str, String, Option<String>);

impl Wanted {
    pub(super) fn of(arguments: &ProbeArguments) -> Result<Wanted, Failure> {
        let algorithm = arguments.algorithm.unwrap_or(Algorithm::Own);
        let mut parts = in_order(&arguments.only);
        if parts.is_empty() {
            parts.extend(if algorithm == Algorithm::Own { &Part::ALL[..] } else { &Part::ALL[..1] });
        }
        let wanted = Wanted {
            algorithm,
            parts,
            seed: arguments.seed(),
            confidence: arguments.confidence(),
            shift: arguments.shift,
            banks: arguments.banks,
            repeats: arguments.repeats,
        };
        wanted.checked()
    }

    fn checked(self) -> Result<Wanted, Failure> {
        if self.algorithm != Algorithm::Own && self.parts != [Part::Dram] {
            let (found, algorithm) = (self.only(), self.algorithm.name());
            return Err(Failure::Sentence(format!(
                "--only: {found} found; accepted with --algorithm {algorithm} is dram"
            )));
        }
        Ok(self)
    }

    pub(super) fn has(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }

    pub(super) fn only(&self) -> String {
        names(&self.parts)
    }

    pub(super) fn settings(&self) -> Settings {
        Settings { seed: self.seed, confidence: self.confidence, shift: self.shift, ..Settings::default() }
    }

    fn rows(&self, arguments: &ProbeArguments) -> [Row; 7] {
        let text = |given: &dyn ToString| given.to_string();
        let number = |given: Option<u32>| given.map_or_else(|| "none".to_owned(), |number| number.to_string());
        let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
        let only = || names(&in_order(&arguments.only));
        [
            ("algorithm", self.algorithm.name().to_owned(), arguments.algorithm.map(|given| given.name().to_owned())),
            ("only", self.only(), (!arguments.only.is_empty()).then(only)),
            ("seed", self.seed.to_string(), arguments.seed.map(|given| text(&given))),
            ("confidence", self.confidence.to_string(), arguments.confidence.map(|given| text(&given))),
            ("shift", yes(self.shift), arguments.shift.then(|| yes(true))),
            ("banks", number(self.banks), arguments.banks.map(|given| text(&given))),
            ("repeats", number(self.repeats), arguments.repeats.map(|given| text(&given))),
        ]
    }

    /// Notes for a log.
    pub(super) fn notes(&self, arguments: &ProbeArguments) -> Vec<(&'static str, String)> {
        self.rows(arguments).into_iter().map(|(key, recorded, _)| (key, recorded)).collect()
    }

    /// Reads the notes of a log, which no option may contradict.
    pub(super) fn of_log(log: &str, notes: &[(String, String)], arguments: &ProbeArguments) -> Result<Wanted, Failure> {
        let note = |key: &str| note(log, notes, key);
        let wrong = |key: &str, found: &str, accepted: &str| {
            Failure::Sentence(format!("{log}: note {key}: {found:?} found; accepted is {accepted}"))
        };
        let number = |key: &str| match note(key)? {
            "none" => Ok(None),
            found => found.parse().map(Some).map_err(|_| wrong(key, found, "a number, or none")),
        };
        let [algorithm, only, seed, confidence, shift] = ["algorithm", "only", "seed", "confidence", "shift"].map(note);
        let (algorithm, only, seed, confidence, shift) = (algorithm?, only?, seed?, confidence?, shift?);
        let mut parts = Vec::new();
        for part in only.split(',') {
            parts.push(
                Part::from_str(part, false).map_err(|_| wrong("only", only, "dram, llc, nodes, or some of them"))?,
            );
        }
        let wanted = Wanted {
            algorithm: Algorithm::from_str(algorithm, false)
                .map_err(|_| wrong("algorithm", algorithm, "own, palloc or bpm"))?,
            parts: in_order(&parts),
            seed: seed.parse().map_err(|_| wrong("seed", seed, "a number"))?,
            confidence: super::confidence(confidence).map_err(|_| wrong("confidence", confidence, "a probability"))?,
            shift: match shift {
                "yes" => true,
                "no" => false,
                _ => return Err(wrong("shift", shift, "yes or no")),
            },
            banks: number("banks")?,
            repeats: number("repeats")?,
        };
        for (option, recorded, given) in wanted.rows(arguments) {
            if let Some(given) = given.filter(|given| *given != recorded) {
                return Err(Failure::Sentence(format!(
                    "--{option}: {given} found; {log} was recorded with --{option} {recorded}, and --replay accepts that, or nothing"
                )));
            }
        }
        wanted.checked()
    }
}

fn in_order(parts: &[Part]) -> Vec<Part> {
    let mut parts = parts.to_vec();
    parts.sort_unstable();
    parts.dedup();
    parts
}

fn names(parts: &[Part]) -> String {
    parts.iter().map(|part| part.name()).collect::<Vec<_>>().join(",")
}

/// A note of a log, which has to be there once.
pub(super) fn note<'n>(log: &str, notes: &'n [(String, String)], key: &str) -> Result<&'n str, Failure> {
    let mut found = notes.iter().filter(|(own, _)| own == key);
    match (found.next(), found.next()) {
        (Some((_, text)), None) => Ok(text),
        (first, _) => {
            let times = if first.is_some() { "twice" } else { "nowhere" };
            Err(Failure::Sentence(format!("{log}: note {key} stands there {times}; accepted is once")))
        }
    }
}
