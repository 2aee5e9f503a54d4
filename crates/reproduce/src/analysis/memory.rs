//! The guaranteed bandwidth of a memory from the timing of its devices, for figures about regulation.

use crate::answer::{Found, Results};
use crate::error::{ReproduceError, refuse};
use memtint_dram::{Device, DeviceChoice, RefreshPlan, Standard, WorstCase, cycles_of_slides};
use num_bigint::BigUint;
use num_rational::Ratio;
use serde::Deserialize;
use toml::Value;

/// Devices, and lines that are read from and written to them.
pub(super) struct GuaranteedMemory {
    device: Device,
    refresh: RefreshPlan,
    line_bytes: u64,
}

/// The fields of [`Method::GuaranteedBandwidth`](crate::figure::Method).
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct With {
    device: String,
    refresh: String,
    line_bytes: u64,
}

impl GuaranteedMemory {
    /// Reads the parameters, and loads the devices.
    pub(super) fn read(id: &str, field: &str, with: &Value) -> Result<GuaranteedMemory, ReproduceError> {
        let wrong = |found: String, accepted: &str| refuse(id, field, found, accepted);
        let accepted = "device, refresh and line_bytes";
        let with: With =
            with.clone().try_into().map_err(|error: toml::de::Error| wrong(error.message().to_owned(), accepted))?;
        if !(1..=4096).contains(&with.line_bytes) {
            return Err(wrong(format!("line_bytes {}", with.line_bytes), "1 to 4096"));
        }
        let known = || Standard::names().collect::<Vec<_>>().join(", ");
        let standard =
            Standard::load(&with.device).map_err(|_| wrong(format!("device {:?}", with.device), &known()))?;
        let device = standard.device(DeviceChoice::default());
        let device = device.map_err(|error| wrong(error.to_string(), "a device with a default density and width"))?;
        let names = RefreshPlan::NAMES.join(", ");
        let refresh = RefreshPlan::named(&with.refresh, &device)
            .map_err(|_| wrong(format!("refresh {:?}", with.refresh), &format!("{names}, if the device has it")))?;
        let device = Device { timing: refresh.timing, ..device };
        Ok(GuaranteedMemory { device, refresh, line_bytes: with.line_bytes })
    }

    pub(super) fn run(&self, found: &mut Results) {
        let (numerator_ps, denominator) = self.device.clock.period();
        let whole = |number: u64| BigUint::from(number);
        let ns = |cycles: u64| Ratio::new(whole(cycles) * whole(numerator_ps), whole(denominator) * whole(1000));
        let line = Ratio::from(whole(self.line_bytes));
        let mb_per_s = |time_ns: Ratio<BigUint>| &line * whole(1000) / time_ns;
        let worst = WorstCase::of(&self.device, self.refresh.kind, self.line_bytes);
        // The time that refresh leaves.
        let left = worst.refresh.map_or_else(
            || Ratio::from(whole(1)),
            |refresh| Ratio::new(whole(refresh.interval.saturating_sub(refresh.cycles)), whole(refresh.interval)),
        );
        let rows = [
            ("slides", cycles_of_slides(&self.device.timing)),
            ("reads", worst.read_cycles),
            ("writes", worst.write_cycles),
        ];
        for (name, cycles) in rows {
            found.insert(format!("{name} ns"), Found::Number(ns(cycles)));
            found.insert(format!("{name} MB/s"), Found::Number(mb_per_s(ns(cycles))));
        }
        found.insert("guaranteed MB/s".to_owned(), Found::Number(mb_per_s(ns(worst.line_cycles())) * left));
    }
}
