//! `memtint platform`: descriptions of machines.

use std::fmt::Write as _;
use std::path::PathBuf;

use memtint_map::report::{ExportReport, ListReport, ShowReport};
use memtint_map::{Granule, Palette, Platform, PlatformFile, catalogue, mapfile};
use memtint_units::ByteSize;

use crate::output::{Ending, Failure, Format, JsonForm, done, done_json, read_document, table};
use crate::{decode, detect};

/// What is printed as JSON.
pub(crate) const FORMS: &[JsonForm] = &[
    JsonForm::of::<PlatformFile>("platform-import"),
    JsonForm::of::<ListReport>("platform-list"),
    JsonForm::of::<ShowReport>("platform-show"),
    JsonForm::of::<ExportReport>("platform-export"),
];

/// Arguments of `memtint platform`.
#[derive(Debug, clap::Args)]
pub(crate) struct PlatformArguments {
    #[command(subcommand)]
    verb: PlatformVerb,
}

#[derive(Debug, clap::Subcommand)]
enum PlatformVerb {
    /// List the catalogue.
    List,
    /// Show a platform's properties and the source of each.
    Show {
        /// Name of the catalogue, or a file (a path with a slash or ending in .toml).
        #[arg(value_name = "PLATFORM")]
        platform: String,
        /// Print the platform file itself.
        #[arg(long)]
        toml: bool,
    },
    /// Show what this machine reports of itself; its DRAM mapping is never guessed.
    Detect(detect::DetectArguments),
    /// Read the mapping from a dump of a memory controller's registers (AMD families 10h and 15h, Zen).
    Decode(decode::DecodeArguments),
    /// Make a platform file of another tool's bank functions, one a line: bits (6 13), masks (0x2040), or DRAMA's "Valid Function".
    Import {
        /// The file: map.txt of DRAMA++, masks of Blacksmith or ZenHammer, the functions that DRAMA of TRRespass prints.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Id of the new platform: letters, digits, dots and dashes.
        #[arg(long, value_name = "NAME")]
        id: String,
        /// Memory of the machine, for instance 16GiB; taken as one piece from address 0.
        #[arg(long, value_name = "SIZE")]
        size: ByteSize,
    },
    /// Write the bank functions of a platform as map.txt; everything else is lost.
    Export {
        /// Name of the catalogue, or a file.
        #[arg(value_name = "PLATFORM")]
        platform: String,
    },
}

pub(crate) fn main(arguments: &PlatformArguments, format: Format) -> Ending {
    match &arguments.verb {
        PlatformVerb::List => list(format),
        PlatformVerb::Show { platform, toml } => show(platform, *toml, format),
        PlatformVerb::Detect(detect) => detect::main(detect, format),
        PlatformVerb::Decode(decode) => decode::main(decode, format),
        PlatformVerb::Import { file, id, size } => import(file, id, *size, format),
        PlatformVerb::Export { platform } => export(platform, format),
    }
}

fn list(format: Format) -> Ending {
    if format == Format::Json {
        return done_json(&ListReport::new()?);
    }
    let rows = catalogue::names().map(|name| Ok(cells(&Platform::load(name)?))).collect::<Result<Vec<_>, Failure>>()?;
    done(&table(&["platform", "dram", "memory", "banks", "classes", "set colors", "name"], &[2, 3, 4, 5], &rows))
}

fn cells(platform: &Platform) -> Vec<String> {
    let palette = Palette::new(platform, Granule::PAGE).ok();
    let count = |of: fn(&Palette) -> u32| palette.as_ref().map_or_else(|| "-".to_owned(), |own| of(own).to_string());
    vec![
        platform.id().to_owned(),
        platform.dram().standard.clone(),
        ByteSize(platform.size_bytes()).to_string(),
        platform.banks().to_string(),
        count(Palette::occupied_bank_classes),
        count(Palette::set_colors),
        platform.name().to_owned(),
    ]
}

fn show(spec: &str, toml: bool, format: Format) -> Ending {
    let platform = Platform::load(spec)?;
    match format {
        Format::Json => done_json(&ShowReport::of(&platform)),
        // The catalogue's own text, where there is one, has comments.
        Format::Text if toml => match catalogue::text(spec) {
            Some(text) => done(text),
            None => done(&platform.file().to_toml()),
        },
        Format::Text => done(&description(&platform)),
    }
}

fn description(platform: &Platform) -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = describe(platform, &mut text);
    text
}

fn describe(platform: &Platform, out: &mut String) -> std::fmt::Result {
    let (file, dram) = (platform.file(), platform.dram());
    writeln!(out, "{}: {}", platform.id(), platform.name())?;
    if let Some(uarch) = &file.uarch {
        writeln!(out, "microarchitecture  {uarch}")?;
    }
    writeln!(out, "memory             {} {}", ByteSize(platform.size_bytes()), dram.standard)?;
    let counts = [
        (dram.channels, "channels"),
        (dram.dimms, "modules"),
        (dram.ranks, "ranks a module"),
        (dram.bank_groups, "bank groups a rank"),
        (dram.banks, "banks a rank"),
    ];
    let known: Vec<String> = counts.iter().filter_map(|(count, what)| Some(format!("{} {what}", (*count)?))).collect();
    if !known.is_empty() {
        writeln!(out, "geometry           {}", known.join(", "))?;
    }
    writeln!(out, "banks              {}", platform.banks())?;
    writeln!(
        out,
        "\nbank functions (XOR of address bits, known below bit {}); source: {}",
        dram.address_bits, dram.source
    )?;
    for (index, function) in platform.functions().iter().enumerate() {
        let bits: Vec<String> = memtint_map::gf2::bits(function.mask).map(|bit| bit.to_string()).collect();
        writeln!(out, "  {index:>2}  {:<11} {}", function.role.name(), bits.join(" "))?;
    }
    writeln!(out, "\nmemory regions")?;
    for region in platform.regions() {
        let assumed = if region.assumed { " (assumed)" } else { "" };
        let size = ByteSize(region.size_bytes);
        writeln!(
            out,
            "  {:#x}-{:#x} node {} {size}{assumed}: {}",
            region.base,
            region.end(),
            region.node,
            one_line(&region.source)
        )?;
    }
    describe_caches(platform, out)?;
    match &file.notes {
        Some(notes) => writeln!(out, "\nnotes: {}", one_line(notes)),
        None => Ok(()),
    }
}

fn describe_caches(platform: &Platform, out: &mut String) -> std::fmt::Result {
    writeln!(out, "\ncaches")?;
    let size = |size: Option<ByteSize>| size.map_or_else(|| "unknown size".to_owned(), |size| size.to_string());
    let count =
        |number: Option<u32>, what: &str| number.map_or_else(String::new, |number| format!(", {number} {what}"));
    for cache in platform.caches() {
        writeln!(
            out,
            "  level {} {:?}: {}{}: {}",
            cache.level,
            cache.kind,
            cache.size,
            count(cache.ways, "ways"),
            one_line(&cache.source)
        )?;
    }
    match platform.llc() {
        None => writeln!(out, "  last level: nothing is known")?,
        Some(llc) => {
            let (ways, slices) = (count(llc.ways, "ways"), count(llc.slices, "slices"));
            let sets: Vec<String> = llc.set_bits.iter().map(ToString::to_string).collect();
            writeln!(out, "  last level: {}{ways}{slices}: {}", size(llc.size), one_line(&llc.source))?;
            let sets = if sets.is_empty() { "unknown".to_owned() } else { sets.join(" ") };
            writeln!(out, "    set index bits {sets}")?;
            if let Some(left_out) = &llc.not_modelled {
                writeln!(out, "    not modelled: {}", one_line(left_out))?;
            }
        }
    }
    match platform.cores() {
        Some(cores) => writeln!(out, "cores: {}: {}", cores.count, one_line(&cores.source)),
        None => Ok(()),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn import(path: &std::path::Path, id: &str, size: ByteSize, format: Format) -> Ending {
    let origin = path.display().to_string();
    let masks = mapfile::parse(&read_document(path)?, &origin)?;
    let file_name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let file = mapfile::to_platform_file(id, &masks, size.bytes(), &format!("imported from {file_name}"));
    Platform::from_file(file.clone(), &origin)?;
    match format {
        Format::Json => done_json(&file),
        Format::Text => done(&file.to_toml()),
    }
}

fn export(spec: &str, format: Format) -> Ending {
    let platform = Platform::load(spec)?;
    match format {
        Format::Text => done(&mapfile::of_platform(&platform)),
        Format::Json => done_json(&ExportReport::of(&platform)),
    }
}
