//! Fixed priorities and earliest deadline first.

use memtint_sched::{
    Interference, Limit, Policy, Preemption, Priorities, Regulator, Response, Scaled, Scaling, Schedule, TaskIndex,
    TaskSet, TaskSpec, Unsupported, Verdict, WorstCase, check, edf_scaling, fixed_priority_scaling,
    fixed_priority_with, judge_phases, nonpreemptive_edf, quick_processor_demand_with, schedule,
    worst_response_edf_with, worst_response_nonpreemptive_edf, worst_response_with,
};
use memtint_units::Picoseconds;

use crate::ask::Question;
use crate::error::AnalysisError;
use crate::output::Facts;
use crate::report::{Answer, Chart, Findings, Lane, Report, Row, Run, arrivals};
use crate::tasks::TaskSystem;
use crate::words::{CRITICAL, reason, refusal, span, time};

pub(crate) fn rate_monotonic(question: &Question<'_>) -> Report {
    fixed(question, Priorities::rate_monotonic(&question.file.set))
}

pub(crate) fn deadline_monotonic(question: &Question<'_>) -> Report {
    fixed(question, Priorities::deadline_monotonic(&question.file.set))
}

pub(crate) fn given(question: &Question<'_>) -> Result<Report, AnalysisError> {
    let all: Vec<TaskIndex> = question.file.set.indices().collect();
    let order = question.file.priorities(&all, &question.file.set);
    Ok(fixed(question, order?))
}

fn fixed(question: &Question<'_>, order: Priorities) -> Report {
    let (set, terms, effort) = (&question.file.set, &question.file.terms[..], question.limits.effort);
    let preemption = if question.nonpreemptive { Preemption::None } else { Preemption::Full };
    let worst = |task| worst_response_with(set, &order, preemption, task, terms, effort);
    let mut rows = rows(set, worst);
    for (rank, &task) in order.order().iter().enumerate() {
        rows[task.index()].priority = Some(rank + 1);
    }
    let plain = terms.is_empty() && !question.nonpreemptive;
    let scaling = |scaled| fixed_priority_scaling(set, &order, scaled, effort);
    let findings = if plain { scalings(set, &mut rows, scaling) } else { Findings::default() };
    let theorem = match preemption {
        Preemption::Full => {
            "preemptive response times: Joseph and Pandya 1986; every job of the busy window, Lehoczky 1990; jitter and \
             blocking, Tindell, Burns and Wellings 1994"
        }
        Preemption::None => {
            "response times without preemption: George, Rivierre and Spuri 1996, as corrected by Davis, Burns, Bril and \
             Lukkien 2007"
        }
    };
    let verdict = fixed_priority_with(set, &order, preemption, terms, effort).map(|_| ());
    Parts { theorem, rows, findings, policy: Policy::FixedPriority(order, preemption) }.outcome(question, verdict)
}

pub(crate) fn edf(question: &Question<'_>) -> Report {
    if question.nonpreemptive {
        return uninterrupted_edf(question);
    }
    let (set, terms, effort) = (&question.file.set, &question.file.terms[..], question.limits.effort);
    let mut rows = rows(set, |task| worst_response_edf_with(set, task, terms, effort));
    let scaling = |scaled| edf_scaling(set, scaled, effort);
    let findings = if terms.is_empty() { scalings(set, &mut rows, scaling) } else { Findings::default() };
    let verdict = quick_processor_demand_with(set, terms, effort).map(|_| ());
    let theorem = "processor demand: Baruah, Rosier and Howell 1990, Spuri 1996, by QPA, Zhang and Burns 2009; response times: \
                   Spuri 1996";
    Parts { theorem, rows, findings, policy: Policy::Edf }.outcome(question, verdict)
}

fn uninterrupted_edf(question: &Question<'_>) -> Report {
    let (set, effort) = (&question.file.set, question.limits.effort);
    let plain = question.file.terms.is_empty();
    let beside = || Unsupported::Platform { needs: "no refresh, banks or regulator, for EDF without preemption" };
    let verdict = match plain {
        true => nonpreemptive_edf(set, effort).map(|_| ()),
        false => Verdict::Unsupported(beside()),
    };
    let rows = rows(set, |task| match plain {
        true => worst_response_nonpreemptive_edf(set, task, effort),
        false => Err(beside()),
    });
    let theorem = "demand with a job that has begun: Jeffay, Stanat and Martel 1991; any deadlines, and \
                   response times, George, Rivierre and Spuri 1996";
    Parts { theorem, rows, findings: Findings::default(), policy: Policy::NonPreemptiveEdf }.outcome(question, verdict)
}

fn rows(set: &TaskSet, worst: impl Fn(TaskIndex) -> Result<WorstCase, Unsupported>) -> Vec<Row> {
    let row = |task| match worst(task) {
        Ok(WorstCase::Bounded(response)) => Row { worst: Some(response), ..Row::default() },
        Ok(WorstCase::Unbounded(found)) => {
            let sentence = format!("utilization is {found}, above 1: response times are unbounded");
            Row { unbounded: Some(sentence), ..Row::default() }
        }
        Err(found) => Row { unbounded: Some(reason(set, &found)), ..Row::default() },
    };
    set.indices().map(row).collect()
}

/// How much each WCET may grow, and all together.
fn scalings(
    set: &TaskSet,
    rows: &mut [Row],
    scaling: impl Fn(Scaled) -> Result<Option<Scaling>, Unsupported>,
) -> Findings<Facts> {
    for (task, row) in rows.iter_mut().enumerate() {
        row.scaling = scaling(Scaled::One(TaskIndex(task))).ok().flatten().map(|found| found.factor.to_string());
    }
    let mut findings = Findings::default();
    let Ok(Some(all)) = scaling(Scaled::All) else { return findings };
    let limit = match all.limit {
        Limit::Utilization => "then the whole processor is in use".to_owned(),
        Limit::Window { task, job, window } => {
            format!("then task {:?}, job {job}, fills a window of {}", set[task].name(), time(window))
        }
    };
    let text = format!("{}; {limit}", all.factor);
    findings.line("wcet factor max of all", text).wcet_factor_max_of_all = Some(all.factor.to_string());
    findings
}

/// Differences between the schedulers of this module.
struct Parts {
    theorem: &'static str,
    rows: Vec<Row>,
    findings: Findings<Facts>,
    policy: Policy,
}

impl Parts {
    fn outcome(self, question: &Question<'_>, verdict: Verdict<()>) -> Report {
        let (set, terms) = (&question.file.set, &question.file.terms[..]);
        let usable = !set.synchronous() && terms.is_empty() && self.policy.preemption() == Preemption::Full;
        let verdict = match verdict {
            Verdict::Unsupported(why) if usable => match judge_phases(set, &self.policy, question.limits.events_max) {
                Verdict::Unsupported(also) => {
                    let (why, also) = (reason(set, &why), reason(set, &also));
                    return self.whatever_phases(
                        question,
                        Answer::Unsupported(format!("{why}; for just these phases, {also}")),
                    );
                }
                verdict => return self.with_phases(question, verdict),
            },
            verdict => verdict,
        };
        let answer = match verdict {
            Verdict::Schedulable(()) => Answer::Yes,
            Verdict::Unschedulable(late) => refusal(set, &late, CRITICAL),
            Verdict::Unsupported(found) => Answer::Unsupported(reason(set, &found)),
        };
        self.whatever_phases(question, answer)
    }

    /// An answer from the one schedule that happens with the phases given.
    fn with_phases(mut self, question: &Question<'_>, verdict: Verdict<Schedule>) -> Report {
        let set = &question.file.set;
        let window = last_phase(set) + set.hyperperiod() * 2u8;
        self.theorem = match self.policy {
            Policy::FixedPriority(..) => {
                "the one schedule of these phases, which repeats: Leung and Merrill 1980, for fixed priorities Leung and \
                 Whitehead 1982"
            }
            _ => "the one schedule of these phases, which repeats: Leung and Merrill 1980",
        };
        // All other results assume the worst phases.
        self.findings = Findings::default();
        let text = format!("{}, the last phase and two hyperperiods from time 0", span(&window));
        self.findings.line("phases window", text).phases_window_ps = Some(window.to_string());
        let answer = match verdict {
            Verdict::Schedulable(schedule) => {
                for (task, row) in self.rows.iter_mut().enumerate() {
                    let worst = longest(set, &schedule, task);
                    *row = Row { worst, priority: row.priority, ..Row::default() };
                }
                Answer::Yes
            }
            Verdict::Unschedulable(late) => {
                let unknown = "with these phases a job is late, and those after it were not looked at";
                for row in &mut self.rows {
                    *row = Row { unbounded: Some(unknown.to_owned()), priority: row.priority, ..Row::default() };
                }
                refusal(set, &late, "its phase")
            }
            Verdict::Unsupported(found) => Answer::Unsupported(reason(set, &found)),
        };
        let mut outcome = self.whatever_phases(question, answer);
        outcome.assumptions.retain(|assumption| assumption != WORST_PHASES);
        outcome
            .assumptions
            .push("jobs arrive at the phase and then once each period, no later, and are released at once".to_owned());
        outcome
    }

    fn whatever_phases(self, question: &Question<'_>, mut answer: Answer) -> Report {
        let (set, terms) = (&question.file.set, &question.file.terms[..]);
        let witness = match &answer {
            Answer::Yes => witness(question, &self.policy, &self.rows),
            _ => Ok(Err("because the answer is not yes".to_owned())),
        };
        let witness = witness.unwrap_or_else(|contradiction| {
            answer = Answer::Unsupported(contradiction.clone());
            Err(contradiction)
        });
        let theorem =
            [self.theorem.to_owned()].into_iter().chain(terms.iter().map(named)).collect::<Vec<_>>().join("; ");
        Report {
            not_considered: Vec::new(),
            scheduler: question.scheduler,
            theorem,
            assumptions: assumptions(set, terms, question.file.guaranteed),
            answer,
            set: set.clone(),
            rows: self.rows,
            findings: self.findings,
            derived: None,
            sections: Vec::new(),
            witness,
        }
    }
}

fn named(term: &Interference) -> String {
    match term {
        Interference::Refresh(own) => format!(
            "refresh as a task of the highest priority, {} each {}: [Pan18, §4.3 and 5.3.8], corrected",
            time(own.stall()),
            time(own.period())
        ),
        Interference::Banks(_) => "interference in banks: Kim et al., RTAS 2014, private banks".to_owned(),
        Interference::SharedBanks(own) => format!(
            "interference in banks that cores share, after Kim et al., RTAS 2014: a request waits for {} at most",
            at_most(own.longest_wait())
        ),
        Interference::ParallelBanks(own) => format!(
            "several requests at once, after Yun et al., ECRTS 2015: a read waits for {} at most",
            at_most(own.longest_wait())
        ),
        Interference::Regulator(own) => {
            let underruns = if own.reclaims() { ", or an underrun in every second" } else { "" };
            format!("regulator: one stall for each {} lines and each period{underruns}, one carried in", own.lines())
        }
        other => format!("{other:?}"),
    }
}

fn at_most(wait: u128) -> String {
    u64::try_from(wait).map_or_else(|_| "213 days or more".to_owned(), |wait| time(Picoseconds(wait)))
}

const WORST_PHASES: &str = "periods are least distances of arrivals; phases are the worst ones";

fn last_phase(set: &TaskSet) -> u64 {
    set.tasks().iter().map(|task| task.phase().0).max().unwrap_or(0)
}

/// The longest response of a task in a schedule; a job that is not complete at its end has one just like it a hyperperiod before.
fn longest(set: &TaskSet, schedule: &Schedule, task: usize) -> Option<Response> {
    let own = &set.tasks()[task];
    let runs = || schedule.runs.iter().filter(|run| run.task == TaskIndex(task));
    let last = runs().next_back()?.job;
    let mut ends = vec![(0, 0); usize::try_from(last).ok()? + 1];
    for run in runs() {
        let (ran, end) = &mut ends[run.job as usize];
        *ran += run.end.0 - run.start.0;
        *end = run.end.0;
    }
    let complete = (0..).zip(&ends).filter(|(_, (ran, _))| *ran == own.wcet().0);
    let responses = complete.map(|(job, (_, end))| (job, end - own.phase().0 - job * own.period().0));
    let (jobs, worst) = responses.fold((0, None::<(u64, u64)>), |(jobs, worst), next| {
        (jobs + 1, if worst.is_none_or(|worst| next.1 > worst.1) { Some(next) } else { worst })
    });
    let (job, response) = worst?;
    let response = Picoseconds(response);
    Some(Response { task: TaskIndex(task), response, job, window: response, jobs })
}

fn assumptions(set: &TaskSet, terms: &[Interference], guaranteed: Option<u64>) -> Vec<String> {
    let mut all = vec![
        "one processor; switching between jobs takes no time beyond what the WCETs hold".to_owned(),
        "tasks are independent but for the blocking given, and never suspend themselves".to_owned(),
        WORST_PHASES.to_owned(),
    ];
    if set.tasks().iter().any(|task| task.blocking().0 > 0) {
        all.push("a no supposes that the blocking given can happen in full".to_owned());
    }
    for term in terms {
        all.push(match term {
            Interference::Refresh(_) => {
                "the core stands still during each refresh; WCETs were found without refresh and with rows closed at the start"
                    .to_owned()
            }
            Interference::Banks(_) | Interference::SharedBanks(_) | Interference::ParallelBanks(_) => {
                "WCETs exclude interference by other cores; the tasks of these meet their deadlines; banks and requests are as in the file"
                    .to_owned()
            }
            Interference::Regulator(own) => reservations(own, guaranteed),
            other => format!("{other:?}"),
        });
        if let Interference::Regulator(own) = term {
            all.push("the core has its budget for itself, and learns of each period when it begins".to_owned());
            all.extend(zeros("the regulator", own.zeros()));
            if own.shares_spare() {
                all.push("each end of best-effort sharing adds a skid, which no sum of reservations has".to_owned());
            }
        }
        let others = term.neighbours().into_iter().filter_map(|core| core.regulator.as_ref());
        all.extend(others.enumerate().filter_map(|(index, own)| {
            // The time of an interrupt on another core delays nothing here.
            let zero = own.zeros().into_iter().filter(|name| *name != "overhead").collect();
            zeros(&format!("regulator {index} of the other cores"), zero)
        }));
    }
    all
}

fn zeros(whose: &str, zeros: Vec<&str>) -> Option<String> {
    (!zeros.is_empty()).then(|| format!("{whose} has no {}: taken as 0", zeros.join(", ")))
}

fn reservations(own: &Regulator, guaranteed: Option<u64>) -> String {
    let period = time(own.period());
    match guaranteed {
        Some(lines) => format!(
            "the memory always serves {lines} lines in {period}, within which all reservations are (B + q + s of each core), and \
             no core without a budget uses it"
        ),
        None => format!(
            "all reservations together (B + q + s of each core) are within what the memory always serves in {period}: not \
             checked, since [regulator] has no guaranteed"
        ),
    }
}

/// A schedule that the checker has accepted, or why there is none; the outer error is a contradiction.
fn witness(question: &Question<'_>, policy: &Policy, rows: &[Row]) -> Result<Result<Chart, String>, String> {
    let file = question.file;
    let (shown, policy, remark) = match (&file.terms[..], policy) {
        ([], _) => {
            (file.set.clone(), policy.clone(), "each job on time, at once ready, for its whole WCET, never blocked")
        }
        ([Interference::Refresh(_)], Policy::FixedPriority(order, Preemption::Full)) => {
            match beside_refresh(file, order) {
                Some((set, policy)) => (set, policy, "each job on time, for its whole WCET; refresh is the last lane"),
                None => return Ok(Err("because refresh does not fit into a separate lane".to_owned())),
            }
        }
        _ => {
            return Ok(Err(
                "because a schedule cannot show these delays yet; the bounds stand by themselves".to_owned()
            ));
        }
    };
    let found = schedule(&shown, &policy, question.witness_jobs_max);
    let accepted = check(&shown, &found).map_err(|violation| {
        format!(
            "a defect of memtint: the analysis accepts the tasks, and the checker refuses their schedule: {violation}"
        )
    })?;
    for (seen, row) in accepted.responses.iter().zip(rows) {
        if let (Some(seen), Some(Response { response, .. })) = (seen, &row.worst)
            && seen > response
        {
            let (seen, bound) = (time(*seen), time(*response));
            return Err(format!(
                "a defect of memtint: a response of {seen} in the witness exceeds its bound of {bound}"
            ));
        }
    }
    let lane = |(index, task): (usize, &memtint_sched::Task)| {
        let runs = found.runs.iter().filter(|run| run.task == TaskIndex(index));
        let runs = runs.map(|run| Run { job: run.job, start: run.start, end: run.end, part: None });
        Lane { name: task.name().to_owned(), arrivals: arrivals(task), has_jobs: true, runs: runs.collect() }
    };
    Ok(Ok(Chart {
        lanes: shown.tasks().iter().enumerate().map(lane).collect(),
        bands: Vec::new(),
        window: found.window,
        coverage: found.coverage.clone(),
        jobs: accepted.jobs,
        idle: accepted.idle,
        remark: remark.to_owned(),
    }))
}

/// The set with refresh as its last task, of the highest priority.
fn beside_refresh(file: &TaskSystem, order: &Priorities) -> Option<(TaskSet, Policy)> {
    let refresh = file.refresh?;
    let mut name = "(refresh)".to_owned();
    while file.set.tasks().iter().any(|task| task.name() == name) {
        name = format!("({name})");
    }
    let specs = file.set.tasks().iter().map(memtint_sched::Task::spec);
    let set = TaskSet::new(specs.chain([TaskSpec::new(name, refresh.period(), refresh.stall())])).ok()?;
    let last = TaskIndex(set.tasks().len() - 1);
    let order = Priorities::given(&set, [last].into_iter().chain(order.order().iter().copied()).collect()).ok()?;
    Some((set, Policy::FixedPriority(order, Preemption::Full)))
}
