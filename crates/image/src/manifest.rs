//! `manifest.json`: the inputs and files of an image, enough to compare two images or to check whether one is
//! complete. Separate from the internal types, because its layout is a versioned file format.
//!
//! A manifest authenticates the image's files by their hashes, and its seal, a SHA-256 of its own text,
//! detects damage to the manifest by a disk or an editor. The seal is no signature: an attacker can compute a
//! matching one.

use std::io;
use std::path::Path;

use doorbell_files::{sha256, sha256_of};
use doorbell_sim::Bytes;
use serde::{Deserialize, Serialize};

use crate::index::Package;

/// The manifest's name in the image's folder.
pub(crate) const MANIFEST_FILE: &str = "manifest.json";
/// The version of the manifest's layout.
pub(crate) const MANIFEST_SCHEMA: u32 = 2;

/// The content of `manifest.json`. It holds no time, host or path, so the same packages give the same manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of this layout.
    pub schema: u32,
    /// Version of the build procedure; a change makes cached images stale.
    pub builder: u32,
    /// The image's name.
    pub image: String,
    /// One line about it.
    pub description: String,
    /// SHA-256 of the recipe's files.
    pub recipe_sha256: String,
    /// The Debian suite.
    pub suite: String,
    /// Debian's name of the guest's architecture.
    pub architecture: String,
    /// The least RAM in which the image works.
    pub ram_min: Bytes,
    /// The default kernel command line.
    pub command_line: String,
    /// The kernel's release, as `uname -r` prints it in the guest.
    pub kernel_release: String,
    /// The image's files, in alphabetical order; see [`FileRecord`].
    pub files: Vec<FileRecord>,
    /// The packages that the files were taken from, by name.
    pub packages: Vec<PackageRecord>,
    /// The packages that the recipe names; the others are their dependencies.
    pub named: Vec<String>,
    /// The compiler of the image's own programs, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiler: Option<String>,
    /// SHA-256 of this file's text with this field empty.
    pub(crate) seal: String,
}

/// One file of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRecord {
    /// Name in the image's folder.
    pub name: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
}

/// One Debian package of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageRecord {
    /// Binary package name.
    pub name: String,
    /// Version.
    pub version: String,
    /// The architecture it is built for, or "all".
    pub architecture: String,
    /// Size of the `.deb` in bytes.
    pub size_bytes: u64,
    /// SHA-256 of the `.deb` in hexadecimal, as in the suite's signed index.
    pub sha256: String,
}

impl Manifest {
    /// The record of one of the image's files.
    pub fn file(&self, name: &str) -> Option<&FileRecord> {
        self.files.iter().find(|file| file.name == name)
    }

    /// The record of one of the packages.
    pub fn package(&self, name: &str) -> Option<&PackageRecord> {
        self.packages.iter().find(|package| package.name == name)
    }

    /// The file's text with its seal.
    pub(crate) fn to_json(&self) -> String {
        let text = |seal: String| {
            let manifest = Self { seal, ..self.clone() };
            let text = serde_json::to_string_pretty(&manifest).expect("strings and numbers always serialise");
            text + "\n"
        };
        text(sha256(text(String::new()).as_bytes()))
    }

    /// Parses the file's text, and checks that each byte is as [`Self::to_json`] wrote it. Otherwise returns
    /// the problem.
    pub(crate) fn from_json(text: &[u8]) -> Result<Self, String> {
        let manifest: Self = serde_json::from_slice(text).map_err(|error| unreadable(text, &error))?;
        if manifest.schema != MANIFEST_SCHEMA {
            return Err(format!("{MANIFEST_FILE} has schema {}, not {MANIFEST_SCHEMA}", manifest.schema));
        }
        // Changes of white space or of the spelling of values count as damage, too: other changes may be
        // undetected.
        if manifest.to_json().as_bytes() != text {
            return Err(format!("{MANIFEST_FILE} was changed: it does not match its own SHA-256"));
        }
        Ok(manifest)
    }
}

/// Distinguishes another layout from damage.
fn unreadable(text: &[u8], error: &serde_json::Error) -> String {
    let value = serde_json::from_slice::<serde_json::Value>(text).ok();
    match value.and_then(|value| value.get("schema").and_then(serde_json::Value::as_u64)) {
        Some(schema) if schema != u64::from(MANIFEST_SCHEMA) => {
            format!("{MANIFEST_FILE} has schema {schema}, not {MANIFEST_SCHEMA}")
        }
        _ => format!("{MANIFEST_FILE} cannot be read: {error}"),
    }
}

impl PackageRecord {
    /// The package, without its dependencies, which the record does not have.
    pub(crate) fn package(&self) -> Package {
        Package { record: self.clone(), depends: Vec::new(), path: None }
    }
}

impl FileRecord {
    /// Computes the size and hash of a file.
    pub(crate) fn of(name: &str, path: &Path) -> io::Result<Self> {
        let (sha256, size_bytes) = sha256_of(path)?;
        Ok(Self { name: name.to_owned(), size_bytes, sha256 })
    }
}
