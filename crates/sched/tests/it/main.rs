//! The integration tests of `memtint-sched`, in one program that is linked once.

mod banks;
mod bounds;
mod common;
mod edf;
mod fixed;
mod interference;
mod nonpreemptive_edf;
mod nonsense;
mod phases;
mod regulated;
mod resource;
mod resource_budget;
mod sensitivity;
mod witness;
