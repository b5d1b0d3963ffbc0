//! SHA-256 as lower-case hexadecimal digits, as in results, manifests and package lists.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

/// SHA-256 of bytes.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// SHA-256 and size of a file, read piecewise because captures and packages are large.
pub fn sha256_of(path: &Path) -> io::Result<(String, u64)> {
    let (mut file, mut hash, mut size) = (File::open(path)?, Sha256::new(), 0);
    let mut piece = vec![0; 1 << 16];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok((hex(&hash.finalize()), size)),
            count => {
                hash.update(&piece[..count]);
                size += count as u64;
            }
        }
    }
}

/// Hexadecimal digits of bytes.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
