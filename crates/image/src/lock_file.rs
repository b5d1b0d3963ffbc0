//! The lock file, which lock_file an image's packages: the version and SHA-256 of each, so that the same image can
//! be built again when the archive has newer packages. `doorbell image lock` writes it; a build with it takes
//! exactly these packages.
//!
//! The user vouches for the file, as for a recipe. A package from the archive is still checked against the
//! archive's signature, and one from the cache against the SHA-256 in the file.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::ImageError;
use crate::image::Image;
use crate::index::Package;
use crate::manifest::{Manifest, PackageRecord};
use crate::recipe::{Recipe, is_plain_name};

/// The only version of the file's layout so far.
const SCHEMA: u32 = 1;
const HEAD: &str = "# Written by \"doorbell image lock\": what an image was built from. Build it again with: doorbell image build RECIPE \
                    --locked THIS-FILE,\n# or write lock = \"THIS-FILE\" into the recipe.\n";

/// The packages that an image was built from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockFile {
    schema: u32,
    /// The image's name.
    pub image: String,
    /// [`Image::hash`] of the image when the file was written.
    pub image_sha256: String,
    /// SHA-256 of the recipe's files.
    pub recipe_sha256: String,
    /// The Debian suite.
    pub suite: String,
    /// Debian's name of the guest's architecture.
    pub architecture: String,
    /// Version of the build procedure.
    pub builder: u32,
    /// The compiler of the image's own programs, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiler: Option<String>,
    /// The packages, by name.
    pub packages: Vec<PackageRecord>,
}

impl LockFile {
    /// The packages and identity of a built image.
    pub fn of(image: &Image) -> Self {
        let manifest = image.manifest();
        Self {
            schema: SCHEMA,
            image: manifest.image.clone(),
            image_sha256: image.hash(),
            recipe_sha256: manifest.recipe_sha256.clone(),
            suite: manifest.suite.clone(),
            architecture: manifest.architecture.clone(),
            builder: manifest.builder,
            compiler: manifest.compiler.clone(),
            packages: manifest.packages.clone(),
        }
    }

    /// Reads the file.
    pub fn read(path: &Path) -> Result<Self, ImageError> {
        let fail = |problem| ImageError::LockFile { path: path.to_owned(), problem };
        let text = doorbell_files::read_text(path).map_err(ImageError::io("read", path))?;
        let lock_file: Self = toml::from_str(&text).map_err(|error| fail(error.to_string()))?;
        lock_file.check().map_err(fail)?;
        Ok(lock_file)
    }

    /// Refuses to overwrite anything but a lock file, such as a recipe.
    pub fn refuse_other(path: &Path) -> Result<(), ImageError> {
        let path = &doorbell_files::written_at(path).map_err(ImageError::io("write", path))?;
        let text = match doorbell_files::read_bounded(path, doorbell_files::TEXT_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(ImageError::io("read", path)(error)),
        };
        // A file with this first line may be of another version, or damaged by a merge.
        let first_line = HEAD.split(':').next().unwrap_or(HEAD);
        if text.is_empty() || text.starts_with(first_line.as_bytes()) || Self::read(path).is_ok() {
            return Ok(());
        }
        let problem =
            "it exists and is not a lock file; name another file with --out, or remove it".to_owned();
        Err(ImageError::LockFile { path: path.to_owned(), problem })
    }

    /// Writes the file atomically, replacing an existing one.
    pub fn write(&self, path: &Path) -> Result<(), ImageError> {
        let text = toml::to_string_pretty(self).expect("texts and numbers can always be written");
        let text = format!("{HEAD}{text}");
        doorbell_files::replace(path, text.as_bytes()).map_err(ImageError::io("write", path))
    }

    /// Names become parts of file names and of apt's command line, so they must be harmless.
    fn check(&self) -> Result<(), String> {
        if self.schema != SCHEMA {
            return Err(format!("schema is {}, this version supports {SCHEMA}", self.schema));
        }
        let mut names = BTreeSet::new();
        for package in &self.packages {
            let name = &package.name;
            let plain = |text: &str| {
                !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-._:~".contains(c))
            };
            if !is_plain_name(name) || !plain(&package.version) || !is_plain_name(&package.architecture) {
                return Err(format!(
                    "\"{name} {} {}\" is not a package's name, version and architecture",
                    package.version, package.architecture
                ));
            }
            let digits = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
            if package.sha256.len() != 64 || !package.sha256.chars().all(digits) {
                return Err(format!("package {name}: \"{}\" is not a SHA-256", package.sha256));
            }
            if !names.insert(name) {
                return Err(format!("package {name} is listed twice"));
            }
        }
        Ok(())
    }

    /// Refuses a lock file of another suite or architecture.
    pub(crate) fn validate(&self, recipe: &Recipe, path: &Path) -> Result<(), ImageError> {
        let spec = &recipe.spec;
        for (what, here, there) in
            [("suite", &self.suite, &spec.suite), ("architecture", &self.architecture, &spec.architecture)]
        {
            if here != there {
                let problem =
                    format!("it is for the {what} {here}, but the recipe {} is for {there}", recipe.name());
                return Err(ImageError::LockFile { path: path.to_owned(), problem });
            }
        }
        Ok(())
    }

    /// The packages without their dependencies, which only the package files or the archive's index state.
    pub(crate) fn packages(&self) -> Vec<Package> {
        let mut packages: Vec<Package> = self.packages.iter().map(PackageRecord::package).collect();
        packages.sort_by(|one, other| one.name.cmp(&other.name));
        packages
    }

    /// Reasons why an image built from these packages differs from the original one; `None` if it does not.
    pub(crate) fn difference(&self, image: &Image) -> Option<String> {
        if image.hash() == self.image_sha256 {
            return None;
        }
        let Manifest { recipe_sha256, builder, compiler, .. } = image.manifest();
        let mut reasons = Vec::new();
        if *recipe_sha256 != self.recipe_sha256 {
            reasons.push("the recipe has changed".to_owned());
        }
        if *builder != self.builder {
            reasons.push("this version of doorbell builds images differently".to_owned());
        }
        if *compiler != self.compiler {
            let named = |compiler: &Option<String>| compiler.clone().unwrap_or_else(|| "none".to_owned());
            reasons.push(format!("the compiler is {} instead of {}", named(compiler), named(&self.compiler)));
        }
        let reasons =
            if reasons.is_empty() { "the reason is unknown".to_owned() } else { reasons.join(", and ") };
        Some(format!("the packages are the locked ones, but the image is not the same: {reasons}"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn lock_file() -> LockFile {
        let package = PackageRecord {
            name: "tool".into(),
            version: "1:2.0~rc1-1+b1".into(),
            architecture: "riscv64".into(),
            size_bytes: 12,
            sha256: "ab".repeat(32),
        };
        LockFile {
            schema: SCHEMA,
            image: "small".into(),
            image_sha256: "1".repeat(64),
            recipe_sha256: "2".repeat(64),
            suite: "trixie".into(),
            architecture: "riscv64".into(),
            builder: 2,
            compiler: None,
            packages: vec![package],
        }
    }

    #[test]
    fn a_written_lock_file_reads_back_and_is_readable_text() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("small.lock");
        lock_file().write(&path).unwrap();
        assert_eq!(LockFile::read(&path).unwrap(), lock_file());
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("version = \"1:2.0~rc1-1+b1\"") && text.contains("[[packages]]"), "{text}");
    }

    #[test]
    fn only_a_lock_file_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        lock_file().write(&path("small.lock")).unwrap();
        fs::write(path("by-hand.lock"), toml::to_string(&lock_file()).unwrap()).unwrap();
        fs::write(path("empty"), "").unwrap();
        for name in ["small.lock", "by-hand.lock", "empty", "new"] {
            LockFile::refuse_other(&path(name)).unwrap();
        }
        fs::write(path("image.toml"), "schema = 1\n").unwrap();
        std::os::unix::fs::symlink("image.toml", path("link")).unwrap();
        for (name, part) in [
            ("image.toml", "not a lock file"),
            ("link", "not a lock file"),
            (".", "not a regular file"),
            ("gone/a", "there is no folder"),
        ] {
            let problem = LockFile::refuse_other(&path(name)).unwrap_err().to_string();
            assert!(problem.contains(part), "{name}: {problem}");
        }
    }

    #[test]
    fn names_and_versions_that_are_unsafe_as_paths_or_options_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("small.lock");
        for (from, to, word) in [
            ("name = \"tool\"", "name = \"../tool\"", "../tool"),
            ("name = \"tool\"", "name = \"-o\"", "-o"),
            ("1:2.0~rc1-1+b1", "1/../../x", "1/../../x"),
            ("1:2.0~rc1-1+b1", "", "not a package's name"),
            ("\"riscv64\"\nsize", "\"a/b\"\nsize", "a/b"),
            (&"ab".repeat(32), "abcd", "\"abcd\" is not a SHA-256"),
            ("schema = 1", "schema = 2", "schema is 2"),
            ("image =", "picture =", "picture"),
        ] {
            lock_file().write(&path).unwrap();
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.contains(from), "{text}");
            fs::write(&path, text.replace(from, to)).unwrap();
            let problem = LockFile::read(&path).unwrap_err().to_string();
            assert!(problem.contains(word) && problem.contains("small.lock"), "{problem}");
        }
        let twice =
            LockFile { packages: [lock_file().packages, lock_file().packages].concat(), ..lock_file() };
        twice.write(&path).unwrap();
        assert!(LockFile::read(&path).unwrap_err().to_string().contains("tool is listed twice"));
    }
}
