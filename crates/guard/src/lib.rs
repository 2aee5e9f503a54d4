//! Memory-bandwidth regulation as a pure state machine: reservation and reclaiming as in MemGuard (Yun
//! et al., 2012), with the defects of its release corrected.
//!
//! A regulated core counts memory events (LLC misses, write-backs, DRAM bursts, or a weighted sum of them). In each period its
//! group may use a budget B. The core gets it in grants of at most a quantum q: a backend arms a counter with each grant,
//! and reports when it is consumed. Without a further grant the core is throttled until the next period begins.
//!
//! **The bound.** A core uses at most B + q + s events of its reservation in a period. The skid s is its use beyond a
//! grant until the backend has served the overflow: the next grant counts from the end of the previous one, so the skid
//! is used at most once. The quantum q covers the rest of the last grant of a period when the next begins, provided
//! that each core begins the next period before it has consumed that grant. When the sum of B + q + s over all cores is
//! at most r_min, the memory serves every reservation in every period, whatever other regulated cores do. Not in the
//! sum: cores that are not regulated, which must not use that memory, and one more skid each time best-effort sharing
//! ends before the period does.
//!
//! This crate performs no I/O and has no clock: a backend (simulator, perf, BPF, kernel) reports [`Event`]s and carries
//! out [`Action`]s. It decides neither the cost of events nor how a core is stopped. Idle cores begin periods too, and
//! their groups donate. Two kinds of events with a budget each are not regulated together.
//!
//! The algorithm is checked in every state that three cores with budgets up to three quanta reach in two periods (two million states
//! of six systems in the tests, 606,368,273 states of all 924 by `make prove`), with sixteen cores at random, and under concurrency
//! with `loom`.
//!
//! Types to know: [`Config`] is checked by [`Guard::new`]; [`Guard`] regulates a whole system from one thread; [`Core`] and [`Shared`]
//! are its parts, for backends in which each CPU runs its own part and only words are shared; [`released`] models
//! the published module with its defects. `kernel/modules/memguard/guard.h` is the same algorithm in C, for use in the kernel.
//!
//! ```
//! use memtint_guard::{Action, Config, Event, Ewma, Group, Guard, Kind, Reservation, Sharing, Source};
//!
//! let group = |core, budget, kind| Group {
//!     cores: vec![core], reservation: Reservation { budget, kind }, quantum: 10, skid: 5,
//! };
//! let config = Config {
//!     cores: 2,
//!     groups: vec![group(0, 100, Kind::Hard), group(1, 20, Kind::Soft)],
//!     guaranteed: 150, // 100 + 20 + 2 (10 + 5): equality is enough
//!     reclaim_step: 10,
//!     sharing: Sharing::Off,
//! };
//! let mut guard = Guard::new(config, |_| Ewma::new(1))?;
//! let mut actions = Vec::new();
//! guard.on(Event::Busy { core: 1 }, &mut actions);
//! guard.on(Event::PeriodStart { core: 1, period: 1, unused: 0 }, &mut actions);
//! assert_eq!(actions, [Action::Grant { core: 1, grant: 1, events: 10, source: Source::Reservation }]);
//! # Ok::<(), memtint_guard::GuardError>(())
//! ```
#![forbid(unsafe_code)]

mod core;
mod guard;
mod predict;
pub mod released;
mod rule;
mod word;

pub use crate::core::{Action, Core, ReleaseReason, Shared, Signal, Source, ThrottleReason, Use};
pub use guard::{Event, Guard, parts};
pub use predict::{Ewma, LastValue, Linear, Prediction, Predictor};
pub use rule::{Config, Group, GuardError, Kind, Reservation, Sharing, bandwidth, by_weight, events_per_period};
pub use word::Word;
