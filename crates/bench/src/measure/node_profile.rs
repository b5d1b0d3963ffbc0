//! Profile of the test node.

use doorbell_machine::{Network, WatchReport};
use doorbell_results::PointSummary;

use crate::error::RunError;
use crate::measure::benchmark::NodesLoad;
use crate::testbed::nodes::NodesTestbed;
use crate::testbed::ready::Plan as _;
use crate::window::observe::{Delivered, profile_of_node};

/// Adds the test node's costs by function and by kind of CPU time to the summary.
pub(crate) fn profile_test_node(
    load: &NodesLoad,
    testbed: &NodesTestbed,
    (network, watched): (&mut Network, Option<WatchReport>),
    summary: &mut PointSummary,
) -> Result<(), RunError> {
    let (image, delivered) = (&testbed.plan.images()[0], Delivered::of(summary));
    let (functions, kinds) =
        profile_of_node(load.observe, (network, 0), image, watched, &delivered, load.folder)?;
    (summary.functions, summary.kinds) = (functions, kinds);
    Ok(())
}
