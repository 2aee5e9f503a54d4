//! What the suites share.

use std::process::Command;

/// Whether a program is missing that the tests need. Skipped runs are counted by who runs the suites.
pub(crate) fn missing() -> bool {
    use std::io::Write as _;
    let there = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let absent = ["qemu-x86_64", "cc"].into_iter().find(|program| !there(program));
    if let Some(program) = absent {
        // Nobody is left to tell when standard error is closed.
        let _ = writeln!(std::io::stderr(), "skipped: needs the program {program}");
    }
    absent.is_some()
}
