//! The profile of the node that is tested.

use doorbell_machine::{Network, WatchReport};
use doorbell_results::PointSummary;

use crate::error::RunError;
use crate::measure::benchmark::NodesLoad;
use crate::testbed::nodes::NodesTestbed;
use crate::testbed::ready::Plan as _;
use crate::window::observe::{Delivered, profile_of_node};

/// What the functions and kinds of the node that is tested cost.
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
