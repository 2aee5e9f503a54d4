//! DRAMsim3 (github.com/umd-memsys/DRAMsim3, README and src/cpu.cc, src/common.cc): `ADDRESS TYPE CYCLE`.

use std::io::{BufRead, Write};

use super::{Lines, decimal, hexadecimal};
use crate::{Kind, LINE_BYTES, Reference, WorkloadError};

pub(super) fn read(
    input: &mut dyn BufRead,
    origin: &str,
    each: &mut dyn FnMut(Reference) -> Result<(), WorkloadError>,
) -> Result<u64, WorkloadError> {
    let mut lines = Lines::new(input, origin);
    let mut last: Option<u64> = None;
    while let Some(words) = lines.next()? {
        let (addr, kind, cycle) = match parse(&words) {
            Ok(parsed) => parsed,
            Err(problem) => return Err(lines.wrong(problem)),
        };
        let (gap, shares) = match last {
            None => (Some(cycle), false),
            Some(last) if last == cycle => (Some(0), true),
            Some(last) => (cycle.checked_sub(last).map(|cycles| cycles - 1), false),
        };
        let gap = gap.ok_or_else(|| {
            lines.wrong(format!("cycle {cycle} is below {}, that of the line before", last.unwrap_or(0)))
        })?;
        let gap = u32::try_from(gap)
            .map_err(|_| lines.wrong(format!("{gap} cycles without a request; accepted are 2^32 - 1")))?;
        last = Some(cycle);
        let bytes = LINE_BYTES as u8;
        each(Reference { kind, shares, ..Reference::read(addr, bytes, gap) })?;
    }
    Ok(0)
}

fn parse(words: &[&str]) -> Result<(u64, Kind, u64), String> {
    let [addr, kind, cycle] = words else {
        return Err(format!("{} words; accepted is ADDRESS READ|WRITE CYCLE", words.len()));
    };
    let digits = addr.strip_prefix("0x").or_else(|| addr.strip_prefix("0X")).unwrap_or(addr);
    let addr = hexadecimal(digits).ok_or_else(|| format!("address {addr:?} is no hexadecimal number below 2^64"))?;
    let kind = match *kind {
        "READ" | "read" | "P_MEM_RD" => Kind::Read,
        "WRITE" | "write" | "P_MEM_WR" => Kind::Write,
        other => return Err(format!("type is {other:?}; accepted are READ and WRITE")),
    };
    let cycle = decimal(cycle).ok_or_else(|| format!("cycle {cycle:?} is no number below 2^64"))?;
    Ok((addr, kind, cycle))
}

pub(super) fn write(out: &mut dyn Write, reference: &Reference, cycle: u64) -> std::io::Result<()> {
    let kind = if reference.kind == Kind::Write { "WRITE" } else { "READ" };
    writeln!(out, "{:#x} {kind} {cycle}", reference.addr)
}
