//! Checks that a configuration suits the traces. Settings without effect are rejected, and the message names
//! an alternative.

use super::device_replay::DeviceReplay;
use super::plan::Plan;
use crate::config::{ConfigError, CoreModel, MachineConfig, NICS_MAX};

/// Checks a configuration against a plan.
pub(super) fn check(config: &MachineConfig, plan: &Plan) -> Result<(), ConfigError> {
    if config.core.model != CoreModel::Timed {
        let problem = "traces need a machine with timing; set core.model=timed, or use another preset";
        return Err(ConfigError::new("core.model", problem));
    }
    let harts = plan.harts();
    if config.platform.harts != harts {
        let problem = format!("the traces have {harts} harts; play them with platform.harts={harts}");
        return Err(ConfigError::new("platform.harts", problem));
    }
    if config.memory.dca.drops_returned() {
        let problem = "a trace does not record which buffers are returned; use \"sent\"";
        return Err(ConfigError::new("memory.dca.policy.invalidate", problem));
    }
    if config.memory.dca.depends_on_queue() {
        let problem =
            "a trace does not record a device's queues; use \"l2\" with l2_hart, and per-device ways";
        return Err(ConfigError::new("memory.dca.queues", problem));
    }
    if !config.memory.dca.schedule.is_empty() {
        let problem = "a trace is played with one policy; play it once with each policy (memory.dca.policy, memory.dca.devices)";
        return Err(ConfigError::new("memory.dca.schedule", problem));
    }
    plan.pages.validate()
}

/// Checks that each NIC has a port, up to a machine's maximum, so that none silently shares a link.
pub(super) fn check_nics(config: &MachineConfig, replays: &[DeviceReplay]) -> Result<(), ConfigError> {
    let nics =
        replays.iter().map(|replay| replay.survey.nics.len()).max().unwrap_or(0).min(NICS_MAX as usize);
    if nics <= (config.platform.nics as usize).max(1) {
        return Ok(());
    }
    let problem = format!(
        "{}; the traces have {nics} NICs, each with its own link; remove this setting, or set it to at least {nics}",
        config.platform.nics
    );
    Err(ConfigError::new("platform.nics", problem))
}
