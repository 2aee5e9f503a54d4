//! The integration tests of `memtint-sim`, in one program that is linked once.

mod allocators;
mod bandwidth;
mod closed_formulas;
mod common;
mod division;
mod nonsense;
mod predicted;
mod refresh;
mod scheduling;
mod servers;
mod sharing;
mod system;
mod table;
