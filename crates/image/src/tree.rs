//! The folder with the unpacked packages, as the guest will see it: symbolic links, including absolute ones,
//! resolve within the folder and never lead out of it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cpio::Node;
use crate::index::matches;

/// Most links in a path, as in Linux.
const LINKS_MAX: u32 = 40;

/// A root file system on the host's disk.
#[derive(Debug)]
pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Adds a link of the image's own, such as `/lib`, unless the packages have the path. Refuses a path
    /// through a link of the packages, because on the host that could lead anywhere.
    pub(crate) fn link(&self, path: &str, target: &str) -> Result<(), String> {
        let at = self.root.join(path);
        let inside = |part: &&Path| part.starts_with(&self.root) && *part != self.root;
        if let Some(link) = at.ancestors().skip(1).take_while(inside).find(|part| part.is_symlink()) {
            let link = link.strip_prefix(&self.root).unwrap_or(link).display();
            return Err(format!(
                "cannot create the link {path}: {link} is a link in the packages; use the path of the folder it leads to"
            ));
        }
        if at.symlink_metadata().is_ok() {
            return Ok(());
        }
        let parent = at.parent().unwrap_or(&self.root);
        fs::create_dir_all(parent)
            .and_then(|()| std::os::unix::fs::symlink(target, &at))
            .map_err(|error| format!("cannot create the link {path}: {error}"))
    }

    /// The paths that match a pattern whose parts may contain `*`, in alphabetical order. Links match, but
    /// are not followed: on the host they could lead out of the tree.
    pub(crate) fn glob(&self, pattern: &str) -> Vec<String> {
        let mut found = vec![String::new()];
        for part in pattern.split('/') {
            let mut next = Vec::new();
            for base in &found {
                let folder = self.root.join(base);
                if !folder.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
                    continue;
                }
                let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
                let mut names: Vec<String> =
                    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
                names.retain(|name| matches(part, name));
                names.sort();
                next.extend(
                    names
                        .iter()
                        .map(|name| if base.is_empty() { name.clone() } else { format!("{base}/{name}") }),
                );
            }
            found = next;
        }
        found
    }

    /// Nodes that the image needs so that a path leads to its file: each link on the way, then the file
    /// itself.
    pub(crate) fn resolve(&self, path: &str) -> Result<Vec<(String, Node)>, String> {
        let mut links = Vec::new();
        let mut todo: Vec<String> = parts(path);
        todo.reverse();
        let mut at: Vec<String> = Vec::new();
        while let Some(part) = todo.pop() {
            if part == ".." {
                at.pop();
                continue;
            }
            at.push(part);
            let here = at.join("/");
            let on_disk = self.root.join(&here);
            let meta = on_disk
                .symlink_metadata()
                .map_err(|error| format!("no file {path} in the packages ({here}: {error})"))?;
            if meta.is_symlink() {
                let target = fs::read_link(&on_disk)
                    .map_err(|error| format!("cannot read the link {here}: {error}"))?;
                let target = target
                    .into_os_string()
                    .into_string()
                    .map_err(|_| format!("the link {here} is not UTF-8"))?;
                if links.len() as u32 >= LINKS_MAX {
                    return Err(format!("{path} has too many links"));
                }
                at.pop();
                if target.starts_with('/') {
                    at.clear();
                }
                todo.extend(parts(&target).into_iter().rev());
                links.push((here, Node::Link { target }));
            }
        }
        let (here, on_disk) = (at.join("/"), self.root.join(at.join("/")));
        if !on_disk.is_file() {
            return Err(format!("{path} is not a file in the packages"));
        }
        let content = fs::read(&on_disk).map_err(|error| format!("cannot read {here}: {error}"))?;
        links.push((here, Node::File { mode: 0o755, content }));
        Ok(links)
    }

    /// Whether a path leads to a file.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.resolve(path).is_ok()
    }

    /// All files below a folder, in alphabetical order; links are not followed.
    pub(crate) fn walk(&self, folder: &str) -> Vec<String> {
        let mut files = Vec::new();
        let mut open = vec![folder.to_owned()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(self.root.join(&dir)).into_iter().flatten().flatten() {
                let (Ok(name), Ok(kind)) = (entry.file_name().into_string(), entry.file_type()) else {
                    continue;
                };
                let path = format!("{dir}/{name}");
                if kind.is_dir() {
                    open.push(path);
                } else if kind.is_file() {
                    files.push(path);
                }
            }
        }
        files.sort();
        files
    }

    /// The host's path of a file, for tools that read it there. The path must contain no links.
    pub(crate) fn on_host(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

fn parts(path: &str) -> Vec<String> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".").map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn sample() -> (tempfile::TempDir, Tree) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("usr/lib/multi/drivers-25")).unwrap();
        fs::write(root.join("usr/lib/multi/drivers-25/libx.so.25.0"), "x").unwrap();
        symlink("libx.so.25.0", root.join("usr/lib/multi/drivers-25/libx.so.25")).unwrap();
        symlink("drivers-25/libx.so.25", root.join("usr/lib/multi/libx.so.25")).unwrap();
        symlink("/usr/lib/multi", root.join("usr/lib/absolute")).unwrap();
        symlink("../../../../../etc/passwd", root.join("usr/lib/escape")).unwrap();
        symlink("loop", root.join("usr/lib/loop")).unwrap();
        let tree = Tree::new(root);
        tree.link("lib", "usr/lib").unwrap();
        (dir, tree)
    }

    #[test]
    fn a_library_resolves_to_all_links_that_lead_to_it_and_the_file() {
        let (_dir, tree) = sample();
        let steps = tree.resolve("lib/absolute/libx.so.25").unwrap();
        let paths: Vec<&str> = steps.iter().map(|(path, _)| path.as_str()).collect();
        let expected = [
            "lib",
            "usr/lib/absolute",
            "usr/lib/multi/libx.so.25",
            "usr/lib/multi/drivers-25/libx.so.25",
            "usr/lib/multi/drivers-25/libx.so.25.0",
        ];
        assert_eq!(paths, expected);
        assert_eq!(steps[4].1, Node::File { mode: 0o755, content: b"x".to_vec() });
    }

    #[test]
    fn links_out_of_the_tree_and_link_loops_are_errors() {
        let (_dir, tree) = sample();
        let error = tree.resolve("usr/lib/escape").unwrap_err();
        assert!(error.contains("no file usr/lib/escape") && error.contains("etc"), "{error}");
        assert!(tree.resolve("usr/lib/loop").unwrap_err().contains("too many links"));
        assert!(!tree.has("usr/lib/multi"), "a folder is not a file");
    }

    #[test]
    fn a_link_is_not_created_behind_one_that_leads_out_of_the_tree() {
        let (outside, (dir, tree)) = (tempfile::tempdir().unwrap(), sample());
        fs::create_dir(outside.path().join("deep")).unwrap();
        symlink(outside.path(), dir.path().join("usr/out")).unwrap();
        for path in ["usr/out/evil", "usr/out/deep/evil", "usr/out/new/evil"] {
            let error = tree.link(path, "/etc/passwd").unwrap_err();
            assert!(error.contains(path) && error.contains("usr/out is a link"), "{error}");
        }
        let left: Vec<_> = fs::read_dir(outside.path()).unwrap().flatten().collect();
        assert!(left.len() == 1 && fs::read_dir(left[0].path()).unwrap().next().is_none());
        tree.link("usr/bin/sh", "busybox").unwrap();
        assert_eq!(fs::read_link(dir.path().join("usr/bin/sh")).unwrap(), Path::new("busybox"));
    }

    #[test]
    fn a_pattern_finds_links_and_files_in_order() {
        let (_dir, tree) = sample();
        let found = tree.glob("usr/lib/*/drivers-*/libx.so.*");
        let expected = ["25", "25.0"].map(|version| format!("usr/lib/multi/drivers-25/libx.so.{version}"));
        assert_eq!(found, expected, "links are not followed");
        assert!(tree.glob("usr/nothing").is_empty());
        assert_eq!(tree.walk("usr"), ["usr/lib/multi/drivers-25/libx.so.25.0"]);
    }
}
