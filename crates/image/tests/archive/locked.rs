//! Images that are pinned, while the archive moves on.

use std::fs;

use doorbell_image::{BuildOptions, Image, ImageError, Pins, Recipe, build};

use crate::versions;
use doorbell_archive::{RECIPE, World};

const OLD: &str = "1:1.0-1";
const NEW: &str = "1:2.0-1";

/// A world whose image of the old packages was locked, and whose archive then moved on.
fn moved_on() -> (World, Image) {
    let world = World::new();
    let image = world.build(&world.options()).unwrap();
    Pins::of(&image).write(&world.path("tiny.lock")).unwrap();
    world.publish(NEW, Some("archive"));
    (world, image)
}

fn locked(world: &World) -> BuildOptions {
    BuildOptions { locked: Some(world.path("tiny.lock")), ..world.options() }
}

#[test]
fn a_locked_image_is_built_again_from_the_cache_although_the_archive_moved_on() {
    let (world, old) = moved_on();
    let new = world.build(&BuildOptions { refresh: true, ..world.options() }).unwrap();
    assert_eq!(versions(&new)[1], ("tiny-kernel", NEW));
    // Another image is there: it is not taken for the locked one, and why is said.
    let mut said = Vec::new();
    let again = build(&world.recipe(), &locked(&world), &mut |line| said.push(line.to_owned())).unwrap();
    assert_eq!((again.hash(), again.manifest()), (old.hash(), old.manifest()));
    assert!(said.iter().any(|line| line.contains("not those that are locked")), "{said:?}");
    assert!(!said.iter().any(|line| line.contains("index") || line.contains("not the same")), "{said:?}");
    // It is taken now, and without any archive it can still be built.
    fs::remove_dir_all(world.path("mirror")).unwrap();
    said.clear();
    build(&world.recipe(), &locked(&world), &mut |line| said.push(line.to_owned())).unwrap();
    assert!(said.is_empty(), "{said:?}");
    for offline in [false, true] {
        let force = BuildOptions { force: true, offline, ..locked(&world) };
        assert_eq!(world.build(&force).unwrap().hash(), old.hash());
    }
}

#[test]
fn what_the_archive_no_longer_has_is_named_with_what_it_has_instead() {
    let (world, old) = moved_on();
    let lost = world.path("a cache/debs/tiny-kernel_1%3a1.0-1_riscv64.deb");
    fs::rename(&lost, world.path("kept.deb")).unwrap();
    let force = BuildOptions { force: true, ..locked(&world) };
    let error = world.build(&force).unwrap_err();
    assert!(matches!(error, ImageError::Gone { .. }), "{error}");
    let told = error.to_string();
    assert!(told.contains(&format!("tiny-kernel {OLD} (it has {NEW} instead)")), "{told}");
    assert!(
        told.contains("tiny.lock") && told.contains("--refresh") && !told.contains("tiny-firmware"),
        "{told}"
    );
    let error = world.build(&BuildOptions { offline: true, ..force.clone() }).unwrap_err().to_string();
    assert!(error.contains(&format!("tiny-kernel {OLD} is not in the cache")), "{error}");
    assert_eq!(Image::open(old.dir()).unwrap().manifest(), old.manifest(), "the image that was there stays");
    // An archive that has it again serves it again.
    world.publish(OLD, Some("archive"));
    assert_eq!(world.build(&force).unwrap().hash(), old.hash());
    assert!(lost.is_file());
}

#[test]
fn a_package_in_the_cache_is_held_to_the_lock_files_hash() {
    let (world, _) = moved_on();
    let deb = world.path("a cache/debs/tiny-kernel_1%3a1.0-1_riscv64.deb");
    fs::write(&deb, "another package").unwrap();
    let error =
        world.build(&BuildOptions { force: true, offline: true, ..locked(&world) }).unwrap_err().to_string();
    assert!(error.contains("tiny-kernel is damaged"), "{error}");
    // The same version with other contents, signed: somebody built it again.
    fs::remove_file(&deb).unwrap();
    world.publish(OLD, Some("archive"));
    let text = fs::read_to_string(world.path("tiny.lock")).unwrap();
    let sum = &Pins::read(&world.path("tiny.lock")).unwrap().packages[1].sha256;
    fs::write(world.path("tiny.lock"), text.replace(sum.as_str(), &"ab".repeat(32))).unwrap();
    let error = world.build(&BuildOptions { force: true, ..locked(&world) }).unwrap_err().to_string();
    assert!(error.contains("one of that version with the SHA-256"), "{error}");
}

#[test]
fn a_recipe_names_its_lock_file_which_need_not_be_there_to_be_written() {
    let (world, old) = moved_on();
    let text = RECIPE.replacen("schema = 1", "schema = 1\nlock = \"tiny.lock\"", 1);
    fs::write(world.path("recipe/image.toml"), text).unwrap();
    let error = world.build(&world.options()).unwrap_err().to_string();
    assert!(error.contains("it is not there") && error.contains("doorbell image lock"), "{error}");
    let recipe = Recipe::load(world.path("recipe")).unwrap();
    assert_eq!(recipe.lock(), Some(world.path("recipe/tiny.lock").as_path()));
    fs::copy(world.path("tiny.lock"), recipe.lock().unwrap()).unwrap();
    let mut said = Vec::new();
    let options = BuildOptions { refresh: true, ..world.options() };
    let pinned = build(&recipe, &options, &mut |line| said.push(line.to_owned())).unwrap();
    assert_eq!((versions(&pinned), pinned.hash()), (versions(&old), old.hash()));
    assert_eq!(versions(&build(&recipe.unlocked(), &options, &mut |_| ()).unwrap())[1], ("tiny-kernel", NEW));
}

#[test]
fn a_lock_file_of_something_else_is_refused_and_a_recipe_that_needs_more_says_so() {
    let (world, _) = moved_on();
    let text = RECIPE.replace("\"tiny-kernel\"]", "\"tiny-kernel\", \"tiny-tool\"]");
    fs::write(world.path("recipe/image.toml"), text).unwrap();
    let error = world.build(&locked(&world)).unwrap_err().to_string();
    assert!(error.contains("tiny.lock") && error.contains("no package \"tiny-tool\""), "{error}");
    fs::write(world.path("recipe/image.toml"), RECIPE.replace("testing-suite", "other-suite")).unwrap();
    let error = world.build(&locked(&world)).unwrap_err().to_string();
    assert!(error.contains("for the suite testing-suite") && error.contains("other-suite"), "{error}");
    fs::write(world.path("tiny.lock"), "not a lock file").unwrap();
    assert!(matches!(world.build(&locked(&world)), Err(ImageError::Pins { .. })));
}

#[test]
fn a_locked_image_that_comes_out_otherwise_says_why() {
    let (world, old) = moved_on();
    fs::write(world.path("recipe/init"), "#!/bin/sh\necho changed\n").unwrap();
    let mut said = Vec::new();
    let other = build(&world.recipe(), &locked(&world), &mut |line| said.push(line.to_owned())).unwrap();
    assert_ne!(other.hash(), old.hash());
    assert!(said.last().unwrap().contains("the image is not the same: the recipe is another"), "{said:?}");
}
