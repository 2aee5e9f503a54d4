//! For build scripts: data files of a folder as a table of name and text.
//!
//! ```ignore
//! // build.rs
//! memtint_embed::folder("standards", "standards.rs");
//! // src/
//! static STANDARDS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/standards.rs"));
//! ```

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Writes the table of a folder's TOML files, by name, to a file of the build's own.
///
/// `folder` is relative to the crate, `table` names the file in `OUT_DIR`. Cargo runs the script again when the folder
/// changes.
///
/// # Panics
///
/// Outside of a build script, and when a file cannot be read or written: the build ends with the name of the file.
pub fn folder(folder: &str, table: &str) {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join(folder);
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a readable folder entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    // By name, not by path: "a.toml" sorts behind "a-b.toml", but the table is searched for "a".
    files.sort_by_key(|file| file.file_stem().map(std::ffi::OsStr::to_owned));
    let mut text = String::from("&[\n");
    for file in &files {
        let name = file.file_stem().expect("a toml file has a name").to_string_lossy().into_owned();
        let path = file.canonicalize().expect("the file exists");
        writeln!(text, "    ({name:?}, include_str!({path:?})),").expect("writing to a string");
    }
    text.push_str("]\n");
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join(table);
    fs::write(&out, text).unwrap_or_else(|error| panic!("{}: {error}", out.display()));
}
