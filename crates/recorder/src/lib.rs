//! Records the memory references of an unmodified program into a trace file.
//!
//! What it is for: [`record`] runs a program under QEMU's user mode (`qemu-x86_64`, Debian package `qemu-user`) with a
//! plugin that this library carries. The plugin writes references into memory shared with the recorder, a ring for each
//! thread; the recorder compresses them into a [`memtint_workload::TraceFile`] while the program runs.
//!
//! What it deliberately does not do:
//! - Children that the program forks run without being recorded; so does the new program after an `execve`. Both are counted and reported.
//! - There is no order between references of different threads.
//! - Memory accesses of the kernel on behalf of the program (system calls) are not recorded.
//! - [`Reference::depends`](memtint_workload::Reference::depends) is derived from registers alone: the address of an access comes from a
//!   register that the previous load filled. A dependence through memory or through another register is missed; one through a register that
//!   was overwritten in between is reported although it no longer exists.
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
