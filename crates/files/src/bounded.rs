//! Files that users name, on the command line or in a configuration. They are read as a whole, so they must have an end: a regular
//! file, or what a shell's `<(…)` and `-` stand for, up to a size. A device, pipe or socket by another name is refused before it is
//! opened, since opening a pipe waits for its writer.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use crate::control::allowed;

/// The most bytes of a text: a configuration, recipe, script, or table of figures.
pub const TEXT_BYTES_MAX: u64 = 64 << 20;
/// The most bytes of a program or another file that goes into a guest.
pub const GUEST_FILE_BYTES_MAX: u64 = 4 << 30;
/// The most bytes of a checkpoint: more than the largest RAM.
pub const CHECKPOINT_BYTES_MAX: u64 = 16 << 30;

/// Whether a shell or the system gives open files such names.
fn is_of_an_open_file(path: &Path) -> bool {
    path.starts_with("/dev/fd") || path.starts_with("/proc/self/fd") || path == Path::new("/dev/stdin")
}

/// Opens a file that can be read to its end.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let found = fs::metadata(path)?;
    if found.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !found.is_file() && !is_of_an_open_file(path) {
        return Err(io::Error::other("it is a device, pipe or socket; name a regular file"));
    }
    File::open(path)
}

/// A file's contents, if they are at most `bytes_max`.
pub fn read_bounded(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    allowed("read", path)?;
    let file = open_regular(path)?;
    let too_large = || {
        let most = if bytes_max >> 30 > 0 {
            format!("{} GiB", bytes_max >> 30)
        } else {
            format!("{} MiB", bytes_max >> 20)
        };
        Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is too large: at most {most} are read")))
    };
    let len = file.metadata()?.len();
    if len > bytes_max {
        return too_large();
    }
    let mut contents = Vec::new();
    contents.try_reserve_exact(len as usize)?;
    // It may grow meanwhile, and a device or pipe has no length.
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut contents)?;
    if contents.len() as u64 > bytes_max { too_large() } else { Ok(contents) }
}

/// A text file's contents.
pub fn read_text(path: &Path) -> io::Result<String> {
    let contents = read_bounded(path, TEXT_BYTES_MAX)?;
    String::from_utf8(contents)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is no text (UTF-8)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regular_files_are_read_up_to_a_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, b"four").unwrap();
        assert_eq!(read_bounded(&path, 4).unwrap(), b"four");
        assert_eq!(read_bounded(&path, 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read_text(&path).unwrap(), "four");
        fs::write(&path, [0xff]).unwrap();
        assert!(read_text(&path).unwrap_err().to_string().contains("no text"));
        // 40 GB that take no space: refused by its length, before it is read.
        File::create(&path).unwrap().set_len(40_000_000_000).unwrap();
        let error = read_text(&path).unwrap_err().to_string();
        assert!(error.contains("at most 64 MiB"), "{error}");
        assert!(read_bounded(&path, GUEST_FILE_BYTES_MAX).unwrap_err().to_string().contains("at most 4 GiB"));
        assert_eq!(read_text(&folder.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(read_text(folder.path()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
    }

    #[test]
    fn devices_and_pipes_are_refused_before_they_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for path in [Path::new("/dev/zero"), &socket] {
            let error = read_text(path).unwrap_err().to_string();
            assert!(error.contains("device, pipe or socket"), "{error}");
        }
        // Those of a shell's are read.
        assert!(is_of_an_open_file(Path::new("/dev/fd/63")) && !is_of_an_open_file(Path::new("/dev/zero")));
    }
}
