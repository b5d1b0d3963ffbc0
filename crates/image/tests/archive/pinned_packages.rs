//! Packages that a recipe pins exactly, of which the suite's index has another version or none.

use std::fs;

use doorbell_image::{BuildOptions, ImageError, LockFile, Recipe, build};

use crate::versions;
use doorbell_archive::{RECIPE, World};

const OLD: &str = "1:1.0-1";
const NEW: &str = "1:2.0-1";

/// The paragraph of a package in the current index.
fn paragraph(world: &World, name: &str) -> String {
    let index = world.path("mirror/debian/dists/testing-suite/main/binary-riscv64/Packages");
    let index = fs::read_to_string(index).unwrap();
    let found = index.split("\n\n").find(|paragraph| paragraph.starts_with(&format!("Package: {name}\n")));
    format!("{}\n", found.unwrap().trim())
}

/// A recipe that pins the old firmware, under a separate path in the archive; the suite has a newer version.
fn newer_archive() -> World {
    let world = World::new();
    let exact = paragraph(&world, "tiny-firmware").replace("Filename: ", "Filename: pool/");
    let kept = fs::read(world.path("mirror/debian/tiny-firmware.deb")).unwrap();
    world.publish(NEW, Some("archive"));
    fs::create_dir_all(world.path("mirror/debian/pool")).unwrap();
    fs::write(world.path("mirror/debian/pool/tiny-firmware.deb"), kept).unwrap();
    fs::write(world.path("recipe/exact.packages"), exact).unwrap();
    let text = RECIPE.replace("leave_out", "exact = \"exact.packages\"\nleave_out");
    fs::write(world.path("recipe/image.toml"), text).unwrap();
    world
}

#[test]
fn a_pinned_package_is_used_although_the_suite_has_another_version() {
    let world = newer_archive();
    let image = world.build(&world.options()).unwrap();
    assert_eq!(versions(&image), [("tiny-firmware", OLD), ("tiny-kernel", NEW)]);
    // The same holds off line and with a lock file, without the file on the mirror.
    fs::remove_file(world.path("mirror/debian/pool/tiny-firmware.deb")).unwrap();
    let again = |options: BuildOptions| world.build(&BuildOptions { force: true, ..options }).unwrap().hash();
    assert_eq!(again(BuildOptions { offline: true, ..world.options() }), image.hash());
    LockFile::of(&image).write(&world.path("tiny.lock")).unwrap();
    let locked = || BuildOptions { locked: Some(world.path("tiny.lock")), ..world.options() };
    world.publish("1:3.0-1", Some("archive"));
    assert_eq!(again(locked()), image.hash());
    assert_eq!(again(BuildOptions { offline: true, ..locked() }), image.hash());
    // A lock file with another version is refused.
    let text = fs::read_to_string(world.path("recipe/exact.packages")).unwrap();
    fs::write(world.path("recipe/exact.packages"), text.replace(OLD, "1:1.0-2")).unwrap();
    let error = world.build(&locked()).unwrap_err();
    assert!(matches!(error, ImageError::LockFile { .. }), "{error}");
    assert!(error.to_string().contains("the recipe pins tiny-firmware 1:1.0-2"), "{error}");
}

#[test]
fn a_pinned_package_of_a_lock_file_is_fetched_by_its_path() {
    let world = newer_archive();
    let image = world.build(&world.options()).unwrap();
    LockFile::of(&image).write(&world.path("tiny.lock")).unwrap();
    fs::remove_file(world.path("a cache/debs/tiny-firmware_1%3a1.0-1_riscv64.deb")).unwrap();
    let locked = BuildOptions { locked: Some(world.path("tiny.lock")), force: true, ..world.options() };
    assert_eq!(world.build(&locked).unwrap().hash(), image.hash());
}

#[test]
fn a_replaced_or_missing_pinned_package_file_is_refused() {
    let world = newer_archive();
    let deb = world.path("mirror/debian/pool/tiny-firmware.deb");
    fs::copy(world.path("mirror/debian/tiny-firmware.deb"), &deb).unwrap();
    let error = world.build(&world.options()).unwrap_err().to_string();
    assert!(error.starts_with("downloading packages failed"), "{error}");
    fs::remove_file(&deb).unwrap();
    let error = world.build(&world.options()).unwrap_err().to_string();
    assert!(error.starts_with("downloading packages failed"), "{error}");
    assert!(world.images().is_empty());
}

#[test]
fn the_packages_file_is_part_of_the_recipe_and_its_errors_are_named() {
    let world = newer_archive();
    let recipe = world.path("recipe");
    let hash = || world.recipe().hash().to_owned();
    let before = hash();
    let text = fs::read_to_string(recipe.join("exact.packages")).unwrap();
    fs::write(recipe.join("exact.packages"), text.replace("Description: test", "Description: other"))
        .unwrap();
    assert_ne!(before, hash());
    let refused = || Recipe::load(&recipe).unwrap_err().to_string();
    fs::write(recipe.join("exact.packages"), text.replace("pool/", "../")).unwrap();
    assert!(refused().contains("exact.packages: package tiny-firmware: Filename"), "{}", refused());
    fs::remove_file(recipe.join("exact.packages")).unwrap();
    assert!(refused().contains("the file exact.packages is missing"), "{}", refused());
    // An extension keeps the base recipe's pinned packages.
    fs::write(recipe.join("exact.packages"), text).unwrap();
    fs::write(world.path("more.toml"), "schema = 1\nextends = \"recipe\"\nname = \"tiny\"\n").unwrap();
    let more = Recipe::load(world.path("more.toml")).unwrap();
    assert_eq!(versions(&build(&more, &world.options(), &mut |_| ()).unwrap())[0], ("tiny-firmware", OLD));
}
