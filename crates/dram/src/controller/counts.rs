//! Counters of a controller.

/// Counts of one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankCounts {
    /// ACT commands.
    pub activates: u64,
    /// RD and RDA commands.
    pub reads: u64,
    /// WR and WRA commands.
    pub writes: u64,
    /// REF commands.
    pub refreshes: u64,
    /// REFpb and REFsb commands.
    pub bank_refreshes: u64,
    /// Cycles with a row open in at least one bank.
    pub cycles_open: u64,
}

/// Requests of one rank that met a refresh, each counted once and in one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefreshMet {
    /// Requests whose bank was refreshed, or closed for it, when they arrived, or that waited when its refresh fell due: delays by refresh
    /// that no software avoids.
    pub ordinary: u64,
    /// Requests that arrived while software had locked the rank (see [`Timetable`](crate::Timetable)): none, if it keeps the timetable.
    pub locked: u64,
    /// Requests that had arrived before the rank was locked, and still waited when its burst began.
    pub caught: u64,
}

/// Counts of one bank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BankCounts {
    /// Requests that found their row open.
    pub hits: u64,
    /// Requests that found the bank closed.
    pub misses: u64,
    /// Requests that found another row open.
    pub conflicts: u64,
}

/// Counts another request of a source.
pub(super) fn count_source(counts: &mut Vec<u64>, source: u16) {
    let source = usize::from(source);
    if counts.len() <= source {
        counts.resize(source + 1, 0);
    }
    counts[source] += 1;
}
