//! Where in a file a value is, for messages, and what is wrong with it.

use memtint_sched::SchedError;
use memtint_units::{ByteSize, IndexList, Picoseconds};
use toml::Value;

/// Tells why a task-set file is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TaskFileError {
    /// It is not TOML, or has a key that nobody knows.
    #[error("{file}: line {line}: {message}")]
    Syntax {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// A value is missing or of the wrong kind.
    #[error("{place}: {field} is {found}; accepted is {accepted}")]
    Value {
        /// The file, and where in it.
        place: String,
        /// The field.
        field: &'static str,
        /// What it holds.
        found: String,
        /// What it could hold.
        accepted: String,
    },
    /// Values do not go together, or are out of range.
    #[error("{place}: {error}")]
    Range {
        /// The file, and where in it.
        place: String,
        /// What is wrong.
        error: SchedError,
    },
}

/// What a time looks like.
const TIME: &str =
    "a text with a number and its unit, ps, ns, us, ms or s, in whole picoseconds, such as \"20 ms\" or \"7.8 us\"";

/// Where in a file a value is.
pub(crate) struct Place(String);

impl Place {
    pub(crate) fn new(file: &str) -> Place {
        Place(file.to_owned())
    }

    pub(crate) fn table(file: &str, name: &str) -> Place {
        Place(format!("{file}: {name}"))
    }

    /// A table of a list, by its name, or by its index where it has none.
    pub(crate) fn item(file: &str, what: &str, index: usize, name: Option<&Value>) -> Place {
        match name {
            Some(Value::String(name)) => Place(format!("{file}: {what} {name:?}")),
            _ => Place(format!("{file}: {what} {index} (counted from 0)")),
        }
    }

    pub(crate) fn refuse(&self, field: &'static str, found: Option<&Value>, accepted: &str) -> TaskFileError {
        self.refuse_text(field, found.map_or("missing".to_owned(), Value::to_string), accepted)
    }

    pub(crate) fn refuse_text(&self, field: &'static str, found: String, accepted: &str) -> TaskFileError {
        TaskFileError::Value { place: self.0.clone(), field, found, accepted: accepted.to_owned() }
    }

    pub(crate) fn range(&self, error: SchedError) -> TaskFileError {
        TaskFileError::Range { place: self.0.clone(), error }
    }

    pub(crate) fn needed(&self, field: &'static str, value: Option<&Value>) -> Result<Picoseconds, TaskFileError> {
        self.time(field, value)?.ok_or_else(|| self.refuse(field, None, TIME))
    }

    pub(crate) fn time(
        &self,
        field: &'static str,
        value: Option<&Value>,
    ) -> Result<Option<Picoseconds>, TaskFileError> {
        let read = |value: &Value| value.as_str().and_then(|text| text.parse().ok());
        value.map(|value| read(value).ok_or_else(|| self.refuse(field, Some(value), TIME))).transpose()
    }

    pub(crate) fn bytes(&self, field: &'static str, value: Option<&Value>) -> Result<Option<ByteSize>, TaskFileError> {
        let accepted = "a text with a number and its unit, B, KiB, MiB or GiB, such as \"16 KiB\"";
        let read = |value: &Value| value.as_str()?.parse().ok().filter(|&bytes| bytes != ByteSize(0));
        value.map(|value| read(value).ok_or_else(|| self.refuse(field, Some(value), accepted))).transpose()
    }

    pub(crate) fn time_or_zero(
        &self,
        field: &'static str,
        value: Option<&Value>,
    ) -> Result<Picoseconds, TaskFileError> {
        Ok(self.time(field, value)?.unwrap_or(Picoseconds(0)))
    }

    pub(crate) fn count(
        &self,
        field: &'static str,
        value: Option<&Value>,
        least: u64,
        most: u64,
    ) -> Result<Option<u64>, TaskFileError> {
        let Some(value) = value else { return Ok(None) };
        let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
        let accepted = match most {
            u64::MAX => format!("a whole number from {least} on"),
            _ => format!("a whole number, {least} to {most}"),
        };
        let number = number.filter(|number| (least..=most).contains(number));
        number.map(Some).ok_or_else(|| self.refuse(field, Some(value), &accepted))
    }

    pub(crate) fn needed_count(
        &self,
        field: &'static str,
        value: Option<&Value>,
        least: u64,
        most: u64,
    ) -> Result<u64, TaskFileError> {
        let accepted = format!("a whole number from {least} on");
        self.count(field, value, least, most)?.ok_or_else(|| self.refuse(field, None, &accepted))
    }

    pub(crate) fn flag(&self, field: &'static str, value: Option<&Value>) -> Result<bool, TaskFileError> {
        value.and_then(Value::as_bool).ok_or_else(|| self.refuse(field, value, "true or false"))
    }

    /// A text that is not empty.
    pub(crate) fn name(&self, field: &'static str, value: Option<&Value>) -> Result<String, TaskFileError> {
        match value {
            Some(Value::String(name)) if !name.is_empty() => Ok(name.clone()),
            found => Err(self.refuse(field, found, "a text of its own for each")),
        }
    }

    /// One of a few words; the first where there is none.
    pub(crate) fn word<T: Copy>(
        &self,
        field: &'static str,
        value: Option<&Value>,
        words: &[(&str, T)],
    ) -> Result<T, TaskFileError> {
        let Some(value) = value else { return Ok(words[0].1) };
        let found = words.iter().find(|(word, _)| value.as_str() == Some(word));
        found.map(|&(_, meaning)| meaning).ok_or_else(|| {
            let accepted: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
            self.refuse(field, Some(value), &accepted.join(" or "))
        })
    }

    /// Ranks, as a list.
    pub(crate) fn ranks(
        &self,
        field: &'static str,
        value: Option<&Value>,
        ranks: u32,
    ) -> Result<Vec<u32>, TaskFileError> {
        let accepted = || format!("a list of ranks below {ranks}, such as \"0-3\"");
        let list = value.and_then(Value::as_str).and_then(|text| text.parse::<IndexList>().ok());
        let set = list.and_then(|list| list.resolve(ranks).ok()).filter(|set| !set.is_empty());
        set.map(|set| set.iter().collect()).ok_or_else(|| self.refuse(field, value, &accepted()))
    }
}
