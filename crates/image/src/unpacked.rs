//! Packages of a Debian suite unpacked into a folder of the cache, for programs that run on the host: fetched
//! and verified as a guest's packages are, but not installed.
//!
//! A folder is named by a hash of its packages' names, versions and hashes, and is put in place by one
//! rename. A link, named by a hash of the request, points to it, so it is found again without the suite's
//! index.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use doorbell_files as files;
use sha2::{Digest, Sha256};

use crate::apt::Apt;
use crate::builder::{BuildOptions, unpack};
use crate::error::ImageError;
use crate::host;
use crate::index::{Index, Package};
use crate::packages::{fetch, index_of_suite};
use crate::workspace::{Workspace, temporary};

/// Number of hash digits in a folder's name.
const NAME_DIGITS: usize = 16;

/// A set of packages to unpack.
#[derive(Clone, Copy, Debug)]
pub struct Unpacked<'a> {
    /// Purpose of the packages in a word; the link's name begins with it.
    pub name: &'a str,
    /// The Debian suite.
    pub suite: &'a str,
    /// Debian's name of the architecture.
    pub architecture: &'a str,
    /// The packages to unpack together with their dependencies.
    pub roots: &'a [&'a str],
    /// Patterns of dependencies to omit; `*` matches any text.
    pub leave_out: &'a [&'a str],
}

impl Unpacked<'_> {
    fn link(&self, folder: &Path) -> PathBuf {
        let words = [&[self.suite, self.architecture][..], self.roots, &["without"], self.leave_out].concat();
        folder.join(format!("{}-{}", self.name, digits(words.into_iter())))
    }
}

fn digits<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut digest = Sha256::new();
    for word in words {
        digest.update(word);
        digest.update([0]);
    }
    let mut name = files::hex(&digest.finalize());
    name.truncate(NAME_DIGITS);
    name
}

fn folder_name(packages: &[Package]) -> String {
    digits(packages.iter().flat_map(|package| [&*package.name, &*package.version, &*package.sha256]))
}

/// The folder below `folder`, if `fetch_unpacked` has created it. Fetches nothing.
pub fn find_unpacked(wanted: &Unpacked, folder: &Path) -> Option<PathBuf> {
    wanted.link(folder).canonicalize().ok()
}

/// Fetches the packages through the cache of [`BuildOptions::cache_dir`] and unpacks them below
/// [`BuildOptions::out_dir`], unless they are already there. Reports each step to `progress`.
pub fn fetch_unpacked(
    wanted: &Unpacked,
    options: &BuildOptions,
    progress: &mut dyn FnMut(&str),
) -> Result<PathBuf, ImageError> {
    let folder = &options.out_dir;
    if let Some(present) = find_unpacked(wanted, folder) {
        return Ok(present);
    }
    // This name is used for the lock only.
    let options = BuildOptions { out_dir: folder.join(wanted.name), ..options.clone() };
    let workspace = Workspace::prepare(&options, progress)?;
    // Another process may have fetched them meanwhile.
    if let Some(present) = find_unpacked(wanted, folder) {
        return Ok(present);
    }
    host::require(&host::FETCHING, &host::search_path())?;
    let apt = Apt::set_up(wanted.suite, Some(wanted.architecture), &options, workspace.cache_lock())?;
    let index = index_of_suite(wanted.suite, wanted.architecture, &apt, &options, progress)?;
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let all = Index::new(&index.text).closure(&owned(wanted.roots), &owned(wanted.leave_out));
    let all = all.map_err(|problem| ImageError::Content { image: wanted.name.to_owned(), problem })?;
    let target = folder_name(&all);
    let path = folder.join(&target);
    if !path.is_dir() {
        let debs = fetch(&all, &apt, index.route, options.offline, progress)?;
        progress("unpacking");
        let fresh = temporary(&workspace.parent, &workspace.building_prefix())?;
        unpack(debs.iter(), fresh.path(), &workspace)?;
        files::sync_tree(fresh.path()).map_err(ImageError::io("write", fresh.path()))?;
        files::put_in_place(fresh.path(), &path).map_err(ImageError::io("create", &path))?;
    }
    let link = wanted.link(folder);
    let fresh = temporary(&workspace.parent, &workspace.building_prefix())?;
    let fresh_link = fresh.path().join("link");
    symlink(&target, &fresh_link).map_err(ImageError::io("create", &fresh_link))?;
    files::rename(&fresh_link, &link).map_err(ImageError::io("create", &link))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: Unpacked =
        Unpacked { name: "tool", suite: "trixie", architecture: "amd64", roots: &["a"], leave_out: &[] };

    #[test]
    fn different_requests_and_package_sets_have_different_names() {
        let folder = Path::new("/cache");
        let others = [
            Unpacked { suite: "bookworm", ..WANTED },
            Unpacked { architecture: "arm64", ..WANTED },
            Unpacked { roots: &["a", "b"], ..WANTED },
            Unpacked { leave_out: &["b"], ..WANTED },
        ];
        assert!(others.iter().all(|other| other.link(folder) != WANTED.link(folder)));
        let package = |version: &str| {
            crate::manifest::PackageRecord {
                name: "a".into(),
                version: version.into(),
                architecture: "amd64".into(),
                size_bytes: 0,
                sha256: "00".into(),
            }
            .package()
        };
        assert_ne!(folder_name(&[package("1")]), folder_name(&[package("2")]));
    }

    #[test]
    fn a_link_without_its_folder_finds_nothing() {
        let folder = tempfile::tempdir().unwrap();
        symlink("gone", WANTED.link(folder.path())).unwrap();
        assert_eq!(find_unpacked(&WANTED, folder.path()), None);
        std::fs::create_dir(folder.path().join("gone")).unwrap();
        assert!(find_unpacked(&WANTED, folder.path()).is_some());
    }
}
