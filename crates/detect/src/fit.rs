//! Whether a platform file can describe this machine.

use memtint_map::Platform;
use schemars::JsonSchema;
use serde::Serialize;

use crate::machine::Machine;
use crate::uarch;

/// Memory outside the regions of a platform is a contradiction from this part of the machine's memory on: firmware moves
/// small pieces.
const OUTSIDE: u64 = 64;
/// Memory that only the platform has is a contradiction from this part of the machine's memory on: firmware, graphics and
/// crash kernels take some.
const ABSENT: u64 = 4;
/// See [`ABSENT`]; the difference must exceed this many bytes.
const ABSENT_MIN: u64 = 1 << 30;

/// How a platform file fits the machine that it is used on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Fit {
    /// Statements of the file that contradict this machine, one sentence each; empty without contradictions.
    pub contradictions: Vec<String>,
    /// Facts of the file that do not come from this machine: `bank functions`, `regions`, `cache index`.
    pub assumed: Vec<&'static str>,
    /// The hypervisor's signature on a virtual machine, whose physical addresses are not those of the DRAM; may be
    /// empty.
    pub hypervisor: Option<String>,
}

impl Fit {
    /// Compares a platform file with the properties that the machine reports.
    ///
    /// Vendor and family are compared only if the bank functions come from the described machine. A file with borrowed
    /// functions is marked as such, and names the processor of the relative. Properties that the machine does not
    /// report contradict nothing.
    #[must_use]
    pub fn of(machine: &Machine, platform: &Platform) -> Fit {
        let borrowed = platform.dram().source_kind.as_deref() == Some("assumed");
        let processor = if borrowed { None } else { other_processor(machine, platform) };
        let contradictions = processor.into_iter().chain(other_memory(machine, platform)).collect();
        let functions = borrowed || platform.functions().iter().any(|function| function.assumed);
        let kinds = [
            ("bank functions", functions),
            ("regions", platform.regions().iter().any(|region| region.assumed)),
            ("cache index", platform.llc().is_some_and(|llc| llc.assumed)),
        ];
        let assumed = kinds.into_iter().filter(|(_, assumed)| *assumed).map(|(kind, _)| kind).collect();
        let hypervisor = machine.processor.as_ref().and_then(|processor| processor.hypervisor.clone());
        Fit { contradictions, assumed, hypervisor }
    }

    /// Describes, in one line, why colors on this platform are uncertain; `None` when nothing is assumed and the
    /// machine is not virtual.
    #[must_use]
    pub fn doubts(&self) -> Option<String> {
        let assumed = (!self.assumed.is_empty())
            .then(|| format!("{} assumed, not measured on this machine", self.assumed.join(" and ")));
        let hypervisor = self.hypervisor.as_ref().map(|signature| match signature.as_str() {
            "" => "this is a virtual machine: no isolation in DRAM follows".to_owned(),
            name => format!("this is a virtual machine ({name}): no isolation in DRAM follows"),
        });
        let doubts: Vec<String> = assumed.into_iter().chain(hypervisor).collect();
        (!doubts.is_empty()).then(|| doubts.join("; "))
    }
}

fn other_processor(machine: &Machine, platform: &Platform) -> Option<String> {
    let (processor, named) = (machine.processor.as_ref()?, platform.file().uarch.as_deref()?);
    let rows = uarch::rows_of(named);
    let fits = |row: &uarch::Microarchitecture| row.vendor == processor.vendor && row.family == processor.family;
    let first = rows.first()?;
    (!rows.iter().any(fits)).then(|| {
        format!(
            "its processor is {named} ({} family {}), this machine's is {} family {}",
            first.vendor, first.family, processor.vendor, processor.family
        )
    })
}

fn other_memory(machine: &Machine, platform: &Platform) -> Option<String> {
    let total: u64 = machine.memory.iter().map(|range| range.end - range.start).sum();
    if total == 0 {
        return None;
    }
    let shared = |start: u64, end: u64| -> u64 {
        let regions = platform.regions().iter();
        regions.map(|region| end.min(region.end().0).saturating_sub(start.max(region.base.0))).sum()
    };
    let covered: u64 = machine.memory.iter().map(|range| shared(range.start, range.end)).sum();
    let described = platform.size_bytes();
    if total - covered > total / OUTSIDE {
        return Some(format!("its regions hold {} of this machine's {} of memory", size(covered), size(total)));
    }
    (described.saturating_sub(total) > (total / ABSENT).max(ABSENT_MIN))
        .then(|| format!("its regions hold {}, this machine has {} of memory", size(described), size(total)))
}

/// Formats a size in GiB with one digit, or in MiB below 1 GiB.
fn size(bytes: u64) -> String {
    const GIB: u64 = 1 << 30;
    if bytes < GIB { format!("{} MiB", bytes >> 20) } else { format!("{:.1} GiB", bytes as f64 / GIB as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Processor;
    use crate::machine::MemoryRange;

    const GIB: u64 = 1 << 30;

    fn machine(vendor: &str, family: u32, gib: u64) -> Machine {
        let processor = Processor {
            vendor: vendor.to_owned(),
            brand: String::new(),
            family,
            model: 0,
            stepping: 0,
            physical_address_bits: None,
            hypervisor: None,
        };
        let memory = vec![MemoryRange { start: 0x1000, end: gib * GIB, node: 0 }];
        Machine { processor: Some(processor), memory, ..Machine::default() }
    }

    fn nehalem() -> Platform {
        Platform::load("nehalem-w3530").unwrap()
    }

    #[test]
    fn the_described_machine_fits() {
        let fit = Fit::of(&machine("GenuineIntel", 6, 4), &nehalem());
        assert!(fit.contradictions.is_empty(), "{fit:?}");
    }

    #[test]
    fn another_vendor_family_or_memory_contradicts() {
        let cases = [
            (machine("AuthenticAMD", 25, 4), vec!["Nehalem (GenuineIntel family 6)", "AuthenticAMD family 25"]),
            (machine("GenuineIntel", 15, 4), vec!["GenuineIntel family 15"]),
            (machine("GenuineIntel", 6, 24), vec!["4.0 GiB of this machine's 24.0 GiB"]),
            (machine("GenuineIntel", 6, 1), vec!["its regions hold 4.0 GiB", "this machine has 1023 MiB"]),
        ];
        for (machine, parts) in cases {
            let fit = Fit::of(&machine, &nehalem());
            let text = fit.contradictions.join("; ");
            assert_eq!(fit.contradictions.len(), 1, "{text}");
            parts.iter().for_each(|part| assert!(text.contains(part), "{part:?} is missing in {text:?}"));
        }
        let foreign = Platform::load("jetson-nano").unwrap();
        let fit = Fit::of(&machine("AuthenticAMD", 25, 4), &foreign);
        assert!(fit.contradictions.iter().any(|text| text.contains("Tegra")), "{fit:?}");
    }

    #[test]
    fn borrowed_functions_are_assumed_and_no_contradiction() {
        let amd = machine("AuthenticAMD", 25, 24);
        let file = crate::assumed_platform(&amd, &nehalem(), None).unwrap();
        let fit = Fit::of(&amd, &Platform::from_file(file, "here").unwrap());
        assert_eq!((fit.contradictions.as_slice(), fit.assumed.as_slice()), (&[][..], &["bank functions"][..]));
        assert!(fit.doubts().unwrap().starts_with("bank functions assumed"));
    }

    #[test]
    fn what_the_machine_does_not_say_contradicts_nothing() {
        let fit = Fit::of(&Machine::default(), &nehalem());
        assert!(fit.contradictions.is_empty(), "{fit:?}");
    }

    #[test]
    fn a_virtual_machine_is_said_in_the_same_line() {
        let mut guest = machine("GenuineIntel", 6, 4);
        guest.processor.as_mut().unwrap().hypervisor = Some("KVMKVMKVM".to_owned());
        let doubts = Fit::of(&guest, &nehalem()).doubts().unwrap();
        assert!(doubts.ends_with("virtual machine (KVMKVMKVM): no isolation in DRAM follows"), "{doubts}");
        assert!(!doubts.contains('\n'));
    }
}
