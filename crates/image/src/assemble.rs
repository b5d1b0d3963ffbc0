//! From unpacked packages to an image's files: kernel, firmware and initramfs.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use crate::architecture;
use crate::cpio::{Archive, Node};
use crate::elf::{self, dynamic};
use crate::error::ImageError;
use crate::image::{INITRAMFS_FILE, KERNEL_FILE};
use crate::init_lines;
use crate::modules::put_modules;
use crate::recipe::{Recipe, Spec};
use crate::tree::Tree;

/// gem5's m5ops for shell scripts; its source is next to it.
const M5: &str = "usr/bin/m5";
/// Functions with which `init` takes a script from the simulator; in every image.
const HOST_SCRIPT: &str = "usr/lib/doorbell/host-script";
/// The recipe's shell lines, which `init` runs.
const INIT_LINES: &str = "etc/doorbell/init";

/// The files of an assembled image.
#[derive(Debug)]
pub(crate) struct Assembled {
    /// File names in the output folder, in alphabetical order.
    pub files: Vec<String>,
    /// The kernel's release, as `uname -r` prints it.
    pub kernel_release: String,
}

/// Writes an image's files into `out`. `installed` are the files of packages that are installed whole.
pub(crate) fn assemble(
    recipe: &Recipe,
    tree: &Tree,
    installed: BTreeMap<String, Node>,
    out: &Path,
) -> Result<Assembled, ImageError> {
    let fail = |problem: String| ImageError::Content { image: recipe.name().to_owned(), problem };
    let spec = &recipe.spec;
    let (kernel, kernel_release) = kernel(spec, tree).map_err(fail)?;
    write(out, KERNEL_FILE, &kernel)?;
    let mut files = vec![KERNEL_FILE.to_owned(), INITRAMFS_FILE.to_owned()];
    for (name, pattern) in &spec.firmware {
        let content = only_file(tree, pattern).map_err(fail)?.1;
        write(out, name, &content)?;
        files.push(name.clone());
    }
    let mut archive = Archive::new();
    put_skeleton(recipe, &mut archive).map_err(fail)?;
    let needs = put_whole(recipe, installed, &mut archive).map_err(fail)?;
    put_programs(spec, tree, needs, &mut archive).map_err(fail)?;
    put_data(spec, tree, &mut archive).map_err(fail)?;
    put_modules(spec, tree, &kernel_release, &mut archive)?;
    write(out, INITRAMFS_FILE, &archive.to_bytes())?;
    files.sort();
    Ok(Assembled { files, kernel_release })
}

fn write(out: &Path, name: &str, content: &[u8]) -> Result<(), ImageError> {
    let path = out.join(name);
    doorbell_files::write(&path, content).map_err(ImageError::io("write", &path))
}

/// The only file that matches a pattern: its path and content.
fn only_file(tree: &Tree, pattern: &str) -> Result<(String, Vec<u8>), String> {
    let found = tree.glob(pattern);
    let [path] = found.as_slice() else {
        return Err(format!(
            "{pattern} must match one file of the packages, but matches {} ({})",
            found.len(),
            found.join(", ")
        ));
    };
    match tree.resolve(path)?.pop() {
        Some((_, Node::File { content, .. })) => Ok((path.clone(), content)),
        _ => Err(format!("{path} is not a file")),
    }
}

fn kernel(spec: &Spec, tree: &Tree) -> Result<(Vec<u8>, String), String> {
    let (path, content) = only_file(tree, &spec.kernel.image)?;
    let (form, at, magic) = architecture::find(&spec.architecture)?.kernel;
    if content.get(at..at + magic.len()) != Some(magic) {
        return Err(format!("{path} is not {form} (it may be compressed or for another architecture)"));
    }
    let file = path.rsplit('/').next().unwrap_or(&path);
    let release = file.split_once('-').map_or(file, |(_, release)| release).to_owned();
    Ok((content, release))
}

/// Directories, the console, links and the recipe's own files.
fn put_skeleton(recipe: &Recipe, archive: &mut Archive) -> Result<(), String> {
    let spec = &recipe.spec.initramfs;
    archive.put("dev/console", Node::CharDevice { major: 5, minor: 1 })?;
    for path in &spec.directories {
        archive.put(path, Node::Directory)?;
    }
    for (path, target) in &spec.links {
        archive.put(path, Node::Link { target: target.clone() })?;
    }
    for (path, node) in &recipe.files {
        archive.put(path, node.clone())?;
    }
    let is_simulated = architecture::find(&recipe.spec.architecture)? == architecture::SIMULATED;
    for (path, mode, content) in [
        (M5, 0o755, include_bytes!("../../../guest/m5/m5").as_slice()),
        (HOST_SCRIPT, 0o644, include_bytes!("../../../guest/host-script")),
    ] {
        if is_simulated && !archive.has(path) {
            archive.put(path, Node::File { mode, content: content.to_vec() })?;
        }
    }
    if !recipe.spec.init.is_empty() {
        let content = init_lines::checked(&recipe.spec.init)
            .map_err(|error| format!("cannot check the lines of init with sh: {error}"))?
            .into_bytes();
        archive.put(INIT_LINES, Node::File { mode: 0o644, content })?;
    }
    Ok(())
}

/// Puts the files of packages that are installed whole, unless the recipe has its own. Returns the programs
/// among those files, and the libraries that the recipe's own programs need.
fn put_whole(
    recipe: &Recipe,
    installed: BTreeMap<String, Node>,
    archive: &mut Archive,
) -> Result<Needs, String> {
    let mut needs = Needs::default();
    let architecture = architecture::find(&recipe.spec.architecture)?;
    for (path, node) in &recipe.files {
        let Node::File { content, .. } = node else { continue };
        let Some(machine) = elf::machine(content) else { continue };
        if machine != architecture.machine {
            let (shown, compiler) = (architecture.shown, architecture.compiler.name);
            return Err(format!(
                "{path} is a program for another machine (ELF machine {machine}) than {shown}; compile it with {compiler}"
            ));
        }
        let own = dynamic(content).map_err(|problem| format!("{path} is {problem}"))?;
        needs.libraries.extend(own.needed.into_iter().map(|library| (library, path.clone())));
        needs.paths.extend(own.interpreter.map(|path| path.trim_start_matches('/').to_owned()));
    }
    for (path, node) in installed {
        match &node {
            _ if archive.has(&path) => {}
            Node::File { content, .. } if dynamic(content).is_ok() => needs.paths.push(path),
            _ => archive.put(&path, node)?,
        }
    }
    Ok(needs)
}

/// Puts files of the packages other than programs.
fn put_data(spec: &Spec, tree: &Tree, archive: &mut Archive) -> Result<(), String> {
    for pattern in &spec.initramfs.data {
        let found = tree.glob(pattern);
        if found.is_empty() {
            return Err(format!("{pattern} is in none of the packages"));
        }
        for path in found {
            for (place, node) in tree.resolve(&path)? {
                if !archive.has(&place) {
                    archive.put(&place, node)?;
                }
            }
        }
    }
    Ok(())
}

/// Files that still have to be found in the packages.
#[derive(Debug, Default)]
struct Needs {
    paths: Vec<String>,
    /// Names, and the programs that need them.
    libraries: Vec<(String, String)>,
}

/// Puts the recipe's and the other needed programs, their interpreters, and all libraries that they need.
fn put_programs(spec: &Spec, tree: &Tree, needs: Needs, archive: &mut Archive) -> Result<(), String> {
    for (path, target) in &spec.initramfs.links {
        tree.link(path, target)?;
    }
    let mut open = VecDeque::new();
    for pattern in &spec.initramfs.elf {
        let found = tree.glob(pattern);
        if found.is_empty() {
            return Err(format!("{pattern} is in none of the packages"));
        }
        open.extend(found);
    }
    open.extend(needs.paths);
    for (library, user) in &needs.libraries {
        open.push_back(find_library(spec, tree, library, user)?);
    }
    // A path resolves to links and a file; each file's needs are followed only once.
    let mut done: BTreeMap<String, ()> = BTreeMap::new();
    while let Some(path) = open.pop_front() {
        if done.insert(path.clone(), ()).is_some() {
            continue;
        }
        for (place, node) in tree.resolve(&path)? {
            if let Node::File { content, .. } = &node
                && (place == path || done.insert(place.clone(), ()).is_none())
            {
                let needs = dynamic(content).map_err(|problem| format!("{place} is {problem}"))?;
                for library in needs.needed {
                    open.push_back(find_library(spec, tree, &library, &place)?);
                }
                open.extend(needs.interpreter.map(|path| path.trim_start_matches('/').to_owned()));
            }
            archive.put(&place, node)?;
        }
    }
    Ok(())
}

fn find_library(spec: &Spec, tree: &Tree, library: &str, user: &str) -> Result<String, String> {
    let mut candidates = spec.initramfs.library_path.iter().map(|dir| format!("{dir}/{library}"));
    candidates.find(|path| tree.has(path)).ok_or_else(|| {
        format!("{user} needs {library}, which is in none of the packages: check packages.leave_out")
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn tree_with(files: &[(&str, &[u8])]) -> (tempfile::TempDir, Tree) {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let tree = Tree::new(dir.path());
        (dir, tree)
    }

    fn raw_image() -> Vec<u8> {
        let mut image = vec![0; 64];
        image[56..60].copy_from_slice(b"RSC\x05");
        image
    }

    #[test]
    fn the_kernel_must_be_one_raw_image() {
        let recipe = Recipe::load("testpmd").unwrap();
        let (_dir, tree) = tree_with(&[("boot/vmlinux-6.12-riscv64", &raw_image())]);
        assert_eq!(kernel(&recipe.spec, &tree).unwrap().1, "6.12-riscv64");
        let (_dir, tree) = tree_with(&[("boot/vmlinux-6.12", b"\x1f\x8b compressed")]);
        assert!(kernel(&recipe.spec, &tree).unwrap_err().contains("not a raw RISC-V Image"));
        let (_dir, tree) = tree_with(&[("boot/vmlinux-1", &raw_image()), ("boot/vmlinux-2", &raw_image())]);
        assert!(kernel(&recipe.spec, &tree).unwrap_err().contains("boot/vmlinux-1, boot/vmlinux-2"));
    }

    #[test]
    fn a_program_brings_its_libraries_and_its_interpreter() {
        let mut recipe = Recipe::load("testpmd").unwrap();
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        let needs = dynamic(&own).unwrap();
        let library = [0x7f]; // no ELF file
        let interpreter = needs.interpreter.unwrap().trim_start_matches('/').to_owned();
        let mut files: Vec<(String, &[u8])> = vec![("usr/bin/tool".into(), &own), (interpreter, &library)];
        files.extend(needs.needed.iter().map(|name| (format!("usr/lib/{name}"), library.as_slice())));
        let borrowed: Vec<(&str, &[u8])> =
            files.iter().map(|(path, content)| (path.as_str(), *content)).collect();
        let (dir, tree) = tree_with(&borrowed);
        recipe.spec.initramfs.elf = vec!["usr/bin/*".into()];
        recipe.spec.initramfs.links.clear();
        // Its libraries are found, but they are not ELF files.
        let error = put_programs(&recipe.spec, &tree, Needs::default(), &mut Archive::new()).unwrap_err();
        assert!(error.contains("ELF"), "{error}");
        fs::remove_file(dir.path().join(format!("usr/lib/{}", needs.needed[0]))).unwrap();
        let error = put_programs(&recipe.spec, &tree, Needs::default(), &mut Archive::new()).unwrap_err();
        assert!(error.contains(&needs.needed[0]) && error.contains("usr/bin/tool needs"), "{error}");
    }

    #[test]
    fn a_missing_program_or_module_is_named() {
        let recipe = Recipe::load("testpmd").unwrap();
        let (_dir, tree) = tree_with(&[]);
        let error = put_programs(&recipe.spec, &tree, Needs::default(), &mut Archive::new()).unwrap_err();
        assert!(error.contains("usr/bin/busybox"), "{error}");
        let error = put_modules(&recipe.spec, &tree, "6.12", &mut Archive::new()).unwrap_err().to_string();
        assert!(error.contains("\"uio_pci_generic\""), "{error}");
    }

    #[test]
    fn a_file_that_is_not_a_module_is_refused() {
        let recipe = Recipe::load("testpmd").unwrap();
        let path = "usr/lib/modules/6.12/kernel/drivers/uio/uio-pci-generic.ko";
        let (_dir, tree) = tree_with(&[(path, b"not ELF")]);
        let error = put_modules(&recipe.spec, &tree, "6.12", &mut Archive::new()).unwrap_err().to_string();
        assert!(error.contains("not a kernel module"), "{error}");
    }
}
