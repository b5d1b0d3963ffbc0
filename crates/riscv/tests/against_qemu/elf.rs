//! Static ELF executables for RISC-V (ELF-64 and the RISC-V psABI), with just what a loader needs.

use crate::program::{CODE, OUTPUT, SCRATCH, SCRATCH_BYTES, TABLES};

const HEADER: u64 = 64;
const SEGMENT: u64 = 56;
const PAGE: u64 = 4096;

/// A segment: address, bytes, size in memory, flags (4 read, 2 write, 1 execute).
pub struct Segment<'a> {
    pub addr: u64,
    pub bytes: &'a [u8],
    pub size: u64,
    flags: u32,
}

fn segments<'a>(code: &'a [u8], tables: &'a [u8], output: u64) -> [Segment<'a>; 4] {
    let page = |size: u64| size.next_multiple_of(PAGE).max(PAGE);
    [
        Segment { addr: CODE, bytes: code, size: code.len() as u64, flags: 7 },
        Segment { addr: TABLES, bytes: tables, size: page(tables.len() as u64), flags: 6 },
        Segment { addr: SCRATCH, bytes: &[], size: SCRATCH_BYTES, flags: 6 },
        Segment { addr: OUTPUT, bytes: &[], size: page(output), flags: 6 },
    ]
}

/// An executable that starts at [`CODE`].
pub fn build(code: &[u8], tables: &[u8], output: u64) -> Vec<u8> {
    let segments = segments(code, tables, output);
    let mut elf = Vec::new();
    elf.extend_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let half = |elf: &mut Vec<u8>, value: u16| elf.extend_from_slice(&value.to_le_bytes());
    let word = |elf: &mut Vec<u8>, value: u32| elf.extend_from_slice(&value.to_le_bytes());
    let double = |elf: &mut Vec<u8>, value: u64| elf.extend_from_slice(&value.to_le_bytes());
    half(&mut elf, 2); // executable
    half(&mut elf, 243); // RISC-V
    word(&mut elf, 1);
    double(&mut elf, CODE);
    double(&mut elf, HEADER);
    double(&mut elf, 0);
    word(&mut elf, 0x5); // compressed instructions, double-float ABI
    for value in [HEADER as u16, SEGMENT as u16, segments.len() as u16, 0, 0, 0] {
        half(&mut elf, value);
    }
    let mut offset = PAGE;
    for segment in &segments {
        word(&mut elf, 1); // load
        word(&mut elf, segment.flags);
        for value in [offset, segment.addr, segment.addr, segment.bytes.len() as u64, segment.size, PAGE] {
            double(&mut elf, value);
        }
        offset += (segment.bytes.len() as u64).next_multiple_of(PAGE);
    }
    for segment in &segments {
        elf.resize((elf.len() as u64).next_multiple_of(PAGE) as usize, 0);
        elf.extend_from_slice(segment.bytes);
    }
    elf
}

/// The loadable parts of an executable made by [`build`]: address and bytes.
pub fn loads(elf: &[u8]) -> Vec<(u64, &[u8])> {
    let double = |at: usize| u64::from_le_bytes(elf[at..at + 8].try_into().expect("eight bytes"));
    (0..usize::from(elf[56]))
        .map(|index| HEADER as usize + index * SEGMENT as usize)
        .map(|at| {
            let (offset, len) = (double(at + 8) as usize, double(at + 32) as usize);
            (double(at + 16), &elf[offset..offset + len])
        })
        .collect()
}
