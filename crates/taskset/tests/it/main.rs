//! The integration tests of `memtint-taskset`, in one program that is linked once.

mod files;
mod problems;
