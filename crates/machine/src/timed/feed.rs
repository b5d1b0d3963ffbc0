//! Timing models fed by op sources instead of a machine's harts, one source per core.
//!
//! Blocks are taken in the same order as in a machine: earliest source first, lowest number first among
//! equals. The caller adds device activity between calls: DMA by [`Timing::memory`], interrupts and the like
//! by the source.

use doorbell_sim::{BlockEnd, Bytes, CoreCycle, CoreDomain, DomainClock, OpSource, PhysAddr, Ps, Until};

use super::run::earliest;
use super::{Mode, Timing};
use crate::config::{ConfigError, CoreModel, MachineConfig};

impl Timing {
    /// Builds cold timing models in detailed mode for `platform.harts` sources, with `memory` (base and size)
    /// in place of the configured one. At most `sharing` sources share memory.
    pub(crate) fn for_playback(
        config: &MachineConfig,
        memory: (PhysAddr, Bytes),
        sharing: usize,
    ) -> Result<Timing, ConfigError> {
        config.validate()?;
        if config.core.model != CoreModel::Timed {
            return Err(ConfigError::new(
                "core.model",
                "op sources need timing models; set core.model=timed",
            ));
        }
        if config.platform.threads > 1 {
            let problem = "op sources are not supported on cores with SMT threads; set platform.threads=1";
            return Err(ConfigError::new("platform.threads", problem));
        }
        let timing = Timing::with_memory(config, memory, sharing)
            .map_err(|problem| ConfigError::new("memory", problem))?;
        Ok(Timing { mode: Mode::Detailed, ..timing })
    }

    /// Sets the execution mode; `cycles` has the present cycle of each source.
    pub(crate) fn change_mode_of_sources(&mut self, mode: Mode, cycles: &[CoreCycle]) {
        let was_timed = std::mem::replace(&mut self.mode, mode) == Mode::Detailed;
        for (timed, cycle) in self.harts.iter_mut().zip(cycles) {
            timed.advance_to_cycle(*cycle, was_timed);
        }
    }

    /// The clock of a hart's core.
    pub(crate) fn clock_of(&self, hart: usize) -> DomainClock<CoreDomain> {
        self.harts[hart].clock
    }

    /// Advances a source's core to `cycle`; the cycles until then count as idle.
    pub(crate) fn skip_source_to(&mut self, id: usize, cycle: CoreCycle) {
        self.harts[id].core.skip_to(cycle);
    }

    /// Start time of a cycle of a hart's core.
    pub(crate) fn time_of(&self, hart: usize, cycle: CoreCycle) -> Ps {
        self.harts[hart].clock.edge(cycle)
    }

    /// The first cycle of a hart's core that begins at `time` or later.
    pub(crate) fn cycle_at(&self, hart: usize, time: Ps) -> CoreCycle {
        self.harts[hart].clock.edge_at_or_after(time)
    }

    /// Takes blocks and computes their timing until each ready source has reached `until` (`None`) or one has
    /// stopped: returns its number and the reason. The caller handles the stop and calls again.
    pub fn feed<S: OpSource>(
        &mut self,
        sources: &mut [S],
        world: &mut S::World,
        until: Ps,
    ) -> Option<(usize, S::Stop)> {
        assert_eq!(sources.len(), self.harts.len(), "each core is fed by one source");
        loop {
            let ready = sources.iter().enumerate().filter(|(_, source)| source.is_ready());
            let times = ready.map(|(id, source)| (id, self.harts[id].clock.edge(source.cycle())));
            let (Some((_, id)), others) = earliest(times.filter(|(_, time)| *time < until)) else {
                return None;
            };
            let cycle = self.harts[id].clock.edge_at_or_after(others.min(until));
            let end = Until { cycle, instructions: u64::MAX };
            while sources[id].is_ready() && sources[id].cycle() < end.cycle {
                if let BlockEnd::Stopped(stop) = self.block(id, &mut sources[id], world, end) {
                    return Some((id, stop));
                }
            }
        }
    }
}
