//! A system file beside a scenario: tasks of equal names get its colors, cores, mode and bandwidth.

use std::path::Path;

use memtint_sim::Scenario;
use memtint_sim::scenario::{BandwidthGroup, BandwidthSection, KindName, Time};
use memtint_system::{Assignment, BudgetKind, Mode};
use memtint_units::{ByteSize, IndexSet};

use crate::output::Failure;

/// The scenario in which each task of the system file has the file's colors, cores, mode and bandwidth; `without_bandwidth` leaves the
/// last out.
pub(super) fn assigned(scenario: &Scenario, file: &Path, without_bandwidth: bool) -> Result<Scenario, Failure> {
    let assignment = Assignment::load(file)?;
    let refuse = |sentence: String| Failure::Sentence(format!("{file:?}: {sentence}"));
    let (assigned, simulated) = (assignment.platform().id(), scenario.platform().id());
    if assigned != simulated {
        return Err(refuse(format!("platform is {assigned:?}; accepted is the scenario's, {simulated:?}")));
    }
    let mut groups = Vec::new();
    let mut period = None;
    for task in assignment.tasks() {
        let name = task.name();
        if !scenario.file().tasks.iter().any(|other| other.name == name) {
            let names: Vec<&str> = scenario.file().tasks.iter().map(|task| task.name.as_str()).collect();
            let accepted = names.join(", ");
            return Err(refuse(format!("task {name:?} is not in the scenario; accepted are {accepted}")));
        }
        let Some(bandwidth) = task.bandwidth().filter(|_| !without_bandwidth) else { continue };
        let first = *period.get_or_insert(bandwidth.period.0);
        if bandwidth.period.0 != first {
            let found = bandwidth.period.0;
            let accepted = format!("{first}, as of the tasks before it: a scenario has one period");
            return Err(refuse(format!("task {name:?}: bandwidth.period is {found}; accepted is {accepted}")));
        }
        groups.push(BandwidthGroup {
            name: name.to_owned(),
            cores: None,
            tasks: vec![name.to_owned()],
            mb_per_s: None,
            write_mb_per_s: None,
            budget: Some(bandwidth.budget),
            weight: None,
            kind: match bandwidth.kind {
                BudgetKind::Hard => KindName::Hard,
                BudgetKind::Soft => KindName::Soft,
            },
        });
    }
    let period = period.map(Time);
    let section = scenario.file().bandwidth.as_ref();
    if let (Some(section), Some(period)) = (section, period)
        && section.period != period
    {
        let (found, accepted) = (period.0, section.period.0);
        return Err(refuse(format!("the period of bandwidth is {found}; accepted is the scenario's, {accepted}")));
    }
    let bandwidth = match (section, period) {
        (_, None) => section.cloned(),
        (Some(section), Some(_)) => Some(BandwidthSection { groups, ..section.clone() }),
        (None, Some(period)) => Some(BandwidthSection::new(period, groups)),
    };
    let text = |set: &Option<IndexSet>| set.as_ref().map(ToString::to_string);
    let changed = scenario.changed(|scenario| {
        scenario.system.granule = ByteSize(assignment.granule().bytes());
        scenario.bandwidth = bandwidth;
        for task in &mut scenario.tasks {
            let Ok(given) = assignment.task(&task.name) else { continue };
            let selection = given.selection();
            (task.banks, task.sets, task.nodes) =
                (text(&selection.banks), text(&selection.sets), text(&selection.node));
            task.soft = given.mode() == Mode::Soft;
            if let Some(cores) = given.cores() {
                let list: Vec<String> = cores.iter().map(ToString::to_string).collect();
                (task.core, task.cores) = (None, Some(list.join(",")));
            }
        }
    })?;
    Ok(changed)
}
