//! Whether a configuration fits what is played. What nothing would come of is refused, with what can be done instead.

use super::device_replay::DeviceReplay;
use super::plan::Plan;
use crate::config::{ConfigError, CoreModel, MachineConfig, NICS_MAX};

/// See the module.
pub(super) fn check(config: &MachineConfig, plan: &Plan) -> Result<(), ConfigError> {
    if config.core.model != CoreModel::Timed {
        let problem = "what is played is priced, and this machine has no times; set core.model=timed, or take another preset";
        return Err(ConfigError::new("core.model", problem));
    }
    let harts = plan.harts();
    if config.platform.harts != harts {
        let problem = format!("the traces have {harts} harts; play them with platform.harts={harts}");
        return Err(ConfigError::new("platform.harts", problem));
    }
    if config.memory.dca.drops_returned() {
        let problem = "a trace does not tell which buffers are returned; \"sent\" can be asked of it";
        return Err(ConfigError::new("memory.dca.policy.invalidate", problem));
    }
    if config.memory.dca.depends_on_queue() {
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

/// Each NIC has a port, so that none shares another's link without a word, unless there are more than a machine has.
pub(super) fn check_nics(config: &MachineConfig, replays: &[DeviceReplay]) -> Result<(), ConfigError> {
    let nics =
        replays.iter().map(|replay| replay.survey.nics.len()).max().unwrap_or(0).min(NICS_MAX as usize);
    if nics <= (config.platform.nics as usize).max(1) {
        return Ok(());
    }
    let problem = format!(
        "{}; what is played has {nics} NICs, each of which has a link of its own: leave it out, or say {nics} at least",
        config.platform.nics
    );
    Err(ConfigError::new("platform.nics", problem))
}
