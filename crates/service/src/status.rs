//! The status of the running regulator, for other programs of this machine: a file in a folder that only root can enter.

use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use memtint_registry::ProcessId;
use memtint_regulator::{Backend, now_ns};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ServiceError;
use crate::report::{Regulated, Row, SCHEMA};

/// Next to the lock of the regulator, which creates the folder.
pub(crate) const STATUS_FILE: &str = "/run/memtint/guard.status";
const BESIDE: &str = "/run/memtint/.guard.status";
/// No regulator writes a larger one.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// An older status does not describe the present. A regulator writes it several times a second.
const FRESH_NS: u64 = 10_000_000_000;

/// Whether budgets were kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Every period was within its bound.
    Kept,
    /// One was not, or does not show that it was.
    Broken,
}

impl Verdict {
    pub(crate) fn of(broken: bool) -> Verdict {
        if broken { Verdict::Broken } else { Verdict::Kept }
    }

    /// Gives its name, as in reports.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Kept => "kept",
            Verdict::Broken => "broken",
        }
    }
}

/// A regulator at a time.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// Version of the form of this report.
    pub schema: u32,
    /// `guard-status`.
    pub report: String,
    /// Process that regulates.
    pub process: ProcessId,
    /// CLOCK_MONOTONIC; so is the next.
    pub written_ns: u64,
    /// Sums have all periods that had ended by then.
    pub accounted_ns: u64,
    /// Since the self-test.
    pub seconds: f64,
    /// Where it is decided: never `auto`.
    pub backend: Backend,
    /// What is regulated.
    #[serde(flatten)]
    pub regulated: Regulated,
    /// Sums of each group on each CPU since the self-test.
    pub sums: Vec<Row>,
}

impl Status {
    /// Of this process.
    pub(crate) fn new(
        backend: Backend,
        regulated: &Regulated,
        accounted: Duration,
        seconds: f64,
        sums: Vec<Row>,
    ) -> Result<Status, ServiceError> {
        Ok(Status {
            schema: SCHEMA,
            report: "guard-status".to_owned(),
            process: ProcessId::of(std::process::id()).ok_or(ServiceError::NoProc)?,
            written_ns: now_ns(),
            accounted_ns: accounted.as_nanos() as u64,
            seconds,
            backend,
            regulated: regulated.clone(),
            sums,
        })
    }

    /// Reads the running regulator's status; `None` if there is none.
    ///
    /// # Errors
    /// [`ServiceError::File`], and [`ServiceError::Silent`] for a regulator that has not reported for 10 s.
    pub fn read() -> Result<Option<Status>, ServiceError> {
        let path = Path::new(STATUS_FILE);
        let failed = |cause| ServiceError::File { path: path.to_owned(), done: "read", cause };
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
        let file = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(failed)?,
        };
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
        let status: Status = serde_json::from_str(&text).map_err(|error| failed(error.into()))?;
        if status.schema != SCHEMA || !status.process.is_alive() {
            return Ok(None);
        }
        if now_ns().saturating_sub(status.written_ns) > FRESH_NS {
            return Err(ServiceError::Silent { process: status.process.pid });
        }
        Ok(Some(status))
    }

    /// Returns whether both are of the same regulator.
    pub fn is_of_the_same(&self, other: &Status) -> bool {
        self.process == other.process
    }

    /// Gives the verdict: whether every period so far was within its bound.
    pub fn verdict(&self) -> Verdict {
        Verdict::of(self.sums.iter().any(|row| row.sums.broken > 0))
    }

    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).expect("a status is plain data")
    }
}

/// The file, as long as the regulator runs.
pub(crate) struct StatusFile(());

impl StatusFile {
    /// Writes it for the first time.
    pub(crate) fn new(text: &str) -> Result<StatusFile, ServiceError> {
        let file = StatusFile(());
        file.write(text)?;
        Ok(file)
    }

    /// Replaces it as a whole.
    pub(crate) fn write(&self, text: &str) -> Result<(), ServiceError> {
        // A leftover of a killed regulator; the lock excludes any other.
        let _ = std::fs::remove_file(BESIDE);
        let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(BESIDE);
        let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
        written.and_then(|()| std::fs::rename(BESIDE, STATUS_FILE)).map_err(|cause| ServiceError::File {
            path: STATUS_FILE.into(),
            done: "written",
            cause,
        })
    }
}

impl Drop for StatusFile {
    fn drop(&mut self) {
        // Readers pass over one that is left.
        let _ = std::fs::remove_file(STATUS_FILE);
    }
}
