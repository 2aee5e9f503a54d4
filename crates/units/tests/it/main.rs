//! The integration tests of `memtint-units`, in one program that is linked once.

mod laws;
