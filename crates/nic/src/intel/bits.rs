//! Register bits and fields common to all chips of the family. A chip's `bits.rs` adds its own.

/// CTRL.
pub mod ctrl {
    pub const FD: u32 = 1 << 0;
    pub const SLU: u32 = 1 << 6;
    pub const SPEED_SHIFT: u32 = 8;
    pub const FRCSPD: u32 = 1 << 11;
    pub const FRCDPLX: u32 = 1 << 12;
    pub const RST: u32 = 1 << 26;
    pub const RFCE: u32 = 1 << 27;
    pub const TFCE: u32 = 1 << 28;
    pub const VME: u32 = 1 << 30;
    pub const PHY_RST: u32 = 1 << 31;
}

/// CTRL_EXT.
pub mod ctrl_ext {
    pub const EE_RST: u32 = 1 << 13;
}

/// STATUS.
pub mod status {
    pub const FD: u32 = 1 << 0;
    pub const LU: u32 = 1 << 1;
    pub const TXOFF: u32 = 1 << 4;
    /// SPEED (7:6): 0 is 10 Mb/s, 1 is 100, 2 is 1000.
    pub const SPEED_SHIFT: u32 = 6;
    /// ASDV (9:8): the detected speed, in the same encoding.
    pub const ASDV_SHIFT: u32 = 8;
}

/// EERD.
pub mod eerd {
    pub const START: u32 = 1 << 0;
}

/// ICR and its masks.
pub mod cause {
    pub const TXDW: u32 = 1 << 0;
    pub const LSC: u32 = 1 << 2;
    pub const RXDMT0: u32 = 1 << 4;
    /// Receive FIFO overrun: RXO in the 82540EM's manual, RX Miss in the 82576's.
    pub const RXO: u32 = 1 << 6;
    pub const MDAC: u32 = 1 << 9;
}

/// RCTL.
pub mod rctl {
    pub const EN: u32 = 1 << 1;
    pub const SBP: u32 = 1 << 2;
    pub const UPE: u32 = 1 << 3;
    pub const MPE: u32 = 1 << 4;
    pub const LPE: u32 = 1 << 5;
    pub const LBM: u32 = 0b11 << 6;
    pub const MO_SHIFT: u32 = 12;
    pub const BAM: u32 = 1 << 15;
    pub const BSIZE_SHIFT: u32 = 16;
    pub const VFE: u32 = 1 << 18;
    pub const CFIEN: u32 = 1 << 19;
    pub const CFI: u32 = 1 << 20;
    pub const DPF: u32 = 1 << 22;
    pub const PMCF: u32 = 1 << 23;
    pub const SECRC: u32 = 1 << 26;
}

/// TCTL.
pub mod tctl {
    pub const EN: u32 = 1 << 1;
    pub const PSP: u32 = 1 << 3;
    pub const SWXOFF: u32 = 1 << 22;
}

/// FCRTL.
pub mod fcrtl {
    pub const XONE: u32 = 1 << 31;
}

/// MDIC.
pub mod mdic {
    pub const READ: u32 = 0b10;
    pub const WRITE: u32 = 0b01;
    pub const READY: u32 = 1 << 28;
    pub const INTERRUPT: u32 = 1 << 29;
    pub const ERROR: u32 = 1 << 30;
}

/// RXCSUM.
pub mod rxcsum {
    pub const IPOFL: u32 = 1 << 8;
    pub const TUOFL: u32 = 1 << 9;
}

/// Written-back receive descriptors: status and error bits of the advanced format. In the legacy format the
/// error byte follows the status byte.
pub mod rxd {
    pub const DD: u32 = 1 << 0;
    pub const EOP: u32 = 1 << 1;
    /// Legacy format only: the checksums were not verified.
    pub const IXSM: u32 = 1 << 2;
    pub const VP: u32 = 1 << 3;
    pub const UDPCS: u32 = 1 << 4;
    pub const L4CS: u32 = 1 << 5;
    pub const IPCS: u32 = 1 << 6;
    pub const PIF: u32 = 1 << 7;
    pub const HBO: u32 = 1 << 23;
    pub const CE: u32 = 1 << 24;
    pub const L4E: u32 = 1 << 29;
    pub const IPE: u32 = 1 << 30;
    /// Byte offset of the status field in each format.
    pub const LEGACY_STATUS_AT: u64 = 12;
    pub const ADVANCED_STATUS_AT: u64 = 8;
    /// In the first word of the advanced format: the header is in a separate buffer.
    pub const SPH: u64 = 1 << 31;
    pub const HEADER_LEN_SHIFT: u32 = 21;
}

/// Transmit descriptor commands (bits 31:24 of the second word).
pub mod txd {
    pub const EOP: u8 = 1 << 0;
    pub const IFCS: u8 = 1 << 1;
    /// Insert checksum, in a legacy descriptor.
    pub const IC: u8 = 1 << 2;
    pub const RS: u8 = 1 << 3;
    pub const DEXT: u8 = 1 << 5;
    pub const VLE: u8 = 1 << 6;
    /// POPTS of a data descriptor: insert the IPv4 checksum, insert the transport checksum.
    pub const POPTS_IXSM: u8 = 1 << 0;
    pub const POPTS_TXSM: u8 = 1 << 1;
    /// Descriptor done, in the second word of a written-back descriptor.
    pub const STATUS_DD: u64 = 1 << 32;
}
