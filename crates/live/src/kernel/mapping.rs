//! The kernel's mapping: reads it, compares it, loads it and unloads it.

use super::{KernelFloor, KernelOptions};
use crate::RunError;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Content of the file without a mapping; writing it unloads one.
const NONE: &str = "none\n";

/// A loaded mapping in which the colors have the expected numbers.
#[derive(Debug)]
pub(super) struct Loaded {
    /// It was not there before.
    pub(super) by_us: bool,
    file: PathBuf,
}

/// Waits until no other run of memtint reads, loads or unloads the mapping; closing the file ends the turn.
pub(super) fn take_turn(floor: &KernelFloor) -> Result<File, RunError> {
    let file = floor.file("map");
    let open = || {
        let turn = File::open(&file)?;
        turn.lock()?;
        Ok(turn)
    };
    open().map_err(|cause| RunError::KernelFile { file: file.clone(), cause })
}

/// Ensures the kernel uses one of the acceptable mappings; loads the first if none is loaded.
pub(super) fn have(asked: &KernelOptions) -> Result<Loaded, RunError> {
    let file = asked.floor.file("map");
    let failed = |cause| RunError::KernelFile { file: file.clone(), cause };
    let found = std::fs::read_to_string(&file).map_err(failed)?;
    if asked.mappings.contains(&found) {
        return Ok(Loaded { by_us: false, file });
    }
    let wanted = asked.mappings.first().expect("the caller names one");
    if found != NONE {
        return Err(RunError::OtherMapping {
            platform: asked.platform.clone(),
            difference: difference(&found, wanted),
            use_of_it: use_of(&asked.floor),
            file,
        });
    }
    write_at_once(&file, wanted).map_err(|cause| RunError::MappingRefused {
        platform: asked.platform.clone(),
        fault: reason(&cause, &asked.floor.file("fault")),
    })?;
    Ok(Loaded { by_us: true, file })
}

impl Loaded {
    /// Unloads a mapping that this run has loaded. On failure, returns false and reports the reason.
    pub(super) fn unload(self, tell: &mut impl FnMut(&str)) -> bool {
        let unloaded = self.by_us.then(|| self.try_unload());
        if let Some(Err(error)) = &unloaded {
            tell(&format!("the mapping that this run has loaded stays ({}): {error}", self.file.display()));
        }
        matches!(unloaded, Some(Ok(())))
    }

    fn try_unload(&self) -> io::Result<()> {
        /// The last policy may live for a moment longer than the task or the cgroup that had it.
        const MOMENTS: u32 = 50;
        let turn = File::open(&self.file)?;
        turn.lock()?;
        for _ in 0..MOMENTS {
            match write_at_once(&self.file, NONE) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                result => return result,
            }
        }
        Err(io::Error::other("colors are still in use"))
    }
}

/// Why the kernel refused a mapping. The file describes the last text that had a fault, which is this one only if the error is EINVAL.
pub(super) fn reason(cause: &io::Error, fault: &Path) -> String {
    let told = match cause.raw_os_error() {
        Some(libc::EINVAL) => std::fs::read_to_string(fault).unwrap_or_default(),
        _ => String::new(),
    };
    if told.is_empty() { cause.to_string() } else { told.trim().to_owned() }
}

/// The kernel takes a mapping in one write.
fn write_at_once(file: &Path, text: &str) -> io::Result<()> {
    let count = File::options().write(true).open(file)?.write(text.as_bytes())?;
    if count == text.len() { Ok(()) } else { Err(io::Error::from(io::ErrorKind::WriteZero)) }
}

/// The first line that differs, in words.
fn difference(found: &str, wanted: &str) -> String {
    let same = found.lines().zip(wanted.lines()).take_while(|(found, wanted)| found == wanted).count();
    let quoted = |text: &str| text.lines().nth(same).map_or("not there".to_owned(), |line| format!("{line:?}"));
    format!("line {} is {}, wanted is {}", same + 1, quoted(found), quoted(wanted))
}

/// Whether colors of the loaded mapping are in use.
fn use_of(floor: &KernelFloor) -> &'static str {
    let stat = std::fs::read_to_string(floor.file("stat")).unwrap_or_default();
    let policies = stat.lines().find_map(|line| line.strip_prefix("policies ")?.parse::<u64>().ok());
    match policies {
        Some(0) => "it is not in use: write none into that file to unload it",
        Some(_) => "it is in use",
        None => "whether it is in use is not known",
    }
}
