//! Recorded requests and readings. A recorded probe can be repeated on any machine, bit for bit.
//!
//! A log begins with notes for its user, followed by parts. Each part begins with the pool of its requests:
//!
//! ```text
//! memtint probe log 2
//! note seed 1
//! part dram
//! known_bits 64
//! piece 0x100000 0x40000000
//! time 2 0x100040 0x200040 = 181 270 180 269
//! beside 1 0x100040 | 0x200040 0x300040 = 350
//! beside 1 0x100040 | 0x200040 = none
//! ```
//!
//! If a machine supports several readers, `readers` gives their number before the first request, and there are further
//! requests:
//!
//! ```text
//! readers 4
//! together 2 3 0x100040 0x200040 = 201 199 203
//! ```
//!
//! Requests about caches or nodes follow the machine's description of these. A long list of lines is reduced to its
//! length and a hash:
//!
//! ```text
//! part llc
//! known_bits 64
//! piece 0x100000 0x40000000
//! line 64
//! private 64 8
//! reload 2 0x100040 | 0x200040 0x300040 = 41 190
//! reload 2 0x100040 | 4096 lines 0x93c467e37db0c7a4 = 41 190
//! part nodes
//! known_bits 21
//! piece 0x0 0x40000000
//! groups 2
//! node 0 0x0 0x40000000
//! load 1 4 0x100040 = 201 260 199 203
//! ```

use crate::cache::{CacheFacts, CacheOracle, NodeLayout, NodeOracle, PrivateCache};
use crate::oracle::{Oracle, OracleError};
use crate::pool::{LINE, Pool};
use memtint_units::PhysAddr;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::{self, Write as _};
use std::io::{BufRead, Write};
use std::ops::Range;

const TITLE: &str = "memtint probe log 2";
/// Limit of the lists at the beginning of a log; everything after them is read line by line and not kept.
const NOTES_MAX: usize = 1000;
const PIECES_MAX: usize = 1 << 20;
/// Longer lists of lines are reduced to length and hash.
const LISTED_MAX: usize = 64;

/// Subject of a part of a log. A probe processes them in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum LogPart {
    /// Banks.
    #[serde(rename = "dram")]
    Dram,
    /// The last-level cache.
    #[serde(rename = "llc")]
    Caches,
    /// NUMA nodes.
    #[serde(rename = "nodes")]
    Nodes,
}

impl LogPart {
    /// All of them.
    pub const ALL: [LogPart; 3] = [LogPart::Dram, LogPart::Caches, LogPart::Nodes];

    /// Returns the given parts, each once, in order.
    #[must_use]
    pub fn in_order(parts: &[LogPart]) -> Vec<LogPart> {
        let mut parts = parts.to_vec();
        parts.sort_unstable();
        parts.dedup();
        parts
    }

    /// Returns the names of parts, separated by commas.
    #[must_use]
    pub fn list(parts: &[LogPart]) -> String {
        parts.iter().map(|part| part.name()).collect::<Vec<_>>().join(",")
    }

    /// Returns its name in logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LogPart::Dram => "dram",
            LogPart::Caches => "llc",
            LogPart::Nodes => "nodes",
        }
    }
}

impl fmt::Display for LogPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Writes the beginning of a log with notes: a word and a line of text each. Parts follow, each written by a
/// [`Recorder`].
///
/// # Errors
/// [`OracleError::Io`] when it cannot be written.
///
/// # Panics
/// When a note's key has a space, or its text a line break.
pub fn begin_log(log: &mut impl Write, notes: &[(&str, String)]) -> Result<(), OracleError> {
    let mut text = format!("{TITLE}\n");
    for (key, note) in notes {
        assert!(!key.contains(char::is_whitespace) && !note.contains(['\n', '\r']), "a note is a word and a line");
        let _ = writeln!(text, "note {key} {note}");
    }
    log.write_all(text.as_bytes()).map_err(failed)
}

/// Forwards requests to another oracle, and records requests and readings.
#[derive(Debug)]
pub struct Recorder<O, W> {
    oracle: O,
    log: W,
}

impl<O: Oracle, W: Write> Recorder<O, W> {
    /// Begins a part about banks in a log; see [`begin_log`].
    ///
    /// # Errors
    /// [`OracleError::Io`] when it cannot be written.
    pub fn of_dram(oracle: O, log: W) -> Result<Recorder<O, W>, OracleError> {
        let facts = match oracle.readers() {
            0 => String::new(),
            readers => format!("readers {readers}\n"),
        };
        Recorder::of(LogPart::Dram, &facts, oracle, log)
    }

    /// Begins a part about caches.
    ///
    /// # Errors
    /// [`OracleError::Io`] when it cannot be written.
    pub fn of_caches(oracle: O, log: W) -> Result<Recorder<O, W>, OracleError>
    where
        O: CacheOracle,
    {
        let mut facts = format!("line {}\n", oracle.caches().line);
        for cache in &oracle.caches().private {
            let _ = writeln!(facts, "private {} {}", cache.sets, cache.ways);
        }
        Recorder::of(LogPart::Caches, &facts, oracle, log)
    }

    /// Begins a part about nodes.
    ///
    /// # Errors
    /// [`OracleError::Io`] when it cannot be written.
    pub fn of_nodes(oracle: O, log: W) -> Result<Recorder<O, W>, OracleError>
    where
        O: NodeOracle,
    {
        let mut facts = format!("groups {}\n", oracle.layout().groups);
        for (node, piece) in &oracle.layout().memory {
            let _ = writeln!(facts, "node {node} {:#x} {:#x}", piece.start.0, piece.end.0);
        }
        Recorder::of(LogPart::Nodes, &facts, oracle, log)
    }

    fn of(part: LogPart, facts: &str, oracle: O, mut log: W) -> Result<Recorder<O, W>, OracleError> {
        let mut text = format!("part {part}\nknown_bits {}\n", oracle.pool().known_bits());
        for piece in oracle.pool().pieces() {
            let _ = writeln!(text, "piece {:#x} {:#x}", piece.start.0, piece.end.0);
        }
        log.write_all((text + facts).as_bytes()).map_err(failed)?;
        Ok(Recorder { oracle, log })
    }

    /// Ends the part.
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

/// Reduces a long list of lines to its length and a hash.
fn short_list(addresses: &[PhysAddr]) -> String {
    if addresses.len() <= LISTED_MAX {
        return list(addresses);
    }
    format!(" {} lines {:#x}", addresses.len(), hash(addresses))
}

fn time_question(addresses: &[PhysAddr], rounds: u32) -> String {
    format!("time {rounds}{}", list(addresses))
}

fn beside_question(addresses: &[PhysAddr], others: &[PhysAddr], rounds: u32) -> String {
    format!("beside {rounds}{} |{}", list(addresses), list(others))
}

fn reload_question(target: PhysAddr, others: &[PhysAddr], rounds: u32) -> String {
    format!("reload {rounds}{} |{}", list(&[target]), short_list(others))
}

fn together_question(addresses: &[PhysAddr], readers: u32, rounds: u32) -> String {
    format!("together {readers} {rounds}{}", short_list(addresses))
}

/// FNV-1a, of 64 bits.
fn hash(addresses: &[PhysAddr]) -> u64 {
    let bytes = addresses.iter().flat_map(|addr| addr.0.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
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

    fn readers(&self) -> u32 {
        self.oracle.readers()
    }

    fn together(&mut self, addresses: &[PhysAddr], readers: u32, rounds: u32) -> Result<Option<Vec<u32>>, OracleError> {
        let readings = self.oracle.together(addresses, readers, rounds)?;
        self.note(&together_question(addresses, readers, rounds), readings.as_deref())?;
        Ok(readings)
    }
}

/// A log being read.
#[derive(Debug)]
pub struct Log<R> {
    name: String,
    lines: memtint_input::Lines<R>,
    line: usize,
    notes: Vec<(String, String)>,
    /// A line that was read ahead.
    ahead: Option<String>,
}

impl<R: BufRead> Log<R> {
    /// Reads the beginning of a log; `name` is its name in messages.
    ///
    /// # Errors
    /// [`OracleError::Log`] for a text that is not a log, [`OracleError::Io`] when it cannot be read.
    pub fn new(name: &str, log: R) -> Result<Log<R>, OracleError> {
        let mut log = Log {
            name: name.to_owned(),
            lines: memtint_input::Lines::new(log),
            line: 0,
            notes: Vec::new(),
            ahead: None,
        };
        let title = log.next()?;
        if title.as_deref() != Some(TITLE) {
            return Err(log.refuse(title, "a log that begins with \"memtint probe log 2\""));
        }
        loop {
            let line = log.next()?;
            let Some(note) = line.as_deref().and_then(|line| line.strip_prefix("note ")) else {
                log.ahead = line;
                return Ok(log);
            };
            if log.notes.len() == NOTES_MAX {
                return Err(log.refuse(line, "at most 1000 notes"));
            }
            let (key, text) = note.split_once(' ').unwrap_or((note, ""));
            log.notes.push((key.to_owned(), text.to_owned()));
        }
    }

    /// Gives the notes, in order.
    #[must_use]
    pub fn notes(&self) -> &[(String, String)] {
        &self.notes
    }

    /// Reads the beginning of the next part, which must be `part`.
    ///
    /// # Errors
    /// [`OracleError::Log`] for another part, or none, [`OracleError::Io`] when it cannot be read.
    pub fn part(&mut self, part: LogPart) -> Result<Replay<'_, R>, OracleError> {
        let line = self.next()?;
        if line.as_deref().and_then(|line| line.strip_prefix("part ")) != Some(part.name()) {
            return Err(self.refuse(
                line,
                match part {
                    LogPart::Dram => "part dram",
                    LogPart::Caches => "part llc",
                    LogPart::Nodes => "part nodes",
                },
            ));
        }
        Replay::new(self)
    }

    /// Checks that the log has ended.
    ///
    /// # Errors
    /// [`OracleError::Log`] if more lines follow, [`OracleError::Io`] when it cannot be read.
    pub fn end(mut self) -> Result<(), OracleError> {
        match self.next()? {
            None => Ok(()),
            line => Err(self.refuse(line, "the end")),
        }
    }

    fn next(&mut self) -> Result<Option<String>, OracleError> {
        if let Some(line) = self.ahead.take() {
            return Ok(Some(line));
        }
        let Some(read) = self.lines.next() else { return Ok(None) };
        self.line += 1;
        read.map(Some).map_err(|source| OracleError::Io { what: format!("{}: line {}", self.name, self.line), source })
    }

    fn refuse(&self, found: Option<String>, accepted: &'static str) -> OracleError {
        let mut found = found.unwrap_or_else(|| "the end".to_owned());
        if let Some((end, _)) = found.char_indices().nth(100) {
            found.truncate(end);
        }
        OracleError::Log { log: self.name.clone(), line: self.line, found, accepted }
    }

    /// The readings for a request; `None` for "none".
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

    fn readings(&mut self, asked: String, readings: usize) -> Result<Vec<u32>, OracleError> {
        let found = self.answer(asked, readings)?;
        found.ok_or_else(|| self.refuse(Some("none".to_owned()), "readings"))
    }
}

/// An oracle with the readings of a part of a log. The requests must be the recorded ones.
#[derive(Debug)]
pub struct Replay<'l, R> {
    log: &'l mut Log<R>,
    pool: Pool,
    readers: u32,
    caches: CacheFacts,
    layout: NodeLayout,
}

impl<'l, R: BufRead> Replay<'l, R> {
    fn new(log: &'l mut Log<R>) -> Result<Replay<'l, R>, OracleError> {
        let known = log.next()?;
        let bits = known.as_deref().and_then(|line| line.strip_prefix("known_bits ")?.parse::<u32>().ok());
        let Some(bits) = bits else { return Err(log.refuse(known, "known_bits and a number")) };
        let mut pieces = Vec::new();
        loop {
            let line = log.next()?;
            let Some(piece) = line.as_deref().and_then(|line| line.strip_prefix("piece ")) else {
                log.ahead = line;
                break;
            };
            match bounds(piece) {
                Some(_) if pieces.len() == PIECES_MAX => {
                    return Err(log.refuse(line, "at most 1048576 pieces of memory"));
                }
                Some(piece) => pieces.push(piece),
                None => return Err(log.refuse(line, "piece and two addresses such as 0x100000 0x200000")),
            }
        }
        let pool = Pool::new(pieces, bits).map_err(|error| log.refuse(Some(error.to_string()), "pieces of a pool"))?;
        let caches = CacheFacts { line: LINE, private: Vec::new() };
        let layout = NodeLayout { groups: 1, memory: Vec::new() };
        let mut replay = Replay { log, pool, readers: 0, caches, layout };
        replay.facts()?;
        Ok(replay)
    }

    /// Reads the machine's description of readers, caches and nodes.
    fn facts(&mut self) -> Result<(), OracleError> {
        loop {
            let line = self.log.next()?;
            let text = line.as_deref().unwrap_or("");
            let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
            let known = match kind {
                "line" => self.line_of(rest),
                "private" => self.private(rest),
                "readers" => rest.parse().ok().filter(|&readers| readers > 0).map(|readers| self.readers = readers),
                "groups" => rest.parse().ok().filter(|&groups| groups > 0).map(|groups| self.layout.groups = groups),
                "node" => self.node(rest),
                _ => {
                    self.log.ahead = line;
                    return Ok(());
                }
            };
            if known.is_none() {
                return Err(self.log.refuse(
                    line,
                    "readers and a number; line and a power of two from 64; private, sets (a power of two) and ways; groups and a \
                     number; node, its number and two addresses",
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
}

fn bounds(text: &str) -> Option<Range<PhysAddr>> {
    let number = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    let (base, end) = text.split_once(' ')?;
    Some(PhysAddr(number(base)?)..PhysAddr(number(end)?))
}

impl<R: BufRead> Oracle for Replay<'_, R> {
    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn time(&mut self, addresses: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError> {
        self.log.readings(time_question(addresses, rounds), addresses.len() * rounds as usize)
    }

    fn time_beside(
        &mut self,
        addresses: &[PhysAddr],
        others: &[PhysAddr],
        rounds: u32,
    ) -> Result<Option<Vec<u32>>, OracleError> {
        self.log.answer(beside_question(addresses, others, rounds), addresses.len() * rounds as usize)
    }

    fn readers(&self) -> u32 {
        self.readers
    }

    fn together(&mut self, addresses: &[PhysAddr], readers: u32, rounds: u32) -> Result<Option<Vec<u32>>, OracleError> {
        self.log.answer(together_question(addresses, readers, rounds), rounds as usize)
    }
}

impl<R: BufRead> CacheOracle for Replay<'_, R> {
    fn caches(&self) -> &CacheFacts {
        &self.caches
    }

    fn reload(&mut self, target: PhysAddr, others: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError> {
        self.log.readings(reload_question(target, others, rounds), rounds as usize)
    }
}

impl<R: BufRead> NodeOracle for Replay<'_, R> {
    fn layout(&self) -> &NodeLayout {
        &self.layout
    }

    fn load(&mut self, group: u32, addr: PhysAddr, rounds: u32) -> Result<Vec<u32>, OracleError> {
        self.log.readings(load_question(group, addr, rounds), rounds as usize)
    }
}
