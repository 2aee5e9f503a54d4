//! memtint-map
