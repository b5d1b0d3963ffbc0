//! The target description for the debugger (Debugging with GDB, "Target Descriptions" and "RISC-V Features").
//! Register numbers are those of `gdbstub_arch`: x0 to x31, pc, f0 to f31 from 33, CSRs from 65, the
//! privilege level last.

use std::fmt::Write;

use doorbell_riscv::{Hart, SHOWN_CSRS};

const FIRST_FLOAT: usize = 33;
const FIRST_CSR: usize = 65;
const PRIVILEGE: usize = 4161;

const INTEGER: [&str; 32] = [
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "fp", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6",
    "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
];

const FLOAT: [&str; 32] = [
    "ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "fs0", "fs1", "fa0", "fa1", "fa2", "fa3", "fa4",
    "fa5", "fa6", "fa7", "fs2", "fs3", "fs4", "fs5", "fs6", "fs7", "fs8", "fs9", "fs10", "fs11", "ft8",
    "ft9", "ft10", "ft11",
];

/// Floating-point status: the debugger expects it in the same feature as the floating-point registers.
const FLOAT_CSRS: [(&str, u16); 3] = [("fflags", 0x001), ("frm", 0x002), ("fcsr", 0x003)];

/// The target description of a machine with harts like `hart`.
pub fn target_description(hart: &Hart) -> String {
    let mut xml = String::from("<?xml version=\"1.0\"?><!DOCTYPE target SYSTEM \"gdb-target.dtd\">");
    xml.push_str("<target version=\"1.0\"><architecture>riscv:rv64</architecture>");
    feature(&mut xml, "cpu", |xml| {
        for (number, name) in INTEGER.iter().enumerate() {
            let kind = match *name {
                "ra" => "code_ptr",
                "sp" | "gp" | "tp" | "fp" => "data_ptr",
                _ => "int",
            };
            register(xml, name, 64, kind, number);
        }
        register(xml, "pc", 64, "code_ptr", INTEGER.len());
    });
    feature(&mut xml, "fpu", |xml| {
        for (number, name) in FLOAT.iter().enumerate() {
            register(xml, name, 64, "ieee_double", FIRST_FLOAT + number);
        }
        for (name, number) in FLOAT_CSRS {
            register(xml, name, 64, "int", FIRST_CSR + usize::from(number));
        }
    });
    feature(&mut xml, "csr", |xml| {
        for (name, number) in SHOWN_CSRS.iter().filter(|(_, number)| hart.csr(*number).is_some()) {
            register(xml, name, 64, "int", FIRST_CSR + usize::from(*number));
        }
    });
    feature(&mut xml, "virtual", |xml| register(xml, "priv", 8, "uint8", PRIVILEGE));
    xml.push_str("</target>");
    xml
}

fn feature(xml: &mut String, name: &str, registers: impl FnOnce(&mut String)) {
    let _ = write!(xml, "<feature name=\"org.gnu.gdb.riscv.{name}\">");
    registers(xml);
    xml.push_str("</feature>");
}

fn register(xml: &mut String, name: &str, bits: u32, kind: &str, number: usize) {
    let _ = write!(xml, "<reg name=\"{name}\" bitsize=\"{bits}\" type=\"{kind}\" regnum=\"{number}\"/>");
}
