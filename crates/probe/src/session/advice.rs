//! Advice to improve an answer.

use super::caches::Caches;
use super::subject::Subject;
use crate::report::{Answer, Missing, Report};
use crate::simulated::{ASSUMED_ROW_BIT, SimulatedMachine};

/// Returns commands and settings that would improve the result on this machine; for a simulated machine, the gaps in
/// its file. Empty for recordings.
pub(super) fn advice(subject: &Subject, report: Option<&Report>, caches: Option<&Caches>) -> Vec<String> {
    let memory = match subject {
        Subject::Machine { memory: Some(memory), .. } => memory,
        Subject::Simulated { machine, .. } => return assumed_rows(machine).into_iter().collect(),
        _ => return Vec::new(),
    };
    let mut all = Vec::new();
    let answer = report.map(|report| &report.answer);
    if let Some(Answer::Partial(mapping, missing)) = answer {
        let bytes = mapping.areas.iter().map(|area| area.pool.bytes()).sum();
        all.extend(missing.iter().filter_map(|missing| of_missing(missing, bytes)));
    }
    if let Some(Answer::NoBankSignal(_)) = answer {
        match subject.hypervisor() {
            Some(_) => all.push(
                "run memtint probe on the host: a virtual machine's physical addresses are not the memory's".to_owned(),
            ),
            None => all.extend([
                "memtint probe --seed 2, with nothing else running and the clock frequency fixed".to_owned(),
                "look in the firmware's settings for a closed-page policy, which hides row conflicts".to_owned(),
            ]),
        }
        all.push("memtint platform detect names published mappings of relatives".to_owned());
    }
    if let (true, Some(Answer::NoBankSignal(_))) = (caches.is_some_and(|caches| caches.found().is_some()), answer) {
        all.push(
            "memtint probe --only llc --out FILE.toml writes a platform file of the last-level cache alone".to_owned(),
        );
    }
    if memory.addresses_known && memory.page_bytes < 1 << 21 {
        all.push(
            "sysctl vm.nr_hugepages=512 sets aside 1 GiB of huge pages, in which neighbouring bits are all there"
                .to_owned(),
        );
    }
    all
}

/// Describes the rows of a simulated machine whose platform gives none.
fn assumed_rows(machine: &SimulatedMachine) -> Option<String> {
    machine.rows_are_assumed().then(|| {
        format!(
            "row_bits of platform {:?} are not given: the simulated machine takes address bits {ASSUMED_ROW_BIT} and up for rows, and no \
             mapping may explain that; add dram.row_bits or dram.row_functions to the platform file",
            machine.platform().id()
        )
    })
}

fn of_missing(missing: &Missing, pool_bytes: u64) -> Option<String> {
    match missing {
        Missing::UnknownAddresses(_) => Some("sudo memtint probe: the kernel shows frame numbers to root".to_owned()),
        Missing::Bits(_) => {
            let more = (2 * pool_bytes).next_power_of_two() >> 20;
            Some(format!("memtint probe --memory {more}M: a larger pool has pairs that differ in more bits"))
        }
        Missing::BetweenBlocks(_) | Missing::BetweenAreas | Missing::Bytes(_) => None,
    }
}
