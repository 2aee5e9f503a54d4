//! Embeds the data files of `figures` and `machines` as tables of name and text.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    for folder in ["figures", "machines"] {
        let place = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join(folder);
        println!("cargo::rerun-if-changed={}", place.display());
        let mut files: Vec<PathBuf> = fs::read_dir(&place)
            .unwrap_or_else(|error| panic!("{}: {error}", place.display()))
            .map(|entry| entry.expect("a readable folder entry").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
            .collect();
        files.sort();
        let mut table = String::from("&[\n");
        for file in &files {
            let name = file.file_stem().expect("a toml file has a name").to_string_lossy().into_owned();
            let path = file.canonicalize().expect("the file exists");
            writeln!(table, "    ({name:?}, include_str!({path:?})),").expect("writing to a string");
        }
        table.push_str("]\n");
        let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join(format!("{folder}.rs"));
        fs::write(&out, table).unwrap_or_else(|error| panic!("{}: {error}", out.display()));
    }
}
