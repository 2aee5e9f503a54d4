//! Questions on standard error, answers on standard input.

use std::io::{self, BufRead, IsTerminal as _, Write as _};

use memtint_system::TaskEntry;

use crate::output::{Failure, warn};

/// Longest answer in bytes.
const ANSWER_MAX: u64 = 4096;

/// Asks for tasks until a name is empty or the input ends.
///
/// # Errors
/// Input that ends within a task or before the first; and, unless a person can be asked again, an answer that is refused.
pub(super) fn tasks() -> Result<Vec<TaskEntry>, Failure> {
    let mut answers = io::stdin().lock();
    let again = answers.is_terminal();
    let mut tasks = Vec::new();
    loop {
        let more = if tasks.is_empty() { "Name of the first task" } else { "Name of the next task (empty: no more)" };
        let name = match answer(&mut answers, more)? {
            Some(name) if !name.is_empty() => name,
            _ if tasks.is_empty() && !again => return Err(ended()),
            Some(_) if tasks.is_empty() => continue,
            _ => return Ok(tasks),
        };
        match task(&mut answers, &name) {
            Ok(task) => tasks.push(task),
            Err(failure) if again => warn(&failure.to_string()),
            Err(failure) => return Err(failure),
        }
    }
}

fn task(answers: &mut impl BufRead, name: &str) -> Result<TaskEntry, Failure> {
    let mut next = |question: &str| answer(answers, question)?.ok_or_else(ended);
    let command = next("  Command with its arguments (empty: none)")?;
    let command = shlex::split(&command)
        .ok_or_else(|| Failure::Sentence(format!("command is {command:?}; accepted is words with closed quotes")))?;
    let period = next("  Period, such as 20 ms (empty: it has none)")?;
    let mut wcet = String::new();
    if !period.is_empty() {
        wcet = next("  Longest execution time of a job, with the delay by tasks of other cores")?;
        if wcet.is_empty() {
            return Err(Failure::Sentence(format!(
                "task {name:?}: wcet is missing; accepted is a time such as \"3 ms\""
            )));
        }
    }
    let cores = next("  CPUs, such as 0 or 2-3 (empty: the next one that is free)")?;
    let fields = [("period", period.as_str()), ("wcet", &wcet), ("cores", &cores)];
    let given: Vec<(&str, &str)> = fields.into_iter().filter(|(_, text)| !text.is_empty()).collect();
    Ok(TaskEntry::of_texts("answers", name, &given, &command)?)
}

/// Asks; gives the answer without blanks around it, `None` where the input ends.
fn answer(answers: &mut impl BufRead, question: &str) -> Result<Option<String>, Failure> {
    let mut err = io::stderr().lock();
    // The question has no reader then, but an answer may still come.
    let _ = write!(err, "{question}: ").and_then(|()| err.flush());
    let mut line = String::new();
    let read = io::Read::take(answers, ANSWER_MAX).read_line(&mut line);
    match read.map_err(|cause| Failure::Sentence(format!("standard input: cannot be read: {cause}")))? {
        0 => Ok(None),
        _ if line.len() as u64 == ANSWER_MAX => {
            Err(Failure::Sentence(format!("an answer has more than {ANSWER_MAX} bytes; accepted is one line")))
        }
        _ => Ok(Some(line.trim().to_owned())),
    }
}

fn ended() -> Failure {
    Failure::Sentence("standard input ended; accepted are answers to all questions, or --task".to_owned())
}
