//! Duration of the last boot of each kind, for the progress display of the next one.

use std::path::PathBuf;

use doorbell_files::{create_folders, replace};
use doorbell_sim::Ps;
use xxhash_rust::xxh3::xxh3_64;

use crate::store::paths::CachePaths;

/// The stored duration of a kind of boot: a small cache file. If it is lost or wrong, only the displayed
/// progress is wrong.
#[derive(Clone, Debug)]
pub struct BootLength {
    file: PathBuf,
}

impl BootLength {
    /// The duration of boots of this name; the file is in the folder of the checkpoints.
    pub(crate) fn of(places: &CachePaths, name: &str) -> BootLength {
        BootLength { file: places.checkpoints().join(format!("{name}.length")) }
    }

    /// The same for an interactive boot of an image with these words on the kernel's command line.
    pub fn of_image(places: &CachePaths, image: &str, words: &str) -> BootLength {
        let named = xxh3_64(format!("{image} {words}").as_bytes());
        BootLength::of(places, &format!("boot-{named:016x}"))
    }

    /// Simulated time of the last boot.
    pub fn last(&self) -> Option<Ps> {
        std::fs::read_to_string(&self.file).ok()?.trim().parse().ok().map(Ps)
    }

    /// Stores the duration of this boot. If that fails, the next boot's progress has no percentage.
    pub fn keep(&self, length: Ps) {
        if self.last() != Some(length)
            && self.file.parent().is_some_and(|folder| create_folders(folder).is_ok())
        {
            let _ = replace(&self.file, format!("{}\n", length.0).as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_duration_is_kept_per_kind_and_unreadable_files_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let places = CachePaths { cache: folder.path().join("cache"), commit: "unknown" };
        let length = BootLength::of(&places, "testpmd");
        assert_eq!(length.last(), None);
        length.keep(Ps(5));
        BootLength::of(&places, "testpmd").keep(Ps(7));
        assert_eq!((length.last(), BootLength::of(&places, "iperf").last()), (Some(Ps(7)), None));
        let images =
            ["", "doorbell.app=testpmd"].map(|words| BootLength::of_image(&places, "testpmd", words));
        images[0].keep(Ps(9));
        assert_eq!(images.map(|length| length.last()), [Some(Ps(9)), None]);
        std::fs::write(&length.file, "7 s").unwrap();
        assert_eq!(length.last(), None);
        assert!(places.cached().unwrap().is_empty(), "duration files are not listed");
    }

    #[test]
    fn unwritable_cache_is_no_error() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("cache"), "in the way").unwrap();
        let places = CachePaths { cache: folder.path().join("cache"), commit: "unknown" };
        let length = BootLength::of(&places, "testpmd");
        length.keep(Ps(5));
        assert_eq!(length.last(), None);
    }
}
