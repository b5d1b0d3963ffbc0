//! The software that a machine boots for a measurement, and the condition for its readiness.

use doorbell_loadgen::{Kind, Returned};
use doorbell_sim::Ps;

use crate::plan::counting::Counting;

/// Rate in the results of a measurement without traffic.
pub const NO_TRAFFIC: &str = "none";

/// Console text that our own programs and scripts print when their ports are up or their server accepts
/// requests.
pub(crate) const READY_MARKER: &str = "doorbell: ready";

/// The software that a session boots, and its properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Its name in results and in checkpoint names.
    pub name: String,
    /// A built-in image, or the path of a recipe.
    pub image: String,
    /// Words added to the kernel's command line.
    pub words: String,
    /// The ready condition.
    pub ready: Ready,
    /// The form in which test frames return.
    pub returned: Returned,
    /// Requests that are each sent once before the first measurement.
    pub preload: Option<Kind>,
    /// Whether it is measured without any traffic.
    pub silent: bool,
    /// Maximum time for which its program keeps frames before it sends one back.
    pub pause: Ps,
    /// Descriptors of its receive and transmit rings, if its options set them.
    pub rings: Option<[u32; 2]>,
    /// The program's counters, if a frame counts as delivered only when the program has processed it.
    pub counting: Option<&'static Counting>,
}

/// The event by which a guest is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// The console shows this text, and all NICs then have receive enabled.
    Marker(&'static str),
    /// The guest requests a checkpoint by m5op.
    M5Checkpoint,
}
