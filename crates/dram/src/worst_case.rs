//! The guaranteed bandwidth of one channel: r_min of bandwidth regulation (MemGuard, Yun et al., 2012).
//!
//! All lines lie in one bank, each in another row than the previous one, so nothing overlaps: a line takes the bank's whole cycle. A write
//! occupies the bank longest, because of the recovery of the row (tWR). The other case considered is alternating reads and writes of open
//! rows, which turn the data bus each time. Refresh takes the bank in addition, and may come at the worst moment: when a row has just been
//! opened, which is then closed unused.
//!
//! The slides of MemGuard add up PRE, ACT, RD and the transfer instead. That omits tRC, the recovery of a write, and refresh.

use crate::refresh::RefreshKind;
use crate::standard::Device;
use crate::timing::Timing;
use memtint_units::Picoseconds;

/// Worst-case times of lines, in cycles of the channel's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorstCase {
    /// From line to line, all read: max(tRC, tRCD + tRTP + tRP), with the bursts of a line between.
    pub read_cycles: u64,
    /// From line to line, all written: max(tRC, tRCD + CWL + BL/2 + tWR + tRP), with the bursts of a line between.
    pub write_cycles: u64,
    /// Per line on average, for alternating reads and writes of open rows.
    pub turnaround_cycles: u64,
    /// Time for refreshes of a bank, if there are any.
    pub refresh: Option<RefreshShare>,
    /// Bytes of a line.
    pub line_bytes: u64,
    clock: memtint_units::Clock,
}

/// Time for refreshes of a bank, in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshShare {
    /// From one to the next.
    pub interval: u64,
    /// Bank time of one refresh, including the row that it may find open and unused.
    pub cycles: u64,
    /// Number that may be late, and so fall into an interval in addition.
    pub postponed_max: u64,
}

/// The row cycle according to the slides of MemGuard.
#[must_use]
pub fn cycles_of_slides(timing: &Timing) -> u64 {
    [timing.rp, timing.rcd, timing.cl, timing.burst].into_iter().map(u64::from).sum()
}

impl WorstCase {
    /// Computes the times of lines of `line_bytes` on a channel of these devices, with this refresh.
    #[must_use]
    pub fn of(device: &Device, refresh: RefreshKind, line_bytes: u64) -> WorstCase {
        let t = &device.timing;
        let more = line_bytes.div_ceil(u64::from(device.geometry.burst_bytes())).max(1) - 1;
        let sum = |parts: &[u32]| parts.iter().copied().map(u64::from).sum::<u64>();
        let (more_reads, more_writes) = (more * u64::from(t.ccd_l), more * u64::from(t.ccd_l_wr));
        let reads = sum(&[t.rcd, t.rtp, t.rp]) + more_reads;
        let writes = sum(&[t.rcd, t.cwl, t.burst, t.wr, t.rp]) + more_writes;
        let pair = sum(&[t.rtw, t.cwl, t.burst, t.wtr_l]) + more_reads + more_writes;
        let (read_cycles, write_cycles) = (reads.max(u64::from(t.rc)), writes.max(u64::from(t.rc)));
        let row = read_cycles.max(write_cycles);
        // A REF waits for all banks: for tRP (tRPab) after PREA.
        let all_banks = |interval: u64, rfc: u32, postponed_max: u64| {
            let cycles = u64::from(rfc) + u64::from(t.rp_ab.saturating_sub(t.rp)) + row;
            Some(RefreshShare { interval, cycles, postponed_max })
        };
        let one_bank = |interval: u32| {
            Some(RefreshShare { interval: u64::from(interval), cycles: u64::from(t.rfc_pb) + row, postponed_max: 0 })
        };
        let refi = u64::from(t.refi);
        let refresh = match refresh {
            RefreshKind::None => None,
            RefreshKind::AllBank { .. } => all_banks(refi, t.rfc, 0),
            RefreshKind::FineGranularity { factor, rfc } => all_banks(refi / u64::from(factor), rfc, 0),
            RefreshKind::Elastic { postponed_max } => all_banks(refi, t.rfc, u64::from(postponed_max)),
            RefreshKind::Burst { commands, window } => {
                let cycles = u64::from(commands) * u64::from(t.rfc) + u64::from(t.rp_ab) + row;
                Some(RefreshShare { interval: window, cycles, postponed_max: 0 })
            }
            RefreshKind::PerBank { interval } | RefreshKind::SameBank { interval } => one_bank(interval),
        };
        WorstCase {
            read_cycles,
            write_cycles,
            turnaround_cycles: pair.div_ceil(2),
            refresh,
            line_bytes,
            clock: device.clock,
        }
    }

    /// Gives the longest time of a line, without refresh.
    #[must_use]
    pub fn line_cycles(&self) -> u64 {
        self.read_cycles.max(self.write_cycles).max(self.turnaround_cycles)
    }

    /// Gives the number of lines served in any stretch of this length under constant load: in the time left by refresh, without the line
    /// that is under way at the beginning.
    #[must_use]
    pub fn lines_in(&self, time: Picoseconds) -> u64 {
        let cycles = self.clock.cycles_within(time);
        let refreshed = self.refresh.map_or(0, |refresh| {
            (cycles / refresh.interval + 1 + refresh.postponed_max).saturating_mul(refresh.cycles)
        });
        (cycles.saturating_sub(refreshed) / self.line_cycles()).saturating_sub(1)
    }

    /// Gives the bytes per second in the long run, at least, when each line takes `line_cycles`, refresh included.
    #[must_use]
    pub fn bytes_per_second(&self, line_cycles: u64) -> f64 {
        let left = self.refresh.map_or(1.0, |refresh| 1.0 - (refresh.cycles as f64 / refresh.interval as f64).min(1.0));
        let seconds = self.clock.start(1_000_000).as_seconds() / 1e6;
        self.line_bytes as f64 / (line_cycles as f64 * seconds) * left
    }
}
