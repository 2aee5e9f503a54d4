//! The integration tests of `memtint-planner`, in one program that is linked once.

mod frames;
mod servers;
