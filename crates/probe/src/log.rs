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
//!
//! A log of questions about caches or nodes says before them what the machine said of these:
//!
//! ```text
//! line 64
//! private 64 8
//! reload 2 0x100040 | 0x200040 0x300040 = 41 190
//! ```
//! ```text
//! groups 2
//! node 0 0x0 0x40000000
//! load 1 4 0x100040 = 201 260 199 203
//! ```

use crate::cache::{CacheFacts, CacheOracle, NodeLayout, NodeOracle, PrivateCache};
use crate::oracle::{Oracle, OracleError};
use crate::pool::{LINE, Pool};
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

    /// Begins a log of questions about caches.
    ///
    /// # Errors
    /// [`OracleError::Io`] when it cannot be written.
    pub fn of_caches(oracle: O, log: W) -> Result<Recorder<O, W>, OracleError>
    where
        O: CacheOracle,
    {
        let mut recorder = Recorder::new(oracle, log)?;
        let facts = recorder.oracle.caches();
        let mut text = format!("line {}\n", facts.line);
        for cache in &facts.private {
            let _ = writeln!(text, "private {} {}", cache.sets, cache.ways);
        }
        recorder.log.write_all(text.as_bytes()).map_err(failed)?;
        Ok(recorder)
    }

    /// Begins a log of questions about nodes.
    ///
    /// # Errors
    /// [`OracleError::Io`] when it cannot be written.
    pub fn of_nodes(oracle: O, log: W) -> Result<Recorder<O, W>, OracleError>
    where
        O: NodeOracle,
    {
        let mut recorder = Recorder::new(oracle, log)?;
        let layout = recorder.oracle.layout();
        let mut text = format!("groups {}\n", layout.groups);
        for (node, piece) in &layout.memory {
            let _ = writeln!(text, "node {node} {:#x} {:#x}", piece.start.0, piece.end.0);
        }
        recorder.log.write_all(text.as_bytes()).map_err(failed)?;
        Ok(recorder)
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

fn reload_question(target: PhysAddr, others: &[PhysAddr], rounds: u32) -> String {
    format!("reload {rounds}{} |{}", list(&[target]), list(others))
}

fn load_question(group: u32, addr: PhysAddr, rounds: u32) -> String {
    format!("load {group} {rounds}{}", list(&[addr]))
}

impl<O: CacheOracle, W: Write> CacheOracle for Recorder<O, W> {
    fn caches(&self) -> &CacheFacts {
        self.oracle.caches()
    }

    fn reload(&mut self, target: PhysAddr, others: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError> {
        let readings = self.oracle.reload(target, others, rounds)?;
        self.note(&reload_question(target, others, rounds), Some(&readings))?;
        Ok(readings)
    }
}

impl<O: NodeOracle, W: Write> NodeOracle for Recorder<O, W> {
    fn layout(&self) -> &NodeLayout {
        self.oracle.layout()
    }

    fn load(&mut self, group: u32, addr: PhysAddr, rounds: u32) -> Result<Vec<u32>, OracleError> {
        let readings = self.oracle.load(group, addr, rounds)?;
        self.note(&load_question(group, addr, rounds), Some(&readings))?;
        Ok(readings)
    }
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
    caches: CacheFacts,
    layout: NodeLayout,
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
        let caches = CacheFacts { line: LINE, private: Vec::new() };
        let layout = NodeLayout { groups: 1, memory: Vec::new() };
        let lines = log.lines();
        let mut replay = Replay { name: name.to_owned(), lines, line: 0, pool, caches, layout, ahead: None };
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
        replay.facts()?;
        Ok(replay)
    }

    /// Reads what the machine said of caches and nodes.
    fn facts(&mut self) -> Result<(), OracleError> {
        loop {
            let line = self.next()?;
            let text = line.as_deref().unwrap_or("");
            let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
            let known = match kind {
                "line" => self.line_of(rest),
                "private" => self.private(rest),
                "groups" => rest.parse().ok().filter(|&groups| groups > 0).map(|groups| self.layout.groups = groups),
                "node" => self.node(rest),
                _ => {
                    self.ahead = line;
                    return Ok(());
                }
            };
            if known.is_none() {
                return Err(self.refuse(
                    line,
                    "line and a power of two from 64; private, sets (a power of two) and ways; groups and a number; node, its \
                     number and two addresses",
                ));
            }
        }
    }

    fn line_of(&mut self, text: &str) -> Option<()> {
        self.caches.line = text.parse().ok().filter(|line: &u64| line.is_power_of_two() && *line >= LINE)?;
        Some(())
    }

    fn private(&mut self, text: &str) -> Option<()> {
        let (sets, ways) = text.split_once(' ')?;
        let cache = PrivateCache { sets: sets.parse().ok()?, ways: ways.parse().ok()? };
        (cache.sets.is_power_of_two() && cache.ways > 0).then(|| self.caches.private.push(cache))
    }

    fn node(&mut self, text: &str) -> Option<()> {
        let (node, piece) = text.split_once(' ')?;
        self.layout.memory.push((node.parse().ok()?, bounds(piece)?));
        Some(())
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

impl<R: BufRead> CacheOracle for Replay<R> {
    fn caches(&self) -> &CacheFacts {
        &self.caches
    }

    fn reload(&mut self, target: PhysAddr, others: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError> {
        let found = self.answer(reload_question(target, others, rounds), rounds as usize)?;
        found.ok_or_else(|| self.refuse(Some("none".to_owned()), "readings"))
    }
}

impl<R: BufRead> NodeOracle for Replay<R> {
    fn layout(&self) -> &NodeLayout {
        &self.layout
    }

    fn load(&mut self, group: u32, addr: PhysAddr, rounds: u32) -> Result<Vec<u32>, OracleError> {
        let found = self.answer(load_question(group, addr, rounds), rounds as usize)?;
        found.ok_or_else(|| self.refuse(Some("none".to_owned()), "readings"))
    }
}
