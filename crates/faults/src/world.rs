//! The folders of a history, what must hold in them at any moment, and what their results are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, bail, ensure};
use doorbell_bench::verify;
use doorbell_image::{Recipe, image_by_hand};
use serde_json::Value;

use crate::commands::{Command, EXPERIMENT, Kind};
use crate::guest;

/// What testpmd's console shows when it is ready.
const MARKER: &str = "Press enter to exit";
/// The image that all commands boot.
const IMAGE: &str = "testpmd";
/// What two runs of one configuration may tell differently: the host's time, and how they were asked for.
const OF_THE_HOST: [&str; 5] =
    ["command", "host_mips", "host_seconds", "host_seconds_ahead", "host_seconds_elapsed"];

/// Results as they are compared: files by name, without what differs between hosts.
pub type Figures = BTreeMap<String, String>;

/// A folder with a cache, an experiment and results.
pub struct World {
    folder: tempfile::TempDir,
    doorbell: PathBuf,
}

impl World {
    /// A world whose cache holds an image and nothing else.
    pub fn new(doorbell: &Path) -> anyhow::Result<World> {
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
        Ok(World { folder, doorbell: doorbell.to_owned() })
    }

    /// Where it is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A process that does this here.
    pub fn process(&self, command: &Command) -> std::process::Command {
        let mut process = std::process::Command::new(&self.doorbell);
        process.args(command.words.split_whitespace()).current_dir(self.folder.path());
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
        }
        Ok(Some(figures))
    }

    /// What nobody works on any more must not lie about: parts of files, locks.
    pub fn is_tidy(&self) -> anyhow::Result<()> {
        let mut left = Vec::new();
        let folders =
            ["", "cache", "cache/checkpoints", "cache/images", "sweep", "sweep/points", "latest", "search"];
        for folder in folders {
            for name in doorbell_files::list(&self.path(folder)).unwrap_or_default() {
                let name = name.to_string_lossy().into_owned();
                let is_part = name.contains(".partial-") || name.contains(".tmp-") || name.ends_with(".lock");
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
