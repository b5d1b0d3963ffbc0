//! Traffic source of the tested node: a load generator, or a second node on the same cable.

use doorbell_machine::{ConfigError, CoreConfig, CoreModel, MachineConfig, node_config};
use doorbell_sim::{Hertz, config};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::config::RunConfig;
use crate::plan::options::Options;

/// Source of a benchmark's load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DriveKind {
    /// A hardware load generator.
    #[default]
    Generator,
    /// A second node, which runs the program `drive`.
    Node,
}

config! {
    /// Traffic source of the tested node.
    ///
    /// A drive node has a functional core and perfect memory: every instruction takes the same time. It is
    /// faster than the test node, so that the test node is the bottleneck. Its NIC and link are as the test
    /// node's.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct DriveConfig {
        /// Source of the load: `generator` or `node`. Benchmarks that always have two nodes ignore it.
        pub kind: DriveKind = DriveKind::Generator,
        /// Clock frequency, "1MHz" to "20GHz".
        pub frequency: Hertz = Hertz(3_000_000_000),
        /// Instructions per cycle, from 0.01 to 16.
        pub ipc: f64 = 4.0,
    }
}

impl Options for DriveConfig {
    const SECTION: &'static str = "drive";

    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        // The test node is checked separately, and the drive node differs from it only in the core.
        let drive = config.drive_node(1);
        drive.validate().map_err(|error| ConfigError { key: error.key.replace("core.", "drive."), ..error })
    }
}

impl RunConfig {
    /// The configurations of `COUNT` connected machines: the test node, and the drive nodes, one at each of
    /// its ports.
    pub fn nodes<const COUNT: usize>(&self) -> [MachineConfig; COUNT] {
        std::array::from_fn(|node| if node == 0 { self.machine() } else { self.drive_node(node) })
    }

    fn drive_node(&self, node: usize) -> MachineConfig {
        let (test, faster) = (self.machine(), self.options::<DriveConfig>());
        let mut drive = node_config(&test, node);
        drive.platform.nics = 1;
        // The drive node's only port has the settings of the test node's port at the other end of the cable.
        drive.port = drive.ports().as_only_port(node - 1);
        drive.hart.clear();
        drive.trace_cores = 0;
        drive.core = CoreConfig {
            model: CoreModel::Functional,
            frequency: faster.frequency,
            ipc: faster.ipc,
            ..test.core.clone()
        };
        drive
    }
}
