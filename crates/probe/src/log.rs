//! Recorded questions and answers: a probe that was recorded can be repeated anywhere, bit for bit.
//!
//! ```text
//! memtint probe log 1
//! known_bits 64
//! piece 0x100000 0x40000000
//! time 2 0x100040 0x200040 = 181 270 180 269
//! beside 1 0x100040 | 0x200040 0x300040 = 350
//! beside 1 0x100040 | 0x200040 = none
//! ```

use crate::oracle::{Oracle, OracleError};
use crate::pool::Pool;
use memtint_units::PhysAddr;
use std::fmt::Write as _;
use std::io::{BufRead, Lines, Write};
use std::ops::Range;

const TITLE: &str = "memtint probe log 1";

/// Passes questions on to another oracle, and writes down what was asked and answered.
#[derive(Debug)]
pub struct Recorder<O, W> {
    oracle: O,
    log: W,
}

impl<O: Oracle, W: Write> Recorder<O, W> {
    /// Begins a log.
    ///
    /// # Errors
    /// [`OracleError::Io`] when it cannot be written.
    pub fn new(oracle: O, mut log: W) -> Result<Recorder<O, W>, OracleError> {
        let mut text = format!("{TITLE}\nknown_bits {}\n", oracle.pool().known_bits());
        for piece in oracle.pool().pieces() {
            let _ = writeln!(text, "piece {:#x} {:#x}", piece.start.0, piece.end.0);
        }
        log.write_all(text.as_bytes()).map_err(failed)?;
        Ok(Recorder { oracle, log })
    }

    /// Ends the log.
    ///
    /// # Errors
    /// [`OracleError::Io`] when it cannot be written.
    pub fn finish(mut self) -> Result<O, OracleError> {
        self.log.flush().map_err(failed)?;
        Ok(self.oracle)
    }

    fn note(&mut self, question: &str, answer: Option<&[u32]>) -> Result<(), OracleError> {
        let answer = match answer {
            None => " none".to_owned(),
            Some(readings) => readings.iter().fold(String::new(), |text, reading| text + " " + &reading.to_string()),
        };
        writeln!(self.log, "{question} ={answer}").map_err(failed)
    }
}

fn failed(source: std::io::Error) -> OracleError {
    OracleError::Io { what: "writing the probe log".to_owned(), source }
}

fn list(addresses: &[PhysAddr]) -> String {
    addresses.iter().fold(String::new(), |text, addr| format!("{text} {:#x}", addr.0))
}

fn time_question(addresses: &[PhysAddr], rounds: u32) -> String {
    format!("time {rounds}{}", list(addresses))
}

fn beside_question(addresses: &[PhysAddr], others: &[PhysAddr], rounds: u32) -> String {
    format!("beside {rounds}{} |{}", list(addresses), list(others))
}

impl<O: Oracle, W: Write> Oracle for Recorder<O, W> {
    fn pool(&self) -> &Pool {
        self.oracle.pool()
    }

    fn time(&mut self, addresses: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError> {
        let readings = self.oracle.time(addresses, rounds)?;
        self.note(&time_question(addresses, rounds), Some(&readings))?;
        Ok(readings)
    }

    fn time_beside(
        &mut self,
        addresses: &[PhysAddr],
        others: &[PhysAddr],
        rounds: u32,
    ) -> Result<Option<Vec<u32>>, OracleError> {
        let readings = self.oracle.time_beside(addresses, others, rounds)?;
        self.note(&beside_question(addresses, others, rounds), readings.as_deref())?;
        Ok(readings)
    }
}

/// Answers from a log, as long as the questions are those that were recorded.
#[derive(Debug)]
pub struct Replay<R> {
    name: String,
    lines: Lines<R>,
    line: usize,
    pool: Pool,
    /// A line that was read and not used.
    ahead: Option<String>,
}

impl<R: BufRead> Replay<R> {
    /// Reads the beginning of a log; `name` is what messages call it.
    ///
    /// # Errors
    /// [`OracleError::Log`] for a text that is no log, [`OracleError::Io`] when it cannot be read.
    pub fn new(name: &str, log: R) -> Result<Replay<R>, OracleError> {
        let pool = Pool::new([PhysAddr(0)..PhysAddr(64)], 64).expect("a line is a pool");
        let mut replay = Replay { name: name.to_owned(), lines: log.lines(), line: 0, pool, ahead: None };
        let title = replay.next()?;
        if title.as_deref() != Some(TITLE) {
            return Err(replay.refuse(title, "a log that begins with \"memtint probe log 1\""));
        }
        let known = replay.next()?;
        let bits = known.as_deref().and_then(|line| line.strip_prefix("known_bits ")?.parse::<u32>().ok());
        let Some(bits) = bits else { return Err(replay.refuse(known, "known_bits and a number")) };
        let mut pieces = Vec::new();
        loop {
            let line = replay.next()?;
            let Some(piece) = line.as_deref().and_then(|line| line.strip_prefix("piece ")) else {
                replay.ahead = line;
                break;
            };
            match bounds(piece) {
                Some(piece) => pieces.push(piece),
                None => return Err(replay.refuse(line, "piece and two addresses such as 0x100000 0x200000")),
            }
        }
        replay.pool =
            Pool::new(pieces, bits).map_err(|error| replay.refuse(Some(error.to_string()), "pieces of a pool"))?;
        Ok(replay)
    }

    fn next(&mut self) -> Result<Option<String>, OracleError> {
        if let Some(line) = self.ahead.take() {
            return Ok(Some(line));
        }
        self.line += 1;
        let read = |source| OracleError::Io { what: format!("{}: line {}", self.name, self.line), source };
        self.lines.next().transpose().map_err(read)
    }

    fn refuse(&self, found: Option<String>, accepted: &'static str) -> OracleError {
        let mut found = found.unwrap_or_else(|| "the end".to_owned());
        if let Some((end, _)) = found.char_indices().nth(100) {
            found.truncate(end);
        }
        OracleError::Log { log: self.name.clone(), line: self.line, found, accepted }
    }

    /// The answer to a question; `None` for "none".
    fn answer(&mut self, asked: String, readings: usize) -> Result<Option<Vec<u32>>, OracleError> {
        let line = self.next()?;
        let other = |found: String| OracleError::Replay {
            log: self.name.clone(),
            line: self.line,
            found,
            asked: asked.clone(),
        };
        let Some(line) = line else { return Err(other("it ends here".to_owned())) };
        let (question, answer) = line.split_once(" =").unwrap_or((&line, ""));
        if question != asked {
            return Err(other(question.chars().take(100).collect()));
        }
        if answer == " none" {
            return Ok(None);
        }
        let found: Option<Vec<u32>> = answer.split_ascii_whitespace().map(|reading| reading.parse().ok()).collect();
        match found {
            Some(found) if found.len() == readings => Ok(Some(found)),
            _ => Err(self.refuse(Some(line), "as many readings as were asked for")),
        }
    }
}

fn bounds(text: &str) -> Option<Range<PhysAddr>> {
    let number = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    let (base, end) = text.split_once(' ')?;
    Some(PhysAddr(number(base)?)..PhysAddr(number(end)?))
}

impl<R: BufRead> Oracle for Replay<R> {
    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn time(&mut self, addresses: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError> {
        let asked = time_question(addresses, rounds);
        let found = self.answer(asked, addresses.len() * rounds as usize)?;
        found.ok_or_else(|| self.refuse(Some("none".to_owned()), "readings"))
    }

    fn time_beside(
        &mut self,
        addresses: &[PhysAddr],
        others: &[PhysAddr],
        rounds: u32,
    ) -> Result<Option<Vec<u32>>, OracleError> {
        self.answer(beside_question(addresses, others, rounds), addresses.len() * rounds as usize)
    }
}
