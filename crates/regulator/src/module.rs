//! The kernel module that regulates whole CPUs (`kernel/modules/memguard`): its configuration, its readings, and the thread that copies
//! its sums and reports its incidents.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::str::SplitWhitespace;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use memtint_guard::{Kind, Reservation};

use crate::cpu::Work;
use crate::error::RegulatorError;
use crate::promise::{Cause, Incident};
use crate::seat::Common;
use crate::settings::Settings;
use crate::sys;

/// The module's device.
const DEVICE: &str = "/dev/memtint-guard";
/// Longest reading that is accepted.
const READING_BYTES_MAX: usize = 4 << 20;
/// Time between two readings.
const INTERVAL: Duration = Duration::from_millis(50);

/// The module, regulating from [`Module::start`] until this is dropped, or the process ends.
#[derive(Debug)]
pub(crate) struct Module {
    file: File,
}

/// A reading of the module's sums.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The brake holds a CPU above the fair server and all deadlines.
    is_above_all: bool,
    /// Why the last write was refused.
    refused: Option<String>,
    /// The period that the clock is in.
    pub(crate) period: u32,
    /// The words of each core, in the order of [`Settings::seats`], and its latest broken period.
    cores: Vec<CoreReading>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct CoreReading {
    numbers: BTreeMap<String, u64>,
    /// What it was broken by, period, events used, events allowed.
    latest_broken: (String, u32, u64, u64),
}

impl Module {
    /// Opens the device.
    ///
    /// # Errors
    /// [`RegulatorError::Module`], also if another process has it, or if the module cannot hold CPUs above all else.
    pub(crate) fn open() -> Result<Module, RegulatorError> {
        let opened = File::options().read(true).write(true).open(DEVICE);
        let file = opened.map_err(|cause| {
            failed(match cause.kind() {
                io::ErrorKind::NotFound => {
                    "no such device: the module memtint_guard is not loaded (kernel/modules/memguard/README.md)"
                        .to_owned()
                }
                io::ErrorKind::ResourceBusy => "another process regulates by it".to_owned(),
                _ => cause.to_string(),
            })
        })?;
        let module = Module { file };
        if !module.read()?.is_above_all {
            return Err(failed(
                "this kernel was built without CONFIG_CPU_FREQ_GOV_SCHEDUTIL, and lets other tasks run on a CPU that is held".to_owned(),
            ));
        }
        Ok(module)
    }

    /// Starts to regulate. The settings have been checked.
    pub(crate) fn start(&self, settings: &Settings) -> Result<(), RegulatorError> {
        self.write(&request(settings))
    }

    /// Another reservation for a group, in force soon.
    pub(crate) fn reserve(&self, group: usize, reservation: Reservation) -> Result<(), RegulatorError> {
        self.write(&format!("reserve {group} {} {}\n", reservation.budget, kind_name(reservation.kind)))
    }

    /// Forgets the greatest values.
    pub(crate) fn forget(&self) -> Result<(), RegulatorError> {
        self.write("forget\n")
    }

    fn write(&self, text: &str) -> Result<(), RegulatorError> {
        (&self.file).write_all(text.as_bytes()).map_err(|cause| {
            let refused = self.read().ok().and_then(|reading| reading.refused);
            failed(refused.map_or_else(|| cause.to_string(), |reason| format!("{reason} ({cause})")))
        })
    }

    /// Reads its counts so far.
    pub(crate) fn read(&self) -> Result<Reading, RegulatorError> {
        let mut text = Vec::new();
        let mut piece = [0; 16 << 10];
        while text.len() < READING_BYTES_MAX {
            match self.file.read_at(&mut piece, text.len() as u64) {
                Ok(0) => break,
                Ok(length) => text.extend_from_slice(&piece[..length]),
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(failed(cause.to_string())),
            }
        }
        let text = String::from_utf8_lossy(&text);
        reading(&text).ok_or_else(|| failed(format!("it has answered {text:?}")))
    }

    /// Waits for a broken promise, at most for `time`.
    fn wait(&self, time: Duration) {
        let mut fds = [libc::pollfd { fd: self.file.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
        // Too early is as good as in time.
        let _ = sys::wait_readable(&mut fds, Some(time));
    }
}

fn failed(reason: String) -> RegulatorError {
    RegulatorError::Module { device: DEVICE, reason }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Hard => "hard",
        Kind::Soft => "soft",
    }
}

/// The configuration as the module reads it (`kernel/modules/memguard/README.md`).
pub(crate) fn request(settings: &Settings) -> String {
    let (sensor, config) = (settings.sensor.code(), settings.config());
    let [first, second, third] = sensor.config;
    let whose = if sensor.excludes_kernel { "user" } else { "all" };
    let mut text = format!(
        "memtint-guard 1\nperiod {}\nevent {whose} {:x} {first:x} {second:x} {third:x}\nskid {}\nstep {}\nsharing none\n",
        settings.period.as_nanos(),
        sensor.kind,
        settings.sensor.skid,
        config.reclaim_step
    );
    for group in &settings.groups {
        let cpus: Vec<String> = group.cpus.iter().map(usize::to_string).collect();
        // Writing into text cannot fail.
        let _ = writeln!(text, "group {} {} {} {}", group.budget, kind_name(group.kind), group.quantum, cpus.join(" "));
    }
    text + "end\n"
}

fn reading(text: &str) -> Option<Reading> {
    let mut lines = text.lines();
    if lines.next() != Some("memtint-guard 1") {
        return None;
    }
    let mut reading = Reading::default();
    for line in lines {
        let (word, rest) = line.split_once(' ')?;
        match word {
            "brake" => reading.is_above_all = rest == "deadline",
            "refused" => reading.refused = Some(rest.to_owned()),
            "period" => reading.period = rest.parse().ok()?,
            "core" => reading.cores.push(core_reading(line.split_whitespace())?),
            _ => {}
        }
    }
    Some(reading)
}

fn core_reading(mut words: SplitWhitespace<'_>) -> Option<CoreReading> {
    let mut core = CoreReading::default();
    while let Some(word) = words.next() {
        if word == "latest_broken" {
            let mut next = || words.next();
            core.latest_broken =
                (next()?.to_owned(), next()?.parse().ok()?, next()?.parse().ok()?, next()?.parse().ok()?);
        } else {
            core.numbers.insert(word.to_owned(), words.next()?.parse().ok()?);
        }
    }
    Some(core)
}

impl CoreReading {
    /// 0 if the module has no such number.
    fn number(&self, word: &str) -> u64 {
        self.numbers.get(word).copied().unwrap_or(0)
    }
}

/// The cause of a broken period, in the module's words.
const CAUSES: [(&str, Cause); 4] =
    [("beyond", Cause::Skid), ("counter", Cause::CounterError), ("late", Cause::Late), ("offline", Cause::CpuOffline)];

/// The thread that copies the module's sums and reports its incidents.
pub(crate) struct Follower {
    pub(crate) module: Arc<Module>,
    pub(crate) common: Arc<Common>,
    pub(crate) seats: Vec<(usize, usize)>,
    /// By CPU.
    pub(crate) works: Vec<(usize, Arc<Work>)>,
}

impl Follower {
    /// Until `stop` is set, and once more.
    pub(crate) fn run(self) {
        let mut reported = vec![[0; CAUSES.len()]; self.seats.len()];
        loop {
            let is_last = self.common.stop.load(Ordering::Acquire);
            let began_ns = sys::now_ns();
            let Ok(reading) = self.module.read() else {
                self.common.stop.store(true, Ordering::Release);
                sys::notify(std::os::fd::AsFd::as_fd(&self.common.alarm));
                return;
            };
            for (index, core) in reading.cores.iter().enumerate().take(self.seats.len()) {
                self.take_over(index, core);
                self.report(index, core, &mut reported[index]);
            }
            for (_, work) in &self.works {
                work.looked_ns.store(began_ns, Ordering::Release);
                work.looks.fetch_add(1, Ordering::Release);
            }
            if is_last {
                return;
            }
            self.module.wait(INTERVAL);
        }
    }

    fn take_over(&self, index: usize, core: &CoreReading) {
        let sums = &self.common.sums[index];
        let words: [(&AtomicU64, &str); 15] = [
            (&sums.periods, "periods"),
            (&sums.used, "used"),
            (&sums.used_max, "used_max"),
            (&sums.beyond_max, "beyond_max"),
            (&sums.granted, "granted"),
            (&sums.donated, "donated"),
            (&sums.returned, "returned"),
            (&sums.reclaimed, "reclaimed"),
            (&sums.throttled, "throttled_periods"),
            (&sums.throttled_ns, "throttled_ns"),
            (&sums.underruns, "underruns"),
            (&sums.shortfall, "shortfall"),
            (&sums.reclaims, "reclaims"),
            (&self.works[index].1.total_ns, "timer_ns"),
            (&self.works[index].1.occupied_ns, "throttled_ns"),
        ];
        for (sum, word) in words {
            sum.store(core.number(word), Ordering::Relaxed);
        }
        self.works[index].1.total_ns.fetch_add(core.number("overflow_ns"), Ordering::Relaxed);
    }

    /// An incident for each broken period; the module has the numbers of the latest only.
    fn report(&self, index: usize, core: &CoreReading, reported: &mut [u64; CAUSES.len()]) {
        for ((name, cause), reported) in CAUSES.iter().zip(reported) {
            let broken = core.number(&format!("broken_{name}"));
            let (latest, period, used, allowed) = &core.latest_broken;
            for left in (0..broken.saturating_sub(*reported)).rev() {
                let incident = Incident::without_count(*period, self.seats[index], *cause);
                let is_latest = left == 0 && latest == name;
                let (used, allowed) = if is_latest { (*used, *allowed) } else { (0, 0) };
                self.common.report(index, Incident { used, allowed, ..incident });
            }
            *reported = broken;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sensor::Sensor;
    use crate::settings::{Backend, GroupSettings, Place};

    #[test]
    fn a_request_has_all_settings() {
        let group = |name: &str, cpus: &[usize], budget, kind| GroupSettings {
            name: name.to_owned(),
            place: Place::Cpus,
            cpus: cpus.to_vec(),
            budget,
            kind,
            quantum: 25,
        };
        let settings = Settings {
            period: Duration::from_millis(1),
            sensor: Sensor { skid: 5, excludes_kernel: true, ..Sensor::find("rabc").unwrap() },
            groups: vec![group("CPU 2", &[2], 100, Kind::Hard), group("rest", &[0, 3], 50, Kind::Soft)],
            guaranteed: None,
            peak: None,
            backend: Backend::Kernel,
        };
        assert_eq!(
            request(&settings),
            "memtint-guard 1\nperiod 1000000\nevent user 4 abc 0 0\nskid 5\nstep 25\nsharing none\n\
             group 100 hard 25 2\ngroup 50 soft 25 0 3\nend\n"
        );
    }

    #[test]
    fn a_reading_has_the_numbers_of_each_core_and_a_torn_one_is_none() {
        let text = "memtint-guard 1\nbrake deadline\nrunning 1\nrefused line 3: the skid is not right\nperiod 12\n\
                    core 0 group 0 cpu 2 periods 11 used 99 broken_late 1 latest_broken late 7 3 4\n";
        let read = reading(text).unwrap();
        assert!(read.is_above_all);
        assert_eq!((read.period, read.refused.as_deref()), (12, Some("line 3: the skid is not right")));
        let core = &read.cores[0];
        assert_eq!((core.number("cpu"), core.number("used"), core.number("nothing")), (2, 99, 0));
        assert_eq!(core.latest_broken, ("late".to_owned(), 7, 3, 4));
        for torn in ["", "memtint-guard 2\n", "memtint-guard 1\nperiod\n", "memtint-guard 1\ncore 0 group\n"] {
            assert_eq!(reading(torn), None, "{torn:?}");
        }
    }
}
