//! The integration tests of `memtint-dram`, in one program that is linked once.

mod check;
mod closed_formulas;
mod energy;
mod legal;
mod nonsense;
mod recorded_statistics;
mod reference;
mod refresh_costs;
mod retention;
mod schedulers;
mod standards;
mod timetable;
mod worst_case;
