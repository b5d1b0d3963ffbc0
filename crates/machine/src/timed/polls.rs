//! Empty polls of receive rings: their number and cost, so that the cost per packet can be given with and
//! without them.
//!
//! The device decides which loads are polls and what they find ([`PolledRing`]); a driver of Intel's NICs loads
//! the status byte of the next receive descriptor. A load that finds nothing ends the poll. If it is the
//! poll's first load, the poll is empty, and everything executed until the next such load, of any ring, is
//! its cost. The code between a poll that found packets and the next poll is charged to the packets. If the
//! hart sleeps or takes a trap before the next load, nothing is charged to the empty poll: interrupt-driven
//! software does not poll in a loop, and it does its work between the last poll and the next interrupt.
//! Observer: it does not affect the simulation.

use std::ops::Range;

use doorbell_pcie::{Poll, PolledRing};
use doorbell_sim::{CoreCycle, Op, OpClass, PhysAddr};

doorbell_sim::stats! {
    /// Polls of receive rings by one hart.
    pub struct PollStats {
        /// Completed polls: loads that found no further packet.
        polls,
        /// Packets found by polls.
        packets,
        /// Completed polls that found no packet.
        empty_polls,
        /// Instructions of empty polls.
        empty_instructions,
        /// Cycles of empty polls.
        empty_cycles,
    }
}

doorbell_sim::stats! {
    /// Polling rounds of one hart. A round lasts from the first packet that a poll finds to the first status
    /// load after the poll's end. A poll that stops at its packet limit has no end, so the next poll
    /// continues the round. The sums serve for a linear fit of instructions over packets.
    pub struct RoundStats {
        /// Rounds.
        rounds,
        /// Packets found in rounds.
        packets,
        /// Instructions in rounds.
        instructions,
        /// Sum of squared packets per round.
        packets_squared,
        /// Sum of packets times instructions per round.
        packets_instructions,
        /// Sum of squared instructions per round.
        instructions_squared,
    }
}

/// Polling state of a hart.
#[derive(Clone, Debug, Default)]
struct Poller {
    /// Packets found since the last poll ended.
    packets: u64,
    /// Instructions and cycle at the end of the last empty poll, until the next load of a poll, trap or sleep.
    idle_since: Option<(u64, CoreCycle)>,
    /// Instructions at the start of the present round, its packets, and whether its poll has ended.
    round: Option<(u64, u64, bool)>,
    /// Ring and position of the packets found last.
    last_found: Option<(usize, u64)>,
    stats: PollStats,
    rounds: RoundStats,
}

impl RoundStats {
    fn take(&mut self, packets: u64, instructions: u64) {
        self.rounds += 1;
        self.packets += packets;
        self.instructions += instructions;
        self.packets_squared += packets.saturating_mul(packets);
        self.packets_instructions += packets.saturating_mul(instructions);
        self.instructions_squared =
            self.instructions_squared.saturating_add(instructions.saturating_mul(instructions));
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Polls {
    rings: Vec<(Range<u64>, Box<dyn PolledRing>)>,
    /// Range that contains all rings.
    span: Range<u64>,
    harts: Vec<Poller>,
}

impl Polls {
    pub fn new(harts: usize) -> Polls {
        Polls { rings: Vec::new(), span: 0..0, harts: vec![Poller::default(); harts] }
    }

    /// Sets the rings to observe.
    pub fn watch(&mut self, rings: impl Iterator<Item = Box<dyn PolledRing>>) {
        self.rings = rings.map(|ring| (ring.range(), ring)).collect();
        let ranges = || self.rings.iter().map(|(range, _)| range);
        let start = ranges().map(|range| range.start).min();
        self.span = start.unwrap_or(0)..ranges().map(|range| range.end).max().unwrap_or(0);
    }

    pub fn stats(&self, hart: usize) -> &PollStats {
        &self.harts[hart].stats
    }

    pub fn rounds(&self, hart: usize) -> &RoundStats {
        &self.harts[hart].rounds
    }

    /// Called when a hart has slept or taken a trap: drops its present round and the cost of its empty poll.
    pub fn interrupted(&mut self, hart: usize) {
        self.harts[hart].idle_since = None;
        self.harts[hart].round = None;
    }

    /// Observes a block of a hart; `instructions` and `cycle` are counted up to its end.
    #[inline]
    pub fn observe(
        &mut self,
        hart: usize,
        ops: &[Op],
        byte: impl Fn(PhysAddr) -> Option<u8>,
        instructions: u64,
        cycle: CoreCycle,
    ) {
        if self.rings.is_empty() {
            return;
        }
        for op in ops {
            if op.class == OpClass::Load && self.span.contains(&op.phys.0) {
                self.load(hart, op, &byte, (instructions, cycle));
            }
        }
    }

    fn load(&mut self, hart: usize, op: &Op, byte: impl Fn(PhysAddr) -> Option<u8>, now: (u64, CoreCycle)) {
        let mut rings = self.rings.iter_mut().enumerate();
        let Some((number, (_, ring))) = rings.find(|(_, (range, _))| range.contains(&op.phys.0)) else {
            return;
        };
        let Some(poll) = ring.poll(op.phys, op.size, &byte) else { return };
        let poller = &mut self.harts[hart];
        if let Some((since, packets, _)) = poller.round.take_if(|(_, _, is_over)| *is_over) {
            poller.rounds.take(packets, now.0.saturating_sub(since));
        }
        if let Some((instructions, cycle)) = poller.idle_since.take() {
            poller.stats.empty_instructions += now.0 - instructions;
            poller.stats.empty_cycles += now.1.since(cycle);
        }
        if let Poll::Found { position, packets } = poll {
            // A driver may load a descriptor's status more than once.
            let found = Some((number, position));
            let new = if poller.last_found == found { 0 } else { packets };
            poller.last_found = found;
            poller.stats.packets += new;
            poller.round.get_or_insert((now.0, 0, false)).1 += new;
            poller.packets += packets;
            return;
        }
        poller.stats.polls += 1;
        if poller.packets == 0 {
            poller.stats.empty_polls += 1;
            poller.idle_since = Some(now);
        } else if let Some((_, _, is_over)) = &mut poller.round {
            *is_over = true;
        }
        poller.packets = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_pcie::StatusRing;
    use doorbell_sim::{Bytes, Ram};

    const RING: u64 = 0x8000_1000;

    /// Receive ring of an 82540EM (manual, §3.2.3.2).
    fn ring() -> Box<dyn PolledRing> {
        let base = PhysAddr(RING);
        Box::new(StatusRing { base, bytes: 4096, descriptor_bytes: 16, status_at: 12, done: 1 })
    }

    /// A ring without status bytes, as virtio's: software polls the index of the next entry, two bytes at the
    /// start.
    #[derive(Debug, Default)]
    struct IndexRing {
        found: u64,
    }

    impl PolledRing for IndexRing {
        fn range(&self) -> Range<u64> {
            RING..RING + 64
        }

        fn poll(&mut self, addr: PhysAddr, _: u8, byte: &dyn Fn(PhysAddr) -> Option<u8>) -> Option<Poll> {
            let position = u64::from(byte(addr).filter(|_| addr.0 == RING)?);
            let packets = position - std::mem::replace(&mut self.found, position);
            Some(if packets == 0 { Poll::Empty } else { Poll::Found { position, packets } })
        }
    }

    fn byte(ram: &Ram) -> impl Fn(PhysAddr) -> Option<u8> {
        |addr| {
            let mut byte = [0];
            ram.copy_out(addr, &mut byte).then_some(byte[0])
        }
    }

    fn load(addr: u64, size: u8) -> Op {
        Op { class: OpClass::Load, phys: PhysAddr(addr), size, ..Op::default() }
    }

    #[test]
    fn empty_poll_is_charged_until_the_next_status_load() {
        let mut ram = Ram::new(PhysAddr(0x8000_0000), Bytes(1 << 20), 1);
        let mut polls = Polls::new(1);
        polls.watch([ring()].into_iter());
        let done = |ram: &mut Ram, index: u64, done: u8| {
            assert!(ram.store(PhysAddr(RING + 16 * index + 12), &[done]));
        };
        let mut look = |ram: &Ram, index: u64, at: (u64, u64)| {
            polls.observe(0, &[load(RING + 16 * index + 12, 1)], byte(ram), at.0, CoreCycle::new(at.1));
            polls.stats(0).clone()
        };
        // Two empty polls; the second ends the first one's interval.
        look(&ram, 0, (100, 50));
        let stats = look(&ram, 0, (130, 60));
        assert_eq!((stats.polls, stats.empty_polls), (2, 2));
        assert_eq!((stats.empty_instructions, stats.empty_cycles), (30, 10));
        // A packet is found: the interval before is charged to the empty poll, the interval after to the
        // packet.
        done(&mut ram, 0, 1);
        let stats = look(&ram, 0, (160, 70));
        assert_eq!((stats.empty_instructions, stats.empty_cycles), (60, 20));
        look(&ram, 1, (200, 90));
        let stats = look(&ram, 1, (500, 190));
        assert_eq!((stats.polls, stats.empty_polls), (4, 3), "the poll that found a packet was not empty");
        assert_eq!(stats.packets, 1);
        assert_eq!((stats.empty_instructions, stats.empty_cycles), (60, 20));
        let stats = look(&ram, 1, (530, 200));
        assert_eq!((stats.empty_instructions, stats.empty_cycles), (90, 30));
    }

    /// A ring that starts with `count` packets.
    fn with_packets(count: u64) -> (Ram, Polls) {
        let mut ram = Ram::new(PhysAddr(0x8000_0000), Bytes(1 << 20), 1);
        (0..count).for_each(|index| assert!(ram.store(PhysAddr(RING + 16 * index + 12), &[1])));
        let mut polls = Polls::new(1);
        polls.watch([ring()].into_iter());
        (ram, polls)
    }

    #[test]
    fn round_lasts_from_the_first_packet_to_the_first_load_after_the_poll_s_end() {
        let (ram, mut polls) = with_packets(5);
        let mut look = |index: u64, instructions: u64| {
            polls.observe(0, &[load(RING + 16 * index + 12, 1)], byte(&ram), instructions, CoreCycle::new(0));
            polls.rounds(0).clone()
        };
        // An empty poll; two packets and the end of their poll; then three packets, the first of which ends
        // the previous round.
        for (index, at) in
            [(5, 100), (0, 150), (0, 151), (1, 160), (5, 170), (2, 420), (3, 430), (4, 440), (5, 450)]
        {
            look(index, at);
        }
        let stats = look(5, 800);
        assert_eq!((stats.rounds, stats.packets, stats.instructions), (2, 5, 270 + 380));
        assert_eq!((stats.packets_squared, stats.packets_instructions), (4 + 9, 540 + 1140));
        assert_eq!(stats.instructions_squared, 270 * 270 + 380 * 380);
        // An empty poll does not count as a round.
        assert_eq!(look(5, 900).rounds, 2);
    }

    #[test]
    fn packets_are_counted_when_found_even_if_the_poll_does_not_end() {
        let (ram, mut polls) = with_packets(64);
        // Each status is loaded twice, as some drivers do.
        for index in (0..64).flat_map(|index| [index, index]) {
            polls.observe(
                0,
                &[load(RING + 16 * index + 12, 1)],
                byte(&ram),
                10 * index,
                CoreCycle::new(index),
            );
        }
        assert_eq!((polls.stats(0).packets, polls.stats(0).polls, polls.rounds(0).packets), (64, 0, 0));
        polls.interrupted(0);
        assert_eq!(polls.stats(0).packets, 64);
    }

    #[test]
    fn the_device_recognises_polls_and_what_they_find() {
        let mut ram = Ram::new(PhysAddr(0x8000_0000), Bytes(1 << 20), 1);
        let mut polls = Polls::new(1);
        polls.watch([Box::<IndexRing>::default() as Box<dyn PolledRing>].into_iter());
        let mut look = |index: u8, at: u64, instructions: u64| {
            assert!(ram.store(PhysAddr(RING), &[index]));
            polls.observe(0, &[load(at, 2)], byte(&ram), instructions, CoreCycle::new(instructions));
            polls.stats(0).clone()
        };
        look(0, RING, 100);
        look(0, RING + 2, 120);
        look(3, RING, 150);
        let stats = look(3, RING, 200);
        assert_eq!((stats.packets, stats.polls, stats.empty_polls), (3, 2, 1));
        assert_eq!(stats.empty_instructions, 50);
    }

    #[test]
    fn a_trap_or_sleep_ends_an_empty_poll_without_cost() {
        let ram = Ram::new(PhysAddr(0x8000_0000), Bytes(1 << 20), 1);
        let mut polls = Polls::new(1);
        polls.watch([ring()].into_iter());
        polls.observe(0, &[load(RING + 12, 1)], byte(&ram), 100, CoreCycle::new(50));
        polls.interrupted(0);
        polls.observe(0, &[load(RING + 12, 1)], byte(&ram), 9100, CoreCycle::new(4050));
        let stats = polls.stats(0);
        assert_eq!((stats.empty_polls, stats.empty_instructions, stats.empty_cycles), (2, 0, 0));
    }

    #[test]
    fn loads_of_other_descriptor_bytes_are_not_polls() {
        let ram = Ram::new(PhysAddr(0x8000_0000), Bytes(1 << 20), 1);
        let mut polls = Polls::new(1);
        polls.watch([ring()].into_iter());
        let ops = [load(RING, 8), load(RING + 13, 1), load(RING + 4096 + 12, 1), load(RING - 4, 4)];
        polls.observe(0, &ops, byte(&ram), 1, CoreCycle::new(1));
        assert_eq!(polls.stats(0).polls, 0);
        polls.observe(0, &[load(RING + 24, 8)], byte(&ram), 1, CoreCycle::new(1));
        assert_eq!(polls.stats(0).polls, 1, "a wide load that covers the status byte is a poll");
    }
}
