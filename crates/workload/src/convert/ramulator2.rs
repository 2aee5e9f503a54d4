//! Ramulator 2 (github.com/CMU-SAFARI/ramulator2, src/frontend/impl/memory_trace/loadstore_trace.cpp and
//! src/frontend/impl/processor/simpleO3/trace.cpp; 2.1 as of commit 2b9b3ae sends the LD lines of a memory trace as
//! writes and the ST lines as reads; here LD is a read and ST a write).

use std::io::{BufRead, Write};

use super::{Lines, Losses, decimal, number};
use crate::{Kind, LINE_BYTES, Reference, WorkloadError};

const BYTES: u8 = LINE_BYTES as u8;

pub(super) fn read_memory(
    input: &mut dyn BufRead,
    origin: &str,
    each: &mut dyn FnMut(Reference) -> Result<(), WorkloadError>,
) -> Result<u64, WorkloadError> {
    let mut lines = Lines::new(input, origin);
    while let Some(words) = lines.next()? {
        let parsed = match words[..] {
            ["LD", addr] => number(addr).map(|addr| Reference::read(addr, BYTES, 0)).ok_or(addr.to_owned()),
            ["ST", addr] => number(addr).map(|addr| Reference::write(addr, BYTES, 0)).ok_or(addr.to_owned()),
            _ => {
                let line = words.join(" ");
                return Err(lines.wrong(format!("{line:?}; accepted is LD ADDRESS or ST ADDRESS")));
            }
        };
        each(parsed.map_err(|addr| lines.wrong(format!("address {addr:?} is no number below 2^64")))?)?;
    }
    Ok(0)
}

pub(super) fn read_processor(
    input: &mut dyn BufRead,
    origin: &str,
    each: &mut dyn FnMut(Reference) -> Result<(), WorkloadError>,
) -> Result<u64, WorkloadError> {
    let mut lines = Lines::new(input, origin);
    while let Some(words) = lines.next()? {
        if !(2..=3).contains(&words.len()) {
            let count = words.len();
            return Err(lines.wrong(format!("{count} words; accepted is BUBBLES LOAD [STORE]")));
        }
        let numbers: Vec<Option<u64>> = words.iter().map(|word| decimal(word)).collect();
        if let Some(at) = numbers.iter().position(Option::is_none) {
            let word = words[at].to_owned();
            return Err(lines.wrong(format!("{word:?} is no decimal number below 2^64")));
        }
        let numbers: Vec<u64> = numbers.into_iter().flatten().collect();
        let gap = u32::try_from(numbers[0]);
        let gap = gap.map_err(|_| lines.wrong(format!("{} bubbles; accepted are 0 to 2^32 - 1", numbers[0])))?;
        each(Reference::read(numbers[1], BYTES, gap))?;
        if let Some(&store) = numbers.get(2) {
            each(Reference { shares: true, ..Reference::write(store, BYTES, 0) })?;
        }
    }
    Ok(0)
}

pub(super) fn write_memory(out: &mut dyn Write, reference: &Reference) -> std::io::Result<()> {
    let kind = if reference.kind == Kind::Write { "ST" } else { "LD" };
    writeln!(out, "{kind} {:#x}", reference.addr)
}

/// Pairs loads with the stores beside them.
#[derive(Debug, Default)]
pub(super) struct Processor {
    /// Bubbles and address of a load whose line is not written yet.
    load: Option<(u64, u64)>,
}

impl Processor {
    pub(super) fn write(
        &mut self,
        out: &mut dyn Write,
        reference: &Reference,
        losses: &mut Losses,
    ) -> std::io::Result<()> {
        let addr = reference.addr;
        let beside = reference.kind == Kind::Write && reference.shares && reference.gap == 0;
        if beside && let Some((bubbles, load)) = self.load.take() {
            return writeln!(out, "{bubbles} {load} {addr}");
        }
        self.flush(out)?;
        let bubbles = u64::from(reference.gap);
        if reference.kind == Kind::Read {
            self.load = Some((bubbles, addr));
            return Ok(());
        }
        losses.lone_stores += 1;
        writeln!(out, "{bubbles} {addr} {addr}")
    }

    pub(super) fn flush(&mut self, out: &mut dyn Write) -> std::io::Result<()> {
        match self.load.take() {
            Some((bubbles, load)) => writeln!(out, "{bubbles} {load}"),
            None => Ok(()),
        }
    }
}
