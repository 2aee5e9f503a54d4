//! Do damaged system files end in an error and not in a crash?

use memtint_sim::Scenario;
use memtint_units::Picoseconds;
use proptest::prelude::*;
use std::path::Path;

const SCENARIO: &str = r#"schema = 1
granule = "4K"
platform = "p4080"
[simulation]
device = "ddr3-1333"
duration = "10 us"
seed = 3
alone = false
[simulation.cores]
count = 2
mhz = 1500
width = 2
window = 16
mshrs = 4
[simulation.caches]
replacement = "lru"
next_line = true
latency_cycles = [3, 11, 40, 60, 60]
[simulation.controller]
read_queue = 16
write_queue = 16
scheduler = "par-bs"
page = "timeout"
refresh = "elastic"
[simulation.numa]
hop = "50 ns"
link_mb_per_s = 12800
[simulation.system]
allocator = "palloc"
taken_per_1024 = 0
switch = "1 us"
scheduling = "edf"
[[color]]
name = "c"
ranks = "0-1"
[[server]]
name = "S"
color = "c"
core = 1
period = "3 us"
budget = "1 us"
kind = "idle-consuming"
scheduling = "fp"
[[task]]
name = "one"
cores = "0-1"
banks = "0-1"
ways = "0-3"
references = 100
workload = { kind = "strides", size = "1 MiB", step = "64 B" }
[[task]]
name = "two"
cores = "1"
allocator = "bpm"
banks = "2-3"
workload = { kind = "uniform", size = "1 MiB", writes_per_1024 = 100 }
period = "5 us"
references = 10
[[task]]
name = "three"
server = "S"
priority = 2
ranks = "0-1"
workload = { kind = "latency", size = "1 MiB" }
"#;

const TABLE: &str = r#"schema = 1
platform = "p4080"
[simulation]
device = "ddr3-1600"
duration = "10 us"
cores = { count = 2, mhz = 1500 }
caches = { latency_cycles = [3, 11, 40, 60, 60] }
system = { scheduling = "table" }
controller = { refresh = "timetable" }
timetable = { period = "64 ms", cores = "0-1", window = [
    { ranks = "0", start = "0 ms" },
    { ranks = "1", start = "32 ms" },
] }
[simulation.table]
cycle = "4 us"
core = 1
slot = [
    { task = "one", start = "0 us", length = "1 us" },
    { task = "copy", start = "1 us", length = "1 us" },
    { task = "other", start = "0 us", length = "3 us", core = 0 },
    { task = "one", start = "3 us", length = "1 us", core = 1 },
]
[[task]]
name = "one"
ranks = "0"
workload = { kind = "uniform", size = "1 MiB", writes_per_1024 = 100 }
period = "2 us"
references = 10
[[task]]
name = "copy"
ranks = "1"
copy_of = "one"
copy = "1 us"
workload = { kind = "uniform", size = "1 MiB", writes_per_1024 = 100 }
[[task]]
name = "other"
workload = { kind = "latency", size = "1 MiB" }
"#;

/// Whether it is accepted; what is accepted runs.
fn parse(text: &str) -> bool {
    let Ok(scenario) = Scenario::parse(text, Path::new("nonsense")) else { return false };
    let mut machine = scenario.machine().expect("it was accepted");
    machine.run_until(Picoseconds::from_ns(1000));
    let _ = machine.outcome();
    true
}

#[test]
fn the_undamaged_ones_are_accepted() {
    for text in [SCENARIO, TABLE] {
        Scenario::parse(text, Path::new("nonsense")).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_number_that_is_replaced_is_accepted_or_refused(text in prop::sample::select(vec![SCENARIO, TABLE]), which in any::<prop::sample::Index>(), number in prop_oneof![
        Just(0u64), 1..20u64, any::<u64>(), Just(u64::MAX), Just(1 << 31), Just(1 << 32),
    ]) {
        let starts: Vec<usize> = text
            .char_indices()
            .zip(text.chars().skip(1))
            .filter(|((_, before), here)| !before.is_ascii_digit() && here.is_ascii_digit())
            .map(|((at, _), _)| at + 1)
            .collect();
        let start = starts[which.index(starts.len())];
        let length = text[start..].chars().take_while(char::is_ascii_digit).count();
        let text = format!("{}{number}{}", &text[..start], &text[start + length..]);
        parse(&text);
    }

    #[test]
    fn a_piece_that_is_cut_out_or_doubled_is_accepted_or_refused(
        text in prop::sample::select(vec![SCENARIO, TABLE]),
        start in any::<prop::sample::Index>(),
        length in 1..40usize,
        double in any::<bool>(),
    ) {
        let start = start.index(text.len());
        let end = (start + length).min(text.len());
        let again = if double { &text[start..end] } else { "" };
        let text = format!("{}{again}{}", &text[..if double { end } else { start }], &text[end..]);
        parse(&text);
    }

    #[test]
    fn any_text_is_accepted_or_refused(text in ".{0,200}") {
        prop_assert!(!parse(&text));
    }
}
