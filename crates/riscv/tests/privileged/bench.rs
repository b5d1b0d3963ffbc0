//! Test bench: a hart with some RAM, trap handlers that stop it, and hand-built page tables.

use doorbell_riscv::{Hart, HartConfig, Interrupt, Privilege, Stop};
use doorbell_sim::{Bytes, Clock, Hertz, PhysAddr, Ram};

use crate::asm::m5op;

pub const BASE: u64 = 0x8000_0000;
pub const SIZE: u64 = 16 << 20;
/// Address of test code.
pub const CODE: u64 = BASE + 0x1_0000;
/// Address of test data.
pub const DATA: u64 = BASE + 0x2_0000;
/// Trap handlers: an m5op each.
pub const M_HANDLER: u64 = BASE + 0x100;
pub const S_HANDLER: u64 = BASE + 0x200;
/// An address outside RAM.
pub const DEVICE: u64 = 0x1000_0000;
const TABLES: u64 = BASE + 0x10_0000;

/// CSR numbers, by the manual's names.
pub mod csrs {
    #![allow(dead_code)]
    pub const SSTATUS: u16 = 0x100;
    pub const SIE: u16 = 0x104;
    pub const STVEC: u16 = 0x105;
    pub const SCOUNTEREN: u16 = 0x106;
    pub const SEPC: u16 = 0x141;
    pub const SCAUSE: u16 = 0x142;
    pub const STVAL: u16 = 0x143;
    pub const SIP: u16 = 0x144;
    pub const STIMECMP: u16 = 0x14d;
    pub const SATP: u16 = 0x180;
    pub const MSTATUS: u16 = 0x300;
    pub const MISA: u16 = 0x301;
    pub const MEDELEG: u16 = 0x302;
    pub const MIDELEG: u16 = 0x303;
    pub const MIE: u16 = 0x304;
    pub const MTVEC: u16 = 0x305;
    pub const MCOUNTEREN: u16 = 0x306;
    pub const MENVCFG: u16 = 0x30a;
    pub const MCOUNTINHIBIT: u16 = 0x320;
    pub const MSCRATCH: u16 = 0x340;
    pub const MEPC: u16 = 0x341;
    pub const MCAUSE: u16 = 0x342;
    pub const MTVAL: u16 = 0x343;
    pub const MIP: u16 = 0x344;
    pub const PMPCFG0: u16 = 0x3a0;
    pub const PMPADDR0: u16 = 0x3b0;
    pub const MCYCLE: u16 = 0xb00;
    pub const MINSTRET: u16 = 0xb02;
    pub const CYCLE: u16 = 0xc00;
    pub const TIME: u16 = 0xc01;
    pub const INSTRET: u16 = 0xc02;
    pub const MHARTID: u16 = 0xf14;
}
use csrs::*;

/// Bits of `mstatus`.
pub mod status {
    pub const SIE: u64 = 1 << 1;
    pub const MIE: u64 = 1 << 3;
    pub const SPIE: u64 = 1 << 5;
    pub const MPIE: u64 = 1 << 7;
    pub const SPP: u64 = 1 << 8;
    pub const MPP_SHIFT: u32 = 11;
    pub const MPP: u64 = 3 << 11;
    pub const FS: u64 = 3 << 13;
    pub const FS_INITIAL: u64 = 1 << 13;
    pub const MPRV: u64 = 1 << 17;
    pub const SUM: u64 = 1 << 18;
    pub const MXR: u64 = 1 << 19;
    pub const TVM: u64 = 1 << 20;
    pub const TW: u64 = 1 << 21;
    pub const TSR: u64 = 1 << 22;
}

/// Bits of a page-table entry.
pub mod pte {
    pub const V: u64 = 1;
    pub const R: u64 = 2;
    pub const W: u64 = 4;
    pub const X: u64 = 8;
    pub const U: u64 = 16;
    pub const A: u64 = 64;
    pub const D: u64 = 128;
    /// A page that permits all supervisor accesses.
    pub const ALL: u64 = V | R | W | X | A | D;
}

/// The outcome of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Retired,
    /// A trap into this level, with cause, value and the address of the instruction.
    Trap {
        to: Privilege,
        cause: u64,
        tval: u64,
        epc: u64,
    },
    /// The machine must act.
    Stopped(Stop),
}

impl Outcome {
    /// Cause and `xtval` of a trap.
    pub fn trap(self) -> Option<(u64, u64)> {
        match self {
            Outcome::Trap { cause, tval, .. } => Some((cause, tval)),
            _ => None,
        }
    }

    pub fn cause(self) -> Option<u64> {
        self.trap().map(|(cause, _)| cause)
    }
}

/// A hart with its RAM.
pub struct Bench {
    pub hart: Hart,
    pub ram: Ram,
    next_table: u64,
}

pub fn config() -> HartConfig {
    HartConfig {
        id: 0,
        slot_clock: Clock::new(Hertz(1_000_000_000)),
        cycle_clock: Clock::new(Hertz(2_000_000_000)),
        timebase: Clock::new(Hertz(10_000_000)),
        sstc: true,
        aia: false,
        sv48: true,
        reset_pc: BASE,
    }
}

impl Bench {
    pub fn new() -> Bench {
        let mut ram = Ram::new(PhysAddr(BASE), Bytes(SIZE), 1);
        for handler in [M_HANDLER, S_HANDLER] {
            ram.store(PhysAddr(handler), &m5op(0x42).to_le_bytes());
        }
        let mut bench = Bench { hart: Hart::new(config()), ram, next_table: TABLES };
        bench.set(MTVEC, M_HANDLER);
        bench.set(STVEC, S_HANDLER);
        bench
    }

    pub fn set(&mut self, csr: u16, value: u64) {
        assert!(self.hart.set_csr(csr, value), "CSR {csr:#x} exists");
    }

    pub fn get(&self, csr: u16) -> u64 {
        self.hart.csr(csr).unwrap_or_else(|| panic!("CSR {csr:#x} exists"))
    }

    /// Sets bits of `mstatus`.
    pub fn enable(&mut self, bits: u64) {
        self.set(MSTATUS, self.get(MSTATUS) | bits);
    }

    pub fn write(&mut self, addr: u64, words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert!(self.ram.store(PhysAddr(addr), &bytes));
    }

    pub fn write_halves(&mut self, addr: u64, halves: &[u16]) {
        let bytes: Vec<u8> = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
        assert!(self.ram.store(PhysAddr(addr), &bytes));
    }

    pub fn write_u64(&mut self, addr: u64, value: u64) {
        assert!(self.ram.store(PhysAddr(addr), &value.to_le_bytes()));
    }

    pub fn read_u64(&self, addr: u64) -> u64 {
        self.ram.load_u64(PhysAddr(addr)).expect("RAM")
    }

    pub fn go(&mut self, privilege: Privilege, pc: u64) {
        self.hart.set_privilege(privilege);
        self.hart.set_pc(pc);
    }

    /// Runs one slot: an instruction, or its trap.
    pub fn step(&mut self) -> Outcome {
        let before = self.hart.stats();
        let stop = self.hart.run(&mut self.ram, self.hart.slots() + 1);
        let after = self.hart.stats();
        if stop != Stop::Slot {
            return Outcome::Stopped(stop);
        }
        if before.exceptions == after.exceptions && before.interrupts == after.interrupts {
            return Outcome::Retired;
        }
        self.trapped()
    }

    /// The last trap that was entered.
    pub fn trapped(&self) -> Outcome {
        let to = self.hart.privilege();
        let [cause, tval, epc] = match to {
            Privilege::Machine => [MCAUSE, MTVAL, MEPC],
            _ => [SCAUSE, STVAL, SEPC],
        };
        Outcome::Trap { to, cause: self.get(cause), tval: self.get(tval), epc: self.get(epc) }
    }

    /// Executes one word at [`CODE`] at a privilege level.
    pub fn execute(&mut self, privilege: Privilege, word: u32) -> Outcome {
        self.write(CODE, &[word]);
        self.go(privilege, CODE);
        self.step()
    }

    /// Takes a pending interrupt, if any, without executing.
    pub fn poll(&mut self) -> Option<Outcome> {
        let before = self.hart.stats().interrupts;
        let slots = self.hart.slots();
        self.hart.run(&mut self.ram, slots);
        (self.hart.stats().interrupts != before).then(|| self.trapped())
    }

    /// Runs until the hart stops for a reason other than slots.
    pub fn run(&mut self) -> Stop {
        self.hart.run(&mut self.ram, self.hart.slots() + 10_000_000)
    }

    fn new_table(&mut self) -> u64 {
        self.next_table += 4096;
        assert!(self.ram.store(PhysAddr(self.next_table), &[0; 4096]));
        self.next_table
    }

    /// A page table of 3 (Sv39) or 4 (Sv48) levels, active below M.
    pub fn page_table(&mut self, levels: u32) -> PageTable {
        let root = self.new_table();
        let mode = if levels == 3 { 8 } else { 9 };
        self.set(SATP, mode << 60 | root >> 12);
        PageTable { root, levels }
    }

    /// The address of the entry for `virt` at `level` (0: 4 KiB pages); missing upper tables are created.
    pub fn entry(&mut self, table: PageTable, virt: u64, level: u32) -> u64 {
        let mut addr = table.root;
        for at in (level + 1..table.levels).rev() {
            let slot = addr + (virt >> (12 + 9 * at) & 0x1ff) * 8;
            let entry = self.read_u64(slot);
            addr = if entry & pte::V == 0 {
                let next = self.new_table();
                self.write_u64(slot, next >> 12 << 10 | pte::V);
                next
            } else {
                entry >> 10 << 12
            };
        }
        addr + (virt >> (12 + 9 * level) & 0x1ff) * 8
    }

    /// Maps a page of the size of `level`; returns the entry's address.
    pub fn map(&mut self, table: PageTable, virt: u64, phys: u64, level: u32, flags: u64) -> u64 {
        let slot = self.entry(table, virt, level);
        self.write_u64(slot, phys >> 12 << 10 | flags);
        slot
    }
}

/// A page table.
#[derive(Clone, Copy)]
pub struct PageTable {
    pub root: u64,
    pub levels: u32,
}

pub const LEVELS: [Privilege; 3] = [Privilege::User, Privilege::Supervisor, Privilege::Machine];

pub const INTERRUPTS: [Interrupt; 6] = [
    Interrupt::MachineExternal,
    Interrupt::MachineSoftware,
    Interrupt::MachineTimer,
    Interrupt::SupervisorExternal,
    Interrupt::SupervisorSoftware,
    Interrupt::SupervisorTimer,
];
