//! `doorbell config`.

use std::process::ExitCode;

use clap::Subcommand;
use doorbell_machine::PRESETS;

use crate::out::{out, outln};
use crate::run_cmd::CommonArgs;

#[derive(Subcommand)]
pub enum ConfigCommand {
    /// List the presets
    Presets,
    /// Print the whole configuration that a preset and overrides give, with its hash
    Show(CommonArgs),
    /// Print the NIC's registers, implemented and missing, as Markdown
    Registers,
}

/// Does what was asked about configurations.
pub fn config(command: &ConfigCommand) -> anyhow::Result<ExitCode> {
    match command {
        ConfigCommand::Presets => {
            for preset in PRESETS {
                outln!("{:<10} {}", preset.name, preset.summary);
            }
        }
        ConfigCommand::Show(common) => {
            let config = common.resolve(&[])?;
            out!("# config_hash = \"{}\"\n\n{}", config.hash(), config.to_toml());
        }
        ConfigCommand::Registers => out!("{}", doorbell_nic::register_reference()),
    }
    Ok(ExitCode::SUCCESS)
}
