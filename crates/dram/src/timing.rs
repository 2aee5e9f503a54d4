//! The devices on a channel, for its controller: geometry, and every timing constraint in cycles.

use crate::index::{BankInRank, BankIndex, RankIndex};

/// How the devices of one channel are organised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Ranks on the channel.
    pub ranks: u32,
    /// Bank groups in a rank; 1 where the standard has none.
    pub bank_groups: u32,
    /// Banks in a bank group.
    pub banks_per_group: u32,
    /// Rows in a bank.
    pub rows: u32,
    /// Columns in a row, each as wide as the channel's bus.
    pub columns: u32,
    /// Width of the channel's data bus in bits, without those for error correction.
    pub bus_bits: u32,
    /// Width of one device in bits; `bus_bits / device_bits` devices make a rank.
    pub device_bits: u32,
    /// Transfers in a burst: the columns that one read or write moves.
    pub burst_length: u32,
}

impl Geometry {
    /// Banks in a rank.
    #[must_use]
    pub const fn banks_per_rank(&self) -> u32 {
        self.bank_groups * self.banks_per_group
    }

    /// Banks on the channel.
    #[must_use]
    pub const fn banks(&self) -> u32 {
        self.ranks * self.banks_per_rank()
    }

    /// Converts a bank of a rank to a bank of the channel.
    #[inline]
    #[must_use]
    pub const fn bank(&self, rank: RankIndex, bank: BankInRank) -> BankIndex {
        debug_assert!(rank.0 < self.ranks && bank.0 < self.banks_per_rank(), "a rank or bank that does not exist");
        BankIndex(rank.0 * self.banks_per_rank() + bank.0)
    }

    /// Rank of a bank.
    #[inline]
    #[must_use]
    pub const fn rank_of(&self, bank: BankIndex) -> RankIndex {
        RankIndex(bank.0 / self.banks_per_rank())
    }

    /// Number of a bank inside its rank.
    #[inline]
    #[must_use]
    pub const fn bank_in_rank(&self, bank: BankIndex) -> BankInRank {
        BankInRank(bank.0 % self.banks_per_rank())
    }

    /// Bytes that one read or write moves.
    #[must_use]
    pub const fn burst_bytes(&self) -> u32 {
        self.burst_length * self.bus_bits / 8
    }

    /// Bursts in a row.
    #[must_use]
    pub const fn bursts_per_row(&self) -> u32 {
        self.columns / self.burst_length
    }

    /// Devices in a rank.
    #[must_use]
    pub const fn devices_per_rank(&self) -> u32 {
        self.bus_bits / self.device_bits
    }

    /// Bytes on the channel.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.banks() as u64 * self.rows as u64 * self.columns as u64 * (self.bus_bits / 8) as u64
    }
}

/// Every constraint between commands, in cycles of the channel's clock (half the data rate).
///
/// Names are JEDEC's without the leading t. `_s` holds between different bank groups and `_l` within one; standards
/// without bank groups have both equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// CL (RL): read to first data.
    pub cl: u32,
    /// CWL (WL): write to first data.
    pub cwl: u32,
    /// Cycles a burst occupies the data bus: BL/2.
    pub burst: u32,
    /// tRCD: ACT to read or write.
    pub rcd: u32,
    /// tRP (tRPpb): PRE to ACT of the same bank.
    pub rp: u32,
    /// tRPab (tRPA): PREA to ACT or REF; equal to `rp` but for LPDDR4, and DDR2 with eight banks.
    pub rp_ab: u32,
    /// tRAS: ACT to PRE of the same bank.
    pub ras: u32,
    /// tRC: ACT to ACT, or REF, of the same bank.
    pub rc: u32,
    /// tCCD_S: read to read of another bank group.
    pub ccd_s: u32,
    /// tCCD_L: read to read of the same bank group.
    pub ccd_l: u32,
    /// tCCD_S_WR: write to write of another bank group; `ccd_s` but for DDR5.
    pub ccd_s_wr: u32,
    /// tCCD_L_WR: write to write of the same bank group; `ccd_l` but for DDR5.
    pub ccd_l_wr: u32,
    /// tRRD_S: ACT to ACT of another bank group.
    pub rrd_s: u32,
    /// tRRD_L: ACT to ACT of the same bank group.
    pub rrd_l: u32,
    /// tFAW: ACT to the fourth ACT after it, in one rank.
    pub faw: u32,
    /// tWR: last written data to PRE.
    pub wr: u32,
    /// tWTR_S: last written data to a read of another bank group of the rank.
    pub wtr_s: u32,
    /// tWTR_L: last written data to a read of the same bank group.
    pub wtr_l: u32,
    /// tRTP: read to PRE.
    pub rtp: u32,
    /// tRTRS: idle cycles of the data bus when another rank drives it.
    pub rtrs: u32,
    /// Read to write of the same rank: CL + BL/2 + turnaround - CWL.
    pub rtw: u32,
    /// tPPD: PRE to PRE of one rank; 1 where the standard has none.
    pub ppd: u32,
    /// tRFC: REF to the next command to the rank.
    pub rfc: u32,
    /// tRFCpb (tRFCsb): REFpb to the next command to the bank; 0 where the standard has none.
    pub rfc_pb: u32,
    /// tpbR2pbR: REFpb to REFpb of another bank of the rank; 0 where the standard has none.
    pub pbr2pbr: u32,
    /// tpbR2act (tREFSBRD): REFpb to ACT of another bank of the rank; 0 where the standard has none.
    pub pbr2act: u32,
    /// tREFI: average interval between two REF to a rank.
    pub refi: u32,
}

impl Timing {
    /// Gives every constraint by JEDEC's name, with its cycles; 0 where the standard has none.
    #[must_use]
    pub const fn named(&self) -> [(&'static str, u32); 27] {
        [
            ("CL", self.cl),
            ("CWL", self.cwl),
            ("BL/2", self.burst),
            ("tRCD", self.rcd),
            ("tRP", self.rp),
            ("tRPab", self.rp_ab),
            ("tRAS", self.ras),
            ("tRC", self.rc),
            ("tCCD_S", self.ccd_s),
            ("tCCD_L", self.ccd_l),
            ("tCCD_S_WR", self.ccd_s_wr),
            ("tCCD_L_WR", self.ccd_l_wr),
            ("tRRD_S", self.rrd_s),
            ("tRRD_L", self.rrd_l),
            ("tFAW", self.faw),
            ("tWR", self.wr),
            ("tWTR_S", self.wtr_s),
            ("tWTR_L", self.wtr_l),
            ("tRTP", self.rtp),
            ("tRTRS", self.rtrs),
            ("tRTW", self.rtw),
            ("tPPD", self.ppd),
            ("tRFC", self.rfc),
            ("tRFCpb", self.rfc_pb),
            ("tpbR2pbR", self.pbr2pbr),
            ("tpbR2act", self.pbr2act),
            ("tREFI", self.refi),
        ]
    }
}

impl Timing {
    /// Last data of a read, counted from the command: the duration of a lone row hit.
    #[must_use]
    pub const fn read_latency(&self) -> u32 {
        self.cl + self.burst
    }

    /// Write command to PRE of the bank.
    #[must_use]
    pub const fn write_to_precharge(&self) -> u32 {
        self.cwl + self.burst + self.wr
    }
}
