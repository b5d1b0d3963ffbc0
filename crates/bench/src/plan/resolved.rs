//! A validated configuration, from which runs are planned.

use std::ops::Deref;

use doorbell_machine::ConfigError;

use crate::plan::config::RunConfig;

/// The configuration of a run, validated once. It does not change: [`Resolved::with_change`] makes another one.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved(RunConfig);

impl Resolved {
    /// Validates a configuration.
    pub fn new(config: RunConfig) -> Result<Resolved, ConfigError> {
        config.validate()?;
        Ok(Resolved(config))
    }

    /// The configuration with a change, validated again.
    pub fn with_change(self, change: impl FnOnce(&mut RunConfig)) -> Result<Resolved, ConfigError> {
        let Resolved(mut config) = self;
        change(&mut config);
        Resolved::new(config)
    }

    /// As [`RunConfig::with_attachment_defaults`].
    pub(crate) fn with_attachment_defaults(self) -> Result<Resolved, ConfigError> {
        self.0.with_attachment_defaults().map(Resolved)
    }
}

impl Deref for Resolved {
    type Target = RunConfig;

    fn deref(&self) -> &RunConfig {
        &self.0
    }
}
