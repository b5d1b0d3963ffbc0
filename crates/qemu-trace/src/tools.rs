//! The programs of a recording: QEMU, of one Debian suite on every host, and what loads the guest from outside. Their packages are
//! fetched, verified and cached as guests' packages are, installed nowhere, and run with their own loader and libraries.

use std::path::{Path, PathBuf};
use std::process::Command;

use doorbell_image::{BuildOptions, ImageError, Unpacked, fetch_unpacked};

/// The guests' packages are of this suite, too.
pub const SUITE: &str = "trixie";

const ROOTS: [&str; 4] = ["qemu-system-x86", "qemu-system-data", "iperf3", "redis-tools"];

/// What their libraries and scripts depend on, but programs without a window, sound or a shell do not.
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

/// The unpacked packages.
#[derive(Clone, Debug)]
pub struct Tools {
    root: PathBuf,
    libraries: PathBuf,
    loader: &'static str,
}

impl Tools {
    /// Fetches and unpacks below `cache` what is not there yet. `progress` is told what is being done.
    pub fn fetch(cache: &Path, progress: &mut dyn FnMut(&str)) -> Result<Tools, ImageError> {
        let here = std::env::consts::ARCH;
        let Some([_, architecture, libraries, loader]) = HOSTS.into_iter().find(|host| host[0] == here)
        else {
            let problem = format!("QEMU's packages have not been tried on {here}");
            return Err(ImageError::Content { image: "qemu".to_owned(), problem });
        };
        let wanted =
            Unpacked { name: "recorder", suite: SUITE, architecture, roots: &ROOTS, leave_out: &LEFT_OUT };
        let options = BuildOptions {
            cache_dir: cache.join("packages"),
            out_dir: cache.join("recorder"),
            ..BuildOptions::default()
        };
        let root = fetch_unpacked(&wanted, &options, progress)?;
        let libraries = root.join("usr/lib").join(libraries);
        Ok(Tools { root, libraries, loader })
    }

    /// One of the programs.
    pub fn program(&self, name: &str) -> Command {
        self.preloaded(name, None)
    }

    fn preloaded(&self, name: &str, library: Option<&Path>) -> Command {
        let mut command = Command::new(self.libraries.join(self.loader));
        if let Some(library) = library {
            command.arg("--preload").arg(library);
        }
        command.arg("--library-path").arg(&self.libraries).arg(self.root.join("usr/bin").join(name));
        // Or it loads modules of the host's QEMU, if there is one.
        command.env("QEMU_MODULE_DIR", &self.libraries);
        command
    }

    /// `qemu-system-x86_64`, with a plugin's library preloaded.
    pub fn qemu(&self, plugin: Option<&Path>) -> Command {
        let mut command = self.preloaded("qemu-system-x86_64", plugin);
        command.arg("-L").arg(self.root.join("usr/share/qemu"));
        command.arg("-L").arg(self.root.join("usr/share/seabios"));
        command
    }
}
