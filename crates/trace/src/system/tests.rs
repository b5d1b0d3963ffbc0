//! Round trips of the format, and refusal of damaged files.

use std::fs;
use std::path::{Path, PathBuf};

use doorbell_sim::memory::Walk;
use doorbell_sim::ports::{DmaDirection, DmaPurpose};
use doorbell_sim::{Op, OpClass, PhysAddr, Ps, TranslationFence};
use proptest::prelude::*;

use super::*;

pub(super) const PAGE: u64 = 4096;

pub(super) fn walk_of(virt: u64) -> Walk {
    let entry = |level: u64| PhysAddr(0x9000_0000 + (virt >> (39 - 9 * level) & 0x1ff) * 8 + level * PAGE);
    let mut walk = Walk { levels: 3, page_bytes: PAGE, ..Walk::default() };
    (0..3).for_each(|level| walk.entries[level as usize] = entry(level));
    walk
}

fn op() -> impl Strategy<Value = Op> {
    let class = prop::sample::select(vec![
        OpClass::Int,
        OpClass::Load,
        OpClass::Store,
        OpClass::Atomic,
        OpClass::Branch,
        OpClass::Return,
        OpClass::Device,
        OpClass::Fence,
    ]);
    (class, 0..40u64, 0..40u64, 0..6u64, any::<(u8, u8, [u8; 3])>(), any::<bool>()).prop_map(
        |(class, pc, virt, frames, (flags, destination, sources), ends)| {
            let (pc, virt) = (0x8000 + pc * 1000, 0xffff_0000 + virt * 1111);
            let place = |virt: u64| PhysAddr(0x8000_0000 + virt % PAGE + (virt / PAGE % 7 + frames) * PAGE);
            let mut op = Op { pc, fetch: place(pc), class, flags, destination, sources, ..Op::default() };
            op.length = if ends { 4 } else { 0 };
            if class.is_memory() || class == OpClass::Device {
                (op.virt, op.phys, op.size) = (virt, place(virt), 8);
            } else if class.is_branch() {
                op.virt = virt;
            }
            op
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let fence = (prop::option::of(any::<u64>()), prop::option::of(any::<u16>()))
        .prop_map(|(address, space)| TranslationFence { address, space });
    (any::<bool>(), prop::option::of(0..3u16), 0..3u64, prop::option::of(fence), 0..9u64).prop_map(
        |(trapped, space, thread, fence, slept)| {
            let slept = Ps(slept.saturating_sub(6) * 1_000_000);
            Step { trapped, space, thread, fence, slept }
        },
    )
}

pub(super) fn blocks() -> impl Strategy<Value = Vec<(u16, Step, Vec<Op>)>> {
    prop::collection::vec((0..2u16, step(), prop::collection::vec(op(), 0..12)), 0..40)
}

pub(super) fn event() -> impl Strategy<Value = DeviceEvent> {
    let purpose = prop::sample::select(DmaPurpose::ALL.to_vec());
    let dma = (purpose, any::<(bool, u64, u32, u64, u32)>(), any::<(u64, u64)>()).prop_map(
        |(purpose, (write, addr, len, frame, offset), (took, visible))| {
            let visible = if write { visible } else { 0 };
            let direction = if write { DmaDirection::Write } else { DmaDirection::Read };
            let (addr, took, len) = (PhysAddr(addr), Ps(took), len % (DMA_BYTES_MAX + 1));
            EventKind::Dma(Dma { purpose, direction, addr, len, frame, offset, took, visible })
        },
    );
    let what = prop_oneof![
        dma,
        any::<bool>().prop_map(|raised| EventKind::Interrupt { raised }),
        any::<u32>().prop_map(|bytes| EventKind::FrameIn { bytes }),
        any::<u32>().prop_map(|bytes| EventKind::FrameOut { bytes }),
        (any::<(u64, u8, u64)>(), any::<Option<(u16, u64)>>()).prop_map(|((addr, size, value), stored)| {
            let stored = stored.map(|(hart, after)| StoreOrigin { hart, after });
            EventKind::Register { addr: PhysAddr(addr), size, value, stored }
        }),
    ];
    (any::<(u8, u16, u64, u64)>(), what).prop_map(|((device, hart, after, since), mut what)| {
        // No write is visible before it happens.
        if let EventKind::Dma(dma) = &mut what
            && dma.is_write()
        {
            dma.visible = dma.visible.max(after);
        }
        DeviceEvent { device, hart, after, since: Ps(since), what }
    })
}

/// The event, anchored to an existing instruction.
fn within(event: DeviceEvent, has: &[u64]) -> DeviceEvent {
    let inside = |hart: u16, after: u64| (hart % 2, after % (has[usize::from(hart % 2)] + 1));
    let (hart, after) = inside(event.hart, event.after);
    let mut event = DeviceEvent { hart, after, ..event };
    if let EventKind::Register { stored: Some(stored), .. } = &mut event.what {
        (stored.hart, stored.after) = inside(stored.hart, stored.after);
    }
    event
}

pub(super) fn description() -> Description {
    Description { recorder: "a test".into(), isa: "riscv64".into(), harts: 2, ..Description::default() }
}

pub(super) fn write(path: &Path, blocks: &[(u16, Step, Vec<Op>)], events: &[DeviceEvent]) -> Counts {
    let mut writer = TraceWriter::create(path, &description()).unwrap();
    for (hart, step, ops) in blocks {
        writer.block(*hart, step, ops, &mut walk_of).unwrap();
    }
    events.iter().for_each(|event| writer.event(event).unwrap());
    writer.finish().unwrap()
}

/// Writes every block three times, with a hint where only its addresses differ.
fn write_three_times(path: &Path, blocks: &[(u16, Step, Vec<Op>)], by_number: bool) -> Vec<u8> {
    let mut writer = TraceWriter::create(path, &description()).unwrap();
    for time in 0..3 {
        for (shape, (hart, step, ops)) in (0..).zip(blocks) {
            let mut ops = ops.clone();
            for op in ops.iter_mut().filter(|op| op.class.is_memory() && op.virt != op.phys.0) {
                // Other pages too, some in other frames.
                op.virt += time * 0x1008;
                op.phys.0 += time % 2 * 0x1000 + time * 8;
            }
            let again = by_number.then(|| BlockHint { shape, instructions: instructions(&ops) });
            writer.block_with_hint(*hart, step, again, &ops, &mut walk_of).unwrap();
        }
    }
    writer.finish().unwrap();
    fs::read(path).unwrap()
}

/// Blocks may have been divided: splits them into single ops, each with its own step.
pub(super) fn single_ops(steps: impl Iterator<Item = (Step, Vec<Op>)>) -> Vec<(Option<Op>, Step)> {
    let mut all = Vec::new();
    for (step, ops) in steps {
        let (last, inner) =
            (ops.len().saturating_sub(1), Step { trapped: false, fence: None, slept: Ps(0), ..step });
        if ops.is_empty() {
            all.push((None, step));
        }
        for (at, op) in ops.iter().enumerate() {
            let (fence, slept) = if at == 0 { (step.fence, step.slept) } else { (None, Ps(0)) };
            all.push((Some(*op), Step { trapped: step.trapped && at == last, fence, slept, ..inner }));
        }
    }
    all
}

pub(super) fn read(file: &TraceFile, hart: u16) -> Vec<(Step, Vec<Op>)> {
    let mut reader = file.hart(hart, 0).unwrap();
    let (mut all, mut ops) = (Vec::new(), Vec::new());
    while let Some(step) = reader.next(&mut ops).unwrap() {
        for op in ops.iter().filter(|op| op.pc != op.fetch.0) {
            assert_eq!(reader.walk(op.pc), walk_of(op.pc / PAGE * PAGE));
        }
        all.push((step, std::mem::take(&mut ops)));
    }
    all
}

pub(super) fn scratch() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.dbt");
    (folder, path)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]
    #[test]
    fn block_hints_do_not_change_the_file(blocks in blocks()) {
        let (_folder, path) = scratch();
        prop_assert!(write_three_times(&path, &blocks, true) == write_three_times(&path, &blocks, false));
    }

    #[test]
    fn written_traces_are_read_back(blocks in blocks(), events in prop::collection::vec(event(), 0..30)) {
        let (_folder, path) = scratch();
        let has = write(&path, &blocks, &[]).instructions;
        let events: Vec<_> = events.into_iter().map(|event| within(event, &has)).collect();
        let counts = write(&path, &blocks, &events);
        let file = TraceFile::open(&path).unwrap();
        prop_assert_eq!(file.description(), &description());
        prop_assert_eq!(file.check().unwrap(), counts);
        for hart in 0..2 {
            let own = blocks.iter().filter(|(of, ..)| *of == hart);
            let written = single_ops(own.map(|(_, step, ops)| (*step, ops.clone())));
            prop_assert_eq!(single_ops(read(&file, hart).into_iter()), written);
        }
        let mut reader = file.devices().unwrap();
        let found: Vec<_> = std::iter::from_fn(|| reader.next().unwrap()).collect();
        prop_assert_eq!(found, events);
    }

    #[test]
    fn damaged_files_are_errors_and_never_panic(blocks in blocks(), at in any::<prop::sample::Index>(), bit in 0..8u8) {
        let (_folder, path) = scratch();
        write(&path, &blocks, &[]);
        let mut bytes = fs::read(&path).unwrap();
        let at = at.index(bytes.len());
        // Reserved bytes are not checked.
        prop_assume!(!(12..16).contains(&at));
        bytes[at] ^= 1 << bit;
        fs::write(&path, &bytes).unwrap();
        prop_assert!(TraceFile::open(&path).and_then(|file| file.check()).is_err());
    }

    #[test]
    fn arbitrary_columns_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), cuts in any::<[u8; 5]>()) {
        let mut cuts = cuts.map(|cut| usize::from(cut) * bytes.len() / 256);
        cuts.sort_unstable();
        let bounds = [0, cuts[0], cuts[1], cuts[2], cuts[3], cuts[4], bytes.len()];
        let columns = || std::array::from_fn(|part| bytes[bounds[part]..bounds[part + 1]].to_vec());
        let mut hart = super::hart::HartDecoder::new(columns());
        let mut addresses = Vec::new();
        while let Ok(Some(_)) = hart.next(&mut addresses, &mut Extent::default(), &mut Vec::new()) {}
        let mut devices = super::device::DeviceDecoder::new(columns());
        while let Ok(Some(_)) = devices.next() {}
    }
}

fn refusal(bytes: &[u8]) -> String {
    let (_folder, path) = scratch();
    fs::write(&path, bytes).unwrap();
    TraceFile::open(&path).and_then(|file| file.check()).expect_err("it is refused").to_string()
}

#[test]
fn files_that_are_no_traces_are_recognised() {
    assert!(refusal(b"").contains("the file is empty"));
    assert!(refusal(b"\x7fELF and so on").contains("a program"));
    assert!(
        refusal(&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]).contains("packet capture")
    );
    assert!(refusal(b"hello, world of traces").contains("does not begin with"));
    assert!(refusal(b"DBtr").contains("cut off") && refusal(b"DBtrace\n\x02\0").contains("cut off"));
    assert!(refusal(b"DBtrace\n\x04\0\0\0\0\0\0\0").contains("version 4"));
}

#[test]
fn truncated_files_are_refused() {
    let (_folder, path) = scratch();
    let block = (0, Step::default(), vec![Op { length: 4, ..Op::default() }; 5]);
    write(&path, &[block.clone(), block], &[]);
    let bytes = fs::read(&path).unwrap();
    for length in 0..bytes.len() {
        refusal(&bytes[..length]);
    }
}

#[test]
fn unfinished_writer_keeps_the_previous_file() {
    let (folder, path) = scratch();
    fs::write(&path, "before").unwrap();
    drop(TraceWriter::create(&path, &description()).unwrap());
    let names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!((names, fs::read(&path).unwrap()), (vec!["a.dbt".into()], b"before".to_vec()));
}

#[test]
fn reading_starts_at_the_chunk_of_an_instruction() {
    let (_folder, path) = scratch();
    let ops = vec![Op { pc: 0x1000, fetch: PhysAddr(0x1000), length: 4, ..Op::default() }; 4096];
    let mut writer = TraceWriter::create(&path, &description()).unwrap();
    for _ in 0..2200 {
        writer.block(1, &Step::default(), &ops, &mut walk_of).unwrap();
    }
    writer.finish().unwrap();
    let file = TraceFile::open(&path).unwrap();
    for (from, begins) in [(0, 0), (CHUNK_INSTRUCTIONS - 1, 0), (CHUNK_INSTRUCTIONS, CHUNK_INSTRUCTIONS)] {
        let mut reader = file.hart(1, from).unwrap();
        assert_eq!(reader.position(), begins);
        assert!(reader.next(&mut Vec::new()).unwrap().is_some());
    }
    assert!(file.hart(1, 2200 * 4096).unwrap().next(&mut Vec::new()).unwrap().is_none());
    assert!(matches!(file.hart(2, 0), Err(TraceError::NoHart { hart: 2, harts: 2 })));
    // All blocks are equal, so the file is tiny.
    assert!(file.bytes() < 9_000, "{}", file.bytes());
}

#[test]
fn pages_match_the_current_block_despite_decode_ahead() {
    const BLOCKS: u64 = 20_000;
    let (_folder, path) = scratch();
    // Each block has its page in another frame, with another walk.
    let walk_at = |block: u64| {
        let mut walk = Walk { levels: 1, page_bytes: PAGE, ..Walk::default() };
        walk.entries[0] = PhysAddr(0x9000_0000 + 8 * block);
        walk
    };
    let fetch = |block: u64| PhysAddr(0x8000_0000 + block * PAGE);
    let step = Step { space: Some(1), ..Step::default() };
    let mut writer = TraceWriter::create(&path, &description()).unwrap();
    for block in 0..BLOCKS {
        let op = Op { pc: PAGE, fetch: fetch(block), length: 4, ..Op::default() };
        writer.block(0, &step, &[op], &mut |_| walk_at(block)).unwrap();
    }
    writer.finish().unwrap();
    let mut reader = TraceFile::open(&path).unwrap().hart(0, 0).unwrap();
    assert_eq!(reader.walk(PAGE), Walk::default(), "no walk before the first block");
    for block in 0..BLOCKS {
        assert!(reader.advance().unwrap().is_some());
        assert_eq!(reader.step(), step);
        assert_eq!((reader.ops()[0].fetch, reader.position()), (fetch(block), block + 1));
        assert_eq!(reader.walk(PAGE), walk_at(block));
    }
    assert_eq!((reader.advance().unwrap(), reader.advance().unwrap()), (None, None));
}

#[test]
fn event_after_a_missing_instruction_is_a_contradiction() {
    let (_folder, path) = scratch();
    let block = (1, Step::default(), vec![Op { length: 4, ..Op::default() }; 5]);
    let event = |hart, after| DeviceEvent {
        device: 0,
        hart,
        after,
        since: Ps::ZERO,
        what: EventKind::Interrupt { raised: true },
    };
    let checked = |hart, after| {
        write(&path, std::slice::from_ref(&block), &[event(hart, after)]);
        TraceFile::open(&path).unwrap().check().map(drop)
    };
    assert!(checked(1, 5).is_ok() && checked(0, 0).is_ok());
    for (hart, after) in [(1, 6), (0, 1), (2, 0)] {
        assert!(matches!(checked(hart, after), Err(TraceError::Contradiction { .. })), "{hart} {after}");
    }
}

#[test]
fn wrong_op_total_is_reported_as_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("total");
    let mut writer = TraceWriter::create(&path, &Description { harts: 1, ..Description::default() }).unwrap();
    writer.block(0, &Step::default(), &[Op::default(); 3], &mut |_| Walk::default()).unwrap();
    writer.finish().unwrap();
    let mut file = TraceFile::open(&path).unwrap();
    assert!(file.compare_ops(3).is_ok() && file.check().is_ok());
    file.index.counts.ops += 1;
    for read in [file.compare_ops(3), file.check().map(|_| ())] {
        assert!(matches!(read, Err(TraceError::Damaged { .. })), "{read:?}");
    }
}

#[test]
fn impossible_dma_events_are_reported_as_damage() {
    let (_folder, path) = scratch();
    let block = (0, Step::default(), vec![Op { length: 4, ..Op::default() }; 5]);
    let read = |direction, len, visible| {
        let (purpose, addr) = (DmaPurpose::RxData, PhysAddr(0x8000_0000));
        let dma = Dma { purpose, direction, addr, len, frame: 0, offset: 0, took: Ps::ZERO, visible };
        let event = DeviceEvent { device: 3, hart: 0, after: 4, since: Ps::ZERO, what: EventKind::Dma(dma) };
        self::write(&path, std::slice::from_ref(&block), &[event]);
        let file = TraceFile::open(&path).unwrap();
        let (checked, played) = (file.check(), file.devices().unwrap().next());
        match (checked, played) {
            (Ok(_), Ok(_)) => true,
            (Err(TraceError::Damaged { what, .. }), Err(TraceError::Damaged { .. })) => {
                assert!(what.contains("device 3"), "{what}");
                false
            }
            (checked, played) => panic!("{checked:?}, and {played:?}"),
        }
    };
    const READ: DmaDirection = DmaDirection::Read;
    const WRITE: DmaDirection = DmaDirection::Write;
    assert!(read(WRITE, DMA_BYTES_MAX, 4) && read(WRITE, 64, 5) && read(READ, DMA_BYTES_MAX, 0));
    assert!(!read(WRITE, DMA_BYTES_MAX + 1, 4), "larger than a request may be");
    assert!(!read(READ, DMA_BYTES_MAX + 1, 0));
    assert!(!read(WRITE, 64, 3), "visible before it happens");
}

#[test]
fn bytes_outside_any_chunk_are_refused() {
    let (_folder, path) = scratch();
    let op = Op { length: 4, ..Op::default() };
    write(&path, &[(0, Step::default(), vec![op]), (1, Step::default(), vec![op])], &[]);
    let bytes = fs::read(&path).unwrap();
    let message = refusal(&[&bytes[..], &bytes].concat());
    assert!(message.contains("between the index and the file's end"), "{message}");
    // Extra bytes before the index, whose offset is at the end of the file.
    let at = u64::from_le_bytes(bytes[bytes.len() - 16..bytes.len() - 8].try_into().unwrap());
    let (chunks, rest) = bytes.split_at(at as usize);
    let moved = [&(at + 3).to_le_bytes(), &bytes[bytes.len() - 8..]].concat();
    let message = refusal(&[chunks, b"and", &rest[..rest.len() - 16], &moved].concat());
    assert!(message.contains("do not fill the file up to it"), "{message}");
}

/// A DMA request, four bytes at an address in RAM.
fn request(purpose: DmaPurpose, direction: DmaDirection) -> EventKind {
    let (addr, took, visible) = (PhysAddr(0x8000_0000), Ps(5), u64::from(direction == DmaDirection::Write));
    EventKind::Dma(Dma { purpose, direction, addr, len: 4, frame: 0, offset: 0, took, visible })
}

#[test]
fn earlier_versions_refuse_events_that_they_do_not_define() {
    use DmaDirection::{Read, Write};
    let (_folder, path) = scratch();
    let store = |stored| EventKind::Register { addr: PhysAddr(0x4000_2818), size: 4, value: 1, stored };
    let block = (0, Step::default(), vec![Op { length: 4, ..Op::default() }]);
    for (what, first, number) in [
        (store(None), 1, 0),
        (request(DmaPurpose::TxData, Read), 1, 15),
        (store(Some(StoreOrigin { hart: 0, after: 1 })), 2, 17),
        (request(DmaPurpose::Ring, Read), 3, 18),
        (request(DmaPurpose::Interrupt, Write), 3, 23),
    ] {
        let event = DeviceEvent { device: 0, hart: 0, after: 1, since: Ps(0), what };
        write(&path, std::slice::from_ref(&block), &[event]);
        for version in OLDEST..=VERSION {
            let mut bytes = fs::read(&path).unwrap();
            bytes[8] = version as u8;
            fs::write(&path, &bytes).unwrap();
            let message = format!("an event of number {number}, which");
            match TraceFile::open(&path).unwrap().check() {
                Ok(_) => assert!(version >= first, "number {number} in version {version}"),
                Err(error) => assert!(version < first && error.to_string().contains(&message), "{error}"),
            }
        }
    }
}

#[test]
fn dma_events_have_the_numbers_of_the_format() {
    use DmaDirection::{Read, Write};
    let numbers = DmaPurpose::ALL
        .map(|purpose| [Read, Write].map(|direction| super::device::number(&request(purpose, direction))));
    // A NIC's requests have the numbers of versions 1 and 2: 5 + 2 k for reads, 6 + 2 k for writes of kind k.
    assert_eq!(numbers, [[5, 8], [9, 10], [11, 14], [15, 16], [18, 19], [20, 21], [22, 23]]);
}

#[test]
fn pipes_are_refused_without_blocking() {
    let error = TraceFile::open(Path::new("/dev/zero")).err().expect("it is not a regular file");
    assert!(error.to_string().contains("write the output to a file"), "{error}");
}
