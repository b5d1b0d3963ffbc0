//! Profiles of a network's nodes: of each one that has timing models.

use doorbell_image::Image;
use doorbell_machine::{ConfigError, Network, WatchRequest, Watched};
use doorbell_results::{FunctionCost, KindFigures};

use super::{Delivered, Observe, digest};
use crate::error::RunError;
use crate::store::folder::ResultFolder;

/// Watches all timed nodes from now on, if they are to be profiled.
pub(crate) fn watch_nodes(network: &mut Network, observe: &Observe) {
    if observe.profile {
        let request = WatchRequest { profile: true, ..WatchRequest::default() };
        for node in 0..network.config().nodes.len() {
            // One that is not timed has nothing to see.
            let _ = network.node_mut(node).watch(&request);
        }
    }
}

/// Watches them no more; by node, what was seen.
pub(crate) fn end_watch_of_nodes(network: &mut Network) -> Vec<Option<Watched>> {
    (0..network.config().nodes.len()).map(|node| network.node_mut(node).end_watch()).collect()
}

impl Observe {
    /// Whether a network can be observed so.
    pub(crate) fn check_nodes(&self, network: &Network) -> Result<(), RunError> {
        if self.profile && network.nodes().all(|node| node.timing().is_none()) {
            let problem = "no node is timed, so that nothing is known of cycles; take a timed preset for one (--preset server, \
                           or preset = \"server\" under a node of a network's file)";
            return Err(ConfigError::new("--profile", problem).into());
        }
        Ok(())
    }
}

/// What a node's functions and kinds cost. Their files have the node's name in theirs.
pub(crate) fn profile_of_node(
    observe: &Observe,
    (network, node): (&mut Network, usize),
    image: &Image,
    watched: Option<Watched>,
    delivered: &Delivered<'_>,
    folder: &ResultFolder,
) -> Result<(Option<Vec<FunctionCost>>, Option<KindFigures>), RunError> {
    let Some(watched) = watched else { return Ok((None, None)) };
    let name = network.config().nodes[node].0.clone();
    let mut observed = digest(observe, image, network.node_mut(node), (watched, None))?;
    let profile = observed.profile(delivered);
    for (file, contents) in &observed.files {
        let (stem, ending) = file.split_once('.').expect("they have endings");
        folder.write(&format!("{stem}-{name}.{ending}"), contents)?;
    }
    Ok(profile)
}
