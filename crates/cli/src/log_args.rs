//! `--log` and `--log-file`: log of the simulated machine.

use std::fs::File;
use std::io::{BufWriter, Write, stderr};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use doorbell_sim::log::{self, COMPONENTS, LEVELS, LogFilter};

/// Help heading of options that every command has.
pub const EVERYWHERE: &str = "Options of every command";

/// The options.
#[derive(Args)]
pub struct LogArgs {
    /// Log events of components (`doorbell help log`)
    ///
    /// For example nic=debug,pcie=trace.
    #[arg(long, global = true, help_heading = EVERYWHERE, env = "DOORBELL_LOG", value_name = "COMPONENT=LEVEL,…", value_parser = LogFilter::parse, hide_env_values = true)]
    log: Option<LogFilter>,
    /// File for the log instead of standard error
    #[arg(long, global = true, value_name = "FILE", help_heading = EVERYWHERE, hide_short_help = true)]
    log_file: Option<PathBuf>,
}

/// Text of `doorbell help log`.
pub fn help() -> String {
    let levels: Vec<&str> = LEVELS.iter().map(|level| level.1).collect();
    let components: Vec<String> =
        COMPONENTS.iter().map(|(_, name, description)| format!("  {name:<9} {description}")).collect();
    format!(
        "--log COMPONENT=LEVEL,… logs events of these components of the machine, one line per event with its simulated time in seconds. The log goes to \
         standard error, or to the file of --log-file. Levels: {}; each includes those before it. A later entry overrides an earlier one, and \
         \"all\" is every component: all=info,nic=trace. Logging does not change the simulation.\n\nComponents:\n{}",
        levels.join(", "),
        components.join("\n")
    )
}

/// Guard that flushes the log when the command ends in any way.
pub struct Log(());

impl LogArgs {
    /// Starts the log, if requested.
    pub fn begin(&self) -> anyhow::Result<Log> {
        let Some(filter) = self.log else {
            anyhow::ensure!(
                self.log_file.is_none(),
                "--log-file has no effect without --log; add, for example, --log nic=debug"
            );
            return Ok(Log(()));
        };
        let out: Box<dyn Write + Send> = match &self.log_file {
            Some(path) => {
                let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
                Box::new(BufWriter::with_capacity(1 << 18, file))
            }
            None => Box::new(stderr()),
        };
        log::begin(filter, out)?;
        Ok(Log(()))
    }
}

impl Log {
    /// Ends the log; an error if it is incomplete.
    pub fn end(self) -> anyhow::Result<()> {
        log::end().context("the log is incomplete")
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // No effect after `end`; after a panic, keeps the log written so far.
        let _ = log::end();
    }
}
