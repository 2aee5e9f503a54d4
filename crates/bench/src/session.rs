//! Runs the same job with and without memtint, in turn, from equivalent free lists.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use memtint_units::Pfn;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::child::{ChildError, Ended, Running, finish_entourage};
use crate::series::{Mishap, Results, Runs, Side};
use memtint_units::Random;

/// The extent of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Runs of each kind on each side.
    pub repeat: usize,
    /// Reduced counts and sizes.
    pub quick: bool,
    /// The longest time of a run.
    pub limit: Duration,
}

/// A running bench.
pub struct Session {
    /// This program.
    pub me: PathBuf,
    /// Options of `memtint run` that name the colors.
    pub colors: Vec<OsString>,
    /// Whether a frame is in the session's colors.
    pub in_color: Box<dyn Fn(Pfn) -> bool>,
    /// Receives progress and failures as text.
    pub tell: fn(&str),
    /// The extent of the measurement.
    pub extent: Extent,
    /// Seed of inputs and orders.
    pub seed: u64,
    /// Directory for reports and inputs.
    pub work: WorkDirectory,
    /// Random numbers for orders.
    pub random: Random,
    /// Results so far.
    pub results: Results,
}

/// A program with its arguments.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// The program, and its arguments.
    pub words: Vec<OsString>,
    /// Further options of `memtint run`.
    pub run_options: Vec<OsString>,
    /// Colors other than the session's.
    pub colors: Option<Vec<OsString>>,
    /// Standard input; nothing when absent.
    pub input: Option<PathBuf>,
}

impl Job {
    /// Takes a program with its arguments.
    pub fn new<W: AsRef<OsStr>>(words: impl IntoIterator<Item = W>) -> Job {
        Job { words: words.into_iter().map(|word| word.as_ref().to_owned()).collect(), ..Job::default() }
    }
}

/// The result of a run.
pub struct Measured {
    /// Its end, and the resources used.
    pub ended: Ended,
    /// Sums over all address spaces; native runs have none.
    pub pool: Option<Pool>,
}

/// Figures about the pool in the report of a colored run.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Pool {
    /// Pages kept by searches.
    pub kept_pages: u64,
    /// Pages examined by searches.
    pub scanned_pages: u64,
    /// Time of the searches.
    pub pool_build_ns: u64,
    pages_in_color: u64,
    pages_out_of_color: u64,
    pages_refused: u64,
    recycled_pages: u64,
}

impl Pool {
    /// Pages left in the pool when the program ended.
    pub fn left_pages(&self) -> u64 {
        (self.kept_pages + self.recycled_pages).saturating_sub(self.pages_in_color)
    }

    fn add(self, other: &Pool) -> Pool {
        Pool {
            kept_pages: self.kept_pages + other.kept_pages,
            scanned_pages: self.scanned_pages + other.scanned_pages,
            pool_build_ns: self.pool_build_ns + other.pool_build_ns,
            pages_in_color: self.pages_in_color + other.pages_in_color,
            pages_out_of_color: self.pages_out_of_color + other.pages_out_of_color,
            pages_refused: self.pages_refused + other.pages_refused,
            recycled_pages: self.recycled_pages + other.recycled_pages,
        }
    }
}

#[derive(Deserialize)]
struct RunReport {
    #[serde(default)]
    address_spaces: Vec<Pool>,
    #[serde(default)]
    problems: Vec<String>,
}

/// A running job, with the files needed to evaluate its end.
pub struct Started {
    /// The program.
    pub running: Running,
    report: Option<PathBuf>,
    errors: PathBuf,
}

impl Session {
    /// The command line of a job on one side, and the file for its report.
    fn command(&self, job: &Job, side: Side) -> (Command, Option<PathBuf>) {
        let report = self.work.path("report.json");
        let (mut command, report) = match side {
            Side::Native | Side::Control => {
                let mut command = Command::new(&job.words[0]);
                command.args(&job.words[1..]);
                (command, None)
            }
            Side::Colored => {
                let mut command = Command::new(&self.me);
                command
                    .args(["run", "--floor", "user"])
                    .args(job.colors.as_ref().unwrap_or(&self.colors))
                    .args(&job.run_options);
                command.arg("--report").arg(&report).arg("--").args(&job.words);
                (command, Some(report))
            }
        };
        command.env("LC_ALL", "C").env("PYTHONHASHSEED", "0");
        if let Some(report) = &report {
            let _ = std::fs::remove_file(report);
        }
        (command, report)
    }

    /// Starts a job.
    pub fn start(&self, job: &Job, side: Side) -> Result<Started, String> {
        let (mut command, report) = self.command(job, side);
        let errors = self.work.path(&format!("errors-{}.txt", side.name()));
        let file = |error: std::io::Error| format!("cannot be started: {error}");
        command.stdin(match &job.input {
            Some(path) => Stdio::from(File::open(path).map_err(file)?),
            None => Stdio::null(),
        });
        command.stderr(File::create(&errors).map_err(file)?);
        let running = Running::start(command).map_err(|error| error.to_string())?;
        Ok(Started { running, report, errors })
    }

    /// Waits for its end; anything but success is an error.
    pub fn finish(&mut self, started: Started) -> Result<Measured, Trouble> {
        let mut done = self.finish_alone(started)?;
        done.ended.entourage = finish_entourage();
        Ok(done)
    }

    /// The same while other jobs are running: does not wait for supervisor, broker and helpers of the program.
    pub fn finish_alone(&mut self, started: Started) -> Result<Measured, Trouble> {
        let Started { running, report, errors } = started;
        let ended = running.finish_alone(self.extent.limit)?;
        let said = || std::fs::read_to_string(&errors).unwrap_or_default();
        if !ended.status.success() {
            let reason = format!("{}: {}", ended.status, last_line(&said()));
            return Err(Trouble { hung: false, reason });
        }
        let pool = match &report {
            None => None,
            Some(path) => Some(self.read_report(path)?),
        };
        Ok(Measured { ended, pool })
    }

    fn read_report(&mut self, path: &Path) -> Result<Pool, Trouble> {
        let trouble = |reason: String| Trouble { hung: false, reason };
        let text = std::fs::read_to_string(path).map_err(|error| trouble(format!("no report: {error}")))?;
        let report: RunReport = serde_json::from_str(&text).map_err(|error| trouble(format!("report: {error}")))?;
        let pool = report.address_spaces.iter().fold(Pool::default(), Pool::add);
        self.results.pages_out_of_color += pool.pages_out_of_color;
        self.results.pages_refused += pool.pages_refused;
        for problem in report.problems {
            if !self.results.problems.contains(&problem) && self.results.problems.len() < 20 {
                self.results.problems.push(problem);
            }
        }
        Ok(pool)
    }

    /// Starts a job and waits for its end.
    pub fn run(&mut self, job: &Job, side: Side) -> Result<Measured, Trouble> {
        let started = self.start(job, side).map_err(|reason| Trouble { hung: false, reason })?;
        self.finish(started)
    }

    /// Measures on both sides in turn, each time from scrambled free lists; the side that comes first changes from
    /// round to round. `measure` receives the side and adds its samples; its errors become failures. After a hang or a
    /// second failure, the side is skipped.
    pub fn alternate(
        &mut self,
        (group, subject): (&'static str, &str),
        sides: &[Side],
        (repeat, scramble_pages): (usize, usize),
        mut measure: impl FnMut(&mut Session, Side) -> Result<(), Trouble>,
    ) {
        let mut failed = [0; Side::ALL.len()];
        for round in 1..=repeat {
            (self.tell)(&format!("{group} {subject} {round}/{repeat}"));
            let mut order = sides.to_vec();
            order.rotate_left((round - 1) % sides.len());
            for side in order {
                if failed[side as usize] > 1 {
                    continue;
                }
                self.scramble(scramble_pages);
                if let Err(trouble) = measure(self, side) {
                    failed[side as usize] += if trouble.hung { 2 } else { 1 };
                    self.note_failure((group, subject), side.into(), trouble);
                }
            }
        }
    }

    /// Measures on all sides at the same time, each time from scrambled free lists. After a hang or a second failure,
    /// the remaining rounds are skipped.
    pub fn side_by_side(
        &mut self,
        (group, subject): (&'static str, &str),
        (repeat, scramble_pages): (usize, usize),
        mut measure: impl FnMut(&mut Session) -> Result<(), Trouble>,
    ) {
        let mut failed = 0;
        for round in 1..=repeat {
            (self.tell)(&format!("{group} {subject}, side by side {round}/{repeat}"));
            self.scramble(scramble_pages);
            if let Err(trouble) = measure(self) {
                failed += if trouble.hung { 2 } else { 1 };
                self.note_failure((group, subject), Runs::SideBySide, trouble);
            }
            if failed > 1 {
                return;
            }
        }
    }

    fn note_failure(&mut self, (group, subject): (&'static str, &str), side: Runs, trouble: Trouble) {
        (self.tell)(&format!("{group} {subject} {}: {}", side.name(), trouble.reason));
        self.results.failures.push(Mishap { group, subject: subject.to_owned(), side, reason: trouble.reason });
    }

    /// Starts a process that touches memory and frees it in random order.
    fn scramble(&mut self, pages: usize) {
        let seed = self.random.bits();
        let mut job = Job::new([self.me.as_os_str()]);
        job.words.extend(["bench", "scramble", "--pages"].map(OsString::from));
        job.words.extend([pages.to_string(), "--seed".to_owned(), seed.to_string()].map(OsString::from));
        let report = self.run(&job, Side::Native).ok();
        let report = report.and_then(|done| serde_json::from_slice::<ScrambleReport>(&done.ended.output.text).ok());
        match report {
            Some(report) => {
                self.results.scramble_touch_ns_per_page.push(report.touch_ns as f64 / report.pages as f64);
            }
            None => (self.tell)("scrambling failed, the next run starts from whatever was left"),
        }
    }

    /// Records the share of these frames that are in color.
    pub fn note_share(&mut self, side: Side, frames: &[u64]) {
        if frames.is_empty() {
            return;
        }
        let right = frames.iter().filter(|&&frame| (self.in_color)(Pfn(frame))).count();
        let share = right as f64 / frames.len() as f64;
        match side {
            Side::Native | Side::Control => self.results.native_share_in_color.push(share),
            Side::Colored => self.results.colored_share_in_color.push(share),
        }
    }
}

/// Output of the program that scrambles the free lists.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ScrambleReport {
    /// Pages that were touched.
    pub pages: usize,
    /// Time that touching them took.
    pub touch_ns: u64,
}

/// The reason why a run gave no figures.
#[derive(Debug)]
pub struct Trouble {
    /// It was killed for taking too long.
    pub hung: bool,
    /// Why.
    pub reason: String,
}

impl From<&str> for Trouble {
    fn from(reason: &str) -> Self {
        Trouble { hung: false, reason: reason.to_owned() }
    }
}

impl From<ChildError> for Trouble {
    fn from(error: ChildError) -> Self {
        Trouble { hung: matches!(error, ChildError::Hung(_)), reason: error.to_string() }
    }
}

impl From<String> for Trouble {
    fn from(reason: String) -> Self {
        Trouble { hung: false, reason }
    }
}

fn last_line(text: &str) -> &str {
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no message")
}

/// A directory of the bench, removed at the end.
pub struct WorkDirectory(PathBuf);

impl WorkDirectory {
    /// Makes it.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub fn new(path: PathBuf) -> io::Result<Self> {
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }

    /// Gives its path.
    pub fn directory(&self) -> &Path {
        &self.0
    }

    /// Gives the path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for WorkDirectory {
    fn drop(&mut self) {
        // Files left in the temporary directory do no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
