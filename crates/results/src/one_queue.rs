//! Detects that RSS had only one flow to spread: all frames of a port with several RSS queues went to one
//! queue, and the other queues' cores were idle. That one core is then the bottleneck.

use crate::format::grouped;
use crate::point::PointSummary;
use crate::ports::counters::RX_OFFERED;
use crate::ports::{PortFigures, QueueFigures};

/// With fewer frames, the number of flows cannot be judged.
const FRAMES_MIN: u64 = 64;
/// Frames that RSS does not hash (ARP) are allowed in other queues, up to one in this many: they need no
/// additional core.
const OTHERS_MAX: u64 = 100;

/// One sentence per port whose frames went to one queue.
pub(crate) fn line(point: &PointSummary) -> Option<String> {
    let ports = point.ports.iter().enumerate();
    let all: Vec<String> = ports.filter_map(|(number, port)| of_port(number, port)).collect();
    (!all.is_empty()).then(|| format!("{}: {} {}", all.join("; "), REASON, more_flows(point)))
}

fn of_port(number: usize, port: &PortFigures) -> Option<String> {
    let spread = port.queues.iter().filter(|queue| queue.rss).count();
    let offered = |queue: &&QueueFigures| queue.value(RX_OFFERED);
    let fullest = port.queues.iter().max_by_key(offered)?;
    let all: u64 = port.queues.iter().map(|queue| queue.value(RX_OFFERED)).sum();
    let own = fullest.value(RX_OFFERED);
    if spread < 2 || own < FRAMES_MIN || (all - own).saturating_mul(OTHERS_MAX) > all {
        return None;
    }
    let frames = match all == own {
        true => format!("all {} frames", grouped(all)),
        false => format!("{} of {} frames", grouped(own), grouped(all)),
    };
    Some(format!(
        "RSS spreads flows over {spread} queues of port {number}, and {frames} came to queue {}",
        fullest.queue
    ))
}

const REASON: &str = "for RSS they are one flow (same addresses and, if software includes ports in the hash, same ports), or cannot be hashed (not IP, or behind two VLAN tags).";

/// How to get more flows.
fn more_flows(point: &PointSummary) -> &'static str {
    match point.transfer.is_some() || point.iperf.is_some() || point.network.is_some() {
        true => "More connections are more flows.",
        false => {
            "For more flows, use --flows 1000 (ports), sweeps in loadgen.traffic.streams (also addresses), or more clients of requests."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit;
    use crate::{Figure, SearchCost, SizeSummary, TransferFigures};

    fn queue((queue, rss, offered): (u32, bool, u64)) -> QueueFigures {
        QueueFigures { queue, rss, figures: vec![Figure { name: RX_OFFERED.to_owned(), value: offered }] }
    }

    fn point(queues: &[(u32, bool, u64)]) -> PointSummary {
        let queues = queues.iter().copied().map(queue).collect();
        PointSummary {
            ports: vec![PortFigures { queues, ..PortFigures::default() }],
            ..PointSummary::default()
        }
    }

    fn line_of(queues: &[(u32, bool, u64)]) -> Option<String> {
        line(&point(queues))
    }

    #[test]
    fn a_single_queue_with_all_frames_is_reported_with_a_remedy() {
        let text = line_of(&[(0, true, 0), (1, true, 8000), (2, true, 0)]).unwrap();
        assert!(
            text.starts_with(
                "RSS spreads flows over 3 queues of port 0, and all 8,000 frames came to queue 1: for RSS"
            ) && text.contains("--flows 1000"),
            "{text}"
        );
        // A few unhashed frames, such as ARP, do not matter.
        let text = line_of(&[(0, true, 3), (1, true, 8000)]).unwrap();
        assert!(text.contains(", and 8,000 of 8,003 frames came to queue 1:"), "{text}");
        // Frames without a flow go to the default queue, which RSS may not use.
        assert!(line_of(&[(0, false, 500), (1, true, 0), (2, true, 0)]).is_some());
    }

    #[test]
    fn the_sentence_follows_the_limit_of_runs_and_searches() {
        let mut point = point(&[(0, true, 900), (1, true, 0)]);
        let text = limit::line(&[&point]).unwrap();
        assert!(text.starts_with("Limit: unknown. RSS spreads flows over 2 queues"), "{text}");
        (point.frames_offered, point.frames_delivered, point.offered_mpps) = (1000, 900, 10.0);
        point.drops.core = 100;
        let text = limit::line(&[&point]).unwrap();
        let expected = "Limit: the core (receive FIFOs full for lack of descriptors): 100\u{a0}% of the frames lost at 10.000 Mpps.";
        assert!(text.starts_with(&format!("{expected} RSS spreads flows over 2 queues")), "{text}");
        (point.frames_delivered, point.drops.core, point.wire_share) = (1000, 0, Some(1.0));
        let size = SizeSummary {
            frame_size: 64,
            low_mpps: Some(10.0),
            high_mpps: None,
            low_gbps: None,
            high_gbps: None,
            ended: "at_highest".to_owned(),
            inversions_mpps: Vec::new(),
            trials: Vec::new(),
            cost: SearchCost::default(),
            limit: None,
            at_low: Some(point),
        };
        let text = limit::of_search(&size).unwrap().text;
        assert!(
            text.starts_with("the wire (100\u{a0}% utilized at the rate that met the goal). RSS spreads"),
            "{text}"
        );
        assert!(!text.ends_with('.'), "{text}");
    }

    #[test]
    fn nothing_is_reported_if_frames_are_spread_or_cannot_be_or_are_few() {
        for queues in [
            &[(0, true, 4000), (1, true, 4000)][..],
            &[(0, true, 8000), (1, true, 200)],
            // One queue, and older files without RSS figures.
            &[(0, true, 8000)],
            &[(0, false, 8000), (1, false, 0)],
            &[(0, true, 63), (1, true, 0)],
            &[(0, true, 0), (1, true, 0)],
            &[],
        ] {
            assert_eq!(line_of(queues), None, "{queues:?}");
        }
    }

    #[test]
    fn transfers_suggest_more_connections_and_each_port_is_reported() {
        let mut both = point(&[(0, true, 100), (1, true, 0)]);
        both.ports.push(both.ports[0].clone());
        both.transfer = Some(TransferFigures::default());
        let text = line(&both).unwrap();
        assert!(text.contains("of port 0, and") && text.contains("of port 1, and"), "{text}");
        assert!(text.ends_with(" More connections are more flows."), "{text}");
        let line = limit::line(&[&PointSummary::default(), &both]).unwrap();
        assert_eq!(line, format!("Limit: unknown. {text}"), "of the first point that has one");
    }
}
