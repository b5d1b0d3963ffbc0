//! A trace of one of several nodes. The trace does not include the others; frames that the node's NICs receive and send
//! appear as frames on the wire.

use doorbell_machine::{ConfigError, CoreModel, Network, NetworkConfig, WatchReport};

use super::{Observe, Trace, digest};
use crate::error::RunError;
use crate::plan::config::RunConfig;
use crate::testbed::nodes::NodesTestbed;
use crate::testbed::ready::Plan as _;

/// A trace of a node that is being written.
pub(crate) struct NodeTrace {
    node: usize,
    trace: Trace,
}

impl NodeTrace {
    /// Creates the file, if a trace is requested. The node is the named one, or else `tested`, or else the only timed
    /// node, or the only node. `config` returns the configuration of a node.
    pub fn create<'a>(
        observe: &Observe,
        network: &Network,
        tested: Option<usize>,
        config: impl FnOnce(usize) -> &'a RunConfig,
        what: &str,
    ) -> Result<Option<NodeTrace>, RunError> {
        let Some(path) = observe.trace.as_deref() else { return Ok(None) };
        let node = chosen(network.config(), observe.node.as_deref(), tested)?;
        let (name, count) = (&network.config().nodes[node].0, network.config().nodes.len());
        let what = format!("{what}: {name}, one of {count} nodes");
        let trace = Trace::create(path, network.node(node), config(node), &what)?;
        Ok(Some(NodeTrace { node, trace }))
    }

    /// Starts the recording of the node's machine.
    pub fn begin(&self, network: &mut Network) {
        network.node_mut(self.node).record(Some(self.trace.recorder()));
    }

    /// Stops the recording.
    pub fn end(&self, network: &mut Network) {
        network.node_mut(self.node).record(None);
    }

    /// Completes the file and writes the symbol file next to it.
    pub fn finish(self, testbed: &NodesTestbed, network: &mut Network) -> Result<(), RunError> {
        let written = self.trace.finish()?;
        let (image, machine) = (&testbed.plan.images()[self.node], network.node_mut(self.node));
        digest(&Observe::default(), image, machine, WatchReport::default(), Some(written)).map(|_| ())
    }
}

impl Observe {
    /// Rejects `--node` for a single machine, without a trace, or with an unknown node. `network` is the network and its
    /// tested node, or `None` for a single machine.
    pub fn check_node(&self, network: Option<(&NetworkConfig, Option<usize>)>) -> Result<(), ConfigError> {
        let refused = |problem: &str| Err(ConfigError::new("--node", problem));
        match (network, &self.node, &self.trace) {
            (None, Some(_), _) => refused(
                "the option needs several nodes, such as iperf or a network, and this is one machine; leave it out",
            ),
            (_, Some(_), None) => refused("the option selects the node to trace; add --trace"),
            (None, None, _) | (_, None, None) => Ok(()),
            (Some((network, tested)), named, Some(_)) => {
                chosen(network, named.as_deref(), tested).map(|_| ())
            }
        }
    }
}

/// The node to record.
fn chosen(network: &NetworkConfig, named: Option<&str>, tested: Option<usize>) -> Result<usize, ConfigError> {
    let nodes = &network.nodes;
    let refused = |problem: &str| {
        let names: Vec<&str> = nodes.iter().map(|(name, _)| name.as_str()).collect();
        ConfigError::new("--node", format!("{problem}; the nodes are {}", names.join(", ")))
    };
    if let Some(named) = named {
        let found = nodes.iter().position(|(name, _)| name == named);
        return found.ok_or_else(|| refused(&format!("there is no node \"{named}\"")));
    }
    let is_timed = |node: &usize| nodes[*node].1.core.model == CoreModel::Timed;
    let timed: Vec<usize> = (0..nodes.len()).filter(is_timed).collect();
    match (tested, &timed[..]) {
        (Some(node), _) | (None, &[node]) => Ok(node),
        (None, []) if nodes.len() == 1 => Ok(0),
        (None, []) => Err(refused("no node is timed; name the node to trace")),
        (None, several) => {
            Err(refused(&format!("{} nodes are timed; name the node to trace", several.len())))
        }
    }
}
