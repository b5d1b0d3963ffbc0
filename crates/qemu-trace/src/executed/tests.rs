//! Small streams, executed.

use doorbell_sim::{Op, OpClass, Ps};
use doorbell_trace::system::{Happening, TraceError};

use super::*;
use crate::stream::tests::{LOADS, LOOP, STORE, stream_of};
use crate::target::target;

#[derive(Default)]
struct Kept {
    ops: Vec<Op>,
    /// Each with how many ops stood before it.
    events: Vec<(usize, Event)>,
}

impl Recorder for Kept {
    fn executed(&mut self, executed: &Executed<'_>) -> Result<(), TraceError> {
        self.ops.extend_from_slice(executed.ops);
        Ok(())
    }

    fn event(&mut self, event: Event) -> Result<(), TraceError> {
        self.events.push((self.ops.len(), event));
        Ok(())
    }
}

fn executed(records: &[&[u8]]) -> (Kept, Counts) {
    executed_on("x86_64", records)
}

fn executed_on(name: &str, records: &[&[u8]]) -> (Kept, Counts) {
    let target = target(name).unwrap();
    let bytes = stream_of(records);
    let mut kept = Kept::default();
    let counts = Execution::new(target, target.nic, &bytes[..]).unwrap().run(&mut kept).unwrap();
    (kept, counts)
}

fn classes(kept: &Kept) -> Vec<OpClass> {
    kept.ops.iter().map(|op| op.class).collect()
}

#[test]
fn an_instruction_is_its_loads_its_result_and_its_stores() {
    let (kept, counts) = executed(&[LOOP, LOADS, STORE, &[2, 0], &[4, 1], &[0, 4]]);
    use OpClass::{Branch, Int, Load, Store};
    // The second time only one instruction had begun, and was not finished: it is none.
    assert_eq!(classes(&kept), [Load, Load, Int, Store, Branch]);
    assert_eq!(counts.instructions, 3);
    let [load, loaded, sum, store, branch] = kept.ops[..] else { panic!() };
    assert_eq!((load.destination, load.sources[0], load.length), (1, 4, 3));
    assert_eq!(sum.sources[..2], [load.destination, loaded.destination]);
    assert_eq!(store.sources, [loaded.sources[0], sum.destination, 0]);
    assert_eq!(branch.sources[0], sum.destination, "the flags come with the sum");
    assert_eq!([loaded.length, sum.length, store.length, branch.length], [0, 0, 2, 2]);
    assert!(branch.is_taken() && branch.next_pc() == 0x1000);
    assert!(kept.ops.iter().all(|op| op.flags & Op::PRIVILEGED != 0));
}

#[test]
fn a_device_acts_between_the_instructions_it_acted_between() {
    let interrupt: &[u8] = &[8, 7, 2, 0];
    let (kept, _) = executed(&[LOOP, LOADS, STORE, interrupt, &[0, 3]]);
    let (at, _) = kept.events.iter().find(|(_, event)| matches!(event, Event::Device(_))).unwrap();
    assert_eq!(*at, 4, "behind the second instruction's ops, before the branch");
}

/// `ret` at 0xffff_ffff_8000_0000.
const HANDLER: &[u8] = &[3, 0x80, 0x80, 0x80, 0x80, 0xf8, 0xff, 0xff, 0xff, 0xff, 0x01, 0, 0, 1, 1, 0xc3, 0];

#[test]
fn where_a_branch_cannot_have_gone_there_was_a_trap() {
    let (kept, counts) = executed(&[LOOP, LOADS, STORE, HANDLER, &[0, 4]]);
    assert_eq!((counts.interrupts, counts.exceptions), (1, 0));
    assert!(kept.events.contains(&(5, Event::Trap(Trap::Interrupt))));
    // An instruction that accesses memory, has not, and is followed by a handler, has faulted, and is none of the ops.
    let (kept, counts) = executed(&[LOOP, &[4, 1], HANDLER, &[0, 4]]);
    assert_eq!((counts.interrupts, counts.exceptions, counts.instructions), (0, 1, 1));
    assert!(kept.events.contains(&(0, Event::Trap(Trap::Exception))));
}

/// `hlt` at 0x1000.
const HALT: &[u8] = &[3, 0x80, 0x20, 0, 0, 1, 1, 0xf4, 0];

#[test]
fn what_wakes_a_waiting_processor_comes_behind_the_wait() {
    // It waits for 5 ns.
    let (interrupt, slept): (&[u8], &[u8]) = (&[8, 7, 1, 2], &[6, 5]);
    let (kept, counts) = executed(&[HALT, interrupt, slept, HANDLER, &[0, 2]]);
    let events: Vec<Event> = kept.events.iter().skip(1).map(|(_, event)| *event).collect();
    let raised = Event::Device(Happening::Interrupt { raised: true });
    assert_eq!(events, [raised, Event::Waited(Ps::from_ns(5)), Event::Trap(Trap::Interrupt)]);
    assert_eq!(counts.interrupts, 1);
}

/// `call [rbx]` at 0x1000, which loads from 0x3008 in page 5 and stores to 0x4000 in page 6, and `jne 0x1000` behind it.
const CALLS: &[u8] = &[3, 0x80, 0x20, 0x81, 0x40, 0x81, 0x40, 1, 2, 0xff, 0x13, 0];
const TARGET: &[u8] = &[3, 0x80, 0x60, 0x81, 0x60, 0x81, 0x60, 1, 2, 0x75, 0xfe, 0];

#[test]
fn a_block_that_is_known_comes_with_its_new_addresses() {
    // The difference to the address of the access before, and the page if it was not told.
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

/// Of AArch64 at 0x1000: `b.ne 0x1010`; `ldr x0, [x1]`; `svc #0`; and at 0x2000, which stands for a handler, `nop`.
const BRANCH: &[u8] = &[3, 0x80, 0x20, 0, 0, 1, 4, 0x81, 0x00, 0x00, 0x54, 0];
const LOAD: &[u8] = &[3, 0x80, 0x20, 0, 0, 1, 4, 0x20, 0x00, 0x40, 0xf9, 0];
const CALL: &[u8] = &[3, 0x80, 0x20, 0, 0, 1, 4, 0x01, 0x00, 0x00, 0xd4, 0];
const VECTOR: &[u8] = &[3, 0x80, 0x40, 0, 0, 1, 4, 0x1f, 0x20, 0x03, 0xd5, 0];

#[test]
fn where_the_processor_tells_of_traps_nothing_is_inferred() {
    // An interrupt goes back to 0x1010: that is where the branch went.
    let (kept, counts) = executed_on("aarch64", &[BRANCH, &[10, 1, 0x90, 0x20], VECTOR, &[0, 2]]);
    assert_eq!((counts.interrupts, counts.exceptions, counts.instructions), (1, 0, 2));
    assert!(kept.ops[0].is_taken() && kept.ops[0].next_pc() == 0x1010);
    // The instruction there cannot be fetched: the branch was executed all the same.
    let (kept, counts) = executed_on("aarch64", &[BRANCH, &[10, 0, 0x90, 0x20], VECTOR, &[0, 2]]);
    assert_eq!((counts.interrupts, counts.exceptions, counts.instructions), (0, 1, 2));
    assert!(kept.ops[0].is_taken() && kept.events.contains(&(1, Event::Trap(Trap::Exception))));
    // The load itself faults.
    let (kept, counts) = executed_on("aarch64", &[LOAD, &[10, 0, 0x80, 0x20], VECTOR, &[0, 2]]);
    assert_eq!((counts.exceptions, counts.instructions), (1, 1));
    assert!(kept.events.contains(&(0, Event::Trap(Trap::Exception))));
    // A system call.
    let (_, counts) = executed_on("aarch64", &[CALL, &[10, 0, 0x84, 0x20], VECTOR, &[0, 2]]);
    assert_eq!((counts.system, counts.exceptions, counts.instructions), (1, 0, 2));
}
