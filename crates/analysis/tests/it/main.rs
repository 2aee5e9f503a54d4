//! The integration tests of `memtint-analysis`, in one program that is linked once.

mod cores;
mod files;
mod output;
mod problems;
