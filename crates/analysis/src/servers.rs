//! The Colored Refresh Server: chapter 5 of the dissertation.

use memtint_hiding::BEYOND_STANDARD;
use memtint_hiding::crs::{
    Form, Inner, System, TimelineRun, Unproved, What, Witness, check_timeline, judge, periodic_capacity_bound,
    printed_responses, saturated_hiding, server_proofs, server_responses, supplies, timeline, total_utilization,
    utilization_bound,
};
use memtint_sched::{
    Coverage, Effort, Overload, PeriodicResource, Policy, Response, Supply, Task, TaskIndex, TaskSet, Unsupported,
    Verdict, smallest_budget,
};
use memtint_units::Picoseconds;
use num_bigint::BigUint;
use num_rational::Ratio;

use crate::ask::{Question, Scheduler, unused};
use crate::cyclic::list;
use crate::error::AnalysisError;
use crate::output::{BusyRefresh, CopiedInstance, Facts, Ns, PrintedServer, ServerReport};
use crate::refresh::Inside;
use crate::report::{Answer, Band, Chart, Findings, Lane, Report, Row, Run, Section, arrivals};
use crate::tasks::TaskSystem;
use crate::words::{CRITICAL, exact_span, reason, refusal, time};

/// The most refreshes of a color in the calculation of refresh that is unhidden beside servers that are never idle.
const BURSTS_MAX: u64 = 100_000;

/// The answer for a file without servers, when a search for servers found none.
#[must_use]
pub fn without_servers(question: &Question<'_>, why: String) -> Report {
    let mut part = Part::new(question.file, None);
    part.theorem += "; no servers are given, and a search found none";
    let report = part.finish(Answer::Unsupported(why), Vec::new(), no_witness());
    Report { not_considered: unused(question.given, question.scheduler, false), ..report }
}

fn no_witness() -> Result<Chart, String> {
    Err("because the answer is not yes".to_owned())
}

/// Judges the servers of a file.
pub(crate) fn crs(question: &Question<'_>) -> Result<Report, AnalysisError> {
    let file = question.file;
    if !file.terms.is_empty() {
        let needs = "software refreshes this memory, and servers know no [refresh], [banks] or [regulator]";
        return Ok(Part::new(file, None).finish(Answer::Unsupported(needs.to_owned()), Vec::new(), no_witness()));
    }
    let view = View::new(file, file.system()?, question.limits.events_max)?;
    let mut part = Part::new(file, Some(&view));
    if question.form == Form::AsPrinted {
        part.theorem = "Colored Refresh Server: [Pan18, §5.3.7 and 5.3.8], as printed".to_owned();
        let (section, servers, accepted) = view.as_printed(question.limits.effort);
        part.sections.push(section);
        part.findings.facts.as_printed = Some(servers);
        let reason = match accepted {
            true => "as printed, every test passes; some of these tests are not safe, and the corrected form answers",
            false => "as printed, the analysis does not accept these servers; the corrected form answers",
        };
        return Ok(part.finish(Answer::Unsupported(reason.to_owned()), Vec::new(), no_witness()));
    }
    let (section, servers) = view.servers(question.limits.effort);
    part.sections.push(section);
    part.findings.facts.servers = Some(servers);
    let verdict = judge(&view.system, question.limits.effort, question.limits.events_max)?;
    let verdict = verdict.map(|witness| view.printed(witness, question.witness_jobs_max));
    let witness = if let Verdict::Schedulable(witness) = &verdict { Some(witness) } else { None };
    if let Some((section, copied)) = view.copies(question.limits.effort, witness) {
        part.sections.push(section);
        part.findings.facts.copied_tasks = Some(copied);
    }
    let answer = match verdict {
        Verdict::Schedulable(witness) => {
            let rows = view.rows(&witness);
            view.hiding(Some(&witness), &mut part.findings);
            let chart = view.chart(&witness);
            return Ok(part.finish(Answer::Yes, rows, Ok(chart)));
        }
        Verdict::Unschedulable(late) => {
            let late = Overload { task: view.order[late.task.index()], ..late };
            refusal(&file.set, &late, CRITICAL)
        }
        Verdict::Unsupported(_) => Answer::Unsupported(view.why(question.limits.effort)),
    };
    view.hiding(None, &mut part.findings);
    Ok(part.finish(answer, Vec::new(), no_witness()))
}

/// Assumptions that always apply.
struct Part {
    theorem: String,
    assumptions: Vec<String>,
    findings: Findings<Facts>,
    sections: Vec<Section>,
    set: TaskSet,
}

impl Part {
    fn new(file: &TaskSystem, view: Option<&View<'_>>) -> Part {
        let mut assumptions = vec![
            "tasks stay on their cores, are independent but for the blocking given, and never suspend themselves"
                .to_owned(),
            "switching between jobs and servers takes no time beyond what the WCETs hold".to_owned(),
            "periods are least distances of arrivals, whatever the phases of tasks; server periods begin at 0, and refresh at its phases"
                .to_owned(),
            "each task's data, and what it calls, are in the ranks of its server's color only".to_owned(),
            "lock and unlock run on every core at the same time, and their times hold the wait for the last core"
                .to_owned(),
        ];
        if view.is_some_and(|view| view.system.cores().len() > 1) {
            let cores = "cores have disjoint banks; WCETs include the effect of the remaining shared resources (bus, command queue)";
            assumptions.push(cores.to_owned());
        }
        assumptions.push(format!("memory may be refreshed beyond the standard: {BEYOND_STANDARD}"));
        let copied = file.tasks.iter().any(|task| task.copy_server.is_some());
        if copied {
            assumptions.extend([
                "a copied task is periodic; each job goes on with the instance that had the one before, unless that one's color is \
                 locked between arrival and deadline"
                    .to_owned(),
                "its data are copied at the end of the job before, as a part of that (wcet with copy); for the first job both instances have them"
                    .to_owned(),
            ]);
        }
        let copies = "; copied tasks (5.3.6, which has no analysis): ours, each instance has all jobs that its lock does not meet. EDF: the \
                      copied tasks alone fit the supply without the lock, and all fit the supply with it, deadlines of copied ones longer by c = \
                      locked + deadline - period; fixed priorities: copied tasks above count c less of a window";
        Part {
            theorem: "Colored Refresh Server: [Pan18, chapter 5], corrected; supply of a server: Easwaran, Anand and Lee 2007, \
                      less what lock, burst and unlock can take, or what it supplies exactly, where no server above \
                      defers a budget; EDF: demand in each window, responses Spuri 1996; fixed priorities: requests up to each \
                      deadline. Smallest budget: exact, of a periodic resource without refresh, Shin and Lee 2003; enough with \
                      refresh: what still has its proof in this server's place, all else equal"
                .to_owned()
                + if copied { copies } else { "" },
            assumptions,
            findings: Findings::default(),
            sections: Vec::new(),
            set: file.set.clone(),
        }
    }

    fn finish(self, answer: Answer, rows: Vec<Row>, witness: Result<Chart, String>) -> Report {
        let rows = if rows.is_empty() { self.set.tasks().iter().map(|_| Row::default()).collect() } else { rows };
        Report {
            not_considered: Vec::new(),
            scheduler: Scheduler::Crs,
            theorem: self.theorem,
            assumptions: self.assumptions,
            answer,
            set: self.set,
            rows,
            findings: self.findings,
            derived: None,
            sections: self.sections,
            witness,
        }
    }
}

/// A file and the system that it describes, with the way back.
struct View<'a> {
    file: &'a TaskSystem,
    system: System,
    /// Servers of the file, by core.
    cores: Vec<Vec<usize>>,
    /// Tasks of the file, in the order of the system; one with two instances occurs twice.
    order: Vec<TaskIndex>,
    /// The set in that order.
    set: TaskSet,
    /// The most events of a timeline.
    events_max: u64,
}

impl<'a> View<'a> {
    fn new(file: &'a TaskSystem, system: System, events_max: u64) -> Result<View<'a>, AnalysisError> {
        let cores = file.servers_of_cores();
        let instances = |&server: &usize| file.tasks_of(server).into_iter().map(move |task| (server, task));
        let (servers, order): (Vec<usize>, Vec<TaskIndex>) = cores.iter().flatten().flat_map(instances).unzip();
        let set = TaskSet::new(servers.iter().zip(&order).map(|(&server, &task)| {
            let mut spec = file.set[task].spec();
            if file.tasks[task.index()].copy_server.is_some() {
                spec.name = format!("{} in {}", spec.name, file.servers[server].name);
            }
            spec
        }));
        let view = View { file, system, cores, order, set: set?, events_max };
        view.assert_in_order();
        Ok(view)
    }

    /// The system has the tasks of the file in the order that this view translates its answers by.
    fn assert_in_order(&self) {
        let servers = self.system.cores().iter().flat_map(|core| &core.servers);
        let tasks = servers.flat_map(|server| server.tasks.tasks());
        let own = self.order.iter().map(|&task| self.file.set[task].name());
        assert!(tasks.map(Task::name).eq(own), "tasks of the system and of the file are not in one order");
    }

    /// The printed witness: the verdict stands, and its timeline is cut to this number of events.
    fn printed(&self, witness: Witness, events_max: u64) -> Witness {
        let shown = timeline(&self.system, events_max);
        match check_timeline(&self.system, &shown) {
            Ok(accepted) if shown.window < witness.timeline.window => Witness { timeline: shown, accepted, ..witness },
            _ => witness,
        }
    }

    /// Core, place on it, and index in the file of each server.
    fn places(&self) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
        let one = |(core, own): (usize, &'_ Vec<usize>)| {
            own.iter().enumerate().map(move |(place, &index)| (core, place, index)).collect::<Vec<_>>()
        };
        self.cores.iter().enumerate().flat_map(one)
    }

    fn why(&self, effort: Effort) -> String {
        let proofs = server_proofs(&self.system, effort, self.events_max);
        let failed = self.places().filter_map(|(core, place, index)| {
            let Unproved::Unknown(why) = proofs[core][place].as_ref().err()? else { return None };
            let name = &self.file.servers[index].name;
            Some(match why {
                Unsupported::Inconclusive { found, most } if found.is_integer() => {
                    format!(
                        "server {name:?}: {} of work are due in a window in which {} of supply are sure",
                        exact_span(found),
                        exact_span(most)
                    )
                }
                Unsupported::Inconclusive { found, most } => {
                    format!(
                        "server {name:?}: its tasks need {found} of a processor, and {most} is sure in the long run"
                    )
                }
                other => format!("server {name:?}: {}", reason(&self.set, other)),
            })
        });
        let failed: Vec<String> = failed.collect();
        format!("inconclusive: {}; no job is late in the timeline of the phases given", failed.join("; "))
    }

    fn servers(&self, effort: Effort) -> (Section, Vec<ServerReport>) {
        let proofs = server_proofs(&self.system, effort, self.events_max);
        let (mut rows, mut servers) = (Vec::new(), Vec::new());
        let mut responses = Vec::new();
        for core in 0..self.cores.len() {
            responses.push(server_responses(&self.system, core));
        }
        for (core, place, index) in self.places() {
            let (entry, own) = (&self.file.servers[index], &self.system.cores()[core].servers[place]);
            let color = &self.file.colors[entry.color];
            let smallest = smallest_budget(&own.tasks, &own.policy, own.period, Supply::Exact, effort);
            let smallest = match smallest {
                Verdict::Schedulable(budget) => Ok(budget.budget_ps),
                Verdict::Unschedulable(_) => Err("more than the period".to_owned()),
                Verdict::Unsupported(why) => Err(reason(&own.tasks, &why)),
            };
            let enough = proofs[core][place].is_ok().then(|| self.enough(core, place, effort)).flatten();
            let slack = enough.map(|enough| own.budget - enough);
            let response = responses[core][place];
            let dash = || "-".to_owned();
            rows.push(vec![
                entry.name.clone(),
                entry.core.to_string(),
                color.name.clone(),
                time(own.period),
                time(own.budget),
                smallest.as_ref().map_or_else(Clone::clone, exact_span),
                enough.map_or_else(dash, time),
                slack.map_or_else(dash, time),
                response.map_or_else(|| "none".to_owned(), time),
                if proofs[core][place].is_ok() { "yes" } else { "no proof" }.to_owned(),
            ]);
            let tasks = self.file.tasks_of(index).into_iter().map(|task| self.file.set[task].name().to_owned());
            servers.push(ServerReport {
                name: entry.name.clone(),
                core: entry.core,
                color: color.name.clone(),
                ranks: color.ranks.clone(),
                period_ps: own.period.0,
                budget_ps: own.budget.0.to_string(),
                bandwidth: Ratio::new(own.budget.0, own.period.0).to_string(),
                smallest_budget_ps: smallest.as_ref().ok().map(ToString::to_string),
                no_smallest_budget_because: smallest.err(),
                enough_budget_ps: enough.map(|enough| enough.0.to_string()),
                slack_ps: slack.map(|slack| slack.0.to_string()),
                response_ns: response.map(Ns),
                supply_rate: supplies(&self.system, core)[place].rate().to_string(),
                proved: proofs[core][place].is_ok(),
                tasks: tasks.collect(),
            });
        }
        let heads = [
            "server",
            "core",
            "color",
            "period",
            "budget",
            "smallest budget",
            "enough with refresh",
            "slack",
            "response",
            "proved",
        ];
        (Section { heads: heads.to_vec(), right: vec![1, 3, 4, 5, 6, 7, 8], rows }, servers)
    }

    /// A budget with which the tasks of this server still have their proof, and 1 ps less does not, all else equal; found by halving,
    /// so there may be smaller ones.
    fn enough(&self, core: usize, place: usize, effort: Effort) -> Option<Picoseconds> {
        let proved = |budget: u64| {
            let mut cores = self.system.cores().to_vec();
            cores[core].servers[place].budget = Picoseconds(budget);
            let system = System::new(self.system.ranks(), self.system.refresh().clone(), cores).ok()?;
            let system = system.with_copies(self.system.copied().to_vec()).ok()?;
            server_proofs(&system, effort, self.events_max)[core][place].as_ref().ok().map(|_| ())
        };
        let (mut short, mut enough) = (0, self.system.cores()[core].servers[place].budget.0);
        while enough - short > 1 {
            let middle = short + (enough - short) / 2;
            if proved(middle).is_some() { enough = middle } else { short = middle }
        }
        Some(Picoseconds(enough))
    }

    /// The printed tests of 5.3.7 and 5.3.8, and whether all of them pass.
    fn as_printed(&self, effort: Effort) -> (Section, Vec<PrintedServer>, bool) {
        let (mut rows, mut servers, mut all) = (Vec::new(), Vec::new(), true);
        for core in 0..self.cores.len() {
            let most = total_utilization(&self.system, core);
            let within = most <= Ratio::from_integer(BigUint::from(1u8));
            all &= within;
            let none = vec![Picoseconds(0); self.cores[core].len()];
            let responses = printed_responses(&self.system, core, &none);
            for (place, &index) in self.cores[core].iter().enumerate() {
                let (entry, own) = (&self.file.servers[index], &self.system.cores()[core].servers[place]);
                let inner = match entry.inside {
                    Inside::Edf => Some(Inner::Edf),
                    Inside::RateMonotonic => Some(Inner::RateMonotonic),
                    _ => None,
                };
                let asked = |form| {
                    inner.map(|inner| match periodic_capacity_bound(&own.tasks, inner, own.period, form, effort) {
                        Verdict::Schedulable(budget) => Ok(budget),
                        Verdict::Unschedulable(_) => Err("more than the period".to_owned()),
                        Verdict::Unsupported(why) => Err(reason(&own.tasks, &why)),
                    })
                };
                let (printed, corrected) = (asked(Form::AsPrinted), asked(Form::Corrected));
                let resource = PeriodicResource::new(own.period, Ratio::from_integer(BigUint::from(own.budget.0))).ok();
                let bound =
                    inner.zip(resource).map(|(inner, resource)| utilization_bound(&own.tasks, inner, &resource));
                let fits = |bound: &Option<Result<Picoseconds, String>>| matches!(bound, Some(Ok(least)) if *least <= own.budget);
                let capacity = fits(&printed);
                let in_time = responses[place].is_some_and(|response| response <= own.period);
                let filter = bound.as_ref().is_some_and(|bound| bound.found <= bound.most);
                all &= capacity && in_time;
                let show = |bound: &Option<Result<Picoseconds, String>>| match bound {
                    None => "-".to_owned(),
                    Some(Ok(least)) => time(*least),
                    Some(Err(why)) => why.clone(),
                };
                let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
                rows.push(vec![
                    entry.name.clone(),
                    time(own.period),
                    time(own.budget),
                    show(&printed),
                    show(&corrected),
                    bound
                        .as_ref()
                        .map_or("-".to_owned(), |bound| format!("{} <= {}: {}", bound.found, bound.most, yes(filter))),
                    responses[place].map_or("none".to_owned(), time),
                    yes(capacity && in_time),
                ]);
                let least = |bound: Option<Result<Picoseconds, String>>| Some(bound?.ok()?.0.to_string());
                servers.push(PrintedServer {
                    name: entry.name.clone(),
                    budget_ps: own.budget.0.to_string(),
                    capacity_bound_ps: least(printed),
                    capacity_bound_at_deadlines_ps: least(corrected),
                    utilization: bound.as_ref().map(|bound| bound.found.to_string()),
                    utilization_bound: bound.as_ref().map(|bound| bound.most.to_string()),
                    within_utilization_bound: filter,
                    response_ns: responses[place].map(Ns),
                    total_utilization_of_core: most.to_string(),
                    accepted: capacity && in_time && within,
                });
            }
        }
        let heads = vec![
            "server",
            "period",
            "budget",
            "PCB for all t, as printed",
            "PCB at deadlines",
            "utilization bound",
            "response as printed",
            "accepted",
        ];
        (Section { heads, right: vec![1, 2, 3, 4, 6], rows }, servers, all)
    }

    /// Refresh that costs processor time, and refresh that does not.
    fn hiding(&self, witness: Option<&Witness>, found: &mut Findings<Facts>) {
        if let Some(witness) = witness {
            let sum = |of: &dyn Fn(&memtint_hiding::crs::Hiding) -> u64| {
                witness.timeline.hiding.iter().flatten().map(of).sum::<u64>()
            };
            let (hidden, unhidden) = (sum(&|own| own.hidden.0), sum(&|own| own.unhidden.0));
            let window = time(witness.timeline.window);
            let text = |part: u64| format!("{} of {window}, in the witness", time(Picoseconds(part)));
            found.line("hidden refresh", text(hidden)).hidden_refresh_ps = Some(hidden);
            found.line("unhidden refresh", text(unhidden)).unhidden_refresh_ps = Some(unhidden);
        }
        let saturated: Vec<Option<BusyRefresh>> = (0..self.cores.len()).map(|core| self.busy(core)).collect();
        let texts: Vec<String> = saturated
            .iter()
            .flatten()
            .map(|own| {
                let [hidden, unhidden, window] =
                    [own.hidden_ps, own.unhidden_ps, own.window_ps].map(|ps| time(Picoseconds(ps)));
                format!("{hidden} hidden, {unhidden} unhidden of {window}")
            })
            .collect();
        let text = format!("{} (servers that always have something to do)", texts.join("; "));
        found.line("refresh with busy servers", text).refresh_with_busy_servers = Some(saturated);
        let loads: Vec<String> =
            (0..self.cores.len()).map(|core| total_utilization(&self.system, core).to_string()).collect();
        let text = format!("{}, of budgets and refresh tasks", loads.join(", "));
        found.line("total utilization of cores", text).total_utilization_of_cores = Some(loads);
        let refresh = self.system.refresh();
        let bursts = refresh.groups.iter().map(|group| group.burst.0).collect();
        let texts = refresh.groups.iter().zip(&self.file.colors).enumerate().map(|(group, (own, color))| {
            let [burst, retention, locked] = [own.burst, refresh.retention, refresh.locked(group)].map(time);
            format!("{}: {burst} each {retention}, locked {locked}", color.name)
        });
        found.line("bursts", texts.collect::<Vec<_>>().join("; ")).bursts_ps = Some(bursts);
    }

    /// Refresh on a core whose servers always have work.
    fn busy(&self, core: usize) -> Option<BusyRefresh> {
        let (own, window) = saturated_hiding(&self.system, core, BURSTS_MAX)?;
        let (hidden_ps, unhidden_ps) =
            own.iter().fold((0, 0), |sum, own| (sum.0 + own.hidden.0, sum.1 + own.unhidden.0));
        Some(BusyRefresh { hidden_ps, unhidden_ps, window_ps: window.0 })
    }

    /// Each task; of one with two instances the longer of both.
    fn rows(&self, witness: &Witness) -> Vec<Row> {
        let mut rows: Vec<Row> = self.file.tasks.iter().map(|_| Row::default()).collect();
        let mut longest: Vec<Option<Picoseconds>> = vec![None; rows.len()];
        for (core, place, index) in self.places() {
            let own = &self.system.cores()[core].servers[place];
            for (local, task) in own.tasks.indices().zip(self.file.tasks_of(index)) {
                let response = witness.proof.cores[core][place].responses[local.index()];
                let seen = &mut longest[task.index()];
                *seen = (*seen).max(witness.accepted.responses[core][place][local.index()]);
                let (row, more) = (&mut rows[task.index()], &self.file.tasks[task.index()]);
                if let Policy::FixedPriority(order, _) = &own.policy
                    && more.server == Some(index)
                {
                    row.priority = order.order().iter().position(|&other| other == local).map(|rank| rank + 1);
                }
                let response = row.worst.map_or(response, |other| other.response.max(response));
                row.worst = Some(Response { task, response, job: 0, window: response, jobs: 1 });
            }
        }
        for ((row, more), seen) in rows.iter_mut().zip(&self.file.tasks).zip(longest) {
            let named = |server: Option<usize>| server.map(|server| self.file.servers[server].name.clone());
            let text = |server| named(server).unwrap_or_else(|| "-".to_owned());
            let found = &mut row.findings;
            found.line("server", text(more.server)).server = Some(named(more.server));
            found.line("copy server", text(more.copy_server)).copy_server = Some(named(more.copy_server));
            found.line("longest seen", seen.map_or("-".to_owned(), time)).longest_seen_ns = Some(seen.map(Ns));
        }
        rows
    }

    /// Both instances of each copied task: the requirements of the theorem, and its numbers. `None` without copied
    /// tasks.
    fn copies(&self, effort: Effort, witness: Option<&Witness>) -> Option<(Section, Vec<CopiedInstance>)> {
        let proofs = server_proofs(&self.system, effort, self.events_max);
        let (mut rows, mut instances) = (Vec::new(), Vec::new());
        for one in self.system.copied() {
            let groups = one.instances.map(|(server, _)| self.system.cores()[one.core].servers[server].group);
            let apart = self.system.refresh().apart_for_copies(groups);
            for (&(server, local), group) in one.instances.iter().zip(groups) {
                let entry = &self.file.servers[self.cores[one.core][server]];
                let task = &self.system.cores()[one.core].servers[server].tasks[local];
                let locked = self.system.refresh().locked(group);
                let shorter = (locked + task.deadline()).saturating_sub(task.period());
                let bound = proofs[one.core][server].as_ref().ok().map(|proof| proof.responses[local.index()]);
                let jobs = witness.map(|witness| {
                    let of = |run: &TimelineRun| match run.what {
                        What::Job { server: on, task, job } if (run.core, on, task) == (one.core, server, local) => {
                            Some(job)
                        }
                        _ => None,
                    };
                    let mut jobs: Vec<u64> = witness.timeline.runs.iter().filter_map(of).collect();
                    jobs.dedup();
                    jobs.len()
                });
                let seen = witness.and_then(|witness| witness.accepted.responses[one.core][server][local.index()]);
                let dash = || "-".to_owned();
                rows.push(vec![
                    task.name().to_owned(),
                    entry.name.clone(),
                    self.file.colors[group].name.clone(),
                    time(task.wcet()),
                    time(locked),
                    time(shorter),
                    time(apart),
                    time(task.period() + task.deadline()),
                    bound.map_or_else(dash, time),
                    seen.map_or_else(dash, time),
                    jobs.map_or_else(dash, |jobs| jobs.to_string()),
                ]);
                instances.push(CopiedInstance {
                    task: task.name().to_owned(),
                    server: entry.name.clone(),
                    color: self.file.colors[group].name.clone(),
                    wcet_with_copy_ps: task.wcet().0,
                    locked_ps: locked.0,
                    lengthening_ps: shorter.0,
                    locks_apart_ps: apart.0,
                    locks_apart_needed_ps: (task.period() + task.deadline()).0,
                    wcrt_ns: bound.map(Ns),
                    longest_seen_ns: seen.map(Ns),
                    jobs_in_witness: jobs,
                });
            }
        }
        let heads = [
            "copied task",
            "instance in",
            "color",
            "wcet with copy",
            "locked",
            "c",
            "locks apart",
            "needed",
            "worst response",
            "longest seen",
            "jobs",
        ];
        let right = (3..heads.len()).collect();
        (!rows.is_empty()).then(|| (Section { heads: heads.to_vec(), right, rows }, instances))
    }

    fn chart(&self, witness: &Witness) -> Chart {
        let timeline = &witness.timeline;
        let several = self.cores.len() > 1;
        let mut lanes = Vec::new();
        for (core, own) in self.cores.iter().enumerate() {
            let of_core = || timeline.runs.iter().filter(move |run| run.core == core);
            let run = |run: &TimelineRun, job| Run { job, start: run.start, end: run.end, part: None };
            let number = own.first().map_or(0, |&server| self.file.servers[server].core);
            let place_name = if several { format!(", core {number}") } else { String::new() };
            for (place, &index) in own.iter().enumerate() {
                let name = &self.file.servers[index].name;
                for (local, task) in self.file.tasks_of(index).into_iter().enumerate() {
                    let other = self.file.tasks[task.index()].server != Some(index);
                    let task: &Task = &self.file.set[task];
                    let runs = of_core().filter_map(|one| match one.what {
                        What::Job { server, task, job } if (server, task) == (place, TaskIndex(local)) => {
                            Some(run(one, job))
                        }
                        _ => None,
                    });
                    let lane = format!("{} ({name}{place_name})", task.name());
                    let arrivals = if other { None } else { arrivals(task) };
                    lanes.push(Lane { name: lane, arrivals, has_jobs: true, runs: runs.collect() });
                }
                let held: Vec<Run> =
                    of_core().filter(|one| one.what == What::Held { server: place }).map(|one| run(one, 0)).collect();
                if !held.is_empty() {
                    lanes.push(Lane {
                        name: format!("held by {name}{place_name}"),
                        arrivals: None,
                        has_jobs: false,
                        runs: held,
                    });
                }
            }
            let locks: Vec<Run> = of_core()
                .filter(|one| matches!(one.what, What::Lock { .. } | What::Unlock { .. }))
                .map(|one| run(one, 0))
                .collect();
            if !locks.is_empty() {
                lanes.push(Lane {
                    name: format!("lock, unlock{place_name}"),
                    arrivals: None,
                    has_jobs: false,
                    runs: locks,
                });
            }
        }
        let bands = self.file.colors.iter().enumerate().map(|(group, color)| {
            let own = timeline.bursts.iter().filter(|burst| burst.group == group);
            let spans = own.map(|burst| (burst.start, burst.end)).collect();
            Band { name: format!("{}, ranks {}", color.name, list(&color.ranks)), ranks: color.ranks.clone(), spans }
        });
        let phases = self.set.tasks().iter().any(|task| task.phase().0 > 0)
            || self.system.refresh().groups.iter().any(|group| group.phase.0 > 0);
        let busy: u64 = timeline.runs.iter().map(|run| run.end.0 - run.start.0).sum();
        Chart {
            lanes,
            bands: bands.collect(),
            window: timeline.window,
            coverage: match (timeline.whole, phases) {
                (false, _) => Coverage::Part(timeline.hyperperiod.clone()),
                (true, true) => Coverage::Phases,
                (true, false) => Coverage::Hyperperiod,
            },
            jobs: witness.accepted.jobs,
            idle: Picoseconds((timeline.window.0 * self.cores.len() as u64).saturating_sub(busy)),
            remark: "each job on time, for its whole WCET, never blocked".to_owned(),
        }
    }
}
