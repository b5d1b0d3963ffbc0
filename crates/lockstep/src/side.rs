//! One of our harts compared with QEMU's: it executes one instruction, and must then be in the state that
//! QEMU logged next.
//!
//! Values that may legitimately differ are injected into our hart from QEMU's next state: device answers,
//! time and counters, pending bits, and the timing of asynchronous interrupts. Each kind is counted.

use std::collections::VecDeque;
use std::fmt::Write;

use doorbell_riscv::decode::decode;
use doorbell_riscv::inst::{Inst, Kind};
use doorbell_riscv::{Hart, HartConfig, Interrupt, MmioRequest, Privilege, Stop};
use doorbell_sim::{Clock, Hertz, Ram};

use crate::covered::Covered;
use crate::early::Early;
use crate::qemu::RAM_BASE;
use crate::state::{CSRS, State, Trap, index};

const HISTORY: usize = 20;

// Exception numbers.
const INSTRUCTION_ACCESS_FAULT: u64 = 1;
const ILLEGAL_INSTRUCTION: u64 = 2;
const BREAKPOINT: u64 = 3;
const LOAD_ACCESS_FAULT: u64 = 5;
const STORE_ACCESS_FAULT: u64 = 7;
const INSTRUCTION_PAGE_FAULT: u64 = 12;

/// Our side of one hart.
pub struct Side {
    pub(crate) hart: Hart,
    history: VecDeque<(u64, u32, Inst)>,
    /// The state before the next instruction; `None` until the first instruction outside the boot ROM.
    pub(crate) before: Option<State>,
    /// Whether QEMU has logged that state and did not stop there: it has then executed the instruction.
    pub(crate) logged: bool,
    /// An instruction that was executed before QEMU's next state is known.
    pub(crate) early: Option<Early>,
    /// Coverage of the comparison.
    pub covered: Covered,
}

/// Counters, time and pending bits: readable on both sides, with values that may differ. Top interrupts
/// (mtopei, stopei, mtopi, stopi) also depend on pending bits. In medeleg QEMU also keeps bits of exceptions
/// that neither machine raises (software checks, the hypervisor's), which OpenSBI sets and reads back; the
/// common bits are compared after each instruction.
fn is_injected_csr(number: u16) -> bool {
    matches!(number, 0xb00..=0xb1f | 0xc00..=0xc1f | 0x302 | 0x344 | 0x144 | 0x320 | 0x35c | 0x15c | 0xfb0 | 0xdb0)
}

/// The select register of the window CSR `window`.
fn select_of(window: u16) -> Option<u16> {
    matches!(window, 0x151 | 0x351).then(|| window - 1)
}

/// Select values of an interrupt file's pending bits.
const PENDING_BITS: std::ops::RangeInclusive<u64> = 0x80..=0xbf;

/// CSRs that read as zero in our hart and do not exist in QEMU's: hardware performance counters, their
/// events, and PMP entries from 16 on.
fn may_be_missing(number: u16) -> bool {
    matches!(number, 0xb03..=0xb1f | 0xc03..=0xc1f | 0x323..=0x33f | 0x3a4..=0x3af | 0x3c0..=0x3ef)
}

fn csr_of(inst: &Inst) -> Option<u16> {
    (Kind::Csrrw..=Kind::Csrrci).contains(&inst.kind).then_some(inst.imm as u16 & 0xfff)
}

fn interrupt(number: u64) -> Option<Interrupt> {
    Some(match number {
        1 => Interrupt::SupervisorSoftware,
        3 => Interrupt::MachineSoftware,
        5 => Interrupt::SupervisorTimer,
        7 => Interrupt::MachineTimer,
        9 => Interrupt::SupervisorExternal,
        11 => Interrupt::MachineExternal,
        _ => return None,
    })
}

impl Side {
    /// A hart in its reset state.
    pub fn new(id: usize, sstc: bool, aia: bool) -> Side {
        let hart = Hart::new(HartConfig {
            id,
            slot_clock: Clock::new(Hertz(125_000_000)),
            cycle_clock: Clock::new(Hertz(125_000_000)),
            timebase: Clock::new(Hertz(10_000_000)),
            sstc,
            aia,
            sv48: true,
            reset_pc: RAM_BASE,
        });
        Side {
            hart,
            history: VecDeque::new(),
            before: None,
            logged: false,
            early: None,
            covered: Covered::default(),
        }
    }

    /// Executes one step from `before`, the state of both sides, and compares with `after`, which QEMU logged
    /// next for this hart.
    pub fn advance(&mut self, ram: &mut Ram, before: &State, after: &State) -> Result<(), String> {
        let trap = after.trap_since(before);
        if let Some(trap) = trap {
            *self.covered.traps.entry(trap.cause).or_default() += 1;
        }
        let level = self.early.as_ref().map_or(self.hart.privilege(), |early| early.level);
        let entered = trap.and_then(|trap| trap.interrupt().zip(Some(trap.epc)));
        if let Some((number, epc)) = entered
            && epc == before.pc
        {
            self.not_executed(before)?;
            self.inject_interrupt(ram, number);
            return self.check(before, after);
        }
        let early = self.early.take();
        let executed_early = early.is_some();
        let early = early.unwrap_or_else(|| self.execute(ram, Some((after, trap))));
        let inst = early.inst;
        self.handle_stop(ram, early.stop, after, trap, &inst);
        if let Some(csr) = csr_of(&inst)
            && self.is_injected(csr)
            && trap.is_none()
        {
            self.count("counters, time and pending bits");
            self.hart.set_reg(inst.rd.into(), after.x[usize::from(inst.rd)]);
        }
        let pc = self.hart.pc();
        let again = (trap.is_none() && matches!(inst.kind, Kind::Sret | Kind::Mret) && pc != after.pc)
            .then(|| after.interrupt_after_return_to(pc)?.interrupt())
            .flatten();
        if let Some(number) = entered.filter(|(_, epc)| *epc == pc).map(|(number, _)| number).or(again) {
            self.inject_interrupt(ram, number);
        }
        if let Some(trap) = trap {
            self.excuse(ram, trap, after, &inst);
        }
        *self.covered.levels.entry(level).or_default() += 1;
        let result = self.check(before, after);
        if executed_early && matches!(inst.kind, Kind::ScW | Kind::ScD) {
            return result
                .map_err(|text| format!("{text}(an SC executed before QEMU's outcome was known)\n"));
        }
        result
    }

    /// Applies the permitted differences where QEMU trapped.
    fn excuse(&mut self, ram: &mut Ram, trap: Trap, after: &State, inst: &Inst) {
        if matches!(trap.cause, INSTRUCTION_ACCESS_FAULT | INSTRUCTION_PAGE_FAULT)
            && trap.epc == self.hart.pc()
        {
            // QEMU logs no block when the fetch fails.
            self.hart.run(ram, self.hart.slots() + 1);
        }
        if csr_of(inst).is_some_and(may_be_missing) && trap.cause == ILLEGAL_INSTRUCTION {
            self.count("CSRs that only our hart has");
            self.adopt_machine_trap(after);
        }
        if trap.cause == BREAKPOINT && trap.tval == 0 {
            // EBREAK may leave zero or the address in xtval.
            self.count("xtval of a breakpoint");
            self.hart.set_csr(if trap.supervisor { 0x143 } else { 0x343 }, 0);
        }
    }

    fn is_injected(&self, csr: u16) -> bool {
        let selected = || select_of(csr).and_then(|select| self.hart.csr(select));
        is_injected_csr(csr) || selected().is_some_and(|register| PENDING_BITS.contains(&register))
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        *self.covered.injected.entry(what).or_default() += 1;
    }

    /// The next instruction and its bits.
    pub(crate) fn decode_next(&self, ram: &Ram) -> (Inst, u32) {
        let pc = self.hart.pc();
        let mut bytes = [0; 4];
        for (at, half) in bytes.chunks_mut(2).enumerate() {
            if self.hart.peek(ram, pc.wrapping_add(2 * at as u64), half).is_none() {
                break;
            }
        }
        let inst = decode(u32::from_le_bytes(bytes));
        (inst, u32::from_le_bytes(bytes) & if inst.len == 2 { 0xffff } else { u32::MAX })
    }

    /// Decodes the next instruction and adds it to the history.
    pub(crate) fn fetch(&mut self, ram: &Ram) -> Inst {
        let pc = self.hart.pc();
        let (inst, bits) = self.decode_next(ram);
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back((pc, bits, inst));
        *self.covered.kinds.entry(inst.kind).or_default() += 1;
        inst
    }

    /// Handles our hart's stop.
    fn handle_stop(&mut self, ram: &mut Ram, stop: Stop, after: &State, trap: Option<Trap>, inst: &Inst) {
        match stop {
            Stop::Slot | Stop::Ahead | Stop::Events | Stop::Timer | Stop::Breakpoint | Stop::M5Op { .. } => {}
            Stop::Wfi => self.wake(ram, after),
            Stop::Mmio(request) => self.complete(request, after, trap, inst),
        }
    }

    fn complete(&mut self, request: MmioRequest, after: &State, trap: Option<Trap>, inst: &Inst) {
        if trap.is_some_and(|trap| {
            matches!(trap.cause, LOAD_ACCESS_FAULT | STORE_ACCESS_FAULT) && trap.epc == self.hart.pc()
        }) {
            self.count("accesses to unmapped addresses");
            self.hart.fail_device_access();
        } else if request.store_value().is_some() {
            self.count("device stores");
            self.hart.complete_store();
        } else {
            self.count("device loads");
            let float = inst.kind.writes_float();
            let rd = usize::from(inst.rd);
            let value = if float { after.f.as_ref().map_or(0, |f| f[rd]) } else { after.x[rd] };
            self.hart.complete_load(value);
        }
    }

    /// Ends a WFI as QEMU did: by an interrupt that is taken, or only pending.
    fn wake(&mut self, ram: &mut Ram, after: &State) {
        self.count("WFIs ended");
        let pending = after.csr[index::MIP] & after.csr[index::MIE];
        let lowest = (0..12).find(|bit| pending >> bit & 1 != 0).and_then(interrupt);
        let enabled = (0..12).find(|bit| after.csr[index::MIE] >> bit & 1 != 0).and_then(interrupt);
        let Some(input) = lowest.or(enabled) else { return };
        let pc = self.hart.pc();
        self.hart.set_interrupt(input, true);
        let slots = self.hart.slots();
        if after.pc == pc || after.trap_epc_is(pc) {
            self.hart.run(ram, slots);
        }
        self.hart.set_interrupt(input, false);
    }

    fn inject_interrupt(&mut self, ram: &mut Ram, number: u64) {
        self.count("interrupts");
        let Some(input) = interrupt(number) else { return };
        self.hart.set_interrupt(input, true);
        let slots = self.hart.slots();
        // Runs no instruction, but takes the interrupt.
        self.hart.run(ram, slots);
        self.hart.set_interrupt(input, false);
    }

    /// Sets our hart to QEMU's state, where only QEMU traps to M.
    fn adopt_machine_trap(&mut self, after: &State) {
        self.hart.set_privilege(Privilege::Machine);
        for (position, number) in
            [(index::MSTATUS, 0x300), (index::MEPC, 0x341), (index::MCAUSE, 0x342), (index::MTVAL, 0x343)]
        {
            self.hart.set_csr(number, after.csr[position]);
        }
        for (number, value) in after.x.iter().enumerate() {
            self.hart.set_reg(number, *value);
        }
        self.hart.set_pc(after.pc);
    }

    pub(crate) fn check(&self, before: &State, after: &State) -> Result<(), String> {
        let differences = after.differences(&self.hart);
        if differences.is_empty() {
            return Ok(());
        }
        let mut text = format!(
            "after hart {}'s instruction at {:#x} our hart and QEMU differ:\n{differences}",
            before.hart, before.pc
        );
        let _ = writeln!(text, "state of both before the instruction:");
        let _ = writeln!(text, "  pc {:016x}", before.pc);
        for (row, values) in before.x.chunks(4).enumerate() {
            let _ = write!(text, "  x{:<2}", row * 4);
            for value in values {
                let _ = write!(text, " {value:016x}");
            }
            text.push('\n');
        }
        for ((name, _), value) in CSRS.iter().zip(before.csr) {
            let _ = writeln!(text, "  {name:8} {value:016x}");
        }
        let _ = writeln!(text, "our privilege level: {:?}", self.hart.privilege());
        let _ = writeln!(text, "last instructions:");
        for (pc, bits, inst) in &self.history {
            let _ = writeln!(
                text,
                "  {pc:016x}  {bits:8x}  {:?} rd {} rs1 {} rs2 {} imm {:#x} length {}",
                inst.kind, inst.rd, inst.rs1, inst.rs2, inst.imm, inst.len
            );
        }
        Err(text)
    }
}
