//! Memory: visibility of physical addresses, knowledge of the mapping, and other mechanisms that move pages.

use memtint_detect::Fit;
use memtint_map::Platform;

use crate::facts::Facts;
use crate::kernel::for_runtime;
use crate::{Check, Purpose, Rule};

pub(crate) const RULES: &[Rule] =
    &[frame_numbers, platform, virtual_machine, huge_pages, merging, numa_balancing, compaction, swap];

const HUGE_PAGES: &str = "sys/kernel/mm/transparent_hugepage/enabled";
const COMPACTION: &str = "proc/sys/vm/compaction_proactiveness";

fn frame_numbers(facts: &Facts) -> Option<Check> {
    Some(match &facts.trials.frame_numbers {
        Ok(()) => Check::fine("frame-numbers", "/proc/self/pagemap shows them"),
        // A probe has those within huge pages all the same, and the kernel series needs none.
        Err(cause) => for_runtime(facts, Check::fine("frame-numbers", format!("not visible: {cause}")))
            .limits(&[Purpose::Probe])
            .remedy("run as root or with CAP_SYS_ADMIN"),
    })
}

fn platform(facts: &Facts) -> Option<Check> {
    Some(match &facts.platform {
        None => no_platform(facts),
        Some((spec, Err(cause))) => Check::fine("platform", format!("{spec}: {cause}"))
            .prevents(&[Purpose::Color])
            .remedy("correct the file, or name another with MEMTINT_PLATFORM; memtint platform list has the catalogue"),
        Some((spec, Ok(platform))) => named_platform(facts, spec, platform),
    })
}

fn no_platform(facts: &Facts) -> Check {
    let relatives: Vec<&str> = facts.candidates.iter().map(|candidate| candidate.id.as_str()).collect();
    let remedy = match relatives.first() {
        Some(first) => format!(
            "find the mapping (memtint probe), or try colors with an assumed one: memtint platform detect --functions-of {first} \
             >/etc/memtint/platform.toml"
        ),
        None => "find the mapping (memtint probe --out /etc/memtint/platform.toml)".to_owned(),
    };
    let relatives = match relatives.as_slice() {
        [] => "the catalogue has no relative of this processor".to_owned(),
        ids => format!("relatives in the catalogue: {}", ids.join(", ")),
    };
    Check::fine(
        "platform",
        format!("none is installed as /etc/memtint/platform.toml or named by MEMTINT_PLATFORM; {relatives}"),
    )
    .limits(&[Purpose::Color])
    .remedy(remedy)
}

fn named_platform(facts: &Facts, spec: &str, platform: &Platform) -> Check {
    let fit = Fit::of(&facts.machine, platform);
    if !fit.contradictions.is_empty() {
        return Check::fine("platform", format!("{spec} is not this machine's: {}", fit.contradictions.join("; ")))
            .prevents(&[Purpose::Color])
            .remedy("name a platform of this machine; memtint platform detect shows what it is");
    }
    if fit.assumed.is_empty() {
        return Check::fine("platform", format!("{spec}: nothing in it is assumed"));
    }
    Check::fine("platform", format!("{spec}: assumed, not measured here: {}", fit.assumed.join(", ")))
        .limits(&[Purpose::Color])
        .remedy("confirm it by timing: memtint probe")
}

fn virtual_machine(facts: &Facts) -> Option<Check> {
    let signature = match facts.hypervisor()? {
        "" => "unnamed",
        name => name,
    };
    let found =
        format!("yes ({signature}): frame numbers are the guest's, and where the host keeps them is not visible");
    Some(
        Check::fine("virtual-machine", found)
            .limits(&[Purpose::Color, Purpose::Probe])
            .remedy("use the machine itself, or color the virtual machine as a whole from the host"),
    )
}

/// Mechanisms that memtint disables for the programs it colors; they need no action.
fn kept_off(id: &'static str, setting: &str) -> Check {
    Check::fine(id, format!("{setting}; the userspace runtime keeps it off for its programs"))
}

fn huge_pages(facts: &Facts) -> Option<Check> {
    let chosen = facts.chosen(HUGE_PAGES)?;
    Some(match chosen.as_str() {
        "never" => Check::fine("transparent-huge-pages", "never"),
        _ => kept_off("transparent-huge-pages", &chosen),
    })
}

fn merging(facts: &Facts) -> Option<Check> {
    Some(match facts.number("sys/kernel/mm/ksm/run")? {
        1 => kept_off("page-merging", "KSM runs"),
        _ => Check::fine("page-merging", "KSM does not run"),
    })
}

fn numa_balancing(facts: &Facts) -> Option<Check> {
    Some(match facts.number("proc/sys/kernel/numa_balancing")? {
        0 => Check::fine("numa-balancing", "off"),
        _ => kept_off("numa-balancing", "on"),
    })
}

fn compaction(facts: &Facts) -> Option<Check> {
    let id = "compaction";
    match facts.number(COMPACTION)? {
        0 => Some(Check::fine(id, "vm.compaction_proactiveness is 0")),
        value if facts.is_writable(COMPACTION) => Some(Check::fine(
            id,
            format!("vm.compaction_proactiveness is {value}; memtint sets it to 0 while programs are in color"),
        )),
        value if facts.trials.kernel_series.is_ok() => Some(Check::fine(
            id,
            format!("vm.compaction_proactiveness is {value}; the kernel series keeps pages in color"),
        )),
        value => Some(
            Check::fine(
                id,
                format!("vm.compaction_proactiveness is {value} and cannot be written from here; it moves pages"),
            )
            .limits(&[Purpose::Color])
            .remedy("sysctl vm.compaction_proactiveness=0, on the host where this is a container"),
        ),
    }
}

fn swap(facts: &Facts) -> Option<Check> {
    let areas = facts.text("proc/swaps")?.lines().skip(1).count();
    if areas == 0 {
        return Some(Check::fine("swap", "none"));
    }
    if facts.trials.kernel_series.is_ok() {
        return Some(Check::fine(
            "swap",
            format!("{areas} areas; the kernel series reads pages back into their colors"),
        ));
    }
    Some(
        Check::fine("swap", format!("{areas} areas: a page that comes back from there may be out of color"))
            .limits(&[Purpose::Color])
            .remedy("swapoff -a, or set memory.swap.max=0 for the program's cgroup"),
    )
}
