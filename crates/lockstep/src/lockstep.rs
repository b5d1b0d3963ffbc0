//! The comparison: our hart executes one instruction, and must then be in the state that QEMU logged next.
//!
//! What may differ is given to our hart from QEMU's next state: what devices answer, time and counters, pending
//! bits, and when asynchronous interrupts come. Each kind is counted.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;

use anyhow::Context;
use doorbell_riscv::decode::decode;
use doorbell_riscv::inst::{Inst, Kind};
use doorbell_riscv::{Hart, HartConfig, Interrupt, MmioRequest, Privilege, Stop};
use doorbell_sim::{Bytes, Clock, Hertz, PhysAddr, Ram};

use crate::gdb::Gdb;
use crate::qemu::RAM_BASE;
use crate::state::{CSRS, State, Trap, index};

const HISTORY: usize = 20;

/// ABI names in the order of the registers' numbers, as GDB knows them.
const INTEGER_NAMES: &str = "zero ra sp gp tp t0 t1 t2 fp s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 \
                             t3 t4 t5 t6";
const FLOAT_NAMES: &str = "ft0 ft1 ft2 ft3 ft4 ft5 ft6 ft7 fs0 fs1 fa0 fa1 fa2 fa3 fa4 fa5 fa6 fa7 fs2 fs3 fs4 fs5 \
                           fs6 fs7 fs8 fs9 fs10 fs11 ft8 ft9 ft10 ft11";

/// The supervisor's software interrupt in `mip`.
const SSIP: u64 = 2;

// Exception numbers.
const INSTRUCTION_ACCESS_FAULT: u64 = 1;
const ILLEGAL_INSTRUCTION: u64 = 2;
const BREAKPOINT: u64 = 3;
const LOAD_ACCESS_FAULT: u64 = 5;
const STORE_ACCESS_FAULT: u64 = 7;
const INSTRUCTION_PAGE_FAULT: u64 = 12;

/// Our side.
pub struct Lockstep {
    hart: Hart,
    ram: Ram,
    history: VecDeque<(u64, u32, Inst)>,
    /// What was injected, by kind.
    pub injected: BTreeMap<&'static str, u64>,
    /// Traps taken by both, by cause.
    pub traps: BTreeMap<u64, u64>,
    /// Instructions compared by kind, to tell what the run covered.
    pub kinds: BTreeMap<Kind, u64>,
    /// Instructions compared by privilege level.
    pub levels: BTreeMap<Privilege, u64>,
}

/// Counters, time and pending bits: readable on both sides, with values that may differ.
fn is_injected_csr(number: u16) -> bool {
    matches!(number, 0xb00..=0xb1f | 0xc00..=0xc1f | 0x344 | 0x144 | 0x320)
}

/// CSRs that read as zero in our hart and do not exist in QEMU's: hardware performance counters, their events,
/// and PMP entries from 16 on.
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

impl Lockstep {
    /// A hart with this memory.
    pub fn new(memory: &[u8], sstc: bool) -> Lockstep {
        let mut ram = Ram::new(PhysAddr(RAM_BASE), Bytes(memory.len() as u64), 1);
        for (page, bytes) in memory.chunks(4096).enumerate() {
            if bytes.iter().any(|byte| *byte != 0) {
                ram.store(PhysAddr(RAM_BASE + page as u64 * 4096), bytes);
            }
        }
        let hart = Hart::new(HartConfig {
            id: 0,
            slot_clock: Clock::new(Hertz(125_000_000)),
            cycle_clock: Clock::new(Hertz(125_000_000)),
            timebase: Clock::new(Hertz(10_000_000)),
            sstc,
            sv48: true,
            reset_pc: RAM_BASE,
        });
        Lockstep {
            hart,
            ram,
            history: VecDeque::new(),
            injected: BTreeMap::new(),
            traps: BTreeMap::new(),
            kinds: BTreeMap::new(),
            levels: BTreeMap::new(),
        }
    }

    /// Takes over integer registers and `pc`: the hand-over from the boot ROM.
    pub fn adopt(&mut self, state: &State) -> Result<(), String> {
        for (number, value) in state.x.iter().enumerate() {
            self.hart.set_reg(number, *value);
        }
        self.hart.set_pc(state.pc);
        match state.differences(&self.hart) {
            text if text.is_empty() => Ok(()),
            text => Err(format!("the two machines differ at reset:\n{text}")),
        }
    }

    /// Takes over everything from a stopped QEMU, and gives the state that both are now in.
    pub fn take_over(&mut self, gdb: &mut Gdb, floats: bool) -> anyhow::Result<State> {
        let read = |gdb: &mut Gdb, name: &str| -> anyhow::Result<u64> {
            gdb.register(name)?.with_context(|| format!("QEMU does not tell {name}"))
        };
        let mut state = State { pc: read(gdb, "pc")?, f: floats.then(Box::default), ..State::default() };
        for (number, name) in INTEGER_NAMES.split(' ').enumerate() {
            state.x[number] = read(gdb, name)?;
            self.hart.set_reg(number, state.x[number]);
        }
        for (number, name) in FLOAT_NAMES.split(' ').enumerate() {
            let value = read(gdb, name)?;
            self.hart.set_freg(number, value);
            if let Some(f) = &mut state.f {
                f[number] = value;
            }
        }
        for entry in 0..16 {
            self.set_csr(0x3b0 + entry, read(gdb, &format!("pmpaddr{entry}"))?);
        }
        let others = [("pmpcfg0", 0x3a0), ("pmpcfg2", 0x3a2), ("menvcfg", 0x30a), ("mcounteren", 0x306)];
        let more = [("scounteren", 0x106), ("senvcfg", 0x10a)];
        for (name, number) in others.into_iter().chain(more) {
            self.set_csr(number, read(gdb, name)?);
        }
        for (name, number) in [("fflags", 1), ("frm", 2)] {
            // Refused while the floating-point unit is off; software sets it before it is used again.
            self.set_csr(number, gdb.register(name)?.unwrap_or(0));
        }
        for (position, (name, number)) in CSRS.into_iter().enumerate() {
            state.csr[position] = read(gdb, name)?;
            // Of mip, what software has raised; the inputs come when they are taken.
            let mask = if position == index::MIP { SSIP } else { u64::MAX };
            self.set_csr(number, state.csr[position] & mask);
        }
        self.hart.set_privilege(match read(gdb, "priv")? {
            0 => Privilege::User,
            1 => Privilege::Supervisor,
            _ => Privilege::Machine,
        });
        self.hart.set_pc(state.pc);
        let differences = state.differences(&self.hart);
        anyhow::ensure!(differences.is_empty(), "QEMU's state could not be taken over:\n{differences}");
        Ok(state)
    }

    fn set_csr(&mut self, number: u16, value: u64) {
        assert!(self.hart.set_csr(number, value), "CSR {number:#x} exists");
    }

    /// Our hart's privilege level.
    pub fn privilege(&self) -> Privilege {
        self.hart.privilege()
    }

    /// Goes from `before`, in which both are, to `after`, which QEMU logged next.
    pub fn advance(&mut self, before: &State, after: &State) -> Result<(), String> {
        let trap = after.trap_since(before);
        if let Some(trap) = trap {
            *self.traps.entry(trap.cause).or_default() += 1;
        }
        let entered = trap.and_then(|trap| trap.interrupt().zip(Some(trap.epc)));
        if let Some((number, epc)) = entered
            && epc == before.pc
        {
            self.inject_interrupt(number);
            return self.check(before, after);
        }
        let inst = self.fetch();
        self.step(after, trap, &inst);
        if let Some(csr) = csr_of(&inst)
            && is_injected_csr(csr)
            && trap.is_none()
        {
            self.count("counters, time and pending bits");
            self.hart.set_reg(inst.rd.into(), after.x[usize::from(inst.rd)]);
        }
        if let Some((number, epc)) = entered
            && epc == self.hart.pc()
        {
            self.inject_interrupt(number);
        }
        if let Some(trap) = trap
            && matches!(trap.cause, INSTRUCTION_ACCESS_FAULT | INSTRUCTION_PAGE_FAULT)
            && trap.epc == self.hart.pc()
        {
            // QEMU finds no block to log where the fetch fails.
            self.hart.run(&mut self.ram, self.hart.slots() + 1);
        }
        if let (Some(trap), Some(csr)) = (trap, csr_of(&inst))
            && may_be_missing(csr)
            && trap.cause == ILLEGAL_INSTRUCTION
        {
            self.count("CSRs that only our hart has");
            self.adopt_machine_trap(after);
        }
        if let Some(trap) = trap
            && trap.cause == BREAKPOINT
            && trap.tval == 0
        {
            // EBREAK may leave zero or the address in xtval.
            self.count("xtval of a breakpoint");
            self.hart.set_csr(if trap.supervisor { 0x143 } else { 0x343 }, 0);
        }
        self.check(before, after)
    }

    fn count(&mut self, what: &'static str) {
        *self.injected.entry(what).or_default() += 1;
    }

    /// Decodes the next instruction and notes it in the history.
    fn fetch(&mut self) -> Inst {
        let pc = self.hart.pc();
        let mut bytes = [0; 4];
        for (at, half) in bytes.chunks_mut(2).enumerate() {
            if self.hart.peek(&self.ram, pc.wrapping_add(2 * at as u64), half).is_none() {
                break;
            }
        }
        let inst = decode(u32::from_le_bytes(bytes));
        let bits = u32::from_le_bytes(bytes) & if inst.len == 2 { 0xffff } else { u32::MAX };
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back((pc, bits, inst));
        *self.kinds.entry(inst.kind).or_default() += 1;
        *self.levels.entry(self.hart.privilege()).or_default() += 1;
        inst
    }

    fn step(&mut self, after: &State, trap: Option<Trap>, inst: &Inst) {
        let slot = self.hart.slots() + 1;
        match self.hart.run(&mut self.ram, slot) {
            Stop::Slot | Stop::Ahead | Stop::Timer | Stop::Breakpoint | Stop::M5Op { .. } => {}
            Stop::Wfi => self.wake(after),
            Stop::Mmio(request) => self.complete(request, after, trap, inst),
        }
    }

    fn complete(&mut self, request: MmioRequest, after: &State, trap: Option<Trap>, inst: &Inst) {
        if trap.is_some_and(|trap| {
            matches!(trap.cause, LOAD_ACCESS_FAULT | STORE_ACCESS_FAULT) && trap.epc == self.hart.pc()
        }) {
            self.count("accesses that nothing answers");
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

    /// Ends a WFI as QEMU did: by an interrupt taken, or by one that is only pending.
    fn wake(&mut self, after: &State) {
        self.count("waits ended");
        let pending = after.csr[index::MIP] & after.csr[index::MIE];
        let lowest = (0..12).find(|bit| pending >> bit & 1 != 0).and_then(interrupt);
        let enabled = (0..12).find(|bit| after.csr[index::MIE] >> bit & 1 != 0).and_then(interrupt);
        let Some(input) = lowest.or(enabled) else { return };
        let pc = self.hart.pc();
        self.hart.set_interrupt(input, true);
        let slots = self.hart.slots();
        if after.pc == pc || after.trap_epc_is(pc) {
            self.hart.run(&mut self.ram, slots);
        }
        self.hart.set_interrupt(input, false);
    }

    fn inject_interrupt(&mut self, number: u64) {
        self.count("interrupts");
        let Some(input) = interrupt(number) else { return };
        self.hart.set_interrupt(input, true);
        let slots = self.hart.slots();
        // Runs no instruction, but takes the interrupt.
        self.hart.run(&mut self.ram, slots);
        self.hart.set_interrupt(input, false);
    }

    /// Where only QEMU traps, to M: puts our hart where QEMU is.
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

    fn check(&self, before: &State, after: &State) -> Result<(), String> {
        let differences = after.differences(&self.hart);
        if differences.is_empty() {
            return Ok(());
        }
        let mut text =
            format!("after the instruction at {:#x} the two machines differ:\n{differences}", before.pc);
        let _ = writeln!(text, "the state before it, on both:");
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
        let _ = writeln!(text, "our privilege level now: {:?}", self.hart.privilege());
        let _ = writeln!(text, "the last instructions:");
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
