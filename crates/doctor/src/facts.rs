//! Facts about a machine: its files, and the outcome of trials.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use memtint_detect::{Candidate, Machine, candidates};
use memtint_map::Platform;
use memtint_regulator::Sensor;
use memtint_units::PAGE_SIZE;

/// Longest file that is read; a kernel configuration has some 300 KiB.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Facts about a machine, from which [`crate::Report::of`] draws its conclusions.
#[derive(Debug)]
pub struct Facts {
    /// Folder that holds the machine's `proc`, `sys` and `boot`: `/`, or a copy.
    root: PathBuf,
    /// Processor, caches, nodes and memory.
    pub machine: Machine,
    /// Published mappings of relatives of the processor.
    pub candidates: Vec<Candidate>,
    /// The platform that verbs take where no option names one: its name or path, and the platform, or why it cannot be read.
    pub platform: Option<(String, Result<Box<Platform>, String>)>,
    /// Outcome of each trial.
    pub trials: Trials,
}

/// Outcome of each trial, with the reason of a failure.
#[derive(Clone, Debug)]
pub struct Trials {
    /// A userfaultfd with `UFFDIO_MOVE`.
    pub userfaultfd: Result<(), String>,
    /// A frame number of a page of this process.
    pub frame_numbers: Result<(), String>,
    /// memtint's kernel series.
    pub kernel_series: Result<(), String>,
    /// A counter of page faults, which any kernel can count.
    pub software_counter: Result<(), String>,
    /// A counter of memory traffic: the name of the first sensor of the processor that works, or why none does.
    pub traffic_counter: Result<String, String>,
    /// The regulator's BPF programs.
    pub programs: Result<(), String>,
    /// A mounted hierarchy of cgroup v2.
    pub cgroup_v2: Result<PathBuf, String>,
}

impl Trials {
    fn here() -> Trials {
        let own = memtint_live::KernelFloor::of_this_machine().absence();
        Trials {
            userfaultfd: memtint_live::check_userfaultfd().map_err(|error| error.to_string()),
            frame_numbers: own_frame_number(),
            kernel_series: own.map_or(Ok(()), Err),
            software_counter: Sensor::find("page-faults")
                .and_then(|sensor| count(&sensor))
                .map_err(|error| error.to_string()),
            traffic_counter: traffic_counter(),
            programs: memtint_regulator::Regulator::kernel_can_decide().map_err(|error| error.to_string()),
            cgroup_v2: memtint_regulator::CgroupRoot::find()
                .map(|root| root.path().to_owned())
                .map_err(|error| error.to_string()),
        }
    }
}

fn count(sensor: &Sensor) -> Result<(), memtint_regulator::RegulatorError> {
    memtint_regulator::check_counter(sensor, 0)
}

/// Tries the processor's sensors of memory traffic.
fn traffic_counter() -> Result<String, String> {
    let sensors = Sensor::names().into_iter().filter_map(|name| Sensor::find(&name).ok());
    let mut reason = "the catalogue has no sensor of memory traffic for this processor".to_owned();
    for sensor in sensors.filter(|sensor| sensor.bytes.is_some()) {
        match count(&sensor) {
            Ok(()) => return Ok(sensor.name),
            Err(error) => reason = format!("{}: {error}", sensor.name),
        }
    }
    Err(reason)
}

/// Reads the frame number of a page of this process.
fn own_frame_number() -> Result<(), String> {
    let page = [1_u8; 1];
    let entry = page.as_ptr().addr() as u64 / PAGE_SIZE * 8;
    let mut word = [0; 8];
    let read = File::open("/proc/self/pagemap").and_then(|map| map.read_exact_at(&mut word, entry));
    read.map_err(|error| format!("/proc/self/pagemap: {error}"))?;
    let frame = u64::from_ne_bytes(word) & ((1 << 55) - 1);
    if frame == 0 { Err("the kernel hides them from this process".to_owned()) } else { Ok(()) }
}

impl Facts {
    /// Reads this machine, and tries what runs need. `platform` is the platform that verbs take by default, by its name or path.
    #[must_use]
    pub fn here(platform: Option<String>) -> Facts {
        Facts { trials: Trials::here(), ..Facts::of(Machine::read(), Path::new("/"), platform) }
    }

    /// Reads the files of a machine below `root`; its processor stays unknown, and every trial but that of the kernel series
    /// counts as passed.
    #[must_use]
    pub fn of_files(root: &Path, platform: Option<String>) -> Facts {
        Facts::of(Machine::read_files(root), root, platform)
    }

    fn of(machine: Machine, root: &Path, platform: Option<String>) -> Facts {
        let load = |spec: String| {
            let loaded = Platform::load(&spec).map(Box::new).map_err(|error| error.to_string());
            (spec, loaded)
        };
        Facts {
            root: root.to_owned(),
            candidates: candidates(&machine),
            machine,
            platform: platform.map(load),
            trials: Trials {
                userfaultfd: Ok(()),
                frame_numbers: Ok(()),
                kernel_series: Err("not tried".to_owned()),
                software_counter: Ok(()),
                traffic_counter: Ok("llc-misses".to_owned()),
                programs: Ok(()),
                cgroup_v2: Ok(PathBuf::from("/sys/fs/cgroup")),
            },
        }
    }

    /// Gives a file's text without blanks at its ends; `None` where it cannot be read.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        let mut text = String::new();
        let file = File::open(self.root.join(path.trim_start_matches('/'))).ok()?;
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
        Some(text.trim().to_owned())
    }

    /// Gives the number in a file.
    pub(crate) fn number(&self, path: &str) -> Option<i64> {
        self.text(path)?.parse().ok()
    }

    /// Returns whether a path exists.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.root.join(path.trim_start_matches('/')).exists()
    }

    /// Returns whether this process may write a file. Opens the file without writing to it.
    pub(crate) fn is_writable(&self, path: impl AsRef<Path>) -> bool {
        let path = path.as_ref();
        File::options().write(true).open(self.root.join(path.strip_prefix("/").unwrap_or(path))).is_ok()
    }

    /// Gives the choice of a file that lists all and brackets one, as `always [madvise] never`.
    pub(crate) fn chosen(&self, path: &str) -> Option<String> {
        let text = self.text(path)?;
        let (_, rest) = text.split_once('[')?;
        rest.split_once(']').map(|(chosen, _)| chosen.to_owned())
    }

    /// Gives the kernel's release, as `6.12.9-amd64`.
    pub(crate) fn release(&self) -> Option<String> {
        self.text("proc/sys/kernel/osrelease")
    }

    /// Gives the first two numbers of the kernel's release.
    pub(crate) fn version(&self) -> Option<(u32, u32)> {
        let release = self.release()?;
        let mut numbers = release.split(['.', '-']);
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }

    /// Returns whether this process has a capability, by its number (linux/capability.h).
    pub(crate) fn has_capability(&self, number: u32) -> bool {
        let status = self.text("proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> number & 1 == 1)
    }

    /// Gives the effective user of this process; `None` where its status does not have it.
    pub(crate) fn effective_user(&self) -> Option<u32> {
        let status = self.text("proc/self/status")?;
        let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        users.split_whitespace().nth(1)?.parse().ok()
    }

    /// Gives the owner of a file or folder.
    pub(crate) fn owner(&self, path: &str) -> Option<u32> {
        std::fs::metadata(self.root.join(path)).ok().map(|found| found.uid())
    }

    /// Returns whether the processor has a flag of `/proc/cpuinfo`.
    pub(crate) fn has_flag(&self, flag: &str) -> bool {
        let text = self.text("proc/cpuinfo").unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("flags") || line.starts_with("Features"));
        line.is_some_and(|line| line.split_whitespace().any(|word| word == flag))
    }

    /// Gives the options that the kernel was built with; `None` where it does not publish them.
    pub(crate) fn configuration(&self) -> Option<BTreeMap<String, String>> {
        let text =
            self.compressed("proc/config.gz").or_else(|| self.text(&format!("boot/config-{}", self.release()?)))?;
        let options = text.lines().filter_map(|line| line.split_once('='));
        Some(options.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    fn compressed(&self, path: &str) -> Option<String> {
        let mut text = String::new();
        let file = File::open(self.root.join(path)).ok()?;
        GzDecoder::new(file).take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// Gives the hypervisor's signature; empty where it has none, `None` on a real machine or where the processor does not say.
    pub(crate) fn hypervisor(&self) -> Option<&str> {
        self.machine.processor.as_ref()?.hypervisor.as_deref()
    }
}
