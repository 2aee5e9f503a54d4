//! From a system file to a scenario.

use super::{
    AllocatorName, BandwidthGroup, BandwidthSection, Check, JobSection, KindName, Late, SCHEMA, Scenario, ScenarioFile,
    SchedulingName, TaskSection, Time, Workload,
};
use crate::error::SimError;
use memtint_map::{Palette, Selection};
use memtint_system::{BudgetKind, LateJobs, Mode, SystemFile, TaskEntry, Text, colors_in_common, select};
use memtint_units::{ByteSize, IndexList};
use serde::Deserialize as _;
use std::path::Path;
use toml::Value;

/// Fields of a scenario that a system file has elsewhere: they are no fields of `[simulation]`.
const ELSEWHERE: [(&str, &str); 5] = [
    ("schema", "schema of the file"),
    ("description", "description of the file"),
    ("platform", "platform of the file"),
    ("task", "tables [[task]] of the file"),
    ("server", "nothing: [[server]] of a simulation has no place in a system file yet"),
];

impl Scenario {
    /// Makes the scenario of a system file: `[simulation]` is the machine, each `[[task]]` a task on it; `path` is the file's.
    ///
    /// A task with a period has jobs of `references` memory references each. A `bandwidth` is a budget of the task. With
    /// fixed-priority scheduling, tasks without any priority are ordered by their periods (rate monotonic).
    ///
    /// # Errors
    ///
    /// As [`Scenario::load`]: what of the file is missing or wrong for a simulation.
    pub fn of_system(file: &SystemFile, path: &Path) -> Result<Scenario, SimError> {
        let origin = path.display().to_string();
        let check = Check { origin: &origin };
        let scenario = Scenario::from_file(scenario(file, &check)?, &origin, path.parent().unwrap_or(Path::new("")))?;
        apart(file, &scenario, &check)?;
        Ok(scenario)
    }
}

fn scenario(file: &SystemFile, check: &Check<'_>) -> Result<ScenarioFile, SimError> {
    let Some(simulation) = &file.simulation else {
        return Err(check.refuse("simulation", "missing", "a table with device, duration and cores"));
    };
    let Some(platform) = &file.platform else {
        return Err(check.refuse("platform", "missing", "a name of the catalogue, or a platform file"));
    };
    if let Some((field, accepted)) = ELSEWHERE.iter().find(|(field, _)| simulation.0.contains_key(*field)) {
        return Err(check.refuse(&format!("simulation.{field}"), "given", accepted));
    }
    let mut table = simulation.0.clone();
    table.insert("schema".to_owned(), Value::Integer(SCHEMA.into()));
    table.insert("platform".to_owned(), Value::String(platform.as_str().to_owned()));
    table.insert("description".to_owned(), Value::String(file.description.clone().unwrap_or_default()));
    table.insert("task".to_owned(), Value::Array(Vec::new()));
    if let Some(bandwidth) = table.get_mut("bandwidth").and_then(Value::as_table_mut) {
        bandwidth.entry("group").or_insert_with(|| Value::Array(Vec::new()));
    }
    let mut scenario = ScenarioFile::deserialize(Value::Table(table)).map_err(|error| {
        let reason = format!("simulation: {}", error.to_string().trim_end().replace('\n', ", "));
        SimError::Syntax { origin: check.origin.to_owned(), reason }
    })?;
    if let Some(granule) = file.granule {
        scenario.system.granule = ByteSize(granule.bytes());
    }
    scenario.tasks = file.tasks.iter().map(|entry| task(entry, check)).collect::<Result<_, _>>()?;
    if scenario.system.scheduling == SchedulingName::FixedPriority {
        priorities(file, &mut scenario.tasks, check)?;
    }
    budgets(file, &mut scenario, check)?;
    Ok(scenario)
}

/// Refuses colors in common of two tasks that name colors, unless both allow it: other verbs refuse them, too.
fn apart(file: &SystemFile, scenario: &Scenario, check: &Check<'_>) -> Result<(), SimError> {
    let palette = Palette::new(&scenario.platform, file.granule.unwrap_or_default())?;
    let mut before: Vec<(&TaskEntry, Selection)> = Vec::new();
    for (entry, section) in file.tasks.iter().zip(&scenario.file.tasks) {
        // CAMC takes the number of classes only.
        let chooses = section.allocator.unwrap_or(scenario.file.system.allocator) == AllocatorName::Camc;
        if chooses || (entry.banks.is_none() && entry.sets.is_none() && entry.node.is_none()) {
            continue;
        }
        let field = format!("task {:?}: colors", name_of(entry));
        let own = select(&palette, entry.banks.as_ref(), entry.sets.as_ref(), entry.node.as_ref())
            .map_err(|error| check.refuse(&field, error, "colors of the platform"))?;
        let shared = |task: &TaskEntry| task.shared == Some(true);
        for (other, theirs) in before.iter().filter(|(other, _)| !(shared(entry) && shared(other))) {
            if let Some(colors) = colors_in_common(&own, theirs) {
                let found = format!("{colors}, which task {:?} has, too", name_of(other));
                return Err(check.refuse(&field, found, "different colors, or shared = true in both"));
            }
        }
        before.push((entry, own));
    }
    Ok(())
}

fn name_of(entry: &TaskEntry) -> &str {
    entry.name.as_ref().map_or("", Text::as_str)
}

fn task(entry: &TaskEntry, check: &Check<'_>) -> Result<TaskSection, SimError> {
    let of = |field: &str| format!("task {:?}: {field}", name_of(entry));
    let text = |list: &Option<IndexList>| list.as_ref().map(ToString::to_string);
    let core = match &entry.cores {
        Some(IndexList::Only(ranges)) if matches!(ranges[..], [(first, last)] if first == last) => Some(ranges[0].0),
        _ => None,
    };
    let workload = match (&entry.workload, &entry.program) {
        (Some(table), None) => Workload::deserialize(Value::Table(table.0.clone())).map_err(|error| {
            let reason = format!("{}: {}", of("workload"), error.to_string().trim_end().replace('\n', ", "));
            SimError::Syntax { origin: check.origin.to_owned(), reason }
        })?,
        (None, Some(model)) => Workload::Program { model: model.as_str().to_owned() },
        (None, None) => return Err(check.refuse(&of("workload"), "missing", "workload, or program")),
        (Some(_), Some(_)) => return Err(check.refuse(&of("workload"), "given beside program", "one of the two")),
    };
    let references = entry.references.map(|references| references.get());
    let job = match entry.period {
        None => {
            let of_jobs = [
                ("deadline", entry.deadline.is_some()),
                ("phase", entry.phase.is_some()),
                ("jitter", entry.jitter.is_some()),
                ("uncounted", entry.uncounted.is_some()),
                ("late", entry.late.is_some()),
            ];
            if let Some((field, _)) = of_jobs.into_iter().find(|&(_, given)| given) {
                let accepted = format!("a time such as \"20 ms\", as {field} is given: it is of jobs");
                return Err(check.refuse(&of("period"), "missing", accepted));
            }
            None
        }
        Some(period) => Some(JobSection {
            period: Time(period.0),
            deadline: entry.deadline.map(|time| Time(time.0)),
            phase: entry.phase.map(|time| Time(time.0)),
            jitter: entry.jitter.map_or(Time::default(), |time| Time(time.0)),
            references: references.ok_or_else(|| {
                check.refuse(&of("references"), "missing", "the memory references of a job, a whole number from 1 on")
            })?,
            uncounted: entry.uncounted.map_or(0, |jobs| jobs.get()),
            late: match entry.late {
                None | Some(LateJobs::Finish) => Late::Finish,
                Some(LateJobs::GiveUp) => Late::GiveUp,
            },
        }),
    };
    Ok(TaskSection {
        name: name_of(entry).to_owned(),
        core,
        cores: text(&entry.cores).filter(|_| core.is_none()),
        server: None,
        workload,
        allocator: entry.allocator.as_ref().map(|name| allocator(name, &of("allocator"), check)).transpose()?,
        banks: text(&entry.banks),
        ranks: None,
        copy_of: None,
        copy: Time::default(),
        globals: ByteSize(0),
        sets: text(&entry.sets),
        nodes: text(&entry.node),
        soft: entry.mode == Some(Mode::Soft),
        ways: text(&entry.ways),
        huge_pages: entry.huge_pages.unwrap_or(false),
        priority: 0,
        references: references.filter(|_| job.is_none()),
        job,
        barrier: None,
    })
}

fn allocator(name: &Text, field: &str, check: &Check<'_>) -> Result<AllocatorName, SimError> {
    AllocatorName::deserialize(Value::String(name.as_str().to_owned())).map_err(|_| {
        let names = AllocatorName::ALL.map(AllocatorName::name).join(", ");
        check.refuse(field, format!("{:?}", name.as_str()), format!("one of {names}"))
    })
}

/// Priorities as given; where none is, the task with the shorter period comes first, the first of the file among equals.
fn priorities(file: &SystemFile, tasks: &mut [TaskSection], check: &Check<'_>) -> Result<(), SimError> {
    if file.tasks.iter().all(|entry| entry.priority.is_none()) {
        let mut order: Vec<usize> = (0..tasks.len()).collect();
        order.sort_by_key(|&task| (file.tasks[task].period.is_none(), file.tasks[task].period, task));
        order.into_iter().zip(1..).for_each(|(task, priority)| tasks[task].priority = priority);
        return Ok(());
    }
    for (entry, task) in file.tasks.iter().zip(tasks) {
        let field = format!("task {:?}: priority", name_of(entry));
        let accepted = "a whole number from 1, the highest, on, as other tasks have priorities";
        let priority = entry.priority.ok_or_else(|| check.refuse(&field, "missing", accepted))?.get();
        task.priority = u32::try_from(priority).map_err(|_| check.refuse(&field, priority, "less than 2^32"))?;
    }
    Ok(())
}

/// A group for each task with a budget; all periods are the same.
fn budgets(file: &SystemFile, scenario: &mut ScenarioFile, check: &Check<'_>) -> Result<(), SimError> {
    let mut groups = Vec::new();
    let section = file.simulation.as_ref().and_then(|simulation| simulation.0.get("bandwidth"));
    let given = section.is_some_and(|section| section.get("period").is_some());
    let section = scenario.bandwidth.as_ref().filter(|section| given || !section.groups.is_empty());
    let mut period = section.map(|own| own.period);
    for entry in &file.tasks {
        let Some(bandwidth) = entry.bandwidth else { continue };
        let own = Time(bandwidth.period.0);
        let first = *period.get_or_insert(own);
        if own != first {
            let accepted = format!("{}, as of the budgets before it: a simulation has one period", first.0);
            return Err(check.refuse(&format!("task {:?}: bandwidth.period", name_of(entry)), own.0, accepted));
        }
        groups.push(BandwidthGroup {
            name: name_of(entry).to_owned(),
            cores: None,
            tasks: vec![name_of(entry).to_owned()],
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
    if let (Some(period), false) = (period, groups.is_empty()) {
        let section = scenario.bandwidth.get_or_insert_with(|| BandwidthSection::new(period, Vec::new()));
        section.period = period;
        section.groups.extend(groups);
    }
    Ok(())
}
