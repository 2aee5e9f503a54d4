//! Do the laws hold? Printing and parsing are inverse, sets behave as sets, and nonsense never panics.

use memtint_units::{ByteSize, IndexList, IndexSet, PAGE_SIZE, Pfn, PhysAddr};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn sets() -> impl Strategy<Value = (BTreeSet<u32>, u32)> {
    (1u32..200).prop_flat_map(|limit| (prop::collection::btree_set(0..limit, 0..40), Just(limit)))
}

proptest! {
    #[test]
    fn sets_print_and_parse((indices, limit) in sets()) {
        let set = IndexSet::from_indices(indices.iter().copied(), limit).unwrap();
        prop_assert_eq!(IndexSet::parse(&set.to_string(), limit), Ok(set.clone()));
        prop_assert!(set.iter().eq(indices.iter().copied()));
        prop_assert_eq!((set.len() as usize, set.is_empty()), (indices.len(), indices.is_empty()));
        prop_assert!((0..limit + 5).all(|index| set.contains(index) == indices.contains(&index)));
    }

    #[test]
    fn an_exclamation_mark_is_the_complement((indices, limit) in sets()) {
        prop_assume!(!indices.is_empty());
        let set = IndexSet::from_indices(indices.iter().copied(), limit).unwrap();
        let rest = IndexSet::parse(&format!("!{set}"), limit).unwrap();
        prop_assert!(rest.iter().eq((0..limit).filter(|index| !indices.contains(index))));
        prop_assert!(rest.intersection(&set).is_empty());
    }

    #[test]
    fn intersections_are_those_of_sets((a, limit) in sets(), (b, other) in sets()) {
        let of = |indices: &BTreeSet<u32>, limit| IndexSet::from_indices(indices.iter().copied(), limit).unwrap();
        let both = of(&a, limit).intersection(&of(&b, other));
        prop_assert!(both.iter().eq(a.intersection(&b).copied()));
    }

    #[test]
    fn order_duplicates_and_spaces_do_not_matter(items in prop::collection::vec((0u32..50, 0u32..10), 1..10)) {
        let text: Vec<String> = items.iter().map(|(first, more)| format!(" {first} - {} ", first + more)).collect();
        let expected: BTreeSet<u32> = items.iter().flat_map(|&(first, more)| first..=first + more).collect();
        prop_assert!(IndexSet::parse(&text.join(","), 60).unwrap().iter().eq(expected));
    }

    #[test]
    fn lists_of_any_characters_never_panic(text in "[-+!,0-9 alné\t]{0,24}", limit in any::<u32>()) {
        if let Ok(list) = text.parse::<IndexList>() {
            prop_assert_eq!(list.to_string().parse(), Ok(list.clone()));
            if let Ok(set) = list.resolve(limit) {
                prop_assert!(set.last().is_none_or(|last| last < limit));
                prop_assert_eq!(IndexSet::parse(&set.to_string(), limit), Ok(set.clone()));
            }
        } else {
            let (message, quoted) = (IndexSet::parse(&text, limit).unwrap_err().to_string(), format!("{text:?}"));
            prop_assert!(message.contains(&quoted), "{}", message);
        }
    }

    #[test]
    fn sizes_print_and_parse(count in any::<u64>(), shift in 0u32..64) {
        let size = ByteSize(count >> shift);
        prop_assert_eq!(size.to_string().parse(), Ok(size));
        prop_assert_eq!(format!("{:#x}", size.bytes()).parse(), Ok(size));
    }

    #[test]
    fn sizes_of_any_characters_never_panic(text in "\\PC{0,16}") {
        if let Err(error) = text.parse::<ByteSize>() {
            let quoted = format!("{text:?}");
            prop_assert!(error.to_string().contains(&quoted));
        }
    }

    #[test]
    fn a_byte_is_its_frame_and_its_offset(addr in any::<u64>()) {
        let addr = PhysAddr(addr);
        prop_assert_eq!(addr.pfn().addr().0 + addr.page_offset(), addr.0);
        prop_assert!(addr.page_offset() < PAGE_SIZE);
        prop_assert_eq!(addr.align_down(12).pfn(), addr.pfn());
        prop_assert_eq!(Pfn(addr.0 >> 12).offset(3), PhysAddr(addr.0).pfn().offset(3));
    }
}
