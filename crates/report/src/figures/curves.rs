//! Curves over any two measures, for searches and experiments.

use super::latency::tick as time_label;
use super::{Data, Figure, Ids};
use crate::number::{axis_label as label, trimmed};
use crate::scale::Scale;
use crate::svg::Plot;

/// CSS classes of distinguishable curves.
const CLASSES: [&str; 8] =
    ["c-delivered", "c-core", "c-tx", "c-other", "c-dma", "c-link", "c-corrupt", "c-guest"];

/// A named curve.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    pub name: String,
    /// Points in plotting order.
    pub points: Vec<Point>,
    /// Whether it is a published curve, drawn dashed.
    pub published: bool,
    /// Whether a line connects the points.
    pub line: bool,
}

/// A point of a curve.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub x: f64,
    pub y: f64,
    /// Tooltip text.
    pub tip: String,
    /// Interval of the value, if available.
    pub interval: Option<(f64, f64)>,
}

/// A figure with curves.
#[derive(Clone, Debug)]
pub(crate) struct Curves {
    pub title: String,
    pub caption: String,
    pub x: String,
    pub y: String,
    pub log_x: bool,
    pub log_y: bool,
    /// Whether the vertical axis is in nanoseconds.
    pub is_time: bool,
    /// Labels at 1, 2, 3 … of the horizontal axis.
    pub names: Vec<String>,
    /// A range of the horizontal axis to highlight.
    pub band: Option<(f64, f64)>,
    pub curves: Vec<Curve>,
}

impl Curves {
    /// The figure.
    pub fn figure(self, ids: &Ids, data: Data) -> Figure {
        let drawn = |point: &&Point| {
            point.x.is_finite()
                && point.y.is_finite()
                && (!self.log_x || point.x > 0.0)
                && (!self.log_y || point.y > 0.0)
        };
        let all = || self.curves.iter().flat_map(|curve| curve.points.iter()).filter(drawn);
        let legend = self.curves.iter().enumerate().filter(|_| self.curves.len() > 1);
        let legend = legend.map(|(index, curve)| (class(index, curve), curve.name.clone())).collect();
        if all().next().is_none() {
            let caption = format!("{} No measured values can be drawn on these axes.", self.caption);
            return Figure { title: self.title, caption, legend, svg: None, data };
        }
        let scale = |values: Vec<f64>, log: bool| match log {
            true => Scale::log(&values),
            false => Scale::linear(values.into_iter().fold(0.0, f64::max), 5),
        };
        let x = match self.names.len() {
            0 => scale(all().map(|point| point.x).collect(), self.log_x),
            names => Scale::Linear { max: (names + 1) as f64, step: 1.0 },
        };
        let heights = all().flat_map(|point| [Some(point.y), point.interval.map(|interval| interval.1)]);
        let y = scale(heights.flatten().collect(), self.log_y);
        let mut plot = Plot::new(x, y, 56.0, 24.0).named(&self.names);
        if self.is_time {
            plot = plot.of_time();
        }
        plot.y_axis(&self.y, if self.is_time { time_label } else { label });
        if let Some((from, to)) = self.band {
            plot.band(from, to, "loss", &format!("{} to {}", trimmed(from), trimmed(to)));
        }
        plot.x_axis(&self.x, label);
        for (index, curve) in self.curves.iter().enumerate() {
            let class = class(index, curve);
            let points: Vec<&Point> = curve.points.iter().filter(drawn).collect();
            for point in &points {
                if let Some((low, high)) = point.interval.filter(|(low, high)| low < high) {
                    plot.interval(point.x, low, high, &class);
                }
            }
            let path: Vec<(f64, f64)> = points.iter().map(|point| (point.x, point.y)).collect();
            if curve.line && path.len() > 1 {
                plot.line(&path, &class);
            }
            points.iter().for_each(|point| plot.mark((point.x, point.y), &class, &point.tip));
        }
        let svg = Some(plot.finish(&ids.title, &ids.caption));
        Figure { title: self.title, caption: self.caption, legend, svg, data }
    }
}

fn class(index: usize, curve: &Curve) -> String {
    let own = CLASSES[index % CLASSES.len()];
    // The second curve of a colour is dotted, with hollow marks.
    let again = if index < CLASSES.len() { "" } else { " again" };
    let published = if curve.published { " published" } else { "" };
    format!("{own}{again}{published}")
}
