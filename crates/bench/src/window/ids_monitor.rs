//! A program that watches a server's port and counts the frames that it has seen in a measurement.
//!
//! Both edges of the measurement are kept as checkpoints. A copy of the server's node goes on alone from each, and its program is asked for
//! its counts as in [`counting_run`](crate::window::counting_run). The copy has no peer: it receives nothing, and what it sends is lost. So
//! are frames that were on the cable at the edge, at both edges alike. The program sees what the kernel hands to any such program: frames
//! that the port receives and sends.

use doorbell_machine::{Machine, Mode, Network, NetworkCheckpoint};
use doorbell_sim::Bytes;

use crate::error::RunError;
use crate::plan::counting::{Counted, Counting, Reading};
use crate::testbed::control::Control;
use crate::testbed::nodes::NodesTestbed;
use crate::testbed::ready::Plan as _;
use crate::window::counting_run::{Until, unfinished};

/// The node whose port is watched.
const WATCHED: usize = 0;

/// The edges of a measurement, as far as it has come; none are kept where nothing counts.
pub(crate) struct Edges<'a> {
    nodes: &'a NodesTestbed,
    counting: Option<&'static Counting>,
    kept: Vec<NetworkCheckpoint>,
}

impl<'a> Edges<'a> {
    pub fn of(nodes: &'a NodesTestbed, counting: Option<&'static Counting>) -> Edges<'a> {
        Edges { nodes, counting, kept: Vec::new() }
    }

    /// The measurement begins, or has ended.
    pub fn keep(&mut self, network: &Network) {
        if self.counting.is_some() {
            self.kept.push(self.nodes.plan.save(network));
        }
    }

    /// What has been counted between the two.
    pub fn counted(&self, overhead: Bytes, control: &mut Control) -> Result<Option<Counted>, RunError> {
        let (Some(counting), [begin, end]) = (self.counting, &self.kept[..]) else { return Ok(None) };
        let [begin, end] = [self.read(counting, begin, control)?, self.read(counting, end, control)?];
        Ok(Some(counting.between(&begin, &end, overhead)))
    }

    /// What a copy of the watched node has counted, of all that was to be seen at an edge.
    fn read(
        &self,
        counting: &Counting,
        edge: &NetworkCheckpoint,
        control: &mut Control,
    ) -> Result<Reading, RunError> {
        let mut copy = self.nodes.plan.restored(edge)?;
        let node = copy.node_mut(WATCHED);
        let before = passed(node);
        node.set_mode(Mode::Functional);
        counting.asked(node, "", Until::All, control)?;
        // Nobody acknowledges what a server sent, so that it may send more while it is asked, which nobody may see any more.
        let booked = before..=passed(node);
        counting.read(&node.console.text(), booked).map_err(|why| unfinished(node, why))
    }
}

/// Frames that a node's port has put into memory or sent. What is watched are these, as they are on the cable: suricata has the kernel put no
/// segments together, and leave none to be cut.
fn passed(node: &Machine) -> u64 {
    let nic = node.nic(0).stats();
    nic.rx_delivered + nic.tx_sent
}
