//! memtint-live
