//! A small RV64 assembler for bare-metal test programs, without a cross compiler: one method per instruction,
//! named like the instruction, and labels by name.
//!
//! Encodings: The RISC-V Instruction Set Manual, Volume I, "RV32/64G Instruction Set Listings". Only
//! instructions that a test uses exist, without compressed ones. A missing or unreachable label is a bug in
//! the program and panics.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

/// An integer register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reg(u8);

impl Reg {
    /// Register x0 to x31.
    pub const fn x(number: u8) -> Reg {
        assert!(number < 32);
        Reg(number)
    }

    fn bits(self) -> u32 {
        u32::from(self.0)
    }
}

macro_rules! registers {
    ($($name:ident = $number:literal),* $(,)?) => {
        $(#[doc = concat!("Register x", $number, ".")] pub const $name: Reg = Reg($number);)*
    };
}
registers! {
    ZERO = 0, RA = 1, SP = 2, T0 = 5, T1 = 6, T2 = 7, S0 = 8, S1 = 9, A0 = 10, A1 = 11, A2 = 12, A3 = 13, A4 = 14,
    A5 = 15, A6 = 16, A7 = 17, S2 = 18, S3 = 19, S4 = 20, S5 = 21, S6 = 22, T3 = 28, T4 = 29, T5 = 30, T6 = 31,
}

/// CSRs by number (Volume II, "CSR Listing").
#[allow(missing_docs)] // the manual's own names
pub mod csr {
    pub const SSTATUS: u32 = 0x100;
    pub const SIE: u32 = 0x104;
    pub const STVEC: u32 = 0x105;
    pub const SIP: u32 = 0x144;
    pub const SATP: u32 = 0x180;
    pub const MSTATUS: u32 = 0x300;
    pub const MIDELEG: u32 = 0x303;
    pub const MIE: u32 = 0x304;
    pub const MTVEC: u32 = 0x305;
    pub const MSCRATCH: u32 = 0x340;
    pub const MEPC: u32 = 0x341;
    pub const MCAUSE: u32 = 0x342;
    pub const MIP: u32 = 0x344;
    pub const PMPCFG0: u32 = 0x3a0;
    pub const PMPADDR0: u32 = 0x3b0;
    pub const TIME: u32 = 0xc01;
}

/// How an instruction encodes a label.
#[derive(Clone, Copy, Debug)]
enum Reference {
    Branch,
    Jump,
    /// AUIPC and ADDI.
    Address,
}

/// Code under construction, to run at `base`.
#[derive(Clone, Debug)]
pub struct Assembler {
    base: u64,
    code: Vec<u8>,
    labels: BTreeMap<&'static str, usize>,
    references: Vec<(usize, &'static str, Reference)>,
}

impl Assembler {
    /// An empty assembler.
    pub fn new(base: u64) -> Assembler {
        Assembler { base, code: Vec::new(), labels: BTreeMap::new(), references: Vec::new() }
    }

    /// The address of the next instruction.
    pub fn here(&self) -> u64 {
        self.base + self.code.len() as u64
    }

    /// Defines a label at the next instruction or datum.
    pub fn label(&mut self, name: &'static str) {
        let earlier = self.labels.insert(name, self.code.len());
        assert!(earlier.is_none(), "the label {name} is defined twice");
    }

    /// Resolves all labels and returns the code.
    pub fn finish(mut self) -> Vec<u8> {
        for (at, name, reference) in std::mem::take(&mut self.references) {
            let target = *self.labels.get(name).unwrap_or_else(|| panic!("there is no label {name}"));
            let offset = target as i64 - at as i64;
            match reference {
                Reference::Branch => self.merge(at, branch_offset(offset, name)),
                Reference::Jump => self.merge(at, jump_offset(offset, name)),
                Reference::Address => {
                    let (high, low) = split(offset);
                    self.merge(at, high);
                    self.merge(at + 4, low << 20);
                }
            }
        }
        self.code
    }

    fn merge(&mut self, at: usize, bits: u32) {
        let word: [u8; 4] = self.code[at..at + 4].try_into().expect("a slice of four bytes");
        self.code[at..at + 4].copy_from_slice(&(u32::from_le_bytes(word) | bits).to_le_bytes());
    }

    fn refer(&mut self, name: &'static str, reference: Reference) {
        self.references.push((self.code.len(), name, reference));
    }

    /// Raw bytes, padded to a multiple of four.
    pub fn data(&mut self, bytes: &[u8]) {
        self.code.extend_from_slice(bytes);
        self.code.resize(self.code.len().next_multiple_of(4), 0);
    }

    /// Fills with zeros up to an address.
    pub fn fill_to(&mut self, address: u64) {
        assert!(address >= self.here(), "the code reaches beyond {address:#x}");
        self.code.resize((address - self.base) as usize, 0);
    }

    /// One instruction word.
    pub fn word(&mut self, word: u32) {
        self.code.extend_from_slice(&word.to_le_bytes());
    }

    fn r(&mut self, opcode: u32, funct3: u32, funct7: u32, [rd, rs1, rs2]: [Reg; 3]) {
        self.word(
            funct7 << 25 | rs2.bits() << 20 | rs1.bits() << 15 | funct3 << 12 | rd.bits() << 7 | opcode,
        );
    }

    fn i(&mut self, opcode: u32, funct3: u32, rd: Reg, rs1: Reg, immediate: i32) {
        assert!((-2048..2048).contains(&immediate), "{immediate} is not a 12-bit immediate");
        self.word((immediate as u32) << 20 | rs1.bits() << 15 | funct3 << 12 | rd.bits() << 7 | opcode);
    }

    fn s(&mut self, funct3: u32, value: Reg, base: Reg, offset: i32) {
        assert!((-2048..2048).contains(&offset), "{offset} is not a 12-bit offset");
        let (high, low) = ((offset as u32) >> 5 & 0x7f, offset as u32 & 0x1f);
        self.word(high << 25 | value.bits() << 20 | base.bits() << 15 | funct3 << 12 | low << 7 | 0x23);
    }

    fn branch(&mut self, funct3: u32, rs1: Reg, rs2: Reg, to: &'static str) {
        self.refer(to, Reference::Branch);
        self.word(rs2.bits() << 20 | rs1.bits() << 15 | funct3 << 12 | 0x63);
    }

    /// Loads the address of a label.
    pub fn la(&mut self, rd: Reg, label: &'static str) {
        self.refer(label, Reference::Address);
        self.word(rd.bits() << 7 | 0x17);
        self.addi(rd, rd, 0);
    }

    /// Loads an address near the code, relative to the program counter.
    pub fn address(&mut self, rd: Reg, address: u64) {
        let (high, low) = split(address.wrapping_sub(self.here()) as i64);
        self.word(high | rd.bits() << 7 | 0x17);
        self.addi(rd, rd, (low << 20) as i32 >> 20);
    }

    /// Loads any 64-bit constant.
    pub fn li(&mut self, rd: Reg, value: u64) {
        let signed = value as i64;
        let low = (signed << 52 >> 52) as i32;
        let rest = signed.wrapping_sub(i64::from(low));
        if rest == 0 {
            return self.addi(rd, ZERO, low);
        }
        if let Ok(word) = i32::try_from(signed) {
            let high = (word.wrapping_sub(low) as u32) & 0xffff_f000;
            self.word(high | rd.bits() << 7 | 0x37);
            // ADDIW wraps to 32 bits, which corrects LUI's sign extension.
            return if low == 0 {
            } else {
                self.i(0x1b, 0, rd, rd, low)
            };
        }
        let zeros = rest.trailing_zeros();
        self.li(rd, (rest >> zeros) as u64);
        self.slli(rd, rd, zeros);
        if low != 0 {
            self.addi(rd, rd, low);
        }
    }

    /// Copies a register.
    pub fn mv(&mut self, rd: Reg, rs1: Reg) {
        self.addi(rd, rs1, 0);
    }

    /// Calls a subroutine, which returns by `ret`.
    pub fn call(&mut self, label: &'static str) {
        self.refer(label, Reference::Jump);
        self.word(RA.bits() << 7 | 0x6f);
    }

    /// Jumps to a label.
    pub fn j(&mut self, label: &'static str) {
        self.refer(label, Reference::Jump);
        self.word(0x6f);
    }

    /// Returns to the caller.
    pub fn ret(&mut self) {
        self.i(0x67, 0, ZERO, RA, 0);
    }
}

/// Splits an offset into the upper immediate, in its position, and the lower twelve bits.
fn split(offset: i64) -> (u32, u32) {
    let offset = i32::try_from(offset).expect("the program is small");
    let high = offset.wrapping_add(0x800) as u32 & 0xffff_f000;
    (high, offset as u32 & 0xfff)
}

fn branch_offset(offset: i64, label: &str) -> u32 {
    assert!((-4096..4096).contains(&offset), "a branch does not reach {label}");
    let o = offset as u32;
    (o >> 12 & 1) << 31 | (o >> 5 & 0x3f) << 25 | (o >> 1 & 0xf) << 8 | (o >> 11 & 1) << 7
}

fn jump_offset(offset: i64, label: &str) -> u32 {
    assert!((-(1 << 20)..1 << 20).contains(&offset), "a jump does not reach {label}");
    let o = offset as u32;
    (o >> 20 & 1) << 31 | (o >> 1 & 0x3ff) << 21 | (o >> 11 & 1) << 20 | (o >> 12 & 0xff) << 12
}

/// Instructions with a label: `name: funct3`.
macro_rules! branches {
    ($($name:ident: $funct3:literal;)*) => { impl Assembler {$(
        #[doc = concat!("The instruction `", stringify!($name), "`.")]
        pub fn $name(&mut self, rs1: Reg, rs2: Reg, to: &'static str) { self.branch($funct3, rs1, rs2, to) }
    )*} };
}
branches! { beq: 0; bne: 1; bltu: 6; blt: 4; bge: 5; }

impl Assembler {
    /// Branches if zero.
    pub fn beqz(&mut self, rs1: Reg, to: &'static str) {
        self.beq(rs1, ZERO, to);
    }

    /// Branches if not zero.
    pub fn bnez(&mut self, rs1: Reg, to: &'static str) {
        self.bne(rs1, ZERO, to);
    }

    /// Branches if negative.
    pub fn bltz(&mut self, rs1: Reg, to: &'static str) {
        self.blt(rs1, ZERO, to);
    }
}

/// Register-register instructions: `name: opcode, funct3, funct7`.
macro_rules! register_register {
    ($($name:ident: $opcode:literal, $funct3:literal, $funct7:literal;)*) => { impl Assembler {$(
        #[doc = concat!("The instruction `", stringify!($name), "`.")]
        pub fn $name(&mut self, rd: Reg, rs1: Reg, rs2: Reg) {
            self.r($opcode, $funct3, $funct7, [rd, rs1, rs2])
        }
    )*} };
}
register_register! {
    add: 0x33, 0, 0x00; sub: 0x33, 0, 0x20; and: 0x33, 7, 0x00;
    or: 0x33, 6, 0x00; xor: 0x33, 4, 0x00;
}

/// Instructions with a 12-bit immediate: `name: opcode, funct3`. Loads take their base as `rs1`.
macro_rules! immediates {
    ($($name:ident: $opcode:literal, $funct3:literal;)*) => { impl Assembler {$(
        #[doc = concat!("The instruction `", stringify!($name), "`.")]
        pub fn $name(&mut self, rd: Reg, rs1: Reg, immediate: i32) {
            self.i($opcode, $funct3, rd, rs1, immediate)
        }
    )*} };
}
immediates! {
    addi: 0x13, 0; andi: 0x13, 7; lbu: 0x03, 4; lwu: 0x03, 6; ld: 0x03, 3;
}

impl Assembler {
    /// Shifts left.
    pub fn slli(&mut self, rd: Reg, rs1: Reg, by: u32) {
        self.i(0x13, 1, rd, rs1, by as i32 & 0x3f);
    }

    /// Shifts right logically.
    pub fn srli(&mut self, rd: Reg, rs1: Reg, by: u32) {
        self.i(0x13, 5, rd, rs1, by as i32 & 0x3f);
    }

    /// Stores a byte.
    pub fn sb(&mut self, value: Reg, base: Reg, offset: i32) {
        self.s(0, value, base, offset);
    }

    /// Stores a word.
    pub fn sw(&mut self, value: Reg, base: Reg, offset: i32) {
        self.s(2, value, base, offset);
    }

    /// Stores a doubleword.
    pub fn sd(&mut self, value: Reg, base: Reg, offset: i32) {
        self.s(3, value, base, offset);
    }

    fn csr(&mut self, funct3: u32, rd: Reg, number: u32, source: u32) {
        self.word(number << 20 | source << 15 | funct3 << 12 | rd.bits() << 7 | 0x73);
    }

    /// Writes a CSR.
    pub fn csrw(&mut self, number: u32, rs1: Reg) {
        self.csr(1, ZERO, number, rs1.bits());
    }

    /// Reads a CSR.
    pub fn csrr(&mut self, rd: Reg, number: u32) {
        self.csr(2, rd, number, 0);
    }

    /// Exchanges a CSR and a register.
    pub fn csr_swap(&mut self, reg: Reg, number: u32) {
        self.csr(1, reg, number, reg.bits());
    }

    /// Sets bits of a CSR.
    pub fn csrs(&mut self, number: u32, rs1: Reg) {
        self.csr(2, ZERO, number, rs1.bits());
    }

    /// Clears bits of a CSR.
    pub fn csrc(&mut self, number: u32, rs1: Reg) {
        self.csr(3, ZERO, number, rs1.bits());
    }

    /// An atomic operation on the doubleword at `address`, ordered both ways.
    fn amo(&mut self, funct5: u32, rd: Reg, value: Reg, address: Reg) {
        self.r(0x2f, 3, funct5 << 2 | 3, [rd, address, value]);
    }

    /// `amoadd.d.aqrl`.
    pub fn amoadd(&mut self, rd: Reg, value: Reg, address: Reg) {
        self.amo(0, rd, value, address);
    }

    /// `lr.d.aqrl`.
    pub fn lr(&mut self, rd: Reg, address: Reg) {
        self.amo(2, rd, ZERO, address);
    }

    /// `sc.d.aqrl`; `rd` is zero if the store succeeded.
    pub fn sc(&mut self, rd: Reg, value: Reg, address: Reg) {
        self.amo(3, rd, value, address);
    }

    /// `sfence.vma`.
    pub fn sfence_vma(&mut self, address: Reg, asid: Reg) {
        self.r(0x73, 0, 9, [ZERO, address, asid]);
    }

    /// `fence iorw, iorw`.
    pub fn fence(&mut self) {
        self.word(0x0ff0_000f);
    }

    /// `mret`.
    pub fn mret(&mut self) {
        self.word(0x3020_0073);
    }

    /// `wfi`.
    pub fn wfi(&mut self) {
        self.word(0x1050_0073);
    }

    /// `ecall`.
    pub fn ecall(&mut self) {
        self.word(0x0000_0073);
    }
}
