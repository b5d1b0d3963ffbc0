//! Frame counts of a monitoring program (an IDS) on a server's port during a measurement.
//!
//! A checkpoint is saved at both edges of the measurement. From each, a copy of the server's node runs without its
//! peer, and its program prints its counts as in [`counting_run`](crate::window::counting_run). The copy receives
//! nothing, and the frames it sends are lost. Frames on the cable at an edge are lost too, at both edges alike. The
//! program receives the frames that the kernel gives to any capturing program: all that the port receives and sends.

use doorbell_machine::{Machine, Mode, Network, NetworkCheckpoint};
use doorbell_sim::Bytes;

use crate::error::RunError;
use crate::plan::counting::{Counted, Counting, Reading};
use crate::testbed::control::Control;
use crate::testbed::nodes::NodesTestbed;
use crate::testbed::ready::Plan as _;
use crate::window::counting_run::{Until, unfinished};

/// Node with the monitored port.
const WATCHED: usize = 0;

/// Checkpoints at the edges of a measurement; none without a counting program.
pub(crate) struct Edges<'a> {
    nodes: &'a NodesTestbed,
    counting: Option<&'static Counting>,
    kept: Vec<NetworkCheckpoint>,
}

impl<'a> Edges<'a> {
    pub fn of(nodes: &'a NodesTestbed, counting: Option<&'static Counting>) -> Edges<'a> {
        Edges { nodes, counting, kept: Vec::new() }
    }

    /// Saves a checkpoint, at the beginning and at the end of the measurement.
    pub fn keep(&mut self, network: &Network) {
        if self.counting.is_some() {
            self.kept.push(self.nodes.plan.save(network));
        }
    }

    /// The program's counts between the two edges.
    pub fn counted(&self, overhead: Bytes, control: &mut Control) -> Result<Option<Counted>, RunError> {
        let (Some(counting), [begin, end]) = (self.counting, &self.kept[..]) else { return Ok(None) };
        let [begin, end] = [self.read(counting, begin, control)?, self.read(counting, end, control)?];
        Ok(Some(counting.between(&begin, &end, overhead)))
    }

    /// Reads the counts at an edge from a copy of the monitored node.
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
        counting.request_counts(node, "", Until::All, control)?;
        // Without a peer's acknowledgements the server may retransmit while the program prints its counts, and the
        // program may not count these frames any more.
        let booked = before..=passed(node);
        counting.read(&node.console.text(), booked).map_err(|why| unfinished(node, why))
    }
}

/// Frames that a node's port has written to memory or sent: those that the program counts. They are as on the cable,
/// since suricata disables receive coalescing (GRO, LRO) and segmentation offload (GSO, TSO).
fn passed(node: &Machine) -> u64 {
    let nic = node.nic(0).stats();
    nic.rx_delivered + nic.tx_sent
}
