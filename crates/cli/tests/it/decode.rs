//! Does `memtint platform decode` say what a dump of registers says, and which bits said it?

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use memtint_map::{Granule, Palette, Platform, Role, gf2};
use serde_json::Value;

fn dump(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../registers/tests/dumps");
    folder.join(name).to_str().expect("text").to_owned()
}

fn decode(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memtint"));
    command.args(["platform", "decode"]).args(arguments).output().expect("it was built")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

/// A path in the temporary directory, removed at the end with all below it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("memtint-decode-{}-{name}", std::process::id())))
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("text")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left behind in the temporary directory does no harm.
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_papers_machine_is_decoded() {
    let out = Scratch::new("opteron.toml");
    let output = decode(&[&dump("opteron-6128.txt"), "--out", out.path()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    for words in ["128 banks", "channel 0", "DctSelIntLvAddr = 0", "F2x40[22] BaseAddr", "0x300000000-0x400000000"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let platform = Platform::load(out.path()).unwrap_or_else(|error| panic!("{error}"));
    let masks = |role| -> Vec<u64> {
        platform.functions().iter().filter(|function| function.role == role).map(|function| function.mask).collect()
    };
    let catalogue = Platform::load("opteron-6128-camc").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(masks(Role::Channel), [catalogue.function_masks()[0]]);
    assert_eq!(masks(Role::Bank), [1 << 14, 1 << 15, 1 << 16]);
    assert_eq!(platform.regions().len(), 4);
    // A page lies in both channels of one rank and bank: 16 classes on each of four nodes.
    assert_eq!(Palette::new(&platform, Granule::PAGE).unwrap().bank_classes(), 64);
}

#[test]
fn a_list_of_zen_gives_the_catalogues_machine() {
    let output = decode(&[&dump("zen4-ddr5-1r.txt"), "--format", "json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    crate::shared::check("platform-decode", &report);
    assert_eq!((report["report"].as_str(), report["kind"].as_str()), (Some("decoded"), Some("zen")));
    let functions = report["functions"].as_array().expect("a list");
    let mask = |row: &Value| {
        let bits = row["bits"].as_array().expect("a list");
        bits.iter().fold(0u64, |mask, bit| mask | 1 << bit.as_u64().expect("a number"))
    };
    let found = gf2::Basis::spanning(functions.iter().map(mask));
    let expected = Platform::load("zen4-ddr5-1r-full").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(found, gf2::Basis::spanning(expected.function_masks().iter().copied()));
    assert!(functions.iter().all(|row| row["registers"].as_str().is_some_and(|registers| registers.contains("umc"))));
    let regions = report["platform"]["region"].as_array().expect("a list");
    assert_eq!(regions.len(), expected.regions().len());
}

/// The same registers as text, as assignments, and as the kernel's folder.
#[test]
fn all_forms_of_a_dump_say_the_same() {
    let folder = Scratch::new("devices");
    let whole = std::fs::read_to_string(dump("opteron-6128.txt")).expect("it is there");
    let mut config: Option<(String, Vec<u8>)> = None;
    let flush = |config: Option<(String, Vec<u8>)>| {
        let Some((address, bytes)) = config else { return };
        let path = folder.0.join(format!("0000:{address}"));
        std::fs::create_dir_all(&path).expect("a writable directory");
        std::fs::write(path.join("config"), bytes).expect("a writable directory");
    };
    for line in whole.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (first, rest) = line.split_once(' ').expect("two words");
        match first.strip_suffix(':') {
            None => flush(config.replace((first.to_owned(), vec![0; 4096]))),
            Some(offset) => {
                let bytes = &mut config.as_mut().expect("a head comes first").1;
                let offset = usize::from_str_radix(offset, 16).expect("a number");
                for (index, byte) in rest.split(' ').enumerate() {
                    bytes[offset + index] = u8::from_str_radix(byte, 16).expect("a byte");
                }
            }
        }
    }
    flush(config.take());
    let platform = |arguments: &[&str]| {
        let output = decode(arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        crate::shared::check("platform-decode", &report);
        report["platform"].clone()
    };
    let from_text = platform(&[&dump("opteron-6128.txt"), "--format", "json"]);
    let from_folder = platform(&[folder.path(), "--kind", "f10h", "--format", "json"]);
    assert_eq!(from_text, from_folder);
}

#[test]
fn what_is_not_accepted_is_refused_by_name() {
    let refused = |name: &str, text: &str, arguments: &[&str]| {
        let file = Scratch::new(name);
        std::fs::write(&file.0, text).expect("a writable directory");
        let output = decode(&[&[file.path()], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert!(output.stdout.is_empty(), "{name}");
        std::str::from_utf8(&output.stderr).expect("text").to_owned()
    };
    let message = refused("line", "00:18.2 x\nzz\n", &[]);
    assert!(message.contains("line 2") && message.contains("accepted"), "{message}");
    let message = refused("empty", "", &[]);
    assert!(message.contains("1022:1202"), "{message}");
    let message = refused("six", "fabric df3\nF0x110 = 0x19\nF0x114 = 0xf000\nF0x3F8 = 0x0\n", &[]);
    assert!(message.contains("6 channels"), "{message}");
    let whole = std::fs::read_to_string(dump("opteron-6128.txt")).expect("it is there");
    let message = refused("kind", &whole, &["--kind", "f15h"]);
    assert!(message.contains("0x12011022") && message.contains("family 15h"), "{message}");
}

/// Without a dump this machine's registers are read. That it has no such controller is an answer with status 1.
#[test]
fn without_a_dump_this_machine_answers() {
    let output = decode(&[]);
    match output.status.code() {
        Some(0) => assert!(text(&output.stdout).contains("/sys/bus/pci/devices")),
        Some(1) => {
            assert!(output.stdout.is_empty());
            assert!(text(&output.stderr).contains("give no mapping"), "{}", text(&output.stderr));
        }
        other => panic!("{other:?}: {}", text(&output.stderr)),
    }
}
