//! Do man pages, Markdown pages and completions name every verb, and does the documentation have the pages that are printed now?
//!
//! With `SNAPSHOTS=overwrite cargo test -p memtint-cli --test it manual::`, the pages of `docs/reference/verbs` are written anew.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use snapbox::{Assert, Data, data::DataFormat};

use crate::scratch::Scratch;

fn memtint(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_memtint")).args(arguments).output().expect("memtint is built");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The verbs that `--help` lists.
fn verbs() -> Vec<String> {
    let help = memtint(&["--help"]);
    let rows = help.lines().filter_map(|line| line.strip_prefix("  ")).filter(|row| !row.starts_with([' ', '-']));
    let names = rows.filter_map(|row| row.split_whitespace().next()).filter(|name| *name != "help");
    let verbs: Vec<String> = names.map(str::to_owned).collect();
    assert!(verbs.len() > 15 && verbs.contains(&"doctor".to_owned()), "{verbs:?}");
    verbs
}

#[test]
fn each_verb_has_its_pages() {
    let folder = Scratch::new("manual");
    let place = folder.folder().to_str().expect("text");
    assert_eq!(memtint(&["manual", place]) + &memtint(&["manual", "--markdown", place]), "");
    for verb in verbs() {
        let page = fs::read_to_string(folder.folder().join(format!("memtint-{verb}.1"))).expect("a man page");
        assert!(page.contains(".SH SYNOPSIS") && page.contains(&format!("memtint {verb}")), "{page}");
        let page = fs::read_to_string(folder.folder().join(format!("memtint-{verb}.md"))).expect("a Markdown page");
        assert!(page.starts_with(&format!("# memtint {verb}\n")) && page.contains("**Usage:**"), "{page}");
    }
    let nested = fs::read_to_string(folder.folder().join("memtint-trace-record.1")).expect("a verb of a verb");
    assert!(nested.contains("memtint trace record"), "{nested}");
}

#[test]
fn the_documentation_has_the_pages_of_all_verbs() {
    let (folder, assert) = (Scratch::new("pages"), Assert::new().action_env("SNAPSHOTS"));
    memtint(&["manual", "--markdown", folder.folder().to_str().expect("text")]);
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/verbs");
    let names = |folder: &Path| -> BTreeSet<OsString> {
        fs::read_dir(folder).expect("it is there").map(|entry| entry.expect("it can be read").file_name()).collect()
    };
    let printed = names(folder.folder());
    for name in &printed {
        let text = fs::read_to_string(folder.folder().join(name)).expect("it was written");
        let page = Data::read_from(&pages.join(name), Some(DataFormat::Text)).raw();
        assert.eq(Data::text(text), page);
    }
    assert_eq!(names(&pages), printed);
}

#[test]
fn a_folder_that_is_absent_is_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_memtint")).args(["manual", "/nowhere/man1"]).output();
    let output = output.expect("memtint is built");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere/man1"), "{output:?}");
}

#[test]
fn shells_complete_verbs_and_their_options() {
    for shell in ["bash", "zsh", "fish"] {
        let script = memtint(&["completions", shell]);
        let lacking: Vec<String> = verbs().into_iter().filter(|verb| !script.contains(verb.as_str())).collect();
        assert!(lacking.is_empty() && script.contains("banks"), "{shell} lacks {lacking:?}");
    }
    // The shell itself takes the script.
    let folder = Scratch::new("completions");
    let file = folder.folder().join("memtint.bash");
    fs::write(&file, memtint(&["completions", "bash"])).expect("the folder is new");
    let asked =
        "source \"$1\"; COMP_WORDS=(memtint pal); COMP_CWORD=1; _memtint memtint pal memtint; echo \"${COMPREPLY[@]}\"";
    let output = Command::new("bash").args(["-c", asked, "bash"]).arg(&file).output().expect("bash is everywhere");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "palette", "{output:?}");
}
