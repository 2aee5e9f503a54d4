//! Machine-readable reports of palettes and platforms; the JSON Schema follows from the types.

use memtint_units::IndexSet;
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::PlatformError;
use crate::file::PlatformFile;
use crate::granule::Granule;
use crate::palette::{Pair, Palette};
use crate::platform::Platform;
use crate::{catalogue, gf2};

/// JSON form. All counts of granules are of whole granules in the platform's memory.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PaletteReport<'a> {
    schema: u32,
    report: &'static str,
    platform: &'a str,
    name: &'a str,
    granule_bytes: u64,
    /// Banks of the machine, raw.
    banks: u32,
    /// Banks that one granule touches.
    banks_per_granule: u32,
    /// Number of bank classes with memory.
    isolation_classes: u32,
    /// Bank classes have numbers from 0 to this, excluded. Larger than the number of classes where some numbers have no
    /// memory.
    class_numbers: u32,
    /// Classes without memory, in list syntax; empty if all have memory.
    classes_without_memory: String,
    /// Number of set colors.
    set_colors: u32,
    /// Pairs of bank class and set color that exist.
    pairs: &'a [Pair],
    classes: Vec<ClassRow>,
    granules_by_set_color: Vec<u64>,
    /// Banks that both halves of the raw bank numbers touch; 0 when splitting raw numbers isolates.
    raw_halves_shared_banks: u32,
    warnings: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ClassRow {
    class: u32,
    /// Raw bank numbers, ascending.
    members: Vec<u32>,
    granules: u64,
    capacity_bytes: u64,
    /// Set colors that granules of the class can have, in list syntax.
    set_colors: String,
}

impl PaletteReport<'_> {
    /// Makes the report of a palette.
    #[must_use]
    pub fn of(palette: &Palette) -> PaletteReport<'_> {
        PaletteReport {
            schema: 1,
            report: "palette",
            platform: palette.platform().id(),
            name: palette.platform().name(),
            granule_bytes: palette.granule().bytes(),
            banks: palette.banks(),
            banks_per_granule: palette.banks_per_granule(),
            isolation_classes: palette.occupied_bank_classes(),
            class_numbers: palette.bank_classes(),
            classes_without_memory: empty_classes(palette),
            set_colors: palette.set_colors(),
            pairs: palette.pairs(),
            classes: classes(palette),
            granules_by_set_color: palette.granules_of_set_colors(),
            raw_halves_shared_banks: palette.raw_halves_shared(),
            warnings: warnings(palette),
        }
    }
}

fn classes(palette: &Palette) -> Vec<ClassRow> {
    let row = |(class, (granules, colors)): (u32, (u64, Vec<u32>))| ClassRow {
        class,
        members: palette.class_members(class),
        granules,
        capacity_bytes: granules * palette.granule().bytes(),
        set_colors: list(colors, palette.set_colors()),
    };
    (0..)
        .zip(palette.granules_of_bank_classes().into_iter().zip(palette.set_colors_of_bank_classes()))
        .map(row)
        .collect()
}

/// Classes that no granule of the platform has, in list syntax.
fn empty_classes(palette: &Palette) -> String {
    let granules = (0..).zip(palette.granules_of_bank_classes());
    let empty: Vec<u32> = granules.filter(|&(_, granules)| granules == 0).map(|(class, _): (u32, _)| class).collect();
    if empty.is_empty() { String::new() } else { list(empty, palette.bank_classes()) }
}

fn list(indices: Vec<u32>, limit: u32) -> String {
    IndexSet::from_indices(indices, limit).map_or_else(|error| error.to_string(), |set| set.to_string())
}

/// Gives the reasons why banks or cache sets of a platform cannot be isolated, as sentences.
#[must_use]
pub fn warnings(palette: &Palette) -> Vec<String> {
    let mut warnings = Vec::new();
    let (banks, granule) = (palette.banks(), palette.granule());
    let shared = palette.raw_halves_shared();
    if palette.platform().functions().is_empty() {
        warnings.push("no bank functions are known: banks cannot be isolated".to_owned());
    } else if palette.occupied_bank_classes() <= 1 {
        warnings.push(format!(
            "the memory of this platform has one bank class at a granule of {granule}, of {} of {banks} banks: banks cannot be isolated",
            palette.banks_per_granule()
        ));
    } else if shared > 0 {
        warnings.push(format!(
            "raw bank numbers mislead: a granule of {granule} touches {} banks, and if the {banks} numbers are split in halves, \
             {shared} of the banks are touched from both; only the classes below isolate",
            palette.banks_per_granule()
        ));
    }
    let (occupied, numbers) = (palette.occupied_bank_classes(), palette.bank_classes());
    if occupied < numbers {
        warnings.push(format!(
            "{} of the {numbers} class numbers have no memory on this platform ({}): bits of the bank functions lie above its memory",
            numbers - occupied,
            empty_classes(palette)
        ));
    }
    let llc = palette.platform().llc();
    match llc {
        None => warnings.push("nothing is known of the last-level cache: cache sets cannot be isolated".to_owned()),
        Some(_) if palette.set_colors() == 1 => {
            warnings.push(format!("at a granule of {granule} there is one set color: cache sets cannot be isolated"));
        }
        Some(_) => {}
    }
    if let Some(left_out) = llc.and_then(|llc| llc.not_modelled.as_ref()) {
        warnings.push(format!("set colors leave out: {left_out}"));
    }
    if palette.platform().dram().source_kind.as_deref() == Some("assumed") {
        warnings.push("the bank functions of this platform are assumed, not measured".to_owned());
    }
    warnings
}

/// Output of `memtint platform list`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ListReport {
    schema: u32,
    report: &'static str,
    platforms: Vec<ListRow>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ListRow {
    id: String,
    name: String,
    uarch: Option<String>,
    dram: String,
    size_bytes: u64,
    banks: u32,
    /// At a granule of 4 KiB; absent where granules of that size form no classes.
    isolation_classes_4k: Option<u32>,
    /// At a granule of 4 KiB.
    set_colors_4k: Option<u32>,
    source: String,
}

/// Output of `memtint platform show`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ShowReport<'a> {
    schema: u32,
    report: &'static str,
    /// Banks of all ranks and channels.
    banks: u32,
    size_bytes: u64,
    /// The file.
    platform: &'a PlatformFile,
}

/// Output of `memtint platform export`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ExportReport {
    schema: u32,
    report: &'static str,
    /// Address bits of each function.
    functions: Vec<Vec<u32>>,
}

impl ListReport {
    /// Makes the report of the whole catalogue.
    ///
    /// # Errors
    /// [`PlatformError`] where a platform of the catalogue is faulty.
    pub fn new() -> Result<ListReport, PlatformError> {
        let rows = catalogue::names().map(|name| Ok(ListRow::of(&Platform::load(name)?)));
        Ok(ListReport { schema: 1, report: "platforms", platforms: rows.collect::<Result<_, PlatformError>>()? })
    }
}

impl ListRow {
    fn of(platform: &Platform) -> ListRow {
        let palette = Palette::new(platform, Granule::PAGE).ok();
        ListRow {
            id: platform.id().to_owned(),
            name: platform.name().to_owned(),
            uarch: platform.file().uarch.clone(),
            dram: platform.dram().standard.clone(),
            size_bytes: platform.size_bytes(),
            banks: platform.banks(),
            isolation_classes_4k: palette.as_ref().map(Palette::occupied_bank_classes),
            set_colors_4k: palette.as_ref().map(Palette::set_colors),
            source: platform.dram().source.clone(),
        }
    }
}

impl ShowReport<'_> {
    /// Makes the report of a platform.
    #[must_use]
    pub fn of(platform: &Platform) -> ShowReport<'_> {
        let (banks, size_bytes) = (platform.banks(), platform.size_bytes());
        ShowReport { schema: 1, report: "platform", banks, size_bytes, platform: platform.file() }
    }
}

impl ExportReport {
    /// Makes the report of a platform's bank functions.
    #[must_use]
    pub fn of(platform: &Platform) -> ExportReport {
        let functions = platform.function_masks().iter().map(|&mask| gf2::bits(mask).collect()).collect();
        ExportReport { schema: 1, report: "map", functions }
    }
}
