//! `memtint platform decode`: the mapping in a dump of registers.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use memtint_map::{BankFunction, Platform, gf2};
use memtint_registers::{Controller, DecodeReport, Decoded, Family, decode_folder, decode_text};
use memtint_units::ByteSize;

use crate::output::{Ending, Failure, Format, JsonForm, done, done_json, read_document, table, warn, write_file};

/// What is printed as JSON.
pub(crate) const FORMS: &[JsonForm] = &[JsonForm::of::<DecodeReport>("platform-decode")];

/// Arguments of `memtint platform decode`.
#[derive(Debug, clap::Args)]
pub(crate) struct DecodeArguments {
    /// Dump: text of lspci -xxxx or setpci, a folder in the layout of /sys/bus/pci/devices, or a list of Zen's
    /// registers; without it this machine's configuration space is read, which needs root.
    #[arg(value_name = "DUMP")]
    dump: Option<PathBuf>,
    /// Memory controller; default: the one that the dump names.
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    /// Write the platform file to this file.
    #[arg(short, long, value_name = "FILE.toml")]
    out: Option<PathBuf>,
}

/// The memory controllers whose registers are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// AMD family 10h.
    F10h,
    /// AMD family 15h, models 00h to 1fh.
    F15h,
    /// AMD Zen.
    Zen,
}

impl From<Kind> for Controller {
    fn from(kind: Kind) -> Controller {
        match kind {
            Kind::F10h => Controller::Family(Family::F10h),
            Kind::F15h => Controller::Family(Family::F15h),
            Kind::Zen => Controller::Zen,
        }
    }
}

/// Where Linux shows configuration space.
const THIS_MACHINE: &str = "/sys/bus/pci/devices";

pub(crate) fn main(arguments: &DecodeArguments, format: Format) -> Ending {
    let path = arguments.dump.clone().unwrap_or_else(|| PathBuf::from(THIS_MACHINE));
    let (controller, decoded) = match decode(&path, arguments.kind) {
        Ok(decoded) => decoded,
        // That this machine has no such controller is an answer, not a failure.
        Err(failure) if arguments.dump.is_none() => {
            warn(&format!("this machine's registers give no mapping: {failure}"));
            return Ok(ExitCode::FAILURE);
        }
        Err(failure) => return Err(failure),
    };
    let platform = Platform::from_file(decoded.file.clone(), &path.display().to_string())?;
    if let Some(out) = &arguments.out {
        write_file(out, &decoded.file.to_toml())?;
    }
    let dump = path.display().to_string();
    match format {
        Format::Json => done_json(&DecodeReport::of(&dump, controller, &decoded, &platform)),
        Format::Text => {
            let mut text = String::new();
            // Writing to a String does not fail.
            let _ = write(&mut text, &dump, &decoded, &platform);
            done(&text)
        }
    }
}

/// Reads a dump, finding out of what kind it is unless told.
fn decode(path: &Path, kind: Option<Kind>) -> Result<(Controller, Decoded), Failure> {
    let controller = kind.map(Controller::from);
    if path.is_dir() {
        return Ok(decode_folder(path, controller)?);
    }
    Ok(decode_text(&read_document(path)?, controller, &path.display().to_string())?)
}

fn write(out: &mut String, dump: &str, decoded: &Decoded, platform: &Platform) -> std::fmt::Result {
    let dram = platform.dram();
    writeln!(out, "{dump}: {}", platform.name())?;
    writeln!(out, "memory     {} {}, {} banks", ByteSize(platform.size_bytes()), dram.standard, platform.banks())?;
    let whole = if dram.complete { "every address" } else { "banks only: rows and columns are not all known" };
    writeln!(out, "decodes    {whole}\n")?;
    let row = |(function, registers): (&BankFunction, &String)| {
        let bits: Vec<String> = gf2::bits(function.mask).map(|bit| bit.to_string()).collect();
        let assumed = if function.assumed { " (assumed)" } else { "" };
        let name = format!("{} {}", function.role.name(), function.role_bit);
        vec![name, bits.join(" "), format!("{registers}{assumed}")]
    };
    let rows: Vec<Vec<String>> = platform.functions().iter().zip(&decoded.registers).map(row).collect();
    out.push_str(&table(&["function", "DRAM address bits", "from"], &[], &rows));
    writeln!(out)?;
    let row = |region: &memtint_map::Region| {
        vec![
            format!("{:#x}-{:#x}", region.base, region.end()),
            region.node.to_string(),
            format!("{:#x}", region.dram_base),
            region.source.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = platform.regions().iter().map(row).collect();
    out.push_str(&table(&["addresses", "node", "DRAM address", "from"], &[1], &rows));
    writeln!(out, "\nsource: {}", dram.source)?;
    match &decoded.file.notes {
        Some(notes) => writeln!(out, "notes: {notes}"),
        None => Ok(()),
    }
}
