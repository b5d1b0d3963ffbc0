//! Files that a run adds to an image: a second archive appended to the image's initramfs. Linux unpacks the
//! archives of an initramfs in order (kernel documentation, driver-api/early-userspace/buffer-format), so the
//! image's own file and its hash do not change.

use crate::cpio::{Archive, Node};
use crate::error::ImageError;

/// One file for the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestFile {
    /// Path in the guest, without a leading slash. Its folders are created; none of them may be a link in the
    /// image (`bin` is one in the built-in images: write `usr/bin`). A file of the image at this path is
    /// replaced.
    pub path: String,
    /// Whether it is a program.
    pub executable: bool,
    /// The file's content.
    pub content: Vec<u8>,
}

/// The archive to append to an image's initramfs.
pub fn overlay(files: &[GuestFile]) -> Result<Vec<u8>, ImageError> {
    Ok(archive(files)?.to_bytes())
}

fn archive(files: &[GuestFile]) -> Result<Archive, ImageError> {
    let fail = |problem: String| ImageError::Content { image: "files added to an image".to_owned(), problem };
    let mut archive = Archive::new();
    for file in files {
        if !crate::recipe::is_relative_path(&file.path) {
            return Err(fail(format!("\"{}\" must be a relative path without . or .. in it", file.path)));
        }
        let node =
            Node::File { mode: if file.executable { 0o755 } else { 0o644 }, content: file.content.clone() };
        archive.put(&file.path, node).map_err(fail)?;
    }
    Ok(archive)
}

/// The archive of files that a running guest unpacks (`cpio -idu`). It holds no folders, so that the guest's
/// folders, and links to folders, stay as they are.
pub fn delivery(files: &[GuestFile]) -> Result<Vec<u8>, ImageError> {
    Ok(archive(files)?.without_directories().to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, content: &str) -> GuestFile {
        GuestFile { path: path.into(), executable: true, content: content.into() }
    }

    #[test]
    fn an_overlay_has_files_and_folders_and_a_length_of_whole_words() {
        let bytes = overlay(&[file("scripts/mine", "echo hello\n")]).unwrap();
        let has = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
        assert!(has(b"scripts\0") && has(b"scripts/mine\0") && has(b"echo hello\n"));
        // The next archive must begin at a multiple of four.
        assert!(bytes.starts_with(b"070701") && bytes.len().is_multiple_of(4));
    }

    #[test]
    fn a_delivery_has_the_files_and_no_folders() {
        let bytes = delivery(&[file("bin/mine", "echo hello\n")]).unwrap();
        let has = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
        assert!(has(b"\0bin/mine\0") || has(b"bin/mine\0"));
        assert!(!has(b"bin\0") && !has(b".\0"), "bin may be a link in the guest");
    }

    #[test]
    fn conflicting_paths_and_paths_out_of_the_tree_are_refused_by_name() {
        for bad in ["/etc/passwd", "../x", "a//b", ""] {
            let error = overlay(&[file(bad, "")]).unwrap_err().to_string();
            assert!(error.contains(&format!("\"{bad}\"")), "{error}");
        }
        assert!(overlay(&[file("a", "1"), file("a", "2")]).is_err());
        assert!(overlay(&[file("a", "1"), file("a/b", "2")]).is_err());
    }
}
