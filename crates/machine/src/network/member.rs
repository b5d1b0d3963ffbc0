//! What a network is made of, as its run loop sees it: something that runs up to a time, sends frames by its ports, and is given some.

use doorbell_sim::{Phase, Ps, log};
use doorbell_wire::Link;

use crate::events::Event;
use crate::machine::Machine;
use crate::network::Crossing;
use crate::network::generator::Generator;
use crate::network::switch::Switch;
use crate::run::{Limits, Outcome};

/// A machine in a network.
pub(crate) struct Node {
    /// Which one, for the log.
    pub index: u8,
    pub machine: Machine,
    /// Up to when it was run. A hart may be ahead of it, at the end of the block that it was executing.
    pub reached: Ps,
    /// It has been switched off, or asked for a reset: it does not go on.
    pub off: bool,
}

/// A member.
pub(crate) enum Member {
    Node(Box<Node>),
    Switch(Box<Switch>),
    Generator(Box<Generator>),
}

impl Node {
    fn run(&mut self, until: Ps, limits: &Limits) -> Option<Outcome> {
        if self.off {
            return None;
        }
        log::set_node(Some(self.index));
        let outcome = self.machine.run(&Limits { time: until, instructions: u64::MAX, ..limits.clone() });
        log::set_node(None);
        match outcome {
            Outcome::Time | Outcome::Asleep => {
                self.reach(until);
                None
            }
            outcome => {
                self.off = matches!(outcome, Outcome::PowerOff { .. } | Outcome::Reset);
                Some(outcome)
            }
        }
    }

    /// Time has passed for one that sleeps, too: what wakes it does so in the present.
    fn reach(&mut self, time: Ps) {
        self.machine.reached = self.machine.reached.max(time);
        self.reached = self.reached.max(time);
    }
}

impl Member {
    /// Runs to a time that nothing from the others can reach any more.
    pub fn run(&mut self, until: Ps, limits: &Limits) -> Option<Outcome> {
        match self {
            Member::Node(node) => return node.run(until, limits),
            Member::Switch(switch) => switch.run(until),
            Member::Generator(generator) => generator.run(until),
        }
        None
    }

    /// Frames inside: in a machine's NICs, in a switch's queues.
    pub fn holds(&self) -> u64 {
        match self {
            Member::Node(node) => {
                node.machine.nics().map(|nic| nic.in_flight().rx + nic.in_flight().tx).sum()
            }
            Member::Switch(switch) => switch.holds(),
            Member::Generator(_) => 0,
        }
    }

    /// When it has something to do next; [`Ps::MAX`] if nothing ever has.
    pub fn next_activity(&self) -> Ps {
        match self {
            Member::Node(node) if node.off => Ps::MAX,
            Member::Node(node) => node.machine.next_activity(),
            Member::Switch(switch) => switch.next_activity(),
            Member::Generator(generator) => generator.next_activity(),
        }
    }

    /// Time has passed in which nothing happened.
    pub fn reach(&mut self, time: Ps) {
        match self {
            Member::Node(node) => node.reach(time),
            Member::Switch(_) => {}
            Member::Generator(generator) => generator.reach(time),
        }
    }

    /// The frames that it has sent by a port and that have not changed sides yet.
    pub fn sent(&mut self, port: u8) -> &mut Vec<Crossing> {
        match self {
            Member::Node(node) => {
                node.machine.ports[usize::from(port)].cable.as_mut().expect("the port has a cable")
            }
            Member::Switch(switch) => &mut switch.output_mut(port).sent,
            Member::Generator(generator) => &mut generator.sent,
        }
    }

    /// The same, to look at.
    pub fn peek(&self, port: u8) -> &[Crossing] {
        match self {
            Member::Node(node) => node.machine.ports[usize::from(port)].cable.as_deref().unwrap_or_default(),
            Member::Switch(switch) => &switch.outputs()[usize::from(port)].sent,
            Member::Generator(generator) => &generator.sent,
        }
    }

    /// The link into which it sends by a port.
    pub fn link(&self, port: u8) -> &Link {
        match self {
            Member::Node(node) => &node.machine.ports[usize::from(port)].link_out,
            Member::Switch(switch) => &switch.outputs()[usize::from(port)].link,
            Member::Generator(generator) => generator.link(),
        }
    }

    /// The same, to attach observers.
    pub fn link_mut(&mut self, port: u8) -> &mut Link {
        match self {
            Member::Node(node) => &mut node.machine.ports[usize::from(port)].link_out,
            Member::Switch(switch) => &mut switch.output_mut(port).link,
            Member::Generator(generator) => generator.link_mut(),
        }
    }

    /// Gives it a frame that arrives at a port. `false` if it is switched off.
    pub fn deliver(&mut self, port: u8, Crossing { arrives_at, frame }: Crossing) -> bool {
        match self {
            Member::Node(node) if node.off => return false,
            Member::Node(node) => {
                node.machine.queue.schedule(arrives_at, Phase::Wire, Event::FrameAtNic { port, frame });
            }
            Member::Switch(switch) => switch.deliver(port, arrives_at, frame),
            Member::Generator(generator) => generator.deliver(arrives_at, frame),
        }
        true
    }
}
