//! A hart's architectural state and its interface to the machine: run until a slot, stop at a device access,
//! drive interrupt inputs.
//!
//! Time: a hart counts *slots*. Each executed instruction takes one slot, and slots also pass while the hart
//! waits. Slot `n` starts at edge `n` of the hart's slot clock. A hart's time is therefore a function of its
//! execution.

use doorbell_sim::ram::RamId;
use doorbell_sim::{AccessSize, Clock, PhysAddr, Ps, Ram, TranslationFence};

use crate::aia::AiaState;
use crate::engine::access_log::AccessLog;
use crate::engine::paths::Paths;
use crate::event_counters::EventCounters;
use crate::pmp::{PmpEntry, PmpRange};
use crate::tlb::{Mode, Tlb};

/// Size of the register array, indexed by a `u8` so that no access needs a bounds check. The first 32 entries
/// are the real registers; [`SINK`] receives writes to x0.
pub(crate) const REGISTER_FILE: usize = 256;
/// Destination register of decoded instructions that write x0.
pub(crate) const SINK: u8 = 32;

/// Privilege levels, numbered as in `mstatus.MPP`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[repr(u8)]
pub enum Privilege {
    /// User mode.
    User = 0,
    /// Supervisor mode (the kernel).
    Supervisor = 1,
    /// Machine mode (the firmware).
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

/// Configuration of a hart.
#[derive(Clone, Copy, Debug)]
pub struct HartConfig {
    /// `mhartid`.
    pub id: usize,
    /// Slot clock: slot `n` starts at edge `n`.
    pub slot_clock: Clock,
    /// The core clock, which `cycle` counts.
    pub cycle_clock: Clock,
    /// The clock that `time` counts.
    pub timebase: Clock,
    /// Whether `stimecmp` exists (Sstc).
    pub sstc: bool,
    /// Whether the hart has interrupt files and the registers that go with them (Smaia, Ssaia).
    pub aia: bool,
    /// Whether `satp` supports Sv48 in addition to Sv39.
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

/// Destination of a device load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum LoadTarget {
    /// An integer register, with or without sign extension from the access size.
    Integer { rd: u8, signed: bool },
    /// A floating-point register, NaN-boxed if the access is a word.
    Float { rd: u8 },
}

/// A device access: load or store.
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
    /// The requested slot is reached.
    Slot,
    /// The next instruction is a device access; the machine completes it, see [`Hart::complete_load`].
    Mmio(MmioRequest),
    /// The next instruction reads the time or is a device access, and other harts are still behind; see
    /// [`Hart::set_synced_until`].
    Ahead,
    /// The next instruction needs event counts: call [`Hart::update_events`]. See [`Hart::follow_events`].
    Events,
    /// WFI with nothing pending. Call [`Hart::run`] again after [`Hart::interrupt_pending`] became true.
    Wfi,
    /// `stimecmp` or its enable bit was written: the timer must be reprogrammed.
    Timer,
    /// The next instruction has a debugger's breakpoint; see [`Hart::set_breakpoints`].
    Breakpoint,
    /// A gem5 m5op retired, with this function number and the values of a0 and a1.
    M5Op {
        /// Bits 31:25 of the instruction.
        function: u8,
        /// The operation's arguments.
        args: [u64; 2],
    },
}

/// The trap and status CSRs, in the order in which they are saved. Names as in the privileged manual.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Csrs {
    pub mstatus: u64,
    pub medeleg: u64,
    pub mideleg: u64,
    pub mie: u64,
    /// Bits set by software; the inputs are in `Hart::irq_inputs`.
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
    /// `minstret` minus the instruction count, from writes to the counter.
    pub instret_offset: u64,
    /// `mcycle` minus the cycle count.
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
    /// The TLB mode of loads and stores now.
    pub(crate) data_mode: Mode,
    pub(crate) tlb: Box<Tlb>,
    /// The RAM that the TLB's host addresses and the decoded code belong to; set by the first run.
    pub(crate) memory: Option<RamId>,
    /// Address of the op at which a block was left early.
    pub(crate) exit_op: usize,
    pub(crate) slots: u64,
    /// The last slot in which reading the time and device accesses are allowed.
    pub(crate) synced_slot: u64,
    pub(crate) instret: u64,
    pub(crate) csr: Csrs,
    pub(crate) events: EventCounters,
    pub(crate) pmp: [PmpEntry; 16],
    pub(crate) pmp_active: bool,
    pub(crate) pmp_ranges: Vec<PmpRange>,
    /// PMP splits the last fetched page: instructions are checked one by one.
    pub(crate) partly_executable: bool,
    pub(crate) irq_inputs: u64,
    pub(crate) aia: Option<Box<AiaState>>,
    pub(crate) mtime_offset: u64,
    pub(crate) stop: Stop,
    pub(crate) pending_mmio: Option<MmioRequest>,
    pub(crate) waiting: bool,
    pub(crate) paths: Option<Box<Paths>>,
    pub(crate) access_log: Box<AccessLog>,
    pub(crate) translation_fence: Option<TranslationFence>,
    pub(crate) config: HartConfig,
    pub(crate) counters: HartStats,
}

doorbell_sim::stats! {
    /// Statistics of a hart. They do not influence the run.
    pub struct HartStats {
        /// Instructions retired.
        instructions,
        /// Exceptions taken (page faults, system calls, illegal instructions).
        exceptions,
        /// Interrupts taken.
        interrupts,
        /// Kernel timer ticks: supervisor timer interrupts, or machine timer interrupts if those are not
        /// delegated.
        timer_interrupts,
        /// Page-table walks.
        page_walks,
        /// Blocks decoded.
        blocks_decoded,
        /// Pages with decoded code that were invalidated by a write.
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

    /// Creates a hart in its reset state in the buffers of an old one: like a new one, but cheaper.
    pub fn recycled(self, config: HartConfig) -> Hart {
        let Hart { mut tlb, paths, access_log, .. } = self;
        tlb.reset();
        let mut paths = paths.expect("a hart's paths are absent only while it runs");
        paths.reset();
        Hart::with(config, tlb, paths, access_log)
    }

    /// Asserts that the hart always runs on the same RAM. The TLB holds host addresses of that RAM, and the
    /// engine's loads and stores are sound only for it.
    #[inline]
    pub(crate) fn run_on(&mut self, ram: &Ram) {
        let own = *self.memory.get_or_insert(ram.id());
        assert!(own == ram.id(), "a hart must always run on the same RAM");
    }

    fn with(config: HartConfig, tlb: Box<Tlb>, paths: Box<Paths>, access_log: Box<AccessLog>) -> Hart {
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
            access_log,
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

    /// Sets the program counter (debugger, or firmware hand-over).
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

    /// Sets the privilege level (debugger, test, or user-mode harness).
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

    /// Statistics of the hart.
    pub fn stats(&self) -> HartStats {
        HartStats { instructions: self.instret, ..self.counters.clone() }
    }

    /// The start of the slot in which the next instruction runs.
    pub fn time(&self) -> Ps {
        self.config.slot_clock.edge(self.slots)
    }

    /// The first slot that starts at or after `time`.
    pub fn slot_at(&self, time: Ps) -> u64 {
        self.config.slot_clock.edge_at_or_after(time)
    }

    /// Advances time to a later slot without executing. An earlier slot is ignored.
    pub fn skip_to(&mut self, slot: u64) {
        self.slots = self.slots.max(slot);
    }

    /// Sets the slot, when the slot clock differs from that of the saved state.
    pub fn rebase(&mut self, slot: u64) {
        self.slots = slot;
    }

    /// Sets how far all other harts have run. This hart must not read a later time or access a device later
    /// than that; [`Hart::run`] stops before it would.
    pub fn set_synced_until(&mut self, time: Ps) {
        self.synced_slot = self.config.slot_clock.edge_at_or_before(time);
    }

    /// Holds the hart, like one waiting in its reset ROM, until [`release`](Hart::release). No interrupt is
    /// enabled then.
    pub fn hold(&mut self) {
        self.waiting = true;
    }

    /// Releases the hart at this slot.
    pub fn release(&mut self, slot: u64) {
        self.skip_to(slot);
        self.waiting = false;
    }

    /// Whether the hart waits in WFI.
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

    /// Sets the offset from the timebase to `time` (writes to the CLINT's `mtime`).
    pub fn set_time_offset(&mut self, offset: u64) {
        self.mtime_offset = offset;
    }

    /// The value of `time` at `now`.
    pub fn time_ticks(&self, now: Ps) -> u64 {
        self.config.timebase.edge_at_or_before(now).wrapping_add(self.mtime_offset)
    }

    /// The pending device access, if any.
    pub fn pending_mmio(&self) -> Option<MmioRequest> {
        self.pending_mmio
    }

    /// Completes a device load and retires its instruction.
    pub fn complete_load(&mut self, value: u64) {
        let request = self.pending_mmio.take().expect("complete_load needs a pending device load");
        let DeviceAccess::Load(target) = request.access else { panic!("the pending access is a store") };
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

    /// Retires a device store. The machine performs the store itself.
    pub fn complete_store(&mut self) {
        let request = self.pending_mmio.take().expect("complete_store needs a pending device store");
        assert!(matches!(request.access, DeviceAccess::Store(_)), "the pending access is a load");
        self.retire_device_access(request);
    }

    fn retire_device_access(&mut self, request: MmioRequest) {
        self.pc = self.pc.wrapping_add(u64::from(request.len));
        self.slots += 1;
        self.instret += 1;
        self.counters.device_accesses += 1;
    }

    /// Fails a device access, because no device is mapped at the address: raises an access fault.
    pub fn fail_device_access(&mut self) {
        let request = self.pending_mmio.take().expect("fail_device_access needs a pending device access");
        let cause = match request.access {
            DeviceAccess::Load(_) => crate::trap::Exception::LoadAccessFault,
            DeviceAccess::Store(_) => crate::trap::Exception::StoreAccessFault,
        };
        self.slots += 1;
        self.raise(cause, request.virt, self.pc);
    }
}
