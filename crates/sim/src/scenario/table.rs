//! Cyclic executives of a scenario.

use super::{CORES_MAX, Check, Scenario, ScenarioTask, SchedulingName, SlotSection};
use crate::error::SimError;
use crate::machine::{Slot, Table};

impl Scenario {
    /// The core of a task's slots, if there is a table.
    pub(super) fn core_in_table(&self, task: &ScenarioTask) -> Option<u32> {
        let table = self.spec.table.as_ref()?;
        table.slot.iter().find(|slot| slot.task == task.name).map(|slot| table.core_of(slot))
    }

    pub(super) fn verify_table(&self) -> Result<(), SimError> {
        let check = Check { origin: &self.origin };
        let chosen = self.spec.system.scheduling == SchedulingName::Table;
        let table = match (&self.spec.table, chosen) {
            (Some(table), true) => table,
            (None, false) => return Ok(()),
            (Some(_), false) => {
                return Err(check.refuse(
                    "simulation.table",
                    "given",
                    "nothing, unless simulation.system.scheduling is \"table\"",
                ));
            }
            (None, true) => {
                return Err(check.refuse(
                    "simulation.table",
                    "absent",
                    "a table, as simulation.system.scheduling is \"table\"",
                ));
            }
        };
        check.that("server", self.spec.servers.is_empty(), "given beside a table", "one of the two")?;
        let cycle = table.cycle.0;
        check.that("simulation.table.cycle", cycle.0 > 0, cycle, "more than 0 ns")?;
        for (index, slot) in table.slot.iter().enumerate() {
            let of = |field: &str| format!("simulation.table.slot {index}: {field}");
            let (core, cores) = (table.core_of(slot), self.cores().min(CORES_MAX));
            check.that(&of("core"), core < cores, core, format!("0 to {}", cores - 1))?;
            check.that(&of("length"), slot.length.0.0 > 0, slot.length.0, "more than 0 ns")?;
            let end = slot.start.0 + slot.length.0;
            check.that(&of("length"), end <= cycle, format!("to {end}"), format!("within the cycle, {cycle}"))?;
            let Some(task) = self.spec.tasks.iter().find(|task| task.name == slot.task) else {
                let names: Vec<&str> = self.spec.tasks.iter().map(|task| task.name.as_str()).collect();
                return Err(check.refuse(&of("task"), &slot.task, names.join(", ")));
            };
            let first = self.core_in_table(task).unwrap_or(core);
            check.that(&of("core"), core == first, core, format!("{first}, as in the task's first slot"))?;
            let own = task.core.unwrap_or(core);
            check.that(&of("core"), core == own, core, format!("{own}, that of its task"))?;
        }
        for task in &self.spec.tasks {
            let of = |field: &str| format!("task {:?}: {field}", task.name);
            check.that(&of("cores"), task.cores.is_none(), "given beside a table", "one of the two")?;
            let has_slot = self.core_in_table(task).is_some();
            check.that(&of("slots"), has_slot, "none", "one or more in table.slot")?;
        }
        let mut order: Vec<usize> = (0..table.slot.len()).collect();
        order.sort_by_key(|&index| (table.core_of(&table.slot[index]), table.slot[index].start.0));
        for pair in order.windows(2) {
            let [before, after] = [&table.slot[pair[0]], &table.slot[pair[1]]];
            let end = before.start.0 + before.length.0;
            let apart = table.core_of(before) != table.core_of(after) || end <= after.start.0;
            let accepted = format!("{end} or more, when table.slot {} of the core ends", pair[0]);
            check.that(&format!("simulation.table.slot {}: start", pair[1]), apart, after.start.0, accepted)?;
        }
        Ok(())
    }

    /// The table, of tasks by their places in the file.
    pub(crate) fn table(&self) -> Option<Table> {
        let table = self.spec.table.as_ref()?;
        let task = |slot: &SlotSection| self.spec.tasks.iter().position(|task| task.name == slot.task);
        let slots = table.slot.iter().filter_map(|slot| {
            let (core, start) = (table.core_of(slot) as usize, slot.start.0);
            Some(Slot { task: task(slot)?, core, start, end: start + slot.length.0 })
        });
        let mut slots: Vec<Slot> = slots.collect();
        slots.sort_by_key(|slot| (slot.core, slot.start));
        Some(Table { cycle: table.cycle.0, slots })
    }
}
