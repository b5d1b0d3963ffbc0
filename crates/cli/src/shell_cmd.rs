//! `doorbell completions` and `doorbell man`: what shells and `man` know of the command, from the command's own definitions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use doorbell_files::replace;

use crate::Cli;
use crate::out::{out, outln};

/// Where shells and `man` look for such files, for one user.
const COMPLETIONS_HELP: &str = "\
Where each shell looks, for one user:
  bash  doorbell completions bash > ~/.local/share/bash-completion/completions/doorbell
  zsh   doorbell completions zsh > DIR/_doorbell    where DIR is one of $fpath
  fish  doorbell completions fish > ~/.config/fish/completions/doorbell.fish";

/// The manual's section of commands.
const SECTION: &str = "1";

/// Print what completes the command's words in a shell.
#[derive(Args, Debug)]
#[command(after_help = COMPLETIONS_HELP)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Write the command's manual pages.
#[derive(Args, Debug)]
#[command(
    after_help = "For one user: doorbell man ~/.local/share/man/man1, then man doorbell, man doorbell-run"
)]
pub struct ManArgs {
    /// The folder for doorbell.1 and a page a subcommand; it is made if it is not there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub fn completions(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "doorbell", &mut text);
    out!("{}", String::from_utf8_lossy(&text));
    Ok(ExitCode::SUCCESS)
}

pub fn man(args: &ManArgs) -> anyhow::Result<ExitCode> {
    let folder = &args.folder;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut whole = Cli::command();
    // So that every page has its command's whole name, and the options that all have.
    whole.build();
    let count = write_pages(&whole, "doorbell", folder)?;
    outln!("{count} pages in {}", folder.display());
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of a command and those of its subcommands; how many.
fn write_pages(command: &Command, name: &str, folder: &Path) -> anyhow::Result<u64> {
    let mut page = Vec::new();
    Man::new(command.clone()).title(name).section(SECTION).render(&mut page)?;
    let path = folder.join(format!("{name}.{SECTION}"));
    replace(&path, &page).with_context(|| format!("cannot write {}", path.display()))?;
    let mut count = 1;
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
    {
        count += write_pages(below, &format!("{name}-{}", below.get_name()), folder)?;
    }
    Ok(count)
}
