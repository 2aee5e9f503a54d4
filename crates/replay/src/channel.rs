//! A channel by the names of its parts.

use memtint_dram::{Device, DeviceChoice, RefreshPlan, Standard};

use crate::error::ReplayError;
use crate::mapping::Mapping;

/// What a channel consists of.
#[derive(Clone, Debug)]
pub struct ChannelRequest {
    /// Standard, or a file (a path with a slash or ending in .toml).
    pub standard: String,
    /// Density of one device in gibibits; `None` for the standard's.
    pub density_gbit: Option<u32>,
    /// Width of one device in bits; `None` for the standard's.
    pub device_bits: Option<u32>,
    /// Ranks; `None` for one, or those of the mapping's platform.
    pub ranks: Option<u32>,
    /// Address mapping: [`MATCHED`](crate::MATCHED), or a platform.
    pub mapping: String,
    /// Channel of the platform.
    pub channel: u32,
    /// Refresh engine, one of [`RefreshPlan::NAMES`].
    pub refresh: String,
}

/// A channel: its device, with the geometry of the mapping and the timing of the refresh engine.
#[derive(Debug)]
pub struct Channel {
    /// The device.
    pub device: Device,
    /// From addresses to places on the channel.
    pub mapping: Mapping,
    /// The refresh engine, and what it must do.
    pub refresh: RefreshPlan,
}

impl ChannelRequest {
    fn device(&self) -> Result<Device, ReplayError> {
        let choice = DeviceChoice {
            density_gbit: self.density_gbit,
            device_bits: self.device_bits,
            ranks: self.ranks.unwrap_or(1),
        };
        Ok(Standard::load(&self.standard)?.device(choice)?)
    }

    /// Makes the channel.
    ///
    /// # Errors
    /// [`ReplayError`] for a standard that is not known, a device or refresh engine that it does not have, and a platform, channel or
    /// number of ranks that the mapping does not have.
    pub fn open(&self) -> Result<Channel, ReplayError> {
        let mut device = self.device()?;
        let refresh = RefreshPlan::named(&self.refresh, &device)?;
        let (mapping, geometry) = Mapping::named(&self.mapping, self.channel, self.ranks, &device)?;
        (device.geometry, device.timing) = (geometry, refresh.timing);
        Ok(Channel { device, mapping, refresh })
    }
}
