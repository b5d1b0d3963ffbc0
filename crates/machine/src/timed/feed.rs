//! Timed runs without a machine: any sources of ops, one a core, feed the timing models of a configuration.
//!
//! The order of blocks is a machine's: the earliest source first, of equals the one with the lowest number. What devices do is
//! the owner's to add between two calls: DMA by [`Timing::memory`], and what it means to a source by the source itself.

use doorbell_platform::map;
use doorbell_sim::{BlockEnd, Bytes, Clock, OpSource, PhysAddr, Ps, Until};

use super::run::earliest;
use super::{Mode, Timing};
use crate::config::{ConfigError, CoreModel, MachineConfig};

impl Timing {
    /// The timing models of a configuration, for `platform.harts` sources. They know nothing yet, and say when.
    pub fn for_sources(config: &MachineConfig) -> Result<Timing, ConfigError> {
        let memory = (PhysAddr(map::RAM_BASE), config.platform.ram);
        Timing::for_playback(config, memory, config.platform.harts as usize)
    }

    /// The same, over memory that begins there and is so large, whatever the configuration has, and of which no more sources than so many
    /// share any.
    pub(crate) fn for_playback(
        config: &MachineConfig,
        memory: (PhysAddr, Bytes),
        sharing: usize,
    ) -> Result<Timing, ConfigError> {
        config.validate()?;
        if config.core.model != CoreModel::Timed {
            return Err(ConfigError::new("core.model", "there is nothing to feed unless it is \"timed\""));
        }
        if config.platform.threads > 1 {
            let problem =
                "sources that are no harts are fed to cores without threads; set platform.threads=1";
            return Err(ConfigError::new("platform.threads", problem));
        }
        let timing = Timing::over_memory(config, memory, sharing)
            .map_err(|problem| ConfigError::new("memory", problem))?;
        Ok(Timing { mode: Mode::Detailed, ..timing })
    }

    /// How blocks of sources are taken from now on, which have come to these cycles.
    pub(crate) fn change_mode_of_sources(&mut self, mode: Mode, cycles: &[u64]) {
        let was_timed = std::mem::replace(&mut self.mode, mode) == Mode::Detailed;
        for (timed, cycle) in self.harts.iter_mut().zip(cycles) {
            timed.come_to(*cycle, was_timed);
        }
    }

    /// The clock of a hart's core.
    pub(crate) fn clock_of(&self, hart: usize) -> Clock {
        self.harts[hart].clock
    }

    /// One of them goes on in this cycle.
    pub(crate) fn skip_source_to(&mut self, id: usize, cycle: u64) {
        self.harts[id].core.skip_to(cycle);
    }

    /// When a cycle of a hart's core begins.
    pub(crate) fn time_of(&self, hart: usize, cycle: u64) -> Ps {
        self.harts[hart].clock.edge(cycle)
    }

    /// The first cycle of a hart's core that begins at `time` or later.
    pub(crate) fn cycle_at(&self, hart: usize, time: Ps) -> u64 {
        self.harts[hart].clock.edge_at_or_after(time)
    }

    /// Takes and prices blocks until each source that is ready has come to `until` (`None`), or one has stopped: its number, and
    /// why. Whoever sees to that calls again.
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
