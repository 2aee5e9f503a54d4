//! The integration tests of `memtint-recorder`, in one program that is linked once.

mod common;
mod kernels;
mod record;
