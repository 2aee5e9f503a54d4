//! `memtint probe --algorithm`: published ways to look for a mapping, in words.

use std::fmt::{self, Write as _};

use memtint_probe::baseline::Found;
use memtint_probe::session::{Published, bit_list, xor};

use super::report::write_details;

/// What a published algorithm came to.
pub(super) fn text(published: &Published) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = write(&mut out, published);
    out
}

fn write(out: &mut String, published: &Published) -> fmt::Result {
    let Published { request, subject, outcome, right } = published;
    let name = request.algorithm.name();
    match &outcome.result {
        Ok(Found { functions, row_bits, column_bits }) => {
            let checked = match right {
                Some(true) => "it is the machine's",
                Some(false) => "it is not the machine's",
                None => "it was not checked",
            };
            writeln!(out, "answer      {name} found this mapping; {checked}")?;
            let functions: Vec<String> = functions.iter().map(|&mask| xor(mask)).collect();
            writeln!(out, "functions   {}", functions.join(" "))?;
            for (what, bits) in [("rows", row_bits), ("columns", column_bits)] {
                if let Some(bits) = bits {
                    writeln!(out, "{what:<12}{}", bit_list(*bits))?;
                }
            }
        }
        Err(stopped) => writeln!(out, "answer      {name} gives none: {stopped}")?,
    }
    writeln!(out, "accesses    {}", outcome.accesses)?;
    writeln!(out, "asked       {subject}")?;
    write_details(out, subject)
}
