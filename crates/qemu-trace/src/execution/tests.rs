//! Execution of small streams.

use doorbell_sim::{Op, OpClass, Ps};
use doorbell_trace::system::{EventKind, TraceError};

use super::*;
use crate::stream::tests::{LOADS, LOOP, STORE, stream_of};
use crate::target::target;

#[derive(Default)]
struct Collector {
    ops: Vec<Op>,
    /// Events, each with the number of ops before it.
    events: Vec<(usize, Event)>,
}

impl Recorder for Collector {
    fn executed(&mut self, executed: &ExecutedOps<'_>) -> Result<(), TraceError> {
        self.ops.extend_from_slice(executed.ops);
        Ok(())
    }

    fn event(&mut self, event: Event) -> Result<(), TraceError> {
        self.events.push((self.ops.len(), event));
        Ok(())
    }
}

fn executed(records: &[&[u8]]) -> (Collector, Counts) {
    executed_on("x86_64", records)
}

fn executed_on(name: &str, records: &[&[u8]]) -> (Collector, Counts) {
    let target = target(name).unwrap();
    let bytes = stream_of(records);
    let mut collector = Collector::default();
    let counts = Execution::new(target, target.nic, &bytes[..]).unwrap().run(&mut collector).unwrap();
    (collector, counts)
}

fn classes(collector: &Collector) -> Vec<OpClass> {
    collector.ops.iter().map(|op| op.class).collect()
}

#[test]
fn instruction_becomes_loads_result_and_stores() {
    let (collector, counts) = executed(&[LOOP, LOADS, STORE, &[2, 0], &[4, 1], &[0, 4]]);
    use OpClass::{Branch, Int, Load, Store};
    // The second execution of the block began one instruction and did not finish it.
    assert_eq!(classes(&collector), [Load, Load, Int, Store, Branch]);
    assert_eq!(counts.instructions, 3);
    let [load, loaded, sum, store, branch] = collector.ops[..] else { panic!() };
    assert_eq!((load.destination, load.sources[0], load.length), (1, 4, 3));
    assert_eq!(sum.sources[..2], [load.destination, loaded.destination]);
    assert_eq!(store.sources, [loaded.sources[0], sum.destination, 0]);
    assert_eq!(branch.sources[0], sum.destination, "the flags have the name of the sum");
    assert_eq!([loaded.length, sum.length, store.length, branch.length], [0, 0, 2, 2]);
    assert!(branch.is_taken() && branch.next_pc() == 0x1000);
    assert!(collector.ops.iter().all(|op| op.flags & Op::PRIVILEGED != 0));
}

#[test]
fn device_events_stay_between_their_instructions() {
    let interrupt: &[u8] = &[8, 7, 2, 0];
    let (collector, _) = executed(&[LOOP, LOADS, STORE, interrupt, &[0, 3]]);
    let (at, _) = collector.events.iter().find(|(_, event)| matches!(event, Event::Device(_))).unwrap();
    assert_eq!(*at, 4, "after the second instruction's ops, before the branch");
}

/// `ret` at 0xffff_ffff_8000_0000.
const HANDLER: &[u8] = &[3, 0x80, 0x80, 0x80, 0x80, 0xf8, 0xff, 0xff, 0xff, 0xff, 0x01, 0, 0, 1, 1, 0xc3, 0];

#[test]
fn impossible_successors_are_inferred_traps() {
    let (collector, counts) = executed(&[LOOP, LOADS, STORE, HANDLER, &[0, 4]]);
    assert_eq!((counts.interrupts, counts.exceptions), (1, 0));
    assert!(collector.events.contains(&(5, Event::Trap(Trap::Interrupt))));
    // An instruction that should access memory but has not, followed by a handler, has faulted, so it has no
    // ops.
    let (collector, counts) = executed(&[LOOP, &[4, 1], HANDLER, &[0, 4]]);
    assert_eq!((counts.interrupts, counts.exceptions, counts.instructions), (0, 1, 1));
    assert!(collector.events.contains(&(0, Event::Trap(Trap::Exception))));
}

/// `hlt` at 0x1000.
const HALT: &[u8] = &[3, 0x80, 0x20, 0, 0, 1, 1, 0xf4, 0];

#[test]
fn wakeup_interrupt_follows_the_wait() {
    // It waits for 5 ns.
    let (interrupt, slept): (&[u8], &[u8]) = (&[8, 7, 1, 2], &[6, 5]);
    let (collector, counts) = executed(&[HALT, interrupt, slept, HANDLER, &[0, 2]]);
    let events: Vec<Event> = collector.events.iter().skip(1).map(|(_, event)| *event).collect();
    let raised = Event::Device(EventKind::Interrupt { raised: true });
    assert_eq!(events, [raised, Event::Waited(Ps::from_ns(5)), Event::Trap(Trap::Interrupt)]);
    assert_eq!(counts.interrupts, 1);
}

/// `call [rbx]` at 0x1000, which loads from 0x3008 in page 5 and stores to 0x4000 in page 6, then `jne
/// 0x1000`.
const CALLS: &[u8] = &[3, 0x80, 0x20, 0x81, 0x40, 0x81, 0x40, 1, 2, 0xff, 0x13, 0];
const TARGET: &[u8] = &[3, 0x80, 0x60, 0x81, 0x60, 0x81, 0x60, 1, 2, 0x75, 0xfe, 0];

#[test]
fn cached_block_gets_its_new_addresses() {
    // Address difference to the last access, and the page if it is new.
    let first: &[u8] = &[0xac, 0x90, 0xc0, 1, 5, 0, 0xad, 0xf0, 0x3f, 6, 0];
    let again: &[u8] = &[0x8c, 0xdf, 0x3f, 0x8d, 0xf0, 0x3f];
    let (all, counts) = executed(&[CALLS, first, TARGET, &[2, 0], again, &[2, 1], &[0, 4]]);
    assert_eq!((counts.blocks, counts.known), (4, 2));
    let calls: Vec<&Op> = all.ops.iter().filter(|op| op.pc == 0x1000).collect();
    assert_eq!(calls.len(), 6);
    for (one, other) in calls[..3].iter().zip(&calls[3..]) {
        assert_eq!((one.class, one.sources, one.length), (other.class, other.sources, other.length));
    }
    let addresses = |at: usize| [calls[at], calls[at + 1], calls[at + 2]].map(|op| (op.virt, op.phys.0));
    assert_eq!(addresses(0), [(0x3008, 0x5008), (0x4000, 0x6000), (0x3000, 0)]);
    assert_eq!(addresses(3), [(0x3010, 0x5010), (0x4008, 0x6008), (0x3000, 0)]);
}

/// AArch64 code at 0x1000: `b.ne 0x1010`; `ldr x0, [x1]`; `svc #0`; and at 0x2000, representing a handler,
/// `nop`.
const BRANCH: &[u8] = &[3, 0x80, 0x20, 0, 0, 1, 4, 0x81, 0x00, 0x00, 0x54, 0];
const LOAD: &[u8] = &[3, 0x80, 0x20, 0, 0, 1, 4, 0x20, 0x00, 0x40, 0xf9, 0];
const CALL: &[u8] = &[3, 0x80, 0x20, 0, 0, 1, 4, 0x01, 0x00, 0x00, 0xd4, 0];
const VECTOR: &[u8] = &[3, 0x80, 0x40, 0, 0, 1, 4, 0x1f, 0x20, 0x03, 0xd5, 0];

#[test]
fn reported_traps_are_used_without_inference() {
    // An interrupt that returns to 0x1010, which is therefore the branch target.
    let (collector, counts) = executed_on("aarch64", &[BRANCH, &[10, 1, 0x90, 0x20], VECTOR, &[0, 2]]);
    assert_eq!((counts.interrupts, counts.exceptions, counts.instructions), (1, 0, 2));
    assert!(collector.ops[0].is_taken() && collector.ops[0].next_pc() == 0x1010);
    // The instruction at the target cannot be fetched; the branch was still executed.
    let (collector, counts) = executed_on("aarch64", &[BRANCH, &[10, 0, 0x90, 0x20], VECTOR, &[0, 2]]);
    assert_eq!((counts.interrupts, counts.exceptions, counts.instructions), (0, 1, 2));
    assert!(collector.ops[0].is_taken() && collector.events.contains(&(1, Event::Trap(Trap::Exception))));
    // The load faults.
    let (collector, counts) = executed_on("aarch64", &[LOAD, &[10, 0, 0x80, 0x20], VECTOR, &[0, 2]]);
    assert_eq!((counts.exceptions, counts.instructions), (1, 1));
    assert!(collector.events.contains(&(0, Event::Trap(Trap::Exception))));
    // A system call.
    let (_, counts) = executed_on("aarch64", &[CALL, &[10, 0, 0x84, 0x20], VECTOR, &[0, 2]]);
    assert_eq!((counts.system, counts.exceptions, counts.instructions), (1, 0, 2));
}
