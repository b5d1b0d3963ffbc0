//! Interrupt lines and timers between devices and harts.

use doorbell_platform::map;
use doorbell_riscv::Interrupt;
use doorbell_sim::{Phase, Ps, log};

use crate::events::Event;
use crate::interrupt_controller::InterruptController;
use crate::machine::Machine;

impl Machine {
    /// Ticks of the timebase at `now`.
    pub(crate) fn ticks(&self, now: Ps) -> u64 {
        self.timebase.edge_at_or_before(now)
    }

    /// Forwards the levels of device lines to the interrupt controller and from there to the harts.
    pub(crate) fn update_interrupts(&mut self) {
        self.interrupts.set_level(map::UART_IRQ, self.uart.irq());
        self.interrupts.set_level(map::RTC_IRQ, self.rtc.irq());
        self.forward_external_interrupts();
    }

    /// Forwards the levels of the PCI pins, after masks, to the interrupt controller.
    pub(crate) fn update_pci_interrupts(&mut self) {
        for (source, level) in self.bridge.intx_levels() {
            self.interrupts.set_level(source, level);
        }
        self.forward_external_interrupts();
    }

    fn forward_external_interrupts(&mut self) {
        let InterruptController::Plic(plic) = &mut self.interrupts else {
            return self.send_wired_messages();
        };
        if !plic.take_lines_changed() {
            return;
        }
        let lines: Vec<_> = (0..self.harts.len() as u32)
            .map(|hart| (hart, plic.line(2 * hart), plic.line(2 * hart + 1)))
            .collect();
        for (hart, machine, supervisor) in lines {
            let now = self.queue.now();
            log!(now, Machine, Debug, "hart{hart}: external interrupt lines M {machine}, S {supervisor}");
            self.harts[hart as usize].set_interrupt(Interrupt::MachineExternal, machine);
            self.drive(hart, Interrupt::SupervisorExternal, supervisor);
        }
    }

    /// Sets an interrupt input of a hart and, if that wakes it, resumes it at the current time.
    pub(crate) fn drive(&mut self, hart: u32, interrupt: Interrupt, level: bool) {
        self.harts[hart as usize].set_interrupt(interrupt, level);
        self.wake(hart);
    }

    /// Resumes a sleeping hart at the current time if an interrupt is pending for it.
    pub(crate) fn wake(&mut self, hart: u32) {
        let present = self.queue.now().max(self.reached).max(self.access_at);
        let hart = &mut self.harts[hart as usize];
        if hart.is_waiting() && hart.interrupt_pending() {
            let slot = hart.slot_at(present);
            hart.skip_to(slot);
        }
    }

    /// Updates a hart's timer inputs at `now` and schedules their next changes.
    pub(crate) fn update_timers(&mut self, hart: u32, now: Ps) {
        let ticks = self.ticks(now);
        let mtime = self.clint.mtime(ticks);
        let machine = self.clint.mtimecmp(hart);
        let supervisor = self.harts[hart as usize].supervisor_timer();
        self.drive(hart, Interrupt::MachineTimer, mtime >= machine);
        self.drive(hart, Interrupt::SupervisorTimer, supervisor.is_some_and(|compare| mtime >= compare));
        for compare in [Some(machine), supervisor].into_iter().flatten().filter(|compare| *compare > mtime) {
            let due = self.timebase.edge(self.clint.ticks_when_mtime_reaches(compare, ticks));
            if due < Ps::MAX {
                self.queue.schedule(due.max(self.queue.now()), Phase::Timer, Event::HartTimer { hart });
            }
        }
    }

    /// Time at which a hart's next timer is due: now if its interrupt is pending, `None` if no timer is set.
    pub fn timer_due_at(&self, hart: usize) -> Option<Ps> {
        let ticks = self.ticks(self.now());
        let at = |compare: u64| match compare.checked_sub(self.clint.mtime(ticks)) {
            Some(_) => self.timebase.edge(self.clint.ticks_when_mtime_reaches(compare, ticks)),
            None => self.now(),
        };
        let set = [Some(self.clint.mtimecmp(hart as u32)), self.harts[hart].supervisor_timer()];
        let set = set.into_iter().flatten().filter(|compare| *compare != u64::MAX);
        set.map(at).min().filter(|due| *due < Ps::MAX)
    }

    /// Handles a timer event. Only levels change: setting a compare value has already scheduled its event.
    pub(crate) fn timer_due(&mut self, hart: u32, now: Ps) {
        let mtime = self.clint.mtime(self.ticks(now));
        let supervisor = self.harts[hart as usize].supervisor_timer();
        self.drive(hart, Interrupt::MachineTimer, mtime >= self.clint.mtimecmp(hart));
        self.drive(hart, Interrupt::SupervisorTimer, supervisor.is_some_and(|compare| mtime >= compare));
    }

    /// Schedules the real-time clock's alarm and updates its interrupt line.
    pub(crate) fn update_alarm(&mut self, now: Ps) {
        if let Some(due) = self.rtc.alarm_at(now) {
            self.queue.schedule(due.max(self.queue.now()), Phase::Timer, Event::RtcAlarm);
        }
        self.update_interrupts();
    }
}
