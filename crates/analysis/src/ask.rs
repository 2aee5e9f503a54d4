//! One question, and the way to its answer.

use memtint_sched::{AnalysisLimits, Form, Interference, Refresh};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::AnalysisError;
use crate::report::{Answer, Report};
use crate::tasks::TaskSystem;
use crate::{cyclic, priority, servers};

/// The most jobs that a witness holds, unless asked for more.
pub const WITNESS_JOBS_MAX: u64 = 10_000;

/// Which job goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// Rate monotonic: the shorter period.
    #[serde(rename = "rm")]
    RateMonotonic,
    /// Deadline monotonic: the shorter relative deadline.
    #[serde(rename = "dm")]
    DeadlineMonotonic,
    /// Fixed priorities as given, 1 the highest.
    #[serde(rename = "fp")]
    FixedPriority,
    /// The earliest deadline.
    Edf,
    /// A cyclic executive: a table of frames; refresh by the controller as longer jobs.
    Cyclic,
    /// A cyclic executive around the refresh of colors.
    ColoredRefresh,
    /// Colored Refresh Servers.
    Crs,
}

impl Scheduler {
    /// All of them.
    pub const ALL: [Scheduler; 7] = [
        Scheduler::RateMonotonic,
        Scheduler::DeadlineMonotonic,
        Scheduler::FixedPriority,
        Scheduler::Edf,
        Scheduler::Cyclic,
        Scheduler::ColoredRefresh,
        Scheduler::Crs,
    ];

    /// Gives the name, as on command lines and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Scheduler::RateMonotonic => "rm",
            Scheduler::DeadlineMonotonic => "dm",
            Scheduler::FixedPriority => "fp",
            Scheduler::Edf => "edf",
            Scheduler::Cyclic => "cyclic",
            Scheduler::ColoredRefresh => "colored-refresh",
            Scheduler::Crs => "crs",
        }
    }

    /// Returns whether software refreshes the memory, and not the controller.
    #[must_use]
    pub fn refreshes(self) -> bool {
        matches!(self, Scheduler::ColoredRefresh | Scheduler::Crs)
    }

    /// Returns whether jobs are scheduled by a policy, and not by a table or in servers.
    #[must_use]
    pub fn is_policy(self) -> bool {
        use Scheduler::{DeadlineMonotonic, Edf, FixedPriority, RateMonotonic};
        matches!(self, RateMonotonic | DeadlineMonotonic | FixedPriority | Edf)
    }
}

/// A question to an analysis.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// The tasks, and all that the file has of their memory.
    pub file: &'a TaskSystem,
    /// Fields of the file, to report those that the scheduler does not use; as from [`used`](memtint_system::used()).
    pub given: &'a [&'static str],
    /// Which job goes first.
    pub scheduler: Scheduler,
    /// Jobs that have begun are not interrupted; of policies only.
    pub nonpreemptive: bool,
    /// Which form of published formulas; of Colored Refresh and servers only.
    pub form: Form,
    /// The most work.
    pub limits: AnalysisLimits,
    /// Jobs of the witness in the report, which no verdict depends on.
    pub witness_jobs_max: u64,
    /// How the controller refreshes the memory of a file without `[refresh]`; needed where it has `[memory]`, unless the scheduler
    /// refreshes. Not used otherwise.
    pub derived: Option<Refresh>,
    /// Receives the progress of a search.
    pub at: &'a dyn Fn(String),
}

impl<'a> Question<'a> {
    /// Asks with the limits of every verb, preemptive, corrected.
    #[must_use]
    pub fn new(file: &'a TaskSystem, scheduler: Scheduler) -> Question<'a> {
        Question {
            file,
            given: &[],
            scheduler,
            nonpreemptive: false,
            form: Form::Corrected,
            limits: AnalysisLimits::default(),
            witness_jobs_max: WITNESS_JOBS_MAX,
            derived: None,
            at: &|_| {},
        }
    }
}

/// Answers: yes with a schedule that a checker has accepted, no with the overload, or the reason why there is neither.
///
/// ```
/// use memtint_analysis::{Answer, Question, Scheduler, TaskSystem, answer};
///
/// let task = |name: &str, wcet: u32| format!("[[task]]\nname = \"{name}\"\nperiod = \"10 ms\"\nwcet = \"{wcet} ms\"\n");
/// let file = TaskSystem::parse("two.toml", &(task("control", 4) + &task("vision", 7)))?;
/// let report = answer(&Question::new(&file, Scheduler::Edf))?;
/// assert!(matches!(report.answer, Answer::No(_)), "11 ms are due in 10 ms");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`AnalysisError`] when the file lacks data that the scheduler needs, the refresh of its memory is unspecified, or a
/// checker refuses a schedule that the analysis accepts.
pub fn answer(question: &Question<'_>) -> Result<Report, AnalysisError> {
    let mut file = question.file.clone();
    let by_controller = !question.scheduler.refreshes() && file.refresh.is_none();
    let mut derived = question.derived.filter(|_| by_controller);
    if by_controller && file.memory.is_some() && derived.is_none() {
        // Without refresh the answer could be yes where it is no.
        return Err(AnalysisError::NoRefresh { file: file.name });
    }
    if let Some(refresh) = derived {
        file.refresh = Some(refresh);
        file.terms.insert(0, Interference::Refresh(refresh));
    }
    let mut report = by_scheduler(&Question { file: &file, ..*question })?;
    assert_agrees(&report, file.terms.is_empty());
    if derived.is_some() && matches!(report.answer, Answer::Unsupported(_)) {
        // The bounds of refresh may never be reached. A set that fails without refresh fails with it.
        let without = by_scheduler(question)?;
        if matches!(without.answer, Answer::No(_)) {
            (report, derived) = (without, None);
        }
    }
    if let (Some(refresh), Some(memory)) = (derived, &file.memory) {
        report.refresh_from_memory(&refresh, memory.t_rfc);
    }
    report.not_considered = unused(question.given, question.scheduler, derived.is_some());
    if !question.scheduler.refreshes() && file.refresh.is_none() {
        let none = "refresh of memory delays nothing: the file has neither [refresh] nor [memory]";
        report.assumptions.push(none.to_owned());
    }
    Ok(report)
}

/// The rows are those of the set and, where nothing but the tasks delays a job, no response of a yes is beyond its deadline: verdict and
/// responses come from different tests. Bounds of other delays need not be equally tight in both.
fn assert_agrees(report: &Report, alone: bool) {
    assert_eq!(report.rows.len(), report.set.tasks().len(), "rows of a report, and tasks of its set");
    for ((index, own), row) in report.set.indexed().zip(&report.rows) {
        let Some(worst) = &row.worst else { continue };
        assert_eq!(worst.task, index, "the row of {:?} has the response of another task", own.name());
        let late = alone && matches!(report.answer, Answer::Yes) && worst.response > own.deadline();
        assert!(!late, "a yes, and {:?} takes {}", own.name(), worst.response);
    }
}

fn by_scheduler(question: &Question<'_>) -> Result<Report, AnalysisError> {
    Ok(match question.scheduler {
        Scheduler::RateMonotonic => priority::rate_monotonic(question),
        Scheduler::DeadlineMonotonic => priority::deadline_monotonic(question),
        Scheduler::FixedPriority => priority::given(question)?,
        Scheduler::Edf => priority::edf(question),
        Scheduler::Cyclic => cyclic::textbook(question)?,
        Scheduler::ColoredRefresh => cyclic::colored_refresh(question)?,
        Scheduler::Crs => servers::crs(question)?,
    })
}

/// Which schedulers use a field that is not used by all of them.
const READERS: [(&str, &[Scheduler]); 9] = [
    ("memory", &[Scheduler::ColoredRefresh, Scheduler::Crs]),
    ("cyclic", &[Scheduler::Cyclic, Scheduler::ColoredRefresh]),
    ("color", &[Scheduler::Crs]),
    ("server", &[Scheduler::Crs]),
    ("task.priority", &[Scheduler::FixedPriority, Scheduler::Crs]),
    ("task.ranks", &[Scheduler::ColoredRefresh, Scheduler::Crs]),
    ("task.copy", &[Scheduler::ColoredRefresh, Scheduler::Crs]),
    ("task.server", &[Scheduler::Crs]),
    ("task.copy_server", &[Scheduler::Crs]),
];

/// The given fields that mean nothing for a scheduler.
pub(crate) fn unused(given: &[&'static str], scheduler: Scheduler, derived: bool) -> Vec<String> {
    let unused = READERS.iter().filter(|(field, readers)| {
        given.contains(field) && !readers.contains(&scheduler) && !(derived && *field == "memory")
    });
    unused.map(|(field, _)| (*field).to_owned()).collect()
}
