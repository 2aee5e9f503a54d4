//! The DRAM controllers of AMD families 10h and 15h.
//!
//! An address passes four stages, each configured by separate registers. Base and limit registers select the node
//! (function 1); the controller select registers select one of its two channels (function 2); base and mask registers
//! select the chip select, which is the rank; the bank address mapping register defines the column, bank and row bits.
//! Each stage removes the bits that it used, which gives the *normalized* address for the next.
//!
//! The registers are defined by AMD's *BIOS and Kernel Developer's Guide* (BKDG) for family 10h (31116) and family 15h
//! (42301). The rules are taken, by name, from: EDAC, which is `drivers/edac/amd64_edac.c` of Linux; MCT, which is
//! coreboot's `amdmct`; AGESA, which is AMD's memory initialization (`mfcsi.c`, `mtspd3.c`, and `DramMapKv.c` for
//! family 15h).

use memtint_map::{Role, gf2};

use crate::decoded::{Decoded, Function, Parts, Piece, bits_for};
use crate::error::{Origin, RegisterError};
use crate::pci::{ConfigSpace, PciAddress};
use crate::wires::{Wires, bit, field};

/// One of the two families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// K10: Barcelona to Magny-Cours.
    F10h,
    /// Bulldozer and Piledriver: models 00h to 1fh.
    F15h,
}

impl Family {
    /// Vendor and device of functions 1 and 2, as the first register of configuration space has them.
    fn ids(self) -> &'static [[u32; 2]] {
        match self {
            Family::F10h => &[[0x1201_1022, 0x1202_1022]],
            Family::F15h => &[[0x1601_1022, 0x1602_1022], [0x1401_1022, 0x1402_1022]],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Family::F10h => "AMD family 10h",
            Family::F15h => "AMD family 15h",
        }
    }

    /// Finds the family of the dumped machine, by the PCI identities of its functions.
    ///
    /// # Errors
    /// [`RegisterError::Unknown`] when no function is a supported memory controller.
    pub fn of(space: &ConfigSpace, origin: &str) -> Result<Family, RegisterError> {
        let is = |family: Family| {
            let known = |id: u32| family.ids().iter().flatten().any(|&known| known == id);
            space.functions().filter_map(|function| space.register(function, 0)).any(known)
        };
        match [Family::F10h, Family::F15h].into_iter().find(|&family| is(family)) {
            Some(family) => Ok(family),
            None => {
                let found = space.functions().filter(|function| function.bus == 0 && function.device >= 0x18);
                let found: Vec<String> = found
                    .map(|function| match space.register(function, 0) {
                        Some(id) => format!("{function} is {:04x}:{:04x}", id & 0xffff, id >> 16),
                        None => format!("{function} lacks its vendor and device"),
                    })
                    .collect();
                let found = if found.is_empty() { "there is no device 00:18".to_owned() } else { found.join(", ") };
                let accepted = "1022:1202 (family 10h), 1022:1602 and 1022:1402 (family 15h, models 00h to 1fh); Zen \
                                keeps its registers elsewhere, and its dump has another form";
                Err(RegisterError::Unknown { origin: origin.to_owned(), found, accepted })
            }
        }
    }
}

/// Makes a platform file from the registers of a family.
///
/// Configurations that one list of XOR functions and offsets cannot express exactly are refused by name: nodes or
/// channels that differ in their modules, chip selects of different sizes, a high range beside an interleaved one, the
/// swapped region of F2x10C, a spare rank in use. Family 15h shows the registers of only one of its two controllers at
/// a time (F1x10C); the functions derived from them are marked as assumed for the other.
///
/// # Errors
/// [`RegisterError`]: a register is missing, or is refused.
pub fn decode_family(space: &ConfigSpace, family: Family, origin: &str) -> Result<Decoded, RegisterError> {
    let machine = ControllerDump { space, family, origin: Origin(origin) };
    machine.check_identity()?;
    let ranges = machine.ranges()?;
    let nodes: Vec<Controller> =
        machine.used_nodes(&ranges).into_iter().map(|node| machine.controller(node)).collect::<Result<_, _>>()?;
    machine.same_on_all(&nodes)?;
    machine.put_together(&ranges, &nodes)
}

/// First device of the processors on bus 0; node `n` is device `0x18 + n`.
const FIRST_DEVICE: u8 = 0x18;
const FOUR_GIB: u64 = 1 << 32;

#[derive(Clone, Copy)]
struct ControllerDump<'a> {
    space: &'a ConfigSpace,
    family: Family,
    origin: Origin<'a>,
}

/// A range of physical addresses that belongs to a node, or is interleaved over several (F1x40 and following).
#[derive(Clone, Debug, PartialEq)]
struct Range {
    index: u16,
    base: u64,
    /// End (excluded).
    end: u64,
    node: u32,
    /// IntlvEn: the bits of `address[14:12]` that select the node.
    interleave: u32,
    /// IntlvSel: the value of these bits in this range.
    select: u32,
}

/// The memory hole below 4 GiB and the offset of its relocated memory (F1xF0).
#[derive(Clone, Copy, Debug, PartialEq)]
struct Hole {
    base: u64,
    /// Subtracted from addresses of 4 GiB and more, in place of the range's base.
    offset: u64,
}

/// Configuration of one node, without the ranges.
#[derive(Clone, Debug, PartialEq)]
struct Controller {
    node: u32,
    hole: Option<Hole>,
    channels: Channels,
    chips: Chips,
    swizzle: bool,
    bank_swap: bool,
    ddr3: bool,
    /// The dump does not show the other channel's registers.
    other_assumed: bool,
}

/// How a node's addresses select one of its two channels (F2x110, F2x114).
#[derive(Clone, Copy, Debug, PartialEq)]
enum Channels {
    /// Both form one channel of 128 bits.
    Ganged,
    /// Only one is used.
    One,
    /// By address bits: DctSelIntLvAddr.
    Interleaved { mode: u32 },
    /// One below an address, the other from there on.
    Split { at: u64, high_first: bool, high_offset: u64 },
}

/// The chip selects of a channel (F2x40 and following), all of one size.
#[derive(Clone, Debug, PartialEq)]
struct Chips {
    /// Address bits that are compared.
    compared: u64,
    /// The value compared against, one for each chip select.
    bases: Vec<u64>,
    /// F2x80 for all of them.
    mapping: u32,
}

/// Column and bank address bits of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Geometry {
    columns: u32,
    banks: u32,
}

/// DDR3 by the value of F2x80 (AGESA `mtspd3.c`, MCT `mct_ddr3`): column bits; bank bits are always 3.
const DDR3_COLUMNS: [Option<u32>; 13] = [
    None,
    Some(10),
    Some(10),
    None,
    None,
    Some(10),
    Some(11),
    Some(10),
    Some(11),
    Some(11),
    Some(10),
    Some(11),
    Some(12),
];

/// DDR2 by the value of F2x80 (MCT `mct`, family 10h): column bits and bank bits.
const DDR2_GEOMETRY: [(u32, u32); 12] =
    [(9, 2), (10, 2), (10, 2), (11, 2), (10, 3), (10, 3), (11, 2), (10, 3), (11, 3), (11, 3), (10, 3), (11, 3)];

impl<'a> ControllerDump<'a> {
    fn at(self, node: u32, function: u8) -> PciAddress {
        PciAddress { domain: 0, bus: 0, device: FIRST_DEVICE + node as u8, function }
    }

    /// Reads a register; messages name it as in `node 1 F2x110`.
    fn read(self, node: u32, function: u8, offset: u16) -> Result<u32, RegisterError> {
        self.space.register(self.at(node, function), offset).ok_or_else(|| {
            let reason = if offset >= 0x100 {
                "it lies in extended configuration space, which lspci shows with -xxxx and to root"
            } else {
                "the mapping depends on it, and without root only the first 64 bytes of a function are shown"
            };
            self.origin.missing(named(node, function, offset), reason)
        })
    }

    fn check_identity(self) -> Result<(), RegisterError> {
        for node in 0..8 {
            for function in [1, 2] {
                let Some(id) = self.space.register(self.at(node, function), 0) else { continue };
                if !self.family.ids().iter().any(|ids| ids[usize::from(function) - 1] == id) {
                    let known: Vec<String> = self
                        .family
                        .ids()
                        .iter()
                        .map(|ids| format!("{:#010x}", ids[usize::from(function) - 1]))
                        .collect();
                    let accepted = format!("{} for {}", known.join(" or "), self.family.name());
                    return self.origin.refuse(named(node, function, 0), format!("{id:#010x}"), accepted);
                }
            }
        }
        Ok(())
    }

    /// F1x40 to F1x7C and F1x140 to F1x17C (EDAC `read_dram_base_limit_regs`).
    fn ranges(self) -> Result<Vec<Range>, RegisterError> {
        let mut ranges = Vec::new();
        for index in 0..8 {
            let base = self.read(0, 1, 0x40 + 8 * index)?;
            if field(base, 1, 0) == 0 {
                continue;
            }
            let limit = self.read(0, 1, 0x44 + 8 * index)?;
            let (base_high, limit_high) = (self.read(0, 1, 0x140 + 8 * index)?, self.read(0, 1, 0x144 + 8 * index)?);
            let address =
                |low: u32, high: u32| u64::from(field(high, 7, 0)) << 40 | u64::from(field(low, 31, 16)) << 24;
            let range = Range {
                index,
                base: address(base, base_high),
                end: address(limit, limit_high) + (1 << 24),
                node: field(limit, 2, 0),
                interleave: field(base, 10, 8),
                select: field(limit, 10, 8),
            };
            if range.end <= range.base {
                let found = format!("a limit of {:#x} with a base of {:#x}", range.end - 1, range.base);
                return self.origin.refuse(
                    format!("node 0 F1x{:X}", 0x44 + 8 * index),
                    found,
                    "a limit above the base",
                );
            }
            if ![0, 1, 3, 7].contains(&range.interleave) {
                let register = format!("node 0 F1x{:X}[10:8] (IntlvEn)", 0x40 + 8 * index);
                return self.origin.refuse(register, range.interleave, "0, 1, 3 or 7");
            }
            ranges.push(range);
        }
        if ranges.is_empty() {
            return self.origin.refuse("node 0 F1x40 to F1x78", "without an enabled range", "at least one");
        }
        self.same_ranges_everywhere()?;
        Ok(ranges)
    }

    /// Checks that every node has a copy of the same routing registers.
    fn same_ranges_everywhere(self) -> Result<(), RegisterError> {
        for node in 1..8 {
            for offset in (0x40..0x80).step_by(4) {
                let (mine, first) =
                    (self.space.register(self.at(node, 1), offset), self.space.register(self.at(0, 1), offset));
                if mine.is_some() && mine != first {
                    let found = format!("{:#010x}", mine.unwrap_or_default());
                    let accepted = format!("{:#010x}, as on node 0: all nodes route alike", first.unwrap_or_default());
                    return self.origin.refuse(named(node, 1, offset), found, accepted);
                }
            }
        }
        Ok(())
    }

    fn used_nodes(self, ranges: &[Range]) -> Vec<u32> {
        let nodes: std::collections::BTreeSet<u32> = ranges.iter().map(|range| range.node).collect();
        nodes.into_iter().collect()
    }

    fn controller(self, node: u32) -> Result<Controller, RegisterError> {
        let hole = self.read(node, 1, 0xf0)?;
        // F1xF0: DramHoleBase[31:24], DramHoleOffset[31:23] in bits 15:7, DramHoleValid.
        let hole = bit(hole, 0)
            .then(|| Hole { base: u64::from(field(hole, 31, 24)) << 24, offset: u64::from(field(hole, 15, 7)) << 23 });
        self.no_swapped_region(node)?;
        self.no_spare(node)?;
        let first = self.chips(node, 0)?;
        let second = match self.family {
            Family::F10h => self.chips(node, 0x100)?,
            // Only one of the two is visible, selected by F1x10C.
            Family::F15h => None,
        };
        let select = self.read(node, 2, 0x110)?;
        let ganged = self.family == Family::F10h && bit(select, 4);
        let channels = self.channels(node, select, ganged, first.is_some() && second.is_some())?;
        let chips = match (first, &second) {
            (Some(first), Some(second)) if !ganged && first != *second => {
                let found = "other chip selects or modules on channel 1 than on channel 0";
                let accepted = "the same on both: a platform file has one list of functions for all channels";
                return self.origin.refuse(format!("node {node} F2x140 to F2x180"), found, accepted);
            }
            (Some(chips), _) => chips,
            (None, Some(chips)) => chips.clone(),
            (None, None) => {
                return self.origin.refuse(
                    format!("node {node} F2x40 to F2x5C"),
                    "without an enabled chip select",
                    "at least one on a node that has a range of addresses",
                );
            }
        };
        let config = self.read(node, 2, 0x94)?;
        if second.is_some() && !ganged {
            // BankSwizzleMode and Ddr3Mode; the rest is timing.
            let (other, known) = (self.read(node, 2, 0x194)?, 1 << 22 | 1 << 8);
            if other & known != config & known {
                let accepted = format!("bits 22 and 8 as in F2x94, {config:#010x}");
                return self.origin.refuse(named(node, 2, 0x194), format!("{other:#010x}"), accepted);
            }
        }
        Ok(Controller {
            node,
            hole,
            channels,
            chips,
            swizzle: bit(config, 22),
            bank_swap: self.family == Family::F15h && bit(self.read(node, 2, 0xa8)?, 20),
            // F2x94[8]: Ddr3Mode; family 15h only supports DDR3.
            ddr3: self.family == Family::F15h || bit(config, 8),
            other_assumed: self.family == Family::F15h && channels != Channels::One,
        })
    }

    /// F2x10C: a region of high addresses that changes places with the lowest ones, for graphics.
    fn no_swapped_region(self, node: u32) -> Result<(), RegisterError> {
        match self.space.register(self.at(node, 2), 0x10c) {
            Some(value) if bit(value, 0) => self.origin.refuse(
                format!("node {node} F2x10C[0] (IntLvRgnSwapEn)"),
                1,
                "0: a swapped region is not decoded",
            ),
            _ => Ok(()),
        }
    }

    /// F3xB0: a chip select that has taken another's place. A dump without function 3 is taken to have none.
    fn no_spare(self, node: u32) -> Result<(), RegisterError> {
        match self.space.register(self.at(node, 3), 0xb0) {
            Some(value) if bit(value, 1) || bit(value, 3) => self.origin.refuse(
                format!("node {node} F3xB0 (SwapDone)"),
                format!("{value:#010x}"),
                "bits 1 and 3 zero: a spare rank in use is not decoded",
            ),
            _ => Ok(()),
        }
    }

    /// F2x110 and F2x114 (EDAC `f1x_determine_channel`; bit 2 of the mode and modes 4 and 5, AGESA).
    fn channels(self, node: u32, select: u32, ganged: bool, both: bool) -> Result<Channels, RegisterError> {
        let (high_range, interleaved) = (bit(select, 0), bit(select, 2));
        if ganged {
            return Ok(Channels::Ganged);
        }
        let needs_both = self.family == Family::F10h && !both && (high_range || interleaved);
        if needs_both {
            let found = format!("{select:#010x}, which uses both channels, while only one has an enabled chip select");
            return self.origin.refuse(format!("node {node} F2x110"), found, "bits 0 and 2 zero");
        }
        match (high_range, interleaved) {
            (true, true) => self.origin.refuse(
                format!("node {node} F2x110[2,0] (DctSelIntLvEn, DctSelHiRngEn)"),
                "1,1",
                "not both: banks of the interleaved and of the high range lie at different address bits",
            ),
            (false, true) => {
                let high = match self.family {
                    Family::F10h => 0,
                    Family::F15h => field(self.read(node, 2, 0x114)?, 9, 9),
                };
                let mode = field(select, 7, 6) | high << 2;
                if mode > 5 {
                    let register = format!("node {node} F2x110[7:6], F2x114[9] (DctSelIntLvAddr)");
                    return self.origin.refuse(register, mode, "0 to 5");
                }
                Ok(Channels::Interleaved { mode })
            }
            (true, false) => {
                let offset = self.read(node, 2, 0x114)?;
                Ok(Channels::Split {
                    at: u64::from(field(select, 31, 11)) << 27,
                    high_first: !bit(select, 1),
                    high_offset: u64::from(field(offset, 31, 10)) << 26,
                })
            }
            (false, false) => Ok(Channels::One),
        }
    }

    /// F2x40 to F2x6C and F2x80, or the same 0x100 higher (EDAC `get_cs_base_and_mask`).
    fn chips(self, node: u32, channel: u16) -> Result<Option<Chips>, RegisterError> {
        // Base and mask have address bits 36:27 (38:27 in family 15h) and 21:13, eight places lower.
        let field_bits: u64 = match self.family {
            Family::F10h => 0x1ff8_3fe0,
            Family::F15h => 0x7ff8_3fe0,
        };
        let mapping = self.read(node, 2, channel + 0x80)?;
        let mut chips: Option<Chips> = None;
        for index in 0..8u16 {
            let base = self.read(node, 2, channel + 0x40 + 4 * index)?;
            if !bit(base, 0) {
                continue;
            }
            let mask = self.read(node, 2, channel + 0x60 + 4 * (index / 2))?;
            let compared = (field_bits & !u64::from(mask)) << 8;
            let base = (u64::from(base) & field_bits) << 8 & compared;
            let mapping = mapping >> (4 * (index / 2)) & 0xf;
            let chips = chips.get_or_insert(Chips { compared, bases: Vec::new(), mapping });
            if (compared, mapping) != (chips.compared, chips.mapping) {
                let found = "chip selects that differ in size or in F2x80";
                let accepted = "chip selects of one size: a platform file has one list of functions for all";
                return self.origin.refuse(format!("node {node} F2x{:X}", channel + 0x40 + 4 * index), found, accepted);
            }
            if chips.bases.contains(&base) {
                let register = format!("node {node} F2x{:X}", channel + 0x40 + 4 * index);
                return self.origin.refuse(register, "the base of another chip select", "a unique base");
            }
            chips.bases.push(base);
        }
        Ok(chips)
    }

    /// A platform file has one list of functions, so all nodes must select channel, rank and bank alike.
    fn same_on_all(self, nodes: &[Controller]) -> Result<(), RegisterError> {
        let what = |one: &Controller, other: &Controller| {
            let differ = |first: bool, name| (!first).then_some(name);
            let channels = match (one.channels, other.channels) {
                // The address from which the other channel is used may differ.
                (Channels::Split { .. }, Channels::Split { .. }) => true,
                (one, other) => one == other,
            };
            differ(channels, "channel selection (F2x110)")
                .or(differ(one.chips == other.chips, "chip selects (F2x40 to F2x80)"))
                .or(differ((one.swizzle, one.ddr3) == (other.swizzle, other.ddr3), "F2x94 (BankSwizzleMode, Ddr3Mode)"))
                .or(differ(one.bank_swap == other.bank_swap, "F2xA8 (BankSwap)"))
        };
        for other in &nodes[1..] {
            if let Some(name) = what(&nodes[0], other) {
                let accepted = format!("as on node {}: a platform file has one list of functions", nodes[0].node);
                return self.origin.refuse(format!("node {} {name}", other.node), "different", accepted);
            }
        }
        Ok(())
    }

    fn geometry(self, controller: &Controller) -> Result<Geometry, RegisterError> {
        let mapping = controller.chips.mapping;
        let known = if controller.ddr3 {
            DDR3_COLUMNS.get(mapping as usize).copied().flatten().map(|columns| Geometry { columns, banks: 3 })
        } else {
            DDR2_GEOMETRY.get(mapping as usize).map(|&(columns, banks)| Geometry { columns, banks })
        };
        match known {
            Some(geometry) => Ok(geometry),
            None => {
                let register = format!("node {} F2x80 (DRAM bank address mapping)", controller.node);
                self.origin.refuse(register, mapping, "a value for which sizes of rows and banks are published")
            }
        }
    }

    fn put_together(self, ranges: &[Range], nodes: &[Controller]) -> Result<Decoded, RegisterError> {
        let first = &nodes[0];
        let interleave = self.node_interleave(ranges)?;
        if interleave > 0 && nodes.iter().any(|node| node.hole != first.hole) {
            let accepted = "the same on all nodes that take turns";
            return self.origin.refuse("F1xF0 (DRAM hole)", "different on nodes that take turns", accepted);
        }
        let label = matches!(first.channels, Channels::Split { .. });
        let mut pieces = Vec::new();
        for range in ranges {
            // One of several interleaved ranges stands for all.
            if range.select == 0 {
                let controller = nodes.iter().find(|node| node.node == range.node).expect("every used node was read");
                pieces.extend(self.pieces(range, controller, interleave)?);
            }
        }
        let width = bits_for(pieces.iter().map(|piece| piece.last()).max().unwrap_or(0)).max(13);
        let (mut functions, wires) = choosing(first, interleave, width);
        self.check_chips(first, &wires, &pieces)?;
        let ranks = varying(&first.chips);
        let reached = gf2::bits(ranks).filter(|&position| position < wires.width());
        functions.extend(reached.map(|position| Function {
            role: Role::Rank,
            mask: wires.source(1 << position),
            registers: format!(
                "F2x40[{}] BaseAddr, F2x60 AddrMask: bit {position} of the normalized address",
                position - 8
            ),
            assumed: first.other_assumed,
        }));
        let geometry = self.geometry(first)?;
        let ganged = u32::from(first.channels == Channels::Ganged);
        let bank_low = geometry.columns + 3 + ganged;
        functions
            .extend((0..geometry.banks).map(|index| self.bank_function(first, geometry, bank_low + index, &wires)));
        let columns = wires.source((1 << bank_low) - 1);
        let banks = wires.source(((1 << geometry.banks) - 1) << bank_low);
        let choosing = functions.iter().filter(|function| matches!(function.role, Role::Node | Role::Channel));
        // Each of these is recovered from its own lowest bit once the rest is known.
        let taken = choosing.fold(0, |taken, function| taken | function.mask & function.mask.wrapping_neg());
        let rows = ((1 << width) - 1) & !(taken | columns | banks | wires.source(ranks));
        let channels =
            if matches!(first.channels, Channels::Interleaved { .. } | Channels::Split { .. }) { 2 } else { 1 };
        Parts {
            id: match self.family {
                Family::F10h => "decoded-f10h",
                Family::F15h => "decoded-f15h",
            },
            name: format!("A machine with {}, read from its registers", self.family.name()),
            uarch: match self.family {
                Family::F10h => "K10",
                Family::F15h => "Bulldozer",
            },
            standard: if first.ddr3 { "DDR3" } else { "DDR2" },
            channels: Some(channels * nodes.len() as u32),
            ranks: Some(first.chips.bases.len() as u32),
            banks: Some(1 << geometry.banks),
            bank_groups: None,
            functions,
            rows,
            columns,
            address_bits: width + u32::from(label),
            pieces: pieces.into_iter().map(|piece| piece.labelled(width)).collect(),
            source: source(self.family, first),
            notes: notes(first, self.borrows_swizzle(first)),
        }
        .finish(self.origin)
    }

    /// Counts the node interleave bits; all ranges must agree, and node numbers must follow the bits.
    fn node_interleave(self, ranges: &[Range]) -> Result<u32, RegisterError> {
        let enable = ranges[0].interleave;
        for range in ranges {
            let register = format!("node 0 F1x{:X}[10:8] (IntlvEn)", 0x40 + 8 * range.index);
            if range.interleave != enable {
                let accepted = format!("{enable}, as in the first range: the node functions hold for all memory");
                return self.origin.refuse(register, range.interleave, accepted);
            }
            let turns: Vec<&Range> =
                ranges.iter().filter(|other| (other.base, other.end) == (range.base, range.end)).collect();
            let first = turns.iter().find(|turn| turn.select == 0).map_or(u32::MAX, |turn| turn.node);
            let whole = turns.len() as u32 == enable + 1
                && first % (enable + 1) == 0
                && turns.iter().all(|turn| turn.select <= enable && turn.node == first + turn.select)
                && (0..=enable).all(|select| turns.iter().any(|turn| turn.select == select));
            if !whole {
                let found = format!(
                    "{enable} with IntlvSel and node {}",
                    turns.iter().map(|turn| format!("{}:{}", turn.select, turn.node)).collect::<Vec<_>>().join(", ")
                );
                let accepted = "one range for each value of IntlvSel, whose nodes follow each other in that order";
                return self.origin.refuse(register, found, accepted);
            }
        }
        Ok(enable.count_ones())
    }

    /// Cuts a range at the hole and where the channel changes (EDAC `f1x_get_norm_dct_addr`).
    fn pieces(self, range: &Range, controller: &Controller, interleave: u32) -> Result<Vec<Cut>, RegisterError> {
        let registers =
            format!("F1x{:X}, F1x{:X} (DRAM base and limit)", 0x40 + 8 * range.index, 0x44 + 8 * range.index);
        let mut cuts = vec![(range.base, range.end)];
        if let Some(hole) = controller.hole.filter(|hole| hole.base < range.end && range.base < FOUR_GIB) {
            cuts = vec![(range.base, hole.base.max(range.base)), (FOUR_GIB, range.end.max(FOUR_GIB))];
        }
        let mut pieces = Vec::new();
        for (base, end) in cuts.into_iter().filter(|(base, end)| base < end) {
            let halves = match controller.channels {
                Channels::Split { at, .. } => vec![(base, end.min(at), false), (base.max(at), end, true)],
                _ => vec![(base, end, false)],
            };
            for (base, end, high) in halves.into_iter().filter(|(base, end, _)| base < end) {
                let hoisted = controller.hole.filter(|_| base >= FOUR_GIB);
                let (offset, label) = match (controller.channels, hoisted) {
                    (Channels::Split { at, high_first, high_offset }, hole) if high => {
                        let hole = hole.filter(|_| at < FOUR_GIB);
                        (hole.map_or(high_offset, |hole| hole.offset), !high_first)
                    }
                    (channels, hole) => {
                        let low = matches!(channels, Channels::Split { high_first: true, .. });
                        (hole.map_or(range.base, |hole| hole.offset), low)
                    }
                };
                let Some(dram_base) = base.checked_sub(offset) else {
                    let found = format!("an offset of {offset:#x} for memory at {base:#x}");
                    let register = format!("node {} F1xF0 (DRAM hole), F2x114", controller.node);
                    return self.origin.refuse(register, found, "an offset that is not above the address");
                };
                let mut registers = registers.clone();
                if controller.hole.is_some() {
                    registers.push_str(", F1xF0 (DRAM hole)");
                }
                let node = range.node >> interleave << interleave;
                pieces.push(Cut { piece: Piece { base, end, node, dram_base, registers }, label });
            }
        }
        Ok(pieces)
    }

    /// Every address must find exactly one chip select.
    fn check_chips(self, controller: &Controller, wires: &Wires, pieces: &[Cut]) -> Result<(), RegisterError> {
        let chips = &controller.chips;
        let last = pieces.iter().map(|cut| wires.derive(cut.last())).max().unwrap_or(0);
        let ranks = varying(chips);
        let fixed = chips.compared & !ranks;
        let above = fixed != 0 && last >> fixed.trailing_zeros() != 0;
        let values = gf2::Basis::spanning(gf2::bits(ranks).map(|bit| 1 << bit));
        let unmatched = values.span().filter(|value| !chips.bases.iter().any(|base| base & ranks == *value));
        let reached = unmatched.filter(|&value| value <= last).min();
        if above || chips.bases[0] & fixed != 0 || reached.is_some() {
            let found = format!("chip selects that leave addresses up to {last:#x} without one");
            let accepted = "chip selects that cover the node's memory";
            return self.origin.refuse(format!("node {} F2x40 to F2x6C", controller.node), found, accepted);
        }
        Ok(())
    }

    /// The bits of the swizzle are only known from the firmware of family 15h.
    fn borrows_swizzle(self, controller: &Controller) -> bool {
        controller.swizzle && self.family == Family::F10h
    }

    fn bank_function(self, controller: &Controller, geometry: Geometry, position: u32, wires: &Wires) -> Function {
        let mut mask = 1 << position;
        let mut registers =
            format!("F2x80 = {:#x}: bit {position} of the normalized address", controller.chips.mapping);
        if controller.swizzle {
            // AGESA `AddrToBankSwizzle`, of family 15h: X, X+3 and X+6 with eight banks; with four, X, X+2 and X+4.
            mask |= 1 << (position + geometry.banks) | 1 << (position + 2 * geometry.banks);
            let (second, third) = (position + geometry.banks, position + 2 * geometry.banks);
            registers.push_str(&format!(", F2x94[22] BankSwizzleMode: with bits {second} and {third}"));
        }
        let assumed = controller.other_assumed || self.borrows_swizzle(controller);
        Function { role: Role::Bank, mask: wires.source(mask), registers, assumed }
    }
}

/// A piece of a range, and its channel if the range is split.
struct Cut {
    piece: Piece,
    label: bool,
}

impl Cut {
    /// Last DRAM address.
    fn last(&self) -> u64 {
        self.piece.dram_base + (self.piece.end - self.piece.base) - 1
    }

    fn labelled(mut self, width: u32) -> Piece {
        self.piece.dram_base |= u64::from(self.label) << width;
        self.piece
    }
}

/// The functions of node and channel, and the resulting normalized address.
fn choosing(controller: &Controller, interleave: u32, width: u32) -> (Vec<Function>, Wires) {
    let mut wires = Wires::straight(width);
    let mut functions: Vec<Function> = (0..interleave)
        .map(|index| Function {
            role: Role::Node,
            mask: 1 << (12 + index),
            registers: format!("F1x40[10:8] IntlvEn = {}", (1 << interleave) - 1),
            assumed: false,
        })
        .collect();
    for _ in 0..interleave {
        wires.remove(12);
    }
    match controller.channels {
        Channels::Ganged | Channels::One => {}
        Channels::Interleaved { mode } => {
            functions.push(channel_function(mode, interleave));
            // After removal of the node's bits, the bit of mode 1 is at 12 again.
            wires.remove([6, 12, 6, 9, 8, 9][mode as usize]);
        }
        Channels::Split { .. } => functions.push(Function {
            role: Role::Channel,
            mask: 1 << width,
            registers: "F2x110[31:11] DctSelBaseAddr and [1:0]: by range, carried in the regions' DRAM addresses"
                .to_owned(),
            assumed: false,
        }),
    }
    if controller.bank_swap {
        for low in 9..12 {
            wires.swap(low, low + 4);
        }
    }
    (functions, wires)
}

/// Address bits in which chip selects differ.
fn varying(chips: &Chips) -> u64 {
    chips.bases.iter().fold(0, |bits, base| bits | base ^ chips.bases[0])
}

/// EDAC `f1x_determine_channel`. The hash is of physical address bits 20:16, which are
/// those of the DRAM address too: every offset is a multiple of 8 MiB.
fn channel_function(mode: u32, interleave: u32) -> Function {
    let hash = 0x1f << 16;
    let mask = match mode {
        0 => 1 << 6,
        1 => 1 << (12 + interleave),
        2 => 1 << 6 | hash,
        3 => 1 << 9 | hash,
        4 => 1 << 8,
        _ => 1 << 9,
    };
    let registers = format!("F2x110[2] DctSelIntLvEn = 1, [7:6] DctSelIntLvAddr = {mode}");
    Function { role: Role::Channel, mask, registers, assumed: false }
}

fn named(node: u32, function: u8, offset: u16) -> String {
    format!("node {node} F{function}x{offset:02X}")
}

fn source(family: Family, controller: &Controller) -> String {
    let guide = match family {
        Family::F10h => "31116",
        Family::F15h => "42301",
    };
    let mut source = format!(
        "registers of AMD BKDG {guide}; rules of node, channel and rank: Linux drivers/edac/amd64_edac.c; of columns and \
         banks: coreboot amdmct, AGESA mtspd3.c"
    );
    if controller.swizzle || controller.bank_swap {
        source.push_str("; of bank swizzle and swap: AGESA DramMapKv.c");
    }
    source
}

fn notes(controller: &Controller, borrowed: bool) -> Vec<String> {
    let mut notes =
        vec!["Row bits are given as a set; in which order the controller sends them is not decoded.".to_owned()];
    if borrowed {
        notes.push(
            "Banks are swizzled (F2x94[22]); with which bits was read in the firmware of family 15h, and is assumed here."
                .to_owned(),
        );
    }
    if controller.other_assumed {
        notes.push(
            "Family 15h shows one of its two memory controllers at a time (F1x10C): rank and bank functions of the \
             other are assumed to be the same."
                .to_owned(),
        );
    }
    notes
}
