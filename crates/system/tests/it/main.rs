//! The integration tests of `memtint-system`, in one program that is linked once.

mod assignments;
