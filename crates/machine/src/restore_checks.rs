//! Checks of a restored machine: whatever the file contains, times must agree with the event queue, and each
//! event must have an existing target.

use doorbell_riscv::Hart;
use doorbell_sim::snapshot::{Snapshot, SnapshotError};
use doorbell_sim::{Clock, Hertz, Ps};

use crate::checkpoint::MACHINE_VERSION;
use crate::config::AHEAD_MAX;
use crate::events::Event;
use crate::machine::Machine;

/// The section with each hart's slot clock, in hertz.
const SLOT_CLOCKS: &str = "slot_clocks";

impl Machine {
    /// Checks that the times of running harts and of the machine agree with the event queue.
    pub(crate) fn check_restored_times(&self) -> Result<(), &'static str> {
        let latest_hart = self.harts.iter().map(Hart::time).max().unwrap_or(Ps::ZERO);
        if self.reached > self.queue.next_time().max(latest_hart) {
            return Err("its time is past a pending event");
        }
        let present = self.queue.now().max(self.reached.saturating_sub(AHEAD_MAX));
        let lags = |hart: &Hart| Machine::can_run(hart) && hart.time() < present;
        if self.harts.iter().any(lags) { Err("a running hart's time is in the past") } else { Ok(()) }
    }

    /// Checks that the events of a possibly damaged file refer to parts that exist.
    pub(crate) fn check_restored_events(&self) -> Result<(), &'static str> {
        let (harts, ports) = (self.harts.len() as u32, self.ports.len());
        let mut answers = vec![0; self.harts.len()];
        for event in self.queue.events() {
            match event {
                Event::DeviceStart { hart }
                | Event::DeviceRead { hart }
                | Event::DeviceAnswer { hart, .. } => {
                    let waiting = self.harts.get(*hart as usize).and_then(|hart| hart.pending_mmio());
                    let request =
                        waiting.ok_or("a device answer is pending for a hart that waits for none")?;
                    // An access that has not left the core yet is decoded when it does.
                    let has_left = !matches!(event, Event::DeviceStart { .. });
                    if has_left && self.region(request.addr).is_none() {
                        return Err("a hart waits for an address without a device");
                    }
                    answers[*hart as usize] += 1;
                }
                Event::HartTimer { hart } | Event::HartStart { hart } if *hart >= harts => {
                    return Err("an event refers to a missing hart");
                }
                Event::LoadGen { port, .. }
                | Event::FrameAtNic { port, .. }
                | Event::FrameAtLoadGen { port, .. }
                | Event::FrameAtSink { port, .. }
                | Event::FrameSpoilt { port, .. }
                    if usize::from(*port) >= ports =>
                {
                    return Err("an event refers to a missing port");
                }
                Event::Function { function, .. } | Event::Message { function, .. }
                    if usize::from(*function) >= self.functions.len() =>
                {
                    return Err("an event refers to a missing PCI function");
                }
                Event::Disk { slot } if usize::from(*slot) >= self.disks.len() => {
                    return Err("an event refers to a missing disk");
                }
                _ => {}
            }
        }
        let waiting = self.harts.iter().map(|hart| i32::from(hart.pending_mmio().is_some()));
        if waiting.ne(answers) { Err("a hart waits for a device answer that is not pending") } else { Ok(()) }
    }

    /// Slot clocks of the harts.
    pub(crate) fn slot_clocks(&self) -> impl Iterator<Item = Clock> {
        (0..self.harts.len()).map(|index| self.config.hart(index).core.slot_clock())
    }

    /// Saves the slot clocks if they differ between harts.
    pub(crate) fn save_slot_clocks(&self, snapshot: &mut Snapshot) {
        let hertz: Vec<u64> = self.slot_clocks().map(|clock| clock.frequency().0).collect();
        if hertz.iter().any(|other| *other != hertz[0]) {
            snapshot.put(SLOT_CLOCKS, MACHINE_VERSION, &hertz);
        }
    }

    /// Slot clocks of the saved machine; `first` is hart 0's in hertz.
    pub(crate) fn saved_clocks(&self, snapshot: &Snapshot, first: u64) -> Result<Vec<Clock>, SnapshotError> {
        let all = match snapshot.has(SLOT_CLOCKS) {
            true => snapshot.get(SLOT_CLOCKS, MACHINE_VERSION)?,
            false => vec![first; self.harts.len()],
        };
        let possible = |hertz: &u64| (1..=1_000_000_000_000).contains(hertz);
        if all.len() != self.harts.len() || all[0] != first || !all.iter().all(possible) {
            let problem = "the harts' clocks are out of range".to_owned();
            return Err(SnapshotError::Inconsistent { name: "machine".into(), problem });
        }
        Ok(all.into_iter().map(|hertz| Clock::new(Hertz(hertz))).collect())
    }
}
