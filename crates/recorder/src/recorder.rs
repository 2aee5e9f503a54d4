//! Runs QEMU and drains its rings.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use memtint_workload::trace::{Sampling, TraceEnding};
use memtint_workload::{Kind, Reference, TraceHeader, TraceWriter};

use crate::program::{Program, qemu};
use crate::sys::{Mapping, Signals, from_keyboard, memory_file, of_child, path_of, send};
use crate::{RecordError, wire};

/// What QEMU loads, built from `plugin`.
const PLUGIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/plugin.so"));
/// How long the recorder sleeps when all rings are empty: they hold more than a program fills in that time.
const IDLE: Duration = Duration::from_micros(200);
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// What to record, and into which file.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// The program: a path, or a name that is searched for in PATH.
    pub program: OsString,
    /// Its arguments, without its name.
    pub arguments: Vec<OsString>,
    /// The trace file.
    pub output: PathBuf,
    /// Windows; `None` to record everything. A window begins and ends at the first translated block at or after its
    /// nominal position.
    pub sampling: Option<Sampling>,
    /// References after which no more are recorded; the program runs on to its end.
    pub limit: Option<u64>,
    /// Instruction fetches as well: one reference of 64 bytes for each line of code that is entered.
    pub fetches: bool,
}

impl RecordOptions {
    /// Records everything of a program without arguments.
    #[must_use]
    pub fn new(program: &OsStr, output: &Path) -> RecordOptions {
        RecordOptions {
            program: program.to_owned(),
            arguments: Vec::new(),
            output: output.to_owned(),
            sampling: None,
            limit: None,
            fetches: false,
        }
    }
}

/// Progress of a recording.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// References recorded so far.
    pub references: u64,
    /// Instructions executed so far by the threads that are alive.
    pub instructions: u64,
    /// Bytes of the file so far.
    pub bytes: u64,
    /// Threads so far.
    pub threads: u32,
}

/// A finished recording.
#[derive(Clone, Debug)]
pub struct Recording {
    /// How the program ended.
    pub status: ExitStatus,
    /// The ending of the trace file.
    pub ending: TraceEnding,
}

/// Runs a program and records it. Standard streams, directory and environment are inherited from the caller.
///
/// `progress` is called about once a second. The recorder ignores SIGINT and SIGQUIT while the program runs, since the
/// keyboard sends them to the program as well; it forwards SIGTERM and SIGHUP to the program. The file is completed in
/// all these cases. On a [`RecordError`] there is no file. A program that fails is not an error: see
/// [`Recording::status`].
pub fn record(options: &RecordOptions, progress: impl FnMut(&Progress)) -> Result<Recording, RecordError> {
    check(options.sampling)?;
    let (qemu, program) = (qemu()?, Program::find(&options.program)?);
    let writer = TraceWriter::create(&options.output, &header(options))?;
    let mut plugin = memory_file(c"memtint-plugin").map_err(system("the plugin"))?;
    plugin.write_all(PLUGIN).map_err(system("the plugin"))?;
    let ring = memory_file(c"memtint-ring").map_err(system("memory shared with the program"))?;
    let mapping = Mapping::new(&ring).map_err(system("memory shared with the program"))?;
    ask(&mapping, options);
    let signals = Signals::keep().map_err(system("signals"))?;
    let mut command = Command::new(&qemu);
    command.arg("-plugin").arg(format!("file={},ring={}", path_of(&plugin), path_of(&ring)));
    command.arg("-0").arg(&program.name).arg(&program.file).args(&program.before).args(&options.arguments);
    signals.restore_in(&mut command);
    let child = command.spawn().map_err(system("qemu-x86_64"))?;
    let mut recorder = Recorder { mapping, writer, limit: options.limit.unwrap_or(u64::MAX), references: 0 };
    let status = recorder.follow(child, &signals, progress)?;
    if recorder.mapping.shared().attached.load(Acquire) == 0 {
        return Err(RecordError::NotLoaded { qemu, status: status.to_string() });
    }
    recorder.finish(status)
}

fn system(what: &'static str) -> impl Fn(std::io::Error) -> RecordError {
    move |cause| RecordError::System { what, cause }
}

fn check(sampling: Option<Sampling>) -> Result<(), RecordError> {
    let Some(Sampling { sample_instructions: sample, period_instructions: period, .. }) = sampling else {
        return Ok(());
    };
    let refuse = |field, found, accepted| Err(RecordError::Sampling { field, found, accepted });
    match period {
        _ if sample == 0 => refuse("sample_instructions", 0, "1 or more".to_owned()),
        Some(period) if period < sample => {
            refuse("period_instructions", period, format!("a window, {sample}, or more"))
        }
        _ => Ok(()),
    }
}

fn header(options: &RecordOptions) -> TraceHeader {
    let text = |text: &OsString| text.to_string_lossy().into_owned();
    TraceHeader {
        schema: 1,
        program: text(&options.program),
        arguments: options.arguments.iter().map(text).collect(),
        machine: "x86-64, the processor that qemu-x86_64 shows to programs".to_owned(),
        recorder: concat!("memtint ", env!("CARGO_PKG_VERSION"), " with QEMU user mode").to_owned(),
        sampling: options.sampling,
        fetches: options.fetches,
        notes: vec!["children that the program forks are not recorded".to_owned()],
    }
}

fn ask(mapping: &Mapping, options: &RecordOptions) {
    let shared = mapping.shared();
    let sampling = options.sampling;
    shared.recorder.store(std::process::id(), Relaxed);
    shared.fetches.store(u32::from(options.fetches), Relaxed);
    shared.skip.store(sampling.map_or(0, |sampling| sampling.skip_instructions), Relaxed);
    shared.sample.store(sampling.map_or(u64::MAX, |sampling| sampling.sample_instructions), Relaxed);
    let period = sampling.and_then(|sampling| sampling.period_instructions);
    shared.period.store(period.unwrap_or(u64::MAX), Relaxed);
    shared.magic.store(wire::MAGIC, Release);
}

struct Recorder {
    mapping: Mapping,
    writer: TraceWriter,
    limit: u64,
    references: u64,
}

impl Recorder {
    /// Drains the rings until the program has ended.
    fn follow(
        &mut self,
        mut child: Child,
        signals: &Signals,
        mut progress: impl FnMut(&Progress),
    ) -> Result<ExitStatus, RecordError> {
        let mut told = Instant::now();
        let mut failure = None;
        loop {
            let moved = if failure.is_none() {
                self.drain().unwrap_or_else(|error| {
                    // The program runs on to its end, unrecorded.
                    self.mapping.shared().stop.store(1, Relaxed);
                    failure = Some(error);
                    0
                })
            } else {
                self.discard()
            };
            if told.elapsed() >= PROGRESS_EVERY {
                told = Instant::now();
                progress(&self.progress());
            }
            if moved > 0 {
                continue;
            }
            match signals.wait(IDLE) {
                Some(signal) if !from_keyboard(signal) && !of_child(signal) => send(child.id(), signal),
                _ => {}
            }
            if let Some(status) = child.try_wait().map_err(system("waiting for the program"))? {
                // The last entries are complete now.
                while failure.is_none() && self.drain()? > 0 {}
                return failure.map_or(Ok(status), Err);
            }
        }
    }

    fn progress(&self) -> Progress {
        let live = self.mapping.slots().iter().filter(|slot| slot.state.load(Relaxed) != wire::FREE);
        Progress {
            references: self.references,
            instructions: live.map(|slot| slot.position.load(Relaxed)).sum(),
            bytes: self.writer.bytes(),
            threads: self.mapping.shared().threads.load(Relaxed),
        }
    }

    /// Reads the entries in the rings and returns their number.
    fn drain(&mut self) -> Result<u64, RecordError> {
        let mut moved = 0;
        let threads = self.mapping.shared().threads.load(Acquire) as usize;
        // Slots are allocated in order: slots beyond the number of threads so far are untouched.
        for index in 0..threads.min(wire::SLOTS) {
            let slot = &self.mapping.slots()[index];
            let state = slot.state.load(Acquire);
            if state == wire::FREE {
                continue;
            }
            let (head, tail) = (slot.head.0.load(Acquire), slot.tail.0.load(Relaxed));
            let stream = slot.stream.load(Acquire);
            for at in tail..head {
                let entry = &slot.ring.0[at as usize % wire::RING];
                let (first, second) = (entry[0].load(Relaxed), entry[1].load(Relaxed));
                take(&mut self.writer, &mut self.references, self.limit, stream, first, second)?;
            }
            slot.tail.0.store(head, Release);
            moved += head - tail;
            if state == wire::ENDED && slot.head.0.load(Acquire) == head {
                self.writer.executed(stream, slot.position.load(Relaxed));
                slot.state.store(wire::FREE, Release);
            }
        }
        if self.references >= self.limit {
            self.mapping.shared().stop.store(1, Relaxed);
        }
        Ok(moved)
    }

    /// Discards the entries in the rings, so that no thread waits for room; returns their number.
    fn discard(&self) -> u64 {
        let empty = |slot: &wire::Slot| {
            let head = slot.head.0.load(Acquire);
            head - slot.tail.0.swap(head, Release)
        };
        let used = self.mapping.slots().iter().filter(|slot| slot.state.load(Relaxed) != wire::FREE);
        used.map(empty).sum()
    }

    fn finish(mut self, status: ExitStatus) -> Result<Recording, RecordError> {
        let shared = self.mapping.shared();
        let mut notes = Vec::new();
        if shared.exited.load(Acquire) == 0 {
            notes.push(match (status.signal(), shared.execs.load(Relaxed)) {
                (Some(signal), _) => format!("the program was ended by signal {signal}"),
                (None, 0) => "the program ended without telling".to_owned(),
                _ => "the program replaced itself (execve); the new program is not recorded".to_owned(),
            });
        }
        let count = |number: u32, what: &str| (number > 0).then(|| format!("{number} {what}"));
        notes.extend(count(shared.forks.load(Relaxed), "calls to start a child; children are not recorded"));
        notes.extend(count(shared.lost_threads.load(Relaxed), "threads not recorded: too many at once"));
        if self.references >= self.limit {
            notes.push(format!("recording stopped at its limit of {} references", self.limit));
        }
        for slot in self.mapping.slots().iter().filter(|slot| slot.state.load(Acquire) != wire::FREE) {
            self.writer.executed(slot.stream.load(Relaxed), slot.position.load(Relaxed));
        }
        let exit = match (status.code(), status.signal()) {
            (Some(code), _) => Some(format!("status {code}")),
            (None, signal) => signal.map(|signal| format!("signal {signal}")),
        };
        let ending = self.writer.finish(exit, notes)?;
        Ok(Recording { status, ending })
    }
}

/// Writes one entry to the file.
fn take(
    writer: &mut TraceWriter,
    references: &mut u64,
    limit: u64,
    stream: u32,
    first: u64,
    second: u64,
) -> Result<(), RecordError> {
    let kind = match second >> wire::KIND_SHIFT & 3 {
        0 => Kind::Read,
        1 => Kind::Write,
        2 => Kind::Fetch,
        _ if *references >= limit => return Ok(()),
        _ if second == wire::WINDOW_BEGINS => return Ok(writer.window(stream, first)?),
        _ => return Ok(writer.end_window(stream, first)?),
    };
    if *references >= limit {
        return Ok(());
    }
    *references += 1;
    let reference = Reference {
        addr: first,
        gap: second as u32,
        bytes: (second >> wire::BYTES_SHIFT) as u8,
        kind,
        depends: second & wire::DEPENDS != 0,
        shares: second & wire::SHARES != 0,
    };
    Ok(writer.push(stream, &reference)?)
}
