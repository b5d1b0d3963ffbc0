//! Splits a checkpoint into its parts and reassembles it with correct hashes. The layout is deliberately
//! defined here a second time, to check that a layout change comes with a new version.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// Magic bytes, then the version (4), a hash of the rest (8), and the rest, compressed with zstd.
pub const MAGIC_BYTES: usize = 16;
/// Offset of the compressed payload.
pub const PAYLOAD_AT: usize = MAGIC_BYTES + 12;

/// One component's state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Section {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: u32,
    hash: u64,
    /// The state in postcard's format.
    pub bytes: Vec<u8>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Head {
    guest_hash: u64,
    guest: String,
    note: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Body {
    head: Head,
    sections: Vec<Section>,
    pages: Vec<u64>,
}

/// A checkpoint in its parts.
#[derive(Clone, Debug)]
pub struct Container {
    header: [u8; MAGIC_BYTES + 4],
    head: Head,
    /// The sections in order.
    pub sections: Vec<Section>,
    /// Numbers of the stored pages.
    pub pages: Vec<u64>,
    /// The pages' contents.
    pub contents: Vec<u8>,
}

impl Container {
    /// Splits a valid checkpoint.
    pub fn open(file: &[u8]) -> Container {
        let payload = zstd::decode_all(&file[PAYLOAD_AT..]).expect("a checkpoint just saved is valid");
        let (length, rest) = payload.split_first_chunk::<8>().expect("a payload has a length");
        let (body, contents) = rest.split_at(u64::from_le_bytes(*length) as usize);
        let body: Body = postcard::from_bytes(body).expect("the layout matches this module");
        Container {
            header: file[..MAGIC_BYTES + 4].try_into().expect("a checkpoint has a header"),
            head: body.head,
            sections: body.sections,
            pages: body.pages,
            contents: contents.to_vec(),
        }
    }

    /// The payload before compression, with correct section hashes.
    pub fn payload(&self) -> Vec<u8> {
        let mut sections = self.sections.clone();
        for section in &mut sections {
            section.hash = xxh3_64(&section.bytes);
        }
        let body = Body { head: self.head.clone(), sections, pages: self.pages.clone() };
        let body = postcard::to_stdvec(&body).expect("a body serialises");
        let mut payload = (body.len() as u64).to_le_bytes().to_vec();
        payload.extend_from_slice(&body);
        payload.extend_from_slice(&self.contents);
        payload
    }

    /// A checkpoint with this compressed payload and its correct hash.
    pub fn wrap(&self, compressed: &[u8]) -> Vec<u8> {
        let mut file = self.header.to_vec();
        file.extend_from_slice(&xxh3_64(compressed).to_le_bytes());
        file.extend_from_slice(compressed);
        file
    }

    /// The complete checkpoint.
    pub fn close(&self) -> Vec<u8> {
        self.wrap(&compress(&self.payload()))
    }
}

/// Compresses a payload, as fast as possible.
pub fn compress(payload: &[u8]) -> Vec<u8> {
    zstd::encode_all(payload, -5).expect("compressing into memory does not fail")
}
