//! What is to be regulated, as the options and a system file give it.

use std::path::PathBuf;
use std::time::Duration;

use memtint_guard::Kind;
use memtint_regulator::{CgroupRoot, GroupSettings, Place, Sensor, Settings, online_cpus};
use memtint_service::{Budgets, PERIOD, Regulated, events_of, usual_quantum};
use memtint_units::Picoseconds;

use super::regulate::RegulateArguments;
use crate::output::Failure;
use crate::relative;

/// What is asked for.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) settings: Settings,
    system: Option<PathBuf>,
    /// What of the system file is not regulated.
    left_out: Vec<String>,
}

impl Asked {
    pub(super) fn new(arguments: &RegulateArguments) -> Result<Asked, Failure> {
        let mut sensor = Sensor::find(&arguments.event)?;
        sensor.bytes = arguments.event_bytes.or(sensor.bytes);
        sensor.skid = arguments.skid.unwrap_or(sensor.skid);
        let plan = arguments.system.as_deref().map(Budgets::load).transpose()?;
        let period = match (&plan, arguments.period) {
            (Some(plan), Some(period)) if plan.period() != period => {
                return Err(refused(
                    "--period",
                    &period.to_string(),
                    &format!("{}, as of the system file", plan.period()),
                ));
            }
            (Some(plan), _) => plan.period(),
            (None, period) => period.unwrap_or(PERIOD),
        };
        let reader = Reader { sensor: &sensor, period, quantum: arguments.quantum };
        let events =
            |option: &str, text: &Option<String>| text.as_deref().map(|text| reader.events(option, text)).transpose();
        let settings = |groups: Vec<GroupSettings>| -> Result<Settings, Failure> {
            let guaranteed = events("--guaranteed", &arguments.guaranteed)?;
            Ok(Settings {
                period: Duration::from_nanos(period.0 / 1000),
                guaranteed: guaranteed.map(|events| u32::try_from(events).unwrap_or(u32::MAX)),
                peak: events("--peak", &arguments.peak)?,
                backend: arguments.backend.into(),
                sensor: sensor.clone(),
                groups,
            })
        };
        let mut groups = Vec::new();
        if let Some(plan) = &plan {
            groups = plan.groups(&sensor, arguments.quantum)?;
            // Its own faults go by its name.
            settings(groups.clone())?.check().map_err(|error| plan.fault(error))?;
        }
        for text in &arguments.groups {
            groups.push(reader.group(text)?);
        }
        for text in &arguments.cores {
            groups.push(reader.core(text)?);
        }
        let settings = settings(groups)?;
        settings.check()?;
        let left_out = plan.map_or_else(Vec::new, |plan| plan.left_out().to_vec());
        Ok(Asked { settings, system: arguments.system.clone(), left_out })
    }

    pub(super) fn regulated(&self) -> Result<Regulated, Failure> {
        Ok(Regulated::new(&self.settings, self.system.as_deref(), &self.left_out)?)
    }
}

/// Reads groups and budgets.
struct Reader<'a> {
    sensor: &'a Sensor,
    period: Picoseconds,
    quantum: Option<u32>,
}

impl Reader<'_> {
    fn group(&self, text: &str) -> Result<GroupSettings, Failure> {
        let accepted = "NAME=BUDGET[:soft][@CPUS], for instance web=500MB/s:soft@0-1";
        let (name, budget) = pair("--group", text, accepted)?;
        // A group's name may have the sign, too.
        let (budget, cpus) = match budget.rsplit_once('@') {
            Some((budget, cpus)) => (budget, Some(cpus)),
            None => (budget, None),
        };
        let cgroup = CgroupRoot::find()?.group(name)?;
        let own = cgroup.cpus().filter(|list| !list.is_empty()).map(|list| cpu_list("the cpuset of the group", &list));
        let cpus = match (cpus, own) {
            (Some(cpus), own) => {
                let (cpus, own) = (cpu_list("--group", cpus)?, own.transpose()?);
                if let Some(cpu) = own.and_then(|own| cpus.iter().copied().find(|cpu| !own.contains(cpu))) {
                    return Err(refused("--group", &format!("{name} on CPU {cpu}"), "CPUs of the group's cpuset"));
                }
                cpus
            }
            (None, Some(own)) => own?,
            (None, None) => online_cpus()?,
        };
        self.settings("--group", name.to_owned(), Place::Cgroup(cgroup), cpus, budget)
    }

    fn core(&self, text: &str) -> Result<GroupSettings, Failure> {
        let (cpu, budget) = pair("--core", text, "CPU=BUDGET[:soft], for instance 2=1GB/s")?;
        let cpus = cpu_list("--core", cpu)?;
        self.settings("--core", format!("CPU {cpu}"), Place::Cpus, cpus, budget)
    }

    fn settings(
        &self,
        option: &str,
        name: String,
        place: Place,
        cpus: Vec<usize>,
        budget: &str,
    ) -> Result<GroupSettings, Failure> {
        let (budget, kind) = match budget.split_once(':') {
            None | Some((_, "hard")) => (budget.split(':').next().unwrap_or(budget), Kind::Hard),
            Some((budget, "soft")) => (budget, Kind::Soft),
            Some((_, kind)) => return Err(refused(option, kind, "soft, or hard")),
        };
        let events = self.events(option, budget)?;
        let events = u32::try_from(events).ok().filter(|events| *events > 0);
        let events = events.ok_or_else(|| refused(option, budget, "1 to 2147483647 events per period"))?;
        let quantum = self.quantum.unwrap_or_else(|| usual_quantum(events));
        Ok(GroupSettings { name, place, cpus, budget: events, kind, quantum })
    }

    /// Events per period of `12ev`, `500MB/s` or `1.2 GB/s`.
    fn events(&self, option: &str, text: &str) -> Result<u64, Failure> {
        events_of(text, self.sensor, self.period).map_err(|accepted| refused(option, text, &accepted.to_string()))
    }
}

fn refused(option: &str, found: &str, accepted: &str) -> Failure {
    Failure::Sentence(format!("{option} has {found:?}; accepted is {accepted}"))
}

fn pair<'a>(option: &str, text: &'a str, accepted: &str) -> Result<(&'a str, &'a str), Failure> {
    text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| refused(option, text, accepted))
}

/// Largest number of CPUs that Linux has.
const CPUS_MAX: u32 = 8192;

fn cpu_list(option: &str, text: &str) -> Result<Vec<usize>, Failure> {
    let refused = |error: &dyn std::fmt::Display| refused(option, text, &format!("a list of CPUs: {error}"));
    let list = relative::cpus(text).map_err(|error| refused(&error))?;
    let list = list.resolve(CPUS_MAX).map_err(|error| refused(&error))?;
    Ok(list.iter().map(|cpu| cpu as usize).collect())
}
