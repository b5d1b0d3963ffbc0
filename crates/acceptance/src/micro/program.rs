//! Bare-metal programs: a loop and its data as one memory image.

use doorbell_assembler::{Assembler, csr, *};
use doorbell_sim::rng::Rng;

/// Start of RAM and of the code.
pub const BASE: u64 = 0x8000_0000;
/// Start of the data.
pub const DATA: u64 = BASE + (1 << 20);

/// A loop on bare metal.
#[derive(Clone, Debug)]
pub struct Program {
    /// Contents of RAM from [`BASE`].
    pub image: Vec<u8>,
    /// Instructions before the first iteration.
    pub before: u64,
    /// Instructions per iteration, including the jump back.
    pub body: u64,
}

impl Program {
    /// Assembles setup code and a loop body. Neither may skip or repeat instructions if iterations are
    /// counted.
    pub fn new(setup: impl FnOnce(&mut Assembler), body: impl FnOnce(&mut Assembler)) -> Program {
        let mut a = Assembler::new(BASE);
        setup(&mut a);
        // Align the loop to a cache line.
        while !a.here().is_multiple_of(64) {
            a.addi(ZERO, ZERO, 0);
        }
        let begin = a.here();
        a.label("loop");
        body(&mut a);
        a.j("loop");
        let end = a.here();
        assert!(end < DATA, "the code reaches into the data");
        Program { image: a.finish(), before: (begin - BASE) / 4, body: (end - begin) / 4 }
    }

    /// Adds `bytes` at an address.
    pub fn with(mut self, address: u64, bytes: &[u8]) -> Program {
        let at = (address - BASE) as usize;
        if self.image.len() < at + bytes.len() {
            self.image.resize(at + bytes.len(), 0);
        }
        self.image[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    /// Adds a circular pointer chain through the elements `places`, in this order. Element `n` is at `data +
    /// n * stride` and holds its successor's address. `virt` is the program's virtual address of `data`.
    pub fn with_chain(mut self, data: u64, virt: u64, stride: u64, places: &[u64]) -> Program {
        let end = (data - BASE) + stride * places.len() as u64;
        self.image.resize(self.image.len().max(end as usize), 0);
        for (index, place) in places.iter().enumerate() {
            let next = places[(index + 1) % places.len()];
            let at = (data - BASE + place * stride) as usize;
            self.image[at..at + 8].copy_from_slice(&(virt + next * stride).to_le_bytes());
        }
        self
    }
}

/// The numbers below `count` in random order.
pub fn shuffled(count: u64) -> Vec<u64> {
    let mut rng = Rng::stream(1, "microbenchmarks");
    let mut places: Vec<u64> = (0..count).collect();
    for index in (1..places.len()).rev() {
        places.swap(index, rng.below(index as u64 + 1) as usize);
    }
    places
}

/// Emits `mul`, which the firmware's assembler lacks.
pub fn multiply(a: &mut Assembler, rd: u32, rs1: u32, rs2: u32) {
    a.word(1 << 25 | rs2 << 20 | rs1 << 15 | rd << 7 | 0x33);
}

/// Emits `divu`, which the firmware's assembler lacks.
pub fn divide(a: &mut Assembler, rd: u32, rs1: u32, rs2: u32) {
    a.word(1 << 25 | rs2 << 20 | rs1 << 15 | 5 << 12 | rd << 7 | 0x33);
}

/// Emits a switch to supervisor mode with address translation by `satp`; execution continues at the next
/// instruction.
pub fn enter_supervisor(a: &mut Assembler, satp: u64) {
    a.li(T0, u64::MAX >> 10);
    a.csrw(csr::PMPADDR0, T0);
    a.li(T0, 0x1f);
    a.csrw(csr::PMPCFG0, T0);
    a.li(T0, satp);
    a.csrw(csr::SATP, T0);
    a.sfence_vma(ZERO, ZERO);
    a.li(T0, 1 << 11);
    a.csrs(csr::MSTATUS, T0);
    a.address(T0, a.here() + 16);
    a.csrw(csr::MEPC, T0);
    a.mret();
}
