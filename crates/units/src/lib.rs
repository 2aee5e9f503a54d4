//! memtint-units
