//! Which verb uses which field, so that no field is ignored in silence.

use toml::Value;

use crate::file::{SystemFile, TaskEntry};
use crate::quantity::Ranks;
use crate::servers::ServerPolicy;
use crate::simulation::SchedulingName;

/// How many verbs take a system file.
const VERBS: usize = 7;

/// A verb that takes a system file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `memtint analyze`.
    Analyze,
    /// `memtint refresh plan`.
    RefreshPlan,
    /// `memtint refresh simulate` and `compare`.
    RefreshSimulate,
    /// `memtint sim`.
    Sim,
    /// `memtint run`.
    Run,
    /// `memtint inspect`.
    Inspect,
    /// `memtint guard`.
    Guard,
}

impl Verb {
    /// All of them, in the order of the columns below.
    pub const ALL: [Verb; VERBS] =
        [Verb::Analyze, Verb::RefreshPlan, Verb::RefreshSimulate, Verb::Sim, Verb::Run, Verb::Inspect, Verb::Guard];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Verb::Analyze => "analyze",
            Verb::RefreshPlan => "refresh plan",
            Verb::RefreshSimulate => "refresh simulate",
            Verb::Sim => "sim",
            Verb::Run => "run",
            Verb::Inspect => "inspect",
            Verb::Guard => "guard",
        }
    }
}

/// Use of a field by a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Its answer depends on it.
    Used,
    /// It is about something that the verb does not judge: the answer is the same with any value.
    Apart,
    /// The verb does not consider it, although it is relevant to the verb's answer: reports name it.
    LeftOut,
    /// As `LeftOut`; and ignoring it could turn a no into a yes, so the verb refuses the file.
    Decisive,
}

use Use::{Apart, Decisive, LeftOut, Used};

/// Each field, and its use by each verb, in the order of [`Verb::ALL`]. A table such as `[memory]` counts as one field.
const FIELDS: &[(&str, [Use; VERBS])] = &[
    ("schema", [Used, Used, Used, Used, Used, Used, Used]),
    ("description", [Apart, Apart, Apart, Apart, Apart, Apart, Apart]),
    ("platform", [LeftOut, LeftOut, LeftOut, Used, Used, Used, Used]),
    ("granule", [Apart, Apart, Apart, Used, Used, Used, Used]),
    ("group", [Decisive, Decisive, Decisive, Used, LeftOut, LeftOut, LeftOut]),
    ("simulation", [Apart, Apart, Apart, Used, Apart, Apart, Apart]),
    ("refresh", [Used, Decisive, Decisive, LeftOut, Apart, Apart, Apart]),
    ("regulator", [Used, Decisive, Decisive, LeftOut, LeftOut, Apart, LeftOut]),
    ("banks", [Used, Decisive, Decisive, LeftOut, Apart, Apart, Apart]),
    ("shared_banks", [Used, Decisive, Decisive, LeftOut, Apart, Apart, Apart]),
    ("parallel_banks", [Used, Decisive, Decisive, LeftOut, Apart, Apart, Apart]),
    ("memory", [Used, Used, Used, Used, LeftOut, Apart, Apart]),
    ("cyclic", [Used, Used, Used, LeftOut, LeftOut, Apart, Apart]),
    ("color", [Used, Used, Used, Used, LeftOut, Apart, Apart]),
    ("server", [Used, LeftOut, Used, Used, LeftOut, Apart, Apart]),
    ("task.name", [Used, Used, Used, Used, Used, Used, Used]),
    ("task.command", [Apart, Apart, Apart, Apart, Used, Apart, Apart]),
    ("task.program", [Apart, Apart, Used, Used, Apart, Apart, Apart]),
    ("task.workload", [Apart, Apart, LeftOut, Used, Apart, Apart, Apart]),
    ("task.references", [Apart, Apart, LeftOut, Used, Apart, Apart, Apart]),
    ("task.uncounted", [Apart, Apart, LeftOut, Used, Apart, Apart, Apart]),
    ("task.barrier", [Apart, Apart, LeftOut, Used, Apart, Apart, Apart]),
    ("task.late", [Apart, Apart, LeftOut, Used, Apart, Apart, Apart]),
    ("task.period", [Used, Used, Used, Used, LeftOut, Apart, Apart]),
    ("task.wcet", [Used, Used, Used, LeftOut, LeftOut, Apart, Apart]),
    ("task.deadline", [Used, Used, Used, Used, LeftOut, Apart, Apart]),
    ("task.phase", [Used, Used, Used, Used, LeftOut, Apart, Apart]),
    ("task.jitter", [Used, Used, Used, Used, LeftOut, Apart, Apart]),
    ("task.blocking", [Used, Used, Used, LeftOut, LeftOut, Apart, Apart]),
    ("task.priority", [Used, LeftOut, Used, Used, LeftOut, Apart, Apart]),
    ("task.lines", [Used, Apart, Used, LeftOut, Apart, Apart, Apart]),
    ("task.cores", [Used, LeftOut, LeftOut, Used, Used, LeftOut, Used]),
    ("task.banks", [LeftOut, LeftOut, LeftOut, Used, Used, Used, Apart]),
    ("task.sets", [LeftOut, LeftOut, LeftOut, Used, Used, Used, Apart]),
    ("task.node", [LeftOut, LeftOut, LeftOut, Used, Used, Used, Apart]),
    ("task.ways", [LeftOut, LeftOut, LeftOut, Used, LeftOut, LeftOut, Apart]),
    ("task.allocator", [Apart, Apart, Apart, Used, Apart, Apart, Apart]),
    ("task.huge_pages", [Apart, Apart, Apart, Used, LeftOut, Apart, Apart]),
    ("task.mode", [Apart, Apart, Apart, Used, Used, Apart, Apart]),
    ("task.shared", [Apart, Apart, Apart, Used, Used, Apart, Apart]),
    ("task.bandwidth", [Decisive, Decisive, Decisive, Used, Used, LeftOut, Used]),
    ("task.refresh", [Decisive, Decisive, Decisive, Decisive, Used, LeftOut, LeftOut]),
    ("task.ranks", [Used, Used, Used, Used, LeftOut, LeftOut, Apart]),
    ("task.copy", [Used, Used, Used, Used, LeftOut, Apart, Apart]),
    ("task.globals", [Apart, Apart, Used, Used, Apart, Apart, Apart]),
    ("task.copy_of", [Decisive, Decisive, Decisive, Used, Apart, Apart, Apart]),
    ("task.server", [Used, LeftOut, Used, Used, LeftOut, Apart, Apart]),
    ("task.copy_server", [Used, Used, Used, Used, LeftOut, Apart, Apart]),
];

/// Lists all fields: `platform`, `task.period`, and tables such as `memory`.
pub fn fields() -> impl Iterator<Item = &'static str> {
    FIELDS.iter().map(|&(field, _)| field)
}

/// Lists the fields of a file that a verb uses.
#[must_use]
pub fn used(file: &SystemFile, verb: Verb) -> Vec<&'static str> {
    given(file, verb, |found| found == Used)
}

/// Lists the fields of a file that a verb does not consider although they are relevant to its answer.
#[must_use]
pub fn left_out(file: &SystemFile, verb: Verb) -> Vec<&'static str> {
    given(file, verb, |found| matches!(found, LeftOut | Decisive))
}

/// Lists the fields of a file without which a verb could say yes where with them it is a no.
#[must_use]
pub fn decisive(file: &SystemFile, verb: Verb) -> Vec<&'static str> {
    given(file, verb, |found| found == Decisive)
}

fn given(file: &SystemFile, verb: Verb, wanted: impl Fn(Use) -> bool) -> Vec<&'static str> {
    let written = Value::try_from(file).expect("a system file has only values that TOML can hold");
    let tasks = written.get("task").and_then(Value::as_array);
    let is_given = |field: &str| match field.strip_prefix("task.") {
        Some(own) => tasks.is_some_and(|tasks| tasks.iter().any(|task| task.get(own).is_some())),
        None => written.get(field).is_some(),
    };
    let column = Verb::ALL.iter().position(|&other| other == verb).expect("it is one of all");
    let uses = |field: &str, listed: Use| match (verb, listed) {
        (Verb::Sim, Used) if !is_simulated(file, field) => LeftOut,
        _ => listed,
    };
    let fields = FIELDS.iter().filter(|(field, listed)| is_given(field) && wanted(uses(field, listed[column])));
    fields.map(|&(field, _)| field).collect()
}

/// Whether a simulation of this file uses a field that it uses in some files only: for a field of tasks, that of each task.
fn is_simulated(file: &SystemFile, field: &str) -> bool {
    let simulation = file.simulation.as_ref();
    let software_refresh = simulation.is_some_and(|own| own.timetable.is_none() && own.controller.is_by_timetable());
    let by_priority = |task: &TaskEntry| match file.servers.iter().find(|server| server.name == task.server) {
        Some(server) if task.server.is_some() => server.scheduling == Some(ServerPolicy::Fp),
        _ => simulation.is_some_and(|own| own.system.scheduling == SchedulingName::FixedPriority),
    };
    let is_copied = |task: &TaskEntry| {
        let is_copy_of_it = |other: &TaskEntry| other.copy_of.is_some() && other.copy_of == task.name;
        task.copy_server.is_some() || task.copy_of.is_some() || file.tasks.iter().any(is_copy_of_it)
    };
    let mut tasks = file.tasks.iter();
    match field {
        "memory" => software_refresh,
        // Without it, colors are the ranks of servers, and their phases mean nothing.
        "color" => {
            let of_servers = file.servers.iter().any(|server| server.color.is_some());
            software_refresh || (of_servers && file.colors.iter().all(|color| color.phase.is_none()))
        }
        "task.priority" => tasks.all(|task| task.priority.is_none() || by_priority(task)),
        "task.ranks" => tasks.all(|task| !matches!(task.ranks, Some(Ranks::Count(_)))),
        "task.copy" => tasks.all(|task| task.copy.is_none() || is_copied(task)),
        "task.globals" => tasks.all(|task| task.globals.is_none() || is_copied(task)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The properties of a schema, by the name of a definition.
    fn properties(schema: &serde_json::Value, pointer: &str) -> Vec<String> {
        let found = schema.pointer(pointer).and_then(serde_json::Value::as_object).expect("the schema has it");
        found.keys().cloned().collect()
    }

    /// A field in which two tasks differ counts as used only when it is used for both.
    #[test]
    fn a_simulation_names_what_it_does_not_use_of_one_task() {
        let simulation = |refresh: &str| {
            format!(
                "[simulation]\ndevice = \"d\"\nduration = \"1 ms\"\ncores = {{ mhz = 1 }}\n\
                 system = {{ scheduling = \"fixed-priority\" }}\ncontroller = {{ refresh = \"{refresh}\" }}\n"
            )
        };
        let task = |name: &str, lines: &str| format!("[[task]]\nname = \"{name}\"\n{lines}\n");
        let server = "[[server]]\nname = \"S\"\ncolor = \"c\"\n";
        let color = |phase: &str| format!("[[color]]\nname = \"c\"\nranks = \"0\"\n{phase}\n");
        let both =
            |one: &str, other: &str| task("a", one) + &task("b", other) + server + &color("") + &simulation("none");
        let cases = [
            (both("priority = 1", "priority = 2"), &[][..]),
            (both("priority = 1", "priority = 2\nserver = \"S\""), &["task.priority"]),
            (both("ranks = \"0\"", "ranks = \"1\""), &[]),
            (both("ranks = \"0\"", "ranks = 1"), &["task.ranks"]),
            (both("copy = \"1 us\"", "copy_of = \"a\""), &[]),
            (both("copy = \"1 us\"", ""), &["task.copy"]),
            (both("", "globals = \"1 KiB\"\ncopy_server = \"S\""), &[]),
            (both("globals = \"1 KiB\"", "copy_server = \"S\""), &["task.globals"]),
            (server.to_owned() + &color("phase = \"1 ms\"") + &simulation("timetable"), &[]),
            (server.to_owned() + &color("phase = \"1 ms\"") + &simulation("none"), &["color"]),
        ];
        for (text, expected) in cases {
            let file = SystemFile::parse(&text, "f").unwrap();
            assert_eq!(left_out(&file, Verb::Sim), expected, "{text}");
        }
    }

    #[test]
    fn each_field_of_the_format_is_in_the_table() {
        let schema = serde_json::to_value(crate::json_schema()).unwrap();
        let top = properties(&schema, "/properties").into_iter().filter(|field| field != "task");
        let tasks = properties(&schema, "/$defs/TaskEntry/properties");
        let format: BTreeSet<String> = top.chain(tasks.iter().map(|field| format!("task.{field}"))).collect();
        assert_eq!(format, fields().map(str::to_owned).collect());
        assert_eq!(format.len(), FIELDS.len(), "each once");
    }
}
