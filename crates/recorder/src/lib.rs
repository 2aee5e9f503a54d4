//! Records the memory references of an unmodified program into a trace file.
//!
//! What it is for: [`record`] runs a program under QEMU's user mode (`qemu-x86_64`, Debian package `qemu-user`) with a
//! plugin that this library carries. The plugin writes references into memory shared with the recorder, a ring for each
//! thread; the recorder compresses them into a [`memtint_workload::TraceFile`] while the program runs.
//!
//! What it deliberately does not do:
//! - Children that the program forks run, but are not recorded; nor is what a program becomes when it replaces itself by
//!   `execve`. Both are counted and told.
//! - There is no order between references of different threads.
//! - What the kernel reads and writes for the program (system calls) is no reference.
//! - [`Reference::depends`](memtint_workload::Reference::depends) is what registers tell: the address of an access is
//!   made of a register that the previous load filled. A value that goes through memory or through another register is
//!   not followed, and one that was overwritten in between is.
//! - Instructions are counted a translated block at a time: a block that a signal or fault leaves early counts whole,
//!   and each round of a repeated string instruction counts as one.
//!
//! Types to know: [`RecordOptions`], [`Recording`], [`RecordError`].
//!
//! ```no_run
//! use memtint_recorder::{RecordOptions, record};
//!
//! let options = RecordOptions::new("/usr/bin/sort".as_ref(), "sort.trace".as_ref());
//! let recording = record(&options, |progress| eprintln!("{} references", progress.references))?;
//! println!("{} references, status {:?}", recording.ending.references(), recording.status);
//! # Ok::<(), memtint_recorder::RecordError>(())
//! ```
#![deny(unsafe_code)]

#[path = "../plugin/src/decode.rs"]
#[cfg(test)]
#[allow(unreachable_pub)]
mod decode;
mod error;
mod program;
mod recorder;
#[allow(unsafe_code)]
mod sys;
#[allow(unreachable_pub)]
#[allow(dead_code)]
mod wire;

pub use error::RecordError;
pub use recorder::{Progress, RecordOptions, Recording, record};
