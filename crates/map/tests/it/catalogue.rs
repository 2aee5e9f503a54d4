//! Does every file of the catalogue load, and does it say what independent sources say?

use memtint_map::{Granule, Palette, PaletteError, Platform, Role, catalogue, mapfile};
use memtint_units::PhysAddr;

/// Computed apart from this crate, by enumerating spans as sets: name, banks, banks touched by a 4 KiB page, bank classes
/// at 4 KiB, 64 KiB and 2 MiB (0: refused), set colors at 4 KiB.
#[rustfmt::skip]
const EXPECTED: &[(&str, u32, u32, [u32; 3], u32)] = &[
    ("amd-df2-2ch-hash", 2, 2, [1, 1, 1], 1),
    ("amd-df3-8ch-hash", 8, 2, [4, 1, 1], 1),
    ("amd-df4-8ch-hash", 8, 2, [4, 1, 1], 1),
    ("amd-f10h-chan-mode2", 2, 2, [1, 1, 1], 1),
    ("cfl-1ch1r", 16, 2, [8, 2, 1], 1),
    ("cfl-1ch2r", 32, 2, [16, 4, 1], 1),
    ("cfl-2ch1r-trrespass", 32, 4, [8, 4, 1], 1),
    ("core-i7-860-bpm", 64, 2, [32, 4, 4], 128),
    ("core2quad-8400", 1, 1, [1, 1, 1], 64),
    ("core2quad-8400-assumed-banks", 32, 1, [32, 4, 4], 64),
    ("exynos4412", 16, 2, [8, 1, 1], 16),
    ("haswell-e3-1230", 16, 1, [16, 2, 1], 128),
    ("hsw-ep-chan-hash-edac", 4, 4, [1, 1, 1], 1),
    ("imx8m-4gb-lpddr4", 8, 1, [8, 1, 1], 1),
    ("imx8mm-evk", 8, 1, [8, 1, 1], 1),
    ("jetson-nano", 16, 4, [4, 1, 1], 32),
    ("lynnfield-i7-860-bpm", 32, 1, [32, 4, 4], 128),
    ("nehalem-w3530", 16, 1, [16, 4, 1], 128),
    ("nehalem-w3553", 32, 1, [32, 8, 2], 1),
    ("opteron-6128-camc", 128, 4, [32, 16, 4], 32),
    ("opteron-6128-tintmalloc", 128, 2, [64, 16, 4], 32),
    ("orin-agx", 256, 8, [32, 4, 1], 1),
    ("p4080", 32, 2, [16, 4, 1], 16),
    ("ramses-ivyhaswell-1ch1d1r", 8, 1, [8, 1, 1], 32),
    ("ramses-ivyhaswell-1ch1d2r", 16, 1, [16, 2, 1], 32),
    ("ramses-ivyhaswell-1ch2d1r", 16, 1, [16, 2, 1], 32),
    ("ramses-ivyhaswell-1ch2d2r", 32, 1, [32, 4, 1], 32),
    ("ramses-ivyhaswell-2ch1d1r", 16, 2, [8, 2, 1], 32),
    ("ramses-ivyhaswell-2ch1d2r", 32, 2, [16, 4, 1], 32),
    ("ramses-ivyhaswell-2ch2d2r", 64, 2, [32, 8, 1], 32),
    ("ramses-sandy-1ch1d1r", 8, 1, [8, 1, 1], 32),
    ("ramses-sandy-1ch1d2r", 16, 1, [16, 2, 1], 32),
    ("ramses-sandy-1ch2d1r", 16, 1, [16, 2, 1], 32),
    ("ramses-sandy-1ch2d2r", 32, 1, [32, 4, 1], 32),
    ("ramses-sandy-2ch1d1r", 16, 2, [8, 2, 1], 32),
    ("ramses-sandy-2ch2d1r", 32, 2, [16, 4, 1], 32),
    ("ramses-sandy-2ch2d2r", 64, 2, [32, 8, 1], 32),
    ("rpi-zero2", 8, 1, [8, 1, 1], 1),
    ("rpi4-2g", 8, 1, [8, 1, 1], 16),
    ("rpi5-4g-banklow4", 16, 1, [16, 2, 2], 1),
    ("rpl-ddr5-1r", 64, 4, [16, 4, 1], 1),
    ("sandy-i5-2400-pinpoint", 8, 1, [8, 2, 1], 128),
    ("sandy-seaborn-2x4g", 32, 2, [16, 4, 1], 32),
    ("simplescalar-rtmemcontroller", 8, 1, [8, 4, 1], 8),
    ("simplescalar-rtmemcontroller-interleaved", 64, 8, [8, 4, 1], 8),
    ("skl-client-2ch2r-drama", 64, 4, [16, 8, 1], 128),
    ("skl-e3-1220v5-4x4g", 64, 4, [16, 8, 1], 128),
    ("skl-i5-6200u-xps13", 32, 2, [16, 4, 1], 1),
    ("skx-open-1ch1r", 16, 1, [16, 8, 1], 32),
    ("skx-open-3ch1r", 48, 1, [48, 0, 0], 32),
    ("skx-open-fine-1ch1r", 16, 2, [8, 8, 1], 32),
    ("xeon-w3530-palloc", 16, 1, [16, 4, 1], 128),
    ("zcu102-reva", 16, 1, [16, 2, 1], 16),
    ("zen1plus-ddr4-1r", 16, 2, [8, 2, 1], 1),
    ("zen2-3900x-amdre", 32, 2, [16, 4, 1], 1),
    ("zen2-ddr4-1r", 16, 2, [8, 2, 1], 1),
    ("zen2-ddr4-2r", 32, 2, [16, 4, 1], 1),
    ("zen3-ddr4-1r", 16, 16, [1, 1, 1], 1),
    ("zen3-ddr4-2r-full", 32, 16, [2, 2, 1], 1),
    ("zen3-ddr4-2r", 32, 16, [2, 2, 1], 1),
    ("zen4-ddr5-1r-full", 64, 32, [2, 1, 1], 1),
    ("zen4-ddr5-1r8bg", 64, 32, [2, 1, 1], 1),
    ("zen4-ddr5-2r8bg", 128, 32, [4, 2, 1], 1),
];

fn palette(name: &str, granule: &str) -> Palette {
    Palette::new(&Platform::load(name).unwrap(), granule.parse().unwrap()).unwrap()
}

#[test]
fn every_file_loads_under_its_own_name() {
    for name in catalogue::names() {
        let platform = Platform::load(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(platform.id(), name);
        let printed = platform.file().to_toml();
        let again = Platform::parse(&printed, name).unwrap_or_else(|error| panic!("{error}\n{printed}"));
        assert_eq!(again.file(), platform.file(), "{name}");
    }
}

#[test]
fn every_file_has_a_palette_at_every_granule_or_says_why_not() {
    for name in catalogue::names() {
        let platform = Platform::load(name).unwrap();
        for granule in Granule::every() {
            let whole = |region: &memtint_map::Region| {
                (region.end().0 / granule.bytes()).saturating_sub(region.base.0.div_ceil(granule.bytes()))
            };
            match Palette::new(&platform, granule) {
                Ok(palette) => {
                    assert_eq!(palette.granules(), platform.regions().iter().map(whole).sum::<u64>(), "{name}");
                }
                Err(error) => assert!(matches!(error, PaletteError::ModuloInsideGranule { .. }), "{name}: {error}"),
            }
        }
    }
}

#[test]
fn the_table_of_expectations_covers_the_catalogue() {
    let mut expected: Vec<&str> = EXPECTED.iter().map(|row| row.0).collect();
    expected.sort_unstable();
    assert!(expected.into_iter().eq(catalogue::names()));
}

#[test]
fn classes_are_those_computed_elsewhere() {
    for &(name, banks, per_page, classes, set_colors) in EXPECTED {
        let platform = Platform::load(name).unwrap();
        for (granule, expected) in ["4K", "64K", "2M"].into_iter().zip(classes) {
            let palette = Palette::new(&platform, granule.parse().unwrap());
            assert_eq!(palette.as_ref().map_or(0, Palette::bank_classes), expected, "{name} at {granule}");
            let Ok(palette) = palette else { continue };
            assert_eq!(palette.banks(), banks, "{name}");
            assert_eq!(palette.bank_classes() * palette.banks_per_granule(), banks, "{name} at {granule}");
        }
        let page = palette(name, "4K");
        assert_eq!((page.banks_per_granule(), page.set_colors()), (per_page, set_colors), "{name}");
    }
}

/// The published table of PALLOC's bins against disjoint colors, for its machines that are in the catalogue: banks,
/// banks touched by a page, disjoint colors at 4 KiB, 64 KiB and 2 MiB, banks that the two halves of the bins share.
#[test]
fn classes_and_halves_are_those_of_the_published_evaluation() {
    for (name, banks, per_page, colors, shared) in [
        ("skl-i5-6200u-xps13", 32, 2, [16, 4, 1], 32),
        ("nehalem-w3553", 32, 1, [32, 8, 2], 0),
        ("skl-e3-1220v5-4x4g", 64, 4, [16, 8, 1], 64),
        ("rpi-zero2", 8, 1, [8, 1, 1], 0),
        ("rpi4-2g", 8, 1, [8, 1, 1], 0),
        ("rpi5-4g-banklow4", 16, 1, [16, 2, 2], 0),
        ("jetson-nano", 16, 4, [4, 1, 1], 16),
        ("orin-agx", 256, 8, [32, 4, 1], 0),
    ] {
        let page = palette(name, "4K");
        assert_eq!(
            (page.banks(), page.banks_per_granule(), page.reachable_raw_banks()),
            (banks, per_page, banks),
            "{name}"
        );
        assert_eq!(page.raw_halves_shared(), shared, "{name}");
        for (granule, expected) in ["4K", "64K", "2M"].into_iter().zip(colors) {
            assert_eq!(palette(name, granule).bank_classes(), expected, "{name} at {granule}");
        }
    }
}

/// A function without a bit above the page makes half of PALLOC's bins unreachable, as on the Ryzen 9900X.
#[test]
fn a_function_inside_the_page_leaves_bins_unreachable() {
    let file = mapfile::to_platform_file("x", &mapfile::parse("13\n14\n8\n", "x").unwrap(), 1 << 30, "test");
    let palette = Palette::new(&Platform::from_file(file, "x").unwrap(), Granule::PAGE).unwrap();
    assert_eq!((palette.banks(), palette.reachable_raw_banks(), palette.bank_classes()), (8, 4, 4));
    assert_eq!(palette.raw_halves_shared(), 0, "every bin is in the lower half, so the split is no split");
}

#[test]
fn bank_and_set_partitions_overlap_as_published() {
    // i7-860: bits 13-15 are both; of 32 classes x 128 set colors each class has only 16 set colors.
    let bpm = palette("core-i7-860-bpm", "4K");
    assert_eq!((bpm.banks(), bpm.bank_classes(), bpm.set_colors(), bpm.pairs().len()), (64, 32, 128, 32 * 16));
    // W3530: bits 12 and 13 are both (PALLOC, section VI).
    let palloc = palette("xeon-w3530-palloc", "4K");
    assert_eq!((palloc.bank_classes(), palloc.set_colors(), palloc.pairs().len()), (16, 128, 16 * 32));
    assert!(palloc.pairs().iter().all(|pair| pair.granules == (4 << 18) / 512));
    // ZCU102: bits 13-15 are both.
    assert_eq!(palette("zcu102-reva", "4K").pairs().len(), 16 * 16 / 8);
}

#[test]
fn offset_rules_are_those_of_the_sources() {
    let dram =
        |name: &str, addr: u64| Platform::load(name).unwrap().locate(PhysAddr(addr)).map(|found| found.dram_addr);
    // Zen: nothing below the hole is moved, above 4 GiB the hole's size is subtracted; the hole itself is no memory.
    assert_eq!(dram("zen4-ddr5-1r-full", 0x1000), Some(0x1000));
    assert_eq!(dram("zen4-ddr5-1r-full", 0x8000_0000), None);
    assert_eq!(dram("zen4-ddr5-1r-full", 0x1_0000_0000), Some(0x8000_0000));
    assert_eq!(dram("zen4-ddr5-1r-full", (18 << 30) - 1), Some((16 << 30) - 1));
    assert_eq!(dram("zen4-ddr5-1r-full", 18 << 30), None);
    // Intel reclaim: only what lies behind the hole moves, to the top of memory.
    assert_eq!(dram("ramses-sandy-2ch2d2r", 0x1_0000_0000), Some(0x1_0000_0000));
    assert_eq!(dram("ramses-sandy-2ch2d2r", 0x4_0000_0000), Some(0xe000_0000));
    // ZynqMP: the second half is a high window.
    assert_eq!(dram("zcu102-reva", 0x8_0000_0000), Some(0x8000_0000));
    assert_eq!(dram("zcu102-reva", 0x8000_0000), None);
    // A base that is not zero.
    assert_eq!(dram("imx8mm-evk", 0x4000_0000), Some(0));
}

#[test]
fn three_channels_are_told_apart_by_a_modulus() {
    let platform = Platform::load("skx-open-3ch1r").unwrap();
    let page = Palette::new(&platform, Granule::PAGE).unwrap();
    assert_eq!((page.banks(), page.bank_classes()), (48, 48));
    // Neighbouring pages go round the channels; the channel is the upper digit of the class.
    let channels: Vec<u32> =
        (0..6).map(|page_number| page.bank_class(PhysAddr(page_number << 12)).unwrap() / 16).collect();
    assert_eq!(channels, [0, 1, 2, 0, 1, 2]);
    assert_eq!(page.granules_of_bank_classes().iter().sum::<u64>(), 24 << 18);
    let refusal = Palette::new(&platform, "8K".parse().unwrap()).unwrap_err().to_string();
    assert!(refusal.contains("interleaves 3 channels in blocks of 4 KiB, less than the granule 8 KiB"), "{refusal}");
}

/// Granules of 64 KiB are refused because memtint does not compute their classes, not because there are none: pages that share a
/// granule connect their banks, and on this machine eight groups stay apart.
#[test]
fn larger_granules_of_three_channels_have_classes_that_are_not_computed() {
    let platform = Platform::load("skx-open-3ch1r").unwrap();
    let page = Palette::new(&platform, Granule::PAGE).unwrap();
    let mut group: Vec<u32> = (0..page.bank_classes()).collect();
    // 3 x 64 MiB: above all bits that the bank functions use, once for each channel.
    for granule in 0..(3 << 26) >> 16 {
        let classes: Vec<u32> =
            (0..16).map(|at| page.bank_class(PhysAddr(granule << 16 | at << 12)).unwrap()).collect();
        let first = group[classes[0] as usize];
        for class in classes {
            let old = group[class as usize];
            group.iter_mut().filter(|own| **own == old).for_each(|own| *own = first);
        }
    }
    group.sort_unstable();
    group.dedup();
    assert_eq!(group.len(), 8);
    let refusal = Palette::new(&platform, "64K".parse().unwrap()).unwrap_err().to_string();
    assert!(refusal.contains("memtint computes the classes of granules inside one block only"), "{refusal}");
    assert!(refusal.ends_with("accepted is a granule of at most 4 KiB"), "{refusal}");
}

/// Numbers of classes that no memory has are numbers, and isolate nothing.
#[test]
fn classes_without_memory_are_not_counted() {
    let text = std::fs::read_to_string("../../platforms/skl-e3-1220v5-4x4g.toml").unwrap();
    let all = Palette::new(&Platform::parse(&text, "all").unwrap(), Granule::PAGE).unwrap();
    assert_eq!((all.bank_classes(), all.occupied_bank_classes()), (16, 16));
    let mut file = Platform::parse(&text, "part").unwrap().file().clone();
    file.region.truncate(1);
    (file.region[0].base, file.region[0].size) = (memtint_units::ByteSize(0), memtint_units::ByteSize(64 << 10));
    let part = Palette::new(&Platform::from_file(file, "part").unwrap(), Granule::PAGE).unwrap();
    let granules = part.granules_of_bank_classes();
    assert_eq!((part.bank_classes(), granules.iter().sum::<u64>()), (16, 16));
    let with_memory = granules.iter().filter(|&&granules| granules > 0).count() as u32;
    assert!(part.occupied_bank_classes() == with_memory && with_memory < 16, "{granules:?}");
}

#[test]
fn facts_that_are_not_published_are_marked() {
    let opteron = Platform::load("opteron-6128-tintmalloc").unwrap();
    let assumed: Vec<Role> = opteron.functions().iter().filter(|function| function.assumed).map(|f| f.role).collect();
    assert_eq!(assumed, [Role::Channel]);
    assert!(opteron.regions().iter().all(|region| region.assumed));
    assert!(Platform::load("p4080").unwrap().functions().iter().all(|function| function.assumed));
    assert_eq!(palette("core2quad-8400", "4K").bank_classes(), 1);
}

#[test]
fn unknown_names_are_answered_with_near_ones() {
    let message = Platform::load("zen4-ddr5").unwrap_err().to_string();
    assert!(message.contains("platform \"zen4-ddr5\"") && message.contains("zen4-ddr5-1r-full"), "{message}");
    let message = Platform::load("./no/such.toml").unwrap_err().to_string();
    assert!(message.contains("./no/such.toml"), "{message}");
}
