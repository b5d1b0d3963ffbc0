//! `manifest.json`: what an image was made from and what it consists of, enough to compare two images or to tell whether
//! one is whole. Kept apart from the live types: its layout is a file format with a version.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use doorbell_sim::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The manifest's name in the image's folder.
pub(crate) const MANIFEST_FILE: &str = "manifest.json";
/// The version of the manifest's layout.
pub(crate) const MANIFEST_SCHEMA: u32 = 1;

/// The content of `manifest.json`. It holds no time, host or path, so the same packages give the same manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of this layout.
    pub schema: u32,
    /// Version of the program's way of building images; a change of it makes cached images stale.
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
    /// The least RAM for the image.
    pub ram_min: Bytes,
    /// The default kernel command line.
    pub command_line: String,
    /// The kernel's release, as `uname -r` says in the guest.
    pub kernel_release: String,
    /// The image's files, by role; see [`FileRecord`].
    pub files: Vec<FileRecord>,
    /// The packages that the files were taken from, by name.
    pub packages: Vec<PackageRecord>,
    /// What compiled the image's own programs, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiler: Option<String>,
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

    pub(crate) fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("strings and numbers always serialise");
        text.push('\n');
        text
    }
}

impl FileRecord {
    /// Measures a file as it is now.
    pub(crate) fn of(name: &str, path: &Path) -> io::Result<Self> {
        let (size_bytes, sha256) = measure(path)?;
        Ok(Self { name: name.to_owned(), size_bytes, sha256 })
    }
}

/// Size and SHA-256 of a file, read in pieces.
pub(crate) fn measure(path: &Path) -> io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    let mut size_bytes = 0;
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok((size_bytes, hex(&digest.finalize())));
        }
        digest.update(&buffer[..count]);
        size_bytes += count as u64;
    }
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_measured_as_the_standard_says() {
        // FIPS 180-4 example: SHA-256 of "abc".
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abc").unwrap();
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(measure(file.path()).unwrap(), (3, expected.to_owned()));
    }
}
