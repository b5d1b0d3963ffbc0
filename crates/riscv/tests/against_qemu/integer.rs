//! I and M extensions: register and immediate arithmetic, upper immediates, jumps and branches.

use crate::asm::{Asm, addi, b_type, i_type, j_type, ld, r_type, reg, sd, u_type};
use crate::program::{Program, Table};
use crate::random::{INTEGERS, Random};

/// Name, opcode, funct3, funct7.
pub const REGISTER_FORMS: [(&str, u32, u32, u32); 28] = [
    ("add", 0x33, 0, 0x00),
    ("sub", 0x33, 0, 0x20),
    ("sll", 0x33, 1, 0x00),
    ("slt", 0x33, 2, 0x00),
    ("sltu", 0x33, 3, 0x00),
    ("xor", 0x33, 4, 0x00),
    ("srl", 0x33, 5, 0x00),
    ("sra", 0x33, 5, 0x20),
    ("or", 0x33, 6, 0x00),
    ("and", 0x33, 7, 0x00),
    ("addw", 0x3b, 0, 0x00),
    ("subw", 0x3b, 0, 0x20),
    ("sllw", 0x3b, 1, 0x00),
    ("srlw", 0x3b, 5, 0x00),
    ("sraw", 0x3b, 5, 0x20),
    ("mul", 0x33, 0, 0x01),
    ("mulh", 0x33, 1, 0x01),
    ("mulhsu", 0x33, 2, 0x01),
    ("mulhu", 0x33, 3, 0x01),
    ("div", 0x33, 4, 0x01),
    ("divu", 0x33, 5, 0x01),
    ("rem", 0x33, 6, 0x01),
    ("remu", 0x33, 7, 0x01),
    ("mulw", 0x3b, 0, 0x01),
    ("divw", 0x3b, 4, 0x01),
    ("divuw", 0x3b, 5, 0x01),
    ("remw", 0x3b, 6, 0x01),
    ("remuw", 0x3b, 7, 0x01),
];

/// Name, opcode, funct3, bits in the immediate above the shift amount, bits of the shift amount (0: no shift).
pub const IMMEDIATE_FORMS: [(&str, u32, u32, u32, u32); 13] = [
    ("addi", 0x13, 0, 0, 0),
    ("slti", 0x13, 2, 0, 0),
    ("sltiu", 0x13, 3, 0, 0),
    ("xori", 0x13, 4, 0, 0),
    ("ori", 0x13, 6, 0, 0),
    ("andi", 0x13, 7, 0, 0),
    ("addiw", 0x1b, 0, 0, 0),
    ("slli", 0x13, 1, 0, 6),
    ("srli", 0x13, 5, 0, 6),
    ("srai", 0x13, 5, 0x400, 6),
    ("slliw", 0x1b, 1, 0, 5),
    ("srliw", 0x1b, 5, 0, 5),
    ("sraiw", 0x1b, 5, 0x400, 5),
];

const IMMEDIATES: [i32; 12] = [0, 1, -1, 2, 31, 32, 63, 64, 2047, -2048, -2047, 0x555];

/// Registers that a form may use; `IN`, `OUT`, `END` and `TEMP` are reserved.
pub const FREE: [u32; 26] =
    [1, 2, 3, 4, 6, 7, 10, 11, 12, 13, 14, 15, 16, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 30, 31];

/// All pairs of extreme integers, and random ones; the fourth operand is the initial value of `rd`.
pub fn operands(program: &mut Program, random: &mut Random) -> Table {
    let mut records = Vec::new();
    for a in INTEGERS {
        for b in INTEGERS {
            records.push([a, b, random.next(), random.next()]);
        }
    }
    for _ in 0..1600 {
        records.push([random.integer(), random.integer(), random.next(), random.next()]);
    }
    program.table(&records)
}

fn registers(random: &mut Random) -> [u32; 3] {
    [random.pick(&FREE), random.pick(&FREE), random.pick(&FREE)]
}

fn load_operands(asm: &mut Asm, [rd, rs1, rs2]: [u32; 3]) {
    asm.word(ld(rd, reg::IN, 24)).word(ld(rs2, reg::IN, 8)).word(ld(rs1, reg::IN, 0));
}

/// The register arithmetic, each form with three choices of registers.
pub fn register_arithmetic(program: &mut Program, random: &mut Random) {
    let table = operands(program, random);
    for (name, opcode, funct3, funct7) in REGISTER_FORMS {
        for variant in 0..4 {
            let [mut rd, rs1, mut rs2] = registers(random);
            match variant {
                1 => rd = rs1,
                2 => rs2 = rs1,
                3 => rd = 0,
                _ => {}
            }
            program.form(format!("{name} x{rd}, x{rs1}, x{rs2}"), table, 1, |asm| {
                load_operands(asm, [if rd == 0 { rs1 } else { rd }, rs1, rs2]);
                asm.word(r_type(opcode, funct3, funct7, rd, rs1, rs2)).word(sd(rd, reg::OUT, 0));
            });
        }
    }
}

/// The immediate arithmetic, each form with extreme and random immediates.
pub fn immediate_arithmetic(program: &mut Program, random: &mut Random) {
    let records = (0..600).map(|_| [random.integer(), 0, 0, random.next()]);
    let records = INTEGERS.map(|a| [a, 0, 0, 1]).into_iter().chain(records).collect::<Vec<_>>();
    let table = program.table(&records);
    for (name, opcode, funct3, high, shift) in IMMEDIATE_FORMS {
        let random_ones = (0..8).map(|_| random.below(4096) as i32 - 2048).collect::<Vec<_>>();
        let mut immediates = IMMEDIATES.into_iter().chain(random_ones).collect::<Vec<_>>();
        if shift != 0 {
            immediates = (0..1 << shift).map(|amount| high as i32 | amount).collect();
        }
        for imm in immediates {
            let [rd, rs1, _] = registers(random);
            program.form(format!("{name} x{rd}, x{rs1}, {imm}"), table, 1, |asm| {
                load_operands(asm, [rd, rs1, 19]);
                asm.word(i_type(opcode, funct3, rd, rs1, imm)).word(sd(rd, reg::OUT, 0));
            });
        }
    }
}

/// LUI, AUIPC, JAL and JALR: link values and targets.
pub fn jumps(program: &mut Program, random: &mut Random) {
    let table = program.table(&[[0; 4]]);
    for round in 0..300 {
        let rd = random.pick(&FREE);
        let imm = if round < 4 { [0, 1, 0x80000, 0xfffff][round] } else { random.below(1 << 20) as u32 };
        for (name, opcode) in [("lui", 0x37), ("auipc", 0x17)] {
            program.form(format!("{name} x{rd}, {imm:#x}"), table, 1, |asm| {
                asm.word(u_type(opcode, rd, imm)).word(sd(rd, reg::OUT, 0));
            });
        }
        // Forward past a halfword, so that targets include odd halfwords, and backward.
        program.form(format!("jal x{rd}, forward and back"), table, 2, |asm| {
            asm.li(reg::TEMP, 1).word(j_type(rd, 4 + 2 + 4 + 4)); // to `back`
            asm.half(1); // c.nop
            asm.word(addi(reg::TEMP, reg::TEMP, 16)); // `home`
            asm.word(j_type(0, 4 + 4 + 4)); // to the end
            asm.word(addi(reg::TEMP, reg::TEMP, 2)); // `back`
            asm.word(j_type(0, -12));
            asm.word(sd(rd, reg::OUT, 0)).word(sd(reg::TEMP, reg::OUT, 8));
        });
        let rs1 = random.pick(&FREE);
        let imm = random.below(4096) as i32 - 2048;
        program.form(format!("jalr x{rd}, {imm}(x{rs1})"), table, 2, |asm| {
            asm.word(u_type(0x17, rs1, 0)); // rs1 = here
            let odd = (imm & 1) ^ (random.below(2) as i32);
            // The target is 24 or 25 bytes ahead; bit 0 is cleared.
            asm.li(reg::TEMP, (24 + odd - imm) as i64 as u64);
            let filler = 24 - 4 - 4 - 4 - if (-2048..2048).contains(&(24 + odd - imm)) { 4 } else { 8 };
            asm.word(r_type(0x33, 0, 0, rs1, rs1, reg::TEMP)).word(i_type(0x67, 0, rd, rs1, imm));
            for _ in 0..filler / 4 {
                asm.word(addi(rd, rd, 1));
            }
            asm.word(sd(rd, reg::OUT, 0)).word(sd(rs1, reg::OUT, 8));
        });
    }
}

/// Conditional branches, forward and backward.
pub fn branches(program: &mut Program, random: &mut Random) {
    let table = operands(program, random);
    for (name, funct3) in [("beq", 0), ("bne", 1), ("blt", 4), ("bge", 5), ("bltu", 6), ("bgeu", 7)] {
        for variant in 0..3 {
            let [_, rs1, mut rs2] = registers(random);
            match variant {
                1 => rs2 = 0,
                2 => rs2 = rs1,
                _ => {}
            }
            program.form(format!("{name} x{rs1}, x{rs2}, forward"), table, 1, |asm| {
                load_operands(asm, [reg::TEMP, rs1, if rs2 == 0 { reg::TEMP } else { rs2 }]);
                asm.li(reg::TEMP, 1).word(b_type(funct3, rs1, rs2, 8)).li(reg::TEMP, 2);
                asm.word(sd(reg::TEMP, reg::OUT, 0));
            });
            program.form(format!("{name} x{rs1}, x{rs2}, backward"), table, 1, |asm| {
                load_operands(asm, [reg::TEMP, rs1, if rs2 == 0 { reg::TEMP } else { rs2 }]);
                asm.li(reg::TEMP, 1).word(j_type(0, 12));
                asm.word(addi(reg::TEMP, reg::TEMP, 4)).word(j_type(0, 12));
                asm.word(b_type(funct3, rs1, rs2, -8)).word(addi(reg::TEMP, reg::TEMP, 8));
                asm.word(sd(reg::TEMP, reg::OUT, 0));
            });
        }
    }
}
