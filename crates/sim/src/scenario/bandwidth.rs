//! Budgets of memory bandwidth of a scenario.

use super::{BandwidthSection, BudgetKind, Check, Counted, GroupEntry, PredictorName, Scenario, SharingName};
use crate::error::SimError;
use crate::machine::{CounterConfig, RegulationConfig, Subject};
use memtint_dram::{Decoder, WorstCase};
use memtint_guard::{
    Config, Ewma, Group, GuardError, Kind, LastValue, Linear, Prediction, Reservation, Sharing, by_weight,
    events_per_period,
};
use memtint_map::Palette;
use memtint_system::{Count, Text};
use memtint_units::{ByteSize, IndexSet, Picoseconds};

/// Megabytes per second.
type Rate = Count<1, { u32::MAX as u64 }>;

/// The regulators and their names.
pub(crate) struct Regulators {
    pub(crate) config: RegulationConfig,
    /// Of each counter: its events, its bank classes, bytes of an event.
    pub(crate) counters: Vec<(&'static str, Option<String>, u64)>,
    /// Names of the groups.
    pub(crate) groups: Vec<String>,
    /// Guaranteed bandwidth of each counter's banks, in megabytes a second.
    pub(crate) guaranteed_mb_per_s: f64,
}

/// Events that are counted together.
struct Tally {
    name: &'static str,
    read_events: u32,
    write_events: u32,
    /// The budgets of writes, not the others.
    of_writes: bool,
    event_bytes: u64,
}

impl Scenario {
    /// The regulators, if there are any.
    pub(crate) fn regulators(&self, palette: &Palette, line_bytes: u64) -> Result<Option<Regulators>, SimError> {
        if self.spec.bandwidth.is_none() && self.spec.groups.is_empty() {
            return Ok(None);
        }
        let section = &self.spec.bandwidth.clone().unwrap_or_default();
        let check = Check { origin: &self.origin };
        self.verify_bandwidth(section)?;
        let period = section.period();
        let subjects = self.subjects()?;
        let classes = self.bandwidth_classes(section, palette)?;
        let tallies = self.tallies(section, line_bytes)?;
        let guaranteed = self.guaranteed(section, line_bytes)?;
        let mut counters = Vec::new();
        let mut names = Vec::new();
        for class in &classes {
            // All counters of a class together must fit.
            let mut left = events_per_period(guaranteed, tallies[0].event_bytes, period);
            for tally in &tallies {
                let groups = self.groups(section, tally, &subjects, left)?;
                let sum = |group: &Group| {
                    let cores = group.cores.len() as u64;
                    u64::from(group.reservation.budget) + cores * u64::from(group.quantum + group.skid)
                };
                let used: u64 = groups.iter().map(sum).sum();
                let guard = Config {
                    cores: subjects.iter().map(|(_, subjects)| subjects.len()).sum(),
                    groups,
                    guaranteed: u32::try_from(left).unwrap_or(u32::MAX),
                    reclaim_step: section.reclaim_step.unwrap_or(section.quantum),
                    sharing: match section.sharing {
                        SharingName::Off => Sharing::Off,
                        SharingName::Spare => Sharing::Spare,
                        SharingName::Proportional => Sharing::Proportional,
                    },
                };
                guard.check().map_err(|error| match error {
                    GuardError::OverReserved { sum, guaranteed, .. } => {
                        let mb = |events| memtint_guard::bandwidth(events, tally.event_bytes, period) / 1_000_000;
                        let found = format!(
                            "{sum} events per period ({} MB/s) with quanta and skids, of {}",
                            mb(sum),
                            tally.name
                        );
                        let accepted =
                            format!("up to {guaranteed} ({} MB/s), which the memory guarantees", mb(guaranteed));
                        check.refuse("group: the sum of all budgets", found, accepted)
                    }
                    other => SimError::Guard(other),
                })?;
                left -= used;
                let banks = class.clone();
                counters.push(CounterConfig {
                    guard,
                    read_events: tally.read_events,
                    write_events: tally.write_events,
                    banks,
                });
                names.push((tally.name, class.as_ref().map(ToString::to_string), tally.event_bytes));
            }
        }
        let prediction = match section.predictor {
            PredictorName::Ewma => Prediction::Ewma(Ewma::new(1)),
            PredictorName::LastValue => Prediction::LastValue(LastValue::default()),
            PredictorName::Linear => Prediction::Linear(Linear::default()),
        };
        let config = RegulationConfig {
            period,
            skid: section.skid.0,
            overhead: section.overhead.0,
            prediction,
            subjects: subjects.into_iter().flat_map(|(_, subjects)| subjects).collect(),
            counters,
            palette: palette.clone(),
            history: section.history,
        };
        let groups = self.spec.groups.iter().map(|group| group.name.as_str().to_owned()).collect();
        Ok(Some(Regulators { config, counters: names, groups, guaranteed_mb_per_s: guaranteed as f64 / 1e6 }))
    }

    /// The regulators of the machine as it is built.
    pub(crate) fn regulators_of_machine(&self) -> Result<Option<Regulators>, SimError> {
        let palette = Palette::new(&self.platform, self.granule())?;
        self.regulators(&palette, self.caches(self.cores())?.line.bytes())
    }

    fn verify_bandwidth(&self, section: &BandwidthSection) -> Result<(), SimError> {
        let check = Check { origin: &self.origin };
        let second = Picoseconds(1_000_000_000_000);
        let period = section.period();
        check.that(
            "simulation.bandwidth.period",
            period.0 > 0 && period <= second,
            period,
            "more than 0 ns, at most 1 s",
        )?;
        for (field, time) in [("skid", section.skid.0), ("overhead", section.overhead.0)] {
            check.that(
                &format!("simulation.bandwidth.{field}"),
                time <= period,
                time,
                format!("at most the period, {period}"),
            )?;
        }
        let step = section.reclaim_step.unwrap_or(section.quantum);
        check.that("simulation.bandwidth.quantum", section.quantum > 0, 0, "1 or more")?;
        let accepted = format!("1 to {}, the quantum", section.quantum);
        check.that("simulation.bandwidth.reclaim_step", (1..=section.quantum).contains(&step), step, accepted)?;
        check.that(
            "simulation.bandwidth.guaranteed_mb_per_s",
            section.guaranteed_mb_per_s != Some(0),
            0,
            "1 or more",
        )?;
        let cost = section.write_cost.unwrap_or(1);
        check.that("simulation.bandwidth.write_cost", (1..=1000).contains(&cost), cost, "1 to 1000")?;
        let has_cost = section.write_cost.is_none() || section.counts == Counted::Lines;
        check.that("simulation.bandwidth.write_cost", has_cost, "given", "nothing, unless counts is lines")?;
        check.that("group", !self.spec.groups.is_empty(), "an empty list", "one group or more")?;
        let weighted = self.spec.groups.iter().filter(|group| group.weight.is_some()).count();
        let apart = section.counts == Counted::ReadsAndWrites;
        for (index, group) in self.spec.groups.iter().enumerate() {
            let of = |field: &str| format!("group {:?}: {field}", group.name.as_str());
            let first = self.spec.groups.iter().position(|other| other.name == group.name);
            check.that(&of("name"), first == Some(index), "used twice", "a unique name")?;
            let kinds = usize::from(group.cores.is_some()) + usize::from(!group.tasks.is_empty());
            check.that(
                &of("cores"),
                kinds == 1,
                format!("beside {} tasks", group.tasks.len()),
                "either cores or tasks",
            )?;
            let own = group.period.map_or(period, |own| own.0);
            check.that(&of("period"), own == period, own, format!("{period}, as of all budgets"))?;
            let given = [group.mb_per_s.is_some(), group.budget.is_some(), group.weight.is_some()];
            let given = given.into_iter().filter(|given| *given).count();
            let found = if given > 1 { "given beside another budget" } else { "absent" };
            check.that(&of("mb_per_s"), given == 1, found, "one of mb_per_s, budget and weight")?;
            let all = weighted == 0 || weighted == self.spec.groups.len();
            check.that(&of("weight"), all, "not that of all groups", "a weight of each group, or of none")?;
            let accepted = "given with mb_per_s, as counts is reads-and-writes";
            let is_whole = !apart || (group.write_mb_per_s.is_some() && group.mb_per_s.is_some());
            check.that(&of("write_mb_per_s"), is_whole, "absent, or beside no mb_per_s", accepted)?;
            let needless = apart || group.write_mb_per_s.is_none();
            check.that(&of("write_mb_per_s"), needless, "given", "nothing, unless counts is reads-and-writes")?;
        }
        Ok(())
    }

    /// The members of each group.
    fn subjects(&self) -> Result<Vec<(&GroupEntry, Vec<Subject>)>, SimError> {
        let check = Check { origin: &self.origin };
        let mut owners: Vec<(Subject, &str)> = Vec::new();
        let mut all = Vec::new();
        for group in &self.spec.groups {
            let of = |field: &str| format!("group {:?}: {field}", group.name.as_str());
            let mut subjects = Vec::new();
            if let Some(text) = &group.cores {
                let cores = text.resolve(self.cores()).map_err(|error| check.refuse(&of("cores"), text, error))?;
                check.that(&of("cores"), !cores.is_empty(), text, "one core or more")?;
                subjects.extend(cores.iter().map(|core| Subject::Core(core as usize)));
            }
            for name in &group.tasks {
                let place = self.spec.tasks.iter().position(|task| task.name == name.as_str());
                let names = || self.spec.tasks.iter().map(|task| task.name.as_str()).collect::<Vec<_>>().join(", ");
                let Some(place) = place else { return Err(check.refuse(&of("tasks"), name.as_str(), names())) };
                subjects.push(Subject::Task(place));
            }
            for &subject in &subjects {
                let called = match subject {
                    Subject::Core(core) => format!("core {core}"),
                    Subject::Task(task) => format!("task {:?}", self.spec.tasks[task].name),
                };
                if let Some((_, owner)) = owners.iter().find(|(other, _)| *other == subject) {
                    let field = of(if group.cores.is_some() { "cores" } else { "tasks" });
                    return Err(check.refuse(&field, called, format!("what no other group has: it is in {owner:?}")));
                }
                owners.push((subject, group.name.as_str()));
            }
            all.push((group, subjects));
        }
        for &(subject, owner) in &owners {
            let Subject::Task(task) = subject else { continue };
            let section = &self.spec.tasks[task];
            let has_budget = |core: &u32| owners.iter().any(|(other, _)| *other == Subject::Core(*core as usize));
            if let Some(core) = self.cores_of(section)?.iter().find(has_budget) {
                let field = format!("group {owner:?}: tasks");
                let accepted = format!("a task that does not run on core {core}, which has a budget itself");
                return Err(check.refuse(&field, format!("{:?}", section.name), accepted));
            }
        }
        Ok(all)
    }

    fn bandwidth_classes(
        &self,
        section: &BandwidthSection,
        palette: &Palette,
    ) -> Result<Vec<Option<IndexSet>>, SimError> {
        if section.classes.is_empty() {
            return Ok(vec![None]);
        }
        let check = Check { origin: &self.origin };
        let count = palette.bank_classes();
        let mut class_of = vec![None; count as usize];
        let mut classes = Vec::new();
        for (index, text) in section.classes.iter().enumerate() {
            let set = IndexSet::parse(text, count)
                .map_err(|error| check.refuse("simulation.bandwidth.classes", text, error))?;
            for bank in set.iter() {
                let before = class_of[bank as usize].replace(index);
                let accepted = "each bank class in one of the lists";
                check.that(
                    "simulation.bandwidth.classes",
                    before.is_none(),
                    format!("{bank} in two of them"),
                    accepted,
                )?;
            }
            classes.push(Some(set));
        }
        let missing = class_of.iter().position(Option::is_none);
        let accepted = format!("each of 0 to {} in one of the lists", count - 1);
        check.that(
            "simulation.bandwidth.classes",
            missing.is_none(),
            format!("without {}", missing.unwrap_or(0)),
            accepted,
        )?;
        Ok(classes)
    }

    fn tallies(&self, section: &BandwidthSection, line_bytes: u64) -> Result<Vec<Tally>, SimError> {
        let tally = |name, read_events, write_events| Tally {
            name,
            read_events,
            write_events,
            of_writes: false,
            event_bytes: line_bytes,
        };
        let decoder = Decoder::new(&self.platform, &self.device.geometry)?;
        let burst_bytes = u64::from(decoder.geometry(&self.device.geometry).burst_bytes());
        let bursts = u32::try_from(line_bytes / burst_bytes).unwrap_or(1).max(1);
        Ok(match section.counts {
            Counted::Lines => vec![tally("lines", 1, section.write_cost.unwrap_or(1))],
            Counted::Misses => vec![tally("lines read", 1, 0)],
            Counted::WriteBacks => vec![tally("lines written", 0, 1)],
            Counted::Bursts => vec![Tally { event_bytes: burst_bytes, ..tally("bursts", bursts, bursts) }],
            Counted::ReadsAndWrites => {
                vec![tally("lines read", 1, 0), Tally { of_writes: true, ..tally("lines written", 0, 1) }]
            }
        })
    }

    /// Worst-case bandwidth of the memory, in bytes a second.
    fn guaranteed(&self, section: &BandwidthSection, line_bytes: u64) -> Result<u64, SimError> {
        if let Some(rate) = section.guaranteed_mb_per_s {
            return Ok(u64::from(rate) * 1_000_000);
        }
        let check = Check { origin: &self.origin };
        let field = "simulation.bandwidth.guaranteed_mb_per_s";
        check.that(
            field,
            section.classes.is_empty(),
            "absent",
            "what each class of banks serves, as there are classes",
        )?;
        check.that(field, self.spec.timetable.is_none(), "absent", "a number, as a timetable locks whole ranks")?;
        let (controller, device) = self.controller()?;
        let decoder = Decoder::new(&self.platform, &self.device.geometry)?;
        let geometry = decoder.geometry(&device.geometry);
        let device = memtint_dram::Device { geometry, ..device };
        let worst = WorstCase::of(&device, controller.refresh, line_bytes);
        let lines = worst.lines_in(section.period());
        check.that(field, lines > 0, "absent", "a number, as refresh leaves nothing of a period in the worst case")?;
        Ok(memtint_guard::bandwidth(lines, line_bytes, section.period()))
    }

    fn groups(
        &self,
        section: &BandwidthSection,
        tally: &Tally,
        subjects: &[(&GroupEntry, Vec<Subject>)],
        guaranteed: u64,
    ) -> Result<Vec<Group>, SimError> {
        let check = Check { origin: &self.origin };
        let most = u64::from(u32::MAX / 2);
        let cores: u64 = subjects.iter().map(|(_, subjects)| subjects.len() as u64).sum();
        let beside = cores * (u64::from(section.quantum) + u64::from(section.skid_events));
        let weights: Vec<u32> = self.spec.groups.iter().filter_map(|group| group.weight.map(Count::get_u32)).collect();
        let shares = by_weight(guaranteed.saturating_sub(beside), &weights);
        let mut first = 0;
        let mut groups = Vec::new();
        for (index, (group, subjects)) in subjects.iter().enumerate() {
            let rate = if tally.of_writes { group.write_mb_per_s } else { group.mb_per_s };
            let of_rate = |rate: Rate| events_per_period(rate.get() * 1_000_000, tally.event_bytes, section.period());
            let of_bytes = || group.budget.map_or_else(|| shares[index], |bytes| bytes.0 / tally.event_bytes);
            let budget = rate.map_or_else(of_bytes, of_rate);
            let field = format!("group {:?}: budget", group.name.as_str());
            let accepted = format!("1 to {most} events, of {} bytes each", tally.event_bytes);
            check.that(&field, (1..=most).contains(&budget), format!("{budget} events per period"), accepted)?;
            let cores: Vec<usize> = (first..first + subjects.len()).collect();
            first += subjects.len();
            let kind = match group.kind {
                BudgetKind::Hard => Kind::Hard,
                BudgetKind::Soft => Kind::Soft,
            };
            let reservation = Reservation { budget: budget as u32, kind };
            groups.push(Group { cores, reservation, quantum: section.quantum, skid: section.skid_events });
        }
        Ok(groups)
    }

    /// The budgets that concern one task alone: the same, and nothing is shared.
    pub(super) fn bandwidth_alone(&self, task: usize) -> (Option<BandwidthSection>, Vec<GroupEntry>) {
        let section = self.spec.bandwidth.clone().unwrap_or_default();
        let groups = self.groups_alone(&section, task).unwrap_or_default();
        ((!groups.is_empty()).then_some(BandwidthSection { sharing: SharingName::Off, ..section }), groups)
    }

    fn groups_alone(&self, section: &BandwidthSection, task: usize) -> Option<Vec<GroupEntry>> {
        let task = &self.spec.tasks[task];
        let cores = self.cores_of(task).ok()?;
        let subjects = self.subjects().ok()?;
        let line_bytes = self.caches(self.cores()).ok()?.line.bytes();
        let guaranteed = self.guaranteed(section, line_bytes).ok()?;
        let tally = self.tallies(section, line_bytes).ok()?.into_iter().next()?;
        let guaranteed = events_per_period(guaranteed, tally.event_bytes, section.period());
        let budgets = self.groups(section, &tally, &subjects, guaranteed).ok()?;
        let own = subjects.iter().zip(budgets).filter_map(|((group, _), budget)| {
            let of_cores = group.cores.as_ref().and_then(|list| list.resolve(self.cores()).ok());
            let own_cores = of_cores.is_some_and(|own| own.iter().any(|core| cores.contains(core)));
            let own_task = group.tasks.iter().any(|name| name.as_str() == task.name);
            let mut group = (own_cores || own_task).then(|| GroupEntry::clone(group))?;
            if own_task {
                group.tasks = vec![Text::new(task.name.clone())];
            }
            // A weight is a share of the total of all groups.
            if group.weight.take().is_some() {
                group.budget = Some(ByteSize(u64::from(budget.reservation.budget) * tally.event_bytes));
            }
            Some(group)
        });
        Some(own.collect())
    }
}
