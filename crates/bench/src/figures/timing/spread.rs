//! Distribution of packets over cores: packets and cost per packet of each core, and imbalance. Also figures
//! of co-runners (neighbours).

use super::figures::{GroupBuilder, ratio};
use super::packet_cost::Busy;
use super::span::{Span, View};

/// Packets found by a core's polls. `None` in trace playback: traces have no data, so the packets that a poll
/// finds are unknown.
pub(super) fn own_packets(w: &View) -> Option<GroupBuilder> {
    if w.config.is_played() {
        return None;
    }
    let mut g = GroupBuilder::new("own packets");
    let packets = w.n("polls.packets");
    let polls = w.n("polls.empty_polls");
    let busy = Busy::of(w);
    g.put("packets", Some(packets), "packets that this core's polls of receive rings found");
    g.put("per_second", ratio(packets, w.seconds()), "the same per second");
    g.put(
        "busy_cycles",
        ratio(busy.cycles, packets),
        "core cycles of this core per packet, without empty polls and sleep",
    );
    g.put(
        "busy_instructions",
        ratio(busy.instructions, packets),
        "instructions of this core per packet, without empty polls",
    );
    g.put("empty_polls", Some(polls), "polls of a receive ring that found nothing");
    let empty = w.n("polls.empty_cycles").min(w.cycles());
    g.put("empty_share", ratio(empty, w.cycles()), "share of cycles taken by empty polls");
    Some(g)
}

/// Balance of packets over the cores that poll receive rings; `None` if fewer than two do.
pub(super) fn core_balance(span: &Span) -> Option<GroupBuilder> {
    if span.config.is_played() {
        return None;
    }
    let packets: Vec<f64> = View::of_all(span).polling().iter().map(|w| w.n("polls.packets")).collect();
    if packets.len() < 2 {
        return None;
    }
    let mut g = GroupBuilder::new("cores");
    g.put("polling", Some(packets.len() as f64), "cores that poll receive rings");
    g.put(
        "imbalance",
        imbalance(&packets),
        "packets of the core with the most packets over the mean of the polling cores: 1 if all are equal",
    );
    Some(g)
}

/// Figures of a machine's co-runners (neighbours), if it has any.
pub(super) fn neighbours(span: &Span) -> Option<GroupBuilder> {
    let all = span.end.own..span.end.books.len();
    if span.config.is_played() || all.is_empty() {
        return None;
    }
    let views: Vec<View> = all.map(|hart| View::of_hart(span, hart)).collect();
    let sum = |of: &dyn Fn(&View) -> f64| views.iter().map(of).sum::<f64>();
    let instructions = sum(&|w| w.instructions as f64);
    let llc_misses = ["hart.crd_misses", "hart.drd_misses", "hart.rfo_misses"];
    let mut g = GroupBuilder::new("neighbours");
    g.put(
        "mips",
        ratio(instructions * 1e-6, views[0].seconds()),
        "million instructions per second retired by all neighbours together",
    );
    g.put("ipc", ratio(instructions, sum(&|w| w.cycles())), "instructions per cycle of their cores");
    let misses = sum(&|w| w.sum(&llc_misses));
    g.put(
        "llc_mpki",
        ratio(misses, instructions / 1e3),
        "their misses in the last level per thousand instructions",
    );
    Some(g)
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
