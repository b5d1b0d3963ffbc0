//! Building an image: cached, one at a time, and all or nothing.
//!
//! A finished image appears under its name in one step (a rename), so neither a failure nor an interrupt nor a second
//! build at the same time leaves a half-written one. What an interrupted build left in temporary folders is removed by the
//! next one, which knows from the locks that it is alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use doorbell_files as files;

use crate::assemble::{Assembled, assemble};
use crate::compile::{self, COMPILER};
use crate::confine::Bounds;
use crate::cpio::Node;
use crate::disk::write_disk;
use crate::error::ImageError;
use crate::host::{self, APT_CACHE, APT_CONFIG, APT_GET, DPKG_DEB, GPGV, XZ};
use crate::image::{DISK_FILE, Image};
use crate::index::{Index, Package};
use crate::install;
use crate::manifest::{FileRecord, MANIFEST_FILE, MANIFEST_SCHEMA, Manifest};
use crate::packages::{self, Packages, records};
use crate::pins::Pins;
use crate::place::{Place, UNPACK_PREFIX, refuse_foreign, temporary};
use crate::recipe::Recipe;
use crate::tree::Tree;

/// Counts changes in how images are put together; an image of another count is built again.
pub(crate) const BUILDER: u32 = 4;

/// Where and how to build.
#[derive(Clone, Debug, Default)]
pub struct BuildOptions {
    /// Folder for the package index and downloaded packages, shared by all images.
    pub cache_dir: PathBuf,
    /// The image's own folder. It is replaced as a whole.
    pub out_dir: PathBuf,
    /// The Debian mirror's address. Without it, the environment variable `DOORBELL_DEBIAN_MIRROR`, and without
    /// that, the host's own mirror.
    pub mirror: Option<String>,
    /// The address of the archive of debugging symbols, or "none". Without it, the environment variable
    /// `DOORBELL_DEBIAN_DEBUG_MIRROR`, and without that, `debian-debug` beside the mirror.
    pub debug_mirror: Option<String>,
    /// The archive's keys. Without them, `DOORBELL_DEBIAN_KEYRING` or the keys of Debian's debian-archive-keyring.
    pub keyring: Option<PathBuf>,
    /// Use only what is in the cache.
    pub offline: bool,
    /// Look for newer packages even if there is an image already.
    pub refresh: bool,
    /// Build even if nothing changed.
    pub force: bool,
    /// A lock file ([`Pins`]): build from its packages. Without it, the one that the recipe names, if it names one.
    pub locked: Option<PathBuf>,
    /// What to take if the mirror's index is not the signed one: paragraphs as in such an index. Without it, what this program knows
    /// of the suite (`guest/debian`).
    pub known: Option<String>,
}

/// Builds the image of a recipe, or returns the one that is there if the recipe did not change since it was built.
/// `progress` is told in a few words what is being done.
pub fn build(
    recipe: &Recipe,
    options: &BuildOptions,
    progress: &mut dyn FnMut(&str),
) -> Result<Image, ImageError> {
    let pins = pins(recipe, options)?;
    let refresh = options.refresh && pins.is_none();
    let present = |progress: &mut dyn FnMut(&str)| match options.force {
        true => Ok(None),
        false => current_image(recipe, pins.as_ref().map(|(pins, _)| pins), &options.out_dir, progress),
    };
    if !refresh && let Some(image) = present(&mut |_| ())? {
        return Ok(image);
    }
    refuse_foreign(&options.out_dir)?;
    let place = Place::prepare(options, progress)?;
    // Another build may have finished while this one waited for it.
    let present = present(progress)?;
    if !refresh && let Some(image) = present {
        return Ok(image);
    }

    let mut tools = vec![APT_GET, APT_CACHE, APT_CONFIG, DPKG_DEB, GPGV, XZ];
    tools.extend(recipe.spec.build.as_ref().map(|_| COMPILER));
    host::require(&tools, Some(host::search_path().as_os_str()))?;
    let apt = packages::set_up_apt(&recipe.spec.suite, &recipe.spec.architecture, options)?;
    let apt = apt.holding(place.cache_lock())?;
    let packages = match &pins {
        Some((pins, path)) => {
            let bounds = place.bounds(&place.cache);
            packages::locked(recipe, &apt, options, (pins, path), bounds, progress)?
        }
        None => {
            let there = present.as_ref().map(|image| image.manifest().packages.as_slice());
            match (packages::of_suite(recipe, &apt, options, there, progress)?, present) {
                (Some(packages), _) => packages,
                (None, present) => return Ok(present.expect("it has just been compared with")),
            }
        }
    };
    let fresh = make(recipe, &packages, &place, progress)?;
    // Durable before it has its name, so that after a power failure, too, the name is that of a whole image.
    files::sync_tree(fresh.path()).map_err(ImageError::io("write", fresh.path()))?;
    files::put_in_place(fresh.path(), &options.out_dir)
        .map_err(ImageError::io("put the image into", &options.out_dir))?;
    let image = Image::open(&options.out_dir)?;
    if let Some(difference) = pins.and_then(|(pins, _)| pins.difference(&image)) {
        progress(&difference);
    }
    Ok(image)
}

/// The lock file that the caller names, or else the recipe.
fn pins(recipe: &Recipe, options: &BuildOptions) -> Result<Option<(Pins, PathBuf)>, ImageError> {
    let Some(path) = options.locked.as_deref().or(recipe.lock()) else { return Ok(None) };
    if !path.exists() {
        let problem =
            format!("it is not there; write it with: doorbell image lock RECIPE --out {}", path.display());
        return Err(ImageError::Pins { path: path.to_owned(), problem });
    }
    let pins = Pins::read(path)?;
    pins.fit(recipe, path)?;
    Ok(Some((pins, path.to_owned())))
}

/// Makes the image's files in a temporary folder beside where the image is to be.
fn make(
    recipe: &Recipe,
    packages: &Packages,
    place: &Place,
    progress: &mut dyn FnMut(&str),
) -> Result<tempfile::TempDir, ImageError> {
    progress("unpacking");
    let unpacked = temporary(&place.cache, UNPACK_PREFIX)?;
    unpack(packages.debs.iter(), unpacked.path(), place)?;
    let installed = installed(recipe, packages, place)?;
    let recipe = &with_programs(recipe, unpacked.path(), place, progress)?;
    progress("putting the image together");
    let fresh = temporary(&place.parent, &place.building_prefix())?;
    let mut assembled = assemble(recipe, &Tree::new(unpacked.path()), installed, fresh.path())?;
    drop(unpacked);
    if let Some(disk) = &recipe.spec.disk {
        progress("making the disk");
        let unpacked = temporary(&place.cache, UNPACK_PREFIX)?;
        let taken = packages.all.iter().zip(&packages.debs).filter(|(package, _)| disk.takes(&package.name));
        unpack(taken.map(|(_, deb)| deb), unpacked.path(), place)?;
        write_disk(recipe, disk, unpacked.path(), fresh.path())?;
        assembled.files.push(DISK_FILE.to_owned());
        assembled.files.sort();
    }
    write_manifest(recipe, &assembled, &packages.all, fresh.path())?;
    Ok(fresh)
}

/// The recipe with its programs compiled, as files of its own.
fn with_programs(
    recipe: &Recipe,
    packages: &Path,
    place: &Place,
    progress: &mut dyn FnMut(&str),
) -> Result<Recipe, ImageError> {
    let mut recipe = recipe.clone();
    if recipe.spec.build.is_some() {
        progress("compiling its programs");
        let work = temporary(&place.cache, UNPACK_PREFIX)?;
        let programs = compile::programs(&recipe, packages, work.path(), place.bounds(work.path()))?;
        recipe.files.extend(programs);
    }
    Ok(recipe)
}

pub(crate) fn unpack<'a>(
    debs: impl Iterator<Item = &'a PathBuf>,
    into: &Path,
    place: &Place,
) -> Result<(), ImageError> {
    for deb in debs {
        let bounds = Bounds { reads: Some(vec![deb]), ..place.bounds(into) };
        let mut command = host::command(DPKG_DEB);
        host::run_within(&bounds, command.arg("-x").arg(deb).arg(into), "unpacking a package")?;
    }
    Ok(())
}

/// The image that is there, if it is whole and of this recipe, and of locked packages if some are locked. Damage is a reason
/// to build again; a folder of something else is an error, because it would be replaced.
fn current_image(
    recipe: &Recipe,
    pins: Option<&Pins>,
    out_dir: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<Option<Image>, ImageError> {
    match Image::open(out_dir) {
        Ok(image) => {
            let manifest = image.manifest();
            let current = manifest.recipe_sha256 == recipe.hash() && manifest.builder == BUILDER;
            let is_pinned =
                |pins: &Pins| manifest.packages.iter().all(|package| pins.packages.contains(package));
            if current && !pins.is_none_or(is_pinned) {
                progress("building again, because the image's packages are not those that are locked");
                return Ok(None);
            }
            Ok(current.then_some(image))
        }
        Err(ImageError::NotBuilt { .. }) => refuse_foreign(out_dir).map(|()| None),
        Err(ImageError::Damaged { problem, .. }) => {
            progress(&format!("building again, because {problem}"));
            Ok(None)
        }
        Err(other) => Err(other),
    }
}

/// The files of the packages that are to be installed as a whole: those named and what they depend on, without what the
/// other packages need anyway, from which only the files listed are taken.
fn installed(
    recipe: &Recipe,
    packages: &Packages,
    place: &Place,
) -> Result<BTreeMap<String, Node>, ImageError> {
    let wanted = &recipe.spec.packages;
    if wanted.install.is_empty() {
        return Ok(BTreeMap::new());
    }
    let fail = |problem| ImageError::Content { image: recipe.name().to_owned(), problem };
    let closure = |of: &[String]| {
        let found = Index::new(&packages.index).closure(of, &wanted.leave_out).map_err(fail)?;
        Ok::<_, ImageError>(found.into_iter().map(|package| package.name).collect::<BTreeSet<_>>())
    };
    let others = closure(&wanted.roots)?;
    // Packages to compile against are no part of it.
    let of_guest = closure(&[wanted.roots.as_slice(), &wanted.install].concat())?;
    let folder = temporary(&place.cache, UNPACK_PREFIX)?;
    for (package, deb) in packages.all.iter().zip(&packages.debs) {
        let is_named = wanted.install.contains(&package.name);
        if is_named || of_guest.contains(&package.name) && !others.contains(&package.name) {
            unpack([deb].into_iter(), folder.path(), place)?;
        }
    }
    install::files(folder.path())
}

/// The packages that a recipe names, by name.
fn named(recipe: &Recipe) -> Vec<String> {
    let packages = &recipe.spec.packages;
    let of_build = recipe.spec.build.iter().flat_map(|build| &build.packages);
    let names = packages.roots.iter().chain(&packages.install).chain(of_build).cloned();
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

fn write_manifest(
    recipe: &Recipe,
    assembled: &Assembled,
    packages: &[Package],
    dir: &Path,
) -> Result<(), ImageError> {
    let spec = &recipe.spec;
    let record = |name: &String| {
        FileRecord::of(name, &dir.join(name)).map_err(ImageError::io("read", &dir.join(name)))
    };
    let manifest = Manifest {
        schema: MANIFEST_SCHEMA,
        builder: BUILDER,
        image: spec.name.clone(),
        description: spec.description.clone(),
        recipe_sha256: recipe.hash().to_owned(),
        suite: spec.suite.clone(),
        architecture: spec.architecture.clone(),
        ram_min: spec.ram_min,
        command_line: spec.command_line.clone(),
        kernel_release: assembled.kernel_release.clone(),
        files: assembled.files.iter().map(record).collect::<Result<_, _>>()?,
        packages: records(packages),
        named: named(recipe),
        seal: String::new(),
        compiler: spec.build.as_ref().map(|_| compile::compiler()).transpose()?,
    };
    let path = dir.join(MANIFEST_FILE);
    files::write(&path, manifest.to_json().as_bytes()).map_err(ImageError::io("write", &path))
}
