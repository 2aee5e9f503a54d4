//! Energy against values computed by hand from the data sheet's currents.

use memtint_dram::{DeviceChoice, EnergyCounts, EnergyMeter, RankCounts, Standard};

fn meter(standard: &str) -> EnergyMeter {
    let device = Standard::load(standard).unwrap().device(DeviceChoice {
        density_gbit: Some(match standard {
            "ddr3-1600" => 4,
            _ => 8,
        }),
        ..DeviceChoice::default()
    });
    EnergyMeter::of(&device.unwrap()).expect("currents of this device are published")
}

/// DDR3-1600 4Gb x8, eight devices, 1.35 V, IDD0 55, IDD2N 32, IDD3N 38, IDD4R 157, IDD4W 125, IDD5 235 mA.
///
/// mA times ns times V are pJ. ACT: 55 x 48.75 - 38 x 35 - 32 x 13.75 = 911.25, x 1.35 x 8 = 9841.5. DRAMsim3 counts
/// cycles (39, 28, 11) instead of nanoseconds and gives 729 x 1.35 x 8 = 7873.2 (its issue 18).
#[test]
fn a_thousand_commands_of_ddr3_1600_by_hand() {
    let counts =
        EnergyCounts { activates: 1000, reads: 1000, writes: 1000, refreshes: 1000, ..EnergyCounts::default() };
    let energy = meter("ddr3-1600").energy(&counts);
    assert_eq!(energy.activate_pj, 9_841_500);
    assert_ne!(energy.activate_pj, 7_873_200, "the factor tCK is missing");
    // (157 - 38) x 5 ns x 1.35 x 8 = 6426; (125 - 38) x 5 x 1.35 x 8 = 4698; (235 - 38) x 260 x 1.35 x 8 = 553176.
    assert_eq!(energy.read_pj, 6_426_000);
    assert_eq!(energy.write_pj, 4_698_000);
    assert_eq!(energy.refresh_pj, 553_176_000);
    assert_eq!(energy.background_pj, 0);
}

#[test]
fn background_of_ddr3_1600_by_hand() {
    // A millisecond is 800000 cycles: 38 mA x 1.35 V x 8 = 410.4 mW open, 345.6 mW closed.
    let open = EnergyCounts { cycles_open: 800_000, ..EnergyCounts::default() };
    let closed = EnergyCounts { cycles_closed: 800_000, ..EnergyCounts::default() };
    assert_eq!(meter("ddr3-1600").energy(&open).background_pj, 410_400_000);
    assert_eq!(meter("ddr3-1600").energy(&closed).background_pj, 345_600_000);
    let both = EnergyCounts { cycles_open: 800_000, cycles_closed: 800_000, ..EnergyCounts::default() };
    assert_eq!(meter("ddr3-1600").energy(&both).total_pj(), 756_000_000);
}

/// A period of 2500/3 ps: nothing is lost to rounding however long it runs.
#[test]
fn a_broken_clock_period_does_not_drift() {
    // DDR4-2400 8Gb x8: 43 mA x 1.2 V x 8 = 412.8 mW; 1.2e9 cycles are a second.
    let counts = EnergyCounts { cycles_open: 1_200_000_000, ..EnergyCounts::default() };
    assert_eq!(meter("ddr4-2400").energy(&counts).background_pj, 412_800_000_000);
    // (135 - 43) x 10/3 ns x 1.2 x 8 = 2944 pJ a read.
    let one = EnergyCounts { reads: 1, ..EnergyCounts::default() };
    assert_eq!(meter("ddr4-2400").energy(&one).read_pj, 2944);
    assert!(meter("ddr4-2400").energy(&EnergyCounts { reads: u64::MAX, ..one }).read_pj > u128::from(u64::MAX));
}

/// IDD5PB is not published: all banks of a rank, refreshed one by one, cost what a REF costs.
#[test]
fn banks_refreshed_one_by_one_cost_a_refresh() {
    let single = EnergyCounts { bank_refreshes: 8_000, ..EnergyCounts::default() };
    let whole = EnergyCounts { refreshes: 1_000, ..EnergyCounts::default() };
    assert_eq!(meter("ddr3-1600").energy(&single), meter("ddr3-1600").energy(&whole));
}

#[test]
fn currents_below_their_background_are_refused() {
    let device = Standard::load("ddr3-1600").unwrap().device(DeviceChoice::default()).unwrap();
    let mut currents = device.currents.unwrap();
    currents.idd0_ua = 36_307;
    let made = |currents| EnergyMeter::new(&currents, &device.geometry, &device.timing, device.clock, false);
    // (38 x 28 + 32 x 11) / 39 = 36.3077 mA.
    let message = made(currents).unwrap_err().to_string();
    assert!(message.contains("idd0_ua") && message.contains("36307") && message.contains("36308"), "{message}");
    currents.idd0_ua = 36_308;
    assert!(made(currents).is_ok());
}

#[test]
fn no_currents_no_meter() {
    let device = Standard::load("lpddr4-3200").unwrap().device(DeviceChoice::default()).unwrap();
    assert_eq!(EnergyMeter::of(&device), None);
}

/// A rank that does nothing but refresh draws IDD5 in each tRFC and IDD2N between, whatever the formula subtracts.
#[test]
fn a_rank_that_only_refreshes() {
    let device = Standard::load("ddr3-1600").unwrap().device(DeviceChoice::default()).unwrap();
    let rank = RankCounts { refreshes: 1000, ..RankCounts::default() };
    let counts = EnergyCounts::of(&rank, 6_240_000, &device.timing);
    assert_eq!((counts.cycles_open, counts.cycles_closed), (208_000, 6_032_000));
    // (235 mA x 260 us + 32 mA x 7540 us) x 1.35 V x 8 = 3265704 nJ.
    assert_eq!(EnergyMeter::of(&device).unwrap().energy(&counts).total_pj(), 3_265_704_000);
    assert_eq!(EnergyCounts::of(&rank, 100, &device.timing).cycles_closed, 0);
}
