//! Does it survive nonsense? Mutated standards and command traces, and what is made of those that are accepted.

use memtint_dram::{
    CheckOptions, Checker, CommandReader, DeviceChoice, EnergyCounts, EnergyMeter, NEVER, RefreshCheck, Standard,
};
use proptest::prelude::*;

/// Replaces pieces of a text: at each place (in thousandths of the text) a number of bytes by a word.
fn mutate(text: &str, edits: &[(usize, usize, String)]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for (place, length, word) in edits {
        let start = bytes.len() * (place % 1000) / 1000;
        let end = (start + length).min(bytes.len());
        bytes.splice(start..end, word.bytes());
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn edits() -> impl Strategy<Value = Vec<(usize, usize, String)>> {
    let word = prop_oneof![
        "[0-9]{1,3}",
        "[ \\n=\\[\\]{},\"]",
        Just("18446744073709551615".to_owned()),
        Just("4294967295".to_owned()),
        Just("-1".to_owned()),
        Just("0".to_owned()),
        Just("é".to_owned()),
        Just("[[device]]\n".to_owned()),
        Just(String::new()),
    ];
    prop::collection::vec((0usize..1000, 0usize..6, word), 1..4)
}

/// A standard's file with other numbers: a mutation that is likelier to be accepted.
fn renumber(text: &str, which: usize, number: u64) -> String {
    let values: Vec<&str> = text.split(" = ").collect();
    let chosen = 1 + which % (values.len() - 1);
    let mut out = values[0].to_owned();
    for (index, value) in values.iter().enumerate().skip(1) {
        let digits = value.len() - value.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_').len();
        let value =
            if index == chosen && digits > 0 { format!("{number}{}", &value[digits..]) } else { (*value).into() };
        out += " = ";
        out += &value;
    }
    out
}

/// Everything that is made of a standard, for every device of it.
fn use_it(text: &str) -> bool {
    let Ok(standard) = Standard::parse(text, "nonsense") else { return false };
    for (density, bits) in standard.devices() {
        let choice = DeviceChoice { density_gbit: Some(density), device_bits: Some(bits), ranks: 2 };
        let device = standard.device(choice).expect("an accepted standard makes each of its devices");
        assert!(device.geometry.bytes() > 0);
        if let Some(meter) = EnergyMeter::of(&device) {
            let most = EnergyCounts { activates: u64::MAX, refreshes: u64::MAX, ..EnergyCounts::default() };
            assert!(meter.energy(&most).activate_pj >= meter.energy(&EnergyCounts::default()).activate_pj);
        }
        if device.geometry.banks() <= 64 {
            let refresh = Some(RefreshCheck::all_bank(&device));
            let mut checker = Checker::new(&device.geometry, &device.timing, CheckOptions { refresh });
            for command in CommandReader::new("1 ACT 0 0 0\n90 RDA 0 0 0\n9000 REF 0 0 0\n".as_bytes(), "x") {
                let _ = checker.see(command.unwrap());
            }
        }
    }
    true
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn standards(which: prop::sample::Index, edits in edits()) {
        let names: Vec<_> = Standard::names().collect();
        use_it(&mutate(Standard::text(names[which.index(names.len())]).unwrap(), &edits));
    }

    #[test]
    fn standards_with_other_numbers(which: prop::sample::Index, place: usize, exponent in 0u32..64, number: u64) {
        let names: Vec<_> = Standard::names().collect();
        use_it(&renumber(Standard::text(names[which.index(names.len())]).unwrap(), place, number >> exponent));
    }

    #[test]
    fn command_traces(edits in edits(), text in "\\PC{0,60}") {
        let device = Standard::load("lpddr4-3200").unwrap().device(DeviceChoice::default()).unwrap();
        let good = "0 ACT 0 0 5\n29 RD 0 0 3\n100 WRA 0 0 4\n300 REFpb 0 1 0\n900 PREA 0 0 0\n1000 REF 0 0 0\n";
        for text in [mutate(good, &edits), text] {
            let refresh = RefreshCheck::single_banks(&device);
            let mut checker = Checker::new(&device.geometry, &device.timing, CheckOptions { refresh });
            for command in CommandReader::new(text.as_bytes(), "nonsense").flatten() {
                let again = CommandReader::new(command.to_string().as_bytes(), "again").next();
                prop_assert_eq!(again, Some(Ok(command)));
                let broken = checker.violations(command);
                match checker.see(command) {
                    Ok(()) => prop_assert_eq!(broken, []),
                    Err(violation) => prop_assert!(broken.contains(&violation) && !violation.to_string().is_empty()),
                }
            }
            let _ = checker.finish(NEVER);
        }
    }
}

/// The mutations above are worth something only if some get through.
#[test]
fn the_unchanged_ones_are_used() {
    assert!(Standard::names().all(|name| use_it(Standard::text(name).unwrap())));
    assert!(use_it(&renumber(Standard::text("ddr3-1600").unwrap(), 11, 9)));
}
