//! `memtint guard status`.

use std::process::ExitCode;

use memtint_service::{Status, Verdict};

use super::report::{decided, text_of, text_of_regulated};
use crate::output::{Ending, Failure, Format, print, print_json};

pub(super) fn main(format: Format) -> Ending {
    let Some(status) = Status::read()? else {
        return Err(Failure::Sentence("no memtint guard runs".to_owned()));
    };
    let verdict = status.verdict();
    match format {
        Format::Json => print_json(&status)?,
        Format::Text => print(&format!(
            "{}process {}, for {:.1} s, decided {}\n\n{}so far: {}\n",
            text_of_regulated(&status.regulated),
            status.process.pid,
            status.seconds,
            decided(status.backend),
            text_of(&status.sums),
            verdict.name()
        ))?,
    }
    Ok(ExitCode::from(u8::from(verdict == Verdict::Broken)))
}
