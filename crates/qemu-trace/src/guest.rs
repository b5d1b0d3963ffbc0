//! The guests: images that are built as all others are, from recipes that this program brings along.

use std::path::Path;

use doorbell_image::{BuildOptions, Image, ImageError, Recipe, build};

macro_rules! recipe {
    ($name:literal: $($file:literal),+) => {
        ($name, &[$(($file, include_str!(concat!("../../../guest/traced/", $name, "/", $file)))),+])
    };
}

/// A recipe's name, and its files.
type Files = (&'static str, &'static [(&'static str, &'static str)]);

/// Every recipe, in the order in which they are listed to the user.
pub const GUESTS: [Files; 1] =
    [recipe!("net-amd64": "image.toml", "fstab", "group", "init", "passwd", "shrc")];

/// The image of one of [`GUESTS`], or of a recipe of the user's own, built below `cache` unless it is there.
pub fn image(name: &str, cache: &Path, progress: &mut dyn FnMut(&str)) -> Result<Image, ImageError> {
    let own = GUESTS.iter().find(|(own, _)| *own == name);
    let path = match own {
        Some((name, files)) => {
            let folder = cache.join("traced").join(name);
            doorbell_files::create_folders(&folder).map_err(ImageError::io("create", &folder))?;
            for (file, content) in *files {
                let path = folder.join(file);
                if std::fs::read(&path).ok().as_deref() != Some(content.as_bytes()) {
                    doorbell_files::write(&path, content.as_bytes())
                        .map_err(ImageError::io("write", &path))?;
                }
            }
            folder
        }
        None => name.into(),
    };
    let recipe = Recipe::load(&path)?;
    let options = BuildOptions {
        cache_dir: cache.join("packages"),
        out_dir: cache.join("images").join(recipe.folder_name()),
        ..BuildOptions::default()
    };
    build(&recipe, &options, progress)
}
