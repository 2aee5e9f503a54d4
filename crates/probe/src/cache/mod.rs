//! Discovery of the last-level cache, and of distances to nodes.
//!
//! The time of a reload shows whether a line was evicted; a [`CacheOracle`] provides nothing else. Lines that together
//! evict a target are reduced to as many as there are ways; a line that can replace one of these is in their set and
//! slice. If the hash is linear, all differences of such lines form a space over GF(2), and its complement is the space
//! of functions of set and slice. If the hash is not linear, the probe detects that, and compares published hashes.

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
