//! Handmade streams.

use super::*;

/// A stream of these records. The guest has 1 MiB of RAM and is in 64-bit mode, privileged, in address space
/// 0x1000.
pub(crate) fn stream_of(records: &[&[u8]]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend([0x80, 0x80, 0x40]);
    // The window begins 5 instructions after reset.
    bytes.extend([record::BEGIN, 5, record::STATE, 3, 0x80, 0x20]);
    bytes.extend(records.concat());
    bytes
}

/// A block at virtual address 0x1000, physical 0x2000: `mov rax, [rbx]`, `add [rcx], eax`, `jne 0x1000`.
pub(crate) const LOOP: &[u8] = &[
    record::DEFINE,
    0x80,
    0x20,
    0x81,
    0x40,
    0x86,
    0x40,
    3,
    3,
    0x48,
    0x8b,
    0x03,
    2,
    0x01,
    0x01,
    2,
    0x75,
    0xf9,
    0,
];

/// The first instruction loads 8 bytes at 0x3008, in page 5; the second loads 4 bytes at 0x3010.
pub(crate) const LOADS: &[u8] = &[0xac, 0x90, 0xc0, 1, 5, 0, 0xc8, 2, 0xa0, 0xc0, 1];
/// The store of the second instruction.
pub(crate) const STORE: &[u8] = &[0x89, 0];

fn items(bytes: &[u8]) -> Result<Vec<Item>, StreamError> {
    let mut stream = Stream::new(bytes)?;
    let mut items = Vec::new();
    loop {
        items.push(stream.read()?);
        if matches!(items.last(), Some(Item::End(_))) {
            return Ok(items);
        }
    }
}

#[test]
fn blocks_have_their_accesses() {
    let bytes = stream_of(&[LOOP, LOADS, STORE, &[record::END, 3]]);
    let mut stream = Stream::new(&bytes[..]).unwrap();
    assert_eq!(stream.read().unwrap(), Item::Begin);
    assert_eq!(stream.read().unwrap(), Item::State { is_privileged: true, space: 0x1000 });
    assert_eq!(stream.read().unwrap(), Item::Block(0, 3));
    let physical: Vec<u64> = stream.instructions(0).iter().map(|bytes| bytes.physical).collect();
    assert_eq!(physical, [0x2000, 0x2003, 0x2005]);
    let (mut accesses, mut devices) = (Vec::new(), Vec::new());
    stream.exchange(&mut accesses, &mut devices);
    let found: Vec<(u32, u64, u64, u8, bool)> = accesses
        .iter()
        .map(|access| (access.instruction, access.virt, access.phys, access.size, access.is_store))
        .collect();
    assert_eq!(
        found,
        [(0, 0x3008, 0x5008, 8, false), (1, 0x3010, 0x5010, 4, false), (1, 0x3010, 0x5010, 4, true)]
    );
    assert_eq!(stream.read().unwrap(), Item::End(3));
    assert_eq!(stream.read().unwrap(), Item::End(3));
}

#[test]
fn device_events_are_inside_or_between_blocks() {
    let dma: &[u8] = &[record::DMA, 1, 2, 0x80, 0x01, 0x40];
    let bytes = stream_of(&[LOOP, dma, &[record::SLEPT, 5], dma, &[record::AGAIN], &[record::END, 3]]);
    let refused = items(&bytes);
    // The first block has no successor yet.
    assert!(matches!(refused, Err(StreamError::Damaged { what: "an undefined block", .. })));
    let bytes = stream_of(&[LOOP, dma, &[record::SLEPT, 5], dma, &[record::BLOCK, 0], &[record::END, 3]]);
    let device = Device::Dma { is_write: true, addr: 128, bytes: 64 };
    assert_eq!(
        items(&bytes).unwrap()[2..],
        [Item::Block(0, 3), Item::Slept(5), Item::Device(device), Item::Block(0, 3), Item::End(3)]
    );
}

#[test]
fn damaged_streams_never_panic() {
    let trap = [record::TRAP, 1, 0x80, 0x20];
    let whole =
        stream_of(&[LOOP, LOADS, STORE, &trap, &[record::BLOCK, 0, record::CUT, 1], &[record::END, 4]]);
    assert!(items(&whole).is_ok());
    for length in 0..whole.len() {
        let error = items(&whole[..length]).unwrap_err();
        let is_reported = matches!(error, StreamError::Truncated { .. } | StreamError::Foreign);
        assert!(is_reported, "{length}: {error}");
    }
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut other = whole.clone();
            other[at] ^= 1 << bit;
            let _ = items(&other);
        }
    }
}

#[test]
fn window_before_64_bit_mode_is_refused() {
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, record::BEGIN, 0, record::STATE, 0, 0]);
    assert!(matches!(items(&bytes), Err(StreamError::Not64Bit)));
}
