//! The mapping text of other tools (`map.txt` of DRAMA++, read by PALLOC): one XOR function a line.
//!
//! ```text
//! 14 18
//! 15 19
//! 8 9 12 13 14 15
//! ```
//!
//! Each line lists the address bits of a function in decimal, separated by spaces or tabs. Empty lines and lines that
//! start with `#` are skipped. Two more forms of a line are accepted without an option, because neither can be mistaken
//! for a list of bits:
//!
//! ```text
//! 0x24000
//! Valid Function: 0x4080 bits: 7 + 14
//! ```
//!
//! A word after `0x` is a mask (Blacksmith, ZenHammer); a line is one mask. `Valid Function:` begins a line of the output of
//! TRRespass' DRAMA, whose other lines (`~~~ ...`, `[ LOG ]`, and the like) are not read by this form: copy the functions only. Mask
//! and bits of such a line must agree.
//!
//! The text contains neither roles nor regions; [`to_platform_file`] makes a platform file from it with one region,
//! which the user must check.

use crate::file::{DramSection, FunctionSection, PlatformFile, RegionSection, Role, SCHEMA};
use crate::gf2;
use crate::platform::{ADDRESS_BITS_MAX, FUNCTIONS_MAX, Platform};
use memtint_units::{ByteSize, PAGE_SHIFT};
use std::fmt::Write as _;

/// The reason why a text is not a list of XOR functions. Lines are counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MapFileError {
    /// A word is not an address bit.
    #[error(
        "map file {origin:?}: line {line}: found {found:?}, accepted are decimal address bits from 0 to {} separated by spaces, a mask \
         such as 0x24000, or a line of DRAMA such as \"Valid Function: 0x4080 bits: 7 + 14\"",
        ADDRESS_BITS_MAX - 1
    )]
    Bit {
        /// The file.
        origin: String,
        /// The line.
        line: usize,
        /// The word.
        found: String,
    },
    /// Mask and bits of a line of DRAMA are not the same function.
    #[error(
        "map file {origin:?}: line {line}: mask is {mask:#x} and bits are those of {bits:#x}; accepted is one function a line"
    )]
    Disagree {
        /// The file.
        origin: String,
        /// The line.
        line: usize,
        /// The mask.
        mask: u64,
        /// The mask of the bits.
        bits: u64,
    },
    /// A line contains a bit twice.
    #[error(
        "map file {origin:?}: line {line}: bit {bit} stands twice and so cancels itself, accepted is each bit at most once"
    )]
    Twice {
        /// The file.
        origin: String,
        /// The line.
        line: usize,
        /// The bit.
        bit: u32,
    },
    /// A function is the XOR of earlier ones.
    #[error(
        "map file {origin:?}: line {line}: the function equals the XOR of those on lines {on:?}, so it is redundant; \
         remove the line or correct its bits"
    )]
    Dependent {
        /// The file.
        origin: String,
        /// The line.
        line: usize,
        /// The lines of the functions whose XOR it is.
        on: Vec<usize>,
    },
    /// More functions than any machine has.
    #[error("map file {origin:?}: line {line}: this is function {}, accepted are up to {FUNCTIONS_MAX}", FUNCTIONS_MAX + 1)]
    TooMany {
        /// The file.
        origin: String,
        /// The line of the first function too many.
        line: usize,
    },
    /// No function at all.
    #[error("map file {origin:?}: no line holds a function, accepted is at least one line such as 14 18")]
    Empty {
        /// The file.
        origin: String,
    },
}

/// Reads the text as masks of address bits, in the order of the lines; `origin` names it in messages.
///
/// # Errors
/// [`MapFileError`] for words that are no address bits, repeated bits, dependent functions, and a text without functions.
pub fn parse(text: &str, origin: &str) -> Result<Vec<u64>, MapFileError> {
    let mut masks = Vec::new();
    let mut lines = Vec::new();
    for (index, body) in text.lines().enumerate() {
        let body = body.trim();
        if body.is_empty() || body.starts_with('#') {
            continue;
        }
        let line = index + 1;
        if masks.len() == FUNCTIONS_MAX {
            return Err(MapFileError::TooMany { origin: origin.to_owned(), line });
        }
        masks.push(function(body, line, origin)?);
        lines.push(line);
        if let Some(on) = gf2::dependence(&masks, masks.len() - 1) {
            let on = on.into_iter().map(|function| lines[function]).collect();
            return Err(MapFileError::Dependent { origin: origin.to_owned(), line, on });
        }
    }
    if masks.is_empty() {
        return Err(MapFileError::Empty { origin: origin.to_owned() });
    }
    Ok(masks)
}

/// A line in any of its forms.
fn function(body: &str, line: usize, origin: &str) -> Result<u64, MapFileError> {
    if let Some(rest) = body.strip_prefix("Valid Function:") {
        let (mask, bits) = rest.split_once("bits:").unwrap_or((rest, ""));
        let mask = mask_of(mask.trim(), line, origin)?;
        let bits = bits.replace('+', " ");
        return match bits.trim() {
            "" => Ok(mask),
            bits => match bits_of(bits, line, origin)? {
                same if same == mask => Ok(mask),
                bits => Err(MapFileError::Disagree { origin: origin.to_owned(), line, mask, bits }),
            },
        };
    }
    if body.starts_with("0x") { mask_of(body, line, origin) } else { bits_of(body, line, origin) }
}

fn mask_of(word: &str, line: usize, origin: &str) -> Result<u64, MapFileError> {
    let digits = word.strip_prefix("0x").filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let mask = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    mask.filter(|&mask| mask != 0 && mask >> ADDRESS_BITS_MAX == 0).ok_or_else(|| {
        let found = word.chars().take(24).collect();
        MapFileError::Bit { origin: origin.to_owned(), line, found }
    })
}

fn bits_of(body: &str, line: usize, origin: &str) -> Result<u64, MapFileError> {
    let mut mask = 0u64;
    for word in body.split_whitespace() {
        let digits = word.bytes().all(|byte| byte.is_ascii_digit());
        let bit = word.parse().ok().filter(|&bit: &u32| digits && bit < ADDRESS_BITS_MAX);
        let Some(bit) = bit else {
            let found = word.chars().take(24).collect();
            return Err(MapFileError::Bit { origin: origin.to_owned(), line, found });
        };
        if mask >> bit & 1 == 1 {
            return Err(MapFileError::Twice { origin: origin.to_owned(), line, bit });
        }
        mask |= 1 << bit;
    }
    Ok(mask)
}

/// Writes functions as text, one line each with ascending bits; [`parse`] reads the same masks back.
#[must_use]
pub fn print(masks: &[u64]) -> String {
    let mut text = String::new();
    for &mask in masks {
        let bits: Vec<String> = gf2::bits(mask).map(|bit| bit.to_string()).collect();
        writeln!(text, "{}", bits.join(" ")).expect("writing to a string");
    }
    text
}

/// Writes the bank functions of a platform as text.
///
/// Regions, offsets, roles, domains and cache are lost: the format cannot express them.
#[must_use]
pub fn of_platform(platform: &Platform) -> String {
    print(platform.function_masks())
}

/// Makes a platform file from functions: every role unknown, one assumed region of `size_bytes` from address 0.
///
/// The functions count as known on as many address bits as size and functions need.
#[must_use]
pub fn to_platform_file(id: &str, masks: &[u64], size_bytes: u64, source: &str) -> PlatformFile {
    let highest = masks.iter().fold(size_bytes.saturating_sub(1), |all, mask| all | mask);
    let functions = masks.iter().map(|&mask| FunctionSection {
        role: Role::Unknown,
        bit: None,
        bits: gf2::bits(mask).collect(),
        assumed: false,
    });
    PlatformFile {
        schema: SCHEMA,
        id: id.to_owned(),
        name: id.to_owned(),
        uarch: None,
        notes: None,
        dram: DramSection {
            standard: "unknown".to_owned(),
            channels: None,
            dimms: None,
            ranks: None,
            banks: None,
            bank_groups: None,
            address_bits: highest.checked_ilog2().map_or(0, |bit| bit + 1).max(PAGE_SHIFT + 1),
            functions: functions.collect(),
            row_bits: None,
            row_functions: None,
            column_bits: None,
            complete: false,
            source_kind: None,
            source: source.to_owned(),
        },
        region: vec![RegionSection {
            base: ByteSize(0),
            size: ByteSize(size_bytes),
            node: 0,
            dram_base: None,
            interleave: None,
            assumed: true,
            source: "assumed: one piece from address 0".to_owned(),
        }],
        llc: None,
        cache: Vec::new(),
        cores: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_masks_convert_both_ways() {
        let masks = parse("# i5-6200U\n14 18\n\n15\t19 \n8 9 12 13 14 15\r\n", "m").unwrap();
        assert_eq!(masks, [1 << 14 | 1 << 18, 1 << 15 | 1 << 19, 0xf300]);
        assert_eq!(print(&masks), "14 18\n15 19\n8 9 12 13 14 15\n");
        assert_eq!(parse(&print(&masks), "m").unwrap(), masks);
    }

    /// The same functions as Blacksmith and ZenHammer write them, and as TRRespass' DRAMA prints them.
    #[test]
    fn masks_and_the_output_of_drama_are_read() {
        assert_eq!(
            parse("0x2040\n0x24000\n0x48000\n0x90000\n", "m").map(|masks| print(&masks)).unwrap(),
            "6 13\n14 17\n15 18\n16 19\n"
        );
        let drama = "         Valid Function: 0x4080\t\t bits: 7 + 14 \n\t Valid Function: 0x88000 bits: 15 + 19\n";
        assert_eq!(parse(drama, "m").unwrap(), [0x4080, 0x88000]);
        for (text, message) in [
            ("0x\n", "line 1: found \"0x\", accepted are decimal address bits"),
            ("0x2040 0x24000\n", "line 1: found \"0x2040 0x24000\""),
            ("6 13\n0x10000000000000\n", "line 2: found \"0x10000000000000\""),
            ("0x0\n", "line 1: found \"0x0\""),
            ("Valid Function: 0x4080 bits: 7 + 15\n", "line 1: mask is 0x4080 and bits are those of 0x8080"),
            ("Valid Function: 7 + 14\n", "line 1: found \"7 + 14\""),
            ("6 13\n0x2040\n", "line 2: the function equals the XOR of those on lines [1]"),
        ] {
            let found = parse(text, "m").unwrap_err().to_string();
            assert!(found.contains(message), "{text:?}: {found}");
        }
    }

    #[test]
    fn errors_name_the_line() {
        for (text, message) in [
            ("14 18\n15,19\n", "map file \"m\": line 2: found \"15,19\""),
            ("52\n", "line 1: found \"52\", accepted are decimal address bits from 0 to 51"),
            ("+4\n", "line 1: found \"+4\""),
            ("-4\n", "line 1: found \"-4\""),
            ("\n\n4 5 4\n", "line 3: bit 4 stands twice"),
            ("12\n# x\n13\n12 13\n", "line 4: the function equals the XOR of those on lines [1, 3]"),
            ("# nothing\n", "no line holds a function"),
        ] {
            let found = parse(text, "m").unwrap_err().to_string();
            assert!(found.contains(message), "{text:?}: {found}");
        }
        let many: String = (0..21).map(|bit| format!("{}\n", bit + 12)).collect();
        assert!(parse(&many, "m").unwrap_err().to_string().contains("line 21: this is function 21"));
    }

    #[test]
    fn functions_become_a_platform() {
        let file = to_platform_file("mine", &[1 << 14 | 1 << 18], 1 << 30, "measured here");
        let platform = Platform::from_file(file, "mine").unwrap();
        assert_eq!((platform.banks(), platform.size_bytes()), (2, 1 << 30));
        assert_eq!(of_platform(&platform), "14 18\n");
    }
}
