//! Progress on standard error: a bar on a terminal, a few lines elsewhere, JSON for programs, or nothing.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use memtint_sim::Watch;
use schemars::JsonSchema;
use serde::Serialize;

use crate::output::{Failure, JsonForm, is_quiet};

/// Lines on standard error with `--progress json`.
pub(crate) const FORMS: &[JsonForm] = &[JsonForm::of::<ProgressLine>("progress")];

/// Where progress goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ProgressForm {
    /// A bar on a terminal; elsewhere a line for each step and each tenth, at most one in ten seconds.
    Auto,
    /// None.
    Never,
    /// A JSON object on a line, at most one a second.
    Json,
}

static FORM: OnceLock<ProgressForm> = OnceLock::new();

/// Sets the form for the whole program, once.
pub(crate) fn set_form(form: ProgressForm) {
    FORM.get_or_init(|| form);
}

/// The bar on the terminal, if there is one: other lines go above it.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Runs `write` while no bar is on the terminal.
pub(crate) fn above_the_bar(write: impl FnOnce()) {
    let bar = BAR.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Progress of a verb.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct ProgressLine {
    /// Version of this form.
    schema: u32,
    /// Which report it is: `progress`.
    report: &'static str,
    /// The activity, for instance `simulating`.
    activity: &'static str,
    /// The step of the activity, if it has steps.
    step: Option<String>,
    /// Share of all work that is done, 0 to 1; null where the total is unknown.
    done: Option<f64>,
    /// Since the activity started.
    elapsed_seconds: f64,
    /// An estimate; null where the total is unknown.
    left_seconds: Option<f64>,
}

impl ProgressLine {
    /// The line for people.
    fn text(&self) -> String {
        let percent = self.done.map(|done| format!("{:.0} %", done * 100.0));
        let left = self.left_seconds.map(|left| format!("about {left:.0} s left"));
        let parts: Vec<String> = [self.step.clone(), percent, left].into_iter().flatten().collect();
        format!("{}: {}", self.activity, parts.join(", "))
    }
}

/// Between two lines of JSON.
const JSON_INTERVAL: Duration = Duration::from_secs(1);
/// Between two lines of text.
const TEXT_INTERVAL: Duration = Duration::from_secs(10);

/// Decides which lines are printed where there is no terminal.
struct Lines {
    form: ProgressForm,
    last: Option<(Instant, u32, Option<String>)>,
}

impl Lines {
    /// A line that is due at `now`. `started` is when the activity began.
    fn due(&mut self, line: &ProgressLine, started: Instant, now: Instant) -> Option<String> {
        let tenth = line.done.map_or(0, |done| (done * 10.0) as u32);
        let is_new = match &self.last {
            None => true,
            Some((_, last_tenth, last_step)) => {
                self.form == ProgressForm::Json || *last_tenth != tenth || *last_step != line.step
            }
        };
        let since = now.duration_since(self.last.as_ref().map_or(started, |(at, _, _)| *at));
        let interval = if self.form == ProgressForm::Json { JSON_INTERVAL } else { TEXT_INTERVAL };
        if !is_new || since < interval {
            return None;
        }
        self.last = Some((now, tenth, line.step.clone()));
        Some(match self.form {
            ProgressForm::Json => serde_json::to_string(line).unwrap_or_default(),
            _ => line.text(),
        })
    }
}

enum Sink {
    None,
    Bar(ProgressBar),
    Lines(Mutex<Lines>),
}

/// Shows how far an activity is, until it is dropped.
pub(crate) struct Progress {
    activity: &'static str,
    started: Instant,
    sink: Sink,
}

/// Positions of the bar.
const POSITIONS: u64 = 1000;

impl Progress {
    /// Progress of an activity whose total is known: [`Progress::done`] moves it.
    pub(crate) fn of_total(activity: &'static str) -> Progress {
        Progress::new(activity, "{prefix} [{bar:40}] {percent} %, {eta} left")
    }

    /// Progress of an activity that may end at any time: [`Progress::step`] names what it does, often.
    pub(crate) fn of_steps(activity: &'static str) -> Progress {
        Progress::new(activity, "{spinner} {prefix}: {wide_msg} {elapsed}")
    }

    /// Progress of a search, whose steps may take minutes: a thread moves the spinner.
    pub(crate) fn of_search() -> Progress {
        let progress = Progress::of_steps("searching");
        if let Sink::Bar(bar) = &progress.sink {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        progress
    }

    fn new(activity: &'static str, template: &str) -> Progress {
        let form = FORM.get().copied().unwrap_or(ProgressForm::Auto);
        let lines = || Sink::Lines(Mutex::new(Lines { form, last: None }));
        let sink = match form {
            _ if is_quiet() => Sink::None,
            ProgressForm::Never => Sink::None,
            ProgressForm::Auto if io::stderr().is_terminal() => bar(activity, template).map_or_else(lines, Sink::Bar),
            ProgressForm::Auto | ProgressForm::Json => lines(),
        };
        Progress { activity, started: Instant::now(), sink }
    }

    /// Share of all work that is done, 0 to 1.
    pub(crate) fn done(&self, share: f64) {
        match &self.sink {
            Sink::None => {}
            Sink::Bar(bar) => bar.set_position((share * POSITIONS as f64) as u64),
            Sink::Lines(lines) => self.print(lines, Some(share), None),
        }
    }

    /// What is done now.
    pub(crate) fn step(&self, step: String) {
        match &self.sink {
            Sink::None => {}
            Sink::Bar(bar) => bar.set_message(step),
            Sink::Lines(lines) => self.print(lines, None, Some(step)),
        }
    }

    fn print(&self, lines: &Mutex<Lines>, done: Option<f64>, step: Option<String>) {
        let elapsed_seconds = self.started.elapsed().as_secs_f64();
        let left = |done: f64| (done > 0.0).then(|| elapsed_seconds / done - elapsed_seconds);
        let line = ProgressLine {
            schema: 1,
            report: "progress",
            activity: self.activity,
            step,
            done,
            elapsed_seconds,
            left_seconds: done.and_then(left),
        };
        let due = lines.lock().unwrap_or_else(PoisonError::into_inner).due(&line, self.started, Instant::now());
        if let Some(text) = due {
            // Progress that cannot be shown is no reason to stop. One call, because a recorded program may write to the same place.
            let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
        }
    }
}

/// A bar on the terminal; `None` where the terminal cannot move its cursor (`TERM=dumb`). It has no thread: signals and CPU affinity
/// of the verb are its own business.
fn bar(activity: &'static str, template: &str) -> Option<ProgressBar> {
    let style = ProgressStyle::with_template(template).expect("the templates are valid");
    let bar = ProgressBar::with_draw_target(Some(POSITIONS), ProgressDrawTarget::stderr())
        .with_style(style.progress_chars("=> "))
        .with_prefix(activity);
    if bar.is_hidden() {
        return None;
    }
    *BAR.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
    Some(bar)
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Sink::Bar(bar) = &self.sink {
            bar.finish_and_clear();
            *BAR.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

/// Progress of a simulation, which Ctrl-C stops: what was simulated until then is reported.
pub(crate) struct Simulating {
    progress: Progress,
    interrupted: Arc<AtomicBool>,
}

impl Simulating {
    /// # Errors
    ///
    /// When the signal cannot be caught.
    pub(crate) fn new() -> Result<Simulating, Failure> {
        let interrupted = Arc::new(AtomicBool::new(false));
        // The second one ends the program at once.
        let flag = |flag: &Arc<AtomicBool>| {
            signal_hook::flag::register_conditional_default(libc::SIGINT, Arc::clone(flag))?;
            signal_hook::flag::register(libc::SIGINT, Arc::clone(flag))
        };
        flag(&interrupted).map_err(|error| Failure::Sentence(format!("Ctrl-C cannot be caught: {error}")))?;
        Ok(Simulating { progress: Progress::of_total("simulating"), interrupted })
    }
}

impl Watch for Simulating {
    fn go_on(&self, share_done: f64) -> bool {
        self.progress.done(share_done);
        !self.interrupted.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(step: Option<&str>, done: Option<f64>) -> ProgressLine {
        let (activity, step) = ("simulating", step.map(str::to_owned));
        let left_seconds = done.map(|done| 20.0 / done - 20.0);
        ProgressLine { schema: 1, report: "progress", activity, step, done, elapsed_seconds: 20.0, left_seconds }
    }

    #[test]
    fn text_comes_once_for_each_tenth_and_step_and_seldom() {
        let started = Instant::now();
        let at = |seconds| started + Duration::from_secs(seconds);
        let mut lines = Lines { form: ProgressForm::Auto, last: None };
        let mut shares = |share, seconds| lines.due(&line(None, Some(share)), started, at(seconds));
        assert_eq!(shares(0.01, 1), None, "a short activity prints nothing");
        assert_eq!(shares(0.25, 10).as_deref(), Some("simulating: 25 %, about 60 s left"));
        assert_eq!(shares(0.29, 60), None, "the same tenth");
        assert_eq!(shares(0.31, 61).as_deref(), Some("simulating: 31 %, about 45 s left"));
        assert_eq!(shares(0.45, 70), None, "less than ten seconds later");
        let mut lines = Lines { form: ProgressForm::Auto, last: None };
        let mut steps = |step, seconds| lines.due(&line(Some(step), None), started, at(seconds));
        assert_eq!(steps("frame 1", 15).as_deref(), Some("simulating: frame 1"));
        assert_eq!(steps("frame 1", 60), None, "the same step");
        assert_eq!(steps("frame 2", 61).as_deref(), Some("simulating: frame 2"));
    }

    #[test]
    fn json_comes_at_most_once_a_second() {
        let started = Instant::now();
        let mut lines = Lines { form: ProgressForm::Json, last: None };
        let mut at = |ms| lines.due(&line(None, Some(0.25)), started, started + Duration::from_millis(ms));
        assert_eq!(at(999), None);
        let first: serde_json::Value = serde_json::from_str(&at(1000).unwrap()).unwrap();
        assert_eq!((&first["done"], &first["left_seconds"]), (&0.25.into(), &60.0.into()));
        assert_eq!(at(1999), None);
        assert!(at(2000).is_some());
    }
}
