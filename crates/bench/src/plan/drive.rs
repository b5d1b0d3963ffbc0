//! What drives the node that is tested, where two machines stand on one cable.

use doorbell_machine::{ConfigError, CoreConfig, CoreModel, MachineConfig, node_config};
use doorbell_sim::Hertz;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::config::RunConfig;
use crate::plan::options::Options;

/// Where the load of a benchmark comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DriveKind {
    /// From a load generator in hardware.
    #[default]
    Generator,
    /// From a second node, which runs the program `drive`.
    Node,
}

/// What drives the node that is tested.
///
/// A drive node's core is functional, and its memory perfect: every instruction takes the same time. So that the test node is
/// what is measured, it is faster. Its NIC and link are as the test node's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DriveConfig {
    /// Where the load comes from: `generator` or `node`. Benchmarks that have two nodes anyway do not ask.
    pub kind: DriveKind,
    /// Clock frequency, "1MHz" to "20GHz".
    pub frequency: Hertz,
    /// Instructions a cycle, from 0.01 to 16.
    pub ipc: f64,
}

impl Default for DriveConfig {
    fn default() -> Self {
        DriveConfig { kind: DriveKind::Generator, frequency: Hertz(3_000_000_000), ipc: 4.0 }
    }
}

impl Options for DriveConfig {
    const SECTION: &'static str = "drive";

    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        // The test node is checked by itself, and of the drive node only the core is another.
        let drive = config.drive_node(1);
        drive.validate().map_err(|error| ConfigError { key: error.key.replace("core.", "drive."), ..error })
    }
}

impl RunConfig {
    /// The parts of so many machines on cables: the test node, and those that drive it, each behind one of its ports.
    pub fn nodes<const COUNT: usize>(&self) -> [MachineConfig; COUNT] {
        std::array::from_fn(|node| if node == 0 { self.machine() } else { self.drive_node(node) })
    }

    fn drive_node(&self, node: usize) -> MachineConfig {
        let (test, faster) = (self.machine(), self.options::<DriveConfig>());
        let mut drive = node_config(&test, node);
        drive.platform.nics = 1;
        // What is told of the test node's port holds for the one at the cable's other end.
        drive.port = drive.ports().alone(node - 1);
        drive.hart.clear();
        drive.beside = 0;
        drive.core = CoreConfig {
            model: CoreModel::Functional,
            frequency: faster.frequency,
            ipc: faster.ipc,
            ..test.core.clone()
        };
        drive
    }
}
