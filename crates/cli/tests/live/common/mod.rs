//! What the live suites share: one program at a time on this machine, started in color or natively, watched while it
//! runs, ended for certain.

mod machine;
mod processes;
mod run;
mod sample;

pub(crate) use memtint_testing::skip;

pub(crate) use machine::{Machine, PublicProgram, find_program, scratch};
pub(crate) use processes::{Process, alive, is_alive, within};
pub(crate) use run::{Ended, Launch, Run, beginning, pipe, registry, sampled_until};
pub(crate) use sample::{Colors, Samples, assert_held, listing};

/// What of the classes of the platform the suites give a program, unless they say otherwise: a quarter.
pub(crate) const BANKS: &str = "0-3";
