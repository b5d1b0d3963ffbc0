//! A fake image from given files, for tests of code that uses images: it needs no packages, no network, and
//! no guest that takes seconds to boot.

use std::fs;
use std::path::Path;

use doorbell_sim::Bytes;

use crate::builder::BUILDER;
use crate::error::ImageError;
use crate::manifest::{FileRecord, MANIFEST_FILE, MANIFEST_SCHEMA, Manifest};
use crate::recipe::Recipe;

/// Writes these files into `dir` as the image of `recipe`, which then counts as built.
pub fn fake_image(recipe: &Recipe, dir: &Path, files: &[(&str, &[u8])]) -> Result<(), ImageError> {
    fs::create_dir_all(dir).map_err(ImageError::io("create", dir))?;
    for (name, content) in files {
        fs::write(dir.join(name), content).map_err(ImageError::io("write", &dir.join(name)))?;
    }
    let record =
        |name: &str| FileRecord::of(name, &dir.join(name)).map_err(ImageError::io("read", &dir.join(name)));
    let manifest = Manifest {
        schema: MANIFEST_SCHEMA,
        builder: BUILDER,
        image: recipe.name().to_owned(),
        description: "made by hand".to_owned(),
        recipe_sha256: recipe.hash().to_owned(),
        suite: "none".to_owned(),
        architecture: "riscv64".to_owned(),
        ram_min: Bytes(1 << 20),
        command_line: "by hand".to_owned(),
        kernel_release: "none".to_owned(),
        files: files.iter().map(|(name, _)| record(name)).collect::<Result<_, _>>()?,
        packages: Vec::new(),
        named: Vec::new(),
        compiler: None,
        seal: String::new(),
    };
    let path = dir.join(MANIFEST_FILE);
    fs::write(&path, manifest.to_json()).map_err(ImageError::io("write", &path))
}
