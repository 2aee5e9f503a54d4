//! A plan in a scenario: the tasks get what the plan gives them.

use std::path::Path;

use memtint_plan::{BudgetKind, Mode, Plan};
use memtint_sim::Scenario;
use memtint_sim::scenario::{BandwidthGroup, BandwidthSection, KindName, Time};
use memtint_units::{ByteSize, IndexSet, Picoseconds};

use crate::output::Failure;

const PS_PER_US: u64 = 1_000_000;

/// The scenario in which each task that the plan names has the plan's colors, cores, mode and bandwidth; `without_bandwidth` leaves the
/// last out.
pub(super) fn planned(scenario: &Scenario, file: &Path, without_bandwidth: bool) -> Result<Scenario, Failure> {
    let plan = Plan::load(file)?;
    let refuse = |sentence: String| Failure::Sentence(format!("plan {:?}: {sentence}", file.display().to_string()));
    let (planned, simulated) = (plan.platform().id(), scenario.platform().id());
    if planned != simulated {
        return Err(refuse(format!("platform is {planned:?}; accepted is the scenario's, {simulated:?}")));
    }
    let mut groups = Vec::new();
    let mut period = None;
    for task in plan.tasks() {
        let name = task.name();
        if !scenario.file().tasks.iter().any(|other| other.name == name) {
            let names: Vec<&str> = scenario.file().tasks.iter().map(|task| task.name.as_str()).collect();
            let accepted = names.join(", ");
            return Err(refuse(format!("task {name:?} is not in the scenario; accepted are {accepted}")));
        }
        if task.refresh().is_some() {
            let accepted = "nothing: sim locks ranks by the scenario's timetable";
            return Err(refuse(format!("task {name:?}: refresh is given; accepted is {accepted}")));
        }
        let Some(bandwidth) = task.bandwidth().filter(|_| !without_bandwidth) else { continue };
        let first = *period.get_or_insert(bandwidth.period_us);
        if bandwidth.period_us != first {
            let found = bandwidth.period_us;
            let accepted = format!("{first}, as of the tasks before it: a scenario has one period");
            return Err(refuse(format!("task {name:?}: bandwidth.period_us is {found}; accepted is {accepted}")));
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
    let period = period.map(|us| Time(Picoseconds(us.saturating_mul(PS_PER_US))));
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
        scenario.system.granule = ByteSize(plan.granule().bytes());
        scenario.bandwidth = bandwidth;
        for task in &mut scenario.tasks {
            let Ok(given) = plan.task(&task.name) else { continue };
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
