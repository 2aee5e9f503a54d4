//! Published figures and tables as data, what regenerates them, and what came out.
//!
//! What it is for: a model that is to judge a plan must show first that it sees what others have measured. Every
//! [`Figure`] is a file of `figures/`: the published values with their source, or, where only a graph exists, the claim in
//! words and its bound; the scenarios; what is measured; and the tolerance. [`reproduce`] simulates and compares.
//!
//! What it deliberately does not do: no verdict is stored, each is computed from a run. No model is adapted to a single
//! figure: what belongs to a machine stands once in `machines/`, for all figures of that machine, each parameter with a
//! source or the word `fitted`, and every fitted one is listed beside the result.
//!
//! ```
//! use memtint_reproduce::{Options, Verdict, catalogue, reproduce};
//!
//! let figure = catalogue::find("palloc-table1")?;
//! let options = Options { threads: 1, short: true, seed: None };
//! let all = reproduce(&[figure], options, &|_share: f64| true)?;
//! assert_ne!(all[0].comparison.verdict, Verdict::PublishedOnly);
//! # Ok::<(), memtint_reproduce::ReproduceError>(())
//! ```
#![forbid(unsafe_code)]

mod allocation;
mod analysis;
mod answer;
pub mod catalogue;
mod compare;
mod errata;
mod error;
mod expand;
pub mod figure;
mod measure;
mod report;
mod run;

pub use compare::{ComparedRow, ComparedValue, Comparison, JudgedClaim, Verdict};
pub use errata::{Evidence, JudgedErratum};
pub use error::ReproduceError;
pub use expand::{Prepared, prepare};
pub use figure::Figure;
pub use report::{Comparisons, FigureList};
pub use run::{Options, Regenerated, reproduce};
