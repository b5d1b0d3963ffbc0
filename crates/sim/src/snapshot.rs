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
    /// The section decodes to an invalid state.
    #[error("the section \"{name}\" is inconsistent: {problem}")]
    Inconsistent {
        /// Which section.
        name: String,
        /// Description of the problem.
        problem: String,
    },
}

/// One component's saved state: encoded bytes, their version and their hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct Section {
    name: String,
    version: u32,
    hash: u64,
    #[serde(with = "byte_string")]
    bytes: Vec<u8>,
}

/// Serde helper that encodes bytes as one string. Postcard writes the same encoding for a list of numbers,
/// but byte by byte, which is many times slower.
pub mod byte_string {
    use std::fmt;

    use serde::de::{Deserializer, Error, Visitor};
    use serde::ser::Serializer;

    /// Serialises the bytes.
    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    /// Deserialises the bytes.
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
    /// Scratch buffer for encoding if only the sections' hashes are kept.
    #[serde(skip)]
    hashed_in: Option<Vec<u8>>,
}

impl Snapshot {
    /// A snapshot without sections.
    pub fn new() -> Snapshot {
        Snapshot::default()
    }

    /// A snapshot whose sections keep only their hashes: much cheaper when states are compared but not saved.
    pub fn of_hashes() -> Snapshot {
        Snapshot { sections: Vec::new(), hashed_in: Some(Vec::new()) }
    }

    /// Adds a component's state. Each name may be used only once.
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

    /// Whether a section of this name exists.
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

    /// Keeps older checkpoints readable, and lets [`byte_string`] be removed later.
    #[test]
    fn byte_string_encodes_like_a_list_of_bytes() {
        #[derive(Serialize, serde::Deserialize, PartialEq, Debug)]
        struct Piece(#[serde(with = "byte_string")] Vec<u8>);
        let bytes: Vec<u8> = (0..300u32).map(|byte| byte as u8).collect();
        for count in [0, 1, 127, 128, 300] {
            let list = postcard::to_stdvec(&bytes[..count]).unwrap();
            assert_eq!(postcard::to_stdvec(&Piece(bytes[..count].to_vec())).unwrap(), list);
            assert_eq!(postcard::from_bytes::<Piece>(&list).unwrap().0, bytes[..count]);
            assert!(count == 0 || postcard::from_bytes::<Piece>(&list[..count]).is_err());
        }
    }

    #[test]
    fn hash_only_snapshot_has_same_hashes_as_full_snapshot() {
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
    fn state_is_read_only_with_matching_name_version_and_hash() {
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
