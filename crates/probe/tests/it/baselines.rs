//! Do the published detectors find what they were made for, and is what they cannot find as it is said?
//!
//! Repetition is scaled down from the published thousands and millions: without noise a single reading is as good.

use memtint_map::Platform;
use memtint_map::gf2::Basis;
use memtint_probe::baseline::{Bpm, DramDig, Drama, Found, Outcome, Palloc, SetLimit, Stopped};
use memtint_probe::{Noise, Oracle, OracleError, Pool, SimulatedMachine};
use memtint_units::PhysAddr;

fn platform(id: &str) -> Platform {
    Platform::load(id).expect(id)
}

fn machine(platform: &Platform, noise: Noise, seed: u64) -> SimulatedMachine {
    let pool = Pool::new(platform.regions().iter().map(|region| region.base..region.end()), 64).expect("a pool");
    SimulatedMachine::new(platform.clone(), pool, noise, seed).expect("the pool is its memory")
}

fn quiet(platform: &Platform) -> SimulatedMachine {
    machine(platform, Noise::NONE, 3)
}

/// Are these the functions of the platform?
fn right(outcome: &Outcome, platform: &Platform) -> bool {
    let found = outcome.result.as_ref();
    let judged = found.is_ok_and(|found| found.is_of(&quiet(platform)));
    let spanned = |found: &Found| Basis::spanning(found.functions.iter().copied());
    let equal = found.is_ok_and(|found| spanned(found) == Basis::spanning(platform.function_masks().to_vec()));
    assert_eq!(judged, equal, "{}: {outcome:?}", platform.id());
    judged
}

fn mask(bits: &[u32]) -> u64 {
    bits.iter().map(|bit| 1 << bit).sum()
}

fn palloc(platform: &Platform) -> Palloc {
    Palloc { accesses: 64, ..Palloc::published(platform.banks()) }
}

fn drama(platform: &Platform) -> Drama {
    Drama { reads: 1, step_bytes: 64, limit: SetLimit::TwiceMeasured, ..Drama::published(platform.banks()) }
}

/// With what the memory modules of a platform say of themselves.
fn dramdig(platform: &Platform) -> DramDig {
    let dram = platform.dram();
    let [rows, columns] = [&dram.row_bits, &dram.column_bits].map(|bits| bits.as_ref().expect("known").len() as u32);
    DramDig { reads: 1, ..DramDig::published(platform.banks(), rows, columns, platform.address_bits()) }
}

const BPM: Bpm = Bpm { repeats: 2 };

#[test]
fn palloc_finds_bank_bits_and_pairs_of_them() {
    for id in ["nehalem-w3530", "nehalem-w3553", "p4080", "zcu102-reva", "rpi4-2g"] {
        let platform = platform(id);
        let outcome = palloc(&platform).run(&mut quiet(&platform), 1).unwrap();
        assert!(right(&outcome, &platform), "{id}: {outcome:?}");
        assert_eq!(outcome.accesses, 64 * 18, "{id}: bits 6 to 23");
    }
    // Eight bits that are fast and 28 pairs, as in its README.
    let haswell = platform("haswell-e3-1230");
    let outcome = palloc(&haswell).run(&mut quiet(&haswell), 1).unwrap();
    assert!(right(&outcome, &haswell), "{outcome:?}");
    assert_eq!(outcome.accesses, 64 * (18 + 28));
}

#[test]
fn palloc_cannot_tell_wider_functions_nor_higher_bits() {
    // A function of seven bits is taken for pairs, or entries are not of one bank.
    for id in ["ramses-ivyhaswell-2ch1d1r", "skl-client-2ch2r-drama", "zen2-ddr4-1r", "zen4-ddr5-1r-full"] {
        let platform = platform(id);
        let outcome = palloc(&platform).run(&mut quiet(&platform), 1).unwrap();
        assert!(!right(&outcome, &platform), "{id}");
        assert!(matches!(outcome.result, Err(Stopped::Functions(..))), "{id}: {outcome:?}");
    }
    // A bit that entries of a list differ in is not looked at.
    let pi = platform("rpi5-4g-banklow4");
    let outcome = palloc(&pi).run(&mut quiet(&pi), 1).unwrap();
    assert_eq!(outcome.result, Err(Stopped::Functions(3, 4)));
    // Entries need more memory than there is.
    let small = platform("zen2-3900x-amdre");
    assert_eq!(palloc(&small).run(&mut quiet(&small), 1).unwrap().result, Err(Stopped::NoMemory));
}

#[test]
fn bpm_finds_rows_columns_and_banks() {
    let own = platform("core-i7-860-bpm");
    let outcome = BPM.run(&mut quiet(&own), 1).unwrap();
    assert!(right(&outcome, &own), "{outcome:?}");
    let found = outcome.result.unwrap();
    // The file has no rows; the simulated machine takes all bits from 13 on, of which 13-15, 21 and 22 select banks.
    assert_eq!(found.row_bits, Some(mask(&[16, 17, 18, 19, 20, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32])));
    assert_eq!(found.column_bits, Some(mask(&[0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12])));
    // 27 bits, 12 of them again with a row bit, 15 pairs of the 6 that are left.
    assert_eq!(outcome.accesses, 2 * 2 * (27 + 12 + 15));
    for id in ["haswell-e3-1230", "ramses-sandy-1ch1d1r", "skx-open-1ch1r"] {
        let platform = platform(id);
        let outcome = BPM.run(&mut quiet(&platform), 1).unwrap();
        assert!(right(&outcome, &platform), "{id}: {outcome:?}");
        // Row bits that select banks too are not among its rows.
        let rows = mask(platform.dram().row_bits.as_ref().unwrap());
        let banks = platform.function_masks().iter().fold(0, |all, function| all | function);
        assert_eq!(outcome.result.unwrap().row_bits, Some(rows & !banks), "{id}");
    }
}

#[test]
fn bpm_cannot_tell_wider_functions_nor_pairs_without_rows() {
    // Bits of columns that make a function of two, or of seven together with rows, are each taken for a bank bit.
    let coffee = platform("cfl-1ch1r");
    let outcome = BPM.run(&mut quiet(&coffee), 1).unwrap();
    let functions = outcome.result.unwrap().functions;
    assert!(functions.contains(&mask(&[6])) && functions.contains(&mask(&[13])), "{functions:x?}");
    let ivy = platform("ramses-ivyhaswell-2ch1d1r");
    let outcome = BPM.run(&mut quiet(&ivy), 1).unwrap();
    assert!(outcome.result.as_ref().unwrap().functions.contains(&mask(&[7])) && !right(&outcome, &ivy), "{outcome:?}");
    // Where all row bits select banks, none conflicts alone.
    for id in ["zen3-ddr4-2r-full", "zen4-ddr5-1r8bg"] {
        let platform = platform(id);
        assert_eq!(BPM.run(&mut quiet(&platform), 1).unwrap().result, Err(Stopped::NoRowBit), "{id}");
    }
}

#[test]
fn bpm_gives_a_map_where_nothing_conflicts() {
    let platform = platform("core-i7-860-bpm");
    let closed = Noise { gap: 0.0, ..Noise::QUIET };
    let outcome = Bpm { repeats: 100 }.run(&mut machine(&platform, closed, 1), 1).unwrap();
    assert!(outcome.result.is_ok() && !right(&outcome, &platform), "{outcome:?}");
}

#[test]
fn drama_finds_functions_of_up_to_seven_bits() {
    for id in ["ramses-sandy-1ch1d1r", "haswell-e3-1230", "ramses-ivyhaswell-2ch1d1r", "skl-i5-6200u-xps13"] {
        let platform = platform(id);
        let outcome = drama(&platform).run(&mut quiet(&platform), 1).unwrap();
        assert!(right(&outcome, &platform), "{id}: {outcome:?}");
        let banks = u64::from(platform.banks());
        // A pair is read four times, and all sets but the last few are found in the first try.
        let base = 4 * 2 * (125 * banks - 1);
        assert!(outcome.accesses.is_multiple_of(base), "{id}: {} of {base}", outcome.accesses);
        assert!((banks / 2..=banks + 10).contains(&(outcome.accesses / base)), "{id}: {outcome:?}");
    }
}

#[test]
fn drama_as_published_ends_before_all_sets_are_found() {
    let platform = platform("ramses-ivyhaswell-1ch1d2r");
    let published = Drama { limit: SetLimit::Left, ..drama(&platform) };
    let limited = published.run(&mut quiet(&platform), 1).unwrap();
    let whole = drama(&platform).run(&mut quiet(&platform), 1).unwrap();
    assert!(right(&whole, &platform) && !right(&limited, &platform), "{limited:?}");
    // Of the bases that were measured, ten were for the set that was not found, and fewer than all for the others.
    let bases = limited.accesses / (4 * 2 * (125 * 16 - 1));
    assert!((11..26).contains(&bases), "{bases}: {limited:?}");
    // Every other line never shows bit 6: what 6 and 13 select is taken for 13.
    let coffee = self::platform("cfl-1ch1r");
    let outcome = Drama { step_bytes: 128, ..drama(&coffee) }.run(&mut quiet(&coffee), 1).unwrap();
    assert!(!right(&outcome, &coffee), "{outcome:?}");
}

#[test]
fn drama_misses_functions_of_more_bits() {
    for (id, count) in [("zen1plus-ddr4-1r", 3), ("zen2-ddr4-1r", 3), ("hsw-ep-chan-hash-edac", 0)] {
        let platform = platform(id);
        let outcome = drama(&platform).run(&mut quiet(&platform), 1).unwrap();
        let functions = outcome.result.map_or(Vec::new(), |found| found.functions);
        assert_eq!(functions.len(), count, "{id}: {functions:x?}");
    }
}

/// Is slow once for each base, beside the first address that does not conflict.
struct Liar {
    machine: SimulatedMachine,
    base: Option<PhysAddr>,
    pair: Option<[PhysAddr; 2]>,
}

impl Oracle for Liar {
    fn pool(&self) -> &Pool {
        self.machine.pool()
    }

    fn time(&mut self, addresses: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError> {
        let mut readings = self.machine.time(addresses, rounds)?;
        let pair = [addresses[0], addresses[1]];
        if self.base != Some(pair[0]) && !self.machine.conflicts(pair[0], pair[1]) {
            (self.base, self.pair) = (Some(pair[0]), Some(pair));
        }
        if self.pair == Some(pair) {
            readings.fill(290);
        }
        Ok(readings)
    }

    fn time_beside(
        &mut self,
        addresses: &[PhysAddr],
        others: &[PhysAddr],
        rounds: u32,
    ) -> Result<Option<Vec<u32>>, OracleError> {
        self.machine.time_beside(addresses, others, rounds)
    }
}

#[test]
fn one_address_too_many_in_a_set_costs_drama_functions() {
    let platform = platform("ramses-ivyhaswell-1ch1d2r");
    let mut liar = Liar { machine: quiet(&platform), base: None, pair: None };
    let outcome = drama(&platform).run(&mut liar, 1).unwrap();
    // Each function is different in half of the addresses that do not conflict.
    let functions = outcome.result.as_ref().map_or(0, |found| found.functions.len());
    assert!(functions < 4, "{outcome:?}");
    // At typical noise there are such addresses: with few reads, a burst outlasts them.
    let few = Drama { reads: 5, ..drama(&platform) };
    let outcome = few.run(&mut machine(&platform, Noise::TYPICAL, 1), 1).unwrap();
    assert!(!right(&outcome, &platform), "{outcome:?}");
}

#[test]
fn dramdig_finds_functions_rows_and_columns() {
    for id in ["cfl-2ch1r-trrespass", "ramses-ivyhaswell-2ch1d1r"] {
        let platform = platform(id);
        let outcome = dramdig(&platform).run(&mut quiet(&platform), 1).unwrap();
        assert!(right(&outcome, &platform), "{id}: {outcome:?}");
        let found = outcome.result.unwrap();
        let dram = platform.dram();
        let known = [&dram.row_bits, &dram.column_bits].map(|bits| Some(mask(bits.as_ref().unwrap())));
        assert_eq!([found.row_bits, found.column_bits], known, "{id}");
    }
}

#[test]
fn dramdig_needs_the_right_geometry() {
    let platform = platform("cfl-1ch1r");
    let given = dramdig(&platform);
    let run = |dramdig: DramDig| dramdig.run(&mut quiet(&platform), 1).unwrap();
    // Half or twice as many banks: no set has the size it should have.
    for banks in [given.banks / 2, 2 * given.banks] {
        assert_eq!(run(DramDig { banks, ..given.clone() }).result, Err(Stopped::Endless), "{banks}");
    }
    let more = run(DramDig { row_bits: given.row_bits + 1, ..given.clone() });
    assert_eq!(more.result, Err(Stopped::RowBits(16, 17)));
    // No function has more than two bits, so that nothing keeps bit 6 from being taken for a column.
    let right_one = run(given.clone());
    let columns = Some(mask(platform.dram().column_bits.as_ref().unwrap()));
    assert!(right(&right_one, &platform) && right_one.result.unwrap().column_bits != columns);
}

#[test]
fn dramdig_misses_functions_and_does_not_say_so() {
    // Two functions of more than two bits, or one of eight: one is kept, or none.
    for (wide, kept) in [("[8, 9, 12, 18], [10, 11, 19]", 2), ("[7, 8, 9, 10, 11, 12, 13, 16]", 2)] {
        let text = format!(
            "schema = 1\nid = \"wide\"\nname = \"two pairs and something wider\"\n[dram]\nstandard = \"DDR4\"\n\
             address_bits = 31\nfunctions = [{}]\nrow_bits = [{}]\ncolumn_bits = [{}]\ncomplete = false\n\
             source_kind = \"assumed\"\nsource = \"this test\"\n[[region]]\nbase = 0\nsize = \"2 GiB\"\nassumed = true\nsource = \"this test\"\n",
            ["[14, 18]", "[15, 19]"]
                .into_iter()
                .chain(wide.split_inclusive("],").map(|bits| bits.trim().trim_end_matches(',')))
                .map(|bits| format!("{{ role = \"unknown\", bits = {bits} }}"))
                .collect::<Vec<_>>()
                .join(", "),
            (17..31).map(|bit| bit.to_string()).collect::<Vec<_>>().join(", "),
            (0..14).map(|bit| bit.to_string()).collect::<Vec<_>>().join(", "),
        );
        let platform = Platform::parse(&text, "wide").expect("a platform");
        let outcome = dramdig(&platform).run(&mut quiet(&platform), 1).unwrap();
        assert!(!right(&outcome, &platform), "{wide}");
        assert_eq!(outcome.result.as_ref().map(|found| found.functions.len()), Ok(kept), "{wide}: {outcome:?}");
    }
}

/// A machine with one core.
struct Alone(SimulatedMachine);

impl Oracle for Alone {
    fn pool(&self) -> &Pool {
        self.0.pool()
    }

    fn time(&mut self, addresses: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError> {
        self.0.time(addresses, rounds)
    }

    fn time_beside(&mut self, _: &[PhysAddr], _: &[PhysAddr], _: u32) -> Result<Option<Vec<u32>>, OracleError> {
        Ok(None)
    }
}

#[test]
fn palloc_needs_two_cores() {
    let platform = platform("rpi4-2g");
    let outcome = palloc(&platform).run(&mut Alone(quiet(&platform)), 1).unwrap();
    assert_eq!(outcome, Outcome { result: Err(Stopped::NoOtherCore), accesses: 0 });
}
