//! Debian's debugging symbols for the programs and libraries of an image: fetched on request, verified and
//! cached like packages.
//!
//! Most are in packages called `…-dbgsym`, in a separate archive (`debian-debug`, with a suite `trixie-debug`
//! for `trixie`), which not every mirror has. Some, such as libc's, are in `…-dbg` packages of the suite
//! itself. The index lists the build IDs of each package, by which a file's package is found. Only the needed
//! files of a package are kept.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use doorbell_files::{self as files, UseLock, hold};

use crate::apt::Apt;
use crate::builder::{BuildOptions, unpack};
use crate::error::ImageError;
use crate::host;
use crate::image::Image;
use crate::index::{self, Package};
use crate::packages::{Catalogue, environment, fetch, index_of_suite, mirror};
use crate::workspace::{UNPACK_PREFIX, Workspace, temporary};

/// Value of the mirror option that disables the archive of debugging symbols.
const NO_MIRROR: &str = "none";
/// Number of files without symbols that a message names.
const FILES_NAMED: usize = 3;
/// Number of hash digits in a folder's name.
const NAME_DIGITS: usize = 16;

/// Paths of programs and libraries in an image, by build ID.
pub type ByBuildId = BTreeMap<String, String>;

/// A folder of debugging symbols, by build ID: `.build-id/ab/cdef….debug`. `doorbell cache clean` keeps it
/// while it is in use.
#[derive(Debug)]
pub struct DebugSymbols {
    /// The folder.
    pub folder: PathBuf,
    _held: UseLock,
}

impl DebugSymbols {
    /// Opens a folder, if it exists, and reports the programs without symbols in it.
    fn find(
        folder: &Path,
        programs: &ByBuildId,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Option<DebugSymbols>, ImageError> {
        let held = hold(folder).map_err(ImageError::io("open", folder))?;
        let there = held.map(|held| DebugSymbols { folder: folder.to_owned(), _held: held });
        if there.is_some() {
            let missing = without_symbols(folder, programs);
            if !missing.is_empty() {
                progress(&missing_message(&missing, programs.len()));
            }
        }
        Ok(there)
    }
}

/// Fetches the debugging symbols of an image's programs through the cache of [`BuildOptions::cache_dir`] into
/// a folder below [`BuildOptions::out_dir`], unless they are already there. `programs` are the programs to
/// find symbols for. Reports each step, and the programs without symbols, to `progress`.
pub fn fetch_debug_symbols(
    image: &Image,
    programs: &ByBuildId,
    options: &BuildOptions,
    progress: &mut dyn FnMut(&str),
) -> Result<DebugSymbols, ImageError> {
    let path = options.out_dir.join(format!("{}-{}", image.name(), &image.hash()[..NAME_DIGITS]));
    if let Some(there) = DebugSymbols::find(&path, programs, progress)? {
        return Ok(there);
    }
    let workspace = Workspace::prepare(&BuildOptions { out_dir: path.clone(), ..options.clone() }, progress)?;
    // Another process may have fetched them meanwhile.
    if let Some(there) = DebugSymbols::find(&path, programs, progress)? {
        return Ok(there);
    }
    host::require(&host::FETCHING, &host::search_path())?;
    let fresh = temporary(&workspace.parent, &workspace.building_prefix())?;
    let mut wanted = programs.clone();
    for Archive { apt, catalogue } in archives(image, options, &workspace, progress)? {
        let packages = with_symbols(&catalogue.text, &mut wanted)
            .map_err(|problem| ImageError::Content { image: image.name().to_owned(), problem })?;
        if packages.is_empty() {
            continue;
        }
        let debs = fetch(&packages, &apt, catalogue.route, options.offline, progress)?;
        let unpacked = temporary(&workspace.cache, UNPACK_PREFIX)?;
        unpack(debs.iter(), unpacked.path(), &workspace)?;
        copy_symbol_files(programs, unpacked.path(), fresh.path())?;
    }
    if wanted.len() == programs.len() {
        return Err(ImageError::NoDebugSymbols { image: image.name().to_owned(), programs: programs.len() });
    }
    // Synced before it gets its name, as an image is.
    files::sync_tree(fresh.path()).map_err(ImageError::io("write", fresh.path()))?;
    files::put_in_place(fresh.path(), &path).map_err(ImageError::io("create", &path))?;
    // No other process removes it while this one holds the lock.
    Ok(DebugSymbols::find(&path, programs, progress)?.expect("it has just been put there"))
}

/// An archive with packages of debugging symbols.
struct Archive {
    apt: Apt,
    catalogue: Catalogue,
}

/// The suite itself, and its suite of debugging symbols.
fn archives(
    image: &Image,
    options: &BuildOptions,
    workspace: &Workspace,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Archive>, ImageError> {
    let manifest = image.manifest();
    let (suite, architecture) = (manifest.suite.as_str(), manifest.architecture.as_str());
    let mut archive = |suite: &str, options: &BuildOptions| {
        let apt = Apt::set_up(suite, Some(architecture), options, workspace.cache_lock())?;
        let catalogue = index_of_suite(suite, architecture, &apt, options, progress)?;
        Ok(Archive { apt, catalogue })
    };
    let named = options.debug_mirror.clone().or_else(|| environment("DOORBELL_DEBIAN_DEBUG_MIRROR"));
    let of_debug = debug_mirror(&mirror(options)?, named.as_deref())?;
    let mut all = vec![archive(suite, options)?];
    if let Some(mirror) = of_debug {
        let suite = format!("{suite}-debug");
        let own = BuildOptions { mirror: Some(mirror.clone()), ..options.clone() };
        let found = archive(&suite, &own).map_err(|source| match source {
            // apt's hints about mirrors apply to the packages' mirror only.
            ImageError::Tool { what, status, output, .. } => {
                let source = Box::new(ImageError::Tool { what, status, hint: String::new(), output });
                ImageError::NoDebugArchive { mirror, suite, source }
            }
            other => other,
        })?;
        all.push(found);
    }
    Ok(all)
}

/// The mirror of debugging symbols: the named one, else the one next to the packages' mirror, as on Debian's
/// own servers.
fn debug_mirror(main: &str, named: Option<&str>) -> Result<Option<String>, ImageError> {
    match named {
        Some(NO_MIRROR) => Ok(None),
        Some(named) => Ok(Some(named.to_owned())),
        None => match main.trim_end_matches('/').strip_suffix("/debian") {
            Some(above) => Ok(Some(format!("{above}/debian-debug"))),
            None => Err(ImageError::NoDebugMirror { mirror: main.to_owned() }),
        },
    }
}

/// The packages with symbols of some of the wanted files, according to the index; removes these files from
/// `wanted`.
fn with_symbols(index: &str, wanted: &mut ByBuildId) -> Result<Vec<Package>, String> {
    let mut found = Vec::new();
    for paragraph in index::paragraphs(index) {
        let name = index::field(paragraph, "Package").unwrap_or_default();
        if !name.ends_with("-dbgsym") && !name.ends_with("-dbg") {
            continue;
        }
        let ids = index::field(paragraph, "Build-Ids").unwrap_or_default();
        let before = wanted.len();
        for id in ids.split_whitespace() {
            wanted.remove(id);
        }
        if wanted.len() < before {
            found.push(index::parse(paragraph)?);
        }
    }
    Ok(found)
}

/// Copies the programs' symbol files out of the unpacked packages.
fn copy_symbol_files(programs: &ByBuildId, unpacked: &Path, into: &Path) -> Result<(), ImageError> {
    for id in programs.keys() {
        let Some(name) = file_of(id) else { continue };
        let from = unpacked.join("usr/lib/debug").join(&name);
        // A link could lead out of the folder.
        if !fs::symlink_metadata(&from).is_ok_and(|found| found.is_file()) {
            continue;
        }
        let to = into.join(&name);
        let folder = to.parent().expect("it has folders above it");
        files::create_folders(folder).map_err(ImageError::io("create", folder))?;
        fs::copy(&from, &to).map_err(ImageError::io("write", &to))?;
    }
    Ok(())
}

/// Path of a build ID's file in a folder of symbols.
fn file_of(id: &str) -> Option<String> {
    let (first, rest) = id.split_at_checked(2)?;
    Some(format!(".build-id/{first}/{rest}.debug"))
}

/// The programs whose symbols are not in the folder.
fn without_symbols(folder: &Path, programs: &ByBuildId) -> ByBuildId {
    let has = |id: &str| file_of(id).is_some_and(|name| folder.join(name).exists());
    programs.iter().filter(|(id, _)| !has(id)).map(|(id, path)| (id.clone(), path.clone())).collect()
}

fn missing_message(wanted: &ByBuildId, all: usize) -> String {
    let mut names: Vec<&str> =
        wanted.values().map(|path| path.rsplit('/').next().unwrap_or(path)).take(FILES_NAMED).collect();
    if wanted.len() > FILES_NAMED {
        names.push("…");
    }
    format!("no debugging symbols for {} of {all} programs and libraries: {}", wanted.len(), names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_without_symbols_are_reported_at_each_use_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let programs = [("abcd", "usr/bin/one"), ("abef", "usr/lib/two.so"), ("x", "usr/bin/odd")];
        let programs: ByBuildId =
            programs.iter().map(|(id, path)| ((*id).to_owned(), (*path).to_owned())).collect();
        let mut messages = Vec::new();
        let mut find = |folder: &Path| {
            DebugSymbols::find(folder, &programs, &mut |line| messages.push(line.to_owned()))
                .unwrap()
                .is_some()
        };
        assert!(!find(&folder.path().join("none")));
        let there = folder.path().join("image-1");
        fs::create_dir_all(there.join(".build-id/ab")).unwrap();
        fs::write(there.join(".build-id/ab/cd.debug"), "").unwrap();
        assert!(find(&there) && find(&there));
        assert_eq!(messages, ["no debugging symbols for 2 of 3 programs and libraries: two.so, odd"; 2]);
    }

    #[test]
    fn the_debug_mirror_defaults_to_the_folder_next_to_the_packages_mirror() {
        let of = |main, named| debug_mirror(main, named);
        assert_eq!(
            of("http://a.example/debian/", None).unwrap().as_deref(),
            Some("http://a.example/debian-debug")
        );
        assert_eq!(
            of("http://a.example/debian", Some("http://b.example/x")).unwrap().as_deref(),
            Some("http://b.example/x")
        );
        assert_eq!(of("http://a.example/pub", Some("none")).unwrap(), None);
        let error = of("mirror+file:/etc/apt/mirrors/debian.list", None).unwrap_err().to_string();
        assert!(error.contains("DOORBELL_DEBIAN_DEBUG_MIRROR"), "{error}");
    }

    #[test]
    fn packages_are_chosen_by_the_build_ids_in_the_index() {
        let paragraph = |name: &str, ids: &str| {
            format!(
                "Package: {name}\nVersion: 1\nArchitecture: riscv64\nBuild-Ids: {ids}\nSize: 5\nSHA256: aa\n\n"
            )
        };
        let index = [
            paragraph("tool", "aa01"),
            paragraph("tool-dbgsym", "aa01 aa02"),
            paragraph("libc6-dbg", "bb01"),
            paragraph("other-dbgsym", "cc01"),
        ]
        .concat();
        let mut wanted: ByBuildId =
            [("aa01", "usr/bin/tool"), ("bb01", "lib/libc.so.6"), ("dd01", "usr/bin/own")]
                .map(|(id, path)| (id.into(), path.into()))
                .into();
        let found = with_symbols(&index, &mut wanted).unwrap();
        let names: Vec<&str> = found.iter().map(|package| package.name.as_str()).collect();
        assert_eq!(names, ["tool-dbgsym", "libc6-dbg"]);
        assert_eq!(
            missing_message(&wanted, 3),
            "no debugging symbols for 1 of 3 programs and libraries: own"
        );
    }
}
