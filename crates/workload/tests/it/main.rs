//! The integration tests of `memtint-workload`, in one program that is linked once.

mod convert;
mod kernels;
mod nonsense;
mod programs;
mod trace;
