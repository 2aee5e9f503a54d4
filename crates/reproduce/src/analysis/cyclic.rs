//! Chapter 4: frames, colors, cyclic executives.

use super::{OfTasks, count, ms, ms_text, yes};
use crate::answer::{Found, Results};
use crate::error::ReproduceError;
use crate::figure::Is;
use memtint_hiding::cyclic::{
    Answer, ColorSet, Executive, FrameReport, Frames, Limits, Note, Placement, Problem, Refused, Unanswered,
    available_colors, check_executive, color, fewest_slices, frame_candidates, judge_frame, place, place_given,
    place_then_avoid,
};
use memtint_sched::{AnalysisLimits, Form, Refresh, TaskIndex, padded};
use memtint_units::Picoseconds;
use num_bigint::BigUint;
use num_integer::Integer as _;
use num_rational::Ratio;

impl OfTasks {
    pub(super) fn task_set(&self, found: &mut Results) -> Result<(), ReproduceError> {
        let set = &self.file.set;
        found.insert("utilization".to_owned(), Found::Number(set.utilization()));
        found.insert("hyperperiod ms".to_owned(), super::ms_of(&Ratio::from_integer(set.hyperperiod())));
        if self.file.memory.is_none() {
            return Ok(());
        }
        let memory = self.file.cyclic_memory()?;
        let cycle = set.hyperperiod().lcm(&BigUint::from(memory.retention().0));
        if !self.with.costs.is_empty() {
            let costs = self.with.costs.iter().map(|(count, time)| BigUint::from(*count) * time.0);
            let percent = Ratio::new(costs.sum::<BigUint>() * 100u8, cycle.clone());
            found.insert("overhead percent".to_owned(), Found::Number(percent));
        }
        found.insert("cycle ms".to_owned(), super::ms_of(&Ratio::from_integer(cycle)));
        found.insert("ranks".to_owned(), count(memory.ranks()));
        found.insert("rank turn ms".to_owned(), ms(memory.grain()));
        found.insert("burst ms".to_owned(), ms(memory.burst(1)));
        if let Some(t_refi) = self.with.t_refi {
            let refresh = Refresh::auto(t_refi, memory.t_rfc(), Picoseconds(0)).map_err(|error| self.refused(error))?;
            let one = |task: &memtint_sched::Task| {
                let wcet = padded(task.wcet(), &refresh, AnalysisLimits::default().effort).ok()?;
                Some(Ratio::new(BigUint::from(wcet.0), BigUint::from(task.period().0)))
            };
            if let Some(each) = set.tasks().iter().map(one).collect::<Option<Vec<_>>>() {
                let sum = each.into_iter().fold(Ratio::from_integer(0u8.into()), |sum, own| sum + own);
                found.insert("padded utilization".to_owned(), Found::Number(sum));
            }
        }
        Ok(())
    }

    /// The frame that the set names, or the retention time by ranks.
    fn given_frames(&self) -> Result<Frames, ReproduceError> {
        let turn = self.file.cyclic_memory()?.grain();
        let size = self.file.cyclic.frame.unwrap_or(turn);
        Ok(Frames { size, color: self.file.cyclic.color_frame.unwrap_or(size) })
    }

    fn problem(&self) -> Result<Problem, ReproduceError> {
        Ok(self.file.problem(self.given_frames()?)?)
    }

    pub(super) fn frame_rules(&self, found: &mut Results) -> Result<(), ReproduceError> {
        let report = judge_frame(&self.file.set, &self.file.cyclic_memory()?, self.given_frames()?, self.form);
        for (name, holds) in rules(&report, self.form) {
            found.insert(name, yes(holds));
        }
        let frame = report.frames.size;
        let long = self.file.set.tasks().iter().filter(|task| task.wcet() > frame);
        found.insert("longer than a frame".to_owned(), Found::List(long.map(|task| task.name().to_owned()).collect()));
        Ok(())
    }

    pub(super) fn frames(&self, found: &mut Results) -> Result<(), ReproduceError> {
        let memory = self.file.cyclic_memory()?;
        let step = self.with.step.unwrap_or(memory.grain());
        let reports =
            frame_candidates(&self.file.set, &memory, step, self.form).map_err(|error| self.refused(error))?;
        let mut lists: std::collections::BTreeMap<String, Vec<String>> = std::collections::BTreeMap::new();
        for report in &reports {
            let rules = rules(report, self.form);
            let first = rules[..4].iter().all(|(_, holds)| *holds);
            for (name, holds) in rules.into_iter().chain([("rules 1 to 4".to_owned(), first)]) {
                let list = lists.entry(name).or_default();
                list.extend(holds.then(|| ms_text(report.frames.size)));
            }
        }
        found.extend(lists.into_iter().map(|(name, list)| (name, Found::List(list))));
        Ok(())
    }

    pub(super) fn place(&self, found: &mut Results) -> Result<(), ReproduceError> {
        let problem = self.problem()?;
        let avoid = self.avoid(&problem);
        let instances: Vec<Vec<ColorSet>> = avoid
            .iter()
            .zip(&self.with.colors)
            .map(|(avoid, own)| if own.is_empty() { vec![*avoid] } else { own.clone() })
            .collect();
        self.usable(&problem, found);
        let demand: u128 = self.demand(&problem);
        let placed = place_given(&problem, &instances, &avoid);
        found.insert("feasible".to_owned(), answered(&placed));
        let missing = match &placed {
            Ok(Err(cuts)) => cuts.iter().map(|cut| u128::from(cut.demand.0 - cut.supply.0)).min(),
            Ok(Ok(_)) => Some(0),
            Err(_) => None,
        };
        found.insert("demand ms".to_owned(), super::ms_of(&Ratio::from_integer(demand.into())));
        if let Some(missing) = missing {
            let placed = super::ms_of(&Ratio::from_integer((demand - missing.min(demand)).into()));
            found.insert("placed ms".to_owned(), placed);
        }
        for (task, avoid) in avoid.iter().enumerate() {
            // The frames of a task without given frames are unknown before there is a schedule.
            if self.with.occupied[task].is_some() {
                self.colors_of(&problem, task, available_colors(*avoid, problem.colors()), found);
            }
        }
        // An instance without a color needs a copy that is not given: nothing to check.
        let checkable = instances.iter().flatten().all(|own| !own.is_empty());
        let checked = match &placed {
            Ok(Ok(executive)) => {
                self.executive(&problem, executive, found);
                checkable.then(|| check_executive(&problem, executive).is_ok())
            }
            Ok(Err(_)) => Some(false),
            Err(_) => None,
        };
        found.insert("checked".to_owned(), checked.map_or(Found::Is(Is::Open), yes));
        Ok(())
    }

    /// The colors in whose frames tasks do not run, as given.
    fn avoid(&self, problem: &Problem) -> Vec<ColorSet> {
        let avoided =
            |own: &Option<ColorSet>| own.map_or(ColorSet::default(), |own| available_colors(own, problem.colors()));
        self.with.occupied.iter().map(avoided).collect()
    }

    fn demand(&self, problem: &Problem) -> u128 {
        let of =
            |task: &memtint_sched::Task| u128::from(task.wcet().0) * u128::from(problem.cycle().0 / task.period().0);
        problem.set().tasks().iter().map(of).sum()
    }

    /// Whether some job of a task may run in the frame of a time.
    fn usable(&self, problem: &Problem, found: &mut Results) {
        let size = problem.frames().size.0;
        for (text, time) in &self.with.at {
            let (from, to) = (time.0 / size * size, (time.0 / size + 1) * size);
            for task in problem.set().tasks() {
                let inside = |job: u64| {
                    let arrival = task.phase().0.saturating_add(job.saturating_mul(task.period().0));
                    arrival.saturating_add(task.jitter().0) <= from && to <= arrival.saturating_add(task.deadline().0)
                };
                // The jobs that arrive last before the frame, by as many as a deadline may reach over.
                let last = from.saturating_sub(task.phase().0) / task.period().0;
                let may = (last.saturating_sub(1)..=last).any(inside);
                found.insert(format!("{} may run at {text}", task.name()), yes(may));
            }
        }
    }

    fn colors_of(&self, problem: &Problem, task: usize, occupied: ColorSet, found: &mut Results) {
        let name = self.task(TaskIndex(task));
        found.insert(format!("occupied {name}"), named_list('f', occupied));
        let available = available_colors(occupied, problem.colors());
        found.insert(format!("available {name}"), named_list('c', available));
    }

    fn executive(&self, problem: &Problem, executive: &Executive, found: &mut Results) {
        for task in 0..problem.set().tasks().len() {
            let slots = || executive.slots.iter().filter(move |slot| slot.id.task == TaskIndex(task));
            let mut by_job: Vec<_> = slots().collect();
            by_job.sort_by_key(|slot| (slot.id.job, slot.slice));
            let times = by_job.iter().map(|slot| ms_text(slot.end - slot.start)).collect();
            found.insert(format!("milliseconds of {}", self.task(TaskIndex(task))), Found::List(times));
            let colors = executive.instances[task].iter().map(|own| names('c', own.colors).join("+")).collect();
            found.insert(format!("colors {}", self.task(TaskIndex(task))), Found::List(colors));
            let occupied = slots().fold(0, |met, slot| met | 1u64 << problem.color_of(executive.frame(slot)));
            self.colors_of(problem, task, ColorSet(occupied), found);
        }
    }

    pub(super) fn fewest_slices(&self, found: &mut Results) -> Result<(), ReproduceError> {
        let problem = self.problem()?;
        let nodes_max = self.with.nodes_max.unwrap_or(AnalysisLimits::default().nodes_max);
        let slices = fewest_slices(&problem, &self.avoid(&problem), nodes_max);
        let feasible = match &slices {
            Ok(Ok(slices)) if slices.placement.is_none() && !slices.complete => Found::Is(Is::Open),
            Ok(Ok(slices)) => yes(slices.placement.is_some()),
            Ok(Err(_)) => yes(false),
            Err(_) => Found::Is(Is::Open),
        };
        found.insert("feasible".to_owned(), feasible);
        let Ok(Ok(slices)) = slices else { return Ok(()) };
        let Some(placement) = &slices.placement else { return Ok(()) };
        found.insert("extra slices".to_owned(), count(placement.extra_slices()));
        found.insert("extra slices least".to_owned(), count(slices.least));
        for task in 0..self.file.set.tasks().len() {
            found.insert(format!("extra slices of {}", self.task(TaskIndex(task))), count(extra(placement, task)));
        }
        Ok(())
    }

    pub(super) fn color(&self, found: &mut Results) -> Result<(), ReproduceError> {
        let problem = self.problem()?;
        let copies_max = self.file.cyclic.copies_max.unwrap_or(Limits::default().copies_max);
        let nodes_max = self.with.nodes_max.unwrap_or(AnalysisLimits::default().nodes_max);
        let limits = Limits { nodes_max, copies_max };
        let solution = match color(&problem, limits) {
            Answer::Schedulable(solution) => solution,
            Answer::Unschedulable(_) => {
                found.insert("schedulable".to_owned(), yes(false));
                return Ok(());
            }
            Answer::Unsupported(_) => {
                found.insert("schedulable".to_owned(), Found::Is(Is::Open));
                return Ok(());
            }
        };
        found.insert("schedulable".to_owned(), yes(true));
        let executive = &solution.executive;
        let numbers = [
            ("copies", executive.copies().into()),
            ("copies least", solution.copies_least.into()),
            ("extra slices", executive.extra_slices()),
            ("extra slices least", solution.extra_slices_least),
            ("switches", executive.switches),
        ];
        found.extend(numbers.map(|(name, number)| (name.to_owned(), count(number))));
        found.insert("idle ms".to_owned(), ms(solution.checked.idle));
        found.insert("refresh gap ms".to_owned(), ms(solution.checked.refresh_gap));
        self.executive(&problem, executive, found);
        Ok(())
    }

    pub(super) fn place_then_avoid(&self, found: &mut Results) -> Result<(), ReproduceError> {
        let problem = self.problem()?;
        let placed = place_then_avoid(&problem);
        found.insert("feasible".to_owned(), answered(&placed));
        let Ok(Ok(placed)) = placed else { return Ok(()) };
        for (task, occupied) in placed.occupied.iter().enumerate() {
            self.colors_of(&problem, task, *occupied, found);
        }
        let copied: Vec<String> = placed.copied().into_iter().map(|task| self.task(task).to_owned()).collect();
        found.insert("copies".to_owned(), count(copied.len()));
        found.insert("copied".to_owned(), Found::List(copied));
        Ok(())
    }

    pub(super) fn repeat(&self, found: &mut Results) -> Result<(), ReproduceError> {
        let problem = self.problem()?;
        let size = BigUint::from(problem.frames().size.0);
        let hyperperiod = self.file.set.hyperperiod();
        // A schedule of a hyperperiod repeats only if that is whole frames.
        if !(&hyperperiod % &size).eq(&BigUint::from(0u8)) {
            return Ok(());
        }
        let round = u64::try_from(hyperperiod / size).expect("a cycle is a multiple, and fits");
        let rounds = problem.frame_count() / round;
        let met = |frame: u64| {
            (0..rounds).fold(0u64, |met, lap| met | 1 << problem.color_of(frame + lap * round)).count_ones()
        };
        found.insert("colors met least".to_owned(), count((0..round).map(met).min().unwrap_or(0)));
        let placed = place(&problem, &vec![ColorSet::default(); self.file.set.tasks().len()]);
        found.insert("feasible".to_owned(), answered(&placed));
        Ok(())
    }
}

/// The rules that hold, and whether a frame is feasible.
fn rules(report: &FrameReport, form: Form) -> Vec<(String, bool)> {
    let refused = |rule: u32| {
        report.refused.iter().any(|refused| {
            let of = match refused {
                Refused::Alternation { .. } => 1,
                Refused::Retention { .. } => 2,
                Refused::WholeFrame { .. } => 3,
                Refused::Grain { .. } => 4,
                Refused::Unsliced { .. } => 5,
                Refused::Burst { .. } => 6,
                _ => 0,
            };
            of == rule
        })
    };
    let noted = |rule: u32| {
        report.notes.iter().any(|note| match note {
            Note::Copies { .. } => rule == 1,
            Note::Slices { .. } => rule == 5,
            _ => false,
        })
    };
    let last = if form == Form::AsPrinted { 5 } else { 6 };
    let each = (1..=last).map(|rule| (format!("rule {rule}"), !refused(rule) && !noted(rule)));
    each.chain([("accepted".to_owned(), report.accepted())]).collect()
}

fn answered<T, N>(answer: &Result<Result<T, N>, Unanswered>) -> Found {
    match answer {
        Ok(answer) => yes(answer.is_ok()),
        Err(_) => Found::Is(Is::Open),
    }
}

fn extra(placement: &Placement, task: usize) -> u64 {
    let pairs = placement.portions.windows(2);
    pairs.filter(|pair| pair[0].id == pair[1].id && pair[0].id.task == TaskIndex(task)).count() as u64
}

/// Colors and frames, counted from 1 as in print.
fn names(letter: char, colors: ColorSet) -> Vec<String> {
    colors.colors().into_iter().map(|color| format!("{letter}{}", color + 1)).collect()
}

fn named_list(letter: char, colors: ColorSet) -> Found {
    Found::List(names(letter, colors))
}
