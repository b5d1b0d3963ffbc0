//! What is seen of a system at a moment, by which it is decided whether it is steady: what caches have missed, what stands in queues, how far
//! rings have gone round, which packet buffers are new. All of it is simulated state.

use std::collections::BTreeMap;

use doorbell_machine::{BufferUse, Machine, Mode};
use doorbell_pcie::network::RingLevel;
use doorbell_sim::Ps;
use doorbell_sim::stats::{Counter, Stats};

/// The places where frames queue up.
pub(super) const QUEUES: [&str; 5] =
    ["receive FIFOs", "receive rings", "transmit rings", "transmit FIFOs", "switches"];
/// What is counted of devices: lines that they had to look for in memory, and lines that left the caches unused.
const OF_DEVICES: [&str; 4] = ["itom_misses", "rfo_misses", "pcierdcur_misses", "leaks"];
/// A ring is in use if it moves a sixteenth as far as the one that moves most; others carry an answer to ARP now and then.
const IN_USE: u64 = 16;
/// What begins the names of a cache's misses by what they were of.
const BY_CLASS: &str = "misses_";

/// See the module.
#[derive(Clone, Debug)]
pub struct Seen {
    pub now: Ps,
    /// Frames that NICs have delivered to memory, and sent.
    pub frames: u64,
    pub instructions: u64,
    /// Misses by level and class, summed over the machines that learn.
    pub misses: BTreeMap<String, u64>,
    /// By place.
    pub queues: [u64; QUEUES.len()],
    /// Of the machines that learn; of all, where none does.
    pub rings: Vec<RingLevel>,
    pub buffers: BufferUse,
}

impl Seen {
    /// What machines look like, with so many frames in the switches between them.
    pub fn of(machines: &[&Machine], in_switches: u64) -> Seen {
        let learns = |machine: &&&Machine| machine.mode() != Mode::Functional;
        let any = machines.iter().any(|machine| learns(&machine));
        let of: Vec<&Machine> = machines.iter().filter(|machine| !any || learns(machine)).copied().collect();
        let mut seen = Seen {
            now: of.iter().map(|machine| machine.now()).max().unwrap_or(Ps::ZERO),
            frames: 0,
            instructions: of.iter().map(|machine| machine.instructions()).sum(),
            misses: BTreeMap::new(),
            queues: [0, 0, 0, 0, in_switches],
            rings: Vec::new(),
            buffers: BufferUse::default(),
        };
        for machine in &of {
            seen.add_misses(machine);
            for nic in machine.nics() {
                seen.frames += nic.stats().rx_delivered + nic.stats().tx_sent;
                seen.rings.extend(nic.ring_levels().into_iter().flatten());
            }
        }
        for nic in machines.iter().flat_map(|machine| machine.nics()) {
            let (levels, inside) = (nic.ring_levels(), nic.in_flight());
            let waiting = |way: usize| levels.iter().map(|level| level[way].waiting).sum();
            let held = [inside.rx, waiting(0), waiting(1), inside.tx];
            seen.queues.iter_mut().zip(held).for_each(|(sum, frames)| *sum += frames);
        }
        seen
    }

    fn add_misses(&mut self, machine: &Machine) {
        let Some(timing) = machine.timing().filter(|_| machine.mode() != Mode::Functional) else { return };
        let mut add = |level: &str, counter: &Counter| {
            let of = counter.name.trim_start_matches(BY_CLASS).replace('_', " ");
            *self.misses.entry(format!("{level}, {of}")).or_insert(0) += counter.value;
        };
        let memory = timing.memory.stats();
        let private =
            memory.harts.iter().flat_map(|hart| [("L1I", &hart.l1i), ("L1D", &hart.l1d), ("L2", &hart.l2)]);
        for (level, cache) in private.chain([("LLC", &memory.llc)]) {
            let by_class = cache.counters();
            by_class.iter().filter(|of| of.name.starts_with(BY_CLASS)).for_each(|of| add(level, of));
        }
        let devices = memory.devices.counters();
        devices.iter().filter(|of| OF_DEVICES.contains(&of.name)).for_each(|of| add("devices", of));
        let uses = timing.buffer_use();
        self.buffers.used += uses.used;
        self.buffers.new += uses.new;
    }

    /// How often each ring that is in use has gone round since then.
    pub fn rounds_since<'a>(&'a self, then: &'a Seen) -> impl Iterator<Item = f64> + use<'a> {
        let gone = |(now, then): (&RingLevel, &RingLevel)| {
            (now.consumed.saturating_sub(then.consumed), now.descriptors)
        };
        let rings = self.rings.iter().zip(&then.rings).map(gone);
        let most = rings.clone().map(|(gone, _)| gone).max().unwrap_or(0);
        rings
            .filter(move |(gone, of)| *gone > 0 && *of > 0 && gone * IN_USE >= most)
            .map(|(gone, of)| gone as f64 / of as f64)
    }
}
