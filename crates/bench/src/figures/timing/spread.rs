//! Distribution of packets over cores: packets and cost per packet of each core, and imbalance. Also figures
//! of co-runners (neighbours).

use doorbell_results::TimingFigures;
use doorbell_results::figures::{CORE_BALANCE, NEIGHBOURS, OWN_PACKETS};

use super::packet_cost::Busy;
use super::span::{Span, View};
use crate::ratio::ratio;

/// Packets found by a core's polls. None in trace playback: traces have no data, so the packets that a poll
/// finds are unknown.
pub(super) fn own_packets(w: &View, g: &mut TimingFigures) {
    if w.config.is_played() {
        return;
    }
    let (polls, busy) = (&w.own.polls, Busy::of(w));
    g.put(OWN_PACKETS.packets, Some(polls.packets as f64));
    g.put(OWN_PACKETS.per_second, ratio(polls.packets, w.seconds()));
    g.put(OWN_PACKETS.busy_cycles, ratio(busy.cycles, polls.packets));
    g.put(OWN_PACKETS.busy_instructions, ratio(busy.instructions, polls.packets));
    g.put(OWN_PACKETS.empty_polls, Some(polls.empty_polls as f64));
    g.put(OWN_PACKETS.empty_share, ratio(polls.empty_cycles.min(w.cycles), w.cycles));
}

/// Balance of packets over the cores that poll receive rings; none if fewer than two do.
pub(super) fn core_balance(w: &View, g: &mut TimingFigures) {
    if w.config.is_played() {
        return;
    }
    let packets: Vec<f64> = w.polling().iter().map(|w| w.own.polls.packets as f64).collect();
    if packets.len() >= 2 {
        g.put(CORE_BALANCE.polling, Some(packets.len() as f64));
        g.put(CORE_BALANCE.imbalance, imbalance(&packets));
    }
}

/// Figures of a machine's co-runners (neighbours), if it has any.
pub(super) fn neighbours(span: &Span, g: &mut TimingFigures) {
    let all = span.end.own..span.end.harts.len();
    if span.config.is_played() || all.is_empty() {
        return;
    }
    let views: Vec<View> = all.map(|hart| View::of_hart(span, hart)).collect();
    let sum = |of: fn(&View) -> u64| views.iter().map(of).sum::<u64>();
    let instructions = sum(|w| w.instructions) as f64;
    g.put(NEIGHBOURS.mips, ratio(instructions * 1e-6, views[0].seconds()));
    g.put(NEIGHBOURS.ipc, ratio(instructions, sum(|w| w.cycles)));
    g.put(NEIGHBOURS.llc_mpki, ratio(sum(|w| w.llc_request_misses()), instructions / 1e3));
}

/// Maximum over mean.
pub(super) fn imbalance(packets: &[f64]) -> Option<f64> {
    let sum: f64 = packets.iter().sum();
    ratio(packets.iter().copied().fold(0.0, f64::max) * packets.len() as f64, sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imbalance_ranges_from_one_to_the_number_of_cores() {
        assert_eq!(imbalance(&[5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(imbalance(&[0.0, 8.0, 0.0, 0.0]), Some(4.0));
        assert_eq!(imbalance(&[0.0, 0.0]), None);
    }
}
