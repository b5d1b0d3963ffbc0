//! The programs of a recording: QEMU, and what loads the guest from outside, the same on every host ([`HostPrograms`]).

use std::path::Path;
use std::process::Command;

use doorbell_image::{HostPrograms, ImageError};

const ROOTS: [&str; 4] = ["qemu-system-x86", "qemu-system-data", "iperf3", "redis-tools"];

/// The unpacked programs.
#[derive(Clone, Debug)]
pub struct Tools(HostPrograms);

impl Tools {
    /// Fetches and unpacks below `cache` what is not there yet. `progress` is told what is being done.
    pub fn fetch(cache: &Path, progress: &mut dyn FnMut(&str)) -> Result<Tools, ImageError> {
        HostPrograms::fetch("recorder", &ROOTS, cache, progress).map(Tools)
    }

    /// Whether this is one of the programs.
    pub fn has(&self, name: &str) -> bool {
        !name.is_empty() && self.0.root().join("usr/bin").join(name).is_file()
    }

    /// One of the programs.
    pub fn program(&self, name: &str) -> Command {
        self.0.command(name)
    }

    /// `qemu-system-x86_64`, with a plugin's library preloaded.
    pub fn qemu(&self, plugin: Option<&Path>) -> Command {
        let mut command = self.0.preloading(plugin, "qemu-system-x86_64");
        command.arg("-L").arg(self.0.root().join("usr/share/qemu"));
        command.arg("-L").arg(self.0.root().join("usr/share/seabios"));
        command
    }
}
