//! A file of a Debian source package, such as a header that no binary package has: fetched and verified like
//! packages.

use std::fs;
use std::path::{Path, PathBuf};

use doorbell_files as files;

use crate::apt::{Apt, Fetched};
use crate::builder::BuildOptions;
use crate::error::ImageError;
use crate::host::{self, APT_CONFIG, APT_GET, GPGV, TAR, XZ};
use crate::workspace::{Workspace, temporary};

/// A file in a source package.
#[derive(Clone, Copy, Debug)]
pub struct SourceFile<'a> {
    /// The Debian suite.
    pub suite: &'a str,
    /// The source package.
    pub package: &'a str,
    /// The file's path below the package's top folder.
    pub path: &'a str,
}

impl SourceFile<'_> {
    fn place(&self, folder: &Path) -> PathBuf {
        let name = self.path.rsplit('/').next().unwrap_or(self.path);
        folder.join(format!("{}-{}-{name}", self.suite, self.package))
    }

    fn fail(&self, problem: &str) -> ImageError {
        let problem = format!("{} {problem}", self.path);
        ImageError::Content { image: format!("source package {}", self.package), problem }
    }
}

/// Fetches the source package and extracts the file, unless it is already in [`BuildOptions::out_dir`].
pub fn fetch_source_file(
    wanted: &SourceFile,
    options: &BuildOptions,
    progress: &mut dyn FnMut(&str),
) -> Result<PathBuf, ImageError> {
    let path = wanted.place(&options.out_dir);
    if path.is_file() {
        return Ok(path);
    }
    // This name is used for the lock only.
    let locked = BuildOptions { out_dir: options.out_dir.join(wanted.package), ..options.clone() };
    let workspace = Workspace::prepare(&locked, progress)?;
    if path.is_file() {
        return Ok(path);
    }
    host::require(&[APT_GET, APT_CONFIG, GPGV, TAR, XZ], &host::search_path())?;
    let apt = Apt::set_up(wanted.suite, None, options, workspace.cache_lock())?;
    if options.offline {
        let what = format!("the source package {}", wanted.package);
        return Err(ImageError::Offline { what, cache: options.cache_dir.clone() });
    }
    progress("fetching the index of sources");
    if let Fetched::Mismatch(error) = apt.update()? {
        return Err(error);
    }
    progress(&format!("getting the source package {}", wanted.package));
    let incoming = temporary(apt.cache(), ".incoming-")?;
    apt.download_source(wanted.package, incoming.path())?;
    let names = files::list(incoming.path()).map_err(ImageError::io("read", incoming.path()))?;
    let archive = names.iter().find(|name| name.to_string_lossy().contains(".orig.tar"));
    let archive =
        incoming.path().join(archive.ok_or_else(|| {
            wanted.fail("cannot be extracted: the source package has no .orig.tar archive")
        })?);
    let mut command = host::command(TAR);
    command.arg("-C").arg(incoming.path()).arg("-xf").arg(&archive);
    // Strips the top folder, whatever its name.
    command.args(["--strip-components=1", "--no-same-owner", "--wildcards", "--no-wildcards-match-slash"]);
    command.arg(format!("*/{}", wanted.path));
    host::run_within(&workspace.bounds(incoming.path()), &mut command, "unpacking a source package")?;
    let found = incoming.path().join(wanted.path);
    let content = fs::read(&found).map_err(|_| wanted.fail("is not in the .orig.tar archive"))?;
    files::write(&path, &content).map_err(ImageError::io("write", &path))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_file_is_not_fetched_again() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = SourceFile { suite: "trixie", package: "tool", path: "include/tool/tool.h" };
        let there = folder.path().join("trixie-tool-tool.h");
        fs::write(&there, "int tool;").unwrap();
        let options = BuildOptions { out_dir: folder.path().to_owned(), ..BuildOptions::default() };
        let found = fetch_source_file(&wanted, &options, &mut |step| panic!("{step}")).unwrap();
        assert_eq!(found, there);
    }
}
