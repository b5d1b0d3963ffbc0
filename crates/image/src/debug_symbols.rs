//! Debian's files of debugging symbols for the programs and libraries of an image: fetched on request, verified and cached as
//! packages are.
//!
//! Most are in packages called `…-dbgsym`, in an archive of their own (`debian-debug`, a suite `trixie-debug` to `trixie`), which not
//! every mirror has; some, such as those of libc, are in `…-dbg` of the suite itself. Which package has a file's is told by its build
//! ID: the index lists those of each package. Of a package only these files are kept.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use doorbell_files::{self as files, Held, hold};

use crate::apt::Apt;
use crate::builder::{BuildOptions, unpack};
use crate::error::ImageError;
use crate::host::{self, APT_CACHE, APT_CONFIG, APT_GET, DPKG_DEB, GPGV, XZ};
use crate::image::Image;
use crate::index::{self, Package};
use crate::packages::{Catalogue, environment, fetch, index_of_suite, mirror, set_up_apt};
use crate::place::{Place, UNPACK_PREFIX, temporary};

/// What stands for the mirror of debugging symbols if there is none.
const NO_MIRROR: &str = "none";
/// As many files are named of those that have no symbols.
const NAMED: usize = 3;
/// As many digits of an image's hash as a folder's name has.
const NAME_DIGITS: usize = 16;

/// Paths in an image, by the build IDs of the programs and libraries there.
pub type ByBuildId = BTreeMap<String, String>;

/// A folder of files of debugging symbols, by build ID: `.build-id/ab/cdef….debug`. As long as anybody has it, `doorbell cache clean`
/// leaves it.
#[derive(Debug)]
pub struct DebugSymbols {
    /// The folder.
    pub folder: PathBuf,
    _held: Held,
}

impl DebugSymbols {
    fn find(folder: &Path) -> Result<Option<DebugSymbols>, ImageError> {
        let held = hold(folder).map_err(ImageError::io("open", folder))?;
        Ok(held.map(|held| DebugSymbols { folder: folder.to_owned(), _held: held }))
    }

    /// The same, and says which of the programs have none there.
    fn told(
        folder: &Path,
        programs: &ByBuildId,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Option<DebugSymbols>, ImageError> {
        let there = DebugSymbols::find(folder)?;
        if there.is_some() {
            let lacking = lacking(folder, programs);
            if !lacking.is_empty() {
                progress(&without(&lacking, programs.len()));
            }
        }
        Ok(there)
    }
}

/// The debugging symbols of an image's programs. They are fetched through the cache of [`BuildOptions::cache_dir`] into a folder below
/// [`BuildOptions::out_dir`], unless they are there. `programs` are those whose symbols are wanted; `progress` is told what is being
/// done, and which of them have none.
pub fn fetch_debug_symbols(
    image: &Image,
    programs: &ByBuildId,
    options: &BuildOptions,
    progress: &mut dyn FnMut(&str),
) -> Result<DebugSymbols, ImageError> {
    let path = options.out_dir.join(format!("{}-{}", image.name(), &image.hash()[..NAME_DIGITS]));
    if let Some(there) = DebugSymbols::told(&path, programs, progress)? {
        return Ok(there);
    }
    let place = Place::prepare(&BuildOptions { out_dir: path.clone(), ..options.clone() }, progress)?;
    // Another process may have fetched them meanwhile.
    if let Some(there) = DebugSymbols::told(&path, programs, progress)? {
        return Ok(there);
    }
    host::require(
        &[APT_GET, APT_CACHE, APT_CONFIG, DPKG_DEB, GPGV, XZ],
        Some(host::search_path().as_os_str()),
    )?;
    let fresh = temporary(&place.parent, &place.building_prefix())?;
    let mut wanted = programs.clone();
    for Archive { apt, catalogue } in archives(image, options, &place, progress)? {
        let packages = with_symbols(&catalogue.text, &mut wanted)
            .map_err(|problem| ImageError::Content { image: image.name().to_owned(), problem })?;
        if packages.is_empty() {
            continue;
        }
        let debs = fetch(&packages, &apt, catalogue.route, options.offline, progress)?;
        let unpacked = temporary(&place.cache, UNPACK_PREFIX)?;
        unpack(debs.iter(), unpacked.path(), &place)?;
        keep(programs, unpacked.path(), fresh.path())?;
    }
    if wanted.len() == programs.len() {
        return Err(ImageError::NoDebugSymbols { image: image.name().to_owned(), programs: programs.len() });
    }
    // Durable before it has its name, and readable by others as an image is.
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(fresh.path(), readable).map_err(ImageError::io("change", fresh.path()))?;
    files::sync_tree(fresh.path()).map_err(ImageError::io("write", fresh.path()))?;
    files::put_in_place(fresh.path(), &path).map_err(ImageError::io("create", &path))?;
    // Nobody removes it before this process lets its lock go.
    Ok(DebugSymbols::told(&path, programs, progress)?.expect("it has just been put there"))
}

/// Where packages of debugging symbols are.
struct Archive {
    apt: Apt,
    catalogue: Catalogue,
}

/// The suite itself, and that of its debugging symbols.
fn archives(
    image: &Image,
    options: &BuildOptions,
    place: &Place,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Archive>, ImageError> {
    let manifest = image.manifest();
    let (suite, architecture) = (manifest.suite.as_str(), manifest.architecture.as_str());
    let mut archive = |suite: &str, options: &BuildOptions| {
        let apt = set_up_apt(suite, architecture, options)?.holding(place.cache_lock())?;
        let catalogue = index_of_suite((suite, architecture), &apt, options, progress)?;
        Ok(Archive { apt, catalogue })
    };
    let named = options.debug_mirror.clone().or_else(|| environment("DOORBELL_DEBIAN_DEBUG_MIRROR"));
    let of_debug = debug_mirror(&mirror(options)?, named.as_deref())?;
    let mut all = vec![archive(suite, options)?];
    if let Some(mirror) = of_debug {
        let suite = format!("{suite}-debug");
        let own = BuildOptions { mirror: Some(mirror.clone()), ..options.clone() };
        let found = archive(&suite, &own).map_err(|source| match source {
            // What apt's hints say of mirrors is of those of packages.
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

/// The mirror of debugging symbols: the one that is named, or else the one that stands beside the mirror of packages, as Debian's own does.
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

/// The packages that an index says to have some of the wanted files' symbols; these are wanted no more.
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

/// Takes the programs' files out of unpacked packages.
fn keep(programs: &ByBuildId, unpacked: &Path, into: &Path) -> Result<(), ImageError> {
    for id in programs.keys() {
        let Some(name) = file_of(id) else { continue };
        let from = unpacked.join("usr/lib/debug").join(&name);
        // A link would lead elsewhere.
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

/// Where a folder of symbols has those of a build ID.
fn file_of(id: &str) -> Option<String> {
    let (first, rest) = id.split_at_checked(2)?;
    Some(format!(".build-id/{first}/{rest}.debug"))
}

/// Those of the programs whose symbols are not in a folder.
fn lacking(folder: &Path, programs: &ByBuildId) -> ByBuildId {
    let has = |id: &str| file_of(id).is_some_and(|name| folder.join(name).exists());
    programs.iter().filter(|(id, _)| !has(id)).map(|(id, path)| (id.clone(), path.clone())).collect()
}

fn without(wanted: &ByBuildId, all: usize) -> String {
    let mut names: Vec<&str> =
        wanted.values().map(|path| path.rsplit('/').next().unwrap_or(path)).take(NAMED).collect();
    if wanted.len() > NAMED {
        names.push("…");
    }
    format!("no debugging symbols for {} of {all} programs and libraries: {}", wanted.len(), names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_without_symbols_are_named_each_time_that_the_folder_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let programs = [("abcd", "usr/bin/one"), ("abef", "usr/lib/two.so"), ("x", "usr/bin/odd")];
        let programs: ByBuildId =
            programs.iter().map(|(id, path)| ((*id).to_owned(), (*path).to_owned())).collect();
        let mut said = Vec::new();
        let mut told = |folder: &Path| {
            DebugSymbols::told(folder, &programs, &mut |line| said.push(line.to_owned())).unwrap().is_some()
        };
        assert!(!told(&folder.path().join("none")));
        let there = folder.path().join("image-1");
        fs::create_dir_all(there.join(".build-id/ab")).unwrap();
        fs::write(there.join(".build-id/ab/cd.debug"), "").unwrap();
        assert!(told(&there) && told(&there));
        assert_eq!(said, ["no debugging symbols for 2 of 3 programs and libraries: two.so, odd"; 2]);
    }

    #[test]
    fn the_mirror_of_debugging_symbols_stands_beside_the_other_unless_it_is_named() {
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
    fn packages_are_chosen_by_the_build_ids_that_their_paragraphs_list() {
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
        assert_eq!(without(&wanted, 3), "no debugging symbols for 1 of 3 programs and libraries: own");
    }
}
