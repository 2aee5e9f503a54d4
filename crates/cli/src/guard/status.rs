//! What a running `memtint guard` tells other programs of this machine: a file in the folder that only root can enter.

use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::report::{Regulated, Row, text_of};
use crate::Ending;
use crate::output::{Failure, Format, print, print_json};
use crate::registry::ProcessId;

/// Beside the lock of the regulator, which makes the folder.
const FILE: &str = "/run/memtint/guard.status";
const BESIDE: &str = "/run/memtint/.guard.status";
/// No regulator writes a larger one.
const FILE_BYTES_MAX: u64 = 16 << 20;
const SCHEMA: u32 = 1;
/// Older than this, it says nothing of the present. A regulator writes it several times a second.
const FRESH_NS: u64 = 10_000_000_000;

/// A regulator at a time.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Status {
    schema: u32,
    report: String,
    process: ProcessId,
    /// CLOCK_MONOTONIC; so is the next.
    written_ns: u64,
    /// Sums have all periods that had ended by then.
    pub(crate) accounted_ns: u64,
    /// Since the self-test.
    pub(crate) seconds: f64,
    /// Where it is decided: bpf, threads or kernel.
    pub(crate) backend: String,
    #[serde(flatten)]
    pub(crate) regulated: Regulated,
    /// Sums of each group on each CPU since the self-test.
    pub(crate) sums: Vec<Row>,
}

impl Status {
    /// Of this process.
    pub(super) fn new(
        (backend, regulated): (&str, &Regulated),
        accounted: Duration,
        seconds: f64,
        sums: Vec<Row>,
    ) -> Result<Status, Failure> {
        let gone = || Failure::Sentence("/proc is not mounted".to_owned());
        Ok(Status {
            schema: SCHEMA,
            report: "guard-status".to_owned(),
            process: ProcessId::of(std::process::id()).ok_or_else(gone)?,
            written_ns: now_ns(),
            accounted_ns: accounted.as_nanos() as u64,
            seconds,
            backend: backend.to_owned(),
            regulated: regulated.clone(),
            sums,
        })
    }

    /// The running regulator's; `None` if there is none.
    ///
    /// # Errors
    /// Also a regulator that has not reported for 10 s.
    pub(crate) fn read() -> Result<Option<Status>, Failure> {
        let path = Path::new(FILE);
        let failed = |cause| Failure::File { path: path.to_owned(), done: "read", cause };
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
            let pid = status.process.pid;
            return Err(Failure::Sentence(format!(
                "the running memtint guard (process {pid}) has not reported for 10 s"
            )));
        }
        Ok(Some(status))
    }

    /// Whether it is of the same regulator.
    pub(crate) fn is_of_the_same(&self, other: &Status) -> bool {
        self.process == other.process
    }

    /// Process that regulates.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid
    }

    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).expect("a status is plain data")
    }
}

/// Where it is decided, in words.
pub(super) fn decided(backend: &str) -> &'static str {
    match backend {
        "bpf" => "in the kernel, by BPF programs",
        "kernel" => "in the kernel, by the module memtint_guard",
        _ => "in threads",
    }
}

/// CLOCK_MONOTONIC.
pub(super) fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to a structure of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The file, as long as the regulator runs.
pub(super) struct StatusFile(());

impl StatusFile {
    /// Writes it for the first time.
    pub(super) fn new(text: &str) -> Result<StatusFile, Failure> {
        let file = StatusFile(());
        file.write(text)?;
        Ok(file)
    }

    /// Replaces it as a whole.
    pub(super) fn write(&self, text: &str) -> Result<(), Failure> {
        // What a killed regulator has left; the lock keeps others away.
        let _ = std::fs::remove_file(BESIDE);
        let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(BESIDE);
        let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
        written.and_then(|()| std::fs::rename(BESIDE, FILE)).map_err(|cause| Failure::File {
            path: FILE.into(),
            done: "written",
            cause,
        })
    }
}

impl Drop for StatusFile {
    fn drop(&mut self) {
        // Readers pass over one that is left.
        let _ = std::fs::remove_file(FILE);
    }
}

/// `memtint guard status`.
pub(super) fn main(format: Format) -> Ending {
    let Some(status) = Status::read()? else {
        return Err(Failure::Sentence("no memtint guard runs".to_owned()));
    };
    let broken = status.sums.iter().any(|row| row.sums.broken > 0);
    match format {
        Format::Json => print_json(&status)?,
        Format::Text => print(&format!(
            "{}process {}, for {:.1} s, decided {}\n\n{}so far: {}\n",
            status.regulated.text(),
            status.pid(),
            status.seconds,
            decided(&status.backend),
            text_of(&status.sums),
            if broken { "broken" } else { "kept" }
        ))?,
    }
    Ok(ExitCode::from(u8::from(broken)))
}
