//! The packages that an image is built from, and their files in the cache: those of the suite's index, or
//! those that a lock file names ([`crate::lock_file`]).

use std::path::{Path, PathBuf};

use crate::apt::{Apt, Fetched, Route};
use crate::builder::BuildOptions;
use crate::confine::Bounds;
use crate::error::ImageError;
use crate::fallback_index;
use crate::host::{self, DPKG_DEB};
use crate::index::{Index, Package};
use crate::lock_file::LockFile;
use crate::manifest::PackageRecord;
use crate::recipe::Recipe;
use crate::sources::find_mirror;

const APT_FOLDER: &str = "/etc/apt";

/// Descriptions of the archive's packages.
#[derive(Debug)]
pub(crate) struct Catalogue {
    /// Index paragraphs.
    pub text: String,
    /// How to fetch the packages.
    pub route: Route,
}

/// The packages that an image is built from.
#[derive(Debug)]
pub(crate) struct Packages {
    /// Sorted by name.
    pub all: Vec<Package>,
    /// The file of each package, in the same order.
    pub debs: Vec<PathBuf>,
    /// Index paragraphs of these packages and possibly of others.
    pub index: String,
}

/// The archive's address: the given one, else the environment's, else the host's own.
pub(crate) fn mirror(options: &BuildOptions) -> Result<String, ImageError> {
    options
        .mirror
        .clone()
        .or_else(|| environment("DOORBELL_DEBIAN_MIRROR"))
        .or_else(|| find_mirror(Path::new(APT_FOLDER)))
        .ok_or_else(|| ImageError::NoMirror { searched: APT_FOLDER.into() })
}

pub(crate) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The suite's current packages; `None` if the present image was built from the same packages.
pub(crate) fn of_suite(
    recipe: &Recipe,
    apt: &Apt,
    options: &BuildOptions,
    present: Option<&[PackageRecord]>,
    progress: &mut dyn FnMut(&str),
) -> Result<Option<Packages>, ImageError> {
    let Catalogue { text: index, route } =
        index_of_suite(&recipe.spec.suite, &recipe.spec.architecture, apt, options, progress)?;
    let index = recipe.exact.replace_in(index);
    let all = resolve(recipe, &index).map_err(|error| match (route, error) {
        (Route::Path, ImageError::Content { image, problem }) => {
            ImageError::NotInFallbackIndex { image, problem }
        }
        (_, error) => error,
    })?;
    if present.is_some_and(|present| present == records(&all)) {
        return Ok(None);
    }
    fetch_pinned(recipe, &all, apt, options.offline, progress)?;
    let debs = fetch(&all, apt, route, options.offline, progress)?;
    Ok(Some(Packages { all, debs, index }))
}

/// The packages that a lock file names, from the cache where possible. `bounds` are those of a program that
/// reads packages.
pub(crate) fn locked(
    recipe: &Recipe,
    apt: &Apt,
    options: &BuildOptions,
    lock_file: &LockFile,
    path: &Path,
    bounds: Bounds,
    progress: &mut dyn FnMut(&str),
) -> Result<Packages, ImageError> {
    let mut wanted = lock_file.packages();
    for package in &mut wanted {
        let Some(exact) = recipe.exact.package(&package.name) else { continue };
        if exact.record != package.record {
            let problem = format!(
                "it has {} {}, but the recipe pins {} {}; write it again with: doorbell image lock RECIPE --out {}",
                package.name,
                package.version,
                exact.name,
                exact.version,
                path.display()
            );
            return Err(ImageError::LockFile { path: path.to_owned(), problem });
        }
        package.path = exact.path;
    }
    fetch_pinned(recipe, &wanted, apt, options.offline, progress)?;
    let mut route = Route::Index;
    let missing = if options.offline { Vec::new() } else { apt.missing(&wanted) };
    if !missing.is_empty() {
        let there = index_of_suite(&recipe.spec.suite, &recipe.spec.architecture, apt, options, progress)?;
        let index = Index::new(&there.text);
        let gone: Vec<String> = missing.iter().filter_map(|package| index.current_version(package)).collect();
        if !gone.is_empty() {
            return Err(ImageError::NoLongerAvailable { path: path.to_owned(), packages: gone.join("\n  ") });
        }
        for package in &mut wanted {
            package.path = index.package(&package.name).and_then(|there| there.ok()?.path);
        }
        route = there.route;
    }
    let debs = fetch(&wanted, apt, route, options.offline, progress)?;
    // The suite's index may be newer, but a package file states its own dependencies.
    let mut index = String::new();
    for (package, deb) in wanted.iter().zip(&debs) {
        let bounds = Bounds { reads: Some(vec![deb]), ..bounds.clone() };
        let mut command = host::command(DPKG_DEB);
        let control =
            host::run_within(&bounds, command.arg("-f").arg(deb), "reading a package's description")?;
        let control = String::from_utf8_lossy(&control);
        let control = control.trim_end();
        index += &format!("{control}\nSize: {}\nSHA256: {}\n\n", package.size_bytes, package.sha256);
    }
    let all = resolve(recipe, &index).map_err(|error| {
        let problem = format!(
            "it does not have all packages that the recipe now needs ({error}); write it again with: doorbell image lock RECIPE --out {}",
            path.display()
        );
        ImageError::LockFile { path: path.to_owned(), problem }
    })?;
    let kept =
        wanted.iter().zip(debs).filter(|(package, _)| all.iter().any(|other| other.name == package.name));
    let debs = kept.map(|(_, deb)| deb).collect();
    Ok(Packages { all, debs, index })
}

/// The suite's verified index. If the mirror's index does not match its signature, as during an update of the
/// mirror: the list compiled into this program.
pub(crate) fn index_of_suite(
    suite: &str,
    architecture: &str,
    apt: &Apt,
    options: &BuildOptions,
    progress: &mut dyn FnMut(&str),
) -> Result<Catalogue, ImageError> {
    if !options.offline {
        progress("fetching the package index");
        if let Fetched::Mismatch(error) = apt.update()? {
            let fallback =
                options.fallback_index.as_deref().or_else(|| fallback_index::packages(suite, architecture));
            let Some(text) = fallback.map(str::to_owned) else { return Err(error) };
            progress(
                "the mirror's index does not match its signed Release file, as happens during an update of the mirror: \
                 taking the versions in this program's built-in package list, each checked by its SHA-256",
            );
            return Ok(Catalogue { text, route: Route::Path });
        }
    } else if !apt.has_index() {
        let what = format!("the package index of {suite}");
        return Err(ImageError::Offline { what, cache: apt.cache().to_owned() });
    }
    Ok(Catalogue { text: apt.index()?, route: Route::Index })
}

/// Fetches the packages that the recipe pins exactly. They are fetched by path, because the suite's index
/// need not have them.
fn fetch_pinned(
    recipe: &Recipe,
    packages: &[Package],
    apt: &Apt,
    offline: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<(), ImageError> {
    let is_pinned = |package: &&Package| recipe.exact.package(&package.name).is_some();
    let pinned: Vec<&Package> = packages.iter().filter(is_pinned).collect();
    apt.fetch(&pinned, Route::Path, offline, progress).map(drop)
}

pub(crate) fn fetch(
    packages: &[Package],
    apt: &Apt,
    route: Route,
    offline: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<PathBuf>, ImageError> {
    let megabytes = packages.iter().map(|package| package.size_bytes).sum::<u64>() / 1_000_000;
    progress(&format!("getting {} packages, {megabytes} MB", packages.len()));
    apt.fetch(&packages.iter().collect::<Vec<_>>(), route, offline, progress)
}

/// The packages that a recipe needs, according to an index.
pub(crate) fn resolve(recipe: &Recipe, index: &str) -> Result<Vec<Package>, ImageError> {
    let packages = &recipe.spec.packages;
    let fail = |problem| ImageError::Content { image: recipe.name().to_owned(), problem };
    let roots = [packages.roots.as_slice(), &packages.install].concat();
    let index = Index::new(index);
    let mut all = index.closure(&roots, &packages.leave_out).map_err(fail)?;
    if let Some(build) = &recipe.spec.build {
        let alone = index.closure(&build.packages, &["*".to_owned()]).map_err(fail)?;
        all.extend(alone);
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all.dedup_by(|one, other| one.name == other.name);
    }
    Ok(all)
}

/// The packages as recorded in a manifest and a lock file.
pub(crate) fn records(packages: &[Package]) -> Vec<PackageRecord> {
    packages.iter().map(|package| package.record.clone()).collect()
}
