//! The architectural state that the reference logs before each instruction, and its comparison with ours.

use std::fmt::Write;

use doorbell_riscv::Hart;

/// CSRs in the log, by name and number. `mip` is not compared: its inputs are asynchronous.
pub const CSRS: [(&str, u16); 16] = [
    ("mstatus", 0x300),
    ("mip", 0x344),
    ("mie", 0x304),
    ("mideleg", 0x303),
    ("medeleg", 0x302),
    ("mtvec", 0x305),
    ("stvec", 0x105),
    ("mepc", 0x341),
    ("sepc", 0x141),
    ("mcause", 0x342),
    ("scause", 0x142),
    ("mtval", 0x343),
    ("stval", 0x143),
    ("mscratch", 0x340),
    ("sscratch", 0x140),
    ("satp", 0x180),
];

/// Positions in [`CSRS`].
pub mod index {
    #![allow(missing_docs)]
    pub const MSTATUS: usize = 0;
    pub const MIP: usize = 1;
    pub const MIE: usize = 2;
    pub const MEDELEG: usize = 4;
    pub const MTVEC: usize = 5;
    pub const STVEC: usize = 6;
    pub const MEPC: usize = 7;
    pub const SEPC: usize = 8;
    pub const MCAUSE: usize = 9;
    pub const SCAUSE: usize = 10;
    pub const MTVAL: usize = 11;
    pub const STVAL: usize = 12;
}

/// Exceptions that both machines can delegate. The reference also permits writes of the hypervisor
/// extension's causes and ECALL from M, which cannot occur below M.
const MEDELEG_COMMON: u64 = 0xb3ff;

/// Registers before the instruction at `pc`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The hart's number.
    pub hart: usize,
    /// The program counter.
    pub pc: u64,
    /// Integer registers.
    pub x: [u64; 32],
    /// Floating-point registers, if the log has them.
    pub f: Option<Box<[u64; 32]>>,
    /// Values of [`CSRS`].
    pub csr: [u64; CSRS.len()],
}

impl State {
    /// Whether `next` equals this state except for pending interrupts.
    pub fn same_but_pending(&self, next: &State) -> bool {
        let mut csr = next.csr;
        csr[index::MIP] = self.csr[index::MIP];
        self.pc == next.pc && self.x == next.x && self.csr == csr && self.f == next.f
    }

    /// The traps, to M and to S, whose vector is the current program counter.
    fn at_vectors(&self) -> impl Iterator<Item = Trap> {
        let machine = Trap {
            supervisor: false,
            cause: self.csr[index::MCAUSE],
            epc: self.csr[index::MEPC],
            tval: self.csr[index::MTVAL],
        };
        let supervisor = Trap {
            supervisor: true,
            cause: self.csr[index::SCAUSE],
            epc: self.csr[index::SEPC],
            tval: self.csr[index::STVAL],
        };
        [machine, supervisor].into_iter().filter(|trap| {
            let vector = self.csr[if trap.supervisor { index::STVEC } else { index::MTVEC }];
            let offset =
                if vector & 1 != 0 && trap.cause >> 63 != 0 { 4 * (trap.cause << 1 >> 1) } else { 0 };
            self.pc == (vector & !3).wrapping_add(offset)
        })
    }

    /// The trap entered between `before` and this state, if the program counter is at its vector.
    pub fn trap_since(&self, before: &State) -> Option<Trap> {
        self.at_vectors().find(|trap| {
            let parts = if trap.supervisor {
                [index::MSTATUS, index::SEPC, index::SCAUSE]
            } else {
                [index::MSTATUS, index::MEPC, index::MCAUSE]
            };
            parts.iter().any(|part| self.csr[*part] != before.csr[*part])
        })
    }

    /// The interrupt taken right after an SRET or MRET to `pc`. If it is the same one as before, it leaves
    /// every CSR as it was before the return.
    pub fn interrupt_after_return_to(&self, pc: u64) -> Option<Trap> {
        self.at_vectors().find(|trap| trap.interrupt().is_some() && trap.epc == pc)
    }

    /// Whether the program counter is at a vector whose trap came from `pc`.
    pub fn trap_epc_is(&self, pc: u64) -> bool {
        self.csr[index::SEPC] == pc || self.csr[index::MEPC] == pc
    }

    /// Differences between the reference and ours, one line each; empty if none.
    pub fn differences(&self, hart: &Hart) -> String {
        let mut text = String::new();
        let mut compare = |name: &str, theirs: u64, ours: u64| {
            if theirs != ours {
                let _ = writeln!(text, "  {name:8} QEMU {theirs:016x}  ours {ours:016x}");
            }
        };
        compare("pc", self.pc, hart.pc());
        for (number, value) in self.x.iter().enumerate() {
            if *value != hart.reg(number) {
                compare(&format!("x{number}"), *value, hart.reg(number));
            }
        }
        if let Some(f) = &self.f {
            for (number, value) in f.iter().enumerate() {
                compare(&format!("f{number}"), *value, hart.freg(number));
            }
        }
        for (position, (name, number)) in CSRS.into_iter().enumerate() {
            let mask = match position {
                index::MIP => 0,
                index::MEDELEG => MEDELEG_COMMON,
                _ => u64::MAX,
            };
            compare(name, self.csr[position] & mask, hart.csr(number).unwrap_or(0) & mask);
        }
        text
    }
}

/// An entered trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trap {
    /// To S rather than M.
    pub supervisor: bool,
    /// `xcause`.
    pub cause: u64,
    /// `xepc`.
    pub epc: u64,
    /// `xtval`.
    pub tval: u64,
}

impl Trap {
    /// The interrupt's number, if it is one.
    pub fn interrupt(&self) -> Option<u64> {
        (self.cause >> 63 != 0).then_some(self.cause << 1 >> 1)
    }
}
