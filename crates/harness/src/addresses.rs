//! Addresses that fuzzed guests use: devices, their registers, and reserved memory.

use doorbell_sim::rng::Rng;

use crate::input::Input;

/// Address of the program.
pub const PROGRAM: u64 = 0x8000_0000;
/// RAM of the machines.
pub const RAM_BYTES: u64 = 64 << 20;
/// Memory for rings and buffers: the initramfs, below the device tree's 2 MiB.
pub const DATA: u64 = PROGRAM + RAM_BYTES - (2 << 20) - DATA_BYTES;
/// Size of the memory for rings and buffers.
pub const DATA_BYTES: u64 = 256 << 10;
/// Distance between two NICs' rings.
pub const RINGS_STRIDE: u64 = 0x4000;
/// Offset of a NIC's transmit ring from its receive ring.
pub const TRANSMIT_RING: u64 = 0x1000;
/// Usual bytes of a ring.
pub const RING_BYTES: u64 = 0x400;
/// PCI configuration space: 4 KiB per function, 32 KiB per device, 1 MiB per bus.
pub const ECAM: u64 = 0x3000_0000;
/// Device number of the bridge, if there is one.
pub const BRIDGE_DEVICE: u64 = 3;
/// Device number of the function with all kinds of interrupts, in machines without a bridge.
pub const INTERRUPTER_DEVICE: u64 = 3;
/// Usual address of that function's registers.
pub const INTERRUPTER: u64 = PCI_MEMORY + 4 * NIC_STRIDE;
/// Device number of a NIC behind a bridge.
pub const BEHIND_BRIDGE: u64 = 2;
/// The PCI I/O window.
pub const PCI_IO: u64 = 0x300_0000;
/// The PCI memory window, usual location of the NICs' registers.
pub const PCI_MEMORY: u64 = 0x4000_0000;
/// Distance between two NICs' register windows.
pub const NIC_STRIDE: u64 = 0x2_0000;
/// Usual offset of the NICs' MSI-X tables in PCI memory.
pub const TABLES: u64 = 0x80_0000;
/// Distance between two MSI-X tables.
pub const TABLE_STRIDE: u64 = 0x4000;

/// Registers of the interrupt controllers, relative to the PLIC's base: the PLIC, then an APLIC's two domains
/// and the interrupt files, in machines that have them.
const INTERRUPT_CONTROLLER_REGISTERS: [u64; 44] = [
    0x28,
    0x80,
    0x84,
    0x1000,
    0x1004,
    0x2000,
    0x2004,
    0x2080,
    0x20_0000,
    0x20_0004,
    0x20_1000,
    0x20_1004,
    0x0,
    0x1bc0,
    0x1bc4,
    0x1bc8,
    0x1cdc,
    0x3000,
    0x3028,
    APLIC_S,
    APLIC_S + 0x4,
    APLIC_S + 0x28,
    APLIC_S + 0x80,
    APLIC_S + 0x84,
    APLIC_S + 0x1c00,
    APLIC_S + 0x1c04,
    APLIC_S + 0x1cdc,
    APLIC_S + 0x1d00,
    APLIC_S + 0x1ddc,
    APLIC_S + 0x1e00,
    APLIC_S + 0x1e04,
    APLIC_S + 0x1edc,
    APLIC_S + 0x1f04,
    APLIC_S + 0x1fdc,
    APLIC_S + 0x2000,
    APLIC_S + 0x3000,
    APLIC_S + 0x3028,
    APLIC_S + 0x3080,
    IMSIC_M,
    IMSIC_M + 0x1000,
    IMSIC_M + 0x3000,
    IMSIC_S,
    IMSIC_S + 0x1000,
    IMSIC_S + 0x2000,
];
/// Offsets of the APLIC's supervisor domain and the interrupt files from the PLIC's base.
const APLIC_S: u64 = 0x100_0000;
const IMSIC_M: u64 = INTERRUPT_FILES - 0xc00_0000;
const IMSIC_S: u64 = IMSIC_M + 0x400_0000;
/// Pages of the harts' interrupt files: machine mode, then supervisor mode.
pub const INTERRUPT_FILES: u64 = 0x2400_0000;

/// Base and size of each region, with offsets of registers.
const REGIONS: [(u64, u64, &[u64]); 11] = [
    (0x1000, 0xf000, &[0, 0x18, 0x28]),
    (0x10_0000, 0x1000, &[0]),
    (0x10_1000, 0x1000, &[0, 4, 8, 0xc, 0x10, 0x14, 0x18, 0x1c]),
    (0x200_0000, 0x1_0000, &[0, 4, 0x4000, 0x4004, 0xbff8, 0xbffc]),
    (PCI_IO, 0x1_0000, &[0, 4, 0x1000, 0x1004]),
    (0xc00_0000, 0x60_0000, &INTERRUPT_CONTROLLER_REGISTERS),
    (0x1000_0000, 0x100, &[0, 1, 2, 3, 4, 5, 6, 7]),
    (ECAM, 0x1000_0000, &[0, 4, 0x8000, 0x8004, 0x8010]),
    (PCI_MEMORY, 0x4000_0000, &[0, 8]),
    (0x4_0000_0000, 0x4_0000_0000, &[0]),
    (DATA, DATA_BYTES, &[0]),
];

/// Offsets in BAR 0 of NIC registers with an effect.
const NIC_REGISTERS: [u64; 48] = [
    0x0000, 0x0004, 0x0008, 0x0010, 0x0014, 0x0018, 0x0020, 0x0028, 0x002c, 0x0030, 0x0038, 0x00c0, 0x00c4,
    0x00c8, 0x00d0, 0x00d8, 0x0100, 0x0170, 0x0400, 0x1000, 0x2160, 0x2168, 0x2800, 0x2804, 0x2808, 0x2810,
    0x2818, 0x2820, 0x2828, 0x282c, 0x2c00, 0x3800, 0x3804, 0x3808, 0x3810, 0x3818, 0x3820, 0x3828, 0x382c,
    0x3830, 0x4000, 0x40c0, 0x40d0, 0x5000, 0x5200, 0x5400, 0x5404, 0x5600,
];

/// Additional registers of an 82576.
const IGB_REGISTERS: [u64; 32] = [
    0x1514, 0x1520, 0x1524, 0x1528, 0x152c, 0x1530, 0x1580, 0x1680, 0x1684, 0x1700, 0x1704, 0x1740, 0x280c,
    0x2830, 0x3838, 0x383c, 0x5480, 0x55fc, 0x5818, 0x59e0, 0x5b50, 0x5c00, 0x5c80, 0x5cb0, 0xc04c, 0xc050,
    0xc058, 0xc068, 0xe050, 0xe058, 0xe068, 0xe078,
];

/// Configuration registers with an effect.
const CONFIG_REGISTERS: [u64; 20] = [
    0x00, 0x02, 0x04, 0x05, 0x06, 0x08, 0x0c, 0x0e, 0x10, 0x14, 0x18, 0x1c, 0x20, 0x30, 0x34, 0x3c, 0x3d,
    0xdc, 0xe0, 0xe2,
];

/// An arbitrary address: usually a device register, sometimes near one, in a hole or random.
pub fn any(input: &mut Input<'_>) -> u64 {
    match input.u8() % 16 {
        0 => input.u64(),
        1 => u64::from(input.u32()),
        2 => {
            // Near the boundary of a region.
            let (base, size, _) = input.pick(&REGIONS);
            let edge = if input.flag() { base } else { base + size };
            edge.wrapping_add(u64::from(input.u8() % 32)).wrapping_sub(16)
        }
        3 | 4 => nic_register(input),
        5 => config_register(input),
        6 => {
            let (base, size, _) = input.pick(&REGIONS);
            base + u64::from(input.u32()) % size
        }
        7 => {
            let (base, _, registers) = input.pick(&REGIONS);
            base + input.pick(registers) + u64::from(input.u8() % 8)
        }
        _ => {
            let (base, _, registers) = input.pick(&REGIONS);
            base + input.pick(registers)
        }
    }
}

/// An address in a NIC's registers at their usual location.
pub fn nic_register(input: &mut Input<'_>) -> u64 {
    let choice = input.u8();
    let base = PCI_MEMORY + u64::from(choice >> 6 & 1) * NIC_STRIDE;
    base + match choice & 0x3f {
        index @ 0..48 if choice < 0x80 => NIC_REGISTERS[usize::from(index)],
        index @ 0..48 => IGB_REGISTERS[usize::from(index) % IGB_REGISTERS.len()],
        48..56 => 0x5200 + u64::from(input.u8()) * 4,
        56..60 => 0x4000 + u64::from(input.u8()) * 4,
        60..62 => 0x5400 + u64::from(input.u8()),
        _ => u64::from(input.u32()) % NIC_STRIDE,
    }
}

/// An address in configuration space.
pub fn config_register(input: &mut Input<'_>) -> u64 {
    let choice = input.u8();
    let device = u64::from(choice & 3);
    let register = input.pick(&CONFIG_REGISTERS);
    ECAM + match choice >> 4 {
        0..12 => device << 15 | register,
        12 => (device << 15 | register) + u64::from(input.u8() % 4),
        13 => device << 15 | u64::from(input.u8() & 7) << 12 | register,
        14 => u64::from(input.u8() & 3) << 20 | device << 15 | register,
        _ => u64::from(input.u32()) % 0x1000_0000,
    }
}

/// An address for DMA: usually in the reserved memory, sometimes at the end of RAM, in a device or unmapped.
pub fn dma(input: &mut Input<'_>) -> u64 {
    match input.u8() % 16 {
        0 => any(input),
        1 => PROGRAM + RAM_BYTES - u64::from(input.u8()),
        2 => PROGRAM + u64::from(input.u16()),
        _ => DATA + u64::from(input.u8() & 0x3f) * 0x1000,
    }
}

/// Initial contents of the reserved memory: for two NICs, a ring of receive buffers and a ring of frames to
/// send, with varying command bits, lengths and types.
pub fn data(seed: u64) -> Vec<u8> {
    let mut rng = Rng::stream(seed, "rings");
    let mut bytes = vec![0; DATA_BYTES as usize];
    let mut put =
        |at: u64, value: u64| bytes[at as usize..at as usize + 8].copy_from_slice(&value.to_le_bytes());
    for nic in 0..2 {
        for at in (0..RING_BYTES).step_by(16) {
            let buffer = DATA + rng.below(DATA_BYTES / 0x800) * 0x800;
            put(nic * RINGS_STRIDE + at, buffer);
            let transmit = nic * RINGS_STRIDE + TRANSMIT_RING + at;
            let draw = rng.next_u64();
            // DCMD: EOP, IFCS, often RS and DEXT; DTYP, TSE and others sometimes.
            let command = 0x03 | draw >> 8 & 0x2c & (draw >> 16) | draw & 0x08;
            let length = 16 + (draw >> 32 & 0x7ff);
            put(transmit, buffer + (draw >> 48 & 0xff));
            put(transmit + 8, length | (draw >> 60 & 1) << 20 | command << 24 | (draw >> 24 & 3) << 40);
        }
    }
    bytes
}
