//! A trace of one of several nodes. The others are outside of it: what its NICs receive and send are frames on the wire.

use doorbell_machine::{ConfigError, CoreModel, Network, NetworkConfig, Watched};

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
    /// Begins the file, if one is asked for: of the node that is named, or else of `tested`, or else of the only one that there is or that
    /// is timed. `config` says how a node is configured.
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

    /// From now on its node's machine is recorded.
    pub fn begin(&self, network: &mut Network) {
        network.node_mut(self.node).record(Some(self.trace.recorder()));
    }

    /// No longer.
    pub fn end(&self, network: &mut Network) {
        network.node_mut(self.node).record(None);
    }

    /// Ends the file, and leaves the names of functions beside it.
    pub fn finish(self, testbed: &NodesTestbed, network: &mut Network) -> Result<(), RunError> {
        let written = self.trace.finish()?;
        let (image, machine) = (&testbed.plan.images()[self.node], network.node_mut(self.node));
        digest(&Observe::default(), image, machine, (Watched::default(), Some(written))).map(|_| ())
    }
}

impl Observe {
    /// Refuses a trace of a node that there is not. `network` is where it would be one of several, with the tested one; of one machine there
    /// is none.
    pub fn check_node(&self, network: Option<(&NetworkConfig, Option<usize>)>) -> Result<(), ConfigError> {
        let refused = |problem: &str| Err(ConfigError::new("--node", problem));
        match (network, &self.node, &self.trace) {
            (None, Some(_), _) => {
                refused("this is one machine; it is for two nodes, such as iperf, and networks")
            }
            (_, Some(_), None) => refused("it says whose trace it is; ask for one with --trace"),
            (None, None, _) | (_, None, None) => Ok(()),
            (Some((network, tested)), named, Some(_)) => {
                chosen(network, named.as_deref(), tested).map(|_| ())
            }
        }
    }
}

/// Which node is recorded.
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
        (None, []) => Err(refused("no node is timed; name the one whose trace is wanted")),
        (None, several) => {
            Err(refused(&format!("{} nodes are timed; name the one whose trace is wanted", several.len())))
        }
    }
}
