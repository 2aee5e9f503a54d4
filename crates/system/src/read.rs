//! From text to a [`SystemFile`], with errors that name place, field, value and accepted values.

use std::path::Path;

use serde_path_to_error::Segment;
use toml::Value;

use crate::error::SystemError;
use crate::file::{GroupEntry, SystemFile, TaskEntry};
use crate::place::Place;

/// Names that are less alike than this are no suggestion; 1 is equal.
const ALIKE_MIN: f64 = 0.6;

impl SystemFile {
    /// Reads and checks a file; messages quote its path.
    ///
    /// # Errors
    ///
    /// [`SystemError::Read`], and as [`parse`](Self::parse).
    pub fn load(path: &Path) -> Result<SystemFile, SystemError> {
        let name = format!("{path:?}");
        let text = memtint_input::text(path, memtint_input::CONFIGURATION_BYTES_MAX)
            .map_err(|cause| SystemError::Read { file: name.clone(), cause })?;
        Self::parse(&text, &name)
    }

    /// Reads and checks a text; `name` is its name in messages.
    ///
    /// Names of tasks are valid and unique. Further requirements of one verb are checked where the file becomes its
    /// input.
    ///
    /// # Errors
    ///
    /// [`SystemError`]: `Syntax`, `UnknownField`, `Missing` or `Value`.
    pub fn parse(text: &str, name: &str) -> Result<SystemFile, SystemError> {
        let table: toml::Table = toml::from_str(text).map_err(|error| syntax(text, name, &error))?;
        let (place, document) = (Place::new(name), Value::Table(table));
        let file: SystemFile = serde_path_to_error::deserialize(document.clone())
            .map_err(|error| refused(&place, &document, error.path(), error.inner().message()))?;
        file.check(&place)?;
        Ok(file)
    }

    /// Takes one task from the file, with everything else in it.
    #[must_use]
    pub fn with_task(&self, name: &str) -> SystemFile {
        let mut file = self.clone();
        file.tasks.retain(|task| task.name.as_ref().is_some_and(|own| own.as_str() == name));
        file
    }

    /// Writes the file as text; reading it again gives an equal value.
    #[must_use]
    pub fn to_text(&self) -> String {
        // Every field is a string, a number, a boolean or a table of these, which TOML can hold.
        toml::to_string(self).expect("a system file has only values that TOML can hold")
    }

    fn check(&self, place: &Place) -> Result<(), SystemError> {
        for (index, task) in self.tasks.iter().enumerate() {
            let own = place.item("task", index, task.name.as_ref().map(crate::Text::as_str));
            if let Some(workload) = &task.workload {
                workload.check(&own)?;
            }
            let name = task.checked_name(&own)?;
            if self.tasks[..index].iter().any(|earlier| earlier.name.as_ref().is_some_and(|own| own.as_str() == name)) {
                return Err(place.refuse("name of task", Some(&format!("{name:?} twice")), "each name once"));
            }
        }
        for (index, group) in self.groups.iter().enumerate() {
            let own = place.item("group", index, Some(group.name.as_str()));
            if self.groups[..index].iter().any(|earlier| earlier.name == group.name) {
                return Err(place.refuse(
                    "name of group",
                    Some(&format!("{:?} twice", group.name.as_str())),
                    "each name once",
                ));
            }
            self.check_group(index, group, &own)?;
        }
        Ok(())
    }

    /// A group has members, which no other has, and one amount.
    fn check_group(&self, index: usize, group: &GroupEntry, place: &Place) -> Result<(), SystemError> {
        if group.cores.is_some() != group.tasks.is_empty() {
            let found = if group.cores.is_some() { "both given" } else { "missing" };
            return Err(place.refuse("cores, tasks", Some(&found), "one of the two"));
        }
        let amounts = [group.mb_per_s.is_some(), group.budget.is_some(), group.weight.is_some()];
        let given = amounts.into_iter().filter(|given| *given).count();
        if given != 1 {
            let found = if given == 0 { "missing".to_owned() } else { format!("given {given} times") };
            return Err(place.refuse("the amount", Some(&found), "one of mb_per_s, budget and weight"));
        }
        if group.period.is_some() && group.budget.is_none() {
            return Err(place.refuse("period", Some(&"given without budget"), "a period of a budget, or none"));
        }
        for (at, name) in group.tasks.iter().enumerate() {
            if group.tasks[..at].contains(name) {
                return Err(place.refuse("tasks", Some(&format!("{:?} twice", name.as_str())), "each name once"));
            }
            let task = self.tasks.iter().find(|task| task.name.as_ref() == Some(name));
            let Some(task) = task else {
                return Err(place.refuse_text("tasks", name.as_str(), "names of tasks of this file"));
            };
            let twice = self.groups[..index].iter().find(|other| other.tasks.contains(name));
            let found = match (twice, task.bandwidth) {
                (Some(other), _) => format!("{:?}, which is in group {:?}, too", name.as_str(), other.name.as_str()),
                (None, Some(_)) => format!("{:?}, which has a bandwidth", name.as_str()),
                (None, None) => continue,
            };
            return Err(place.refuse("tasks", Some(&found), "tasks without another budget"));
        }
        Ok(())
    }
}

impl TaskEntry {
    /// Its name.
    ///
    /// # Errors
    ///
    /// [`SystemError::Missing`] when there is none, [`SystemError::Value`] when it is no name.
    pub fn checked_name(&self, place: &Place) -> Result<&str, SystemError> {
        const ACCEPTED: &str = "1 to 64 letters, digits, dots, dashes or underscores";
        place.need(&[("name", self.name.is_some(), ACCEPTED)])?;
        let name = self.name.as_ref().map_or("", crate::Text::as_str);
        if name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte)) {
            return Ok(name);
        }
        Err(place.refuse_text("name", name, ACCEPTED))
    }
}

fn syntax(text: &str, name: &str, error: &toml::de::Error) -> SystemError {
    let before = error.span().map_or(0, |span| span.start);
    let line = 1 + text.as_bytes().iter().take(before).filter(|&&byte| byte == b'\n').count();
    SystemError::Syntax { file: name.to_owned(), line, message: error.message().replace('\n', ", ") }
}

/// From serde's words to ours: "unknown field `a`, expected one of `b`, `c`"; "invalid type: integer `5`, expected ACCEPTED".
fn refused(place: &Place, document: &Value, path: &serde_path_to_error::Path, message: &str) -> SystemError {
    let (place, field, found) = place.follow(document, path);
    let message = message.replace('\n', ", ");
    if let Some(rest) = message.strip_prefix("unknown field `") {
        // The key may have any sign in it; accepted names have none.
        let (unknown, rest) = rest.rsplit_once("`, expected ").unwrap_or((rest, ""));
        let accepted: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
        let alike = accepted.iter().map(|name| (strsim::jaro_winkler(unknown, name), *name));
        let nearest = alike.filter(|(alike, _)| *alike >= ALIKE_MIN).max_by(|one, other| one.0.total_cmp(&other.0));
        return SystemError::UnknownField {
            place: place.in_table(&field, unknown),
            field: unknown.to_owned(),
            nearest: nearest.map(|(_, name)| name.to_owned()),
            accepted: accepted.join(", "),
        };
    }
    if message.starts_with("missing field `") {
        return SystemError::Missing {
            place: if field.is_empty() { place.to_string() } else { place.table(&field).to_string() },
            fields: missing(found.as_ref(), &table_schema(path)).join(", "),
        };
    }
    let Some((_, accepted)) = message.rsplit_once(", expected ") else { return place.form(&field, message) };
    let accepted = match accepted {
        "a boolean" => "true or false".to_owned(),
        "a string" => "a text".to_owned(),
        "a sequence" => "a list".to_owned(),
        "u32" => format!("a whole number, 0 to {}", u32::MAX),
        "u64" => "a whole number from 0 on".to_owned(),
        "an array of length 5" => "a list of 5 whole numbers".to_owned(),
        table if table == "a map" || table.starts_with("struct ") => "a table".to_owned(),
        // A word was expected: the same answer as for another text in its place.
        "string only" => words(document, path).unwrap_or_else(|| "a text".to_owned()),
        other => other.replace('`', "\""),
    };
    let found = found.map_or_else(|| message.clone(), |found| found.to_string());
    place.refuse(&field, Some(&found), &accepted)
}

/// The words that the field at this path accepts.
fn words(document: &Value, path: &serde_path_to_error::Path) -> Option<String> {
    let mut document = document.clone();
    let value = path.iter().try_fold(&mut document, |value, segment| match segment {
        Segment::Map { key } => value.get_mut(key),
        Segment::Seq { index } => value.get_mut(index),
        Segment::Enum { .. } | Segment::Unknown => Some(value),
    })?;
    *value = Value::String(String::new());
    let error = serde_path_to_error::deserialize::<_, SystemFile>(document).err()?;
    Some(error.inner().message().rsplit_once(", expected ")?.1.replace('`', "\""))
}

/// The schema of the table at a path.
fn table_schema(path: &serde_path_to_error::Path) -> serde_json::Value {
    let whole = crate::json_schema().to_value();
    // Optional tables are "one of this and null".
    let resolved = |schema: &serde_json::Value| {
        let of = schema.pointer("/anyOf/0").unwrap_or(schema);
        let name = of.get("$ref").and_then(serde_json::Value::as_str).and_then(|name| name.strip_prefix('#'));
        name.and_then(|name| whole.pointer(name)).unwrap_or(of).clone()
    };
    path.iter().fold(whole.clone(), |schema, segment| match segment {
        Segment::Map { key } => resolved(&schema["properties"][key.as_str()]),
        Segment::Seq { .. } => resolved(&schema["items"]),
        Segment::Enum { .. } | Segment::Unknown => schema,
    })
}

/// The required fields that a table lacks, each with the first sentence of its description.
fn missing(table: Option<&Value>, schema: &serde_json::Value) -> Vec<String> {
    let needed = schema["required"].as_array().into_iter().flatten().filter_map(serde_json::Value::as_str);
    let absent = needed.filter(|field| table.is_none_or(|table| table.get(field).is_none()));
    let told = |field: &str| {
        let text = schema["properties"][field]["description"].as_str().unwrap_or_default();
        format!("{field} ({})", text.split(['.', ';']).next().unwrap_or_default())
    };
    absent.map(told).collect()
}

impl Place {
    /// The table that an unknown key is in: `field` is its path from this place, with or without the key.
    fn in_table(&self, field: &str, unknown: &str) -> String {
        let table = field.strip_suffix(unknown).map_or(field, |table| table.trim_end_matches('.'));
        let place = if table.is_empty() { self.clone() } else { self.table(table) };
        place.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_are_alike() {
        let refusal = |text: &str| SystemFile::parse(text, "f").unwrap_err().to_string();
        let near = refusal("[[task]]\nname = \"a\"\nperod = \"1 ms\"\n");
        assert!(
            near.starts_with("f: task \"a\": \"perod\" is no field; the nearest is \"period\"; accepted are "),
            "{near}"
        );
        let far = refusal("[[task]]\nname = \"a\"\nxyzzy = \"1 ms\"\n");
        assert!(far.starts_with("f: task \"a\": \"xyzzy\" is no field; accepted are name, command"), "{far}");
        let top = refusal("plattform = \"x\"\n");
        assert!(top.starts_with("f: \"plattform\" is no field; the nearest is \"platform\""), "{top}");
        let table = refusal("[memory]\nrank = 8\n");
        assert!(table.starts_with("f: memory: \"rank\" is no field; the nearest is \"ranks\""), "{table}");
        let deep = refusal("[[task]]\nname = \"a\"\nbandwidth = { budget = 1, period_us = 3 }\n");
        assert!(
            deep.starts_with("f: task \"a\": bandwidth: \"period_us\" is no field; the nearest is \"period\""),
            "{deep}"
        );
    }

    #[test]
    fn wrong_forms_are_refused_in_words_of_the_format() {
        let cases = [
            ("task = 5", "f: task is 5; accepted is a list"),
            ("[[task]]\nname = \"a\"\ncommand = [1]", "f: task \"a\": command[0] is 1; accepted is a text"),
            ("granule = \"5K\"", "f: granule: "),
            ("[[task]]\nname = \"a\"\ncores = \"+0\"", "f: task \"a\": cores: list \"+0\": found \"+\" at position 0"),
            ("\"a`b\" = 1", "f: \"a`b\" is no field; "),
            (
                "[simulation]\ndevice = \"x\"",
                "f: simulation: missing: duration (Longest simulated time, such as \"20 ms\"), cores (The cores",
            ),
            ("[simulation]\ndevice = 1", "f: simulation: device is 1; accepted is a text that is not empty"),
            (
                "[simulation]\ndevice = \"x\"\nduration = \"1 ms\"\ncores = { count = 4 }",
                "f: simulation: cores: missing: mhz (Clock in megahertz)",
            ),
            (
                "[[task]]\nname = \"a\"\nbandwidth = { kind = \"soft\" }",
                "f: task \"a\": bandwidth: missing: budget (Budget in each period, above 0, for instance \"1 MiB\"), period (",
            ),
            (
                "[[task]]\nname = \"a\"\nworkload = { kind = \"stream\", gap = 2 }",
                "f: task \"a\": workload of kind \"stream\": \"gap\" is no field; accepted are size",
            ),
            (
                "[[task]]\nname = \"a\"\nworkload = { kind = \"trace\" }",
                "f: task \"a\": workload of kind \"trace\": missing: file (a file)",
            ),
            (
                "[[task]]\nname = \"a\"\nworkload = { knd = 1 }",
                "f: task \"a\": workload: \"knd\" is no field; the nearest is \"kind\"",
            ),
            (
                "[[task]]\nname = \"a\"\nworkload = { kind = \"walk\" }",
                "f: task \"a\": workload.kind is \"walk\"; accepted is one of \"latency\", \"bandwidth\"",
            ),
            (
                "[[task]]\nname = \"a\"\nperiod = \"54 d\"",
                "f: task \"a\": period is \"54 d\"; accepted is a text with a number",
            ),
            (
                "[[task]]\nname = \"a\"\nperiod = \"9000000 s\"",
                "f: task \"a\": period is \"9000000 s\"; accepted is a text with a number",
            ),
        ];
        for (text, expected) in cases {
            let error = SystemFile::parse(text, "f").unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_group_has_members_and_one_amount() {
        let group = |lines: &str| {
            let tasks =
                "[[task]]\nname = \"a\"\n[[task]]\nname = \"b\"\nbandwidth = { budget = 64, period = \"1 ms\" }\n";
            SystemFile::parse(&format!("{tasks}[[group]]\nname = \"g\"\n{lines}"), "f")
                .map_err(|error| error.to_string())
        };
        assert!(group("tasks = [\"a\"]\nmb_per_s = 100").is_ok());
        assert!(group("cores = \"0-1\"\nbudget = \"1 MiB\"\nperiod = \"1 ms\"").is_ok());
        let cases = [
            ("mb_per_s = 100", "f: group \"g\": cores, tasks is missing"),
            ("cores = \"0\"\ntasks = [\"a\"]\nweight = 1", "f: group \"g\": cores, tasks is both given"),
            ("cores = \"0\"", "f: group \"g\": the amount is missing"),
            ("cores = \"0\"\nweight = 1\nbudget = 64", "f: group \"g\": the amount is given 2 times"),
            ("cores = \"0\"\nweight = 1\nperiod = \"1 ms\"", "f: group \"g\": period is given without budget"),
            ("tasks = [\"c\"]\nweight = 1", "f: group \"g\": tasks is \"c\"; accepted is names of tasks of this file"),
            ("tasks = [\"a\", \"a\"]\nweight = 1", "f: group \"g\": tasks is \"a\" twice"),
            ("tasks = [\"b\"]\nweight = 1", "f: group \"g\": tasks is \"b\", which has a bandwidth"),
            (
                "tasks = [\"a\"]\nweight = 1\n[[group]]\nname = \"h\"\ntasks = [\"a\"]\nweight = 1",
                "f: group \"h\": tasks is \"a\", which is in group \"g\", too",
            ),
            (
                "tasks = [\"a\"]\nweight = 1\n[[group]]\nname = \"g\"\ncores = \"0\"\nweight = 1",
                "f: name of group is \"g\" twice",
            ),
        ];
        for (lines, expected) in cases {
            let error = group(lines).unwrap_err();
            assert!(error.starts_with(expected), "{lines}: {error}");
        }
    }
}
