//! Links the helper flat at its fixed address and hands its bytes to the library.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    for watched in ["helper", "src/wire.rs", "build.rs"] {
        println!("cargo::rerun-if-changed={watched}");
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let elf = out.join("helper.elf");
    link(&elf);
    let image = flatten(&std::fs::read(&elf).expect("the linker has written the helper"));
    std::fs::write(out.join("helper.bin"), image).expect("OUT_DIR can be written");
}

fn link(elf: &Path) {
    let rustc = std::env::var_os("RUSTC").expect("cargo sets RUSTC");
    let status = Command::new(rustc)
        .args(["--edition", "2024", "--crate-type", "bin", "--crate-name", "memtint_helper"])
        .args(["-C", "opt-level=2", "-C", "panic=abort", "-C", "relocation-model=pic", "-C", "debuginfo=0"])
        .args([
            "-C",
            "overflow-checks=off",
            "-C",
            "linker=ld",
            "-C",
            "linker-flavor=ld",
            "-C",
            "link-self-contained=no",
        ])
        .args(["-C", "link-arg=-static", "-C", "link-arg=-no-pie", "-C", "link-arg=-Thelper/helper.ld"])
        .args(["-C", "link-arg=--gc-sections", "-C", "link-arg=-nostdlib"])
        .arg("helper/src/main.rs")
        .arg("-o")
        .arg(elf)
        .status()
        .expect("the compiler starts");
    assert!(status.success(), "the helper did not build");
}

/// The one segment of the file, as it will lie in memory.
fn flatten(elf: &[u8]) -> Vec<u8> {
    let word = |at: usize, bytes: usize| {
        elf[at..at + bytes].iter().rev().fold(0u64, |value, &byte| value << 8 | u64::from(byte)) as usize
    };
    let (table, entry_size, entries) = (word(32, 8), word(54, 2), word(56, 2));
    let loads: Vec<usize> =
        (0..entries).map(|index| table + index * entry_size).filter(|&at| word(at, 4) == 1).collect();
    assert_eq!(loads.len(), 1, "the helper must have one segment");
    let (offset, file_size, memory_size) = (word(loads[0] + 8, 8), word(loads[0] + 32, 8), word(loads[0] + 40, 8));
    assert_eq!(file_size, memory_size, "the helper must have no zeroed data");
    elf[offset..offset + file_size].to_vec()
}
