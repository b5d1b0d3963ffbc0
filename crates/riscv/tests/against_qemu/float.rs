//! F and D extensions: every instruction in every rounding mode, static and dynamic, with and without flags
//! already raised, on properly and improperly boxed singles.

use crate::asm::{FCSR, FFLAGS, csr, fld, fsd, ld, r_type, r4_type, reg, sd};
use crate::integer::FREE;
use crate::program::{Program, Record, Table};
use crate::random::{DOUBLES, INTEGERS, Random, SINGLES};

/// Register files of an instruction's operands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Float from two floats.
    Binary,
    /// Float from one float; `rs2` is part of the opcode.
    Unary(u32),
    /// Float from three.
    Fused(u32),
    /// Integer from two floats.
    Compare,
    /// Integer from one float.
    ToInteger(u32),
    /// Float from an integer.
    FromInteger(u32),
}

/// How the `rm` field is used.
#[derive(Clone, Copy)]
enum Rm {
    Rounds,
    Fixed(u32),
}

struct Operation {
    name: &'static str,
    funct5: u32,
    shape: Shape,
    rm: Rm,
}

const fn op(name: &'static str, funct5: u32, shape: Shape, rm: Rm) -> Operation {
    Operation { name, funct5, shape, rm }
}

use Rm::{Fixed, Rounds};
use Shape::{Binary, Compare, FromInteger, Fused, ToInteger, Unary};

/// Instructions that exist for both formats.
const OPERATIONS: [Operation; 29] = [
    op("fadd", 0x00, Binary, Rounds),
    op("fsub", 0x01, Binary, Rounds),
    op("fmul", 0x02, Binary, Rounds),
    op("fdiv", 0x03, Binary, Rounds),
    op("fsqrt", 0x0b, Unary(0), Rounds),
    op("fmadd", 0, Fused(0x43), Rounds),
    op("fmsub", 0, Fused(0x47), Rounds),
    op("fnmsub", 0, Fused(0x4b), Rounds),
    op("fnmadd", 0, Fused(0x4f), Rounds),
    op("fsgnj", 0x04, Binary, Fixed(0)),
    op("fsgnjn", 0x04, Binary, Fixed(1)),
    op("fsgnjx", 0x04, Binary, Fixed(2)),
    op("fmin", 0x05, Binary, Fixed(0)),
    op("fmax", 0x05, Binary, Fixed(1)),
    op("fle", 0x14, Compare, Fixed(0)),
    op("flt", 0x14, Compare, Fixed(1)),
    op("feq", 0x14, Compare, Fixed(2)),
    op("fcvt to w", 0x18, ToInteger(0), Rounds),
    op("fcvt to wu", 0x18, ToInteger(1), Rounds),
    op("fcvt to l", 0x18, ToInteger(2), Rounds),
    op("fcvt to lu", 0x18, ToInteger(3), Rounds),
    op("fcvt from w", 0x1a, FromInteger(0), Rounds),
    op("fcvt from wu", 0x1a, FromInteger(1), Rounds),
    op("fcvt from l", 0x1a, FromInteger(2), Rounds),
    op("fcvt from lu", 0x1a, FromInteger(3), Rounds),
    op("fmv to x", 0x1c, ToInteger(0), Fixed(0)),
    op("fclass", 0x1c, ToInteger(0), Fixed(1)),
    op("fmv from x", 0x1e, FromInteger(0), Fixed(0)),
    // Conversion between the formats, from the other one to this one.
    op("fcvt between", 0x08, Unary(9), Rounds),
];

/// An operand of one of the formats.
fn operand(random: &mut Random, double: bool) -> u64 {
    if double {
        return if random.below(3) == 0 { random.pick(&DOUBLES) } else { random.double() };
    }
    let bits = if random.below(3) == 0 { random.pick(&SINGLES) } else { random.single() };
    let boxed = u64::from(bits) | 0xffff_ffff_0000_0000;
    match random.below(16) {
        0 => boxed & !(1 << (32 + random.below(32))), // one bit of the box is missing
        1 => random.double(),
        2 => 0xffff_fffe_ffff_ffff, // the highest value that is not boxed
        _ => boxed,
    }
}

fn sign(random: &mut Random, bits: u64, double: bool) -> u64 {
    bits ^ (random.below(2) << if double { 63 } else { 31 })
}

struct Tables {
    pairs: Table,
    triples: Table,
    few: Table,
    integers: Table,
}

fn tables(program: &mut Program, random: &mut Random, double: bool) -> Tables {
    let extremes: Vec<u64> = if double {
        DOUBLES.to_vec()
    } else {
        SINGLES.iter().map(|bits| u64::from(*bits) | 0xffff_ffff_0000_0000).collect()
    };
    let mut pairs: Vec<Record> = Vec::new();
    for a in &extremes {
        for b in &extremes {
            pairs.push([sign(random, *a, double), sign(random, *b, double), 0, random.next()]);
        }
    }
    let random_record = |random: &mut Random| {
        let mut record = [0; 4].map(|_| operand(random, double));
        if random.below(4) == 0 {
            record[1] = record[0] ^ random.below(4); // nearly equal: cancellation
        }
        record[3] = random.next();
        record
    };
    pairs.extend((0..1200).map(|_| random_record(random)));
    let mut triples = Vec::new();
    for _ in 0..1500 {
        let pick = |random: &mut Random| {
            let bits = random.pick(&extremes);
            sign(random, bits, double)
        };
        triples.push([pick(random), pick(random), pick(random), random.next()]);
    }
    triples.extend((0..1500).map(|_| random_record(random)));
    let few = (0..500).map(|_| random_record(random)).collect::<Vec<_>>();
    let mut integers = INTEGERS.map(|value| [value, 0, 0, random.next()]).to_vec();
    integers.extend((0..800).map(|_| [random.integer(), 0, 0, random.next()]));
    Tables {
        pairs: program.table(&pairs),
        triples: program.table(&triples),
        few: program.table(&few),
        integers: program.table(&integers),
    }
}

/// All forms of one format.
pub fn all(program: &mut Program, random: &mut Random, double: bool) {
    let [own, other] = [double, !double].map(|double| tables(program, random, double));
    for operation in &OPERATIONS {
        // The operands of a conversion between the formats have the other format.
        let tables = if operation.shape == Unary(9) { &other } else { &own };
        let modes: &[(u32, u32)] = match operation.rm {
            Fixed(_) => &[(0, 0)],
            // Static modes, then dynamic ones through frm.
            Rounds => &[(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (7, 0), (7, 1), (7, 2), (7, 3), (7, 4)],
        };
        for &(rm, frm) in modes {
            let table = match operation.shape {
                FromInteger(_) => tables.integers,
                _ if rm == 7 => tables.few,
                Fused(_) => tables.triples,
                _ => tables.pairs,
            };
            // With NX already raised, arithmetic may take another path.
            for flags in [0, 1] {
                one(program, random, operation, double, rm, frm << 5 | flags, table);
            }
        }
    }
}

fn encode(operation: &Operation, double: bool, rm: u32, rd: u32, rs: [u32; 3]) -> u32 {
    let format = u32::from(double);
    let rm = if let Fixed(rm) = operation.rm { rm } else { rm };
    let funct7 = operation.funct5 << 2 | format;
    match operation.shape {
        Binary | Compare => r_type(0x53, rm, funct7, rd, rs[0], rs[1]),
        Unary(9) => r_type(0x53, rm, funct7, rd, rs[0], 1 - format),
        Unary(selector) | ToInteger(selector) | FromInteger(selector) => {
            r_type(0x53, rm, funct7, rd, rs[0], selector)
        }
        Fused(opcode) => r4_type(opcode, rm, format, rd, rs),
    }
}

fn one(
    program: &mut Program,
    random: &mut Random,
    operation: &Operation,
    double: bool,
    rm: u32,
    fcsr: u32,
    table: Table,
) {
    let integer_target = matches!(operation.shape, Compare | ToInteger(_));
    let integer_source = matches!(operation.shape, FromInteger(_));
    let float = |random: &mut Random| random.below(32) as u32;
    let rd = if integer_target { random.pick(&FREE) } else { float(random) };
    let mut rs = [float(random), float(random), float(random)];
    if integer_source {
        rs[0] = random.pick(&FREE);
    }
    let format = if double { "d" } else { "s" };
    let text = format!("{}.{format} {rd}, {rs:?} rm {rm} fcsr {fcsr:#x}", operation.name);
    let word = encode(operation, double, rm, rd, rs);
    program.form(text, table, 2, |asm| {
        asm.li(reg::TEMP, fcsr.into()).word(csr(1, 0, FCSR, reg::TEMP));
        if !integer_target {
            asm.word(fld(rd, reg::IN, 24));
        }
        if integer_source {
            asm.word(ld(rs[0], reg::IN, 0));
        } else {
            asm.word(fld(rs[2], reg::IN, 16)).word(fld(rs[1], reg::IN, 8)).word(fld(rs[0], reg::IN, 0));
        }
        asm.word(word);
        asm.word(if integer_target { sd(rd, reg::OUT, 0) } else { fsd(rd, reg::OUT, 0) });
        asm.word(csr(2, reg::TEMP, FFLAGS, 0)).word(sd(reg::TEMP, reg::OUT, 8));
    });
}
