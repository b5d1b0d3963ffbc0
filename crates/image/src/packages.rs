//! Which packages an image is built from, and their files in the cache: those of the suite's index, or those that a lock file
//! names ([`crate::pins`]).

use std::path::{Path, PathBuf};

use crate::apt::{Apt, Fetched, Route, Setup};
use crate::builder::BuildOptions;
use crate::confine::Bounds;
use crate::error::ImageError;
use crate::host::{self, DPKG_DEB};
use crate::index::{Index, Package};
use crate::known;
use crate::manifest::PackageRecord;
use crate::pins::Pins;
use crate::recipe::Recipe;
use crate::sources::find_mirror;

const APT_FOLDER: &str = "/etc/apt";

/// What the archive has, as far as it can be known.
#[derive(Debug)]
pub(crate) struct Catalogue {
    /// Paragraphs that describe packages.
    pub text: String,
    /// How to get them.
    pub route: Route,
}

/// What an image is built from.
#[derive(Debug)]
pub(crate) struct Packages {
    /// By name.
    pub all: Vec<Package>,
    /// The file of each.
    pub debs: Vec<PathBuf>,
    /// Paragraphs that describe them, and maybe others.
    pub index: String,
}

/// Sets the private apt up for a suite and an architecture.
pub(crate) fn set_up_apt(suite: &str, architecture: &str, options: &BuildOptions) -> Result<Apt, ImageError> {
    set_up(suite, architecture, false, options)
}

/// Sets it up for a suite's sources.
pub(crate) fn set_up_sources(suite: &str, options: &BuildOptions) -> Result<Apt, ImageError> {
    // No architecture is looked at.
    set_up(suite, "amd64", true, options)
}

fn set_up(suite: &str, architecture: &str, sources: bool, options: &BuildOptions) -> Result<Apt, ImageError> {
    let mirror = mirror(options)?;
    let keyring =
        options.keyring.clone().or_else(|| environment("DOORBELL_DEBIAN_KEYRING").map(PathBuf::from));
    Apt::set_up(&Setup {
        cache: &options.cache_dir,
        suite,
        architecture,
        mirror: &mirror,
        keyring: keyring.as_deref(),
        sources,
    })
}

/// The address of the archive: the one that is given, or the environment's, or the host's own.
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

/// The suite's current packages, unless they are those that there is an image of already.
pub(crate) fn of_suite(
    recipe: &Recipe,
    apt: &Apt,
    options: &BuildOptions,
    present: Option<&[PackageRecord]>,
    progress: &mut dyn FnMut(&str),
) -> Result<Option<Packages>, ImageError> {
    let Catalogue { text: index, route } = index_of_suite(suite(recipe), apt, options, progress)?;
    let index = recipe.exact.over(index);
    let all = resolve(recipe, &index).map_err(|error| match (route, error) {
        (Route::Path, ImageError::Content { image, problem }) => ImageError::NotKnown { image, problem },
        (_, error) => error,
    })?;
    if present.is_some_and(|present| present == records(&all)) {
        return Ok(None);
    }
    fetch_exact(recipe, &all, apt, options.offline, progress)?;
    let debs = fetch(&all, apt, route, options.offline, progress)?;
    Ok(Some(Packages { all, debs, index }))
}

/// The packages that a lock file names, from the cache as far as they are there. `bounds` are those of a program that reads
/// packages.
pub(crate) fn locked(
    recipe: &Recipe,
    apt: &Apt,
    options: &BuildOptions,
    (pins, path): (&Pins, &Path),
    bounds: Bounds,
    progress: &mut dyn FnMut(&str),
) -> Result<Packages, ImageError> {
    let mut wanted = pins.packages();
    for package in &mut wanted {
        let Some(exact) = recipe.exact.package(&package.name) else { continue };
        if exact.record() != package.record() {
            let problem = format!(
                "it has {} {}, and the recipe names {} {} exactly; write it again with: doorbell image lock RECIPE --out {}",
                package.name,
                package.version,
                exact.name,
                exact.version,
                path.display()
            );
            return Err(ImageError::Pins { path: path.to_owned(), problem });
        }
        package.path = exact.path;
    }
    fetch_exact(recipe, &wanted, apt, options.offline, progress)?;
    let mut route = Route::Index;
    let missing = if options.offline { Vec::new() } else { apt.missing(&wanted) };
    if !missing.is_empty() {
        let there = index_of_suite(suite(recipe), apt, options, progress)?;
        let index = Index::new(&there.text);
        let gone: Vec<String> = missing.iter().filter_map(|package| index.gone(package)).collect();
        if !gone.is_empty() {
            return Err(ImageError::Gone { path: path.to_owned(), packages: gone.join("\n  ") });
        }
        for package in &mut wanted {
            package.path = index.package(&package.name).and_then(|there| there.ok()?.path);
        }
        route = there.route;
    }
    let debs = fetch(&wanted, apt, route, options.offline, progress)?;
    // The suite's index may have moved on, but a package says itself what it depends on.
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
            "it does not have all that the recipe needs now ({error}); write it again with: doorbell image lock RECIPE --out {}",
            path.display()
        );
        ImageError::Pins { path: path.to_owned(), problem }
    })?;
    let kept =
        wanted.iter().zip(debs).filter(|(package, _)| all.iter().any(|other| other.name == package.name));
    let debs = kept.map(|(_, deb)| deb).collect();
    Ok(Packages { all, debs, index })
}

/// A recipe's suite and architecture.
fn suite(recipe: &Recipe) -> (&str, &str) {
    (&recipe.spec.suite, &recipe.spec.architecture)
}

/// The suite's verified index. If the mirror has another than the one that was signed, which happens while it is brought up to date:
/// what this program knows of the suite itself.
pub(crate) fn index_of_suite(
    (suite, architecture): (&str, &str),
    apt: &Apt,
    options: &BuildOptions,
    progress: &mut dyn FnMut(&str),
) -> Result<Catalogue, ImageError> {
    if !options.offline {
        progress("fetching the package index");
        if let Fetched::Misfit(error) = apt.update()? {
            let known = options.known.as_deref().or_else(|| known::packages(suite, architecture));
            let Some(text) = known.map(str::to_owned) else { return Err(error) };
            progress(
                "the mirror's index is not the one that its signed list names, as happens while a mirror is brought up to date: \
                 taking the versions that this program knows, each by its SHA-256",
            );
            return Ok(Catalogue { text, route: Route::Path });
        }
    } else if !apt.has_index() {
        let what = format!("the package index of {suite}");
        return Err(ImageError::Offline { what, cache: apt.cache().to_owned() });
    }
    Ok(Catalogue { text: apt.index()?, route: Route::Index })
}

/// Gets those of these packages that a recipe names exactly, wherever the others come from: they need not be in the suite's index.
fn fetch_exact(
    recipe: &Recipe,
    packages: &[Package],
    apt: &Apt,
    offline: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<(), ImageError> {
    let is_exact = |package: &&Package| recipe.exact.package(&package.name).is_some();
    let exact: Vec<&Package> = packages.iter().filter(is_exact).collect();
    apt.fetch(&exact, Route::Path, offline, progress).map(drop)
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

/// What a recipe needs, of the packages that an index describes.
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

/// As a manifest and a lock file tell them.
pub(crate) fn records(packages: &[Package]) -> Vec<PackageRecord> {
    packages.iter().map(Package::record).collect()
}
