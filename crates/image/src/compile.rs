//! Programs that an image brings along as C source: compiled when the image is built, by the host's cross
//! compiler, against Debian's packages for the guest, so that they use the guest's headers, libraries and
//! start files. By default the compiler would prefer those of the host's cross libc, which is of another
//! version; options prevent this.
//!
//! The same packages, recipe and compiler give the same bytes: paths are relative, and there is no build ID.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::architecture::SIMULATED;
use crate::confine::{self, Bounds, Limits};
use crate::cpio::Node;
use crate::error::ImageError;
use crate::flags;
use crate::host::{self, Tool};
use crate::recipe::{Recipe, is_plain_name, is_relative_path};
use crate::tree::Tree;

/// The cross compiler for the guests.
pub(crate) const COMPILER: Tool = SIMULATED.compiler;
/// Links and folders in the working folder of the compiler.
const SOURCES: &str = "programs";
const PACKAGES: &str = "packages";
const START_FILES: &str = "start";
const TRIPLET: &str = SIMULATED.triplet;

/// Far more than compiling a program needs; exceeded only by sources that make the compiler run or grow
/// without end.
const LIMITS: Limits = Limits { cpu_s: Some(900), memory_bytes: Some(8 << 30), file_bytes: Some(1 << 30) };

/// A recipe's programs in C.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Build {
    /// The folder with sources and headers, next to the recipe.
    pub folder: String,
    /// Packages with headers and other files needed to compile, without their dependencies. None of their
    /// files go into the guest.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Compiler options; only those that [`flags`] lists as harmless.
    #[serde(default)]
    pub flags: Vec<String>,
    /// Folders of the packages in which to look for headers, in addition to the standard ones.
    #[serde(default)]
    pub include: Vec<String>,
    /// Libraries of the packages or the compiler, linked to the programs that use them. A leading colon marks
    /// a file name.
    #[serde(default)]
    pub libraries: Vec<String>,
    /// The sources of each program, by its path in the guest: paths in the folder or, with a leading slash,
    /// in the packages; `*` matches any text.
    pub programs: BTreeMap<String, Vec<String>>,
}

impl Build {
    /// Merges an extension's programs, which are compiled with the same options and may use the same sources
    /// and headers.
    pub(crate) fn merge(mut self, more: &Build) -> Build {
        self.folder.clone_from(&more.folder);
        self.packages.extend_from_slice(&more.packages);
        self.flags.extend_from_slice(&more.flags);
        self.include.extend_from_slice(&more.include);
        self.libraries.extend_from_slice(&more.libraries);
        self.programs.extend(more.programs.clone());
        self
    }

    /// Refuses paths that lead out of the folders, unsafe names and options.
    pub(crate) fn check(&self) -> Result<(), String> {
        // A leading colon marks a library's file name.
        let libraries = self.libraries.iter().map(|name| name.strip_prefix(':').unwrap_or(name));
        let names = self.packages.iter().map(String::as_str).chain(libraries);
        if let Some(bad) = names.into_iter().find(|name| !is_plain_name(name)) {
            return Err(format!("build: \"{bad}\" is not the name of a package or library"));
        }
        let sources =
            self.programs.values().flatten().map(|source| source.strip_prefix('/').unwrap_or(source));
        let paths = sources
            .chain([self.folder.as_str()])
            .chain(self.programs.keys().map(String::as_str))
            .chain(self.include.iter().map(String::as_str));
        for path in paths {
            if !is_relative_path(path) {
                return Err(format!("build: \"{path}\" must be a path without . or .. in it"));
            }
        }
        flags::check(&self.flags)?;
        match self.programs.iter().find(|(_, sources)| sources.is_empty()) {
            Some((program, _)) => Err(format!("build: {program} has no sources")),
            None => Ok(()),
        }
    }
}

/// Compiles a recipe's programs, if it has any; returns them as guest files by path. `packages` holds the
/// unpacked packages, including [`Build::packages`]; `work` is an empty folder, and `bounds` allows a program
/// to work in it.
pub(crate) fn programs(
    recipe: &Recipe,
    packages: &Path,
    work: &Path,
    bounds: Bounds,
) -> Result<BTreeMap<String, Node>, ImageError> {
    let Some(build) = &recipe.spec.build else { return Ok(BTreeMap::new()) };
    let fail = |problem| ImageError::Content { image: recipe.name().to_owned(), problem };
    for (path, node) in &recipe.sources {
        let to = work.join(SOURCES).join(path);
        let folder = to.parent().expect("it is in a folder");
        fs::create_dir_all(folder).map_err(ImageError::io("create", folder))?;
        if let Node::File { content, .. } = node {
            fs::write(&to, content).map_err(ImageError::io("write", &to))?;
        }
    }
    let link = work.join(PACKAGES);
    std::os::unix::fs::symlink(packages, &link).map_err(ImageError::io("create", &link))?;
    let tree = Tree::new(packages);
    for (path, target) in &recipe.spec.initramfs.links {
        tree.link(path, target).map_err(fail)?;
    }
    // Sources can include any file that the compiler can read: allow only the packages' and the compiler's
    // own files.
    let compilers_own = confine::install_folder(COMPILER.name, &host::search_path());
    let reads = [packages].into_iter().chain(compilers_own.as_deref()).collect();
    let bounds = Bounds { reads: Some(reads), limits: LIMITS, ..bounds };
    put_start_files(&tree, work)?;
    let standard = standard_headers()?;
    let mut compiled = BTreeMap::new();
    for (path, patterns) in &build.programs {
        let sources = sources(patterns, &tree, &Tree::new(&work.join(SOURCES))).map_err(fail)?;
        let mut compiler = host::command(COMPILER);
        // Keeps the time of compilation and this folder's path out of the programs.
        compiler.env("SOURCE_DATE_EPOCH", "0").arg(format!("-ffile-prefix-map={}=.", work.display()));
        compiler
            .current_dir(work)
            .args(&standard)
            .args(arguments(build, &recipe.spec.initramfs.library_path))
            .args(sources);
        // After the sources: the linker takes a library only if something before it needs it.
        compiler.args(build.libraries.iter().map(|library| format!("-l{library}"))).args(["-o", "program"]);
        host::run_with_hint(&bounds, &mut compiler, &format!("compiling {path}"), hint)?;
        let program = work.join("program");
        let content = fs::read(&program).map_err(ImageError::io("read", &program))?;
        compiled.insert(path.clone(), Node::File { mode: 0o755, content });
    }
    Ok(compiled)
}

/// Puts the packages' start files where the compiler looks first. This folder must hold nothing else, because
/// the compiler would also run programs from it.
fn put_start_files(tree: &Tree, work: &Path) -> Result<(), ImageError> {
    let to = work.join(START_FILES);
    fs::create_dir(&to).map_err(ImageError::io("create", &to))?;
    for pattern in ["*crt1.o", "crti.o", "crtn.o"] {
        for found in tree.glob(&format!("usr/lib/{TRIPLET}/{pattern}")) {
            let name = found.rsplit('/').next().unwrap_or(&found);
            if let Ok(Some((_, Node::File { content, .. }))) = tree.resolve(&found).map(|mut way| way.pop()) {
                fs::write(to.join(name), content).map_err(ImageError::io("write", &to))?;
            }
        }
    }
    Ok(())
}

/// Options for the standard headers (the compiler's own and the packages') and for the start files.
fn standard_headers() -> Result<Vec<String>, ImageError> {
    let mut command = host::command(COMPILER);
    let printed = host::run(command.arg("-print-file-name=include"), "finding the compiler's headers")?;
    let own = String::from_utf8_lossy(&printed).trim().to_owned();
    let mut arguments = vec!["-nostdinc".to_owned()];
    for folder in [own, format!("{PACKAGES}/usr/include/{TRIPLET}"), format!("{PACKAGES}/usr/include")] {
        arguments.extend(["-isystem".to_owned(), folder]);
    }
    arguments.push(format!("-B{START_FILES}/"));
    Ok(arguments)
}

fn hint(printed: &str) -> &'static str {
    if printed.contains(".h: No such file or directory") {
        "; headers come from the recipe's own folder and from the packages that build.packages names (C's own are in libc6-dev \
         and linux-libc-dev)"
    } else {
        ""
    }
}

/// The compiler's version line: the compiler influences the image's bytes.
pub(crate) fn compiler() -> Result<String, ImageError> {
    let printed = host::run(host::command(COMPILER).arg("--version"), "finding the compiler's version")?;
    Ok(String::from_utf8_lossy(&printed).lines().next().unwrap_or_default().to_owned())
}

/// The source files of a program, relative to the working folder.
fn sources(patterns: &[String], packages: &Tree, own: &Tree) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for pattern in patterns {
        let (found, under, place) = match pattern.strip_prefix('/') {
            Some(inside) => (packages.glob(inside), PACKAGES, "the packages"),
            None => (own.glob(pattern), SOURCES, "the folder of the programs"),
        };
        if found.is_empty() {
            return Err(format!("build: no file matches {pattern} in {place}"));
        }
        all.extend(found.into_iter().map(|path| format!("{under}/{path}")));
    }
    Ok(all)
}

fn arguments(build: &Build, library_path: &[String]) -> Vec<String> {
    let mut all = vec![format!("--sysroot={PACKAGES}"), "-Wl,--as-needed,--build-id=none".to_owned()];
    all.extend(build.flags.iter().cloned());
    all.extend(build.include.iter().map(|folder| format!("-I{PACKAGES}/{folder}")));
    for folder in library_path {
        all.push(format!("-L{PACKAGES}/{folder}"));
        all.push(format!("-Wl,-rpath-link,{PACKAGES}/{folder}"));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(toml: &str) -> Build {
        toml::from_str(toml).unwrap()
    }

    #[test]
    fn paths_out_of_the_folders_and_empty_source_lists_are_refused() {
        let good = "folder = \"c\"\npackages = [\"libc6-dev\"]\ninclude = [\"usr/include/x\"]\n\
                    programs = { \"usr/bin/a\" = [\"a.c\", \"/usr/share/x/*.c\"] }";
        assert_eq!(build(good).check(), Ok(()));
        for (from, to, word) in [
            ("\"c\"", "\"../c\"", "../c"),
            ("libc6-dev", "-o", "-o"),
            ("usr/include/x", "/usr/include", "/usr/include"),
            ("usr/bin/a", "../a", "../a"),
            ("a.c", "../a.c", "../a.c"),
            ("/usr/share/x/*.c", "//a.c", "/a.c"),
            ("[\"a.c\", \"/usr/share/x/*.c\"]", "[]", "usr/bin/a has no sources"),
        ] {
            let problem = build(&good.replace(from, to)).check().unwrap_err();
            assert!(problem.contains(word), "{problem}");
        }
    }
}
