//! The header of a RISC-V Linux kernel, a raw "Image".
//!
//! Document: Linux, "Boot image header in RISC-V Linux"; for detecting truncated files, Microsoft's PE/COFF
//! specification (an Image with the EFI stub has a section table). Compressed kernels and ELF files are
//! recognised only for a helpful error message.

/// Bytes of the header.
pub const HEADER_BYTES: usize = 64;
/// Kernels load at a multiple of this from the start of RAM.
pub const ALIGNMENT: u64 = 2 << 20;
const MAGIC: &[u8] = b"RSC\x05";
const MAGIC_OFFSET: usize = 0x38;
const BIG_ENDIAN_FLAG: u64 = 1;

/// The fields of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinuxImage {
    /// Load offset from the start of RAM.
    pub text_offset: u64,
    /// Memory needed from there; with zero-initialised data, more than the file's size.
    pub memory_bytes: u64,
}

/// Reasons why a file is not a bootable kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The file has no RISC-V Image header.
    #[error("the kernel is not a raw RISC-V Image{hint}")]
    NotAnImage {
        /// The apparent file type.
        hint: &'static str,
    },
    /// The file is truncated.
    #[error("the kernel is truncated: the file has {found} bytes, its header states {expected}")]
    Truncated {
        /// The file's size.
        found: u64,
        /// The size according to the header.
        expected: u64,
    },
    /// The header contradicts itself.
    #[error("the kernel's header is damaged: {0}")]
    Damaged(&'static str),
}

fn hint(bytes: &[u8]) -> &'static str {
    match bytes {
        [] => " (the file is empty)",
        [0x7f, b'E', b'L', b'F', ..] => " (it is an ELF file: use arch/riscv/boot/Image)",
        [0x1f, 0x8b, ..] => " (it is compressed with gzip: unpack it first)",
        [0xfd, b'7', b'z', b'X', b'Z', ..] => " (it is compressed with xz: unpack it first)",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => " (it is compressed with zstd: unpack it first)",
        [b'M', b'Z', _, _, b'z', b'i', b'm', b'g', ..] => {
            " (it is a compressed EFI kernel: use the raw Image)"
        }
        _ => ": it lacks the magic number",
    }
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// The end of the last section of an EFI executable, which is the least file size. `None` if the file is not
/// one, or its tables do not fit into the file.
fn pe_file_bytes(bytes: &[u8]) -> Option<u64> {
    let pe = u32_at(bytes, 0x3c)? as usize;
    if pe > 0x1000 || bytes.get(pe..pe + 4)? != b"PE\0\0" {
        return None;
    }
    let sections = usize::from(u16_at(bytes, pe + 6)?);
    let first = pe + 24 + usize::from(u16_at(bytes, pe + 20)?);
    let mut end = 0;
    for section in 0..sections {
        let at = first + 40 * section;
        let size = u64::from(u32_at(bytes, at + 16)?);
        end = end.max(size + u64::from(u32_at(bytes, at + 20)?));
    }
    Some(end)
}

impl LinuxImage {
    /// Reads and checks the header of a kernel file.
    pub fn parse(bytes: &[u8]) -> Result<LinuxImage, ImageError> {
        let found = bytes.len() as u64;
        if bytes.get(MAGIC_OFFSET..MAGIC_OFFSET + MAGIC.len()) != Some(MAGIC) {
            return Err(ImageError::NotAnImage { hint: hint(bytes) });
        }
        let truncated = |expected| ImageError::Truncated { found, expected };
        let field = |at| u64_at(bytes, at).ok_or(truncated(HEADER_BYTES as u64));
        let (text_offset, image_bytes, flags) = (field(8)?, field(16)?, field(24)?);
        if found < HEADER_BYTES as u64 {
            return Err(truncated(HEADER_BYTES as u64));
        }
        if let Some(expected) = pe_file_bytes(bytes).filter(|expected| found < *expected) {
            return Err(truncated(expected));
        }
        if flags & BIG_ENDIAN_FLAG != 0 {
            return Err(ImageError::Damaged("it is for a big-endian machine"));
        }
        if text_offset == 0 || !text_offset.is_multiple_of(ALIGNMENT) {
            return Err(ImageError::Damaged("its load offset is not a multiple of 2 MiB"));
        }
        if image_bytes == 0 || image_bytes > 1 << 32 || text_offset > 1 << 32 {
            return Err(ImageError::Damaged("its size or load offset is impossible"));
        }
        Ok(LinuxImage { text_offset, memory_bytes: image_bytes.max(found) })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A header according to the kernel's documentation, padded to `file_bytes`.
    pub(crate) fn image(text_offset: u64, image_bytes: u64, file_bytes: usize) -> Vec<u8> {
        let mut bytes = vec![0; file_bytes.max(64)];
        bytes[8..16].copy_from_slice(&text_offset.to_le_bytes());
        bytes[16..24].copy_from_slice(&image_bytes.to_le_bytes());
        bytes[32] = 2;
        bytes[0x30..0x35].copy_from_slice(b"RISCV");
        bytes[0x38..0x3c].copy_from_slice(&[0x52, 0x53, 0x43, 0x05]);
        bytes
    }

    fn with_sections(mut bytes: Vec<u8>, sections: &[(u32, u32)]) -> Vec<u8> {
        bytes[0x3c] = 0x40;
        bytes[0x40..0x44].copy_from_slice(b"PE\0\0");
        bytes[0x46] = sections.len() as u8;
        bytes[0x54] = 0x10;
        for (i, (start, size)) in sections.iter().enumerate() {
            let at = 0x40 + 24 + 0x10 + 40 * i;
            bytes[at + 16..at + 20].copy_from_slice(&size.to_le_bytes());
            bytes[at + 20..at + 24].copy_from_slice(&start.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn a_valid_header_is_parsed_and_memory_covers_at_least_the_file() {
        let image_a = LinuxImage::parse(&image(0x20_0000, 0x9000, 0x1000)).unwrap();
        assert_eq!(image_a, LinuxImage { text_offset: 0x20_0000, memory_bytes: 0x9000 });
        assert_eq!(LinuxImage::parse(&image(0x20_0000, 0x1000, 0x1800)).unwrap().memory_bytes, 0x1800);
    }

    #[test]
    fn other_file_types_are_named() {
        for (bytes, expected) in [
            (&b"\x7fELF\x02"[..], "ELF"),
            (&[0x1f, 0x8b, 8], "gzip"),
            (b"MZ\0\0zimg", "EFI"),
            (&[], "empty"),
            (&[0; 4096], "magic"),
        ] {
            let error = LinuxImage::parse(bytes).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_truncated_kernel_is_detected_to_the_byte_by_its_section_table() {
        let whole = with_sections(image(0x20_0000, 0x9000, 0x3000), &[(0x1000, 0x1000), (0x2000, 0x1000)]);
        assert!(LinuxImage::parse(&whole).is_ok());
        let error = LinuxImage::parse(&whole[..0x2fff]).unwrap_err();
        assert_eq!(error, ImageError::Truncated { found: 0x2fff, expected: 0x3000 });
        assert!(matches!(LinuxImage::parse(&whole[..0x3d]), Err(ImageError::Truncated { .. })));
    }

    #[test]
    fn an_invalid_header_counts_as_damaged() {
        for (offset, size) in [(0, 0x9000), (0x1000, 0x9000), (0x20_0000, 0), (0x20_0000, u64::MAX)] {
            let result = LinuxImage::parse(&image(offset, size, 0x1000));
            assert!(matches!(result, Err(ImageError::Damaged(_))), "{offset:#x} {size:#x}");
        }
        let mut big_endian = image(0x20_0000, 0x9000, 0x1000);
        big_endian[24] = 1;
        assert!(LinuxImage::parse(&big_endian).is_err());
    }
}
