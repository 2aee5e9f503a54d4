//! The live tests of `memtint-stopwatch`: they read frame numbers of this machine, or time it. Each takes the machine for itself.

/// `make test-live` picks tests by this name.
#[path = "."]
mod live {
    mod machine;
}
