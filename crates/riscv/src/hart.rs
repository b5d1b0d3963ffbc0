//! A hart's architectural state and the face it shows to the machine: run until a slot, stop at a
//! device access, take an interrupt level.
//!
//! Time: a hart counts *slots*. Each executed instruction takes one, waiting takes as many as pass; slot `n`
//! begins at edge `n` of the hart's slot clock. So a hart's time is a function of what it has done.

use doorbell_sim::ram::RamId;
use doorbell_sim::{AccessSize, Clock, PhysAddr, Ps, Ram, TranslationFence};

use crate::aia::AiaState;
use crate::engine::notes::Notes;
use crate::engine::paths::Paths;
use crate::event_counters::EventCounters;
use crate::pmp::{PmpEntry, PmpRange};
use crate::tlb::{Mode, Tlb};

/// Registers are indexed by a `u8`, so that no access needs a bounds check. The first 32 are the real
/// ones; [`SINK`] takes what is written to x0.
pub(crate) const REGISTER_FILE: usize = 256;
/// Where decoded instructions write instead of x0.
pub(crate) const SINK: u8 = 32;

/// Privilege levels, numbered as in `mstatus.MPP`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[repr(u8)]
pub enum Privilege {
    /// Programs.
    User = 0,
    /// The kernel.
    Supervisor = 1,
    /// The firmware.
    Machine = 3,
}

impl Privilege {
    pub(crate) fn from_bits(bits: u64) -> Option<Privilege> {
        match bits & 3 {
            0 => Some(Privilege::User),
            1 => Some(Privilege::Supervisor),
            3 => Some(Privilege::Machine),
            _ => None,
        }
    }
}

/// What a hart is built as.
#[derive(Clone, Copy, Debug)]
pub struct HartConfig {
    /// `mhartid`.
    pub id: usize,
    /// Edge `n` is the beginning of slot `n`.
    pub slot_clock: Clock,
    /// The core clock, which `cycle` counts.
    pub cycle_clock: Clock,
    /// The clock that `time` counts.
    pub timebase: Clock,
    /// Whether `stimecmp` exists (Sstc).
    pub sstc: bool,
    /// Whether the hart has interrupt files and the registers that go with them (Smaia, Ssaia).
    pub aia: bool,
    /// Whether `satp` takes Sv48 besides Sv39.
    pub sv48: bool,
    /// Where execution starts.
    pub reset_pc: u64,
}

/// Interrupt inputs that the machine drives (bits of `mip`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Interrupt {
    /// Supervisor software interrupt.
    SupervisorSoftware = 1,
    /// Machine software interrupt, from the CLINT.
    MachineSoftware = 3,
    /// Supervisor timer, from `stimecmp`.
    SupervisorTimer = 5,
    /// Machine timer, from the CLINT.
    MachineTimer = 7,
    /// Supervisor external interrupt, from the PLIC or the hart's own interrupt file.
    SupervisorExternal = 9,
    /// Machine external interrupt, from the PLIC or the hart's own interrupt file.
    MachineExternal = 11,
}

/// Where a device load's value goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum LoadTarget {
    /// An integer register, sign-extended from the access size or not.
    Integer { rd: u8, signed: bool },
    /// A floating-point register, NaN-boxed if the access is a word.
    Float { rd: u8 },
}

/// What a device access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum DeviceAccess {
    Load(LoadTarget),
    Store(u64),
}

/// A load or store outside RAM. The instruction has not retired: the machine completes or fails it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct MmioRequest {
    /// Physical address.
    pub addr: PhysAddr,
    /// Bytes moved.
    pub size: AccessSize,
    pub(crate) access: DeviceAccess,
    pub(crate) virt: u64,
    pub(crate) len: u8,
}

impl MmioRequest {
    /// The value a store writes; `None` for a load.
    pub fn store_value(&self) -> Option<u64> {
        match self.access {
            DeviceAccess::Store(value) => Some(value),
            DeviceAccess::Load(_) => None,
        }
    }
}

/// Why [`Hart::run`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The slot that was asked for is reached.
    Slot,
    /// The next instruction accesses a device; see [`Hart::complete_load`] and its neighbours.
    Mmio(MmioRequest),
    /// The next instruction reads the time or accesses a device, and other harts have not come as far; see
    /// [`Hart::set_synced_until`].
    Ahead,
    /// The next instruction reads or changes an event counter: call [`Hart::tell_events`]. Only after [`Hart::follow_events`].
    Events,
    /// WFI with nothing pending. Call [`Hart::run`] again after [`Hart::interrupt_pending`] became true.
    Wfi,
    /// `stimecmp` (or what enables it) was written: the timer must be set again.
    Timer,
    /// A debugger's breakpoint stands at the next instruction; see [`Hart::set_breakpoints`].
    Breakpoint,
    /// A gem5 m5op retired, with this function number and the values of a0 and a1.
    M5Op {
        /// Bits 31:25 of the instruction.
        function: u8,
        /// The operation's arguments.
        args: [u64; 2],
    },
}

/// The trap and status CSRs. Names as in the privileged manual.
#[derive(Clone, Debug, Default)]
pub(crate) struct Csrs {
    pub mstatus: u64,
    pub medeleg: u64,
    pub mideleg: u64,
    pub mie: u64,
    /// Bits that software set; inputs are in `Hart::irq_inputs`.
    pub mip: u64,
    pub mtvec: u64,
    pub mcounteren: u64,
    pub mcountinhibit: u64,
    pub menvcfg: u64,
    pub mscratch: u64,
    pub mepc: u64,
    pub mcause: u64,
    pub mtval: u64,
    pub stvec: u64,
    pub scounteren: u64,
    pub senvcfg: u64,
    pub sscratch: u64,
    pub sepc: u64,
    pub scause: u64,
    pub stval: u64,
    pub satp: u64,
    pub stimecmp: u64,
    /// `minstret` minus instructions executed, from writes to the counter.
    pub instret_offset: u64,
    /// `mcycle` minus cycles passed.
    pub cycle_offset: u64,
}

/// One hardware thread.
pub struct Hart {
    pub(crate) x: [u64; REGISTER_FILE],
    pub(crate) f: [u64; 32],
    pub(crate) pc: u64,
    /// Virtual address of the running block's first instruction.
    pub(crate) block_pc: u64,
    pub(crate) fflags: u8,
    pub(crate) frm: u8,
    /// `mstatus.FS` is not Off.
    pub(crate) fp_enabled: bool,
    pub(crate) privilege: Privilege,
    /// Which set of TLB entries loads and stores use now.
    pub(crate) data_mode: Mode,
    pub(crate) tlb: Box<Tlb>,
    /// The RAM whose host addresses the TLB holds and whose instructions are decoded, once the hart has run.
    pub(crate) memory: Option<RamId>,
    /// The op at which a block was left early.
    pub(crate) exit_op: usize,
    pub(crate) slots: u64,
    /// Up to this slot, time may be read and devices may be accessed.
    pub(crate) synced_slot: u64,
    pub(crate) instret: u64,
    pub(crate) csr: Csrs,
    pub(crate) events: EventCounters,
    pub(crate) pmp: [PmpEntry; 16],
    pub(crate) pmp_active: bool,
    pub(crate) pmp_ranges: Vec<PmpRange>,
    /// PMP cuts through the page that was fetched from last: instructions are checked one by one.
    pub(crate) partly_executable: bool,
    pub(crate) irq_inputs: u64,
    pub(crate) aia: Option<Box<AiaState>>,
    pub(crate) mtime_offset: u64,
    pub(crate) stop: Stop,
    pub(crate) pending_mmio: Option<MmioRequest>,
    pub(crate) waiting: bool,
    pub(crate) paths: Option<Box<Paths>>,
    pub(crate) notes: Box<Notes>,
    pub(crate) translation_fence: Option<TranslationFence>,
    pub(crate) config: HartConfig,
    pub(crate) counters: HartStats,
}

doorbell_sim::stats! {
    /// What a hart counts. Observers' figures: they do not influence the run.
    pub struct HartStats {
        /// Instructions retired.
        instructions,
        /// Exceptions taken (page faults, system calls, illegal instructions).
        exceptions,
        /// Interrupts taken.
        interrupts,
        /// Of these, ticks of the kernel's timer: supervisor timer interrupts, or machine ones where those are not delegated.
        timer_interrupts,
        /// Page-table walks.
        page_walks,
        /// Blocks of instructions decoded.
        blocks_decoded,
        /// Pages whose decoded code was thrown away because they were written.
        code_pages_invalidated,
        /// Loads and stores to devices.
        device_accesses,
    }
}

impl Hart {
    /// A hart in its reset state.
    pub fn new(config: HartConfig) -> Hart {
        Hart::with(config, Box::default(), Box::default(), Box::default())
    }

    /// A hart in its reset state, in the host's memory of one that is done with: cheaper than a new one, and the same.
    pub fn renewed(self, config: HartConfig) -> Hart {
        let Hart { mut tlb, paths, notes, .. } = self;
        tlb.reset();
        let mut paths = paths.expect("a hart's paths are absent only while it runs");
        paths.reset();
        Hart::with(config, tlb, paths, notes)
    }

    /// The host addresses that a hart keeps are of one RAM for good, and so it must always run on that one: the engine's
    /// loads and stores are only sound then.
    #[inline]
    pub(crate) fn run_on(&mut self, ram: &Ram) {
        let known = *self.memory.get_or_insert(ram.id());
        assert!(known == ram.id(), "a hart was run on another RAM than before");
    }

    fn with(config: HartConfig, tlb: Box<Tlb>, paths: Box<Paths>, notes: Box<Notes>) -> Hart {
        let mut hart = Hart {
            x: [0; REGISTER_FILE],
            f: [0; 32],
            pc: config.reset_pc,
            block_pc: 0,
            fflags: 0,
            frm: 0,
            fp_enabled: false,
            privilege: Privilege::Machine,
            data_mode: Mode::Bare,
            tlb,
            memory: None,
            exit_op: 0,
            slots: 0,
            synced_slot: u64::MAX,
            instret: 0,
            csr: Csrs::default(),
            events: EventCounters::default(),
            pmp: Default::default(),
            pmp_active: false,
            pmp_ranges: Vec::with_capacity(16),
            partly_executable: false,
            irq_inputs: 0,
            aia: config.aia.then(Box::default),
            mtime_offset: 0,
            stop: Stop::Slot,
            pending_mmio: None,
            waiting: false,
            paths: Some(paths),
            notes,
            translation_fence: None,
            config,
            counters: HartStats::default(),
        };
        hart.csr.mstatus = crate::csr::MSTATUS_FIXED;
        hart.context_changed();
        hart
    }

    /// The program counter.
    pub fn pc(&self) -> u64 {
        self.pc
    }

    /// Moves the program counter (a debugger, or the firmware hand-over).
    pub fn set_pc(&mut self, pc: u64) {
        self.pc = pc & !1;
    }

    /// Integer register `number` (0 to 31).
    pub fn reg(&self, number: usize) -> u64 {
        self.x[..32][number]
    }

    /// Writes an integer register; x0 stays zero.
    pub fn set_reg(&mut self, number: usize, value: u64) {
        if number != 0 {
            self.x[..32][number] = value;
        }
    }

    /// Floating-point register `number`, as raw bits.
    pub fn freg(&self, number: usize) -> u64 {
        self.f[number]
    }

    /// Writes a floating-point register's raw bits.
    pub fn set_freg(&mut self, number: usize, bits: u64) {
        self.f[number] = bits;
    }

    /// The privilege level.
    pub fn privilege(&self) -> Privilege {
        self.privilege
    }

    /// Puts the hart at another privilege level (a debugger, a test, or a user-mode harness).
    pub fn set_privilege(&mut self, privilege: Privilege) {
        self.privilege = privilege;
        self.context_changed();
    }

    /// Slots passed.
    pub fn slots(&self) -> u64 {
        self.slots
    }

    /// Instructions retired.
    pub fn instructions(&self) -> u64 {
        self.instret
    }

    /// What the hart counted.
    pub fn stats(&self) -> HartStats {
        HartStats { instructions: self.instret, ..self.counters.clone() }
    }

    /// The beginning of the slot in which the next instruction runs.
    pub fn time(&self) -> Ps {
        self.config.slot_clock.edge(self.slots)
    }

    /// The first slot that begins at or after `time`.
    pub fn slot_at(&self, time: Ps) -> u64 {
        self.config.slot_clock.edge_at_or_after(time)
    }

    /// Lets time pass without executing, to a later slot. Going back is not possible.
    pub fn skip_to(&mut self, slot: u64) {
        self.slots = self.slots.max(slot);
    }

    /// Puts the hart at another slot, because its slot clock is not the one under which it was saved.
    pub fn rebase(&mut self, slot: u64) {
        self.slots = slot;
    }

    /// Tells how far all other harts have come: what this one sees of the time, and does to devices, must not come
    /// before what they do. [`Hart::run`] stops in time.
    pub fn set_synced_until(&mut self, time: Ps) {
        self.synced_slot = self.config.slot_clock.edge_at_or_before(time);
    }

    /// Does not begin before [`release`](Hart::release), as one that is in its reset ROM. No interrupt is enabled there.
    pub fn hold(&mut self) {
        self.waiting = true;
    }

    /// Begins at this slot.
    pub fn release(&mut self, slot: u64) {
        self.skip_to(slot);
        self.waiting = false;
    }

    /// Whether the hart sleeps in WFI.
    pub fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// Whether an interrupt is pending and enabled in `mie`, which ends a WFI even if it cannot be taken.
    pub fn interrupt_pending(&self) -> bool {
        self.mip() & self.csr.mie != 0
    }

    /// Drives an interrupt input.
    pub fn set_interrupt(&mut self, interrupt: Interrupt, level: bool) {
        let bit = 1 << interrupt as u8;
        self.irq_inputs = if level { self.irq_inputs | bit } else { self.irq_inputs & !bit };
    }

    /// `mip` as software reads it.
    pub(crate) fn mip(&self) -> u64 {
        self.csr.mip | self.irq_inputs
    }

    /// The `time` value at which the supervisor timer fires; `None` if software has not enabled it.
    pub fn supervisor_timer(&self) -> Option<u64> {
        self.stimecmp_enabled().then_some(self.csr.stimecmp)
    }

    pub(crate) fn stimecmp_enabled(&self) -> bool {
        self.config.sstc && self.csr.menvcfg >> 63 != 0
    }

    /// Sets what is added to the timebase to give `time` (writes to the CLINT's `mtime`).
    pub fn set_time_offset(&mut self, offset: u64) {
        self.mtime_offset = offset;
    }

    /// The value of `time` at `now`.
    pub fn time_ticks(&self, now: Ps) -> u64 {
        self.config.timebase.edge_at_or_before(now).wrapping_add(self.mtime_offset)
    }

    /// The device access that waits for its completion, if any.
    pub fn pending_mmio(&self) -> Option<MmioRequest> {
        self.pending_mmio
    }

    /// Completes a device load: its instruction retires now.
    pub fn complete_load(&mut self, value: u64) {
        let request = self.pending_mmio.take().expect("a load is completed only while one is pending");
        let DeviceAccess::Load(target) = request.access else { panic!("a store was completed as a load") };
        let value = value & request.size.mask();
        match target {
            LoadTarget::Integer { rd, signed } => {
                let unused = 64 - 8 * request.size.bytes();
                let extended = (value << unused) as i64 >> unused;
                self.x[rd as usize] = if signed { extended as u64 } else { value };
            }
            LoadTarget::Float { rd } => {
                let boxed =
                    if request.size == AccessSize::B4 { value | 0xffff_ffff_0000_0000 } else { value };
                self.f[rd as usize & 31] = boxed;
                self.dirty_fp();
            }
        }
        self.retire_device_access(request);
    }

    /// Lets a device store retire. Its effect is the machine's business.
    pub fn complete_store(&mut self) {
        let request = self.pending_mmio.take().expect("a store is completed only while one is pending");
        assert!(matches!(request.access, DeviceAccess::Store(_)), "a load was completed as a store");
        self.retire_device_access(request);
    }

    fn retire_device_access(&mut self, request: MmioRequest) {
        self.pc = self.pc.wrapping_add(u64::from(request.len));
        self.slots += 1;
        self.instret += 1;
        self.counters.device_accesses += 1;
    }

    /// Nothing answers at the address: the instruction raises an access fault.
    pub fn fail_device_access(&mut self) {
        let request = self.pending_mmio.take().expect("an access is failed only while one is pending");
        let cause = match request.access {
            DeviceAccess::Load(_) => crate::trap::Exception::LoadAccessFault,
            DeviceAccess::Store(_) => crate::trap::Exception::StoreAccessFault,
        };
        self.slots += 1;
        self.raise(cause, request.virt, self.pc);
    }
}
