//! Relatives: published mappings of processors like this one.

use memtint_map::{Platform, catalogue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cpu::Processor;
use crate::machine::Machine;

/// A row of the table of microarchitectures.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Microarchitecture {
    /// CPUID vendor.
    pub vendor: String,
    /// Display family.
    pub family: u32,
    /// Display models: hexadecimal numbers or `first-last`.
    pub models: Vec<String>,
    /// Name for people.
    pub name: String,
    /// Spellings in the field `uarch` of platform files.
    pub catalogue: Vec<String>,
    /// Spellings that contain one of `catalogue` but name another microarchitecture.
    #[serde(default)]
    pub not: Vec<String>,
}

/// A catalogue entry whose processor has the same microarchitecture.
///
/// It is only a starting point for probing: mappings differ with the number of modules, ranks and channels, and with
/// firmware settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Candidate {
    /// Name in the catalogue.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// The microarchitecture as the entry spells it.
    pub uarch: String,
    /// DRAM standard.
    pub dram: String,
    /// Source of its functions.
    pub source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    uarch: Vec<Microarchitecture>,
}

/// Returns the processor's microarchitecture; `None` when the table does not contain it.
pub fn microarchitecture(processor: &Processor) -> Option<Microarchitecture> {
    table().into_iter().find(|row| {
        row.vendor == processor.vendor
            && row.family == processor.family
            && row.models.iter().any(|models| holds(models, processor.model))
    })
}

/// Finds the catalogue's entries for relatives of this machine's processor, in the catalogue's order.
pub fn candidates(machine: &Machine) -> Vec<Candidate> {
    let Some(row) = machine.processor.as_ref().and_then(microarchitecture) else { return Vec::new() };
    // Tests of the catalogue ensure that every entry loads.
    let platforms = catalogue::names().filter_map(|name| Platform::load(name).ok());
    platforms
        .filter(|platform| row.matches(platform.file().uarch.as_deref()))
        .map(|platform| Candidate::of(&platform))
        .collect()
}

/// Rows that a platform file's field `uarch` may mean; empty when the table has none.
pub(crate) fn rows_of(uarch: &str) -> Vec<Microarchitecture> {
    table().into_iter().filter(|row| row.matches(Some(uarch))).collect()
}

impl Microarchitecture {
    fn matches(&self, uarch: Option<&str>) -> bool {
        let Some(uarch) = uarch else { return false };
        let has = |spellings: &[String]| spellings.iter().any(|spelling| uarch.contains(spelling.as_str()));
        has(&self.catalogue) && !has(&self.not)
    }
}

impl Candidate {
    fn of(platform: &Platform) -> Self {
        Self {
            id: platform.id().to_owned(),
            name: platform.name().to_owned(),
            uarch: platform.file().uarch.clone().unwrap_or_default(),
            dram: platform.dram().standard.clone(),
            source: platform.dram().source.clone(),
        }
    }
}

fn table() -> Vec<Microarchitecture> {
    let table: Table = toml::from_str(include_str!("../uarch.toml")).expect("the table is checked by a test");
    table.uarch
}

fn holds(models: &str, model: u32) -> bool {
    let (first, last) = models.split_once('-').unwrap_or((models, models));
    let number = |text| u32::from_str_radix(text, 16).ok();
    matches!((number(first), number(last)), (Some(first), Some(last)) if (first..=last).contains(&model))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processor(vendor: &str, family: u32, model: u32) -> Processor {
        Processor {
            vendor: vendor.to_owned(),
            brand: String::new(),
            family,
            model,
            stepping: 0,
            physical_address_bits: None,
            hypervisor: None,
        }
    }

    #[test]
    fn every_row_is_well_formed_and_none_is_claimed_twice() {
        let rows = table();
        for row in &rows {
            assert!(!row.name.is_empty() && !row.catalogue.is_empty(), "{row:?}");
            for model in 0..=0xff {
                let same = |other: &&Microarchitecture| {
                    (&other.vendor, other.family) == (&row.vendor, row.family)
                        && other.models.iter().any(|models| holds(models, model))
                };
                assert!(rows.iter().filter(same).count() <= 1, "{} family {} model {model:#x}", row.vendor, row.family);
            }
        }
    }

    #[test]
    fn known_processors_are_named() {
        let name = |processor| microarchitecture(&processor).map(|row| row.name);
        assert_eq!(name(processor("GenuineIntel", 6, 0x1a)).as_deref(), Some("Nehalem"));
        assert_eq!(name(processor("AuthenticAMD", 0x19, 0x21)).as_deref(), Some("Zen 3"));
        assert_eq!(name(processor("GenuineIntel", 6, 0xfe)), None);
    }

    #[test]
    fn skylake_of_desktops_is_not_skylake_of_servers() {
        let row = microarchitecture(&processor("GenuineIntel", 6, 0x5e)).expect("in the table");
        assert!(row.matches(Some("Skylake")) && !row.matches(Some("Skylake-SP")) && !row.matches(None));
    }
}
