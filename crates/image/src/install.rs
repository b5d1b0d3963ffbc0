//! Packages that are installed whole in the guest: all their files except documentation. Their maintainer
//! scripts are not run, because no guest code runs on the host. A recipe's own files or `init` lines must
//! do what the scripts would (users, links of `update-alternatives`).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::cpio::Node;
use crate::error::ImageError;

/// Folders in `usr/share` with documentation, translations and shell completions.
const LEFT_OUT: &str = "bash-completion bug doc info lintian locale man zsh";

/// All files in a folder of unpacked packages, by path in the guest.
pub(crate) fn files(root: &Path) -> Result<BTreeMap<String, Node>, ImageError> {
    let mut nodes = BTreeMap::new();
    let mut open = vec![String::new()];
    while let Some(folder) = open.pop() {
        let on_host = root.join(&folder);
        for entry in fs::read_dir(&on_host).map_err(ImageError::io("read", &on_host))? {
            let on_host = entry.map_err(ImageError::io("read", &on_host))?.path();
            let Some(name) = on_host.file_name().and_then(|name| name.to_str()) else { continue };
            let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
            if path.strip_prefix("usr/share/").is_some_and(|name| LEFT_OUT.split(' ').any(|out| out == name))
            {
                continue;
            }
            let meta = on_host.symlink_metadata().map_err(ImageError::io("read", &on_host))?;
            if meta.is_dir() {
                // Kept even if empty: a program may write to the folder.
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
