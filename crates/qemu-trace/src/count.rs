//! Counts what a recording has.

use std::collections::BTreeMap;

use doorbell_qemu_trace::event::{Event, Nic, Of, Recorder};
use doorbell_sim::{Op, OpClass};

/// See the module.
#[derive(Default)]
pub struct Counter {
    classes: [u64; OpClass::COUNT],
    names: [Option<OpClass>; OpClass::COUNT],
    events: BTreeMap<&'static str, (u64, u64)>,
    show: u64,
    /// FNV-1a over all, to compare two recordings by.
    hash: u64,
    /// Where the last instruction goes, and how often the next one was elsewhere without a trap.
    next: Option<u64>,
    gaps: u64,
}

impl Counter {
    /// Shows the first ones.
    pub fn showing(show: u64) -> Counter {
        Counter { show, hash: 0xcbf2_9ce4_8422_2325, ..Counter::default() }
    }

    /// Prints what was counted.
    pub fn print(&self) {
        for (class, count) in self.names.iter().zip(self.classes) {
            if let Some(class) = class {
                println!("{count:12} {class:?}");
            }
        }
        for (name, (count, bytes)) in &self.events {
            println!("{count:12} {name}, {bytes} bytes");
        }
        println!("{:12} gaps", self.gaps);
        println!("{:016x} of all", self.hash);
    }

    fn mix(&mut self, number: u64) {
        self.hash = (self.hash ^ number).wrapping_mul(0x100_0000_01b3).rotate_left(23);
    }
}

impl Recorder for Counter {
    fn op(&mut self, op: Op) {
        self.classes[op.class as usize] += 1;
        self.names[op.class as usize] = Some(op.class);
        self.gaps += u64::from(self.next.take().is_some_and(|next| next != op.pc));
        self.next = op.ends_instruction().then(|| op.next_pc());
        self.mix(op.pc ^ op.phys.0.rotate_left(17) ^ op.virt.rotate_left(31));
        self.mix(u64::from_le_bytes([
            op.class as u8,
            op.size,
            op.flags,
            op.destination,
            op.sources[0],
            op.sources[1],
            op.sources[2],
            op.length,
        ]));
        if self.show > 0 {
            self.show -= 1;
            println!("{op:x?}");
        }
    }

    fn event(&mut self, event: Event) {
        let (name, bytes) = describe(&event);
        let counted = self.events.entry(name).or_default();
        *counted = (counted.0 + 1, counted.1 + bytes);
        self.mix(name.len() as u64);
        self.mix(bytes);
        if matches!(event, Event::Trap(_)) {
            self.next = None;
        }
        if self.show > 0 {
            self.show -= 1;
            println!("{event:x?}");
        }
    }
}

fn describe(event: &Event) -> (&'static str, u64) {
    let name = match event {
        Event::Space(..) => "changes of address space or privilege",
        Event::Trap(trap) => {
            return (["interrupts", "exceptions", "system calls and returns"][*trap as usize], 0);
        }
        Event::Waits => "waits",
        Event::Page(_) => "pages",
        Event::Nic(Nic::Dma { is_write, bytes, of, .. }) => {
            let name = match (is_write, of) {
                (false, Of::Descriptor(false, ..)) => "receive descriptors read",
                (true, Of::Descriptor(false, ..)) => "receive descriptors written back",
                (false, Of::Descriptor(true, ..)) => "transmit descriptors read",
                (true, Of::Descriptor(true, ..)) => "transmit descriptors written back",
                (false, Of::Frame(..)) => "reads of frames",
                (true, Of::Frame(..)) => "writes of frames",
                (false, Of::Other) => "other reads",
                (true, Of::Other) => "other writes",
            };
            return (name, *bytes);
        }
        Event::Nic(Nic::Doorbell(false, ..)) => "receive doorbells",
        Event::Nic(Nic::Doorbell(true, ..)) => "transmit doorbells",
        Event::Nic(Nic::Arrives(_)) => "frames arrive",
        Event::Nic(Nic::Delivered(_)) => "frames delivered",
        Event::Nic(Nic::Dropped(_)) => "frames dropped",
        Event::Nic(Nic::Sent(_)) => "frames sent",
        Event::Nic(Nic::Interrupt(_)) => "interrupts of the NIC",
    };
    (name, 0)
}
