//! A recipe: which packages an image is made of, and what is taken from them.
//!
//! A recipe is a folder with an `image.toml` and the files that it names, given by the user or built in. It holds no
//! versions: those come from the suite's index when the image is built, and are recorded in the image's manifest.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use doorbell_sim::Bytes;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::builtin::BUILTIN;
use crate::error::ImageError;
use crate::manifest::hex;

const RECIPE_FILE: &str = "image.toml";
/// The only version of the recipe format so far.
const SCHEMA: u32 = 1;
/// Linux's COMMAND_LINE_SIZE on RISC-V, with its final zero.
const COMMAND_LINE_BYTES: usize = 1024;
const DISK_FREE_MAX: u64 = 64 << 30;

/// A checked recipe and the files it brings along.
#[derive(Clone, Debug)]
pub struct Recipe {
    pub(crate) spec: Spec,
    /// The files named in `initramfs.files` and `disk.files`, by their name in the recipe's folder.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    hash: String,
}

/// `image.toml` as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    schema: u32,
    pub name: String,
    pub description: String,
    pub suite: String,
    pub architecture: String,
    pub ram_min: Bytes,
    pub command_line: String,
    pub packages: Packages,
    pub kernel: Kernel,
    pub firmware: BTreeMap<String, String>,
    pub initramfs: Initramfs,
    pub disk: Option<Disk>,
}

/// Packages to start from, and patterns of dependencies not to follow.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Packages {
    pub roots: Vec<String>,
    #[serde(default)]
    pub leave_out: Vec<String>,
}

/// The kernel's file, and the modules that the guest loads.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kernel {
    pub image: String,
    #[serde(default)]
    pub modules: Vec<String>,
}

/// What goes into the initial RAM file system.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Initramfs {
    pub elf: Vec<String>,
    pub library_path: Vec<String>,
    #[serde(default)]
    pub directories: Vec<String>,
    #[serde(default)]
    pub links: BTreeMap<String, String>,
    #[serde(default)]
    pub files: BTreeMap<String, LocalFile>,
}

/// A disk beside the initial RAM file system.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Disk {
    /// Patterns of those of the image's packages that go onto it whole.
    pub packages: Vec<String>,
    #[serde(default)]
    pub leave_out_packages: Vec<String>,
    /// Patterns of paths that do not; what matches a folder goes with all that is in it.
    #[serde(default)]
    pub leave_out_files: Vec<String>,
    /// Room for what the guest writes.
    pub free: Bytes,
    #[serde(default)]
    pub directories: Vec<String>,
    #[serde(default)]
    pub links: BTreeMap<String, String>,
    #[serde(default)]
    pub files: BTreeMap<String, LocalFile>,
}

/// A file of the recipe's own folder.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LocalFile {
    pub from: String,
    #[serde(default)]
    pub executable: bool,
}

impl Recipe {
    /// A built-in recipe by its name, or else a recipe folder. A name that is built in wins over a folder of the
    /// same name; write `./NAME` for the folder.
    pub fn load(name_or_folder: impl AsRef<Path>) -> Result<Self, ImageError> {
        let path = name_or_folder.as_ref();
        if let Some(builtin) =
            BUILTIN.iter().find(|builtin| Path::new(builtin.name).as_os_str() == path.as_os_str())
        {
            let read = |file: &str| {
                let found = builtin.files.iter().find(|(name, _)| *name == file);
                found
                    .map(|(_, content)| content.as_bytes().to_vec())
                    .ok_or_else(|| Recipe::missing(builtin.name, file))
            };
            return Self::parse(builtin.name, read);
        }
        if !path.is_dir() {
            let known = BUILTIN.iter().map(|builtin| builtin.name).collect::<Vec<_>>().join(", ");
            return Err(ImageError::UnknownRecipe { name: path.display().to_string(), known });
        }
        let shown = path.display().to_string();
        Self::parse(&shown, |file| {
            let file_path = path.join(file);
            if file_path.exists() {
                fs::read(&file_path).map_err(ImageError::io("read", &file_path))
            } else {
                Err(Recipe::missing(&shown, file))
            }
        })
    }

    fn missing(recipe: &str, file: &str) -> ImageError {
        ImageError::Recipe { recipe: recipe.to_owned(), problem: format!("the file {file} is missing") }
    }

    fn parse(shown: &str, read: impl Fn(&str) -> Result<Vec<u8>, ImageError>) -> Result<Self, ImageError> {
        let fail = |problem: String| ImageError::Recipe { recipe: shown.to_owned(), problem };
        let raw = read(RECIPE_FILE)?;
        let text = std::str::from_utf8(&raw)
            .map_err(|error| fail(format!("{RECIPE_FILE} is not UTF-8: {error}")))?;
        let mut spec: Spec = toml::from_str(text).map_err(|error| fail(format!("{RECIPE_FILE}: {error}")))?;
        spec.command_line = spec.command_line.split_whitespace().collect::<Vec<_>>().join(" ");
        spec.check().map_err(fail)?;

        let mut digest = Sha256::new();
        let mut absorb = |name: &str, content: &[u8]| {
            digest.update((name.len() as u64).to_le_bytes());
            digest.update(name);
            digest.update((content.len() as u64).to_le_bytes());
            digest.update(content);
        };
        absorb(RECIPE_FILE, &raw);
        let mut files = BTreeMap::new();
        for local in spec.local_files() {
            files.insert(local.from.clone(), read(&local.from)?);
        }
        files.iter().for_each(|(name, content)| absorb(name, content));
        let hash = hex(&digest.finalize());
        Ok(Self { spec, files, hash })
    }

    /// The image's name.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// One line for a list of images.
    pub fn description(&self) -> &str {
        &self.spec.description
    }

    /// The kernel command line that the image wants, to which a run appends its own words.
    pub fn command_line(&self) -> &str {
        &self.spec.command_line
    }

    /// The least RAM with which the image does what it is for.
    pub fn ram_min(&self) -> Bytes {
        self.spec.ram_min
    }

    /// SHA-256 over the recipe's files, in hexadecimal.
    pub fn hash(&self) -> &str {
        &self.hash
    }
}

impl Spec {
    fn local_files(&self) -> impl Iterator<Item = &LocalFile> {
        self.initramfs.files.values().chain(self.disk.iter().flat_map(|disk| disk.files.values()))
    }

    /// Finds what the TOML grammar cannot: the rest of the program relies on these paths and names being harmless.
    fn check(&self) -> Result<(), String> {
        if self.schema != SCHEMA {
            return Err(format!("schema is {}, this program knows {SCHEMA}", self.schema));
        }
        let plain = |text: &str| {
            !text.is_empty()
                && text.starts_with(|c: char| c.is_ascii_alphanumeric())
                && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-._".contains(c))
        };
        for (key, text) in
            [("name", &self.name), ("suite", &self.suite), ("architecture", &self.architecture)]
        {
            if !plain(text) {
                return Err(format!("{key} = \"{text}\" must be letters, digits, and + - . _"));
            }
        }
        if let Some(bad) = self.packages.roots.iter().find(|root| !plain(root)) {
            return Err(format!("packages.roots: \"{bad}\" is not a package name"));
        }
        if self.packages.roots.is_empty() {
            return Err("packages.roots is empty".into());
        }
        if self.command_line.len() >= COMMAND_LINE_BYTES {
            return Err(format!(
                "command_line is longer than the {} bytes Linux keeps",
                COMMAND_LINE_BYTES - 1
            ));
        }
        if !self.command_line.chars().all(|c| c.is_ascii_graphic() || c == ' ') {
            return Err("command_line must be printable ASCII".into());
        }
        if let Some(bad) = self.firmware.keys().find(|name| !plain(name)) {
            return Err(format!("firmware: \"{bad}\" is not a file name"));
        }
        let reserved = ["kernel", "initramfs.cpio", "disk.img", "manifest.json"];
        if let Some(bad) = self.firmware.keys().find(|name| reserved.contains(&name.as_str())) {
            return Err(format!("firmware: the name \"{bad}\" is taken by another file of the image"));
        }
        let inside = &self.initramfs;
        let paths = [&self.kernel.image]
            .into_iter()
            .chain(self.firmware.values())
            .chain(&inside.elf)
            .chain(&inside.library_path)
            .chain(&inside.directories)
            .chain(inside.links.keys())
            .chain(inside.files.keys())
            .chain(self.disk.iter().flat_map(|disk| disk.directories.iter().chain(disk.links.keys())))
            .chain(self.disk.iter().flat_map(|disk| disk.files.keys()))
            .chain(self.local_files().map(|local| &local.from));
        for path in paths {
            if !is_relative_path(path) {
                return Err(format!("\"{path}\" must be a relative path without . or .. in it"));
            }
        }
        if let Some(disk) = &self.disk
            && disk.free.0 > DISK_FREE_MAX
        {
            return Err(format!("disk.free = \"{}\" is more than 64 GiB", disk.free));
        }
        Ok(())
    }
}

pub(crate) fn is_relative_path(path: &str) -> bool {
    let normal = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains('\0');
    path.split('/').all(normal) && PathBuf::from(path).is_relative()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_with(toml: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(RECIPE_FILE), toml).unwrap();
        for (name, content) in BUILTIN[0].files.iter().filter(|(name, _)| *name != RECIPE_FILE) {
            fs::write(folder.path().join(name), content).unwrap();
        }
        folder
    }

    fn testpmd_toml() -> &'static str {
        BUILTIN[0].files.iter().find(|(name, _)| *name == RECIPE_FILE).unwrap().1
    }

    #[test]
    fn every_built_in_recipe_loads() {
        for builtin in BUILTIN {
            let recipe = Recipe::load(builtin.name).unwrap();
            assert!(recipe.command_line().starts_with("console=ttyS0 "));
            assert!(!recipe.command_line().contains("  "), "whitespace is collapsed");
            assert_eq!(recipe.hash().len(), 64);
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = Recipe::load("tetspmd").unwrap_err().to_string();
        assert!(error.contains("\"tetspmd\"") && error.contains("testpmd"), "{error}");
    }

    #[test]
    fn an_unknown_key_is_refused_by_name() {
        let folder = folder_with(&testpmd_toml().replace("ram_min", "ram_minimum"));
        let error = Recipe::load(folder.path()).unwrap_err().to_string();
        assert!(error.contains("ram_minimum") && error.contains("image.toml"), "{error}");
    }

    #[test]
    fn a_path_out_of_the_tree_is_refused() {
        for bad in ["../etc/passwd", "/etc/passwd", "usr//bin", "a/./b"] {
            let folder = folder_with(&testpmd_toml().replace("boot/vmlinux-*", bad));
            let error = Recipe::load(folder.path()).unwrap_err().to_string();
            assert!(error.contains(bad), "{error}");
        }
    }

    #[test]
    fn a_missing_file_of_the_recipe_is_named() {
        let folder = folder_with(testpmd_toml());
        fs::remove_file(folder.path().join("init")).unwrap();
        let error = Recipe::load(folder.path()).unwrap_err().to_string();
        assert!(error.contains("init is missing"), "{error}");
    }

    #[test]
    fn the_hash_changes_with_any_file() {
        let folder = folder_with(testpmd_toml());
        let before = Recipe::load(folder.path()).unwrap().hash().to_owned();
        fs::write(folder.path().join("fstab"), "proc /proc proc defaults 0 0\n").unwrap();
        assert_ne!(Recipe::load(folder.path()).unwrap().hash(), before);
    }

    #[test]
    fn another_schema_is_refused() {
        let folder = folder_with(&testpmd_toml().replace("schema = 1", "schema = 2"));
        let error = Recipe::load(folder.path()).unwrap_err().to_string();
        assert!(error.contains("schema is 2"), "{error}");
    }
}
