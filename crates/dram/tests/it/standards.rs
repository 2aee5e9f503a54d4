//! The standards that come with memtint: what they say, and what is refused.

use memtint_dram::{Device, DeviceChoice, DramError, Standard, Timing};
use memtint_units::Clock;

fn device(name: &str, density_gbit: u32, device_bits: u32) -> Device {
    let choice = DeviceChoice { density_gbit: Some(density_gbit), device_bits: Some(device_bits), ranks: 1 };
    Standard::load(name).unwrap().device(choice).unwrap()
}

#[test]
fn all_of_them_are_there_and_whole() {
    let names: Vec<_> = Standard::names().collect();
    assert_eq!(
        names,
        [
            "ddr2-800",
            "ddr3-1066",
            "ddr3-1333",
            "ddr3-1600",
            "ddr3-1600g",
            "ddr3-1866",
            "ddr3-800",
            "ddr4-2133",
            "ddr4-2400",
            "ddr4-2666",
            "ddr4-2933",
            "ddr4-3200",
            "ddr5-4800",
            "lpddr4-3200",
        ]
    );
    for name in names {
        let standard = Standard::load(name).unwrap();
        assert_eq!(standard.name(), name);
        // The clock runs at half of the data rate that the name tells, to the nearest 0.1 %.
        let rate: f64 = name.split_once('-').unwrap().1.trim_end_matches('g').parse().unwrap();
        let default = standard.device(DeviceChoice::default()).unwrap();
        assert!((2e6 / default.clock.period_ps() / rate - 1.0).abs() < 1e-3, "{name}");
        assert_eq!(default.geometry.burst_bytes(), 64, "{name}");
        for (density, bits) in standard.devices() {
            let device = device(name, density, bits);
            let bytes = u64::from(density) << 27;
            assert_eq!(device.geometry.bytes(), bytes * u64::from(device.geometry.devices_per_rank()));
            assert!(device.sources.iter().all(|(_, source)| !source.is_empty()));
            let t = &device.timing;
            assert_eq!(t.rc, t.ras + t.rp, "{name}: as every bin has it");
            // All rows are refreshed within the window.
            let refreshes = u64::from(device.refresh.commands) * u64::from(device.refresh.interval);
            assert!(refreshes <= device.refresh.window_cycles, "{name}");
            assert!(refreshes * 1000 > device.refresh.window_cycles * 998, "{name}");
        }
    }
}

/// The configurations that the recorded statistics of other simulators were made with.
#[test]
fn the_matched_configurations_come_out() {
    let ddr3 = device("ddr3-1600", 4, 8);
    let expected = Timing {
        cl: 11,
        cwl: 8,
        burst: 4,
        rcd: 11,
        rp: 11,
        rp_ab: 11,
        ras: 28,
        rc: 39,
        ccd_s: 4,
        ccd_l: 4,
        ccd_s_wr: 4,
        ccd_l_wr: 4,
        rrd_s: 5,
        rrd_l: 5,
        faw: 24,
        wr: 12,
        wtr_s: 6,
        wtr_l: 6,
        rtp: 6,
        rtrs: 2,
        rtw: 9,
        ppd: 1,
        rfc: 208,
        rfc_pb: 0,
        pbr2pbr: 0,
        pbr2act: 0,
        refi: 6240,
    };
    assert_eq!(ddr3.timing, expected);
    assert_eq!(ddr3.clock, Clock::new(1250, 1).unwrap());
    let g = ddr3.geometry;
    assert_eq!((g.bank_groups, g.banks_per_group, g.rows, g.columns, g.bus_bits), (1, 8, 65536, 1024, 64));

    let ddr4 = device("ddr4-2400", 8, 8);
    let expected = Timing {
        cl: 17,
        cwl: 12,
        burst: 4,
        rcd: 17,
        rp: 17,
        rp_ab: 17,
        ras: 39,
        rc: 56,
        ccd_s: 4,
        ccd_l: 6,
        ccd_s_wr: 4,
        ccd_l_wr: 6,
        rrd_s: 4,
        rrd_l: 6,
        faw: 26,
        wr: 18,
        wtr_s: 3,
        wtr_l: 9,
        rtp: 9,
        rtrs: 2,
        rtw: 11,
        ppd: 1,
        rfc: 420,
        rfc_pb: 0,
        pbr2pbr: 0,
        pbr2act: 0,
        refi: 9360,
    };
    assert_eq!(ddr4.timing, expected);
    assert_eq!(ddr4.clock, Clock::new(2500, 3).unwrap());
    let g = ddr4.geometry;
    assert_eq!((g.bank_groups, g.banks_per_group, g.rows, g.columns, g.bus_bits), (4, 4, 65536, 1024, 64));
}

/// [Pan18, Table 5.1], is what DDR3 and DDR4 refresh with; DDR2 from 8 Gb, where JESD79-2 ends.
#[test]
fn the_refresh_times_of_paper_004() {
    let table = [(1, 110), (2, 160), (4, 260), (8, 350), (16, 550), (32, 1000), (64, 2000)];
    for name in Standard::names().filter(|name| name.starts_with("ddr3") || name.starts_with("ddr4")) {
        for (density, ns) in table {
            let device = device(name, density, 8);
            let (numerator, denominator) = device.clock.period();
            assert_eq!(u64::from(device.timing.rfc), (ns * 1000 * denominator).div_ceil(numerator), "{name} {density}");
        }
    }
    for (density, ns) in &table[3..] {
        assert_eq!(u64::from(device("ddr2-800", *density, 8).timing.rfc), (ns * 1000u64).div_ceil(2500));
    }
}

/// Ramulator v1, `src/DDR4.cpp`: RFC by granularity, density and speed (2133, 2400, 3200), but for its 3200 at 4 Gb.
#[test]
fn fine_granularity_refresh_of_ddr4() {
    for (name, table) in [
        ("ddr4-2133", [[171, 278, 374], [118, 171, 278], [96, 118, 171]]),
        ("ddr4-2400", [[192, 312, 420], [132, 192, 312], [108, 132, 192]]),
        ("ddr4-3200", [[256, 416, 560], [176, 256, 416], [144, 176, 256]]),
    ] {
        for (index, density) in [2, 4, 8].into_iter().enumerate() {
            let device = device(name, density, 8);
            let fine = &device.refresh.fine;
            assert_eq!((fine[0].factor, fine[1].factor), (2, 4));
            assert_eq!((fine[0].interval, fine[1].interval), (device.timing.refi / 2, device.timing.refi / 4));
            let found = [device.timing.rfc, fine[0].rfc, fine[1].rfc];
            assert_eq!(found, [table[0][index], table[1][index], table[2][index]], "{name} {density}Gb");
        }
    }
}

/// DDR3 has none; the device of \[Pan18\]'s simulations has DDR4's, in nanoseconds the same.
#[test]
fn fine_granularity_refresh_of_the_simulated_ddr3_is_that_of_ddr4() {
    assert!(device("ddr3-1600", 8, 8).refresh.fine.is_empty());
    for density in [1, 2, 4, 8, 16, 32, 64] {
        let (ddr3, ddr4) = (device("ddr3-1600g", density, 8), device("ddr4-3200", density, 8));
        assert_eq!(ddr3.refresh.fine.len(), 2);
        for (one, other) in ddr3.refresh.fine.iter().zip(&ddr4.refresh.fine) {
            // 1.25 and 0.625 ns: half as many cycles, rounded up.
            assert_eq!((one.factor, one.rfc), (other.factor, other.rfc.div_ceil(2)), "{density} Gb");
            assert_eq!(one.interval, ddr3.timing.refi / one.factor, "{density} Gb");
        }
    }
}

/// Rows of x4, x8 and x16 devices differ in size, and with it tRRD and tFAW: DRAMsim3's and Ramulator's values.
#[test]
fn activation_limits_follow_the_row_size() {
    for (name, density, bits, expected) in [
        ("ddr2-800", 1, 8, (3, 3, 14)),
        ("ddr2-800", 1, 16, (4, 4, 18)),
        ("ddr3-800", 4, 8, (4, 4, 16)),
        ("ddr3-800", 4, 16, (4, 4, 20)),
        ("ddr3-1333", 4, 8, (4, 4, 20)),
        ("ddr3-1333", 4, 16, (5, 5, 30)),
        ("ddr3-1600", 8, 8, (6, 6, 32)),
        ("ddr3-1600", 4, 16, (6, 6, 32)),
        ("ddr4-2133", 8, 8, (4, 6, 23)),
        ("ddr4-2400", 8, 4, (4, 6, 16)),
        ("ddr4-2400", 8, 16, (7, 8, 36)),
        ("ddr4-3200", 8, 8, (4, 8, 34)),
        ("ddr4-3200", 8, 16, (9, 11, 48)),
        ("lpddr4-3200", 8, 16, (16, 16, 64)),
    ] {
        let t = device(name, density, bits).timing;
        assert_eq!((t.rrd_s, t.rrd_l, t.faw), expected, "{name} x{bits}");
    }
}

/// CL-RCD-RP-RAS-RC, CWL, WR, WTR_S/L, RTP, CCD_L, REFI by the tables of the peers.
#[test]
fn speed_bins_as_the_peers_have_them() {
    for (name, core, rest) in [
        ("ddr2-800", [5, 5, 5, 18, 23], [4, 6, 3, 3, 5, 4, 3120]),
        ("ddr3-800", [6, 6, 6, 15, 21], [5, 6, 4, 4, 4, 4, 3120]),
        ("ddr3-1066", [7, 7, 7, 20, 27], [6, 8, 4, 4, 4, 4, 4160]),
        ("ddr3-1333", [9, 9, 9, 24, 33], [7, 10, 5, 5, 5, 4, 5200]),
        ("ddr3-1600g", [8, 8, 8, 28, 36], [8, 12, 6, 6, 6, 4, 6240]),
        ("ddr3-1866", [13, 13, 13, 32, 45], [9, 14, 7, 7, 7, 4, 7280]),
        ("ddr4-2133", [15, 15, 15, 36, 51], [11, 16, 3, 8, 8, 6, 8320]),
        ("ddr4-2666", [19, 19, 19, 43, 62], [14, 20, 4, 10, 10, 7, 10400]),
        ("ddr4-2933", [21, 21, 21, 47, 68], [16, 22, 4, 11, 11, 8, 11440]),
        ("ddr4-3200", [22, 22, 22, 52, 74], [16, 24, 4, 12, 12, 8, 12480]),
        ("ddr5-4800", [40, 39, 39, 77, 116], [38, 72, 6, 24, 18, 12, 9360]),
        ("lpddr4-3200", [28, 29, 29, 68, 97], [14, 30, 17, 17, 12, 8, 6246]),
    ] {
        let t = Standard::load(name).unwrap().device(DeviceChoice::default()).unwrap().timing;
        assert_eq!([t.cl, t.rcd, t.rp, t.ras, t.rc], core, "{name}");
        assert_eq!([t.cwl, t.wr, t.wtr_s, t.wtr_l, t.rtp, t.ccd_l, t.refi], rest, "{name}");
    }
    let ddr5 = device("ddr5-4800", 16, 8);
    let t = ddr5.timing;
    assert_eq!((t.ccd_s_wr, t.ccd_l_wr, t.rtw, t.ppd, t.rfc, t.rfc_pb, t.pbr2act), (8, 48, 14, 2, 708, 312, 72));
    assert_eq!(ddr5.refresh.bank.unwrap().interval, 4680);
    let lpddr4 = device("lpddr4-3200", 8, 16);
    let t = lpddr4.timing;
    assert_eq!((t.rp_ab, t.rtw, t.ppd, t.rfc, t.rfc_pb, t.pbr2pbr, t.pbr2act), (34, 30, 4, 448, 224, 224, 16));
    assert_eq!(lpddr4.refresh.bank.unwrap().interval / 8, 780);
}

fn refusal(text: &str) -> String {
    Standard::parse(text, "my.toml").unwrap_err().to_string()
}

#[test]
fn every_refusal_names_file_field_found_and_accepted() {
    let good = Standard::text("ddr4-2400").unwrap();
    Standard::parse(good, "my.toml").unwrap();
    for (from, to, parts) in [
        ("density_gbit = 64\n", "density_gbit = 4096\n", &["density_gbit", "4096", "1024"][..]),
        ("[bus]", "[bus]\ncolour = 3", &["line", "colour"]),
        ("burst_length = 8", "burst_length = 12", &["bus.burst_length", "12", "power of two"]),
        ("width_bits = 64", "width_bits = 0", &["bus.width_bits", "0"]),
        ("period_ps = [2500, 3]", "period_ps = [2500, 0]", &["clock.period_ps", "[2500, 0]"]),
        ("cl = { ck = 17", "cl = { ck = 0", &["timing.cl", "0 cycles"]),
        ("cl = { ck = 17", "cl = { ps = 99_000_000_000_000", &["timing.cl", "cycles"]),
        ("cl = { ck = 17", "cl = { ck = -17", &["line 18", "-17"]),
        ("ccd_l = { ps = 5_000, ck = 5", "ccd_l = { ps = 500, ck = 3", &["timing.ccd_l", "3 cycles", "at least 4"]),
        ("rc = { ps = 46_160", "rc = { ps = 30_000", &["timing.rc", "36 cycles", "at least 39"]),
        ("rows = 65536", "rows = 65535", &["density_gbit", "groups x banks x rows"]),
        ("bytes = 1024", "bytes = 1000", &["page", "1024"]),
        ("\ngbit = 8\n", "\ngbit = 9\n", &["density", "8 Gb"]),
        ("bytes = 512", "bytes = 1024", &["page[1]", "page[0]"]),
        ("interval = { ps = 7_800_000", "interval = { ps = 1_800_000", &["refresh.interval", "rfc"]),
        ("idd3n_ua = 43_000", "idd3n_ua = 13_000", &["idd3n_ua", "13000", "34000"]),
        ("name = \"ddr4-2400\"", "name = \"DDR4 2400\"", &["name", "DDR4 2400"]),
        ("default_density_gbit = 8", "default_density_gbit = 3", &["default_density_gbit", "3", "8Gb x8"]),
    ] {
        assert!(good.contains(from), "{from}");
        let message = refusal(&good.replacen(from, to, if from == "rows = 65536" { 9 } else { 1 }));
        for part in ["my.toml"].iter().chain(parts) {
            assert!(message.contains(part), "{to}: {message}");
        }
    }
}

#[test]
fn choices_that_do_not_exist_are_refused() {
    let standard = Standard::load("ddr5-4800").unwrap();
    let missing = standard.device(DeviceChoice { density_gbit: Some(4), ..DeviceChoice::default() }).unwrap_err();
    assert!(missing.to_string().contains("4Gb x8") && missing.to_string().contains("16Gb x8"), "{missing}");
    for ranks in [0, 17] {
        let refused = standard.device(DeviceChoice { ranks, ..DeviceChoice::default() }).unwrap_err();
        assert!(refused.to_string().contains("1 to 16"), "{refused}");
    }
    let unknown = Standard::load("ddr6-9000").unwrap_err();
    assert!(matches!(&unknown, DramError::UnknownStandard { .. }) && unknown.to_string().contains("ddr5-4800"));
    assert!(matches!(Standard::load("/dev/zero"), Err(DramError::Read { .. })));
    assert!(matches!(Standard::load("no/such.toml"), Err(DramError::Read { .. })));
}

#[test]
fn a_file_of_ones_own_is_accepted() {
    let path = std::env::temp_dir().join(format!("memtint-standard-{}.toml", std::process::id()));
    std::fs::write(&path, Standard::text("ddr3-1600").unwrap().replace("ddr3-1600", "mine")).unwrap();
    let device = Standard::load(path.to_str().unwrap()).and_then(|mine| mine.device(DeviceChoice::default()));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(device.unwrap().name, "mine 4Gb x8");
}
