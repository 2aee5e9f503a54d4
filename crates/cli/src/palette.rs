//! `memtint palette`: the isolation classes of a platform.

use std::fmt::Write as _;

use memtint_map::report::{PaletteReport, warnings};
use memtint_map::{Granule, Palette, Platform, kernel};
use memtint_units::{ByteSize, IndexSet};

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
    /// Not to be combined with --format json. A property that the kernel cannot express is refused by name.
    #[arg(long)]
    kernel: bool,
    /// With --kernel: leave the cache out, so that banks alone are colored.
    #[arg(long, requires = "kernel")]
    banks_only: bool,
}

pub(crate) fn main(arguments: &PaletteArguments, format: Format) -> Ending {
    let platform = Platform::load(&arguments.platform)?;
    let palette = Palette::new(&platform, arguments.granule)?;
    if arguments.kernel {
        if format == Format::Json {
            return Err(Failure::Sentence(
                "--kernel: found with --format json; accepted is --format text, because the kernel reads the output"
                    .to_owned(),
            ));
        }
        return done(&kernel::print(&palette, arguments.banks_only)?);
    }
    match format {
        Format::Json => done_json(&PaletteReport::of(&palette)),
        Format::Text => done(&text(&palette)),
    }
}

fn text(palette: &Palette) -> String {
    let mut text = String::new();
    let (classes, set_colors) = (palette.bank_classes(), palette.set_colors());
    let (platform, occupied) = (palette.platform(), palette.occupied_bank_classes());
    // Writing to a String does not fail.
    let _ = writeln!(text, "platform            {} ({})", platform.id(), platform.name());
    let _ = writeln!(text, "granule             {}", palette.granule());
    let (banks, touched) = (palette.banks(), palette.banks_per_granule());
    let _ = writeln!(text, "banks               {banks}, of which a granule touches {touched}");
    let without = match classes - occupied {
        0 => String::new(),
        none => format!(", numbered 0-{}; {none} numbers have no memory", classes - 1),
    };
    let _ = writeln!(text, "isolation classes   {occupied}{without}");
    let _ = writeln!(text, "set colors          {set_colors}");
    let all_pairs = u64::from(classes) * u64::from(set_colors);
    let _ = writeln!(text, "pairs of both       {} of {all_pairs} exist", palette.pairs().len());
    for warning in warnings(palette) {
        let _ = writeln!(text, "warning: {warning}");
    }
    text.push('\n');
    let colors = palette.set_colors_of_bank_classes();
    let row = |(class, (granules, colors)): (u32, (u64, Vec<u32>))| {
        let members = palette.class_members(class);
        let behind = members.last().map_or(0, |&last| last.saturating_add(1));
        let capacity = rounded(granules * palette.granule().bytes());
        vec![class.to_string(), capacity, list(colors, set_colors), list(members, behind)]
    };
    let rows: Vec<Vec<String>> =
        (0..).zip(palette.granules_of_bank_classes().into_iter().zip(colors)).map(row).collect();
    text.push_str(&table(&["class", "capacity", "set colors", "banks"], &[0, 1], &rows));
    text
}

fn list(indices: Vec<u32>, limit: u32) -> String {
    IndexSet::from_indices(indices, limit).map_or_else(|error| error.to_string(), |set| set.to_string())
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
