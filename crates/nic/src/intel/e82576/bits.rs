//! Register and descriptor fields (datasheet chapters 7 and 8). Only fields that the model acts on are
//! listed.

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
    /// Bits writable by software: pins, flash write enable, request.
    pub const WRITABLE: u32 = 0x77;
    /// NVM size field: the size is 2^(field + 6) words.
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
    /// Causes without GPIE.MULTIPLE_MSIX: 16 queues, the TCP timer and OTHER.
    pub const SHARED: u32 = OTHER | 1 << 30 | 0xffff;
}

/// GPIE, §8.8.
pub mod gpie {
    pub const NSICR: u32 = 1 << 0;
    pub const MULTIPLE_MSIX: u32 = 1 << 4;
    pub const EIAME: u32 = 1 << 30;
}

/// Fields of an IVAR entry, §8.8.
pub mod ivar {
    pub const VALID: u32 = 1 << 7;
    pub const VECTOR: u32 = 0x1f;
}

/// FCRTL, §8.5.
pub mod fcrtl {
    /// Low watermark in bytes.
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
    /// DCA_MODE: tag encoding, legacy or DCA 1.0.
    pub const LEGACY: u32 = 0;
    pub const DCA_1_0: u32 = 1;
}

/// DCA_RXCTRL and DCA_TXCTRL, §8.13: the queue's target core, and DCA enables by kind of write. Headers and
/// payload apply to receive queues only.
pub mod dca_queue {
    pub const DESCRIPTORS: u32 = 1 << 5;
    pub const HEADERS: u32 = 1 << 6;
    pub const PAYLOAD: u32 = 1 << 7;
    pub const CPU_SHIFT: u32 = 24;
}

/// DCA_TXCTRL, §8.13.
pub mod txctl {
    /// Reset value: relaxed ordering of reads and write-backs.
    pub const RESET: u32 = 0x2a00;
}

/// TDWBAL, §8.12.
pub mod tdwbal {
    pub const ENABLE: u32 = 1 << 0;
}

/// SRRCTL, §8.10.
pub mod srrctl {
    /// Packet buffer size in KiB; zero selects the size in RCTL.
    pub const PACKET: u32 = 0x7f;
    /// Header buffer size in units of 64 bytes.
    pub const HEADER_SHIFT: u32 = 8;
    pub const RDMTS_SHIFT: u32 = 20;
    pub const TYPE_SHIFT: u32 = 25;
    pub const DROP_EN: u32 = 1 << 31;
}

/// RXCSUM, §8.10.
pub mod rxcsum {
    pub use crate::intel::bits::rxcsum::*;

    /// CRC32 checksum offload of SCTP.
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

/// Receive filters that select a queue, §8.11.
pub mod filter {
    pub const ETQF_ENABLE: u32 = 1 << 26;
    pub const ETQF_QUEUE_ENABLE: u32 = 1 << 31;
    pub const ETQF_QUEUE_SHIFT: u32 = 16;
    pub const SYNQF_ENABLE: u32 = 1 << 0;
    pub const SYNQF_QUEUE_SHIFT: u32 = 1;
    pub const FTQF_QUEUE_ENABLE: u32 = 1 << 8;
    pub const FTQF_QUEUE_SHIFT: u32 = 16;
    /// FTQF mask bits: fields that are not compared.
    pub const FTQF_ANY_PROTOCOL: u32 = 1 << 28;
    pub const FTQF_ANY_SOURCE: u32 = 1 << 29;
    pub const FTQF_ANY_DESTINATION: u32 = 1 << 30;
    pub const FTQF_ANY_SOURCE_PORT: u32 = 1 << 31;
    /// In IMIR: priority; among several matching filters the highest wins.
    pub const IMIR_PRIORITY_SHIFT: u32 = 29;
    /// In IMIR: the destination port is not compared.
    pub const IMIR_ANY_PORT: u32 = 1 << 17;
}

/// Written-back receive descriptors, §7.1.
pub mod rxd {
    pub use crate::intel::bits::rxd::*;

    pub const PACKET_TYPE_SHIFT: u32 = 4;
    /// Bits of the packet type, which starts at bit 4 of the first word.
    pub const TYPE_IPV4: u32 = 1 << 0;
    pub const TYPE_IPV4_EX: u32 = 1 << 1;
    pub const TYPE_IPV6: u32 = 1 << 2;
    pub const TYPE_IPV6_EX: u32 = 1 << 3;
    pub const TYPE_TCP: u32 = 1 << 4;
    pub const TYPE_UDP: u32 = 1 << 5;
    pub const TYPE_SCTP: u32 = 1 << 6;
    /// An EtherType filter matched; the lowest bits hold its number.
    pub const TYPE_ETQF: u32 = 1 << 11;
}

/// Transmit descriptor commands (bits 31:24 of the second half), §7.2.
pub mod txd {
    pub use crate::intel::bits::txd::*;

    /// TCP segmentation enable, in an advanced data descriptor.
    pub const TSE: u8 = 1 << 7;
    /// Fields of TUCMD in a context descriptor.
    pub const TUCMD_IPV4: u64 = 1 << 10;
    pub const TUCMD_L4T_SHIFT: u32 = 11;
    pub const L4T_TCP: u64 = 1;
    pub const L4T_SCTP: u64 = 2;
}
