//! Configurations that nobody tried.

use doorbell_harness::{config, sweep};

#[test]
fn a_configuration_is_refused_by_key_or_runs() {
    sweep::random("configs", 3000, (16, 96), config::run);
    sweep::seeds("config", config::run);
}
