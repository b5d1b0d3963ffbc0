//! `--log` and `--log-file`: what the simulated machine tells about itself.

use std::fs::File;
use std::io::{BufWriter, Write, stderr};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use doorbell_sim::log::{self, COMPONENTS, LEVELS, LogFilter};

/// The heading of options that every command has.
pub const EVERYWHERE: &str = "Of every command";

/// The options.
#[derive(Args)]
pub struct LogArgs {
    /// Tell what components do (`doorbell help log`)
    ///
    /// Such as nic=debug,pcie=trace.
    #[arg(long, global = true, help_heading = EVERYWHERE, env = "DOORBELL_LOG", value_name = "COMPONENT=LEVEL,…", value_parser = LogFilter::parse, hide_env_values = true)]
    log: Option<LogFilter>,
    /// Where the log goes instead of standard error
    #[arg(long, global = true, value_name = "FILE", help_heading = EVERYWHERE, hide_short_help = true)]
    log_file: Option<PathBuf>,
}

/// What `doorbell help log` says.
pub fn help() -> String {
    let levels: Vec<&str> = LEVELS.iter().map(|level| level.1).collect();
    let components: Vec<String> =
        COMPONENTS.iter().map(|(_, name, tells)| format!("  {name:<9} {tells}")).collect();
    format!(
        "--log COMPONENT=LEVEL,… tells what these components of the machine do, one line an event with its simulated time in seconds. It goes to \
         standard error, or where --log-file says. Levels: {}; each includes those before it. A later word wins, and \
         \"all\" is every component: all=info,nic=trace. The run is the same with and without.\n\nComponents:\n{}",
        levels.join(", "),
        components.join("\n")
    )
}

/// Ends the log with the command, however that ends.
pub struct Log(());

impl LogArgs {
    /// Begins the log, if one is asked for.
    pub fn begin(&self) -> anyhow::Result<Log> {
        let Some(wishes) = self.log else {
            anyhow::ensure!(
                self.log_file.is_none(),
                "--log-file says where the log goes, but not what to tell; add for instance --log nic=debug"
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
        log::begin(wishes, out)?;
        Ok(Log(()))
    }
}

impl Log {
    /// The end of the command: whether all was written.
    pub fn end(self) -> anyhow::Result<()> {
        log::end().context("the log is not complete")
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // After `end` there is nothing to do; after a panic what is there is better than nothing.
        let _ = log::end();
    }
}
