//! Does a simulated job ever exceed its bound, and is there one that reaches it?
//!
//! Random task sets are analysed by `sched` and run on the whole simulated machine of `sim`. A yes must not miss a deadline, in any
//! phases; a no of an exact test must miss one in the worst phases; what lies between the two is what the machine
//! leaves open and the analysis has to assume ([`machine`] says how much). The largest response is compared with its bound.
//!
//! What fails prints a system file; written beside `platform.toml` it is run again by `memtint sim`.

mod copies;
mod machine;
mod nonpreemptive;
mod preemptive;
mod servers;
mod sets;
mod tables;
mod tally;
