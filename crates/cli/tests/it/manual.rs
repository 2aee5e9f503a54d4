//! Do man pages, Markdown pages and completions name every verb?

use std::fs;
use std::process::Command;

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
