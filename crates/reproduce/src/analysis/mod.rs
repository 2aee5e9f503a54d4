//! Analyses: a figure's questions to `memtint-sched` about a task set or a memory, and the results by name.

mod cyclic;
mod memory;
mod reservations;
mod servers;
mod with;

use crate::answer::{Answers, Found, Results};
use crate::error::{ReproduceError, refuse};
use crate::expand::{fill, items, named};
use crate::figure::{Analysis, Figure, Is, Method, PrintedForm, lay};
use memory::GuaranteedMemory;
use memtint_analysis::TaskSystem;
use memtint_hiding::HidingError;
use memtint_sched::{Form, TaskIndex};
use memtint_units::Picoseconds;
use num_bigint::BigUint;
use num_rational::Ratio;
use reservations::Reservations;
use std::collections::BTreeMap;
use toml::Value;
use with::With;

/// The most analyses of a figure, repeated ones counted each.
const ANALYSES_MAX: usize = 256;
/// The most tasks of a set.
const TASKS_MAX: usize = 64;

/// An analysis that can be run.
pub(crate) struct Ready {
    name: String,
    subject: Subject,
}

/// Its subject.
enum Subject {
    Tasks(Box<OfTasks>),
    Memory(Box<GuaranteedMemory>),
    Reservations(Reservations),
}

/// An analysis of a task set.
struct OfTasks {
    /// Its name in messages.
    place: String,
    file: TaskSystem,
    method: Method,
    form: Form,
    with: With,
}

/// Reads the task sets of a figure's analyses, each with its overlay.
///
/// # Errors
///
/// An invalid file, a missing task set, a name that is used twice, and parameters that a method does not take.
pub(crate) fn prepare(figure: &Figure, short: bool) -> Result<Vec<Ready>, ReproduceError> {
    let mut all: Vec<Ready> = Vec::new();
    for analysis in &figure.analysis {
        for item in items(figure, analysis.each.as_ref(), short) {
            let ready = ready(figure, analysis, item)?;
            if all.iter().any(|other| other.name == ready.name) {
                return Err(refuse(&figure.id, "analysis.name", ready.name, "a unique name"));
            }
            if all.len() == ANALYSES_MAX {
                return Err(refuse(&figure.id, "analysis", "more", format!("at most {ANALYSES_MAX}")));
            }
            all.push(ready);
        }
    }
    Ok(all)
}

fn ready(figure: &Figure, analysis: &Analysis, item: &str) -> Result<Ready, ReproduceError> {
    let name = named(&analysis.name, item);
    let field = |field: &str| format!("analysis {name:?}: {field}");
    let mut with = Value::Table(analysis.with.clone());
    fill(&mut with, item);
    let taskset = analysis.taskset.as_deref();
    if let Some(subject) = without_tasks(analysis.method, &figure.id, &field("with"), &with).transpose()? {
        if let Some(given) = taskset {
            return Err(refuse(&figure.id, field("taskset"), given, "none: the method asks nothing of tasks"));
        }
        return Ok(Ready { name, subject });
    }
    let Some(set) = taskset.and_then(|name| figure.taskset.get(name)) else {
        let known: Vec<&str> = figure.taskset.keys().map(String::as_str).collect();
        let accepted = if known.is_empty() { "a [taskset.NAME] of the file".to_owned() } else { known.join(", ") };
        return Err(refuse(&figure.id, field("taskset"), taskset.unwrap_or("absent"), accepted));
    };
    let mut table = set.clone();
    lay(&analysis.over, &mut table);
    let mut value = Value::Table(table);
    fill(&mut value, item);
    number_density(&mut value);
    let place = format!("{}/{name}", figure.id);
    let text = toml::to_string(&value)
        .map_err(|error| ReproduceError::Syntax { id: place.clone(), reason: error.to_string() })?;
    let file = TaskSystem::parse(&place, &text)?;
    if file.set.tasks().len() > TASKS_MAX {
        let found = file.set.tasks().len();
        return Err(refuse(&figure.id, field("tasks"), found, format!("at most {TASKS_MAX}")));
    }
    let with = With::read(&with, analysis.method, &file)
        .map_err(|wrong| refuse(&figure.id, field(&wrong.field), wrong.found, wrong.accepted))?;
    let form = match analysis.form {
        PrintedForm::Corrected => Form::Corrected,
        PrintedForm::AsPrinted => Form::AsPrinted,
    };
    let subject = Subject::Tasks(Box::new(OfTasks { place, file, method: analysis.method, form, with }));
    Ok(Ready { name, subject })
}

/// The subject of a method that needs no task set; `None` for the others.
fn without_tasks(method: Method, id: &str, field: &str, with: &Value) -> Option<Result<Subject, ReproduceError>> {
    match method {
        Method::GuaranteedBandwidth => {
            Some(GuaranteedMemory::read(id, field, with).map(|memory| Subject::Memory(Box::new(memory))))
        }
        Method::ReservationRule => Some(Reservations::read(id, field, with).map(Subject::Reservations)),
        _ => None,
    }
}

/// A density out of a list is a text until here.
fn number_density(set: &mut Value) {
    if let Some(density) = set.get_mut("memory").and_then(|memory| memory.get_mut("density"))
        && let Some(number) = density.as_str().and_then(|text| text.parse().ok())
    {
        *density = Value::Integer(number);
    }
}

/// Runs analyses, one after another.
///
/// # Errors
///
/// [`ReproduceError::System`] and [`ReproduceError::Analysis`]: a set that a method does not take.
pub(crate) fn run(all: &[Ready]) -> Result<Answers, ReproduceError> {
    let mut answers = BTreeMap::new();
    for ready in all {
        let mut found = Results::new();
        match &ready.subject {
            Subject::Tasks(tasks) => tasks.run(&mut found)?,
            Subject::Memory(memory) => memory.run(&mut found),
            Subject::Reservations(reservations) => reservations.run(&mut found),
        }
        answers.insert(ready.name.clone(), found);
    }
    Ok(Answers(answers))
}

impl Ready {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl OfTasks {
    fn run(&self, found: &mut Results) -> Result<(), ReproduceError> {
        match self.method {
            Method::TaskSet => self.task_set(found),
            Method::FrameRules => self.frame_rules(found),
            Method::Frames => self.frames(found),
            Method::Place => self.place(found),
            Method::FewestSlices => self.fewest_slices(found),
            Method::Color => self.color(found),
            Method::PlaceThenAvoid => self.place_then_avoid(found),
            Method::Repeat => self.repeat(found),
            Method::Servers => self.servers(found),
            Method::Crs => self.crs(found),
            Method::Algorithm8 => self.algorithm_8(found),
            Method::Optimize => self.optimize(found),
            // Not of tasks.
            Method::GuaranteedBandwidth | Method::ReservationRule => Ok(()),
        }
    }

    /// The analysis refuses the set: not a no.
    fn refused(&self, error: impl Into<HidingError>) -> ReproduceError {
        ReproduceError::Analysis { analysis: self.place.clone(), error: error.into() }
    }

    fn task(&self, index: TaskIndex) -> &str {
        self.file.set[index].name()
    }
}

fn yes(is: bool) -> Found {
    Found::Is(if is { Is::Yes } else { Is::No })
}

fn count(number: impl Into<BigUint>) -> Found {
    Found::Number(Ratio::from_integer(number.into()))
}

/// In milliseconds, exact.
fn ms(time: Picoseconds) -> Found {
    ms_of(&Ratio::from_integer(time.0.into()))
}

/// Picoseconds in milliseconds, exact.
fn ms_of(ps: &Ratio<BigUint>) -> Found {
    Found::Number(ps / BigUint::from(PS_PER_MS))
}

const PS_PER_MS: u64 = 1_000_000_000;

/// Milliseconds as texts, without zeros at the end.
fn ms_text(time: Picoseconds) -> String {
    let text = format!("{}.{:09}", time.0 / PS_PER_MS, time.0 % PS_PER_MS);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
