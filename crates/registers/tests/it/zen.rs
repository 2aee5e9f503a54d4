//! Do the registers of Zen give the mapping that is published? Witnesses: the catalogue, which other people measured;
//! test vectors of illumos `zen_umc`; and the step-by-step arithmetic of Linux `drivers/ras/amd/atl` on whole
//! addresses.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use memtint_map::{Platform, Role, catalogue, gf2};
use memtint_registers::{Decoded, RegisterError, ZenDump, decode_zen};
use memtint_units::PhysAddr;

const GIB: u64 = 1 << 30;
const FOUR_GIB: u64 = 4 * GIB;

fn decode(text: &str) -> Result<Decoded, RegisterError> {
    decode_zen(&ZenDump::parse(text, "test")?, "test")
}

fn platform(text: &str) -> Platform {
    let decoded = decode(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(decoded.registers.len(), decoded.file.dram.functions.len());
    Platform::from_file(decoded.file, "test").unwrap()
}

fn functions(platform: &Platform, role: Role) -> Vec<u64> {
    platform.functions().iter().filter(|function| function.role == role).map(|function| function.mask).collect()
}

fn span(masks: impl IntoIterator<Item = u64>) -> gf2::Basis {
    gf2::Basis::spanning(masks)
}

/// A rule of the data fabric, as people think of it.
#[derive(Clone, Copy)]
struct Rule {
    fabric: &'static str,
    /// IntLvNumChan.
    mode: u32,
    /// IntLvAddrSel.
    select: u32,
    sockets: u32,
    /// 64K, 2M, 1G, 1T.
    hash: [bool; 4],
    end: u64,
    hole: Option<u64>,
}

impl Rule {
    fn new(fabric: &'static str, mode: u32, end: u64) -> Rule {
        Rule { fabric, mode, select: 0, sockets: 0, hash: [true, true, true, fabric == "df4.5"], end, hole: None }
    }

    fn text(&self) -> String {
        let Rule { fabric, mode, select, sockets, hash, end, hole } = *self;
        let limit = ((end >> 28) - 1) as u32;
        let hole_bit = u32::from(hole.is_some()) << 1;
        let hole_register = hole.map_or(0, |hole| hole as u32 | 1);
        let on = |bits: [u32; 4]| bits.iter().zip(hash).fold(0, |all, (bit, on)| all | u32::from(on) << bit);
        let first = match fabric {
            "df2" => 1 | hole_bit | mode << 4 | select << 8,
            _ => 1 | hole_bit | mode << 2 | select << 9 | sockets << 8,
        };
        let old = format!(
            "F0x110 = {first:#x}\nF0x114 = {:#x}\nF0x3F8 = {:#x}\nF0x104 = {hole_register:#x}\n",
            limit << 12,
            on([20, 21, 22, 31])
        );
        let new = |place: u32| {
            format!(
                "F7x{place:X} = 0x0\nF7x{:X} = {limit:#x}\nF7x{:X} = {:#x}\nF7x{:X} = {:#x}\nF7x104 = {hole_register:#x}\n",
                place + 4,
                place + 8,
                1 | hole_bit | on([8, 9, 10, 15]),
                place + 12,
                select | mode << 4 | sockets << 18,
            )
        };
        let body = match fabric {
            "df4" => new(0xe00),
            "df4.5" => new(0x200),
            _ => old,
        };
        format!("fabric {fabric}\n{body}")
    }
}

/// A memory controller, as people think of it.
#[derive(Clone)]
struct Umc {
    ddr5: bool,
    bases: Vec<u64>,
    mask: u64,
    banks: Vec<u32>,
    groups: u32,
    row_low: u32,
    rows: u32,
    columns: Vec<u32>,
    sub_channel: u32,
    bank_hash: Vec<(u32, u32)>,
    rank_hash: [u64; 2],
    sub_channel_hash: u32,
}

impl Umc {
    /// The module of illumos' hole, chip select and bank hash tests: DDR4, four groups of four banks.
    fn illumos(rows: u32, row_low: u32, banks: [u32; 4], bases: &[u64], mask: u64) -> Umc {
        Umc {
            ddr5: false,
            bases: bases.to_vec(),
            mask,
            banks: banks.to_vec(),
            groups: 2,
            row_low,
            rows,
            columns: (3..13).collect(),
            sub_channel: 0,
            bank_hash: vec![(0, 0); 4],
            rank_hash: [0; 2],
            sub_channel_hash: 0,
        }
    }

    fn registers(&self) -> BTreeMap<u32, u32> {
        let mut registers = BTreeMap::new();
        let pick = |ddr4: u32, ddr5: u32| if self.ddr5 { ddr5 } else { ddr4 };
        for chip in 0..4u32 {
            let base = self.bases.get(chip as usize).map_or(0, |&base| (base >> 9 << 1) as u32 | 1);
            registers.insert(4 * chip, base);
            registers.insert(0x10 + 4 * chip, 0);
            let own = pick(chip / 2, chip);
            registers.insert(0x20 + 4 * own, (self.mask >> 9 << 1) as u32);
            let config = (self.banks.len() as u32 - 3) << 20
                | (self.columns.len() as u32 - 5) << 16
                | (self.rows - 10) << 8
                | self.groups << 2;
            registers.insert(pick(0x30, 0x40) + 4 * own, config);
            let banks = self.banks.iter().enumerate().fold(0, |all, (index, bank)| all | (bank - 5) << (4 * index));
            registers.insert(pick(0x40, 0x50) + 4 * own, banks | (self.row_low - 12) << 24);
            let columns = |list: &[u32], first: u32| {
                list.iter().enumerate().fold(0, |all, (index, column)| all | (column - first) << (4 * index))
            };
            registers.insert(pick(0x50, 0x60) + 8 * own, columns(&self.columns[..8], 2));
            registers.insert(pick(0x54, 0x64) + 8 * own, columns(&self.columns[8..], 8));
            let sub_channel = if self.ddr5 { (self.sub_channel - 5) << 16 } else { 0 };
            registers.insert(pick(0x70, 0x80) + 4 * own, sub_channel);
        }
        for (index, (row, column)) in (0..).zip(&self.bank_hash) {
            let on = u32::from((*row, *column) != (0, 0));
            registers.insert(pick(0xc8, 0x98) + 4 * index, row << 14 | column << 1 | on);
        }
        for (index, hash) in (0..).zip(self.rank_hash) {
            registers.insert(pick(0xe8, 0xc8) + 4 * index, (hash >> 9 << 1) as u32 | u32::from(hash != 0));
        }
        if self.ddr5 {
            registers.insert(0xc0, self.sub_channel_hash << 14 | u32::from(self.sub_channel_hash != 0));
            registers.insert(0xc4, 0);
        }
        registers.insert(0x100, u32::from(self.ddr5));
        registers
    }

    fn text(&self, controllers: u32) -> String {
        let mut text = format!("memory {}\n", if self.ddr5 { "ddr5" } else { "ddr4" });
        for number in 0..controllers {
            for (offset, value) in self.registers() {
                let _ = writeln!(text, "umc{number}.{offset:#x} = {value:#x}");
            }
        }
        text
    }
}

/// The channel of an address and the address in it (ATL `dehash.c` and `denormalize.c`, backwards).
fn channel(rule: &Rule, addr: u64) -> Option<(u64, u64)> {
    let mut inside = addr;
    if let Some(hole) = rule.hole {
        if (hole..FOUR_GIB).contains(&addr) {
            return None;
        }
        if addr >= FOUR_GIB {
            inside -= FOUR_GIB - hole;
        }
    }
    if addr >= rule.end {
        return None;
    }
    let hashed = if matches!(rule.fabric, "df3.5" | "df4") { inside } else { addr };
    let bit = |place: u32| hashed >> place & 1;
    let [at_64k, at_2m, at_1g, at_1t] = rule.hash.map(u64::from);
    let group = |n: u32| bit(16 + n) & at_64k ^ bit(21 + n) & at_2m ^ bit(30 + n) & at_1g ^ bit(40 + n) & at_1t;
    let start = rule.select + 8;
    let chosen: Vec<(u32, u64)> = match (rule.fabric, rule.mode) {
        ("df2", 8) => vec![(start, bit(start) ^ bit(12) ^ bit(18) ^ bit(21) ^ bit(30))],
        ("df3" | "df3.5", mode @ 0xc..=0xe) => {
            let group = |n: u32| bit(16 + n) & at_64k ^ bit(21 + n) & at_2m ^ bit(30 + n) & at_1g;
            let all = [(start, bit(start) ^ bit(14) ^ group(2)), (12, bit(12) ^ group(0)), (13, bit(13) ^ group(1))];
            all[..(mode - 0xb) as usize].to_vec()
        }
        ("df4", mode @ 0x10..=0x12) => {
            let group = |n: u32| bit(16 + n) & at_64k ^ bit(21 + n) & at_2m ^ bit(30 + n) & at_1g;
            let extra = if rule.sockets == 0 { bit(14) } else { 0 };
            let all = [
                (8, bit(8) ^ extra ^ group(0)),
                (12, bit(12) ^ group(1)),
                (13, bit(13) ^ group(2)),
                (14, bit(14) ^ group(3)),
            ];
            all[..(mode - 0xf + rule.sockets) as usize].to_vec()
        }
        ("df4.5", mode @ (0x10..=0x12 | 0xc)) => {
            let all = [
                (8, bit(8) ^ group(0)),
                (9, bit(9) ^ group(1)),
                (12, bit(12) ^ group(2)),
                (13, bit(13) ^ group(3)),
                (14, bit(14) ^ group(4)),
            ];
            all[..if mode == 0xc { 4 } else { mode as usize - 0xf } + rule.sockets as usize].to_vec()
        }
        ("df4.5", mode @ 0x20..=0x23) => {
            let all =
                [(8, bit(8) ^ group(0)), (12, bit(12) ^ group(2)), (13, bit(13) ^ group(3)), (14, bit(14) ^ group(4))];
            all[..mode as usize - 0x1f + rule.sockets as usize].to_vec()
        }
        (_, mode) => {
            let bits = [0, 1, 0, 2, 0, 3, 0, 4, 5][mode as usize];
            (start..start + bits).map(|place| (place, bit(place))).collect()
        }
    };
    let number = chosen.iter().enumerate().fold(0, |number, (index, (_, value))| number | value << index);
    let mut places: Vec<u32> = chosen.iter().map(|(place, _)| *place).collect();
    places.sort_unstable();
    let local =
        places.iter().rev().fold(inside, |rest, place| rest >> (place + 1) << place | rest & ((1 << place) - 1));
    Some((number, local))
}

/// Chip select, bank (groups lowest) and sub-channel of a channel's address (illumos `zen_umc_decode.c`).
fn bank(umc: &Umc, local: u64) -> Option<(u64, u64, u64)> {
    let bit = |place: u32| local >> place & 1;
    let parity = |value: u64| u64::from(value.count_ones() & 1);
    let row = local >> umc.row_low & ((1 << umc.rows) - 1);
    let column = (0..).zip(&umc.columns).fold(0, |column, (index, place)| column | bit(*place) << index);
    let chip = umc.bases.iter().position(|base| local & !umc.mask == base & !umc.mask)? as u64;
    let chip = (0..2).fold(0, |all, index| all | (chip >> index & 1 ^ parity(local & umc.rank_hash[index])) << index);
    let bank = umc.banks.iter().zip(&umc.bank_hash).enumerate().fold(0, |bank, (index, (place, (rows, columns)))| {
        let hash = parity(row & u64::from(*rows)) ^ parity(column & u64::from(*columns));
        bank | (bit(*place) ^ hash) << index
    });
    let half = if umc.ddr5 { bit(umc.sub_channel) ^ parity(row & u64::from(umc.sub_channel_hash)) } else { 0 };
    Some((chip, bank, half))
}

/// Compares the platform with the arithmetic on random addresses: same place exactly when same raw bank.
fn agree(rule: &Rule, umc: &Umc) -> Platform {
    let platform = platform(&format!("{}{}", rule.text(), umc.text(1)));
    let (mut forward, mut backward) = (HashMap::new(), HashMap::new());
    let mut random = 0x2545_f491_4f6c_dd1du64;
    for _ in 0..12_000 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let addr = (random % rule.end) & !7;
        let place = channel(rule, addr).map(|(number, local)| (number, bank(umc, local).expect("a chip select")));
        let raw = platform.raw_bank(PhysAddr(addr));
        assert_eq!(place.is_some(), raw.is_some(), "{addr:#x}");
        let (Some(place), Some(raw)) = (place, raw) else { continue };
        assert_eq!(*forward.entry(place).or_insert(raw), raw, "{addr:#x} {place:?}");
        assert_eq!(*backward.entry(raw).or_insert(place), place, "{addr:#x} {raw}");
    }
    assert_eq!(forward.len(), platform.banks() as usize, "every bank is met");
    platform
}

/// Two ranks told by a low bit, with hashes of rank and bank as firmware sets them.
fn hashed_module(bits: u32) -> Umc {
    let rows = bits - 18;
    let hash = |first: u32| (first..rows).step_by(4).fold(0, |mask, row| mask | 1u32 << row);
    Umc {
        bank_hash: (0..4).map(|first| (hash(first), 0)).collect(),
        rank_hash: [(1 << bits) - (1 << 18), 0],
        ..Umc::illumos(rows, 18, [13, 14, 15, 16], &[0, 1 << 17], ((1u64 << bits) - 1) & !(1 << 17))
    }
}

#[test]
fn every_interleave_is_the_arithmetic() {
    // Fabric, IntLvNumChan, channels as a power of two, sockets interleaved.
    let cases = [
        ("df2", 0, 0, 0),
        ("df2", 1, 1, 0),
        ("df2", 8, 1, 0),
        ("df3", 3, 2, 0),
        ("df3", 0xc, 1, 0),
        ("df3", 0xd, 2, 0),
        ("df3", 0xe, 3, 0),
        ("df3.5", 0xe, 3, 0),
        ("df4", 5, 3, 0),
        ("df4", 0x10, 1, 0),
        ("df4", 0x11, 2, 1),
        ("df4", 0x12, 3, 0),
        ("df4", 0x12, 3, 1),
        ("df4.5", 0x11, 2, 0),
        ("df4.5", 0x12, 3, 1),
        ("df4.5", 0x20, 1, 0),
        ("df4.5", 0x23, 4, 0),
    ];
    for (fabric, mode, bits, sockets) in cases {
        let size = (8 * GIB) << (bits + sockets);
        for hole in [None, Some(2 * GIB), Some(3 * GIB + (256 << 20))] {
            let lost = hole.map_or(0, |hole| (FOUR_GIB - hole).next_multiple_of(1 << 28));
            let rule = Rule { sockets, hole, ..Rule::new(fabric, mode, size - (1 << 28) + lost) };
            let platform = agree(&rule, &hashed_module(33));
            let nodes = functions(&platform, Role::Node).len() as u32;
            let channels = functions(&platform, Role::Channel).len() as u32;
            assert_eq!((nodes, channels), (sockets, bits), "{fabric} {mode:#x}");
        }
    }
}

#[test]
fn switched_off_parts_of_the_hash_are_left_out() {
    for hash in [[false; 4], [true, false, false, false], [false, true, true, false]] {
        agree(&Rule { hash, ..Rule::new("df3", 0xe, 64 * GIB) }, &hashed_module(33));
        agree(&Rule { hash, ..Rule::new("df4.5", 0x12, 64 * GIB) }, &hashed_module(33));
    }
}

/// The catalogue's data fabric entries: functions that Linux `drivers/ras/amd/atl` uses.
#[test]
fn the_catalogues_channel_hashes_follow() {
    for (name, rule) in [
        ("amd-df2-2ch-hash", Rule::new("df2", 8, 8 * GIB)),
        ("amd-df3-8ch-hash", Rule::new("df3", 0xe, 64 * GIB)),
        ("amd-df4-8ch-hash", Rule::new("df4", 0x12, 64 * GIB)),
    ] {
        let (expected, found) = (Platform::load(name).unwrap(), platform(&rule.text()));
        assert_eq!(found.function_masks(), expected.function_masks(), "{name}");
        assert!(
            found.functions().iter().zip(expected.functions()).all(|(one, other)| one.role == other.role),
            "{name}"
        );
    }
}

/// A memory controller that does what a catalogue entry of one channel says.
fn umc_of(expected: &Platform) -> Umc {
    let dram = expected.dram();
    let rows: Vec<u32> = dram.row_bits.clone().unwrap();
    let columns: Vec<u32> = dram.column_bits.clone().unwrap();
    let ddr5 = dram.standard == "DDR5";
    let bytes = if ddr5 { 2 } else { 3 };
    let row_mask = rows.iter().fold(0u64, |mask, row| mask | 1 << row);
    let column_mask = columns.iter().fold(0u64, |mask, column| mask | 1 << column);
    // The bit that belongs to neither row nor column is where the function has its place.
    let own = |mask: u64| (mask & !row_mask & !column_mask).trailing_zeros();
    let in_row = |mask: u64| {
        (0..).zip(&rows).filter(|(_, row)| mask >> **row & 1 == 1).fold(0u32, |hash, (index, _)| hash | 1 << index)
    };
    let in_column = |mask: u64| {
        let columns = (0..).zip(&columns[bytes..]);
        columns.filter(|(_, place)| mask >> **place & 1 == 1).fold(0u32, |hash, (index, _)| hash | 1 << index)
    };
    let of = |role| functions(expected, role);
    let banks: Vec<u64> = of(Role::BankGroup).into_iter().chain(of(Role::Bank)).collect();
    let rank = of(Role::Rank).first().copied();
    let rank_bit = rank.map(own);
    let all = (1u64 << expected.address_bits()) - 1;
    Umc {
        ddr5,
        bases: std::iter::once(0).chain(rank_bit.map(|bit| 1 << bit)).collect(),
        mask: all & !rank_bit.map_or(0, |bit| 1 << bit),
        banks: banks.iter().map(|&mask| own(mask)).collect(),
        groups: of(Role::BankGroup).len() as u32,
        row_low: rows[0],
        rows: rows.len() as u32,
        columns: columns[bytes..].to_vec(),
        sub_channel: of(Role::Subchannel).first().map_or(0, |&mask| own(mask)),
        bank_hash: banks.iter().map(|&mask| (in_row(mask), in_column(mask))).collect(),
        rank_hash: [rank.zip(rank_bit).map_or(0, |(mask, bit)| mask & !(1 << bit)), 0],
        sub_channel_hash: of(Role::Subchannel).first().map_or(0, |&mask| in_row(mask)),
    }
}

/// Every Zen entry of the catalogue that others measured and whose rows and columns are known: a dump with its
/// registers gives the same span of functions and the same offsets.
#[test]
fn the_catalogues_zen_machines_follow() {
    let mut compared = Vec::new();
    for name in catalogue::names().filter(|name| name.starts_with("zen")) {
        let expected = Platform::load(name).unwrap();
        // Entries of bits below 21 only, and those without rows, name no registers.
        let rows = expected.dram().row_bits.as_ref().map_or(0, Vec::len);
        let (Some(last), true) = (expected.regions().last(), rows >= 10) else { continue };
        let hole = FOUR_GIB - (last.base.0 - last.dram_base);
        let fabric = if expected.dram().standard == "DDR5" { "df4" } else { "df3" };
        let end = last.end().0.next_multiple_of(1 << 28);
        let rule = Rule { hole: Some(hole), ..Rule::new(fabric, 0, end) };
        // Narrow entries know the functions of a part of the memory; above it they go on unhashed here.
        let mut umc = umc_of(&expected);
        umc.mask |= (1 << 36) - (1 << expected.address_bits());
        let found = platform(&format!("{}{}", rule.text(), umc.text(1)));
        let in_width = |mask: &u64| mask & ((1 << expected.address_bits()) - 1);
        assert_eq!(
            span(found.function_masks().iter().map(in_width)),
            span(expected.function_masks().iter().copied()),
            "{name}"
        );
        for role in [Role::Rank, Role::BankGroup, Role::Bank, Role::Subchannel] {
            assert_eq!(span(functions(&found, role)), span(functions(&expected, role)), "{name} {role}");
        }
        for region in expected.regions() {
            for (addr, dram) in [(region.base.0, 0), (region.end().0 - 1, region.size_bytes - 1)] {
                let found = found.locate(PhysAddr(addr)).unwrap_or_else(|| panic!("{name}: {addr:#x}"));
                assert_eq!(found.dram_addr, region.dram_base + dram, "{name}: {addr:#x}");
            }
        }
        compared.push(name);
    }
    let all = [
        "zen1plus-ddr4-1r",
        "zen2-ddr4-1r",
        "zen2-ddr4-2r",
        "zen3-ddr4-1r",
        "zen3-ddr4-2r",
        "zen3-ddr4-2r-full",
        "zen4-ddr5-1r-full",
        "zen4-ddr5-1r8bg",
        "zen4-ddr5-2r8bg",
    ];
    assert!(all.iter().all(|name| compared.contains(name)), "{compared:?}");
}

/// Interleaves over three channels (illumos `zen_umc_decode_ileave_nps_mod` and `zen_umc_np2_k_rules`), as the channel
/// of an address. The platform file's interleave is a remainder of address blocks; at no block size is it the same
/// division of memory, whatever the channels are called. That is why these modes are refused.
#[test]
fn no_interleave_over_three_channels_is_a_plain_remainder() {
    let bit = |addr: u64, place: u32| addr >> place & 1;
    let nps4 = |addr: u64| {
        let hash = [8, 14, 16, 21, 30].into_iter().fold(0, |hash, place| hash ^ bit(addr, place));
        ((addr >> 14) + hash) % 3
    };
    let nps4_1k = |addr: u64| (addr >> 12 << 2 | addr >> 8 & 3) % 3;
    let nps4_2k = |addr: u64| (addr >> 12 << 2 | bit(addr, 8) << 1) % 3;
    let published: [(&str, &dyn Fn(u64) -> u64); 3] = [("DF4", &nps4), ("DF4.5 1K", &nps4_1k), ("DF4.5 2K", &nps4_2k)];
    for (name, channel) in published {
        for shift in 6..=30 {
            let mut seen = HashMap::new();
            let differ =
                (0..1u64 << 16).map(|index| index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24 << 6).any(|addr| {
                    let remainder = (addr >> shift) % 3;
                    *seen.entry(remainder).or_insert(channel(addr)) != channel(addr)
                });
            assert!(differ, "{name} is a remainder of blocks of 2^{shift}");
        }
    }
}

/// Address, then channel, chip select, bank, bank group as illumos `zen_umc` tests have them.
type Vector = (u64, u64, u64, u64, u64);

/// illumos `zen_umc_test_hole.c`, "DRAM Hole DFv3 4ch" (0) to (7). Its rule ends at 68 GiB, 2 GiB behind what the chip
/// selects of four channels hold.
#[test]
fn illumos_hole_vectors() {
    let rule = Rule { hole: Some(2 * GIB), select: 1, ..Rule::new("df3", 3, 66 * GIB) };
    let umc = Umc::illumos(17, 17, [15, 16, 13, 14], &[0], (16 * GIB) - 1);
    check_vectors(
        &rule,
        &umc,
        4,
        &[
            (0x7fff_ffff, 3, 0, 3, 3),
            (0x7fff_fdff, 2, 0, 3, 3),
            (0x7fff_fbff, 1, 0, 3, 3),
            (0x7fff_f9ff, 0, 0, 3, 3),
            (0x1_0000_0000, 0, 0, 0, 0),
            (0x1_0000_0200, 1, 0, 0, 0),
            (0x1_0000_0400, 2, 0, 0, 0),
            (0x1_0000_0600, 3, 0, 0, 0),
        ],
    );
    assert_eq!(platform(&rule.text()).raw_bank(PhysAddr(0xb000_0000)), None);
}

/// illumos `zen_umc_test_chans.c`, "2 DPC 2R no hash, rank ilv" and "2 DPC 2R cs hash, rank ilv".
#[test]
fn illumos_rank_vectors() {
    let rule = Rule::new("df3", 0, 128 * GIB);
    let bases = [0, 0x2_0000, 0x4_0000, 0x6_0000];
    let plain = Umc::illumos(18, 19, [13, 14, 15, 16], &bases, 0x1f_fff9_ffff);
    check_vectors(
        &rule,
        &plain,
        1,
        &[
            (0, 0, 0, 0, 0),
            (0x2_0000, 0, 1, 0, 0),
            (0x4_0000, 0, 2, 0, 0),
            (0x6_0000, 0, 3, 0, 0),
            (0xe_1be1_2e00, 0, 0, 2, 1),
            (0x1f_ffff_ffff, 0, 3, 3, 3),
        ],
    );
    let hashed = Umc { rank_hash: [0xa_aaa8_0000, 0x15_5550_0000], ..plain };
    check_vectors(
        &rule,
        &hashed,
        1,
        &[
            (0, 0, 0, 0, 0),
            (0x2_0000, 0, 1, 0, 0),
            (0x8_0000, 0, 1, 0, 0),
            (0x18_0000, 0, 3, 0, 0),
            (0x10_0000, 0, 2, 0, 0),
            (0x1818_0000, 0, 0, 0, 0),
            (0x181a_0000, 0, 1, 0, 0),
            (0x181c_0000, 0, 2, 0, 0),
            (0x181e_0000, 0, 3, 0, 0),
        ],
    );
}

/// illumos `zen_umc_test_chans.c`, "2 DPC 2R bank hash, rank ilv" (0) to (18).
#[test]
fn illumos_bank_vectors() {
    let bases = [0, 0x2_0000, 0x4_0000, 0x6_0000];
    let umc = Umc {
        bank_hash: vec![(0x11111, 0), (0x22222, 0), (0x4444, 0), (0x8888, 0)],
        ..Umc::illumos(18, 19, [13, 14, 15, 16], &bases, 0x1f_fff9_ffff)
    };
    check_vectors(
        &Rule::new("df3", 0, 128 * GIB),
        &umc,
        1,
        &[
            (0, 0, 0, 0, 0),
            (0x8000, 0, 0, 1, 0),
            (0x1_0000, 0, 0, 2, 0),
            (0x2000, 0, 0, 0, 1),
            (0xa000, 0, 0, 1, 1),
            (0x1_2000, 0, 0, 2, 1),
            (0x4000, 0, 0, 0, 2),
            (0x1_c000, 0, 0, 3, 2),
            (0x1_e000, 0, 0, 3, 3),
            (0x79_c000, 0, 0, 0, 1),
            (0x7f9_c000, 0, 0, 3, 2),
            (0x7ff9_c000, 0, 0, 0, 1),
        ],
    );
}

/// Numbers that the functions of a role form for an address. Chip selects that are told by two bits are two functions.
fn check_vectors(rule: &Rule, umc: &Umc, controllers: u32, vectors: &[Vector]) {
    let platform = platform(&format!("{}{}", rule.text(), umc.text(controllers)));
    for &(addr, channel, rank, bank, group) in vectors {
        let dram = platform.locate(PhysAddr(addr)).unwrap_or_else(|| panic!("{addr:#x}")).dram_addr;
        let number = |role| gf2::evaluate(&functions(&platform, role), dram);
        let found = [Role::Channel, Role::Rank, Role::Bank, Role::BankGroup].map(number);
        assert_eq!(found, [channel, rank, bank, group], "{addr:#x}");
    }
}

#[test]
fn what_one_list_of_functions_cannot_say_is_refused_by_name() {
    let refused = |text: &str, name: &str| {
        let error = decode(text).expect_err(name).to_string();
        assert!(error.contains(name), "{name}: {error}");
    };
    for (fabric, mode, name) in [
        ("df3", 6, "6 channels"),
        ("df4", 0x13, "NPS4, 3 channels"),
        ("df4", 0x15, "NPS1, 12 channels"),
        ("df4", 0x16, "NPS2, 5 channels"),
        ("df4.5", 0x26, "NPS1, 12 channels"),
        ("df4.5", 0x27, "NPS0, 24 channels"),
        ("df4.5", 0x19, "MI300"),
        ("df2", 3, "not published"),
    ] {
        refused(&Rule::new(fabric, mode, 64 * GIB).text(), name);
    }
    let good = Rule::new("df3", 0xe, 64 * GIB);
    let umc = hashed_module(33);
    let whole = format!("{}{}", good.text(), umc.text(2));
    decode(&whole).unwrap();
    refused(&good.text().replace("F0x3F8", "F0x3F4"), "F0x3F8");
    refused(&Rule { hole: Some(2 * GIB), ..good }.text().replace("F0x104", "F0x108"), "F0x104");
    refused(&Rule { select: 3, ..good }.text(), "IntLvAddrSel");
    refused(&Rule { sockets: 1, ..good }.text(), "IntLvNumSockets");
    refused(&whole.replace("umc1.0xc8 = ", "umc1.0xc8 = 0x1 #"), "umc1");
    refused(&whole.replace("umc0.0xcc = ", "# "), "umc0.0x0cc");
    refused(&whole.replace("umc0.0x10 = 0x0", "umc0.0x10 = 0x1"), "BaseAddrSec");
    refused(&format!("{}{}", Rule::new("df3", 0xe, 128 * GIB).text(), umc.text(8)), "AddrMask");
    let odd = Umc { bases: vec![0, 1 << 17, 1 << 18], mask: umc.mask & !(1 << 18), ..umc.clone() };
    refused(&format!("{}{}", good.text(), odd.text(8)), "BaseAddr");
    refused("fabric df4\n", "without an enabled rule");
    // A hole that ends in the middle of a hashed bit cuts terabytes into too many pieces.
    let cut = Rule { hole: Some(FOUR_GIB - (16 << 20)), hash: [true; 4], ..Rule::new("df4.5", 0xc, 1 << 40) };
    refused(&cut.text(), "pieces");
}

/// Two rules for the same channels: the second begins where the first ends in each of them.
#[test]
fn a_second_rule_is_shifted_in_its_channels() {
    let two = "fabric df3\nF0x110 = 0x00000005\nF0x114 = 0x00007000\nF0x118 = 0x00010005\nF0x11C = 0x00017000\n\
               F0x3F8 = 0x0\n";
    let error = decode(two).unwrap_err().to_string();
    assert!(error.contains("DRAM offset"), "{error}");
    let station = "cs0.F0x118 = 0x00010005\ncs0.F0x11C = 0x00017000\ncs0.F0x1B4 = 0x00004001\n";
    let platform = platform(&format!("{two}{station}"));
    let pieces: Vec<_> = platform
        .regions()
        .iter()
        .map(|region| (region.base.0, region.size_bytes, region.dram_base, region.node))
        .collect();
    // 2 GiB from 4 GiB on, in two channels: behind the 1 GiB that each has of the first rule.
    assert_eq!(pieces, [(0, 2 * GIB, 0, 0), (4 * GIB, 2 * GIB, 2 * GIB, 0)]);
}
