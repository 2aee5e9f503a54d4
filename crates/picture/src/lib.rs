//! Pictures of what memtint finds.
//!
//! Each is one SVG file without scripts, readable in black and white: what a color says, a hatch, a dash or a place says, too. A
//! picture is plain data with a function `svg`, and knows nothing of where the data come from; texts may hold anything.
//!
//! - [`gantt`]: which task runs when, and below that which ranks are refreshed.
//! - [`lines`]: values over a row of labels.
//! - [`pages`]: where pages are, by color.
//! - [`timing`]: how long accesses took, and which address bits conflict.
//!
//! ```
//! use memtint_picture::lines::{self, Panel, Series};
//!
//! let series = vec![Series { name: "crs", values: vec![Some(1.0), None, Some(0.5)] }];
//! let labels = ["1 Gb", "2 Gb", "4 Gb"].map(str::to_owned);
//! let svg = lines::svg("Latency over density", &labels, &[Panel { name: "ns", series }]);
//! assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
//! ```
#![forbid(unsafe_code)]

mod canvas;
pub mod gantt;
pub mod lines;
pub mod pages;
pub mod timing;
