//! Chapter 5: servers, their budgets, and the schedule around refresh.

use super::{OfTasks, PS_PER_MS, count, ms, ms_of, yes};
use crate::answer::{Found, Results};
use crate::error::ReproduceError;
use crate::figure::Is;
use memtint_analysis::Inside;
use memtint_hiding::crs::{
    Admission, Inner, Server, ServerPair, Space, System, Timeline, What, algorithm_8, check_timeline, judge, optimize,
    periodic_capacity_bound, printed_responses, server_responses, timeline, total_utilization, utilization_bound,
    within_utilization_bound,
};
use memtint_sched::{
    AnalysisLimits, Cause, Form, PeriodicResource, Supply, TaskIndex, Verdict, schedulable_on, smallest_budget,
};
use memtint_units::Picoseconds;
use num_bigint::BigUint;
use num_integer::Integer as _;
use num_rational::Ratio;
use std::collections::BTreeMap;

/// The most pairs of a job and a refresh in Algorithm 8.
const PAIRS_MAX: u64 = 10_000_000;

impl OfTasks {
    pub(super) fn servers(&self, found: &mut Results) -> Result<(), ReproduceError> {
        let system = self.file.system()?;
        let mut sums: BTreeMap<&str, Option<Ratio<BigUint>>> = BTreeMap::new();
        let (mut total, zero) = (Ratio::from_integer(BigUint::from(0u8)), || Ratio::from_integer(BigUint::from(0u8)));
        for (core, own) in self.file.servers_of_cores().into_iter().enumerate() {
            let servers = &system.cores()[core].servers;
            let responses = match self.form {
                Form::AsPrinted => printed_responses(&system, core, &vec![Picoseconds(0); servers.len()]),
                Form::Corrected => server_responses(&system, core),
            };
            for ((&entry, server), response) in own.iter().zip(servers).zip(responses) {
                let name = &self.file.servers[entry].name;
                if let Some(response) = response {
                    found.insert(format!("{name} response ms"), ms(response));
                }
                let budgets = self.server(name, entry, server, found)?;
                for (which, budget) in ["exact", "linear"].into_iter().zip(budgets) {
                    let part = budget.map(|budget| budget / BigUint::from(server.period.0));
                    let sum = sums.entry(which).or_insert_with(|| Some(zero()));
                    *sum = sum.take().zip(part).map(|(sum, part)| sum + part);
                }
            }
            total = total.max(total_utilization(&system, core));
        }
        for (which, sum) in sums {
            found.extend(sum.map(|sum| (format!("{which} budgets by period"), Found::Number(sum))));
        }
        let within = total <= Ratio::from_integer(BigUint::from(1u8));
        found.insert("total utilization".to_owned(), Found::Number(total));
        found.insert("requirement 2".to_owned(), yes(within));
        Ok(())
    }

    /// One server; its smallest budgets on the exact and the linear supply are given back.
    fn server(
        &self,
        name: &str,
        entry: usize,
        server: &Server,
        found: &mut Results,
    ) -> Result<[Option<Ratio<BigUint>>; 2], ReproduceError> {
        let budget = Ratio::from_integer(BigUint::from(server.budget.0));
        let resource = PeriodicResource::new(server.period, budget).map_err(|error| self.refused(error))?;
        let (set, policy, effort) = (&server.tasks, &server.policy, AnalysisLimits::default().effort);
        let mut put = |what: &str, value: Found| drop(found.insert(format!("{name} {what}"), value));
        put("utilization", Found::Number(set.utilization()));
        put("bandwidth", Found::Number(resource.bandwidth()));
        let mut budgets = [None, None];
        for (place, (word, supply)) in [("exact", Supply::Exact), ("linear", Supply::Linear)].into_iter().enumerate() {
            let verdict = schedulable_on(set, policy, &resource, supply, effort);
            if let (Supply::Exact, Verdict::Unschedulable(late)) = (supply, &verdict) {
                put("window ms", ms_of(&Ratio::from_integer(late.window_ps.clone())));
                put("demand ms", ms_of(&Ratio::from_integer(late.demand_ps.clone())));
                if let Cause::Supply(supplied) = &late.cause {
                    put("supply ms", ms_of(supplied));
                }
            }
            put(word, answered(&verdict));
            if let Verdict::Schedulable(smallest) = smallest_budget(set, policy, server.period, supply, effort) {
                put(&format!("{word} budget ms"), ms_of(&smallest.budget_ps));
                budgets[place] = Some(smallest.budget_ps);
            }
        }
        let inner = match self.file.servers[entry].inside {
            Inside::Edf => Inner::Edf,
            Inside::RateMonotonic => Inner::RateMonotonic,
            Inside::DeadlineMonotonic | Inside::Given => return Ok(budgets),
        };
        if let Verdict::Schedulable(bound) = periodic_capacity_bound(set, inner, server.period, self.form, effort) {
            put("pcb ms", ms(bound));
        }
        put("bound", Found::Number(utilization_bound(set, inner, &resource).most));
        put("within bound", answered(&within_utilization_bound(set, inner, &resource, self.form)));
        Ok(budgets)
    }

    pub(super) fn crs(&self, found: &mut Results) -> Result<(), ReproduceError> {
        let (system, limits) = (self.file.system()?, AnalysisLimits::default());
        let verdict = judge(&system, limits.effort, limits.events_max).map_err(|error| self.refused(error))?;
        found.insert("schedulable".to_owned(), answered(&verdict));
        let shown = timeline(&system, limits.events_max);
        found.insert("whole".to_owned(), yes(shown.whole));
        found.insert("hyperperiod ms".to_owned(), ms_of(&Ratio::from_integer(shown.hyperperiod.clone())));
        found.insert("checked".to_owned(), yes(check_timeline(&system, &shown).is_ok()));
        self.jobs(&system, &shown, found);
        for (group, color) in self.file.colors.iter().enumerate() {
            found.insert(format!("{} burst ms", color.name), ms(system.refresh().groups[group].burst));
            let bursts = shown.bursts.iter().filter(|burst| burst.group == group).count();
            let unhidden: u64 = shown.hiding.iter().map(|core| core[group].unhidden.0).sum();
            if bursts > 0 {
                let each = Ratio::new(BigUint::from(unhidden), BigUint::from(bursts));
                found.insert(format!("{} unhidden ms a refresh", color.name), ms_of(&each));
            }
        }
        for (text, time) in &self.with.at {
            let running = shown.runs.iter().filter(|run| run.start <= *time && *time < run.end);
            let names = running.flat_map(|run| self.running(run.core, run.what)).collect();
            found.insert(format!("runs at {text}"), Found::List(names));
        }
        Ok(())
    }

    /// The task and its server, or the refresh task.
    fn running(&self, core: usize, what: What) -> Vec<String> {
        let entry = |server: usize| self.file.servers_of_cores()[core][server];
        let color = |group: usize| &self.file.colors[group].name;
        match what {
            What::Lock { group } => vec![format!("lock {}", color(group))],
            What::Unlock { group } => vec![format!("unlock {}", color(group))],
            What::Held { server } => vec![self.file.servers[entry(server)].name.clone()],
            What::Job { server, task, .. } => {
                let entry = entry(server);
                let task = self.file.tasks_of(entry)[task.index()];
                vec![self.task(task).to_owned(), self.file.servers[entry].name.clone()]
            }
        }
    }

    /// Counts jobs of the first hyperperiod that are not complete at their deadlines, and finds the longest response.
    fn jobs(&self, system: &System, shown: &Timeline, found: &mut Results) {
        let mut late = 0u64;
        for (core, entries) in self.file.servers_of_cores().into_iter().enumerate() {
            let of_file = |server: usize, task: TaskIndex| self.file.tasks_of(entries[server])[task.index()];
            for (server, &entry) in entries.iter().enumerate() {
                for (index, task) in system.cores()[core].servers[server].tasks.indexed() {
                    let whose = of_file(server, index);
                    // Jobs of both instances of a copied task are counted together.
                    if self.file.tasks[whose.index()].server != Some(entry) {
                        continue;
                    }
                    let mut jobs: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
                    for run in &shown.runs {
                        if let What::Job { server: on, task: of, job } = run.what
                            && run.core == core
                            && of_file(on, of) == whose
                        {
                            jobs.entry(job).or_default().push((run.start.0, run.end.0));
                        }
                    }
                    let mut longest = None;
                    for job in 0.. {
                        let arrival = task.phase().0 + job * task.period().0;
                        let deadline = arrival + task.deadline().0;
                        if BigUint::from(arrival) >= shown.hyperperiod || deadline > shown.window.0 {
                            break;
                        }
                        let runs = jobs.get(&job).map(Vec::as_slice).unwrap_or_default();
                        let until = |end: u64| runs.iter().map(|run| run.1.min(end).saturating_sub(run.0)).sum::<u64>();
                        late += u64::from(until(deadline) < task.wcet().0);
                        if until(u64::MAX) == task.wcet().0 {
                            longest = longest.max(runs.last().map(|run| run.1 - arrival));
                        }
                    }
                    let name = self.task(whose);
                    found.extend(longest.map(|time| (format!("{name} response ms"), ms(Picoseconds(time)))));
                }
            }
        }
        found.insert("late".to_owned(), count(late));
    }

    /// The two servers of the only core, without copied tasks.
    fn two(&self, system: &System) -> Option<[usize; 2]> {
        let cores = self.file.servers_of_cores();
        let own = cores.first().filter(|_| cores.len() == 1)?;
        let pair: [usize; 2] = own[..].try_into().ok()?;
        (system.refresh().groups.len() == 2 && system.copied().is_empty()).then_some(pair)
    }

    pub(super) fn algorithm_8(&self, found: &mut Results) -> Result<(), ReproduceError> {
        let system = self.file.system()?;
        let Some(pair) = self.two(&system) else { return Ok(()) };
        let servers = &system.cores()[0].servers;
        let refresh = system.refresh();
        let Some(responses) = responses(servers) else { return Ok(()) };
        let group = |server: usize| &refresh.groups[servers[server].group];
        let asked = ServerPair {
            periods: [servers[0].period.0, servers[1].period.0],
            responses,
            retention: refresh.retention.0,
            phases: [group(0).phase.0, group(1).phase.0],
            bursts: [group(0).burst.0, group(1).burst.0],
        };
        let of = match self.form {
            Form::AsPrinted => self.file.set.hyperperiod(),
            Form::Corrected => BigUint::from(asked.periods[0]).lcm(&asked.periods[1].into()),
        };
        let Ok(span) = u64::try_from(of.lcm(&BigUint::from(asked.retention))) else { return Ok(()) };
        for (index, entry) in pair.into_iter().enumerate() {
            // As printed the end of the range is included.
            let jobs = span / asked.periods[index] + u64::from(self.form == Form::AsPrinted);
            if jobs.saturating_mul(span / asked.retention + 1) > PAIRS_MAX {
                continue;
            }
            let values: Vec<u64> =
                (0..jobs).filter_map(|job| algorithm_8(self.form, index, job, &asked, span)).collect();
            let name = &self.file.servers[entry].name;
            found.insert(format!("{name} values"), count(values.len()));
            let sum = Ratio::new(values.into_iter().map(BigUint::from).sum(), BigUint::from(PS_PER_MS));
            found.insert(format!("{name} overhead ms"), Found::Number(sum));
        }
        Ok(())
    }

    pub(super) fn optimize(&self, found: &mut Results) -> Result<(), ReproduceError> {
        let system = self.file.system()?;
        let Some(pair) = self.two(&system) else { return Ok(()) };
        let (Some(unit), Some(period_max)) = (self.with.unit, self.with.period_max) else { return Ok(()) };
        let inner = match self.file.servers[pair[0]].inside {
            Inside::Edf => Inner::Edf,
            _ => Inner::RateMonotonic,
        };
        let refresh = system.refresh().clone();
        let phases = vec![[refresh.groups[0].phase, refresh.groups[1].phase]];
        let kind = system.cores()[0].servers[0].kind;
        let space = Space::new(system.ranks(), refresh, phases, unit, period_max, kind, inner);
        let space = space.map_err(|error| self.refused(error))?;
        let second: Vec<bool> = self.file.tasks.iter().map(|task| task.server == Some(pair[1])).collect();
        match optimize(&self.file.set, Some(&second), &space, Admission::Supply, AnalysisLimits::default().effort) {
            Ok(Some(best)) => {
                found.insert("found".to_owned(), yes(true));
                let percent = best.unhidden * BigUint::from(100u8);
                found.insert("unhidden percent".to_owned(), Found::Number(percent));
                for (server, entry) in pair.into_iter().enumerate() {
                    let name = &self.file.servers[entry].name;
                    found.insert(format!("{name} period ms"), ms(best.choice.periods[server]));
                    found.insert(format!("{name} budget ms"), ms(best.choice.budgets[server]));
                }
            }
            Ok(None) => drop(found.insert("found".to_owned(), yes(false))),
            Err(_) => drop(found.insert("found".to_owned(), Found::Is(Is::Open))),
        }
        Ok(())
    }
}

/// Time demand analysis of two servers without refresh, by which 5.3.8 asks for `r_s1` and `r_s2`; `None` where the second
/// never is complete.
fn responses(servers: &[Server]) -> Option<[u64; 2]> {
    let [first, second] = servers else { return None };
    let mut reached = second.budget.0;
    for _ in 0..PAIRS_MAX {
        let next = reached.div_ceil(first.period.0).checked_mul(first.budget.0)?.checked_add(second.budget.0)?;
        if next == reached {
            return Some([first.budget.0, reached]);
        }
        reached = next;
    }
    None
}

fn answered<W>(verdict: &Verdict<W>) -> Found {
    Found::Is(match verdict {
        Verdict::Schedulable(_) => Is::Yes,
        Verdict::Unschedulable(_) => Is::No,
        Verdict::Unsupported(_) => Is::Open,
    })
}
