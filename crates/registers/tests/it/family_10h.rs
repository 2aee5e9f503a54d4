//! Do the registers of families 10h and 15h give the mapping that the data sheets describe? The witness is the
//! step-by-step arithmetic of Linux `amd64_edac.c` (`f1x_match_to_this_node`) with the bank tables of coreboot, on
//! whole addresses.

use std::collections::{BTreeMap, HashMap};

use memtint_map::{Platform, Role, gf2};
use memtint_registers::{ConfigSpace, Decoded, Family, RegisterError, decode_family};
use memtint_units::PhysAddr;

/// A machine's registers: (node, function, offset).
#[derive(Clone)]
struct Registers(BTreeMap<(u8, u8, u16), u32>);

const GIB: u64 = 1 << 30;

impl Registers {
    /// Nodes of `gib` GiB each, one behind the other; two channels; chip selects of 1 GiB (F2x80 = 5: DDR3, 14 rows, 10
    /// columns), two or as many as fit.
    fn nodes(count: u8, gib: u64, channel_select: u32) -> Registers {
        let mut registers = Registers(BTreeMap::new());
        for node in 0..count {
            for function in [1, 2] {
                registers.0.insert((node, function, 0), 0x1200_1022 | u32::from(function) << 16);
            }
            for range in 0..8u8 {
                let (base, limit) = (u64::from(range) * gib * GIB, u64::from(range + 1) * gib * GIB - 1);
                let used = range < count;
                let place = 0x40 + 8 * u16::from(range);
                let high = |address: u64| (address >> 40) as u32;
                let low = |address: u64| ((address >> 24) as u32 & 0xffff) << 16;
                registers.0.insert((node, 1, place), if used { low(base) | 3 } else { 0 });
                registers.0.insert((node, 1, place + 4), if used { low(limit) | u32::from(range) } else { 0 });
                registers.0.insert((node, 1, place + 0x100), high(base));
                registers.0.insert((node, 1, place + 0x104), high(limit));
            }
            registers.0.insert((node, 1, 0xf0), 0);
            registers.0.insert((node, 2, 0x110), channel_select);
            registers.0.insert((node, 2, 0x114), 0);
            registers.0.insert((node, 2, 0x94), 0x100);
            registers.0.insert((node, 2, 0x194), 0x100);
            registers.0.insert((node, 2, 0xa8), 0);
        }
        let chips = gib as usize / 2;
        let bases: Vec<u64> = (0..chips as u64).map(|chip| chip * GIB).collect();
        registers.chip_selects(&bases, GIB - 1, 5);
        registers
    }

    /// Sets chip selects on all nodes and both channels: bases, address bits that are not compared, F2x80.
    fn chip_selects(&mut self, bases: &[u64], mask: u64, mapping: u32) {
        let fields = |address: u64| (address >> 8) as u32 & 0x1ff8_3fe0;
        let nodes: Vec<u8> = self.nodes_present();
        for node in nodes {
            for channel in [0, 0x100] {
                for chip in 0..8u16 {
                    let base = bases.get(usize::from(chip)).map_or(0, |&base| fields(base) | 1);
                    self.0.insert((node, 2, channel + 0x40 + 4 * chip), base);
                    self.0.insert((node, 2, channel + 0x60 + 4 * (chip / 2)), fields(mask));
                }
                self.0.insert((node, 2, channel + 0x80), mapping * 0x1111);
            }
        }
    }

    /// Sets F2x94 of both channels: DDR3, and whether banks are swizzled.
    fn swizzled(self, swizzle: bool) -> Registers {
        let value = 0x100 | u32::from(swizzle) << 22;
        self.set(2, 0x94, value).set(2, 0x194, value)
    }

    fn nodes_present(&self) -> Vec<u8> {
        self.0.keys().filter(|key| (key.1, key.2) == (1, 0)).map(|key| key.0).collect()
    }

    fn set(mut self, function: u8, offset: u16, value: u32) -> Registers {
        for node in self.nodes_present() {
            self.0.insert((node, function, offset), value);
        }
        self
    }

    /// As `setpci` lists it.
    fn text(&self) -> String {
        let line = |(&(node, function, offset), value): (&(u8, u8, u16), &u32)| {
            format!("00:{:02x}.{function} {offset:x}.l={value:08x}\n", 0x18 + node)
        };
        self.0.iter().map(line).collect()
    }

    fn decode(&self) -> Result<Decoded, RegisterError> {
        let space = ConfigSpace::parse(&self.text(), "test")?;
        decode_family(&space, Family::of(&space, "test")?, "test")
    }

    fn get(&self, node: u8, function: u8, offset: u16) -> u64 {
        u64::from(self.0[&(node, function, offset)])
    }

    /// Node, channel, chip select, bank of an address, the way the controller finds them.
    fn locate(&self, addr: u64) -> Option<(u8, u64, usize, u64)> {
        for range in 0..8u16 {
            let (low, limit_low) = (self.get(0, 1, 0x40 + 8 * range), self.get(0, 1, 0x44 + 8 * range));
            let base = self.get(0, 1, 0x140 + 8 * range) << 40 | (low >> 16) << 24;
            let limit = self.get(0, 1, 0x144 + 8 * range) << 40 | (limit_low >> 16) << 24 | 0xff_ffff;
            let (enable, select) = (low >> 8 & 7, limit_low >> 8 & 7);
            if low & 3 == 0 || addr < base || addr > limit || (addr >> 12 & enable) != select {
                continue;
            }
            return self.locate_in_node(addr, (limit_low & 7) as u8, base, enable);
        }
        None
    }

    fn locate_in_node(&self, addr: u64, node: u8, base: u64, enable: u64) -> Option<(u8, u64, usize, u64)> {
        let hole = self.get(node, 1, 0xf0);
        if hole & 1 == 1 && addr >= hole >> 24 << 24 && addr < 4 * GIB {
            return None;
        }
        let hoisted = hole & 1 == 1 && addr >= 4 * GIB;
        let hole_offset = (hole & 0xff80) << 16;
        let select = self.get(node, 2, 0x110);
        let ganged = select >> 4 & 1 == 1;
        let node_bits = enable.count_ones();
        let high_base = select >> 11 << 27;
        let high = !ganged && select & 1 == 1 && addr >= high_base;
        let mode = select >> 6 & 3;
        let hash = u64::from((addr >> 16 & 0x1f).count_ones() & 1);
        let channel = if ganged {
            0
        } else if high {
            select >> 1 & 1
        } else if select >> 2 & 1 == 1 {
            match mode {
                0 => addr >> 6 & 1,
                1 => addr >> (12 + node_bits) & 1,
                2 => addr >> 6 & 1 ^ hash,
                _ => addr >> 9 & 1 ^ hash,
            }
        } else if select & 1 == 1 {
            !(select >> 1) & 1
        } else {
            0
        };
        let offset = match (high, hoisted) {
            (true, true) if high_base < 4 * GIB => hole_offset,
            (true, _) => (self.get(node, 2, 0x114) >> 10) << 26,
            (false, true) => hole_offset,
            (false, false) => base,
        };
        let mut normal = addr - offset;
        if enable != 0 {
            normal = normal >> (12 + node_bits) << 12 | normal & 0xfff;
        }
        if select >> 2 & 1 == 1 && select & 1 == 0 && !ganged {
            let cut = [6, 12, 6, 9][mode as usize];
            normal = normal >> (cut + 1) << cut | normal & ((1 << cut) - 1);
        }
        let registers = 0x100 * channel as u16;
        let chip = (0..8u16).find(|chip| {
            let fields = 0x1ff8_3fe0;
            let base = self.get(node, 2, registers + 0x40 + 4 * chip);
            let mask = self.get(node, 2, registers + 0x60 + 4 * (chip / 2));
            let compared = (fields & !mask) << 8;
            base & 1 == 1 && normal & compared == (base & fields) << 8 & compared
        })?;
        // Columns of DDR3 by F2x80, from the row, bank and column counts in AGESA's mtspd3.c.
        let columns =
            [0, 10, 10, 0, 0, 10, 11, 10, 11, 11, 10, 11, 12][(self.get(node, 2, registers + 0x80) & 0xf) as usize];
        let low = columns + 3 + u64::from(ganged);
        let bank = if self.get(node, 2, 0x94) >> 22 & 1 == 1 {
            (0..3)
                .map(|bit| (normal >> (low + bit) ^ normal >> (low + bit + 3) ^ normal >> (low + bit + 6)) & 1)
                .enumerate()
                .fold(0, |bank, (bit, value)| bank | value << bit)
        } else {
            normal >> low & 7
        };
        Some((node, channel, usize::from(chip), bank))
    }

    /// Compares the platform with the arithmetic on random addresses: same bank exactly when same raw bank.
    fn agree(&self) -> Platform {
        let decoded = self.decode().unwrap_or_else(|error| panic!("{error}\n{}", self.text()));
        assert_eq!(decoded.registers.len(), decoded.file.dram.functions.len());
        let platform = Platform::from_file(decoded.file, "test").unwrap();
        assert!(platform.dram().complete, "rows, columns and functions tell every address: {:?}", platform.dram());
        let (mut forward, mut backward) = (HashMap::new(), HashMap::new());
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        let top = platform.regions().last().unwrap().end().0;
        for _ in 0..12_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let addr = (random % top) & !7;
            let (place, raw) = (self.locate(addr), platform.raw_bank(PhysAddr(addr)));
            assert_eq!(place.is_some(), raw.is_some(), "{addr:#x}: {place:?} {raw:?}");
            let (Some(place), Some(raw)) = (place, raw) else { continue };
            assert_eq!(*forward.entry(place).or_insert(raw), raw, "{addr:#x} {place:?}");
            assert_eq!(*backward.entry(raw).or_insert(place), place, "{addr:#x} {raw}");
        }
        assert_eq!(forward.len(), platform.banks() as usize, "every bank is met");
        platform
    }
}

/// F2x110 with interleaved channels of a mode.
fn interleaved(mode: u32) -> u32 {
    1 << 2 | mode << 6
}

#[test]
fn every_channel_interleave_is_the_arithmetic() {
    for mode in 0..4 {
        for swizzle in [false, true] {
            Registers::nodes(2, 4, interleaved(mode)).swizzled(swizzle).agree();
        }
    }
}

#[test]
fn ganged_channels_are_one() {
    let mut ganged = Registers::nodes(1, 4, 1 << 4);
    ganged.chip_selects(&[0, 2 * GIB], 2 * GIB - 1, 5);
    let platform = ganged.agree();
    assert_eq!(functions(&platform, Role::Channel), [0; 0]);
    assert_eq!(functions(&platform, Role::Bank), [1 << 14, 1 << 15, 1 << 16]);
}

#[test]
fn interleaved_chip_selects_are_the_arithmetic() {
    // Two and four of 1 GiB; the lowest row bits choose.
    for (chips, bits) in [(2u64, 1), (4, 2)] {
        let mut registers = Registers::nodes(1, 2 * chips, interleaved(0));
        let bases: Vec<u64> = (0..chips).map(|chip| chip << 16).collect();
        let mask = (chips * GIB - 1) & !((chips - 1) << 16);
        registers.chip_selects(&bases, mask, 5);
        let platform = registers.agree();
        let expected: Vec<u64> = (0..bits).map(|bit| 1 << (17 + bit)).collect();
        assert_eq!(functions(&platform, Role::Rank), expected);
    }
}

#[test]
fn the_hole_moves_what_is_above_it() {
    // 1 GiB of hole; the node's last GiB is at 4 GiB.
    for mode in 0..4 {
        let mut registers = Registers::nodes(1, 4, interleaved(mode)).set(1, 0xf0, 0xc000_4001);
        registers.0.insert((0, 1, 0x44), 0x013f_0000);
        let platform = registers.agree();
        let regions: Vec<_> =
            platform.regions().iter().map(|region| (region.base.0, region.size_bytes, region.dram_base)).collect();
        assert_eq!(regions, [(0, 3 * GIB, 0), (4 * GIB, GIB, 3 * GIB)]);
    }
}

#[test]
fn nodes_that_take_turns_are_functions() {
    for enable in [1u32, 3] {
        for mode in 0..4 {
            let nodes = enable as u8 + 1;
            let mut registers = Registers::nodes(nodes, 4, interleaved(mode));
            let last = u32::from(nodes) * 4 * 64 - 1;
            for node in 0..nodes {
                for range in 0..u16::from(nodes) {
                    registers.0.insert((node, 1, 0x40 + 8 * range), 3 | enable << 8);
                    registers
                        .0
                        .insert((node, 1, 0x44 + 8 * range), last << 16 | u32::from(range) << 8 | u32::from(range));
                }
            }
            let platform = registers.agree();
            assert_eq!(functions(&platform, Role::Node).len() as u32, enable.count_ones());
        }
    }
}

#[test]
fn a_high_range_is_a_channel_by_region() {
    // Below 2 GiB channel 0, from there on channel 1, and the other way round.
    for first in [0, 1] {
        let select = 1 | (1 - first) << 1 | (((2 * GIB) >> 27) as u32) << 11;
        let registers = Registers::nodes(1, 4, select).set(2, 0x114, (((2 * GIB) >> 26) as u32) << 10);
        let platform = registers.agree();
        assert_eq!(platform.regions().len(), 2);
        assert_eq!(functions(&platform, Role::Channel).len(), 1);
    }
}

#[test]
fn every_published_bank_mapping_is_the_arithmetic() {
    // F2x80 and the size of the chip select in GiB, for those of 1 GiB and more.
    for (mapping, gib) in [(5, 1), (6, 1), (7, 2), (8, 2), (9, 4), (10, 4), (11, 8), (12, 16)] {
        let mut registers = Registers::nodes(1, 4 * gib, interleaved(2)).swizzled(true);
        registers.chip_selects(&[0, gib * GIB], gib * GIB - 1, mapping);
        registers.agree();
    }
}

fn functions(platform: &Platform, role: Role) -> Vec<u64> {
    platform.functions().iter().filter(|function| function.role == role).map(|function| function.mask).collect()
}

fn span(masks: &[u64]) -> gf2::Basis {
    gf2::Basis::spanning(masks.iter().copied())
}

/// The catalogue's entries for this family, as far as they name register values.
#[test]
fn the_catalogue_follows_from_its_registers() {
    let mode_2 = Platform::load("amd-f10h-chan-mode2").unwrap();
    let decoded = Registers::nodes(1, 4, interleaved(2)).agree();
    assert_eq!(span(&functions(&decoded, Role::Channel)), span(&functions(&mode_2, Role::Channel)));
    // Two Opterons 6128: four nodes of two channels, two ranks, eight banks; 4 GiB a node, as the catalogue assumes.
    for (name, mode) in [("opteron-6128-camc", 0), ("opteron-6128-tintmalloc", 1)] {
        let catalogue = Platform::load(name).unwrap();
        let decoded = Registers::nodes(4, 4, interleaved(mode)).agree();
        assert_eq!(functions(&decoded, Role::Channel), functions(&catalogue, Role::Channel), "{name}");
        let pieces = |platform: &Platform| -> Vec<(u64, u64, u32)> {
            platform.regions().iter().map(|region| (region.base.0, region.size_bytes, region.node)).collect()
        };
        assert_eq!(pieces(&decoded), pieces(&catalogue), "{name}");
        assert_eq!(decoded.banks(), 128);
        assert_eq!(decoded.banks(), catalogue.banks());
    }
}

/// Pan's thesis, section 3.3.1, prints bit 7 for the rank and bits 15, 16 and 18 for the bank. No register value gives
/// them as bits of the physical address: bank bits are neighbours but for what is taken out below 15, and the chip
/// select base registers begin at bit 13. Bit 7 *of the base register* is bit 15 of the normalized address, so the
/// printed numbers may be those of register bits.
#[test]
fn the_printed_rank_and_bank_bits_follow_from_no_register_value() {
    let printed = [1 << 7, 1 << 15, 1 << 16, 1 << 18];
    let mut tried = 0;
    for ganged in [false, true] {
        for mode in 0..if ganged { 1 } else { 4 } {
            for swizzle in [false, true] {
                for mapping in [1, 2, 5, 6, 7, 8, 9, 10, 11, 12] {
                    for rank_bit in (13..22).chain(27..30) {
                        let select = if ganged { 1 << 4 } else { interleaved(mode) };
                        let mut registers = Registers::nodes(1, 2, select).swizzled(swizzle);
                        registers.chip_selects(&[0, 1 << rank_bit], ((4 << 30) - 1) & !(1 << rank_bit), mapping);
                        let Ok(decoded) = registers.decode() else { continue };
                        let platform = Platform::from_file(decoded.file, "test").unwrap();
                        let (rank, bank) = (functions(&platform, Role::Rank), functions(&platform, Role::Bank));
                        assert!(rank.iter().all(|mask| mask.trailing_zeros() >= 13), "{rank:?}");
                        assert_ne!(bank, printed[1..], "{mode} {mapping} {rank_bit}");
                        tried += 1;
                    }
                }
            }
        }
    }
    assert!(tried > 300, "{tried}");
    let mut registers = Registers::nodes(1, 4, 1 << 4);
    registers.chip_selects(&[0, 1 << 15], (4 * GIB - 1) & !(1 << 15), 5);
    assert_eq!(registers.0[&(0, 2, 0x44)], 1 << 7 | 1);
}

#[test]
fn what_one_list_of_functions_cannot_say_is_refused_by_name() {
    let good = || Registers::nodes(2, 4, interleaved(0));
    let refused = |registers: Registers, name: &str| {
        let error = registers.decode().expect_err(name).to_string();
        assert!(error.contains(name), "{name}: {error}");
    };
    good().decode().unwrap();
    refused(good().set(2, 0x110, interleaved(0) | 1), "DctSelHiRngEn");
    refused(good().set(2, 0x10c, 1), "F2x10C");
    refused(good().set(3, 0xb0, 2), "F3xB0");
    refused(good().set(2, 0x180, 0x7777), "F2x140");
    refused(good().set(2, 0x48, 0x0080_0001).set(2, 0x64, 0x0078_3fe0), "F2x48");
    refused(good().set(2, 0x194, 0x40_0100), "F2x194");
    refused(good().set(2, 0x80, 0x3333).set(2, 0x180, 0x3333), "F2x80");
    refused(good().set(1, 0x40, 0x203), "IntlvEn");
    let mut other = good();
    other.0.insert((1, 2, 0x110), interleaved(2));
    refused(other, "channel selection");
    let mut other = good();
    other.0.insert((1, 1, 0x44), 0);
    refused(other, "node 1 F1x44");
    let mut without = good();
    without.0.remove(&(1, 2, 0x110));
    refused(without, "node 1 F2x110");
    let mut small = good();
    small.chip_selects(&[0], GIB - 1, 5);
    refused(small, "F2x40");
    refused(good().set(2, 0, 0x1602_1022), "node 0 F2x00");
    assert!(matches!(Family::of(&ConfigSpace::default(), "empty"), Err(RegisterError::Unknown { .. })));
}

/// Family 15h: modes 4 and 5, and a swap of bank and column bits, in one of two controllers that the dump shows.
#[test]
fn family_15h_has_more_modes() {
    let of = |mode: u32, swap: u32| {
        let mut registers = Registers::nodes(1, 4, interleaved(mode & 3))
            .set(2, 0x114, (mode >> 2) << 9)
            .set(2, 0xa8, swap << 20)
            .set(1, 0, 0x1601_1022)
            .set(2, 0, 0x1602_1022);
        registers.0.retain(|key, _| key.1 != 2 || !(0x140..=0x194).contains(&key.2));
        let decoded = registers.decode().unwrap();
        let assumed = decoded.file.dram.functions.iter().filter(|function| function.assumed).count();
        let platform = Platform::from_file(decoded.file, "test").unwrap();
        assert!(platform.dram().complete);
        (functions(&platform, Role::Channel), functions(&platform, Role::Bank), assumed)
    };
    let bits = |list: [u32; 3]| list.map(|bit| 1u64 << bit).to_vec();
    // Rank and bank functions of the controller that is not shown are assumed.
    assert_eq!(of(4, 0), (vec![1 << 8], bits([14, 15, 16]), 4));
    assert_eq!(of(5, 0), (vec![1 << 9], bits([14, 15, 16]), 4));
    // Swapped: normalized bits 11:9 are bank bits; with bit 6 taken out they are 12:10.
    assert_eq!(of(0, 1), (vec![1 << 6], bits([10, 11, 12]), 4));
}
