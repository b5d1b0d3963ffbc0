//! `doorbell config`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, Subcommand};
use doorbell_bench::{NetworkFile, RunConfig};
use doorbell_machine::PRESETS;

use crate::exit::OrUsageError;
use crate::explain::{ExplainArgs, explain};
use crate::out::{out, outln};
use crate::run_args::CommonArgs;

#[derive(Subcommand)]
pub enum ConfigCommand {
    /// List the presets
    Presets,
    /// Print the complete configuration that results from a preset and overrides, with its hash
    Show(Box<ShowArgs>),
    /// Explain a parameter: meaning, range, default, and the source of its value in a machine
    Explain(Box<ExplainArgs>),
    /// Print the reference of all parameters, as Markdown (docs/parameters.md)
    Reference,
    /// Print the JSON schema of machine files, for editors
    Schema,
    /// Print a NIC's registers, implemented and missing, as Markdown
    Registers {
        /// NIC model: a value of nic.model
        #[arg(default_value = "82540em", value_parser = ["82540em", "82576"])]
        model: String,
    },
}

#[derive(Args)]
pub struct ShowArgs {
    /// For the network described by this TOML file (docs/networks.md)
    #[arg(long, value_name = "FILE")]
    network: Option<PathBuf>,
    /// The effective configuration of this node
    #[arg(long, value_name = "NAME", requires = "network")]
    node: Option<String>,
    #[command(flatten)]
    common: CommonArgs,
}

/// The requested configuration.
fn shown(args: &ShowArgs) -> anyhow::Result<RunConfig> {
    let Some(path) = &args.network else { return Ok((*args.common.resolve(&[])?).clone()) };
    let overrides = args.common.overrides(&[]);
    let config = NetworkFile::read(path)?.resolve(args.common.base()?, &overrides)?;
    let Some(name) = &args.node else { return Ok((*config).clone()) };
    let Some(index) = config.node.keys().position(|node| node == name) else {
        let names: Vec<&str> = config.node.keys().map(String::as_str).collect();
        bail!("--node: there is no node \"{name}\" (nodes: {})", names.join(", "));
    };
    Ok(config.topology()?.nodes.swap_remove(index))
}

/// Runs a subcommand on configurations.
pub fn config(command: &ConfigCommand) -> anyhow::Result<ExitCode> {
    match command {
        ConfigCommand::Presets => {
            for preset in PRESETS {
                outln!("{:<10} {}", preset.name, preset.summary);
            }
        }
        ConfigCommand::Show(args) => {
            let config = shown(args).or_usage_error()?;
            out!("# config_hash = \"{}\"\n\n{}", config.hash(), config.to_toml());
        }
        ConfigCommand::Explain(args) => explain(args).or_usage_error()?,
        ConfigCommand::Reference => out!("{}", doorbell_bench::page()),
        ConfigCommand::Schema => outln!("{:#}", doorbell_bench::schema()),
        ConfigCommand::Registers { model } => match model.as_str() {
            "82576" => out!("{}", doorbell_nic::e82576::register_reference()),
            _ => out!("{}", doorbell_nic::e82540::register_reference()),
        },
    }
    Ok(ExitCode::SUCCESS)
}
