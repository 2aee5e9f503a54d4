//! Discovery of the last-level cache, and of how far nodes are.
//!
//! Whether a line evicts another shows in the time of a reload: a [`CacheOracle`] is asked for nothing else. Lines that
//! together evict one are reduced to as many as there are ways; a line that can stand in for one of these is in their set and slice. All
//! differences of such lines are a space over GF(2), if the hash is linear, and its complement the functions of set and slice. If it is
//! not, that shows, and published hashes are compared.

mod hash;
mod linear;
mod machine;
mod nodes;
mod oracle;
mod prober;
mod recognise;
mod report;

pub use hash::KnownHash;
pub use linear::{Congruence, NotLinear};
pub use machine::CacheMachine;
pub use nodes::{Nearer, NodeLatency, NodeReport, probe_nodes};
pub use oracle::{CacheFacts, CacheOracle, NodeLayout, NodeOracle, PrivateCache};
pub use prober::{CacheEffort, CacheLevels, CacheRefusal};
pub use recognise::Score;
pub use report::{CacheAnswer, CacheReport, LastLevel, Slice, probe_cache};
