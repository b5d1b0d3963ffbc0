//! Profiles of a network's timed nodes.

use doorbell_image::Image;
use doorbell_machine::{Network, WatchReport, WatchRequest};
use doorbell_results::{FunctionCost, KindFigures};

use super::{Delivered, Observe, digest};
use crate::error::RunError;
use crate::plan::options;
use crate::store::folder::ResultFolder;

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

/// Costs of a node by function and kind. The names of the files that it writes include the node's name.
pub(crate) fn profile_of_node(
    observe: &Observe,
    network: &mut Network,
    node: usize,
    image: &Image,
    watched: Option<WatchReport>,
    delivered: &Delivered<'_>,
    folder: &ResultFolder,
) -> Result<(Option<Vec<FunctionCost>>, Option<KindFigures>), RunError> {
    let Some(watched) = watched else { return Ok((None, None)) };
    let name = network.config().nodes[node].0.clone();
    let mut observed = digest(observe, image, network.node_mut(node), watched, None)?;
    let profile = observed.profile(delivered);
    for (file, contents) in &observed.files {
        let (stem, ending) = file.split_once('.').expect("file names have extensions");
        folder.write(&format!("{stem}-{name}.{ending}"), contents)?;
    }
    Ok(profile)
}
