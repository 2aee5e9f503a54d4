//! Measures the same program with and without coloring, interleaved, and gives confidence intervals.
//!
//! Machines are shared and noisy. A [`Session`] runs a [`Job`] on all [sides](Side) in turn, each time from scrambled
//! free lists; [`race`] runs all of them at the same time, in slices. A second native run, the control, shows the
//! influence of chance. [`Series`] gives ratios with confidence [intervals](Interval); [`Beside`] measures other
//! activity on the machine.
//!
//! The crate does not interpret colors and prints nothing. The caller chooses what to measure and which result to
//! expect.
//!
//! Types to know: [`Session`], [`Job`], [`Results`]; [`Running`] for one program.

mod child;
mod lockstep;
mod machine;
mod series;
mod session;

pub use child::{
    ChildError, Ended, Entourage, Mark, Output, Program, Running, Usage, adopt_orphans, cpu_seconds, finish_entourage,
    own_time,
};
pub use lockstep::{Finished, Lane, SLICE, Stretch, finish, line_up, race, take_turns};
pub use machine::{Beside, Disturbance, Host};
pub use series::{Interval, Mishap, Results, Runs, Series, SeriesReport, Side, SideReport, Spread, Unit};
pub use session::{Extent, Job, Measured, Pool, ScrambleReport, Session, Started, Trouble, WorkDirectory};
