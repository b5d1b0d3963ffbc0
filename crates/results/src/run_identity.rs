//! Identity of a run: simulator version, images and packages, boot and traces, to distinguish results.

use serde::{Deserialize, Serialize};

use crate::played::PlayedTrace;

/// Identity of a run: enough to decide whether two results used the same simulator and the same software.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunIdentity {
    /// Doorbell's commit, with `-dirty` if the source was modified; `unknown` if it was not built in a
    /// checkout.
    pub doorbell_commit: String,
    /// Each node's image: kernel, DPDK and packages with their versions and hashes.
    #[serde(default)]
    pub images: Vec<Provenance>,
    /// Hash of the checkpoint from which the measurement started, as 16 hexadecimal digits; it covers the
    /// state after boot. Empty if nothing was booted.
    pub boot: String,
    /// The traces that were played instead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traces: Vec<PlayedTrace>,
}

impl RunIdentity {
    /// Whether the file has this information; files of the first version do not.
    pub fn is_known(&self) -> bool {
        !self.doorbell_commit.is_empty()
    }
}

/// An image's origin, as recorded in a result's summary.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Provenance {
    /// The image's name.
    pub image: String,
    /// A hash of all its files: equal for identical images.
    pub image_sha256: String,
    /// SHA-256 of the recipe's files.
    pub recipe_sha256: String,
    /// The Debian suite.
    pub suite: String,
    /// Debian's name of the guest's architecture.
    pub architecture: String,
    /// The kernel's release, as `uname -r` prints it in the guest.
    pub kernel_release: String,
    /// The version of the kernel's package.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_version: Option<String>,
    /// The version of DPDK's packages, if the image has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dpdk_version: Option<String>,
    /// The compiler of the image's own programs, if it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compiler: Option<String>,
    /// The packages that the recipe names, the kernel's and libc's, by name. The image's manifest has all
    /// packages.
    pub packages: Vec<PackageVersion>,
}

/// A package, as recorded in a result.
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
