//! `memtint platform detect`: facts that this machine reports about itself.

use std::fmt::{self, Write as _};

use memtint_detect::{Candidate, DetectReport, Machine, assumed_platform, candidates, microarchitecture};
use memtint_map::Platform;
use memtint_units::ByteSize;

use crate::output::{Ending, Format, JsonForm, done, done_json, table};

/// What is printed as JSON.
pub(crate) const FORMS: &[JsonForm] = &[JsonForm::of::<DetectReport>("platform-detect")];

/// Arguments of `memtint platform detect`.
#[derive(Debug, clap::Args)]
pub(crate) struct DetectArguments {
    /// Print a platform file instead: memory, cores and caches of this machine, bank functions of this platform, marked
    /// as assumed.
    #[arg(long, value_name = "PLATFORM")]
    functions_of: Option<String>,
    /// Take the last-level cache of this platform too, marked as assumed: to try set colors where the machine does not
    /// say how its cache is indexed.
    #[arg(long, value_name = "PLATFORM", requires = "functions_of")]
    cache_of: Option<String>,
}

pub(crate) fn main(arguments: &DetectArguments, format: Format) -> Ending {
    let machine = Machine::read();
    if let Some(spec) = &arguments.functions_of {
        let cache_of = arguments.cache_of.as_deref().map(Platform::load).transpose()?;
        let file = assumed_platform(&machine, &Platform::load(spec)?, cache_of.as_ref())?;
        return match format {
            Format::Json => done_json(&file),
            Format::Text => done(&file.to_toml()),
        };
    }
    match format {
        Format::Json => done_json(&DetectReport::of(&machine)),
        Format::Text => {
            let mut text = String::new();
            // Writing to a String does not fail.
            let _ = write(&machine, &mut text);
            done(&text)
        }
    }
}

/// The machine's facts as text.
fn write(machine: &Machine, out: &mut String) -> fmt::Result {
    write_processor(machine, out)?;
    write_caches(machine, out)?;
    write_memory(machine, out)?;
    write_firmware(machine, out)?;
    write_candidates(&candidates(machine), out)
}

fn write_processor(machine: &Machine, out: &mut String) -> fmt::Result {
    let cores = &machine.cores;
    match &machine.processor {
        None => writeln!(out, "processor    does not say")?,
        Some(processor) => {
            let uarch = microarchitecture(processor);
            let uarch = uarch.map_or_else(|| "unknown microarchitecture".to_owned(), |row| row.name);
            let (family, model, stepping) = (processor.family, processor.model, processor.stepping);
            writeln!(out, "processor    {}", processor.brand)?;
            writeln!(
                out,
                "             {} family {family} model {model:#x} stepping {stepping}: {uarch}",
                processor.vendor
            )?;
            if let Some(hypervisor) = &processor.hypervisor {
                let name = if hypervisor.is_empty() { "unnamed" } else { hypervisor };
                writeln!(
                    out,
                    "             in a virtual machine ({name}): frame numbers are the guest's, and where the"
                )?;
                writeln!(out, "             host keeps them is not visible; no isolation follows from colors here")?;
            }
        }
    }
    writeln!(out, "cores        {} on {} sockets, {} hardware threads", cores.cores, cores.sockets, cores.online_cpus)
}

fn write_caches(machine: &Machine, out: &mut String) -> fmt::Result {
    writeln!(out)?;
    let number = |value: Option<u32>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    let row = |cache: &memtint_detect::Cache| {
        vec![
            format!("L{} {:?}", cache.level, cache.kind).to_lowercase(),
            ByteSize(cache.size_bytes).to_string(),
            number(cache.ways),
            number(cache.line_bytes),
            number(cache.sets),
            cache.instances.to_string(),
            cache.shared_by_cpus.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = machine.caches.iter().map(row).collect();
    let heads = ["cache", "size", "ways", "line bytes", "sets", "instances", "shared by"];
    out.push_str(&table(&heads, &[1, 2, 3, 4, 5, 6], &rows));
    writeln!(out)
}

fn write_memory(machine: &Machine, out: &mut String) -> fmt::Result {
    for node in &machine.nodes {
        let cpus = if node.cpus.is_empty() { "no CPUs".to_owned() } else { format!("CPUs {}", node.cpus) };
        writeln!(out, "node {:<8}{} MiB, {cpus}", node.node, node.memory_bytes >> 20)?;
    }
    if machine.memory.is_empty() {
        writeln!(out, "memory       addresses are hidden from this user: reading /proc/iomem needs CAP_SYS_ADMIN")?;
    }
    for range in &machine.memory {
        let size = ByteSize(range.end - range.start);
        writeln!(out, "memory       {:#x}-{:#x} node {} {size}", range.start, range.end, range.node)?;
    }
    Ok(())
}

fn write_firmware(machine: &Machine, out: &mut String) -> fmt::Result {
    let firmware = &machine.firmware;
    let named = [&firmware.vendor, &firmware.product, &firmware.board, &firmware.bios_version];
    let named: Vec<&str> = named.into_iter().flatten().map(String::as_str).collect();
    writeln!(
        out,
        "firmware     {}",
        if named.is_empty() { "does not name the machine".to_owned() } else { named.join(", ") }
    )?;
    match &firmware.smbios {
        None => writeln!(out, "modules      no SMBIOS tables that this user may read")?,
        Some(smbios) => {
            for module in &smbios.memory_devices {
                let ranks = module.ranks.map_or_else(String::new, |ranks| format!(", {ranks} ranks"));
                let speed = module.speed_mt_s.map_or_else(String::new, |speed| format!(", {speed} MT/s"));
                let (slot, bank) = (&module.locator, &module.bank_locator);
                writeln!(
                    out,
                    "module       {slot} ({bank}): {} {}{ranks}{speed}",
                    ByteSize(module.size_bytes),
                    module.kind
                )?;
            }
        }
    }
    write_geometry(machine, out)?;
    let tables = firmware.acpi_tables.join(" ");
    writeln!(out, "ACPI tables  {}", if tables.is_empty() { "none that this user may read" } else { &tables })
}

fn write_geometry(machine: &Machine, out: &mut String) -> fmt::Result {
    let geometry = &machine.geometry;
    for controller in &geometry.controllers {
        for part in &controller.parts {
            let (number, kind, size) = (controller.number, part.kind.name(), ByteSize(part.size_bytes));
            let place = [&part.location, &part.label].into_iter().filter(|text| !text.is_empty());
            let place: Vec<&str> = place.map(String::as_str).collect();
            let place = if place.is_empty() { String::new() } else { format!(" ({})", place.join(", ")) };
            writeln!(out, "edac         mc{number} {kind}{}: {size} {}{place}", part.number, part.memory)?;
        }
    }
    for module in &geometry.modules {
        writeln!(
            out,
            "spd          {}: {} {}, {} ranks of {} banks, 2^{} rows of 2^{} columns",
            module.place,
            ByteSize(module.size_bytes),
            module.kind,
            module.ranks,
            module.banks,
            module.row_bits,
            module.column_bits
        )?;
    }
    match geometry.bank_functions() {
        Some(functions) => writeln!(out, "banks        2^{functions} by SPD: a mapping has {functions} functions"),
        None => Ok(()),
    }
}

fn write_candidates(candidates: &[Candidate], out: &mut String) -> fmt::Result {
    writeln!(out)?;
    if candidates.is_empty() {
        writeln!(out, "The catalogue has no mapping of a relative of this processor (memtint platform list).")?;
    } else {
        writeln!(
            out,
            "Mappings of relatives in the catalogue. Modules, ranks, channels and firmware settings change a"
        )?;
        writeln!(out, "mapping: each is a place to begin, to be confirmed by probing.")?;
        let row =
            |candidate: &Candidate| vec![format!("  {}", candidate.id), candidate.dram.clone(), candidate.name.clone()];
        let rows: Vec<Vec<String>> = candidates.iter().map(row).collect();
        out.push_str(&table(&["  platform", "dram", "name"], &[], &rows));
    }
    writeln!(
        out,
        "For a first try, memtint platform detect --functions-of PLATFORM prints a platform file of this machine"
    )?;
    writeln!(out, "with the bank functions of PLATFORM, marked as assumed.")
}
