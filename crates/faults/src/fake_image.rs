//! An image of arbitrary files.

use std::path::Path;

use anyhow::Context as _;
use doorbell_files::{sha256, sha256_of};
use doorbell_image::{BUILDER, Recipe};
use doorbell_sim::Bytes;
use serde_json::{Value, json};

/// Writes these files into `dir` as the image of `recipe`, which then counts as built.
pub fn fake_image(recipe: &Recipe, dir: &Path, files: &[(&str, &[u8])]) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir)?;
    let mut records = Vec::new();
    for (name, content) in files {
        std::fs::write(dir.join(name), content)?;
        let (sha256, size_bytes) = sha256_of(&dir.join(name))?;
        records.push(json!({ "name": name, "size_bytes": size_bytes, "sha256": sha256 }));
    }
    let mut manifest = json!({
        "schema": 2,
        "builder": BUILDER,
        "image": recipe.name(),
        "description": "made by hand",
        "recipe_sha256": recipe.hash(),
        "suite": "none",
        "architecture": "riscv64",
        "ram_min": Bytes(1 << 20),
        "command_line": "by hand",
        "kernel_release": "none",
        "files": records,
        "packages": [],
        "named": [],
        "seal": "",
    });
    let text = |manifest: &Value| serde_json::to_string_pretty(manifest).map(|text| text + "\n");
    manifest["seal"] = sha256(text(&manifest)?.as_bytes()).into();
    std::fs::write(dir.join("manifest.json"), text(&manifest)?).context("writing the manifest")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fake_image_can_be_opened() {
        let folder = tempfile::tempdir().unwrap();
        let recipe = Recipe::load("net").unwrap();
        let files: [(&str, &[u8]); 2] = [("initramfs.cpio", b"none"), ("kernel", b"none")];
        fake_image(&recipe, folder.path(), &files).unwrap();
        let image = doorbell_image::Image::open(folder.path()).unwrap();
        assert_eq!((image.name(), image.ram_min()), ("net", Bytes(1 << 20)));
    }
}
