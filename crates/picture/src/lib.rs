//! Pictures of memtint's results.
//!
//! Each picture is one SVG file without scripts. Its title states the conclusion, for eyes and for screen readers. A
//! hatch, a dash or a position repeats the meaning of each color, so that the picture is readable in black and white;
//! it has styles for a dark background. Ticks are round, axes begin at zero or are marked as broken, and omitted parts
//! are listed. A picture is plain data with a function `svg`, independent of the origin of the data; texts may contain
//! anything.
//!
//! - [`gantt`]: which task runs when, and below that which ranks are refreshed.
//! - [`plot`]: values over a row of labels; [`bars`]: values in groups.
//! - [`pages`]: where pages are, by color; [`heat`]: by two kinds of color.
//! - [`timing`]: how long accesses took, and which address bits conflict.
//!
//! ```
//! use memtint_picture::plot::{Limit, Panel, Plot, Series};
//!
//! let series = vec![Series { name: "crs", values: vec![Some(0.3), None, Some(0.5)] }];
//! let limit = Some(Limit { at: 1.0, name: "deadline" });
//! let svg = Plot {
//!     title: "no response is beyond its deadline".to_owned(),
//!     subtitle: "longest responses over density".to_owned(),
//!     labels: ["1 Gb", "2 Gb", "4 Gb"].map(str::to_owned).to_vec(),
//!     panels: vec![Panel { name: "response by deadline", limit, series }],
//!     missing: "no schedule",
//! }
//! .svg();
//! assert!(svg.starts_with("<svg") && svg.contains("not drawn (no schedule): crs at 2 Gb"));
//! ```
#![forbid(unsafe_code)]

pub mod bars;
mod canvas;
pub mod gantt;
pub mod heat;
pub mod pages;
pub mod plot;
mod ticks;
pub mod timing;
