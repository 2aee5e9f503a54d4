//! A file of commands, checked against the standard of its channel.

use std::io::BufReader;
use std::path::{Path, PathBuf};

use memtint_dram::{CommandReader, Cycle, Device, RefreshCheck, Retention, RetentionMonitor, Rules, Violations};
use memtint_input::Input;

use crate::channel::{Channel, ChannelRequest};
use crate::error::ReplayError;

const BUFFER_BYTES: usize = 1 << 18;

/// The result of a check.
#[derive(Debug)]
pub struct Checked {
    /// The file.
    pub path: PathBuf,
    /// The device, with the geometry of the channel.
    pub device: Device,
    /// Commands that are legal: all before a violation.
    pub commands: u64,
    /// Line of the first command that is not legal, or else of the first refresh beyond the standard's limits.
    pub line: Option<u64>,
    /// What the commands violate.
    pub found: Violations,
    /// Whether a missing refresh would have been detected.
    pub refresh_checked: bool,
    /// How long rows went without a refresh; `None` where refresh is not checked, or a command is not legal.
    pub retention: Option<Retention>,
}

/// Checks the commands of a file, up to the first that is not legal.
///
/// # Errors
/// [`ReplayError`] for a channel that is refused, and for a file that cannot be read, has a line that is no command, or has no command.
pub fn check(path: &Path, channel: &ChannelRequest) -> Result<Checked, ReplayError> {
    let Channel { device, refresh, .. } = channel.open()?;
    let file = Input::open(path).map_err(|cause| ReplayError::File { path: path.to_owned(), cause })?;
    let mut rules = Rules::new(&device, refresh.duty, None);
    // Delay within the standard's slack is no violation.
    let leeway = |duty: RefreshCheck| RefreshCheck { window: duty.window + duty.slack, ..duty };
    let mut monitor = refresh.duty.map(|duty| RetentionMonitor::new(&device.geometry, &leeway(duty)));
    let mut reader = CommandReader::new(BufReader::with_capacity(BUFFER_BYTES, file), &path.display().to_string());
    let (mut commands, mut found, mut line, mut end) = (0u64, Violations::default(), None, Cycle::ZERO);
    while let Some(command) = reader.next() {
        let command = command?;
        rules.see(command, &mut found);
        if found.violation.is_some() {
            line = Some(reader.line());
            break;
        }
        line = line.or_else(|| found.postponed.map(|_| reader.line()));
        if let Some(monitor) = &mut monitor {
            monitor.watch(command);
        }
        (commands, end) = (commands + 1, command.cycle);
    }
    if commands == 0 && found.is_legal() {
        return Err(ReplayError::NoCommand { path: path.to_owned() });
    }
    let retention = monitor.map(|monitor| monitor.finish(end)).filter(|_| found.violation.is_none());
    Ok(Checked {
        path: path.to_owned(),
        device,
        commands,
        line,
        found,
        refresh_checked: refresh.duty.is_some(),
        retention,
    })
}

impl Checked {
    /// Returns whether all commands are legal and no row loses its data.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.found.is_legal() && self.retention.as_ref().is_none_or(|retention| retention.losses == 0)
    }
}
