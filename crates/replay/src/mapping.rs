//! From the address of a request to the place on the channel.

use memtint_dram::{BankIndex, Decoder, Device, Geometry, RowIndex};
use memtint_map::Platform;
use memtint_units::PhysAddr;

use crate::error::ReplayError;

/// Row, rank, bank, bank group, column from the top bit down, above the offset in the burst. It is the mapping of the
/// recorded statistics of other simulators; ranks and rows need not be powers of two.
#[derive(Clone, Copy, Debug)]
pub struct Matched {
    offset_bits: u32,
    column_bits: u32,
    group_bits: u32,
    bank_bits: u32,
    ranks: u64,
    geometry: Geometry,
}

/// The position of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The bank, over all ranks of the channel.
    pub bank: BankIndex,
    /// The row.
    pub row: RowIndex,
    /// The column, in bursts.
    pub column: u32,
}

impl Matched {
    /// Makes the mapping of a channel.
    #[must_use]
    pub fn new(geometry: Geometry) -> Matched {
        Matched {
            offset_bits: geometry.burst_bytes().trailing_zeros(),
            column_bits: geometry.bursts_per_row().trailing_zeros(),
            group_bits: geometry.bank_groups.trailing_zeros(),
            bank_bits: geometry.banks_per_group.trailing_zeros(),
            ranks: u64::from(geometry.ranks),
            geometry,
        }
    }

    /// Gives the position of an address; `None` beyond the end of memory.
    #[inline]
    #[must_use]
    pub fn spot(&self, addr: u64) -> Option<Spot> {
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
        Some(Spot { bank: BankIndex(bank), row: RowIndex(row), column })
    }
}

/// How addresses are decoded.
#[derive(Debug)]
pub enum Mapping {
    /// The mapping of that name.
    Matched(Matched),
    /// One channel of a platform.
    Platform {
        /// Decodes addresses.
        decoder: Box<Decoder>,
        /// The channel.
        channel: u32,
        /// First address of the largest region.
        base: u64,
        /// Its size.
        bytes: u64,
    },
}

/// Name of [`Matched`].
pub const MATCHED: &str = "robabgracoch";

/// The result of decoding an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A place on the channel.
    Here(Spot),
    /// The address belongs to another channel.
    OtherChannel,
    /// The address is outside memory.
    Outside,
}

impl Mapping {
    /// Gives the mapping of a name, [`MATCHED`] or a platform's, and the geometry of the channel with it.
    ///
    /// # Errors
    /// [`ReplayError`] for a channel or a number of ranks that the mapping does not have, and for a platform that cannot be read.
    pub fn named(
        name: &str,
        channel: u32,
        ranks: Option<u32>,
        device: &Device,
    ) -> Result<(Mapping, Geometry), ReplayError> {
        if name == MATCHED {
            if channel != 0 {
                let accepted = format!("is 0: {MATCHED} has one channel");
                return Err(ReplayError::Channel { found: channel, accepted });
            }
            return Ok((Mapping::Matched(Matched::new(device.geometry)), device.geometry));
        }
        let platform = Platform::load(name)?;
        let decoder = Decoder::new(&platform, &device.geometry)?;
        let geometry = decoder.geometry(&device.geometry);
        if channel >= decoder.channels() {
            let accepted = format!("are 0 to {}", decoder.channels() - 1);
            return Err(ReplayError::Channel { found: channel, accepted });
        }
        if let Some(ranks) = ranks.filter(|&ranks| ranks != geometry.ranks) {
            let (found, mapping, accepted) = (ranks, name.to_owned(), geometry.ranks);
            return Err(ReplayError::Ranks { found, mapping, accepted });
        }
        let region = platform.regions().iter().max_by_key(|region| region.size_bytes);
        let (base, bytes) = region.map_or((0, 0), |region| (region.base.0, region.size_bytes));
        Ok((Mapping::Platform { decoder: Box::new(decoder), channel, base, bytes }, geometry))
    }

    /// Gives first address and size of the memory that synthetic traces run through: a platform's largest region.
    #[must_use]
    pub fn extent(&self) -> (u64, u64) {
        match self {
            Mapping::Matched(matched) => (0, matched.geometry.bytes()),
            Mapping::Platform { base, bytes, .. } => (*base, *bytes),
        }
    }

    /// Gives the assumptions about values that the platform file lacks.
    #[must_use]
    pub fn assumed(&self) -> &[String] {
        match self {
            Mapping::Matched(_) => &[],
            Mapping::Platform { decoder, .. } => decoder.assumed(),
        }
    }

    /// Decodes an address.
    #[inline]
    #[must_use]
    pub fn find(&self, addr: u64) -> Found {
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
