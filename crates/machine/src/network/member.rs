//! Members of a network, as its run loop uses them: a member runs up to a time and sends and receives frames
//! at ports.

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
    /// Index of the node, for the log.
    pub index: u8,
    pub machine: Machine,
    /// Time up to which the node has run. Its harts may be ahead by the rest of a block.
    pub reached: Ps,
    /// The node was powered off or requested a reset, and does not run any more.
    pub off: bool,
}

/// A member of a network.
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

    /// Advances time, also of a sleeping machine, so that later input takes effect at the present time.
    fn reach(&mut self, time: Ps) {
        self.machine.reached = self.machine.reached.max(time);
        self.reached = self.reached.max(time);
    }
}

impl Member {
    /// Runs up to a time before which no frame from another member can arrive.
    pub fn run(&mut self, until: Ps, limits: &Limits) -> Option<Outcome> {
        match self {
            Member::Node(node) => return node.run(until, limits),
            Member::Switch(switch) => switch.run(until),
            Member::Generator(generator) => generator.run(until),
        }
        None
    }

    /// Frames inside the member: in a machine's NICs or in a switch's queues.
    pub fn frames_inside(&self) -> u64 {
        match self {
            Member::Node(node) => {
                node.machine.nics().map(|nic| nic.in_flight().rx + nic.in_flight().tx).sum()
            }
            Member::Switch(switch) => switch.frames_inside(),
            Member::Generator(_) => 0,
        }
    }

    /// Time of the next activity; [`Ps::MAX`] if none is pending.
    pub fn next_activity(&self) -> Ps {
        match self {
            Member::Node(node) if node.off => Ps::MAX,
            Member::Node(node) => node.machine.next_activity(),
            Member::Switch(switch) => switch.next_activity(),
            Member::Generator(generator) => generator.next_activity(),
        }
    }

    /// Advances time over a period without activity.
    pub fn reach(&mut self, time: Ps) {
        match self {
            Member::Node(node) => node.reach(time),
            Member::Switch(_) => {}
            Member::Generator(generator) => generator.reach(time),
        }
    }

    /// Frames sent at a port and not yet passed to the receiver.
    pub fn sent(&mut self, port: u8) -> &mut Vec<Crossing> {
        match self {
            Member::Node(node) => {
                node.machine.ports[usize::from(port)].cable.as_mut().expect("the port has a cable")
            }
            Member::Switch(switch) => &mut switch.output_mut(port).sent,
            Member::Generator(generator) => &mut generator.sent,
        }
    }

    /// The same, read-only.
    pub fn peek(&self, port: u8) -> &[Crossing] {
        match self {
            Member::Node(node) => node.machine.ports[usize::from(port)].cable.as_deref().unwrap_or_default(),
            Member::Switch(switch) => &switch.outputs()[usize::from(port)].sent,
            Member::Generator(generator) => &generator.sent,
        }
    }

    /// The link into which a port sends.
    pub fn link(&self, port: u8) -> &Link {
        match self {
            Member::Node(node) => &node.machine.ports[usize::from(port)].link_out,
            Member::Switch(switch) => &switch.outputs()[usize::from(port)].link,
            Member::Generator(generator) => generator.link(),
        }
    }

    /// The same, mutable, to attach observers.
    pub fn link_mut(&mut self, port: u8) -> &mut Link {
        match self {
            Member::Node(node) => &mut node.machine.ports[usize::from(port)].link_out,
            Member::Switch(switch) => &mut switch.output_mut(port).link,
            Member::Generator(generator) => generator.link_mut(),
        }
    }

    /// Delivers a frame to a port. Returns `false` if the node is off.
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
