//! Programs of one Debian suite that run on the host beside its own, so that they are the same versions everywhere: their packages
//! are fetched, verified and cached as guests' packages are, installed nowhere, and run with their own loader and libraries.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::builder::BuildOptions;
use crate::error::ImageError;
use crate::unpacked::{Unpacked, fetch_unpacked};

/// What the libraries and scripts of QEMU and servers depend on, but programs without a window, sound or a shell do not.
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

/// A kind of host for which there are packages: Rust's name of it, Debian's, that of its libraries' folder, its loader.
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
    /// The suite that they are of, as are the guests' packages.
    pub const SUITE: &str = "trixie";

    /// Fetches the packages `roots`, and what they depend on, and unpacks them into the folder `name` below `cache`, unless they are
    /// there. `progress` is told what is being done.
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
                "nobody has tried QEMU's packages on {here}: add it to HOSTS in crates/image/src/host_programs.rs"
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

    /// The folder of what was unpacked.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// One of the programs in `usr/bin`.
    pub fn command(&self, program: &str) -> Command {
        self.preloading(None, program)
    }

    /// One of them, with a library preloaded.
    pub fn preloading(&self, library: Option<&Path>, program: &str) -> Command {
        let mut command = Command::new(self.libraries.join(self.loader));
        if let Some(library) = library {
            command.arg("--preload").arg(library);
        }
        command.arg("--library-path").arg(&self.libraries).arg(self.root.join("usr/bin").join(program));
        // Or it loads modules of the host's QEMU, if there is one.
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
