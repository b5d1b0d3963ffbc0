//! Runs the host's programs: found first, in the C locale, with a minimal environment, within bounds
//! ([`crate::confine`]), and with their last lines of output in the error message.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::confine::{self, Bounds};
use crate::error::ImageError;
use crate::interrupt;

/// A program that builds need, and the Debian package that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tool {
    pub name: &'static str,
    pub package: &'static str,
}

pub(crate) const APT_GET: Tool = Tool { name: "apt-get", package: "apt" };
pub(crate) const APT_CACHE: Tool = Tool { name: "apt-cache", package: "apt" };
/// Outside the PATH.
pub(crate) const APT_HELPER: Tool = Tool { name: "/usr/lib/apt/apt-helper", package: "apt" };
pub(crate) const APT_CONFIG: Tool = Tool { name: "apt-config", package: "apt" };
pub(crate) const DPKG_DEB: Tool = Tool { name: "dpkg-deb", package: "dpkg" };
pub(crate) const GPGV: Tool = Tool { name: "gpgv", package: "gpgv" };
pub(crate) const TAR: Tool = Tool { name: "tar", package: "tar" };
pub(crate) const XZ: Tool = Tool { name: "xz", package: "xz-utils" };
/// The programs that fetch and unpack packages.
pub(crate) const FETCHING: [Tool; 6] = [APT_GET, APT_CACHE, APT_CONFIG, DPKG_DEB, GPGV, XZ];

const SYSTEM_PATH: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// The environment variables with apt's proxies, each also in upper case.
const PROXIES: [&str; 5] = ["http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"];
/// Number of last lines shown of a failed program.
const LINES_SHOWN: usize = 12;

/// Fails on the first of the tools that is not in `search_path` (the PATH variable).
pub(crate) fn require(tools: &[Tool], search_path: &OsStr) -> Result<(), ImageError> {
    for tool in tools {
        if !std::env::split_paths(search_path).any(|dir| is_program(&dir.join(tool.name))) {
            return Err(ImageError::MissingTool { tool: tool.name, package: tool.package });
        }
    }
    Ok(())
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The folders to search for programs: the user's PATH without relative folders, which depend on the working
/// folder, and the system's folders.
pub(crate) fn search_path() -> OsString {
    let users = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&users).filter(|dir| dir.is_absolute()).collect();
    for folder in SYSTEM_PATH {
        if !folders.iter().any(|known| known == Path::new(folder)) {
            folders.push(folder.into());
        }
    }
    std::env::join_paths(folders).expect("the folders come from such a list")
}

/// A command with an empty standard input, the C locale and no other environment variables than PATH.
pub(crate) fn command(tool: Tool) -> Command {
    let mut command = Command::new(tool.name);
    command.env_clear().env("PATH", search_path()).env("LC_ALL", "C").stdin(Stdio::null());
    command
}

/// A command with the proxies of the user's environment, for programs that use the network.
pub(crate) fn network_command(tool: Tool) -> Command {
    let mut command = command(tool);
    let names = PROXIES.iter().flat_map(|name| [(*name).to_owned(), name.to_uppercase()]);
    command.envs(names.filter_map(|name| Some((name.clone(), std::env::var_os(name)?))));
    command
}

/// Runs a command to its end and returns its standard output. `what` names the action in the error message.
pub(crate) fn run(command: &mut Command, what: &str) -> Result<Vec<u8>, ImageError> {
    finish(command, None, what, |_| "")
}

/// Like [`run`], within bounds.
pub(crate) fn run_within(bounds: &Bounds, command: &mut Command, what: &str) -> Result<Vec<u8>, ImageError> {
    finish(command, Some(bounds), what, |_| "")
}

/// Like [`run_within`], with a hint that depends on what the program printed.
pub(crate) fn run_with_hint(
    bounds: &Bounds,
    command: &mut Command,
    what: &str,
    hint: impl Fn(&str) -> &'static str,
) -> Result<Vec<u8>, ImageError> {
    finish(command, Some(bounds), what, hint)
}

fn finish(
    command: &mut Command,
    bounds: Option<&Bounds>,
    what: &str,
    hint: impl Fn(&str) -> &'static str,
) -> Result<Vec<u8>, ImageError> {
    interrupt::check()?;
    let program = Path::new(command.get_program()).to_owned();
    let output = confine::output(command, bounds).map_err(ImageError::io("run", &program))?;
    // Ctrl-C signals all processes of a terminal, and one of them may end before this process handles the
    // signal.
    let by_user = matches!(output.status.signal(), Some(signal) if [Signal::INT, Signal::TERM].map(Signal::as_raw).contains(&signal));
    if by_user || interrupt::is_requested() {
        return Err(ImageError::Interrupted);
    }
    if output.status.success() {
        return Ok(output.stdout);
    }
    let printed = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    let printed = String::from_utf8_lossy(&printed);
    let lines: Vec<&str> = printed.lines().collect();
    Err(ImageError::Tool {
        what: what.to_owned(),
        status: output.status.to_string(),
        hint: hint(&printed).to_owned(),
        output: lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHELL: Tool = Tool { name: "sh", package: "dash" };

    #[test]
    fn a_missing_tool_is_named_with_its_package() {
        let empty = tempfile::tempdir().unwrap();
        let error = require(&[DPKG_DEB], empty.path().as_os_str()).unwrap_err().to_string();
        assert!(error.contains("dpkg-deb") && error.contains("apt-get install dpkg"), "{error}");
        assert!(require(&[XZ], OsStr::new("")).unwrap_err().to_string().contains("xz-utils"));
        assert!(require(&[SHELL], OsStr::new("/usr/bin:/bin")).is_ok());
    }

    #[test]
    fn a_failed_commands_error_has_its_status_last_lines_and_the_hint() {
        let mut failing = command(SHELL);
        failing.args([
            "-c",
            "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do echo line $i; done; echo the end >&2; exit 3",
        ]);
        let hint = |printed: &str| if printed.contains("line 1\n") { "; try this" } else { "" };
        let error = finish(&mut failing, None, "a test", hint).unwrap_err().to_string();
        assert!(error.starts_with("a test failed (exit status: 3); try this"), "{error}");
        assert!(error.ends_with("line 14\nthe end") && !error.contains("line 2\n"), "{error}");
    }
}
