//! Is wrong memory refused, and right memory understood?

use crate::common::{plain_bits, range, two_nodes};
use memtint_frames::{Bpm, ColorBy, FrameAllocator, FrameError, FrameMemory, FrameRange, Policy, Tinted, ZoneKind};
use memtint_map::{FrameColor, Granule, Palette, Platform};
use memtint_units::{IndexSet, Pfn};

fn refused(ranges: &[FrameRange], cpus: &[u32], color: impl Fn(Pfn) -> Option<FrameColor>) -> FrameError {
    FrameMemory::new(ranges, cpus, &ColorBy { bank_classes: 16, set_colors: 8, color }).unwrap_err()
}

fn plain(pfn: Pfn) -> Option<FrameColor> {
    Some(plain_bits(pfn))
}

#[test]
fn wrong_ranges_are_refused_with_the_frame() {
    let normal = |start, end| range(ZoneKind::Normal, 0, start, end);
    assert_eq!(refused(&[], &[0], plain), FrameError::Nothing { what: "ranges" });
    assert_eq!(refused(&[normal(0, 8)], &[], plain), FrameError::Nothing { what: "cpus" });
    let empty = FrameError::EmptyRange { range: 1, start: Pfn(9), end: Pfn(9) };
    assert_eq!(refused(&[normal(0, 8), normal(9, 9)], &[0], plain), empty);
    assert_eq!(refused(&[normal(100, 200), normal(0, 101)], &[0], plain), FrameError::Overlap { pfn: Pfn(100) });
    // Zones may meet at multiples of the largest block only.
    let next = |start, end| range(ZoneKind::Normal, 1, start, end);
    let boundary = FrameError::ZoneBoundary { pfn: Pfn(1024) };
    assert_eq!(refused(&[normal(0, 1025), next(1025, 2048)], &[0], plain), boundary);
    assert_eq!(refused(&[normal(0, 1100), next(1200, 2048)], &[0], plain), boundary);
    let large = refused(&[normal(0, 1 << 33)], &[0], plain);
    assert!(matches!(large, FrameError::TooLarge { what: "frames", found: 0x2_0000_0000, .. }), "{large}");
}

#[test]
fn wrong_colors_are_refused_with_the_frame() {
    let frames = [range(ZoneKind::Normal, 0, 0, 64)];
    let hole = |pfn: Pfn| (pfn.0 != 33).then(|| plain_bits(pfn));
    assert_eq!(refused(&frames, &[0], hole), FrameError::Uncolored { pfn: Pfn(33) });
    let bank = |pfn: Pfn| Some(FrameColor { bank_class: pfn.0 as u32, ..plain_bits(pfn) });
    let found = FrameError::ColorOutOfRange { pfn: Pfn(16), what: "bank class", found: 16, count: 16 };
    assert_eq!(refused(&frames, &[0], bank), found);
    let set = |pfn: Pfn| Some(FrameColor { set_color: 8, ..plain_bits(pfn) });
    assert!(matches!(refused(&frames, &[0], set), FrameError::ColorOutOfRange { what: "set color", .. }));
    let many = FrameMemory::new(&frames, &[0], &ColorBy { bank_classes: 1 << 12, set_colors: 1 << 12, color: plain });
    assert!(matches!(many, Err(FrameError::TooLarge { what: "pairs of bank class and set color", .. })));
    let count = [range(ZoneKind::Normal, 0, 0, 70_000)];
    let each = |pfn: Pfn| Some(FrameColor { bank_class: pfn.0 as u32, set_color: 0, node: 0 });
    let colors = FrameMemory::new(&count, &[0], &ColorBy { bank_classes: 70_000, set_colors: 1, color: each });
    assert_eq!(colors.unwrap_err(), FrameError::TooManyColors { found: 65_536 });
}

#[test]
fn frames_far_apart_cost_no_table_between_them() {
    let far = 1 << 50;
    let ranges = [range(ZoneKind::Normal, 0, 5, 90), range(ZoneKind::Normal, 1, far, far + 2048)];
    let memory = FrameMemory::new(&ranges, &[1], &ColorBy { bank_classes: 16, set_colors: 8, color: plain }).unwrap();
    assert_eq!((memory.frames(), memory.zones().len()), (85 + 2048, 2));
    assert_eq!(memory.zone(Pfn(far + 2047)), Some((ZoneKind::Normal, 1)));
    for absent in [4, 90, 1024, far - 1, far + 2048] {
        assert_eq!((memory.zone(Pfn(absent)), memory.color(Pfn(absent))), (None, None), "{absent}");
    }
    assert_eq!(memory.color(Pfn(far + 7)), Some(plain_bits(Pfn(far + 7))));
    assert_eq!((memory.node_of_cpu(0), memory.node_of_cpu(1)), (Some(1), None));
}

#[test]
fn a_color_that_occurs_on_two_nodes_is_two_colors() {
    let color =
        |pfn: Pfn| Some(FrameColor { bank_class: (pfn.0 & 1) as u32, set_color: 0, node: (pfn.0 >> 10) as u32 });
    let ranges = [range(ZoneKind::Normal, 0, 0, 1024), range(ZoneKind::Normal, 1, 1024, 2048)];
    let memory = FrameMemory::new(&ranges, &[0], &ColorBy { bank_classes: 2, set_colors: 1, color }).unwrap();
    assert_eq!(memory.colors().len(), 4);
    let one = |text: &str| Some(IndexSet::parse(text, 2).unwrap());
    let policy = Policy { banks: one("1"), nodes: one("0"), ..Policy::any() };
    assert_eq!(memory.frames_in_color(&policy), Ok(512));
    assert_eq!(Tinted::new(&memory).free_in_color(&policy), Ok(512));
}

#[test]
fn a_platforms_regions_become_zones() {
    let palette = Palette::new(&Platform::load("xeon-w3530-palloc").unwrap(), Granule::PAGE).unwrap();
    let memory = FrameMemory::of_palette(&palette, &[0]).unwrap();
    assert_eq!(memory.frames(), 1 << 20);
    assert_eq!(memory.zones(), [(ZoneKind::Dma, 0), (ZoneKind::Dma32, 0)]);
    assert_eq!(memory.zone(Pfn(4095)), Some((ZoneKind::Dma, 0)));
    assert_eq!(memory.zone(Pfn(4096)), Some((ZoneKind::Dma32, 0)));
    assert_eq!(memory.frames_in_color(&crate::common::banks("0-3", &memory)), Ok(1 << 18));
    assert_eq!(two_nodes().zones().len(), 3);
}

/// A part stands for the whole where allocators are asked what they refuse.
#[test]
fn a_sketch_has_the_colors_of_the_whole() {
    let (mut small, mut smallest) = (0, u64::MAX);
    for name in memtint_map::catalogue::names() {
        let platform = Platform::load(name).unwrap();
        // Larger ones take long; the one has four nodes, the other repeats in DRAM other than in memory.
        let large = ["opteron-6128-tintmalloc", "ramses-ivyhaswell-1ch2d1r"].contains(&name);
        if platform.size_bytes() > 2 << 30 && !large {
            continue;
        }
        for granule in [Granule::PAGE, Granule::MAX].into_iter().take(if large { 1 } else { 2 }) {
            let Ok(palette) = Palette::new(&platform, granule) else { continue };
            let whole = FrameMemory::of_palette(&palette, &[0]);
            let sketch = FrameMemory::sketch_of_palette(&palette, &[0]);
            let (whole, sketch) = match (whole, sketch) {
                (Ok(whole), Ok(sketch)) => (whole, sketch),
                (whole, sketch) => {
                    assert_eq!(whole.unwrap_err(), sketch.unwrap_err(), "{name}");
                    continue;
                }
            };
            assert_eq!(whole.colors(), sketch.colors(), "{name} {granule}");
            assert!(sketch.frames() == whole.frames() || sketch.frames() <= 64 << 10, "{name} {granule}");
            assert_eq!(Bpm::new(&whole).is_ok(), Bpm::new(&sketch).is_ok(), "{name} {granule}");
            small += usize::from(sketch.frames() < whole.frames());
            smallest = smallest.min(sketch.frames());
        }
    }
    assert!(small > 6 && smallest <= 4096, "{small} sketches, the smallest of {smallest} frames");
}

/// What is wrong with ranges shows in the sketch as well, though no frame of them is in it.
#[test]
fn a_sketch_is_refused_when_the_whole_is() {
    let file = |second: &str| {
        let text = memtint_map::catalogue::text("xeon-w3530-palloc").unwrap();
        let region = text.find("[[region]]").unwrap();
        let first = "[[region]]\nbase = \"0x0\"\nsize = \"1 GiB\"\nsource = \"test\"\n";
        format!("{}{first}{second}", &text[..region])
    };
    for second in [
        "",
        "[[region]]\nbase = \"0x40000000\"\nsize = \"1 GiB\"\nsource = \"test\"\n",
        "[[region]]\nbase = \"0x40002000\"\nsize = \"1 GiB\"\nsource = \"test\"\n",
        "[[region]]\nbase = \"0x40002000\"\ndram_base = \"0x40000000\"\nsize = \"1 GiB\"\nsource = \"test\"\n",
    ] {
        let platform = Platform::parse(&file(second), "test").unwrap();
        let palette = Palette::new(&platform, Granule::PAGE).unwrap();
        let [whole, sketch] =
            [FrameMemory::of_palette, FrameMemory::sketch_of_palette].map(|make| make(&palette, &[0]));
        match (whole, sketch) {
            (Ok(whole), Ok(sketch)) => assert_eq!(whole.colors(), sketch.colors(), "{second}"),
            (whole, sketch) => assert_eq!(whole.unwrap_err(), sketch.unwrap_err(), "{second}"),
        }
    }
    let palette = Palette::new(&Platform::load("xeon-w3530-palloc").unwrap(), Granule::PAGE).unwrap();
    let nobody = [FrameMemory::of_palette, FrameMemory::sketch_of_palette].map(|make| make(&palette, &[]).unwrap_err());
    assert_eq!(nobody, [FrameError::Nothing { what: "cpus" }, FrameError::Nothing { what: "cpus" }]);
}
