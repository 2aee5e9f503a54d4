//! What the suites share.

use std::process::Command;

/// Whether a program is missing that the tests need.
pub(crate) fn missing() -> bool {
    let there = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let absent = ["qemu-x86_64", "cc"].into_iter().find(|program| !there(program));
    if let Some(program) = absent {
        memtint_testing::skip(&format!("the program {program}"));
    }
    absent.is_some()
}
