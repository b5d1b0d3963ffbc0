//! Integer and floating-point operations: a dependent chain costs the latency, independent operations the
//! units' initiation interval.

use doorbell_assembler::{Assembler, csr, *};

use super::program::{divide, multiply};
use super::{CORES, Program, Row, machine, measure};

const OPS: u32 = 32;

type Emit = fn(&mut Assembler, u32, u32, u32);

fn add(a: &mut Assembler, rd: u32, rs1: u32, rs2: u32) {
    a.add(Reg::x(rd as u8), Reg::x(rs1 as u8), Reg::x(rs2 as u8));
}

/// Emits a double-precision instruction with two source operands.
fn float(a: &mut Assembler, funct7: u32, [rd, rs1, rs2]: [u32; 3]) {
    a.word(funct7 << 25 | rs2 << 20 | rs1 << 15 | 7 << 12 | rd << 7 | 0x53);
}

fn float_add(a: &mut Assembler, rd: u32, rs1: u32, rs2: u32) {
    float(a, 0x01, [rd, rs1, rs2]);
}

fn float_multiply(a: &mut Assembler, rd: u32, rs1: u32, rs2: u32) {
    float(a, 0x09, [rd, rs1, rs2]);
}

fn float_divide(a: &mut Assembler, rd: u32, rs1: u32, rs2: u32) {
    float(a, 0x0d, [rd, rs1, rs2]);
}

/// Loop of independent additions.
pub(super) fn adds() -> Program {
    let body = |a: &mut Assembler| (0..OPS).for_each(|n| add(a, 16 + n % 8, 11, 11));
    Program::new(|a| a.li(A1, 1), body)
}

/// Dependent chains and independent operations for each kind of unit.
pub fn operations() -> Vec<Row> {
    let mut rows = Vec::new();
    for core in CORES {
        let config = machine(core, &[]);
        let u = &config.pipeline.units;
        let width = f64::from(config.pipeline.issue_width);
        let pace = |units: u32, interval: u32| f64::from(interval) / f64::from(units);
        let kinds: [(&str, Emit, u32, f64); 6] = [
            ("add", add, u.alu_cycles, 1.0 / f64::from(u.alus)),
            ("mul", multiply, u.multiply_cycles, pace(u.multipliers, u.multiply_interval)),
            ("div", divide, u.divide_cycles, pace(u.dividers, u.divide_interval)),
            ("fadd.d", float_add, u.float_add_cycles, pace(u.float_adders, u.float_add_interval)),
            (
                "fmul.d",
                float_multiply,
                u.float_multiply_cycles,
                pace(u.float_multipliers, u.float_multiply_interval),
            ),
            ("fdiv.d", float_divide, u.float_divide_cycles, pace(u.float_dividers, u.float_divide_interval)),
        ];
        for (name, emit, latency, interval) in kinds {
            for dependent in [true, false] {
                let setup = |a: &mut Assembler| {
                    a.li(A0, 3 << 13);
                    a.csrs(csr::MSTATUS, A0);
                    a.li(A1, 1);
                };
                let body = |a: &mut Assembler| {
                    for n in 0..OPS {
                        // Registers 16 to 23 in rotation: a result is complete long before its register is
                        // reused.
                        let to = if dependent { 10 } else { 16 + n % 8 };
                        emit(a, to, if dependent { 10 } else { 11 }, 11);
                    }
                };
                let measured = measure(&config, &Program::new(setup, body), 100, 200);
                // Independent: the loop's jump takes an issue slot too, and an iteration starts a new issue
                // group.
                let groups = (f64::from(OPS + 1) / width).ceil() / f64::from(OPS);
                let each = if dependent { f64::from(latency) } else { interval.max(groups) };
                rows.push(Row {
                    what: format!("{name}, {}", if dependent { "dependent chain" } else { "independent" }),
                    core,
                    unit: "cycles each",
                    form: if dependent { "latency" } else { "interval / units, or width" }.to_owned(),
                    expected: (each, each),
                    measured: measured.each(u64::from(OPS)),
                });
            }
        }
    }
    rows
}
