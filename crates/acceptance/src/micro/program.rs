//! A loop and the memory that it works on, as one image.

use doorbell_platform::sbi::assembler::{Assembler, csr, *};
use doorbell_sim::rng::Rng;

/// Where RAM begins, and with it the code.
pub const BASE: u64 = 0x8000_0000;
/// Where data begin.
pub const DATA: u64 = BASE + (1 << 20);

/// A loop on bare metal.
#[derive(Clone, Debug)]
pub struct Program {
    /// RAM from its beginning.
    pub image: Vec<u8>,
    /// Instructions before the first iteration.
    pub before: u64,
    /// Instructions of an iteration, the jump back included.
    pub body: u64,
}

impl Program {
    /// A loop: what comes before it, and its body, both without jumps over anything.
    pub fn new(setup: impl FnOnce(&mut Assembler), body: impl FnOnce(&mut Assembler)) -> Program {
        let mut a = Assembler::new(BASE);
        setup(&mut a);
        // The loop begins with a line.
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

    /// The same with `bytes` at an address.
    pub fn with(mut self, address: u64, bytes: &[u8]) -> Program {
        let at = (address - BASE) as usize;
        if self.image.len() < at + bytes.len() {
            self.image.resize(at + bytes.len(), 0);
        }
        self.image[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    /// The same with each of `places` (a multiple of `stride` from `data`) holding the address, as the program sees it, of
    /// the place after it; the last holds the first's.
    pub fn with_chain(mut self, data: u64, seen_at: u64, stride: u64, places: &[u64]) -> Program {
        let end = (data - BASE) + stride * places.len() as u64;
        self.image.resize(self.image.len().max(end as usize), 0);
        for (index, place) in places.iter().enumerate() {
            let next = places[(index + 1) % places.len()];
            let at = (data - BASE + place * stride) as usize;
            self.image[at..at + 8].copy_from_slice(&(seen_at + next * stride).to_le_bytes());
        }
        self
    }
}

/// Numbers below `count` in random order.
pub fn shuffled(count: u64) -> Vec<u64> {
    let mut rng = Rng::stream(1, "microbenchmarks");
    let mut places: Vec<u64> = (0..count).collect();
    for index in (1..places.len()).rev() {
        places.swap(index, rng.below(index as u64 + 1) as usize);
    }
    places
}

/// Instructions that the firmware's assembler does not have.
pub fn multiply(a: &mut Assembler, rd: u32, rs1: u32, rs2: u32) {
    a.word(1 << 25 | rs2 << 20 | rs1 << 15 | rd << 7 | 0x33);
}

/// `divu`.
pub fn divide(a: &mut Assembler, rd: u32, rs1: u32, rs2: u32) {
    a.word(1 << 25 | rs2 << 20 | rs1 << 15 | 5 << 12 | rd << 7 | 0x33);
}

/// Goes on at the next instruction in supervisor mode, with address translation as `satp` says.
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
