//! Do the kernels make the references that the papers describe?

use std::collections::HashSet;

use memtint_units::{ByteSize, Picoseconds, random};
use memtint_workload::{
    Bandwidth, BandwidthParameters, Kind, Latency, LatencyParameters, Periodic, Reference, Region, Source, Stream,
    StreamLoop, StreamParameters, Strides, StridesParameters, Uniform, UniformParameters,
};
use proptest::prelude::*;

fn take(source: &mut dyn Source, count: usize) -> Vec<Reference> {
    let mut references = vec![Reference::default(); count];
    assert_eq!(source.fill(&mut references), count);
    references
}

fn chase(lines: u64, seed: u64) -> Latency {
    let region = Region { base: 0x1000_0000, size: ByteSize(lines * 64) };
    Latency::new(&LatencyParameters { region, gap: 2, seed }).unwrap()
}

fn all_kernels(seed: u64) -> Vec<Box<dyn Source>> {
    let region = Region::of(ByteSize::kib(192));
    vec![
        Box::new(chase(300, seed)),
        Box::new(Bandwidth::new(&BandwidthParameters::for_cache(ByteSize::kib(64))).unwrap()),
        Box::new(
            Stream::new(&StreamParameters { region, element_bytes: 8, loops: StreamLoop::ALL.to_vec(), gap: 1 })
                .unwrap(),
        ),
        Box::new(Strides::new(&StridesParameters::camc()).unwrap()),
        Box::new(Periodic::palloc_hrt(ByteSize::kib(64), 100).unwrap()),
        Box::new(Uniform::new(&UniformParameters { region, writes_per_1024: 300, gap: 0, seed }).unwrap()),
    ]
}

proptest! {
    #[test]
    fn a_chase_visits_each_line_once_a_round_and_waits_for_every_load(lines in 1u64..5000, seed: u64) {
        let mut chase = chase(lines, seed);
        let first = take(&mut chase, lines as usize);
        let second = take(&mut chase, lines as usize);
        prop_assert_eq!(&first, &second);
        let distinct: HashSet<u64> = first.iter().map(|reference| reference.addr).collect();
        prop_assert_eq!(distinct.len() as u64, lines);
        for reference in &first {
            prop_assert!(reference.depends && reference.kind == Kind::Read && reference.addr % 64 == 0);
            prop_assert!((0x1000_0000..0x1000_0000 + lines * 64).contains(&reference.addr));
        }
    }

    #[test]
    fn strides_alternate_and_touch_each_step_once(steps in 1u64..3000, step_bytes in 64u64..300) {
        let region = Region { base: step_bytes * 7, size: ByteSize(steps * step_bytes) };
        let mut strides =
            Strides::new(&StridesParameters { region, step_bytes, kind: Kind::Write, gap: 0 }).unwrap();
        let round = take(&mut strides, steps as usize);
        let distinct: HashSet<u64> = round.iter().map(|reference| reference.addr).collect();
        prop_assert_eq!(distinct.len() as u64, steps);
        prop_assert!(round.iter().all(|r| r.addr >= region.base && r.addr < region.base + region.size.bytes()));
        for (index, pair) in round.windows(2).enumerate() {
            let distance = pair[1].addr as i64 - pair[0].addr as i64;
            let sign = if index % 2 == 0 { 1 } else { -1 };
            prop_assert_eq!(distance, sign * (index as i64 + 1) * step_bytes as i64);
        }
        prop_assert_eq!(take(&mut strides, steps as usize), round);
    }

    #[test]
    fn a_snapshot_goes_on_from_the_same_point(seed: u64, before in 0usize..3000, batch in 1usize..700) {
        for mut source in all_kernels(seed) {
            take(source.as_mut(), before);
            let mut copy = source.snapshot();
            let batched = take(source.as_mut(), batch);
            let single: Vec<Reference> = std::iter::from_fn(|| copy.next()).take(batch).collect();
            prop_assert_eq!(batched, single);
        }
        for (mut one, mut other) in all_kernels(seed).into_iter().zip(all_kernels(seed)) {
            prop_assert_eq!(take(one.as_mut(), before), take(other.as_mut(), before));
        }
    }
}

#[test]
fn the_strides_of_the_thesis() {
    // 004, section 2.4.2: of an array of 4-byte integers, element 256, then 272, 240, 288, 224.
    let region = Region { base: 0, size: ByteSize(64 * 33) };
    let mut strides = Strides::new(&StridesParameters { region, step_bytes: 64, kind: Kind::Write, gap: 0 }).unwrap();
    let elements: Vec<u64> = take(&mut strides, 5).iter().map(|reference| reference.addr / 4).collect();
    assert_eq!(elements, [256, 272, 240, 288, 224]);
    assert_eq!(Strides::new(&StridesParameters::camc()).unwrap().round(), 524_288);
    let tintmalloc = take(&mut Strides::new(&StridesParameters::tintmalloc()).unwrap(), 2);
    assert_eq!(tintmalloc[1].addr - tintmalloc[0].addr, 128);
    assert!(tintmalloc.iter().all(|reference| reference.kind == Kind::Write));
}

#[test]
fn chases_of_different_seeds_differ_and_are_not_sequential() {
    let (one, other) = (take(&mut chase(4096, 1), 4096), take(&mut chase(4096, 2), 4096));
    assert_ne!(one, other);
    let neighbours = one.windows(2).filter(|pair| pair[1].addr.abs_diff(pair[0].addr) == 64).count();
    assert!(neighbours < 20, "{neighbours} of 4095 steps go to a neighbour; 2 are expected");
}

#[test]
fn bandwidth_walks_through_every_line_in_order() {
    let parameters = BandwidthParameters { kind: Kind::Write, ..BandwidthParameters::for_cache(ByteSize::kib(4)) };
    let references = take(&mut Bandwidth::new(&parameters).unwrap(), 129);
    for (index, reference) in references.iter().enumerate() {
        assert_eq!(reference.addr, parameters.region.base + (index as u64 % 128) * 64);
        assert!(reference.kind == Kind::Write && !reference.depends);
    }
}

#[test]
fn stream_runs_its_four_loops() {
    let region = Region { base: 0, size: ByteSize(3 * 16) };
    let parameters = StreamParameters { region, element_bytes: 8, loops: StreamLoop::ALL.to_vec(), gap: 0 };
    let mut stream = Stream::new(&parameters).unwrap();
    let (r, w) = (Kind::Read, Kind::Write);
    // Arrays a, b, c begin at 0, 16 and 32; two elements each.
    let expected = [
        (r, 0),
        (w, 32),
        (r, 8),
        (w, 40), // copy
        (r, 32),
        (w, 16),
        (r, 40),
        (w, 24), // scale
        (r, 0),
        (r, 16),
        (w, 32),
        (r, 8),
        (r, 24),
        (w, 40), // add
        (r, 16),
        (r, 32),
        (w, 0),
        (r, 24),
        (r, 40),
        (w, 8), // triad
        (r, 0),
        (w, 32),
    ];
    let found: Vec<(Kind, u64)> = take(&mut stream, expected.len()).iter().map(|r| (r.kind, r.addr)).collect();
    assert_eq!(found, expected);
}

#[test]
fn uniform_is_the_sequence_that_simulators_are_compared_on() {
    let region = Region { base: 0, size: ByteSize((1 << 26) * 64) };
    let seed = 0x5EED_0000_0000_00A1;
    let mut uniform = Uniform::new(&UniformParameters { region, writes_per_1024: 0, gap: 0, seed }).unwrap();
    for (index, reference) in take(&mut uniform, 1000).iter().enumerate() {
        assert_eq!(reference.addr, random::at(seed, index as u64) % (1 << 26) * 64);
    }
}

#[test]
fn uniform_writes_as_often_as_asked() {
    let region = Region::of(ByteSize::kib(192));
    for writes_per_1024 in [0, 256, 1024] {
        let mut uniform = Uniform::new(&UniformParameters { region, writes_per_1024, gap: 0, seed: 3 }).unwrap();
        let writes = take(&mut uniform, 1 << 17).iter().filter(|r| r.kind == Kind::Write).count() as i64;
        // Six standard deviations of the binomial are about 940.
        assert!((writes - i64::from(writes_per_1024) * 128).abs() < 940, "{writes} for {writes_per_1024}");
    }
}

#[test]
fn the_periodic_reader_has_the_published_times() {
    let hrt = Periodic::palloc_hrt(ByteSize::mib(8), 1000).unwrap();
    assert_eq!(hrt.period(), Picoseconds::from_ns(20_000_000));
    assert_eq!(hrt.deadline(), Picoseconds::from_ns(13_000_000));
    assert_eq!(hrt.references_per_job(), 1000);
    assert_eq!(Periodic::camc_synthetic(7).unwrap().period(), Picoseconds::from_ns(150_000_000));
}

#[test]
fn refusals_name_field_value_and_what_is_accepted() {
    let odd = Region { base: 0, size: ByteSize(100) };
    let messages = [
        (Latency::new(&LatencyParameters { region: odd, gap: 0, seed: 0 }).unwrap_err(), ["size", "100 B", "64"]),
        (
            Strides::new(&StridesParameters { step_bytes: 0, ..StridesParameters::camc() }).unwrap_err(),
            ["step_bytes", "0", "1 or more"],
        ),
        (
            Uniform::new(&UniformParameters {
                region: Region::of(ByteSize(64)),
                writes_per_1024: 1025,
                gap: 0,
                seed: 0,
            })
            .unwrap_err(),
            ["writes_per_1024", "1025", "0 to 1024"],
        ),
        (Periodic::palloc_hrt(ByteSize::mib(1), 0).unwrap_err(), ["references_per_job", "0", "1 or more"]),
        (
            Bandwidth::new(&BandwidthParameters {
                region: Region { base: 1, size: ByteSize(64) },
                ..BandwidthParameters::for_cache(ByteSize(64))
            })
            .unwrap_err(),
            ["base", "0x1", "64"],
        ),
    ];
    for (error, parts) in messages {
        let message = error.to_string();
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
}
