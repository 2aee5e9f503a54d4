//! memtint-plan
