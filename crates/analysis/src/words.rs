//! Sentences for the results of an analysis.

use memtint_sched::{Cause, Overload, TaskIndex, TaskSet, Unsupported, Violation};
use memtint_units::{Picoseconds, spell_picoseconds};
use num_bigint::BigUint;
use num_integer::Integer;
use num_rational::Ratio;

use crate::output::{Overload as Demand, WindowOverload};
use crate::report::{Answer, Refusal};

/// A span as a cell.
pub(crate) fn time(span: Picoseconds) -> String {
    span.to_string()
}

fn because(set: &TaskSet, cause: &Cause) -> String {
    match cause {
        Cause::Deadline => "the window ends at the deadline of the job".to_owned(),
        Cause::Start => "the window ends where the job would have to start".to_owned(),
        Cause::Begun(task) => format!(
            "the window ends at the deadline of the job, and a job of task {:?} has begun 1 ps before the window",
            set[*task].name()
        ),
        Cause::Supply(most) => format!("the window is supplied no more than {}", exact_span(most)),
        Cause::Utilization(found) => format!("utilization is {found}, above 1"),
        other => format!("{other:?}"),
    }
}

/// A no by an overload after a critical instant, or another beginning.
pub(crate) fn refusal(set: &TaskSet, late: &Overload, after: &str) -> Answer {
    let overload = WindowOverload {
        task: Some(set[late.task].name().to_owned()),
        job: Some(late.job.to_string()),
        window_ps: late.window_ps.to_string(),
        demand_ps: late.demand_ps.to_string(),
        because: because(set, &late.cause),
    };
    Answer::No(Box::new(Refusal { sentence: late_in(set, late, after), overload: Demand::Window(overload) }))
}

/// Default of the beginning of an overload's window.
pub(crate) const CRITICAL: &str = "a critical instant";

/// A sentence for an overload.
fn overloaded(set: &TaskSet, late: &Overload) -> String {
    late_in(set, late, CRITICAL)
}

fn late_in(set: &TaskSet, late: &Overload, after: &str) -> String {
    let (name, job) = (set[late.task].name(), &late.job);
    format!(
        "task {name:?}, job {job} (from 0, after {after}): {} of work are due in a window of {}; {}",
        span(&late.demand_ps),
        span(&late.window_ps),
        because(set, &late.cause)
    )
}

/// A span in whole picoseconds that may be too long for 64 bits.
pub(crate) fn span(ps: &(impl Integer + ToString)) -> String {
    spell_picoseconds(&ps.to_string())
}

/// A span that may be a fraction of a picosecond: rounded down to whole ones, and the exact value.
pub(crate) fn exact_span(ps: &Ratio<BigUint>) -> String {
    match ps.is_integer() {
        true => span(ps.numer()),
        false => format!("{} (exactly {ps} ps)", span(&ps.to_integer())),
    }
}

/// A sentence for an unsupported question.
pub(crate) fn reason(set: &TaskSet, reason: &Unsupported) -> String {
    let name = |&task: &TaskIndex| format!("{:?}", set[task].name());
    match reason {
        Unsupported::Phases(late) => {
            format!("the phases differ and are not used; with the worst phases, {}", overloaded(set, late))
        }
        Unsupported::Effort { task, steps_max } => {
            format!("task {}: more than {steps_max} steps would be needed; see --steps", name(task))
        }
        Unsupported::Window { task, window_ps_max } => {
            format!("task {}: a window of more than {}", name(task), span(window_ps_max))
        }
        Unsupported::Precondition { task, needs } => format!("task {}: the theorem needs {needs}", name(task)),
        Unsupported::Platform { needs } => format!("the theorem needs {needs}"),
        Unsupported::Bound(late) => {
            format!("with bounds of interference that may never be reached, {}", overloaded(set, late))
        }
        Unsupported::Load(found) => {
            format!("with bounds of interference that may never be reached, utilization is {found}, not below 1")
        }
        Unsupported::Horizon { hyperperiod_ps, jobs_max } => format!(
            "with a hyperperiod of {} the schedule repeats only after more than {jobs_max} jobs; see --steps",
            span(hyperperiod_ps)
        ),
        Unsupported::Contradiction(violation) => contradiction(violation),
        Unsupported::Inconclusive { found, most } => format!("a sufficient test does not say yes: {found} > {most}"),
        other => format!("{other:?}"),
    }
}

fn contradiction(violation: &Violation) -> String {
    format!("a defect of memtint: the analysis accepts the tasks, and the checker refuses their schedule: {violation}")
}
