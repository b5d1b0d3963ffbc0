//! Debug access to CSRs and memory: independent of the privilege level, and without an instruction's side
//! effects. Used by the GDB stub, user-mode harnesses and the lockstep check.

use std::collections::BTreeSet;

use doorbell_sim::Ram;

use crate::hart::Hart;

/// The CSRs shown to debuggers, by the privileged manual's names and numbers.
pub const SHOWN_CSRS: [(&str, u16); 35] = [
    ("sstatus", 0x100),
    ("sie", 0x104),
    ("stvec", 0x105),
    ("scounteren", 0x106),
    ("senvcfg", 0x10a),
    ("sscratch", 0x140),
    ("sepc", 0x141),
    ("scause", 0x142),
    ("stval", 0x143),
    ("sip", 0x144),
    ("stimecmp", 0x14d),
    ("satp", 0x180),
    ("mstatus", 0x300),
    ("misa", 0x301),
    ("medeleg", 0x302),
    ("mideleg", 0x303),
    ("mie", 0x304),
    ("mtvec", 0x305),
    ("mcounteren", 0x306),
    ("menvcfg", 0x30a),
    ("mcountinhibit", 0x320),
    ("mscratch", 0x340),
    ("mepc", 0x341),
    ("mcause", 0x342),
    ("mtval", 0x343),
    ("mip", 0x344),
    ("pmpcfg0", 0x3a0),
    ("pmpcfg2", 0x3a2),
    ("pmpaddr0", 0x3b0),
    ("pmpaddr1", 0x3b1),
    ("cycle", 0xc00),
    ("time", 0xc01),
    ("instret", 0xc02),
    ("mvendorid", 0xf11),
    ("mhartid", 0xf14),
];

impl Hart {
    /// A CSR's value as machine mode would read it; `None` if it does not exist. Counters and time have the
    /// value that the last executed instruction would have read.
    pub fn csr(&self, number: u16) -> Option<u64> {
        self.csr_value(number).ok()
    }

    /// Writes a CSR as machine mode would; read-only fields keep their value (WARL). `false` if it does not
    /// exist.
    pub fn set_csr(&mut self, number: u16, value: u64) -> bool {
        let exists = self.csr_value(number).is_ok();
        if exists {
            // `run` applies the effect on the hart again at each call.
            let _ = self.write_csr(number, value);
        }
        exists
    }

    /// Reads memory at a virtual address as the running program would, without side effects: for debuggers,
    /// symbol look-ups and tests. `None` if a page is not mapped or not RAM.
    pub fn peek(&self, ram: &Ram, addr: u64, into: &mut [u8]) -> Option<()> {
        for (i, byte) in into.iter_mut().enumerate() {
            let phys = self.probe(ram, addr.wrapping_add(i as u64))?;
            *byte = ram.load::<1>(phys)?[0];
        }
        Some(())
    }

    /// Writes memory at a virtual address in the current translation, regardless of page permissions, like a
    /// device: it breaks reservations and drops decoded code. `false`, without any write, if part of it is
    /// not RAM.
    pub fn poke(&self, ram: &mut Ram, addr: u64, bytes: &[u8]) -> bool {
        let place = |ram: &Ram, i: usize| {
            let phys = self.probe(ram, addr.wrapping_add(i as u64))?;
            ram.page_of(phys).map(|_| phys)
        };
        let all: Option<Vec<_>> = (0..bytes.len()).map(|i| place(ram, i)).collect();
        let Some(places) = all else { return false };
        places.into_iter().zip(bytes).all(|(phys, byte)| ram.store_from_device(phys, &[*byte]))
    }

    /// Sets the virtual addresses at which [`Hart::run`] stops before executing, in every address space.
    /// Guest memory is not modified. Code without breakpoints runs at full speed: decoded blocks end before a
    /// breakpoint, and blocks that start at one are not cached.
    pub fn set_breakpoints(&mut self, breakpoints: &BTreeSet<u64>) {
        let paths = self.paths.as_mut().expect("a hart's paths are absent only while it runs");
        paths.breakpoints.clone_from(breakpoints);
    }

    /// Ends a WFI as an interrupt would. Returns whether the hart was waiting.
    pub fn end_wait(&mut self) -> bool {
        std::mem::take(&mut self.waiting)
    }
}
