//! Building an image: cached, one at a time, and all or nothing.
//!
//! A finished image appears under its name in one step (a rename), so neither a failure nor an interrupt nor a second
//! build at the same time leaves a half-written one. What an interrupted build left in temporary folders is removed by the
//! next one, which knows from the locks that it is alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};

use crate::apt::{Apt, Setup};
use crate::assemble::{Assembled, assemble};
use crate::compile::{self, COMPILER};
use crate::confine::{Bounds, Limits};
use crate::cpio::Node;
use crate::disk::write_disk;
use crate::error::ImageError;
use crate::host::{self, APT_CACHE, APT_CONFIG, APT_GET, DPKG_DEB, GPGV, XZ};
use crate::image::{DISK_FILE, Image};
use crate::index::{Index, Package};
use crate::install;
use crate::manifest::{FileRecord, MANIFEST_FILE, MANIFEST_SCHEMA, Manifest, PackageRecord};
use crate::recipe::Recipe;
use crate::sources::find_mirror;
use crate::tree::Tree;

/// Counts changes in how images are put together; an image of another count is built anew.
const BUILDER: u32 = 2;
const APT_FOLDER: &str = "/etc/apt";

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
    /// The archive's keys. Without them, `DOORBELL_DEBIAN_KEYRING` or the keys of Debian's debian-archive-keyring.
    pub keyring: Option<PathBuf>,
    /// Use only what is in the cache.
    pub offline: bool,
    /// Look for newer packages even if there is an image already.
    pub refresh: bool,
    /// Build even if nothing changed.
    pub force: bool,
}

/// Builds the image of a recipe, or returns the one that is there if the recipe did not change since it was built.
/// `progress` is told in a few words what is being done.
pub fn build(
    recipe: &Recipe,
    options: &BuildOptions,
    progress: &mut dyn FnMut(&str),
) -> Result<Image, ImageError> {
    if !options.force
        && !options.refresh
        && let Some(image) = current_image(recipe, &options.out_dir, &mut |_| ())?
    {
        return Ok(image);
    }
    let place = Place::prepare(options, progress)?;
    // Another build may have finished while this one waited for it.
    let present = if options.force { None } else { current_image(recipe, &options.out_dir, progress)? };
    if let Some(image) = &present
        && !options.refresh
    {
        return Ok(image.clone());
    }

    let mut tools = vec![APT_GET, APT_CACHE, APT_CONFIG, DPKG_DEB, GPGV, XZ];
    tools.extend(recipe.spec.build.as_ref().map(|_| COMPILER));
    host::require(&tools, Some(host::search_path().as_os_str()))?;
    let apt = set_up_apt(recipe, options)?.holding(place.cache_lock())?;
    if !options.offline {
        progress("fetching the package index");
        apt.update()?;
    } else if !apt.has_index() {
        let what = format!("the package index of {}", recipe.spec.suite);
        return Err(ImageError::Offline { what, cache: place.cache });
    }
    let index = apt.index()?;
    let packages = resolve(recipe, &index)?;
    if let Some(image) = present
        && image.manifest().packages == records(&packages)
    {
        return Ok(image);
    }
    let megabytes = packages.iter().map(|package| package.size_bytes).sum::<u64>() / 1_000_000;
    progress(&format!("getting {} packages, {megabytes} MB", packages.len()));
    let debs = apt.fetch(&packages.iter().collect::<Vec<_>>(), options.offline, progress)?;
    progress("unpacking");
    let unpacked = temporary(&place.cache, UNPACK_PREFIX)?;
    unpack(debs.iter(), unpacked.path(), &place)?;
    let installed = installed(recipe, &packages, &debs, &index, &place)?;
    let recipe = &with_programs(recipe, unpacked.path(), &place, progress)?;
    progress("putting the image together");
    let fresh = temporary(&place.parent, &place.building_prefix())?;
    let mut assembled = assemble(recipe, &Tree::new(unpacked.path()), installed, fresh.path())?;
    drop(unpacked);
    if let Some(disk) = &recipe.spec.disk {
        progress("making the disk");
        let unpacked = temporary(&place.cache, UNPACK_PREFIX)?;
        let taken = packages.iter().zip(&debs).filter(|(package, _)| disk.takes(&package.name));
        unpack(taken.map(|(_, deb)| deb), unpacked.path(), &place)?;
        write_disk(recipe, disk, unpacked.path(), fresh.path())?;
        assembled.files.push(DISK_FILE.to_owned());
        assembled.files.sort();
    }
    write_manifest(recipe, &assembled, &packages, fresh.path())?;
    publish(fresh, &options.out_dir)?;
    Image::open(&options.out_dir)
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

fn unpack<'a>(debs: impl Iterator<Item = &'a PathBuf>, into: &Path, place: &Place) -> Result<(), ImageError> {
    for deb in debs {
        let bounds = Bounds { reads: Some(vec![deb]), ..place.bounds(into) };
        let mut command = host::command(DPKG_DEB);
        host::run_within(&bounds, command.arg("-x").arg(deb).arg(into), "unpacking a package")?;
    }
    Ok(())
}

/// The image that is there, if it is whole and of this recipe. Damage is a reason to build anew; a folder of
/// something else is an error, because it would be replaced.
fn current_image(
    recipe: &Recipe,
    out_dir: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<Option<Image>, ImageError> {
    match Image::open(out_dir) {
        Ok(image) => {
            let manifest = image.manifest();
            let current = manifest.recipe_sha256 == recipe.hash() && manifest.builder == BUILDER;
            Ok(current.then_some(image))
        }
        Err(ImageError::NotBuilt { .. }) => refuse_foreign(out_dir).map(|()| None),
        Err(ImageError::Damaged { problem, .. }) => {
            progress(&format!("building anew, because {problem}"));
            Ok(None)
        }
        Err(other) => Err(other),
    }
}

fn refuse_foreign(out_dir: &Path) -> Result<(), ImageError> {
    let Ok(mut entries) = fs::read_dir(out_dir) else {
        let in_the_way = out_dir.symlink_metadata().is_ok();
        return if in_the_way { Err(ImageError::NotAnImage { dir: out_dir.to_owned() }) } else { Ok(()) };
    };
    if entries.next().is_some() && !out_dir.join(MANIFEST_FILE).is_file() {
        return Err(ImageError::NotAnImage { dir: out_dir.to_owned() });
    }
    Ok(())
}

const UNPACK_PREFIX: &str = ".unpack-";

/// The folders of a build, locked against other builds for as long as this lives.
#[derive(Debug)]
struct Place {
    cache: PathBuf,
    /// The folder that holds the image's folder: temporary files must be on the same file system.
    parent: PathBuf,
    name: String,
    locks: [File; 2],
}

impl Place {
    fn prepare(options: &BuildOptions, progress: &mut dyn FnMut(&str)) -> Result<Self, ImageError> {
        refuse_foreign(&options.out_dir)?;
        let create = |dir: &Path| {
            fs::create_dir_all(dir).map_err(ImageError::io("create", dir))?;
            dir.canonicalize().map_err(ImageError::io("open", dir))
        };
        let cache = create(&options.cache_dir)?;
        let Some(name) = options.out_dir.file_name().map(|name| name.to_string_lossy().into_owned()) else {
            let reason =
                io::Error::new(io::ErrorKind::InvalidInput, "the image's folder needs a name of its own");
            return Err(ImageError::io("use", &options.out_dir)(reason));
        };
        let parent = options.out_dir.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = create(parent.unwrap_or(Path::new(".")))?;
        // Always the cache first, so that two builds cannot wait for each other.
        let locks =
            [lock(&cache.join(".lock"), progress)?, lock(&parent.join(format!(".{name}.lock")), progress)?];
        let place = Self { cache, parent, name, locks };
        remove_leftovers(&place.cache, UNPACK_PREFIX);
        remove_leftovers(&place.cache.join("debs"), ".incoming-");
        remove_leftovers(&place.parent, &place.building_prefix());
        Ok(place)
    }

    fn cache_lock(&self) -> &File {
        &self.locks[0]
    }

    /// For a program that works in one folder. It keeps other builds out for as long as it lives.
    fn bounds<'a>(&'a self, folder: &'a Path) -> Bounds<'a> {
        let limits = Limits::default();
        Bounds { reads: None, writes: vec![folder], network: false, limits, held: Some(self.cache_lock()) }
    }

    fn building_prefix(&self) -> String {
        format!(".{}.building-", self.name)
    }
}

fn lock(path: &Path, progress: &mut dyn FnMut(&str)) -> Result<File, ImageError> {
    // Programs read nothing from it as their standard input.
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path);
    let file = file.map_err(ImageError::io("create", path))?;
    let fail = |error: rustix::io::Errno| ImageError::io("lock", path)(error.into());
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            progress("waiting for another build to finish");
            flock(&file, FlockOperation::LockExclusive).map_err(fail)?;
        }
        Err(error) => return Err(fail(error)),
    }
    Ok(file)
}

/// What cannot be removed is only in the way of disk space, and may be removable next time.
fn remove_leftovers(dir: &Path, prefix: &str) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn temporary(dir: &Path, prefix: &str) -> Result<tempfile::TempDir, ImageError> {
    tempfile::Builder::new().prefix(prefix).tempdir_in(dir).map_err(ImageError::io("create a folder in", dir))
}

fn set_up_apt(recipe: &Recipe, options: &BuildOptions) -> Result<Apt, ImageError> {
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
        suite: &recipe.spec.suite,
        architecture: &recipe.spec.architecture,
        mirror: &mirror,
        keyring: keyring.as_deref(),
    })
}

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

/// The files of the packages that are to be installed as a whole: those named and what they depend on, without what the
/// other packages need anyway, from which only the files listed are taken.
fn installed(
    recipe: &Recipe,
    packages: &[Package],
    debs: &[PathBuf],
    index: &str,
    place: &Place,
) -> Result<BTreeMap<String, Node>, ImageError> {
    let wanted = &recipe.spec.packages;
    if wanted.install.is_empty() {
        return Ok(BTreeMap::new());
    }
    let fail = |problem| ImageError::Content { image: recipe.name().to_owned(), problem };
    let others = Index::new(index).closure(&wanted.roots, &wanted.leave_out).map_err(fail)?;
    let folder = temporary(&place.cache, UNPACK_PREFIX)?;
    for (package, deb) in packages.iter().zip(debs) {
        let is_named = wanted.install.contains(&package.name);
        if is_named || !others.iter().any(|other| other.name == package.name) {
            unpack([deb].into_iter(), folder.path(), place)?;
        }
    }
    install::files(folder.path())
}

fn records(packages: &[Package]) -> Vec<PackageRecord> {
    packages.iter().map(Package::record).collect()
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
    fs::write(&path, manifest.to_json()).map_err(ImageError::io("write", &path))
}

/// Puts the finished folder in the place of the old one, in one step where the file system can exchange two names.
fn publish(fresh: tempfile::TempDir, out_dir: &Path) -> Result<(), ImageError> {
    let failed = |error: rustix::io::Errno| ImageError::io("put the image into", out_dir)(error.into());
    let readable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(fresh.path(), readable).map_err(ImageError::io("change", fresh.path()))?;
    if out_dir.symlink_metadata().is_err() {
        fs::rename(fresh.path(), out_dir).map_err(ImageError::io("create", out_dir))?;
        let _moved = fresh.keep();
        return Ok(());
    }
    match renameat_with(CWD, fresh.path(), CWD, out_dir, RenameFlags::EXCHANGE) {
        // The temporary name now holds the old image, which goes with it.
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            fs::remove_dir_all(out_dir).map_err(ImageError::io("replace", out_dir))?;
            fs::rename(fresh.path(), out_dir).map_err(ImageError::io("create", out_dir))?;
            let _moved = fresh.keep();
            Ok(())
        }
        Err(error) => Err(failed(error)),
    }
}
