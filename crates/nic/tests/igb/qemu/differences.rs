//! Differences between our registers and those of QEMU's igb, and which side is right.
//!
//! Where the datasheet defines a field, it decides. Which bits are writable is also checked by Linux's own
//! test of the card (`ethtool -t`): our registers pass it, and QEMU's have more writable bits. Where no text
//! of the datasheet is available (DTXCTL, and bit 3 of CTRL after a reset), we follow QEMU: its authors had
//! the datasheet and added just these bits, which QEMU's older cards do not have.

/// A register with a different reset value: ours, QEMU's, and the reason.
pub type Reset = (&'static str, u32, u32, &'static str);

pub const AFTER_RESET: &[Reset] = &[
    ("CTRL_DUP", 0x0010_0209, 0, "QEMU has no copy of CTRL"),
    (
        "STATUS",
        0x0008_0281,
        0x8008_0481,
        "the speed before the link is up; QEMU reports DMA clock gating and no PF",
    ),
    (
        "EEC",
        0x0000_2300,
        0x0000_1110,
        "the NVM's size, and that it was loaded; QEMU has the bits of older cards",
    ),
    ("MDIC", 0x1000_0000, 0, "READY: no PHY access is in progress"),
    ("SERDESCTL", 0x8000_0000, 0, "QEMU has no SerDes; ours has the bit for a completed access"),
    (
        "EEMNGCTL",
        0x800c_0000,
        0x8000_0000,
        "CFG_DONE of both ports: drivers wait for it; with QEMU they time out",
    ),
    ("I2CCMD", 0x2000_0000, 0, "QEMU has no I2C; ours is ready"),
    ("SWPBS", 0x14, 0, "QEMU has no switch packet buffer"),
    ("PCS_CFG", 0x8, 0, "QEMU has no PCS"),
    ("PCS_LCTL", 0x0260_0c0c, 0, "QEMU has no PCS"),
    ("GCR", 0x0004_0000, 0x0685_0200, "QEMU has the latencies of the 82574"),
    ("FACTPS", 0x20, 0, "QEMU has no function power states"),
    ("DCA_CTRL", 0x1, 0, "QEMU has no direct cache access; ours is disabled after reset"),
    ("SRRCTL", 0x400, 0, "header buffers have 256 bytes according to the datasheet"),
    ("DCA_RXCTRL", 0xa200, 0, "QEMU has no direct cache access"),
];

/// Kinds of differences in the value after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// QEMU stores writes to reserved bits.
    Reserved,
    /// QEMU stores writes to a read-only register.
    ReadOnly,
    /// QEMU has no such register: it reads as zero.
    Absent,
    /// Individual values and the reason: after zeros (ours, QEMU's), after ones (ours, QEMU's).
    Single([u32; 4], &'static str),
}

const RESERVED: &[&str] = &[
    "FLA",
    "IAM",
    "RCTL",
    "TCTL",
    "TCTL_EXT",
    "TIPG",
    "MBVFIMR",
    "VFRE",
    "VFTE",
    "LEDCTL",
    "GPIE",
    "IVAR",
    "IVAR_MISC",
    "FCRTL",
    "FCRTH",
    "RXPBS",
    "QDE",
    "TXPBS",
    "DTXSWC",
    "DTXCTL",
    "VMVIR",
    "RXCSUM",
    "RLPML",
    "RAH",
    "RAH2",
    "WUC",
    "WUFC",
    "MRQC",
    "VT_CTL",
    "IPAV",
    "MANC2H",
    "VMOLR",
    "RPLOLR",
    "FUNC_TAG",
    "SWSM",
    "SW_FW_SYNC",
    "ETQF",
    "VLVF",
    "TSYNCRXCFG",
    "TSYNCTXCTL",
    "TSYNCRXCTL",
    "RDBAL",
    "SRRCTL",
    "TDBAL",
];

const READ_ONLY: &[&str] = &[
    "EEMNGCTL", "RDFPC", "TDFPC", "FCRUC", "WUS", "FACTPS", "FWSM", "TXSTMPL", "TXSTMPH", "RXSTMPL",
    "RXSTMPH", "RXSATRL", "RXSATRH", "RQDPC",
];

const ABSENT: &[&str] = &[
    "CTRL_DUP",
    "SERDESCTL",
    "CONNSW",
    "I2CCMD",
    "I2CPARAMS",
    "TCPTIMER",
    "SWPBS",
    "PCS_CFG",
    "PCS_LCTL",
    "PCS_ANADV",
    "PSRTYPE",
    "VLAPQF",
    "SYNQF",
    "SAQF",
    "DAQF",
    "SPQF",
    "FTQF",
    "IMIR",
    "IMIREXT",
    "IMIRVP",
    "TXSWC",
    "DCA_CTRL",
    "IOVCTL",
    "UTA",
    "SYSTIML",
    "TSAUXC",
    "TRGTTIM",
    "DCA_RXCTRL",
    "DVMOLR",
];

const SINGLE: &[(&str, [u32; 4], &str)] = &[
    (
        "CTRL",
        [0, 0, 0x58df_1b4d, 0x7bff_ffff],
        "reserved bits; QEMU stores VME and clears DEV_RST, which ours does not have",
    ),
    (
        "STATUS",
        [0x0008_0281, 0x8008_0081, 0x0008_0281, 0x8008_0481],
        "a zero clears PHYRA in QEMU; ours does not have it",
    ),
    (
        "EEC",
        [0x2300, 0x1100, 0x23f7, 0xffff_95ff],
        "size and presence are read-only; ours grants what is requested",
    ),
    ("CTRL_EXT", [0, 0, 0xffff_dfff, 0xffff_cfff], "bit 12 is a command in QEMU, as on older cards"),
    (
        "MDIC",
        [0, 0x5000_0000, 0x2fff_ffff, 0x5000_0000],
        "QEMU's PHY completes at once, and an invalid operation with an error",
    ),
    ("EIAM", [0, u32::MAX, 0xc1ff_ffff, 0xfe00_0000], "QEMU writes the complement, and can only set bits"),
    ("EITR", [0, 0, 0xfffc, 0x7fff_ffff], "the moderation counters: QEMU stores them; ours are separate"),
    ("PBACL", [0, 0, 0x01ff_ffff, 0x1f], "QEMU has the five vectors of the 82574"),
    ("GCR", [0, 0x0680_0000, u32::MAX, u32::MAX], "QEMU has three constant bits, as the 82574"),
    ("RXDCTL", [0, 0, 0x021f_1f1f, u32::MAX], "SWFLUSH clears itself; QEMU stores it, and reserved bits"),
    ("TXDCTL", [0, 0, 0x0a1f_1f1f, u32::MAX], "SWFLSH clears itself; QEMU stores it, and reserved bits"),
];

/// Difference in the bits of a register, if there is one.
pub fn bit_difference(name: &str) -> Option<Kind> {
    let lists = [(RESERVED, Kind::Reserved), (READ_ONLY, Kind::ReadOnly), (ABSENT, Kind::Absent)];
    let listed = lists.iter().find(|(names, _)| names.contains(&name)).map(|(_, kind)| *kind);
    let single = SINGLE.iter().find(|(of, ..)| *of == name);
    listed.or(single.map(|(_, values, why)| Kind::Single(*values, why)))
}

/// Number of listed registers.
pub fn listed_count() -> usize {
    RESERVED.len() + READ_ONLY.len() + ABSENT.len() + SINGLE.len()
}
