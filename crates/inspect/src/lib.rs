//! memtint-inspect
