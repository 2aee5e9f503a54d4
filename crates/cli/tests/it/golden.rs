//! What verbs print and draw is as before.
//!
//! `cargo test -p memtint-cli --test it golden::`; with `SNAPSHOTS=overwrite` before it, what is printed now is accepted: look at
//! the difference, and at pictures, before it is committed.
//!
//! `tests/golden/cases` has a line for each case: its name, the exit status, and what is said after `memtint`. Beside it lies what it
//! prints (`NAME.out`), what it says on standard error beside progress (`NAME.err`), and each file that it writes (`NAME.FILE`). Verbs whose
//! output depends on a clock or on the machine (run, inspect, bench, detect, record) have other tests.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use snapbox::{Assert, Data, data::DataFormat};

use crate::scratch::Scratch;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");

/// What a case prints and writes, by the name of the file that holds it.
fn outputs(name: &str, status: i32, words: &[String]) -> Vec<(String, Vec<u8>)> {
    let folder = Scratch::new(&format!("golden-{name}"));
    let links = [("examples", ROOT), ("crates", ROOT), ("inputs", GOLDEN)];
    for (link, parent) in links {
        symlink(Path::new(parent).join(link), folder.folder().join(link)).expect("the folder is new");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_memtint"))
        .args(words)
        .current_dir(folder.folder())
        .env_remove("MEMTINT_PLATFORM")
        .stdin(Stdio::null())
        .output()
        .expect("memtint is built");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{name}: {errors}");
    let mut all = vec![(format!("{name}.out"), output.stdout)];
    let said: String =
        errors.lines().filter(|line| line.starts_with("memtint: ")).map(|line| format!("{line}\n")).collect();
    if !said.is_empty() {
        all.push((format!("{name}.err"), said.into_bytes()));
    }
    let written = std::fs::read_dir(folder.folder()).expect("it is there").flatten();
    for file in written.filter(|file| file.file_type().is_ok_and(|kind| kind.is_file())) {
        let own = file.file_name().into_string().expect("a plain name");
        all.push((format!("{name}.{own}"), std::fs::read(file.path()).expect("it is there")));
    }
    all
}

#[test]
fn verbs_print_and_draw_what_they_did() {
    let cases = std::fs::read_to_string(format!("{GOLDEN}/cases")).expect("it is there");
    let assert = Assert::new().action_env("SNAPSHOTS");
    let (mut expected, mut differences) = (BTreeSet::from(["cases".to_owned()]), Vec::new());
    for line in cases.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut words = shlex::split(line).unwrap_or_else(|| panic!("{line}: quotes")).into_iter();
        let name = words.next().expect("a name");
        let status = words.next().and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{line}: a status"));
        for (file, bytes) in outputs(&name, status, &words.collect::<Vec<_>>()) {
            let path = Path::new(GOLDEN).join(&file);
            let before = Data::read_from(&path, Some(DataFormat::Text)).raw();
            let now = String::from_utf8(bytes).unwrap_or_else(|_| panic!("{file} is text"));
            differences.extend(assert.try_eq(Some(&file), Data::text(now), before).err());
            expected.insert(file);
        }
    }
    assert!(differences.is_empty(), "{}", differences.iter().map(ToString::to_string).collect::<String>());
    let here = std::fs::read_dir(GOLDEN).expect("it is there").flatten();
    let files = here.filter(|file| file.file_type().is_ok_and(|kind| kind.is_file()));
    let here: BTreeSet<String> = files.filter_map(|file| file.file_name().into_string().ok()).collect();
    assert_eq!(here, expected, "each file is of a case");
}
