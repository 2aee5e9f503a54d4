//! From a physical address to channel, bank, row and column.
//!
//! The bank functions are those of a platform file. Details that a file leaves open are filled in by fixed rules and
//! reported as [assumed](Decoder::assumed): the roles of functions of unknown role, and the row and column bits. Banks
//! and their conflicts never depend on these details; distances between ranks and bank groups, and row hits, may.
//!
//! Every output bit is an XOR of address bits, so a table for each byte of the address answers for all of them at once.

use crate::error::DramError;
use crate::index::{BankIndex, RowIndex};
use crate::timing::Geometry;
use memtint_map::gf2::{self, Basis};
use memtint_map::{Interleave, Platform, Role};
use memtint_units::PhysAddr;

/// Position of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Channel of the machine, subchannels counted; see [`Decoder::node_of_channel`].
    pub channel: u32,
    /// Bank of the channel, over all its ranks.
    pub bank: BankIndex,
    /// Row of the bank.
    pub row: RowIndex,
    /// Column of the row, in bursts.
    pub column: u32,
}

/// Turns addresses into places.
#[derive(Clone, Debug)]
pub struct Decoder {
    regions: Vec<DecodedRegion>,
    tables: Box<[[u64; 256]; BYTES]>,
    channel_bits: u32,
    shape: Shape,
    nodes: Vec<u32>,
    assumed: Vec<String>,
}

/// 52 bits of address.
const BYTES: usize = 7;
/// Places of the outputs in a table's entry.
const COLUMN: u32 = 0;
const ROW: u32 = 16;
const BANK: u32 = 44;
const CHANNEL: u32 = 54;

#[derive(Clone, Debug)]
struct DecodedRegion {
    base: u64,
    size: u64,
    /// Added (wrapping) to a physical address for the DRAM address.
    to_dram: u64,
    first_domain: u32,
    interleave: Option<Interleave>,
}

/// Bits of each number.
#[derive(Clone, Copy, Debug, Default)]
struct Shape {
    ranks: u32,
    groups: u32,
    banks: u32,
    rows: u32,
    columns: u32,
}

/// The functions by role, least significant bit first.
#[derive(Default)]
struct Roles {
    channel: Vec<u64>,
    rank: Vec<u64>,
    group: Vec<u64>,
    bank: Vec<u64>,
}

impl Decoder {
    /// Prepares the tables for a platform whose channels hold devices of a geometry.
    ///
    /// The geometry gives the banks and bank groups of a rank (for functions of unknown role), and the lengths of a row
    /// and a burst. The platform gives the numbers of channels, ranks and rows.
    ///
    /// # Errors
    ///
    /// A platform without bank functions where its standard has banks, with more banks than a channel can have, or
    /// whose functions leave too few bits for a row.
    pub fn new(platform: &Platform, geometry: &Geometry) -> Result<Decoder, DramError> {
        let mut assumed = Vec::new();
        let roles = Roles::of(platform, geometry, &mut assumed);
        let refuse = |reason: String| DramError::Mapping { platform: platform.id().to_owned(), reason };
        let address_bits = platform.address_bits();
        let offset_bits = geometry.burst_bytes().trailing_zeros();
        let row_bytes_bits = (geometry.columns * (geometry.bus_bits / 8)).trailing_zeros();
        let functions: Vec<u64> =
            [&roles.channel, &roles.rank, &roles.group, &roles.bank].into_iter().flatten().copied().collect();
        let column_bits = row_bytes_bits - offset_bits;
        let Some(row_bits) = address_bits.checked_sub(row_bytes_bits + functions.len() as u32).filter(|&bits| bits > 0)
        else {
            let needed = row_bytes_bits + functions.len() as u32;
            return Err(refuse(format!(
                "{needed} of {address_bits} address bits select column and bank, which leaves none for the row; accepted \
                 is a device with shorter rows, or a platform with more address bits"
            )));
        };
        let (columns, rows) = split(platform, &functions, row_bytes_bits, row_bits, &mut assumed);
        let shape = Shape {
            ranks: roles.rank.len() as u32,
            groups: roles.group.len() as u32,
            banks: roles.bank.len() as u32,
            rows: row_bits,
            columns: column_bits,
        };
        if row_bits > BANK - ROW || column_bits > ROW || shape.bank_bits() > 8 {
            return Err(refuse(format!(
                "{} row, {column_bits} column and {} bank bits; accepted are at most 28, 16 and 8",
                row_bits,
                shape.bank_bits()
            )));
        }
        let column_masks = columns.iter().map(|&bit| 1u64 << bit).filter(|mask| *mask >= 1 << offset_bits);
        let bank_masks = roles.bank.iter().chain(&roles.group).chain(&roles.rank).copied();
        let mut outputs: Vec<(u64, u32)> = Vec::new();
        outputs.extend(column_masks.take(column_bits as usize).zip(COLUMN..));
        outputs.extend(rows.iter().copied().zip(ROW..));
        outputs.extend(bank_masks.zip(BANK..));
        outputs.extend(roles.channel.iter().copied().zip(CHANNEL..));
        let channel_bits = roles.channel.len() as u32;
        let node_functions = platform.functions().iter().filter(|function| function.role == Role::Node).count() as u32;
        let channels = (platform.domains().len() as u32) << channel_bits;
        let nodes = (0..channels).map(|channel| {
            let domain = platform.domains()[(channel >> channel_bits) as usize];
            domain.node + (channel & ((1 << channel_bits) - 1)) / (1 << (channel_bits - node_functions))
        });
        Ok(Decoder {
            regions: DecodedRegion::of(platform),
            tables: tables(&outputs),
            channel_bits,
            shape,
            nodes: nodes.collect(),
            assumed,
        })
    }

    /// Gives the place of a byte; `None` outside all memory.
    #[inline]
    #[must_use]
    pub fn place(&self, addr: PhysAddr) -> Option<Place> {
        let region = self.regions.iter().rev().find(|region| addr.0 >= region.base)?;
        if addr.0 - region.base >= region.size {
            return None;
        }
        let linear = addr.0.wrapping_add(region.to_dram);
        let (domain, dram) = match region.interleave {
            None => (region.first_domain, linear),
            Some(interleave) => {
                let (channel, dram) = interleave.split(linear);
                (region.first_domain + channel, dram)
            }
        };
        let bytes = dram.to_le_bytes();
        let entry = self.tables.iter().zip(bytes).fold(0, |sum, (table, byte)| sum ^ table[usize::from(byte)]);
        let field = |at: u32, bits: u32| (entry >> at & ((1 << bits) - 1)) as u32;
        Some(Place {
            channel: domain << self.channel_bits | field(CHANNEL, 64 - CHANNEL),
            bank: BankIndex(field(BANK, CHANNEL - BANK)),
            row: RowIndex(field(ROW, BANK - ROW)),
            column: field(COLUMN, ROW),
        })
    }

    /// Counts the channels of the machine, subchannels counted.
    #[must_use]
    pub fn channels(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// Gives the NUMA node of each channel.
    #[must_use]
    pub fn node_of_channel(&self) -> &[u32] {
        &self.nodes
    }

    /// Gives the geometry of one channel: the device's, with the ranks, banks and rows that the platform addresses.
    #[must_use]
    pub fn geometry(&self, device: &Geometry) -> Geometry {
        Geometry {
            ranks: 1 << self.shape.ranks,
            bank_groups: 1 << self.shape.groups,
            banks_per_group: 1 << self.shape.banks,
            rows: 1 << self.shape.rows,
            columns: device.burst_length << self.shape.columns,
            ..*device
        }
    }

    /// Lists the assumptions about details that the platform file lacks.
    #[must_use]
    pub fn assumed(&self) -> &[String] {
        &self.assumed
    }
}

impl Shape {
    fn bank_bits(self) -> u32 {
        self.ranks + self.groups + self.banks
    }
}

impl DecodedRegion {
    fn of(platform: &Platform) -> Vec<DecodedRegion> {
        let of_region = |region: &memtint_map::Region| DecodedRegion {
            base: region.base.0,
            size: region.size_bytes,
            to_dram: region.dram_base.wrapping_sub(region.base.0),
            first_domain: platform.locate(region.base).expect("a region contains its base").domain,
            interleave: region.interleave,
        };
        let mut regions: Vec<DecodedRegion> = platform.regions().iter().map(of_region).collect();
        for region in &mut regions {
            // The base of an interleaved region may lie on any of its channels.
            if let Some(interleave) = region.interleave {
                region.first_domain -= interleave.split(region.base.wrapping_add(region.to_dram)).0;
            }
        }
        regions
    }
}

impl Roles {
    /// Sorts the functions, and assigns roles to those of unknown role.
    ///
    /// The rules follow Intel's published mappings (Pessl et al., USENIX Security 2016, Table 2): a channel is selected
    /// by the functions with the most bits, bank groups by those that use the lowest bits, banks by those that begin
    /// highest, and what lies between selects the rank.
    fn of(platform: &Platform, geometry: &Geometry, assumed: &mut Vec<String>) -> Roles {
        let mut roles = Roles::default();
        let masks = |role: Role| {
            let mut of_role: Vec<_> = platform.functions().iter().filter(|function| function.role == role).collect();
            of_role.sort_by_key(|function| function.role_bit);
            of_role.into_iter().map(|function| function.mask).collect::<Vec<u64>>()
        };
        let mut unknown = masks(Role::Unknown);
        roles.channel = [masks(Role::Subchannel), masks(Role::Channel)].concat();
        roles.rank = [masks(Role::Rank), masks(Role::Dimm)].concat();
        roles.group = masks(Role::BankGroup);
        roles.bank = masks(Role::Bank);
        if !unknown.is_empty() {
            assumed.push(format!(
                "which of the {} functions of unknown role select channel, rank and bank",
                unknown.len()
            ));
        }
        let modulo = platform.regions().iter().any(|region| region.interleave.is_some());
        let channels = platform.dram().channels.filter(|channels| !modulo && channels.is_power_of_two()).unwrap_or(1);
        let missing = |wanted: u32, have: &Vec<u64>| (wanted.max(1).ilog2() as usize).saturating_sub(have.len());
        // Stable sorts: equal keys keep the order of the file.
        unknown.sort_by_key(|mask| std::cmp::Reverse(mask.count_ones()));
        let count = missing(channels, &roles.channel).min(unknown.len());
        roles.channel.extend(unknown.drain(..count));
        unknown.sort_by_key(|mask| mask.trailing_zeros());
        let count = missing(geometry.bank_groups, &roles.group).min(unknown.len());
        roles.group.extend(unknown.drain(..count));
        let count = missing(geometry.banks_per_group, &roles.bank).min(unknown.len());
        roles.bank.extend(unknown.drain(unknown.len() - count..));
        roles.rank.extend(unknown);
        roles.channel.extend(masks(Role::Node));
        roles
    }
}

/// Chooses column bits (the byte in the burst included) and row functions so that no two addresses coincide.
fn split(
    platform: &Platform,
    functions: &[u64],
    column_bits: u32,
    row_bits: u32,
    assumed: &mut Vec<String>,
) -> (Vec<u32>, Vec<u64>) {
    let dram = platform.dram();
    let row_functions =
        dram.row_functions.as_ref().map(|functions| functions.iter().map(|bits| mask_of(bits)).collect());
    let rows: Option<Vec<u64>> =
        row_functions.or(dram.row_bits.as_ref().map(|bits| bits.iter().map(|&bit| 1 << bit).collect()));
    if let (Some(columns), Some(rows)) = (&dram.column_bits, rows)
        && columns.len() == column_bits as usize
        && rows.len() == row_bits as usize
        && is_complete(platform.address_bits(), functions, columns, &rows)
    {
        return (columns.clone(), rows);
    }
    assumed.push("which address bits are row and column".to_owned());
    // Rows from the top, as in every controller; the rest is column.
    let mut basis = Basis::spanning(functions.iter().copied());
    let mut rows: Vec<u64> = Vec::new();
    for bit in (0..platform.address_bits()).rev() {
        if rows.len() < row_bits as usize && basis.insert(1 << bit) {
            rows.push(1 << bit);
        }
    }
    rows.reverse();
    let columns = (0..platform.address_bits()).filter(|&bit| basis.insert(1 << bit)).collect();
    (columns, rows)
}

fn is_complete(address_bits: u32, functions: &[u64], columns: &[u32], rows: &[u64]) -> bool {
    let all = functions.iter().copied().chain(rows.iter().copied()).chain(columns.iter().map(|&bit| 1 << bit));
    Basis::spanning(all).rank() == address_bits
}

fn mask_of(bits: &[u32]) -> u64 {
    bits.iter().fold(0, |mask, bit| mask | 1 << bit)
}

fn tables(outputs: &[(u64, u32)]) -> Box<[[u64; 256]; BYTES]> {
    let value = |address: u64| outputs.iter().fold(0, |value, &(mask, at)| value | gf2::parity(address, mask) << at);
    let mut tables = Box::new([[0; 256]; BYTES]);
    for (byte, table) in tables.iter_mut().enumerate() {
        for (address, entry) in table.iter_mut().enumerate() {
            *entry = value((address as u64) << (8 * byte));
        }
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeSet, HashSet};

    fn geometry(bank_groups: u32, banks_per_group: u32) -> Geometry {
        Geometry {
            ranks: 1,
            bank_groups,
            banks_per_group,
            rows: 1 << 16,
            columns: 1024,
            bus_bits: 64,
            device_bits: 8,
            burst_length: 8,
        }
    }

    /// The roles of Skylake's functions are published elsewhere (Pessl et al., Table 2): the rules find them.
    #[test]
    fn unknown_roles_are_those_of_published_mappings() {
        let platform = Platform::load("skl-e3-1220v5-4x4g").unwrap();
        let roles = Roles::of(&platform, &geometry(4, 4), &mut Vec::new());
        let bits = |masks: &[u64]| masks.iter().map(|&mask| gf2::bits(mask).collect()).collect::<Vec<Vec<u32>>>();
        assert_eq!(bits(&roles.channel), [[8, 9, 12, 13, 15, 18]]);
        assert_eq!(bits(&roles.group), [[7, 14], [15, 19]]);
        assert_eq!(bits(&roles.rank), [[16, 20]]);
        assert_eq!(bits(&roles.bank), [[17, 21], [18, 22]]);
    }

    /// Different bursts never coincide, in pieces of every platform of the catalogue that can be decoded.
    #[test]
    fn no_two_bursts_fall_together() {
        let mut decoded = 0;
        for name in memtint_map::catalogue::names() {
            let platform = Platform::load(name).unwrap();
            let device = if platform.dram().standard.contains('4') { geometry(4, 4) } else { geometry(1, 8) };
            let Ok(decoder) = Decoder::new(&platform, &device) else { continue };
            decoded += 1;
            let shape = decoder.geometry(&device);
            let region = platform.regions().iter().max_by_key(|region| region.size_bytes).unwrap();
            let mut seen = HashSet::new();
            let starts = [0, (region.size_bytes / 2) & !4095, region.size_bytes - (1 << 20)];
            for start in BTreeSet::from(starts) {
                for offset in (0..1 << 20).step_by(shape.burst_bytes() as usize) {
                    let place = decoder.place(PhysAddr(region.base.0 + start + offset)).unwrap();
                    assert!(
                        place.channel < decoder.channels() && place.bank < BankIndex(shape.banks()),
                        "{name}: {place:?}"
                    );
                    assert!(
                        place.row < RowIndex(shape.rows) && place.column < shape.bursts_per_row(),
                        "{name}: {place:?}"
                    );
                    assert!(seen.insert(place), "{name}: {place:?} twice, at {start:#x} + {offset:#x}");
                }
            }
        }
        assert!(decoded > 40, "{decoded} platforms can be decoded");
    }

    /// Bank numbers differ exactly where the platform's raw bank numbers do.
    #[test]
    fn banks_are_those_of_the_platform() {
        let platform = Platform::load("skl-e3-1220v5-4x4g").unwrap();
        let decoder = Decoder::new(&platform, &geometry(4, 4)).unwrap();
        let bank = |addr| {
            let place = decoder.place(PhysAddr(addr)).unwrap();
            (place.channel, place.bank)
        };
        let raw = |addr| platform.raw_bank(PhysAddr(addr)).unwrap();
        for at in 0..1 << 14 {
            let (one, other) = (at * 64 * 977 % (1 << 33), at * 64 * 7919 % (1 << 33));
            assert_eq!(bank(one) == bank(other), raw(one) == raw(other), "{one:#x}, {other:#x}");
        }
    }
}
