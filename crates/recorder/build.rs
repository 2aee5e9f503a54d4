//! Builds the plugin that QEMU loads; the library carries its bytes.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    for watched in ["plugin", "src/wire.rs", "build.rs"] {
        println!("cargo::rerun-if-changed={watched}");
    }
    let variable = |name: &str| std::env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}"));
    let mut rustc = Command::new(variable("RUSTC"));
    rustc
        .args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", "memtint_plugin", "--target"])
        .arg(variable("TARGET"))
        .args(["-C", "opt-level=3", "-C", "panic=abort", "-C", "debuginfo=0", "-C", "strip=symbols"])
        .args(["-C", "overflow-checks=off", "plugin/src/lib.rs", "-o"])
        .arg(PathBuf::from(variable("OUT_DIR")).join("plugin.so"));
    let status = rustc.status().expect("the compiler starts");
    assert!(status.success(), "the plugin did not build");
}
