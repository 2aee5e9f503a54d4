//! A DRAM standard's file: parsing never panics, and an accepted one makes all of its devices.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memtint_dram::{DeviceChoice, EnergyCounts, EnergyMeter, Standard};

fuzz_target!(|text: &str| {
    let Ok(standard) = Standard::parse(text, "fuzz") else { return };
    for (density, bits) in standard.devices() {
        let choice = DeviceChoice { density_gbit: Some(density), device_bits: Some(bits), ranks: 16 };
        let device = standard.device(choice).expect("an accepted standard makes each of its devices");
        assert_eq!(device.geometry.bytes() % u64::from(device.geometry.burst_bytes()), 0);
        if let Some(meter) = EnergyMeter::of(&device) {
            let counts = EnergyCounts { activates: u64::MAX, cycles_open: u64::MAX, ..EnergyCounts::default() };
            assert!(meter.energy(&counts).total_pj() > 0);
        }
    }
});
