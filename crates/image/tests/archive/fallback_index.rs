//! A mirror during an update: its index does not match the signature, and the fallback index is used.

use std::fs;
use std::path::PathBuf;

use doorbell_image::{BuildOptions, ImageError, LockFile, build};

use crate::versions;
use doorbell_archive::{RECIPE, World};

fn index(world: &World) -> PathBuf {
    world.path("mirror/debian/dists/testing-suite/main/binary-riscv64/Packages")
}

/// A mirror whose index is one line longer than the signed Release file states, and a fallback index.
fn index_mismatch() -> (World, BuildOptions) {
    let world = World::new();
    let fallback = fs::read_to_string(index(&world)).unwrap();
    fs::write(index(&world), format!("{fallback}\nPackage: tiny-later\n")).unwrap();
    let options = BuildOptions { fallback_index: Some(fallback), ..world.options() };
    (world, options)
}

#[test]
fn the_fallback_index_gives_the_same_image_as_the_suite() {
    let (world, options) = index_mismatch();
    let mut messages = Vec::new();
    let fallback = build(&world.recipe(), &options, &mut |line| messages.push(line.to_owned())).unwrap();
    assert!(
        messages.iter().any(|line| line.contains("the versions in this program's built-in package list")),
        "{messages:?}"
    );
    assert_eq!(versions(&fallback), [("tiny-firmware", "1:1.0-1"), ("tiny-kernel", "1:1.0-1")]);
    let updated = World::new();
    assert_eq!(updated.build(&updated.options()).unwrap().hash(), fallback.hash());
}

#[test]
fn the_suites_index_takes_precedence_over_the_fallback() {
    let (world, options) = index_mismatch();
    world.publish("1:2.0-1", Some("archive"));
    assert_eq!(versions(&world.build(&options).unwrap())[1], ("tiny-kernel", "1:2.0-1"));
}

#[test]
fn the_fallback_checks_hashes_and_names_missing_packages() {
    let (world, options) = index_mismatch();
    let deb = world.path("mirror/debian/tiny-kernel.deb");
    let whole = fs::read(&deb).unwrap();
    fs::write(&deb, [whole.as_slice(), b"more"].concat()).unwrap();
    let error = world.build(&options).unwrap_err().to_string();
    assert!(error.starts_with("downloading packages failed"), "{error}");
    assert!(world.images().is_empty());
    fs::remove_file(&deb).unwrap();
    let error = world.build(&options).unwrap_err().to_string();
    assert!(error.starts_with("downloading packages failed"), "{error}");
    fs::write(&deb, whole).unwrap();
    fs::write(
        world.path("recipe/image.toml"),
        RECIPE.replace("\"tiny-kernel\"]", "\"tiny-kernel\", \"tiny-later\"]"),
    )
    .unwrap();
    let error = world.build(&options).unwrap_err();
    assert!(matches!(error, ImageError::NotInFallbackIndex { .. }), "{error}");
    let message = error.to_string();
    assert!(message.contains("\"tiny-later\"") && message.contains("DOORBELL_DEBIAN_MIRROR"), "{message}");
}

#[test]
fn without_a_fallback_index_apts_error_is_shown() {
    let (world, options) = index_mismatch();
    let error = world.build(&BuildOptions { fallback_index: None, ..options }).unwrap_err().to_string();
    assert!(error.contains("apt-get update failed") && error.contains("try again later"), "{error}");
}

#[test]
fn a_lock_file_of_fallback_packages_works_too() {
    let (world, options) = index_mismatch();
    let image = world.build(&options).unwrap();
    LockFile::of(&image).write(&world.path("tiny.lock")).unwrap();
    fs::remove_dir_all(world.path("a cache")).unwrap();
    let locked = BuildOptions { locked: Some(world.path("tiny.lock")), force: true, ..options };
    assert_eq!(world.build(&locked).unwrap().hash(), image.hash());
}
