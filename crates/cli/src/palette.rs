//! `memtint palette`: what can be isolated on a platform.

use std::fmt::Write as _;

use memtint_map::{Granule, Pair, Palette, Platform, kernel};
use memtint_units::{ByteSize, IndexSet};
use schemars::JsonSchema;
use serde::Serialize;

use crate::output::{Ending, Failure, Format, JsonForm, done, done_json, table};

/// What is printed as JSON.
pub(crate) const FORMS: &[JsonForm] = &[JsonForm::of::<PaletteReport>("palette")];

/// Arguments of `memtint palette`.
#[derive(Debug, clap::Args)]
pub(crate) struct PaletteArguments {
    /// Name of the catalogue, or a file (a path with a slash or ending in .toml).
    #[arg(value_name = "PLATFORM")]
    platform: String,
    /// Block that is colored as a unit: a power of two from 4K to 2M.
    #[arg(long, value_name = "SIZE", default_value = "4K")]
    granule: Granule,
    /// Print the mapping object that the kernel's coloring is loaded with; see kernel/README.md.
    ///
    /// A text of its own, not to be combined with --format json. What the kernel cannot express is refused by name.
    #[arg(long)]
    kernel: bool,
    /// With --kernel: leave the cache out, so that banks alone are colored.
    #[arg(long, requires = "kernel")]
    banks_only: bool,
}

/// JSON form; all counts of granules are of whole ones in the platform's memory.
#[derive(Serialize, JsonSchema)]
struct PaletteReport<'a> {
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
    /// Numbers of bank classes: 0 to this, excluded. More than the classes where some have no memory.
    class_numbers: u32,
    /// Classes without memory, in list syntax; empty where each has some.
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

#[derive(Serialize, JsonSchema)]
struct ClassRow {
    class: u32,
    /// Raw bank numbers, ascending.
    members: Vec<u32>,
    granules: u64,
    capacity_bytes: u64,
    /// Set colors that granules of the class can have, in list syntax.
    set_colors: String,
}

pub(crate) fn main(arguments: &PaletteArguments, format: Format) -> Ending {
    let platform = Platform::load(&arguments.platform)?;
    let palette = Palette::new(&platform, arguments.granule)?;
    if arguments.kernel {
        if format == Format::Json {
            return Err(Failure::Sentence(
                "palette --kernel has a form of its own, accepted is no --format json".to_owned(),
            ));
        }
        return done(&kernel::print(&palette, arguments.banks_only)?);
    }
    let report = report(&palette);
    match format {
        Format::Json => done_json(&report),
        Format::Text => done(&text(&palette, &report)),
    }
}

fn report(palette: &Palette) -> PaletteReport<'_> {
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

fn classes(palette: &Palette) -> Vec<ClassRow> {
    let mut colors: Vec<Vec<u32>> = vec![Vec::new(); palette.bank_classes() as usize];
    for pair in palette.pairs() {
        colors[pair.bank_class as usize].push(pair.set_color);
    }
    let row = |(class, (granules, colors)): (u32, (u64, Vec<u32>))| ClassRow {
        class,
        members: palette.class_members(class),
        granules,
        capacity_bytes: granules * palette.granule().bytes(),
        set_colors: list(colors, palette.set_colors()),
    };
    (0..).zip(palette.granules_of_bank_classes().into_iter().zip(colors)).map(row).collect()
}

/// Classes that no granule of the platform has.
fn empty_classes(palette: &Palette) -> String {
    let granules = (0..).zip(palette.granules_of_bank_classes());
    let empty: Vec<u32> = granules.filter(|&(_, granules)| granules == 0).map(|(class, _): (u32, _)| class).collect();
    if empty.is_empty() { String::new() } else { list(empty, palette.bank_classes()) }
}

fn list(indices: Vec<u32>, limit: u32) -> String {
    IndexSet::from_indices(indices, limit).map_or_else(|error| error.to_string(), |set| set.to_string())
}

fn warnings(palette: &Palette) -> Vec<String> {
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

fn text(palette: &Palette, report: &PaletteReport<'_>) -> String {
    let mut text = String::new();
    let all_pairs = u64::from(report.class_numbers) * u64::from(report.set_colors);
    // Writing to a String does not fail.
    let _ = writeln!(text, "platform            {} ({})", report.platform, report.name);
    let _ = writeln!(text, "granule             {}", palette.granule());
    let _ =
        writeln!(text, "banks               {}, of which a granule touches {}", report.banks, report.banks_per_granule);
    let without = match report.class_numbers - report.isolation_classes {
        0 => String::new(),
        none => format!(", numbered 0-{}; {none} numbers have no memory", report.class_numbers - 1),
    };
    let _ = writeln!(text, "isolation classes   {}{without}", report.isolation_classes);
    let _ = writeln!(text, "set colors          {}", report.set_colors);
    let _ = writeln!(text, "pairs of both       {} of {all_pairs} exist", report.pairs.len());
    for warning in &report.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    text.push('\n');
    let rows: Vec<Vec<String>> = report.classes.iter().map(ClassRow::cells).collect();
    text.push_str(&table(&["class", "capacity", "set colors", "banks"], &[0, 1], &rows));
    text
}

impl ClassRow {
    fn cells(&self) -> Vec<String> {
        let members = self.members.last().map_or(0, |&last| last.saturating_add(1));
        vec![
            self.class.to_string(),
            rounded(self.capacity_bytes),
            self.set_colors.clone(),
            list(self.members.clone(), members),
        ]
    }
}

/// Exact where a binary unit fits, rounded down to MiB where the size is odd, as memory with holes makes it.
fn rounded(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    if bytes > 16 * MIB && !bytes.is_multiple_of(MIB) {
        format!("{} MiB", bytes / MIB)
    } else {
        ByteSize(bytes).to_string()
    }
}
