//! The bounded reader of every file that a user names.
//!
//! A path on a command line may name a device without an end, a folder, or a pipe that no process writes to. Every verb reads
//! such a path through this crate, so that memory stays bounded and the message names the limit:
//!
//! - [`text`] and [`bytes`] read a whole file up to a limit: [`CONFIGURATION_BYTES_MAX`] for TOML files (platforms, devices, plans,
//!   task sets, scenarios, figures), [`DOCUMENT_BYTES_MAX`] for reports, dumps and mask files.
//! - [`Lines`] reads a log of any length line by line, each at most [`LINE_BYTES_MAX`] long.
//! - [`Input`] is the reader below both, for formats that set their own line limits.
//! - [`regular`] opens a file that is read at offsets.
//!
//! All errors are [`std::io::Error`]; the caller adds the name of the file. What this crate does not do: read files that memtint itself or
//! the kernel wrote (`/proc`, `/sys`).
//!
//! ```
//! let error = memtint_input::text("/dev/zero".as_ref(), 4096).unwrap_err();
//! assert_eq!(error.to_string(), "it has more than 4096 bytes; accepted are at most 4096 bytes");
//! ```
#![forbid(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Read};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// Limit of a configuration file (4 MiB).
pub const CONFIGURATION_BYTES_MAX: u64 = 4 << 20;
/// Limit of a document that is read whole: a report, a dump of registers, a list of masks (64 MiB).
pub const DOCUMENT_BYTES_MAX: u64 = 64 << 20;
/// Limit of one line of a log that is read line by line (16 MiB).
pub const LINE_BYTES_MAX: u64 = 16 << 20;
/// A named pipe without a writer is refused after this time.
pub const WRITER_WAIT: Duration = Duration::from_secs(5);

/// Interval of polling a pipe or a terminal that has nothing to read yet.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// A file, pipe or device, read from its beginning to its end.
#[derive(Debug)]
pub struct Input {
    file: File,
    /// When a named pipe must have a writer; `None` for everything else, and once it had one.
    writer_by: Option<Instant>,
}

impl Input {
    /// Opens a path for reading. Never blocks.
    ///
    /// # Errors
    ///
    /// The system's error, and [`io::ErrorKind::IsADirectory`] for a directory.
    pub fn open(path: &Path) -> io::Result<Input> {
        // Without O_NONBLOCK, open(2) of a named pipe waits for a writer without end.
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
        let kind = file.metadata()?.file_type();
        if kind.is_dir() {
            return Err(refuse_directory());
        }
        // A pipe without a name (/dev/stdin, a shell's <(...)) had its writer; its end comes at once if that is gone.
        let named = kind.is_fifo() && std::fs::canonicalize(path).is_ok();
        Ok(Input { file, writer_by: named.then(|| Instant::now() + WRITER_WAIT) })
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.file.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writer_by = None,
                Ok(0) if self.writer_by.is_some_and(|by| Instant::now() < by) => {}
                Ok(0) if self.writer_by.is_some() && !buffer.is_empty() => return Err(refuse_silent_pipe()),
                read => {
                    self.writer_by = None;
                    return read;
                }
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

/// Reads a whole file of at most `most` bytes.
///
/// # Errors
///
/// As [`Input::open`]; a file with more bytes; a named pipe that has no writer for [`WRITER_WAIT`].
pub fn bytes(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // Read one byte more than the limit at most: a device has no length and no end.
    Input::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let size = size(most);
        return Err(io::Error::other(format!("it has more than {size}; accepted are at most {size}")));
    }
    Ok(bytes)
}

/// Reads a whole text of at most `most` bytes.
///
/// # Errors
///
/// As [`bytes`], and for bytes that are not UTF-8.
pub fn text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(bytes(path, most)?).map_err(|error| {
        let found = format!("byte {} is not text; accepted is UTF-8", error.utf8_error().valid_up_to());
        io::Error::new(io::ErrorKind::InvalidData, found)
    })
}

/// Opens a regular file or a block device, for formats that are read at offsets.
///
/// # Errors
///
/// As [`Input::open`], and for pipes, sockets and character devices.
pub fn regular(path: &Path) -> io::Result<File> {
    let file = Input::open(path)?.file;
    let kind = file.metadata()?.file_type();
    if kind.is_file() || kind.is_block_device() {
        return Ok(file);
    }
    let found = if kind.is_fifo() { "a pipe" } else { "a device" };
    Err(io::Error::other(format!("it is {found}; accepted is a regular file, because it is read at offsets")))
}

/// The lines of a text, without their ends, each of at most [`LINE_BYTES_MAX`] bytes.
#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    most: u64,
}

impl<R: BufRead> Lines<R> {
    /// Reads lines from `reader`.
    pub fn new(reader: R) -> Lines<R> {
        Lines { reader, most: LINE_BYTES_MAX }
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = io::Result<String>;

    fn next(&mut self) -> Option<io::Result<String>> {
        let mut line = Vec::new();
        // Room for the longest line with a two-byte line end.
        match self.reader.by_ref().take(self.most + 2).read_until(b'\n', &mut line) {
            Err(error) => return Some(Err(error)),
            Ok(0) => return None,
            Ok(_) => {}
        }
        if line.last() == Some(&b'\n') {
            line.pop();
            line.pop_if(|last| *last == b'\r');
        }
        if line.len() as u64 > self.most {
            let size = size(self.most);
            return Some(Err(io::Error::other(format!("it has more than {size}; accepted are at most {size} a line"))));
        }
        let text = String::from_utf8(line);
        Some(text.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not text; accepted is UTF-8")))
    }
}

fn refuse_directory() -> io::Error {
    io::Error::new(io::ErrorKind::IsADirectory, "it is a directory; accepted is a file")
}

fn refuse_silent_pipe() -> io::Error {
    let wait = WRITER_WAIT.as_secs();
    io::Error::other(format!(
        "it is a pipe that no process has opened for writing in {wait} s; accepted is one with a writer"
    ))
}

/// A limit in the largest binary unit that divides it.
fn size(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    if bytes > 0 && bytes.is_multiple_of(MIB) { format!("{} MiB", bytes / MIB) } else { format!("{bytes} bytes") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said<T: std::fmt::Debug>(read: io::Result<T>) -> String {
        read.unwrap_err().to_string()
    }

    /// A path below the temporary directory that no other test uses.
    fn place(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("memtint-input-{}-{name}", std::process::id()))
    }

    #[test]
    fn a_file_of_exactly_the_limit_is_read_and_one_byte_more_is_refused() {
        let path = place("limit");
        std::fs::write(&path, [b'x'; 10]).unwrap();
        assert_eq!(text(&path, 10).unwrap(), "xxxxxxxxxx");
        assert_eq!(said(text(&path, 9)), "it has more than 9 bytes; accepted are at most 9 bytes");
        std::fs::write(&path, [b'x', 0xff]).unwrap();
        assert_eq!(said(text(&path, 10)), "byte 1 is not text; accepted is UTF-8");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn endless_devices_end_at_the_limit() {
        let wanted = "it has more than 4 MiB; accepted are at most 4 MiB";
        assert_eq!(said(bytes("/dev/zero".as_ref(), CONFIGURATION_BYTES_MAX)), wanted);
        assert_eq!(bytes("/dev/null".as_ref(), 10).unwrap(), b"");
    }

    #[test]
    fn directories_pipes_and_devices_are_named() {
        assert_eq!(said(bytes("/".as_ref(), 10)), "it is a directory; accepted is a file");
        assert!(said(regular("/dev/zero".as_ref())).starts_with("it is a device; accepted is a regular file"));
        let pipe = place("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(said(regular(&pipe)).starts_with("it is a pipe; accepted is a regular file"));
        assert!(said(bytes(&pipe, 10)).starts_with("it is a pipe that no process has opened for writing in 5 s"));
        let writer = std::thread::spawn({
            let pipe = pipe.clone();
            // Blocks until the pipe has a reader.
            move || std::fs::write(pipe, "written")
        });
        assert_eq!(text(&pipe, 10).unwrap(), "written");
        writer.join().unwrap().unwrap();
        std::fs::remove_file(&pipe).unwrap();
    }

    #[test]
    fn lines_have_a_limit_and_none_is_read_further() {
        let lines = |text: &'static str| Lines { reader: text.as_bytes(), most: 4 }.collect::<Result<Vec<_>, _>>();
        assert_eq!(lines("abcd\r\n\nxy").unwrap(), ["abcd", "", "xy"][..].to_vec());
        assert_eq!(said(lines("abcde\n")), "it has more than 4 bytes; accepted are at most 4 bytes a line");
        let endless = Lines::new(io::BufReader::new(io::repeat(0))).next().unwrap();
        assert_eq!(said(endless), "it has more than 16 MiB; accepted are at most 16 MiB a line");
    }
}
