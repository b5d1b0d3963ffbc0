//! Debugger access: side-effect-free reads, changes to hart state and memory, breakpoints and single steps.
//! Only [`Machine::step`] advances time.

use std::collections::BTreeSet;

use doorbell_riscv::Hart;
use doorbell_sim::Ps;

use crate::machine::Machine;
use crate::run::{Limits, Outcome};

impl Machine {
    /// A hart, to change its registers. For CSRs and the program counter use [`set_csr`](Machine::set_csr)
    /// and [`jump`](Machine::jump), which also apply the side effects.
    pub fn hart_mut(&mut self, hart: usize) -> &mut Hart {
        self.turns.restart();
        &mut self.harts[hart]
    }

    /// Reads RAM at a virtual address under a hart's current translation. Returns the number of bytes read.
    pub fn peek(&self, hart: usize, addr: u64, into: &mut [u8]) -> usize {
        let mut count = 0;
        for byte in into.iter_mut() {
            let at = addr.wrapping_add(count as u64);
            if self.harts[hart].peek(&self.ram, at, std::slice::from_mut(byte)).is_none() {
                break;
            }
            count += 1;
        }
        count
    }

    /// Writes RAM at a virtual address, whatever the page permissions. Returns `false` and writes nothing
    /// unless the whole range is mapped RAM.
    pub fn poke(&mut self, hart: usize, addr: u64, bytes: &[u8]) -> bool {
        self.turns.restart();
        self.harts[hart].poke(&mut self.ram, addr, bytes)
    }

    /// Writes a CSR with machine-mode permissions; `false` if it does not exist.
    pub fn set_csr(&mut self, hart: usize, number: u16, value: u64) -> bool {
        let exists = self.harts[hart].set_csr(number, value);
        if exists {
            let now = self.harts[hart].time();
            self.update_timers(hart as u32, now);
        }
        exists
    }

    /// Continues a hart at another address, even if it sleeps. Returns `false` and does nothing while the
    /// hart waits for a device's answer: that instruction is incomplete.
    pub fn jump(&mut self, hart: usize, pc: u64) -> bool {
        if self.harts[hart].pending_mmio().is_some() {
            return false;
        }
        self.turns.restart();
        let now = self.queue.now().max(self.reached);
        let hart = &mut self.harts[hart];
        hart.set_pc(pc);
        if hart.end_wait() {
            let slot = hart.slot_at(now);
            hart.skip_to(slot);
        }
        true
    }

    /// Sets the virtual addresses at which harts stop before execution, in any address space.
    pub fn set_breakpoints(&mut self, breakpoints: &BTreeSet<u64>) {
        for hart in self.harts.iter_mut() {
            hart.set_breakpoints(breakpoints);
        }
    }

    /// Runs until a hart has executed one instruction or trapped, or something else ends the run. Also
    /// returns whether the hart did so. The time limit applies only while the hart sleeps; the instruction
    /// limit is ignored.
    pub fn step(&mut self, hart: usize, limits: &Limits) -> (Outcome, bool) {
        let progress = |hart: &Hart| (hart.instructions(), hart.stats().exceptions);
        let before = progress(&self.harts[hart]);
        loop {
            let this = &self.harts[hart];
            let asleep = this.is_waiting() && !this.interrupt_pending();
            let within = if Machine::can_run(this) {
                // To the end of the slot that begins now.
                let time = this.time().saturating_add(Ps(1));
                Limits { time, instructions: u64::MAX, ..limits.clone() }
            } else {
                let time = if asleep { limits.time } else { Ps::MAX };
                Limits { time, instructions: self.instructions() + 1, ..limits.clone() }
            };
            let outcome = self.run(&within);
            let done = progress(&self.harts[hart]) != before;
            match outcome {
                Outcome::Time | Outcome::Instructions if done => return (Outcome::Instructions, true),
                Outcome::Time if !asleep => {}
                Outcome::Instructions => {}
                other => return (other, done),
            }
        }
    }
}
