//! The integration tests of `memtint-map`, in one program that is linked once.

mod catalogue;
mod kernel;
mod laws;
mod nonsense;
mod refusals;
mod selection;
mod tint;
