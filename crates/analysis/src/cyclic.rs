//! Cyclic executives: tables in place of a policy, with and without colors.

use memtint_hiding::BEYOND_STANDARD;
use memtint_hiding::cyclic::{
    Answer as Found, Checked, Class, ColorSet, Cut, Executive, FrameReport, Frames, Limits, Note, Problem,
    RefreshedMemory, Refused, Refutation, Sharing, Slicing, Solution, Unanswered, class, color, judge_frame,
    place_then_avoid,
};
use memtint_sched::{Coverage, Form, Interference, Response, TaskIndex, TaskSet, padded};
use memtint_units::Picoseconds;

use crate::ask::{Question, Scheduler};
use crate::error::AnalysisError;
use crate::output::{
    Facts, FrameCut, FrameRows, FramesOverload, JobName, Ns, Overload, PrintedFrame, RefutedChoice, TaskClass,
    TaskColors, TaskFacts, TriedFrame, WindowOverload,
};
use crate::report::{Answer, Band, Chart, Findings, Lane, Refusal, Report, Row, Run, Section, arrivals};
use crate::tasks::TaskSystem;
use crate::words::{reason, time};

/// Refuted choices of colors that are listed for programs.
const REFUTED_MAX: usize = 20;

/// Frames, and the result of the search for them.
#[derive(Debug)]
pub struct Tried {
    /// The frames.
    pub frames: Frames,
    /// The tasks with these frames.
    pub problem: Problem,
    /// The result of the search.
    pub found: Found,
}

/// Tries frames in their order, up to the first feasible ones, which are then the last here.
///
/// # Errors
///
/// The errors of `problem`.
pub fn try_frames(
    choices: &[Frames],
    problem: impl Fn(Frames) -> Result<Problem, AnalysisError>,
    limits: Limits,
) -> Result<Vec<Tried>, AnalysisError> {
    let mut all = Vec::new();
    for &frames in choices {
        let problem = problem(frames)?;
        let found = color(&problem, limits);
        let done = found.is_schedulable();
        all.push(Tried { frames, problem, found });
        if done {
            break;
        }
    }
    Ok(all)
}

/// How far the search of a file goes.
#[must_use]
pub fn search_limits(file: &TaskSystem, nodes_max: u64) -> Limits {
    let copies_max = file.cyclic.copies_max.unwrap_or(Limits::default().copies_max);
    Limits { nodes_max, copies_max }
}

/// A table of the hyperperiod, without colors; refresh, if there is any, as longer execution times.
pub(crate) fn textbook(question: &Question<'_>) -> Result<Report, AnalysisError> {
    let file = question.file;
    let theorem = "cyclic executive: Baker and Shaw 1989; a whole frame between each release and its deadline; jobs into frames by \
                   maximum flow, fewest slices by branch and bound";
    let mut part = Part::new(question.scheduler, theorem, file.set.clone());
    part.assumptions.push(ARRIVALS.to_owned());
    if let Some(foreign) = file.terms.iter().find(|term| !matches!(term, Interference::Refresh(_))) {
        return Ok(part.unsupported(format!("a table does not model {}", name_of(foreign))));
    }
    let choices = file.plain_choices()?;
    let mut file = file.clone();
    if let Some(refresh) = file.refresh {
        let longer = |wcet: Picoseconds| padded(wcet, &refresh, question.limits.effort);
        let specs = file.set.tasks().iter().map(|task| {
            let wcet = longer(task.wcet())?;
            Ok(memtint_sched::TaskSpec { wcet, ..task.spec() })
        });
        let specs = match specs.collect::<Result<Vec<_>, memtint_sched::Unsupported>>() {
            Ok(specs) => specs,
            Err(why) => return Ok(part.unsupported(reason(&file.set, &why))),
        };
        let again = match longer(Picoseconds(1)) {
            Ok(one) => one.saturating_sub(Picoseconds(1)),
            Err(why) => return Ok(part.unsupported(reason(&file.set, &why))),
        };
        part.wcets = Some(specs.iter().map(|spec| spec.wcet).collect());
        part.theorem += &format!(
            "; WCETs with the refreshes that can meet them, {} each {} ([Pan18, §4.3], corrected), and once more for each \
             slice after the first",
            time(refresh.stall()),
            time(refresh.period())
        );
        part.assumptions.push(
            "the core stands still during each refresh; WCETs were found without refresh and with rows closed at the start"
                .to_owned(),
        );
        file.set = TaskSet::new(specs)?;
        file.cyclic.slice_cost += again;
    }
    let problem = |frames: Frames| {
        (question.at)(format!("frames of {}", time(frames.size)));
        plain(&file, frames)
    };
    let tried = try_frames(&choices, problem, search_limits(&file, question.limits.nodes_max))?;
    Ok(part.outcome(&file, tried))
}

fn plain(file: &TaskSystem, frames: Frames) -> Result<Problem, AnalysisError> {
    let problem = Problem::textbook(file.set.clone(), frames.size);
    let problem = problem.and_then(|problem| problem.slice_cost(file.cyclic.slice_cost))?;
    Ok(problem.slicing(file.cyclic.slicing))
}

const ARRIVALS: &str = "jobs arrive at the phase and then once each period, no later, and are released within the jitter; the table has no other policy";

/// Chapter 4 of the dissertation.
pub(crate) fn colored_refresh(question: &Question<'_>) -> Result<Report, AnalysisError> {
    let file = question.file;
    let theorem = "Colored Refresh: [Pan18, chapter 4]; rules (2) to (4) corrected, with the burst in its frame; colors inside the \
                   maximum flow; fewest copies, then fewest slices, by branch and bound";
    let mut part = Part::new(question.scheduler, theorem, file.set.clone());
    if let Some(foreign) = file.terms.first() {
        return Ok(part
            .unsupported(format!("software refreshes this memory, and a table does not model {}", name_of(foreign))));
    }
    let memory = file.cyclic_memory()?;
    part.memory = Some(memory);
    part.assumptions.push(ARRIVALS.to_owned());
    part.assumptions.push(format!("memory may be refreshed beyond the standard: {BEYOND_STANDARD}"));
    part.assumptions.push(
        "refresh commands go to the ranks of one color only, at the times of the table, and those ranks hold data of no other \
         task than their owners'; the operating system's own data is in none of them"
            .to_owned(),
    );
    match file.cyclic.sharing {
        Sharing::Private => part.assumptions.push("no two instances have a rank in common".to_owned()),
        Sharing::Shared => part.assumptions.push("instances share ranks, and all their data fits there".to_owned()),
    }
    let costs = format!("each slice after the first costs {}", time(file.cyclic.slice_cost));
    part.assumptions.push(match file.cyclic.slicing {
        Slicing::Free => format!("jobs may be cut anywhere; {costs}"),
        Slicing::WholeFrames => format!("all slices of a job but the last fill a frame (4.3.3); {costs}"),
    });
    if question.form == Form::AsPrinted {
        return as_printed(part, file, memory);
    }
    let choices = file.frame_choices()?;
    if choices.is_empty() {
        return Ok(part.no_frame(file, memory));
    }
    let problem = |frames: Frames| {
        (question.at)(format!("frames of {} colored by {}", time(frames.size), time(frames.color)));
        Ok(file.problem(frames)?)
    };
    let tried = try_frames(&choices, problem, search_limits(file, question.limits.nodes_max))?;
    Ok(part.outcome(file, tried))
}

fn name_of(term: &Interference) -> &'static str {
    match term {
        Interference::Refresh(_) => "[refresh] by the memory controller",
        Interference::Regulator(_) => "[regulator]",
        _ => "[banks], [shared_banks] or [parallel_banks]",
    }
}

/// Rules (1) to (5) and the order of 4.3.2, literally: for comparison, with no verdict.
fn as_printed(mut part: Part, file: &TaskSystem, memory: RefreshedMemory) -> Result<Report, AnalysisError> {
    let choices = match file.cyclic.frame {
        Some(_) => file.frame_choices()?,
        None => {
            let whole = |j: &u32| memory.ranks().is_multiple_of(*j);
            let stretch = |j: u32| Frames::plain(Picoseconds(memory.grain().0 * u64::from(j)));
            (1..=memory.ranks()).filter(whole).map(stretch).collect()
        }
    };
    part.theorem = "Colored Refresh: [Pan18, chapter 4], rules (1) to (5) as printed, and colors chosen after jobs are placed (4.3.2)"
        .to_owned();
    let (mut rows, mut printed_rows, mut kept) = (Vec::new(), Vec::new(), 0);
    for frames in choices {
        let printed = judge_frame(&file.set, &memory, frames, Form::AsPrinted);
        kept += u32::from(printed.accepted());
        let refused = refusals(&file.set, &printed);
        // Frames that the rules refuse by mistake can still have a placement.
        let placed = file.problem(frames).ok().and_then(|problem| place_then_avoid(&problem).ok());
        let colors = match &placed {
            None => "-".to_owned(),
            Some(Err(cut)) => format!("jobs do not fit: {}", cut_sentence(&file.set, cut, frames.size)),
            Some(Ok(found)) => {
                let name = |&task: &TaskIndex| file.set[task].name();
                let copied: Vec<&str> = found.copied().iter().map(name).collect();
                let each = file.set.tasks().iter().zip(&found.chosen);
                let own = each.filter_map(|(task, chosen)| Some(format!("{} {}", task.name(), (*chosen)?)));
                let copied =
                    if copied.is_empty() { String::new() } else { format!("; copies of {}", copied.join(", ")) };
                format!("{}{copied}", own.collect::<Vec<_>>().join(", "))
            }
        };
        rows.push(vec![
            time(frames.size),
            if refused.is_empty() { "accepted".to_owned() } else { refused.join("; ") },
            colors.clone(),
        ]);
        printed_rows.push(PrintedFrame { frame_ps: frames.size.0, accepted: printed.accepted(), refused, colors });
    }
    part.sections.push(Section {
        heads: vec!["frame", "rules as printed", "colors that are left, from 0"],
        right: vec![0],
        rows,
    });
    part.findings.facts.frames = Some(FrameRows::Printed(printed_rows));
    let reason = match kept {
        0 => "as printed, the rules refuse each of these frames; the corrected form decides",
        _ => "as printed, there are frames; the corrected form decides whether jobs meet their deadlines",
    };
    Ok(part.unsupported(reason.to_owned()))
}

/// The refusals of the rules, each once with all of its tasks.
fn refusals(set: &TaskSet, report: &FrameReport) -> Vec<String> {
    let mut all: Vec<(String, Vec<&str>)> = Vec::new();
    for refused in &report.refused {
        let (rule, task) = match refused {
            Refused::Alternation { task, .. } => ("(1), longer than half a period: ".to_owned(), Some(*task)),
            Refused::Retention { remainder } => {
                (format!("(2): {} of the retention time are left over", time(*remainder)), None)
            }
            Refused::WholeFrame { task, .. } => ("(3), not always a whole frame: ".to_owned(), Some(*task)),
            Refused::Grain { grain } => (format!("(4), with R / K = {}", time(*grain)), None),
            Refused::Unsliced { task, .. } => ("(5), shorter than a job: ".to_owned(), Some(*task)),
            Refused::Burst { burst } => (format!("a burst of {} does not fit", time(*burst)), None),
            other => (format!("{other:?}"), None),
        };
        let names = task.map(|task| set[task].name());
        match all.iter_mut().find(|(other, _)| *other == rule) {
            Some((_, tasks)) => tasks.extend(names),
            None => all.push((rule, names.into_iter().collect())),
        }
    }
    all.into_iter().map(|(rule, tasks)| format!("{rule}{}", tasks.join(", "))).collect()
}

fn job_names(set: &TaskSet, cut: &Cut) -> String {
    let one = |task: TaskIndex| {
        let jobs: Vec<String> = cut.jobs.iter().filter(|id| id.task == task).map(|id| id.job.to_string()).collect();
        (!jobs.is_empty()).then(|| format!("{} {}", set[task].name(), jobs.join(",")))
    };
    set.indices().filter_map(one).collect::<Vec<_>>().join("; ")
}

fn cut_sentence(set: &TaskSet, cut: &Cut, frame: Picoseconds) -> String {
    let (demand, supply) = (time(cut.demand), time(cut.supply));
    format!(
        "jobs (from 0) {} need {demand}, and may run in {} frames of {} only, which have {supply}",
        job_names(set, cut),
        cut.frames.len(),
        time(frame)
    )
}

fn frame_cut(set: &TaskSet, cut: &Cut, frame: Picoseconds) -> FrameCut {
    let name = |task: TaskIndex| set[task].name().to_owned();
    FrameCut {
        task: cut.jobs.first().map(|id| name(id.task)),
        job: cut.jobs.first().map(|id| id.job.to_string()),
        jobs: cut.jobs.iter().map(|id| JobName { task: name(id.task), job: id.job }).collect(),
        frames: cut.frames.clone(),
        frame_ps: frame.0,
        window_ps: (u128::from(frame.0) * cut.frames.len() as u128).to_string(),
        demand_ps: cut.demand.0.to_string(),
        supply_ps: cut.supply.0.to_string(),
        because: "these jobs may run in these frames only",
    }
}

/// The results that do not depend on frames.
struct Part {
    scheduler: Scheduler,
    theorem: String,
    assumptions: Vec<String>,
    set: TaskSet,
    memory: Option<RefreshedMemory>,
    /// WCETs with refresh in them.
    wcets: Option<Vec<Picoseconds>>,
    findings: Findings<Facts>,
    sections: Vec<Section>,
}

impl Part {
    fn new(scheduler: Scheduler, theorem: &str, set: TaskSet) -> Part {
        let assumptions = vec![
            "one processor; switching between jobs takes no time beyond what the WCETs and slices hold".to_owned(),
            "tasks are independent, and never suspend themselves".to_owned(),
        ];
        Part {
            scheduler,
            theorem: theorem.to_owned(),
            assumptions,
            set,
            memory: None,
            wcets: None,
            findings: Findings::default(),
            sections: Vec::new(),
        }
    }

    fn unsupported(self, why: String) -> Report {
        self.finish(Answer::Unsupported(why), Vec::new(), Err("because the answer is not yes".to_owned()))
    }

    fn finish(self, answer: Answer, rows: Vec<Row>, witness: Result<Chart, String>) -> Report {
        let rows = if rows.is_empty() { self.set.tasks().iter().map(|_| Row::default()).collect() } else { rows };
        Report {
            not_considered: Vec::new(),
            scheduler: self.scheduler,
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

    /// Each colored frame that there can be is refused.
    fn no_frame(self, file: &TaskSystem, memory: RefreshedMemory) -> Report {
        let whole = |j: &u32| memory.ranks().is_multiple_of(*j);
        let stretches = (1..memory.ranks()).filter(whole).map(|j| Picoseconds(memory.grain().0 * u64::from(j)));
        let mut bursts = true;
        let mut reasons = Vec::new();
        for stretch in stretches {
            let report = judge_frame(&self.set, &memory, Frames::plain(stretch), Form::Corrected);
            bursts &= report.refused.iter().any(|refused| matches!(refused, Refused::Burst { .. }));
            reasons.push(format!("{}: {}", time(stretch), refusals(&self.set, &report).join(", ")));
        }
        let sentence = format!("no colored frame will do: {}", reasons.join("; "));
        if !bursts || file.cyclic.color_frame.is_some() || memory.ranks() < 2 {
            return self.unsupported(sentence);
        }
        let burst = memory.burst(1);
        let overload = WindowOverload {
            task: None,
            job: None,
            window_ps: memory.grain().0.to_string(),
            demand_ps: burst.0.to_string(),
            because: "the refresh of a rank does not fit the time that it has".to_owned(),
        };
        let answer = Answer::No(Box::new(Refusal { sentence, overload: Overload::Window(overload) }));
        self.finish(answer, Vec::new(), Err("because the answer is not yes".to_owned()))
    }

    fn outcome(mut self, file: &TaskSystem, mut tried: Vec<Tried>) -> Report {
        let (section, frames) = self.frames_tried(&tried);
        self.sections.push(section);
        self.findings.facts.frames = Some(FrameRows::Tried(frames));
        let none = Err("because the answer is not yes".to_owned());
        let Some(last) = tried.pop() else {
            return self.unsupported("no frame has been found that leaves each job a whole one".to_owned());
        };
        let Found::Schedulable(solution) = &last.found else {
            tried.push(last);
            let open = tried.iter().find_map(|one| match &one.found {
                Found::Unsupported(why) => Some((one.frames, why)),
                _ => None,
            });
            if let Some((frames, why)) = open {
                let why = format!("with frames of {}, {}", time(frames.size), unanswered(&self.set, why));
                return self.unsupported(why);
            }
            let answer = match (self.no(&tried), &self.wcets) {
                // Not all jobs need meet as many refreshes as one that runs alone can.
                (Answer::No(refusal), Some(_)) => Answer::Unsupported(format!(
                    "with bounds of interference that may never be reached, {}",
                    refusal.sentence
                )),
                (answer, _) => answer,
            };
            return self.finish(answer, Vec::new(), none);
        };
        self.describe(file, &last, solution);
        let (rows, chart) = (self.rows(file, &last.problem, solution), self.chart(&last.problem, solution));
        self.finish(Answer::Yes, rows, Ok(chart))
    }

    /// All frames are refuted: the answer for the first, which is the longest.
    fn no(&self, tried: &[Tried]) -> Answer {
        let first = &tried[0];
        let Found::Unschedulable(refutation) = &first.found else {
            unreachable!("a yes ends the search, and open frames were handled before")
        };
        let size = first.frames.size;
        let shown = |cut: &Cut| (cut_sentence(&self.set, cut, size), frame_cut(&self.set, cut, size));
        let mut overload =
            FramesOverload { cut: None, refuted: None, refuted_choices: None, frames_refuted: tried.len() };
        let why = match refutation {
            Refutation::Demand(cut) => {
                let (sentence, cut) = shown(cut);
                overload.cut = Some(cut);
                sentence
            }
            Refutation::Colors(refuted) | Refutation::Slices(refuted) => {
                let how = match refutation {
                    Refutation::Colors(_) => "no colors and copies leave each job the frames that it needs",
                    _ => {
                        "with slices as the file wants them, jobs do not fit, though they would with free ones; all were tried"
                    }
                };
                let (example, cut) = refuted.first().map(|one| shown(&one.cut)).unzip();
                let choices = refuted.iter().take(REFUTED_MAX).map(|one| RefutedChoice {
                    colors: one.colors.iter().map(|(task, colors)| self.task_colors(*task, colors)).collect(),
                    cut: frame_cut(&self.set, &one.cut, size),
                });
                overload.cut = cut;
                overload.refuted = Some(choices.collect());
                overload.refuted_choices = Some(refuted.len());
                let example = example.map_or(String::new(), |example| {
                    format!("; with the first of {} choices, {example}", refuted.len())
                });
                format!("{how}{example}")
            }
        };
        let sentence = match tried.len() {
            1 => format!("with frames of {}, {why}", time(size)),
            count => format!("with each of {count} frames some jobs do not fit; with {}, {why}", time(size)),
        };
        Answer::No(Box::new(Refusal { sentence, overload: Overload::Frames(Box::new(overload)) }))
    }

    fn task_colors(&self, task: usize, instances: &[ColorSet]) -> TaskColors {
        let colors = instances.iter().map(|own| own.colors()).collect();
        TaskColors { task: self.set.tasks()[task].name().to_owned(), colors }
    }

    fn frames_tried(&self, tried: &[Tried]) -> (Section, Vec<TriedFrame>) {
        let colored = self.memory.is_some();
        let said = |one: &Tried| match &one.found {
            Found::Schedulable(_) => "will do".to_owned(),
            Found::Unschedulable(Refutation::Demand(cut)) => cut_sentence(&self.set, cut, one.frames.size),
            Found::Unschedulable(Refutation::Colors(all)) => format!("no colors: {} choices refuted", all.len()),
            Found::Unschedulable(Refutation::Slices(_)) => "no slices of the kind wanted".to_owned(),
            Found::Unsupported(why) => unanswered(&self.set, why),
        };
        let cells = |one: &Tried| {
            let mut cells = vec![time(one.frames.size)];
            if colored {
                cells.extend([time(one.frames.color), one.problem.colors().to_string()]);
            }
            cells.push(said(one));
            cells
        };
        let row = |one: &Tried| TriedFrame {
            frame_ps: one.frames.size.0,
            color_frame_ps: colored.then_some(one.frames.color.0),
            colors: colored.then(|| one.problem.colors()),
            schedulable: match &one.found {
                Found::Schedulable(_) => Some(true),
                Found::Unschedulable(_) => Some(false),
                Found::Unsupported(_) => None,
            },
            said: said(one),
        };
        let heads =
            if colored { vec!["frame", "colored", "colors", "frames tried"] } else { vec!["frame", "frames tried"] };
        let right = (0..heads.len() - 1).collect();
        (Section { heads, right, rows: tried.iter().map(cells).collect() }, tried.iter().map(row).collect())
    }

    fn rows(&self, file: &TaskSystem, problem: &Problem, solution: &Solution) -> Vec<Row> {
        let executive = &solution.executive;
        let row = |task: usize| {
            let (job, response) = latest(problem, executive, task);
            let jobs = executive.cycle.0 / self.set.tasks()[task].period().0;
            let worst = Some(Response { task: TaskIndex(task), response, job, window: response, jobs });
            let slots = || executive.slots.iter().filter(|slot| slot.id.task == TaskIndex(task));
            let slices = slots().map(|slot| slot.slice + 1).max().unwrap_or(0);
            let mut findings = Findings::<TaskFacts>::default();
            if let Some(wcets) = &self.wcets {
                findings.line("padded wcet", time(wcets[task])).padded_wcet_ns = Some(Ns(wcets[task]));
            }
            findings.line("slices most", slices.to_string()).slices_most = Some(slices);
            if let Some(memory) = &self.memory {
                self.colors(file, problem, executive, *memory, task, &mut findings);
            }
            Row { worst, findings, ..Row::default() }
        };
        (0..self.set.tasks().len()).map(row).collect()
    }

    fn colors(
        &self,
        file: &TaskSystem,
        problem: &Problem,
        executive: &Executive,
        memory: RefreshedMemory,
        task: usize,
        findings: &mut Findings<TaskFacts>,
    ) {
        let own = &executive.instances[task];
        let each = problem.ranks_per_color();
        let texts: Vec<String> = own.iter().map(|one| one.colors.to_string()).collect();
        let ranks: Vec<Vec<u32>> = own
            .iter()
            .map(|one| one.colors.colors().iter().flat_map(|color| color * each..(color + 1) * each).collect())
            .collect();
        let colors: Vec<Vec<u32>> = own.iter().map(|one| one.colors.colors()).collect();
        let kind = classes(class(&self.set.tasks()[task], &memory, file.tasks[task].ranks));
        let kinds: Vec<&str> = kind.iter().map(|class| class.name()).collect();
        let kinds = if kinds.is_empty() { "-".to_owned() } else { kinds.join(", ") };
        let copy = file.tasks[task].copy;
        let cost = if own.len() > 1 { time(copy) } else { "-".to_owned() };
        let rank_texts: Vec<String> = ranks.iter().map(|own| list(own)).collect();
        findings.line("colors", texts.join(" and ")).colors = Some(colors);
        findings.line("ranks", rank_texts.join(" and ")).ranks = Some(ranks);
        findings.line("copy", cost).copy_ns = Some(Ns(copy));
        findings.line("class", kinds).class = Some(kind);
    }

    /// Adds the properties of the table that was found.
    fn describe(&mut self, file: &TaskSystem, last: &Tried, solution: &Solution) {
        let (problem, executive, found) = (&last.problem, &solution.executive, &mut self.findings);
        let proved = |found: u64, least: u64| match found == least {
            true => format!("{found}, proved to be the fewest"),
            false => format!("{found}; at least {least} are needed"),
        };
        let in_a_cycle = |span: Picoseconds| format!("{} in a cycle", time(span));
        let (frames, slices) = (last.frames, executive.extra_slices());
        found.line("frame", time(frames.size)).frame_ps = Some(frames.size.0);
        found.line("cycle", time(executive.cycle)).cycle_ps = Some(executive.cycle.0);
        found.line("slices extra", proved(slices, solution.extra_slices_least)).slices_extra = Some(slices);
        found.facts.slices_extra_least = Some(solution.extra_slices_least);
        found.line("nodes", solution.nodes.to_string()).nodes = Some(solution.nodes);
        let Some(memory) = &self.memory else { return };
        let burst = memory.burst(problem.ranks_per_color());
        let ends = format!("{}, {} before its frame ends", time(burst), time(frames.color - burst));
        let copies = executive.copies();
        let Checked { switches, refresh_gap, .. } = solution.checked;
        let extra = Picoseconds(slices * file.cyclic.slice_cost.0);
        let refreshed = Picoseconds(executive.refreshes.iter().map(|one| one.end.0 - one.start.0).sum());
        let unhidden = "0 ps: no task runs, or waits to run, in ranks that are refreshed";
        let gap = format!("{}, of {} allowed", time(refresh_gap), time(memory.retention()));
        found.line("color frame", time(frames.color)).color_frame_ps = Some(frames.color.0);
        found.line("color count", problem.colors().to_string()).color_count = Some(problem.colors());
        found.line("burst", ends).burst_ps = Some(burst.0);
        found.line("copies", proved(copies.into(), solution.copies_least.into())).copies = Some(copies);
        found.facts.copies_least = Some(solution.copies_least);
        found.line("instance switches", format!("{switches} in a cycle")).instance_switches = Some(switches);
        found.line("slice cost of a cycle", time(extra)).slice_cost_of_a_cycle_ps = Some(extra.0);
        found.line("hidden refresh", in_a_cycle(refreshed)).hidden_refresh_ps = Some(refreshed.0);
        found.line("unhidden refresh", unhidden).unhidden_refresh_ps = Some(0);
        found.line("longest refresh gap", gap).longest_refresh_gap_ps = Some(refresh_gap.0);
        let report = judge_frame(&self.set, memory, frames, Form::Corrected);
        let notes: Vec<String> = report.notes.iter().map(|note| sentence(&self.set, note)).collect();
        if !notes.is_empty() {
            let text = notes.join("; ");
            found.line("notes", text).notes = Some(notes);
        }
    }

    fn chart(&self, problem: &Problem, solution: &Solution) -> Chart {
        let executive = &solution.executive;
        let lane = |(index, task): (usize, &memtint_sched::Task)| {
            let slots = executive.slots.iter().filter(|slot| slot.id.task == TaskIndex(index));
            let run = |slot: &memtint_hiding::cyclic::Slot| Run {
                job: slot.id.job,
                start: slot.start,
                end: slot.end,
                part: Some((slot.slice, slot.instance)),
            };
            Lane {
                name: task.name().to_owned(),
                arrivals: arrivals(task),
                has_jobs: true,
                runs: slots.map(run).collect(),
            }
        };
        let band = |color: u32| {
            let own: Vec<_> = executive.refreshes.iter().filter(|one| one.color == color).collect();
            let ranks: Vec<u32> = own.first().map_or(Vec::new(), |one| one.ranks.clone().collect());
            let spans = own.iter().map(|one| (one.start, one.end)).collect();
            Band { name: format!("color {color}, rank {}", list(&ranks)), ranks, spans }
        };
        let bands = if self.memory.is_some() { (0..problem.colors()).map(band).collect() } else { Vec::new() };
        Chart {
            lanes: self.set.tasks().iter().enumerate().map(lane).collect(),
            bands,
            window: executive.cycle,
            coverage: Coverage::Hyperperiod,
            jobs: solution.checked.jobs,
            idle: solution.checked.idle,
            remark: "the table itself, one cycle; each job for its whole WCET".to_owned(),
        }
    }
}

fn classes(of: Class) -> Vec<TaskClass> {
    let all = [(of.huge, TaskClass::Huge), (of.long, TaskClass::Long), (of.short, TaskClass::Short)];
    all.into_iter().filter(|(is, _)| *is).map(|(_, class)| class).collect()
}

/// Ranks as a list of ranges.
pub(crate) fn list(ranks: &[u32]) -> String {
    let limit = ranks.iter().max().map_or(0, |most| most + 1);
    let set = memtint_units::IndexSet::from_indices(ranks.iter().copied(), limit);
    set.map_or_else(|_| format!("{ranks:?}"), |set| set.to_string())
}

/// The job that completes latest after its arrival, and how long after.
fn latest(problem: &Problem, executive: &Executive, task: usize) -> (u64, Picoseconds) {
    let (own, cycle) = (&problem.set().tasks()[task], executive.cycle.0);
    let of = |slot: &memtint_hiding::cyclic::Slot| {
        let arrival = own.phase().0 + slot.id.job * own.period().0;
        // Slots name a time of each cycle; the first at or after the arrival is meant.
        let wait = (slot.start.0 % cycle + cycle - arrival % cycle) % cycle;
        (slot.id.job, Picoseconds(wait + (slot.end.0 - slot.start.0)))
    };
    let slots = executive.slots.iter().filter(|slot| slot.id.task == TaskIndex(task)).map(of);
    slots.max_by_key(|&(job, response)| (response, std::cmp::Reverse(job))).unwrap_or_default()
}

/// A sentence for no answer.
#[must_use]
pub fn unanswered(set: &TaskSet, why: &Unanswered) -> String {
    let name = |&task: &TaskIndex| set[task].name();
    match why {
        Unanswered::Precondition { task, needs } => format!("task {:?}: the method needs {needs}", name(task)),
        Unanswered::Nodes { nodes_max } => format!("the search ended at its limit of {nodes_max} nodes; see --steps"),
        Unanswered::NoMoment { id } => {
            let (name, job) = (name(&id.task), id.job);
            format!(
                "job {job} of task {name:?} has no moment to copy its data while neither instance is refreshed, in the table found"
            )
        }
        Unanswered::Copies { copies_max } => format!("more than {copies_max} copy tasks would be needed"),
        Unanswered::Choices { task, most } => format!("task {:?}: more than {most} ways to give it colors", name(task)),
        Unanswered::Contradiction(fault) => {
            format!("a defect of memtint: the checker refuses the table that was found: {fault}")
        }
        other => format!("{other:?}"),
    }
}

/// A sentence for the note of a rule.
fn sentence(set: &TaskSet, note: &Note) -> String {
    let name = |&task: &TaskIndex| set[task].name();
    match note {
        Note::Copies { task } => {
            format!("rule (1): two instances of {} could not be sure to alternate", name(task))
        }
        Note::Slices { task, least } => {
            format!("rule (5): each job of {} needs {least} slices or more", name(task))
        }
        Note::Capacity { task } => format!("frames lie partly outside of windows of {}", name(task)),
        other => format!("{other:?}"),
    }
}
