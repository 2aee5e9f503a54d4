//! Compiles the programs that decide in the kernel, where there is clang. Without it the regulator decides in its threads, and says so.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SOURCES: &str = "../../kernel/modules/memguard";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={SOURCES}/guard.h");
    println!("cargo::rerun-if-changed={SOURCES}/bpf");
    println!("cargo::rerun-if-env-changed=CLANG");
    let object = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("regulate.o");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    // A compiler that is missing, or has no BPF, is no fault of the programs.
    let tried = compile(&clang, Path::new("/dev/null"), &object);
    if let Some(reason) = fault(&tried) {
        println!("cargo::warning={clang}: {reason}; `memtint guard` will decide in threads, not in the kernel");
        // An empty object stands for none. Try again when programs have been installed.
        std::fs::write(&object, []).expect("OUT_DIR can be written");
        println!("cargo::rerun-if-changed=/usr/bin");
        return;
    }
    let compiled = compile(&clang, &Path::new(SOURCES).join("bpf/regulate.bpf.c"), &object);
    assert!(fault(&compiled).is_none(), "{}", compiled.map_or(String::new(), |output| text(&output)));
}

fn compile(clang: &str, source: &Path, object: &Path) -> std::io::Result<Output> {
    Command::new(clang)
        .args(["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"])
        .args(["-target", "bpf", "-mcpu=v3", "-x", "c", "-c", "-o"])
        .args([object, source])
        .output()
}

/// The first line that says why there is no object.
fn fault(compiled: &std::io::Result<Output>) -> Option<String> {
    match compiled {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(text(output).lines().next().unwrap_or("it failed").to_owned()),
        Err(error) => Some(error.to_string()),
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
