//! The integration tests of `memtint-probe`, in one program that is linked once.

mod ablation;
mod answers;
mod baselines;
mod caches;
mod controllers;
mod oracles;
mod roles;
mod shifts;
