//! A task of texts: the values of its fields as a person types them.

use toml::{Table, Value};

use crate::error::SystemError;
use crate::file::{SystemFile, TaskEntry};

const NUMBERS: [&str; 4] = ["priority", "lines", "references", "uncounted"];
const FLAGS: [&str; 2] = ["shared", "huge_pages"];

impl TaskEntry {
    /// Makes a task of texts: its name, its fields with their values (`bandwidth` as `1MiB/1ms`), and its command. Messages begin with
    /// `origin`.
    ///
    /// ```
    /// use memtint_system::TaskEntry;
    ///
    /// let task = TaskEntry::of_texts("here", "control", &[("period", "20ms"), ("priority", "2")], &["./control".to_owned()])?;
    /// assert_eq!(task.priority.map(|count| count.get()), Some(2));
    /// # Ok::<(), memtint_system::SystemError>(())
    /// ```
    ///
    /// # Errors
    /// [`SystemError::Twice`], and as [`SystemFile::parse`].
    pub fn of_texts(
        origin: &str,
        name: &str,
        fields: &[(&str, &str)],
        command: &[String],
    ) -> Result<TaskEntry, SystemError> {
        let mut task = Table::new();
        task.insert("name".to_owned(), Value::String(name.to_owned()));
        if !command.is_empty() {
            task.insert("command".to_owned(), Value::Array(command.iter().cloned().map(Value::String).collect()));
        }
        for &(field, text) in fields {
            if task.insert(field.to_owned(), value(field, text)).is_some() {
                return Err(SystemError::Twice { place: origin.to_owned(), field: field.to_owned() });
            }
        }
        let file = Table::from_iter([("task".to_owned(), Value::Array(vec![Value::Table(task)]))]);
        let mut file = SystemFile::parse(&file.to_string(), origin)?;
        Ok(file.tasks.remove(0))
    }
}

/// The value of a text in a field. Invalid ones stay texts, which the system file refuses.
fn value(field: &str, text: &str) -> Value {
    let string = || Value::String(text.to_owned());
    match field {
        _ if NUMBERS.contains(&field) => text.parse().map_or_else(|_| string(), Value::Integer),
        _ if FLAGS.contains(&field) => text.parse().map_or_else(|_| string(), Value::Boolean),
        "ranks" => text.parse().map_or_else(|_| string(), Value::Integer),
        // "1MiB/1ms"
        "bandwidth" => match text.split_once('/') {
            Some((budget, period)) => Value::Table(Table::from_iter(
                [("budget", budget), ("period", period)]
                    .map(|(key, text)| (key.to_owned(), Value::String(text.to_owned()))),
            )),
            None => string(),
        },
        _ => string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_a_task() {
        let fields =
            [("period", "20ms"), ("wcet", "3 ms"), ("priority", "2"), ("bandwidth", "1MiB/2ms"), ("cores", "0")];
        let task = TaskEntry::of_texts("t", "control", &fields, &["./control".to_owned(), "a b".to_owned()]).unwrap();
        assert_eq!(task.command, ["./control", "a b"]);
        assert_eq!(task.period.map(|time| time.0.to_string()).as_deref(), Some("20 ms"));
        assert_eq!(task.priority.map(|count| count.get()), Some(2));
        assert_eq!(task.bandwidth.map(|own| own.period.0.to_string()).as_deref(), Some("2 ms"));
    }

    #[test]
    fn wrong_texts_are_refused() {
        let cases: [(&[(&str, &str)], &str); 5] = [
            (&[("period", "1ms"), ("period", "2ms")], "t: period is given twice"),
            (&[("perod", "1ms")], "t: task \"a\": \"perod\" is no field; the nearest is \"period\""),
            (&[("priority", "x")], "t: task \"a\": priority is \"x\"; accepted is a whole number"),
            (&[("period", "1")], "t: task \"a\": period is \"1\"; accepted is a text with a number"),
            (&[("bandwidth", "5")], "t: task \"a\": bandwidth is \"5\"; accepted is a table"),
        ];
        for (fields, expected) in cases {
            let message = TaskEntry::of_texts("t", "a", fields, &[]).unwrap_err().to_string();
            assert!(message.starts_with(expected), "{fields:?}: {message}");
        }
    }
}
