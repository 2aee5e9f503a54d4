//! The integration tests of `memtint-plan`, in one program that is linked once.

mod plan_files;
