//! Common interface of the systems under test: one machine with a load generator at each port, or a network
//! of machines, switches and load generators.

use doorbell_loadgen::{LoadGen, TrafficConfig};
use doorbell_machine::{ConfigError, Limits, Machine, Mode, Network, NetworkOutcome, Outcome, Switch};
use doorbell_sim::Ps;
use doorbell_wire::Link;

use crate::error::{RunError, describe};
use crate::testbed::control::{Control, LINES_SHOWN, run_network_watched, run_watched};
use crate::testbed::init_log::{self, InitLog};
use crate::testbed::steady::Sample;
use crate::testbed::ticks::{Timer, timers};

/// One machine, or a network.
pub trait System {
    /// Runs to a time; any other end of the run is an error. `guest` is the guest's identity in checkpoints
    /// of a single machine.
    fn run_to(&mut self, time: Ps, guest: &str, control: &mut Control) -> Result<(), RunError>;
    /// The simulated time.
    fn now(&self) -> Ps;
    /// Starts hashing the frames on the wires, for fingerprints.
    fn start_wire_hashes(&mut self);
    /// Sets the simulation mode of all machines.
    fn set_mode(&mut self, mode: Mode);
    /// Whether any of its machines is timed.
    fn is_timed(&self) -> bool;
    /// Its load generators.
    fn generators(&self) -> Vec<&LoadGen>;
    /// Sets a generator's traffic and starts it.
    fn start(&mut self, generator: usize, traffic: &TrafficConfig) -> Result<(), ConfigError>;
    /// Starts a measurement window at all generators and other components that have one.
    fn begin_window(&mut self);
    /// Number of frames in flight in each NIC, node and switch that has any, by name. Frames on links and
    /// frames held by programs are not included.
    fn holding(&self) -> Vec<(String, u64)>;
    /// A sample for the steady-state criteria.
    fn sample(&self) -> Sample;
    /// The timers of its measured harts.
    fn timers(&self) -> Vec<Timer>;
    /// The longest latency of its links.
    fn longest_link(&self) -> Ps;
    /// Disables or re-enables link faults.
    fn disable_link_faults(&mut self, disabled: bool);
    /// Output of the failed `init` lines of its guests.
    fn init_logs(&self) -> Vec<InitLog>;
}

impl System for Machine {
    fn run_to(&mut self, time: Ps, guest: &str, control: &mut Control) -> Result<(), RunError> {
        match run_watched(self, guest, &Limits::until(time), control)? {
            Outcome::Time | Outcome::Asleep => Ok(()),
            outcome => Err(RunError::Ended {
                why: describe(outcome, time),
                console: self.console.last_lines(LINES_SHOWN),
            }),
        }
    }

    fn now(&self) -> Ps {
        Machine::now(self)
    }

    fn start_wire_hashes(&mut self) {
        Machine::start_wire_hashes(self);
    }

    fn set_mode(&mut self, mode: Mode) {
        Machine::set_mode(self, mode);
    }

    fn is_timed(&self) -> bool {
        self.timing().is_some()
    }

    fn generators(&self) -> Vec<&LoadGen> {
        self.ports().iter().map(|port| &port.loadgen).collect()
    }

    fn start(&mut self, generator: usize, traffic: &TrafficConfig) -> Result<(), ConfigError> {
        self.start_traffic_at(generator, traffic)
    }

    fn begin_window(&mut self) {
        Machine::begin_window(self);
    }

    fn holding(&self) -> Vec<(String, u64)> {
        let held = self.nics().map(|nic| nic.in_flight().rx + nic.in_flight().tx);
        let named = held.enumerate().map(|(port, frames)| (format!("the NIC of port {port}"), frames));
        named.filter(|(_, frames)| *frames > 0).collect()
    }

    fn sample(&self) -> Sample {
        Sample::of(&[self], 0)
    }

    fn timers(&self) -> Vec<Timer> {
        timers([self])
    }

    fn longest_link(&self) -> Ps {
        longest(self.ports().iter().flat_map(|port| [&port.link_in, &port.link_out]))
    }

    fn disable_link_faults(&mut self, disabled: bool) {
        for port in self.ports_mut() {
            [&mut port.link_in, &mut port.link_out]
                .into_iter()
                .for_each(|link| link.disable_faults(disabled));
        }
    }

    fn init_logs(&self) -> Vec<InitLog> {
        init_log::of_machine(self)
    }
}

impl System for Network {
    /// Nodes may power off with exit code 0 before that time.
    fn run_to(&mut self, time: Ps, _guest: &str, control: &mut Control) -> Result<(), RunError> {
        loop {
            match run_network_watched(self, time, false, control)? {
                NetworkOutcome::Time | NetworkOutcome::Asleep => return Ok(()),
                NetworkOutcome::Nodes(nodes) => {
                    let failed =
                        nodes.iter().find(|(_, outcome)| !matches!(outcome, Outcome::PowerOff { code: 0 }));
                    if let Some((node, outcome)) = failed {
                        return Err(ended(self, *node, *outcome));
                    }
                }
            }
        }
    }

    fn now(&self) -> Ps {
        Network::now(self)
    }

    fn start_wire_hashes(&mut self) {
        Network::start_wire_hashes(self);
    }

    fn set_mode(&mut self, mode: Mode) {
        (0..self.config().nodes.len()).for_each(|node| self.node_mut(node).set_mode(mode));
    }

    fn is_timed(&self) -> bool {
        self.nodes().any(|node| node.timing().is_some())
    }

    fn generators(&self) -> Vec<&LoadGen> {
        Network::generators(self).map(|generator| generator.loadgen()).collect()
    }

    fn start(&mut self, generator: usize, traffic: &TrafficConfig) -> Result<(), ConfigError> {
        let generator = self.generators_mut().nth(generator).expect("each load has its generator");
        generator.start(traffic.clone())
    }

    fn begin_window(&mut self) {
        Network::begin_window(self);
    }

    fn holding(&self) -> Vec<(String, u64)> {
        Network::holding(self).into_iter().map(|(name, frames)| (name.to_owned(), frames)).collect()
    }

    fn sample(&self) -> Sample {
        let nodes: Vec<&Machine> = self.nodes().collect();
        Sample::of(&nodes, self.switches().map(Switch::frames_inside).sum())
    }

    fn timers(&self) -> Vec<Timer> {
        timers(self.nodes())
    }

    fn longest_link(&self) -> Ps {
        longest(self.wires().iter().map(|wire| self.link(wire)))
    }

    fn disable_link_faults(&mut self, disabled: bool) {
        Network::disable_link_faults(self, disabled);
    }

    fn init_logs(&self) -> Vec<InitLog> {
        init_log::of_network(self)
    }
}

fn longest<'a>(links: impl Iterator<Item = &'a Link>) -> Ps {
    links.map(|link| link.config().latency).max().unwrap_or(Ps::ZERO)
}

/// The error for a node whose run ended unexpectedly.
pub(crate) fn ended(network: &Network, node: usize, outcome: Outcome) -> RunError {
    RunError::Ended {
        why: why_node_ended(network, node, outcome),
        console: network.node(node).console.last_lines(LINES_SHOWN),
    }
}

fn why_node_ended(network: &Network, node: usize, outcome: Outcome) -> String {
    let (name, _) = &network.config().nodes[node];
    format!("{name}: {}", describe(outcome, network.now()))
}

/// Why the run of cabled nodes ended unexpectedly, and the node whose console may show more. `late` is the
/// reason if the time limit was reached, and the node is then the drive node, node 1.
pub(crate) fn why_ended(network: &Network, outcome: &NetworkOutcome, late: &str) -> (usize, String) {
    match outcome {
        NetworkOutcome::Nodes(nodes) => {
            let (node, outcome) = nodes[0];
            (node, why_node_ended(network, node, outcome))
        }
        NetworkOutcome::Asleep => (1, "all nodes sleep, and no pending event can wake them".to_owned()),
        NetworkOutcome::Time => (1, late.to_owned()),
    }
}
