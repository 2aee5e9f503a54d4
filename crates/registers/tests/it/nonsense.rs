//! Does it survive nonsense? A second of mutated dumps for each decoder: no panic, what is read prints and reads back,
//! and what is decoded is a platform.
//!
//! The seed is printed on failure; `MEMTINT_SEED` sets another, `MEMTINT_NONSENSE_SECONDS` a longer time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use memtint_map::Platform;
use memtint_registers::{ConfigSpace, Family, ZenDump, decode_family, decode_zen};

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

    /// Mostly other digits in place of digits, which keeps the form; now and then a cut or any byte.
    fn mutate(&mut self, text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..1 + self.below(8) {
            let at = self.below(bytes.len());
            match self.below(12) {
                0 => drop(bytes.drain(at..(at + self.below(30)).min(bytes.len()))),
                1 => bytes[at] = self.next() as u8,
                _ if bytes[at].is_ascii_hexdigit() => bytes[at] = b"0123456789abcdef"[self.below(16)],
                _ => {}
            }
            if bytes.is_empty() {
                break;
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// So many dumps are tried even where a second is too short for them.
const DUMPS_MIN: u64 = 100;

/// Gives the number of dumps that were decoded.
fn for_a_second(text: &str, attempt: impl Fn(&str) -> bool) -> u64 {
    let seed = number_from("MEMTINT_SEED").unwrap_or(0x5eed);
    let time = Duration::from_secs(number_from("MEMTINT_NONSENSE_SECONDS").unwrap_or(1));
    let mut random = Random(seed.max(1));
    let (start, mut tried, mut decoded) = (Instant::now(), 0, 0);
    while tried < DUMPS_MIN || start.elapsed() < time {
        tried += 1;
        let mutated = random.mutate(text);
        match catch_unwind(AssertUnwindSafe(|| attempt(&mutated))) {
            Ok(done) => decoded += u64::from(done),
            Err(_) => panic!("seed {seed}: panic with\n{mutated}"),
        }
    }
    decoded
}

fn family(text: &str) -> bool {
    let Ok(space) = ConfigSpace::parse(text, "nonsense") else { return false };
    assert_eq!(ConfigSpace::parse(&space.print(), "printed").expect("it was printed"), space);
    let decoded = [Family::F10h, Family::F15h].map(|family| decode_family(&space, family, "nonsense"));
    let mut any = false;
    for decoded in decoded.into_iter().flatten() {
        Platform::from_file(decoded.file, "nonsense").expect("what is decoded is a platform");
        any = true;
    }
    any
}

fn zen(text: &str) -> bool {
    let Ok(dump) = ZenDump::parse(text, "nonsense") else { return false };
    assert_eq!(ZenDump::parse(&dump.print(), "printed").expect("it was printed"), dump);
    match decode_zen(&dump, "nonsense") {
        Ok(decoded) => {
            Platform::from_file(decoded.file, "nonsense").expect("what is decoded is a platform");
            true
        }
        Err(_) => false,
    }
}

/// A node of family 10h whose identity is not in the dump, so that both families are tried.
fn family_text() -> String {
    let mut text = String::new();
    for range in 0..8 {
        for (offset, value) in [
            (0x40, [3, 0][usize::from(range > 0)]),
            (0x44, [0x013f_0000, 0][usize::from(range > 0)]),
            (0x140, 0),
            (0x144, 0),
        ] {
            text.push_str(&format!("00:18.1 {:x}.l={value:08x}\n", offset + 8 * range));
        }
    }
    text.push_str("00:18.1 f0.l=c0004001\n");
    for channel in [0, 0x100] {
        for chip in 0..8 {
            let base = [1, 0x0040_0001][chip % 2] * u32::from(chip < 2);
            text.push_str(&format!("00:18.2 {:x}.l={base:08x}\n", channel + 0x40 + 4 * chip));
            text.push_str(&format!("00:18.2 {:x}.l=00383fe0\n", channel + 0x60 + 4 * (chip / 2)));
        }
        text.push_str(&format!("00:18.2 {:x}.l=00005555\n", channel + 0x80));
    }
    text.push_str("00:18.2 94.l=00400100\n00:18.2 194.l=00400100\n00:18.2 a8.l=00000000\n");
    text.push_str("00:18.2 110.l=00000084\n00:18.2 114.l=00000000\n");
    text
}

fn zen_text(fabric: &str) -> String {
    let mut text =
        format!("fabric {fabric}\nmemory ddr4\nF0x3F8 = 0x00700000\nF0x104 = 0x80000001\nF7x104 = 0x80000001\n");
    let (first, numbers) = match fabric {
        "df2" => (0x110, [0x0000_0083, 0x0000_8000, 0, 0]),
        "df3" => (0x110, [0x0000_0037, 0x0000_8000, 0, 0]),
        "df4" => (0xe00, [0, 8, 0x703, 0x110]),
        _ => (0x200, [0, 8, 0x8703, 0x110]),
    };
    let function = if first == 0x110 { 0 } else { 7 };
    for (index, value) in (0..).zip(numbers).take(if function == 0 { 2 } else { 4 }) {
        text.push_str(&format!("F{function}x{:03X} = {value:#010x}\n", first + 4 * index));
    }
    for offset in (0..0x20).step_by(4).chain([0x70, 0x74, 0xc8, 0xcc, 0xd0, 0xd4, 0xd8, 0xe8, 0xec, 0x100]) {
        let value = match offset {
            0 => 1,
            4 => 0x201,
            0xc8 => 0x4444_4001,
            _ => 0,
        };
        text.push_str(&format!("umc0.{offset:#x} = {value:#010x}\n"));
    }
    for (module, place) in [(0, 0), (1, 4)] {
        for (offset, value) in [(0x20, 0x01ff_fdfe), (0x30, 0x0015_0508), (0x40, 0x0600_ba98)] {
            text.push_str(&format!("umc0.{:#x} = {value:#010x}\n", offset + place));
        }
        for (offset, value) in [(0x50, 0x8765_4321u32), (0x54, 0x43)] {
            text.push_str(&format!("umc0.{:#x} = {value:#010x}\n", offset + 8 * module));
        }
    }
    text
}

#[test]
fn mutated_configuration_space() {
    assert!(family(&family_text()), "the seed is decoded");
    assert!(for_a_second(&family_text(), family) > 0);
}

#[test]
fn mutated_lists_of_zen() {
    for fabric in ["df2", "df3", "df4", "df4.5"] {
        let text = zen_text(fabric);
        let dump = ZenDump::parse(&text, "seed").unwrap_or_else(|error| panic!("{error}"));
        decode_zen(&dump, "seed").unwrap_or_else(|error| panic!("{fabric}: {error}"));
        assert!(for_a_second(&text, zen) > 0);
    }
}
