//! The integration tests of `memtint-registers`, in one program that is linked once.

mod family_10h;
mod nonsense;
mod zen;
