//! Accesses to a channel: synthetic traces, and trace files of several formats.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use memtint_input::Input;
use memtint_units::random::at;

use crate::error::ReplayError;

/// A burst of one address, and when it is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The address.
    pub addr: u64,
    /// It writes.
    pub write: bool,
    /// First cycle in which it is offered; `None` where the trace has no times.
    pub cycle: Option<u64>,
}

/// Shape of a synthetic trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Request `i` reads burst `i`.
    Stream,
    /// Request `i` reads burst `at(seed, i)`, of the first 2^26.
    Random,
    /// As random; some of the requests write.
    Mixed,
}

impl Shape {
    /// All of them.
    pub const ALL: [Shape; 3] = [Shape::Stream, Shape::Random, Shape::Mixed];

    /// Gives its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Shape::Stream => "stream",
            Shape::Random => "random",
            Shape::Mixed => "mixed",
        }
    }
}

/// Seed of the shared traces.
pub const SEED: u64 = 0x5EED_0000_0000_00A1;
/// Bursts that random addresses are taken from.
const RANDOM_BURSTS: u64 = 1 << 26;
/// Request `i` of a mixed trace writes when `at(seed ^ this, i) % 100` is below the percentage.
const WRITES_SEED: u64 = 0x5EED_0000_0000_00B2;

/// A synthetic trace.
#[derive(Clone, Copy, Debug)]
pub struct Synthetic {
    /// Its shape.
    pub shape: Shape,
    /// Seed of what is random.
    pub seed: u64,
    /// Writes among the requests of a mixed trace.
    pub write_percent: u64,
    /// Bursts of memory: addresses start again from 0 behind the last.
    pub bursts: u64,
    /// Bytes of a burst.
    pub burst_bytes: u64,
}

impl Synthetic {
    /// Gives the access of a number.
    #[inline]
    #[must_use]
    pub fn access(&self, index: u64) -> Access {
        let (burst, write) = match self.shape {
            Shape::Stream => (index, false),
            Shape::Random => (at(self.seed, index) % RANDOM_BURSTS, false),
            Shape::Mixed => {
                let write = at(self.seed ^ WRITES_SEED, index) % 100 < self.write_percent;
                (at(self.seed, index) % RANDOM_BURSTS, write)
            }
        };
        let burst = if burst < self.bursts { burst } else { burst % self.bursts };
        Access { addr: burst * self.burst_bytes, write, cycle: None }
    }
}

/// No line of a trace is longer.
const LINE_BYTES_MAX: u64 = 1024;
const BUFFER_BYTES: usize = 1 << 18;

/// Forms of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `0xADDRESS R|W [CYCLE]`
    Own,
    /// `LD|ST ADDRESS`, decimal or after 0x hexadecimal.
    Ramulator2,
    /// `ADDRESS READ|WRITE CYCLE`, hexadecimal.
    Dramsim3,
}

/// Reads a trace file line by line; the first line determines its format.
#[derive(Debug)]
pub struct TraceFile {
    path: PathBuf,
    reader: BufReader<Input>,
    line: u64,
    bytes: Vec<u8>,
    form: Option<Form>,
    last_cycle: u64,
}

impl TraceFile {
    /// Opens a trace file.
    ///
    /// # Errors
    /// [`ReplayError::File`].
    pub fn open(path: &Path) -> Result<TraceFile, ReplayError> {
        let opened = Input::open(path).map_err(|cause| ReplayError::File { path: path.to_owned(), cause })?;
        let reader = BufReader::with_capacity(BUFFER_BYTES, opened);
        Ok(TraceFile { path: path.to_owned(), reader, line: 0, bytes: Vec::new(), form: None, last_cycle: 0 })
    }

    /// A failure that names file and line.
    pub(crate) fn refuse(&self, problem: &str) -> ReplayError {
        ReplayError::Line { path: self.path.clone(), line: self.line, problem: problem.to_owned() }
    }

    /// Gives the next access; `None` at the end.
    ///
    /// # Errors
    /// [`ReplayError::File`], and [`ReplayError::Line`] for a line that is none.
    #[expect(clippy::should_implement_trait, reason = "it fails")]
    pub fn next(&mut self) -> Result<Option<Access>, ReplayError> {
        loop {
            self.bytes.clear();
            self.line += 1;
            let read = self.reader.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut self.bytes);
            let read = read.map_err(|cause| ReplayError::File { path: self.path.clone(), cause })?;
            if read == 0 {
                return Ok(None);
            }
            if read as u64 > LINE_BYTES_MAX {
                return Err(
                    self.refuse(&format!("it has more than {LINE_BYTES_MAX} bytes; accepted are shorter lines"))
                );
            }
            let text = self.bytes.trim_ascii();
            if !text.is_empty() && text[0] != b'#' {
                break;
            }
        }
        let Ok(text) = std::str::from_utf8(&self.bytes) else {
            return Err(self.refuse("it is no text: is the file compressed?"));
        };
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let form = self.form.or_else(|| Form::of(&words));
        let parsed = form.ok_or_else(|| {
            let accepted = "0xADDRESS R|W [CYCLE], LD|ST ADDRESS (Ramulator 2), ADDRESS READ|WRITE CYCLE (DRAMsim3)";
            format!("{:?}; accepted is {accepted}", words.join(" "))
        });
        let parsed = parsed.and_then(|form| Ok((form, form.parse(&words)?)));
        let (form, access) = parsed.map_err(|problem| self.refuse(&problem))?;
        self.form = Some(form);
        if let Some(cycle) = access.cycle {
            if cycle < self.last_cycle {
                let last = self.last_cycle;
                return Err(
                    self.refuse(&format!("cycle is {cycle}; accepted is at least {last}, that of the line before"))
                );
            }
            self.last_cycle = cycle;
        }
        Ok(Some(access))
    }
}

impl Form {
    fn of(words: &[&str]) -> Option<Form> {
        match words {
            ["LD" | "ST", _] => Some(Form::Ramulator2),
            [_, "READ" | "WRITE" | "read" | "write" | "P_MEM_RD" | "P_MEM_WR", _] => Some(Form::Dramsim3),
            [_, "R" | "W"] | [_, "R" | "W", _] => Some(Form::Own),
            _ => None,
        }
    }

    fn parse(self, words: &[&str]) -> Result<Access, String> {
        let found = || format!("{:?}", words.join(" "));
        match (self, words) {
            (Form::Ramulator2, [kind @ ("LD" | "ST"), addr]) => {
                let parsed = if addr.starts_with("0x") { hexadecimal(addr) } else { decimal(addr) };
                let addr = parsed.ok_or_else(|| format!("address is {addr:?}; accepted is a number below 2^64"))?;
                Ok(Access { addr, write: *kind == "ST", cycle: None })
            }
            (Form::Ramulator2, _) => Err(format!("{}; accepted is LD|ST ADDRESS, as in the first line", found())),
            (Form::Dramsim3, [addr, kind, cycle]) => {
                let write = match *kind {
                    "READ" | "read" | "P_MEM_RD" => false,
                    "WRITE" | "write" | "P_MEM_WR" => true,
                    other => return Err(format!("type is {other:?}; accepted are READ and WRITE")),
                };
                timed(addr, write, Some(cycle))
            }
            (Form::Dramsim3, _) => {
                Err(format!("{}; accepted is ADDRESS READ|WRITE CYCLE, as in the first line", found()))
            }
            (Form::Own, [addr, kind @ ("R" | "W"), rest @ ..]) if addr.starts_with("0x") && rest.len() < 2 => {
                timed(addr, *kind == "W", rest.first())
            }
            (Form::Own, _) => Err(format!("{}; accepted is 0xADDRESS R|W [CYCLE]", found())),
        }
    }
}

fn timed(addr: &str, write: bool, cycle: Option<&&str>) -> Result<Access, String> {
    let address =
        hexadecimal(addr).ok_or_else(|| format!("address is {addr:?}; accepted is hexadecimal, below 2^64"))?;
    let number =
        |word: &&str| decimal(word).ok_or_else(|| format!("cycle is {word:?}; accepted is a number below 2^64"));
    Ok(Access { addr: address, write, cycle: cycle.map(number).transpose()? })
}

/// Digits alone: no sign.
fn decimal(word: &str) -> Option<u64> {
    word.parse().ok().filter(|_| word.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Hexadecimal digits alone, with or without 0x.
fn hexadecimal(word: &str) -> Option<u64> {
    let digits = word.strip_prefix("0x").unwrap_or(word);
    u64::from_str_radix(digits, 16).ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Option<(u64, bool, Option<u64>)> {
        let words: Vec<&str> = line.split(' ').collect();
        let access = Form::of(&words)?.parse(&words).ok()?;
        Some((access.addr, access.write, access.cycle))
    }

    #[test]
    fn lines_of_three_forms() {
        assert_eq!(parse("0x40 R"), Some((64, false, None)));
        assert_eq!(parse("0x40 W 17"), Some((64, true, Some(17))));
        assert_eq!(parse("LD 64"), Some((64, false, None)));
        assert_eq!(parse("ST 0x40"), Some((64, true, None)));
        assert_eq!(parse("0x40 WRITE 3"), Some((64, true, Some(3))));
        assert_eq!(parse("FF READ 3"), Some((255, false, Some(3))));
        for wrong in ["40 R", "0x40 R +3", "LD -1", "0xg READ 1", "READ 0x40 1", "0x40 R 1 2", "LD 1 2"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    /// The first addresses of the shared random trace, by hand from the definition of splitmix64.
    #[test]
    fn traces_are_the_shared_ones() {
        let trace = |shape| Synthetic { shape, seed: SEED, write_percent: 33, bursts: 1 << 26, burst_bytes: 64 };
        assert_eq!(trace(Shape::Stream).access(5).addr, 320);
        let (random, mixed) = (trace(Shape::Random), trace(Shape::Mixed));
        assert!((0..1000).all(|index| random.access(index).addr == mixed.access(index).addr));
        let writes = (0..100_000).filter(|&index| mixed.access(index).write).count();
        assert!((32_000..34_000).contains(&writes), "{writes}");
    }
}
