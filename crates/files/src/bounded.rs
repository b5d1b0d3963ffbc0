//! Reading of user-specified files. They are read completely, so they must be finite: a regular file, or a
//! shell's `<(…)` and `-`, up to a size limit. Other devices, pipes and sockets are refused before they are
//! opened, because opening a pipe waits for its writer.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use crate::control::request;

/// Size limit of a text: configuration, recipe, script, or table of figures.
pub const TEXT_BYTES_MAX: u64 = 64 << 20;
/// Size limit of a program or another file for the guest.
pub const GUEST_FILE_BYTES_MAX: u64 = 4 << 30;
/// Size limit of a checkpoint, above the largest RAM.
pub const CHECKPOINT_BYTES_MAX: u64 = 16 << 30;

/// Returns whether the path denotes an open file descriptor.
fn is_file_descriptor(path: &Path) -> bool {
    path.starts_with("/dev/fd") || path.starts_with("/proc/self/fd") || path == Path::new("/dev/stdin")
}

/// Opens a file that has an end.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let found = fs::metadata(path)?;
    if found.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !found.is_file() && !is_file_descriptor(path) {
        return Err(io::Error::other("it is a device, pipe or socket; name a regular file"));
    }
    File::open(path)
}

/// Reads a file of at most `bytes_max` bytes.
pub fn read_bounded(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    request("read", path)?;
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
    // The file may grow meanwhile, and a device or pipe has no length.
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut contents)?;
    if contents.len() as u64 > bytes_max { too_large() } else { Ok(contents) }
}

/// Reads a text file.
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
        // A sparse file of 40 GB is refused by its length, before it is read.
        File::create(&path).unwrap().set_len(40_000_000_000).unwrap();
        let error = read_text(&path).unwrap_err().to_string();
        assert!(error.contains("at most 64 MiB"), "{error}");
        assert!(read_bounded(&path, GUEST_FILE_BYTES_MAX).unwrap_err().to_string().contains("at most 4 GiB"));
        assert_eq!(read_text(&folder.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(read_text(folder.path()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
    }

    #[test]
    fn devices_and_pipes_are_refused_without_opening() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for path in [Path::new("/dev/zero"), &socket] {
            let error = read_text(path).unwrap_err().to_string();
            assert!(error.contains("device, pipe or socket"), "{error}");
        }
        // A shell's descriptors are accepted.
        assert!(is_file_descriptor(Path::new("/dev/fd/63")) && !is_file_descriptor(Path::new("/dev/zero")));
    }
}
