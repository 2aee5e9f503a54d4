//! Do the examples of the README and of `docs/` print what they say?
//!
//! `cargo test -p memtint-cli --test console`; with TRYCMD=overwrite, they are written anew. In a fence `console`, a line `...` stands
//! for any lines, `[..]` for any part of a line. A separate program, because it changes its directory.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const MEMTINT: &str = env!("CARGO_BIN_EXE_memtint");
/// Commands of memtint in code that is not executed, over all pages: they need root, depend on this machine or write for long. A page
/// that gains or loses one changes this number.
const NOT_EXECUTED: usize = 39;
/// Verbs with subcommands.
const GROUPS: [&str; 7] = ["bench", "dram", "guard", "platform", "refresh", "system", "trace"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("it is there")
}

/// All files below a folder whose names have one of the extensions.
fn files(folder: &str, extensions: &[&str]) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![root().join(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().expect("a folder") {
            let path = entry.expect("readable").path();
            let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
            if path.is_dir() {
                folders.push(path);
            } else if extensions.contains(&extension) {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// The README and all pages of `docs/` but those that the program itself prints (`it/manual.rs`).
fn pages() -> Vec<PathBuf> {
    let printed = root().join("docs/reference/verbs");
    let written = files("docs", &["md"]).into_iter().filter(|page| !page.starts_with(&printed));
    std::iter::once(root().join("README.md")).chain(written).collect()
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Lines of code, in fences or indented, with whether they are in a fence `console`.
fn code(page: &str) -> Vec<(bool, &str)> {
    let (mut lines, mut fence) = (Vec::new(), None);
    for line in page.lines() {
        match (fence, line.trim_start().strip_prefix("```")) {
            (None, Some(language)) => fence = Some(language == "console"),
            (Some(_), Some(_)) => fence = None,
            (Some(console), None) => lines.push((console, line.trim())),
            (None, None) if line.starts_with("    ") => lines.push((false, line.trim())),
            (None, None) => {}
        }
    }
    lines
}

/// The words of a line that starts memtint, as a user or as root.
fn command(line: &str) -> Option<Vec<&str>> {
    let typed = line.strip_prefix("$ ").or_else(|| line.strip_prefix("# ")).unwrap_or(line);
    let words: Vec<&str> = typed.split_whitespace().take_while(|word| !["--", ">", "#", "&"].contains(word)).collect();
    (words.first() == Some(&"memtint")).then(|| words[1..].to_vec())
}

/// Each page with its text.
fn read() -> Vec<(PathBuf, String)> {
    pages().into_iter().map(|page| (page.clone(), text(&page))).collect()
}

/// Commands that no test executes, with the page of each.
fn unexecuted(pages: &[(PathBuf, String)]) -> Vec<(&Path, Vec<&str>)> {
    pages
        .iter()
        .flat_map(|(path, page)| code(page).into_iter().map(move |line| (path.as_path(), line)))
        .filter(|(_, (console, _))| !console)
        .filter_map(|(path, (_, line))| Some((path, command(line)?)))
        .collect()
}

fn output(words: &[&str]) -> String {
    let output = Command::new(MEMTINT).args(words).env_remove("MEMTINT_PLATFORM").output().expect("it was compiled");
    assert!(output.status.success(), "memtint {words:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The verb of a command, with its subcommand.
fn verb<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let begin = if words.first() == Some(&"--format") { 2 } else { 0 };
    let count = if GROUPS.contains(&words[begin]) { 2 } else { 1 };
    words[begin..].iter().copied().take(count).filter(|word| word.chars().all(char::is_alphanumeric)).collect()
}

#[test]
fn the_examples_print_what_the_pages_say() {
    let root = root();
    let folder = std::env::temp_dir().join(format!("memtint-console-{}", std::process::id()));
    // One of a process of the same number may be left.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).expect("the temporary directory is writable");
    for read in ["crates", "examples", "platforms"] {
        symlink(root.join(read), folder.join(read)).expect("the folder is new");
    }
    // Standard error has progress, as the machine is fast or slow.
    let quiet = folder.join("memtint");
    let script = format!("#!/bin/sh\nexec env -u MEMTINT_PLATFORM {MEMTINT} \"$@\" 2>/dev/null\n");
    std::fs::write(&quiet, script).expect("the folder is there");
    std::fs::set_permissions(&quiet, Permissions::from_mode(0o755)).expect("the file is there");
    let pages = pages();
    std::env::set_current_dir(&folder).expect("it is there");
    let cases = trycmd::TestCases::new();
    cases.register_bin("memtint", quiet.as_path());
    for page in pages {
        cases.case(page);
    }
    cases.run();
    // What is left behind in the temporary directory does no harm.
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn what_is_not_executed_is_counted() {
    let pages = read();
    let unexecuted = unexecuted(&pages);
    assert_eq!(
        unexecuted.len(),
        NOT_EXECUTED,
        "examples in a fence `console` are executed; these are not: {unexecuted:#?}"
    );
}

#[test]
fn what_is_not_executed_has_options_that_exist() {
    let pages = read();
    for (page, words) in unexecuted(&pages) {
        let help = output(&[verb(&words).as_slice(), &["--help"]].concat());
        for option in words.iter().filter(|word| word.starts_with("--")) {
            assert!(help.contains(option), "{}: {option} of memtint {words:?} is not in its help", page.display());
        }
    }
}

#[test]
fn all_fields_of_system_files_are_documented() {
    let schema: Value = serde_json::from_str(&output(&["system", "schema"])).expect("it is JSON");
    let tables = schema["$defs"].as_object().expect("definitions").values().chain([&schema]);
    let fields: BTreeSet<&String> =
        tables.filter_map(|table| table["properties"].as_object()).flat_map(|all| all.keys()).collect();
    let page = text(&root().join("docs/reference/system-file.md"));
    let missing: Vec<_> = fields.iter().filter(|field| !page.contains(&format!("| `{field}` |"))).collect();
    assert!(missing.is_empty(), "run memtint system schema | scripts/fields.py: {missing:?}");
}

/// A key is three letters and two digits behind a bracket: `[Pan18, ...`.
#[test]
fn all_keys_are_in_the_bibliography() {
    let bibliography = text(&root().join("docs/bibliography.md"));
    let is_key = |key: &str| {
        let (letters, digits) = key.split_at(3);
        letters.starts_with(|first: char| first.is_ascii_uppercase())
            && letters[1..].chars().all(|letter| letter.is_ascii_lowercase())
            && digits.chars().all(|digit| digit.is_ascii_digit())
    };
    let mut unknown = BTreeSet::new();
    for file in [pages(), files("crates", &["rs", "toml"]), files("examples", &["toml"])].concat() {
        let page = text(&file);
        let keys = page.split('[').skip(1).filter_map(|rest| rest.get(..5)).filter(|key| key.is_ascii() && is_key(key));
        unknown.extend(keys.filter(|key| !bibliography.contains(&format!("| **[{key}]** |"))).map(str::to_owned));
    }
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn all_errata_are_documented() {
    let page = text(&root().join("docs/errata.md"));
    for file in files("crates/reproduce/figures", &["toml"]) {
        let id = file.file_stem().and_then(|stem| stem.to_str()).expect("text");
        assert!(
            !text(&file).contains("[[erratum]]") || page.contains(&format!("`{id}`")),
            "{id} is not in docs/errata.md"
        );
    }
}

/// The site's build checks the links between its pages, but not those of the README.
#[test]
fn links_of_the_readme_lead_to_files() {
    let readme = text(&root().join("README.md"));
    let links = readme.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    let broken: Vec<_> = links.filter(|link| !link.starts_with("http") && !root().join(link).exists()).collect();
    assert!(broken.is_empty(), "{broken:?}");
}
