//! Guest images, built like all others from recipes that this program includes.

use std::path::Path;

use doorbell_image::{BuildOptions, Image, ImageError, Recipe, build};

/// A recipe's own files, and those that it shares with the `net` image, whose counterpart on another
/// instruction set it is.
macro_rules! recipe {
    ($name:literal: $($file:literal),+ $(; net: $($shared:literal),+)?) => {
        Files {
            name: $name,
            own: &[$(($file, include_str!(concat!("../../../guest/traced/", $name, "/", $file)))),+],
            net: &[$($(($shared, include_str!(concat!("../../../guest/images/net/", $shared)))),+)?],
        }
    };
}

/// Console line that the guest's init prints before its command.
pub const COMMAND_STARTS: &str = "doorbell: start command";

/// A recipe's files: names and contents.
#[derive(Debug)]
pub struct Files {
    /// Recipe name.
    pub name: &'static str,
    own: &'static [(&'static str, &'static str)],
    net: &'static [(&'static str, &'static str)],
}

impl Files {
    fn all(&self) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
        self.own.iter().chain(self.net)
    }
}

/// All recipes, in the order of user-visible lists.
pub const GUESTS: [Files; 4] = [
    recipe!("net-amd64": "image.toml"; net: "fstab", "group", "init", "passwd", "shrc"),
    recipe!("net-arm64": "image.toml"; net: "fstab", "group", "init", "passwd", "shrc"),
    recipe!("net-riscv64": "image.toml"; net: "fstab", "group", "init", "passwd", "shrc"),
    recipe!("ids-amd64": "image.toml", "classification.config", "our.rules", "reference.config", "suricata.yaml",
        "threshold.config", "watched", "workload"),
];

/// Image of one of [`GUESTS`] or of a user's recipe, built below `cache` if necessary.
pub fn image(name: &str, cache: &Path, progress: &mut dyn FnMut(&str)) -> Result<Image, ImageError> {
    let is_own = GUESTS.iter().any(|own| own.name == name);
    let path = if is_own { unfold(&cache.join("traced"))?.join(name) } else { name.into() };
    let recipe = Recipe::load(&path)?;
    let options = BuildOptions {
        cache_dir: cache.join("packages"),
        out_dir: cache.join("images").join(recipe.folder_name()),
        ..BuildOptions::default()
    };
    build(&recipe, &options, progress)
}

/// Writes all of [`GUESTS`] into a folder, because one may extend another.
fn unfold(folder: &Path) -> Result<&Path, ImageError> {
    for guest in &GUESTS {
        let folder = folder.join(guest.name);
        doorbell_files::create_folders(&folder).map_err(ImageError::io("create", &folder))?;
        for (file, content) in guest.all() {
            let path = folder.join(file);
            if std::fs::read(&path).ok().as_deref() != Some(content.as_bytes()) {
                doorbell_files::write(&path, content.as_bytes()).map_err(ImageError::io("write", &path))?;
            }
        }
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_guest_recipe_loads_and_lists_all_its_files() {
        let cache = tempfile::tempdir().unwrap();
        let folder = unfold(cache.path()).unwrap();
        for Files { name, own, .. } in &GUESTS {
            assert_eq!(Recipe::load(folder.join(name)).unwrap().name(), *name);
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest/traced").join(name);
            assert_eq!(
                std::fs::read_dir(source).unwrap().count(),
                own.len(),
                "{name}: files missing from the list"
            );
        }
    }

    #[test]
    fn guest_scripts_have_no_syntax_errors() {
        let scripts =
            GUESTS.iter().flat_map(Files::all).filter(|(_, text)| text.starts_with("#!/bin/busybox sh\n"));
        for (name, text) in scripts {
            let checked = std::process::Command::new("sh").args(["-n", "-c", text]).output().unwrap();
            assert!(checked.status.success(), "{name}: {}", String::from_utf8_lossy(&checked.stderr));
        }
    }
}
