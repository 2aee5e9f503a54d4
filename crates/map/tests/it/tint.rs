//! Are TintMalloc's colors converted as its text means them?

use memtint_map::{BankRoles, Granule, Palette, Platform, TintBank, TintError, TintNumbering};
use memtint_units::PhysAddr;

fn opteron() -> Platform {
    Platform::load("opteron-6128-tintmalloc").unwrap()
}

/// Pan, thesis, section 3.3.1: 4 controllers, 2 channels, 2 ranks, 8 banks, 128 colors.
#[test]
fn the_opteron_has_128_colors() {
    let platform = opteron();
    let tint = TintNumbering::new(&platform).unwrap();
    assert_eq!((tint.geometry(), tint.colors(), platform.banks()), ((4, 2, 2, 8), 128, 128));
}

/// Eq. 1 as printed reaches 415 and is not dense; the corrected one is a bijection on 0..128.
#[test]
fn the_corrected_formula_is_a_bijection_and_the_printed_one_is_not() {
    let platform = opteron();
    let tint = TintNumbering::new(&platform).unwrap();
    let banks: Vec<TintBank> = (0..platform.banks()).map(|raw| tint.bank(raw).unwrap()).collect();
    let mut colors: Vec<u32> = banks.iter().map(|&bank| tint.color(bank)).collect();
    colors.sort_unstable();
    assert!(colors.into_iter().eq(0..128));
    let printed: std::collections::BTreeSet<u32> = banks.iter().map(|&bank| tint.color_as_printed(bank)).collect();
    assert_eq!((printed.len(), printed.last()), (128, Some(&415)));
    assert_eq!(tint.color(TintBank { node: 2, channel: 1, rank: 1, bank: 5 }), ((2 * 2 + 1) * 2 + 1) * 8 + 5);
}

#[test]
fn colors_raw_banks_roles_and_classes_convert_both_ways() {
    for (name, granule) in [
        ("opteron-6128-tintmalloc", "4K"),
        ("zen4-ddr5-2r8bg", "4K"),
        ("ramses-sandy-2ch2d2r", "64K"),
        ("skx-open-3ch1r", "4K"),
        ("zcu102-reva", "4K"),
    ] {
        let platform = Platform::load(name).unwrap();
        let palette = Palette::new(&platform, granule.parse().unwrap()).unwrap();
        let tint = TintNumbering::new(&platform).unwrap();
        for raw in 0..platform.banks() {
            let roles = platform.bank_roles(raw).unwrap();
            assert_eq!(platform.raw_bank_of(roles), Some(raw), "{name}");
            let color = tint.color(tint.bank(raw).unwrap());
            assert_eq!(tint.raw_bank_of_color(color), Ok(Some(raw)), "{name}");
            let class = tint.class_of_color(&palette, color).unwrap().unwrap();
            assert_eq!(palette.class_of_raw_bank(raw), Some(class));
            assert!(palette.class_members(class).contains(&raw));
            assert!(tint.colors_of_class(&palette, class).unwrap().contains(&color));
        }
        assert_eq!(platform.bank_roles(platform.banks()), None);
        assert_eq!(platform.raw_bank_of(BankRoles { rank: 7, ..BankRoles::default() }), None);
    }
}

/// Bit 7 selects the rank and lies in every page: a page's class has two colors, so no single one can be honored.
#[test]
fn a_page_of_the_opteron_cannot_honor_the_rank() {
    let platform = opteron();
    let palette = Palette::new(&platform, Granule::PAGE).unwrap();
    let tint = TintNumbering::new(&platform).unwrap();
    assert_eq!((palette.bank_classes(), palette.banks_per_granule(), palette.set_colors()), (64, 2, 32));
    let error = tint.color_of_class(&palette, 0).unwrap_err();
    assert_eq!(
        error,
        TintError::NotHonored { class: 0, colors: vec![0, 8], inside: vec!["rank bit 0 (address bit 7)".to_owned()] }
    );
    let page = PhysAddr(0x1_0001_8000);
    let half = PhysAddr(page.0 + 128);
    assert_ne!(tint.color_at(page), tint.color_at(half));
    assert_eq!(palette.bank_class(page), palette.bank_class(half));
    let colors = tint.colors_of_class(&palette, palette.bank_class(page).unwrap()).unwrap();
    assert_eq!(colors, [tint.color_at(page).unwrap(), tint.color_at(half).unwrap()]);
}

#[test]
fn where_a_page_lies_in_one_bank_its_color_is_exact() {
    let platform = Platform::load("haswell-e3-1230").unwrap();
    assert!(matches!(TintNumbering::new(&platform), Err(TintError::UnknownRole { function: 0, .. })));
    let platform = Platform::load("zcu102-reva").unwrap();
    let palette = Palette::new(&platform, Granule::PAGE).unwrap();
    let tint = TintNumbering::new(&platform).unwrap();
    let colors: std::collections::BTreeSet<u32> =
        (0..palette.bank_classes()).map(|class| tint.color_of_class(&palette, class).unwrap()).collect();
    assert_eq!(colors.len(), 16);
    assert!(matches!(tint.color_of_class(&palette, 16), Err(TintError::OutOfRange { count: 16, .. })));
    assert!(matches!(tint.bank_of_color(16), Err(TintError::OutOfRange { count: 16, .. })));
}

#[test]
fn nodes_are_told_and_chosen() {
    let palette = Palette::new(&opteron(), Granule::PAGE).unwrap();
    assert_eq!(palette.node(PhysAddr(0x2_1234_5678)), Some(2));
    assert_eq!(palette.node(PhysAddr(16 << 30)), None);
    let selection = |text: &str| memtint_map::Selection {
        node: Some(memtint_units::IndexSet::parse(text, 100).unwrap()),
        ..Default::default()
    };
    let matcher = selection("1,3").compile(&palette).unwrap();
    assert_eq!(matcher.granules(), 2 << 20);
    assert!(matcher.matches(PhysAddr(5 << 30).pfn()) && !matcher.matches(PhysAddr(1 << 30).pfn()));
    let message = selection("1,7-9").compile(&palette).unwrap_err().to_string();
    assert_eq!(message, "node 7 does not exist, nodes are 0-3");
}
