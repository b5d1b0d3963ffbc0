//! Bits and fields of the registers and descriptors, as the datasheet's chapters 7 and 8 give them. Only those that the model
//! acts on are named.

/// CTRL, §8.2.
pub mod ctrl {
    pub const GIO_MASTER_DISABLE: u32 = 1 << 2;
}

/// STATUS, §8.2.
pub mod status {
    pub const GIO_MASTER_ENABLE: u32 = 1 << 19;
}

/// CTRL_EXT, §8.2.
pub mod ctrl_ext {
    pub use crate::intel::bits::ctrl_ext::*;

    pub const EXTENDED_VLAN: u32 = 1 << 26;
}

/// EEC, §8.4.
pub mod eec {
    pub const REQ: u32 = 1 << 6;
    pub const GNT: u32 = 1 << 7;
    pub const PRES: u32 = 1 << 8;
    pub const AUTO_RD: u32 = 1 << 9;
    /// What software may write of it: the pins, the flash's write enable, the request.
    pub const WRITABLE: u32 = 0x77;
    /// The size is two to the power of so many more than 6, in words.
    pub const SIZE_SHIFT: u32 = 11;
}

/// EERD, §8.4.
pub mod eerd {
    pub const DONE: u32 = 1 << 1;
    pub const ADDRESS_SHIFT: u32 = 2;
}

/// SWSM, §8.7.
pub mod swsm {
    pub const SMBI: u32 = 1 << 0;
}

/// ICR, ICS, IMS and IMC, §8.8.
pub mod cause {
    pub use crate::intel::bits::cause::*;

    pub const RXDW: u32 = 1 << 7;
    pub const INT_ASSERTED: u32 = 1 << 31;
}

/// EICR and its masks, §8.8.
pub mod extended {
    pub const OTHER: u32 = 1 << 31;
    /// Those that there are with one interrupt for all: of 16 queues, the TCP timer's and OTHER.
    pub const SHARED: u32 = OTHER | 1 << 30 | 0xffff;
}

/// GPIE, §8.8.
pub mod gpie {
    pub const NSICR: u32 = 1 << 0;
    pub const MULTIPLE_MSIX: u32 = 1 << 4;
    pub const EIAME: u32 = 1 << 30;
}

/// An entry of IVAR, §8.8.
pub mod ivar {
    pub const VALID: u32 = 1 << 7;
    pub const VECTOR: u32 = 0x1f;
}

/// FCRTL, §8.5.
pub mod fcrtl {
    /// In bytes.
    pub const RTL: u32 = 0xfff0;
}

/// RXDCTL and TXDCTL, §8.10 and §8.12.
pub mod dctl {
    pub const ENABLE: u32 = 1 << 25;
    pub const FLUSH: u32 = 1 << 26;
}

/// DCA_CTRL, §8.13.
pub mod dca_ctrl {
    pub const DISABLE: u32 = 1 << 0;
    pub const MODE_SHIFT: u32 = 1;
    /// The tag's coding: the older one, or that of DCA 1.0.
    pub const LEGACY: u32 = 0;
    pub const DCA_1_0: u32 = 1;
}

/// DCA_RXCTRL and DCA_TXCTRL, §8.13: which writes of the queue ask for its core. Headers and payload are a receive queue's.
pub mod dca_queue {
    pub const DESCRIPTORS: u32 = 1 << 5;
    pub const HEADERS: u32 = 1 << 6;
    pub const PAYLOAD: u32 = 1 << 7;
    pub const CPU_SHIFT: u32 = 24;
}

/// DCA_TXCTRL, §8.13.
pub mod txctl {
    /// Relaxed ordering of reads and write-backs.
    pub const RESET: u32 = 0x2a00;
}

/// TDWBAL, §8.12.
pub mod tdwbal {
    pub const ENABLE: u32 = 1 << 0;
}

/// SRRCTL, §8.10.
pub mod srrctl {
    /// In KiB; zero stands for what RCTL says.
    pub const PACKET: u32 = 0x7f;
    /// In 64 bytes.
    pub const HEADER_SHIFT: u32 = 8;
    pub const RDMTS_SHIFT: u32 = 20;
    pub const TYPE_SHIFT: u32 = 25;
    pub const DROP_EN: u32 = 1 << 31;
}

/// RXCSUM, §8.10.
pub mod rxcsum {
    pub use crate::intel::bits::rxcsum::*;

    /// SCTP's.
    pub const CRCOFL: u32 = 1 << 11;
    pub const PCSD: u32 = 1 << 13;
}

/// RFCTL, §8.10.
pub mod rfctl {
    pub const IPFRSP_DIS: u32 = 1 << 14;
    pub const SYNQFP: u32 = 1 << 19;
}

/// MRQC, §8.10.
pub mod mrqc {
    pub const MODE: u32 = 0b111;
    pub const RSS: u32 = 0b010;
    pub const DEFAULT_SHIFT: u32 = 3;
    pub const TCP_IPV4: u32 = 1 << 16;
    pub const IPV4: u32 = 1 << 17;
    pub const TCP_IPV6_EX: u32 = 1 << 18;
    pub const IPV6_EX: u32 = 1 << 19;
    pub const IPV6: u32 = 1 << 20;
    pub const TCP_IPV6: u32 = 1 << 21;
    pub const UDP_IPV4: u32 = 1 << 22;
    pub const UDP_IPV6: u32 = 1 << 23;
    pub const UDP_IPV6_EX: u32 = 1 << 24;
}

/// The receive filters that name a queue, §8.11.
pub mod filter {
    pub const ETQF_ENABLE: u32 = 1 << 26;
    pub const ETQF_QUEUE_ENABLE: u32 = 1 << 31;
    pub const ETQF_QUEUE_SHIFT: u32 = 16;
    pub const SYNQF_ENABLE: u32 = 1 << 0;
    pub const SYNQF_QUEUE_SHIFT: u32 = 1;
    pub const FTQF_QUEUE_ENABLE: u32 = 1 << 8;
    pub const FTQF_QUEUE_SHIFT: u32 = 16;
    /// What is not compared: protocol, source and destination address, source port.
    pub const FTQF_ANY_PROTOCOL: u32 = 1 << 28;
    pub const FTQF_ANY_SOURCE: u32 = 1 << 29;
    pub const FTQF_ANY_DESTINATION: u32 = 1 << 30;
    pub const FTQF_ANY_SOURCE_PORT: u32 = 1 << 31;
    /// In IMIR: of several filters that fit the one with the highest counts.
    pub const IMIR_PRIORITY_SHIFT: u32 = 29;
    /// In IMIR: the destination port is not compared.
    pub const IMIR_ANY_PORT: u32 = 1 << 17;
}

/// Receive descriptors as they are written back, §7.1.
pub mod rxd {
    pub use crate::intel::bits::rxd::*;

    pub const PACKET_TYPE_SHIFT: u32 = 4;
    /// Packet types, from bit 4 of the first word on.
    pub const TYPE_IPV4: u32 = 1 << 0;
    pub const TYPE_IPV4_EX: u32 = 1 << 1;
    pub const TYPE_IPV6: u32 = 1 << 2;
    pub const TYPE_IPV6_EX: u32 = 1 << 3;
    pub const TYPE_TCP: u32 = 1 << 4;
    pub const TYPE_UDP: u32 = 1 << 5;
    pub const TYPE_SCTP: u32 = 1 << 6;
    /// An EtherType filter matched, whose number stands in the lowest bits.
    pub const TYPE_ETQF: u32 = 1 << 11;
}

/// Transmit descriptor commands (bits 31:24 of the second half), §7.2.
pub mod txd {
    pub use crate::intel::bits::txd::*;

    /// TCP segmentation enable, in an advanced data descriptor.
    pub const TSE: u8 = 1 << 7;
    /// In a context descriptor's TUCMD.
    pub const TUCMD_IPV4: u64 = 1 << 10;
    pub const TUCMD_L4T_SHIFT: u32 = 11;
    pub const L4T_TCP: u64 = 1;
    pub const L4T_SCTP: u64 = 2;
}
