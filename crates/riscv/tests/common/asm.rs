//! A small assembler, independent of the decoder under test: instruction formats from the unprivileged
//! manual, chapters "RV32I Base" (formats) and "RV32/64G Instruction Set Listings", implemented separately.
#![allow(dead_code)] // each test program uses a part of it

/// Registers reserved by the test programs.
pub mod reg {
    /// Pointer to the operand record.
    pub const IN: u32 = 8;
    /// Pointer to the results.
    pub const OUT: u32 = 9;
    /// End of the records.
    pub const END: u32 = 18;
    /// Scratch.
    pub const TEMP: u32 = 5;
}

pub fn r_type(opcode: u32, funct3: u32, funct7: u32, rd: u32, rs1: u32, rs2: u32) -> u32 {
    opcode | rd << 7 | funct3 << 12 | rs1 << 15 | rs2 << 20 | funct7 << 25
}

pub fn i_type(opcode: u32, funct3: u32, rd: u32, rs1: u32, imm: i32) -> u32 {
    assert!((-2048..2048).contains(&imm));
    opcode | rd << 7 | funct3 << 12 | rs1 << 15 | (imm as u32) << 20
}

pub fn s_type(opcode: u32, funct3: u32, rs1: u32, rs2: u32, imm: i32) -> u32 {
    assert!((-2048..2048).contains(&imm));
    let imm = imm as u32;
    opcode | (imm & 0x1f) << 7 | funct3 << 12 | rs1 << 15 | rs2 << 20 | (imm >> 5 & 0x7f) << 25
}

pub fn b_type(funct3: u32, rs1: u32, rs2: u32, offset: i32) -> u32 {
    assert!((-4096..4096).contains(&offset) && offset & 1 == 0);
    let imm = offset as u32;
    let low = (imm >> 11 & 1) << 7 | (imm >> 1 & 0xf) << 8;
    let high = (imm >> 5 & 0x3f) << 25 | (imm >> 12 & 1) << 31;
    0x63 | low | funct3 << 12 | rs1 << 15 | rs2 << 20 | high
}

pub fn u_type(opcode: u32, rd: u32, imm20: u32) -> u32 {
    opcode | rd << 7 | imm20 << 12
}

pub fn j_type(rd: u32, offset: i32) -> u32 {
    assert!((-(1 << 20)..1 << 20).contains(&offset) && offset & 1 == 0);
    let imm = offset as u32;
    let bits =
        (imm >> 12 & 0xff) << 12 | (imm >> 11 & 1) << 20 | (imm >> 1 & 0x3ff) << 21 | (imm >> 20 & 1) << 31;
    0x6f | rd << 7 | bits
}

pub fn r4_type(opcode: u32, rm: u32, format: u32, rd: u32, sources: [u32; 3]) -> u32 {
    opcode | rd << 7 | rm << 12 | sources[0] << 15 | sources[1] << 20 | format << 25 | sources[2] << 27
}

pub fn addi(rd: u32, rs1: u32, imm: i32) -> u32 {
    i_type(0x13, 0, rd, rs1, imm)
}

pub fn ld(rd: u32, rs1: u32, imm: i32) -> u32 {
    i_type(0x03, 3, rd, rs1, imm)
}

pub fn sd(rs2: u32, rs1: u32, imm: i32) -> u32 {
    s_type(0x23, 3, rs1, rs2, imm)
}

pub fn fld(rd: u32, rs1: u32, imm: i32) -> u32 {
    i_type(0x07, 3, rd, rs1, imm)
}

pub fn fsd(rs2: u32, rs1: u32, imm: i32) -> u32 {
    s_type(0x27, 3, rs1, rs2, imm)
}

pub const FFLAGS: u32 = 1;
pub const FRM: u32 = 2;
pub const FCSR: u32 = 3;

/// `funct3`: 1 CSRRW, 2 CSRRS, 3 CSRRC, 5 to 7 with an immediate in place of `rs1`.
pub fn csr(funct3: u32, rd: u32, number: u32, source: u32) -> u32 {
    0x73 | rd << 7 | funct3 << 12 | source << 15 | number << 20
}

pub const ECALL: u32 = 0x73;

pub fn lw(rd: u32, rs1: u32, imm: i32) -> u32 {
    i_type(0x03, 2, rd, rs1, imm)
}

pub const NOP: u32 = 0x13;
pub const C_NOP: u16 = 1;
pub const EBREAK: u32 = 0x0010_0073;
pub const SRET: u32 = 0x1020_0073;
pub const WFI: u32 = 0x1050_0073;
pub const MRET: u32 = 0x3020_0073;
pub const SFENCE_VMA: u32 = 0x1200_0073;
pub const FENCE_I: u32 = 0x0000_100f;

/// gem5's m5op with this function number.
pub fn m5op(function: u32) -> u32 {
    0x7b | function << 25
}

/// Code under construction for a fixed address.
pub struct Asm {
    base: u64,
    code: Vec<u8>,
}

impl Asm {
    pub fn new(base: u64) -> Asm {
        Asm { base, code: Vec::new() }
    }

    pub fn here(&self) -> u64 {
        self.base + self.code.len() as u64
    }

    pub fn into_code(self) -> Vec<u8> {
        self.code
    }

    pub fn word(&mut self, word: u32) -> &mut Asm {
        self.code.extend_from_slice(&word.to_le_bytes());
        self
    }

    pub fn half(&mut self, half: u16) -> &mut Asm {
        self.code.extend_from_slice(&half.to_le_bytes());
        self
    }

    /// A conditional branch to a known address.
    pub fn branch(&mut self, funct3: u32, rs1: u32, rs2: u32, target: u64) -> &mut Asm {
        let offset = target.wrapping_sub(self.here()) as i64 as i32;
        self.word(b_type(funct3, rs1, rs2, offset))
    }

    /// Replaces the word at an address.
    pub fn patch(&mut self, at: u64, word: u32) {
        let at = (at - self.base) as usize;
        self.code[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }

    /// Loads any 64-bit constant.
    pub fn li(&mut self, rd: u32, value: u64) -> &mut Asm {
        let signed = value as i64;
        if (-2048..2048).contains(&signed) {
            return self.word(addi(rd, 0, signed as i32));
        }
        let low = (signed << 52 >> 52) as i32;
        if signed == i64::from(signed as i32) {
            let high = (signed.wrapping_sub(i64::from(low)) >> 12) as u32 & 0xf_ffff;
            self.word(u_type(0x37, rd, high));
            return if low == 0 { self } else { self.word(i_type(0x1b, 0, rd, rd, low)) };
        }
        let rest = signed.wrapping_sub(i64::from(low));
        let zeros = rest.trailing_zeros();
        self.li(rd, (rest >> zeros) as u64);
        self.word(r_type(0x13, 1, 0, rd, rd, 0) | zeros << 20);
        if low == 0 { self } else { self.word(addi(rd, rd, low)) }
    }

    /// A system call whose arguments are in a0 and up.
    pub fn syscall(&mut self, number: u64) -> &mut Asm {
        self.li(17, number).word(ECALL)
    }
}
