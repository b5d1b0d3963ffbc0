//! A sample of a system for the steady-state criteria: cache misses, queued frames, ring progress and new
//! packet buffers. All of it is simulated state.

use std::collections::BTreeMap;

use doorbell_machine::{BufferUse, Machine, Mode};
use doorbell_pcie::network::RingLevel;
use doorbell_sim::Ps;
use doorbell_sim::stats::{Counter, Stats};

/// Queues by location.
pub(super) const QUEUES: [&str; 5] =
    ["receive FIFOs", "receive rings", "transmit rings", "transmit FIFOs", "switches"];
/// Device counters of a sample: DMA requests that missed the caches, and DMA-written lines evicted before
/// use.
const OF_DEVICES: [&str; 4] = ["itom_misses", "rfo_misses", "pcierdcur_misses", "leaks"];
/// A ring is in use if it processes at least a sixteenth of the busiest ring's descriptors. Others only carry
/// an occasional ARP reply.
const IN_USE: u64 = 16;
/// Prefix of the miss counters by class.
const BY_CLASS: &str = "misses_";

/// A sample of a system's counts.
#[derive(Clone, Debug)]
pub struct Sample {
    pub now: Ps,
    /// Frames that NICs have delivered to memory or sent.
    pub frames: u64,
    pub instructions: u64,
    /// Misses by level and class, summed over the machines whose caches are simulated.
    pub misses: BTreeMap<String, u64>,
    /// Queued frames, indexed like [`QUEUES`].
    pub queues: [u64; QUEUES.len()],
    /// Rings of the machines whose caches are simulated, or of all machines if there are none.
    pub rings: Vec<RingLevel>,
    pub buffers: BufferUse,
}

impl Sample {
    /// A sample of machines, with `in_switches` frames in the switches between them.
    pub fn of(machines: &[&Machine], in_switches: u64) -> Sample {
        let has_caches = |machine: &&&Machine| machine.mode() != Mode::Functional;
        let any = machines.iter().any(|machine| has_caches(&machine));
        let of: Vec<&Machine> =
            machines.iter().filter(|machine| !any || has_caches(machine)).copied().collect();
        let mut sample = Sample {
            now: of.iter().map(|machine| machine.now()).max().unwrap_or(Ps::ZERO),
            frames: 0,
            instructions: of.iter().map(|machine| machine.instructions()).sum(),
            misses: BTreeMap::new(),
            queues: [0, 0, 0, 0, in_switches],
            rings: Vec::new(),
            buffers: BufferUse::default(),
        };
        for machine in &of {
            sample.add_misses(machine);
            for nic in machine.nics() {
                sample.frames += nic.stats().rx_delivered + nic.stats().tx_sent;
                sample.rings.extend(nic.ring_levels().into_iter().flatten());
            }
        }
        for nic in machines.iter().flat_map(|machine| machine.nics()) {
            let (levels, inside) = (nic.ring_levels(), nic.in_flight());
            let waiting = |way: usize| levels.iter().map(|level| level[way].waiting).sum();
            let held = [inside.rx, waiting(0), waiting(1), inside.tx];
            sample.queues.iter_mut().zip(held).for_each(|(sum, frames)| *sum += frames);
        }
        sample
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

    /// Descriptors processed since `then` by each ring in use, as a multiple of the ring's length.
    pub fn rounds_since<'a>(&'a self, then: &'a Sample) -> impl Iterator<Item = f64> + use<'a> {
        let consumed = |(now, then): (&RingLevel, &RingLevel)| {
            (now.consumed.saturating_sub(then.consumed), now.descriptors)
        };
        let rings = self.rings.iter().zip(&then.rings).map(consumed);
        let most = rings.clone().map(|(consumed, _)| consumed).max().unwrap_or(0);
        rings
            .filter(move |(consumed, of)| *consumed > 0 && *of > 0 && consumed * IN_USE >= most)
            .map(|(consumed, of)| consumed as f64 / of as f64)
    }
}
