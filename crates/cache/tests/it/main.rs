//! The integration tests of `memtint-cache`, in one program that is linked once.

mod common;
mod laws;
mod reference;
mod refusals;
