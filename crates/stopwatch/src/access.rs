//! One access, timed: all that differs from one processor to the next.
//!
//! Each of them has the same five functions. `missing` says what the processor lacks. `now` reads its clock. `read` times a read: it
//! begins when everything before it is done, flushes included, and nothing after it begins until it has its value. `flush` throws a
//! line out of all caches of all CPUs. `settle` waits until all reads and flushes before it are done. `read` and `flush` need the address of a byte that may be read.

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
