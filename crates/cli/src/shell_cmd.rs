//! `doorbell completions` and `doorbell man`: shell completions and manual pages, generated from the
//! command's definitions.

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

/// Locations of completion files for a single user.
const COMPLETIONS_HELP: &str = "\
Locations for a single user:
  bash  doorbell completions bash > ~/.local/share/bash-completion/completions/doorbell
  zsh   doorbell completions zsh > DIR/_doorbell    where DIR is one of $fpath
  fish  doorbell completions fish > ~/.config/fish/completions/doorbell.fish";

/// Manual section for commands.
const SECTION: &str = "1";

/// Print shell completions.
#[derive(Args, Debug)]
#[command(after_help = COMPLETIONS_HELP)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Write manual pages.
#[derive(Args, Debug)]
#[command(
    after_help = "For one user: doorbell man ~/.local/share/man/man1, then man doorbell, man doorbell-run"
)]
pub struct ManArgs {
    /// Folder for doorbell.1 and one page per subcommand; it is created if it does not exist
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
    // Gives every page its full command name and the global options.
    whole.build();
    let count = write_pages(&whole, "doorbell", folder)?;
    outln!("{count} pages in {}", folder.display());
    Ok(ExitCode::SUCCESS)
}

/// Writes the pages of a command and its subcommands. Returns their number.
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
