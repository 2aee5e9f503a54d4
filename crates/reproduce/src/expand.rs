//! From a figure's runs to scenarios.

use crate::catalogue;
use crate::error::{ReproduceError, refuse};
use crate::figure::{Figure, lay};
use memtint_sim::Scenario;
use memtint_system::{Count, SystemFile, Time};
use memtint_units::Picoseconds;
use std::path::Path;
use toml::{Table, Value};

/// By how much the short form simulates less.
const SHORTER: u64 = 10;

/// Stands for an item of a list.
const EACH: &str = "{each}";

/// A simulation of a figure.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Its name in the figure.
    pub name: String,
    /// The scenario.
    pub scenario: Scenario,
    /// The system file of the scenario, for `memtint sim`. Equal texts are equal simulations.
    pub text: String,
}

/// The items that something is repeated for; one empty item when it is not.
pub(crate) fn items<'a>(figure: &'a Figure, each: Option<&String>, short: bool) -> Vec<&'a str> {
    let Some(list) = each else { return vec![""] };
    let shorter = figure.short.get(list).filter(|_| short);
    shorter.or_else(|| figure.lists.get(list)).into_iter().flatten().map(String::as_str).collect()
}

pub(crate) fn named(name: &str, item: &str) -> String {
    name.replace(EACH, item)
}

/// Makes the scenarios of a figure.
///
/// # Errors
///
/// Errors of the files or of the simulator.
pub fn prepare(figure: &Figure, short: bool, seed: Option<u64>) -> Result<Vec<Prepared>, ReproduceError> {
    let mut shared = Table::new();
    if let Some(machine) = &figure.machine {
        shared = catalogue::machine(machine)?.system;
    }
    lay(&figure.system, &mut shared);
    let mut all: Vec<Prepared> = Vec::new();
    for run in &figure.run {
        for item in items(figure, run.each.as_ref(), short) {
            let name = named(&run.name, item);
            if all.iter().any(|other| other.name == name) {
                return Err(refuse(&figure.id, "run.name", name, "a unique name"));
            }
            let mut table = shared.clone();
            lay(&run.system, &mut table);
            let mut tasks = Vec::new();
            for task in &run.tasks {
                tasks.push(Value::Table(expand_task(figure, &name, task)?));
            }
            table.insert("task".to_owned(), Value::Array(tasks));
            let mut value = Value::Table(table);
            fill(&mut value, item);
            number(&mut value);
            let origin = format!("{}/{name}", figure.id);
            all.push(scenario(&value, &origin, short, seed).map(|(scenario, text)| Prepared {
                name,
                scenario,
                text,
            })?);
        }
    }
    Ok(all)
}

fn expand_task(figure: &Figure, run: &str, task: &Table) -> Result<Table, ReproduceError> {
    let mut own = task.clone();
    let Some(template) = own.remove("use") else { return Ok(own) };
    let known = template.as_str().and_then(|name| figure.task.get(name));
    let Some(known) = known else {
        let names: Vec<&str> = figure.task.keys().map(String::as_str).collect();
        return Err(refuse(&figure.id, format!("run {run:?}: use"), template, names.join(", ")));
    };
    let mut table = known.clone();
    lay(&own, &mut table);
    Ok(table)
}

/// Puts an item into every text.
pub(crate) fn fill(value: &mut Value, item: &str) {
    match value {
        Value::String(text) if text.contains(EACH) => *text = named(text, item),
        Value::Array(list) => list.iter_mut().for_each(|value| fill(value, item)),
        Value::Table(table) => table.iter_mut().for_each(|(_, value)| fill(value, item)),
        _ => {}
    }
}

/// Seed and density out of a list are texts until here.
fn number(system: &mut Value) {
    let Some(simulation) = system.get_mut("simulation") else { return };
    for field in ["seed", "density_gbit"] {
        if let Some(value) = simulation.get_mut(field)
            && let Some(number) = value.as_str().and_then(|text| text.parse().ok())
        {
            *value = Value::Integer(number);
        }
    }
}

fn scenario(
    system: &Value,
    origin: &str,
    short: bool,
    seed: Option<u64>,
) -> Result<(Scenario, String), ReproduceError> {
    let text = toml::to_string(system)
        .map_err(|error| ReproduceError::Syntax { id: origin.to_owned(), reason: error.to_string() })?;
    let mut file = SystemFile::parse(&text, origin)?;
    if short {
        shorten(&mut file);
    }
    if let (Some(simulation), Some(_)) = (&mut file.simulation, seed) {
        simulation.seed = seed;
    }
    let scenario = Scenario::of_named_system(&file, origin, Path::new(""))?;
    let text = scenario.to_system()?.to_text();
    Ok((scenario, text))
}

/// A tenth of the time and of the references, but jobs stay whole, and two of those that count are left.
fn shorten(file: &mut SystemFile) {
    let least = file.tasks.iter().filter_map(|task| {
        let jobs = task.uncounted.map_or(0, Count::get) + 2;
        let phase = task.phase.map_or(0, |phase| phase.0.0);
        Some(task.period?.0.0.saturating_mul(jobs).saturating_add(phase))
    });
    let least = least.max().unwrap_or(1);
    if let Some(simulation) = &mut file.simulation {
        simulation.duration = Time(Picoseconds((simulation.duration.0.0 / SHORTER).max(least)));
    }
    for task in file.tasks.iter_mut().filter(|task| task.period.is_none()) {
        task.references = task.references.map(|references| Count::new((references.get() / SHORTER).max(1)));
    }
}
