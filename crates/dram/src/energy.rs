//! Energy of a rank from the supply currents of its devices.
//!
//! The formulas are those of Micron's technical notes on system power (TN-41-01 for DDR3, TN-40-07 for DDR4), with
//! each power multiplied by the time it lasts. Per device, with times in seconds:
//!
//! ```text
//! ACT and PRE    (IDD0 * tRC - (IDD3N * tRAS + IDD2N * (tRC - tRAS))) * VDD
//! RD             (IDD4R - IDD3N) * VDD * burst
//! WR             (IDD4W - IDD3N) * VDD * burst
//! REF            (IDD5 - IDD3N) * VDD * tRFC
//! REFpb, REFsb   (IDD5PB - IDD3N) * VDD * tRFCpb
//! background     IDD3N * VDD while a bank is open or a REF lasts, IDD2N * VDD while none is
//! ```
//!
//! Left out: power-down and self refresh, I/O and termination (TN-41-01, "DQ power"), VPP of DDR4.

use std::iter::Sum;

use crate::controller::RankCounts;
use crate::error::DramError;
use crate::standard::{Currents, Device};
use crate::timing::{Geometry, Timing};
use memtint_units::Clock;

/// Activity of one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EnergyCounts {
    /// ACT commands, each with the PRE that follows.
    pub activates: u64,
    /// RD and RDA commands.
    pub reads: u64,
    /// WR and WRA commands.
    pub writes: u64,
    /// REF commands.
    pub refreshes: u64,
    /// REFpb or REFsb commands.
    pub bank_refreshes: u64,
    /// Cycles with at least one bank open, or inside tRFC of a REF: the formula of a REF counts from IDD3N upwards.
    pub cycles_open: u64,
    /// All other cycles.
    pub cycles_closed: u64,
}

impl EnergyCounts {
    /// Takes the counts of a controller over a number of cycles. The controller counts the cycles of a REF as closed, as the rows of its
    /// rank are; here they become open ones. `timing` is that of the run: with the shorter tRFC of a finer granularity, if it had one. A
    /// REF that ends after the last cycle is cut off there.
    #[must_use]
    pub fn of(rank: &RankCounts, cycles: u64, timing: &Timing) -> EnergyCounts {
        let refreshing = rank.refreshes.saturating_mul(u64::from(timing.rfc));
        let cycles_open = rank.cycles_open.saturating_add(refreshing).min(cycles);
        EnergyCounts {
            activates: rank.activates,
            reads: rank.reads,
            writes: rank.writes,
            refreshes: rank.refreshes,
            bank_refreshes: rank.bank_refreshes,
            cycles_open,
            cycles_closed: cycles - cycles_open,
        }
    }
}

/// Energy of one rank in picojoules, by purpose; each rounded to the nearest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Energy {
    /// Opening and closing rows.
    pub activate_pj: u128,
    /// Read bursts.
    pub read_pj: u128,
    /// Write bursts.
    pub write_pj: u128,
    /// Refresh, of all banks or of single ones.
    pub refresh_pj: u128,
    /// Standing by.
    pub background_pj: u128,
}

impl Energy {
    /// Gives the sum.
    #[must_use]
    pub const fn total_pj(&self) -> u128 {
        self.activate_pj + self.read_pj + self.write_pj + self.refresh_pj + self.background_pj
    }
}

impl Sum for Energy {
    /// Of several ranks.
    fn sum<I: Iterator<Item = Energy>>(ranks: I) -> Energy {
        ranks.fold(Energy::default(), |sum, one| Energy {
            activate_pj: sum.activate_pj + one.activate_pj,
            read_pj: sum.read_pj + one.read_pj,
            write_pj: sum.write_pj + one.write_pj,
            refresh_pj: sum.refresh_pj + one.refresh_pj,
            background_pj: sum.background_pj + one.background_pj,
        })
    }
}

/// Turns counts of commands and cycles into energy.
///
/// Inside, energy is counted in microampere millivolt picoseconds (10^-21 J) times the denominator of the clock, so
/// nothing is rounded before the end. Sums beyond 128 bits saturate; they are beyond any machine's lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnergyMeter {
    activate: u128,
    read: u128,
    write: u128,
    refresh: u128,
    bank_refresh: u128,
    cycle_open: u128,
    cycle_closed: u128,
    /// Units of the above in a picojoule.
    per_pj: u128,
}

impl EnergyMeter {
    /// Makes the meter of a rank; `None` when the device's standard has no currents for it.
    #[must_use]
    pub fn of(device: &Device) -> Option<EnergyMeter> {
        let currents = device.currents?;
        EnergyMeter::new(&currents, &device.geometry, &device.timing, device.clock, same_bank(device)).ok()
    }

    /// Makes the meter of a rank. With `same_bank`, [`EnergyCounts::bank_refreshes`] are REFsb, which refresh a bank in
    /// every group, instead of REFpb.
    ///
    /// If IDD5PB is not published, a bank's refresh is assumed to cost its bank's share of a REF.
    ///
    /// # Errors
    /// [`DramError::Field`] when a current is out of range or less than the background it adds to.
    pub fn new(
        currents: &Currents,
        geometry: &Geometry,
        timing: &Timing,
        clock: Clock,
        same_bank: bool,
    ) -> Result<EnergyMeter, DramError> {
        currents.verify(timing).map_err(|(field, found, accepted)| DramError::Field {
            origin: "currents".to_owned(),
            field: field.to_owned(),
            found: found.to_string(),
            accepted,
        })?;
        let (period, denominator) = clock.period();
        let devices = u128::from(geometry.devices_per_rank());
        // Energy of all devices of a rank, of a current during some cycles.
        let unit = devices * u128::from(currents.vdd_mv) * u128::from(period);
        let energy = |microamperes: u32, cycles: u32| unit * u128::from(microamperes) * u128::from(cycles);
        let above_open = |microamperes: u32, cycles: u32| energy(microamperes - currents.idd3n_ua, cycles);
        let weighted =
            energy(currents.idd3n_ua, timing.ras) + energy(currents.idd2n_ua, timing.rc.saturating_sub(timing.ras));
        let refresh = above_open(currents.idd5ab_ua, timing.rfc);
        let share = if same_bank { geometry.bank_groups } else { 1 };
        let bank_refresh = match currents.idd5pb_ua {
            Some(idd5pb) => above_open(idd5pb, timing.rfc_pb),
            None => refresh * u128::from(share) / u128::from(geometry.banks_per_rank()),
        };
        Ok(EnergyMeter {
            activate: energy(currents.idd0_ua, timing.rc).saturating_sub(weighted),
            read: above_open(currents.idd4r_ua, timing.burst),
            write: above_open(currents.idd4w_ua, timing.burst),
            refresh,
            bank_refresh,
            cycle_open: energy(currents.idd3n_ua, 1),
            cycle_closed: energy(currents.idd2n_ua, 1),
            per_pj: 1_000_000_000 * u128::from(denominator),
        })
    }

    /// Gives the energy of a rank with these counts.
    #[must_use]
    pub fn energy(&self, counts: &EnergyCounts) -> Energy {
        let sum = |parts: &[(u128, u64)]| {
            let total = parts
                .iter()
                .fold(0u128, |total, &(each, count)| total.saturating_add(each.saturating_mul(u128::from(count))));
            total.saturating_add(self.per_pj / 2) / self.per_pj
        };
        Energy {
            activate_pj: sum(&[(self.activate, counts.activates)]),
            read_pj: sum(&[(self.read, counts.reads)]),
            write_pj: sum(&[(self.write, counts.writes)]),
            refresh_pj: sum(&[(self.refresh, counts.refreshes), (self.bank_refresh, counts.bank_refreshes)]),
            background_pj: sum(&[(self.cycle_open, counts.cycles_open), (self.cycle_closed, counts.cycles_closed)]),
        }
    }
}

fn same_bank(device: &Device) -> bool {
    device.refresh.bank.is_some_and(|bank| bank.same_bank)
}
