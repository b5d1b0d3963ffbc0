//! Which packages an image is built from, and their files in the cache: those of the suite's index, or those that a lock file
//! names ([`crate::pins`]).

use std::path::{Path, PathBuf};

use crate::apt::{Apt, Setup};
use crate::builder::BuildOptions;
use crate::confine::Bounds;
use crate::error::ImageError;
use crate::host::{self, DPKG_DEB};
use crate::index::{Index, Package};
use crate::manifest::PackageRecord;
use crate::pins::Pins;
use crate::recipe::Recipe;
use crate::sources::find_mirror;

const APT_FOLDER: &str = "/etc/apt";

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
    let environment = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let mirror = options
        .mirror
        .clone()
        .or_else(|| environment("DOORBELL_DEBIAN_MIRROR"))
        .or_else(|| find_mirror(Path::new(APT_FOLDER)))
        .ok_or_else(|| ImageError::NoMirror { searched: APT_FOLDER.into() })?;
    let keyring =
        options.keyring.clone().or_else(|| environment("DOORBELL_DEBIAN_KEYRING").map(PathBuf::from));
    Apt::set_up(&Setup {
        cache: &options.cache_dir,
        suite,
        architecture,
        mirror: &mirror,
        keyring: keyring.as_deref(),
    })
}

/// The suite's current packages, unless they are those that there is an image of already.
pub(crate) fn of_suite(
    recipe: &Recipe,
    apt: &Apt,
    offline: bool,
    present: Option<&[PackageRecord]>,
    progress: &mut dyn FnMut(&str),
) -> Result<Option<Packages>, ImageError> {
    let index = index_of_suite(&recipe.spec.suite, apt, offline, progress)?;
    let all = resolve(recipe, &index)?;
    if present.is_some_and(|present| present == records(&all)) {
        return Ok(None);
    }
    let debs = fetch(&all, apt, offline, progress)?;
    Ok(Some(Packages { all, debs, index }))
}

/// The packages that a lock file names, from the cache as far as they are there. `bounds` are those of a program that reads
/// packages.
pub(crate) fn locked(
    recipe: &Recipe,
    apt: &Apt,
    offline: bool,
    (pins, path): (&Pins, &Path),
    bounds: Bounds,
    progress: &mut dyn FnMut(&str),
) -> Result<Packages, ImageError> {
    let wanted = pins.packages();
    let missing = if offline { Vec::new() } else { apt.missing(&wanted) };
    if !missing.is_empty() {
        let text = index_of_suite(&recipe.spec.suite, apt, offline, progress)?;
        let index = Index::new(&text);
        let gone: Vec<String> = missing.iter().filter_map(|package| index.gone(package)).collect();
        if !gone.is_empty() {
            return Err(ImageError::Gone { path: path.to_owned(), packages: gone.join("\n  ") });
        }
    }
    let debs = fetch(&wanted, apt, offline, progress)?;
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

pub(crate) fn index_of_suite(
    suite: &str,
    apt: &Apt,
    offline: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<String, ImageError> {
    if !offline {
        progress("fetching the package index");
        apt.update()?;
    } else if !apt.has_index() {
        let what = format!("the package index of {suite}");
        return Err(ImageError::Offline { what, cache: apt.cache().to_owned() });
    }
    apt.index()
}

pub(crate) fn fetch(
    packages: &[Package],
    apt: &Apt,
    offline: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<PathBuf>, ImageError> {
    let megabytes = packages.iter().map(|package| package.size_bytes).sum::<u64>() / 1_000_000;
    progress(&format!("getting {} packages, {megabytes} MB", packages.len()));
    apt.fetch(&packages.iter().collect::<Vec<_>>(), offline, progress)
}

/// What a recipe needs, of the packages that an index describes.
fn resolve(recipe: &Recipe, index: &str) -> Result<Vec<Package>, ImageError> {
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
