//! The memtint program.
fn main() {}
