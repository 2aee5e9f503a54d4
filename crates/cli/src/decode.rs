//! `memtint platform decode`: the mapping that a dump of registers says.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use memtint_map::gf2;
use memtint_map::{Platform, PlatformFile};
use memtint_registers::{ConfigSpace, Decoded, Family, RegisterError, ZenDump, decode_family, decode_zen};
use memtint_units::ByteSize;
use schemars::JsonSchema;
use serde::Serialize;

use crate::output::{Ending, Failure, Format, JsonForm, done, done_json, read_document, table, write_file};

/// What is printed as JSON.
pub(crate) const FORMS: &[JsonForm] = &[JsonForm::of::<DecodeReport>("platform-decode")];

/// Arguments of `memtint platform decode`.
#[derive(Debug, clap::Args)]
pub(crate) struct DecodeArguments {
    /// Dump: text of lspci -xxxx or setpci, a folder in the layout of /sys/bus/pci/devices, or a list of Zen's
    /// registers; without it this machine's configuration space is read, which needs root.
    #[arg(value_name = "DUMP")]
    dump: Option<PathBuf>,
    /// Memory controller; without it the dump tells.
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    /// Writes the platform file there.
    #[arg(long, value_name = "FILE.toml")]
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

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::F10h => "f10h",
            Kind::F15h => "f15h",
            Kind::Zen => "zen",
        }
    }
}

/// Where Linux shows configuration space.
const THIS_MACHINE: &str = "/sys/bus/pci/devices";

#[derive(Serialize, JsonSchema)]
struct DecodeReport<'a> {
    schema: u32,
    report: &'static str,
    dump: String,
    kind: &'static str,
    functions: Vec<FunctionRow>,
    platform: &'a PlatformFile,
}

#[derive(Serialize, JsonSchema)]
struct FunctionRow {
    role: &'static str,
    /// Which bit of that role's number.
    role_bit: u32,
    /// DRAM address bits.
    bits: Vec<u32>,
    /// Taken over from what the dump shows of another part, or one of several published rules.
    assumed: bool,
    /// Register bits it follows from.
    registers: String,
}

pub(crate) fn main(arguments: &DecodeArguments, format: Format) -> Ending {
    let path = arguments.dump.clone().unwrap_or_else(|| PathBuf::from(THIS_MACHINE));
    let (kind, decoded) = match decode(&path, arguments.kind) {
        Ok(decoded) => decoded,
        // That this machine has no such controller is an answer, not a failure.
        Err(failure) if arguments.dump.is_none() => {
            eprintln!("memtint: this machine's registers tell no mapping: {failure}");
            return Ok(ExitCode::FAILURE);
        }
        Err(failure) => return Err(failure),
    };
    let platform = Platform::from_file(decoded.file.clone(), &path.display().to_string())?;
    if let Some(out) = &arguments.out {
        write_file(out, &decoded.file.to_toml())?;
    }
    let rows = platform.functions().iter().zip(&decoded.registers).map(|(function, registers)| FunctionRow {
        role: function.role.name(),
        role_bit: function.role_bit,
        bits: gf2::bits(function.mask).collect(),
        assumed: function.assumed,
        registers: registers.clone(),
    });
    let report = DecodeReport {
        schema: 1,
        report: "decoded",
        dump: path.display().to_string(),
        kind: kind.name(),
        functions: rows.collect(),
        platform: &decoded.file,
    };
    match format {
        Format::Json => done_json(&report),
        Format::Text => done(&report.text(&platform)),
    }
}

/// Reads a dump, finding out of what kind it is unless told.
fn decode(path: &Path, kind: Option<Kind>) -> Result<(Kind, Decoded), Failure> {
    let origin = path.display().to_string();
    if path.is_dir() {
        if kind == Some(Kind::Zen) {
            let text = "registers of Zen are not in configuration space; accepted is a list of them in a file";
            return Err(Failure::Sentence(format!("{origin}: {text}")));
        }
        return Ok(of_family(&ConfigSpace::read_folder(path)?, kind, &origin)?);
    }
    let text = read_document(path)?;
    // The list of Zen's registers says its fabric in a line of its own; no dump of configuration space has such a line.
    let zen = text.lines().any(|line| line.trim_start().starts_with("fabric "));
    if kind.map_or(zen, |kind| kind == Kind::Zen) {
        return Ok((Kind::Zen, decode_zen(&ZenDump::parse(&text, &origin)?, &origin)?));
    }
    Ok(of_family(&ConfigSpace::parse(&text, &origin)?, kind, &origin)?)
}

fn of_family(space: &ConfigSpace, kind: Option<Kind>, origin: &str) -> Result<(Kind, Decoded), RegisterError> {
    let family = match kind {
        Some(Kind::F10h) => Family::F10h,
        Some(Kind::F15h) => Family::F15h,
        Some(Kind::Zen) | None => Family::of(space, origin)?,
    };
    let kind = match family {
        Family::F10h => Kind::F10h,
        Family::F15h => Kind::F15h,
    };
    Ok((kind, decode_family(space, family, origin)?))
}

impl DecodeReport<'_> {
    fn text(&self, platform: &Platform) -> String {
        let mut out = String::new();
        // Writing to a String does not fail.
        let _ = self.write(platform, &mut out);
        out
    }

    fn write(&self, platform: &Platform, out: &mut String) -> std::fmt::Result {
        let dram = platform.dram();
        writeln!(out, "{}: {}", self.dump, platform.name())?;
        writeln!(out, "memory     {} {}, {} banks", ByteSize(platform.size_bytes()), dram.standard, platform.banks())?;
        let whole = if dram.complete { "every address" } else { "banks only: rows and columns are not all known" };
        writeln!(out, "tells      {whole}\n")?;
        let row = |row: &FunctionRow| {
            let bits: Vec<String> = row.bits.iter().map(ToString::to_string).collect();
            let assumed = if row.assumed { " (assumed)" } else { "" };
            vec![format!("{} {}", row.role, row.role_bit), bits.join(" "), format!("{}{assumed}", row.registers)]
        };
        let rows: Vec<Vec<String>> = self.functions.iter().map(row).collect();
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
        match &self.platform.notes {
            Some(notes) => writeln!(out, "notes: {notes}"),
            None => Ok(()),
        }
    }
}
