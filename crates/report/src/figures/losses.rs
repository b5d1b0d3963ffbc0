//! Causes of frame loss: shares of the offered frames, stacked by cause.

use super::{Data, Figure, Ids};
use crate::causes::{self, Cause};
use crate::number::{axis_label, grouped, percent_label, trimmed};
use crate::scale::Scale;
use crate::svg::{Anchor, Plot};
use doorbell_results::PointSummary;

/// Minimum bar spacing for a label on each bar.
const LABEL_WIDTH: f64 = 44.0;
const BAR_WIDTH_MAX: f64 = 46.0;

pub(super) fn figure(ids: &Ids, points: &[&PointSummary]) -> Figure {
    let causes = causes::present(points);
    let heads: Vec<&str> = causes.iter().map(|cause| cause.name).chain(["All lost frames"]).collect();
    let data = Data::by_load(points, &heads, |p| {
        causes.iter().map(|cause| (cause.count)(p)).chain([p.lost()]).map(grouped).collect()
    });
    let meanings: Vec<String> =
        causes.iter().map(|cause| format!("{}: {}.", cause.name, cause.meaning)).collect();
    let caption = if causes.is_empty() {
        "No frame was lost at any of these loads.".to_owned()
    } else {
        format!("Share of the offered frames that was lost, by cause. {}", meanings.join(" "))
    };
    Figure {
        title: "Losses by cause".into(),
        caption,
        legend: causes.iter().map(|cause| (format!("c-{}", cause.key), cause.name.to_owned())).collect(),
        svg: (!causes.is_empty()).then(|| draw(ids, points, &causes)),
        data,
    }
}

fn draw(ids: &Ids, points: &[&PointSummary], causes: &[&Cause]) -> String {
    let stacks: Vec<f64> =
        points.iter().map(|p| causes.iter().map(|cause| share(cause, p)).sum::<f64>()).collect();
    let largest = stacks.iter().copied().fold(0.0, f64::max);
    // Slightly more than the highest bar, for its label.
    let y = Scale::linear(largest * 100.0 * 1.04, 5);
    let mut plot = Plot::new(Scale::linear(1.0, 1), y, 44.0, 6.0);
    plot.y_axis("Lost, % of the offered frames", axis_label);
    let band = plot.inner_width() / points.len() as f64;
    let start = plot.x(0.0);
    let middle = |index: usize| start + band * (index as f64 + 0.5);
    for (index, point) in points.iter().enumerate() {
        stack_bar(&mut plot, middle(index), (band * 0.68).min(BAR_WIDTH_MAX), point, causes);
    }
    // If there is room, each bar is labelled with its sum; otherwise only the highest, which no neighbour can
    // hide.
    let every = ((LABEL_WIDTH / band).ceil() as usize).max(1);
    let highest = stacks.iter().position(|stack| *stack == largest);
    for (index, (point, stack)) in points.iter().zip(&stacks).enumerate() {
        let x = middle(index);
        if every == 1 || Some(index) == highest {
            // The label of a bar at the right end must stay inside the drawing.
            let (x, y) = (x.min(plot.end() - LABEL_WIDTH / 2.0), plot.y(stack * 100.0) - 6.0);
            plot.svg.text(x, y, Anchor::Middle, "value", percent_label(*stack));
        }
        if index % every == 0 {
            let floor = plot.floor() + 19.0;
            plot.svg.text(x, floor, Anchor::Middle, "tick", trimmed(point.offered_mpps));
        }
    }
    plot.x_line("Offered, Mpps");
    plot.svg.finish(&ids.title, &ids.caption)
}

/// The losses of one load, from the axis upwards.
fn stack_bar(plot: &mut Plot, middle: f64, width: f64, point: &PointSummary, causes: &[&Cause]) {
    let mut below = 0.0;
    for cause in causes {
        let share = share(cause, point);
        let (top, bottom) = (plot.y((below + share) * 100.0), plot.y(below * 100.0));
        below += share;
        if share > 0.0 {
            let tip = format!(
                "{} Mpps offered: {} of {} frames ({}) lost. {}: {}",
                trimmed(point.offered_mpps),
                grouped((cause.count)(point)),
                grouped(point.frames_offered),
                percent_label(share),
                cause.name,
                cause.meaning
            );
            // A minimum height keeps small losses visible.
            let height = (bottom - top).max(1.0);
            let place = [middle - width / 2.0, bottom - height, width, height];
            plot.svg.bar(place, &format!("c-{}", cause.key), &tip);
        }
    }
}

fn share(cause: &Cause, point: &PointSummary) -> f64 {
    (cause.count)(point) as f64 / point.frames_offered.max(1) as f64
}
