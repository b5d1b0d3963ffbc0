//! Whole builds from a small Debian archive made here: signed by gpg with its own key, with packages made by
//! dpkg-deb. The code under test runs the host's real apt against it, so these tests cover apt's own
//! verification.

#[path = "archive/debug_symbols.rs"]
mod debug_symbols;
#[path = "archive/fallback_index.rs"]
mod fallback_index;
#[path = "archive/killed.rs"]
mod killed;
#[path = "archive/locked.rs"]
mod locked;
#[path = "archive/pinned_packages.rs"]
mod pinned_packages;

use std::fs;

use doorbell_archive::{RECIPE, World};
use doorbell_files::sha256;
use doorbell_image::{BuildOptions, Image, ImageError, Recipe, build};

fn versions(image: &Image) -> Vec<(&str, &str)> {
    image
        .manifest()
        .packages
        .iter()
        .map(|package| (package.name.as_str(), package.version.as_str()))
        .collect()
}

#[test]
fn an_image_is_built_from_verified_packages_listed_in_the_manifest() {
    let world = World::new();
    let image = world.build(&world.options()).unwrap();
    assert_eq!(versions(&image), [("tiny-firmware", "1:1.0-1"), ("tiny-kernel", "1:1.0-1")]);
    assert_eq!(fs::read(image.firmware("fw.bin").unwrap()).unwrap(), b"firmware");
    assert_eq!(image.manifest().kernel_release, "6.0-tiny");
    assert_eq!(image.manifest().recipe_sha256, world.recipe().hash());
    let deb = fs::read(world.path("mirror/debian/tiny-kernel.deb")).unwrap();
    assert_eq!(image.manifest().packages[1].sha256, sha256(&deb));
    assert_eq!(world.images(), ["tiny"]);
}

#[test]
fn a_second_build_is_byte_for_byte_the_same() {
    let world = World::new();
    let first = world.build(&world.options()).unwrap();
    let elsewhere = BuildOptions {
        out_dir: world.path("images/other"),
        cache_dir: world.path("other-cache"),
        ..world.options()
    };
    let second = world.build(&elsewhere).unwrap();
    for file in ["kernel", "initramfs.cpio", "fw.bin", "manifest.json"] {
        let read = |image: &Image| fs::read(image.dir().join(file)).unwrap();
        assert_eq!(read(&first), read(&second), "{file}");
    }
}

#[test]
fn a_built_image_is_reused_until_a_refresh_finds_newer_packages() {
    let world = World::new();
    world.build(&world.options()).unwrap();
    world.publish("1:2.0-1", Some("archive"));
    let cached = world.build(&world.options()).unwrap();
    assert_eq!(versions(&cached)[1], ("tiny-kernel", "1:1.0-1"));
    let refresh = BuildOptions { refresh: true, ..world.options() };
    assert_eq!(versions(&world.build(&refresh).unwrap())[1], ("tiny-kernel", "1:2.0-1"));
    fs::remove_dir_all(world.path("mirror")).unwrap();
    assert_eq!(versions(&world.build(&world.options()).unwrap())[1], ("tiny-kernel", "1:2.0-1"));
}

#[test]
fn a_changed_recipe_or_damaged_file_is_rebuilt_off_line_from_the_cache() {
    let world = World::new();
    let first = world.build(&world.options()).unwrap();
    let offline = BuildOptions { offline: true, ..world.options() };
    fs::remove_dir_all(world.path("mirror")).unwrap();
    fs::write(first.kernel(), "cut").unwrap();
    assert!(matches!(Image::open(first.dir()), Err(ImageError::Damaged { .. })));
    world.build(&offline).unwrap();
    fs::write(world.path("recipe/init"), "#!/bin/sh\necho changed\n").unwrap();
    let changed = world.build(&offline).unwrap();
    let (before, after) =
        (first.manifest().file("initramfs.cpio"), changed.manifest().file("initramfs.cpio"));
    assert_ne!(before.unwrap().sha256, after.unwrap().sha256);
    assert_eq!(first.manifest().file("kernel"), changed.manifest().file("kernel"));
}

#[test]
fn a_changed_byte_in_the_manifest_is_detected_reported_and_repaired() {
    let world = World::new();
    let image = world.build(&world.options()).unwrap();
    let path = image.dir().join("manifest.json");
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, whole.replace("console=ttyS0", "console=ttyS1")).unwrap();
    let mut messages = Vec::new();
    let again = build(&world.recipe(), &world.options(), &mut |line| messages.push(line.to_owned())).unwrap();
    assert!(
        messages.iter().any(|line| line.contains("building again, because manifest.json was changed")),
        "{messages:?}"
    );
    assert_eq!(again.command_line(), "console=ttyS0");
    assert_eq!(fs::read_to_string(&path).unwrap(), whole);
}

#[test]
fn off_line_without_a_cache_names_the_missing_package() {
    let world = World::new();
    let offline = BuildOptions { offline: true, ..world.options() };
    let error = world.build(&offline).unwrap_err();
    assert!(matches!(&error, ImageError::Offline { what, .. } if what.contains("testing-suite")), "{error}");
    // With the index, but with a package missing from the cache:
    world.build(&world.options()).unwrap();
    fs::remove_file(world.path("a cache/debs/tiny-firmware_1%3a1.0-1_riscv64.deb")).unwrap();
    let error = world.build(&BuildOptions { force: true, ..offline }).unwrap_err();
    assert!(matches!(&error, ImageError::Offline { what, .. } if what.contains("tiny-firmware")), "{error}");
}

#[test]
fn unsigned_archives_and_archives_with_an_unknown_key_are_refused() {
    for key in [None, Some("stranger")] {
        let world = World::new();
        world.make_key("stranger");
        world.publish("1:1.0-1", key);
        let error = world.build(&world.options()).unwrap_err().to_string();
        assert!(
            error.contains("signature was not accepted") && error.contains("debian-archive-keyring"),
            "{error}"
        );
        assert!(world.images().is_empty(), "nothing half-built: {:?}", world.images());
    }
}

#[test]
fn a_modified_index_or_package_is_refused() {
    let world = World::new();
    let index = world.path("mirror/debian/dists/testing-suite/main/binary-riscv64/Packages");
    let honest = fs::read_to_string(&index).unwrap();
    fs::write(&index, honest.replace("Depends: tiny-firmware", "Depends: tiny-malware")).unwrap();
    assert!(world.build(&world.options()).unwrap_err().to_string().contains("apt-get update failed"));
    fs::write(&index, honest).unwrap();
    let deb = world.path("mirror/debian/tiny-kernel.deb");
    let mut content = fs::read(&deb).unwrap();
    *content.last_mut().unwrap() ^= 1;
    fs::write(&deb, content).unwrap();
    assert!(world.build(&world.options()).is_err());
    assert!(world.images().is_empty(), "nothing half-built: {:?}", world.images());
}

#[test]
fn a_package_damaged_in_the_cache_is_fetched_again() {
    let world = World::new();
    world.build(&world.options()).unwrap();
    let deb = world.path("a cache/debs/tiny-kernel_1%3a1.0-1_riscv64.deb");
    let whole = fs::read(&deb).unwrap();
    fs::write(&deb, &whole[..whole.len() / 2]).unwrap();
    let force = BuildOptions { force: true, ..world.options() };
    let error = world.build(&BuildOptions { offline: true, ..force.clone() }).unwrap_err().to_string();
    assert!(
        error.contains("tiny-kernel is damaged in the cache") && error.contains("fetch the package again"),
        "{error}"
    );
    let mut messages = Vec::new();
    build(&world.recipe(), &force, &mut |line| messages.push(line.to_owned())).unwrap();
    assert!(
        messages.iter().any(|line| line.contains("tiny-kernel again: ") && line.contains("is damaged")),
        "{messages:?}"
    );
    assert_eq!(fs::read(&deb).unwrap(), whole);
}

#[test]
fn a_recipe_that_cannot_be_built_leaves_the_old_image_whole() {
    let world = World::new();
    let image = world.build(&world.options()).unwrap();
    let text = RECIPE.replace("elf = []", "elf = [\"usr/bin/absent\"]");
    fs::write(world.path("recipe/image.toml"), text).unwrap();
    let error = world.build(&world.options()).unwrap_err().to_string();
    assert!(error.contains("usr/bin/absent is in none of the packages"), "{error}");
    assert_eq!(Image::open(image.dir()).unwrap().manifest(), image.manifest());
    assert_eq!(world.images(), ["tiny"]);
    assert!(
        !fs::read_dir(world.path("a cache"))
            .unwrap()
            .flatten()
            .any(|entry| { entry.file_name().to_string_lossy().starts_with(".unpack-") })
    );
}

#[test]
fn leftovers_of_a_killed_build_are_removed_by_the_next() {
    let world = World::new();
    let left = [
        world.path("images/.tiny.building-x1"),
        world.path("a cache/.unpack-x1"),
        world.path("a cache/debs/.incoming-x1"),
    ];
    for path in &left {
        fs::create_dir_all(path).unwrap();
        fs::write(path.join("part"), "half").unwrap();
    }
    world.build(&world.options()).unwrap();
    assert!(left.iter().all(|path| !path.exists()));
}

#[test]
fn concurrent_builds_wait_for_each_other_and_agree() {
    let world = World::new();
    let results: Vec<_> = std::thread::scope(|scope| {
        let start = |force| {
            let world = &world;
            scope.spawn(move || world.build(&BuildOptions { force, ..world.options() }).unwrap())
        };
        let threads = [start(false), start(true), start(true)];
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for image in &results {
        assert_eq!(image.manifest(), results[0].manifest());
    }
    assert_eq!(world.images(), ["tiny"]);
}

#[test]
fn a_folder_that_is_not_an_image_is_never_replaced() {
    let world = World::new();
    fs::create_dir_all(world.path("images/tiny")).unwrap();
    fs::write(world.path("images/tiny/thesis.tex"), "years of work").unwrap();
    for force in [false, true] {
        let error = world.build(&BuildOptions { force, ..world.options() }).unwrap_err();
        assert!(matches!(error, ImageError::NotAnImage { .. }), "{error}");
    }
    assert_eq!(fs::read(world.path("images/tiny/thesis.tex")).unwrap(), b"years of work");
}

#[test]
fn a_missing_suite_or_mirror_gives_a_hint() {
    let world = World::new();
    let text = RECIPE.replace("testing-suite", "other-suite");
    fs::write(world.path("recipe/image.toml"), text).unwrap();
    let error = world.build(&world.options()).unwrap_err().to_string();
    assert!(
        error.contains("does not carry this suite") && error.contains("DOORBELL_DEBIAN_MIRROR"),
        "{error}"
    );
}

#[test]
fn an_unreachable_mirror_gives_a_hint() {
    let world = World::new();
    let options = BuildOptions { mirror: Some("http://127.0.0.1:9/".to_owned()), ..world.options() };
    let error = world.build(&options).unwrap_err().to_string();
    assert!(error.contains("cannot be reached") && error.contains("check the network"), "{error}");
    assert!(error.contains("127.0.0.1:9"), "{error}");
    assert!(world.images().is_empty());
}

#[test]
fn an_extended_recipe_installs_packages_whole_and_its_own_files_win() {
    let world = World::new();
    let recipe = |packages: &str| {
        let text = format!(
            "schema = 1\nextends = \"recipe\"\ninit = [\"echo ours\"]\n[packages]\ninstall = [{packages}]\n\
             [initramfs.files]\n\"etc/tool.conf\" = {{ from = \"own.conf\" }}\n"
        );
        fs::write(world.path("own.toml"), text).unwrap();
        fs::write(world.path("own.conf"), "the user's").unwrap();
        Recipe::load(world.path("own.toml")).unwrap()
    };
    let options = BuildOptions { out_dir: world.path("images/own"), ..world.options() };
    let image = build(&recipe("\"tiny-tool\""), &options, &mut |_| ()).unwrap();
    let names: Vec<&str> = versions(&image).into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        ["tiny-data", "tiny-firmware", "tiny-kernel", "tiny-tool"],
        "left-out packages are absent"
    );
    let archive = fs::read(image.initramfs()).unwrap();
    let has = |text: &str| archive.windows(text.len()).any(|window| window == text.as_bytes());
    for path in ["init", "usr/bin/m5", "usr/lib/doorbell/host-script", "etc/doorbell/init"] {
        assert!(has(&format!("{path}\0")), "{path}");
    }
    assert!(has("usr/bin/tool\0") && has("usr/share/tool/data\0") && has("echo ours\n"));
    assert!(has("the user's") && !has("the package's"));
    assert!(!has("usr/share/doc") && !has("usr/share/man"));
    assert!(!has("usr/lib/fw-1.bin\0"), "the firmware's package contributes one file only");

    let error = build(&recipe("\"tiny-tol\""), &options, &mut |_| ()).unwrap_err().to_string();
    assert!(error.contains("no package \"tiny-tol\""), "{error}");
    assert_eq!(Image::open(image.dir()).unwrap().manifest(), image.manifest());
}

#[test]
fn a_program_for_another_machine_or_without_its_library_is_refused_by_name() {
    let world = World::new();
    let own = std::env::current_exe().unwrap();
    let mut program = fs::read(own).unwrap();
    fs::write(world.path("recipe/program"), &program).unwrap();
    let text = RECIPE.replace("files = {", "files = { \"usr/bin/own\" = { from = \"program\" }, ");
    fs::write(world.path("recipe/image.toml"), text).unwrap();
    let error = world.build(&world.options()).unwrap_err().to_string();
    assert!(error.contains("usr/bin/own is a program for another machine"), "{error}");
    // The same program marked as RISC-V: now its libraries are looked up.
    program[18..20].copy_from_slice(&243_u16.to_le_bytes());
    fs::write(world.path("recipe/program"), &program).unwrap();
    let error = world.build(&world.options()).unwrap_err().to_string();
    assert!(error.contains("usr/bin/own needs lib"), "{error}");
}

/// A program without libraries: it exits at once, with a status from a package's header.
const STATUS_C: &str = "#include <tool-status.h>\n#include \"sub/own.h\"\n\
    void _start(void) { register long a0 asm(\"a0\") = STATUS + OWN; register long a7 asm(\"a7\") = 93; \
    asm volatile(\"ecall\" : : \"r\"(a0), \"r\"(a7)); __builtin_unreachable(); }\n";

const BUILD: &str = r#"
[build]
folder = "c"
packages = ["tiny-headers"]
flags = ["-O1", "-static", "-nostdlib"]
include = ["usr/include/tiny"]
programs = { "usr/bin/status" = ["*.c"] }
"#;

fn world_with_program(source: &str) -> World {
    let world = World::new();
    let recipe = world.path("recipe");
    fs::create_dir_all(recipe.join("c/sub")).unwrap();
    fs::write(recipe.join("c/status.c"), source).unwrap();
    fs::write(recipe.join("c/sub/own.h"), "#define OWN 2\n").unwrap();
    fs::write(recipe.join("c/notes.txt"), "no source\n").unwrap();
    fs::write(recipe.join("image.toml"), RECIPE.to_owned() + BUILD).unwrap();
    world
}

#[test]
fn programs_are_compiled_against_the_packages_headers_reproducibly() {
    let world = world_with_program(STATUS_C);
    let image = world.build(&world.options()).unwrap();
    let compiler = image.manifest().compiler.clone().expect("the manifest names the compiler");
    assert!(compiler.contains("riscv64-linux-gnu-gcc"), "{compiler}");
    assert!(versions(&image).iter().any(|(name, _)| *name == "tiny-headers"));
    let archive = fs::read(image.initramfs()).unwrap();
    let has = |text: &[u8]| archive.windows(text.len()).any(|window| window == text);
    assert!(has(b"usr/bin/status\0") && has(b"\x7fELF"));
    assert!(!has(b"tool-status.h"), "the guest has no file of the headers' package");
    let again = BuildOptions { force: true, ..world.options() };
    let other = world.build(&again).unwrap();
    assert_eq!(other.manifest(), image.manifest());
    // Only sources and headers affect the hash.
    fs::write(world.path("recipe/c/notes.txt"), "other notes\n").unwrap();
    assert_eq!(world.recipe().hash(), image.manifest().recipe_sha256);
    fs::write(world.path("recipe/c/sub/own.h"), "#define OWN 3\n").unwrap();
    assert_ne!(world.build(&world.options()).unwrap().manifest().files, image.manifest().files);
}

#[test]
fn a_recipe_cannot_run_commands_by_compiler_options() {
    let world = world_with_program(STATUS_C);
    let marker = world.path("marker");
    let command = format!("/bin/sh,-c,touch {}", marker.display());
    let text = RECIPE.to_owned() + &BUILD.replace("\"-O1\"", &format!("\"-wrapper\", \"{command}\""));
    fs::write(world.path("recipe/image.toml"), text).unwrap();
    let error = Recipe::load(world.path("recipe"))
        .and_then(|recipe| build(&recipe, &world.options(), &mut |_| ()))
        .unwrap_err()
        .to_string();
    assert!(error.contains("\"-wrapper\"") && error.contains("allowed are -O"), "{error}");
    assert!(!marker.exists());
}

#[test]
fn debugging_information_and_dates_are_reproducible_and_name_no_host_folder() {
    let source = format!("const char when[] = __DATE__ __TIME__;\n{STATUS_C}");
    let world = world_with_program(&source);
    fs::write(world.path("recipe/image.toml"), RECIPE.to_owned() + &BUILD.replace("-O1", "-g")).unwrap();
    let first = world.build(&world.options()).unwrap();
    let archive = fs::read(first.initramfs()).unwrap();
    let has = |text: &[u8]| archive.windows(text.len()).any(|window| window == text);
    assert!(has(b"Jan  1 1970") && has(b"programs/status.c"));
    assert!(!has(world.dir.path().to_str().unwrap().as_bytes()));
    let second = world.build(&BuildOptions { force: true, ..world.options() }).unwrap();
    assert_eq!(first.hash(), second.hash());
}

#[test]
fn a_package_is_not_unpacked_through_anothers_link_out_of_the_folder() {
    let (world, outside) = (World::new(), tempfile::tempdir().unwrap());
    world.publish_with("1:1.0-1", |tree, name| {
        fs::create_dir_all(tree.join("usr")).unwrap();
        match name {
            "tiny-firmware" => std::os::unix::fs::symlink(outside.path(), tree.join("usr/out")).unwrap(),
            "tiny-kernel" => {
                fs::create_dir_all(tree.join("usr/out")).unwrap();
                fs::write(tree.join("usr/out/evil"), "evil").unwrap();
            }
            _ => {}
        }
    });
    // Some versions of dpkg-deb replace the link by a folder; others follow it, and Landlock stops them.
    let _ = world.build(&world.options());
    assert!(!has_landlock() || fs::read_dir(outside.path()).unwrap().next().is_none());
}

#[test]
fn host_headers_are_not_used_for_the_guest() {
    // The host's cross libc has this header; the guest's packages do not.
    let world = world_with_program(&format!("#include <stdio.h>\n{STATUS_C}"));
    let error = world.build(&world.options()).unwrap_err().to_string();
    assert!(error.contains("stdio.h: No such file") && error.contains("libc6-dev"), "{error}");
    // The compiler's own headers are available.
    let world = world_with_program(&format!("#include <stddef.h>\n{STATUS_C}"));
    world.build(&world.options()).unwrap();
}

#[test]
fn a_source_cannot_bring_files_of_the_host_into_a_guest() {
    assert!(has_landlock(), "the kernel has Landlock; tests/leave-out skips this test otherwise");
    let secret = tempfile::NamedTempFile::new().unwrap();
    fs::write(secret.path(), "int secret;\n").unwrap();
    let secret = secret.path().display();
    for line in [
        format!("#include \"{secret}\""),
        "#include \"../../../../../../../../../../../../etc/passwd\"".to_owned(),
        format!("asm(\".incbin \\\"{secret}\\\"\");"),
        "asm(\".inc\" \"bin \\\"/etc/passwd\\\"\");".to_owned(),
    ] {
        let world = world_with_program(&format!("{line}\n{STATUS_C}"));
        let error = world.build(&world.options()).expect_err(&line).to_string();
        assert!(error.contains("compiling usr/bin/status"), "{line}: {error}");
        assert!(
            ["ermission denied", "No such file", "file not found"].iter().any(|why| error.contains(why)),
            "{line}: {error}"
        );
    }
}

/// Whether the kernel has Landlock; without it programs run unrestricted.
fn has_landlock() -> bool {
    use landlock::{ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr};
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    rules.handle_access(AccessFs::from_all(ABI::V2)).is_ok()
}

#[test]
fn a_compile_error_is_shown_and_leaves_no_image() {
    let world = world_with_program("#include <tool-status.h>\nint broken = STATUS\n");
    let error = world.build(&world.options()).unwrap_err().to_string();
    assert!(error.contains("compiling usr/bin/status") && error.contains("status.c:2"), "{error}");
    assert_eq!(world.images(), Vec::<String>::new());
    fs::remove_file(world.path("recipe/c/status.c")).unwrap();
    let error = world.build(&world.options()).unwrap_err().to_string();
    assert!(error.contains("no file matches *.c"), "{error}");
}
