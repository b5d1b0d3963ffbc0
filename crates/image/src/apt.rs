//! A private apt for a foreign architecture. It has its own configuration, lists, state and keyring in the
//! cache folder, so it needs no root and neither reads nor changes what the host has installed. Signatures
//! are always checked: the suite's signed Release file authenticates the index, and the index's hashes
//! authenticate the packages.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use doorbell_files as files;

use crate::builder::BuildOptions;
use crate::confine::{Bounds, Limits};
use crate::error::ImageError;
use crate::host::{self, APT_CACHE, APT_CONFIG, APT_GET, APT_HELPER, Tool};
use crate::index::Package;
use crate::packages::{environment, mirror};

/// Where Debian's packages of `debian-archive-keyring` install the keys, by release.
const KEYRINGS: [&str; 2] =
    ["/usr/share/keyrings/debian-archive-keyring.gpg", "/usr/share/keyrings/debian-archive-keyring.pgp"];

/// A private apt.
#[derive(Debug)]
pub(crate) struct Apt {
    /// Configuration, lists and state of one suite and architecture.
    dir: PathBuf,
    /// Downloaded packages, shared by all suites: file names contain the version and architecture.
    debs: PathBuf,
    /// Temporary files of apt and its child processes.
    scratch: PathBuf,
    /// The cache's lock, which stays lock while an apt process outlives this one.
    lock: File,
    /// The archive's address.
    mirror: String,
}

/// How apt locates a package in the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// By the verified index.
    Index,
    /// By its path in the archive, checked by its SHA-256, as in [`crate::fallback_index`].
    Path,
}

/// Result of fetching an index.
#[derive(Debug)]
pub(crate) enum Fetched {
    Verified,
    /// The mirror's index does not match the signed Release file; apt's error.
    Mismatch(ImageError),
}

impl Apt {
    /// Writes the configuration for a suite's packages of an architecture, or for its source packages, without
    /// fetching anything. Each apt process gets the lock, so that a process that outlives this one keeps other
    /// builds out of its folders.
    pub(crate) fn set_up(
        suite: &str,
        architecture: Option<&str>,
        options: &BuildOptions,
        lock: &File,
    ) -> Result<Self, ImageError> {
        let mirror = mirror(options)?;
        check_mirror(&mirror)?;
        let keyring = find_keyring(options)?;
        let cache = options.cache_dir.canonicalize().map_err(ImageError::io("open", &options.cache_dir))?;
        let cache_text = usable_by_apt(&cache)?;
        let kind = if architecture.is_some() { "deb" } else { "deb-src" };
        let name = format!("{suite}-{}", architecture.unwrap_or("source"));
        let dir = cache.join("apt").join(&name);
        let debs = cache.join("debs");
        for part in [
            "tmp",
            "lists/partial",
            "archives/partial",
            "etc/apt.conf.d",
            "etc/preferences.d",
            "etc/trusted.gpg.d",
        ] {
            let path = dir.join(part);
            files::create_folders(&path).map_err(ImageError::io("create", &path))?;
        }
        files::create_folders(&debs).map_err(ImageError::io("create", &debs))?;
        let extension = if keyring.extension() == Some(OsStr::new("asc")) { "asc" } else { "gpg" };
        let keys = fs::read(&keyring).map_err(ImageError::io("read", &keyring))?;
        write(&dir.join(format!("etc/trusted.gpg.d/archive.{extension}")), &keys)?;
        write(&dir.join("status"), b"")?;
        let source = format!("{kind} {mirror} {suite} main\n");
        write(&dir.join("etc/sources.list"), source.as_bytes())?;
        // Source packages do not depend on the architecture.
        let architecture = architecture.unwrap_or("amd64");
        let conf =
            configuration(&format!("{cache_text}/apt/{name}"), architecture, &host_network_settings()?);
        write(&dir.join("apt.conf"), conf.as_bytes())?;
        let scratch = dir.join("tmp");
        let mirror = mirror.trim_end_matches('/').to_owned();
        let lock = lock.try_clone().map_err(ImageError::io("lock", &dir))?;
        Ok(Self { dir, debs, scratch, lock, mirror })
    }

    /// Fetches and verifies the suite's index.
    pub(crate) fn update(&self) -> Result<Fetched, ImageError> {
        let mismatch = Cell::new(false);
        let hint = |printed: &str| {
            mismatch.set(MISMATCH.iter().any(|text| printed.contains(text)));
            update_hint(printed)
        };
        let mut command = self.command(APT_GET);
        let run = host::run_with_hint(&self.bounds(), command.args(["update", "-q"]), "apt-get update", hint);
        match run {
            Err(error) if mismatch.get() => return Ok(Fetched::Mismatch(error)),
            other => other?,
        };
        // apt does not sync its files, and does not check an index again once it has verified it.
        let lists = self.dir.join("lists");
        files::sync_tree(&lists).map_err(ImageError::io("write", &lists))?;
        Ok(Fetched::Verified)
    }

    /// Whether an index was fetched before.
    pub(crate) fn has_index(&self) -> bool {
        let lists = fs::read_dir(self.dir.join("lists"));
        lists.is_ok_and(|entries| {
            entries.flatten().any(|entry| entry.file_name().to_string_lossy().contains("_Packages"))
        })
    }

    /// The verified index, as paragraphs of control fields.
    pub(crate) fn index(&self) -> Result<String, ImageError> {
        let mut command = self.command(APT_CACHE);
        let text = host::run_within(&self.bounds(), command.arg("dumpavail"), "reading the package index")?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// The cache's folder of packages.
    pub(crate) fn cache(&self) -> &Path {
        &self.debs
    }

    /// The packages that are absent from the cache or damaged there.
    pub(crate) fn missing<'a>(&self, packages: &'a [Package]) -> Vec<&'a Package> {
        let is_whole = |package: &Package| check_hash(package, &self.debs.join(package.file_name())).is_ok();
        packages.iter().filter(|package| !is_whole(package)).collect()
    }

    /// Returns the packages' files in the cache, after checking each against its hash. Downloads missing and
    /// damaged files, unless `offline`. Reports damage to `progress`.
    pub(crate) fn fetch(
        &self,
        packages: &[&Package],
        route: Route,
        offline: bool,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Vec<PathBuf>, ImageError> {
        let mut missing = Vec::new();
        for package in packages {
            let path = self.debs.join(package.file_name());
            let damaged = match check_hash(package, &path) {
                Ok(()) => continue,
                Err(ImageError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => false,
                Err(ImageError::Io { .. } | ImageError::PackageHash { .. }) => true,
                Err(other) => return Err(other),
            };
            match (damaged, offline) {
                (true, true) => {
                    return Err(ImageError::DamagedPackage { package: package.name.clone(), path });
                }
                (true, false) => {
                    progress(&format!("getting {} again: {} is damaged", package.name, path.display()));
                }
                (false, true) => {
                    let what = format!("package {} {}", package.name, package.version);
                    return Err(ImageError::Offline { what, cache: self.debs.clone() });
                }
                (false, false) => {}
            }
            missing.push(*package);
        }
        if !missing.is_empty() {
            self.download(&missing, route)?;
        }
        Ok(packages.iter().map(|package| self.debs.join(package.file_name())).collect())
    }

    /// Downloads into a temporary folder and moves each package into the cache once its hash is verified, so
    /// that an interrupted download leaves no partial file under a package's name.
    fn download(&self, packages: &[&Package], route: Route) -> Result<(), ImageError> {
        let incoming = tempfile::Builder::new()
            .prefix(".incoming-")
            .tempdir_in(&self.debs)
            .map_err(ImageError::io("create a folder in", &self.debs))?;
        match route {
            Route::Index => self.download_by_index(packages, incoming.path())?,
            Route::Path => self.download_by_path(packages, incoming.path())?,
        }
        for package in packages {
            check_hash(package, &incoming.path().join(package.file_name()))?;
        }
        // Synced before the rename, so that files in the cache are complete even after a power failure.
        files::sync_tree(incoming.path()).map_err(ImageError::io("write", incoming.path()))?;
        for package in packages {
            let from = incoming.path().join(package.file_name());
            files::rename(&from, &self.debs.join(package.file_name()))
                .map_err(ImageError::io("move", &from))?;
        }
        files::sync_folder(&self.debs).map_err(ImageError::io("write", &self.debs))
    }

    fn download_by_index(&self, packages: &[&Package], into: &Path) -> Result<(), ImageError> {
        let mut command = self.command(APT_GET);
        command.current_dir(into).args(["download", "-q"]);
        command.args(packages.iter().map(|package| format!("{}={}", package.name, package.version)));
        host::run_with_hint(&self.bounds(), &mut command, "apt-get download", update_hint).map(drop)
    }

    fn download_by_path(&self, packages: &[&Package], into: &Path) -> Result<(), ImageError> {
        let mut command = self.command(APT_HELPER);
        command.arg("download-file");
        for package in packages {
            let path = package.path.as_deref().ok_or_else(|| ImageError::NotInFallbackIndex {
                image: package.name.clone(),
                problem: format!("the archive has no version {}", package.version),
            })?;
            command.arg(format!("{}/{path}", self.mirror)).arg(into.join(package.file_name()));
            command.arg(format!("SHA256:{}", package.sha256));
        }
        host::run_with_hint(&self.bounds(), &mut command, "downloading packages", update_hint).map(drop)
    }

    /// Downloads a source package's original archive into a folder and verifies it by the suite's index.
    pub(crate) fn download_source(&self, package: &str, into: &Path) -> Result<(), ImageError> {
        let mut command = self.command(APT_GET);
        command.current_dir(into).args(["source", "-q", "--download-only", "--tar-only", package]);
        host::run_with_hint(&self.bounds(), &mut command, "apt-get source", update_hint).map(drop)
    }

    fn command(&self, tool: Tool) -> Command {
        let mut command = host::network_command(tool);
        command.env("APT_CONFIG", self.dir.join("apt.conf")).env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    /// apt may read everything, because mirrors and certificates can be anywhere, but writes only here.
    fn bounds(&self) -> Bounds<'_> {
        let writes = vec![self.scratch.as_path(), &self.dir, &self.debs];
        Bounds { reads: None, writes, network: true, limits: Limits::default(), lock: Some(&self.lock) }
    }
}

fn write(path: &Path, content: &[u8]) -> Result<(), ImageError> {
    files::write(path, content).map_err(ImageError::io("write", path))
}

fn check_mirror(mirror: &str) -> Result<(), ImageError> {
    let bad = |problem| Err(ImageError::BadMirror { mirror: mirror.to_owned(), problem });
    if mirror.chars().any(|c| c.is_whitespace() || c.is_control() || "[]\"".contains(c)) {
        return bad("contains white space, quotes or brackets");
    }
    if !mirror.contains(":/") {
        return bad("is not an address");
    }
    Ok(())
}

fn find_keyring(options: &BuildOptions) -> Result<PathBuf, ImageError> {
    let named = || environment("DOORBELL_DEBIAN_KEYRING").map(PathBuf::from);
    let chosen = options.keyring.clone().or_else(named);
    if let Some(path) = &chosen {
        let found = path.is_file().then(|| path.clone());
        return found.ok_or_else(|| ImageError::NoKeyring { looked_for: path.display().to_string() });
    }
    let found = KEYRINGS.iter().map(PathBuf::from).find(|path| path.is_file());
    found.ok_or_else(|| ImageError::NoKeyring { looked_for: KEYRINGS[0].to_owned() })
}

/// The host's proxies, certificates and retries: the network-related lines of `apt-config dump`.
fn host_network_settings() -> Result<String, ImageError> {
    let mut command = host::command(APT_CONFIG);
    // The host's configuration may be named by this variable.
    command.envs(std::env::var_os("APT_CONFIG").map(|path| ("APT_CONFIG", path)));
    let dump = host::run(command.arg("dump"), "apt-config dump")?;
    let dump = String::from_utf8_lossy(&dump);
    let about_network = |line: &&str| {
        ["Acquire::http::", "Acquire::https::", "Acquire::ftp::", "Acquire::Retries"]
            .iter()
            .any(|key| line.starts_with(key))
    };
    Ok(dump.lines().filter(about_network).map(|line| format!("{line}\n")).collect())
}

/// All folders are private; only the download methods and the mirrors' credentials are the host's.
fn configuration(dir: &str, architecture: &str, network: &str) -> String {
    format!(
        r#"// Written by Doorbell at each build.
{network}APT::Architecture "{architecture}";
APT::Architectures {{ "{architecture}"; }};
APT::Default-Release "";
APT::Get::AllowUnauthenticated "false";
APT::Update::Error-Mode "any";
// Without root there is no other user to change to; with root, that user could not write here.
APT::Sandbox::User "root";
Acquire::AllowInsecureRepositories "false";
Acquire::AllowWeakRepositories "false";
Acquire::AllowDowngradeToInsecureRepositories "false";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Dir::State "{dir}";
Dir::State::lists "{dir}/lists";
Dir::State::status "{dir}/status";
Dir::Cache "{dir}";
Dir::Cache::archives "{dir}/archives";
Dir::Log "{dir}";
Dir::Etc "{dir}/etc";
Dir::Etc::main "{dir}/etc/apt.conf";
Dir::Etc::parts "{dir}/etc/apt.conf.d";
Dir::Etc::sourcelist "{dir}/etc/sources.list";
Dir::Etc::sourceparts "{dir}/etc/sources.list.d";
Dir::Etc::preferences "{dir}/etc/preferences";
Dir::Etc::preferencesparts "{dir}/etc/preferences.d";
Dir::Etc::trusted "{dir}/etc/trusted.gpg";
Dir::Etc::trustedparts "{dir}/etc/trusted.gpg.d";
Dir::Etc::netrc "/etc/apt/auth.conf";
Dir::Etc::netrcparts "/etc/apt/auth.conf.d";
"#
    )
}

/// apt's messages, in the C locale, about a mirror that is being updated. The last one is all that apt 3
/// prints for a folder (`copy:`), whatever is wrong with length or content; over HTTP it prints the same as
/// apt 2.
const MISMATCH: [&str; 3] = ["Mirror sync in progress", "Hash Sum mismatch", "Undetermined Error"];

/// apt's messages, in the C locale, about a mirror that does not answer.
const UNREACHABLE: [&str; 9] = [
    "Could not resolve",
    "Temporary failure resolving",
    "Could not connect",
    "Unable to connect",
    "Cannot initiate the connection",
    "Connection failed",
    "Connection refused",
    "Network is unreachable",
    "timed out",
];

fn update_hint(printed: &str) -> &'static str {
    let says = |texts: &[&str]| texts.iter().any(|text| printed.contains(text));
    // apt prints this, too, if the mirror refuses to serve the suite.
    let refused = printed.contains("Failed to fetch") && printed.contains("InRelease' is not signed");
    // gpgv reports an invalid signature when it cannot write its output.
    if says(&["No space left", "Disk quota exceeded"]) {
        "; the disk is full: make room, or name a cache folder on another disk with --cache DIR"
    } else if refused {
        "; the mirror does not give this suite: name another with DOORBELL_DEBIAN_MIRROR"
    } else if says(&["NO_PUBKEY", "couldn't be verified", "is not signed"]) {
        "; the archive's signature was not accepted: bring the package debian-archive-keyring up to date, and check that \
         the mirror is one of Debian's"
    } else if says(&MISMATCH) {
        "; the mirror is being updated, so that its index does not match its signed Release file: try again later, or \
         name another mirror with DOORBELL_DEBIAN_MIRROR"
    } else if says(&["does not have a Release file"]) {
        "; the mirror does not carry this suite: name another with DOORBELL_DEBIAN_MIRROR"
    } else if says(&["404"]) {
        "; the mirror does not have a file: try again later, or name another with DOORBELL_DEBIAN_MIRROR"
    } else if says(&UNREACHABLE) {
        "; the mirror cannot be reached, and an image is built from Debian's packages: check the network and its proxy, or \
         name another mirror with DOORBELL_DEBIAN_MIRROR; if the packages are in the cache already, build with --offline"
    } else if says(&["The method driver"]) {
        "; apt does not support this kind of mirror: name one whose address begins with http:// or https:// with DOORBELL_DEBIAN_MIRROR"
    } else {
        ""
    }
}

/// The cache's path as text, if it can be written into apt's configuration.
fn usable_by_apt(cache: &Path) -> Result<&str, ImageError> {
    let bad = |problem| Err(ImageError::CachePath { cache: cache.to_owned(), problem });
    let Some(text) = cache.to_str() else { return bad("is not UTF-8") };
    match text.contains(['"', '\\', ';']) || text.contains(char::is_control) {
        true => bad("has a quote, a backslash, a semicolon or a control character in it"),
        false => Ok(text),
    }
}

fn check_hash(package: &Package, path: &Path) -> Result<(), ImageError> {
    let (actual, _) = files::sha256_of(path).map_err(ImageError::io("read", path))?;
    if actual == package.sha256 {
        return Ok(());
    }
    let (package, expected) = (package.name.clone(), package.sha256.clone());
    Err(ImageError::PackageHash { package, expected, actual, path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_never_switches_verification_off() {
        let text = configuration("/cache", "riscv64", "Acquire::http::Proxy \"http://proxy.example:1\";\n");
        for forbidden in
            ["Unauthenticated \"true\"", "Insecure \"true\"", "Repositories \"true\"", "trusted=yes"]
        {
            assert!(!text.contains(forbidden));
        }
        // The host's own exceptions must not take effect: our settings come after the host's network
        // settings.
        assert!(text.find("Proxy").unwrap() < text.find("AllowInsecureRepositories \"false\"").unwrap());
    }

    #[test]
    fn an_unusable_cache_path_is_refused_with_the_reason() {
        use std::os::unix::ffi::OsStrExt;
        let told = |bytes: &[u8]| usable_by_apt(Path::new(OsStr::from_bytes(bytes))).unwrap_err().to_string();
        assert!(told(b"/home/j\xf6rg/cache").contains("is not UTF-8"));
        for bytes in [&b"/a\"b"[..], b"/a;b", b"/a\nb", b"/a\\b"] {
            assert!(
                told(bytes).contains("a quote, a backslash, a semicolon") && told(bytes).contains("--cache")
            );
        }
        assert_eq!(usable_by_apt(Path::new("/home/j\u{f6}rg/a cache")).unwrap(), "/home/j\u{f6}rg/a cache");
    }

    #[test]
    fn hints_match_what_apt_printed() {
        for (printed, word) in [
            ("Temporary failure resolving 'mirror.example'", "check the network"),
            (
                "Cannot initiate the connection to mirror.example:80 (::1). - connect (101: Network is unreachable)",
                "--offline",
            ),
            ("E: The method driver /usr/lib/apt/methods/foo could not be found.", "http://"),
            ("Error writing to file - write (28: No space left on device)", "--cache DIR"),
            ("GPG error: NO_PUBKEY 1234", "debian-archive-keyring"),
            (
                "W: GPG error: http://a t InRelease: At least one invalid signature was encountered.\n\
                 E: The repository 'http://a t InRelease' is not signed.\n\
                 E: Write error - write (28: No space left on device)",
                "the disk is full",
            ),
            ("Write error - write (122: Disk quota exceeded)", "the disk is full"),
            (
                "E: Failed to fetch http://a/x/dists/t/InRelease  400  Bad Request\nE: The repository 'http://a/x t InRelease' is not signed.",
                "does not give this suite",
            ),
            (
                "File has unexpected size (9385284 != 9387120). Mirror sync in progress? [IP: ::1 80]",
                "try again later",
            ),
        ] {
            assert!(update_hint(printed).contains(word), "{printed}");
        }
        assert_eq!(update_hint("something else"), "");
    }

    #[test]
    fn a_mirror_must_be_one_plain_address() {
        assert!(check_mirror("http://a.example/debian").is_ok());
        assert!(check_mirror("mirror+file:/etc/apt/mirrors/debian.list").is_ok());
        for bad in [
            "a.example/debian",
            "http://a.example/debian [trusted=yes]",
            "[trusted=yes] http://a.example/debian",
            "",
        ] {
            assert!(check_mirror(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_missing_keyring_names_the_package_to_install() {
        let options = BuildOptions { keyring: Some("/nonexistent.gpg".into()), ..BuildOptions::default() };
        let error = find_keyring(&options).unwrap_err().to_string();
        assert!(error.contains("/nonexistent.gpg") && error.contains("debian-archive-keyring"), "{error}");
    }

    #[test]
    fn a_package_with_a_wrong_hash_is_refused_by_name() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let package = crate::manifest::PackageRecord {
            name: "hello".into(),
            version: "1".into(),
            architecture: "all".into(),
            size_bytes: 0,
            sha256: "00".into(),
        }
        .package();
        let error = check_hash(&package, file.path()).unwrap_err().to_string();
        assert!(error.contains("hello") && error.contains("e3b0c442"), "{error}");
    }
}
