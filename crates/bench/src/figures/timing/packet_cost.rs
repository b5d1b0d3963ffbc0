//! What a packet costs a core: as it was, and what it would be with as many packets as the core can take.

use super::figures::{Filling, over};
use super::span::View;
use crate::plan::dpdk::DpdkConfig;

/// Rounds of such a share of a burst, or more, cost what full ones do.
const NEARLY_FULL: f64 = 0.9;
/// A line is laid through so many rounds at least,
const LEAST_ROUNDS: f64 = 100.0;
/// and if their packets differ so much: squares of the distances from their mean, summed. A line's slope is then sure to a fourth of what
/// rounds of as many packets differ by in their instructions.
const LEAST_SPREAD: f64 = 16.0;
/// It is laid if its slope is sure to such a share of itself. Programs that keep packets back until there are enough to send, as l3fwd does,
/// have rounds that cost what earlier ones left.
const SURE: f64 = 0.1;

pub(super) fn per_packet(w: &View) -> Filling {
    let mut g = Filling::new("packet cost");
    let frames = w.frames as f64;
    let instructions = w.instructions as f64;
    let awake = w.awake_cycles();
    let Busy { instructions: busy_instructions, cycles: busy_cycles } = Busy::of(w);
    g.put(
        "instructions",
        over(instructions, frames),
        "instructions a delivered packet, empty polls included",
    );
    g.put(
        "cycles",
        over(awake, frames),
        "core cycles a delivered packet, empty polls included, sleep (WFI) not; a core's count once for each of its threads",
    );
    g.put("ipc", over(instructions, awake), "instructions a cycle, empty polls included, sleep not");
    if w.config.platform.threads > 1 && w.is_of_all() {
        let cores = w.awake_cycles_of_cores();
        g.put(
            "core_cycles",
            over(cores, frames),
            "the same cycles, a core's counted once whatever threads it has",
        );
        g.put("core_ipc", over(instructions, cores), "instructions of all threads of a core a cycle of it");
    }
    if w.config.is_played() {
        // A trace has no data, so that what a poll finds is not known.
        return g;
    }
    g.put(
        "busy_instructions",
        over(busy_instructions, frames),
        "instructions a delivered packet without empty polls",
    );
    g.put(
        "busy_cycles",
        over(busy_cycles, frames),
        "core cycles a delivered packet without empty polls and sleep; a core's count once for each of its threads",
    );
    g.put(
        "busy_ipc",
        over(busy_instructions, busy_cycles),
        "instructions a cycle without empty polls and sleep",
    );
    g.put(
        "empty_polls",
        over(w.n("polls.empty_polls"), frames),
        "polls of a receive ring that found nothing, a delivered packet",
    );
    g.put(
        "busy_share",
        over(busy_cycles, w.cycles()),
        "share of all cycles that went neither into empty polls nor into sleep; it is 1 from where each poll finds something, which \
         is long before the core can do no more",
    );
    saturation(w, &mut g);
    g
}

/// What is neither of empty polls nor of sleep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Busy {
    pub instructions: f64,
    pub cycles: f64,
}

impl Busy {
    pub fn of(w: &View) -> Busy {
        w.harts().fold(Busy { instructions: 0.0, cycles: 0.0 }, |sum, hart| {
            // An empty poll that ends in the measurement may have begun before it, and a sleep through all of it may have a cycle more.
            let instructions = hart.instructions as f64 - hart.n("polls.empty_instructions");
            let cycles = hart.awake_cycles() - hart.n("polls.empty_cycles");
            Busy {
                instructions: sum.instructions + instructions.max(0.0),
                cycles: sum.cycles + cycles.max(0.0),
            }
        })
    }
}

/// What a hart's packets would take of it in full bursts.
#[derive(Clone, Copy, Debug, Default)]
struct Full {
    packets: f64,
    instructions: f64,
    cycles: f64,
    /// Whether it could be less.
    is_bound: bool,
    /// All that it has.
    of: f64,
}

impl Full {
    /// `None` of a hart that found no packets.
    fn of(w: &View) -> Option<Full> {
        let (busy, packets) = (Busy::of(w), w.n("polls.packets"));
        let each = over(busy.instructions, packets)?;
        let (each, is_bound) = no_more_than(each, full_burst_instructions(w));
        let instructions = packets * each;
        let cycles = over(instructions * busy.cycles, busy.instructions)?;
        Some(Full { packets, instructions, cycles, is_bound, of: w.cycles() })
    }

    fn share(&self) -> f64 {
        self.cycles / self.of
    }
}

/// How much more the cores can do that poll receive rings.
fn saturation(w: &View, g: &mut Filling) {
    let polling = w.polling();
    let all: Vec<Full> = polling.iter().filter_map(Full::of).collect();
    // A sum of nothing is -0.
    let sum = |of: &dyn Fn(&Full) -> f64| all.iter().map(of).fold(0.0, std::ops::Add::add);
    let (packets, cycles) = (sum(&|full| full.packets), sum(&|full| full.cycles));
    g.put(
        "full_burst_instructions",
        over(sum(&|full| full.instructions), packets),
        "instructions a packet that is found would cost the core that finds it if each poll found a full burst (dpdk.burst): what a round of \
         polling costs whatever it finds, over the burst, and what each packet adds; by least squares over the rounds",
    );
    g.put("full_burst_cycles", over(cycles, packets), "core cycles of these at busy_ipc");
    // Of cores that find nothing there is no work, but time.
    let time: f64 = polling.iter().map(View::cycles).sum();
    g.put(
        "saturation",
        over(cycles, time),
        "share of the cycles of cores that poll receive rings that the packets they found would take in full bursts: they can do no more at 1",
    );
    g.put(
        "saturation_is_bound",
        over(sum(&|full| f64::from(u8::from(full.is_bound))), all.len() as f64),
        "share of these cores whose rounds of polling all found as many packets, or cost what others had left, so that what a round costs \
         whatever it finds cannot be told: what full bursts would take is at most what is said of it, and may be half",
    );
    if polling.len() > 1 {
        g.put(
            "most_saturated",
            all.iter().map(Full::share).reduce(f64::max),
            "the same of the core of which it is the largest share",
        );
    }
}

/// A full burst's packet costs no more than one did on average: a line that says so was laid through rounds that differ by something else,
/// as a kernel's do.
fn no_more_than(average: f64, full: Option<(f64, bool)>) -> (f64, bool) {
    const OFF: f64 = 1.05;
    match full {
        Some((full, is_bound)) => (full.min(average), is_bound || full > OFF * average),
        None => (average, true),
    }
}

/// What a packet costs in a poll that finds as many as it may take, in instructions: these follow from the packets, while cycles
/// also depend on what one round leaves to the next.
fn full_burst_instructions(w: &View) -> Option<(f64, bool)> {
    let sums = [
        "rounds",
        "packets",
        "instructions",
        "packets_squared",
        "packets_instructions",
        "instructions_squared",
    ]
    .map(|name| w.n(&format!("rounds.{name}")));
    let empty = over(w.n("polls.empty_instructions"), w.n("polls.empty_polls"));
    in_full_bursts(sums, empty, f64::from(w.config.options::<DpdkConfig>().burst))
}

/// The same from the sums over the rounds, and what a poll costs that finds none; and whether it is only a bound.
fn in_full_bursts(
    [rounds, packets, all, squared, products, all_squared]: [f64; 6],
    empty: Option<f64>,
    burst: f64,
) -> Option<(f64, bool)> {
    let (mean_packets, mean) = (over(packets, rounds)?, over(all, rounds)?);
    let variance = over(squared, rounds)? - mean_packets * mean_packets;
    let covariance = over(products, rounds)? - mean_packets * mean;
    let slope = covariance / variance;
    // What the line leaves of their instructions' variance, by chance.
    let rest = (over(all_squared, rounds)? - mean * mean - slope * covariance).max(0.0);
    let is_sure = slope > 0.0 && (rest / variance / (rounds - 2.0)).sqrt() <= SURE * slope;
    let has_line = rounds >= LEAST_ROUNDS && rounds * variance >= LEAST_SPREAD && is_sure;
    // Where all rounds are alike, or nobody can tell, what does not depend on packets is at least what a poll costs that finds none.
    let fixed = match has_line {
        true => mean - slope * mean_packets,
        false => empty?,
    };
    // In bursts that are full there is nothing to tell apart.
    let is_bound = !has_line && mean_packets < NEARLY_FULL * burst;
    let fixed = fixed.clamp(0.0, mean);
    Some(((mean - fixed) / mean_packets + fixed / burst.max(mean_packets), is_bound))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sums over rounds of so many packets that cost 320 instructions and 300 for each packet.
    fn sums(packets: impl Iterator<Item = u32>) -> [f64; 6] {
        sums_of(packets.map(|n| (f64::from(n), 320.0 + 300.0 * f64::from(n))))
    }

    fn sums_of(rounds: impl Iterator<Item = (f64, f64)>) -> [f64; 6] {
        rounds.fold([0.0; 6], |[rounds, all, spent, squared, products, costs], (n, cost)| {
            [rounds + 1.0, all + n, spent + cost, squared + n * n, products + n * cost, costs + cost * cost]
        })
    }

    #[test]
    fn what_a_full_burst_costs_follows_from_rounds_of_few_packets() {
        let few = sums((0..200).map(|round| 1 + round % 3));
        let (each, is_bound) = in_full_bursts(few, None, 32.0).unwrap();
        assert_eq!((each.round(), is_bound), (310.0, false));
        // Two packets in one round of a hundred are enough of many rounds, and not of few.
        let rare = |rounds: u32| sums((0..rounds).map(|round| 1 + u32::from(round % 100 == 0)));
        let (each, is_bound) = in_full_bursts(rare(8_000), Some(160.0), 32.0).unwrap();
        assert_eq!((each.round(), is_bound), (310.0, false));
        assert!(in_full_bursts(rare(1_000), Some(160.0), 32.0).unwrap().1);
        // Rounds that are all alike say nothing of what a packet adds: then an empty poll does.
        let full = sums((0..200).map(|_| 32));
        assert_eq!(in_full_bursts(full, Some(160.0), 32.0), Some((310.0, false)));
        let alike = sums((0..200).map(|_| 1));
        assert_eq!(in_full_bursts(alike, Some(160.0), 32.0), Some((620.0 - 160.0 + 160.0 / 32.0, true)));
        assert_eq!(in_full_bursts(alike, None, 32.0), None);
        assert_eq!(in_full_bursts([0.0; 6], Some(160.0), 32.0), None);
    }

    #[test]
    fn a_full_bursts_packet_costs_no_more_than_one_does_on_average() {
        assert_eq!(no_more_than(400.0, Some((300.0, false))), (300.0, false));
        assert_eq!(no_more_than(400.0, Some((401.0, false))), (400.0, false), "as near as a line is");
        assert_eq!(no_more_than(400.0, Some((1139.2, false))), (400.0, true));
        assert_eq!(no_more_than(400.0, Some((300.0, true))), (300.0, true));
        assert_eq!(no_more_than(400.0, None), (400.0, true));
    }

    #[test]
    fn rounds_that_cost_what_earlier_ones_kept_back_say_only_a_bound() {
        // 300 a packet, of which 130 are spent when 32 have come together: rounds of 21 and 22 in turn.
        let mut kept = 0;
        let rounds = (0..2000).map(|round| {
            let n = 21 + round % 2;
            kept += n;
            let sent = kept / 32 * 32;
            kept -= sent;
            (f64::from(n), 50.0 + 170.0 * f64::from(n) + 130.0 * f64::from(sent))
        });
        let (each, is_bound) = in_full_bursts(sums_of(rounds), Some(50.0), 32.0).unwrap();
        assert!(is_bound && (300.0..303.0).contains(&each), "{each}");
    }
}
