//! Reports on a running regulator, from its start to its end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use memtint_regulator::{Backend, Incident, Monitor, Reading, Regulator, Snapshot, Tested, Traffic};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::ServiceError;
use crate::report::{Regulated, Row, SCHEMA};
use crate::status::{Status, StatusFile, Verdict};

/// Time between two writes of the status. Each `memtint run` waits for one when its program has ended.
const STATUS_INTERVAL: Duration = Duration::from_millis(200);
/// A signal is noticed within this time.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);
/// Shortest time between two reports.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// One report; each line of JSON is one of these.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "report")]
pub enum Line<'a> {
    /// Regulation has started, and passed its self-test.
    #[serde(rename = "guard-started")]
    Started {
        /// Version of the form of this report.
        schema: u32,
        /// What is regulated.
        #[serde(flatten)]
        regulated: &'a Regulated,
        /// Where it is decided: never `auto`.
        backend: Backend,
        /// Why not in the kernel, if that was tried.
        not_in_kernel: Option<&'a str>,
        /// What the self-test saw.
        self_test: &'a [Tested],
    },
    /// What each group has done since the last of these.
    #[serde(rename = "guard-interval")]
    Interval {
        /// Version of the form of this report.
        schema: u32,
        /// Since the start.
        seconds: f64,
        /// Each group on each CPU.
        groups: &'a [Row],
        /// What resctrl has monitored in the interval, where it does.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        monitored: Vec<TrafficRow>,
        /// Time in which it was monitored.
        #[serde(skip)]
        monitored_time: Duration,
    },
    /// A period does not show that its bound was kept.
    #[serde(rename = "guard-incident")]
    Incident {
        /// Version of the form of this report.
        schema: u32,
        /// Name of the group.
        name: &'a str,
        /// What happened.
        #[serde(flatten)]
        incident: Incident,
        /// Its cause, in words.
        reason: String,
    },
    /// Regulation has ended.
    #[serde(rename = "guard-ended")]
    Ended {
        /// Version of the form of this report.
        schema: u32,
        /// Whether all periods were within their bounds.
        verdict: Verdict,
        /// Since the start.
        seconds: f64,
        /// Each group on each CPU, since the start.
        groups: &'a [Row],
        /// What regulation took of each CPU.
        regulators: Vec<WorkRow>,
    },
}

/// Memory traffic of all tasks through an L3 cache.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TrafficRow {
    /// The cache's domain in resctrl.
    pub l3: String,
    /// From and to all nodes; null where it is not known.
    pub total_bytes: Option<u64>,
    /// From and to the cache's node; null where it is not known.
    pub local_bytes: Option<u64>,
}

/// The regulator of a CPU.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WorkRow {
    /// The CPU.
    pub cpu: usize,
    /// Of one CPU's time.
    pub busy_percent: f64,
    /// Of one CPU's time.
    pub occupied_percent: f64,
}

impl WorkRow {
    fn new(
        &(cpu, total_before, occupied_before): &(usize, Duration, Duration),
        &(_, total, occupied): &(usize, Duration, Duration),
        seconds: f64,
    ) -> WorkRow {
        let percent = |time: Duration| time.as_secs_f64() / seconds.max(1e-9) * 100.0;
        WorkRow {
            cpu,
            busy_percent: percent(total.saturating_sub(total_before)),
            occupied_percent: percent(occupied.saturating_sub(occupied_before)),
        }
    }
}

fn traffic_rows(before: &Reading, after: &Reading) -> Vec<TrafficRow> {
    let row = |(l3, Traffic { total_bytes, local_bytes })| TrafficRow { l3, total_bytes, local_bytes };
    after.since(before).into_iter().map(row).collect()
}

/// Something that goes wrong beside the regulation.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// A thread or the guardian has ended.
    #[error("regulation has ended by itself: the last incident has the cause, or the guardian was ended")]
    EndedByItself,
    /// The status cannot be written; reported once.
    #[error("{0}; regulation goes on, and memtint run cannot tell whether budgets are kept")]
    Status(ServiceError),
}

/// Receives the reports.
pub trait Watcher {
    /// Why reports cannot be received.
    type Error: From<ServiceError>;

    /// Takes a report.
    ///
    /// # Errors
    /// Any; regulation ends then.
    fn line(&mut self, line: &Line<'_>) -> Result<(), Self::Error>;

    /// Takes a problem.
    fn problem(&mut self, problem: &Problem);

    /// Takes the status, several times a second.
    fn status(&mut self, text: String);

    /// Regulation has started.
    fn ready(&mut self);

    /// Regulation is about to end.
    fn stopping(&mut self);
}

/// How to watch a regulator.
#[derive(Debug)]
pub struct Watch {
    /// What is regulated.
    pub regulated: Regulated,
    /// Time between two reports, at least 10 ms.
    pub interval: Duration,
    /// When to stop; `None`: when told.
    pub duration: Option<Duration>,
}

impl Watch {
    /// Reports on a regulator until `stop` is true, and ends it. Returns the verdict: whether every period was within
    /// its bound.
    ///
    /// # Errors
    /// Those of the watcher; [`ServiceError::File`] when the status cannot be written at the start.
    pub fn run<W: Watcher>(
        self,
        mut regulator: Regulator,
        tested: &[Tested],
        stop: &AtomicBool,
        watcher: &mut W,
    ) -> Result<Verdict, W::Error> {
        regulator.reset_maxima();
        let Watch { regulated, interval, duration } = self;
        let monitor = Monitor::find();
        let monitored = || monitor.as_ref().map(Monitor::read).unwrap_or_default();
        let (begin, before, work) = (Instant::now(), regulator.snapshot(), regulator.work());
        let backend = regulator.backend();
        let status = |regulator: &Regulator| {
            // Read this time before the sums.
            let accounted = regulator.accounted();
            let sums = regulated.rows(&before, &regulator.snapshot());
            let seconds = begin.elapsed().as_secs_f64();
            Status::new(backend, &regulated, accounted, seconds, sums).map(|status| status.text())
        };
        let file = StatusFile::new(&status(&regulator)?)?;
        let not_in_kernel = regulator.not_in_kernel();
        watcher.line(&Line::Started {
            schema: SCHEMA,
            regulated: &regulated,
            backend,
            not_in_kernel,
            self_test: tested,
        })?;
        watcher.ready();
        let interval = interval.max(INTERVAL_MIN);
        let until = duration.map(|duration| begin + duration);
        let (mut next, mut last, mut broken) = (begin + interval, before.clone(), false);
        let (mut traffic_before, mut told) = (monitored(), begin);
        let (mut next_status, mut is_written) = (begin, true);
        while !stop.load(Ordering::Acquire) && until.is_none_or(|until| Instant::now() < until) {
            let wait = next.min(next_status).min(until.unwrap_or(next)).saturating_duration_since(Instant::now());
            regulator.wait(wait.min(SIGNAL_INTERVAL));
            broken |= tell_incidents(&regulator, &regulated, watcher)?;
            if regulator.has_ended() {
                watcher.problem(&Problem::EndedByItself);
                broken = true;
                break;
            }
            if Instant::now() >= next_status {
                let text = status(&regulator)?;
                let was_written = std::mem::replace(&mut is_written, true);
                if let Err(failure) = file.write(&text) {
                    is_written = false;
                    if was_written {
                        watcher.problem(&Problem::Status(failure));
                    }
                }
                watcher.status(text);
                next_status = Instant::now() + STATUS_INTERVAL;
            }
            if Instant::now() >= next {
                let (now, traffic, time) = (regulator.snapshot(), monitored(), Instant::now());
                watcher.line(&Line::Interval {
                    schema: SCHEMA,
                    seconds: begin.elapsed().as_secs_f64(),
                    groups: &regulated.rows(&last, &now),
                    monitored: traffic_rows(&traffic_before, &traffic),
                    monitored_time: time - told,
                })?;
                (last, next) = (now, next + interval);
                (traffic_before, told) = (traffic, time);
            }
        }
        watcher.stopping();
        regulator.finish();
        broken |= tell_incidents(&regulator, &regulated, watcher)?;
        let (after, seconds): (Vec<Snapshot>, f64) = (regulator.snapshot(), begin.elapsed().as_secs_f64());
        let groups = regulated.rows(&before, &after);
        broken |= groups.iter().any(|row| row.sums.broken > 0);
        let works = regulator.work();
        let regulators = work.iter().zip(&works).map(|(before, after)| WorkRow::new(before, after, seconds)).collect();
        drop((file, regulator));
        let verdict = Verdict::of(broken);
        watcher.line(&Line::Ended { schema: SCHEMA, verdict, seconds, groups: &groups, regulators })?;
        Ok(verdict)
    }
}

/// Reports incidents; returns whether there were any.
fn tell_incidents<W: Watcher>(regulator: &Regulator, regulated: &Regulated, watcher: &mut W) -> Result<bool, W::Error> {
    let incidents = regulator.take_incidents();
    for &incident in &incidents {
        let name = regulated.groups[incident.group].name.as_str();
        let reason = incident.cause.to_string();
        watcher.line(&Line::Incident { schema: SCHEMA, name, incident, reason })?;
    }
    Ok(!incidents.is_empty())
}
