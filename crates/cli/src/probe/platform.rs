//! Platform files of results.

use std::path::{Path, PathBuf};

use memtint_probe::session::Outcome;

use crate::output::{Failure, WholeFile, note, warn};

/// Writes the largest area's file, and those of others beside it; warns where there is none.
pub(super) fn write(outcome: &Outcome, id: &str, out: WholeFile) -> Result<(), Failure> {
    let files = outcome.platform_files(id, concat!("memtint probe ", env!("CARGO_PKG_VERSION")))?;
    let path = out.path().to_owned();
    let Some((first, others)) = files.split_first() else {
        let what = if outcome.banks.is_some() { "mapping" } else { "cache index" };
        warn(&format!("{} is not written: no {what} was found", path.display()));
        return Ok(());
    };
    out.finish(&first.to_toml())?;
    for (at, file) in others.iter().enumerate() {
        let beside = numbered(&path, at + 2);
        WholeFile::new(&beside)?.finish(&file.to_toml())?;
        note(&format!("{} describes another part of memory, with separate functions", beside.display()));
    }
    Ok(())
}

/// `machine.toml`, 2: `machine-2.toml`.
fn numbered(path: &Path, number: usize) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().map_or_else(String::new, |extension| format!(".{}", extension.to_string_lossy()));
    path.with_file_name(format!("{stem}-{number}{extension}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_beside_a_file() {
        for (path, other) in [("a/m.toml", "a/m-2.toml"), ("m", "m-2"), ("a.b/m.x.toml", "a.b/m.x-2.toml")] {
            assert_eq!(numbered(Path::new(path), 2), Path::new(other));
        }
    }
}
