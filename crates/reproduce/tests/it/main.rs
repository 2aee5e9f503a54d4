//! The integration tests of `memtint-reproduce`, in one program that is linked once.

mod analyses;
mod figures;
