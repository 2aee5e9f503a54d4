//! Platform files from the results of a probe.

use super::banks::Banks;
use super::caches::as_said;
use super::error::SessionError;
use super::outcome::Outcome;
use super::roles::notes;
use crate::report::Mapping;
use memtint_map::file::{LlcSection, RegionSection};
use memtint_map::{Platform, PlatformFile, mapfile};
use memtint_units::{ByteSize, PhysAddr};
use std::ops::Range;

impl Outcome {
    /// Returns verified platform files, one for each area, the largest first; empty when the probe found nothing for a
    /// file. `program` is the program in the source of each fact. The second file's id is `id` with `-2`, and so on.
    ///
    /// # Errors
    /// [`SessionError::Platform`] when `id` is not a valid id.
    pub fn platform_files(&self, id: &str, program: &str) -> Result<Vec<PlatformFile>, SessionError> {
        let source = format!("{program}: timing of {}", self.facts.name);
        let mut files = match &self.banks {
            Some(banks) => banks.mapping().map_or_else(Vec::new, |mapping| self.of_banks(banks, mapping, id, &source)),
            None => self.of_cache(id),
        };
        for file in &mut files {
            file.name = format!("{}, probed", self.facts.name);
            file.llc = self.last_level(&source);
            file.cache.clone_from(&self.facts.caches);
            file.cores.clone_from(&self.facts.cores);
            Platform::from_file(file.clone(), "probed platform")?;
        }
        Ok(files)
    }

    fn of_banks(&self, banks: &Banks, mapping: &Mapping, id: &str, source: &str) -> Vec<PlatformFile> {
        let missing: Vec<String> = banks.missing().iter().map(|missing| format!(" Not known: {missing}.")).collect();
        let mut files = mapping.platform_files(id, source, &self.facts.memory());
        let several = files.len();
        for (at, (file, area)) in files.iter_mut().zip(&mapping.areas).enumerate() {
            if at > 0 {
                file.id = format!("{id}-{}", at + 1);
            }
            let part = if several > 1 {
                let number = at + 1;
                format!(
                    " This is part {number} of {several} of the machine's memory, the largest first, with separate functions. \
                     Which banks the parts share is not known: colors of one are not apart from those of another."
                )
            } else {
                String::new()
            };
            file.notes = Some(notes(area) + &part + &missing.concat());
        }
        files
    }

    /// A file of the last-level cache alone, over the memory that the machine reports.
    fn of_cache(&self, id: &str) -> Vec<PlatformFile> {
        let memory = self.facts.memory();
        if self.caches.as_ref().is_none_or(|caches| caches.found().is_none()) || memory.is_empty() {
            return Vec::new();
        }
        let mut file = mapfile::to_platform_file(id, &[], memory[memory.len() - 1].end.0, "not looked at");
        let region = |range: &Range<PhysAddr>| RegionSection {
            base: ByteSize(range.start.0),
            size: ByteSize(range.end.0 - range.start.0),
            node: 0,
            dram_base: None,
            interleave: None,
            assumed: false,
            source: "memory as reported by the machine".to_owned(),
        };
        file.region = memory.iter().map(region).collect();
        file.notes = Some("Of the last-level cache alone: banks were not looked for.".to_owned());
        vec![file]
    }

    fn last_level(&self, source: &str) -> Option<LlcSection> {
        let said = self.facts.llc.as_ref();
        match &self.caches {
            Some(caches) => caches.section(said, source),
            None => said.map(|said| as_said(said, "")),
        }
    }
}
