//! Programs for recording: QEMU and load generators, the same on every host ([`HostPrograms`]).

use std::path::Path;
use std::process::Command;

use doorbell_image::{HostPrograms, ImageError};

use crate::target::Target;

const QEMU_DATA: &str = "qemu-system-data";
/// Packages of load generators.
const LOAD_GENERATORS: [&str; 3] = ["iperf3", "netperf", "redis-tools"];

/// The unpacked programs.
#[derive(Clone, Debug)]
pub struct Tools {
    target: &'static Target,
    qemu: HostPrograms,
    beside: HostPrograms,
}

impl Tools {
    /// Fetches and unpacks the programs below `cache` if necessary. `progress` receives messages.
    pub fn fetch(
        target: &'static Target,
        cache: &Path,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Tools, ImageError> {
        let mut roots = target.packages.to_vec();
        roots.push(QEMU_DATA);
        let qemu = HostPrograms::fetch(&format!("recorder-{}", target.name), &roots, cache, progress)?;
        let beside = HostPrograms::fetch("recorder-beside", &LOAD_GENERATORS, cache, progress)?;
        Ok(Tools { target, qemu, beside })
    }

    /// Identifies the version of QEMU: the name of its folder.
    pub fn version(&self) -> String {
        self.qemu.root().file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns whether this is one of the companion programs.
    pub fn has(&self, name: &str) -> bool {
        !name.is_empty() && self.beside.root().join("usr/bin").join(name).is_file()
    }

    /// Command for a companion program.
    pub fn program(&self, name: &str) -> Command {
        self.beside.command(name)
    }

    /// Command for QEMU, with the plugin's library preloaded.
    pub fn qemu(&self, plugin: Option<&Path>) -> Command {
        let mut command = self.qemu.preloading(plugin, &format!("qemu-system-{}", self.target.name));
        for folder in self.target.firmware {
            command.arg("-L").arg(self.qemu.root().join("usr/share").join(folder));
        }
        command
    }
}
