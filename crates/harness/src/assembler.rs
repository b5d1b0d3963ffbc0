//! A minimal RV64 assembler for the programs of this crate. Encodings: The RISC-V Instruction Set Manual,
//! Volume I, chapter "RV32/64G Instruction Set Listings".

/// Number of a register.
pub type Reg = u32;

/// The zero register.
pub const X0: Reg = 0;
/// Scratch register, used for addresses.
pub const T0: Reg = 5;
/// Scratch register, used for values.
pub const T1: Reg = 6;
/// Third scratch register.
pub const T2: Reg = 7;
/// Reserved for the trap handler.
pub const T5: Reg = 30;
/// Reserved for the trap handler.
pub const T6: Reg = 31;

/// CSRs that programs set up.
pub mod csr {
    #![allow(missing_docs)]
    pub const MSTATUS: u32 = 0x300;
    pub const MIE: u32 = 0x304;
    pub const MTVEC: u32 = 0x305;
    pub const MSCRATCH: u32 = 0x340;
    pub const MEPC: u32 = 0x341;
    pub const MCAUSE: u32 = 0x342;
    pub const STVEC: u32 = 0x105;
}

/// Code being assembled for address `base`.
#[derive(Clone, Debug)]
pub struct Assembler {
    base: u64,
    code: Vec<u8>,
}

impl Assembler {
    /// Creates an empty program.
    pub fn new(base: u64) -> Assembler {
        Assembler { base, code: Vec::new() }
    }

    /// The address of the next instruction.
    pub fn here(&self) -> u64 {
        self.base + self.code.len() as u64
    }

    /// Returns the code.
    pub fn finish(self) -> Vec<u8> {
        self.code
    }

    /// Appends assembled code.
    pub fn append(&mut self, code: &[u8]) {
        self.code.extend_from_slice(code);
    }

    /// Appends one instruction word.
    pub fn word(&mut self, word: u32) {
        self.code.extend_from_slice(&word.to_le_bytes());
    }

    /// Appends an I-type instruction.
    pub fn i(&mut self, opcode: u32, funct3: u32, rd: Reg, rs1: Reg, immediate: i32) {
        self.word((immediate as u32) << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode);
    }

    /// Appends an R-type instruction.
    pub fn r(&mut self, opcode: u32, funct3: u32, funct7: u32, [rd, rs1, rs2]: [Reg; 3]) {
        self.word(funct7 << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode);
    }

    /// `rd = rs1 + immediate`.
    pub fn addi(&mut self, rd: Reg, rs1: Reg, immediate: i32) {
        self.i(0x13, 0, rd, rs1, immediate);
    }

    /// A load of 2^`size` bytes; `size` + 4 for unsigned. With `float`, into a floating-point register.
    pub fn load(&mut self, size: u32, float: bool, rd: Reg, address: Reg) {
        self.i(if float { 0x07 } else { 0x03 }, size, rd, address, 0);
    }

    /// A store of 2^`size` bytes. With `float`, from a floating-point register.
    pub fn store(&mut self, size: u32, float: bool, value: Reg, address: Reg) {
        self.word(value << 20 | address << 15 | size << 12 | if float { 0x27 } else { 0x23 });
    }

    /// A jump by `offset` bytes.
    pub fn jump(&mut self, offset: i32) {
        let o = offset as u32;
        self.word(
            (o >> 20 & 1) << 31
                | (o >> 1 & 0x3ff) << 21
                | (o >> 11 & 1) << 20
                | (o >> 12 & 0xff) << 12
                | 0x6f,
        );
    }

    /// A branch by `offset` bytes: `funct3` 1 is "not equal", 5 "greater or equal".
    pub fn branch(&mut self, funct3: u32, rs1: Reg, rs2: Reg, offset: i32) {
        let o = offset as u32;
        let high = (o >> 12 & 1) << 31 | (o >> 5 & 0x3f) << 25;
        let low = (o >> 1 & 0xf) << 8 | (o >> 11 & 1) << 7;
        self.word(high | rs2 << 20 | rs1 << 15 | funct3 << 12 | low | 0x63);
    }

    /// `csrrw x0, csr, rs1`.
    pub fn csr_write(&mut self, csr: u32, rs1: Reg) {
        self.i(0x73, 1, X0, rs1, csr as i32);
    }

    /// `csrrs rd, csr, rs1`.
    pub fn csr_set(&mut self, rd: Reg, csr: u32, rs1: Reg) {
        self.i(0x73, 2, rd, rs1, csr as i32);
    }

    /// Loads a constant into a register. The constant is stored in the code; returns its offset for
    /// [`Assembler::patch`].
    pub fn constant(&mut self, rd: Reg, value: u64) -> usize {
        self.word(rd << 7 | 0x17); // auipc rd, 0
        self.i(0x03, 3, rd, rd, 12);
        self.jump(12);
        let place = self.code.len();
        self.code.extend_from_slice(&value.to_le_bytes());
        place
    }

    /// Replaces a constant in the code.
    pub fn patch(&mut self, place: usize, value: u64) {
        self.code[place..place + 8].copy_from_slice(&value.to_le_bytes());
    }
}
