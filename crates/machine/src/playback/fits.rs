//! Whether a configuration fits what is played. What nothing would come of is refused, with what can be done instead.

use super::plan::Plan;
use crate::config::{ConfigError, MachineConfig};

/// See the module.
pub(super) fn check(config: &MachineConfig, plan: &Plan) -> Result<(), ConfigError> {
    let harts = plan.harts();
    if config.platform.harts != harts {
        let problem = format!("the traces have {harts} harts; play them with platform.harts={harts}");
        return Err(ConfigError::new("platform.harts", problem));
    }
    if config.memory.dca.drops_returned() {
        let problem = "a trace does not tell which buffers are returned; \"sent\" can be asked of it";
        return Err(ConfigError::new("memory.dca.policy.invalidate", problem));
    }
    if config.memory.dca.tells_queues_apart() {
        let problem =
            "a trace does not tell a device's queues apart; take \"l2\" with l2_hart, and ways of the device";
        return Err(ConfigError::new("memory.dca.queues", problem));
    }
    if !config.memory.dca.schedule.is_empty() {
        let problem = "only an executed measurement has one; play the trace once with each policy (memory.dca.policy, memory.dca.devices)";
        return Err(ConfigError::new("memory.dca.schedule", problem));
    }
    plan.pages.validate()
}
