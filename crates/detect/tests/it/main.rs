//! The integration tests of `memtint-detect`, in one program that is linked once.

mod borrowed;
mod files;
