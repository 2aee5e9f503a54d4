//! Published figures and tables as data, their regeneration, and the comparison.
//!
//! A model that judges plans must first reproduce published measurements. Every [`Figure`] is a file of `figures/`: the
//! published values with their source, or, where only a graph exists, the claim in words and its bound; the scenarios;
//! the measures; and the tolerance. [`reproduce`] simulates and compares.
//!
//! No verdict is stored; each is computed from a run. No model is adapted to a single figure: the parameters of a
//! machine are in `machines/`, once for all figures of that machine, each with a source or the word `fitted`. Every
//! fitted parameter is listed beside the result.
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
