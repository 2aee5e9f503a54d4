//! Do the examples of the README print what it says?
//!
//! `cargo test -p memtint-cli --test console`; with TRYCMD=overwrite, they are written anew. In a fence `console`, a line `...` stands
//! for any lines, `[..]` for any part of a line. A separate program, because it changes its directory.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

#[test]
fn the_examples_of_the_readme_print_what_it_says() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).canonicalize().expect("it is there");
    let folder = std::env::temp_dir().join(format!("memtint-console-{}", std::process::id()));
    // One of a process of the same number may be left.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).expect("the temporary directory is writable");
    for read in ["crates", "examples", "platforms"] {
        symlink(root.join(read), folder.join(read)).expect("the folder is new");
    }
    // Standard error has progress, as the machine is fast or slow.
    let quiet = folder.join("memtint");
    let script =
        concat!("#!/bin/sh\nexec env -u MEMTINT_PLATFORM ", env!("CARGO_BIN_EXE_memtint"), " \"$@\" 2>/dev/null\n");
    std::fs::write(&quiet, script).expect("the folder is there");
    std::fs::set_permissions(&quiet, Permissions::from_mode(0o755)).expect("the file is there");
    std::env::set_current_dir(&folder).expect("it is there");
    trycmd::TestCases::new().register_bin("memtint", quiet.as_path()).case(root.join("README.md")).run();
    // What is left behind in the temporary directory does no harm.
    let _ = std::fs::remove_dir_all(&folder);
}
