//! Tests of the regulator beside those of this machine, which are with `memtint guard`.

mod emulated;
