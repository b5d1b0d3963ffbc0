//! The folders of a history, their invariants, and their results.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, bail, ensure};
use doorbell_bench::verify;
use doorbell_files::copy_tree;
use doorbell_image::{Image, Recipe};
use serde_json::Value;

use crate::commands::{Command, EXPERIMENT, Kind};
use crate::fake_image::fake_image;
use crate::guest;

/// Console output of testpmd when it is ready.
const MARKER: &str = "Press enter to exit";
/// The image that all commands boot.
const IMAGE: &str = "testpmd";
/// Prefix of the names of built images.
const BUILT_IMAGE_PREFIX: &str = "tiny";
/// Folders in which processes work.
const FOLDERS: [&str; 10] = [
    "",
    "cache",
    "cache/checkpoints",
    "cache/images",
    "cache/packages",
    "cache/packages/debs",
    "sweep",
    "sweep/points",
    "latest",
    "search",
];
/// Name parts of incomplete files and folders.
const PARTIAL_NAMES: [&str; 5] = [".partial-", ".tmp-", ".building-", ".unpack-", ".incoming-"];
/// Summary keys that may differ between runs of one configuration: host time and command.
const HOST_DEPENDENT_KEYS: [&str; 5] =
    ["command", "host_mips", "host_seconds", "host_seconds_ahead", "host_seconds_elapsed"];

/// Results as compared: files by name, without host-dependent values.
pub type Figures = BTreeMap<String, String>;

/// A folder with a cache, an experiment and results.
pub struct World {
    folder: tempfile::TempDir,
    doorbell: PathBuf,
    archive: PathBuf,
}

impl World {
    /// A world whose cache contains only one image. Other images are built from the packages in `archive`.
    pub fn new(doorbell: &Path, archive: &Path) -> anyhow::Result<World> {
        let folder = tempfile::Builder::new().prefix("doorbell-faults-").tempdir()?;
        let recipe = Recipe::load(IMAGE)?;
        let images = folder.path().join("cache/images").join(IMAGE);
        let guest = guest::program(MARKER);
        // The kernel is not executed, but needs a valid header (boot-image-header.rst).
        let mut kernel = [0; 64];
        kernel[8..16].copy_from_slice(&(2u64 << 20).to_le_bytes());
        kernel[16..24].copy_from_slice(&4096u64.to_le_bytes());
        kernel[56..60].copy_from_slice(b"RSC\x05");
        let files: [(&str, &[u8]); 3] =
            [("fw_dynamic.bin", &guest), ("initramfs.cpio", b"none"), ("kernel", &kernel)];
        fake_image(&recipe, &images, &files)?;
        std::fs::write(folder.path().join("experiment.toml"), EXPERIMENT)?;
        copy_tree(&archive.join("recipe"), &folder.path().join("recipe"))?;
        Ok(World { folder, doorbell: doorbell.to_owned(), archive: archive.to_owned() })
    }

    /// Path of a file or folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A process that runs this command in the world.
    pub fn process(&self, command: &Command) -> std::process::Command {
        let mut process = std::process::Command::new(&self.doorbell);
        let archive = self.archive.display().to_string();
        let words = command.words.split_whitespace().map(|word| word.replace("{archive}", &archive));
        process.args(words).current_dir(self.folder.path());
        process.env("DOORBELL_CACHE", self.path("cache")).env_remove("RUST_BACKTRACE");
        process
    }

    /// Runs a command without faults and returns its results.
    pub fn undisturbed(&self, command: &Command) -> anyhow::Result<Figures> {
        let mut process = self.process(command);
        let output = process.stdin(Stdio::null()).output().context("starting doorbell")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{} fails without faults: {stderr}", command.name);
        self.complete_results(command)?.with_context(|| format!("{} leaves no results", command.name))
    }

    /// The current results of a command. They must be complete, whatever happened, or absent.
    pub fn complete_results(&self, command: &Command) -> anyhow::Result<Option<Figures>> {
        let folder = self.path(command.results);
        let mut figures = Figures::new();
        match command.kind {
            Kind::Whole(_) => {
                if folder.symlink_metadata().is_err() {
                    return Ok(None);
                }
                verify(&folder)
                    .map_err(|problem| anyhow::anyhow!("{} is not complete: {problem}", command.results))?;
                gather(&folder, "", &mut figures)?;
            }
            Kind::Points => {
                for name in doorbell_files::list(&folder.join("points")).unwrap_or_default() {
                    let name = name.to_string_lossy().into_owned();
                    if !name.starts_with('.') {
                        let point = folder.join("points").join(&name);
                        verify(&point)
                            .map_err(|problem| anyhow::anyhow!("point {name} is not complete: {problem}"))?;
                        gather(&point, &format!("{name}/"), &mut figures)?;
                    }
                }
            }
            Kind::Image => {
                let names = doorbell_files::list(&folder)?;
                let ours = |name: &&OsString| name.to_string_lossy().starts_with(BUILT_IMAGE_PREFIX);
                let Some(name) = names.iter().find(ours) else { return Ok(None) };
                let image = Image::open(folder.join(name))?;
                figures.insert("image".to_owned(), image.hash());
                figures.insert("packages".to_owned(), format!("{:?}", image.manifest().packages));
            }
        }
        Ok(Some(figures))
    }

    /// Checks that no partial files and locks are left.
    pub fn check_no_leftovers(&self) -> anyhow::Result<()> {
        let mut left = Vec::new();
        for folder in FOLDERS {
            for name in doorbell_files::list(&self.path(folder)).unwrap_or_default() {
                let name = name.to_string_lossy().into_owned();
                let is_part = PARTIAL_NAMES.iter().any(|part| name.contains(part)) || name.ends_with(".lock");
                // A killed process leaves its empty lock file in the cache, which later processes need not
                // remove.
                let may_stay = name.ends_with(".lock") && folder.starts_with("cache");
                if is_part && !may_stay {
                    left.push(format!("{folder}/{name}"));
                }
            }
        }
        if !left.is_empty() {
            bail!("left over: {}", left.join(", "));
        }
        Ok(())
    }
}

fn gather(folder: &Path, below: &str, figures: &mut Figures) -> anyhow::Result<()> {
    for name in doorbell_files::list(folder)? {
        let path = folder.join(&name);
        let shown = format!("{below}{}", name.to_string_lossy());
        if path.is_dir() {
            gather(&path, &format!("{shown}/"), figures)?;
        } else if !shown.ends_with("report.html") && !shown.ends_with("files.sha256") {
            let bytes = std::fs::read(&path)?;
            let comparable = match shown.ends_with("summary.json") {
                true => {
                    without_host(serde_json::from_slice(&bytes).with_context(|| shown.clone())?).to_string()
                }
                false => String::from_utf8_lossy(&bytes).into_owned(),
            };
            figures.insert(shown, comparable);
        }
    }
    Ok(())
}

fn without_host(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(name, _)| !HOST_DEPENDENT_KEYS.contains(&name.as_str()))
            .map(|(name, value)| (name, without_host(value)))
            .collect(),
        Value::Array(all) => all.into_iter().map(without_host).collect(),
        other => other,
    }
}
