//! Commands read from text.

use std::io::{BufRead, Read as _};

use crate::command::{Command, Kind};
use crate::error::DramError;
use crate::index::{BankInRank, Cycle, RankIndex};

/// Longest line of a trace.
const LINE_BYTES_MAX: u64 = 200;

/// Reads a command trace, one command a line as [`Command`] is displayed: cycle, command, rank, bank, row or column,
/// separated by spaces. Skips empty lines and lines that begin with `#`. Keeps none of the commands.
#[derive(Debug)]
pub struct CommandReader<R> {
    reader: R,
    origin: String,
    line: u64,
    /// A line that could not be read: where the next one begins is unknown.
    lost: bool,
}

impl<R: BufRead> CommandReader<R> {
    /// Reads from `reader`; `origin` names it in messages.
    pub fn new(reader: R, origin: &str) -> CommandReader<R> {
        CommandReader { reader, origin: origin.to_owned(), line: 0, lost: false }
    }

    /// Gives the number of the line read last, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    fn refuse(&self, field: &'static str, found: impl Into<String>, accepted: &str) -> DramError {
        let (origin, found, accepted) = (self.origin.clone(), found.into(), accepted.to_owned());
        DramError::Trace { origin, line: self.line, field, found, accepted }
    }

    fn next_line(&mut self) -> Result<Option<String>, DramError> {
        let mut bytes = Vec::new();
        self.line += 1;
        let read = self.reader.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut bytes);
        if let Err(error) = read {
            return Err(self.refuse("line", format!("unreadable ({error})"), "text"));
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        if bytes.len() as u64 > LINE_BYTES_MAX {
            return Err(self.refuse("line", format!("more than {LINE_BYTES_MAX} bytes"), "a shorter one"));
        }
        String::from_utf8(bytes).map(Some).map_err(|_| self.refuse("line", "not UTF-8", "text"))
    }

    fn command(&self, line: &str) -> Result<Command, DramError> {
        const SHAPE: &str = "cycle, command, rank, bank, row or column";
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[cycle, kind, rank, bank, place] = words.as_slice() else {
            return Err(self.refuse("line", format!("of {} words", words.len()), &format!("five: {SHAPE}")));
        };
        let kind = Kind::ALL.into_iter().find(|known| known.name() == kind).ok_or_else(|| {
            let names = Kind::ALL.map(Kind::name).join(", ");
            self.refuse("command", format!("{kind:?}"), &names)
        })?;
        Ok(Command {
            cycle: Cycle(self.number("cycle", cycle)?),
            kind,
            rank: RankIndex(self.number("rank", rank)?),
            bank: BankInRank(self.number("bank", bank)?),
            place: self.number("row or column", place)?,
        })
    }

    fn number<T: std::str::FromStr>(&self, field: &'static str, word: &str) -> Result<T, DramError> {
        let digits = word.bytes().all(|byte| byte.is_ascii_digit());
        word.parse().ok().filter(|_| digits).ok_or_else(|| {
            let bits = 8 * size_of::<T>();
            self.refuse(field, format!("{word:?}"), &format!("a whole number below 2^{bits}"))
        })
    }
}

impl<R: BufRead> Iterator for CommandReader<R> {
    type Item = Result<Command, DramError>;

    /// The next command. After a malformed line the next one is tried; after an unreadable one, the trace ends.
    fn next(&mut self) -> Option<Self::Item> {
        while !self.lost {
            let line = match self.next_line() {
                Ok(Some(line)) => line,
                Ok(None) => return None,
                Err(error) => {
                    self.lost = true;
                    return Some(Err(error));
                }
            };
            let text = line.trim();
            if !text.is_empty() && !text.starts_with('#') {
                return Some(self.command(text));
            }
        }
        None
    }
}
