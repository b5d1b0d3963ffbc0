//! An image's disk: an ext2 file system with whole packages and the recipe's own files, for what does not fit
//! in the guest's memory. Packages are unpacked without running their scripts.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::cpio::Node;
use crate::error::ImageError;
use crate::ext2::{Entry, FileSystem, Source};
use crate::image::DISK_FILE;
use crate::index::matches;
use crate::recipe::{Disk, Recipe};

impl Disk {
    /// Whether a package goes onto the disk.
    pub(crate) fn includes(&self, package: &str) -> bool {
        let named = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, package));
        named(&self.packages) && !named(&self.leave_out_packages)
    }
}

/// Writes the disk into `out`, from the folder with the unpacked packages.
pub(crate) fn write_disk(
    recipe: &Recipe,
    disk: &Disk,
    unpacked: &Path,
    out: &Path,
) -> Result<(), ImageError> {
    let fail = |problem: String| ImageError::Content { image: recipe.name().to_owned(), problem };
    let system = file_system(recipe, disk, unpacked).map_err(fail)?;
    // The UUID follows from the recipe.
    let mut id = [0; 16];
    for (at, byte) in id.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&recipe.hash()[2 * at..2 * at + 2], 16).expect("a hash is hexadecimal");
    }
    system.write(&out.join(DISK_FILE), disk.free.0, id).map_err(fail)
}

fn file_system(recipe: &Recipe, disk: &Disk, unpacked: &Path) -> Result<FileSystem, String> {
    let mut system = FileSystem::new();
    put_folder(disk, unpacked, "", &mut system)?;
    for path in &disk.directories {
        system.put(path, Entry::Directory { mode: 0o755 })?;
    }
    for (path, target) in &disk.links {
        system.put(path, Entry::Link { target: target.clone() })?;
    }
    for (path, node) in &recipe.disk_files {
        let entry = match node.clone() {
            Node::Directory => Entry::Directory { mode: 0o755 },
            Node::Link { target } => Entry::Link { target },
            Node::File { mode, content } => Entry::File { mode: mode as u16, source: Source::Bytes(content) },
            Node::CharDevice { .. } => unreachable!("a recipe's files are files, folders and links"),
        };
        system.put(path, entry)?;
    }
    Ok(system)
}

fn put_folder(disk: &Disk, root: &Path, folder: &str, system: &mut FileSystem) -> Result<(), String> {
    let on_host = root.join(folder);
    let fail = |error: std::io::Error| format!("cannot read {folder} of the unpacked packages: {error}");
    for entry in fs::read_dir(&on_host).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let name = entry.file_name().into_string().map_err(|name| format!("{name:?} is not UTF-8"))?;
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        if disk.leave_out_files.iter().any(|pattern| matches(pattern, &path)) {
            continue;
        }
        let meta = entry.metadata().map_err(fail)?;
        let mode = (meta.permissions().mode() & 0o7777) as u16;
        if meta.is_dir() {
            system.put(&path, Entry::Directory { mode })?;
            put_folder(disk, root, &path, system)?;
        } else if meta.is_symlink() {
            let target = fs::read_link(entry.path()).map_err(fail)?;
            let target = target.into_os_string().into_string().map_err(|t| format!("{t:?} is not UTF-8"))?;
            system.put(&path, Entry::Link { target })?;
        } else {
            let source = Source::Host { path: entry.path(), bytes: meta.len() };
            system.put(&path, Entry::File { mode, source })?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    #[test]
    fn patterns_choose_packages_and_files_and_the_recipes_files_win() {
        let recipe = Recipe::load("server").unwrap();
        let disk = recipe.spec.disk.clone().unwrap();
        assert!(disk.includes("busybox-static") && !disk.includes("linux-image-6.12-riscv64"));
        let unpacked = tempfile::tempdir().unwrap();
        let root = unpacked.path();
        for folder in ["usr/share/doc/tool", "usr/bin", "etc"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::write(root.join("usr/bin/tool"), "program").unwrap();
        fs::set_permissions(root.join("usr/bin/tool"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(root.join("usr/share/doc/tool/changelog"), "long").unwrap();
        fs::write(root.join("etc/passwd"), "the package's").unwrap();
        symlink("tool", root.join("usr/bin/alias")).unwrap();
        let out = tempfile::tempdir().unwrap();
        write_disk(&recipe, &disk, root, out.path()).unwrap();
        let image = out.path().join(DISK_FILE);
        let debugfs = |request: &str| {
            let output = Command::new("debugfs")
                .args(["-R", request])
                .arg(&image)
                .env("PATH", crate::host::search_path())
                .output();
            let output = output.expect("this test needs debugfs (package e2fsprogs)");
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
        };
        assert!(debugfs("cat /usr/bin/tool").contains("program"));
        assert!(debugfs("stat /usr/bin/alias").contains("Fast link dest: \"tool\""));
        assert!(debugfs("stat /usr/share/doc/tool/changelog").contains("File not found"));
        let Node::File { content, .. } = &recipe.disk_files["etc/passwd"] else { panic!("a file") };
        assert!(debugfs("cat /etc/passwd").contains(std::str::from_utf8(content).unwrap()));
    }
}
