//! The memory controllers of Zen (UMC): rank, bank group, bank, row and column of a channel's address.
//!
//! Source: illumos `umc.h` for the registers, `zen_umc_decode.c` for their function.

use std::collections::BTreeMap;

use memtint_map::Role;
use memtint_map::gf2;

use crate::error::{Origin, RegisterError};
use crate::list::Layout;
use crate::wires::{bit, field};

/// How a memory controller decodes the address that reaches it. All masks apply to that address.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Channel {
    pub(crate) standard: &'static str,
    pub(crate) functions: Vec<ChannelFunction>,
    pub(crate) rows: u64,
    pub(crate) columns: u64,
    /// Base-two logarithms.
    pub(crate) bank_bits: u32,
    pub(crate) group_bits: u32,
    pub(crate) ranks: u32,
    /// Addresses from here on select no chip select.
    pub(crate) end: u64,
}

/// An XOR function of the channel's address.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChannelFunction {
    pub(crate) role: Role,
    pub(crate) mask: u64,
    pub(crate) registers: String,
}

/// Registers of one controller, with their names for messages.
struct Registers<'a> {
    number: u8,
    values: &'a BTreeMap<u16, u32>,
    layout: Layout,
    origin: Origin<'a>,
}

/// Chip selects of a controller, which are those of two modules.
const CHIP_SELECTS: u16 = 4;

/// Reads a controller; `None` when no chip select is enabled.
pub(crate) fn channel(
    number: u8,
    values: &BTreeMap<u16, u32>,
    layout: Layout,
    origin: Origin<'_>,
) -> Result<Option<Channel>, RegisterError> {
    Registers { number, values, layout, origin }.channel()
}

/// A chip select: the compared bits, their value, and the values of AddrCfg, AddrSel, ColSelLo, ColSelHi and RmSel.
#[derive(Clone, Copy)]
struct ChipSelect {
    number: u16,
    compared: u64,
    base: u64,
    shape: [u32; 5],
}

/// Base and mask have bits 39:9, eight with the extended ones of some controllers: 47:9.
const COMPARED_BITS: u64 = (1 << 48) - (1 << 9);

impl Registers<'_> {
    fn name(&self, offset: u16) -> String {
        format!("umc{}.{offset:#05x}", self.number)
    }

    fn read(&self, offset: u16, reason: &'static str) -> Result<u32, RegisterError> {
        self.values.get(&offset).copied().ok_or_else(|| self.origin.missing(self.name(offset), reason))
    }

    /// A register that only some controllers have; absent is zero.
    fn extension(&self, offset: u16) -> u64 {
        u64::from(self.values.get(&offset).copied().unwrap_or(0) & 0xff) << 40
    }

    /// Chooses by layout.
    fn by<T>(&self, ddr4: T, ddr5: T) -> T {
        match self.layout {
            Layout::Ddr4 => ddr4,
            Layout::Ddr5 => ddr5,
        }
    }

    fn channel(&self) -> Result<Option<Channel>, RegisterError> {
        let mut selects = Vec::new();
        for number in 0..CHIP_SELECTS {
            selects.extend(self.chip_select(number)?);
        }
        let Some(&first) = selects.first() else { return Ok(None) };
        for other in &selects[1..] {
            if (other.compared, other.shape) != (first.compared, first.shape) {
                let found = format!("another size or shape than chip select {}", first.number);
                let accepted = "chip selects that are alike: a platform file has one list of functions";
                return self.origin.refuse(format!("umc{} chip select {}", self.number, other.number), found, accepted);
            }
            if selects.iter().any(|twin| twin.number != other.number && twin.base == other.base) {
                let accepted = "a unique base";
                return self.origin.refuse(self.name(4 * other.number), "the base of another chip select", accepted);
            }
        }
        let kind = field(self.read(0x100, "it contains the kind of memory (UmcConfig)")?, 2, 0);
        let standard = match (self.layout, kind) {
            (_, 0) => "DDR4",
            (Layout::Ddr5, 1) => "DDR5",
            (_, 5) => "LPDDR4",
            (Layout::Ddr5, 6) => "LPDDR5",
            _ => {
                return self.origin.refuse(
                    format!("{} [2:0] (DdrType)", self.name(0x100)),
                    kind,
                    "a kind that is published",
                );
            }
        };
        let ranks = self.ranks(&selects)?;
        self.shape(first, standard, ranks, &selects).map(Some)
    }

    fn chip_select(&self, number: u16) -> Result<Option<ChipSelect>, RegisterError> {
        let why = "which chip selects are used depends on it";
        let base = self.read(4 * number, why)?;
        if bit(self.read(0x10 + 4 * number, why)?, 0) {
            let accepted = "bit 0 zero: modules of two sizes behind one chip select are not decoded";
            return self.origin.refuse(self.name(0x10 + 4 * number), "enabled (BaseAddrSec)", accepted);
        }
        if !bit(base, 0) {
            return Ok(None);
        }
        // DDR4 has most registers once for a module, DDR5 once for a chip select.
        let own = self.by(number / 2, number);
        let why = "it belongs to an enabled chip select";
        let mask = self.read(0x20 + 4 * own, why)?;
        let wide = |value: u32, extension: u16| {
            let extended = if self.layout == Layout::Ddr5 { self.extension(extension + 4 * number) } else { 0 };
            u64::from(value >> 1) << 9 | extended
        };
        // 31 bits from bit 9 up; the extended eight follow at bit 40.
        let compared = COMPARED_BITS & !wide(mask, 0xb20);
        let compared = if self.layout == Layout::Ddr4 { compared & ((1 << 40) - 1) } else { compared };
        let shape = [
            self.by(0x30, 0x40) + 4 * own,
            self.by(0x40, 0x50) + 4 * own,
            self.by(0x50, 0x60) + 8 * own,
            self.by(0x54, 0x64) + 8 * own,
            self.by(0x70, 0x80) + 4 * own,
        ];
        let mut values = [0; 5];
        for (value, offset) in values.iter_mut().zip(shape) {
            *value = self.read(offset, why)?;
        }
        Ok(Some(ChipSelect { number, compared, base: wide(base, 0xb00) & compared, shape: values }))
    }

    /// Rank functions: for each varying bit of the chip select's number, the address bits that determine it, and the
    /// hash.
    fn ranks(&self, selects: &[ChipSelect]) -> Result<Vec<ChannelFunction>, RegisterError> {
        let first = selects[0];
        let varying = selects.iter().fold(0, |bits, select| bits | select.base ^ first.base);
        let mut functions = Vec::new();
        for index in 0..2u32 {
            let (hash_place, extension) =
                self.by((0xe8 + 4 * index as u16, None), (0xc8 + 4 * index as u16, Some(0xbc8 + 4 * index as u16)));
            let hash =
                self.read(hash_place, "the rank depends on it (AddrHashCS); 0x0 where the controller has none")?;
            let hash = if bit(hash, 0) {
                u64::from(hash >> 1) << 9 | extension.map_or(0, |extension| self.extension(extension))
            } else {
                0
            };
            let value = |select: &ChipSelect| u64::from(select.number) >> index & 1;
            if selects.iter().all(|select| value(select) == value(&first)) {
                if hash != 0 {
                    let found = format!("{hash:#x}, while chip selects do not differ in bit {index} of their number");
                    let accepted = "no hash, or chip selects that differ there: others would be reached";
                    return self.origin.refuse(format!("{} (AddrHashCS)", self.name(hash_place)), found, accepted);
                }
                continue;
            }
            // Finds the smallest set of address bits whose parity equals the number's bit.
            let tells = |mask: &u64| {
                selects
                    .iter()
                    .all(|select| gf2::parity(select.base ^ first.base, *mask) == value(select) ^ value(&first))
            };
            let positions: Vec<u32> = gf2::bits(varying).collect();
            let subsets = (1u64..1 << positions.len().min(8))
                .map(|choice| gf2::bits(choice).fold(0u64, |mask, position| mask | 1 << positions[position as usize]));
            let Some(own) = subsets.filter(tells).min_by_key(|mask| (mask.count_ones(), *mask)) else {
                let found = format!("bases that differ in address bits {positions:?}");
                let accepted = "bases that make each bit of the chip select's number an XOR of address bits";
                return self.origin.refuse(format!("umc{} BaseAddr", self.number), found, accepted);
            };
            let places: Vec<String> = gf2::bits(own).map(|place| place.to_string()).collect();
            let mut registers =
                format!("umc 0x000-0x00c BaseAddr: bit {} of the channel's address", places.join(" and "));
            if hash != 0 {
                registers.push_str(&format!(", {hash_place:#05x} AddrHashCS {hash:#x}"));
            }
            functions.push(ChannelFunction { role: Role::Rank, mask: own ^ hash, registers });
        }
        if 1 << functions.len() != selects.len() {
            let found = format!("{} chip selects", selects.len());
            let accepted = "1, 2 or 4 whose numbers follow from address bits";
            return self.origin.refuse(format!("umc{} BaseAddr", self.number), found, accepted);
        }
        Ok(functions)
    }

    /// AddrCfg, AddrSel, ColSel, RmSel and the hashes.
    fn shape(
        &self,
        select: ChipSelect,
        standard: &'static str,
        mut functions: Vec<ChannelFunction>,
        selects: &[ChipSelect],
    ) -> Result<Channel, RegisterError> {
        let [config, places, columns_low, columns_high, rank_places] = select.shape;
        let bank_bits = field(config, 21, 20) + 3;
        let group_bits = field(config, 3, 2);
        if bank_bits > 5 || group_bits > bank_bits {
            let found = format!("{bank_bits} bank bits, {group_bits} of them of the group");
            return self.origin.refuse(format!("umc{} AddrCfg", self.number), found, "up to 5, the group's among them");
        }
        let column_bits = field(config, 19, 16) + 5;
        if column_bits > 16 {
            let found = format!("{column_bits} column bits");
            return self.origin.refuse(format!("umc{} AddrCfg[19:16]", self.number), found, "up to 16");
        }
        let column = |index: u32| match index {
            0..8 => 2 + (columns_low >> (4 * index) & 0xf),
            _ => 8 + (columns_high >> (4 * (index - 8)) & 0xf),
        };
        let columns: Vec<u32> = (0..column_bits).map(column).collect();
        let low_rows = field(config, 11, 8) + 10;
        let mut rows: Vec<u32> = (0..low_rows).map(|row| field(places, 27, 24) + 12 + row).collect();
        if self.layout == Layout::Ddr4 {
            rows.extend((0..field(config, 15, 12)).map(|row| field(places, 31, 28) + 24 + row));
        }
        for index in 0..bank_bits {
            let role = if index < group_bits { Role::BankGroup } else { Role::Bank };
            functions.push(self.bank(index, field(places, 4 * index + 3, 4 * index) + 5, role, &rows, &columns)?);
        }
        let sub_channel = matches!(standard, "DDR5" | "LPDDR5");
        if sub_channel {
            functions.push(self.sub_channel(field(rank_places, 19, 16) + 5, &rows, &columns)?);
        }
        let multiplied = self.by(field(config, 5, 4), field(config, 6, 4));
        if multiplied > self.by(3, 4) {
            return self.origin.refuse(
                format!("umc{} AddrCfg (NumRM)", self.number),
                multiplied,
                "up to 3, or 4 with DDR5",
            );
        }
        for index in 0..multiplied {
            functions.push(self.stacked_rank(index, field(rank_places, 4 * index + 3, 4 * index) + 12)?);
        }
        // Bytes of a column: eight lanes with DDR4, four on a half channel of DDR5.
        let bytes = if sub_channel { 0b11 } else { 0b111 };
        let varying = selects.iter().fold(0, |bits, other| bits | other.base ^ select.base);
        let fixed = select.compared & !varying;
        if select.base & fixed != 0 {
            let found = format!("chip selects that begin at {:#x}", select.base & fixed);
            return self.origin.refuse(format!("umc{} BaseAddr", self.number), found, "chip selects from address 0 on");
        }
        Ok(Channel {
            standard,
            functions,
            rows: mask_of(&rows),
            columns: mask_of(&columns) | bytes,
            bank_bits,
            group_bits,
            ranks: (selects.len() as u32) << multiplied,
            end: if fixed == 0 { 1 << 48 } else { 1 << fixed.trailing_zeros() },
        })
    }

    /// AddrHashBank: row and column bits by their numbers in row and column.
    fn bank(
        &self,
        index: u32,
        place: u32,
        role: Role,
        rows: &[u32],
        columns: &[u32],
    ) -> Result<ChannelFunction, RegisterError> {
        let hash_place = self.by(0xc8, 0x98) + 4 * index as u16;
        let hash = self.read(hash_place, "the bank depends on it (AddrHashBank); 0x0 where the controller has none")?;
        let mut registers = format!("umc AddrSel: bit {place} of the channel's address");
        let mut mask = 1 << place;
        if bit(hash, 0) {
            mask ^= picked(field(hash, 31, 14), rows) ^ picked(field(hash, 13, 1), columns);
            registers.push_str(&format!(", {hash_place:#05x} AddrHashBank {hash:#010x}"));
        }
        Ok(ChannelFunction { role, mask, registers })
    }

    /// AddrHashPC: the half of a DDR5 channel.
    fn sub_channel(&self, place: u32, rows: &[u32], columns: &[u32]) -> Result<ChannelFunction, RegisterError> {
        let why = "the half of the channel depends on it (AddrHashPC); 0x0 where the controller has none";
        let (hash, hash_banks) = (self.read(0xc0, why)?, self.read(0xc4, why)?);
        let mut registers = format!("umc RmSel[19:16]: bit {place} of the channel's address");
        let mut mask = 1 << place;
        if bit(hash, 0) {
            mask ^= picked(field(hash, 31, 14), rows) ^ picked(field(hash, 13, 1), columns);
            if field(hash_banks, 4, 0) != 0 {
                let register = format!("{} [4:0] (AddrHashPC2)", self.name(0xc4));
                let accepted = "0: which bank bits are counted, before or behind their own hash, is not published";
                return self.origin.refuse(register, format!("{hash_banks:#x}"), accepted);
            }
            registers.push_str(&format!(", 0x0c0 AddrHashPC {hash:#010x}"));
        }
        Ok(ChannelFunction { role: Role::Subchannel, mask, registers })
    }

    /// AddrHashRM: dies of a stacked module; each is a separate rank.
    fn stacked_rank(&self, index: u32, place: u32) -> Result<ChannelFunction, RegisterError> {
        let hash_place = self.by(0xdc, 0xb0) + 4 * index as u16;
        let hash = self.read(hash_place, "the rank depends on it (AddrHashRM); 0x0 where the controller has none")?;
        let mut registers = format!("umc RmSel: bit {place} of the channel's address");
        let mut mask = 1 << place;
        if bit(hash, 0) {
            mask ^= u64::from(hash >> 1) << 9 | self.by(0, self.extension(0xbb0 + 4 * index as u16));
            registers.push_str(&format!(", {hash_place:#05x} AddrHashRM {hash:#010x}"));
        }
        Ok(ChannelFunction { role: Role::Rank, mask, registers })
    }
}

/// The address bits of the row or column bits in `mask`; bits that the device lacks are zero.
fn picked(mask: u32, places: &[u32]) -> u64 {
    gf2::bits(u64::from(mask)).filter_map(|number| places.get(number as usize)).fold(0, |sum, &place| sum ^ 1 << place)
}

fn mask_of(places: &[u32]) -> u64 {
    places.iter().fold(0, |mask, &place| mask | 1 << place)
}
