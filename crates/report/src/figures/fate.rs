//! A single load: outcomes of the offered frames, one bar per outcome.

use super::percentiles::{Row, bars};
use super::{Data, Figure, Ids};
use crate::causes;
use crate::number::{grouped, percent_label};
use doorbell_results::PointSummary;

pub(super) fn figure(ids: &Ids, points: &[&PointSummary]) -> Figure {
    let mut outcomes: Vec<(String, &str, u64)> = Vec::new();
    let mut offered = 0u64;
    for point in points {
        offered = offered.saturating_add(point.frames_offered);
        outcomes.push(("c-delivered".into(), "Delivered", point.frames_delivered));
        for cause in causes::present(&[point]) {
            outcomes.push((format!("c-{}", cause.key), cause.name, (cause.count)(point)));
        }
    }
    let share = |frames: u64| frames as f64 / offered.max(1) as f64;
    let rows: Vec<Row> = outcomes
        .iter()
        .map(|(class, name, frames)| Row {
            name,
            class,
            value: *frames as f64,
            text: percent_label(share(*frames)),
            tip: format!("{name}: {} of {} frames", grouped(*frames), grouped(offered)),
        })
        .collect();
    let meanings: Vec<String> =
        causes::present(points).iter().map(|cause| format!("{}: {}.", cause.name, cause.meaning)).collect();
    let caption = if meanings.is_empty() {
        format!("All {} offered frames were delivered intact.", grouped(offered))
    } else {
        format!("Outcomes of the {} offered frames. {}", grouped(offered), meanings.join(" "))
    };
    let cells = |(_, name, frames): &(String, &str, u64)| {
        vec![(*name).to_owned(), grouped(*frames), percent_label(share(*frames))]
    };
    Figure {
        title: "Frame outcomes".into(),
        caption,
        legend: Vec::new(),
        svg: (offered > 0).then(|| bars(ids, &rows)),
        data: Data {
            heads: ["Outcome", "Frames", "Share"].map(str::to_owned).to_vec(),
            rows: outcomes.iter().map(cells).collect(),
        },
    }
}
