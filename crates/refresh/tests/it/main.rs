//! The integration tests of `memtint-refresh`, in one program that is linked once.

mod confront;
mod schemes;
