//! ChampSim (github.com/ChampSim/ChampSim, inc/trace_instruction.h, struct input_instr): 64 bytes an instruction.
//!
//! ```text
//! 0 instruction pointer | 8 is a branch | 9 taken | 10 two target registers | 12 four source registers
//! 16 two addresses written | 32 four addresses read
//! ```

use std::io::BufRead;

use crate::{Kind, Reference, WorkloadError};

const RECORD_BYTES: usize = 64;
/// Assumed size of each access, which the format lacks.
const ACCESS_BYTES: u8 = 8;

pub(super) fn read(
    input: &mut dyn BufRead,
    origin: &str,
    each: &mut dyn FnMut(Reference) -> Result<(), WorkloadError>,
) -> Result<u64, WorkloadError> {
    let mut record = [0; RECORD_BYTES];
    let (mut number, mut gap) = (0u64, 0u32);
    // Registers that the last load filled; 0 is no register.
    let mut loaded = [0u8; 2];
    loop {
        let length =
            fill(input, &mut record).map_err(|cause| WorkloadError::Io { path: origin.into(), done: "read", cause })?;
        if length == 0 {
            return Ok(u64::from(gap));
        }
        number += 1;
        check(&record, length, number).map_err(|problem| WorkloadError::Foreign {
            origin: origin.to_owned(),
            unit: "record",
            number,
            problem,
        })?;
        let depends = record[12..16].iter().any(|register| *register != 0 && loaded.contains(register));
        let reads = addresses(&record[32..]).map(|addr| (addr, Kind::Read));
        let writes = addresses(&record[16..32]).map(|addr| (addr, Kind::Write));
        let mut shares = false;
        for (addr, kind) in reads.chain(writes) {
            each(Reference {
                addr,
                gap: std::mem::take(&mut gap),
                bytes: ACCESS_BYTES,
                kind,
                depends: depends && !shares,
                shares,
            })?;
            shares = true;
        }
        if addresses(&record[32..]).next().is_some() {
            loaded = [record[10], record[11]];
        }
        if !shares {
            gap = gap.saturating_add(1);
        }
    }
}

fn addresses(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let addresses = bytes.chunks_exact(8).map(|chunk| {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    addresses.filter(|&addr| addr != 0)
}

/// Reads as much of a record as there is.
fn fill(input: &mut dyn BufRead, record: &mut [u8; RECORD_BYTES]) -> std::io::Result<usize> {
    let mut length = 0;
    while length < RECORD_BYTES {
        match input.read(&mut record[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

fn check(record: &[u8; RECORD_BYTES], length: usize, number: u64) -> Result<(), String> {
    if number == 1 {
        for (magic, name, command) in [
            (&b"\xfd7zXZ\0"[..], "xz", "xz -dc"),
            (b"\x1f\x8b", "gzip", "gzip -dc"),
            (b"\x28\xb5\x2f\xfd", "zstd", "zstd -dc"),
            (b"BZh", "bzip2", "bzip2 -dc"),
        ] {
            if record[..length].starts_with(magic) {
                return Err(format!("the file is compressed with {name}; accepted is what {command} makes of it"));
            }
        }
    }
    if length < RECORD_BYTES {
        return Err(format!("the file ends after {length} of its {RECORD_BYTES} bytes"));
    }
    if record[8] > 1 || record[9] > 1 {
        let (branch, taken) = (record[8], record[9]);
        return Err(format!("is a branch: {branch}, taken: {taken}; accepted are 0 and 1: this is no ChampSim record"));
    }
    Ok(())
}
