//! Parameters of methods besides the task set.

use crate::figure::Method;
use memtint_analysis::TaskSystem;
use memtint_hiding::cyclic::ColorSet;
use memtint_units::Picoseconds;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Value;

/// The most times and costs of a method.
const LIST_MAX: usize = 64;
/// The most nodes of a search.
const NODES_MAX: u64 = 1_000_000;

/// A parameter that a method does not take.
pub(crate) struct Wrong {
    pub(crate) field: String,
    pub(crate) found: String,
    pub(crate) accepted: String,
}

/// The parameters, checked; absent ones stay empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct With {
    pub(crate) t_refi: Option<Picoseconds>,
    /// How many of these times there are in a cycle.
    pub(crate) costs: Vec<(u64, Picoseconds)>,
    pub(crate) step: Option<Picoseconds>,
    /// For each task the colors that are refreshed while it runs; `None` for one that is not named.
    pub(crate) occupied: Vec<Option<ColorSet>>,
    /// For each task its instances; none for one that is not named.
    pub(crate) colors: Vec<Vec<ColorSet>>,
    /// The times, as written, too.
    pub(crate) at: Vec<(String, Picoseconds)>,
    pub(crate) nodes_max: Option<u64>,
    pub(crate) unit: Option<Picoseconds>,
    pub(crate) period_max: Option<Picoseconds>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Raw {
    t_refi: Option<String>,
    costs: Vec<Cost>,
    step: Option<String>,
    occupied: BTreeMap<String, Vec<String>>,
    colors: BTreeMap<String, Vec<String>>,
    at: Vec<String>,
    nodes_max: Option<u64>,
    unit: Option<String>,
    period_max: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cost {
    count: u64,
    time: String,
}

/// The parameters of each method; those with a star are required.
fn fields(method: Method) -> &'static [&'static str] {
    match method {
        Method::TaskSet => &["t_refi", "costs"],
        Method::Frames => &["step*"],
        Method::Place => &["occupied", "colors", "at"],
        Method::FewestSlices => &["occupied", "nodes_max"],
        Method::Color => &["nodes_max"],
        Method::Crs => &["at"],
        Method::Optimize => &["unit*", "period_max*"],
        Method::FrameRules | Method::PlaceThenAvoid | Method::Repeat | Method::Servers | Method::Algorithm8 => &[],
        // Its fields are read in `memory`.
        Method::GuaranteedBandwidth | Method::ReservationRule => &[],
    }
}

impl With {
    pub(crate) fn read(value: &Value, method: Method, file: &TaskSystem) -> Result<With, Wrong> {
        let taken = fields(method);
        let names: Vec<&str> = taken.iter().map(|field| field.trim_end_matches('*')).collect();
        let given: Vec<&str> =
            value.as_table().into_iter().flat_map(|table| table.keys().map(String::as_str)).collect();
        let accepted = || if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        if let Some(found) = given.iter().find(|found| !names.contains(found)) {
            return Err(wrong("with", found, accepted()));
        }
        let missing = taken.iter().filter_map(|field| field.strip_suffix('*')).find(|field| !given.contains(field));
        if let Some(missing) = missing {
            return Err(wrong(&format!("with.{missing}"), "missing", TIME));
        }
        let raw = Raw::deserialize(value.clone()).map_err(|error| wrong("with", error, accepted()))?;
        if raw.costs.len() > LIST_MAX || raw.at.len() > LIST_MAX {
            return Err(wrong("with", "a longer list", format!("lists of at most {LIST_MAX}")));
        }
        let costs = raw.costs.iter().map(|cost| Ok((cost.count, time("costs.time", &cost.time)?)));
        let at = raw.at.iter().map(|text| Ok((text.clone(), time("at", text)?)));
        if let Some(nodes) = raw.nodes_max.filter(|&nodes| nodes > NODES_MAX) {
            return Err(wrong("with.nodes_max", nodes, format!("at most {NODES_MAX}")));
        }
        let mut occupied = Vec::new();
        let mut colors = Vec::new();
        for (task, name) in tasks(file, &raw)?.into_iter().enumerate() {
            debug_assert_eq!(file.set.tasks()[task].name(), name);
            let frames = |frames: &Vec<String>| {
                let frames = frames.iter().map(|frame| numbered("occupied", 'f', frame));
                frames.collect::<Result<Vec<u32>, _>>().map(|frames| ColorSet::of(&frames))
            };
            occupied.push(raw.occupied.get(name).map(frames).transpose()?);
            let instances = raw.colors.get(name).into_iter().flatten().map(|instance| {
                let colors = instance.split('+').map(|color| numbered("colors", 'c', color));
                colors.collect::<Result<Vec<u32>, _>>().map(|colors| ColorSet::of(&colors))
            });
            colors.push(instances.collect::<Result<Vec<_>, _>>()?);
        }
        Ok(With {
            t_refi: raw.t_refi.map(|text| positive("t_refi", &text)).transpose()?,
            costs: costs.collect::<Result<_, _>>()?,
            step: raw.step.map(|text| positive("step", &text)).transpose()?,
            occupied,
            colors,
            at: at.collect::<Result<_, _>>()?,
            nodes_max: raw.nodes_max,
            unit: raw.unit.map(|text| positive("unit", &text)).transpose()?,
            period_max: raw.period_max.map(|text| positive("period_max", &text)).transpose()?,
        })
    }
}

/// Names of all tasks, in order; each name of a list is one.
fn tasks<'a>(file: &'a TaskSystem, raw: &Raw) -> Result<Vec<&'a str>, Wrong> {
    let names: Vec<&str> = file.set.tasks().iter().map(|task| task.name()).collect();
    for (field, found) in
        raw.occupied.keys().map(|key| ("occupied", key)).chain(raw.colors.keys().map(|key| ("colors", key)))
    {
        if !names.contains(&found.as_str()) {
            return Err(wrong(&format!("with.{field}"), found, names.join(", ")));
        }
    }
    Ok(names)
}

/// Frames and colors are counted from 1 in print.
fn numbered(field: &str, letter: char, text: &str) -> Result<u32, Wrong> {
    let number = text.strip_prefix(letter).and_then(|digits| digits.parse::<u32>().ok());
    let number = number.filter(|number| (1..=64).contains(number)).map(|number| number - 1);
    number.ok_or_else(|| wrong(&format!("with.{field}"), text, format!("{letter}1 to {letter}64")))
}

const TIME: &str = "a text with a number and its unit, such as \"8 ms\"";

fn time(field: &str, text: &str) -> Result<Picoseconds, Wrong> {
    text.parse().map_err(|_| wrong(&format!("with.{field}"), text, TIME))
}

fn positive(field: &str, text: &str) -> Result<Picoseconds, Wrong> {
    let found = time(field, text)?;
    if found.0 == 0 { Err(wrong(&format!("with.{field}"), text, "more than nothing")) } else { Ok(found) }
}

fn wrong(field: &str, found: impl ToString, accepted: impl ToString) -> Wrong {
    Wrong { field: field.to_owned(), found: found.to_string(), accepted: accepted.to_string() }
}
