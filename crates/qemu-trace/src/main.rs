//! For developers: fetches what a recording needs, and prints where it is; or decodes a raw stream, and counts.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use doorbell_qemu_trace::{event, executed::Execution, guest, tools::Tools};
use doorbell_sim::Op;

#[derive(Default)]
struct Counter {
    ops: u64,
    instructions: u64,
    classes: BTreeMap<String, u64>,
    class: [u64; 32],
    events: BTreeMap<String, u64>,
    bytes: u64,
    shown: u64,
}

impl event::Recorder for Counter {
    fn op(&mut self, op: Op) {
        self.ops += 1;
        self.class[op.class as usize] += 1;
        self.instructions += u64::from(op.ends_instruction());
        if self.shown > 0 {
            self.shown -= 1;
            println!("{op:x?}");
        }
    }

    fn event(&mut self, event: event::Event) {
        if self.shown > 0 {
            println!("{event:x?}");
        }
        let name: String = format!("{event:?}").chars().take_while(|c| !c.is_ascii_digit()).collect();
        if let event::Event::Nic(event::Nic::Dma { bytes, is_write, of, .. }) = event {
            self.bytes += bytes;
            let of: String = format!("{of:?}").chars().take_while(|c| !c.is_ascii_digit()).collect();
            *self.events.entry(format!("{name} {is_write} {of} bytes")).or_default() += bytes;
            *self.events.entry(format!("{name} {is_write} {of}")).or_default() += 1;
        } else {
            *self.events.entry(name).or_default() += 1;
        }
    }
}

fn main() {
    if let Some(path) = std::env::args().nth(1) {
        let shown = std::env::args().nth(2).map_or(0, |text| text.parse().unwrap());
        let mut execution = Execution::new(std::fs::File::open(path).unwrap()).unwrap();
        let mut counter = Counter { shown, ..Counter::default() };
        let begun = std::time::Instant::now();
        println!("{:?}", execution.run(&mut counter));
        println!("{:?} {:?}", execution.counts(), begun.elapsed());
        println!("{} instructions {} ops", counter.instructions, counter.ops);
        println!("{:?}", counter.class);
        for (name, count) in &counter.events {
            println!("{name}: {count}");
        }
        return;
    }
    let cache = doorbell_image::user_cache(|name| std::env::var_os(name)).expect("a home folder");
    let mut say = |step: &str| eprintln!("{step}");
    println!("{:?}", Tools::fetch(&cache, &mut say).unwrap());
    println!("{}", guest::image("net-amd64", &cache, &mut say).unwrap().dir().display());
}
