//! A recorded probe: reading and asking never panics, whatever the log holds, and its pool can be drawn from.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memtint_probe::{Log, LogPart, Oracle, View};
use memtint_units::{PhysAddr, Random};

fuzz_target!(|text: &[u8]| {
    let Ok(mut log) = Log::new("fuzz", text) else { return };
    let Ok(mut replay) = log.part(LogPart::Dram) else { return };
    let pool = replay.pool().clone();
    let mut random = Random::new(1);
    assert!(pool.contains(pool.any(&mut random)));
    assert_eq!(pool.parts(5).iter().map(|part| part.bytes()).sum::<u64>(), pool.bytes());
    let _ = (pool.bits(), View::plain().bits(&pool), View::plain().cut(&pool.envelope()));
    // What the log itself asks, as far as it can be read.
    for line in String::from_utf8_lossy(text).lines() {
        let question = line.split(" =").next().unwrap_or_default();
        let words: Vec<&str> = question.split(' ').collect();
        let number = |word: &&str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok().map(PhysAddr);
        let addresses: Vec<PhysAddr> = words.iter().filter_map(number).collect();
        let rounds = words.get(1).and_then(|word| word.parse().ok()).unwrap_or(1);
        let answered = match words[0] {
            "time" => replay.time(&addresses, rounds).is_ok(),
            "beside" => replay.time_beside(&addresses, &addresses, rounds).is_ok(),
            _ => continue,
        };
        if !answered {
            return;
        }
    }
});
