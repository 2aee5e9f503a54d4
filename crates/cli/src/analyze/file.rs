//! Files of task sets: what may be in them, with units.

use std::path::Path;

use memtint_sched::{Banks, Granularity, Interference, Neighbour, Refresh, Regulator, SchedError, TaskSet, TaskSpec};
use memtint_units::Picoseconds;
use serde::Deserialize;
use toml::Value;

use crate::output::Failure;

/// A file that has been checked.
pub(super) struct TaskFile {
    pub(super) path: String,
    pub(super) set: TaskSet,
    /// As in the file: 1 is the highest.
    pub(super) priorities: Vec<Option<u64>>,
    pub(super) terms: Vec<Interference>,
    /// What was said about refresh, which a witness can show.
    pub(super) refresh: Option<Refresh>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    task: Vec<RawTask>,
    refresh: Option<RawRefresh>,
    regulator: Option<RawRegulator>,
    banks: Option<RawBanks>,
}

/// Times stay values here, so that a message can name their field.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTask {
    name: Option<Value>,
    period: Option<Value>,
    wcet: Option<Value>,
    deadline: Option<Value>,
    phase: Option<Value>,
    jitter: Option<Value>,
    blocking: Option<Value>,
    priority: Option<Value>,
    lines: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRefresh {
    mode: Option<Value>,
    interval: Option<Value>,
    duration: Option<Value>,
    reopen: Option<Value>,
    moved: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRegulator {
    period: Option<Value>,
    lines: Option<Value>,
    line_min: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBanks {
    request_delay: Option<Value>,
    private_banks: Option<Value>,
    requests_at_once_max: Option<Value>,
    #[serde(default)]
    core: Vec<RawCore>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCore {
    #[serde(default)]
    task: Vec<RawTask>,
    regulator: Option<RawRegulator>,
}

impl TaskFile {
    pub(super) fn parse(path: &Path, text: &str) -> Result<TaskFile, Failure> {
        let path = format!("{path:?}");
        let raw: Raw = toml::from_str(text).map_err(|error| {
            let before = &text[..error.span().map_or(0, |span| span.start)];
            let line = before.matches('\n').count() + 1;
            Failure::Sentence(format!("{path}: line {line}: {}", error.message().replace('\n', "; ")))
        })?;
        let refuse = |error: SchedError| Failure::Sentence(format!("{path}: {error}"));
        let set = task_set(&Place::new(&path), &raw.task)?;
        let mut priorities = Vec::new();
        for (index, task) in raw.task.iter().enumerate() {
            let place = Place::task(&path, index, task);
            priorities.push(task.priority.as_ref().map(|value| place.count("priority", value, 1)).transpose()?);
        }
        let refresh = raw.refresh.map(|refresh| refresh.check(&path)?.map_err(refuse)).transpose()?;
        let regulator = raw.regulator.map(|own| own.check(&Place::table(&path, "regulator"))?.map_err(refuse));
        let banks = raw.banks.map(|banks| banks.check(&path)).transpose()?;
        let terms = refresh.map(Interference::Refresh).into_iter();
        let terms =
            terms.chain(banks.map(Interference::Banks)).chain(regulator.transpose()?.map(Interference::Regulator));
        Ok(TaskFile { terms: terms.collect(), path, set, priorities, refresh })
    }
}

fn task_set(place: &Place, tasks: &[RawTask]) -> Result<TaskSet, Failure> {
    let specs = tasks.iter().enumerate().map(|(index, task)| task.spec(&Place::task(&place.0, index, task)));
    let specs = specs.collect::<Result<Vec<_>, _>>()?;
    TaskSet::new(specs).map_err(|error| Failure::Sentence(format!("{}: {error}", place.0)))
}

impl RawTask {
    fn spec(&self, place: &Place) -> Result<TaskSpec, Failure> {
        let name = match &self.name {
            Some(Value::String(name)) if !name.is_empty() => name.clone(),
            found => return Err(place.refuse("name", found.as_ref(), "a text of its own for each task")),
        };
        let optional = |field, value: &Option<Value>| value.as_ref().map(|value| place.time(field, value)).transpose();
        let zero = Picoseconds(0);
        let mut spec = TaskSpec::new(name, place.needed("period", &self.period)?, place.needed("wcet", &self.wcet)?);
        spec.deadline = optional("deadline", &self.deadline)?;
        spec.phase = optional("phase", &self.phase)?.unwrap_or(zero);
        spec.jitter = optional("jitter", &self.jitter)?.unwrap_or(zero);
        spec.blocking = optional("blocking", &self.blocking)?.unwrap_or(zero);
        spec.lines = self.lines.as_ref().map_or(Ok(0), |value| place.count("lines", value, 1))?;
        Ok(spec)
    }
}

impl RawRefresh {
    fn check(&self, path: &str) -> Result<Result<Refresh, SchedError>, Failure> {
        let place = Place::table(path, "refresh");
        let mode = match &self.mode {
            Some(Value::String(mode)) => mode.as_str(),
            found => return Err(place.refuse("mode", found.as_ref(), MODES)),
        };
        let interval = place.needed("interval", &self.interval)?;
        let duration = place.needed("duration", &self.duration)?;
        let reopen = place.needed("reopen", &self.reopen)?;
        let moved = self.moved.as_ref().map_or(Ok(0), |value| place.count("moved", value, 0))?;
        let made = match mode {
            "auto" => Refresh::auto(interval, duration, reopen),
            "fgr2" => Refresh::fine(Granularity::Two, interval, duration, reopen),
            "fgr4" => Refresh::fine(Granularity::Four, interval, duration, reopen),
            "burst" => Refresh::burst(interval, duration, reopen),
            _ => return Err(place.refuse("mode", self.mode.as_ref(), MODES)),
        };
        Ok(made.and_then(|made| made.moved(moved)))
    }
}

const MODES: &str = "\"auto\", \"fgr2\", \"fgr4\" or \"burst\"";

impl RawRegulator {
    fn check(&self, place: &Place) -> Result<Result<Regulator, SchedError>, Failure> {
        let lines = match &self.lines {
            Some(value) => place.count("lines", value, 1)?,
            None => return Err(place.refuse("lines", None, "a whole number from 1 on")),
        };
        let line_min = self.line_min.as_ref().map_or(Ok(Picoseconds(0)), |value| place.time("line_min", value))?;
        Ok(Regulator::new(place.needed("period", &self.period)?, lines, line_min))
    }
}

impl RawBanks {
    fn check(&self, path: &str) -> Result<Banks, Failure> {
        let place = Place::table(path, "banks");
        let private_banks = match &self.private_banks {
            Some(Value::Boolean(private)) => *private,
            found => return Err(place.refuse("private_banks", found.as_ref(), "true or false")),
        };
        let most = match &self.requests_at_once_max {
            Some(value) => place.count("requests_at_once_max", value, 1)?,
            None => return Err(place.refuse("requests_at_once_max", None, "a whole number from 1 on")),
        };
        let neighbours = self.core.iter().enumerate().map(|(index, core)| {
            let place = Place::table(path, &format!("banks.core {index} (counted from 0)"));
            let tasks = (!core.task.is_empty()).then(|| task_set(&place, &core.task)).transpose()?;
            let regulator = core
                .regulator
                .as_ref()
                .map(|own| own.check(&place)?.map_err(|error| Failure::Sentence(format!("{}: {error}", place.0))));
            Ok(Neighbour { tasks, regulator: regulator.transpose()? })
        });
        Ok(Banks {
            request_delay: place.needed("request_delay", &self.request_delay)?,
            neighbours: neighbours.collect::<Result<_, Failure>>()?,
            private_banks,
            requests_at_once_max: u32::try_from(most).unwrap_or(u32::MAX),
        })
    }
}

/// Where in a file a value is, for messages.
struct Place(String);

impl Place {
    fn new(path: &str) -> Place {
        Place(path.to_owned())
    }

    fn table(path: &str, name: &str) -> Place {
        Place(format!("{path}: {name}"))
    }

    fn task(path: &str, index: usize, task: &RawTask) -> Place {
        match &task.name {
            Some(Value::String(name)) => Place(format!("{path}: task {name:?}")),
            _ => Place(format!("{path}: task {index} (counted from 0)")),
        }
    }

    fn refuse(&self, field: &str, found: Option<&Value>, accepted: &str) -> Failure {
        let found = found.map_or("missing".to_owned(), Value::to_string);
        Failure::Sentence(format!("{}: {field} is {found}; accepted is {accepted}", self.0))
    }

    fn needed(&self, field: &str, value: &Option<Value>) -> Result<Picoseconds, Failure> {
        value.as_ref().map_or_else(|| Err(self.refuse(field, None, TIME)), |value| self.time(field, value))
    }

    fn time(&self, field: &str, value: &Value) -> Result<Picoseconds, Failure> {
        value.as_str().and_then(duration).ok_or_else(|| self.refuse(field, Some(value), TIME))
    }

    fn count(&self, field: &str, value: &Value, least: u64) -> Result<u64, Failure> {
        let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
        let accepted = format!("a whole number from {least} on");
        number.filter(|&number| number >= least).ok_or_else(|| self.refuse(field, Some(value), &accepted))
    }
}

const TIME: &str =
    "a text with a number and its unit, ps, ns, us, ms or s, in whole picoseconds, such as \"20 ms\" or \"7.8 us\"";

/// A decimal number and its unit, exact: nothing is rounded, and what would be is refused.
fn duration(text: &str) -> Option<Picoseconds> {
    let split = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
    let digits = match text[split..].trim() {
        "ps" => 0,
        "ns" => 3,
        "us" => 6,
        "ms" => 9,
        "s" => 12,
        _ => return None,
    };
    let (whole, part) = text[..split].split_once('.').unwrap_or((&text[..split], ""));
    let part = part.trim_end_matches('0');
    if whole.is_empty() || part.len() > digits || text[..split].ends_with('.') || part.contains('.') {
        return None;
    }
    format!("{whole}{part:0<digits$}").parse().ok().map(Picoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_exact_or_refused() {
        let ps = |text| duration(text).map(|time| time.0);
        assert_eq!((ps("20 ms"), ps("7.8 us"), ps("0.001ns")), (Some(20_000_000_000), Some(7_800_000), Some(1)));
        assert_eq!((ps("1.50 ns"), ps("0 s"), ps("1.0 ps")), (Some(1500), Some(0), Some(1)));
        let wrong = ["20", "ms", "0.5 ps", "1.2.3 us", "-1 ms", "1e3 us", "20 m", "", ". us", "1. us", ".5 us"];
        for text in wrong.into_iter().chain(["99999999999 s"]) {
            assert_eq!(ps(text), None, "{text}");
        }
    }
}
