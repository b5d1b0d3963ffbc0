//! `doorbell config`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, Subcommand};
use doorbell_bench::{NetworkFile, RunConfig};
use doorbell_machine::PRESETS;

use crate::exit::Asked;
use crate::explain::{ExplainArgs, explain};
use crate::out::{out, outln};
use crate::run_args::CommonArgs;

#[derive(Subcommand)]
pub enum ConfigCommand {
    /// List the presets
    Presets,
    /// Print the whole configuration that a preset and overrides give, with its hash
    Show(Box<ShowArgs>),
    /// Tell what a parameter means, what it can be, its default, and where its value in a machine comes from
    Explain(Box<ExplainArgs>),
    /// Print the reference of all parameters, as Markdown (docs/parameters.md)
    Reference,
    /// Print the JSON schema of machines' files, for editors
    Schema,
    /// Print a NIC's registers, implemented and missing, as Markdown
    Registers {
        /// Whose: a value of nic.model
        #[arg(default_value = "82540em", value_parser = ["82540em", "82576"])]
        model: String,
    },
}

#[derive(Args)]
pub struct ShowArgs {
    /// Of the network that this TOML file describes (docs/networks.md)
    #[arg(long, value_name = "FILE")]
    network: Option<PathBuf>,
    /// All that holds for this one of its nodes
    #[arg(long, value_name = "NAME", requires = "network")]
    node: Option<String>,
    #[command(flatten)]
    common: CommonArgs,
}

/// The configuration that was asked for.
fn shown(args: &ShowArgs) -> anyhow::Result<RunConfig> {
    let Some(path) = &args.network else { return args.common.resolve(&[]) };
    let overrides = args.common.overrides(&[]);
    let config = NetworkFile::read(path)?.resolve(args.common.base()?, &overrides)?;
    let Some(name) = &args.node else { return Ok(config) };
    let Some(index) = config.node.keys().position(|known| known == name) else {
        let names: Vec<&str> = config.node.keys().map(String::as_str).collect();
        bail!("--node: there is no node \"{name}\" (nodes: {})", names.join(", "));
    };
    Ok(config.topology()?.nodes.swap_remove(index))
}

/// Does what was asked about configurations.
pub fn config(command: &ConfigCommand) -> anyhow::Result<ExitCode> {
    match command {
        ConfigCommand::Presets => {
            for preset in PRESETS {
                outln!("{:<10} {}", preset.name, preset.summary);
            }
        }
        ConfigCommand::Show(args) => {
            let config = shown(args).asked()?;
            out!("# config_hash = \"{}\"\n\n{}", config.hash(), config.to_toml());
        }
        ConfigCommand::Explain(args) => explain(args).asked()?,
        ConfigCommand::Reference => out!("{}", doorbell_bench::page()),
        ConfigCommand::Schema => outln!("{:#}", doorbell_bench::schema()),
        ConfigCommand::Registers { model } => match model.as_str() {
            "82576" => out!("{}", doorbell_nic::e82576::register_reference()),
            _ => out!("{}", doorbell_nic::e82540::register_reference()),
        },
    }
    Ok(ExitCode::SUCCESS)
}
