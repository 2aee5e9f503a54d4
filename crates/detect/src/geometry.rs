//! Modules, ranks and banks, from Linux EDAC and the modules' SPD memories.
//!
//! Neither source contains the mapping of addresses to banks. Both contain the number of banks, which a mapping from
//! another source must match: see [`Geometry::bank_functions`].

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use crate::sysfs::{numbered, read_text};

/// Modules as EDAC and SPD describe them; unreadable values are null.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Geometry {
    /// Memory controllers of Linux EDAC, by number.
    pub controllers: Vec<EdacController>,
    /// Modules whose SPD the kernel shows, by their place on the I2C buses.
    pub modules: Vec<SpdModule>,
}

/// A memory controller (`/sys/devices/system/edac/mc/mc0`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EdacController {
    /// Number.
    pub number: u64,
    /// The driver's name of the controller.
    pub name: String,
    /// Memory behind it, where reported.
    pub size_bytes: Option<u64>,
    /// Its modules, ranks or chip select rows, depending on the driver; empty ones are omitted.
    pub parts: Vec<EdacPart>,
}

/// A module, a rank, or a chip select row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EdacPart {
    /// The unit that the driver counts.
    pub kind: EdacKind,
    /// Its number.
    pub number: u64,
    /// Label of the slot, where set.
    pub label: String,
    /// Location, as reported by the driver: `channel 0 slot 1`.
    pub location: String,
    /// Size.
    pub size_bytes: u64,
    /// Kind of memory, as reported by the driver: `Registered-DDR4`.
    pub memory: String,
}

/// The unit that an EDAC driver counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EdacKind {
    /// A module.
    Dimm,
    /// A rank of a channel.
    Rank,
    /// The ranks of all channels that are selected together: the older interface, before modules.
    CsRow,
}

impl EdacKind {
    /// Returns the prefix of the directory's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            EdacKind::Dimm => "dimm",
            EdacKind::Rank => "rank",
            EdacKind::CsRow => "csrow",
        }
    }
}

/// A module, as its SPD describes it (JEDEC 21-C annexes K and L for DDR3 and DDR4, JESD400-5 for DDR5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SpdModule {
    /// Place on the I2C buses, for instance `0-0050`.
    pub place: String,
    /// DDR3, DDR4 or DDR5.
    pub kind: &'static str,
    /// Independent halves of the module's channel: 2 with DDR5.
    pub sub_channels: u32,
    /// Ranks.
    pub ranks: u32,
    /// Bank groups of a rank, 1 without.
    pub bank_groups: u32,
    /// Banks of a rank, over all groups.
    pub banks: u32,
    /// Bits of the row.
    pub row_bits: u32,
    /// Bits of the column.
    pub column_bits: u32,
    /// Size without the bits of error correction.
    pub size_bytes: u64,
}

impl Geometry {
    /// Reads a machine's files; `root` contains the directory `sys`.
    #[must_use]
    pub fn read(root: &Path) -> Self {
        Self { controllers: controllers(root), modules: modules(root) }
    }

    /// Counts the independent XOR functions that select among all banks of all modules: the base-two logarithm of the
    /// number of banks. `None` when no module is known, or when the number is not a power of two.
    #[must_use]
    pub fn bank_functions(&self) -> Option<u32> {
        let banks = self.modules.iter().map(|module| module.sub_channels * module.ranks * module.banks).sum::<u32>();
        banks.is_power_of_two().then(|| banks.trailing_zeros())
    }
}

const MIB: u64 = 1 << 20;

fn controllers(root: &Path) -> Vec<EdacController> {
    let folders = numbered(&root.join("sys/devices/system/edac/mc"), "mc");
    let read = |(number, path): (u64, std::path::PathBuf)| EdacController {
        number,
        name: read_text(&path.join("mc_name")).unwrap_or_default(),
        size_bytes: mebibytes(&path.join("size_mb")),
        parts: parts(&path),
    };
    folders.into_iter().map(read).collect()
}

fn mebibytes(path: &Path) -> Option<u64> {
    read_text(path)?.parse::<u64>().ok()?.checked_mul(MIB)
}

/// Returns modules if the driver counts them, else ranks, else chip select rows.
fn parts(controller: &Path) -> Vec<EdacPart> {
    for kind in [EdacKind::Dimm, EdacKind::Rank, EdacKind::CsRow] {
        let folders = numbered(controller, kind.name());
        let parts: Vec<EdacPart> = folders.iter().filter_map(|(number, path)| part(kind, *number, path)).collect();
        if !parts.is_empty() {
            return parts;
        }
    }
    Vec::new()
}

fn part(kind: EdacKind, number: u64, path: &Path) -> Option<EdacPart> {
    let text = |name: &str| read_text(&path.join(name)).unwrap_or_default();
    let (size, label, memory) = match kind {
        EdacKind::CsRow => ("size_mb", "ch0_dimm_label", "mem_type"),
        EdacKind::Dimm | EdacKind::Rank => ("size", "dimm_label", "dimm_mem_type"),
    };
    Some(EdacPart {
        kind,
        number,
        label: text(label),
        location: text("dimm_location"),
        size_bytes: mebibytes(&path.join(size)).filter(|&bytes| bytes > 0)?,
        memory: text(memory),
    })
}

fn modules(root: &Path) -> Vec<SpdModule> {
    let entries = std::fs::read_dir(root.join("sys/bus/i2c/devices")).into_iter().flatten().flatten();
    let mut modules: Vec<SpdModule> = entries
        .filter_map(|entry| {
            let bytes = std::fs::read(entry.path().join("eeprom")).ok()?;
            spd(entry.file_name().to_str()?, &bytes)
        })
        .collect();
    modules.sort_by(|one, other| one.place.cmp(&other.place));
    modules
}

/// Reads an SPD; `None` when its kind is not supported, or when it is too short or inconsistent.
fn spd(place: &str, bytes: &[u8]) -> Option<SpdModule> {
    let field = |index: usize, high: u32, low: u32| {
        bytes.get(index).map(|&byte| u32::from(byte) >> low & (u32::from(u8::MAX) >> (7 - (high - low))))
    };
    // Byte 2 is the kind, which determines the positions of all other fields.
    let (kind, sub_channels, ranks, group_bits, bank_bits, row_bits, column_bits, width) = match bytes.get(2)? {
        0x0b => {
            let banks = field(4, 6, 4)? + 3;
            ("DDR3", 1, field(7, 5, 3)? + 1, 0, banks, field(5, 5, 3)? + 12, field(5, 2, 0)? + 9, field(8, 2, 0)?)
        }
        0x0c => {
            let groups = field(4, 7, 6)?;
            let banks = field(4, 5, 4)? + 2 + groups;
            (
                "DDR4",
                1,
                field(12, 5, 3)? + 1,
                groups,
                banks,
                field(5, 5, 3)? + 12,
                field(5, 2, 0)? + 9,
                field(13, 2, 0)?,
            )
        }
        0x12 => {
            let groups = field(7, 7, 5)?;
            let (banks, halves) = (field(7, 2, 0)? + groups, 1 << field(235, 6, 5)?);
            (
                "DDR5",
                halves,
                field(234, 5, 3)? + 1,
                groups,
                banks,
                field(5, 4, 0)? + 16,
                field(5, 7, 5)? + 10,
                field(235, 2, 0)?,
            )
        }
        _ => return None,
    };
    // Bytes of a column on one sub-channel: 8 bits shifted by `width` (1, 2, 4 or 8 bytes).
    if width > 3 || bank_bits > 6 || row_bits > 24 {
        return None;
    }
    let rank_bytes = 1u64 << (bank_bits + row_bits + column_bits + width);
    Some(SpdModule {
        place: place.to_owned(),
        kind,
        sub_channels,
        ranks,
        bank_groups: 1 << group_bits,
        banks: 1 << bank_bits,
        row_bits,
        column_bits,
        size_bytes: rank_bytes * u64::from(sub_channels * ranks),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: &[(usize, u8)]) -> Vec<u8> {
        let mut bytes = vec![0; 512];
        for &(index, value) in values {
            bytes[index] = value;
        }
        bytes
    }

    #[test]
    fn modules_describe_themselves() {
        // DDR3: 8 banks, 15 rows, 10 columns, 2 ranks, 64 bits: 4 GiB.
        let ddr3 = spd("0-0050", &bytes(&[(2, 0x0b), (4, 0x03), (5, 0x19), (7, 0x09), (8, 0x03)])).unwrap();
        assert_eq!((ddr3.ranks, ddr3.banks, ddr3.row_bits, ddr3.column_bits), (2, 8, 15, 10));
        assert_eq!(ddr3.size_bytes, 4 << 30);
        // DDR4: 4 groups of 4, 16 rows, 10 columns, 1 rank, 64 bits and 8 for error correction: 8 GiB.
        let ddr4 = spd("0-0051", &bytes(&[(2, 0x0c), (4, 0x85), (5, 0x21), (12, 0x01), (13, 0x0b)])).unwrap();
        assert_eq!((ddr4.ranks, ddr4.bank_groups, ddr4.banks, ddr4.size_bytes), (1, 4, 16, 8 << 30));
        // DDR5: 8 groups of 4, 16 rows, 10 columns, 1 rank, two halves of 32 bits: 16 GiB.
        let ddr5 = spd("0-0052", &bytes(&[(2, 0x12), (5, 0x00), (7, 0x62), (234, 0x00), (235, 0x22)])).unwrap();
        assert_eq!((ddr5.sub_channels, ddr5.bank_groups, ddr5.banks, ddr5.size_bytes), (2, 8, 32, 16 << 30));
        assert_eq!(spd("0-0053", &bytes(&[(2, 0x08)])), None);
        assert_eq!(spd("0-0053", &[0, 0, 0x12]), None);
        let of = |modules: &[&SpdModule]| {
            let modules = modules.iter().map(|&module| module.clone()).collect();
            Geometry { modules, ..Geometry::default() }.bank_functions()
        };
        assert_eq!((of(&[&ddr3]), of(&[&ddr3, &ddr3]), of(&[&ddr5])), (Some(4), Some(5), Some(6)));
        assert_eq!((of(&[&ddr3, &ddr3, &ddr3]), of(&[])), (None, None));
    }
}
