//! Errors of building and opening images, with messages that state the remedy.

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
        /// The name as given.
        name: String,
        /// The built-in names, comma-separated.
        known: String,
    },
    /// A file that is not a recipe was given as one.
    #[error(
        "{name} is not an image recipe: list a program's source in a recipe's [build.programs], or pass a compiled \
         program with --script or --file of `doorbell run` (docs/images.md)"
    )]
    NoRecipe {
        /// The path as given.
        name: String,
    },
    /// A recipe cannot be read or is invalid.
    #[error("recipe {recipe}: {problem}")]
    Recipe {
        /// The recipe's name or path.
        recipe: String,
        /// The problem.
        problem: String,
    },
    /// A program is missing on the host.
    #[error(
        "{tool} is not installed on this machine; install the package {package} (apt-get install {package})"
    )]
    MissingTool {
        /// The program's name.
        tool: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// The host's apt sources name no Debian archive.
    #[error(
        "no Debian archive found in this machine's apt sources ({searched}); name one, for example your nearest Debian mirror's \
         address ending in /debian, with the environment variable DOORBELL_DEBIAN_MIRROR"
    )]
    NoMirror {
        /// The folder that was searched.
        searched: PathBuf,
    },
    /// The address of the debugging symbols' mirror cannot be derived from the packages' mirror.
    #[error(
        "cannot derive the mirror of debugging symbols from {mirror}; name it, an address ending in /debian-debug, with the \
         environment variable DOORBELL_DEBIAN_DEBUG_MIRROR (\"none\" takes only what the suite itself has, such as libc's)"
    )]
    NoDebugMirror {
        /// The mirror of packages.
        mirror: String,
    },
    /// The archive of debugging symbols is not available.
    #[error(
        "the debugging symbols of Debian's programs are in a separate archive, {suite} in {mirror}, which is not available \
         (not every mirror has it, and not every network reaches one): name a reachable one, whose address ends in \
         /debian-debug, with DOORBELL_DEBIAN_DEBUG_MIRROR (\"none\" takes only what the suite itself has, such as libc's); \
         without --debug-symbols, a profile shows such functions by their start addresses in their files\n{source}"
    )]
    NoDebugArchive {
        /// The archive's address.
        mirror: String,
        /// The suite of debugging symbols.
        suite: String,
        /// apt's error.
        source: Box<ImageError>,
    },
    /// No package of debugging symbols matches the image's programs.
    #[error(
        "there are no debugging symbols for any of the {programs} stripped programs and libraries of image {image}: the \
         archive has symbols of other versions, or none at all; if other versions, rebuild the image from the newest \
         packages with: doorbell image build {image} --refresh"
    )]
    NoDebugSymbols {
        /// The image's name.
        image: String,
        /// Number of programs and libraries.
        programs: usize,
    },
    /// The mirror's address cannot be used.
    #[error("the Debian mirror \"{mirror}\" {problem}; expected an address such as one that ends in /debian")]
    BadMirror {
        /// The address as given.
        mirror: String,
        /// The reason.
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
        /// The action that failed.
        what: String,
        /// Its exit status.
        status: String,
        /// A remedy; empty or starting with a semicolon.
        hint: String,
        /// The last lines it printed.
        output: String,
    },
    /// The user interrupted the build.
    #[error(
        "interrupted while an image was being built; an image that existed before is unchanged, and fetched packages stay in the cache"
    )]
    Interrupted,
    /// A download is needed, but the build is off line.
    #[error("{what} is not in the cache {cache}, and --offline forbids downloads; build once without it")]
    Offline {
        /// The missing package or index.
        what: String,
        /// The cache folder.
        cache: PathBuf,
    },
    /// A package in the cache does not match the signed index, and cannot be fetched again off line.
    #[error(
        "package {package} is damaged in the cache ({path}), and --offline forbids downloads; build once without it to \
         fetch the package again"
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
        /// The problem.
        problem: &'static str,
    },
    /// A lock file cannot be used.
    #[error("lock file {path}: {problem}")]
    LockFile {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// The archive no longer has versions that a lock file names.
    #[error(
        "the lock file {path} names packages that are neither in the cache nor on the mirror:\n  \
         {packages}\nname a mirror that keeps old packages with --mirror, or lock the current ones with: doorbell image lock \
         RECIPE --refresh --out {path}"
    )]
    NoLongerAvailable {
        /// The lock file.
        path: PathBuf,
        /// Name and version of each, and the archive's current version.
        packages: String,
    },
    /// A package is missing in the fallback index, which is used while a mirror's index does not match its
    /// signature.
    #[error(
        "image {image}: {problem}, according to this program's built-in package list, and the mirror's index does not match its signed \
         Release file; try again later, or name another mirror with DOORBELL_DEBIAN_MIRROR"
    )]
    NotInFallbackIndex {
        /// The recipe's name, or the package's.
        image: String,
        /// The missing package.
        problem: String,
    },
    /// The packages lack a file that the recipe needs, or it has the wrong format.
    #[error("image {image}: {problem}")]
    Content {
        /// The recipe's name.
        image: String,
        /// The missing or wrong file.
        problem: String,
    },
    /// A downloaded package does not match the signed index.
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
        "there is no built image in {dir} (manifest.json is missing); build it with: doorbell image build {name}"
    )]
    NotBuilt {
        /// The folder.
        dir: PathBuf,
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
