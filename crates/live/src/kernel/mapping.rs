//! The mapping that the kernel works with: reads it, compares it, loads it and unloads it.

use super::{KernelFloor, KernelOptions};
use crate::RunError;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the file says, and takes, when there is no mapping.
const NONE: &str = "none\n";

/// A mapping in which the colors have their numbers.
#[derive(Debug)]
pub(super) struct Loaded {
    /// It was not there before.
    pub(super) by_us: bool,
    file: PathBuf,
}

/// Waits until no other run of memtint looks at the mapping, loads or unloads; the turn ends with the file.
pub(super) fn take_turn(floor: &KernelFloor) -> Result<File, RunError> {
    let file = floor.file("map");
    let open = || {
        let turn = File::open(&file)?;
        turn.lock()?;
        Ok(turn)
    };
    open().map_err(|cause| RunError::KernelFile { file: file.clone(), done: "read", cause })
}

/// Has one of the mappings in the kernel.
pub(super) fn have(asked: &KernelOptions) -> Result<Loaded, RunError> {
    let file = asked.floor.file("map");
    let failed = |cause| RunError::KernelFile { file: file.clone(), done: "read", cause };
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
    write_at_once(&file, wanted).map_err(|cause| {
        let fault = std::fs::read_to_string(asked.floor.file("fault")).unwrap_or_default();
        let fault = Some(fault.trim().to_owned()).filter(|fault| !fault.is_empty());
        RunError::MappingRefused { platform: asked.platform.clone(), fault: fault.unwrap_or_else(|| cause.to_string()) }
    })?;
    Ok(Loaded { by_us: true, file })
}

impl Loaded {
    /// Unloads what was not there before; false when it stays, because somebody has colors.
    pub(super) fn unload(self) -> bool {
        /// The last policy may live for a moment longer than the task or the cgroup that had it.
        const MOMENTS: u32 = 50;
        if !self.by_us {
            return false;
        }
        let Ok(turn) = File::open(&self.file) else { return false };
        let _ = turn.lock();
        for _ in 0..MOMENTS {
            match write_at_once(&self.file, NONE) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                result => return result.is_ok(),
            }
        }
        false
    }
}

/// The kernel takes a mapping in one write.
fn write_at_once(file: &Path, text: &str) -> io::Result<()> {
    let count = File::options().write(true).open(file)?.write(text.as_bytes())?;
    if count == text.len() { Ok(()) } else { Err(io::Error::from(io::ErrorKind::WriteZero)) }
}

/// The first line that differs, in words.
fn difference(found: &str, wanted: &str) -> String {
    let (mut found, mut wanted) = (found.lines(), wanted.lines());
    for number in 1.. {
        match (found.next(), wanted.next()) {
            (Some(found), Some(wanted)) if found == wanted => {}
            (found, wanted) => {
                let quoted = |line: Option<&str>| line.map_or("not there".to_owned(), |line| format!("{line:?}"));
                return format!("line {number} is {}, wanted is {}", quoted(found), quoted(wanted));
            }
        }
    }
    unreachable!("a text ends")
}

/// Whether somebody has colors of the mapping that is loaded.
fn use_of(floor: &KernelFloor) -> &'static str {
    let stat = std::fs::read_to_string(floor.file("stat")).unwrap_or_default();
    let policies = stat.lines().find_map(|line| line.strip_prefix("policies ")?.parse::<u64>().ok());
    match policies {
        Some(0) => "nobody uses it: write none into that file to unload it",
        Some(_) => "it is in use",
        None => "whether it is in use is not known",
    }
}
