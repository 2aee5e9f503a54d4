//! A task as `--task` or answers describe it.

use memtint_system::TaskEntry;

use crate::output::Failure;

/// What `--task` accepts.
pub(super) const ACCEPTED: &str =
    "\"NAME FIELD=VALUE... -- COMMAND\", for instance \"control period=20ms wcet=3ms -- ./control --fast\"";

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
    Ok(TaskEntry::of_texts(&format!("--task {text:?}"), name, &fields, command)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_a_task() {
        let task = read("control period=20ms wcet='3 ms' -- ./control -x 'a b'").unwrap();
        assert_eq!(task.command, ["./control", "-x", "a b"]);
        assert_eq!(task.wcet.map(|time| time.0.to_string()).as_deref(), Some("3 ms"));
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
            ("a/b", "--task \"a/b\": task \"a/b\": name is \"a/b\"; accepted is 1 to 64"),
        ];
        for (text, expected) in cases {
            let message = read(text).unwrap_err().to_string();
            assert!(message.starts_with(expected), "{text}: {message}");
        }
    }
}
