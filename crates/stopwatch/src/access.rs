//! Timed accesses: everything that differs between processors.
//!
//! Each module has the same five functions. `missing` returns the feature that the processor lacks. `now` reads its
//! clock. `read` times a read: it begins when everything before it is done, flushes included, and nothing after it
//! begins until it has its value. `flush` evicts a line from all caches of all CPUs. `settle` waits until all earlier
//! reads and flushes are done. `read` and `flush` need the address of a readable byte.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod other;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{flush, missing, now, read, settle};
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) use other::{flush, missing, now, read, settle};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{flush, missing, now, read, settle};
