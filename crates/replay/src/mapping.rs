//! From the address of a request to the place on the channel.

use memtint_dram::{Decoder, Device, Geometry};
use memtint_map::Platform;
use memtint_units::PhysAddr;

use crate::output::Failure;

/// Row, rank, bank, bank group, column from the top bit down, above the offset in the burst. It is the mapping of the
/// recorded statistics of other simulators; ranks and rows need not be powers of two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matched {
    offset_bits: u32,
    column_bits: u32,
    group_bits: u32,
    bank_bits: u32,
    ranks: u64,
    geometry: Geometry,
}

/// Where a burst lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) bank: u32,
    pub(crate) row: u32,
    pub(crate) column: u32,
}

impl Matched {
    pub(crate) fn new(geometry: Geometry) -> Matched {
        Matched {
            offset_bits: geometry.burst_bytes().trailing_zeros(),
            column_bits: geometry.bursts_per_row().trailing_zeros(),
            group_bits: geometry.bank_groups.trailing_zeros(),
            bank_bits: geometry.banks_per_group.trailing_zeros(),
            ranks: u64::from(geometry.ranks),
            geometry,
        }
    }

    /// `None` behind the end of memory.
    #[inline]
    pub(crate) fn spot(&self, addr: u64) -> Option<Spot> {
        let mut rest = addr >> self.offset_bits;
        let mut take = |bits: u32| {
            let field = (rest & ((1 << bits) - 1)) as u32;
            rest >>= bits;
            field
        };
        let (column, group, bank) = (take(self.column_bits), take(self.group_bits), take(self.bank_bits));
        let (rank, row) = if self.ranks == 1 { (0, rest) } else { ((rest % self.ranks) as u32, rest / self.ranks) };
        let row = u32::try_from(row).ok().filter(|&row| row < self.geometry.rows)?;
        let bank = (rank << self.group_bits | group) << self.bank_bits | bank;
        Some(Spot { bank, row, column })
    }
}

/// How addresses are taken apart.
#[derive(Debug)]
pub(crate) enum Mapping {
    Matched(Matched),
    /// One channel of a platform.
    Platform {
        decoder: Box<Decoder>,
        channel: u32,
        base: u64,
        bytes: u64,
    },
}

/// Name of the first of them.
pub(crate) const MATCHED: &str = "robabgracoch";

/// What a mapping says of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Here(Spot),
    OtherChannel,
    Outside,
}

impl Mapping {
    /// The mapping of a name, and the geometry of the channel with it.
    pub(crate) fn named(
        name: &str,
        channel: u32,
        ranks: Option<u32>,
        device: &Device,
    ) -> Result<(Mapping, Geometry), Failure> {
        if name == MATCHED {
            if channel != 0 {
                return Err(Failure::Sentence(format!(
                    "--channel is {channel}; accepted is 0: {MATCHED} has one channel"
                )));
            }
            return Ok((Mapping::Matched(Matched::new(device.geometry)), device.geometry));
        }
        let platform = Platform::load(name)?;
        let decoder = Decoder::new(&platform, &device.geometry)?;
        let geometry = decoder.geometry(&device.geometry);
        if channel >= decoder.channels() {
            let sentence = format!("--channel is {channel}; accepted are 0 to {}", decoder.channels() - 1);
            return Err(Failure::Sentence(sentence));
        }
        if let Some(ranks) = ranks.filter(|&ranks| ranks != geometry.ranks) {
            let sentence = format!("--ranks is {ranks}; accepted with --mapping {name} is {}", geometry.ranks);
            return Err(Failure::Sentence(sentence));
        }
        let region = platform.regions().iter().max_by_key(|region| region.size_bytes);
        let (base, bytes) = region.map_or((0, 0), |region| (region.base.0, region.size_bytes));
        Ok((Mapping::Platform { decoder: Box::new(decoder), channel, base, bytes }, geometry))
    }

    /// First address and size of the memory that synthetic traces run through: a platform's largest region.
    pub(crate) fn extent(&self) -> (u64, u64) {
        match self {
            Mapping::Matched(matched) => (0, matched.geometry.bytes()),
            Mapping::Platform { base, bytes, .. } => (*base, *bytes),
        }
    }

    /// What was filled in because the platform's file does not say it.
    pub(crate) fn assumed(&self) -> &[String] {
        match self {
            Mapping::Matched(_) => &[],
            Mapping::Platform { decoder, .. } => decoder.assumed(),
        }
    }

    #[inline]
    pub(crate) fn find(&self, addr: u64) -> Found {
        match self {
            Mapping::Matched(matched) => matched.spot(addr).map_or(Found::Outside, Found::Here),
            Mapping::Platform { decoder, channel, .. } => match decoder.place(PhysAddr(addr)) {
                None => Found::Outside,
                Some(place) if place.channel != *channel => Found::OtherChannel,
                Some(place) => Found::Here(Spot { bank: place.bank, row: place.row, column: place.column }),
            },
        }
    }
}
