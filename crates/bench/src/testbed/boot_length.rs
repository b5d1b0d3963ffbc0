//! How long a boot took the last time: what the share of the next one that is done is told by.

use std::path::PathBuf;

use doorbell_files::{create_folders, replace};
use doorbell_sim::Ps;
use xxhash_rust::xxh3::xxh3_64;

use crate::store::paths::Places;

/// Where the length of a kind of boot is kept: a few bytes in the cache, which may be lost and lie, and then cost nothing but a wrong share.
#[derive(Clone, Debug)]
pub struct BootLength {
    file: PathBuf,
}

impl BootLength {
    /// The length of boots that have this name, beside what they leave.
    pub(crate) fn of(places: &Places, name: &str) -> BootLength {
        BootLength { file: places.checkpoints().join(format!("{name}.length")) }
    }

    /// The same of an image with words on its kernel's command line, as a person boots it.
    pub fn of_image(places: &Places, image: &str, words: &str) -> BootLength {
        let named = xxh3_64(format!("{image} {words}").as_bytes());
        BootLength::of(places, &format!("boot-{named:016x}"))
    }

    /// What it was the last time, in simulated time.
    pub fn last(&self) -> Option<Ps> {
        std::fs::read_to_string(&self.file).ok()?.trim().parse().ok().map(Ps)
    }

    /// This one has taken so long. Where that cannot be kept, the next boot has no share.
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
    fn a_boot_is_as_long_as_the_last_one_of_its_kind_and_what_cannot_be_read_is_not_known() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places::new(folder.path().join("cache"));
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
        assert!(places.cached().unwrap().is_empty(), "a length is nothing to be listed");
    }

    #[test]
    fn where_nothing_can_be_kept_nothing_fails() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("cache"), "in the way").unwrap();
        let length = BootLength::of(&Places::new(folder.path().join("cache")), "testpmd");
        length.keep(Ps(5));
        assert_eq!(length.last(), None);
    }
}
