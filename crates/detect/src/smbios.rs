//! SMBIOS tables: the memory modules that the firmware reports.

use schemars::JsonSchema;
use serde::Serialize;

/// Memory in the SMBIOS tables (DMTF DSP0134, version 3.7).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Smbios {
    /// Modules, section 7.18; empty slots are omitted.
    pub memory_devices: Vec<MemoryDevice>,
    /// Address ranges of memory arrays, section 7.20.
    pub mapped_addresses: Vec<MappedAddress>,
}

/// A memory module (type 17).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MemoryDevice {
    /// Label of the slot.
    pub locator: String,
    /// Label of the bank or channel, as the board's manufacturer spells it.
    pub bank_locator: String,
    /// Size.
    pub size_bytes: u64,
    /// Kind of memory, for instance "DDR4".
    pub kind: String,
    /// Highest speed in mega-transfers per second, where reported.
    pub speed_mt_s: Option<u32>,
    /// Ranks, where reported.
    pub ranks: Option<u32>,
}

/// A range of physical addresses that a memory array serves (type 19).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MappedAddress {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Modules that form one row of the interleave.
    pub partition_width: u32,
}

/// Reads the structures of a table, up to the first truncated or malformed one.
pub(crate) fn parse(table: &[u8]) -> Smbios {
    let mut smbios = Smbios::default();
    let mut rest = table;
    while let Some((structure, after)) = next_structure(rest) {
        match structure.kind {
            17 => smbios.memory_devices.extend(memory_device(&structure)),
            19 => smbios.mapped_addresses.extend(mapped_address(&structure)),
            127 => break,
            _ => {}
        }
        rest = after;
    }
    smbios
}

/// Formatted area, then strings, each with a zero behind it, then one more zero (section 6.1).
struct Structure<'a> {
    kind: u8,
    formatted: &'a [u8],
    strings: Vec<&'a [u8]>,
}

impl Structure<'_> {
    fn byte(&self, offset: usize) -> Option<u8> {
        self.formatted.get(offset).copied()
    }
    fn word(&self, offset: usize) -> Option<u16> {
        Some(u16::from_le_bytes(self.formatted.get(offset..offset + 2)?.try_into().ok()?))
    }
    fn double_word(&self, offset: usize) -> Option<u32> {
        Some(u32::from_le_bytes(self.formatted.get(offset..offset + 4)?.try_into().ok()?))
    }
    fn quad_word(&self, offset: usize) -> Option<u64> {
        Some(u64::from_le_bytes(self.formatted.get(offset..offset + 8)?.try_into().ok()?))
    }
    /// Strings are numbered from 1; 0 means none.
    fn string(&self, offset: usize) -> String {
        let number = usize::from(self.byte(offset).unwrap_or(0));
        let bytes = number.checked_sub(1).and_then(|index| self.strings.get(index)).copied().unwrap_or_default();
        String::from_utf8_lossy(bytes).trim().to_owned()
    }
}

fn next_structure(table: &[u8]) -> Option<(Structure<'_>, &[u8])> {
    let length = usize::from(*table.get(1)?);
    if length < 4 {
        return None;
    }
    let formatted = table.get(..length)?;
    let text = table.get(length..)?;
    let end = text.windows(2).position(|pair| pair == [0, 0])?;
    let strings = text[..end].split(|&byte| byte == 0).collect();
    Some((Structure { kind: table[0], formatted, strings }, &text[end + 2..]))
}

fn memory_device(structure: &Structure<'_>) -> Option<MemoryDevice> {
    let size_bytes = match structure.word(0x0c)? {
        0 | 0xffff => return None,
        0x7fff => u64::from(structure.double_word(0x1c)? & 0x7fff_ffff) << 20,
        // Bit 15: the unit is KiB instead of MiB.
        size if size & 0x8000 != 0 => u64::from(size & 0x7fff) << 10,
        size => u64::from(size) << 20,
    };
    Some(MemoryDevice {
        locator: structure.string(0x10),
        bank_locator: structure.string(0x11),
        size_bytes,
        kind: kind_name(structure.byte(0x12)?),
        speed_mt_s: structure.word(0x15).filter(|&speed| speed != 0 && speed != 0xffff).map(u32::from),
        ranks: structure.byte(0x1b).map(|attributes| u32::from(attributes & 0xf)).filter(|&ranks| ranks != 0),
    })
}

/// Table 79 of section 7.18.2, from DDR on.
fn kind_name(code: u8) -> String {
    let name = match code {
        0x12 => "DDR",
        0x13 => "DDR2",
        0x18 => "DDR3",
        0x1a => "DDR4",
        0x1b => "LPDDR",
        0x1c => "LPDDR2",
        0x1d => "LPDDR3",
        0x1e => "LPDDR4",
        0x20 => "HBM",
        0x21 => "HBM2",
        0x22 => "DDR5",
        0x23 => "LPDDR5",
        0x07 => "RAM",
        other => return format!("code {other:#04x}"),
    };
    name.to_owned()
}

fn mapped_address(structure: &Structure<'_>) -> Option<MappedAddress> {
    let partition_width = u32::from(structure.byte(0x0e)?);
    // In KiB, both included; all ones: see the extended fields, in bytes.
    let (start, end) = match structure.double_word(0x04)? {
        u32::MAX => (structure.quad_word(0x0f)?, structure.quad_word(0x17)?.checked_add(1)?),
        start => (u64::from(start) << 10, (u64::from(structure.double_word(0x08)?) + 1) << 10),
    };
    Some(MappedAddress { start, end, partition_width })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn structure(kind: u8, formatted: &[u8], strings: &[&str]) -> Vec<u8> {
        let mut bytes = vec![kind, formatted.len() as u8 + 4, 0, 0];
        bytes.extend(formatted);
        for string in strings {
            bytes.extend(string.as_bytes());
            bytes.push(0);
        }
        if strings.is_empty() {
            bytes.push(0);
        }
        bytes.push(0);
        bytes
    }

    fn module(size: u16) -> Vec<u8> {
        let mut formatted = vec![0; 0x20 - 4];
        formatted[0x0c - 4..0x0e - 4].copy_from_slice(&size.to_le_bytes());
        formatted[0x10 - 4] = 1;
        formatted[0x11 - 4] = 2;
        formatted[0x12 - 4] = 0x1a;
        formatted[0x15 - 4..0x17 - 4].copy_from_slice(&3200u16.to_le_bytes());
        formatted[0x1b - 4] = 2;
        formatted[0x1c - 4..0x20 - 4].copy_from_slice(&65536u32.to_le_bytes());
        structure(17, &formatted, &["DIMM_A1", "BANK 0"])
    }

    #[test]
    fn modules_are_read_and_empty_slots_left_out() {
        let mut table = structure(4, &[1, 2, 3], &["a processor"]);
        table.extend(module(8192));
        table.extend(module(0));
        table.extend(module(0x7fff));
        let range = [0u32.to_le_bytes(), 0x00ff_ffffu32.to_le_bytes()].concat();
        table.extend(structure(19, &[range, vec![0, 0, 2]].concat(), &[]));
        table.extend(structure(127, &[], &[]));
        table.extend(module(1024));
        let smbios = parse(&table);
        assert_eq!(smbios.memory_devices.len(), 2);
        let first = &smbios.memory_devices[0];
        assert_eq!((first.size_bytes, first.kind.as_str(), first.ranks), (8 << 30, "DDR4", Some(2)));
        assert_eq!((first.locator.as_str(), first.bank_locator.as_str()), ("DIMM_A1", "BANK 0"));
        assert_eq!(smbios.memory_devices[1].size_bytes, 64 << 30);
        assert_eq!(smbios.mapped_addresses, [MappedAddress { start: 0, end: 16 << 30, partition_width: 2 }]);
    }

    #[test]
    fn nonsense_ends_the_reading_without_panic() {
        let table = module(8192);
        for length in 0..table.len() {
            parse(&table[..length]);
        }
        parse(&[17; 300]);
        parse(&[0; 300]);
        parse(&[255; 300]);
    }
}
