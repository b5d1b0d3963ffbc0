//! Programs from one Debian suite that run on the host, so that their versions are the same everywhere. Their
//! packages are fetched, verified and cached like guests' packages. They are not installed: the programs run
//! with their own loader and libraries.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::builder::BuildOptions;
use crate::error::ImageError;
use crate::unpacked::{Unpacked, fetch_unpacked};

/// Dependencies of QEMU, servers and their libraries that programs without a window, sound or a shell do not
/// need.
const LEFT_OUT: [&str; 9] = [
    "adduser",
    "debconf*",
    "libsasl2-modules*",
    "lsb-base",
    "media-types",
    "openssl-provider-legacy",
    "perl*",
    "qemu-system-common",
    "sysvinit-utils",
];

/// A supported host: Rust's and Debian's name of its architecture, its library folder, its loader.
const HOSTS: [[&str; 4]; 2] = [
    ["x86_64", "amd64", "x86_64-linux-gnu", "ld-linux-x86-64.so.2"],
    ["aarch64", "arm64", "aarch64-linux-gnu", "ld-linux-aarch64.so.1"],
];

/// The unpacked packages of some programs.
#[derive(Clone, Debug)]
pub struct HostPrograms {
    root: PathBuf,
    libraries: PathBuf,
    loader: &'static str,
}

impl HostPrograms {
    /// The suite of these packages, the same as the guests'.
    pub const SUITE: &str = "trixie";

    /// Fetches the packages `roots` and their dependencies and unpacks them into the folder `name` below
    /// `cache`, unless they are already there. Reports each step to `progress`.
    pub fn fetch(
        name: &str,
        roots: &[&str],
        cache: &Path,
        progress: &mut dyn FnMut(&str),
    ) -> Result<HostPrograms, ImageError> {
        let here = std::env::consts::ARCH;
        let Some([_, architecture, libraries, loader]) = HOSTS.into_iter().find(|host| host[0] == here)
        else {
            let problem = format!(
                "QEMU's packages are untested on {here}: try them, and add it to HOSTS in crates/image/src/host_programs.rs"
            );
            return Err(ImageError::Content { image: name.to_owned(), problem });
        };
        let wanted = Unpacked { name, suite: Self::SUITE, architecture, roots, leave_out: &LEFT_OUT };
        let options = BuildOptions {
            cache_dir: cache.join("packages"),
            out_dir: cache.join(name),
            ..BuildOptions::default()
        };
        let root = fetch_unpacked(&wanted, &options, progress)?;
        let libraries = root.join("usr/lib").join(libraries);
        Ok(HostPrograms { root, libraries, loader })
    }

    /// The folder with the unpacked packages.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A command that runs a program of `usr/bin`.
    pub fn command(&self, program: &str) -> Command {
        self.preloading(None, program)
    }

    /// Like [`Self::command`], with a library preloaded.
    pub fn preloading(&self, library: Option<&Path>, program: &str) -> Command {
        let mut command = Command::new(self.libraries.join(self.loader));
        if let Some(library) = library {
            command.arg("--preload").arg(library);
        }
        command.arg("--library-path").arg(&self.libraries).arg(self.root.join("usr/bin").join(program));
        // Without this, QEMU would load modules of the host's QEMU, if it is installed.
        command.env("QEMU_MODULE_DIR", &self.libraries);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &Command) -> Vec<&str> {
        let all = std::iter::once(command.get_program()).chain(command.get_args());
        all.map(|word| word.to_str().unwrap()).collect()
    }

    #[test]
    fn a_program_runs_with_its_own_loader_and_libraries() {
        let programs = HostPrograms { root: "/r".into(), libraries: "/r/usr/lib/x".into(), loader: "ld.so" };
        let expected = ["/r/usr/lib/x/ld.so", "--library-path", "/r/usr/lib/x", "/r/usr/bin/p"];
        assert_eq!(words(&programs.command("p")), expected);
        let command = programs.preloading(Some(Path::new("/l.so")), "p");
        assert_eq!(words(&command)[..4], [expected[0], "--preload", "/l.so", expected[1]]);
    }
}
