//! Register and descriptor fields (manual chapters 3 and 13). Only fields that the model acts on are listed.

/// ICR, ICS, IMS and IMC, §13.4.17.
pub mod cause {
    pub use crate::intel::bits::cause::*;

    pub const TXQE: u32 = 1 << 1;
    pub const RXT0: u32 = 1 << 7;
    pub const TXD_LOW: u32 = 1 << 15;
    pub const SRPD: u32 = 1 << 16;
}

/// RCTL, §13.4.22.
pub mod rctl {
    pub use crate::intel::bits::rctl::*;

    pub const RDMTS_SHIFT: u32 = 8;
    pub const BSEX: u32 = 1 << 25;
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

/// EERD, §13.4.4.
pub mod eerd {
    pub const DONE: u32 = 1 << 4;
    pub const ADDRESS_SHIFT: u32 = 8;
}

/// Transmit descriptor commands (bits 31:24 of the second half), §3.3.3 to §3.3.7.
pub mod txd {
    pub use crate::intel::bits::txd::*;

    /// TCP segmentation enable, in context and data descriptors.
    pub const TSE: u8 = 1 << 2;
    pub const IDE: u8 = 1 << 7;
    /// In a context descriptor's TUCMD: the packet is TCP.
    pub const TUCMD_TCP: u8 = 1 << 0;
    /// In a context descriptor's TUCMD: the packet is IPv4.
    pub const TUCMD_IP: u8 = 1 << 1;
}
