//! How packets spread over cores: what each core found in receive rings, what its packets cost it, and how uneven cores' shares are.

use super::figures::{Filling, over};
use super::packet_cost::Busy;
use super::span::{Span, View};

/// Packets of one core: those that its polls found. A trace has no data, so that what a poll finds there is not known.
pub(super) fn own_packets(w: &View) -> Option<Filling> {
    if w.config.is_played() {
        return None;
    }
    let mut g = Filling::new("own packets");
    let packets = w.n("polls.packets");
    let polls = w.n("polls.empty_polls");
    let busy = Busy::of(w);
    g.put("packets", Some(packets), "packets that this core's polls of receive rings found");
    g.put("per_second", over(packets, w.seconds()), "the same a second");
    g.put(
        "busy_cycles",
        over(busy.cycles, packets),
        "core cycles each of them cost this core, without empty polls and sleep",
    );
    g.put(
        "busy_instructions",
        over(busy.instructions, packets),
        "instructions each of them cost this core, without empty polls",
    );
    g.put("empty_polls", Some(polls), "polls of a receive ring that found nothing");
    let empty = w.n("polls.empty_cycles").min(w.cycles());
    g.put("empty_share", over(empty, w.cycles()), "share of the cycles that these took");
    Some(g)
}

/// How evenly the cores that poll receive rings share packets; none where fewer than two do.
pub(super) fn sharing(span: &Span) -> Option<Filling> {
    if span.config.is_played() {
        return None;
    }
    let packets: Vec<f64> = View::of_all(span).polling().iter().map(|w| w.n("polls.packets")).collect();
    if packets.len() < 2 {
        return None;
    }
    let mut g = Filling::new("cores");
    g.put("polling", Some(packets.len() as f64), "cores that poll receive rings");
    g.put(
        "imbalance",
        imbalance(&packets),
        "packets of the core that found most, over the mean of all that poll: 1 where all have the same",
    );
    Some(g)
}

/// What a machine's neighbours do; none where there are none.
pub(super) fn neighbours(span: &Span) -> Option<Filling> {
    let all = span.end.own..span.end.books.len();
    if span.config.is_played() || all.is_empty() {
        return None;
    }
    let views: Vec<View> = all.map(|hart| View::of_hart(span, hart)).collect();
    let sum = |of: &dyn Fn(&View) -> f64| views.iter().map(of).sum::<f64>();
    let instructions = sum(&|w| w.instructions as f64);
    let asked = ["hart.crd_misses", "hart.drd_misses", "hart.rfo_misses"];
    let mut g = Filling::new("neighbours");
    g.put(
        "mips",
        over(instructions * 1e-6, views[0].seconds()),
        "million instructions a second that neighbours retire, all together",
    );
    g.put("ipc", over(instructions, sum(&|w| w.cycles())), "instructions a cycle of their cores");
    let misses = sum(&|w| w.sum(&asked));
    g.put(
        "llc_mpki",
        over(misses, instructions / 1e3),
        "their misses of the last level a thousand instructions",
    );
    Some(g)
}

/// The most over the mean.
pub(super) fn imbalance(packets: &[f64]) -> Option<f64> {
    let sum: f64 = packets.iter().sum();
    over(packets.iter().copied().fold(0.0, f64::max) * packets.len() as f64, sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imbalance_is_one_where_all_have_the_same_and_the_number_of_cores_where_one_has_all() {
        assert_eq!(imbalance(&[5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(imbalance(&[0.0, 8.0, 0.0, 0.0]), Some(4.0));
        assert_eq!(imbalance(&[0.0, 0.0]), None);
    }
}
