//! The request of a probe, stored as notes in a recording, so that the probe can be repeated.

use super::error::SessionError;
use crate::log::LogPart;
use crate::report::Settings;
use schemars::JsonSchema;
use serde::Serialize;

/// The search algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// memtint's algorithm.
    Own,
    /// The detector of PALLOC.
    Palloc,
    /// Algorithm 1 of BPM.
    Bpm,
}

impl Algorithm {
    const ALL: [Algorithm; 3] = [Algorithm::Own, Algorithm::Palloc, Algorithm::Bpm];

    /// Returns its name in logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Own => "own",
            Algorithm::Palloc => "palloc",
            Algorithm::Bpm => "bpm",
        }
    }
}

/// All parameters of a probe; its measurements depend only on these and on the machine's readings.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The search algorithm. A published algorithm only finds banks.
    pub algorithm: Algorithm,
    /// The parts to probe, in the order of [`LogPart`], each once.
    pub parts: Vec<LogPart>,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Required confidence in a mapping, from 0.5 to 1 (excluded).
    pub confidence: f64,
    /// Whether to search for a function that shifts the time of non-conflicting pairs.
    pub shift: bool,
    /// Banks of the machine, a power of two: an input of PALLOC's detector.
    pub banks: Option<u32>,
    /// Repetitions of a published algorithm; `None`: as published.
    pub repeats: Option<u32>,
}

impl Default for Request {
    fn default() -> Request {
        let Settings { seed, confidence, shift, .. } = Settings::default();
        Request {
            algorithm: Algorithm::Own,
            parts: LogPart::ALL.to_vec(),
            seed,
            confidence,
            shift,
            banks: None,
            repeats: None,
        }
    }
}

impl Request {
    /// Returns whether a part is requested.
    #[must_use]
    pub fn has(&self, part: LogPart) -> bool {
        self.parts.contains(&part)
    }

    /// Gives the settings of [`probe()`](crate::probe()).
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings { seed: self.seed, confidence: self.confidence, shift: self.shift, ..Settings::default() }
    }

    /// Gives the notes of a log, each with its key.
    #[must_use]
    pub fn notes(&self) -> [(&'static str, String); 7] {
        let number = |given: Option<u32>| given.map_or_else(|| "none".to_owned(), |number| number.to_string());
        [
            ("algorithm", self.algorithm.name().to_owned()),
            ("only", LogPart::list(&self.parts)),
            ("seed", self.seed.to_string()),
            ("confidence", self.confidence.to_string()),
            ("shift", if self.shift { "yes" } else { "no" }.to_owned()),
            ("banks", number(self.banks)),
            ("repeats", number(self.repeats)),
        ]
    }

    /// Reads the notes of a log; `log` is its name in messages.
    ///
    /// # Errors
    /// [`SessionError::Note`] for an unknown value, [`SessionError::NoteCount`] for a note that is missing or not
    /// unique.
    pub fn of_notes(log: &str, notes: &[(String, String)]) -> Result<Request, SessionError> {
        let note = |key: &'static str| note(log, notes, key);
        let wrong = |key: &'static str, found: &str, accepted: &'static str| SessionError::Note {
            log: log.to_owned(),
            key,
            found: found.to_owned(),
            accepted,
        };
        let number = |key: &'static str| match note(key)? {
            "none" => Ok(None),
            found => found.parse().map(Some).map_err(|_| wrong(key, found, "a number, or none")),
        };
        let [algorithm, only, seed, confidence, shift] = ["algorithm", "only", "seed", "confidence", "shift"].map(note);
        let (algorithm, only, seed, confidence, shift) = (algorithm?, only?, seed?, confidence?, shift?);
        let parts = only.split(',').map(|name| LogPart::ALL.into_iter().find(|part| part.name() == name));
        let parts = parts.collect::<Option<Vec<LogPart>>>();
        let confident = confidence.parse().ok().filter(|&share| is_confidence(share));
        Ok(Request {
            algorithm: Algorithm::ALL
                .into_iter()
                .find(|known| known.name() == algorithm)
                .ok_or_else(|| wrong("algorithm", algorithm, "own, palloc or bpm"))?,
            parts: LogPart::in_order(&parts.ok_or_else(|| wrong("only", only, "dram, llc, nodes, or some of them"))?),
            seed: seed.parse().map_err(|_| wrong("seed", seed, "a number"))?,
            confidence: confident.ok_or_else(|| wrong("confidence", confidence, "a probability"))?,
            shift: match shift {
                "yes" => true,
                "no" => false,
                _ => return Err(wrong("shift", shift, "yes or no")),
            },
            banks: number("banks")?,
            repeats: number("repeats")?,
        })
    }
}

/// Returns whether a probability is accepted as required confidence.
pub fn is_confidence(share: f64) -> bool {
    (0.5..1.0).contains(&share)
}

/// Returns a note of a log, which must contain it exactly once.
pub(super) fn note<'n>(log: &str, notes: &'n [(String, String)], key: &'static str) -> Result<&'n str, SessionError> {
    let mut found = notes.iter().filter(|(own, _)| own == key);
    match (found.next(), found.next()) {
        (Some((_, text)), None) => Ok(text),
        (first, _) => Err(SessionError::NoteCount { log: log.to_owned(), key, twice: first.is_some() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_give_the_request_again() {
        let request = Request {
            algorithm: Algorithm::Palloc,
            parts: vec![LogPart::Dram],
            confidence: 0.9999,
            shift: true,
            banks: Some(8),
            ..Request::default()
        };
        let notes: Vec<(String, String)> = request.notes().map(|(key, text)| (key.to_owned(), text)).into();
        assert_eq!(Request::of_notes("log", &notes).unwrap(), request);
        let refused = |key: &str, text: &str| {
            let changed =
                |(own, old): &(String, String)| (own.clone(), if own == key { text.to_owned() } else { old.clone() });
            let changed: Vec<(String, String)> = notes.iter().map(changed).collect();
            Request::of_notes("log", &changed).unwrap_err().to_string()
        };
        assert_eq!(refused("shift", "maybe"), "log: note shift: \"maybe\" found; accepted is yes or no");
        assert_eq!(refused("confidence", "1"), "log: note confidence: \"1\" found; accepted is a probability");
        assert!(refused("only", "dram,l2").ends_with("accepted is dram, llc, nodes, or some of them"));
        let missing = Request::of_notes("log", &notes[1..]).unwrap_err().to_string();
        assert_eq!(missing, "log: note algorithm stands there nowhere; accepted is once");
    }
}
