//! What can go wrong, in words that say what to do about it.

use std::io;
use std::path::{Path, PathBuf};

/// Why an image could not be built or opened.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// No recipe has this name.
    #[error(
        "there is no image recipe \"{name}\"; the built-in ones are: {known} (or name a .toml file, or a folder with an image.toml)"
    )]
    UnknownRecipe {
        /// What was asked for.
        name: String,
        /// The built-in names, comma-separated.
        known: String,
    },
    /// A file that is no recipe is named in the place of one.
    #[error(
        "{name} is no recipe of an image: a program's source stands in a recipe's [build.programs], and a program that is compiled is handed \
         over by --script or --file of `doorbell run` (docs/images.md)"
    )]
    NoRecipe {
        /// What was named.
        name: String,
    },
    /// A recipe that cannot be read or makes no sense.
    #[error("recipe {recipe}: {problem}")]
    Recipe {
        /// The recipe's name or path.
        recipe: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A program of the host is missing.
    #[error(
        "{tool} is not installed on this machine; install the package {package} (apt-get install {package})"
    )]
    MissingTool {
        /// The program's name.
        tool: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// The host does not say where a Debian archive is.
    #[error(
        "no Debian archive found in this machine's apt sources ({searched}); name one, for example your nearest Debian mirror's \
         address ending in /debian, with the environment variable DOORBELL_DEBIAN_MIRROR"
    )]
    NoMirror {
        /// The folder that was searched.
        searched: PathBuf,
    },
    /// Where debugging symbols are does not follow from where packages are.
    #[error(
        "where the debugging symbols to {mirror} are is not known; name the archive, whose address ends in /debian-debug, with the \
         environment variable DOORBELL_DEBIAN_DEBUG_MIRROR (\"none\" takes only what the suite itself has, such as libc's)"
    )]
    NoDebugMirror {
        /// The mirror of packages.
        mirror: String,
    },
    /// The archive of debugging symbols cannot be had.
    #[error(
        "the debugging symbols of Debian's programs are in an archive of their own, {suite} in {mirror}, which cannot be had; not every \
         mirror has it, and not every network reaches one: name one that can be reached, whose address ends in /debian-debug, with \
         DOORBELL_DEBIAN_DEBUG_MIRROR (\"none\" takes only what the suite itself has, such as libc's); without --debug-symbols, a \
         profile shows such functions by where they begin in their files\n{source}"
    )]
    NoDebugArchive {
        /// The address.
        mirror: String,
        /// The suite that was looked for.
        suite: String,
        /// What apt said.
        source: Box<ImageError>,
    },
    /// No package of debugging symbols is of what the image has.
    #[error(
        "there are no debugging symbols for any of the {programs} stripped programs and libraries of image {image}: the archive has \
         those of other versions, or of none of its packages; with the archive's newest packages there are, if at all: doorbell image \
         build {image} --refresh"
    )]
    NoDebugSymbols {
        /// The image's name.
        image: String,
        /// How many programs and libraries were looked for.
        programs: usize,
    },
    /// The mirror's address cannot be used.
    #[error("the Debian mirror \"{mirror}\" {problem}; expected an address such as one that ends in /debian")]
    BadMirror {
        /// The address as given.
        mirror: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The keys that verify the archive are missing.
    #[error(
        "Debian's archive keys are not on this machine ({looked_for}), so packages cannot be verified; install the package \
         debian-archive-keyring, or name a keyring file with the environment variable DOORBELL_DEBIAN_KEYRING"
    )]
    NoKeyring {
        /// The path or paths tried.
        looked_for: String,
    },
    /// A program of the host failed.
    #[error("{what} failed ({status}){hint}\n{output}")]
    Tool {
        /// What was being done.
        what: String,
        /// Its exit status.
        status: String,
        /// What to try; empty or starting with a semicolon.
        hint: String,
        /// The last lines it printed.
        output: String,
    },
    /// The user wants no more of it.
    #[error(
        "interrupted while an image was being built; what was there before is as it was, and what has been fetched stays in the cache"
    )]
    Interrupted,
    /// Something is needed from the network, which must not be used.
    #[error(
        "{what} is not in the cache {cache}, and the build must stay off line; build once without --offline"
    )]
    Offline {
        /// What is missing.
        what: String,
        /// The cache folder.
        cache: PathBuf,
    },
    /// A package in the cache is not what the signed index says, and cannot be fetched again now.
    #[error(
        "package {package} is damaged in the cache ({path}), and the build must stay off line; build once without --offline, \
         which fetches it again"
    )]
    DamagedPackage {
        /// The package.
        package: String,
        /// Its file.
        path: PathBuf,
    },
    /// The cache's path cannot be written into apt's configuration.
    #[error(
        "apt cannot use the cache folder {cache}, because its path {problem}; name another with --cache DIR"
    )]
    CachePath {
        /// The cache folder.
        cache: PathBuf,
        /// What is wrong with the path.
        problem: &'static str,
    },
    /// A lock file that cannot be used.
    #[error("lock file {path}: {problem}")]
    Pins {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The archive has moved on from what a lock file names.
    #[error(
        "the lock file {path} names packages that are not in the cache, and that the mirror does not have any more:\n  \
         {packages}\nname a mirror that keeps old packages with --mirror, or take the new ones with: doorbell image lock \
         RECIPE --refresh --out {path}"
    )]
    Gone {
        /// The lock file.
        path: PathBuf,
        /// Name and version of each, and what there is instead.
        packages: String,
    },
    /// Something is not among the packages that the program knows, which stand in for a mirror's index that is not as it was signed.
    #[error(
        "image {image}: {problem}, as far as this program knows, and the mirror's own index is not the one that its signed list \
         names at the moment; try again later, or name another mirror with DOORBELL_DEBIAN_MIRROR"
    )]
    NotKnown {
        /// The recipe's name, or the package's.
        image: String,
        /// What is missing.
        problem: String,
    },
    /// The packages do not hold what the recipe asks for, or not in the expected form.
    #[error("image {image}: {problem}")]
    Content {
        /// The recipe's name.
        image: String,
        /// What is missing or wrong.
        problem: String,
    },
    /// A downloaded package is not what the signed index says.
    #[error(
        "package {package} has the wrong SHA-256: expected {expected}, got {actual}; delete {path} and build again"
    )]
    PackageHash {
        /// The package.
        package: String,
        /// The index's hash.
        expected: String,
        /// The file's hash.
        actual: String,
        /// The file.
        path: PathBuf,
    },
    /// There is no built image in a folder.
    #[error(
        "there is no built image in {dir} ({missing} is missing); build it with: doorbell image build {name}"
    )]
    NotBuilt {
        /// The folder.
        dir: PathBuf,
        /// The first file that is missing.
        missing: &'static str,
        /// The folder's name, which is usually the image's.
        name: String,
    },
    /// A built image was changed or cut short.
    #[error("the image in {dir} is damaged: {problem}; build it again with: doorbell image build {name}")]
    Damaged {
        /// The folder.
        dir: PathBuf,
        /// Which file, and how it differs.
        problem: String,
        /// The image's name.
        name: String,
    },
    /// The output folder holds something that is not an image.
    #[error(
        "{dir} exists and is not an image (it has no manifest.json), so it is left alone; choose another folder or remove it"
    )]
    NotAnImage {
        /// The folder.
        dir: PathBuf,
    },
    /// A file could not be read or written.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// "read", "write", "create" …
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
}

impl ImageError {
    /// Wraps an I/O error with what was being done to which file: `map_err(ImageError::io("read", &path))`.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}
