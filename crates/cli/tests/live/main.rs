//! The live tests of `memtint-cli`: they read frame numbers of this machine, or time it. Each takes the machine for itself.

mod common;
#[path = "../shared/fields.rs"]
mod fields;
#[path = "../shared/schemas.rs"]
mod shared;

/// `make test-live` picks tests by this name.
#[path = "."]
mod live {
    mod bench;
    mod boundary;
    mod coexist;
    mod considered;
    mod doctor;
    mod dry_run;
    mod examples;
    mod guard;
    mod job_control;
    mod limits;
    mod manners;
    mod memory_calls;
    mod probe;
    mod processes;
    mod real_programs;
    mod selections;
    mod strict;
}
