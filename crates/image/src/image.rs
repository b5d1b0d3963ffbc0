//! A built image on disk, checked against its manifest.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use doorbell_files::{UseLock, hold, sha256};
use doorbell_sim::Bytes;

use crate::error::ImageError;
use crate::manifest::{FileRecord, MANIFEST_FILE, Manifest};

pub(crate) const KERNEL_FILE: &str = "kernel";
pub(crate) const INITRAMFS_FILE: &str = "initramfs.cpio";
pub(crate) const DISK_FILE: &str = "disk.img";

/// A built image; opening it has checked all its files.
#[derive(Clone, Debug)]
pub struct Image {
    dir: PathBuf,
    manifest: Manifest,
    /// Keeps `doorbell cache clean` from removing the image while it is in use.
    _held: Arc<UseLock>,
}

impl Image {
    /// Opens the image in `dir` and checks the size and hash of every file.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, ImageError> {
        let dir = dir.as_ref();
        let path = dir.join(MANIFEST_FILE);
        let name =
            dir.file_name().map_or_else(|| "testpmd".into(), |name| name.to_string_lossy().into_owned());
        if !path.is_file() {
            return Err(ImageError::NotBuilt { dir: dir.to_owned(), name });
        }
        let damaged =
            |name: &str, problem| ImageError::Damaged { dir: dir.to_owned(), problem, name: name.to_owned() };
        let held = hold(dir).map_err(ImageError::io("open", dir))?;
        let Some(held) = held else {
            return Err(ImageError::NotBuilt { dir: dir.to_owned(), name });
        };
        let text = fs::read(&path).map_err(ImageError::io("read", &path))?;
        let manifest = Manifest::from_json(&text).map_err(|problem| damaged(&name, problem))?;
        for required in [KERNEL_FILE, INITRAMFS_FILE] {
            if manifest.file(required).is_none() {
                return Err(damaged(&manifest.image, format!("{MANIFEST_FILE} does not list {required}")));
            }
        }
        for file in &manifest.files {
            check_file(dir, file).map_err(|problem| damaged(&manifest.image, problem))?;
        }
        Ok(Self { dir: dir.to_owned(), manifest, _held: Arc::new(held) })
    }

    /// The image's name.
    pub fn name(&self) -> &str {
        &self.manifest.image
    }

    /// The image's folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The kernel: a raw RISC-V `Image`, to be loaded flat at a multiple of 2 MiB above the firmware.
    pub fn kernel(&self) -> PathBuf {
        self.dir.join(KERNEL_FILE)
    }

    /// The initial RAM file system: an uncompressed cpio archive.
    pub fn initramfs(&self) -> PathBuf {
        self.dir.join(INITRAMFS_FILE)
    }

    /// The image's own disk, if it has one: an ext2 file system.
    pub fn disk(&self) -> Option<PathBuf> {
        self.manifest.file(DISK_FILE).map(|_| self.dir.join(DISK_FILE))
    }

    /// A firmware file by name, such as `fw_jump.bin` or `fw_dynamic.bin`.
    pub fn firmware(&self, name: &str) -> Option<PathBuf> {
        self.firmware_names().any(|known| known == name).then(|| self.dir.join(name))
    }

    /// The names of the firmware files, in alphabetical order.
    pub fn firmware_names(&self) -> impl Iterator<Item = &str> {
        self.manifest
            .files
            .iter()
            .map(|file| file.name.as_str())
            .filter(|name| ![KERNEL_FILE, INITRAMFS_FILE, DISK_FILE].contains(name))
    }

    /// The default kernel command line; append `doorbell.KEY=VALUE` words to it to choose what the guest runs.
    pub fn command_line(&self) -> &str {
        &self.manifest.command_line
    }

    /// The least RAM in which the image works.
    pub fn ram_min(&self) -> Bytes {
        self.manifest.ram_min
    }

    /// A hash of all the image's files: equal hashes mean equal files. It is the SHA-256 of the output of
    /// `sha256sum` for the image's files in alphabetical order, so it can be computed without this program.
    pub fn hash(&self) -> String {
        let mut files: Vec<&FileRecord> = self.manifest.files.iter().collect();
        files.sort_by(|one, other| one.name.cmp(&other.name));
        let list: String = files.iter().map(|file| format!("{}  {}\n", file.sha256, file.name)).collect();
        sha256(list.as_bytes())
    }

    /// Packages, versions and hashes.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }
}

/// Checks the file's name, too: a damaged manifest must not lead out of the folder.
fn check_file(dir: &Path, expected: &FileRecord) -> Result<(), String> {
    let FileRecord { name, size_bytes, sha256 } = expected;
    if name.contains('/') || name.starts_with('.') || name.is_empty() {
        return Err(format!("{MANIFEST_FILE} lists a file with the name \"{name}\""));
    }
    let path = dir.join(name);
    let length = fs::metadata(&path).map_err(|error| format!("{name} is missing ({error})"))?.len();
    if length < *size_bytes {
        return Err(format!("{name} is cut short: {length} of {size_bytes} bytes"));
    }
    if length > *size_bytes {
        return Err(format!("{name} has {length} bytes instead of {size_bytes}"));
    }
    let actual = FileRecord::of(name, &path).map_err(|error| format!("{name} cannot be read: {error}"))?;
    if actual.sha256 != *sha256 {
        return Err(format!("{name} was changed: its SHA-256 is {}, not {sha256}", actual.sha256));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::MANIFEST_SCHEMA;

    /// A folder that looks like a built image, with tiny files.
    fn small_image() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let names = ["fw_jump.bin", INITRAMFS_FILE, KERNEL_FILE];
        for name in names {
            fs::write(dir.path().join(name), format!("this is {name}")).unwrap();
        }
        let files = names.iter().map(|name| FileRecord::of(name, &dir.path().join(name)).unwrap()).collect();
        let manifest = Manifest {
            schema: MANIFEST_SCHEMA,
            builder: 1,
            image: "small".into(),
            description: "a small image".into(),
            recipe_sha256: "0".repeat(64),
            suite: "trixie".into(),
            architecture: "riscv64".into(),
            ram_min: Bytes(1 << 27),
            command_line: "console=ttyS0".into(),
            kernel_release: "6.12".into(),
            files,
            packages: Vec::new(),
            named: Vec::new(),
            compiler: None,
            seal: String::new(),
        };
        fs::write(dir.path().join(MANIFEST_FILE), manifest.to_json()).unwrap();
        dir
    }

    fn problem(dir: &tempfile::TempDir) -> String {
        Image::open(dir.path()).unwrap_err().to_string()
    }

    #[test]
    fn a_whole_image_opens_and_returns_its_paths() {
        let dir = small_image();
        let image = Image::open(dir.path()).unwrap();
        assert_eq!(image.kernel(), dir.path().join("kernel"));
        assert_eq!(image.firmware("fw_jump.bin"), Some(dir.path().join("fw_jump.bin")));
        assert_eq!(image.firmware("kernel"), None);
        assert_eq!(image.firmware_names().collect::<Vec<_>>(), ["fw_jump.bin"]);
        assert_eq!(image.ram_min(), Bytes(128 << 20));
    }

    #[test]
    fn the_error_for_an_empty_folder_names_the_build_command() {
        let dir = tempfile::tempdir().unwrap();
        assert!(problem(&dir).contains("doorbell image build"));
    }

    #[test]
    fn a_missing_file_is_named() {
        let dir = small_image();
        fs::remove_file(dir.path().join(KERNEL_FILE)).unwrap();
        assert!(problem(&dir).contains("kernel is missing"));
    }

    #[test]
    fn a_truncated_file_is_named_with_both_sizes() {
        let dir = small_image();
        fs::write(dir.path().join(INITRAMFS_FILE), "this").unwrap();
        assert!(problem(&dir).contains("initramfs.cpio is cut short: 4 of 22 bytes"), "{}", problem(&dir));
    }

    #[test]
    fn one_changed_byte_is_detected() {
        let dir = small_image();
        fs::write(dir.path().join("fw_jump.bin"), "This is fw_jump.bin").unwrap();
        assert!(problem(&dir).contains("fw_jump.bin was changed"));
    }

    #[test]
    fn a_truncated_manifest_or_another_schema_counts_as_damage() {
        let dir = small_image();
        let path = dir.path().join(MANIFEST_FILE);
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        assert!(problem(&dir).contains("cannot be read"));
        fs::write(&path, r#"{"schema": 7, "news": true}"#).unwrap();
        assert!(problem(&dir).contains("schema 7"));
    }

    #[test]
    fn every_changed_byte_of_a_manifest_is_detected() {
        let dir = small_image();
        let path = dir.path().join(MANIFEST_FILE);
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            // One bit, letter case, a change from one white space to another, and the top bit.
            for flip in [0x01, 0x20, 0x29, 0x80] {
                let mut changed = whole.clone();
                changed[at] ^= flip;
                fs::write(&path, &changed).unwrap();
                let found = Image::open(dir.path());
                assert!(matches!(found, Err(ImageError::Damaged { .. })), "byte {at} ^ {flip:#x}: {found:?}");
            }
        }
        for text in [[whole.as_slice(), b" "].concat(), [b" ", whole.as_slice()].concat()] {
            fs::write(&path, text).unwrap();
            assert!(problem(&dir).contains("manifest.json was changed"), "{}", problem(&dir));
        }
        fs::write(&path, whole).unwrap();
        Image::open(dir.path()).unwrap();
    }

    #[test]
    fn an_images_hash_equals_sha256sum_of_its_file_list() {
        let dir = small_image();
        let image = Image::open(dir.path()).unwrap();
        let output = std::process::Command::new("sh")
            .args(["-c", "sha256sum fw_jump.bin initramfs.cpio kernel | sha256sum"])
            .current_dir(dir.path())
            .output()
            .unwrap();
        assert_eq!(format!("{}  -\n", image.hash()), String::from_utf8(output.stdout).unwrap());
    }

    #[test]
    fn a_manifest_cannot_name_files_outside_the_folder() {
        let dir = small_image();
        let path = dir.path().join(MANIFEST_FILE);
        let mut manifest = Image::open(dir.path()).unwrap().manifest;
        manifest.files[0].name = "../fw_jump.bin".into();
        fs::write(&path, manifest.to_json()).unwrap();
        assert!(problem(&dir).contains("\"../fw_jump.bin\""));
    }
}
