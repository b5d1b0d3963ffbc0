//! The headline figures of a page.

use std::fmt::Write;

use crate::escape::Esc;
use crate::number::{NONE, duration_ns, grouped, one_line, percent_label, rate, short};
use crate::summary::{has_empty_polls, most_delivered, without_empty_polls};
use crate::{causes, generator_notes};
use doorbell_results::figures::PACKET_COST;
use doorbell_results::{PointSummary, finite};

/// Maximum loss share of the MSB measure.
const TOLERATED: f64 = 0.01;

/// A figure with its name and a note.
#[derive(Debug, PartialEq)]
pub(crate) struct Card {
    pub name: &'static str,
    pub value: String,
    pub unit: &'static str,
    pub note: String,
}

/// Headline cards of the points of one frame size.
pub(crate) fn cards(points: &[&PointSummary]) -> Vec<Card> {
    match points {
        [] => Vec::new(),
        [point] => of_one(point),
        _ => of_several(points),
    }
}

/// Cards as a list of names and values.
pub(crate) fn html(cards: &[Card]) -> String {
    let mut out = String::from("<dl class=\"cards\">\n");
    for Card { name, value, unit, note } in cards {
        let _ = writeln!(
            out,
            "<div><dt>{}</dt><dd><span class=\"figure\">{}</span> <span class=\"unit\">{}</span>\
             <span class=\"note\">{}</span></dd></div>",
            Esc(name),
            Esc(value),
            Esc(unit),
            Esc(note)
        );
    }
    out.push_str("</dl>\n");
    out
}

fn of_several(points: &[&PointSummary]) -> Vec<Card> {
    let mut cards = Vec::new();
    if let Some(best) = most_delivered(points) {
        cards.push(Card {
            name: "Most delivered",
            value: rate(best.sustained_rate().0),
            unit: "Mpps",
            note: format!(
                "{} Gbps at layer 2, with {} Mpps offered",
                rate(best.sustained_rate().1),
                rate(best.offered_mpps)
            ),
        });
    }
    let lossless = highest(points, |p| p.lost() == 0 && p.is_sustained());
    cards.push(rate_card("Load without loss", lossless, otherwise(points, "every load lost frames")));
    let tolerable =
        highest(points, |p| finite(p.drop_rate).is_some_and(|ratio| ratio <= TOLERATED) && p.is_sustained());
    cards.push(rate_card(
        "Load with at most 1\u{a0}% loss",
        tolerable,
        otherwise(points, "every load lost more"),
    ));
    let quiet = tolerable.or(points.first().copied());
    cards.push(latency_card(quiet, quiet.map(|p| format!("at {} Mpps", rate(p.offered_mpps)))));
    cards.push(cause_card(points));
    cards
}

/// The reason why no load has a card's figure.
fn otherwise(points: &[&PointSummary], why: &'static str) -> &'static str {
    if points.iter().any(|point| point.not_steady.is_some()) { "no such load was steady" } else { why }
}

fn of_one(point: &PointSummary) -> Vec<Card> {
    let not_steady = point.not_steady.as_ref();
    vec![
        Card {
            name: "Delivered",
            value: rate(point.delivered_mpps),
            unit: "Mpps",
            note: match not_steady {
                Some(why) => format!("not steady: {}", one_line(why)),
                None => format!("{} Gbps at layer 2", rate(point.delivered_gbps)),
            },
        },
        Card {
            name: "Offered",
            value: rate(point.offered_mpps),
            unit: "Mpps",
            note: format!("{} Gbps, {} frames", rate(point.offered_gbps), grouped(point.frames_offered)),
        },
        Card {
            name: "Lost",
            value: point.loss().map_or(NONE.to_owned(), percent_label),
            unit: "",
            note: match point.is_unanswered() {
                true => format!("the guest took {} frames and sent none back", grouped(point.lost())),
                false => format!("{} frames", grouped(point.lost())),
            },
        },
        match (point.goodput_gbps(), point.transactions_per_second()) {
            (Some(goodput), _) => {
                Card { name: "Goodput", value: rate(goodput), unit: "Gbps", note: "of payload".to_owned() }
            }
            (None, Some(rate)) => Card {
                name: "Transactions",
                value: short(rate),
                unit: "per second",
                note: point
                    .transfer
                    .as_ref()
                    .and_then(|transfer| transfer.round_trip_us)
                    .map_or_else(String::new, |microseconds| {
                        format!("{} each on average", duration_ns(microseconds * 1e3))
                    }),
            },
            (None, None) => latency_card(Some(point), None),
        },
        Card {
            name: "Work per packet",
            value: finite(point.instructions_per_frame).map_or(NONE.to_owned(), short),
            unit: "instructions",
            note: work_note(point),
        },
    ]
}

/// Note on instructions and IPC. Empty polls also execute instructions, but for no frame.
fn work_note(point: &PointSummary) -> String {
    let busy = without_empty_polls(point).filter(|_| has_empty_polls(point));
    let busy =
        busy.map_or(String::new(), |instructions| format!("; {} without empty polls", short(instructions)));
    let awake = point.figure(PACKET_COST.ipc);
    let ipc = match (finite(point.ipc), awake) {
        // Omitted if both IPC values display the same, which is the case if no core slept.
        (Some(all), Some(awake)) if short(all) != short(awake) => {
            format!("{} ({} without sleep)", short(all), short(awake))
        }
        (ipc, _) => ipc.map_or(NONE.to_owned(), short),
    };
    format!("IPC {ipc}{busy}")
}

fn highest<'a>(
    points: &[&'a PointSummary],
    accepts: impl Fn(&PointSummary) -> bool,
) -> Option<&'a PointSummary> {
    points
        .iter()
        .copied()
        .filter(|point| point.frames_offered > 0 && accepts(point))
        .max_by(|a, b| a.offered_mpps.total_cmp(&b.offered_mpps))
}

fn rate_card(name: &'static str, point: Option<&PointSummary>, otherwise: &str) -> Card {
    match point {
        Some(point) => Card {
            name,
            value: rate(point.offered_mpps),
            unit: "Mpps",
            note: match point.lost() {
                0 => "the highest of those tried".to_owned(),
                _ => format!(
                    "the highest of those tried; {} lost",
                    finite(point.drop_rate).map_or(NONE.to_owned(), percent_label)
                ),
            },
        },
        None => Card { name, value: NONE.to_owned(), unit: "", note: otherwise.to_owned() },
    }
}

fn latency_card(point: Option<&PointSummary>, at: Option<String>) -> Card {
    let name = "Median latency";
    let Some(latency) = point.and_then(|point| point.latency_ns.as_ref()) else {
        let note = generator_notes::nothing_back(point.as_slice()).replace("No", "no");
        return Card { name, value: NONE.to_owned(), unit: "", note };
    };
    let tail = format!("p99 {}", duration_ns(latency.p99));
    let steady = point.and_then(|point| point.not_steady.as_ref());
    let tail = steady.map_or(tail.clone(), |why| format!("{tail}; not steady: {}", one_line(why)));
    let note = at.map_or(tail.clone(), |at| format!("{at}; {tail}"));
    let text = duration_ns(latency.p50);
    let (value, unit) = text.split_once(' ').unwrap_or((&text, ""));
    let unit = ["ns", "µs", "ms"].into_iter().find(|name| *name == unit).unwrap_or("s");
    Card { name, value: value.to_owned(), unit, note }
}

fn cause_card(points: &[&PointSummary]) -> Card {
    let name = "Main cause of loss";
    let lost: u64 = points.iter().fold(0, |sum, point| sum.saturating_add(point.lost()));
    let present = causes::present(points);
    let main = present.into_iter().max_by_key(|cause| causes::total(cause, points));
    match main {
        Some(cause) => Card {
            name,
            value: cause.name.to_owned(),
            unit: "",
            note: format!(
                "{} of all lost frames: {}",
                percent_label(causes::total(cause, points) as f64 / lost.max(1) as f64),
                cause.meaning
            ),
        },
        None => Card { name, value: "none".to_owned(), unit: "", note: "no frame was lost".to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn values(summary: &crate::RunSummary) -> Vec<String> {
        let points: Vec<&PointSummary> = summary.points.iter().collect();
        cards(&points).iter().map(|card| format!("{} {}", card.value, card.unit).trim().to_owned()).collect()
    }

    #[test]
    fn headline_of_several_loads() {
        assert_eq!(values(&sample::loads()), ["9.412 Mpps", "8.000 Mpps", "9.000 Mpps", "11.6 µs", "Core"]);
    }

    #[test]
    fn a_load_of_exactly_one_percent_loss_is_tolerated() {
        let mut summary = sample::loads();
        summary.points[4].drop_rate = 0.01;
        assert_eq!(values(&summary)[2], "10.000 Mpps");
        summary.points[4].drop_rate = 0.010_01;
        assert_eq!(values(&summary)[2], "9.000 Mpps");
    }

    #[test]
    fn headline_of_a_single_load() {
        assert_eq!(
            values(&sample::single(0)),
            ["1.000 Mpps", "1.000 Mpps", "0\u{a0}%", "2.08 µs", "3,930 instructions"]
        );
        assert_eq!(
            values(&sample::silent()),
            ["0.000 Mpps", "1.000 Mpps", "100\u{a0}%", "–", "– instructions"]
        );
        let mut transfer = sample::silent();
        let iperf = doorbell_results::IperfFigures { goodput_gbps: 8.5, ..Default::default() };
        transfer.points[0].iperf = Some(iperf);
        assert_eq!(values(&transfer)[3], "8.500 Gbps");
        let requests = doorbell_results::TransferFigures {
            transactions_per_second: Some(20_000.0),
            ..Default::default()
        };
        (transfer.points[0].iperf, transfer.points[0].transfer) = (None, Some(requests));
        assert!(values(&transfer)[3].ends_with(" per second"), "{:?}", values(&transfer));
    }
}
