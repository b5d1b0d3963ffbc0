//! File systems read back by e2fsprogs, an independent implementation.

use std::fs;
use std::process::Command;

use super::*;

const ID: [u8; 16] = [0x5a; 16];

fn file(content: Vec<u8>) -> Entry {
    Entry::File { mode: 0o644, source: Source::Bytes(content) }
}

/// A pattern that differs in every block.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 7 + at / 4096 * 13) as u8).collect()
}

fn run(program: &str, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        .env("PATH", crate::host::search_path())
        .output();
    let output =
        output.unwrap_or_else(|error| panic!("this test needs {program} (package e2fsprogs): {error}"));
    let printed = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&printed).into_owned())
}

fn check(image: &Path) {
    let (clean, printed) = run("e2fsck", &["-f", "-n", image.to_str().unwrap()]);
    assert!(clean && printed.contains("Pass 5") && !printed.contains("Fix"), "{printed}");
}

/// A file's contents as debugfs reads them.
fn dump(image: &Path, path: &str) -> Vec<u8> {
    let out = tempfile::NamedTempFile::new().unwrap();
    let command = format!("dump /{path} {}", out.path().display());
    let (done, printed) = run("debugfs", &["-R", &command, image.to_str().unwrap()]);
    assert!(done, "{printed}");
    fs::read(out.path()).unwrap()
}

fn sample() -> FileSystem {
    let mut system = FileSystem::new();
    system.put("etc/motd", file(b"hello\n".to_vec())).unwrap();
    system.put("usr/bin/run", Entry::File { mode: 0o4755, source: Source::Bytes(pattern(70_000)) }).unwrap();
    system.put("bin", Entry::Link { target: "usr/bin".into() }).unwrap();
    system.put("long", Entry::Link { target: "x/".repeat(100) }).unwrap();
    system.put("exactly", Entry::Link { target: "y".repeat(60) }).unwrap();
    system.put("tmp", Entry::Directory { mode: 0o1777 }).unwrap();
    system.put("empty", file(Vec::new())).unwrap();
    system
}

#[test]
fn e2fsck_accepts_the_file_system_and_debugfs_reads_files_links_and_modes() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("disk");
    sample().write(&image, 1 << 20, ID).unwrap();
    check(&image);
    assert_eq!(dump(&image, "etc/motd"), b"hello\n");
    assert_eq!(dump(&image, "usr/bin/run"), pattern(70_000));
    assert_eq!(dump(&image, "empty"), b"");
    let stat = |path: &str| run("debugfs", &["-R", &format!("stat {path}"), image.to_str().unwrap()]).1;
    assert!(stat("/bin").contains("Fast link dest: \"usr/bin\""), "{}", stat("/bin"));
    assert!(stat("/long").contains("Size: 200") && stat("/exactly").contains("Size: 60"));
    assert!(stat("/tmp").contains("Mode:  01777") && stat("/usr/bin/run").contains("Mode:  04755"));
    assert!(stat("/usr/bin/run").contains("User:     0   Group:     0"));
}

#[test]
fn files_around_each_indirection_limit_read_back_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (image, big) = (dir.path().join("disk"), dir.path().join("big"));
    let block = BLOCK_BYTES as usize;
    fs::write(&big, pattern(block * (12 + 1024 + 1024 + 5) + 17)).unwrap();
    let mut system = FileSystem::new();
    let sizes = [1, 12, 13, 12 + 1024, 12 + 1024 + 1].map(|blocks| blocks * block);
    for (number, size) in sizes.iter().enumerate() {
        system.put(&format!("f{number}"), file(pattern(*size))).unwrap();
    }
    let bytes = fs::metadata(&big).unwrap().len();
    let source = Source::Host { path: big.clone(), bytes };
    system.put("big", Entry::File { mode: 0o600, source }).unwrap();
    system.write(&image, 0, ID).unwrap();
    check(&image);
    for (number, size) in sizes.iter().enumerate() {
        assert!(dump(&image, &format!("f{number}")) == pattern(*size), "f{number}");
    }
    assert!(dump(&image, "big") == fs::read(&big).unwrap());
}

#[test]
fn several_groups_and_large_directories_pass_e2fsck() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("disk");
    let mut system = FileSystem::new();
    for number in 0..3_000 {
        let name = format!("many/a file with a name that fills blocks, number {number}");
        system.put(&name, file(vec![number as u8; 1 + number % 3])).unwrap();
    }
    // Five groups, three of them (0, 1, 3) with copies of the superblock; most blocks are free.
    system.write(&image, 600 << 20, ID).unwrap();
    check(&image);
    assert_eq!(dump(&image, "\"many/a file with a name that fills blocks, number 2999\""), [0xb7; 3]);
    assert!(fs::metadata(&image).unwrap().len() > 600 << 20);
}

#[test]
fn the_same_entries_give_the_same_bytes_in_any_order() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    sample().write(&one, 1 << 20, ID).unwrap();
    let mut other = FileSystem::new();
    for (path, entry) in sample().entries.into_iter().rev().filter(|(path, _)| !path.is_empty()) {
        other.put(&path, entry).unwrap();
    }
    other.write(&two, 1 << 20, ID).unwrap();
    assert!(fs::read(&one).unwrap() == fs::read(&two).unwrap());
}

#[test]
fn a_collision_of_file_and_directory_is_refused_by_name() {
    let mut system = sample();
    assert!(system.put("etc/motd/x", file(Vec::new())).unwrap_err().contains("\"etc/motd\""));
    assert!(system.put("etc", file(Vec::new())).unwrap_err().contains("\"etc\""));
    assert!(system.put("etc/motd", file(b"other".to_vec())).is_ok(), "a recipe's file replaces a package's");
    assert!(system.put(&"n".repeat(256), file(Vec::new())).unwrap_err().contains("255"));
}
