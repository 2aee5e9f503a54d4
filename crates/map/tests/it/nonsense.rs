//! Does it survive nonsense? A second of mutated input for each parser, and for the chain file, palette, selection, walk.
//!
//! The seed is printed on failure; `MEMTINT_SEED` sets another, `MEMTINT_NONSENSE_SECONDS` a longer time.

use memtint_map::{Granule, Palette, Platform, Selection, catalogue, mapfile};
use memtint_units::{ByteSize, IndexSet, PhysAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

fn time() -> Duration {
    Duration::from_secs(number_from("MEMTINT_NONSENSE_SECONDS").unwrap_or(1))
}

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// xorshift64*, so that a seed gives the same input everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// Cuts, doubles, swaps and overwrites pieces of a text; the result is valid UTF-8.
    fn mutate(&mut self, text: &str, words: &[&str]) -> String {
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..1 + self.below(4) {
            let at = self.below(bytes.len() + 1);
            let end = (at + self.below(12)).min(bytes.len());
            match self.below(6) {
                0 => drop(bytes.drain(at..end)),
                1 => {
                    let piece = bytes[at..end].to_vec();
                    bytes.splice(at..at, piece);
                }
                2 if at < bytes.len() => bytes[at] = self.next() as u8,
                3 if at < bytes.len() && bytes[at].is_ascii_digit() => bytes[at] = b'0' + self.below(10) as u8,
                _ => {
                    let word = words[self.below(words.len())];
                    bytes.splice(at..end, word.bytes());
                }
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Runs `attempt` on mutations of the given texts for a second; a panic is reported with seed, number and input.
fn for_a_second(texts: &[&str], words: &[&str], attempt: impl Fn(&str, &mut Random)) {
    let seed = number_from("MEMTINT_SEED").unwrap_or(0x5eed);
    let mut random = Random(seed.max(1));
    let start = Instant::now();
    let mut number = 0u64;
    while start.elapsed() < time() {
        let input = random.mutate(texts[(number as usize) % texts.len()], words);
        let mut inner = Random(random.next().max(1));
        let outcome = catch_unwind(AssertUnwindSafe(|| attempt(&input, &mut inner)));
        assert!(outcome.is_ok(), "MEMTINT_SEED={seed}: input number {number} panics:\n{input}");
        number += 1;
    }
}

/// Small machines, so that a palette of an accepted mutation is cheap even in a debug build.
const SMALL: &[&str] = &["rpi-zero2", "skx-open-3ch1r", "opteron-6128-tintmalloc", "zen2-3900x-amdre", "zen3-ddr4-2r"];

#[test]
fn platform_files_and_what_is_made_of_them() {
    let small = |name: &&str| catalogue::text(name).unwrap().replace("24 GiB", "192 MiB");
    let texts: Vec<String> = SMALL.iter().map(small).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let words = [
        "0",
        "1",
        "63",
        "64",
        "4294967295",
        "-1",
        "[",
        "]",
        "\"",
        "\n",
        "node = 7\n",
        "[[region]]\n",
        "9223372036854775807",
    ];
    for_a_second(&texts, &words, |text, random| {
        let Ok(platform) = Platform::parse(text, "nonsense") else { return };
        let again = Platform::parse(&platform.file().to_toml(), "printed").expect("an accepted file prints as one");
        assert_eq!(again.file(), platform.file());
        // Counting a modulo interleave looks at each granule; large ones belong to the fuzzer.
        if platform.size_bytes() > 1 << 34
            || platform.regions().iter().any(|r| r.interleave.is_some() && r.size_bytes > 1 << 28)
        {
            return;
        }
        let granule = Granule::every().nth(random.below(10)).expect("ten granules");
        let Ok(palette) = Palette::new(&platform, granule) else { return };
        let class = random.below(palette.bank_classes() as usize) as u32;
        let banks = IndexSet::from_indices([class], u32::MAX).ok();
        let Ok(matcher) = (Selection { banks, ..Selection::default() }).compile(&palette) else { return };
        let range = PhysAddr(random.next() >> random.below(64))..PhysAddr(random.next() >> random.below(64));
        for addr in matcher.enumerate(range).take(100) {
            assert!(matcher.matches(addr.pfn()));
        }
    });
}

#[test]
fn map_texts() {
    let words = [" ", "\n", "51", "52", "-", "+", "#", "99999999999999999999", "é"];
    for_a_second(&["14 18\n15 19\n8 9 12 13 14 15\n", "# x\n6\n\n17\n14 18\n"], &words, |text, _| {
        if let Ok(masks) = mapfile::parse(text, "nonsense") {
            assert_eq!(mapfile::parse(&mapfile::print(&masks), "printed"), Ok(masks.clone()));
            let file = mapfile::to_platform_file("x", &masks, 1 << 30, "test");
            Platform::from_file(file, "x").expect("a map that is read makes a platform");
        }
    });
}

#[test]
fn sizes_and_granules() {
    for_a_second(&["64 KiB", "2M", "0x1000", "4096"], &["K", "iB", "T", "9", "0x", "-", "é", " "], |text, _| {
        if let Ok(size) = text.parse::<ByteSize>() {
            assert_eq!(size.to_string().parse(), Ok(size));
        }
        if let Ok(granule) = text.parse::<Granule>() {
            assert_eq!(granule.to_string().parse(), Ok(granule));
        }
    });
}

#[test]
fn lists() {
    let words = ["all", "none", "!", "+", "-", ",", " ", "4294967295", "4294967294", "é"];
    for_a_second(&["0-3,8", "all", "!0-1", " 5 , 1 - 2"], &words, |text, random| {
        let limit = (random.next() >> random.below(64)) as u32;
        if let Ok(set) = IndexSet::parse(text, limit) {
            assert_eq!(IndexSet::parse(&set.to_string(), limit), Ok(set));
        }
    });
}
