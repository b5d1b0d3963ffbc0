//! CPU time by kind: one bar per load and machine.

use super::stacked::{self, Part};
use super::{Data, Figure, Ids};
use crate::number::{NONE, fixed};
use doorbell_results::{KindFigures, PointSummary};

/// CSS classes of the standard kinds. Kinds of packet programs and of the kernel rarely occur in the same
/// bar, so some share a class.
const CLASSES: [(&str, &str); 15] = [
    ("user", "c-delivered"),
    ("receive", "c-dma"),
    ("processing", "c-delivered"),
    ("transmit", "c-tx"),
    ("syscalls", "c-link"),
    ("filesystem", "c-q1"),
    ("stack", "c-tx"),
    ("netfilter", "c-q3"),
    ("buffers", "c-other"),
    ("copy", "c-corrupt"),
    ("driver", "c-dma"),
    ("interrupt", "c-core"),
    ("scheduler", "c-q5"),
    ("other", "c-guest"),
    ("idle", "c-unknown"),
];

/// A bar: its label and its kinds.
type Bar<'a> = (String, &'a KindFigures);

fn bars<'a>(points: &[&'a PointSummary]) -> Vec<Bar<'a>> {
    let of_point = |point: &&'a PointSummary| {
        let rate = if point.rate.is_empty() { NONE } else { &point.rate };
        let name =
            move |node: &str| if node.is_empty() { rate.to_owned() } else { format!("{node}, {rate}") };
        point.profiles().filter_map(move |of| Some((name(of.node), of.kinds?))).collect::<Vec<Bar<'a>>>()
    };
    points.iter().flat_map(of_point).collect()
}

/// All kinds in order, each with a unique class: its own, or the first free one.
fn parts<'a>(bars: &[Bar<'a>]) -> Vec<Part<'a>> {
    let mut names: Vec<&'a str> = Vec::new();
    for (_, figures) in bars {
        for (at, cost) in figures.kinds.iter().enumerate().filter(|(_, cost)| cost.cycles > 0) {
            if names.contains(&cost.kind.as_str()) {
                continue;
            }
            // Insert it after the kind that precedes it in its own bar.
            let before = figures.kinds[..at]
                .iter()
                .rev()
                .find_map(|before| names.iter().position(|name| *name == before.kind).map(|found| found + 1));
            names.insert(before.unwrap_or(0), &cost.kind);
        }
    }
    let mut parts: Vec<Part<'a>> = Vec::new();
    for name in names {
        let own = CLASSES.iter().find(|(kind, _)| *kind == name).map(|(_, class)| *class);
        let is_free = |class: &&str| parts.iter().all(|(taken, _)| taken != class);
        let any = || CLASSES.iter().map(|(_, class)| *class).find(|class| is_free(class));
        parts.push((own.filter(|class| is_free(class)).or_else(any).unwrap_or("c-unknown"), name));
    }
    parts
}

pub(super) fn figure(ids: &Ids, points: &[&PointSummary]) -> Figure {
    let bars = bars(points);
    let parts = parts(&bars);
    let shares = |figures: &KindFigures| -> Vec<f64> {
        parts.iter().map(|(_, name)| 100.0 * figures.share(name)).collect()
    };
    let stacks: Vec<(String, Vec<f64>)> =
        bars.iter().map(|(name, figures)| (name.clone(), shares(figures))).collect();
    let heads = ["Load"].into_iter().chain(parts.iter().map(|(_, name)| *name));
    let row = |(name, shares): &(String, Vec<f64>)| {
        [name.clone()].into_iter().chain(shares.iter().map(|share| fixed(*share, 2))).collect()
    };
    Figure {
        title: "CPU time by kind".into(),
        caption: "Shares of all cycles of the cores, including sleep, by the purpose of the running function. The rules are in \
                  guest/kinds.toml. functions.csv (for several nodes, functions-node0.csv and so on) has the kind of each function."
            .to_owned(),
        legend: stacked::legend(&parts),
        svg: stacked::draw_named(ids, &parts, "% of all cycles", &stacks),
        data: Data { heads: heads.map(str::to_owned).collect(), rows: stacks.iter().map(row).collect() },
    }
}

#[cfg(test)]
mod tests {
    use doorbell_results::KindCost;

    use super::*;

    fn point(kinds: &[(&str, u64)]) -> PointSummary {
        let cycles = kinds.iter().map(|(_, cycles)| cycles).sum::<u64>();
        let cost = |(kind, own): &(&str, u64)| KindCost {
            kind: (*kind).to_owned(),
            cycles: *own,
            share: *own as f64 / cycles as f64,
            ..KindCost::default()
        };
        let kinds = kinds.iter().map(cost).collect();
        let kinds = Some(KindFigures { kinds, cycles, ..KindFigures::default() });
        PointSummary { rate: "1Mpps".into(), kinds, ..PointSummary::default() }
    }

    #[test]
    fn kinds_are_in_order_and_have_distinct_colours() {
        let points = [
            point(&[("user", 1), ("idle", 3)]),
            point(&[("user", 2), ("crypto", 1), ("receive", 1), ("driver", 4), ("idle", 0)]),
        ];
        let points: Vec<&PointSummary> = points.iter().collect();
        let parts = parts(&bars(&points));
        let names: Vec<&str> = parts.iter().map(|(_, name)| *name).collect();
        assert_eq!(names, ["user", "crypto", "receive", "driver", "idle"]);
        for (index, (class, _)) in parts.iter().enumerate() {
            assert!(parts[..index].iter().all(|(other, _)| other != class), "{parts:?}");
        }
        let figure = figure(&Ids::of("x"), &points);
        assert_eq!(figure.data.rows[1], ["1Mpps", "25.00", "12.50", "12.50", "50.00", "0.00"]);
        assert!(figure.svg.unwrap().contains("driver: 50.0 % of all cycles"));
    }
}
