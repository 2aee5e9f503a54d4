//! The integration tests of `memtint-frames`, in one program that is linked once.

mod common;
mod conformance;
mod laws;
mod memory;
mod published;
mod shared;
mod tinted;
