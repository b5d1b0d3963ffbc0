//! Cutting and merging: parts hold what the whole trace does, and merged traces share no memory.

use std::path::Path;

use doorbell_sim::ports::{DmaDirection, DmaPurpose};
use doorbell_sim::{Op, OpClass, PhysAddr, Ps};
use proptest::prelude::*;

use super::tests::{PAGE, blocks, description, event, read, scratch, single_ops, walk_of, write};
use super::*;

type SingleOps = Vec<(Option<Op>, Step)>;

fn single_ops_of(file: &TraceFile, hart: u16) -> SingleOps {
    single_ops(read(file, hart).into_iter())
}

fn events_of(file: &TraceFile) -> Vec<DeviceEvent> {
    let mut reader = file.devices().unwrap();
    std::iter::from_fn(|| reader.next().unwrap()).collect()
}

/// Valid events: existing harts, anchors at existing instructions, frames numbered in order.
fn valid(counts: &Counts, events: Vec<DeviceEvent>) -> Vec<DeviceEvent> {
    let mut frames = [0; 256];
    let valid = events.into_iter().map(|mut event| {
        event.hart %= 2;
        event.after %= counts.instructions[usize::from(event.hart)] + 1;
        match &mut event.what {
            EventKind::Dma(dma) => {
                dma.purpose = DmaPurpose::RxData;
                dma.frame = frames[usize::from(event.device)];
                dma.visible = if dma.is_write() { event.after + dma.visible % 50 } else { 0 };
                frames[usize::from(event.device)] += 1;
            }
            // Issued by an existing instruction.
            EventKind::Register { stored, .. } => {
                let (hart, has) = (event.hart, counts.instructions[usize::from(event.hart)]);
                *stored =
                    stored.filter(|_| has > 0).map(|by| StoreOrigin { hart, after: 1 + by.after % has });
            }
            _ => {}
        }
        event
    });
    valid.collect()
}

fn cut_to(file: &TraceFile, path: &Path, from: u64, count: u64) -> (Cut, TraceFile) {
    let cut = cut(file, path, Window { hart: 0, from, count, single_hart: false }).unwrap();
    let part = TraceFile::open(path).unwrap();
    assert_eq!(part.check().unwrap(), cut.counts);
    (cut, part)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]
    #[test]
    fn two_cuts_partition_blocks_and_events(blocks in blocks(), events in prop::collection::vec(event(), 0..30), at in any::<prop::sample::Index>()) {
        let (folder, path) = scratch();
        let counts = write(&path, &blocks, &[]);
        prop_assume!(counts.instructions[0] > 1);
        let events = valid(&counts, events);
        write(&path, &blocks, &events);
        let whole = TraceFile::open(&path).unwrap();
        let all = counts.instructions[0];
        let at = 1 + at.index(all as usize - 1) as u64;
        let of = |name: &str| folder.path().join(name);

        let (_, same) = cut_to(&whole, &of("same.dbt"), 0, all + 5);
        prop_assert_eq!(events_of(&same), events_of(&whole));
        let (first_cut, first) = cut_to(&whole, &of("first.dbt"), 0, at);
        let (second_cut, second) = cut_to(&whole, &of("second.dbt"), at, u64::MAX);
        for hart in 0..2 {
            prop_assert_eq!(single_ops_of(&same, hart), single_ops_of(&whole, hart));
            let mut both = single_ops_of(&first, hart);
            both.extend(single_ops_of(&second, hart));
            prop_assert_eq!(both, single_ops_of(&whole, hart));
            prop_assert_eq!(first_cut.harts[usize::from(hart)].2, second_cut.harts[usize::from(hart)].1);
        }
        // Each part counts events from its own beginning; shifted back, both parts together equal the whole.
        let mut both = events_of(&first);
        both.extend(events_of(&second).into_iter().map(|mut event| {
            let from = second_cut.harts[usize::from(event.hart)].1;
            event.after += from;
            match &mut event.what {
                EventKind::Dma(dma) => dma.visible += if dma.is_write() { from } else { 0 },
                EventKind::Register { stored: Some(stored), .. } => stored.after += from,
                _ => {}
            }
            event
        }));
        // Each part numbers a device's frames from 0. Events of one device may have anchors on both harts,
        // which are cut at different places.
        let key = |event: &DeviceEvent| {
            let mut event = *event;
            let at = second_cut.harts[usize::from(event.hart)].1;
            match &mut event.what {
                EventKind::Dma(dma) => dma.frame = 0,
                // A store in the first part that arrives in the second loses its instruction.
                EventKind::Register { stored, .. } => {
                    *stored = stored.filter(|stored| (stored.after <= at) == (event.after < at));
                }
                _ => {}
            }
            format!("{event:?}")
        };
        let sorted = |events: &[DeviceEvent]| {
            let mut keys: Vec<String> = events.iter().map(key).collect();
            keys.sort();
            keys
        };
        prop_assert_eq!(sorted(&both), sorted(&events_of(&whole)));
    }

    #[test]
    fn merged_traces_keep_their_contents_in_disjoint_memory(blocks in blocks(), events in prop::collection::vec(event(), 0..30)) {
        let (folder, path) = scratch();
        let counts = write(&path, &blocks, &[]);
        // Realistic addresses and device numbers.
        let events: Vec<_> = valid(&counts, events).into_iter().map(|mut event| {
            event.device %= 3;
            if let EventKind::Dma(dma) = &mut event.what {
                (dma.addr.0, dma.len) = (0x8000_0000 + dma.addr.0 % (64 * PAGE), dma.len % PAGE as u32);
            }
            event
        }).collect();
        write(&path, &blocks, &events);
        let out = folder.path().join("both.dbt");
        let files = [TraceFile::open(&path).unwrap(), TraceFile::open(&path).unwrap()];
        let (merged, placed) = merge(&files, &out).unwrap();
        let both = TraceFile::open(&out).unwrap();
        prop_assert_eq!(&both.check().unwrap(), &merged);
        prop_assert_eq!(&both.description().beside, &vec![2, 2]);
        let [first, second] = &placed[..] else { panic!("two were placed") };
        prop_assert_eq!((first.moved, first.harts, second.harts), (0, (0, 2), (2, 2)));
        if !first.memory.is_empty() {
            prop_assert!(second.memory.low > first.memory.high);
        }
        for hart in 0..2 {
            let moved = |(op, step): (Option<Op>, Step)| {
                let op = op.map(|mut op| {
                    op.fetch.0 += second.moved;
                    op.phys.0 += if op.class.is_memory() { second.moved } else { 0 };
                    op
                });
                (op, step)
            };
            let was = single_ops_of(&files[0], hart);
            prop_assert_eq!(&single_ops_without_walks(&both, hart), &was);
            let was: SingleOps = was.into_iter().map(moved).collect();
            prop_assert_eq!(single_ops_without_walks(&both, hart + 2), was);
        }
        for (placed, number) in placed.iter().zip(0..) {
            let of = |event: &DeviceEvent| event.hart / 2 == number;
            let own: Vec<_> = events_of(&both).into_iter().filter(of).map(|mut event| {
                event.hart -= placed.harts.0;
                event.device = placed.devices.iter().find(|(_, now)| *now == event.device).unwrap().0;
                match &mut event.what {
                    EventKind::Dma(dma) => dma.addr.0 -= placed.moved,
                    EventKind::Register { stored: Some(stored), .. } => stored.hart -= placed.harts.0,
                    _ => {}
                }
                event
            }).collect();
            prop_assert_eq!(own, events.clone());
        }
    }
}

/// As `single_ops_of`, but without a check of the walks, which have moved.
fn single_ops_without_walks(file: &TraceFile, hart: u16) -> SingleOps {
    let mut reader = file.hart(hart, 0).unwrap();
    let (mut all, mut ops) = (Vec::new(), Vec::new());
    while let Some(step) = reader.next(&mut ops).unwrap() {
        all.push((step, std::mem::take(&mut ops)));
    }
    single_ops(all.into_iter())
}

fn mapped(pc: u64, frame: u64) -> Op {
    Op { pc, fetch: PhysAddr(frame * PAGE + pc % PAGE), length: 4, ..Op::default() }
}

fn load(op: Op, virt: u64, phys: u64) -> Op {
    Op { class: OpClass::Load, virt, phys: PhysAddr(phys), size: 8, ..op }
}

#[test]
fn cut_inside_a_block_drops_its_sleep_and_keeps_its_trap() {
    let (folder, path) = scratch();
    let slept = Step { slept: Ps::from_us(3), trapped: true, space: Some(7), thread: 5, ..Step::default() };
    let ops: Vec<Op> = (0..4).map(|n| mapped(0x4000 + 4 * n, 0x80001)).collect();
    write(&path, &[(0, slept, ops.clone()), (0, slept, ops.clone())], &[]);
    let file = TraceFile::open(&path).unwrap();
    let (_, part) = cut_to(&file, &folder.path().join("part.dbt"), 2, 4);
    let found = read(&part, 0);
    let inside = Step { slept: Ps::ZERO, ..slept };
    assert_eq!(found[0], (inside, ops[2..].to_vec()));
    assert_eq!(found[1], (Step { trapped: false, ..slept }, ops[..2].to_vec()));
    assert_eq!(found.len(), 2);
}

#[test]
fn single_hart_cut_keeps_its_events_and_renumbers_frames() {
    let (folder, path) = scratch();
    let ops: Vec<Op> = (0..10).map(|n| mapped(0x4000 + 4 * n, 0x80001)).collect();
    let frame = |hart, after, frame| {
        let dma = Dma {
            purpose: DmaPurpose::RxData,
            direction: DmaDirection::Write,
            addr: PhysAddr(0x8000_2000),
            len: 60,
            frame,
            offset: 0,
            took: Ps(5),
            visible: after + 1,
        };
        DeviceEvent { device: 0, hart, after, since: Ps(1), what: EventKind::Dma(dma) }
    };
    let events = [frame(1, 1, 0), frame(0, 2, 1), frame(1, 3, 2), frame(1, 10, 3)];
    let step = Step { space: Some(1), ..Step::default() };
    write(&path, &[(0, step, ops.clone()), (1, step, ops)], &events);
    let file = TraceFile::open(&path).unwrap();
    let out = folder.path().join("part.dbt");
    let cut = cut(&file, &out, Window { hart: 1, from: 3, count: 100, single_hart: true }).unwrap();
    assert_eq!((cut.harts, cut.events_dropped), (vec![(1, 3, 10)], 1));
    let part = TraceFile::open(&out).unwrap();
    assert_eq!(part.description().harts, 1);
    let found = events_of(&part).into_iter().map(|event| match event.what {
        EventKind::Dma(dma) => (event.hart, event.after, dma.visible, dma.frame),
        _ => panic!("only DMA events were written"),
    });
    // Events after the last instruction belong to the last part.
    assert_eq!(found.collect::<Vec<_>>(), [(0, 0, 1, 0), (0, 7, 8, 1)]);
}

#[test]
fn empty_window_is_refused_and_leaves_no_file() {
    let (folder, path) = scratch();
    write(&path, &[(0, Step::default(), vec![mapped(0x4000, 0x80001); 3])], &[]);
    let file = TraceFile::open(&path).unwrap();
    let out = folder.path().join("out.dbt");
    let refused = |hart, from, count| {
        cut(&file, &out, Window { hart, from, count, single_hart: false }).unwrap_err().to_string()
    };
    assert!(refused(0, 3, 1).contains("hart 0 has 3 instructions"));
    assert!(refused(0, 0, 0).contains("the window of 0 from number 0 is empty"));
    assert!(refused(1, 0, 1).contains("hart 1 has 0 instructions"));
    assert!(refused(2, 0, 1).contains("no hart 2"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn merge_moves_page_tables_but_not_device_registers() {
    let (folder, path) = scratch();
    let step = Step { space: Some(1), ..Step::default() };
    let register = Op { class: OpClass::Device, flags: Op::WRITES, ..load(mapped(0x5000, 0x80001), 0, 0) };
    let register = Op { virt: 0x4000_0018, phys: PhysAddr(0x4000_0018), ..register };
    let ops = vec![load(mapped(0x4000, 0x80001), 0x7008, 0x8000_3008)];
    write(&path, &[(0, step, ops), (0, step, vec![register])], &[]);
    let files = [TraceFile::open(&path).unwrap(), TraceFile::open(&path).unwrap()];
    let out = folder.path().join("both.dbt");
    let (_, placed) = merge(&files, &out).unwrap();
    let moved = placed[1].moved;
    assert!(moved.is_multiple_of(64 << 20) && moved > 0);
    // The walk's entries have the highest addresses.
    assert_eq!(placed[0].memory.high, walk_of(0x7000).entries[2].0 + 7);
    let mut reader = TraceFile::open(&out).unwrap().hart(2, 0).unwrap();
    let mut ops = Vec::new();
    reader.next(&mut ops).unwrap();
    assert_eq!(ops[0].phys, PhysAddr(0x8000_3008 + moved));
    assert_eq!(reader.walk(0x7000).entries[2].0, walk_of(0x7000).entries[2].0 + moved);
    ops.clear();
    reader.next(&mut ops).unwrap();
    assert_eq!((ops[0].phys, ops[0].fetch.0), (PhysAddr(0x4000_0018), 0x8000_1000 + moved));
}

#[test]
fn merge_renumbers_pci_and_platform_devices_separately() {
    let (folder, path) = scratch();
    let on = |device| DeviceEvent {
        device,
        hart: 0,
        after: 0,
        since: Ps::ZERO,
        what: EventKind::Interrupt { raised: true },
    };
    write(&path, &[], &[on(0), on(2), on(57)]);
    let files: Vec<_> = (0..4).map(|_| TraceFile::open(&path).unwrap()).collect();
    let out = folder.path().join("all.dbt");
    let (_, placed) = merge(&files, &out).unwrap();
    assert_eq!(placed[0].devices, [(0, 0), (2, 1), (57, 56)]);
    assert_eq!(placed[3].devices, [(0, 6), (2, 7), (57, 59)]);
    let nine: Vec<_> = (0..9).map(|_| TraceFile::open(&path).unwrap()).collect();
    assert!(merge(&nine, &out).unwrap_err().to_string().contains("more than 8 platform devices"));
    assert_eq!(description().beside, [0u16; 0]);
}

#[test]
fn cut_of_merged_traces_updates_harts_per_trace() {
    let (folder, path) = scratch();
    write(&path, &[0, 1].map(|hart| (hart, Step::default(), vec![mapped(0x1000, 0x8000_0000)])), &[]);
    let of = |name: &str| folder.path().join(name);
    let open = |name: &str| TraceFile::open(&of(name)).unwrap();
    let one = || TraceFile::open(&path).unwrap();
    merge(&[one(), one()], &of("two")).unwrap();
    assert_eq!(open("two").description().parts(), [0..2, 2..4]);
    let window = |hart, single_hart| Window { hart, from: 0, count: 1, single_hart };
    cut(&open("two"), &of("all"), window(0, false)).unwrap();
    assert_eq!(open("all").description().beside, [2, 2]);
    cut(&open("two"), &of("alone"), window(2, true)).unwrap();
    assert_eq!(open("alone").description().beside, [0u16; 0], "only one trace is left");
    merge(&[open("alone"), open("two")], &of("three")).unwrap();
    assert_eq!(open("three").description().parts(), [0..1, 1..3, 3..5]);

    let described = |harts, beside: &[u16]| Description { harts, beside: beside.to_vec(), ..description() };
    assert_eq!(described(3, &[0, 1, 0, 2]).parts(), [0..1, 1..3]);
    for impossible in [&[1][..], &[2, 2], &[u16::MAX, u16::MAX], &[]] {
        assert_eq!(described(3, impossible).parts(), std::slice::from_ref(&(0..3)), "{impossible:?}");
    }
}
