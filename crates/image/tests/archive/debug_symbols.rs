//! Debugging symbols of an image's programs from a separate archive: fetched once, verified, and refused with
//! a helpful message.

use std::fs;

use doorbell_archive::World;
use doorbell_image::{BuildOptions, ByBuildId, DebugSymbols, ImageError, fetch_debug_symbols};

const TOOL: &str = "ab01020304";
const LIBRARY: &str = "cd01020304";

fn programs(all: &[(&str, &str)]) -> ByBuildId {
    all.iter().map(|(id, path)| ((*id).to_owned(), (*path).to_owned())).collect()
}

/// Fetches the symbols of the tool and of another program; returns the progress messages, too.
fn fetch(world: &World, options: &BuildOptions) -> (Result<DebugSymbols, ImageError>, String) {
    let image = world.build(&world.options()).unwrap();
    let options = BuildOptions { out_dir: world.path("symbols"), ..options.clone() };
    let mut messages = String::new();
    let wanted = programs(&[(TOOL, "usr/bin/tool"), ("ef01", "usr/bin/own")]);
    let found = fetch_debug_symbols(&image, &wanted, &options, &mut |line| messages += &format!("{line}\n"));
    (found, messages)
}

/// An archive with symbols of the tool and of a library.
fn with_symbols() -> World {
    let world = World::new();
    world.publish_debug(&[
        ("tiny-tool-dbgsym", TOOL, b"of the tool"),
        ("libtiny-dbgsym", LIBRARY, b"of the library"),
    ]);
    world
}

#[test]
fn symbols_are_fetched_once_and_programs_without_are_reported() {
    let world = with_symbols();
    let (found, messages) = fetch(&world, &world.options());
    let found = found.unwrap();
    let file = |id: &str| found.folder.join(format!(".build-id/{}/{}.debug", &id[..2], &id[2..]));
    assert_eq!(fs::read(file(TOOL)).unwrap(), b"of the tool");
    assert!(!file(LIBRARY).exists(), "symbols of files that the image lacks are not kept");
    assert!(
        messages.contains("getting 1 packages")
            && messages.contains("no debugging symbols for 1 of 2 programs"),
        "{messages}"
    );
    // They stay available without the archive.
    fs::remove_dir_all(world.path("mirror")).unwrap();
    let (again, messages) = fetch(&world, &BuildOptions { offline: true, ..world.options() });
    let lacking = "no debugging symbols for 1 of 2 programs and libraries: own\n";
    assert_eq!((again.unwrap().folder, messages.as_str()), (found.folder.clone(), lacking));
    let names: Vec<_> =
        fs::read_dir(world.path("symbols")).unwrap().flatten().map(|entry| entry.file_name()).collect();
    let visible = names.iter().filter(|name| !name.to_string_lossy().starts_with('.')).count();
    assert_eq!(visible, 1, "{names:?}");
}

#[test]
fn without_a_debug_archive_the_error_explains_how_to_name_one() {
    let world = World::new();
    let (found, _) = fetch(&world, &world.options());
    let error = found.unwrap_err().to_string();
    let words = ["testing-suite-debug", "mirror/debian-debug", "DOORBELL_DEBIAN_DEBUG_MIRROR", "\"none\""];
    for word in words.into_iter().chain(["without --debug-symbols", "apt-get update failed"]) {
        assert!(error.contains(word), "{word}: {error}");
    }
    assert!(!error.contains("DOORBELL_DEBIAN_MIRROR"), "that names the packages' mirror: {error}");
    let none = BuildOptions { debug_mirror: Some("none".into()), ..world.options() };
    let error = fetch(&world, &none).0.unwrap_err().to_string();
    assert!(error.contains("none of") || error.contains("any of the 2 stripped programs"), "{error}");
    assert!(error.contains("doorbell image build tiny --refresh"), "{error}");
    let offline = BuildOptions { offline: true, ..world.options() };
    assert!(
        matches!(fetch(&world, &offline).0, Err(ImageError::Offline { what, .. }) if what.contains("-debug"))
    );
    assert!(
        fs::read_dir(world.path("symbols"))
            .unwrap()
            .flatten()
            .all(|entry| entry.file_type().unwrap().is_file())
    );
}

#[test]
fn modified_symbols_are_refused() {
    let world = with_symbols();
    let index = world.path("mirror/debian-debug/dists/testing-suite-debug/main/binary-riscv64/Packages");
    let honest = fs::read_to_string(&index).unwrap();
    fs::write(&index, honest.replace(LIBRARY, TOOL)).unwrap();
    assert!(matches!(fetch(&world, &world.options()).0, Err(ImageError::NoDebugArchive { .. })));
    fs::write(&index, honest).unwrap();
    let deb = world.path("mirror/debian-debug/tiny-tool-dbgsym.deb");
    let mut content = fs::read(&deb).unwrap();
    *content.last_mut().unwrap() ^= 1;
    fs::write(&deb, content).unwrap();
    assert!(fetch(&world, &world.options()).0.is_err());
    fs::write(&deb, b"").unwrap();
    assert!(fetch(&world, &world.options()).0.is_err());
}
