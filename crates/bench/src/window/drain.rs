//! Drain after a measurement: waits for frames in flight, with the generators stopped.
//!
//! The drain ends when every frame has returned or the missing ones are lost. Frames count as lost once no NIC and
//! no switch holds a frame and none has returned for longer than frames can stay on links or in a program
//! ([`Load::pause`](crate::window::phases::Load)).

use doorbell_sim::Ps;

use crate::error::RunError;
use crate::testbed::system::System;
use crate::window::phases::{Run, STEP};

/// Added to the longest pause before missing frames count as lost. A polling program may keep frames for 100 µs
/// (l3fwd's transmit drain interval); twice the sampling period [`STEP`] is added to that.
const PATIENCE: Ps = Ps::from_us(300);

/// State of a drain.
pub(crate) struct Drain {
    end: Ps,
    patience: Ps,
    /// Time of the last sample at which the number of outstanding frames had changed, and that number.
    moved: (Ps, u64),
}

impl Drain {
    /// Starts a drain of a system whose generators have stopped. It takes at most `longest`; `pause` is the longest
    /// time that a frame may be on a link or in a program.
    pub fn begin(system: &impl System, longest: Ps, pause: Ps) -> Drain {
        let now = system.now();
        Drain {
            end: now.saturating_add(longest),
            patience: pause.saturating_add(PATIENCE),
            moved: (now, outstanding(system)),
        }
    }

    /// Samples the system. Returns the time of the next sample, or `None` if the drain is over.
    pub fn next(&mut self, system: &impl System) -> Option<Ps> {
        let left = outstanding(system);
        if left != self.moved.1 {
            self.moved = (system.now(), left);
        }
        let is_over = self.is_settled(system) || system.now() >= self.end;
        (!is_over).then(|| system.now().saturating_add(STEP).min(self.end))
    }

    /// Whether, at the last sample, every frame had returned or was lost.
    pub fn is_settled(&self, system: &impl System) -> bool {
        let waited = system.now().saturating_sub(self.moved.0);
        self.moved.1 == 0 || waited >= self.patience && system.holding().is_empty()
    }

    /// The warning about a drain that was too short.
    pub fn was_too_short(&self, system: &impl System, longest: Ps) -> String {
        let frames = |count: u64| if count == 1 { "1 frame".to_owned() } else { format!("{count} frames") };
        let held: Vec<String> =
            system.holding().iter().map(|(name, count)| format!("{name} ({})", frames(*count))).collect();
        let held = if held.is_empty() { String::new() } else { format!(", inside {}", held.join(", ")) };
        format!(
            "{} may still be in flight after a drain of {longest}{held}: losses among them have no cause; set run.drain longer",
            frames(self.moved.1)
        )
    }
}

impl<S: System> Run<'_, '_, S> {
    /// Runs until every frame has returned or is lost. Returns `false`, with a warning, if `run.drain` is too short.
    pub fn drain(&mut self) -> Result<bool, RunError> {
        let longest = self.params.drain;
        self.control.begin("draining", self.system.now(), None);
        let pause = self.loads.iter().map(|load| load.pause).max().unwrap_or_default();
        let mut drain = Drain::begin(self.system, longest, pause);
        while let Some(time) = drain.next(self.system) {
            self.until(time)?;
        }
        let settled = drain.is_settled(self.system);
        if !settled {
            (self.control.say)(&drain.was_too_short(self.system, longest));
        }
        Ok(settled)
    }
}

/// Frames that may still return, over all generators.
fn outstanding(system: &impl System) -> u64 {
    system.generators().iter().map(|generator| generator.outstanding()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_loadgen::{LoadGenConfig, Rate, TrafficConfig};
    use doorbell_machine::{
        End, Generator, Limits, LinkConfig, LinkPlan, Network, NetworkConfig, SwitchConfig,
    };
    use doorbell_sim::{BitsPerSec, Bytes};

    /// Two load generators at a switch that have sent each other frames for 100 µs. None of the frames counts as
    /// returned.
    fn sent(link: LinkConfig) -> Network {
        let config = NetworkConfig {
            switches: vec![("tor".to_owned(), SwitchConfig::default())],
            generators: ["a", "b"].map(|name| (name.to_owned(), LoadGenConfig::default())).into(),
            links: (0..2)
                .map(|index| LinkPlan {
                    name: format!("l{index}"),
                    ends: [End::Generator(index), End::Switch(0)],
                    directions: [LinkConfig::default(), link.clone()],
                })
                .collect(),
            ..NetworkConfig::default()
        };
        let mut network = Network::new(config, 1).unwrap();
        let base = TrafficConfig {
            rate: Rate::Frames(1_000_000),
            frame_size: Bytes(1000),
            ..TrafficConfig::default()
        };
        for (index, generator) in network.generators_mut().enumerate() {
            let destination = base.for_port(1 - index as u32).source;
            generator.start(TrafficConfig { destination, ..base.for_port(index as u32) }).unwrap();
        }
        network.run(&Limits::until(Ps::from_us(100)));
        network.generators_mut().for_each(Generator::stop);
        network
    }

    fn drained(mut network: Network, longest: Ps, pause: Ps) -> (bool, Ps, String) {
        let mut drain = Drain::begin(&network, longest, pause);
        while let Some(time) = drain.next(&network) {
            network.run(&Limits::until(time));
        }
        let took = Network::now(&network) - Ps::from_us(100);
        (drain.is_settled(&network), took, drain.was_too_short(&network, longest))
    }

    #[test]
    fn network_drain_ends_after_pause_and_patience_once_nics_and_switches_are_empty() {
        let pause = Ps::from_us(250);
        let (settled, took, _) = drained(sent(LinkConfig::default()), Ps::from_ms(20), pause);
        assert_eq!((settled, took), (true, Ps::from_us(600)), "the first sample at or after 250 + 300 us");
    }

    #[test]
    fn warning_of_a_short_drain_names_where_frames_are_and_the_setting() {
        // 200 frames of 1000 bytes at 8 Mbps take a millisecond each.
        let slow = LinkConfig { rate: BitsPerSec(8_000_000), ..LinkConfig::default() };
        let (settled, took, warning) = drained(sent(slow), Ps::from_ms(20), Ps::ZERO);
        assert_eq!((settled, took), (false, Ps::from_ms(20)));
        assert!(warning.contains("inside tor (") && warning.ends_with("set run.drain longer"), "{warning}");
    }
}
