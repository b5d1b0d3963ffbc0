//! Operations of a fuzzed guest on its disks, which are virtio block devices (VIRTIO 1.2): registers, queues,
//! descriptor chains, notifications.

use std::io::Write;
use std::sync::OnceLock;

use doorbell_machine::DiskFile;

use crate::addresses::{self, DATA};
use crate::assembler::{Assembler, T0, T1};
use crate::input::Input;
use crate::operations::write;

/// Registers of the first device; further devices and empty slots follow.
const REGISTERS: u64 = 0x1000_1000;
const STRIDE: u64 = 0x1000;
/// Registers with an effect, and the first bytes of configuration space.
const OFFSETS: [u64; 29] = [
    0x000, 0x004, 0x008, 0x00c, 0x010, 0x014, 0x020, 0x024, 0x030, 0x034, 0x038, 0x044, 0x050, 0x050, 0x050,
    0x060, 0x064, 0x070, 0x080, 0x084, 0x090, 0x094, 0x0a0, 0x0a4, 0x0ac, 0x0b0, 0x0fc, 0x100, 0x114,
];

/// Usual location of a disk's queue, after the NICs' rings: descriptors, available and used ring, an indirect
/// table, and request headers.
const QUEUES: u64 = DATA + 0x8000;
const QUEUE_BYTES: u64 = 0x5000;
const AVAILABLE: u64 = 0x1000;
const USED: u64 = 0x2000;
const INDIRECT: u64 = 0x3000;
const HEADERS: u64 = 0x4000;
const QUEUE_SIZE: u64 = 16;
/// Usual number of descriptors per request: header, data, status.
const CHAIN: u64 = 3;
/// Number of requests for which the queue has descriptors.
const REQUESTS: u64 = QUEUE_SIZE / CHAIN;

const F_NEXT: u64 = 1;
const F_WRITE: u64 = 2;
const F_INDIRECT: u64 = 4;

/// The file behind every disk: 200 sectors with different contents. Its last 4 KiB block is partial.
pub fn file() -> DiskFile {
    static FILE: OnceLock<(tempfile::NamedTempFile, DiskFile)> = OnceLock::new();
    let (_, disk) = FILE.get_or_init(|| {
        let mut file = tempfile::NamedTempFile::new().expect("the host has room for a small file");
        let contents: Vec<u8> = (0..200u8).flat_map(|sector| [sector; 512]).collect();
        file.write_all(&contents).expect("the host has room for a small file");
        let disk = DiskFile::open(file.path()).expect("the file consists of whole sectors");
        (file, disk)
    });
    disk.clone()
}

/// One operation on a disk.
#[derive(Clone, Copy, Debug)]
pub enum DiskOperation {
    /// Brings it up as a driver does, possibly with the queue at an arbitrary address.
    SetUp,
    /// Reads or writes one register.
    Register,
    /// Writes a request's descriptors and header.
    Chain,
    /// Makes requests available and notifies the device.
    Notify,
}

/// Emits one operation.
pub fn emit(asm: &mut Assembler, operation: DiskOperation, input: &mut Input<'_>) {
    let disk = u64::from(input.u8() & 1);
    let (registers, queue) = (REGISTERS + disk * STRIDE, QUEUES + disk * QUEUE_BYTES);
    match operation {
        DiskOperation::SetUp => set_up(asm, registers, queue, input),
        DiskOperation::Register => register(asm, input),
        DiskOperation::Chain => chain(asm, queue, input),
        DiskOperation::Notify => notify(asm, registers, queue, input),
    }
}

/// Brings both disks up as a driver does.
pub fn set_up_all(asm: &mut Assembler) {
    for disk in 0..2 {
        set_up(asm, REGISTERS + disk * STRIDE, QUEUES + disk * QUEUE_BYTES, &mut Input::new(&[]));
    }
}

fn set_up(asm: &mut Assembler, registers: u64, queue: u64, input: &mut Input<'_>) {
    // Most set-ups are valid: after an invalid one, the disk does nothing until it is set up again.
    let choice = Some(input.u8()).filter(|choice| *choice >= 0xc0).unwrap_or(0);
    let mut put = |offset: u64, value: u64| write(asm, 2, registers + offset, value);
    put(0x70, 0);
    put(0x70, 3);
    // The upper half of the features contains VERSION_1.
    let features = if choice & 1 == 0 { 0x3000_6646 } else { u64::from(input.u32()) };
    for (half, bits) in [features, u64::from(choice & 2 == 0)].into_iter().enumerate() {
        put(0x24, half as u64);
        put(0x20, bits);
    }
    put(0x70, 0xb);
    put(0x30, u64::from(choice & 0x20 != 0));
    put(0x38, if choice & 4 == 0 { QUEUE_SIZE } else { u64::from(input.u16()) });
    for (offset, usual) in [(0x80, 0), (0x90, AVAILABLE), (0xa0, USED)] {
        let place = if choice & 8 == 0 { queue + usual } else { addresses::dma(input) };
        put(offset, place);
        put(offset + 4, place >> 32);
    }
    put(0x44, 1);
    put(0x70, if choice & 0x10 == 0 { 0xf } else { input.value() });
    // The available ring cycles through the chains of all requests; notifying advances its index.
    for slot in 0..QUEUE_SIZE {
        let head = slot % REQUESTS * CHAIN;
        write(asm, 1, queue + AVAILABLE + 4 + 2 * slot, head);
    }
    write(asm, 2, queue + AVAILABLE, 0);
    for number in 0..REQUESTS {
        chain_of(asm, queue, number, &mut Input::new(&[number as u8, 0, number as u8]));
    }
}

fn register(asm: &mut Assembler, input: &mut Input<'_>) {
    let choice = input.u8();
    let device = REGISTERS + u64::from(choice & 3) * STRIDE;
    let address = match choice >> 4 {
        0 => device + u64::from(input.u16()) % STRIDE,
        _ => device + input.pick(&OFFSETS),
    };
    let size = if choice & 0x0c == 0 { u32::from(input.u8() % 4) } else { 2 };
    if choice & 4 == 0 {
        asm.constant(T0, address);
        asm.load(size, false, T1, T0);
    } else {
        write(asm, size, address, input.value());
    }
}

fn chain(asm: &mut Assembler, queue: u64, input: &mut Input<'_>) {
    let number = u64::from(input.u8()) % REQUESTS;
    if !input.u8().is_multiple_of(16) {
        return chain_of(asm, queue, number, input);
    }
    // Arbitrary descriptors, in the ring's table or the indirect one.
    let table = queue + if input.flag() { INDIRECT } else { 0 };
    let first = u64::from(input.u8()) % QUEUE_SIZE;
    for index in first..first + 1 + u64::from(input.u8() % 4) {
        let words = [addresses::dma(input), u64::from(input.u32() & 0x1_0fff) | input.value() << 32];
        descriptor(asm, table + 16 * index, words);
    }
}

/// A typical request with one varying property.
fn chain_of(asm: &mut Assembler, queue: u64, number: u64, input: &mut Input<'_>) {
    let (kind, choice) = (input.u8(), input.u8());
    let odd = if choice & 0xf < 10 { 0 } else { input.u8() };
    let header = queue + HEADERS + 16 * number;
    let kind = match kind {
        known @ 0..0xf8 => [0, 1, 0, 1, 4, 8, 11, 13][usize::from(known) % 8],
        other => u64::from(other),
    };
    let sector = if odd & 1 == 0 { u64::from(input.u8()) % 208 } else { input.value() };
    let data = match odd & 0x12 {
        2 => addresses::dma(input),
        0x12 => addresses::any(input),
        _ => DATA + 0x2_0000 + 0x1000 * number,
    };
    let len = if odd & 4 == 0 { 512 * (1 + u64::from(choice >> 5)) } else { u64::from(input.u32()) };
    let len = if matches!(kind, 11 | 13) && odd & 4 == 0 { 16 } else { len };
    let writes = if matches!(kind, 0 | 8) != (odd & 8 != 0) { F_WRITE } else { 0 };
    write(asm, 3, header, kind);
    write(asm, 3, header + 8, sector);
    if matches!(kind, 11 | 13) {
        write(asm, 3, data, sector);
        write(asm, 3, data.wrapping_add(8), u64::from(input.u8()) | u64::from(input.u8() & 1) << 32);
    }
    let (head, indirect) = (number * CHAIN, choice & 0x10 != 0);
    let (table, first) = match indirect {
        true => (queue + INDIRECT + 16 * CHAIN * number, 0),
        false => (queue + 16 * head, head),
    };
    let next = |index: u64| (first + index) << 48;
    descriptor(asm, table, [header, 16 | F_NEXT << 32 | next(1)]);
    descriptor(asm, table + 16, [data, len | (F_NEXT | writes) << 32 | next(2)]);
    descriptor(asm, table + 32, [header + 0x800, 1 | F_WRITE << 32]);
    if indirect {
        descriptor(asm, queue + 16 * head, [table, (16 * CHAIN) | (F_INDIRECT << 32)]);
    }
}

fn descriptor(asm: &mut Assembler, place: u64, [address, rest]: [u64; 2]) {
    write(asm, 3, place, address);
    write(asm, 3, place + 8, rest);
}

/// Advances the available index, usually by one to four, or sets an arbitrary value, and notifies.
fn notify(asm: &mut Assembler, registers: u64, queue: u64, input: &mut Input<'_>) {
    let choice = input.u8();
    asm.constant(T0, queue + AVAILABLE + 2);
    match choice & 0x78 {
        0 => {
            asm.constant(T1, u64::from(input.u16()));
        }
        _ => {
            asm.load(1, false, T1, T0);
            asm.addi(T1, T1, 1 + i32::from(choice & 3));
        }
    }
    asm.store(1, false, T1, T0);
    // Interrupt suppression by the driver, with and without event indices.
    write(asm, 1, queue + AVAILABLE, u64::from(choice >> 7));
    write(asm, 1, queue + AVAILABLE + 4 + 2 * QUEUE_SIZE, u64::from(choice & 7));
    write(asm, 2, registers + 0x50, u64::from(choice & 4 != 0 && choice & 0x78 == 8));
}
