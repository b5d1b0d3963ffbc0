//! The debugger's target: a machine, the debugger's operations on it, and its runs under debugger control.

use std::collections::BTreeSet;
use std::convert::Infallible;

use doorbell_machine::{Limits, Machine, Outcome};
use gdbstub::common::{Signal, Tid};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadResume, MultiThreadResumeOps, MultiThreadSchedulerLocking,
    MultiThreadSchedulerLockingOps, MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::base::single_register_access::SingleRegisterAccessOps;
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, HwBreakpoint, HwBreakpointOps, SwBreakpoint, SwBreakpointOps,
};
use gdbstub::target::ext::target_description_xml_override::{
    TargetDescriptionXmlOverride, TargetDescriptionXmlOverrideOps,
};
use gdbstub::target::ext::thread_extra_info::{ThreadExtraInfo, ThreadExtraInfoOps};
use gdbstub::target::{Target, TargetError, TargetResult};

use crate::riscv::{CoreRegisters, Isa, Privilege, target_description};

/// `EFAULT` ("Bad address") in the protocol's error numbering.
const EFAULT: u8 = 14;

/// A machine that a debugger may attach to. Without a debugger it runs as usual.
pub struct Debuggee {
    /// The machine.
    pub machine: Machine,
    /// Virtual addresses. The debugger removes and inserts them at every stop; the machine gets them when it
    /// resumes.
    breakpoints: BTreeSet<u64>,
    /// The hart to single-step; `None` to continue.
    step: Option<usize>,
    /// The single step is complete.
    stepped: bool,
    description: String,
}

/// The debugger numbers threads from one.
pub(crate) fn thread_of(hart: usize) -> Tid {
    Tid::new(hart + 1).expect("a hart number plus one is not zero")
}

impl Debuggee {
    /// A machine without an attached debugger.
    pub fn new(machine: Machine) -> Debuggee {
        let description = target_description(&machine.harts()[0]);
        Debuggee { machine, breakpoints: BTreeSet::new(), step: None, stepped: false, description }
    }

    /// Runs as the debugger requested, within `limits`. A completed step is reported like an instruction
    /// limit, unless the instruction ended the run for another reason; the session detects it by
    /// `take_stepped`.
    pub fn run(&mut self, limits: &Limits) -> Outcome {
        let Some(hart) = self.step else {
            self.machine.set_breakpoints(&self.breakpoints);
            return self.machine.run(limits);
        };
        // A breakpoint at the stepped instruction does not stop the step.
        let lifted = self.breakpoints.contains(&self.machine.harts()[hart].pc());
        self.machine.set_breakpoints(if lifted { const { &BTreeSet::new() } } else { &self.breakpoints });
        let (outcome, done) = self.machine.step(hart, limits);
        self.stepped |= done;
        outcome
    }

    /// Returns the stepped hart if its step is complete, and clears the request.
    pub(crate) fn take_stepped(&mut self) -> Option<usize> {
        if std::mem::take(&mut self.stepped) { self.step.take() } else { None }
    }

    /// Removes the debugger's breakpoints and step after it has left.
    pub(crate) fn release(&mut self) {
        self.breakpoints.clear();
        self.step = None;
        self.stepped = false;
        self.machine.set_breakpoints(&self.breakpoints);
    }

    /// The hart of a thread.
    pub(crate) fn hart_of(&self, thread: Tid) -> TargetResult<usize, Debuggee> {
        let hart = thread.get() - 1;
        if hart < self.machine.harts().len() { Ok(hart) } else { Err(TargetError::NonFatal) }
    }
}

impl Target for Debuggee {
    type Arch = Isa;
    type Error = Infallible;

    fn base_ops(&mut self) -> BaseOps<'_, Isa, Infallible> {
        BaseOps::MultiThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_target_description_xml_override(
        &mut self,
    ) -> Option<TargetDescriptionXmlOverrideOps<'_, Self>> {
        Some(self)
    }
}

impl TargetDescriptionXmlOverride for Debuggee {
    fn target_description_xml(
        &self,
        annex: &[u8],
        offset: u64,
        length: usize,
        buf: &mut [u8],
    ) -> TargetResult<usize, Self> {
        if annex != b"target.xml" {
            return Err(TargetError::NonFatal);
        }
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.description.as_bytes().get(start..).unwrap_or_default();
        Ok(copy(&rest[..rest.len().min(length)], buf))
    }
}

/// Copies as much as fits; returns the number of bytes.
pub(crate) fn copy(from: &[u8], into: &mut [u8]) -> usize {
    let count = from.len().min(into.len());
    into[..count].copy_from_slice(&from[..count]);
    count
}

impl MultiThreadBase for Debuggee {
    fn read_registers(&mut self, regs: &mut CoreRegisters, thread: Tid) -> TargetResult<(), Self> {
        self.read_core_registers(regs, thread)
    }

    fn write_registers(&mut self, regs: &CoreRegisters, thread: Tid) -> TargetResult<(), Self> {
        self.write_core_registers(regs, thread)
    }

    fn support_single_register_access(&mut self) -> Option<SingleRegisterAccessOps<'_, Tid, Self>> {
        Some(self)
    }

    fn read_addrs(&mut self, start: u64, data: &mut [u8], thread: Tid) -> TargetResult<usize, Self> {
        let hart = self.hart_of(thread)?;
        match self.machine.peek(hart, start, data) {
            0 if !data.is_empty() => Err(TargetError::Errno(EFAULT)),
            count => Ok(count),
        }
    }

    fn write_addrs(&mut self, start: u64, data: &[u8], thread: Tid) -> TargetResult<(), Self> {
        let hart = self.hart_of(thread)?;
        if self.machine.poke(hart, start, data) { Ok(()) } else { Err(TargetError::Errno(EFAULT)) }
    }

    fn list_active_threads(&mut self, found: &mut dyn FnMut(Tid)) -> Result<(), Infallible> {
        (0..self.machine.harts().len()).for_each(|hart| found(thread_of(hart)));
        Ok(())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }

    fn support_thread_extra_info(&mut self) -> Option<ThreadExtraInfoOps<'_, Self>> {
        Some(self)
    }
}

impl ThreadExtraInfo for Debuggee {
    fn thread_extra_info(&self, thread: Tid, buf: &mut [u8]) -> Result<usize, Infallible> {
        let Some(hart) = self.machine.harts().get(thread.get() - 1) else { return Ok(0) };
        let level = match hart.privilege() {
            Privilege::User => "user",
            Privilege::Supervisor => "supervisor",
            Privilege::Machine => "machine",
        };
        let waits = if hart.is_waiting() { ", waiting for an interrupt" } else { "" };
        Ok(copy(format!("hart {}, {level}{waits}", thread.get() - 1).as_bytes(), buf))
    }
}

impl MultiThreadResume for Debuggee {
    fn resume(&mut self) -> Result<(), Infallible> {
        self.stepped = false;
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> Result<(), Infallible> {
        self.step = None;
        Ok(())
    }

    fn set_resume_action_continue(&mut self, _: Tid, _: Option<Signal>) -> Result<(), Infallible> {
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadSingleStep for Debuggee {
    fn set_resume_action_step(&mut self, thread: Tid, _: Option<Signal>) -> Result<(), Infallible> {
        self.step = self.hart_of(thread).ok();
        Ok(())
    }
}

impl MultiThreadSchedulerLocking for Debuggee {
    /// All harts share simulated time, so the others run along with the stepping one.
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

impl Breakpoints for Debuggee {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_breakpoint(&mut self) -> Option<HwBreakpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Debuggee {
    fn add_sw_breakpoint(&mut self, addr: u64, _kind: usize) -> TargetResult<bool, Self> {
        self.breakpoints.insert(addr);
        Ok(true)
    }

    fn remove_sw_breakpoint(&mut self, addr: u64, _kind: usize) -> TargetResult<bool, Self> {
        Ok(self.breakpoints.remove(&addr))
    }
}

/// Both kinds are the same here, because neither modifies guest memory.
impl HwBreakpoint for Debuggee {
    fn add_hw_breakpoint(&mut self, addr: u64, kind: usize) -> TargetResult<bool, Self> {
        self.add_sw_breakpoint(addr, kind)
    }

    fn remove_hw_breakpoint(&mut self, addr: u64, kind: usize) -> TargetResult<bool, Self> {
        self.remove_sw_breakpoint(addr, kind)
    }
}
