//! Snapshots. Each component saves a *state*: a serde struct of its own, apart from the live one
//! and with a version. A snapshot is a list of named sections, each checked by a hash, so that a
//! truncated or damaged file is refused with the section's name and never half-restored.

use serde::Serialize;
use serde::de::DeserializeOwned;
use xxhash_rust::xxh3::xxh3_64;

/// Why a snapshot could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// The section is not in the file.
    #[error("the section \"{0}\" is missing")]
    Missing(String),
    /// The section was written by another version of the component.
    #[error("the section \"{name}\" has version {found}; this doorbell reads version {expected}")]
    Version {
        /// Which section.
        name: String,
        /// The version in the file.
        found: u32,
        /// The version this program writes.
        expected: u32,
    },
    /// The section does not decode, or its hash does not match.
    #[error("the section \"{0}\" is damaged")]
    Damaged(String),
    /// The section decodes, but says something impossible.
    #[error("the section \"{name}\" is inconsistent: {problem}")]
    Inconsistent {
        /// Which section.
        name: String,
        /// What is wrong.
        problem: String,
    },
}

/// One component's saved state: encoded bytes, their version and their hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct Section {
    name: String,
    version: u32,
    hash: u64,
    #[serde(with = "piece")]
    bytes: Vec<u8>,
}

/// Bytes as one piece. Postcard writes the same as for a list of numbers, but byte by byte it takes many times as long.
pub mod piece {
    use std::fmt;

    use serde::de::{Deserializer, Error, Visitor};
    use serde::ser::Serializer;

    /// Writes them.
    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    /// Reads them.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        deserializer.deserialize_bytes(Bytes)
    }

    struct Bytes;

    impl Visitor<'_> for Bytes {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("bytes")
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
            Ok(bytes.to_vec())
        }
    }
}

/// Named sections in the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct Snapshot {
    sections: Vec<Section>,
    /// Only the sections' hashes are wanted: their bytes are all made in this memory.
    #[serde(skip)]
    hashed_in: Option<Vec<u8>>,
}

impl Snapshot {
    /// A snapshot without sections.
    pub fn new() -> Snapshot {
        Snapshot::default()
    }

    /// One whose sections keep only their hashes: much cheaper, where states are compared and not saved.
    pub fn of_hashes() -> Snapshot {
        Snapshot { sections: Vec::new(), hashed_in: Some(Vec::new()) }
    }

    /// Adds a component's state. A name may stand only once.
    pub fn put<T: Serialize>(&mut self, name: &str, version: u32, state: &T) {
        assert!(
            self.sections.iter().all(|s| s.name != name),
            "the snapshot section {name} was written twice"
        );
        let memory = self.hashed_in.as_mut().map(std::mem::take).unwrap_or_default();
        let mut bytes = postcard::to_extend(state, memory).expect("a state struct serialises");
        let hash = xxh3_64(&bytes);
        if let Some(memory) = &mut self.hashed_in {
            *memory = std::mem::take(&mut bytes);
            memory.clear();
        }
        self.sections.push(Section { name: name.to_owned(), version, hash, bytes });
    }

    /// Whether a component's state is there.
    pub fn has(&self, name: &str) -> bool {
        self.sections.iter().any(|section| section.name == name)
    }

    /// Reads a component's state back.
    pub fn get<T: DeserializeOwned>(&self, name: &str, version: u32) -> Result<T, SnapshotError> {
        let section = self.sections.iter().find(|s| s.name == name);
        let section = section.ok_or_else(|| SnapshotError::Missing(name.to_owned()))?;
        if section.version != version {
            return Err(SnapshotError::Version {
                name: name.to_owned(),
                found: section.version,
                expected: version,
            });
        }
        if section.hash != xxh3_64(&section.bytes) {
            return Err(SnapshotError::Damaged(name.to_owned()));
        }
        match postcard::take_from_bytes(&section.bytes) {
            Ok((state, [])) => Ok(state),
            _ => Err(SnapshotError::Damaged(name.to_owned())),
        }
    }

    /// A hash over all sections: equal states have equal hashes.
    pub fn state_hash(&self) -> u64 {
        let mut all = Vec::with_capacity(self.sections.len() * 16);
        for section in &self.sections {
            all.extend_from_slice(&xxh3_64(section.name.as_bytes()).to_le_bytes());
            all.extend_from_slice(&section.hash.to_le_bytes());
        }
        xxh3_64(&all)
    }

    /// Each section's name and hash, to find what differs between two states.
    pub fn section_hashes(&self) -> impl Iterator<Item = (&str, u64)> {
        self.sections.iter().map(|section| (section.name.as_str(), section.hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So that older checkpoints are read, and [`piece`] can be left out again.
    #[test]
    fn bytes_in_one_piece_are_written_as_a_list_of_them() {
        #[derive(Serialize, serde::Deserialize, PartialEq, Debug)]
        struct Piece(#[serde(with = "piece")] Vec<u8>);
        let bytes: Vec<u8> = (0..300u32).map(|byte| byte as u8).collect();
        for count in [0, 1, 127, 128, 300] {
            let list = postcard::to_stdvec(&bytes[..count]).unwrap();
            assert_eq!(postcard::to_stdvec(&Piece(bytes[..count].to_vec())).unwrap(), list);
            assert_eq!(postcard::from_bytes::<Piece>(&list).unwrap().0, bytes[..count]);
            assert!(count == 0 || postcard::from_bytes::<Piece>(&list[..count]).is_err());
        }
    }

    #[test]
    fn a_snapshot_of_hashes_has_those_of_a_whole_one() {
        let [mut whole, mut hashes] = [Snapshot::new(), Snapshot::of_hashes()];
        for snapshot in [&mut whole, &mut hashes] {
            snapshot.put("clint", 2, &(7u64, "a longer one".to_owned()));
            snapshot.put("plic", 1, &[1u8, 2]);
        }
        assert!(whole.section_hashes().eq(hashes.section_hashes()));
        assert_eq!(whole.state_hash(), hashes.state_hash());
        assert!(hashes.get::<[u8; 2]>("plic", 1).is_err(), "it holds no states");
    }

    #[test]
    fn a_state_comes_back_only_under_its_name_and_version_and_unharmed() {
        let mut snapshot = Snapshot::new();
        snapshot.put("clint", 2, &(7u64, "x".to_owned()));
        assert_eq!(snapshot.get::<(u64, String)>("clint", 2).unwrap().0, 7);
        assert!(matches!(snapshot.get::<(u64, String)>("plic", 1), Err(SnapshotError::Missing(_))));
        assert!(matches!(
            snapshot.get::<(u64, String)>("clint", 3),
            Err(SnapshotError::Version { found: 2, .. })
        ));
        assert!(matches!(snapshot.get::<u64>("clint", 2), Err(SnapshotError::Damaged(_))));
        snapshot.sections[0].bytes[0] ^= 1;
        assert!(matches!(snapshot.get::<(u64, String)>("clint", 2), Err(SnapshotError::Damaged(_))));
    }
}
