//! Bits and fields of the registers and descriptors, as the manual's chapters 3 and 13 give them.
//! Only those that the model acts on are named.

/// CTRL, §13.4.1.
pub mod ctrl {
    pub const VME: u32 = 1 << 30;
}

/// CTRL_EXT, §13.4.6.
pub mod ctrl_ext {
    pub const EE_RST: u32 = 1 << 13;
}

/// ICR, ICS, IMS and IMC, §13.4.17.
pub mod cause {
    pub const TXDW: u32 = 1 << 0;
    pub const TXQE: u32 = 1 << 1;
    pub const RXDMT0: u32 = 1 << 4;
    pub const RXO: u32 = 1 << 6;
    pub const RXT0: u32 = 1 << 7;
    pub const TXD_LOW: u32 = 1 << 15;
    pub const SRPD: u32 = 1 << 16;
}

/// RCTL, §13.4.22.
pub mod rctl {
    pub const EN: u32 = 1 << 1;
    pub const SBP: u32 = 1 << 2;
    pub const UPE: u32 = 1 << 3;
    pub const MPE: u32 = 1 << 4;
    pub const LPE: u32 = 1 << 5;
    pub const RDMTS_SHIFT: u32 = 8;
    pub const MO_SHIFT: u32 = 12;
    pub const BAM: u32 = 1 << 15;
    pub const BSIZE_SHIFT: u32 = 16;
    pub const VFE: u32 = 1 << 18;
    pub const CFIEN: u32 = 1 << 19;
    pub const CFI: u32 = 1 << 20;
    pub const BSEX: u32 = 1 << 25;
    pub const SECRC: u32 = 1 << 26;
}

/// TCTL, §13.4.33.
pub mod tctl {
    pub const EN: u32 = 1 << 1;
    pub const PSP: u32 = 1 << 3;
}

/// RXDCTL and TXDCTL, §13.4.46 and §13.4.43.
pub mod dctl {
    pub const GRAN: u32 = 1 << 24;
    pub const LWTHRESH_SHIFT: u32 = 25;
}

/// RDTR, §13.4.30.
pub mod rdtr {
    pub const FPD: u32 = 1 << 31;
}

/// RXCSUM, §13.4.47.
pub mod rxcsum {
    pub const IPOFL: u32 = 1 << 8;
    pub const TUOFL: u32 = 1 << 9;
}

/// EERD, §13.4.4.
pub mod eerd {
    pub const START: u32 = 1 << 0;
    pub const DONE: u32 = 1 << 4;
}

/// Receive descriptor status and errors, §3.2.3.
pub mod rxd {
    pub const DD: u8 = 1 << 0;
    /// Which byte of a descriptor is its status.
    pub const STATUS_AT: u64 = 12;
    pub const EOP: u8 = 1 << 1;
    pub const IXSM: u8 = 1 << 2;
    pub const VP: u8 = 1 << 3;
    pub const TCPCS: u8 = 1 << 5;
    pub const IPCS: u8 = 1 << 6;
    pub const PIF: u8 = 1 << 7;
    pub const ERROR_CE: u8 = 1 << 0;
    pub const ERROR_TCPE: u8 = 1 << 5;
    pub const ERROR_IPE: u8 = 1 << 6;
}

/// Transmit descriptor commands (bits 31:24 of the second half), §3.3.3 to §3.3.7.
pub mod txd {
    pub const EOP: u8 = 1 << 0;
    pub const IFCS: u8 = 1 << 1;
    /// Insert checksum, in a legacy descriptor.
    pub const IC: u8 = 1 << 2;
    /// TCP segmentation enable, in context and data descriptors.
    pub const TSE: u8 = 1 << 2;
    pub const RS: u8 = 1 << 3;
    pub const DEXT: u8 = 1 << 5;
    pub const VLE: u8 = 1 << 6;
    pub const IDE: u8 = 1 << 7;
    /// In a context descriptor's TUCMD: the packet is TCP.
    pub const TUCMD_TCP: u8 = 1 << 0;
    /// In a context descriptor's TUCMD: the packet is IPv4.
    pub const TUCMD_IP: u8 = 1 << 1;
    pub const POPTS_IXSM: u8 = 1 << 0;
    pub const POPTS_TXSM: u8 = 1 << 1;
    /// Descriptor done, in the second half as written back.
    pub const STATUS_DD: u64 = 1 << 32;
}
