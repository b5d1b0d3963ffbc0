//! Conversion of a small stream to a trace.

use doorbell_sim::OpClass;
use doorbell_sim::ports::PhysAddr;
use doorbell_trace::system::{DeviceEvent, TraceFile};

use super::*;
use crate::replay;
use crate::stream::tests::stream_of;
use crate::target::TARGETS;

/// `mov [rax], ecx` at 0x1000, in a frame at 0x2000 whose walk reads four entries.
const STORE: &[u8] =
    &[3, 0x80, 0x20, 0x81, 0x40, 0x81, 0x40, 1, 2, 0x89, 0x08, 4, 12, 0x80, 4, 0x80, 8, 0x80, 12, 0x80, 16];
/// The tail of the first transmit ring, 0x3818, becomes 7.
const TAIL: &[u8] = &[8, 0, 1, 0x98, 0x70, 4, 7];
/// The store, to virtual 0x8000 and physical 0x103818.
const ACCESS: &[u8] = &[0x8b, 0x80, 0x80, 4, 0x98, 0xf0, 0x40, 7];
/// `hlt` at 0x1002, which sleeps for 5 ns, followed by an interrupt handler.
const HALT: &[u8] = &[3, 0x82, 0x20, 0x83, 0x40, 0x83, 0x40, 1, 1, 0xf4, 0];
const SLEPT: &[u8] = &[6, 5];
const HANDLER: &[u8] = &[3, 0x80, 0x80, 0x80, 0x80, 0xf8, 0xff, 0xff, 0xff, 0xff, 0x01, 0, 0, 1, 1, 0xc3, 0];
const INTERRUPT: &[u8] = &[8, 7, 1, 0];
const END: &[u8] = &[0, 3];

#[test]
fn recording_becomes_a_trace_with_events_in_place() {
    let bytes = stream_of(&[STORE, TAIL, ACCESS, HALT, INTERRUPT, SLEPT, HANDLER, END]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.dbt");
    let traced = replay::trace(&TARGETS[0], TARGETS[0].nic, &bytes[..], "a test".to_owned(), &path).unwrap();
    assert_eq!((traced.executed.instructions, traced.executed.interrupts), (3, 1));
    assert_eq!(traced.slept, Ps::from_ns(5));

    let file = TraceFile::open(&path).unwrap();
    assert_eq!(file.check().unwrap(), traced.trace);
    assert!(!file.description().timed && file.description().physical && file.description().isa == "x86_64");
    let mut reader = file.hart(0, 0).unwrap();
    let mut steps = Vec::new();
    let mut ops = Vec::new();
    while let Some(step) = reader.next(&mut ops).unwrap() {
        if steps.is_empty() {
            let walk = reader.walk(0x1000);
            assert_eq!((walk.levels, walk.page_bytes, walk.entries[3]), (4, 4096, PhysAddr(0x4000)));
        }
        steps.push((step.trapped, step.slept, ops.iter().map(|op| op.class).collect::<Vec<_>>()));
        ops.clear();
    }
    assert_eq!(
        steps,
        [
            (false, Ps::ZERO, vec![OpClass::Device]),
            (true, Ps::ZERO, vec![OpClass::Serialising]),
            (false, Ps::from_ns(5), vec![OpClass::Return]),
        ]
    );
    let mut events = file.devices().unwrap();
    let at = |after, what| DeviceEvent { device: 0, hart: 0, after, since: Ps::ZERO, what };
    let store = EventKind::Register { addr: PhysAddr(0x10_3818), size: 4, value: 7, stored: None };
    assert_eq!(events.next().unwrap(), Some(at(1, store)));
    assert_eq!(events.next().unwrap(), Some(at(2, EventKind::Interrupt { raised: true })));
    assert_eq!(events.next().unwrap(), None);
}

#[test]
fn conversion_is_deterministic_and_truncated_streams_leave_no_file() {
    let bytes = stream_of(&[STORE, TAIL, ACCESS, HALT, SLEPT, HANDLER, END]);
    let folder = tempfile::tempdir().unwrap();
    let trace = |name: &str, length: usize| {
        let path = folder.path().join(name);
        let result = replay::trace(&TARGETS[0], TARGETS[0].nic, &bytes[..length], "a test".to_owned(), &path);
        result.map(|_| std::fs::read(path).unwrap())
    };
    assert!(trace("one", bytes.len()).unwrap() == trace("other", bytes.len()).unwrap());
    assert!(trace("third", bytes.len() - 3).is_err());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}
