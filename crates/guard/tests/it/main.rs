//! Is the algorithm right? Each module answers one part of the question.

mod defects;
mod example;
mod in_c;
mod laws;
mod log;
mod orders;
mod refused;
mod states;
mod system;
mod witness;
