//! Environment of a recording: QEMU version, options, command line, image. A replay in another environment
//! diverges sooner or later, and then usually hangs: QEMU waits for an instruction count that does not come.
//! The environment is therefore compared before a replay. If a replay still hangs, the plugin ends it
//! (`tools/qemu-trace/watchdog.c`).

use std::fs;
use std::path::Path;

use doorbell_image::Image;
use serde::{Deserialize, Serialize};

use crate::recording::{Guest, RecordError};
use crate::tools::Tools;

const FILE: &str = "made-with.toml";

/// Environment of a recording; see the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MadeWith {
    /// QEMU's packages, given by their unpacked folder.
    pub qemu: String,
    /// QEMU's options: machine, CPU, NIC, RAM, clock.
    pub options: Vec<String>,
    /// Kernel command line.
    pub command_line: String,
    /// SHA-256 of the image files.
    pub image: Vec<String>,
}

impl MadeWith {
    /// The current environment.
    pub fn now(tools: &Tools, guest: &Guest) -> Result<MadeWith, RecordError> {
        let image = Image::open(&guest.image)?;
        let manifest = image.manifest();
        Ok(MadeWith {
            qemu: tools.version(),
            options: guest.options()?,
            command_line: guest.command_line(&image),
            image: manifest.files.iter().map(|file| format!("{} {}", file.name, file.sha256)).collect(),
        })
    }

    /// Writes it to a recording's folder.
    pub fn write(&self, folder: &Path) -> Result<(), RecordError> {
        let path = folder.join(FILE);
        let text = toml::to_string(self).expect("its fields are plain");
        fs::write(&path, text).map_err(RecordError::io("write", &path))
    }

    /// Environment of a recording; `None` for old recordings, which lack the file.
    pub fn read(folder: &Path) -> Result<Option<MadeWith>, RecordError> {
        let path = folder.join(FILE);
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(&path).map_err(RecordError::io("read", &path))?;
        let bad = |error: toml::de::Error| RecordError::Failed(format!("{}: {error}", path.display()));
        toml::from_str(&text).map(Some).map_err(bad)
    }

    /// The first difference of a replay: its name, the recorded value, and the current one.
    pub fn differs(&self, now: &MadeWith) -> Option<(&'static str, String, String)> {
        let all = [
            ("QEMU's packages", vec![self.qemu.clone()], vec![now.qemu.clone()]),
            ("QEMU's options", self.options.clone(), now.options.clone()),
            ("the kernel's command line", vec![self.command_line.clone()], vec![now.command_line.clone()]),
            ("the image's files", self.image.clone(), now.image.clone()),
        ];
        let (what, was, is) = all.into_iter().find(|(_, was, is)| was != is)?;
        // Only the entries of the lists that differ.
        let only = |these: &[String], others: &[String]| {
            let own: Vec<&str> =
                these.iter().filter(|one| !others.contains(one)).map(|one| &one[..]).collect();
            if own.is_empty() { "nothing more".to_owned() } else { own.join(" ") }
        };
        Some((what, only(&was, &is), only(&is, &was)))
    }
}

/// Checks that a recording can be replayed; the error names what has changed.
pub fn check(tools: &Tools, guest: &Guest, folder: &Path) -> Result<(), RecordError> {
    let Some(was) = MadeWith::read(folder)? else { return Ok(()) };
    let Some((what, was, is)) = was.differs(&MadeWith::now(tools, guest)?) else { return Ok(()) };
    Err(RecordError::Failed(format!(
        "{} cannot be replayed: {what} have changed since the recording ({was}; now {is}). Record it again (--again), or use the \
         Doorbell version that recorded it",
        folder.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_differences_are_named() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let was = MadeWith {
            qemu: "10.0".to_owned(),
            options: words("-machine q35 -cpu qemu64"),
            command_line: "quiet".to_owned(),
            image: words("kernel=1 initramfs=2"),
        };
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(MadeWith::read(folder.path()).unwrap(), None, "older recordings have none");
        was.write(folder.path()).unwrap();
        assert_eq!(MadeWith::read(folder.path()).unwrap(), Some(was.clone()));
        assert_eq!(was.differs(&was), None);
        let now = MadeWith { options: words("-machine q35 -cpu max"), ..was.clone() };
        assert_eq!(was.differs(&now), Some(("QEMU's options", "qemu64".to_owned(), "max".to_owned())));
        let now = MadeWith { image: words("kernel=1 initramfs=3"), ..was.clone() };
        let (what, before, after) = was.differs(&now).unwrap();
        assert_eq!((what, &before[..], &after[..]), ("the image's files", "initramfs=2", "initramfs=3"));
        let now = MadeWith { options: words("-machine q35"), ..was.clone() };
        assert_eq!(was.differs(&now).unwrap().2, "nothing more");
        fs::write(folder.path().join(FILE), "qemu = 5").unwrap();
        assert!(MadeWith::read(folder.path()).unwrap_err().to_string().contains(FILE));
    }
}
