//! Core cost per packet, as measured and estimated for full bursts, and the resulting saturation of the
//! cores.

use doorbell_results::TimingFigures;
use doorbell_results::figures::PACKET_COST;

use super::span::View;
use crate::plan::dpdk::DpdkConfig;
use crate::ratio::ratio;

/// Share of a full burst from which the mean cost of rounds counts as that of full bursts.
const NEARLY_FULL: f64 = 0.9;
/// Minimum number of rounds for fitting a line (instructions against packets of a round).
const ROUNDS_MIN: f64 = 100.0;
/// Minimum sum of squared deviations of the rounds' packets from their mean, for fitting a line. The standard
/// error of the slope is then at most a fourth of the standard deviation of the residuals.
const SQUARES_MIN: f64 = 16.0;
/// Maximum relative standard error of the slope. It is larger for programs that buffer packets until there
/// are enough to send, as l3fwd does: the cost of a round then depends on earlier rounds.
const SLOPE_ERROR_MAX: f64 = 0.1;

pub(super) fn per_packet(w: &View, g: &mut TimingFigures) {
    let awake = w.awake_cycles();
    g.put(PACKET_COST.instructions, ratio(w.instructions, w.frames));
    g.put(PACKET_COST.cycles, ratio(awake, w.frames));
    g.put(PACKET_COST.ipc, ratio(w.instructions, awake));
    if w.end().threads > 1 && w.is_of_all {
        let cores = w.awake_cycles_of_cores();
        g.put(PACKET_COST.core_cycles, ratio(cores, w.frames));
        g.put(PACKET_COST.core_ipc, ratio(w.instructions, cores));
    }
    if w.config.is_played() {
        // Traces have no data, so the packets that a poll finds are unknown.
        return;
    }
    let busy = Busy::of(w);
    g.put(PACKET_COST.busy_instructions, ratio(busy.instructions, w.frames));
    g.put(PACKET_COST.busy_cycles, ratio(busy.cycles, w.frames));
    g.put(PACKET_COST.busy_ipc, ratio(busy.instructions, busy.cycles));
    g.put(PACKET_COST.empty_polls, ratio(w.own.polls.empty_polls, w.frames));
    g.put(PACKET_COST.busy_share, ratio(busy.cycles, w.cycles));
    saturation(w, g);
}

/// Instructions and cycles outside empty polls and sleep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Busy {
    pub instructions: f64,
    pub cycles: f64,
}

impl Busy {
    pub fn of(w: &View) -> Busy {
        w.harts().fold(Busy { instructions: 0.0, cycles: 0.0 }, |sum, hart| {
            // Clamp to 0: an empty poll that ends in the measurement may have started before it, and a sleep
            // that spans the whole measurement may have one cycle more than it.
            let instructions = hart.instructions as f64 - hart.own.polls.empty_instructions as f64;
            let cycles = hart.awake_cycles() - hart.own.polls.empty_cycles as f64;
            Busy {
                instructions: sum.instructions + instructions.max(0.0),
                cycles: sum.cycles + cycles.max(0.0),
            }
        })
    }
}

/// Estimated cost of a hart's packets in full bursts.
#[derive(Clone, Copy, Debug, Default)]
struct FullBursts {
    packets: f64,
    instructions: f64,
    cycles: f64,
    /// Whether the cost is only an upper bound.
    is_bound: bool,
    /// All cycles of the hart.
    cycles_total: f64,
}

impl FullBursts {
    /// `None` for a hart that found no packets.
    fn of(w: &View) -> Option<FullBursts> {
        let (busy, packets) = (Busy::of(w), w.own.polls.packets as f64);
        let each = ratio(busy.instructions, packets)?;
        let (each, is_bound) = at_most_average(each, full_burst_instructions(w));
        let instructions = packets * each;
        let cycles = ratio(instructions * busy.cycles, busy.instructions)?;
        Some(FullBursts { packets, instructions, cycles, is_bound, cycles_total: w.cycles as f64 })
    }

    fn share(&self) -> f64 {
        self.cycles / self.cycles_total
    }
}

/// Adds the saturation of the cores that poll receive rings.
fn saturation(w: &View, g: &mut TimingFigures) {
    let polling = w.polling();
    let all: Vec<FullBursts> = polling.iter().filter_map(FullBursts::of).collect();
    // `Iterator::sum` of an empty list is -0.
    let sum = |of: &dyn Fn(&FullBursts) -> f64| all.iter().map(of).fold(0.0, std::ops::Add::add);
    let (packets, cycles) = (sum(&|full| full.packets), sum(&|full| full.cycles));
    g.put(PACKET_COST.full_burst_instructions, ratio(sum(&|full| full.instructions), packets));
    g.put(PACKET_COST.full_burst_cycles, ratio(cycles, packets));
    // Cores that found no packets have no work, but their cycles count.
    let time: u64 = polling.iter().map(|w| w.cycles).sum();
    g.put(PACKET_COST.saturation, ratio(cycles, time));
    let bounds = sum(&|full| f64::from(u8::from(full.is_bound)));
    g.put(PACKET_COST.saturation_is_bound, ratio(bounds, all.len() as f64));
    if polling.len() > 1 {
        g.put(PACKET_COST.most_saturated, all.iter().map(FullBursts::share).reduce(f64::max));
    }
}

/// Limits the cost of a full burst's packet to the average packet's. If the fitted line gives more, the
/// rounds differ by something other than their packets, as a kernel's do; the average is then a bound.
fn at_most_average(average: f64, full: Option<(f64, bool)>) -> (f64, bool) {
    // Tolerance of the fit.
    const TOLERANCE: f64 = 1.05;
    match full {
        Some((full, is_bound)) => (full.min(average), is_bound || full > TOLERANCE * average),
        None => (average, true),
    }
}

/// Instructions per packet in a full burst, and whether the value is only a bound. The fit uses instructions,
/// because the cycles of a round also depend on the previous one.
fn full_burst_instructions(w: &View) -> Option<(f64, bool)> {
    let (rounds, polls) = (&w.own.rounds, &w.own.polls);
    let sums = [
        rounds.rounds,
        rounds.packets,
        rounds.instructions,
        rounds.packets_squared,
        rounds.packets_instructions,
        rounds.instructions_squared,
    ]
    .map(|sum| sum as f64);
    let empty = ratio(polls.empty_instructions, polls.empty_polls);
    in_full_bursts(sums, empty, f64::from(w.config.options::<DpdkConfig>().burst))
}

/// As [`full_burst_instructions`], from the sums over the rounds and the instructions of an empty poll.
fn in_full_bursts(
    [rounds, packets, all, squared, products, all_squared]: [f64; 6],
    empty: Option<f64>,
    burst: f64,
) -> Option<(f64, bool)> {
    let (mean_packets, mean) = (ratio(packets, rounds)?, ratio(all, rounds)?);
    let variance = ratio(squared, rounds)? - mean_packets * mean_packets;
    let covariance = ratio(products, rounds)? - mean_packets * mean;
    let slope = covariance / variance;
    // Variance of the instructions that the line does not explain.
    let rest = (ratio(all_squared, rounds)? - mean * mean - slope * covariance).max(0.0);
    let is_precise = slope > 0.0 && (rest / variance / (rounds - 2.0)).sqrt() <= SLOPE_ERROR_MAX * slope;
    let has_line = rounds >= ROUNDS_MIN && rounds * variance >= SQUARES_MIN && is_precise;
    // Without a line, the fixed cost of a round is at least that of an empty poll.
    let fixed = match has_line {
        true => mean - slope * mean_packets,
        false => empty?,
    };
    // If the bursts are nearly full, the measured mean is the result, whatever the fixed cost.
    let is_bound = !has_line && mean_packets < NEARLY_FULL * burst;
    let fixed = fixed.clamp(0.0, mean);
    Some(((mean - fixed) / mean_packets + fixed / burst.max(mean_packets), is_bound))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums over rounds with these numbers of packets. A round costs 320 instructions, and 300 for each
    /// packet.
    fn sums(packets: impl Iterator<Item = u32>) -> [f64; 6] {
        sums_of(packets.map(|n| (f64::from(n), 320.0 + 300.0 * f64::from(n))))
    }

    fn sums_of(rounds: impl Iterator<Item = (f64, f64)>) -> [f64; 6] {
        rounds.fold([0.0; 6], |[rounds, all, spent, squared, products, costs], (n, cost)| {
            [rounds + 1.0, all + n, spent + cost, squared + n * n, products + n * cost, costs + cost * cost]
        })
    }

    #[test]
    fn full_burst_cost_is_extrapolated_from_rounds_with_few_packets() {
        let few = sums((0..200).map(|round| 1 + round % 3));
        let (each, is_bound) = in_full_bursts(few, None, 32.0).unwrap();
        assert_eq!((each.round(), is_bound), (310.0, false));
        // If one round in a hundred has two packets, 8,000 rounds suffice for a line, and 1,000 do not.
        let rare = |rounds: u32| sums((0..rounds).map(|round| 1 + u32::from(round % 100 == 0)));
        let (each, is_bound) = in_full_bursts(rare(8_000), Some(160.0), 32.0).unwrap();
        assert_eq!((each.round(), is_bound), (310.0, false));
        assert!(in_full_bursts(rare(1_000), Some(160.0), 32.0).unwrap().1);
        // Rounds with equal numbers of packets give no line. The fixed cost is then that of an empty poll.
        let full = sums((0..200).map(|_| 32));
        assert_eq!(in_full_bursts(full, Some(160.0), 32.0), Some((310.0, false)));
        let alike = sums((0..200).map(|_| 1));
        assert_eq!(in_full_bursts(alike, Some(160.0), 32.0), Some((620.0 - 160.0 + 160.0 / 32.0, true)));
        assert_eq!(in_full_bursts(alike, None, 32.0), None);
        assert_eq!(in_full_bursts([0.0; 6], Some(160.0), 32.0), None);
    }

    #[test]
    fn full_burst_cost_per_packet_is_at_most_the_average() {
        assert_eq!(at_most_average(400.0, Some((300.0, false))), (300.0, false));
        assert_eq!(at_most_average(400.0, Some((401.0, false))), (400.0, false), "within the tolerance");
        assert_eq!(at_most_average(400.0, Some((1139.2, false))), (400.0, true));
        assert_eq!(at_most_average(400.0, Some((300.0, true))), (300.0, true));
        assert_eq!(at_most_average(400.0, None), (400.0, true));
    }

    #[test]
    fn rounds_whose_cost_depends_on_earlier_rounds_give_only_a_bound() {
        // Rounds have 21 and 22 packets alternately. A packet costs 170 instructions, and 130 more in the
        // round that sends 32 together.
        let mut buffered = 0;
        let rounds = (0..2000).map(|round| {
            let n = 21 + round % 2;
            buffered += n;
            let sent = buffered / 32 * 32;
            buffered -= sent;
            (f64::from(n), 50.0 + 170.0 * f64::from(n) + 130.0 * f64::from(sent))
        });
        let (each, is_bound) = in_full_bursts(sums_of(rounds), Some(50.0), 32.0).unwrap();
        assert!(is_bound && (300.0..303.0).contains(&each), "{each}");
    }
}
