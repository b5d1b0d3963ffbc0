//! A recipe: the packages an image is made of, and the files taken from them.
//!
//! A recipe is a TOML file and the files that it names, given by the user or built in; it may extend another
//! ([`extend`](crate::extend)). It holds no versions: those come from the suite's index when the image is
//! built, and are recorded in the image's manifest.

use std::collections::BTreeMap;
#[cfg(test)]
use std::fs;
use std::path::{Path, PathBuf};

use doorbell_files::sha256;
use doorbell_sim::Bytes;
use serde::Deserialize;
use sha2::{Digest, Sha256};

#[cfg(test)]
use crate::builtin::BUILTIN;
use crate::compile::Build;
use crate::cpio::Node;
use crate::error::ImageError;
use crate::extend::{Extension, Origin};
use crate::init_lines::INIT_LINES_VERSION;
use crate::pinned_packages::PinnedPackages;

pub(crate) const RECIPE_FILE: &str = "image.toml";
/// The only version of the recipe format so far.
const SCHEMA: u32 = 1;
/// Linux's COMMAND_LINE_SIZE on RISC-V, with its final zero.
const COMMAND_LINE_BYTES: usize = 1024;
const DISK_FREE_MAX: u64 = 64 << 30;

/// A checked recipe and the files it brings along.
#[derive(Clone, Debug)]
pub struct Recipe {
    pub(crate) spec: Spec,
    /// Nodes that `initramfs.files` puts into the guest, by guest path.
    pub(crate) files: BTreeMap<String, Node>,
    /// Nodes that `disk.files` puts onto the disk, by path on the disk.
    pub(crate) disk_files: BTreeMap<String, Node>,
    /// Sources and headers in `build.folder`, by path in that folder, including those of the extended
    /// recipes.
    pub(crate) sources: BTreeMap<String, Node>,
    /// Packages that the recipe pins exactly.
    pub(crate) exact: PinnedPackages,
    /// The names of this built-in recipe and of the built-in recipes that it extends.
    builtin: Vec<&'static str>,
    hash: String,
    folder: String,
    /// The lock file that the recipe names; the file need not exist.
    lock: Option<PathBuf>,
}

/// `image.toml` as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    schema: u32,
    /// Shell lines for the guest file `etc/doorbell/init`; only a recipe that extends another has any.
    #[serde(skip)]
    pub init: Vec<String>,
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
    pub build: Option<Build>,
    /// The lock file that pins the packages, relative to the recipe.
    pub lock: Option<String>,
}

/// Packages to start from, and patterns of dependencies not to follow.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Packages {
    pub roots: Vec<String>,
    /// Packages installed whole in the guest, with their dependencies, unless the roots already need these.
    #[serde(default)]
    pub install: Vec<String>,
    #[serde(default)]
    pub leave_out: Vec<String>,
    /// File, relative to the recipe, with the index paragraphs of packages that must be taken in exactly that
    /// version.
    pub exact: Option<String>,
}

/// The kernel's file, and the modules that the guest loads.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kernel {
    pub image: String,
    #[serde(default)]
    pub modules: Vec<String>,
    /// Drivers of which `init` loads those whose devices are present.
    #[serde(default)]
    pub drivers: Vec<String>,
    /// Modules that are loaded when the kernel requests them.
    #[serde(default)]
    pub on_demand: Vec<String>,
    /// Whether to remove compiler-generated local labels from modules (`labels`).
    #[serde(default)]
    pub strip: bool,
}

/// Contents of the initial RAM file system.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Initramfs {
    pub elf: Vec<String>,
    pub library_path: Vec<String>,
    /// Patterns of other files in the packages; they keep their paths.
    #[serde(default)]
    pub data: Vec<String>,
    #[serde(default)]
    pub directories: Vec<String>,
    #[serde(default)]
    pub links: BTreeMap<String, String>,
    #[serde(default)]
    pub files: BTreeMap<String, LocalFile>,
}

/// A disk in addition to the initial RAM file system.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Disk {
    /// Patterns of those of the image's packages that are installed whole on the disk.
    pub packages: Vec<String>,
    #[serde(default)]
    pub leave_out_packages: Vec<String>,
    /// Patterns of paths left out; a folder is left out with its contents.
    #[serde(default)]
    pub leave_out_files: Vec<String>,
    /// Free space for files that the guest writes.
    pub free: Bytes,
    #[serde(default)]
    pub directories: Vec<String>,
    #[serde(default)]
    pub links: BTreeMap<String, String>,
    #[serde(default)]
    pub files: BTreeMap<String, LocalFile>,
}

/// A file or folder next to the recipe.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LocalFile {
    pub from: String,
    /// Whether it is a program. Without this and `mode`, the host file's executable bits decide.
    #[serde(default)]
    pub executable: bool,
    /// Its mode as an octal number.
    pub mode: Option<String>,
}

impl LocalFile {
    /// The mode that the recipe sets.
    pub(crate) fn mode(&self) -> Result<Option<u32>, String> {
        let Some(text) = &self.mode else { return Ok(self.executable.then_some(0o755)) };
        let octal = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777);
        octal.map(Some).ok_or_else(|| {
            format!("{}: mode = \"{text}\" is not an octal number such as \"0755\"", self.from)
        })
    }
}

impl Recipe {
    /// Loads a built-in recipe by its name, a recipe file (`.toml`), or a folder with an `image.toml`. A
    /// built-in name wins over a folder of the same name; write `./NAME` for the folder.
    pub fn load(name_or_path: impl AsRef<Path>) -> Result<Self, ImageError> {
        Self::load_from(&Origin::find(name_or_path.as_ref())?, &mut Vec::new())
    }

    /// `chain` holds the recipes whose `extends` led here.
    fn load_from(origin: &Origin, chain: &mut Vec<String>) -> Result<Self, ImageError> {
        let fail = |problem: String| ImageError::Recipe { recipe: origin.shown(), problem };
        let in_toml = |error: String| fail(format!("{}: {error}", origin.toml_name()));
        let (identity, text) = (origin.identity(), origin.read_toml()?);
        if chain.contains(&identity) {
            return Err(fail(format!("it extends itself: {} -> {identity}", chain.join(" -> "))));
        }
        chain.push(identity.clone());
        // Other schema versions have other keys: report the version before any missing key.
        let other = text.parse::<toml::Table>().ok().and_then(|spec| spec.get("schema")?.as_integer());
        if let Some(other) = other.filter(|schema| *schema != i64::from(SCHEMA)) {
            return Err(fail(format!("schema is {other}, this version supports {SCHEMA}")));
        }
        let (mut spec, base, own_build) = match origin.base(&text).map_err(in_toml)? {
            None => {
                let spec: Spec = toml::from_str(&text).map_err(|error| in_toml(error.to_string()))?;
                let own_build = spec.build.as_ref().map(|build| build.folder.clone());
                (spec, None, own_build)
            }
            Some(other) => {
                let more: Extension = toml::from_str(&text).map_err(|error| in_toml(error.to_string()))?;
                let base = Self::load_from(&other, chain)?;
                let spec = more.apply(&base, &origin.stem()).map_err(in_toml)?;
                let spec = Spec { schema: more.schema, ..spec };
                (spec, Some(base), more.build_folder().map(str::to_owned))
            }
        };
        spec.command_line = spec.command_line.split_whitespace().collect::<Vec<_>>().join(" ");
        spec.check().map_err(fail)?;
        let files = origin.read_files(&spec.initramfs.files)?;
        // An extension leaves the disk's own files as they are.
        let own_disk = spec.disk.as_ref().filter(|_| base.is_none());
        let disk_files = own_disk.map(|disk| origin.read_files(&disk.files)).transpose()?.unwrap_or_default();
        let read = |folder: String| origin.read_sources(&folder);
        let sources = own_build.map(read).transpose()?.unwrap_or_default();
        let exact_file = origin.read_exact(spec.packages.exact.as_deref())?;
        let mut of_base = base.as_ref().map_or(String::new(), |base| base.hash().to_owned());
        if !spec.init.is_empty() {
            of_base += INIT_LINES_VERSION;
        }
        let hash = hash(&of_base, &text, &[&files, &disk_files, &sources, &exact_file]);
        let base = base.map(|base| (base.files, base.disk_files, base.sources, base.builtin, base.exact));
        let (mut all, disk_of_base, sources_of_base, mut builtin, mut exact) = base.unwrap_or_default();
        for (name, node) in &exact_file {
            let fail = |problem| fail(format!("{name}: {problem}"));
            let Node::File { content, .. } = node else { return Err(fail("it is not a file".to_owned())) };
            let text = std::str::from_utf8(content).map_err(|error| fail(error.to_string()))?;
            exact.add(text, &spec.architecture).map_err(fail)?;
        }
        all.extend(files);
        let disk_files = if disk_of_base.is_empty() { disk_files } else { disk_of_base };
        // A file of this recipe replaces one of the extended recipe at the same path.
        let sources = sources_of_base.into_iter().chain(sources).collect();
        let folder = match origin {
            Origin::Builtin(own) => {
                builtin.push(own.name);
                own.name.to_owned()
            }
            Origin::Folder(..) => {
                format!("{}-{}", spec.name, &sha256(identity.as_bytes())[..12])
            }
        };
        let lock = spec.lock.as_ref().and_then(|name| origin.sibling(name));
        Ok(Self { spec, files: all, disk_files, sources, exact, builtin, hash, folder, lock })
    }

    /// The lock file that the recipe itself names.
    pub fn lock(&self) -> Option<&Path> {
        self.lock.as_deref()
    }

    /// The recipe without its lock file: built from the suite's current packages.
    pub fn unlocked(self) -> Self {
        Self { lock: None, ..self }
    }

    /// Name of the image's folder. For a recipe that is not built in, a hash of the recipe's path is
    /// appended, so that two recipes of the same name have separate images.
    pub fn folder_name(&self) -> &str {
        &self.folder
    }

    /// Whether this is the given built-in recipe, or extends it directly or indirectly.
    pub fn is_a(&self, builtin: &str) -> bool {
        self.builtin.contains(&builtin)
    }

    /// The image's name.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// One line for a list of images.
    pub fn description(&self) -> &str {
        &self.spec.description
    }

    /// The image's default kernel command line, to which a run appends its own words.
    pub fn command_line(&self) -> &str {
        &self.spec.command_line
    }

    /// The least RAM in which the image works.
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

    /// Checks the rules that TOML parsing does not. The rest of the program relies on these paths and names
    /// being harmless.
    fn check(&self) -> Result<(), String> {
        if self.schema != SCHEMA {
            return Err(format!("schema is {}, this version supports {SCHEMA}", self.schema));
        }
        for (key, text) in
            [("name", &self.name), ("suite", &self.suite), ("architecture", &self.architecture)]
        {
            if !is_plain_name(text) {
                return Err(format!("{key} = \"{text}\" must be letters, digits, and + - . _"));
            }
        }
        let packages = self.packages.roots.iter().chain(&self.packages.install);
        if let Some(bad) = packages.into_iter().find(|name| !is_plain_name(name)) {
            return Err(format!("packages: \"{bad}\" is not a package name"));
        }
        if let Some(bad) = self.init.iter().find(|line| line.contains(['\n', '\0'])) {
            return Err(format!("init: \"{bad}\" is more than one line"));
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
        if let Some(bad) = self.firmware.keys().find(|name| !is_plain_name(name)) {
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
            .chain(&inside.data)
            .chain(&inside.library_path)
            .chain(&inside.directories)
            .chain(inside.links.keys())
            .chain(inside.files.keys())
            .chain(self.disk.iter().flat_map(|disk| disk.directories.iter().chain(disk.links.keys())))
            .chain(self.disk.iter().flat_map(|disk| disk.files.keys()))
            .chain(self.local_files().map(|local| &local.from))
            .chain(&self.lock)
            .chain(&self.packages.exact);
        for path in paths {
            if !is_relative_path(path) {
                return Err(format!("\"{path}\" must be a relative path without . or .. in it"));
            }
        }
        self.build.as_ref().map_or(Ok(()), Build::check)?;
        if let Some(disk) = &self.disk
            && disk.free.0 > DISK_FREE_MAX
        {
            return Err(format!("disk.free = \"{}\" is more than 64 GiB", disk.free));
        }
        Ok(())
    }
}

/// SHA-256 over everything a recipe is made of.
fn hash(base: &str, text: &str, files: &[&BTreeMap<String, Node>]) -> String {
    let mut digest = Sha256::new();
    let mut absorb = |content: &[u8]| {
        digest.update((content.len() as u64).to_le_bytes());
        digest.update(content);
    };
    absorb(base.as_bytes());
    absorb(text.as_bytes());
    for (path, node) in files.iter().copied().flatten() {
        absorb(path.as_bytes());
        match node {
            Node::File { mode, content } => {
                absorb(format!("file {mode:o}").as_bytes());
                absorb(content);
            }
            other => absorb(format!("{other:?}").as_bytes()),
        }
    }
    doorbell_files::hex(&digest.finalize())
}

/// Whether a text is safe as a package or file name: letters, digits and a few signs.
pub(crate) fn is_plain_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-._".contains(c))
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
        for (name, content) in &testpmd_files()[1..] {
            fs::write(folder.path().join(name), content).unwrap();
        }
        folder
    }

    fn testpmd_files() -> &'static [(&'static str, &'static str)] {
        BUILTIN.iter().find(|builtin| builtin.name == "testpmd").unwrap().files
    }

    fn testpmd_toml() -> &'static str {
        testpmd_files()[0].1
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
    fn another_schema_is_reported_before_missing_keys() {
        for text in ["schema = 7\n", "schema = 7\nextends = \"net\"\nnonsense = 1\n"] {
            let error = Recipe::load(folder_with(text).path()).unwrap_err().to_string();
            assert!(error.contains("schema is 7, this version supports 1"), "{error}");
        }
    }

    #[test]
    fn a_path_outside_the_tree_is_refused() {
        for bad in ["../etc/passwd", "/etc/passwd", "usr//bin", "a/./b"] {
            let folder = folder_with(&testpmd_toml().replace("boot/vmlinux-*", bad));
            let error = Recipe::load(folder.path()).unwrap_err().to_string();
            assert!(error.contains(bad), "{error}");
        }
    }

    #[test]
    fn a_missing_recipe_file_is_named() {
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
