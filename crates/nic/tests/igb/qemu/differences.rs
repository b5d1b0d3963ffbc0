//! In what the registers of ours and of QEMU's igb differ, and who is right.
//!
//! Where the datasheet names a field it decides; which bits hold what is written is also Linux' own test of the card (`ethtool -t`), with which
//! ours agree and QEMU's do more. Where no text of the datasheet is at hand (DTXCTL and bit 3 of CTRL after a reset) ours follows QEMU's, whose
//! authors had it and set just these bits anew: its older cards have neither.

/// A register that has another value after a reset: ours, QEMU's, and why.
pub type Reset = (&'static str, u32, u32, &'static str);

pub const AFTER_RESET: &[Reset] = &[
    ("CTRL_DUP", 0x0010_0209, 0, "QEMU has no copy of CTRL"),
    (
        "STATUS",
        0x0008_0281,
        0x8008_0481,
        "the link's speed before there is a link; QEMU's says that DMA clocks may be gated, and no PF",
    ),
    (
        "EEC",
        0x0000_2300,
        0x0000_1110,
        "the NVM's size, and that it was read: QEMU has the bits of older cards",
    ),
    ("MDIC", 0x1000_0000, 0, "READY: the PHY waits for no access"),
    ("SERDESCTL", 0x8000_0000, 0, "QEMU has no SerDes; ours has the bit that says that an access is over"),
    (
        "EEMNGCTL",
        0x800c_0000,
        0x8000_0000,
        "CFG_DONE of both ports: drivers wait for it, and QEMU's let them wait in vain",
    ),
    ("I2CCMD", 0x2000_0000, 0, "QEMU has no I2C; ours is ready"),
    ("SWPBS", 0x14, 0, "QEMU has no packet buffer of a switch"),
    ("PCS_CFG", 0x8, 0, "QEMU has no PCS"),
    ("PCS_LCTL", 0x0260_0c0c, 0, "QEMU has no PCS"),
    ("GCR", 0x0004_0000, 0x0685_0200, "QEMU has the latencies of the 82574"),
    ("FACTPS", 0x20, 0, "QEMU has no power states of functions"),
    ("DCA_CTRL", 0x1, 0, "QEMU has no direct cache access; ours begins without"),
    ("SRRCTL", 0x400, 0, "headers' buffers have 256 bytes by the datasheet"),
    ("DCA_RXCTRL", 0xa200, 0, "QEMU has no direct cache access"),
];

/// How what a register holds differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// QEMU keeps what is written to bits that are reserved.
    Reserved,
    /// QEMU keeps what is written to a register that can only be read.
    ReadOnly,
    /// QEMU has no such register: it reads as zero.
    Absent,
    /// These: after zeros and after ones, ours and QEMU's.
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
        "reserved bits; QEMU keeps VME and forgets DEV_RST, which ours has not",
    ),
    (
        "STATUS",
        [0x0008_0281, 0x8008_0081, 0x0008_0281, 0x8008_0481],
        "QEMU clears PHYRA, which ours has not, with a zero",
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
        "QEMU's PHY answers at once, to an operation that there is not with an error",
    ),
    ("EIAM", [0, u32::MAX, 0xc1ff_ffff, 0xfe00_0000], "QEMU writes the complement, and sets bits alone"),
    ("EITR", [0, 0, 0xfffc, 0x7fff_ffff], "the counters of moderation: QEMU holds them, ours has others"),
    ("PBACL", [0, 0, 0x01ff_ffff, 0x1f], "QEMU has the five vectors of the 82574"),
    ("GCR", [0, 0x0680_0000, u32::MAX, u32::MAX], "QEMU has three bits that stay, as the 82574"),
    ("RXDCTL", [0, 0, 0x021f_1f1f, u32::MAX], "SWFLUSH clears itself; QEMU keeps it, and reserved bits"),
    ("TXDCTL", [0, 0, 0x0a1f_1f1f, u32::MAX], "SWFLSH clears itself; QEMU keeps it, and reserved bits"),
];

/// In what the bits of a register differ, if they do.
pub fn of_bits(name: &str) -> Option<Kind> {
    let lists = [(RESERVED, Kind::Reserved), (READ_ONLY, Kind::ReadOnly), (ABSENT, Kind::Absent)];
    let listed = lists.iter().find(|(names, _)| names.contains(&name)).map(|(_, kind)| *kind);
    let single = SINGLE.iter().find(|(of, ..)| *of == name);
    listed.or(single.map(|(_, values, why)| Kind::Single(*values, why)))
}

/// How many registers are named.
pub fn named() -> usize {
    RESERVED.len() + READ_ONLY.len() + ABSENT.len() + SINGLE.len()
}
