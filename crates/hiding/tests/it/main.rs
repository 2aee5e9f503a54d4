//! The integration tests of `memtint-hiding`, in one program that is linked once.

mod crs;
mod crs_copies;
mod crs_optimum;
mod crs_partition;
mod crs_simulation;
mod cyclic;
mod cyclic_random;
