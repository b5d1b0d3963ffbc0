//! After a measurement nothing is sent any more, and what is on its way is waited for: until every frame has come back, or until it is
//! known that what has not never will.
//!
//! That is known when no NIC and no switch has a frame inside and nothing has come back for longer than a frame may be where nobody can
//! see it: on links, and in a program's hands ([`Load::pause`](crate::window::phases::Load)).

use doorbell_sim::Ps;

use crate::error::RunError;
use crate::testbed::system::System;
use crate::window::phases::{Run, STEP};

/// In how long nothing must come back beside the longest time out of sight. A program that polls may keep frames for 100 µs: l3fwd's
/// drain of what it has gathered to send. That, and twice how often it is looked.
const PATIENCE: Ps = Ps::from_us(300);

/// A wait for what is on its way.
pub(crate) struct Drain {
    end: Ps,
    patience: Ps,
    /// When something came back at last, as far as it was looked, and what was on its way then.
    moved: (Ps, u64),
}

impl Drain {
    /// Of a system to which no more is sent; it takes no longer than `longest`, `pause` is how long a frame may be out of sight.
    pub fn begin(system: &impl System, longest: Ps, pause: Ps) -> Drain {
        let now = system.now();
        Drain {
            end: now.saturating_add(longest),
            patience: pause.saturating_add(PATIENCE),
            moved: (now, outstanding(system)),
        }
    }

    /// Looks at the system: until when to go on, if it is worth while.
    pub fn next(&mut self, system: &impl System) -> Option<Ps> {
        let left = outstanding(system);
        if left != self.moved.1 {
            self.moved = (system.now(), left);
        }
        let is_over = self.is_settled(system) || system.now() >= self.end;
        (!is_over).then(|| system.now().saturating_add(STEP).min(self.end))
    }

    /// Whether it was known, at the last look, that what has not come back never will.
    pub fn is_settled(&self, system: &impl System) -> bool {
        let waited = system.now().saturating_sub(self.moved.0);
        self.moved.1 == 0 || waited >= self.patience && system.holding().is_empty()
    }

    /// What to tell of one that was too short.
    pub fn was_too_short(&self, system: &impl System, longest: Ps) -> String {
        let frames = |count: u64| if count == 1 { "1 frame".to_owned() } else { format!("{count} frames") };
        let held: Vec<String> =
            system.holding().iter().map(|(name, count)| format!("{name} ({})", frames(*count))).collect();
        let held = if held.is_empty() { String::new() } else { format!(", inside {}", held.join(", ")) };
        format!(
            "{} may still be on the way after a drain of {longest}{held}: what of them is lost is not named; set run.drain longer",
            frames(self.moved.1)
        )
    }
}

impl<S: System> Run<'_, '_, S> {
    /// Waits until every frame has come back or cannot come back any more; `false`, and it is said, if it is not known that it cannot,
    /// since `run.drain` was too short.
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

/// Frames that may still come back, at all generators.
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

    /// Two load generators at a switch that have sent each other frames for 100 µs, none of which ever counts as back.
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
    fn a_drain_of_a_network_ends_when_nothing_is_inside_and_nothing_came_back_for_as_long_as_it_may_be_out_of_sight()
     {
        let pause = Ps::from_us(250);
        let (settled, took, _) = drained(sent(LinkConfig::default()), Ps::from_ms(20), pause);
        assert_eq!((settled, took), (true, Ps::from_us(600)), "the first look at or after 250 and 300 us");
    }

    #[test]
    fn a_drain_that_is_too_short_says_who_holds_frames_and_what_to_do() {
        // 200 frames of 1000 bytes to go out at 8 Mbps: a millisecond each.
        let slow = LinkConfig { rate: BitsPerSec(8_000_000), ..LinkConfig::default() };
        let (settled, took, said) = drained(sent(slow), Ps::from_ms(20), Ps::ZERO);
        assert_eq!((settled, took), (false, Ps::from_ms(20)));
        assert!(said.contains("inside tor (") && said.ends_with("set run.drain longer"), "{said}");
    }
}
