//! Operations of a fuzzed guest. Each operation is a piece of code followed by the next one. A trap skips to
//! the next operation: the trap handler jumps to the address in `mscratch`.

use crate::addresses::{
    self, BEHIND_BRIDGE, BRIDGE_DEVICE, DATA, ECAM, INTERRUPTER, INTERRUPTER_DEVICE, NIC_STRIDE, PCI_IO,
    PCI_MEMORY, RING_BYTES, RINGS_STRIDE, TABLE_STRIDE, TABLES, TRANSMIT_RING,
};
use crate::assembler::{Assembler, Reg, T0, T1, T2, T5, T6, X0, csr};
use crate::disk::{self, DiskOperation};
use crate::input::Input;
use crate::interrupter;

/// Mix of operations that a program uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Device registers, mainly a NIC's, with descriptor rings and traffic.
    Mmio,
    /// PCI configuration space, and registers moved by it.
    ConfigSpace,
    /// Disk requests, valid and invalid, with an active NIC.
    Disk,
    /// All kinds of operations.
    Program,
}

/// One operation.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Store,
    Load,
    Atomic,
    Fetch,
    Csr,
    AnyWord,
    Wait,
    Sleep,
    NicSetUp,
    NicRegister,
    IoWindow,
    Descriptors,
    Tail,
    Config,
    MoveBar,
    Interrupt,
    Disk(DiskOperation),
}

use Operation::*;

impl Profile {
    /// Candidate operations; repeated entries are more likely.
    fn operations(self) -> &'static [Operation] {
        match self {
            Profile::Mmio => &[
                Store,
                Store,
                Load,
                Atomic,
                Wait,
                NicSetUp,
                NicRegister,
                NicRegister,
                NicRegister,
                NicRegister,
                IoWindow,
                Descriptors,
                Descriptors,
                Tail,
                Tail,
                Sleep,
            ],
            Profile::ConfigSpace => &[
                Config,
                Config,
                Config,
                Config,
                Config,
                Config,
                MoveBar,
                MoveBar,
                MoveBar,
                NicRegister,
                Load,
                Store,
                NicSetUp,
                Tail,
                Interrupt,
                Interrupt,
            ],
            Profile::Disk => &[
                Disk(DiskOperation::SetUp),
                Disk(DiskOperation::Register),
                Disk(DiskOperation::Chain),
                Disk(DiskOperation::Chain),
                Disk(DiskOperation::Chain),
                Disk(DiskOperation::Chain),
                Disk(DiskOperation::Notify),
                Disk(DiskOperation::Notify),
                Disk(DiskOperation::Notify),
                Disk(DiskOperation::Notify),
                Disk(DiskOperation::Notify),
                Store,
                Wait,
                Wait,
                Sleep,
                Tail,
            ],
            Profile::Program => &[
                Store,
                Load,
                Atomic,
                Fetch,
                Csr,
                Csr,
                Csr,
                AnyWord,
                AnyWord,
                Wait,
                Sleep,
                NicSetUp,
                NicRegister,
                IoWindow,
                Descriptors,
                Tail,
                Config,
                MoveBar,
            ],
        }
    }
}

const WFI: u32 = 0x1050_0073;
const MRET: u32 = 0x3020_0073;
/// CSRs, some of them nonexistent.
const CSRS: [u32; 40] = [
    0x001, 0x002, 0x003, 0x100, 0x104, 0x105, 0x106, 0x10a, 0x140, 0x141, 0x142, 0x143, 0x144, 0x14d, 0x180,
    0x300, 0x301, 0x302, 0x303, 0x304, 0x305, 0x306, 0x30a, 0x320, 0x341, 0x342, 0x343, 0x344, 0x3a0, 0x3a2,
    0x3b0, 0x3b1, 0x3bf, 0xb00, 0xb02, 0xb03, 0xc00, 0xc01, 0xc02, 0xf14,
];
/// CSRs of harts with interrupt files.
const AIA_CSRS: [u32; 10] = [0x150, 0x151, 0x15c, 0x308, 0x309, 0x350, 0x351, 0x35c, 0xdb0, 0xfb0];
/// The five high bits of all AMO encodings, including LR and SC.
const AMOS: [u32; 11] = [0x00, 0x01, 0x02, 0x03, 0x04, 0x08, 0x0c, 0x10, 0x14, 0x18, 0x1c];

/// Builds the program for the input bytes. It runs in a loop.
pub fn program(profile: Profile, input: &mut Input<'_>, operations_max: usize) -> Vec<u8> {
    let mut asm = Assembler::new(addresses::PROGRAM);
    // The trap handler comes first; a jump skips it.
    let handler = asm.here() + 4;
    let handler_code = trap_handler(handler);
    asm.jump(4 + handler_code.len() as i32);
    asm.append(&handler_code);
    asm.constant(T0, handler);
    asm.csr_write(csr::MTVEC, T0);
    asm.csr_write(csr::STVEC, T0);
    if input.flag() {
        // Many programs start with working NICs and break them.
        set_up_all(&mut asm);
        if profile == Profile::Disk {
            disk::set_up_all(&mut asm);
        }
    }
    let (start, mut count) = (asm.here(), 0);
    while !input.is_empty() && count < operations_max {
        let next = begin(&mut asm);
        let operation = input.pick(profile.operations());
        emit(&mut asm, operation, input);
        let here = asm.here();
        asm.patch(next, here);
        count += 1;
    }
    let next = begin(&mut asm);
    asm.patch(next, start);
    asm.constant(T0, start);
    asm.i(0x67, 0, X0, T0, 0);
    asm.finish()
}

/// A program that brings two NICs up and then sleeps forever.
pub fn idle_program() -> Vec<u8> {
    let mut asm = Assembler::new(addresses::PROGRAM);
    asm.constant(T0, addresses::PROGRAM);
    asm.csr_write(csr::MTVEC, T0);
    set_up_all(&mut asm);
    asm.word(WFI);
    asm.jump(-4);
    asm.finish()
}

fn set_up_all(asm: &mut Assembler) {
    for nic in 0..2 {
        let next = begin(asm);
        nic_set_up(asm, &mut Input::new(&[nic, 0x78]));
        let here = asm.here();
        asm.patch(next, here);
    }
}

/// Trap handler: continues with the next operation in machine mode; disables interrupts if one was taken.
fn trap_handler(base: u64) -> Vec<u8> {
    let mut asm = Assembler::new(base);
    asm.csr_set(T5, csr::MCAUSE, X0);
    asm.branch(5, T5, X0, 8);
    asm.csr_write(csr::MIE, X0);
    asm.csr_set(T6, csr::MSCRATCH, X0);
    asm.csr_write(csr::MEPC, T6);
    // MPP = machine: 0x1800 = 0x2000 - 0x800.
    asm.word(0x2000 | T6 << 7 | 0x37);
    asm.addi(T6, T6, -0x800);
    asm.csr_set(X0, csr::MSTATUS, T6);
    asm.word(MRET);
    asm.finish()
}

fn begin(asm: &mut Assembler) -> usize {
    let next = asm.constant(T6, 0);
    asm.csr_write(csr::MSCRATCH, T6);
    next
}

/// Stores a value of 2^`size` bytes.
pub fn write(asm: &mut Assembler, size: u32, address: u64, value: u64) {
    asm.constant(T0, address);
    asm.constant(T1, value);
    asm.store(size, false, T1, T0);
}

fn read(asm: &mut Assembler, size: u32, address: u64) {
    asm.constant(T0, address);
    asm.load(size, false, T1, T0);
}

fn emit(asm: &mut Assembler, operation: Operation, input: &mut Input<'_>) {
    match operation {
        Store => {
            let (size, float) = (u32::from(input.u8() % 4), input.u8() == 0xff);
            asm.constant(T0, addresses::any(input));
            asm.constant(T1, input.value());
            asm.store(size, float, T1, T0);
        }
        Load => {
            let (size, float) = (u32::from(input.u8() % 7), input.u8() == 0xff);
            asm.constant(T0, addresses::any(input));
            asm.load(size, float, T1, T0);
        }
        Atomic => {
            asm.constant(T0, addresses::any(input));
            asm.constant(T1, input.value());
            let choice = input.u8();
            let function = AMOS[usize::from(choice) % AMOS.len()];
            let second = if function == 0x02 { X0 } else { T1 };
            asm.r(0x2f, 2 + u32::from(choice >> 7), function << 2, [T2, T0, second]);
        }
        Fetch => {
            asm.constant(T0, addresses::any(input));
            asm.i(0x67, 0, T1, T0, 0);
        }
        Csr => {
            let number = match input.u8() & 15 {
                0 => u32::from(input.u16() & 0xfff),
                1 => input.pick(&AIA_CSRS),
                _ => input.pick(&CSRS),
            };
            asm.constant(T0, input.value());
            asm.i(0x73, 1 + u32::from(input.u8() % 3), T1, T0, number as i32);
        }
        AnyWord => {
            let word = input.u32();
            asm.word(if input.flag() { word | 3 } else { word });
        }
        Wait => {
            asm.constant(T0, u64::from(input.u8()) * 4 + 1);
            asm.addi(T0, T0, -1);
            asm.branch(1, T0, X0, -4);
        }
        Sleep => sleep(asm, input),
        NicSetUp => nic_set_up(asm, input),
        Descriptors => descriptors(asm, input),
        Interrupt => interrupt(asm, input),
        Disk(operation) => disk::emit(asm, operation, input),
        NicRegister | IoWindow | Tail | Config | MoveBar => pci(asm, operation, input),
    }
}

fn pci(asm: &mut Assembler, operation: Operation, input: &mut Input<'_>) {
    match operation {
        NicRegister => {
            let address = addresses::nic_register(input);
            match input.u8() % 4 {
                0 => read(asm, 2, address),
                _ => write(asm, 2, address, input.value()),
            }
        }
        IoWindow => {
            let base = PCI_IO + 0x1000 + u64::from(input.u8() & 1) * 64;
            write(asm, 2, base, addresses::nic_register(input) - PCI_MEMORY);
            match input.flag() {
                true => read(asm, 2, base + 4),
                false => write(asm, 2, base + 4, input.value()),
            }
        }
        Tail => {
            let register = input.pick(&[0x2818u64, 0x3818]);
            let base = PCI_MEMORY + u64::from(input.u8() & 1) * NIC_STRIDE;
            write(asm, 2, base + register, u64::from(input.u8()));
        }
        Config => {
            let (address, size) = (addresses::config_register(input), u32::from(input.u8() % 4));
            match input.u8() % 3 {
                0 => read(asm, size, address),
                _ => write(asm, size, address, input.value()),
            }
        }
        _ => {
            let device = u64::from(input.u8() & 3);
            let bar = input.pick(&[0x10u64, 0x10, 0x18]);
            let to = match input.flag() {
                true => addresses::any(input),
                false => PCI_MEMORY + u64::from(input.u8() & 7) * 0x1_0000,
            };
            let device = match device {
                BRIDGE_DEVICE if input.flag() => bridge_set_up(asm, input),
                _ => device << 15,
            };
            write(asm, 2, ECAM + device + bar, to);
            write(asm, 1, ECAM + device + 4, u64::from(input.u8()) | 2);
        }
    }
}

/// Sets up the function that interrupts in all ways, changes one way, and triggers an interrupt.
fn interrupt(asm: &mut Assembler, input: &mut Input<'_>) {
    let (choice, config) = (input.u8(), ECAM + (INTERRUPTER_DEVICE << 15));
    let vector = u64::from(choice & 3);
    write(asm, 2, config + 0x10, INTERRUPTER);
    write(asm, 1, config + 4, if choice & 0x80 == 0 { 6 } else { u64::from(input.u16()) | 2 });
    match choice >> 2 & 7 {
        0 | 1 => {
            let entry = INTERRUPTER + interrupter::TABLE + 16 * vector;
            write(asm, 3, entry, addresses::dma(input));
            write(asm, 3, entry + 8, u64::from(input.u32()) | u64::from(choice >> 5 & 1) << 32);
            write(asm, 1, config + interrupter::MSIX + 2, 0x8000);
        }
        2 => write(asm, 2, INTERRUPTER + interrupter::TABLE + 16 * vector + 12, u64::from(choice >> 5 & 1)),
        3 => write(asm, 1, config + interrupter::MSIX + 2, 0x8000 | u64::from(choice >> 5 & 3) << 14),
        4 => write(asm, 1, config + interrupter::MSIX + 2, 0),
        5 => {
            write(asm, 2, config + interrupter::MSI + 4, addresses::dma(input));
            write(asm, 2, config + interrupter::MSI + 8, 0);
            write(asm, 1, config + interrupter::MSI + 2, 1 | u64::from(input.u8() & 0x70));
        }
        6 => write(asm, 2, config + interrupter::MSI + 16, u64::from(input.u8() & 0xf)),
        _ => write(asm, 3, INTERRUPTER + 8, addresses::dma(input)),
    }
    write(asm, 2, INTERRUPTER + if choice & 0x60 == 0x60 { 0x10 } else { 0 }, vector);
}

/// Usually numbers the bus behind a bridge and opens its windows; returns the configuration offset of a
/// function behind it.
fn bridge_set_up(asm: &mut Assembler, input: &mut Input<'_>) -> u64 {
    let (choice, bridge) = (input.u8(), ECAM + (BRIDGE_DEVICE << 15));
    let bus = u64::from(choice & 3);
    write(asm, 2, bridge + 0x18, bus << 16 | bus << 8);
    let windows = if choice & 4 == 0 { 0xfff0_0000 } else { input.value() };
    for window in [0x20, 0x24] {
        write(asm, 2, bridge + window, windows);
    }
    write(asm, 1, bridge + 0x1c, if choice & 8 == 0 { 0xf000 } else { u64::from(input.u16()) });
    write(asm, 1, bridge + 4, u64::from(choice >> 4) | 2);
    if choice & 0xc0 == 0xc0 {
        write(asm, 1, bridge + 0x3e, u64::from(input.u8()));
    }
    bus << 20 | BEHIND_BRIDGE << 15
}

/// Waits for an interrupt, with some interrupts enabled and a timer set.
fn sleep(asm: &mut Assembler, input: &mut Input<'_>) {
    let choice = input.u8();
    write(asm, 3, 0x200_4000, u64::from(input.u16()));
    asm.constant(T0, if choice & 1 == 0 { 0xaaa } else { u64::from(input.u16()) });
    asm.csr_write(csr::MIE, T0);
    if choice & 2 != 0 {
        asm.constant(T1, 8);
        asm.csr_set(X0, csr::MSTATUS, T1);
    }
    asm.word(WFI);
}

/// Brings a NIC up as a driver does, possibly with rings at arbitrary addresses.
fn nic_set_up(asm: &mut Assembler, input: &mut Input<'_>) {
    let (nic, choice) = (u64::from(input.u8() & 1), input.u8());
    let registers = PCI_MEMORY + nic * NIC_STRIDE;
    nic_config(asm, 2, nic, 0x10, registers);
    nic_config(asm, 2, nic, 0x18, 0x1000 + nic * 64);
    nic_config(asm, 1, nic, 4, 7);
    let sane = choice & 1 == 0;
    for (base, tail, usual) in [(0x2800, 0x2818, 0), (0x3800, 0x3818, TRANSMIT_RING)] {
        let ring = if choice & 2 == 0 { DATA + nic * RINGS_STRIDE + usual } else { addresses::dma(input) };
        let length = if choice & 4 == 0 { RING_BYTES } else { u64::from(input.u16()) << 7 };
        write(asm, 2, registers + base, ring);
        write(asm, 2, registers + base + 4, ring >> 32);
        write(asm, 2, registers + base + 8, length);
        write(asm, 2, registers + base + 0x10, 0);
        write(asm, 2, registers + tail, u64::from(choice >> 3));
        if choice & 0x80 != 0 {
            write(asm, 2, registers + base + 0x28, u64::from(input.u32()));
        }
    }
    let receive = if sane { 0x0400_801e } else { u64::from(input.u32()) | 2 };
    let transmit = if sane { 0x4_010a } else { u64::from(input.u32()) | 2 };
    if choice & 0x20 == 0 {
        nic_messages(asm, registers, nic);
    }
    write(asm, 2, registers, 0x240); // CTRL: the link may come up
    write(asm, 2, registers + 0x100, receive);
    write(asm, 2, registers + 0x400, transmit);
    write(asm, 2, registers + 0xd0, u64::from(input.u16()));
}

/// Writes a register in a NIC's configuration space: on its own card, and as the second function of the first
/// card.
fn nic_config(asm: &mut Assembler, width: u32, nic: u64, register: u64, value: u64) {
    let locations = [(nic + 1) << 15, 1 << 15 | nic << 12];
    locations[..1 + nic as usize]
        .iter()
        .for_each(|location| write(asm, width, ECAM + location + register, value));
}

/// Gives an 82576's queues and other causes their own vectors, with messages to memory; no effect on an
/// 82540EM.
fn nic_messages(asm: &mut Assembler, registers: u64, nic: u64) {
    let table = PCI_MEMORY + TABLES + nic * TABLE_STRIDE;
    nic_config(asm, 2, nic, 0x1c, table);
    for vector in 0..2 {
        for (at, value) in [(0, DATA + 8 * vector), (4, 0), (8, vector + 1), (12, 0)] {
            write(asm, 2, table + 16 * vector + at, value);
        }
    }
    nic_config(asm, 1, nic, 0x72, 0x8000); // MSI-X is on
    // GPIE, IVAR of the first queues, IVAR_MISC, EIAC, EIMS.
    for (at, value) in [(0x1514, 0x4000_0010), (0x1700, 0x8180), (0x1740, 0x8100), (0x152c, 1), (0x1524, 3)] {
        write(asm, 2, registers + at, value);
    }
}

/// Writes descriptors into the rings.
fn descriptors(asm: &mut Assembler, input: &mut Input<'_>) {
    let count = 1 + u64::from(input.u8() % 16);
    let nic = u64::from(input.u8() & 1);
    let first = DATA
        + nic * RINGS_STRIDE
        + u64::from(input.flag()) * TRANSMIT_RING
        + u64::from(input.u8() & 0x3f) * 16;
    let kind = input.u8() % 8;
    for index in 0..count {
        let [address, other] = descriptor(kind, input);
        asm.constant(T0, first + 16 * index);
        store_doubleword(asm, T0, address);
        store_doubleword(asm, T0, other);
    }
}

fn descriptor(kind: u8, input: &mut Input<'_>) -> [u64; 2] {
    let byte = |input: &mut Input<'_>, at: u32| u64::from(input.u8()) << at;
    match kind {
        // A receive buffer.
        0 | 1 => [addresses::dma(input), 0],
        // Legacy transmit descriptor: length and command only.
        2 | 3 => {
            [addresses::dma(input), u64::from(input.u16() & 0x7ff) | byte(input, 24) & 0x8f00_0000 | 1 << 24]
        }
        // Data descriptor: length, type 1, command with DEXT, options.
        4 => [
            addresses::dma(input),
            u64::from(input.u16()) | 1 << 20 | byte(input, 24) | 1 << 29 | byte(input, 40),
        ],
        // Context descriptor: checksum offsets; payload length, type 0, command with DEXT, header length,
        // segment size.
        5 => {
            let second = u64::from(input.u16()) | byte(input, 24) | 1 << 29 | byte(input, 40);
            [u64::from(input.u32()), second | u64::from(input.u16()) << 48]
        }
        6 => [addresses::dma(input), input.value()],
        _ => [input.u64(), input.u64()],
    }
}

fn store_doubleword(asm: &mut Assembler, address: Reg, value: u64) {
    asm.constant(T1, value);
    asm.store(3, false, T1, address);
    asm.addi(address, address, 8);
}
