//! Reasons why a platform file is refused.

use memtint_units::PhysAddr;
use std::path::PathBuf;

/// The reason why a platform cannot be loaded. Every message names the file, the field, the value found and the values
/// accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlatformError {
    /// Neither a name of the catalogue nor a path.
    #[error(
        "platform {spec:?} is not in the catalogue; nearest names are {}; a file is named by a path with a slash in it \
         or by a name that ends in .toml", nearest.join(", ")
    )]
    NotInCatalogue {
        /// The requested platform.
        spec: String,
        /// Up to five names of the catalogue that resemble it.
        nearest: Vec<&'static str>,
    },
    /// The file cannot be read.
    #[error("platform file {path:?} cannot be read: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The text is not TOML, has an unknown key, lacks one, or has a value of the wrong kind.
    #[error("platform {origin:?}: line {line}: {}", source.message())]
    Syntax {
        /// The file.
        origin: String,
        /// Line of the text, from 1; the last line when something is missing at the end.
        line: usize,
        /// The error of the TOML parser.
        source: Box<toml::de::Error>,
    },
    /// A field holds a value that is not accepted.
    #[error("platform {origin:?}: {field} is {found}; accepted is {accepted}")]
    Field {
        /// The file.
        origin: String,
        /// The field, as a path from the root of the file; list entries are counted from 0.
        field: String,
        /// The value found.
        found: String,
        /// The values accepted.
        accepted: String,
    },
    /// A function is the XOR of others, so it is redundant.
    #[error("platform {origin:?}: {field} {function} {}; remove it or correct its bits", dependence(on))]
    Dependent {
        /// The file.
        origin: String,
        /// The list of functions.
        field: &'static str,
        /// Index in the list, from 0.
        function: usize,
        /// The earlier functions whose XOR it equals; empty when it is constant zero.
        on: Vec<usize>,
    },
    /// Two regions overlap.
    #[error(
        "platform {origin:?}: region {first} and region {second} overlap in {space} at {at}; \
         shorten one or move its {mend}"
    )]
    Overlap {
        /// The file.
        origin: String,
        /// Index of the one region, from 0.
        first: usize,
        /// Index of the other region, from 0.
        second: usize,
        /// Which address space: physical or DRAM addresses.
        space: &'static str,
        /// The first address in both.
        at: PhysAddr,
        /// The field that can be changed.
        mend: &'static str,
    },
    /// Functions, rows and columns are declared complete but do not distinguish all addresses.
    #[error(
        "platform {origin:?}: dram.complete is true, but functions, rows and columns have rank {rank} on {address_bits} \
         address bits; addresses that differ in bits {} would share a bank, row and column; \
         add the missing row or column bits, or set complete = false",
        list(collision)
    )]
    NotInjective {
        /// The file.
        origin: String,
        /// Rank of all functions together.
        rank: u32,
        /// Number of address bits.
        address_bits: u32,
        /// Bits whose flipping changes neither bank, row nor column.
        collision: Vec<u32>,
    },
}

fn dependence(on: &[usize]) -> String {
    match on {
        [] => "is zero for every address".to_owned(),
        [one] => format!("equals function {one}, so half of the numbers it counts are unreachable"),
        [head @ .., last] => {
            format!("depends on functions {} and {last}, so half of the numbers it counts are unreachable", list(head))
        }
    }
}

fn list<T: ToString>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
