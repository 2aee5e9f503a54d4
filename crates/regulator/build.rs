//! Compiles the programs that decide in the kernel, where there is clang. Without it the regulator decides in its threads, and says so.

use std::path::PathBuf;
use std::process::Command;

const SOURCES: &str = "../../kernel/modules/memguard";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={SOURCES}/guard.h");
    println!("cargo::rerun-if-changed={SOURCES}/bpf");
    println!("cargo::rerun-if-env-changed=CLANG");
    let object = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("regulate.o");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let output = Command::new(&clang)
        .args(["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"])
        .args(["-target", "bpf", "-mcpu=v3", "-c", "-o"])
        .arg(&object)
        .arg(format!("{SOURCES}/bpf/regulate.bpf.c"))
        .output();
    match output {
        Ok(output) if output.status.success() => {}
        refused => {
            let reason = match refused {
                Ok(output) => String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or("it failed").to_owned(),
                Err(error) => error.to_string(),
            };
            println!("cargo::warning={clang}: {reason}; `memtint guard` will decide in threads, not in the kernel");
            // An empty object stands for none. Try again when programs have been installed.
            std::fs::write(&object, []).expect("OUT_DIR can be written");
            println!("cargo::rerun-if-changed=/usr/bin");
        }
    }
}
