//! Loads and stores of every size and misalignment, atomics, and the floating-point control registers.

use crate::asm::{FCSR, FFLAGS, FRM, csr, fld, fsd, i_type, ld, r_type, reg, s_type, sd};
use crate::integer::FREE;
use crate::program::{Program, Record, SCRATCH, Table};
use crate::random::{INTEGERS, Random};

/// Name, opcode, funct3.
const LOADS: [(&str, u32, u32); 9] = [
    ("lb", 0x03, 0),
    ("lh", 0x03, 1),
    ("lw", 0x03, 2),
    ("ld", 0x03, 3),
    ("lbu", 0x03, 4),
    ("lhu", 0x03, 5),
    ("lwu", 0x03, 6),
    ("flw", 0x07, 2),
    ("fld", 0x07, 3),
];

const STORES: [(&str, u32, u32); 6] =
    [("sb", 0x23, 0), ("sh", 0x23, 1), ("sw", 0x23, 2), ("sd", 0x23, 3), ("fsw", 0x27, 2), ("fsd", 0x27, 3)];

/// Middle of the scratch memory, at a page boundary.
const MIDDLE: u64 = SCRATCH + 0x8000;

/// An address near the page boundary, of any alignment.
fn address(random: &mut Random) -> u64 {
    MIDDLE - 64 + random.below(128)
}

/// Addresses and values for an access at `imm` from a register.
fn records(random: &mut Random, imm: i32) -> Vec<Record> {
    let mut records = (0..64u64)
        .map(|at| [(MIDDLE - 32 + at).wrapping_sub(imm as i64 as u64), random.next(), 0, random.next()])
        .collect::<Vec<_>>();
    for _ in 0..64 {
        records.push([address(random).wrapping_sub(imm as i64 as u64), random.integer(), 0, random.next()]);
    }
    records
}

/// Fills the memory that the loads read.
pub fn fill(program: &mut Program, random: &mut Random) {
    let records = (0..32).map(|at| [MIDDLE - 128 + 8 * at, random.next(), 0, 0]).collect::<Vec<_>>();
    let table = program.table(&records);
    program.form("fill".into(), table, 1, |asm| {
        asm.word(ld(6, reg::IN, 0)).word(ld(7, reg::IN, 8)).word(sd(7, 6, 0)).word(sd(7, reg::OUT, 0));
    });
}

pub fn loads(program: &mut Program, random: &mut Random) {
    fill(program, random);
    for (name, opcode, funct3) in LOADS {
        for imm in [0, 1, -1, 2047, -2048, random.below(4096) as i32 - 2048] {
            let records = records(random, imm);
            let table = program.table(&records);
            let float = opcode == 0x07;
            let rs1 = random.pick(&FREE);
            let rd = if float { random.below(32) as u32 } else { random.pick(&FREE) };
            program.form(format!("{name} {rd}, {imm}(x{rs1})"), table, 1, |asm| {
                if float {
                    asm.word(fld(rd, reg::IN, 24));
                } else {
                    asm.word(ld(rd, reg::IN, 24));
                }
                asm.word(ld(rs1, reg::IN, 0)).word(i_type(opcode, funct3, rd, rs1, imm));
                asm.word(if float { fsd(rd, reg::OUT, 0) } else { sd(rd, reg::OUT, 0) });
            });
        }
    }
}

pub fn stores(program: &mut Program, random: &mut Random) {
    fill(program, random);
    for (name, opcode, funct3) in STORES {
        for imm in [0, 1, -1, 2047, -2048, random.below(4096) as i32 - 2048] {
            let records = records(random, imm);
            let table = program.table(&records);
            let float = opcode == 0x27;
            let rs1 = random.pick(&FREE);
            let rs2 = if float { random.below(32) as u32 } else { random.pick(&FREE) };
            program.form(format!("{name} {rs2}, {imm}(x{rs1})"), table, 2, |asm| {
                asm.word(if float { fld(rs2, reg::IN, 8) } else { ld(rs2, reg::IN, 8) });
                asm.word(ld(rs1, reg::IN, 0)).word(s_type(opcode, funct3, rs1, rs2, imm));
                // The two aligned doublewords around the address.
                asm.word(ld(reg::TEMP, reg::IN, 0)).word(i_type(0x13, 0, reg::TEMP, reg::TEMP, imm));
                asm.word(i_type(0x13, 7, reg::TEMP, reg::TEMP, -8));
                asm.word(ld(29, reg::TEMP, 0)).word(sd(29, reg::OUT, 0));
                asm.word(ld(29, reg::TEMP, 8)).word(sd(29, reg::OUT, 8));
            });
        }
    }
}

const AMOS: [(&str, u32); 9] = [
    ("amoadd", 0x00),
    ("amoswap", 0x01),
    ("amoxor", 0x04),
    ("amoor", 0x08),
    ("amoand", 0x0c),
    ("amomin", 0x10),
    ("amomax", 0x14),
    ("amominu", 0x18),
    ("amomaxu", 0x1c),
];

/// Address, operand, initial memory, initial `rd`.
fn atomic_operands(program: &mut Program, random: &mut Random, align: u64) -> Table {
    let mut records = Vec::new();
    for operand in INTEGERS {
        for memory in INTEGERS {
            records.push([address(random) & !(align - 1), operand, memory, random.next()]);
        }
    }
    for _ in 0..500 {
        records.push([address(random) & !(align - 1), random.integer(), random.integer(), random.next()]);
    }
    program.table(&records)
}

pub fn atomics(program: &mut Program, random: &mut Random) {
    for (suffix, funct3, align) in [("w", 2, 4), ("d", 3, 8)] {
        let table = atomic_operands(program, random, align);
        for (name, funct5) in AMOS {
            for order in 0..4 {
                let [mut rd, rs2] = [random.pick(&FREE), random.pick(&FREE)];
                let rs1 =
                    *FREE.iter().find(|r| **r != rd && **r != rs2).expect("FREE has more than two registers");
                if order == 3 {
                    rd = rs2;
                }
                program.form(
                    format!("{name}.{suffix} x{rd}, x{rs2}, (x{rs1}) ordering {order}"),
                    table,
                    3,
                    |asm| {
                        asm.word(ld(rs1, reg::IN, 0)).word(i_type(0x13, 7, reg::TEMP, rs1, -8));
                        asm.word(ld(29, reg::IN, 16)).word(sd(29, reg::TEMP, 0));
                        asm.word(ld(rd, reg::IN, 24)).word(ld(rs2, reg::IN, 8));
                        asm.word(r_type(0x2f, funct3, funct5 << 2 | order, rd, rs1, rs2));
                        asm.word(sd(rd, reg::OUT, 0)).word(sd(rs1, reg::OUT, 8));
                        asm.word(ld(29, reg::TEMP, 0)).word(sd(29, reg::OUT, 16));
                    },
                );
            }
        }
        for order in 0..4 {
            reserved(program, table, suffix, funct3, order);
        }
    }
}

/// LR and SC: paired, without a reservation, with a consumed one, and at another address than reserved.
fn reserved(program: &mut Program, table: Table, suffix: &str, funct3: u32, order: u32) {
    let lr = |rd: u32, rs1: u32| r_type(0x2f, funct3, 0x02 << 2 | order, rd, rs1, 0);
    let sc = |rd: u32, rs1: u32, rs2: u32| r_type(0x2f, funct3, 0x03 << 2 | order, rd, rs1, rs2);
    program.form(format!("lr.{suffix} and sc.{suffix} ordering {order}"), table, 6, |asm| {
        asm.word(ld(6, reg::IN, 0)).word(i_type(0x13, 7, 7, 6, -8)).word(ld(11, reg::IN, 8));
        asm.word(ld(29, reg::IN, 16)).word(sd(29, 7, 0));
        asm.word(lr(10, 6)).word(sc(12, 6, 11)); // succeeds
        asm.word(sd(10, reg::OUT, 0)).word(sd(12, reg::OUT, 8));
        asm.word(ld(29, 7, 0)).word(sd(29, reg::OUT, 16));
        asm.word(sc(12, 6, 0)); // the reservation was consumed
        asm.word(sd(12, reg::OUT, 24));
        // Another line than the reserved one.
        asm.word(lr(10, 6)).word(i_type(0x13, 0, 13, 6, 1024)).word(sc(12, 13, 11)).word(sd(
            12,
            reg::OUT,
            32,
        ));
        asm.word(ld(29, 7, 0)).word(sd(29, reg::OUT, 40));
    });
}

/// CSR instructions on fflags, frm and fcsr, which user mode may access.
pub fn control_registers(program: &mut Program, random: &mut Random) {
    let records = (0..40)
        .map(|_| [random.next() & 0xff, random.next(), 0, random.next()])
        .chain((0..256).map(|old| [old, !old, 0, 0]))
        .collect::<Vec<_>>();
    let table = program.table(&records);
    for (name, number) in [("fflags", FFLAGS), ("frm", FRM), ("fcsr", FCSR)] {
        for funct3 in [1, 2, 3, 5, 6, 7] {
            for round in 0..6 {
                let rd = if round == 0 { 0 } else { random.pick(&FREE) };
                // A register or an immediate; zero must not write with the set and clear forms.
                let source = match (round, funct3 < 4) {
                    (1, _) => 0,
                    (2, true) => rd,
                    (_, true) => random.pick(&FREE),
                    (_, false) => random.below(32) as u32,
                };
                program.form(format!("csr funct3 {funct3} x{rd}, {name}, {source}"), table, 2, |asm| {
                    asm.word(ld(reg::TEMP, reg::IN, 0)).word(csr(1, 0, FCSR, reg::TEMP));
                    if rd != 0 {
                        asm.word(ld(rd, reg::IN, 24));
                    }
                    if funct3 < 4 && source != 0 {
                        asm.word(ld(source, reg::IN, 8));
                    }
                    asm.word(csr(funct3, rd, number, source)).word(sd(rd, reg::OUT, 0));
                    asm.word(csr(2, reg::TEMP, FCSR, 0)).word(sd(reg::TEMP, reg::OUT, 8));
                });
            }
        }
    }
}
