//! Building an image: cached, one build at a time, and atomic.
//!
//! A finished image gets its name in one rename, so a failure, an interrupt or a concurrent build never
//! leaves a half-written image. Temporary folders of an interrupted build are removed by the next build,
//! which holds the locks, so no other build can be using them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use doorbell_files as files;

use crate::apt::Apt;
use crate::assemble::{Assembled, assemble};
use crate::compile::{self, COMPILER};
use crate::confine::Bounds;
use crate::cpio::Node;
use crate::disk::write_disk;
use crate::error::ImageError;
use crate::host::{self, DPKG_DEB};
use crate::image::{DISK_FILE, Image};
use crate::index::{Index, Package};
use crate::install;
use crate::lock_file::LockFile;
use crate::manifest::{FileRecord, MANIFEST_FILE, MANIFEST_SCHEMA, Manifest};
use crate::packages::{self, Packages, records};
use crate::recipe::{Recipe, Spec};
use crate::tree::Tree;
use crate::workspace::{UNPACK_PREFIX, Workspace, refuse_foreign, temporary};

/// Version of the build procedure; an image of another version is built again.
pub const BUILDER: u32 = 4;

/// Options of a build.
#[derive(Clone, Debug, Default)]
pub struct BuildOptions {
    /// Folder for the package index and downloaded packages, shared by all images.
    pub cache_dir: PathBuf,
    /// The image's own folder, which is replaced as a whole.
    pub out_dir: PathBuf,
    /// The Debian mirror's address. Default: the environment variable `DOORBELL_DEBIAN_MIRROR`, else the
    /// host's own mirror.
    pub mirror: Option<String>,
    /// The address of the archive of debugging symbols, or "none". Default: the environment variable
    /// `DOORBELL_DEBIAN_DEBUG_MIRROR`, else `debian-debug` next to the mirror's folder.
    pub debug_mirror: Option<String>,
    /// The archive's keys. Default: `DOORBELL_DEBIAN_KEYRING`, else the keys of Debian's
    /// debian-archive-keyring.
    pub keyring: Option<PathBuf>,
    /// Use only what is in the cache.
    pub offline: bool,
    /// Look for newer packages even if the image exists.
    pub refresh: bool,
    /// Build even if nothing changed.
    pub force: bool,
    /// A lock file ([`LockFile`]): build from its packages. Default: the one that the recipe names, if any.
    pub locked: Option<PathBuf>,
    /// Index paragraphs to use while the mirror's index does not match its signature. Default: the package
    /// list that is compiled into this program for the suite (`guest/debian`).
    pub fallback_index: Option<String>,
}

/// Builds the image of a recipe, or returns the existing one if the recipe did not change since it was built.
/// Reports each step to `progress`.
pub fn build(
    recipe: &Recipe,
    options: &BuildOptions,
    progress: &mut dyn FnMut(&str),
) -> Result<Image, ImageError> {
    let lock_file = lock_file(recipe, options)?;
    let refresh = options.refresh && lock_file.is_none();
    let present = |progress: &mut dyn FnMut(&str)| match options.force {
        true => Ok(None),
        false => current_image(
            recipe,
            lock_file.as_ref().map(|(lock_file, _)| lock_file),
            &options.out_dir,
            progress,
        ),
    };
    if !refresh && let Some(image) = present(&mut |_| ())? {
        return Ok(image);
    }
    refuse_foreign(&options.out_dir)?;
    let workspace = Workspace::prepare(options, progress)?;
    // Another build may have finished while this one waited for the lock.
    let present = present(progress)?;
    if !refresh && let Some(image) = present {
        return Ok(image);
    }

    let mut tools = host::FETCHING.to_vec();
    tools.extend(recipe.spec.build.as_ref().map(|_| COMPILER));
    host::require(&tools, &host::search_path())?;
    let Spec { suite, architecture, .. } = &recipe.spec;
    let apt = Apt::set_up(suite, Some(architecture), options, workspace.cache_lock())?;
    let packages = match &lock_file {
        Some((lock_file, path)) => {
            let bounds = workspace.bounds(&workspace.cache);
            packages::locked(recipe, &apt, options, lock_file, path, bounds, progress)?
        }
        None => {
            let there = present.as_ref().map(|image| image.manifest().packages.as_slice());
            match (packages::of_suite(recipe, &apt, options, there, progress)?, present) {
                (Some(packages), _) => packages,
                (None, present) => {
                    return Ok(present.expect("packages are compared with the present image only"));
                }
            }
        }
    };
    let fresh = make(recipe, &packages, &workspace, progress)?;
    // Synced before it gets its name, so that the name refers to a whole image even after a power failure.
    files::sync_tree(fresh.path()).map_err(ImageError::io("write", fresh.path()))?;
    files::put_in_place(fresh.path(), &options.out_dir)
        .map_err(ImageError::io("put the image into", &options.out_dir))?;
    let image = Image::open(&options.out_dir)?;
    if let Some(difference) = lock_file.and_then(|(lock_file, _)| lock_file.difference(&image)) {
        progress(&difference);
    }
    Ok(image)
}

/// The lock file that the caller names, or else the recipe's.
fn lock_file(recipe: &Recipe, options: &BuildOptions) -> Result<Option<(LockFile, PathBuf)>, ImageError> {
    let Some(path) = options.locked.as_deref().or(recipe.lock()) else { return Ok(None) };
    if !path.exists() {
        let problem =
            format!("it does not exist; write it with: doorbell image lock RECIPE --out {}", path.display());
        return Err(ImageError::LockFile { path: path.to_owned(), problem });
    }
    let lock_file = LockFile::read(path)?;
    lock_file.validate(recipe, path)?;
    Ok(Some((lock_file, path.to_owned())))
}

/// Makes the image's files in a temporary folder next to the image's own folder.
fn make(
    recipe: &Recipe,
    packages: &Packages,
    workspace: &Workspace,
    progress: &mut dyn FnMut(&str),
) -> Result<tempfile::TempDir, ImageError> {
    progress("unpacking");
    let unpacked = temporary(&workspace.cache, UNPACK_PREFIX)?;
    unpack(packages.debs.iter(), unpacked.path(), workspace)?;
    let installed = installed(recipe, packages, workspace)?;
    let recipe = &with_programs(recipe, unpacked.path(), workspace, progress)?;
    progress("putting the image together");
    let fresh = temporary(&workspace.parent, &workspace.building_prefix())?;
    let mut assembled = assemble(recipe, &Tree::new(unpacked.path()), installed, fresh.path())?;
    drop(unpacked);
    if let Some(disk) = &recipe.spec.disk {
        progress("making the disk");
        let unpacked = temporary(&workspace.cache, UNPACK_PREFIX)?;
        let taken =
            packages.all.iter().zip(&packages.debs).filter(|(package, _)| disk.includes(&package.name));
        unpack(taken.map(|(_, deb)| deb), unpacked.path(), workspace)?;
        write_disk(recipe, disk, unpacked.path(), fresh.path())?;
        assembled.files.push(DISK_FILE.to_owned());
        assembled.files.sort();
    }
    write_manifest(recipe, &assembled, &packages.all, fresh.path())?;
    Ok(fresh)
}

/// The recipe with its compiled programs added as files.
fn with_programs(
    recipe: &Recipe,
    packages: &Path,
    workspace: &Workspace,
    progress: &mut dyn FnMut(&str),
) -> Result<Recipe, ImageError> {
    let mut recipe = recipe.clone();
    if recipe.spec.build.is_some() {
        progress("compiling its programs");
        let work = temporary(&workspace.cache, UNPACK_PREFIX)?;
        let programs = compile::programs(&recipe, packages, work.path(), workspace.bounds(work.path()))?;
        recipe.files.extend(programs);
    }
    Ok(recipe)
}

pub(crate) fn unpack<'a>(
    debs: impl Iterator<Item = &'a PathBuf>,
    into: &Path,
    workspace: &Workspace,
) -> Result<(), ImageError> {
    for deb in debs {
        let bounds = Bounds { reads: Some(vec![deb]), ..workspace.bounds(into) };
        let mut command = host::command(DPKG_DEB);
        host::run_within(&bounds, command.arg("-x").arg(deb).arg(into), "unpacking a package")?;
    }
    Ok(())
}

/// The existing image, if it is whole, built from this recipe and, with a lock file, from the locked
/// packages. A damaged image is built again. A folder that is not an image is an error, because a build would
/// replace it.
fn current_image(
    recipe: &Recipe,
    lock_file: Option<&LockFile>,
    out_dir: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<Option<Image>, ImageError> {
    match Image::open(out_dir) {
        Ok(image) => {
            let manifest = image.manifest();
            let current = manifest.recipe_sha256 == recipe.hash() && manifest.builder == BUILDER;
            let is_pinned = |lock_file: &LockFile| {
                manifest.packages.iter().all(|package| lock_file.packages.contains(package))
            };
            if current && !lock_file.is_none_or(is_pinned) {
                progress("building again, because the image's packages are not the locked ones");
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

/// Files of the packages that are installed whole: the named packages and their dependencies, except packages
/// that the roots need anyway, of which only the listed files are taken.
fn installed(
    recipe: &Recipe,
    packages: &Packages,
    workspace: &Workspace,
) -> Result<BTreeMap<String, Node>, ImageError> {
    let wanted = &recipe.spec.packages;
    if wanted.install.is_empty() {
        return Ok(BTreeMap::new());
    }
    let fail = |problem| ImageError::Content { image: recipe.name().to_owned(), problem };
    let closure = |of: &[String]| {
        let found = Index::new(&packages.index).closure(of, &wanted.leave_out).map_err(fail)?;
        Ok::<_, ImageError>(found.into_iter().map(|package| package.record.name).collect::<BTreeSet<_>>())
    };
    let others = closure(&wanted.roots)?;
    // Packages that programs are compiled against are not installed.
    let of_guest = closure(&[wanted.roots.as_slice(), &wanted.install].concat())?;
    let folder = temporary(&workspace.cache, UNPACK_PREFIX)?;
    for (package, deb) in packages.all.iter().zip(&packages.debs) {
        let is_named = wanted.install.contains(&package.name);
        if is_named || of_guest.contains(&package.name) && !others.contains(&package.name) {
            unpack([deb].into_iter(), folder.path(), workspace)?;
        }
    }
    install::files(folder.path())
}

/// The packages that a recipe names, in alphabetical order.
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
