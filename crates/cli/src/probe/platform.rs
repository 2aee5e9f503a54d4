//! Platform files of what was found.

use std::path::{Path, PathBuf};

use memtint_map::file::{LlcSection, RegionSection};
use memtint_map::{Platform, PlatformFile, mapfile};
use memtint_probe::Mapping;
use memtint_units::ByteSize;

use super::caches::as_said;
use super::report::{Banks, Outcome, roles};
use crate::output::{Failure, WholeFile};

/// Writes the largest area's file, and those of others beside it; or says that there is nothing to write.
pub(super) fn write(outcome: &Outcome, id: &str, out: WholeFile) -> Result<(), Failure> {
    let files = files(outcome, id)?;
    let path = out.path().to_owned();
    let Some((first, others)) = files.split_first() else {
        let what = if outcome.banks.is_some() { "mapping" } else { "cache index" };
        eprintln!("memtint: there is no {what} to be written to {}", path.display());
        return Ok(());
    };
    out.finish(&first.to_toml())?;
    for (at, file) in others.iter().enumerate() {
        let beside = numbered(&path, at + 2);
        WholeFile::new(&beside)?.finish(&file.to_toml())?;
        eprintln!("memtint: {} has another part of memory, with functions of its own", beside.display());
    }
    Ok(())
}

/// `machine.toml`, 2: `machine-2.toml`.
fn numbered(path: &Path, number: usize) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().map_or_else(String::new, |extension| format!(".{}", extension.to_string_lossy()));
    path.with_file_name(format!("{stem}-{number}{extension}"))
}

/// Verified platform files; none when nothing was found that could be in one.
fn files(outcome: &Outcome, id: &str) -> Result<Vec<PlatformFile>, Failure> {
    let version = env!("CARGO_PKG_VERSION");
    let source = format!("memtint probe {version}: timing of {}", outcome.described.name);
    let mut files = match &outcome.banks {
        Some(banks) => banks.mapping().map_or_else(Vec::new, |mapping| of_banks(outcome, banks, mapping, id, &source)),
        None => of_cache(outcome, id),
    };
    for file in &mut files {
        file.name = format!("{}, probed", outcome.described.name);
        file.llc = last_level(outcome, &source);
        file.cache.clone_from(&outcome.described.caches);
        file.cores.clone_from(&outcome.described.cores);
        Platform::from_file(file.clone(), "what was found")?;
    }
    Ok(files)
}

fn of_banks(outcome: &Outcome, banks: &Banks, mapping: &Mapping, id: &str, source: &str) -> Vec<PlatformFile> {
    let missing: Vec<String> = banks.missing().iter().map(|missing| format!(" Not known: {missing}.")).collect();
    let mut files = mapping.platform_files(id, source, &outcome.described.memory());
    let several = files.len();
    for (at, (file, area)) in files.iter_mut().zip(&mapping.areas).enumerate() {
        if at > 0 {
            file.id = format!("{id}-{}", at + 1);
        }
        let part = if several > 1 {
            let number = at + 1;
            format!(
                " This is part {number} of {several} of the machine's memory, the largest first, with functions of its own. What banks the \
                 parts share is not known: colors of one are not apart from those of another."
            )
        } else {
            String::new()
        };
        file.notes = Some(roles(area) + &part + &missing.concat());
    }
    files
}

/// A file of the last-level cache alone, over the memory that the machine says it has.
fn of_cache(outcome: &Outcome, id: &str) -> Vec<PlatformFile> {
    let memory = outcome.described.memory();
    if outcome.caches.as_ref().is_none_or(|caches| caches.found().is_none()) || memory.is_empty() {
        return Vec::new();
    }
    let mut file = mapfile::to_platform_file(id, &[], memory[memory.len() - 1].end.0, "not looked at");
    let region = |range: &std::ops::Range<memtint_units::PhysAddr>| RegionSection {
        base: ByteSize(range.start.0),
        size: ByteSize(range.end.0 - range.start.0),
        node: 0,
        dram_base: None,
        interleave: None,
        assumed: false,
        source: "what the machine says of its memory".to_owned(),
    };
    file.region = memory.iter().map(region).collect();
    file.notes = Some("Of the last-level cache alone: banks were not looked for.".to_owned());
    vec![file]
}

fn last_level(outcome: &Outcome, source: &str) -> Option<LlcSection> {
    let said = outcome.described.llc.as_ref();
    match &outcome.caches {
        Some(caches) => caches.section(said, source),
        None => said.map(|said| as_said(said, "")),
    }
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
