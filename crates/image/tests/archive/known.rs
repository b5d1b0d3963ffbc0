//! A mirror in the middle of being brought up to date: its index is not the one that was signed, and the packages that the program
//! knows stand in.

use std::fs;
use std::path::PathBuf;

use doorbell_image::{BuildOptions, ImageError, Pins, build};

use crate::versions;
use doorbell_archive::{RECIPE, World};

fn index(world: &World) -> PathBuf {
    world.path("mirror/debian/dists/testing-suite/main/binary-riscv64/Packages")
}

/// A world whose index is one line longer than the signed list says, and what is known of it.
fn misfit() -> (World, BuildOptions) {
    let world = World::new();
    let known = fs::read_to_string(index(&world)).unwrap();
    fs::write(index(&world), format!("{known}\nPackage: tiny-later\n")).unwrap();
    let options = BuildOptions { known: Some(known), ..world.options() };
    (world, options)
}

#[test]
fn known_packages_make_the_image_that_the_suite_makes() {
    let (world, options) = misfit();
    let mut said = Vec::new();
    let spare = build(&world.recipe(), &options, &mut |line| said.push(line.to_owned())).unwrap();
    assert!(said.iter().any(|line| line.contains("the versions that this program knows")), "{said:?}");
    assert_eq!(versions(&spare), [("tiny-firmware", "1:1.0-1"), ("tiny-kernel", "1:1.0-1")]);
    let healed = World::new();
    assert_eq!(healed.build(&healed.options()).unwrap().hash(), spare.hash());
}

#[test]
fn what_the_suite_has_outranks_what_is_known() {
    let (world, options) = misfit();
    world.publish("1:2.0-1", Some("archive"));
    assert_eq!(versions(&world.build(&options).unwrap())[1], ("tiny-kernel", "1:2.0-1"));
}

#[test]
fn a_package_is_held_to_the_known_hash_and_one_that_is_not_known_is_named() {
    let (world, options) = misfit();
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
    assert!(matches!(error, ImageError::NotKnown { .. }), "{error}");
    let told = error.to_string();
    assert!(told.contains("\"tiny-later\"") && told.contains("DOORBELL_DEBIAN_MIRROR"), "{told}");
}

#[test]
fn of_a_suite_of_which_nothing_is_known_apts_own_words_are_shown() {
    let (world, options) = misfit();
    let error = world.build(&BuildOptions { known: None, ..options }).unwrap_err().to_string();
    assert!(error.contains("apt-get update failed") && error.contains("try again later"), "{error}");
}

#[test]
fn a_lock_file_of_known_packages_is_kept_too() {
    let (world, options) = misfit();
    let image = world.build(&options).unwrap();
    Pins::of(&image).write(&world.path("tiny.lock")).unwrap();
    fs::remove_dir_all(world.path("a cache")).unwrap();
    let locked = BuildOptions { locked: Some(world.path("tiny.lock")), force: true, ..options };
    assert_eq!(world.build(&locked).unwrap().hash(), image.hash());
}
