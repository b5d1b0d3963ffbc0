//! What ran: the simulator, the images and their packages, and the boot, so that two results can be told apart.

use serde::{Deserialize, Serialize};

use crate::played::PlayedTrace;

/// What ran: enough to tell whether two results are of the same simulator and the same software.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    /// Doorbell's commit, with `-dirty` if the source had been changed; `unknown` if it was not built in a checkout.
    pub doorbell_commit: String,
    /// Each node's image: kernel, DPDK and packages with their versions and hashes.
    #[serde(default)]
    pub images: Vec<Provenance>,
    /// Hash of the checkpoint from which the measurement started, as 16 hexadecimal digits: what the boot left. Empty where nothing was
    /// booted.
    pub boot: String,
    /// The traces that were played instead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traces: Vec<PlayedTrace>,
}

impl Ran {
    /// Whether the file says it; files of the first version do not.
    pub fn is_known(&self) -> bool {
        !self.doorbell_commit.is_empty()
    }
}

/// What is known of an image's origin, for a result's summary.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Provenance {
    /// The image's name.
    pub image: String,
    /// A hash of all that it holds: the same for two images that are the same, byte for byte.
    pub image_sha256: String,
    /// SHA-256 of the recipe's files.
    pub recipe_sha256: String,
    /// The Debian suite.
    pub suite: String,
    /// Debian's name of the guest's architecture.
    pub architecture: String,
    /// The kernel's release, as `uname -r` says in the guest.
    pub kernel_release: String,
    /// The version of the kernel's package.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_version: Option<String>,
    /// The version of DPDK's packages, if the image has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dpdk_version: Option<String>,
    /// What compiled the image's own programs, if it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compiler: Option<String>,
    /// The packages that the recipe names, the kernel's and libc's, by name. All of them are in the image's manifest.
    pub packages: Vec<PackageVersion>,
}

/// A package, as a result tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PackageVersion {
    /// Binary package name.
    pub name: String,
    /// Version.
    pub version: String,
    /// SHA-256 of the `.deb` in hexadecimal, as in the suite's signed index.
    pub sha256: String,
}
