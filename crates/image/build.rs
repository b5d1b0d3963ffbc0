//! Embeds the built-in recipes, so that the program works from any folder: `guest/images/NAME/image.toml`,
//! which several benchmarks share, and `scenarios/*/guest/NAME.toml`, each with the other files of its folder.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The entries of a folder, by name, without hidden files and editors' backups (`x~`, `#x#`).
fn entries(folder: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = all.map(|entry| entry.expect("a folder can be read").path()).collect();
    paths.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        !name.starts_with(['.', '#']) && !name.ends_with('~')
    });
    paths.sort();
    paths
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    entries(folder).into_iter().filter(|path| path.is_dir()).collect()
}

fn has_ending(path: &Path, endings: &[&str]) -> bool {
    path.extension().is_some_and(|own| endings.iter().any(|ending| own == *ending))
}

/// The recipe of an image in `guest/images`.
fn shared_recipe(folder: PathBuf) -> PathBuf {
    let recipe = folder.join("image.toml");
    assert!(recipe.is_file(), "{}: the folder of an image needs a recipe, image.toml", folder.display());
    recipe
}

/// The recipes of a benchmark, none for another folder. A benchmark without a folder `guest` names its first
/// own image in `mod.rs`.
fn own_recipes(scenario: &Path) -> Vec<PathBuf> {
    let (module, guest) = (scenario.join("mod.rs"), scenario.join("guest"));
    // A path that does not exist would run this script at each build.
    if module.is_file() && !guest.is_dir() {
        watch(&module);
    }
    if !module.is_file() || !guest.is_dir() {
        return Vec::new();
    }
    watch(&guest);
    entries(&guest).into_iter().filter(|path| has_ending(path, &["toml"])).collect()
}

/// Runs this script again when a file changes, or when one in a folder changes, is added or is removed.
fn watch(path: &Path) {
    println!("cargo::rerun-if-changed={}", path.display());
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
    let images = root.join("guest/images");
    watch(&images);
    // A new scenario changes the list in mod.rs.
    watch(&root.join("scenarios/mod.rs"));
    let shared = folders(&images).into_iter().map(shared_recipe);
    let own = folders(&root.join("scenarios")).into_iter().flat_map(|scenario| own_recipes(&scenario));
    let mut list = String::from("&[\n");
    for recipe in shared.chain(own) {
        let folder = recipe.parent().expect("a recipe is in a folder");
        let named = if recipe.starts_with(&images) { folder } else { &recipe };
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
