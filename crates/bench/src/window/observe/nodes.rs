//! Profiles of a network's timed nodes.

use doorbell_machine::{Network, WatchReport, WatchRequest};

use super::Observe;
use crate::error::RunError;
use crate::plan::options;

/// Starts the profiles of all timed nodes, if requested.
pub(crate) fn watch_nodes(network: &mut Network, observe: &Observe) {
    if observe.profile {
        let request = WatchRequest { profile: true, ..WatchRequest::default() };
        for node in 0..network.config().nodes.len() {
            // A node that is not timed has no profile.
            let _ = network.node_mut(node).watch(&request);
        }
    }
}

/// Ends the observations; returns their data by node.
pub(crate) fn end_watch_of_nodes(network: &mut Network) -> Vec<Option<WatchReport>> {
    (0..network.config().nodes.len()).map(|node| network.node_mut(node).end_watch()).collect()
}

impl Observe {
    /// Checks that a network supports the requested observations.
    pub(crate) fn check_nodes(&self, network: &Network) -> Result<(), RunError> {
        let problem = "no node is timed, so that there are no cycle counts; use a timed preset for one (--preset server, \
                           or preset = \"server\" under a node in the network file)";
        options::reject_if(
            self.profile && network.nodes().all(|node| node.timing().is_none()),
            "--profile",
            problem,
        )?;
        Ok(())
    }
}
