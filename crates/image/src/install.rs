//! Packages that go into the guest as a whole: every file that they hold, except what only a person would read.
//! Their maintainer scripts are not run, as nothing of the guest's is run on the host: what those would set up
//! (users, links of `update-alternatives`), a recipe's own files or `init` lines have to.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::cpio::Node;
use crate::error::ImageError;

/// Documentation, translations and what completes words at a prompt.
const LEFT_OUT: &[&str] = &[
    "usr/share/bash-completion",
    "usr/share/bug",
    "usr/share/doc",
    "usr/share/info",
    "usr/share/lintian",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/zsh",
];

/// Everything in a folder of unpacked packages, by its path in the guest.
pub(crate) fn files(root: &Path) -> Result<BTreeMap<String, Node>, ImageError> {
    let mut nodes = BTreeMap::new();
    let mut open = vec![String::new()];
    while let Some(folder) = open.pop() {
        let on_host = root.join(&folder);
        for entry in fs::read_dir(&on_host).map_err(ImageError::io("read", &on_host))? {
            let on_host = entry.map_err(ImageError::io("read", &on_host))?.path();
            let Some(name) = on_host.file_name().and_then(|name| name.to_str()) else { continue };
            let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
            if LEFT_OUT.contains(&path.as_str()) {
                continue;
            }
            let meta = on_host.symlink_metadata().map_err(ImageError::io("read", &on_host))?;
            if meta.is_dir() {
                // An empty folder may be what a program wants to write to.
                nodes.insert(path.clone(), Node::Directory);
                open.push(path);
            } else if meta.is_symlink() {
                let target = fs::read_link(&on_host).map_err(ImageError::io("read", &on_host))?;
                nodes.insert(path, Node::Link { target: target.to_string_lossy().into_owned() });
            } else if meta.is_file() {
                let content = fs::read(&on_host).map_err(ImageError::io("read", &on_host))?;
                let mode = if meta.permissions().mode() & 0o111 != 0 { 0o755 } else { 0o644 };
                nodes.insert(path, Node::File { mode, content });
            }
        }
    }
    Ok(nodes)
}
