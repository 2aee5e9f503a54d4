//! Do the laws hold? Colors against brute force on small address spaces, for random functions, offsets and caches.
//!
//! The reference below evaluates functions bit by bit from the file's lists and looks at every 64-byte line; it shares no
//! code with the crate.

use memtint_map::file::{
    DramSection, FunctionSection, InterleaveSection, LlcSection, RegionSection, Role, SCHEMA, SliceHash,
};
use memtint_map::{Granule, Palette, Platform, PlatformFile, Selection, mapfile};
use memtint_units::{ByteSize, IndexSet, Pfn, PhysAddr};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const PAGE: u64 = 4096;
const LINE: u64 = 64;

/// What a strategy draws before it is made into a file that must be accepted.
#[derive(Clone, Debug)]
struct Draw {
    address_bits: u32,
    functions: Vec<u64>,
    node_function: bool,
    set_low: u32,
    set_count: u32,
    slices: Vec<u64>,
    /// Gap before, size, both in pages; granules taken out of the gap in DRAM addresses; node.
    regions: Vec<(u64, u64, u64, u32)>,
    interleave: Option<(u32, u32)>,
    granule_shift: u32,
}

fn draws() -> impl Strategy<Value = Draw> {
    let region = (0u64..12, 1u64..70, 0u64..4, 0u32..3);
    (
        (14u32..=20, prop::collection::vec(any::<u64>(), 0..=6), any::<bool>()),
        (6u32..9, 0u32..=8, prop::collection::vec(any::<u64>(), 0..=3)),
        prop::collection::vec(region, 1..=3),
        prop::option::weighted(0.4, (prop::sample::select(vec![3u32, 5, 6]), 12u32..=15)),
        12u32..=16,
    )
        .prop_map(
            |((address_bits, functions, node_function), (set_low, set_count, slices), regions, interleave, shift)| {
                let granule_shift = interleave.map_or(shift, |(_, block)| shift.min(block));
                Draw {
                    address_bits,
                    functions,
                    node_function,
                    set_low,
                    set_count,
                    slices,
                    regions,
                    interleave,
                    granule_shift,
                }
            },
        )
}

fn bits_of(mask: u64) -> Vec<u32> {
    (0..64).filter(|bit| mask >> bit & 1 == 1).collect()
}

/// Keeps the masks that are independent of those before, by trying every sum.
fn independent(masks: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut sums = BTreeSet::from([0u64]);
    let mut kept = Vec::new();
    for mask in masks {
        if !sums.contains(&mask) {
            sums = sums.iter().flat_map(|&sum| [sum, sum ^ mask]).collect();
            kept.push(mask);
        }
    }
    kept
}

impl Draw {
    fn granule(&self) -> Granule {
        Granule::from_bytes(1 << self.granule_shift).unwrap()
    }

    fn file(&self) -> PlatformFile {
        let space = (1u64 << self.address_bits) - 1;
        let masks = independent(self.functions.iter().map(|mask| mask & space & !(LINE - 1)));
        let function = |(index, &mask): (usize, &u64)| FunctionSection {
            role: if index == 0 && self.node_function { Role::Node } else { Role::Unknown },
            bit: None,
            bits: bits_of(mask),
            assumed: false,
        };
        PlatformFile {
            schema: SCHEMA,
            id: "drawn".to_owned(),
            name: "drawn".to_owned(),
            uarch: None,
            notes: None,
            dram: DramSection {
                standard: "DDR4".to_owned(),
                channels: None,
                dimms: None,
                ranks: None,
                banks: None,
                bank_groups: None,
                address_bits: self.address_bits,
                functions: masks.iter().enumerate().map(function).collect(),
                row_bits: None,
                row_functions: None,
                column_bits: None,
                complete: false,
                source_kind: None,
                source: "drawn".to_owned(),
            },
            region: self.regions(),
            llc: self.llc(),
            cache: Vec::new(),
            cores: None,
        }
    }

    fn regions(&self) -> Vec<RegionSection> {
        let granule_pages = 1 << (self.granule_shift - 12);
        let pages = 1u64 << (self.address_bits - 12);
        let (mut next, mut moved, mut sections) = (0u64, 0u64, Vec::new());
        for &(gap, size, taken, node) in &self.regions {
            let base = next + gap;
            moved += taken.min(gap / granule_pages) * granule_pages;
            if base >= pages {
                break;
            }
            let size = size.min(pages - base);
            sections.push(RegionSection {
                base: ByteSize(base * PAGE),
                size: ByteSize(size * PAGE),
                node: node << u32::from(self.node_function),
                dram_base: Some(ByteSize((base - moved) * PAGE)),
                interleave: self
                    .interleave
                    .map(|(ways, shift)| InterleaveSection { ways, granularity: ByteSize(1 << shift) }),
                assumed: false,
                source: "drawn".to_owned(),
            });
            next = base + size;
        }
        sections
    }

    fn llc(&self) -> Option<LlcSection> {
        let set_bits: Vec<u32> = (self.set_low..self.set_low + self.set_count).collect();
        let sets = set_bits.iter().map(|&bit| 1u64 << bit);
        let space = (1u64 << self.address_bits) - 1;
        let drawn = self.slices.iter().map(|mask| mask & space & !(LINE - 1));
        // Set bits first, so that what is kept of the slice functions is independent of them.
        let slices: Vec<u64> = independent(sets.chain(drawn)).split_off(set_bits.len());
        (self.set_count > 0).then(|| LlcSection {
            size: None,
            ways: None,
            line: ByteSize(LINE),
            slices: Some(1 << slices.len()),
            instances: None,
            set_bits,
            hash: if slices.is_empty() { SliceHash::None } else { SliceHash::Linear },
            slice_functions: slices.into_iter().map(bits_of).collect(),
            formula: None,
            not_modelled: None,
            assumed: false,
            source: "drawn".to_owned(),
        })
    }
}

fn xor_of(bits: &[u32], addr: u64) -> u64 {
    bits.iter().fold(0, |sum, bit| sum ^ (addr >> bit & 1))
}

/// What a byte reaches, slowly: (node of the region, channel of the interleave, function values).
fn bank_of(file: &PlatformFile, addr: u64) -> Option<(u32, u64, Vec<u64>)> {
    let region = file.region.iter().find(|r| (r.base.0..r.base.0 + r.size.0).contains(&addr))?;
    let mut dram = addr - region.base.0 + region.dram_base.unwrap().0;
    let mut channel = 0;
    if let Some(rule) = &region.interleave {
        let (block, rest) = (dram / rule.granularity.0, dram % rule.granularity.0);
        channel = block % u64::from(rule.ways);
        dram = block / u64::from(rule.ways) * rule.granularity.0 + rest;
    }
    Some((region.node, channel, file.dram.functions.iter().map(|function| xor_of(&function.bits, dram)).collect()))
}

fn set_of(file: &PlatformFile, addr: u64) -> Vec<u64> {
    let Some(llc) = &file.llc else { return Vec::new() };
    let slices = llc.slice_functions.iter().map(|bits| xor_of(bits, addr));
    slices.chain(llc.set_bits.iter().map(|bit| addr >> bit & 1)).collect()
}

type Touched = (BTreeSet<(u32, u64, Vec<u64>)>, BTreeSet<Vec<u64>>);

/// Every whole granule inside a region with all banks and sets its lines reach.
fn granules(file: &PlatformFile, granule: Granule) -> BTreeMap<u64, Touched> {
    let size = granule.bytes();
    let mut all = BTreeMap::new();
    for region in &file.region {
        let mut base = region.base.0.next_multiple_of(size);
        while base + size <= region.base.0 + region.size.0 {
            let lines = (base..base + size).step_by(LINE as usize);
            let banks = lines.clone().map(|line| bank_of(file, line).unwrap()).collect();
            all.insert(base, (banks, lines.map(|line| set_of(file, line)).collect()));
            base += size;
        }
    }
    all
}

/// The raw bank number as the documentation says, from domains sorted by node and channel.
fn raw_number(file: &PlatformFile, bank: &(u32, u64, Vec<u64>)) -> u32 {
    let ways = file.region[0].interleave.as_ref().map_or(1, |rule| u64::from(rule.ways));
    let nodes: BTreeSet<u32> = file.region.iter().map(|region| region.node).collect();
    let node = nodes.iter().position(|&node| node == bank.0).unwrap() as u64;
    let values = bank.2.iter().enumerate().fold(0, |sum, (index, value)| sum | value << index);
    (((node * ways + bank.1) << bank.2.len()) + values) as u32
}

/// Checks that equal indices mean equal sets and different indices disjoint sets.
fn check_partition<T: Ord + Clone + std::fmt::Debug>(indexed: impl Iterator<Item = (u32, BTreeSet<T>)>) {
    let mut of_index: BTreeMap<u32, BTreeSet<T>> = BTreeMap::new();
    let mut owner: BTreeMap<T, u32> = BTreeMap::new();
    for (index, touched) in indexed {
        for item in &touched {
            assert_eq!(*owner.entry(item.clone()).or_insert(index), index, "two indices touch {item:?}");
        }
        assert_eq!(
            *of_index.entry(index).or_insert_with(|| touched.clone()),
            touched,
            "index {index} has two meanings"
        );
    }
}

fn palette_of(draw: &Draw) -> Option<(PlatformFile, Palette)> {
    let file = draw.file();
    if file.region.is_empty() {
        return None; // the first gap was as large as the address space
    }
    let platform = Platform::from_file(file.clone(), "drawn").unwrap_or_else(|error| panic!("{error}\n{file:#?}"));
    Some((file, Palette::new(&platform, draw.granule()).unwrap_or_else(|error| panic!("{error}"))))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(320))]

    #[test]
    fn classes_are_the_partition_that_brute_force_finds(draw in draws()) {
        let Some((file, palette)) = palette_of(&draw) else { return Ok(()) };
        let granules = granules(&file, draw.granule());
        let color = |base: &u64| palette.color_of_frame(PhysAddr(*base).pfn()).unwrap();
        check_partition(granules.iter().map(|(base, touched)| (color(base).bank_class, touched.0.clone())));
        check_partition(granules.iter().map(|(base, touched)| (color(base).set_color, touched.1.clone())));
        for (base, (banks, sets)) in &granules {
            prop_assert_eq!(banks.len() as u32, palette.banks_per_granule());
            prop_assert!(palette.set_colors() as usize * sets.len() <= 1 << palette.platform().set_masks().len());
            let raw: BTreeSet<u32> = banks.iter().map(|bank| raw_number(&file, bank)).collect();
            prop_assert!(raw.into_iter().eq(palette.class_members(color(base).bank_class)));
            prop_assert_eq!(palette.platform().raw_bank(PhysAddr(*base)), bank_of(&file, *base).map(|bank| raw_number(&file, &bank)));
        }
    }

    #[test]
    fn every_page_of_a_granule_has_its_color_and_others_have_none(draw in draws()) {
        let Some((file, palette)) = palette_of(&draw) else { return Ok(()) };
        for page in 0..(1u64 << (draw.address_bits - 12)) + 20 {
            let color = palette.color_of_frame(Pfn(page));
            prop_assert_eq!(color.is_some(), bank_of(&file, page * PAGE).is_some());
            let base = draw.granule().base_of(Pfn(page).addr()).pfn();
            if let (Some(color), Some(of_base)) = (color, palette.color_of_frame(base)) {
                // A granule cut by a region's edge may begin in another region.
                if palette.platform().locate(base.addr()).map(|l| l.region) == palette.platform().locate(Pfn(page).addr()).map(|l| l.region) {
                    prop_assert_eq!(color, of_base);
                }
            }
        }
    }

    #[test]
    fn pairs_are_counted_exactly(draw in draws()) {
        let Some((file, palette)) = palette_of(&draw) else { return Ok(()) };
        let mut counts: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for base in granules(&file, draw.granule()).keys() {
            let color = palette.color_of_frame(PhysAddr(*base).pfn()).unwrap();
            *counts.entry((color.bank_class, color.set_color)).or_default() += 1;
        }
        let found = palette.pairs().iter().map(|pair| ((pair.bank_class, pair.set_color), pair.granules));
        prop_assert!(found.eq(counts));
        prop_assert_eq!(palette.granules_of_bank_classes().iter().sum::<u64>(), palette.granules());
        prop_assert_eq!(palette.granules_of_set_colors().iter().sum::<u64>(), palette.granules());
    }

    #[test]
    fn walking_equals_filtering(
        draw in draws(), classes in any::<u64>(), colors in any::<u64>(), nodes in 0u32..8,
        start in 0u64..1 << 20, length in 0u64..1 << 21,
    ) {
        let Some((file, palette)) = palette_of(&draw) else { return Ok(()) };
        let pick = |choice: u64, count: u32| {
            let chosen = (0..count).filter(|index| choice.rotate_left(*index) & 3 == 1);
            Some(IndexSet::from_indices(chosen, count).unwrap()).filter(|set| !set.is_empty())
        };
        let mut selection = Selection {
            banks: pick(classes, palette.bank_classes()), sets: pick(colors, palette.set_colors()), node: None,
        };
        let existing: BTreeSet<u32> = palette.platform().domains().iter().map(|domain| domain.node).collect();
        if nodes & 1 == 1 && palette.node_is_honored() {
            selection.node = Some(IndexSet::from_indices(existing.iter().copied().take(1), 8).unwrap());
        }
        let range = PhysAddr(start)..PhysAddr(start + length);
        let wanted = |base: &u64| {
            let color = palette.color_of_frame(PhysAddr(*base).pfn()).unwrap();
            let holds = |set: &Option<IndexSet>, index| set.as_ref().is_none_or(|set| set.contains(index));
            holds(&selection.banks, color.bank_class) && holds(&selection.sets, color.set_color) && holds(&selection.node, color.node)
        };
        let all: Vec<u64> = granules(&file, draw.granule()).into_keys().filter(wanted).collect();
        let inside: Vec<u64> = all.iter().copied()
            .filter(|base| start <= *base && base + draw.granule().bytes() <= start + length).collect();
        match selection.compile(&palette) {
            Ok(matcher) => {
                let walked: Vec<u64> = matcher.enumerate(range).map(|addr| addr.0).collect();
                prop_assert_eq!(walked, inside);
                prop_assert_eq!(matcher.granules(), all.len() as u64);
                prop_assert!((matcher.fraction() - all.len() as f64 / palette.granules() as f64).abs() < 1e-12);
                prop_assert!(all.iter().all(|base| matcher.matches(PhysAddr(*base).pfn())));
            }
            Err(_) => prop_assert!(all.is_empty()),
        }
    }

    #[test]
    fn the_class_index_is_dense_and_stable(draw in draws()) {
        let Some((file, palette)) = palette_of(&draw) else { return Ok(()) };
        let mut seen = BTreeSet::new();
        for class in 0..palette.bank_classes() {
            for member in palette.class_members(class) {
                prop_assert_eq!(palette.class_of_raw_bank(member), Some(class));
                prop_assert!(seen.insert(member));
            }
        }
        prop_assert!(seen.into_iter().eq(0..palette.banks()));
        prop_assert!(palette.class_members(palette.bank_classes()).is_empty());
        let again = Palette::new(&Platform::from_file(file, "again").unwrap(), draw.granule()).unwrap();
        for page in 0..1u64 << (draw.address_bits - 12) {
            prop_assert_eq!(palette.color_of_frame(Pfn(page)), again.color_of_frame(Pfn(page)));
        }
    }

    /// PALLOC's bin is the raw number of a page's first byte: do the halves of the bins share the banks we say they share?
    #[test]
    fn shared_halves_are_those_brute_force_finds(draw in draws()) {
        let mut draw = draw;
        draw.interleave = None;
        // One region over the whole address space, so that every bin the functions can reach is reached.
        draw.regions = vec![(0, 1 << (draw.address_bits - 12), 0, 0)];
        draw.granule_shift = draw.granule_shift.min(draw.address_bits);
        let Some((file, palette)) = palette_of(&draw) else { return Ok(()) };
        let (mut lower, mut upper, mut bins) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for (base, (banks, _)) in granules(&file, draw.granule()) {
            let bin = raw_number(&file, &bank_of(&file, base).unwrap());
            bins.insert(bin);
            if bin < palette.banks() / 2 { lower.extend(banks) } else { upper.extend(banks) }
        }
        let expected = if palette.banks() == 1 { 0 } else { lower.intersection(&upper).count() };
        prop_assert_eq!(palette.raw_halves_shared() as usize, expected);
        prop_assert_eq!(palette.reachable_raw_banks() as usize, bins.len());
    }

    #[test]
    fn platform_files_and_map_texts_survive_printing(draw in draws()) {
        let file = draw.file();
        prop_assume!(!file.region.is_empty());
        let text = file.to_toml();
        let platform = Platform::parse(&text, "printed").unwrap_or_else(|error| panic!("{error}\n{text}"));
        prop_assert_eq!(platform.file(), &file);
        if !platform.functions().is_empty() {
            let map = mapfile::of_platform(&platform);
            prop_assert_eq!(mapfile::parse(&map, "printed").unwrap(), platform.function_masks());
        }
    }

    #[test]
    fn bank_roles_and_raw_numbers_convert_both_ways(draw in draws()) {
        let Some((_, palette)) = palette_of(&draw) else { return Ok(()) };
        for raw in 0..palette.banks() {
            let roles = palette.platform().bank_roles(raw).unwrap();
            prop_assert_eq!(palette.platform().raw_bank_of(roles), Some(raw));
        }
    }
}
