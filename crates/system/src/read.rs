//! From text to a [`SystemFile`], with errors that name place, field, value and accepted values.

use std::path::Path;

use toml::Value;

use crate::error::SystemError;
use crate::file::{SystemFile, TaskEntry};
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

    /// Reads and checks a text; `name` is what messages call it.
    ///
    /// Names of tasks are valid and unique. What one verb needs beyond that is checked where the file becomes its input.
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
            let name = task.checked_name(&place.item("task", index, task.name.as_ref().map(crate::Text::as_str)))?;
            if self.tasks[..index].iter().any(|earlier| earlier.name.as_ref().is_some_and(|own| own.as_str() == name)) {
                return Err(place.refuse("name of task", Some(&format!("{name:?} twice")), "each name once"));
            }
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
        let (unknown, rest) = rest.split_once('`').unwrap_or((rest, ""));
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
    if let Some(missing) = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        return place.refuse(&format!("{field}.{missing}"), None, "a value, which it must have");
    }
    let accepted = match message.rsplit_once(", expected ").map_or(&*message, |(_, accepted)| accepted) {
        "a boolean" => "true or false".to_owned(),
        // A word was expected: what another text in its place would be answered with.
        "string only" => words(document, path).unwrap_or_else(|| "a text".to_owned()),
        other => other.replace('`', "\""),
    };
    let found = found.map_or_else(|| message.clone(), |found| found.to_string());
    place.refuse(&field, Some(&found), &accepted)
}

/// The words that the field at this path accepts.
fn words(document: &Value, path: &serde_path_to_error::Path) -> Option<String> {
    use serde_path_to_error::Segment;
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
}
