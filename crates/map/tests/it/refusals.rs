//! Is a wrong platform file refused with a message that names file, field, value found and value accepted?

use memtint_map::Platform;

const GOOD: &str = r#"
schema = 1
id = "good"
name = "Good"

[dram]
standard = "DDR4"
address_bits = 30
functions = [
    { role = "channel", bits = [7, 14] },
    { role = "bank", bit = 0, bits = [13, 16] },
    { role = "bank", bit = 1, bits = [15, 17] },
]
row_bits = [17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29]
column_bits = [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 14, 16]
complete = true
source = "test"

[[region]]
base = 0
size = "512 MiB"
source = "test"

[[region]]
base = 0x1_0000_0000
size = "512 MiB"
dram_base = "512 MiB"
source = "test"

[llc]
size = "2 MiB"
ways = 16
line = "64 B"
slices = 2
set_bits = [6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
slice_functions = [[6, 16, 17]]
hash = "linear"
source = "test"

[[cache]]
level = 1
kind = "data"
size = "32K"
ways = 8
source = "test"

[cores]
count = 4
source = "test"
"#;

/// Replaces one piece of the good file, which must be in it, and gives the message of the refusal.
fn refusal(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from:?} is not in the good file");
    let text = GOOD.replacen(from, to, 1);
    match Platform::parse(&text, "some.toml") {
        Ok(_) => panic!("accepted with {to:?} in place of {from:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_good_file_is_accepted() {
    let platform = Platform::parse(GOOD, "good.toml").unwrap();
    assert_eq!((platform.banks(), platform.size_bytes()), (8, 1 << 30));
}

#[test]
fn each_fault_is_named() {
    #[rustfmt::skip]
    let cases: &[(&str, &str, &[&str])] = &[
        // Keys and kinds.
        ("ways = 16", "ways = 16\ncolour = 3", &["line 33: unknown field `colour`", "slice_functions"]),
        ("[cores]", "[core]", &["unknown field `core`", "`cores`"]),
        ("name = \"Good\"\n", "", &["missing field `name`"]),
        ("schema = 1", "schema = 2", &["schema is 2; accepted is 1"]),
        ("id = \"good\"", "id = \"../x\"", &["id is \"../x\"; accepted is letters, digits"]),
        ("name = \"Good\"", "name = \" \"", &["name is \" \"; accepted is a text that is not empty"]),
        ("role = \"channel\"", "role = \"chanel\"", &["line 10", "unknown variant `chanel`", "`subchannel`"]),
        ("size = \"512 MiB\"", "size = \"512 MB\"", &["unit \"MB\"", "MiB"]),
        ("size = \"512 MiB\"", "size = -4096", &["-4096", "byte count"]),
        // Functions.
        ("bits = [7, 14]", "bits = []", &["dram.functions[0].bits is an empty list; accepted is at least one address bit"]),
        ("bits = [7, 14]", "bits = [7, 30]", &["dram.functions[0].bits is a list with bit 30; accepted is bits 0 to 29"]),
        ("bits = [7, 14]", "bits = [7, 7]", &["dram.functions[0].bits is a list with bit 7 twice"]),
        ("bits = [15, 17]", "bits = [7, 13, 14, 16]", &["bank function 2 depends on functions 0 and 1", "half of", "remove it"]),
        ("bits = [15, 17]", "bits = [7, 14]", &["bank function 2 equals function 0"]),
        ("bit = 1, bits", "bit = 0, bits", &["dram.functions[2].bit is 0; accepted is each of 0 to 1 once", "role bank"]),
        ("bit = 1, bits", "bits", &["dram.functions[2].bit is missing"]),
        ("address_bits = 30", "address_bits = 60", &["dram.address_bits is 60; accepted is 13 to 52"]),
        ("standard = \"DDR4\"", "standard = \"DDR4\"\nranks = 0", &["dram.ranks is 0; accepted is a count of 1 or more"]),
        ("column_bits = [0, 1,", "column_bits = [0, 0,", &["entry of dram.column_bits 1 equals function 0"]),
        ("column_bits = [0, 1,", "column_bits = [1,", &["complete is true", "rank 29 on 30", "bits 0 would share", "complete = false"]),
        ("14, 16]\ncomplete", "16]\ncomplete", &["bits 7, 14 would share"]),
        // Regions.
        ("size = \"512 MiB\"", "size = 0", &["region[0].size is 0 B; accepted is 4 KiB or more"]),
        ("size = \"512 MiB\"", "size = 4097", &["region[0].size is 4097 B; accepted is a multiple of 4 KiB"]),
        ("base = 0x1_0000_0000", "base = 0x1fff_f000", &["region 0 and region 1 overlap in physical addresses at 0x1ffff000", "base"]),
        ("dram_base = \"512 MiB\"", "dram_base = \"256 MiB\"", &["region 0 and region 1 overlap in the DRAM addresses of one node", "dram_base"]),
        ("dram_base = \"512 MiB\"", "dram_base = \"768 MiB\"", &["region[1].size is 512 MiB", "multiple of 2^30", "address_bits"]),
        ("base = 0x1_0000_0000", "base = 0x10_0000_0000_0000", &["region[1].size", "2^52"]),
        ("size = \"512 MiB\"", "size = \"512 MiB\"\ninterleave = { ways = 4, granularity = 4096 }", &["region[0].interleave.ways is 4", "no power of two"]),
        ("size = \"512 MiB\"", "size = \"512 MiB\"\ninterleave = { ways = 3, granularity = 5000 }", &["granularity is 5000 B; accepted is a power of two"]),
        ("size = \"512 MiB\"", "size = \"512 MiB\"\ninterleave = { ways = 3, granularity = 4096 }", &["region[0].interleave is 3-way", "same number of interleave ways as region 1"]),
        // Cache.
        ("line = \"64 B\"", "line = \"48 B\"", &["llc.line is 48 B; accepted is a power of two"]),
        ("set_bits = [6,", "set_bits = [5, 6,", &["llc.set_bits is a list with bit 5; accepted is bits from 6 up"]),
        ("[[6, 16, 17]]", "[[6, 15]]", &["depends on functions 0 and 1"]),
        ("[[6, 16, 17]]", "[[3, 16]]", &["llc.slice_functions[0]", "bits from 6 up"]),
        ("slices = 2", "slices = 4", &["llc.slices is 4; accepted is 2^slice_functions = 2"]),
        ("hash = \"linear\"", "hash = \"none\"", &["llc.hash is \"none\" with slice_functions"]),
        ("hash = \"linear\"", "hash = \"mixer\"", &["llc.not_modelled is missing", "slice hash"]),
        ("size = \"2 MiB\"", "size = \"3 MiB\"", &["llc.size is 3 MiB; accepted is 2097152 bytes = 2 slices x 2^10 sets x 16 ways x 64 B"]),
        ("level = 1", "level = 0", &["cache[0].level is 0; accepted is 1 or more"]),
        ("count = 4", "count = 0", &["cores.count is 0; accepted is 1 or more"]),
    ];
    let mut faults = Vec::new();
    for (from, to, parts) in cases {
        let message = refusal(from, to);
        assert!(message.contains("\"some.toml\""), "{message}");
        assert!(!message.trim_end().ends_with('.'), "{message}");
        let missing = parts.iter().filter(|part| !message.contains(**part));
        faults.extend(missing.map(|part| format!("{to:?}: {part:?} is not in: {message}")));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn nodes_leave_room_for_node_functions() {
    let text = GOOD.replacen("role = \"channel\"", "role = \"node\"", 1);
    assert!(Platform::parse(&text, "x").is_ok());
    let message =
        Platform::parse(&text.replacen("base = 0\n", "base = 0\nnode = 1\n", 1), "x").unwrap_err().to_string();
    assert!(message.contains("region[0].node is 1; accepted is a multiple of 2"), "{message}");
}

#[test]
fn granules_that_no_region_can_honor_are_refused() {
    use memtint_map::{Granule, Palette};
    let text = GOOD.replacen("dram_base = \"512 MiB\"", "dram_base = 0x2000_4000", 1).replacen(
        "base = 0x1_0000_0000\nsize = \"512 MiB\"",
        "base = 0x1_0000_0000\nsize = \"256 MiB\"",
        1,
    );
    let platform = Platform::parse(&text, "x").unwrap();
    let message = Palette::new(&platform, Granule::MAX).unwrap_err().to_string();
    assert!(message.contains("region 1") && message.contains("granule of at most 16 KiB"), "{message}");
    assert!(Palette::new(&platform, "16K".parse().unwrap()).is_ok());
}

#[test]
fn a_slice_hash_that_is_not_linear_keeps_its_linear_bits() {
    use memtint_map::{Granule, Palette, SliceHash};
    // Six slices: the lowest output bit is linear, the others come from a mixer and are named, not modelled.
    let text = GOOD
        .replacen("hash = \"linear\"", "hash = \"mixer\"\nformula = \"L_6b | c3<<1\"\nnot_modelled = \"c3\"", 1)
        .replacen("slices = 2", "slices = 6", 1)
        .replacen("size = \"2 MiB\"", "size = \"6 MiB\"", 1);
    let platform = Platform::parse(&text, "x").unwrap();
    let llc = platform.llc().unwrap();
    assert_eq!((llc.hash, llc.formula.as_deref(), llc.slices), (SliceHash::Mixer, Some("L_6b | c3<<1"), Some(6)));
    // Set bits 12-15, and whether the linear bit of the slice number is that of the first line or the other.
    assert_eq!(Palette::new(&platform, Granule::PAGE).unwrap().set_colors(), 32);
}

#[test]
fn a_file_without_end_is_refused() {
    let error = memtint_map::Platform::load("/dev/zero").unwrap_err().to_string();
    assert!(error.contains("/dev/zero") && error.contains("accepted"), "{error}");
}
