//! Calibrated loads: processes that cause events as fast as they can, for the self-test.

use std::io::{self, BufRead as _, Write as _};
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::sys::{self, LoadMemory};

/// The activity of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// Touches pages that were returned to the kernel: a page fault each.
    Faults,
    /// Two threads on one CPU wake each other.
    Switches,
    /// Writes one byte of each line of a memory area larger than caches.
    Stream,
    /// Reads one byte of each page of a memory area larger than a TLB reaches.
    Pages,
}

impl Load {
    /// All of them, by name.
    pub const NAMES: [(&'static str, Load); 4] =
        [("faults", Load::Faults), ("switches", Load::Switches), ("stream", Load::Stream), ("pages", Load::Pages)];

    /// Its name.
    pub fn name(self) -> &'static str {
        Load::NAMES.iter().find(|(_, load)| *load == self).map_or("", |(name, _)| name)
    }

    /// Whether the load has an exact lower bound of the events that it causes.
    pub(crate) fn is_counted(self) -> bool {
        matches!(self, Load::Faults | Load::Switches)
    }
}

/// Bytes of the areas: more than the last-level cache of most machines.
const STREAM_BYTES: usize = 256 << 20;
/// 4096 pages of 4 KiB, more than a second-level TLB has entries.
const PAGES_BYTES: usize = 16 << 20;
const LINE_BYTES: usize = 64;
const TOUCHES: u64 = 64;
/// Pages looked at before the TLB is emptied.
const FORGET: u64 = 1024;

/// Runs a load on a CPU for a time, for the process at the other end of standard input and output: writes `ready`, waits for a
/// line, and writes how many events it has caused.
///
/// # Errors
/// Errors of the kernel.
pub fn run(load: Load, cpu: usize, time: Duration) -> io::Result<()> {
    let mut output = io::stdout().lock();
    let mut memory = LoadMemory::reserve(match load {
        Load::Faults => LoadMemory::page_bytes(),
        Load::Switches => 0,
        Load::Stream => STREAM_BYTES,
        Load::Pages => PAGES_BYTES,
    })?;
    // Charged to the group of the process that starts the load, which it leaves later.
    (0..memory.len()).step_by(LoadMemory::page_bytes()).for_each(|offset| memory.touch(offset));
    sys::pin(&[cpu])?;
    writeln!(output, "ready")?;
    output.flush()?;
    if io::stdin().lock().read_line(&mut String::new())? == 0 {
        return Ok(());
    }
    let end = Instant::now() + time;
    let caused = match load {
        Load::Faults => fault_until(&mut memory, end)?,
        Load::Switches => switch_until(end)?,
        Load::Stream => touch_until(&mut memory, end),
        Load::Pages => look_until(&mut memory, end)?,
    };
    writeln!(output, "caused {caused}")?;
    output.flush()
}

fn fault_until(memory: &mut LoadMemory, end: Instant) -> io::Result<u64> {
    let mut caused = 0;
    while Instant::now() < end {
        memory.discard()?;
        memory.touch(0);
        caused += 1;
    }
    Ok(caused)
}

/// Goes round the memory. Looks at the clock every few touches: with a small budget they take long.
fn touch_until(memory: &mut LoadMemory, end: Instant) -> u64 {
    let (mut caused, mut offset) = (0, 0);
    while Instant::now() < end {
        for _ in 0..TOUCHES {
            memory.touch(offset);
            offset = (offset + LINE_BYTES) % memory.len();
        }
        caused += TOUCHES;
    }
    caused
}

/// The TLB of an emulator grows until it has every page: it is emptied now and then.
fn look_until(memory: &mut LoadMemory, end: Instant) -> io::Result<u64> {
    let (mut caused, mut offset) = (0, 0);
    while Instant::now() < end {
        if caused % FORGET == 0 {
            memory.forget()?;
        }
        for _ in 0..TOUCHES {
            memory.look(offset);
            offset = (offset + LoadMemory::page_bytes()) % memory.len();
        }
        caused += TOUCHES;
    }
    Ok(caused)
}

/// Two threads pass a byte to and fro through pipes until `end`. Returns the bytes passed: each is a switch, since both are on one
/// CPU.
fn switch_until(end: Instant) -> io::Result<u64> {
    let (mut here, mut there) = std::os::unix::net::UnixStream::pair()?;
    let other = std::thread::spawn(move || io::copy(&mut there.try_clone()?, &mut there));
    let mut passed = 0;
    let mut byte = [0];
    while Instant::now() < end {
        here.write_all(&byte)?;
        io::Read::read_exact(&mut here, &mut byte)?;
        passed += 2;
    }
    drop(here);
    // The echo has ended with its input.
    let _ = other.join();
    Ok(passed)
}
