//! Small streams, executed.

use doorbell_sim::{Op, OpClass};

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
    fn op(&mut self, op: Op) {
        self.ops.push(op);
    }

    fn event(&mut self, event: Event) {
        self.events.push((self.ops.len(), event));
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
    let dma: &[u8] = &[7, 1, 2, 0x80, 0x01, 0x40];
    let (kept, _) = executed(&[LOOP, LOADS, STORE, dma, &[0, 3]]);
    let (at, _) = kept.events.iter().find(|(_, event)| matches!(event, Event::Nic(_))).unwrap();
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
    let interrupt: &[u8] = &[8, 7, 1, 2];
    let (kept, counts) = executed(&[HALT, interrupt, HANDLER, &[0, 2]]);
    let events: Vec<Event> = kept.events.iter().skip(1).map(|(_, event)| *event).collect();
    assert_eq!(
        events,
        [Event::Waits, Event::Nic(crate::event::Nic::Interrupt(2)), Event::Trap(Trap::Interrupt)]
    );
    assert_eq!(counts.interrupts, 1);
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
    let (kept, counts) = executed_on("aarch64", &[CALL, &[10, 0, 0x84, 0x20], VECTOR, &[0, 2]]);
    assert_eq!((counts.system, counts.exceptions, counts.instructions), (1, 0, 2));
    assert_eq!(kept.ops[0].next_pc(), 0x2000);
}
