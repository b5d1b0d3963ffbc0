//! Images built from a lock file after the archive got newer packages.

use std::fs;

use doorbell_image::{BuildOptions, Image, ImageError, LockFile, Recipe, build};

use crate::versions;
use doorbell_archive::{RECIPE, World};

const OLD: &str = "1:1.0-1";
const NEW: &str = "1:2.0-1";

/// An archive with newer packages than the lock file of an existing image.
fn newer_archive() -> (World, Image) {
    let world = World::new();
    let image = world.build(&world.options()).unwrap();
    LockFile::of(&image).write(&world.path("tiny.lock")).unwrap();
    world.publish(NEW, Some("archive"));
    (world, image)
}

fn locked(world: &World) -> BuildOptions {
    BuildOptions { locked: Some(world.path("tiny.lock")), ..world.options() }
}

#[test]
fn a_locked_image_is_rebuilt_from_the_cache_although_the_archive_has_newer_packages() {
    let (world, old) = newer_archive();
    let new = world.build(&BuildOptions { refresh: true, ..world.options() }).unwrap();
    assert_eq!(versions(&new)[1], ("tiny-kernel", NEW));
    // The present image has other packages: it is rebuilt, and the reason is reported.
    let mut messages = Vec::new();
    let again = build(&world.recipe(), &locked(&world), &mut |line| messages.push(line.to_owned())).unwrap();
    assert_eq!((again.hash(), again.manifest()), (old.hash(), old.manifest()));
    assert!(messages.iter().any(|line| line.contains("are not the locked ones")), "{messages:?}");
    assert!(
        !messages.iter().any(|line| line.contains("index") || line.contains("not the same")),
        "{messages:?}"
    );
    // The present image matches now, and it can be rebuilt without the archive.
    fs::remove_dir_all(world.path("mirror")).unwrap();
    messages.clear();
    build(&world.recipe(), &locked(&world), &mut |line| messages.push(line.to_owned())).unwrap();
    assert!(messages.is_empty(), "{messages:?}");
    for offline in [false, true] {
        let force = BuildOptions { force: true, offline, ..locked(&world) };
        assert_eq!(world.build(&force).unwrap().hash(), old.hash());
    }
}

#[test]
fn versions_that_the_archive_no_longer_has_are_listed_with_its_current_ones() {
    let (world, old) = newer_archive();
    let lost = world.path("a cache/debs/tiny-kernel_1%3a1.0-1_riscv64.deb");
    fs::rename(&lost, world.path("kept.deb")).unwrap();
    let force = BuildOptions { force: true, ..locked(&world) };
    let error = world.build(&force).unwrap_err();
    assert!(matches!(error, ImageError::NoLongerAvailable { .. }), "{error}");
    let message = error.to_string();
    assert!(message.contains(&format!("tiny-kernel {OLD} (it has {NEW} instead)")), "{message}");
    assert!(
        message.contains("tiny.lock") && message.contains("--refresh") && !message.contains("tiny-firmware"),
        "{message}"
    );
    let error = world.build(&BuildOptions { offline: true, ..force.clone() }).unwrap_err().to_string();
    assert!(error.contains(&format!("tiny-kernel {OLD} is not in the cache")), "{error}");
    assert_eq!(Image::open(old.dir()).unwrap().manifest(), old.manifest(), "the present image is unchanged");
    // An archive that has the version again serves it.
    world.publish(OLD, Some("archive"));
    assert_eq!(world.build(&force).unwrap().hash(), old.hash());
    assert!(lost.is_file());
}

#[test]
fn a_package_in_the_cache_is_checked_against_the_lock_files_hash() {
    let (world, _) = newer_archive();
    let deb = world.path("a cache/debs/tiny-kernel_1%3a1.0-1_riscv64.deb");
    fs::write(&deb, "another package").unwrap();
    let error =
        world.build(&BuildOptions { force: true, offline: true, ..locked(&world) }).unwrap_err().to_string();
    assert!(error.contains("tiny-kernel is damaged"), "{error}");
    // The same version with other contents, properly signed: rebuilt by the archive.
    fs::remove_file(&deb).unwrap();
    world.publish(OLD, Some("archive"));
    let text = fs::read_to_string(world.path("tiny.lock")).unwrap();
    let sum = &LockFile::read(&world.path("tiny.lock")).unwrap().packages[1].sha256;
    fs::write(world.path("tiny.lock"), text.replace(sum.as_str(), &"ab".repeat(32))).unwrap();
    let error = world.build(&BuildOptions { force: true, ..locked(&world) }).unwrap_err().to_string();
    assert!(error.contains("this version with the SHA-256"), "{error}");
}

#[test]
fn a_recipe_names_its_lock_file_which_need_not_exist_when_it_is_written() {
    let (world, old) = newer_archive();
    let text = RECIPE.replacen("schema = 1", "schema = 1\nlock = \"tiny.lock\"", 1);
    fs::write(world.path("recipe/image.toml"), text).unwrap();
    let error = world.build(&world.options()).unwrap_err().to_string();
    assert!(error.contains("it does not exist") && error.contains("doorbell image lock"), "{error}");
    let recipe = Recipe::load(world.path("recipe")).unwrap();
    assert_eq!(recipe.lock(), Some(world.path("recipe/tiny.lock").as_path()));
    fs::copy(world.path("tiny.lock"), recipe.lock().unwrap()).unwrap();
    let mut messages = Vec::new();
    let options = BuildOptions { refresh: true, ..world.options() };
    let pinned = build(&recipe, &options, &mut |line| messages.push(line.to_owned())).unwrap();
    assert_eq!((versions(&pinned), pinned.hash()), (versions(&old), old.hash()));
    assert_eq!(versions(&build(&recipe.unlocked(), &options, &mut |_| ()).unwrap())[1], ("tiny-kernel", NEW));
}

#[test]
fn a_lock_file_of_another_suite_or_without_a_needed_package_is_refused() {
    let (world, _) = newer_archive();
    let text = RECIPE.replace("\"tiny-kernel\"]", "\"tiny-kernel\", \"tiny-tool\"]");
    fs::write(world.path("recipe/image.toml"), text).unwrap();
    let error = world.build(&locked(&world)).unwrap_err().to_string();
    assert!(error.contains("tiny.lock") && error.contains("no package \"tiny-tool\""), "{error}");
    fs::write(world.path("recipe/image.toml"), RECIPE.replace("testing-suite", "other-suite")).unwrap();
    let error = world.build(&locked(&world)).unwrap_err().to_string();
    assert!(error.contains("for the suite testing-suite") && error.contains("other-suite"), "{error}");
    fs::write(world.path("tiny.lock"), "not a lock file").unwrap();
    assert!(matches!(world.build(&locked(&world)), Err(ImageError::LockFile { .. })));
}

#[test]
fn a_locked_image_that_differs_is_reported_with_the_reason() {
    let (world, old) = newer_archive();
    fs::write(world.path("recipe/init"), "#!/bin/sh\necho changed\n").unwrap();
    let mut messages = Vec::new();
    let other = build(&world.recipe(), &locked(&world), &mut |line| messages.push(line.to_owned())).unwrap();
    assert_ne!(other.hash(), old.hash());
    assert!(
        messages.last().unwrap().contains("the image is not the same: the recipe has changed"),
        "{messages:?}"
    );
}
