//! Access to the pages of `docs/`, whose examples the checks run verbatim.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::guest::places;

/// Root folder of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Fenced code blocks of one language in a page.
pub fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    page.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap_or("").to_owned()).collect()
}

/// A new cache folder with the user's images and packages but no checkpoints, which may be older than this
/// source.
///
/// # Panics
///
/// If another test of this process uses the same name: that test would lose its checkpoints.
pub fn cache_with_own_checkpoints(name: &str) -> PathBuf {
    static NAMES: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let is_new = NAMES.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
    assert!(is_new, "two tests use the cache name \"{name}\": choose another one");
    let exe = std::env::current_exe().expect("the path of the running program is available");
    let folder = exe.ancestors().nth(3).expect("tests are three levels below the target folder").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a cache can be made");
    for part in ["images", "packages"] {
        fs::create_dir_all(places().cache.join(part)).expect("the user's cache can be made");
        symlink(places().cache.join(part), folder.join(part)).expect("a link can be made");
    }
    folder
}
