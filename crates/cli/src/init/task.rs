//! A task as `--task` or answers describe it.

use memtint_system::{SystemFile, TaskEntry};
use toml::{Table, Value};

use crate::output::Failure;

/// What `--task` accepts.
pub(super) const ACCEPTED: &str =
    "\"NAME FIELD=VALUE... -- COMMAND\", for instance \"control period=20ms wcet=3ms -- ./control --fast\"";

const NUMBERS: [&str; 4] = ["priority", "lines", "references", "uncounted"];
const FLAGS: [&str; 2] = ["shared", "huge_pages"];

/// Reads a name, fields of the task and, behind two dashes, its command; words are as in a shell.
///
/// # Errors
/// Words of another form, and a field that a system file refuses.
pub(super) fn read(text: &str) -> Result<TaskEntry, Failure> {
    let refuse = || Failure::Sentence(format!("--task has {text:?}; accepted is {ACCEPTED}"));
    let words = shlex::split(text).ok_or_else(refuse)?;
    let (described, command) = match words.iter().position(|word| word == "--") {
        Some(dashes) => (&words[..dashes], &words[dashes + 1..]),
        None => (&words[..], &[][..]),
    };
    let (name, fields) = described.split_first().ok_or_else(refuse)?;
    let fields = fields.iter().map(|word| word.split_once('=').ok_or_else(refuse)).collect::<Result<Vec<_>, _>>()?;
    entry(&format!("--task {text:?}"), name, &fields, command)
}

/// Makes a task of fields and their values; messages begin with `origin`.
///
/// # Errors
/// A field that is given twice, or that a system file refuses.
pub(super) fn entry(
    origin: &str,
    name: &str,
    fields: &[(&str, &str)],
    command: &[String],
) -> Result<TaskEntry, Failure> {
    let mut task = Table::new();
    task.insert("name".to_owned(), Value::String(name.to_owned()));
    if !command.is_empty() {
        task.insert("command".to_owned(), Value::Array(command.iter().cloned().map(Value::String).collect()));
    }
    for &(field, text) in fields {
        if task.insert(field.to_owned(), value(field, text)).is_some() {
            return Err(Failure::Sentence(format!("{origin}: {field} is given twice; accepted is once")));
        }
    }
    let file = Table::from_iter([("task".to_owned(), Value::Array(vec![Value::Table(task)]))]);
    let mut file = SystemFile::parse(&file.to_string(), origin)?;
    Ok(file.tasks.remove(0))
}

/// What a text means in a field. Wrong ones stay texts, which the system file refuses.
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
    fn words_become_a_task() {
        let task = read("control period=20ms wcet='3 ms' priority=2 bandwidth=1MiB/2ms cores=0 -- ./control -x 'a b'")
            .unwrap();
        assert_eq!(task.command, ["./control", "-x", "a b"]);
        assert_eq!(task.period.map(|time| time.0.to_string()).as_deref(), Some("20 ms"));
        assert_eq!(task.priority.map(|count| count.get()), Some(2));
        assert_eq!(task.bandwidth.map(|own| own.period.0.to_string()).as_deref(), Some("2 ms"));
        let bare = read("a").unwrap();
        assert!(bare.command.is_empty() && bare.name.is_some_and(|name| name.as_str() == "a"));
    }

    #[test]
    fn wrong_words_are_refused() {
        let cases = [
            ("", "--task has \"\"; accepted is"),
            ("a 'b", "--task has \"a 'b\"; accepted is"),
            ("a period", "--task has \"a period\"; accepted is"),
            ("a period=1ms period=2ms", "--task \"a period=1ms period=2ms\": period is given twice"),
            ("a perod=1ms", "--task \"a perod=1ms\": task \"a\": \"perod\" is no field; the nearest is \"period\""),
            ("a priority=x", "--task \"a priority=x\": task \"a\": priority is \"x\"; accepted is a whole number"),
            ("a period=1", "--task \"a period=1\": task \"a\": period is \"1\"; accepted is a text with a number"),
            ("a bandwidth=5", "--task \"a bandwidth=5\": task \"a\": bandwidth is \"5\"; accepted is a table"),
            ("a/b", "--task \"a/b\": task \"a/b\": name is \"a/b\"; accepted is 1 to 64"),
        ];
        for (text, expected) in cases {
            let message = read(text).unwrap_err().to_string();
            assert!(message.starts_with(expected), "{text}: {message}");
        }
    }
}
