//! The folders of a history, what must hold in them at any moment, and what their results are.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, bail, ensure};
use doorbell_bench::verify;
use doorbell_files::copy_tree;
use doorbell_image::{Image, Recipe, image_by_hand};
use serde_json::Value;

use crate::commands::{Command, EXPERIMENT, Kind};
use crate::guest;

/// What testpmd's console shows when it is ready.
const MARKER: &str = "Press enter to exit";
/// The image that all commands boot.
const IMAGE: &str = "testpmd";
/// What names of images that are built begin with.
const IMAGE_BUILT: &str = "tiny";
/// Where processes work.
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
/// What the names say of what is not whole yet.
const PARTS: [&str; 5] = [".partial-", ".tmp-", ".building-", ".unpack-", ".incoming-"];
/// What two runs of one configuration may tell differently: the host's time, and how they were asked for.
const OF_THE_HOST: [&str; 5] =
    ["command", "host_mips", "host_seconds", "host_seconds_ahead", "host_seconds_elapsed"];

/// Results as they are compared: files by name, without what differs between hosts.
pub type Figures = BTreeMap<String, String>;

/// A folder with a cache, an experiment and results.
pub struct World {
    folder: tempfile::TempDir,
    doorbell: PathBuf,
    archive: PathBuf,
}

impl World {
    /// A world whose cache holds an image and nothing else. Other images are built from the packages in `archive`.
    pub fn new(doorbell: &Path, archive: &Path) -> anyhow::Result<World> {
        let folder = tempfile::Builder::new().prefix("doorbell-faults-").tempdir()?;
        let recipe = Recipe::load(IMAGE)?;
        let images = folder.path().join("cache/images").join(IMAGE);
        let guest = guest::program(MARKER);
        // Nobody executes the kernel, but it has to look like one (boot-image-header.rst).
        let mut kernel = [0; 64];
        kernel[8..16].copy_from_slice(&(2u64 << 20).to_le_bytes());
        kernel[16..24].copy_from_slice(&4096u64.to_le_bytes());
        kernel[56..60].copy_from_slice(b"RSC\x05");
        let files: [(&str, &[u8]); 3] =
            [("fw_dynamic.bin", &guest), ("initramfs.cpio", b"none"), ("kernel", &kernel)];
        image_by_hand(&recipe, &images, &files)?;
        std::fs::write(folder.path().join("experiment.toml"), EXPERIMENT)?;
        copy_tree(&archive.join("recipe"), &folder.path().join("recipe"))?;
        Ok(World { folder, doorbell: doorbell.to_owned(), archive: archive.to_owned() })
    }

    /// Where it is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A process that does this here.
    pub fn process(&self, command: &Command) -> std::process::Command {
        let mut process = std::process::Command::new(&self.doorbell);
        let archive = self.archive.display().to_string();
        let words = command.words.split_whitespace().map(|word| word.replace("{archive}", &archive));
        process.args(words).current_dir(self.folder.path());
        process.env("DOORBELL_CACHE", self.path("cache")).env_remove("RUST_BACKTRACE");
        process
    }

    /// Does this undisturbed, and gives its results.
    pub fn undisturbed(&self, command: &Command) -> anyhow::Result<Figures> {
        let mut process = self.process(command);
        let output = process.stdin(Stdio::null()).output().context("beginning doorbell")?;
        let told = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{} fails though nothing disturbs it: {told}", command.name);
        self.whole(command)?.with_context(|| format!("{} leaves no results", command.name))
    }

    /// What a command's folder holds now. It must be whole, whatever happened, or not be there.
    pub fn whole(&self, command: &Command) -> anyhow::Result<Option<Figures>> {
        let folder = self.path(command.results);
        let mut figures = Figures::new();
        match command.kind {
            Kind::Whole(_) => {
                if folder.symlink_metadata().is_err() {
                    return Ok(None);
                }
                verify(&folder)
                    .map_err(|problem| anyhow::anyhow!("{} is not whole: {problem}", command.results))?;
                gather(&folder, "", &mut figures)?;
            }
            Kind::Points => {
                for name in doorbell_files::list(&folder.join("points")).unwrap_or_default() {
                    let name = name.to_string_lossy().into_owned();
                    if !name.starts_with('.') {
                        let point = folder.join("points").join(&name);
                        verify(&point)
                            .map_err(|problem| anyhow::anyhow!("point {name} is not whole: {problem}"))?;
                        gather(&point, &format!("{name}/"), &mut figures)?;
                    }
                }
            }
            Kind::Image => {
                let names = doorbell_files::list(&folder)?;
                let ours = |name: &&OsString| name.to_string_lossy().starts_with(IMAGE_BUILT);
                let Some(name) = names.iter().find(ours) else { return Ok(None) };
                let image = Image::open(folder.join(name))?;
                figures.insert("image".to_owned(), image.hash());
                figures.insert("packages".to_owned(), format!("{:?}", image.manifest().packages));
            }
        }
        Ok(Some(figures))
    }

    /// What nobody works on any more must not lie about: parts of files, locks.
    pub fn is_tidy(&self) -> anyhow::Result<()> {
        let mut left = Vec::new();
        for folder in FOLDERS {
            for name in doorbell_files::list(&self.path(folder)).unwrap_or_default() {
                let name = name.to_string_lossy().into_owned();
                let is_part = PARTS.iter().any(|part| name.contains(part)) || name.ends_with(".lock");
                // A killed process leaves the empty file of its lock; who needs no lock there does not remove it.
                let may_stay = name.ends_with(".lock") && folder.starts_with("cache");
                if is_part && !may_stay {
                    left.push(format!("{folder}/{name}"));
                }
            }
        }
        if !left.is_empty() {
            bail!("left lying about: {}", left.join(", "));
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
            .filter(|(name, _)| !OF_THE_HOST.contains(&name.as_str()))
            .map(|(name, value)| (name, without_host(value)))
            .collect(),
        Value::Array(all) => all.into_iter().map(without_host).collect(),
        other => other,
    }
}
