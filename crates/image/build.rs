//! Embeds the built-in recipes, so that the program works from any folder: `guest/images/NAME/image.toml`,
//! which several benchmarks share, and `scenarios/*/guest/NAME.toml`, each with the other files of its folder.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The entries of a folder, by name.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = all.map(|entry| entry.expect("a folder can be read").path()).collect();
    paths.sort();
    paths
}

fn has_ending(path: &Path, endings: &[&str]) -> bool {
    path.extension().is_some_and(|own| endings.iter().any(|ending| own == *ending))
}

/// The files of a recipe: those of its folder, and C sources and headers in subfolders.
fn files(folder: &Path, is_top: bool) -> Vec<PathBuf> {
    let is_wanted = |path: &Path| match is_top {
        true => !has_ending(path, &["toml"]),
        false => has_ending(path, &["c", "h"]),
    };
    let of = |path: PathBuf| match path.is_dir() {
        true => files(&path, false),
        false => Some(path).filter(|path| is_wanted(path)).into_iter().collect(),
    };
    entries(folder).into_iter().flat_map(of).collect()
}

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().expect("the repository has a folder");
    let shared = entries(&root.join("guest/images")).into_iter().map(|folder| folder.join("image.toml"));
    let scenarios = entries(&root.join("scenarios")).into_iter().map(|scenario| scenario.join("guest"));
    let own = scenarios.filter(|guest| guest.is_dir()).flat_map(|guest| entries(&guest));
    let recipes: Vec<PathBuf> = shared.chain(own.filter(|path| has_ending(path, &["toml"]))).collect();
    // A new scenario changes the list in mod.rs.
    println!("cargo::rerun-if-changed={}", root.join("scenarios/mod.rs").display());
    let mut list = String::from("&[\n");
    for recipe in recipes {
        let folder = recipe.parent().expect("a recipe is in a folder");
        println!("cargo::rerun-if-changed={}", folder.display());
        let named = if recipe.ends_with("image.toml") { folder } else { &recipe };
        let name = named.file_stem().expect("it has a name");
        let path = recipe.strip_prefix(&root).expect("it is in the repository");
        let _ = write!(list, "BuiltinRecipe {{ name: {name:?}, path: {path:?}, files: &[");
        let _ = write!(list, "(RECIPE_FILE, include_str!({recipe:?})), ");
        for file in files(folder, true) {
            let inside = file.strip_prefix(folder).expect("it is in the folder");
            let _ = write!(list, "({inside:?}, include_str!({file:?})), ");
        }
        list += "] },\n";
    }
    let out = std::env::var_os("OUT_DIR").expect("Cargo names a folder");
    fs::write(Path::new(&out).join("recipes.rs"), list + "]").expect("Cargo's folder can be written to");
}
