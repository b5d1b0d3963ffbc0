//! Configuration space headers as tables: the common registers and those of functions (type 0) and bridges
//! (type 1), with their writable bits.
//!
//! Documents: PCI Local Bus Specification 3.0, section 6.2; PCI-to-PCI Bridge Architecture Specification 1.2,
//! section 3.2.

use std::borrow::Cow;

use crate::identity::HeaderType;

pub(crate) const COMMAND_IO: u16 = 1 << 0;
pub(crate) const COMMAND_MEMORY: u16 = 1 << 1;
pub(crate) const COMMAND_BUS_MASTER: u16 = 1 << 2;
pub(crate) const COMMAND_SERR: u16 = 1 << 8;
pub(crate) const COMMAND_INTX_DISABLE: u16 = 1 << 10;
pub(crate) const COMMAND_WRITABLE: u16 =
    COMMAND_IO | COMMAND_MEMORY | COMMAND_BUS_MASTER | COMMAND_SERR | COMMAND_INTX_DISABLE;
const STATUS_ERRORS: u32 = 0xf900;
/// Writable bits of a bridge's control register: response to parity errors and SERR#, abort mode, secondary
/// bus reset.
const BRIDGE_CONTROL_WRITABLE: u32 = 0x63;

/// A header register: its position and its writable bits.
#[derive(Clone, Copy, Debug)]
pub struct HeaderRegister {
    /// The specification's name.
    pub name: &'static str,
    /// Offset of the first byte.
    pub offset: u8,
    /// Size in bytes.
    pub bytes: u8,
    /// Writable bits.
    pub writable: u32,
    /// Bits that are cleared by writing one.
    pub write_one_clears: u32,
    /// Section of the PCI 3.0 specification, or of the bridge specification 1.2.
    pub section: &'static str,
}

const fn row(
    name: &'static str,
    offset: u8,
    bytes: u8,
    writable: u32,
    write_one_clears: u32,
    section: &'static str,
) -> HeaderRegister {
    HeaderRegister { name, offset, bytes, writable, write_one_clears, section }
}

/// The registers of a header.
pub fn header(kind: HeaderType) -> impl Iterator<Item = &'static HeaderRegister> {
    let own: &[HeaderRegister] = match kind {
        HeaderType::Function => &FUNCTION,
        HeaderType::Bridge => &BRIDGE,
    };
    COMMON.iter().chain(own)
}

/// The specification's name of the register at an offset of configuration space; beyond the header, the
/// offset.
pub fn register_name(kind: HeaderType, offset: u64) -> Cow<'static, str> {
    let inside =
        |row: &&HeaderRegister| (0..u64::from(row.bytes)).contains(&offset.wrapping_sub(row.offset.into()));
    header(kind).find(inside).map_or_else(|| format!("{offset:#x}").into(), |row| row.name.into())
}

/// Registers common to all headers.
const COMMON: [HeaderRegister; 12] = [
    row("Vendor ID", 0x00, 2, 0, 0, "6.2.1"),
    row("Device ID", 0x02, 2, 0, 0, "6.2.1"),
    row("Command", 0x04, 2, COMMAND_WRITABLE as u32, 0, "6.2.2"),
    row("Status", 0x06, 2, 0, STATUS_ERRORS, "6.2.3"),
    row("Revision ID", 0x08, 1, 0, 0, "6.2.1"),
    row("Class Code", 0x09, 3, 0, 0, "6.2.1"),
    row("Cacheline Size", 0x0c, 1, 0xff, 0, "6.2.4"),
    row("Header Type", 0x0e, 1, 0, 0, "6.2.1"),
    row("BIST", 0x0f, 1, 0, 0, "6.2.4"),
    row("Capabilities Pointer", 0x34, 1, 0, 0, "6.2.4"),
    row("Interrupt Line", 0x3c, 1, 0xff, 0, "6.2.4"),
    row("Interrupt Pin", 0x3d, 1, 0, 0, "6.2.4"),
];

/// Registers of functions. The writable bits of base address registers come from the function's identity.
const FUNCTION: [HeaderRegister; 12] = [
    row("Latency Timer", 0x0d, 1, 0, 0, "6.2.4"),
    row("Base Address 0", 0x10, 4, 0, 0, "6.2.5.1"),
    row("Base Address 1", 0x14, 4, 0, 0, "6.2.5.1"),
    row("Base Address 2", 0x18, 4, 0, 0, "6.2.5.1"),
    row("Base Address 3", 0x1c, 4, 0, 0, "6.2.5.1"),
    row("Base Address 4", 0x20, 4, 0, 0, "6.2.5.1"),
    row("Base Address 5", 0x24, 4, 0, 0, "6.2.5.1"),
    row("Cardbus CIS Pointer", 0x28, 4, 0, 0, "6.2.4"),
    row("Subsystem Vendor ID and ID", 0x2c, 4, 0, 0, "6.2.4"),
    row("Expansion ROM Base Address", 0x30, 4, 0, 0, "6.2.5.2"),
    row("Min_Gnt", 0x3e, 1, 0, 0, "6.2.4"),
    row("Max_Lat", 0x3f, 1, 0, 0, "6.2.4"),
];

/// Registers of bridges. The I/O window has 16-bit addresses only: the upper halves read as zero.
const BRIDGE: [HeaderRegister; 18] = [
    row("Primary Latency Timer", 0x0d, 1, 0, 0, "3.2.4.8"),
    row("Base Address 0", 0x10, 4, 0, 0, "3.2.5.1"),
    row("Base Address 1", 0x14, 4, 0, 0, "3.2.5.1"),
    row("Primary Bus Number", 0x18, 1, 0xff, 0, "3.2.5.2"),
    row("Secondary Bus Number", 0x19, 1, 0xff, 0, "3.2.5.3"),
    row("Subordinate Bus Number", 0x1a, 1, 0xff, 0, "3.2.5.4"),
    row("Secondary Latency Timer", 0x1b, 1, 0, 0, "3.2.5.5"),
    row("I/O Base", 0x1c, 1, 0xf0, 0, "3.2.5.6"),
    row("I/O Limit", 0x1d, 1, 0xf0, 0, "3.2.5.6"),
    row("Secondary Status", 0x1e, 2, 0, STATUS_ERRORS, "3.2.5.7"),
    row("Memory Base", 0x20, 2, 0xfff0, 0, "3.2.5.8"),
    row("Memory Limit", 0x22, 2, 0xfff0, 0, "3.2.5.8"),
    row("Prefetchable Memory Base", 0x24, 2, 0xfff0, 0, "3.2.5.9"),
    row("Prefetchable Memory Limit", 0x26, 2, 0xfff0, 0, "3.2.5.9"),
    row("Prefetchable Base Upper 32 Bits", 0x28, 4, 0xffff_ffff, 0, "3.2.5.10"),
    row("Prefetchable Limit Upper 32 Bits", 0x2c, 4, 0xffff_ffff, 0, "3.2.5.10"),
    row("I/O Base and Limit Upper 16 Bits", 0x30, 4, 0, 0, "3.2.5.11"),
    row("Bridge Control", 0x3e, 2, BRIDGE_CONTROL_WRITABLE, 0, "3.2.5.18"),
];
