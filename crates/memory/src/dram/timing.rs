//! DRAM standards as tables: geometry of a device, and minimum distances between commands in clocks.
//!
//! Documents: JESD79-4 (DDR4 SDRAM): tables of timing parameters by speed bin, refresh parameters by density,
//! bank groups and addressing; JESD79-5 (DDR5 SDRAM) likewise. Values are for 8 Gb (DDR4) and 16 Gb (DDR5) x8
//! devices with 1 KB pages. "The greater of n clocks and t ns" is given in clocks at this rate. The speed
//! bins are DDR4-2400T (17-17-17), DDR4-2666V (19-19-19), DDR4-3200AA (22-22-22) and DDR5-4800B (40-39-39).

use doorbell_sim::Hertz;
use doorbell_sim::config::{PowersOfTwo, check};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// DRAM standards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DramStandard {
    /// DDR4-2400T: 19.2 GB/s per channel.
    #[default]
    #[serde(rename = "ddr4-2400")]
    Ddr4_2400,
    /// DDR4-2666V: 21.3 GB/s per channel.
    #[serde(rename = "ddr4-2666")]
    Ddr4_2666,
    /// DDR4-3200AA: 25.6 GB/s per channel.
    #[serde(rename = "ddr4-3200")]
    Ddr4_3200,
    /// DDR5-4800B: 19.2 GB/s per channel. A module has two such 32-bit channels.
    #[serde(rename = "ddr5-4800")]
    Ddr5_4800,
}

/// Timing table. All values except `clock` and the counts are in clocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DramTiming {
    /// Command clock: half the data rate. 100MHz to 10GHz.
    pub clock: Hertz,
    /// Bank groups per rank: a power of two, 1 to 8.
    pub bank_groups: u64,
    /// Banks per bank group: a power of two, 1 to 8.
    pub banks_per_group: u64,
    /// Rows per bank: a power of two, 1 to 16777216.
    pub rows: u64,
    /// 64-byte lines per row, over the channel's width: a power of two, 1 to 4096.
    pub lines_per_row: u64,
    /// Data bus time of a line, 1 to 32 clocks.
    pub burst: u64,
    /// Read latency (CL): column command to first data, 1 to 200 clocks.
    pub cl: u64,
    /// Write latency (CWL), 1 to 200 clocks.
    pub cwl: u64,
    /// Activate to column command (tRCD), 1 to 200 clocks.
    pub rcd: u64,
    /// Precharge to activate (tRP), 1 to 200 clocks.
    pub rp: u64,
    /// Activate to precharge (tRAS), 1 to 400 clocks.
    pub ras: u64,
    /// Activate to activate, other bank group (tRRD_S), 1 to 32 clocks.
    pub rrd_s: u64,
    /// Activate to activate, same bank group (tRRD_L), 1 to 32 clocks.
    pub rrd_l: u64,
    /// Window with at most four activates per rank (tFAW), 1 to 127 clocks.
    pub faw: u64,
    /// Column to column command, other bank group (tCCD_S), 1 to 32 clocks.
    pub ccd_s: u64,
    /// Column to column command, same bank group (tCCD_L), 1 to 32 clocks.
    pub ccd_l: u64,
    /// Write to write, same bank group (tCCD_L_WR of DDR5; tCCD_L of DDR4), 1 to 64 clocks.
    pub ccd_l_write: u64,
    /// End of write data to precharge (tWR), 1 to 400 clocks.
    pub wr: u64,
    /// End of write data to read, other bank group (tWTR_S), 1 to 200 clocks.
    pub wtr_s: u64,
    /// End of write data to read, same bank group (tWTR_L), 1 to 200 clocks.
    pub wtr_l: u64,
    /// Read to precharge (tRTP), 1 to 200 clocks.
    pub rtp: u64,
    /// Bubble on the data bus when its driver changes (rank to rank, read to write), 1 to 8 clocks.
    pub turnaround: u64,
    /// Refresh interval (tREFI) at normal temperature, at least four times a refresh and a row cycle, at most
    /// 1048576 clocks.
    pub refi: u64,
    /// Duration of an all-bank refresh of a rank (tRFC1).
    pub rfc: u64,
}

impl DramStandard {
    /// The standard's table.
    pub const fn timing(self) -> DramTiming {
        match self {
            DramStandard::Ddr4_2400 => DDR4_2400,
            DramStandard::Ddr4_2666 => DDR4_2666,
            DramStandard::Ddr4_3200 => DDR4_3200,
            DramStandard::Ddr5_4800 => DDR5_4800,
        }
    }
}

const DDR4_2400: DramTiming = DramTiming {
    clock: Hertz(1_200_000_000),
    bank_groups: 4,
    banks_per_group: 4,
    rows: 1 << 16,
    lines_per_row: 128,
    burst: 4,
    cl: 17,
    cwl: 12,
    rcd: 17,
    rp: 17,
    ras: 39,
    rrd_s: 4,
    rrd_l: 6,
    faw: 26,
    ccd_s: 4,
    ccd_l: 6,
    ccd_l_write: 6,
    wr: 18,
    wtr_s: 3,
    wtr_l: 9,
    rtp: 9,
    turnaround: 1,
    refi: 9360,
    rfc: 420,
};

const DDR4_2666: DramTiming = DramTiming {
    clock: Hertz(1_333_333_333),
    cl: 19,
    cwl: 14,
    rcd: 19,
    rp: 19,
    ras: 43,
    rrd_l: 7,
    faw: 28,
    ccd_l: 7,
    ccd_l_write: 7,
    wr: 20,
    wtr_s: 4,
    wtr_l: 10,
    rtp: 10,
    refi: 10400,
    rfc: 467,
    ..DDR4_2400
};

const DDR4_3200: DramTiming = DramTiming {
    clock: Hertz(1_600_000_000),
    cl: 22,
    cwl: 16,
    rcd: 22,
    rp: 22,
    ras: 52,
    rrd_l: 8,
    faw: 34,
    ccd_l: 8,
    ccd_l_write: 8,
    wr: 24,
    wtr_s: 4,
    wtr_l: 12,
    rtp: 12,
    refi: 12480,
    rfc: 560,
    ..DDR4_2400
};

const DDR5_4800: DramTiming = DramTiming {
    clock: Hertz(2_400_000_000),
    bank_groups: 8,
    banks_per_group: 4,
    rows: 1 << 16,
    lines_per_row: 64,
    burst: 8,
    cl: 40,
    cwl: 38,
    rcd: 39,
    rp: 39,
    ras: 77,
    rrd_s: 8,
    rrd_l: 12,
    faw: 32,
    ccd_s: 8,
    ccd_l: 12,
    ccd_l_write: 48,
    wr: 72,
    wtr_s: 6,
    wtr_l: 24,
    rtp: 18,
    turnaround: 2,
    refi: 9360,
    rfc: 708,
};

/// Relation between the targets of two commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Relation {
    SameGroup,
    SameRank,
    OtherRank,
}

/// Minimum distances between column commands, by [`Relation`].
#[derive(Clone, Debug, Default)]
pub(super) struct ColumnGaps {
    /// `gaps[first is a write][second is a write][relation]`.
    pub gaps: [[[u64; 3]; 2]; 2],
    /// The largest gap between two commands of these kinds.
    pub reach: [[u64; 2]; 2],
}

impl DramTiming {
    /// Clocks from a column command to the earliest precharge of the bank.
    pub(super) const fn to_precharge(&self, write: bool) -> u64 {
        if write { self.cwl + self.burst + self.wr } else { self.rtp }
    }

    /// Clocks from a column command to the end of its data.
    pub(super) const fn to_data_end(&self, write: bool) -> u64 {
        self.burst + if write { self.cwl } else { self.cl }
    }

    pub(super) fn column_gaps(&self) -> ColumnGaps {
        let burst = self.burst;
        let read_read = [self.ccd_l.max(burst), self.ccd_s.max(burst), burst + self.turnaround];
        // Read data, a bubble, then write data.
        let to_write = (self.cl + burst + self.turnaround).saturating_sub(self.cwl);
        let read_write = [to_write; 3];
        let other_rank = (self.cwl + burst + self.turnaround).saturating_sub(self.cl);
        let written = self.cwl + burst;
        let write_read = [written + self.wtr_l, written + self.wtr_s, other_rank.max(1)];
        let write_write = [self.ccd_l_write.max(burst), self.ccd_s.max(burst), burst + self.turnaround];
        let gaps = [[read_read, read_write], [write_read, write_write]];
        let reach = gaps.map(|second| second.map(|of| of.into_iter().fold(0, u64::max)));
        ColumnGaps { gaps, reach }
    }

    /// Bytes per second of the channel's pins.
    pub fn bytes_per_second(&self) -> u64 {
        self.clock.0 * 64 / self.burst
    }

    /// Checks a user's table.
    pub fn validate(&self) -> Result<(), String> {
        let powers = [
            ("bank_groups", self.bank_groups, 8),
            ("banks_per_group", self.banks_per_group, 8),
            ("rows", self.rows, 1 << 24),
            ("lines_per_row", self.lines_per_row, 1 << 12),
        ];
        for (name, value, max) in powers {
            check(&format!("timing.{name}"), &value, PowersOfTwo(1..=max))?;
        }
        check("timing.clock", &self.clock, Hertz(100_000_000)..=Hertz(10_000_000_000))?;
        // Limited by the reach of the calendars; no standard comes close.
        let short = super::slots::REACH / 4;
        for (name, value, max) in [
            ("burst", self.burst, short),
            ("rrd_s", self.rrd_s, short),
            ("rrd_l", self.rrd_l, short),
            ("faw", self.faw, 4 * short - 1),
            ("ccd_s", self.ccd_s, short),
            ("ccd_l", self.ccd_l, short),
            ("ccd_l_write", self.ccd_l_write, 2 * short),
            ("turnaround", self.turnaround, 8),
            ("cl", self.cl, 200),
            ("cwl", self.cwl, 200),
            ("rcd", self.rcd, 200),
            ("rp", self.rp, 200),
            ("ras", self.ras, 400),
            ("wr", self.wr, 400),
            ("wtr_s", self.wtr_s, 200),
            ("wtr_l", self.wtr_l, 200),
            ("rtp", self.rtp, 200),
        ] {
            check(&format!("timing.{name}"), &value, 1..=max)?;
        }
        let reach = self.column_gaps().reach.into_iter().flatten().max().unwrap_or(0);
        if reach >= super::slots::REACH {
            let limit = super::slots::REACH - 1;
            return Err(format!(
                "timing gives a distance of {reach} clocks between column commands (cwl + burst + wtr_l, \
                 cl + burst + turnaround - cwl); it must be at most {limit}"
            ));
        }
        let row = self.rp + self.ras + self.rcd + self.to_precharge(true);
        if self.refi > 1 << 20 || self.refi < 4 * (self.rfc + row) {
            return Err(format!(
                "timing.refi is {} clocks; it must be at least four times the sum of a refresh and a row cycle ({}) and at most 2^20",
                self.refi,
                4 * (self.rfc + row)
            ));
        }
        Ok(())
    }
}
