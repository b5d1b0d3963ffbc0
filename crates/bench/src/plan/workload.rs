//! What a machine boots for a measurement, and how its guest says that it is ready.

use doorbell_loadgen::{Kind, Returned};
use doorbell_sim::Ps;

use crate::plan::counting::Counting;

/// Rate of a measurement without traffic, in results.
pub const NO_TRAFFIC: &str = "none";

/// What a session boots, and when it is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Its name in results and among checkpoints.
    pub name: String,
    /// A built-in image, or the path of a recipe.
    pub image: String,
    /// The words that it adds to the kernel's command line.
    pub words: String,
    /// When it is ready.
    pub ready: Ready,
    /// What it does to test frames.
    pub returned: Returned,
    /// Requests that are sent, each once, before the first measurement.
    pub preload: Option<Kind>,
    /// Whether it is measured without any traffic.
    pub silent: bool,
    /// The longest time for which it works on frames before it sends one back, if its options say so.
    pub pause: Ps,
    /// Descriptors of its receive and transmit rings, where its options say so.
    pub rings: Option<[u32; 2]>,
    /// What its program counts, where a frame is delivered only when the program has seen it.
    pub counting: Option<&'static Counting>,
}

/// How a guest says that it is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// The console shows this, and then every NIC receives.
    Marker(&'static str),
    /// It asks for a checkpoint by m5op.
    M5Checkpoint,
}
