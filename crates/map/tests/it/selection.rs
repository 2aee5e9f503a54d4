//! Are selections resolved as their messages say, and walked as the catalogue's machines need it?

use memtint_map::{Granule, Palette, Platform, Selection};
use memtint_units::{IndexSet, PhysAddr};

fn palette(name: &str) -> Palette {
    Palette::new(&Platform::load(name).unwrap(), Granule::PAGE).unwrap()
}

fn set(text: &str) -> Option<IndexSet> {
    Some(IndexSet::parse(text, 1 << 20).unwrap())
}

fn refusal(palette: &Palette, banks: Option<IndexSet>, sets: Option<IndexSet>) -> String {
    Selection { banks, sets, node: None }.compile(palette).unwrap_err().to_string()
}

#[test]
fn colors_that_do_not_exist_are_named() {
    let skylake = palette("skl-e3-1220v5-4x4g");
    assert_eq!(refusal(&skylake, set("3,16"), None), "bank class 16 does not exist, classes are 0-15");
    assert_eq!(refusal(&skylake, None, set("500")), "set color 500 does not exist, set colors are 0-127");
    assert_eq!(
        refusal(&palette("zen3-ddr4-1r"), set("1"), None),
        "bank class 1 does not exist, classes are 0 only: there is nothing to isolate"
    );
    assert!(refusal(&skylake, set("none"), None).contains("the set of bank classes is empty"));
}

#[test]
fn pairs_that_do_not_exist_are_named_with_those_that_do() {
    // ZCU102: class bits are address bits 13-16, color bits 12-15, so class c goes with colors 2(c mod 8) and one more.
    let zcu102 = palette("zcu102-reva");
    let message = refusal(&zcu102, set("3"), set("5"));
    assert_eq!(message, "no frame has both bank class 3 and set color 5; the set colors it can have are 6-7");
    let message = refusal(&zcu102, set("3-4"), set("0-1"));
    assert!(message.starts_with("no frame has both any of bank classes 3-4 and any of set colors 0-1"), "{message}");
}

#[test]
fn a_walk_of_a_large_machine_jumps() {
    // 4096 granules of one pair among four million: a scan of this debug build would take seconds, a walk does not.
    let palette = palette("skl-e3-1220v5-4x4g");
    let pair = palette.pairs()[palette.pairs().len() / 2];
    let one = |index| Some(IndexSet::from_indices([index], 1 << 20).unwrap());
    let selection = Selection { banks: one(pair.bank_class), sets: one(pair.set_color), node: None };
    let matcher = selection.compile(&palette).unwrap();
    let everything = PhysAddr(0)..PhysAddr(u64::MAX);
    let walked: Vec<PhysAddr> = matcher.enumerate(everything.clone()).collect();
    assert_eq!(walked.len() as u64, pair.granules);
    assert!(walked.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(walked.iter().all(|addr| matcher.matches(addr.pfn())));
    let by_palette = palette.enumerate(selection.banks.as_ref(), selection.sets.as_ref(), everything).unwrap();
    assert!(by_palette.eq(walked.iter().copied()));
    // Any range is a cut of the whole walk.
    let (start, end) = (walked[walked.len() / 3], walked[walked.len() / 2]);
    assert!(matcher.enumerate(start..end).eq(walked.iter().copied().filter(|&addr| start <= addr && addr < end)));
}

#[test]
fn empty_and_reversed_ranges_are_empty_walks() {
    let matcher = Selection::default().compile(&palette("nehalem-w3530")).unwrap();
    let count = |start: u64, end: u64| matcher.enumerate(PhysAddr(start)..PhysAddr(end)).count();
    assert_eq!((count(0, 0), count(8192, 4096), count(1, 8192), count(u64::MAX, u64::MAX)), (0, 0, 1, 0));
    assert_eq!((count(4 << 30, u64::MAX), count((4 << 30) - 4096, u64::MAX)), (0, 1));
    assert!((matcher.fraction() - 1.0).abs() < f64::EPSILON);
}

/// A region of nine pages in the first round of three channels, whose blocks have eight: it ends low in its second block.
#[test]
fn a_walk_behind_a_modulo_interleave_misses_nothing_in_its_only_round() {
    let text = r#"
        schema = 1
        id = "one-round"
        name = "one round"
        [dram]
        standard = "DDR4"
        address_bits = 16
        functions = [{ role = "bank", bits = [14] }]
        complete = false
        source = "made up"
        [[region]]
        base = "16 KiB"
        size = "36 KiB"
        dram_base = "12 KiB"
        interleave = { ways = 3, granularity = "32 KiB" }
        source = "made up"
    "#;
    let palette = Palette::new(&Platform::parse(text, "one-round.toml").unwrap(), Granule::PAGE).unwrap();
    for class in 0..palette.bank_classes() {
        let Ok(matcher) = (Selection { banks: set(&class.to_string()), sets: None, node: None }).compile(&palette)
        else {
            continue;
        };
        let filtered: Vec<PhysAddr> =
            (4..13).map(memtint_units::Pfn).filter(|&pfn| matcher.matches(pfn)).map(memtint_units::Pfn::addr).collect();
        let walked: Vec<PhysAddr> = matcher.enumerate(PhysAddr(0)..PhysAddr(1 << 16)).collect();
        assert!(!walked.is_empty());
        assert_eq!(walked, filtered, "class {class}");
    }
}

#[test]
fn a_walk_behind_a_modulo_interleave_misses_no_round() {
    let palette = palette("skx-open-3ch1r");
    let range = PhysAddr(5 << 12)..PhysAddr(96 << 20);
    for (banks, sets) in [(set("0-47"), None), (set("17"), None), (set("0,16,32"), set("3,9-12")), (None, set("31"))] {
        let matcher = Selection { banks, sets, node: None }.compile(&palette).unwrap();
        let filtered = (5..(96 << 20) >> 12).map(memtint_units::Pfn).filter(|&pfn| matcher.matches(pfn));
        assert!(matcher.enumerate(range.clone()).eq(filtered.map(memtint_units::Pfn::addr)));
    }
}
